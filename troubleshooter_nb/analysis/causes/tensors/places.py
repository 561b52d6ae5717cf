"""Where in a tensor the elements lie that differ, and causes that a place alone gives away."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Sides,
    correlation,
    error_of,
    norm_of,
    transform,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.roles import is_vocabulary
from troubleshooter_nb.thresholds import (
    CHANCE_SIGMAS,
    FAR_OFF,
    FULL_BLOCK,
    MOST_DAMAGED_BLOCKS,
    NO_ROUNDING,
)

_ALIGNED = 32  # bytes: the least that devices move at once


def differing(sides: Sides) -> np.ndarray:
    """Mask of the elements that differ by more than rounding of the largest ones leaves."""
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(sides.left.astype(np.float64) - sides.right)
        same = (sides.left == sides.right) | (np.isnan(sides.left) & np.isnan(sides.right))
    scale = norm_of(sides.right) / math.sqrt(sides.right.size)
    return np.asarray(~same & ~(error <= 8.0 * sides.floor * scale))


def observed_place(sides: Sides) -> dict[str, Any]:
    """Where the error is confined to, {} where it is spread over the tensor.

    The evidence says the share of differing elements, and the shortest of: the indices of one axis
    (``axis``, ``start``, ``stop``), a border of the last two axes, or a flat block.
    """
    if not sides.same_shape or sides.left.size < 16:
        return {}
    mask = differing(sides)
    share = float(mask.mean())
    if not 0.0 < share < 0.5:
        return {}
    best: dict[str, Any] = {}
    least = 0.5
    for axis, size in enumerate(mask.shape):
        held = np.flatnonzero(mask.any(tuple(k for k in range(mask.ndim) if k != axis)))
        start, stop = int(held[0]), int(held[-1]) + 1
        # Contiguous, or a single run of indices.
        if size > 1 and (stop - start) / size < least and len(held) >= 0.9 * (stop - start):
            least = (stop - start) / size
            end = " first" if start == 0 else " last" if stop == size else ""
            best = {"kind": f"indices{end}".strip(), "axis": axis, "start": start, "stop": stop}
    if not best and (width := _border(mask)):
        best = {"kind": "border", "width": width}
    return {**best, "share": share} if best else {}


def detect_corruption(sides: Sides) -> list[Suspicion]:
    """memory_corruption: blocks of memory, or one bit, differ; everything else agrees.

    A block is aligned and contiguous in C order, holds other values, and no rule over the indices
    of the tensor picks it, see `_is_picked`; where one could, its values have to be far from all
    others. Zeros for a channel or a position in the middle of one sample are told as well, half
    sure: of rules only those that draw, as dropout of channels does, pick such.
    """
    tensor = sides.tensor
    if not sides.same_shape or sides.left.size < 64:
        return []
    left, right = sides.left.reshape(-1), sides.right.reshape(-1)
    if found := _flipped_bit(sides):
        return found
    # Behind rounding all elements differ a little.
    unequal = np.flatnonzero(differing(sides))
    if len(unequal) < 8 or len(unequal) > left.size // 2:
        return []
    if sides.holds(error_of(np.sort(left[unequal]), np.sort(right[unequal]))):
        return []  # the same values in another order
    # Of two precisions, the shorter one's pieces are whole ones of the longer one as well.
    itemsize = min((dtype.itemsize for dtype in tensor.dtypes if dtype), default=4)
    blocks = [(a, min(b, left.size)) for a, b in _aligned_blocks(unequal, itemsize)]
    rest = np.ones(left.size, bool)
    for start, stop in blocks:
        rest[start:stop] = False
    residual = error_of(left[rest], right[rest])
    if not blocks or not sides.holds(residual, fitted=2 * len(blocks)):
        return []
    regular = _are_regular(blocks)
    picked = regular or any(_is_picked(*one, sides.left.shape) for one in blocks)
    is_sure = not picked or all(_is_garbage(sides, rest, *one) for one in blocks)
    if not is_sure and (regular or not all(_is_emptied(sides, *one) for one in blocks)):
        return []
    start, stop = blocks[0]
    evidence = {
        "blocks": blocks,
        "start": start,
        "stop": stop,
        "bytes": (stop - start) * itemsize,
        "offset_bytes": start * itemsize,
        "content": _content(left, start, stop) or _content(right, start, stop),
    }
    proof = sides.suspicion("memory_corruption", residual, evidence, fitted=2 * len(blocks))
    return [proof if is_sure else replace(proof, share=0.5)]


def detect_vocabulary(sides: Sides) -> list[Suspicion]:
    """vocab_padding: tables of other lengths whose common rows are equal."""
    left, right = sides.left, sides.right
    fits = left.ndim == right.ndim and left.ndim in (1, 2) and left.shape[1:] == right.shape[1:]
    if not fits or len(left) == len(right) or sides.tensor.role not in ("", "parameter"):
        return []
    if not is_vocabulary(sides.tensor.name):
        return []
    rows = min(len(left), len(right))
    residual = error_of(left[:rows], right[:rows])
    spread = right[:rows].max() != right[:rows].min()
    if residual > max(4.0 * sides.floor, 1e-3) or left[:rows].size < 16 or not spread:
        return []
    longer = "left" if len(left) > rows else "right"
    most = max(len(left), len(right))
    filler = (left if longer == "left" else right)[rows:]
    evidence: dict[str, Any] = {
        "longer": longer,
        "rows": rows,
        "padded_rows": most,
        "multiple": most & -most,
        "filler": "zeros" if not filler.any() else "values",
    }
    if longer == "left":
        evidence["transform"] = transform("split", 0, rows, most - rows)
    return [sides.suspicion("vocab_padding", residual, evidence)]


def _border(mask: np.ndarray) -> int:
    """Width of a border of the last two axes outside which nothing differs; 0 for none."""
    if mask.ndim < 3 or min(mask.shape[-2:]) < 5:
        return 0
    image = mask.reshape(-1, *mask.shape[-2:]).any(0)
    height, width = image.shape
    for border in range(1, (min(height, width) - 1) // 2):
        if not image[border : height - border, border : width - border].any():
            return border
    return 0


def _aligned_blocks(unequal: np.ndarray, itemsize: int) -> list[tuple[int, int]]:
    """Half-open ranges of whole aligned pieces in which nearly all differ; empty otherwise."""
    piece = max(_ALIGNED // itemsize, 1)
    pieces, counts = np.unique(unequal // piece, return_counts=True)
    breaks = np.flatnonzero(np.diff(pieces) != 1) + 1
    runs = np.split(pieces, breaks)
    if len(runs) > MOST_DAMAGED_BLOCKS or counts.sum() < FULL_BLOCK * piece * len(pieces):
        return []
    # The first and the last piece are full, too: the ends of the block are aligned.
    ends = {int(run[0]) for run in runs} | {int(run[-1]) for run in runs}
    if min(int(counts[np.searchsorted(pieces, end)]) for end in ends) < 0.75 * piece:
        return []
    return [(int(run[0]) * piece, (int(run[-1]) + 1) * piece) for run in runs]


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
    if all(one.reshape(-1)[start:stop].any() for one in (sides.left, sides.right)):
        return False
    samples, *shape = sides.left.shape
    each = math.prod(shape)
    inside = start // each == (stop - 1) // each
    return samples > 1 and inside and start % each > 0 and stop % each > 0


def _are_regular(blocks: Sequence[tuple[int, int]]) -> bool:
    """Whether blocks of one length lie at equal distances, as a part of each row does."""
    lengths = {stop - start for start, stop in blocks}
    return len(blocks) > 1 and len(lengths) == 1 and len(set(np.diff([b[0] for b in blocks]))) == 1


def _is_garbage(sides: Sides, rest: np.ndarray, start: int, stop: int) -> bool:
    """Whether one side of a block is far beyond all other values, and no multiple of the other."""
    blocks = [one.reshape(-1)[start:stop] for one in (sides.left, sides.right)]
    if not all(np.isfinite(one).all() for one in blocks):
        return False
    largest = float(np.abs(sides.right.reshape(-1)[rest]).max(initial=0.0))
    size = max(float(np.median(np.abs(one))) for one in blocks)
    chance = CHANCE_SIGMAS / math.sqrt(stop - start)
    return size > FAR_OFF * largest and abs(correlation(*blocks)) < chance


def _flipped_bit(sides: Sides) -> list[Suspicion]:
    """One element differs, by one bit of its exponent or the first of its significand."""
    with np.errstate(invalid="ignore"):
        unequal = (sides.left != sides.right) & ~(np.isnan(sides.left) & np.isnan(sides.right))
    places = np.flatnonzero(unequal)
    if len(places) != 1:
        return []
    place, stored = int(places[0]), (sides.tensor.left, sides.tensor.right)
    elements = [one.reshape(-1)[place : place + 1] for one in stored if one is not None]
    if elements[0].dtype.kind != "f":
        return []
    width = elements[0].dtype.itemsize
    one, other = (int(element.view(f"u{width}")[0]) for element in elements)
    bit = (one ^ other).bit_length() - 1
    values = float(sides.left.reshape(-1)[place]), float(sides.right.reshape(-1)[place])
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


def _content(flat: np.ndarray, start: int, stop: int) -> str:
    block = flat[start:stop]
    if (block == block[0]).all():
        return Message("evidence.all_of", value=float(block[0]))
    # Stale data: the block is found elsewhere in the same tensor.
    first = np.flatnonzero(flat[: flat.size - len(block) + 1] == block[0])
    for place in first[:64].tolist():
        if place != start and np.array_equal(flat[place : place + len(block)], block):
            return Message("evidence.block_copied", place=place)
    return ""
