"""How the axes of a call's tensors go together, and along which some places stand for all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from troubleshooter_nb.analysis.causes.case import Call, TensorPair

Pattern = tuple[str, ...]
TURNED = "turned"
_TOKEN = re.compile(r"\([^)]*\)|\S+")


@dataclass(frozen=True)
class Axes:
    """The axes of the operands and the output of a call, by name.

    Attributes
    ----------
    operands : tuple of (str, tuple of str)
        Name of a parameter, or "" for what is an input only, and its axes; the number in this
        order is the position of an input that is no named parameter.
    output : tuple of str
        Its axes. ``*rows``: any number of axes, seen as one; ``(groups inner)``: one axis that is
        two; ``1``: an axis of one place.
    some : mapping of str to int
        Axes of which some places stand for all, those to be cut first in front, and the most places
        of each; 0 for as many as fit.
    sizes : mapping of str to int
        Of axes that a shape alone does not tell: the first of two that are one.
    tells : mapping of str to str
        Axes along which it counts where a place is: the setting of both sides that has the places
        that are left and how many there were.
    turned : str
        Axis of a matrix that may have been used transposed: of a square one the same places along
        its other axis are given as well, as the parameter `TURNED`.
    """

    operands: tuple[tuple[str, Pattern], ...]
    output: Pattern
    some: Mapping[str, int]
    sizes: Mapping[str, int] = field(default_factory=dict)
    tells: Mapping[str, str] = field(default_factory=dict)
    turned: str = ""

    @classmethod
    def of(cls, text: str, **some: int) -> Axes:
        """As ``"*rows in, weight: columns in, bias: columns -> *rows columns"``."""
        given, _, made = text.partition("->")
        operands = []
        for one in given.split(","):
            name, colon, axes = one.rpartition(":")
            operands.append((name.strip() if colon else "", tuple(_TOKEN.findall(axes))))
        return cls(tuple(operands), tuple(_TOKEN.findall(made)), some)

    def bound(self, call: Call) -> Bound | None:
        """The axes in the shapes of a call; None where these are not of this kind."""
        inputs, parameters = call.taken
        sizes: dict[str, tuple[int, ...]] = {name: (n,) for name, n in self.sizes.items()}
        output = _form(call.outputs[0], self.output, sizes) if call.outputs else None
        if output is None:
            return None
        forms: dict[int | str, Form] = {}
        for place, (name, pattern) in enumerate(self.operands):
            key = name if name in parameters else place
            tensor = parameters.get(name) if name in parameters else _at(inputs, place)
            form = _form(tensor, pattern, sizes) if tensor is not None else None
            if form is not None:
                forms[key] = form
            elif not place or (tensor is not None and _ndim(tensor) > 1):
                return None
        return Bound(self, call, output, forms, sizes)


def _ndim(tensor: TensorPair) -> int:
    return max((len(shape) for shape in tensor.shapes if shape is not None), default=0)


Plan = Axes | Callable[[Call], Iterable[Axes]]


def plans_of(call: Call, plans: Sequence[Plan]) -> Iterable[Axes]:
    """Axes of a layer as it was called."""
    for plan in plans:
        yield from (plan,) if isinstance(plan, Axes) else plan(call)


@dataclass(frozen=True)
class Form:
    """A tensor's shape, axis by named axis.

    `names` and `sizes` are those of the axes as they are named, each one once; `axes` says which
    of them, as many as there are, make one axis of the stored shape, or which stored axes one is.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    axes: tuple[tuple[int, tuple[int, ...]], ...]  # first named axis, and stored sizes or how many

    def shape(self, counts: Mapping[str, int]) -> tuple[int, ...]:
        """The stored shape with so many places of the named axes."""
        made: list[int] = []
        at = 0
        for count, stored in self.axes:
            names, sizes = self.names[at : at + count], self.sizes[at : at + count]
            is_cut = any(name in counts for name in names)
            if is_cut or count > 1:
                made.append(math.prod(counts.get(*one) for one in zip(names, sizes, strict=True)))
            else:
                made += stored
            at += count
        return tuple(made)

    def count(self, counts: Mapping[str, int]) -> int:
        """Elements with so many places of the named axes."""
        return math.prod(counts.get(*one) for one in zip(self.names, self.sizes, strict=True))


@dataclass(frozen=True)
class Bound:
    """Axes in the shapes of a call; forms by position of an input or by name of a parameter."""

    axes: Axes
    call: Call
    output: Form
    operands: Mapping[int | str, Form]
    sizes: Mapping[str, tuple[int, ...]]

    def size(self, name: str) -> int:
        """Places of an axis."""
        return math.prod(self.sizes[name])


def _at(inputs: Sequence[TensorPair], place: int) -> TensorPair | None:
    return inputs[place] if place < len(inputs) else None


def _form(tensor: TensorPair, pattern: Pattern, sizes: dict[str, tuple[int, ...]]) -> Form | None:
    """A tensor's shape by named axes; sizes are noted, and have to be those of before."""
    shapes = {shape for shape in tensor.shapes if shape is not None}
    if len(shapes) != 1:
        return None
    (shape,) = shapes
    spare = len(shape) - sum(not token.startswith("*") for token in pattern)
    if spare < 0 or (spare and not any(token.startswith("*") for token in pattern)):
        return None
    found = dict(sizes)
    names: list[str] = []
    axes: list[tuple[int, tuple[int, ...]]] = []
    at = 0
    for token in pattern:
        width = spare if token.startswith("*") else 1
        stored, at = shape[at : at + width], at + width
        named = _named(token, stored, found)
        if named is None:
            return None
        for name, size in named:
            if found.setdefault(name, size) != size:
                return None
        names += [name for name, _ in named]
        axes.append((len(named), stored))
    sizes.update(found)
    return Form(tuple(names), tuple(math.prod(found[name]) for name in names), tuple(axes))


def _named(
    token: str, stored: tuple[int, ...], known: Mapping[str, tuple[int, ...]]
) -> list[tuple[str, tuple[int, ...]]] | None:
    """The named axes of a token, with their sizes."""
    if token == "1":
        return [("1", (1,))] if stored == (1,) else None
    if not token.startswith("("):
        return [(token.removeprefix("*"), stored)]
    first, second = token[1:-1].split()
    (outer,) = known[first]
    return [(first, (outer,)), (second, (stored[0] // outer,))] if not stored[0] % outer else None


def items_of(call: Call) -> Iterable[Axes]:
    """Of what is computed of the items of a batch one by one: the first axis of most tensors."""
    inputs, _ = call.taken
    shape = call.outputs[0].shapes[1] or ()
    together = [(one.shapes[1] or (-1,))[0] == (shape or (0,))[0] for one in inputs]
    if together and together[0]:
        patterns = [f"items *more{n}" if one else f"*other{n}" for n, one in enumerate(together)]
        yield Axes.of(f"{', '.join(patterns)} -> items *rest", items=0)


def rows_of(count: int) -> Axes:
    """Of layers that compute rows of the last axis from rows of so many inputs."""
    return Axes.of(f"{', '.join(['*rows columns'] * count)} -> *rows columns", rows=0)


def elements_of(call: Call) -> Iterable[Axes]:
    """Of layers that compute an element from an element; inputs may have to be spread."""
    inputs, _ = call.taken
    shape = call.outputs[0].shapes[1] or ()
    shapes = [one.shapes[1] or () for one in inputs]
    if shape and all(one == shape or len(one) < 2 for one in shapes):
        patterns = ["*rows elements" if one == shape else _spread(one, shape) for one in shapes]
        yield Axes.of(f"{', '.join(patterns)} -> *rows elements", rows=0, elements=0)
        return
    names = [*("items", "rows", "channels", "columns", "features")[: len(shape) - 1], "elements"]
    if len(names) != len(shape) or any(len(one) > len(shape) for one in shapes):
        return
    axes = [*zip(names, shape, strict=True)]
    patterns = [
        " ".join(
            name if size == n else "1"
            for (name, n), size in zip(axes[len(axes) - len(one) :], one, strict=True)
        )
        for one in shapes
    ]
    yield Axes.of(f"{', '.join(patterns)} -> {' '.join(names)}", **dict.fromkeys(names, 0))


def _spread(shape: tuple[int, ...], output: tuple[int, ...]) -> str:
    """The axes of a number, or of one value for each element of a row."""
    return "" if not shape else "elements" if shape == output[-1:] else "1"


PLANES = Axes.of("items channels *space -> items channels *made", items=0, channels=0)
PLANE_GRADIENTS = Axes.of(
    "items channels *made, items channels *space -> items channels *space", items=0, channels=0
)
