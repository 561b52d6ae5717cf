"""A transform with its arguments, and which transforms fit given shapes or values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.messages import Foreign, Message, joined
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.ranges import Rows, Strided
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.transforms.kind import LONGEST_SHOWN, Arguments, Kind, MisfitError
from troubleshooter_nb.transforms.spec import Spec, shapes_said
from troubleshooter_nb.transforms.table import KINDS

Tensor = TypeVar("Tensor")
# ``(step, tensors)``: the tensors that one step makes.
Step = Callable[["Transform", list[Tensor]], Sequence[Tensor]]
_MOST_STEPS = 16  # of one transform
_CALL = re.compile(r"\s*([a-z_]+)\s*(?:\(([^()]*)\))?\s*")
_THEN = " | "


@dataclass(frozen=True)
class Transform:
    """What the values of a row go through: one step, or several one after the other.

    A step that takes one source is applied to each of several tensors that it is given by the step
    before it, or before the first one that takes several: ``transpose | concat(0)``.

    Attributes
    ----------
    kind : str
        A name of `KINDS`, of the first step.
    arguments : tuple of int, float or str
        As the entry of the kind has them.
    then : Transform, optional
        What comes after it.

    Raises
    ------
    WeightMapError
        For another kind, or arguments that are not those of the kind.
    """

    kind: str = "copy"
    arguments: Arguments = ()
    then: Transform | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            kinds = {"kind": self.kind[:LONGEST_SHOWN], "kinds": list(KINDS)}
            near = closest(self.kind, KINDS)
            raise WeightMapError(Message("transforms.no_transform", **kinds, closest=near))
        object.__setattr__(self, "arguments", self.entry.read(self.arguments))

    @classmethod
    def parse(cls, text: str) -> Transform:
        """The transform a text means: ``expand_dims(2)``, ``split(0, 64, 64) | transpose``.

        Raises
        ------
        WeightMapError
            For anything that is not in the closed list; nothing is ever imported or called.
        """
        steps = text.split("|")
        if len(steps) > _MOST_STEPS:
            said = {"count": len(steps), "most": _MOST_STEPS}
            raise WeightMapError(Message("transforms.too_many_steps", **said))
        return chained([cls._step_of(step, text) for step in steps])

    @classmethod
    def _step_of(cls, step: str, text: str) -> Transform:
        match = _CALL.fullmatch(step)
        if match is None:
            kinds = list(KINDS)
            raise WeightMapError(
                Message("transforms.not_one", text=Foreign(text[:80]), kinds=kinds)
            )
        words = [word.strip() for word in (match[2] or "").split(",")]
        return cls(match[1], tuple(filter(None, words)))

    def __str__(self) -> str:
        """The text that `parse` reads, and files hold."""
        return _THEN.join(map(_step_text, self.steps))

    @cached_property
    def steps(self) -> tuple[Transform, ...]:
        """Its steps, each a transform without another one after it."""
        alone = self if self.then is None else Transform(self.kind, self.arguments)
        return (alone, *(self.then.steps if self.then is not None else ()))

    @property
    def entry(self) -> Kind:
        """What there is to say of the kind of its first step."""
        return KINDS[self.kind]

    @property
    def words(self) -> Message:
        """What it does, in a sentence without a subject."""
        words = self.entry.words(*self._bound)
        if self.then is None:
            return words
        return Message("transforms.then", first=words, second=self.then.words)

    @property
    def keeps_order(self) -> bool:
        """Whether the values stay in their flat order, so that only the shape changes."""
        return all(step.entry.keeps_order for step in self.steps)

    @property
    def of_gradients(self) -> Transform | None:
        """What makes the gradients of the targets of those of the sources; None where nothing."""
        made = []
        for step in self.steps:
            known = step.entry.gradients
            arguments = None if known is None else known(step.arguments)
            if arguments is None:
                return None
            made.append(Transform(step.kind, arguments))
        return chained(made)

    @property
    def takes_parts(self) -> bool:
        """Whether its sources are the parts of a weight that is stored reparametrized."""
        return self.entry.takes_parts

    @property
    def troubleshooter(self) -> str | None:
        """The function that TroubleShooter's json names for it; None where it cannot say it."""
        return None if self.then is not None else self.entry.troubleshooter.get(self.arguments)

    @cached_property
    def _bound(self) -> tuple[Any, ...]:
        return self.entry.bound(self.arguments)

    def _is_for_each(self, step: Transform, count: int) -> bool:
        """Whether one of its steps is applied to so many tensors one by one."""
        takes_one = step.entry.sources.most == 1 and step._targets_made == 1
        return takes_one and count > 1 and self.then is not None

    @property
    def _targets_made(self) -> int:
        made = self.entry.targets
        return made if isinstance(made, int) else made(*self._bound)

    def miscounted(self, sources: int, targets: int | None = None) -> str:
        """Why it does not take or give so many tensors, or nothing; `targets` if they are known."""
        made = sources
        for step in self.steps:
            if self._is_for_each(step, made):
                continue
            if wrong := step.entry.sources.refused(step, made):
                return wrong
            made = step._targets_made
        if targets in (None, made):
            return ""
        if not targets:
            return Message("transforms.needs_a_target", transform=self)
        if not made and self.entry.targets == 0:
            return Message("transforms.needs_no_target", transform=self)
        return Message("transforms.gives_others", transform=self, made=made, count=targets)

    def specs(self, sources: Sequence[Spec]) -> list[Spec]:
        """Shapes and dtypes of the targets.

        Raises
        ------
        WeightMapError
            If the sources do not fit the transform.
        """
        return list(_made(self, tuple(sources))[-1])

    def views(self, source: Spec) -> list[Strided]:
        """Where the elements of each target stand in its one source; of steps that give views."""
        # Strides and places say it all: no byte behind the first one is ever touched.
        byte = np.zeros(1, np.uint8)
        steps = tuple(math.prod(source.shape[axis + 1 :]) for axis in range(len(source.shape)))
        hollow = as_strided(byte, source.shape, steps)
        made = self.entry.forward([hollow], *self._bound)
        begin = hollow.__array_interface__["data"][0]
        return [
            Strided(one.shape, one.strides, one.__array_interface__["data"][0] - begin)
            for one in made
        ]

    def rows(self, source: Spec) -> Rows:
        """Where the rows of the target stand in its one source; of steps that give rows."""
        if self.entry.rows is None:
            raise TypeError(self.kind)
        return Rows(source.shape, *self.entry.rows(source, *self._bound))

    def apply(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The target arrays; views of the sources where possible.

        Raises
        ------
        WeightMapError
            If the arrays do not fit the transform.
        """
        self.specs([Spec(array.shape, array.dtype) for array in arrays])
        return self.run(arrays, lambda step, given: step.entry.forward(given, *step._bound))

    def run(self, tensors: Sequence[Tensor], make: Step[Tensor]) -> list[Tensor]:
        """What its steps make of tensors of any kind; ``make(step, tensors)`` makes one step."""
        return [*self.after_each(tensors, make)][-1]

    def after_each(self, tensors: Sequence[Tensor], make: Step[Tensor]) -> Iterator[list[Tensor]]:
        """As `run`, what there is after each step."""
        made = list(tensors)
        for step in self.steps:
            given = [[one] for one in made] if self._is_for_each(step, len(made)) else [made]
            made = [one for part in given for one in make(step, part)]
            yield made

    def inverse(self, sources: Sequence[Spec]) -> Transform | None:
        """What turns the targets back into these sources, bit for bit; None where nothing does."""
        back = []
        for step, given in self._given(sources):
            undone = step.entry.inverse
            found = None if undone is None else undone(given, *step._bound)
            if found is None:
                return None
            back.append(Transform(found[0], tuple(found[1])))
        return chained(back[::-1])

    def loss(self, sources: Sequence[Spec]) -> str:
        """What is lost on the way, or nothing."""
        said = [step.entry.loss(given, *step._bound) for step, given in self._given(sources)]
        return joined([*dict.fromkeys(filter(None, said))])

    def _given(self, sources: Sequence[Spec]) -> Iterator[tuple[Transform, tuple[Spec, ...]]]:
        """Each step with what it is given."""
        after = () if self.then is None else _made(self, tuple(sources))
        given = (tuple(sources), *after)
        return zip(self.steps, given, strict=False)


def _step_text(step: Transform) -> str:
    inside = ", ".join(map(str, step.arguments))
    return f"{step.kind}({inside})" if step.arguments else step.kind


def chained(steps: Sequence[Transform]) -> Transform:
    """One transform after the other; those that leave the values as they are are left out."""
    made: Transform | None = None
    for transform in reversed(steps):
        for step in reversed(transform.steps):
            if step.kind != "copy":
                made = step if made is None else Transform(step.kind, step.arguments, made)
    return made or Transform()


# The layers of a net ask for the same again and again.
@lru_cache(maxsize=1 << 12)
def _made(transform: Transform, sources: tuple[Spec, ...]) -> tuple[tuple[Spec, ...], ...]:
    """Shapes and dtypes after each step."""
    if wrong := transform.miscounted(len(sources)):
        raise WeightMapError(wrong)

    def specs(step: Transform, given: list[Spec]) -> Sequence[Spec]:
        try:
            return step.entry.specs(given, *step._bound)
        except MisfitError as misfit:
            where = {"transform": step, "shapes": shapes_said(given), "why": misfit.args[0]}
            raise WeightMapError(Message("transforms.does_not_fit", **where)) from None

    return tuple(map(tuple, transform.after_each(sources, specs)))


@lru_cache(maxsize=1 << 12)
def fitting(
    sources: tuple[Spec | None, ...],
    targets: tuple[Shape | None, ...],
    *,
    everything: bool = False,
) -> tuple[Transform, ...]:
    """Transforms that make targets of these shapes of these sources, the likeliest first.

    Parameters
    ----------
    sources : tuple of Spec or None
    targets : tuple of tuple or None
        A shape each. None is for what is not known, of all names of a side.
    everything : bool
        Whether those are given as well that nobody concludes from shapes: other orders of rows,
        parts, repetitions, and matrices that are transposed before they are joined or after
        they were split.
    """
    found = dict.fromkeys(_fitting(sources, targets, everything))
    if everything:
        found |= dict.fromkeys(_transposed(sources, targets))
    return tuple(found)


def _fitting(
    sources: tuple[Spec | None, ...], targets: tuple[Shape | None, ...], everything: bool
) -> Iterator[Transform]:
    known = tuple(spec for spec in sources if spec is not None)
    for kind in KINDS.values():
        asked = everything or not kind.is_asked_for
        if not asked or not kind.may_be(len(sources), len(targets)):
            continue
        for arguments in kind.proposals(known, targets) if known else kind.blind:
            transform = Transform(kind.name, arguments)
            if _makes(transform, len(sources), known, targets):
                yield transform


def _transposed(
    sources: tuple[Spec | None, ...], targets: tuple[Shape | None, ...]
) -> Iterator[Transform]:
    """Of matrices: each transposed and then joined, or split and then each transposed."""
    known = tuple(spec for spec in sources if spec is not None)
    shapes = tuple(shape for shape in targets if shape is not None)
    if len(known) < len(sources) or len(shapes) < len(targets):
        return
    turn = Transform("transpose")
    if len(known) > 1 and all(len(spec.shape) == 2 for spec in known):
        turned = tuple(Spec(spec.shape[::-1], spec.dtype) for spec in known)
        ways = [chained([turn, one]) for one in fitting(turned, targets)]
    elif len(shapes) > 1 and all(len(shape) == 2 for shape in shapes):
        turned_back = tuple(shape[::-1] for shape in shapes)
        ways = [chained([one, turn]) for one in fitting(sources, turned_back)]
    else:
        return
    yield from (way for way in ways if _makes(way, len(sources), known, targets))


def _makes(
    transform: Transform, count: int, known: tuple[Spec, ...], targets: tuple[Shape | None, ...]
) -> bool:
    """Whether a transform of so many sources gives these targets, as far as shapes are known."""
    if transform.miscounted(count, len(targets)):
        return False
    try:
        made = _made(transform, known)[-1] if known else ()
    except WeightMapError:
        return False
    return all(shape in (None, spec.shape) for spec, shape in zip(made, targets, strict=False))


@cache
def of_troubleshooter() -> Mapping[str, Transform]:
    """By each function that TroubleShooter's json may name what it does to the values."""
    return {
        function: Transform(kind.name, arguments)
        for kind in KINDS.values()
        for arguments, function in kind.troubleshooter.items()
        if function
    }
