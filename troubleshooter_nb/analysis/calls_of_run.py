"""The calls of a run, each with the tensors that were seen in it, forward and backward."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from troubleshooter_nb.analysis.api_names import bare_name, op_class, operator
from troubleshooter_nb.analysis.layer_kinds import layer_kind
from troubleshooter_nb.analysis.search import Item
from troubleshooter_nb.naming import parameter_leaf
from troubleshooter_nb.shapes import Shape, known_shape

Shapes = tuple[Shape | None, ...]
# Modules that a dump numbers by their class, as if they were operators: their path is no path.
_BY_CLASS = ("NN.", "Module.")


@dataclass(frozen=True, eq=False)
class RunCall:
    """One call of a module or operator: its tensors, and those of its backward.

    Attributes
    ----------
    kind, path, layer, call
        As in `DUMP_COLUMNS`.
    items : tuple of Item
        In the order of the dump, both directions.
    members : tuple of RunCall
        The calls this one stands for, if a fused operator of the other side does their work.
    bundle : {"", "chain", "split"}
        Whether `members` follow one another or stand side by side.
    stands_for : str
        The operator or class of layers whose work `members` do.
    """

    kind: str
    path: str
    layer: str
    call: int
    items: tuple[Item, ...]
    members: tuple[RunCall, ...] = ()
    bundle: Literal["", "chain", "split"] = ""
    stands_for: str = ""

    @cached_property
    def parts(self) -> list[RunCall]:
        """The calls of the dump it stands for, itself if it is one."""
        return [part for member in self.members for part in member.parts] or [self]

    @cached_property
    def position(self) -> int:
        """Where it begins in the order of the run."""
        forward = [item.position for item in self.items if item.direction != "backward"]
        return min(forward or [item.position for item in self.items])

    @cached_property
    def is_module(self) -> bool:
        """Whether its path is a place in a network."""
        return self.kind == "module" and not self.path.startswith(_BY_CLASS)

    @cached_property
    def op(self) -> str:
        """Category and name of an operator, a primitive by its class: ``Primitive.MatMul``."""
        if self.stands_for:
            return self.stands_for
        return operator(self.path, self.layer)

    @cached_property
    def bare(self) -> str:
        """Name of the operator without category and spelling."""
        return bare_name(self.op)

    @cached_property
    def word(self) -> str:
        """What it is, in a word both frameworks share."""
        if self.is_module:
            word, known = layer_kind(self.stands_for or self.layer)
            return word if known else "?"
        if self.kind == "module":
            return layer_kind(self.path.rpartition(".")[2])[0]
        if self.kind == "debug":
            return self.path
        if self.kind == "kernel":
            return op_class(bare_name(self.layer or self.path))
        return op_class(self.bare)

    @cached_property
    def parent(self) -> str:
        """The call it ran in, as the dump names it."""
        return next((i.site.parent for i in self.items if i.site and i.site.parent), "")

    def leaves(self, direction: str, role: str) -> list[Item]:
        """Its entries of one direction and role."""
        return self._by_role.get((direction, role), [])

    @cached_property
    def _by_role(self) -> dict[tuple[str, str], list[Item]]:
        found: dict[tuple[str, str], list[Item]] = defaultdict(list)
        for item in self.items:
            if item.site:
                direction = "backward" if item.direction == "backward" else "forward"
                found[direction, item.site.role].append(item)
        return found

    @cached_property
    def inputs(self) -> tuple[Shape, ...]:
        """Shapes of the tensors that go in."""
        if self.members:
            return _shapes(self.outer_inputs)
        return _shapes(self.leaves("forward", "input"))

    @cached_property
    def outer_inputs(self) -> list[Item]:
        """The tensors that go in from outside, of fused calls those that no member makes."""
        if self.bundle == "split":
            return self.members[0].outer_inputs[:1]
        found: list[Item] = []
        made: Shape | None = None
        for member in self.members or (self,):
            inner = made
            for item in member.leaves("forward", "input"):
                if item.shape is not None and item.shape == inner:
                    inner = None  # only one of them is what the member before has made
                elif item.shape is not None:
                    found.append(item)
            made = known_shape(*(item.shape for item in member.leaves("forward", "output")))
        return found

    @cached_property
    def outputs(self) -> Shapes:
        """Shapes of the tensors that come out."""
        if self.bundle == "split":
            return (_side_by_side([member.outputs for member in self.members], -1),)
        if self.members:
            return self.members[-1].outputs
        return _shapes(self.leaves("forward", "output"))

    @cached_property
    def size(self) -> int:
        """Elements of the first output, 0 unknown: what a change of form leaves as it is."""
        shape = next(iter(self.outputs), None)
        return 0 if shape is None else math.prod(shape)

    @cached_property
    def parameters(self) -> tuple[tuple[str, Shape | None], ...]:
        """Torch's names and the shapes of its parameters, sorted."""
        if self.bundle == "split":
            named: dict[str, list[Shapes]] = defaultdict(list)
            for member in self.members:
                for leaf, shape in member.parameters:
                    named[leaf].append((shape,))
            return _sorted((leaf, _side_by_side(all_, 0)) for leaf, all_ in named.items())
        found = self.leaves("forward", "parameter") or self.leaves("backward", "parameter")
        return _sorted((torch_leaf(item), item.shape) for item in found)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """What it is and the shapes of all that goes in and comes out."""
        if self.inputs or self.outputs:
            return self.kind, self.word, self.parameters, self.inputs, self.outputs
        gradients = [_shapes(self.leaves("backward", role)) for role in ("input", "output")]
        return self.kind, self.word, self.parameters, *gradients

    @cached_property
    def core(self) -> tuple[object, ...]:
        """What it is, and the shapes of what goes in and comes out first.

        Primitives give more outputs, and keywords may stand in another order.
        """
        return self.kind, self.word, self.inputs[:1], self.outputs[:1]

    @cached_property
    def fingerprint(self) -> tuple[object, ...]:
        """Figures of its parameters, else of its tensors, that another framework gives as well.

        Empty where none is known.
        """
        of = self.leaves("forward", "parameter") or [
            *self.leaves("forward", "input"),
            *self.leaves("forward", "output"),
        ]
        found = []
        for item in of:
            if item.site and not any(math.isnan(figure) for figure in item.site.figures):
                found.append((torch_leaf(item), *(float(f"{f:.4g}") for f in item.site.figures)))
            elif item.site and item.site.crc32 >= 0:
                found.append((torch_leaf(item), item.site.crc32))
        return tuple(sorted(found))


def torch_leaf(item: Item) -> str:
    """Torch's name of a parameter, else its slot."""
    slot = item.site.slot if item.site else ""
    return parameter_leaf(slot) or slot


def run_calls_of(items: Iterable[Item]) -> list[RunCall]:
    """The calls these entries were seen in, in the order in which they began."""
    calls: dict[tuple[str, str, str, int], list[Item]] = defaultdict(list)
    for item in items:
        if item.site:
            calls[item.site.kind, item.path, item.site.layer, item.call].append(item)
    run_calls = [RunCall(*key, tuple(found)) for key, found in calls.items()]
    return sorted(run_calls, key=lambda run_call: run_call.position)


def _shapes(items: Sequence[Item]) -> tuple[Shape, ...]:
    return tuple(item.shape for item in items if item.shape is not None)


def _sorted(named: Iterable[tuple[str, Shape | None]]) -> tuple[tuple[str, Shape | None], ...]:
    return tuple(sorted(named, key=lambda one: (one[0], one[1] is not None, one[1] or ())))


def _side_by_side(shapes: Sequence[Shapes], axis: int) -> Shape | None:
    """The shape of tensors joined along an axis; None where they do not fit."""
    known = [one[0] for one in shapes if len(one) == 1 and one[0]]
    if len(known) < len(shapes):
        return None
    try:
        length = sum(one[axis] for one in known)
    except IndexError:
        return None
    at = range(len(known[0]))[axis]
    rest = {(one[:axis], one[axis + 1 :] if axis >= 0 else ()) for one in known}
    return (*known[0][:at], length, *known[0][at + 1 :]) if len(rest) == 1 else None
