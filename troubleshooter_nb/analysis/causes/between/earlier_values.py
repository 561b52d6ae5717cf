"""What unrecorded work may have made a value from: the values that were there before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import TooLargeError
from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.parts import part_of
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.thresholds import CALLS_BEFORE, EARLIER_PROBES, MOST_SOURCES


@dataclass(frozen=True)
class Source:
    """One earlier value of a side.

    Attributes
    ----------
    name : str
        The same on both sides.
    row : int
    word : str
        What made it, in torch's word; empty for inputs and for classes of the user's own.
    values : ndarray
    """

    name: str
    row: int
    word: str
    values: np.ndarray


@dataclass(frozen=True)
class EarlierValues:
    """One side of a value that no recorded call made.

    Attributes
    ----------
    target : ndarray
    sources : tuple of Source
        Real numbers, the latest first.
    masks : tuple of Source
        Booleans and whole numbers that containers were given, now and at the first step.
    word : str
        What the call does that uses the target, or made it.
    sampled : Message or None
        Which part of the values this is, where they are large.
    floor : float
        Relative error that rounding leaves.
    roundoff : float
        Unit roundoff of the stored target.
    """

    target: np.ndarray
    sources: tuple[Source, ...]
    masks: tuple[Source, ...]
    floor: float
    roundoff: float
    word: str = ""
    sampled: Message | None = None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of the target."""
        return self.target.shape


def earlier_values(
    operators: Operators, row: int
) -> tuple[TensorPair, EarlierValues, EarlierValues] | None:
    """Both sides of a row with the same sources; None where values are not there.

    Of large values some items, or rows, of the target and of what shares this axis with it.

    Raises
    ------
    TooLargeError
        If no part of it stands for all.
    """
    flow = operators.flow
    tensor = operators.tensor(row)
    rows, masks = _earlier(flow, row)
    cut = _cut(tensor, [flow.shape(one) for one in rows])
    if cut is not None:
        tensor = cut.of(tensor)
    if tensor.is_large:
        raise TooLargeError
    targets = tensor.left, tensor.right
    if any(t is None or t.dtype.kind != "f" or not t.size for t in targets):
        return None
    pairs = _read(operators, rows, "f", cut)
    hidden = _read(operators, masks, "biu", cut)
    if (first := at_first_step(flow, row)) is not None:
        hidden += _of_first_step(_read(operators, _earlier(flow, first)[1], "biu", cut))
    typical = float(operators.origins.typical[row])
    sides = []
    for side, target in enumerate(targets):
        if target is None:
            return None
        dtype = tensor.dtypes[side]
        roundoff = unit_roundoff(dtype) if dtype is not None else 0.0
        sides.append(
            EarlierValues(
                target,
                tuple(pair[side] for pair in pairs),
                tuple(pair[side] for pair in hidden),
                max(roundoff, typical, 2.0**-23),
                roundoff,
                flow.node_of[row].word,
                cut.said if cut is not None else None,
            )
        )
    return tensor, sides[0], sides[1]


@dataclass(frozen=True)
class _Cut:
    """Some places of one axis of a target, in front of which the others have one place."""

    shape: tuple[int, ...]
    axis: int
    places: np.ndarray

    def of(self, tensor: TensorPair) -> TensorPair:
        """A pair at these places; as it is where it does not share the axis."""
        front = self.shape[: self.axis + 1]
        if any(shape is None or shape[: self.axis + 1] != front for shape in tensor.shapes):
            return tensor
        rest = len(tensor.shapes[1] or ()) - self.axis - 1
        return part_of(tensor, [*[None] * self.axis, self.places, *[None] * rest])

    @property
    def said(self) -> Message:
        """How many items of how many, or rows."""
        is_item = self.axis == 0 and len(self.shape) > 2
        count = {"count": len(self.places), "n": self.shape[self.axis]}
        return Message("evidence.some_items" if is_item else "evidence.some_rows", **count)


def _cut(tensor: TensorPair, sources: Sequence[tuple[int, ...]]) -> _Cut | None:
    """Which part of a large target, or of one with large sources, stands for all; None for all."""
    shape = tensor.shapes[1] or ()
    beside = [math.prod(one) for one in sources if one[:1] == shape[:1]]
    size = max([tensor.size, *(n for n in beside if n > thresholds.LARGEST_READ)])
    most = min(thresholds.PART_ELEMENTS, thresholds.LARGEST_READ // 2)
    if size <= most or not tensor.size or tensor.shapes[0] != shape:
        return None
    worst = np.unravel_index(max(int(tensor.figures.get("max_abs_index", 0)), 0), shape)
    for axis, count in enumerate(shape):
        fitting = most * count // size
        if count > 1 and fitting:
            return _Cut(shape, axis, np.union1d(spread(count, fitting), worst[axis]))
        if count > 1 and size // count <= 2 * most:
            # What mixes the rows of an item needs all of it.
            return _Cut(shape, axis, np.array([worst[axis]]))
        if count > 1 and axis:
            break
    return None


def at_first_step(flow: Flow, row: int) -> int | None:
    """The row of the same value at the first step; None for a row of that step."""
    step, rank = flow.place(row)
    if step == flow.first_step:
        return None
    same = (flow.result["step"] == flow.first_step) & (flow.result["rank"] == rank)
    for column in ("kind", "path", "call", "direction", "role", "slot"):
        same &= flow.site[column] == flow.site[column][row]
    found = np.flatnonzero(same)
    return int(found[0]) if len(found) else None


def _of_first_step(pairs: list[tuple[Source, Source]]) -> list[tuple[Source, Source]]:
    def named(source: Source) -> Source:
        return replace(source, name=Message("evidence.of_first_step", name=source.name))

    return [(named(left), named(right)) for left, right in pairs]


def _earlier(flow: Flow, row: int) -> tuple[list[int], list[int]]:
    """Rows that were there before, the latest first, and inputs of the containers."""
    node = flow.node_of[row]
    is_inside = row in node.outputs and bool(node.children)
    around = node if is_inside else node.parent
    found: list[int] = []
    calls = sorted(_calls(flow, node, around), key=lambda c: c.finished, reverse=True)
    for call in calls[:CALLS_BEFORE]:
        found += [*call.outputs, *call.inputs]
    if not is_inside:
        found = [*node.inputs, *found]
    given: list[int] = []
    while around is not None:
        given += around.inputs
        around = around.parent
    found += given
    return list(dict.fromkeys(r for r in found if r != row and not flow.is_value[r])), given


def _calls(flow: Flow, node: Node, around: Node | None) -> Iterator[Node]:
    """Calls that had finished: in the same container, or all where there are none."""
    start = _start(node)
    if around is not None:
        for child in around.children:
            if node is around or (child is not node and child.finished < start):
                yield child
        return
    for other in flow.nodes:
        alike = other.place == node.place and other.direction == node.direction
        if alike and other is not node and other.finished < start and not other.children:
            yield other


def _start(node: Node) -> tuple[int, int]:
    """When the first call inside was done."""
    return min((_start(child) for child in node.children), default=node.finished)


def _read(
    operators: Operators, rows: list[int], kinds: str, cut: _Cut | None
) -> list[tuple[Source, Source]]:
    """Both sides of rows of these kinds of numbers; a value that occurs again by its maker.

    Large ones that the cut does not make smaller are left out.
    """
    flow = operators.flow
    found: dict[Any, tuple[Source, Source]] = {}
    for row in rows:
        tensor = operators.tensor(row)
        tensor = cut.of(tensor) if cut is not None else tensor
        if any(dtype is None for dtype in tensor.dtypes) or tensor.is_large:
            continue
        left, right = tensor.left, tensor.right
        if left is None or right is None or not left.size:
            continue
        if left.dtype.kind not in kinds or right.dtype.kind not in kinds:
            continue
        key = _probe(left), _probe(right)
        node = flow.node_of.get(row)
        made = node is not None and row in node.outputs and not node.children
        if key in found and not made:
            continue
        if key not in found and len(found) >= MOST_SOURCES:
            break
        word = node.word if node is not None and made else ""
        found[key] = Source(tensor.name, row, word, left), Source(tensor.name, row, word, right)
    return list(found.values())


def _probe(values: np.ndarray) -> tuple[tuple[int, ...], bytes]:
    """Equal for equal values, whatever their axes of size 1."""
    places = spread(math.prod(values.shape), EARLIER_PROBES)
    shape = tuple(size for size in values.shape if size != 1)
    return shape, values.reshape(-1)[places].astype(np.float64).tobytes()
