"""How the tensors of several ranks are one tensor: as declared, or as a reference shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import FormatError, PairingError
from troubleshooter_nb.formats.joined_source import joined, joined_shape, summed
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable, native_order, same_dtype
from troubleshooter_nb.thresholds import (
    RANKS_AGREE,
    RANKS_BLOCK,
    RANKS_CLEARLY,
    RANKS_SAMPLE,
    RANKS_SAMPLES,
)

# Gates and ups, queries with keys and values, the gates of an LSTM; grouped queries.
_USUAL = ((1, 1), (1, 1, 1), (1, 1, 1, 1), *((q, 1, 1) for q in (2, 3, 4, 5, 6, 7, 8, 12, 16)))


@dataclass(frozen=True)
class Layout:
    """A way to make one tensor of several.

    Attributes
    ----------
    kind : {"axis", "same", "sum", "mean"}
    axis : int
        Along which the tensors lie side by side.
    proportions : tuple of int
        In which each tensor is cut first, see `formats.joined_source.joined`.
    """

    kind: Literal["axis", "same", "sum", "mean"]
    axis: int = 0
    proportions: tuple[int, ...] = (1,)

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Shape of the one tensor; FormatError says what does not fit."""
        if self.kind == "axis":
            return joined_shape(shapes, self.axis, self.proportions)
        for shape in shapes:
            if shape != shapes[0]:
                raise FormatError(
                    Message("alignment.shapes_differ", left=tuple(shapes[0]), right=tuple(shape))
                )
        return shapes[0]

    def joined(self, parts: Sequence[ArraySource]) -> ArraySource:
        """The one tensor, lazily; FormatError says what does not fit."""
        if self.kind == "axis":
            return joined(parts, self.axis, self.proportions)
        self.shape([part.shape for part in parts])
        return parts[0] if self.kind == "same" else summed(parts, mean=self.kind == "mean")

    @property
    def words(self) -> Message:
        """``along axis 0``, ``summed``: what was done."""
        if self.kind != "axis":
            return Message(f"alignment.how_{self.kind}")
        if len(self.proportions) == 1:
            return Message("alignment.how_axis", axis=self.axis)
        shown = ":".join(map(str, self.proportions))
        return Message("alignment.how_interleaved", axis=self.axis, shares=shown)


def layout_of(declared: Any) -> Layout:
    """The layout a value of `axes` declares.

    Raises
    ------
    PairingError
        If it is none of those that `merge_ranks` lists.
    """
    match declared:
        case None:
            return Layout("same")
        case "same" | "sum" | "mean":
            return Layout(declared)
        case int() | np.integer() if not isinstance(declared, bool):
            return Layout("axis", int(declared))
        case ("qkv", int(axis)):
            return Layout("axis", axis, (1, 1, 1))
        case ("interleaved", int(axis), int(count)) if count > 1:
            return Layout("axis", axis, (1,) * count)
        case ("interleaved", int(axis), (int(), int(), *_) as shares):
            if all(isinstance(share, int) and share > 0 for share in shares):
                return Layout("axis", axis, tuple(shares))
    raise PairingError(Message("alignment.no_layout", declared=repr(declared)))


def axes_that_fit(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The axes along which tensors of these shapes can lie side by side."""
    layouts = [Layout("axis", axis) for axis in range(len(shapes[0]))]
    return [one.axis for one in layouts if _shape_or_none(one, shapes) is not None]


def same_values(parts: Sequence[ArraySource], crcs: Sequence[int] = ()) -> bool:
    """Whether all hold the same bits, of one shape and dtype.

    Parameters
    ----------
    parts : sequence of ArraySource
        Read block by block up to the first difference.
    crcs : sequence of int, optional
        CRC-32 of each, which decide if all are known (not -1).

    Raises
    ------
    ReadError
        If one cannot be read.
    """
    first = parts[0]
    if any(one.shape != first.shape or not same_dtype(one.dtype, first.dtype) for one in parts):
        return False
    if crcs and min(crcs) >= 0 and len({one.dtype.isnative for one in parts}) == 1:
        return len(set(crcs)) == 1
    size = math.prod(first.shape)
    for low in range(0, size, RANKS_BLOCK):
        high = min(low + RANKS_BLOCK, size)
        wanted = _bits(first, low, high)
        for other in parts[1:]:
            if other is not first and not np.array_equal(_bits(other, low, high), wanted):
                return False
    return True


def same_beginning(parts: Sequence[ArraySource]) -> bool:
    """Whether all are of one shape and dtype and begin with the same bits.

    Raises
    ------
    ReadError
        If one cannot be read.
    """
    first = parts[0]
    stop = min(math.prod(first.shape), RANKS_SAMPLE)
    alike = all(p.shape == first.shape and same_dtype(p.dtype, first.dtype) for p in parts)
    return alike and all(
        np.array_equal(_bits(other, 0, stop), _bits(first, 0, stop)) for other in parts[1:]
    )


def is_constant(source: ArraySource) -> bool:
    """Whether all elements are the same bits; True for none.

    Raises
    ------
    ReadError
        If it cannot be read.
    """
    size = math.prod(source.shape)
    if size < 2:
        return size == 0
    first = _bits(source, 0, 1)
    blocks = (
        _bits(source, low, min(low + RANKS_BLOCK, size)) for low in range(0, size, RANKS_BLOCK)
    )
    return all((block.reshape(-1, len(first)) == first).all() for block in blocks)


def _bits(source: ArraySource, start: int, stop: int) -> np.ndarray:
    return np.ascontiguousarray(native_order(source.read(start, stop))).view(np.uint8)


class Found(NamedTuple):
    """The layout that a reference shows, or None; `said` is what to know about it."""

    layout: Layout | None
    said: str = ""


def layout_by_shapes(
    shapes: Sequence[tuple[int, ...]], references: Sequence[tuple[int, ...]]
) -> Layout | None:
    """The one axis along which the shapes add up to those of a reference; None if not one."""
    fits = list(_axes_by_shapes(shapes, references))
    return fits[0] if len(fits) == 1 else None


def layout_by_values(
    parts: Sequence[ArraySource], references: Sequence[ArraySource], crcs: Sequence[int] = ()
) -> Found:
    """The layout in which the tensors of all ranks are the reference.

    Parameters
    ----------
    parts : sequence of ArraySource
        Of each rank.
    references : sequence of ArraySource
        The tensor of a run on one rank, or those of another number of ranks, which then are put
        together in the same way.
    crcs : sequence of int, optional
        See `same_values`.

    Raises
    ------
    ReadError
        If values cannot be read.
    """
    shapes = [part.shape for part in parts]
    wanted = [reference.shape for reference in references]
    fits = list(_axes_by_shapes(shapes, wanted))
    # One tensor on all its ranks; or shards of a constant, where the shapes add up.
    whole = not fits or shapes[0] == wanted[0]
    if whole and len(references) > 1 and same_values(references):
        return layout_by_values(parts, references[:1], crcs)
    if len(fits) == 1 and len({*shapes, *wanted}) > 1:
        return _with_interleaved(fits[0], parts, references)
    if same_values(parts, crcs):
        return Found(Layout("same"))
    if len({*shapes, *wanted}) == 1:
        return _added(parts, references, fits)
    shown, target = ([*dict.fromkeys(map(str, some))] for some in (shapes, wanted))
    return Found(None, Message("alignment.no_axis_makes", target=target, shapes=shown))


def _axes_by_shapes(
    shapes: Sequence[tuple[int, ...]], references: Sequence[tuple[int, ...]]
) -> Iterator[Layout]:
    for axis in range(len(shapes[0])):
        layout = Layout("axis", axis)
        shape = _shape_or_none(layout, shapes)
        if shape is not None and shape == _shape_or_none(layout, references):
            yield layout


def _shape_or_none(layout: Layout, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    try:
        return layout.shape(shapes)
    except FormatError:
        return None


def _with_interleaved(
    plain: Layout, parts: Sequence[ArraySource], references: Sequence[ArraySource]
) -> Found:
    """The axis the shapes show, interleaved if only then the values agree."""
    difference = _difference(plain, parts, references)
    if difference <= RANKS_AGREE:
        return Found(plain)
    shapes = [one.shape for one in (*parts, *references[1:])]
    tried = []
    for proportions in _USUAL:
        layout = replace(plain, proportions=proportions)
        if _shape_or_none(layout, shapes) is not None:
            tried.append((_difference(layout, parts, references), layout))
    tried.sort(key=lambda one: one[0])
    if tried and tried[0][0] <= RANKS_AGREE:
        best = tried[0][0]
        others = [difference, *(one for one, _ in tried[1:])]
        if all(_is_clearly_better(best, other) for other in others):
            return Found(tried[0][1])
    # What is wrong with the values is for the comparison to say; the shapes leave no choice.
    return Found(plain, Message("alignment.values_differ", share=difference))


def _added(
    parts: Sequence[ArraySource], references: Sequence[ArraySource], fits: Sequence[Layout]
) -> Found:
    """Partial sums and the like: nothing but the values tells.

    As many ranks in the reference as here leave the axes open too.
    """
    choices = [Layout("sum"), Layout("mean"), *fits]
    tried = []
    for layout in choices:
        try:
            tried.append((_difference(layout, parts, references), layout))
        except FormatError:  # bool cannot be added
            continue
    tried.sort(key=lambda one: one[0])
    alone = []
    if len(references) == 1:
        alone = [_disagreement(part, references[0]) for part in parts]
    like = [rank for rank, difference in enumerate(alone) if difference <= RANKS_AGREE]
    if like:
        if len(like) == len(parts):
            return Found(None, Message("alignment.each_like"))
        return Found(None, Message("alignment.some_like", count=len(like), total=len(parts)))
    if not tried or tried[0][0] > RANKS_AGREE:
        return Found(None, Message("alignment.nothing_like"))
    if not all(_is_clearly_better(tried[0][0], other) for other, _ in tried[1:]):
        return Found(None, Message("alignment.several_ways"))
    return Found(tried[0][1])


def _is_clearly_better(best: float, other: float) -> bool:
    return best * RANKS_CLEARLY < other


def _difference(
    layout: Layout, parts: Sequence[ArraySource], references: Sequence[ArraySource]
) -> float:
    return _disagreement(layout.joined(parts), layout.joined(references))


def _disagreement(candidate: ArraySource, reference: ArraySource) -> float:
    """Relative l2 difference of samples; inf where one is finite and the other is not."""
    size = math.prod(reference.shape)
    mine, theirs = (
        np.concatenate([_wide(source.read(*place)) for place in _places(size)])
        for source in (candidate, reference)
    )
    finite = np.isfinite(mine) & np.isfinite(theirs)
    if np.any(np.isfinite(mine) != np.isfinite(theirs)):
        return math.inf
    mine, theirs = mine[finite], theirs[finite]
    scale = max(np.abs(mine).max(initial=0.0), np.abs(theirs).max(initial=0.0))
    if not scale:
        return 0.0
    # Scale first: squares of values near 1e200 overflow.
    norm = float(np.linalg.norm(theirs / scale))
    distance = float(np.linalg.norm(mine / scale - theirs / scale))
    return distance / norm if norm else math.inf


def _wide(values: np.ndarray) -> np.ndarray:
    values = computable(values)
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _places(size: int) -> list[tuple[int, int]]:
    """Where to look: everywhere, or at samples spread in steps that no shape is a multiple of."""
    if size <= RANKS_SAMPLES * RANKS_SAMPLE:
        return [(0, size)]
    golden = (math.sqrt(5) - 1) / 2
    starts = (int((k + k * golden % 1) * size / RANKS_SAMPLES) for k in range(RANKS_SAMPLES))
    return [
        (min(start, size - RANKS_SAMPLE), min(start, size - RANKS_SAMPLE) + RANKS_SAMPLE)
        for start in starts
    ]
