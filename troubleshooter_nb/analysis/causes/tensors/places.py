"""Where in a tensor the elements lie that differ, and causes that a place alone gives away."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of, norm_of, transform

_ALIGNED = 32  # bytes: the least that devices move at once
_MOST_BLOCKS = 4
_FULL = 0.9  # share of a block that has to differ
_POSITIONS = re.compile(r"pos|rotary|rope|freq|wpe", re.IGNORECASE)
_VOCABULARY = re.compile(
    r"emb|wte|tok|vocab|lm_head|head|output|decoder|logits|classifier|predictions", re.IGNORECASE
)


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
    """memory_corruption: aligned blocks of memory differ, everything else is equal to the bit.

    Blocks that are whole rows, or the first or last part of each row, have other causes.
    """
    twin = sides.twin
    if not sides.same_shape or sides.left.size < 256 or twin.dtypes[0] != twin.dtypes[1]:
        return []
    left, right = sides.left.reshape(-1), sides.right.reshape(-1)
    unequal = np.flatnonzero((left != right) & ~(np.isnan(left) & np.isnan(right)))
    if len(unequal) < 8 or len(unequal) > left.size // 2:
        return []
    itemsize = twin.dtypes[0].itemsize if twin.dtypes[0] else 4
    blocks = _aligned_blocks(unequal, itemsize)
    if not blocks or any(_is_structural(start, stop, sides.left.shape) for start, stop in blocks):
        return []
    rest = np.ones(left.size, bool)
    for start, stop in blocks:
        rest[start:stop] = False
    if error_of(left[rest], right[rest]) != 0.0:
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
    return [sides.suspicion("memory_corruption", 0.0, evidence, fitted=2 * len(blocks))]


def detect_vocabulary(sides: Sides) -> list[Suspicion]:
    """vocab_padding: tables of other lengths whose common rows are equal."""
    left, right = sides.left, sides.right
    fits = left.ndim == right.ndim and left.ndim in (1, 2) and left.shape[1:] == right.shape[1:]
    if not fits or len(left) == len(right) or sides.twin.role not in ("", "parameter"):
        return []
    name = sides.twin.name
    if not _VOCABULARY.search(name) or _POSITIONS.search(name):
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
    if len(runs) > _MOST_BLOCKS or counts.sum() < _FULL * piece * len(pieces):
        return []
    # The first and the last piece are full, too: the ends of the block are aligned.
    ends = {int(run[0]) for run in runs} | {int(run[-1]) for run in runs}
    if min(int(counts[np.searchsorted(pieces, end)]) for end in ends) < 0.75 * piece:
        return []
    return [(int(run[0]) * piece, (int(run[-1]) + 1) * piece) for run in runs]


def _is_structural(start: int, stop: int, shape: tuple[int, ...]) -> bool:
    """Whether a block is whole slabs of some axis, or begins or ends where a row does."""
    size = math.prod(shape)
    if start == 0 or stop >= size:
        return True
    for axis in range(1, len(shape)):
        slab = math.prod(shape[axis:])
        if slab > 1 and (start % slab == 0 or stop % slab == 0):
            return True
    return False


def _content(flat: np.ndarray, start: int, stop: int) -> str:
    block = flat[start:stop]
    if (block == block[0]).all():
        return f"all {float(block[0]):g}"
    # Stale data: the block is found elsewhere in the same tensor.
    first = np.flatnonzero(flat[: flat.size - len(block) + 1] == block[0])
    for place in first[:64].tolist():
        if place != start and np.array_equal(flat[place : place + len(block)], block):
            return f"a copy of the block at element {place}"
    return ""
