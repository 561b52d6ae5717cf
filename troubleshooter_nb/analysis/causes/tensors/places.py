"""Where in a tensor the elements lie that differ, and causes that a place alone gives away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Sides,
    correlation,
    error_of,
    norm_of,
    transform,
)
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.analysis.causes.tensors.surveys import (
    Along,
    Survey,
    border_of,
    itemsize_of,
    piece_of,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.index_sets import by_sample, described
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.naming.roles import is_vocabulary
from troubleshooter_nb.ranges import read_copy
from troubleshooter_nb.thresholds import (
    CHANCE_SIGMAS,
    CONFINED,
    ELEMENTS_OF_INDEX,
    EQUAL_LAYERS,
    FAR_OFF,
    FEWEST_STEPS_OF_SET,
    FULL_BLOCK,
    LARGEST_BLOCK,
    LARGEST_PLACE,
    MOST_COPIES,
    MOST_DAMAGED_BLOCKS,
    MOST_INDICES_TOLD,
    NO_ROUNDING,
    SHARPER_PLACE,
)


def differing(sides: Sides) -> np.ndarray:
    """Mask of the elements that differ by more than rounding of the largest ones leaves."""
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(sides.left.astype(np.float64) - sides.right)
        same = (sides.left == sides.right) | (np.isnan(sides.left) & np.isnan(sides.right))
    scale = norm_of(sides.right) / math.sqrt(sides.right.size)
    return np.asarray(~same & ~(error <= 8.0 * sides.floor * scale))


@dataclass(frozen=True)
class KnownAxes:
    """What is known of the axes of a value.

    Attributes
    ----------
    names : tuple of str
        Of each: "sample", "token", "head", "channel", "line", "column" or empty.
    valid : ndarray of bool, optional
        Which elements are of valid tokens, broadcast to the value: of the others nothing is asked.
    """

    names: tuple[str, ...] = ()
    valid: np.ndarray | None = None

    def name(self, axis: int) -> str:
        """What an axis is called; empty where that is not known."""
        return self.names[axis] if axis < len(self.names) else ""

    @property
    def tokens(self) -> tuple[int, int] | None:
        """The axes of samples and of tokens; None where either is not known, or there are two."""
        if self.names.count("sample") != 1 or self.names.count("token") != 1:
            return None
        return self.names.index("sample"), self.names.index("token")


_UNKNOWN = KnownAxes()


def observed_place(sides: Sides, known: KnownAxes = _UNKNOWN) -> dict[str, Any]:
    """Where the error is confined to, {} where it is spread, or the place is no small one.

    Returns
    -------
    dict
        ``share`` of the elements that differ, ``kind``, and of "indices" as ``parts`` the axis, its
        name and what `index_sets.described` says, for each axis that leaves out half at least; of
        "tokens" what `index_sets.by_sample` says; of "border" its ``width``, of the last two axes.
        ``valid`` says that padded tokens were left out.
    """
    if not sides.same_shape or sides.size < 16:
        return {}
    if isinstance(sides, LargeSides):
        survey = _survey(sides)
        if survey is None or survey.is_spread or known.valid is not None:
            return {}
        tokens = survey.front if known.tokens == (0, 1) else None
        return _placed(survey.along, survey.image, tokens, survey.count, sides.size, known)
    mask = differing(sides)
    if known.valid is not None:
        mask &= known.valid
    count, axes = int(mask.sum()), range(mask.ndim)
    if not 0 < count <= LARGEST_PLACE * mask.size:
        return {}
    along = [Along(size) for size in mask.shape]
    for axis, one in enumerate(along):
        one.take(np.flatnonzero(mask.any(tuple(k for k in axes if k != axis))))
    image = mask.reshape(-1, *mask.shape[-2:]).any(0) if mask.ndim > 2 else None
    tokens = None
    if (two := known.tokens) is not None:
        tokens = mask.any(tuple(k for k in axes if k not in two))
        tokens = tokens if two[0] < two[1] else tokens.T
    return _placed(along, image, tokens, count, mask.size, known)


def _placed(
    along: Sequence[Along],
    image: np.ndarray | None,
    tokens: np.ndarray | None,
    count: int,
    size: int,
    known: KnownAxes,
) -> dict[str, Any]:
    """The smallest place that holds all `count` elements, told as plainly as can be.

    Parameters
    ----------
    along : sequence of Along
        At which indices of each axis one is.
    image, tokens : ndarray of bool, optional
        At which places of the last two axes, and at which tokens of which samples.
    """
    told = {"share": count / size, **({} if known.valid is None else {"valid": True})}
    if not 0 < count <= LARGEST_PLACE * size:
        return {}
    parts: list[dict[str, Any]] = []
    covered = 1.0
    for axis, one in enumerate(along):
        part = _part(one, count, size)
        if part is not None:
            parts.append({"axis": axis, "name": known.name(axis), **part})
            covered *= part["count"] / one.size
    if tokens is not None and _are_sharper(tokens, covered, count, size):
        return {"kind": "tokens", **by_sample(tokens), **told}
    if parts:
        return {"kind": "indices", "parts": parts, **told}
    if image is not None and (width := border_of(image)):
        height, wide = image.shape
        inside = max(height - 2 * width, 0) * max(wide - 2 * width, 0)
        if 1.0 - inside / image.size <= LARGEST_PLACE:
            return {"kind": "border", "width": width, **told}
    return {}


def _are_sharper(tokens: np.ndarray, covered: float, count: int, size: int) -> bool:
    """Whether tokens of samples are a smaller place than that which covers such a share."""
    is_smaller = bool(tokens.mean() <= min(LARGEST_PLACE, SHARPER_PLACE * covered))
    return is_smaller and _is_dense(int(tokens.sum()), count, size // tokens.size)


def _part(along: Along, count: int, size: int) -> dict[str, Any] | None:
    """The indices of an axis that hold all; None where they are most, or chance."""
    held = np.flatnonzero(along.held)
    if along.size < 2 or not len(held):
        return None
    if len(along.held) == along.size:
        said = described(held, along.size)
    else:  # neighbours were taken together
        ends = np.arange(along.start, along.stop) if along.is_run else held[:0]
        said = described(ends, along.size) if len(ends) else {}
    if not said or said["count"] > LARGEST_PLACE * along.size:
        return None
    is_dense = _is_dense(said["count"], count, size // along.size)
    return said if said["form"] != "some" or is_dense else None


def _is_dense(places: int, count: int, each: int) -> bool:
    """Whether so many elements at so many places are more than chance scatters over all.

    `each`: elements that a place has.
    """
    if places <= FEWEST_STEPS_OF_SET or each == 1:
        return places <= MOST_INDICES_TOLD or each > 1
    return count >= min(ELEMENTS_OF_INDEX, each) * places


def _survey(sides: LargeSides) -> Survey | None:
    """One pass for all who ask; None where a sample shows that most elements differ."""
    if differing(sides.few).mean() > CONFINED:
        return None
    return sides.survey


def detect_corruption(sides: Sides) -> list[Suspicion]:
    """memory_corruption: blocks of memory, or one bit, differ; everything else agrees.

    A block is aligned and contiguous in C order, holds other values, and no rule over the indices
    of the tensor picks it, see `_is_picked`; where one could, its values have to be far from all
    others. Zeros for a channel or a position in the middle of one sample are told as well, half
    sure: of rules only those that draw, as dropout of channels does, pick such.
    """
    if not sides.same_shape or sides.size < 64:
        return []
    if isinstance(sides, LargeSides):
        return _large_corruption(sides)
    left, right = sides.left.reshape(-1), sides.right.reshape(-1)
    if found := _flipped_bit(sides):
        return found
    # Behind rounding all elements differ a little.
    unequal = np.flatnonzero(differing(sides))
    if len(unequal) < 8 or len(unequal) > left.size // 2:
        return []
    if sides.holds(error_of(np.sort(left[unequal]), np.sort(right[unequal]))):
        return []  # the same values in another order
    piece = piece_of(sides.tensor)
    blocks = [(a, min(b, left.size)) for a, b in _aligned_blocks(unequal, piece)]
    rest = np.ones(left.size, bool)
    for start, stop in blocks:
        rest[start:stop] = False
    largest = float(np.abs(right[rest]).max(initial=0.0))
    residual = error_of(left[rest], right[rest])
    return _damaged(sides, blocks, residual, largest)


def _large_corruption(sides: LargeSides) -> list[Suspicion]:
    # The pass is spared where figures say that one element differs, and which.
    if sides.tensor.figures.get("unequal_count") == 1:
        place = int(sides.tensor.figures["max_abs_index"])
        if place >= 0 and (found := _bit_of(sides, place)):
            return found
    survey = _survey(sides)
    if survey is not None and survey.unequal == 1:
        return _bit_of(sides, survey.place)
    if survey is None or survey.is_spread or survey.count < 8 or survey.has_same_values:
        return []
    piece, runs = piece_of(sides.tensor), survey.runs
    filled = sum(run.count for run in runs), sum(run.last + 1 - run.first for run in runs)
    ends = min((min(run.ends) for run in runs), default=0)
    if not _are_filled(len(runs), *filled, ends, piece):
        return []
    blocks = [(run.first * piece, min((run.last + 1) * piece, sides.size)) for run in runs]
    return _damaged(sides, blocks, survey.rest.value, survey.largest)


def _damaged(
    sides: Sides, blocks: list[tuple[int, int]], residual: float, largest: float
) -> list[Suspicion]:
    """What blocks are, outside of which `residual` is left, and `largest` the largest size."""
    if not blocks or not sides.holds(residual, fitted=2 * len(blocks)):
        return []
    shape = sides.shapes[0]
    regular = _are_regular(blocks)
    picked = regular or any(_is_picked(*one, shape) for one in blocks)
    is_sure = not picked or all(_is_garbage(_held(sides, *one), largest) for one in blocks)
    if not is_sure and (regular or not all(_is_emptied(sides, *one) for one in blocks)):
        return []
    start, stop = blocks[0]
    itemsize = itemsize_of(sides.tensor)
    evidence = {
        "blocks": blocks,
        "start": start,
        "stop": stop,
        "bytes": (stop - start) * itemsize,
        "offset_bytes": start * itemsize,
        "content": _content(sides, 0, start, stop) or _content(sides, 1, start, stop),
    }
    proof = sides.suspicion("memory_corruption", residual, evidence, fitted=2 * len(blocks))
    return [proof if is_sure else replace(proof, share=0.5)]


def detect_vocabulary(sides: Sides) -> list[Suspicion]:
    """vocab_padding: tables of other lengths whose common rows are equal."""
    left, right = sides.shapes
    fits = len(left) == len(right) and len(left) in (1, 2) and left[1:] == right[1:]
    if not fits or left == right or sides.tensor.role not in ("", "parameter"):
        return []
    if not is_vocabulary(sides.tensor.name):
        return []
    rows, most = sorted((left[0], right[0]))
    common = math.prod((rows, *right[1:]))
    ours, theirs = (one[:rows] for one in (sides.left, sides.right))
    residual = error_of(ours, theirs)
    if common < 16 or theirs.max() == theirs.min():
        return []
    limit = max(4.0 * sides.floor, EQUAL_LAYERS)
    if residual <= limit and isinstance(sides, LargeSides):
        residual = sides.apart(*sides.tensor.sources, size=common)
    if residual > limit:
        return []
    longer = "left" if left[0] > rows else "right"
    evidence: dict[str, Any] = {
        "longer": longer,
        "rows": rows,
        "padded_rows": most,
        "multiple": most & -most,
        "filler": "zeros" if _is_zero_from(sides, longer == "right", common) else "values",
    }
    if longer == "left":
        evidence["transform"] = transform("split", 0, rows, most - rows)
    return [sides.suspicion("vocab_padding", residual, evidence)]


def _is_zero_from(sides: Sides, side: int, start: int) -> bool:
    """Whether a side holds nothing but zeros from a flat place on."""
    if not isinstance(sides, LargeSides):
        return not (sides.left, sides.right)[side].reshape(-1)[start:].any()
    source = sides.tensor.sources[side]
    size = math.prod(sides.shapes[side]) - start
    if source is None:
        return False
    ends = streamed([source], sides.tensor.budget, start=start, size=size)
    return not any(bool(values.any()) for _, (values,) in ends)


def _aligned_blocks(unequal: np.ndarray, piece: int) -> list[tuple[int, int]]:
    """Half-open ranges of whole aligned pieces in which nearly all differ; empty otherwise."""
    pieces, counts = np.unique(unequal // piece, return_counts=True)
    breaks = np.flatnonzero(np.diff(pieces) != 1) + 1
    runs = np.split(pieces, breaks)
    ends = {int(run[0]) for run in runs} | {int(run[-1]) for run in runs}
    least = min(int(counts[np.searchsorted(pieces, end)]) for end in ends)
    if not _are_filled(len(runs), int(counts.sum()), len(pieces), least, piece):
        return []
    return [(int(run[0]) * piece, (int(run[-1]) + 1) * piece) for run in runs]


def _are_filled(runs: int, count: int, pieces: int, ends: int, piece: int) -> bool:
    """Whether nearly all elements of a few runs of pieces differ, and of their first and last."""
    few = runs <= MOST_DAMAGED_BLOCKS and count >= FULL_BLOCK * piece * pieces
    # The ends of the block are aligned.
    return few and ends >= 0.75 * piece


def _held(sides: Sides, start: int, stop: int) -> list[np.ndarray]:
    """What both sides hold in a flat range; of a long one of a large pair the beginning."""
    if not isinstance(sides, LargeSides):
        return [one.reshape(-1)[start:stop] for one in (sides.left, sides.right)]
    return [_read(sides, side, start, min(stop, start + LARGEST_BLOCK)) for side in (0, 1)]


def _read(sides: LargeSides, side: int, start: int, stop: int) -> np.ndarray:
    source, budget = sides.tensor.sources[side], sides.tensor.budget
    if source is None:
        return np.zeros(0, np.float32)
    if budget is not None:
        budget.charge(stop - start)
    return values_of(computable(read_copy(source, start, stop)))


def _is_picked(start: int, stop: int, shape: tuple[int, ...]) -> bool:
    """Whether a rule could pick a block: a range along one axis, in one sample or in all.

    Such are masks and padding; along the last axis they begin or end where a row does.
    """
    shape = tuple(size for size in shape if size > 1)
    for axis in (0, 1)[: len(shape)]:
        slab, along = math.prod(shape[axis + 1 :]), math.prod(shape[axis:])
        if start // along != (stop - 1) // along or start % slab or stop % slab:
            continue
        if slab > 1 or start % along == 0 or stop % along == 0:
            return True
    return False


def _is_emptied(sides: Sides, start: int, stop: int) -> bool:
    """Whether one side has zeros in a block amid one of several samples."""
    if all(one.any() for one in _held(sides, start, stop)):
        return False
    samples, *shape = sides.shapes[0]
    each = math.prod(shape)
    inside = start // each == (stop - 1) // each
    return samples > 1 and inside and start % each > 0 and stop % each > 0


def _are_regular(blocks: Sequence[tuple[int, int]]) -> bool:
    """Whether blocks of one length lie at equal distances, as a part of each row does."""
    lengths = {stop - start for start, stop in blocks}
    return len(blocks) > 1 and len(lengths) == 1 and len(set(np.diff([b[0] for b in blocks]))) == 1


def _is_garbage(blocks: Sequence[np.ndarray], largest: float) -> bool:
    """Whether one side of a block is far beyond all other values, and no multiple of the other."""
    if not all(np.isfinite(one).all() for one in blocks):
        return False
    size = max(float(np.median(np.abs(one))) for one in blocks)
    chance = CHANCE_SIGMAS / math.sqrt(len(blocks[0]))
    return size > FAR_OFF * largest and abs(correlation(*blocks)) < chance


def _flipped_bit(sides: Sides) -> list[Suspicion]:
    """One element differs, by one bit of its exponent or the first of its significand."""
    with np.errstate(invalid="ignore"):
        unequal = (sides.left != sides.right) & ~(np.isnan(sides.left) & np.isnan(sides.right))
    places = np.flatnonzero(unequal)
    return _bit_of(sides, int(places[0])) if len(places) == 1 else []


def _bit_of(sides: Sides, place: int) -> list[Suspicion]:
    """Whether the one element that differs does so by one bit."""
    sources = [source for source in sides.tensor.sources if source is not None]
    elements = [computable(read_copy(source, place, place + 1)) for source in sources]
    if elements[0].dtype.kind != "f" or elements[1].dtype != elements[0].dtype:
        return []
    width = elements[0].dtype.itemsize
    one, other = (int(element.view(f"u{width}")[0]) for element in elements)
    if one == other:
        return []
    bit = (one ^ other).bit_length() - 1
    values = float(elements[0][0]), float(elements[1][0])
    # A sign or a factor of two has other causes.
    named = bit == 8 * width - 1 or 0.0 in values or values[0] / values[1] in (2.0, 0.5)
    if one ^ other != 1 << bit or named or not abs(values[0] / values[1] - 1.0) > NO_ROUNDING:
        return []
    itemsize = sides.tensor.dtypes[0].itemsize if sides.tensor.dtypes[0] else width
    evidence = {
        "blocks": [(place, place + 1)],
        "start": place,
        "stop": place + 1,
        "bytes": itemsize,
        "offset_bytes": place * itemsize,
        "content": Message("evidence.bit_flipped", left=values[0], right=values[1]),
    }
    return [sides.suspicion("memory_corruption", 0.0, evidence)]


def _content(sides: Sides, side: int, start: int, stop: int) -> str:
    """What a block of a side is, as far as that can be named."""
    block = _held(sides, start, stop)[side]
    if len(block) < stop - start:
        return ""
    if (block == block[0]).all():
        return Message("evidence.all_of", value=float(block[0]))
    # Stale data: the block is found elsewhere in the same tensor.
    for place in _places_of(sides, side, float(block[0]))[:MOST_COPIES]:
        last = place + len(block)
        if place == start or last > math.prod(sides.shapes[side]):
            continue
        if isinstance(sides, LargeSides):
            found = _read(sides, side, place, last)
        else:
            found = (sides.left, sides.right)[side].reshape(-1)[place:last]
        if np.array_equal(found, block):
            return Message("evidence.block_copied", place=place)
    return ""


def _places_of(sides: Sides, side: int, value: float) -> list[int]:
    """Where a side holds a value: the first places."""
    source = sides.tensor.sources[side]
    if not isinstance(sides, LargeSides) or source is None:
        held: list[int] = np.flatnonzero((sides.left, sides.right)[side] == value).tolist()
        return held
    found: list[int] = []
    for start, (values,) in streamed([source], sides.tensor.budget):
        found += (np.flatnonzero(values_of(values) == value) + start).tolist()
        if len(found) >= MOST_COPIES:
            break
    return found
