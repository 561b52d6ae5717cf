"""Where in a tensor the error sits: axis profiles, tile maxima, worst elements.

A second pass over the few tensors that are shown in detail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.locate_loop import LocateLoop
from troubleshooter_nb.metrics.pairwise import absolute_errors
from troubleshooter_nb.metrics.partial import tree_sum
from troubleshooter_nb.metrics.places import (
    LEAF,
    WORST,
    AxisSums,
    Places,
)
from troubleshooter_nb.metrics.summary import magnitudes
from troubleshooter_nb.thresholds import (
    LARGEST_PLACE,
    LOCATE_BLOCK,
    LOCATE_RUN,
    MOST_INDICES_KEPT,
)

_LARGEST = float(np.finfo(np.float64).max)

Read = Callable[[int, int], np.ndarray]
Way = Literal["compiled", "portable", "numpy"]


@dataclass(frozen=True)
class Location:
    """Where the error of one pair sits.

    Attributes
    ----------
    rows, columns : int
        The two-dimensional view of the tensor used for the tiles: leading axes are the rows,
        trailing axes the columns, cut where the view is closest to the shape of a screen.
    tile_max : ndarray of float64, shape (at most 64, at most 128)
        Largest |left - right| of each tile over elements finite on both sides, so that no outlier
        can vanish; of complex numbers the modulus. The distance of two float64 extremes counts as
        the largest float64.
    tile_mismatch : ndarray of int64, same shape
        Elements of each tile that are NaN or Inf on one side, and not the same on the other.
    profiles : tuple of ndarray of float64, one per axis, shape (length of the axis,)
        Sum of squared error at each index; axes longer than 2**20 are summed into equal bins.
        Divided by one power of 4 where squares of the values would leave float64's range.
    worst_index : ndarray of int64, shape (at most 8,)
        Flat indices of the largest |left - right|, NaN and Inf mismatches first; ties go to the
        lower index.
    worst_error : ndarray of float64, same shape
        |left - right| there, of complex numbers the modulus; inf for a mismatch.
    worst_left, worst_right : ndarray, same shape
        The values there (moduli of complex numbers).
    left_histogram, right_histogram : ndarray of int64, shape (10,)
        Counts in equal bins from `value_range`; a value on an edge counts in the bin that begins
        there, finite values outside in the first or last.
    value_range : tuple of float
        Smallest and largest finite value of both sides.
    """

    rows: int
    columns: int
    tile_max: np.ndarray
    tile_mismatch: np.ndarray
    profiles: tuple[np.ndarray, ...]
    worst_index: np.ndarray
    worst_error: np.ndarray
    worst_left: np.ndarray
    worst_right: np.ndarray
    left_histogram: np.ndarray
    right_histogram: np.ndarray
    value_range: tuple[float, float]


def locate(
    read_left: Read,
    read_right: Read,
    shape: tuple[int, ...],
    value_range: tuple[float, float],
    *,
    dtypes: tuple[np.dtype, np.dtype] | None = None,
    block: int = LOCATE_BLOCK,
    way: Way = "compiled",
) -> Location:
    """Find where two tensors of the same shape differ.

    Parameters
    ----------
    read_left, read_right : callable
        ``read(start, stop)`` gives the stored values of a flat range, shape (stop - start,).
    shape : tuple of int
        Shape of both; no axis may be 0.
    value_range : tuple of float
        Smallest and largest finite value of the two, for the histograms.
    dtypes : tuple of dtype, optional
        As stored, where both are the `read` of an `ArraySource`, which take memory to read into.
    block : int, elements
        Elements that are added up at a time; a row of the two-dimensional view is never split
        unless it is longer than that. Another number may change the last bits of the profiles.
    way : "compiled", "portable" or "numpy"
        The compiled loop where there is one, the same without AVX-512, or numpy alone. All give
        the same bits; complex numbers and pairs of 64-bit integers are left to numpy.

    Raises
    ------
    ValueError
        If there are no elements.

    Notes
    -----
    Only what is read at once, profiles of at most 2**20 numbers, the tiles and a few candidates
    are kept in memory.
    """
    if 0 in shape:
        raise ArgumentError(Message("arguments.no_element", shape=shape))
    cut = split_axis(shape)
    found = Places(AxisSums(shape[:cut]), AxisSums(shape[cut:]), value_range)
    loop = None if way == "numpy" else LocateLoop.of(found, block, portable=way == "portable")
    # A read of a source opens its file again.
    most = block if dtypes is None else max(block, LOCATE_RUN)
    reads = [_reading(read, dtypes and dtypes[i]) for i, read in enumerate((read_left, read_right))]
    # A signalling NaN warns at every touch, and what leaves float64's range is inf on purpose.
    with np.errstate(all="ignore"):
        for start, stop, step in _runs(found.rows, found.columns, block, most):
            left, right = (read(start, stop) for read in reads)
            if loop and loop.add(start, left, right, step):
                continue
            for at in range(0, stop - start, step):
                _add_block(found, start + at, left[at : at + step], right[at : at + step])
    return _location(found)


def split_axis(shape: tuple[int, ...]) -> int:
    """How many leading axes become rows so that the 2-D view is about twice as wide as high."""
    if len(shape) < 2:
        return 0
    heights = np.cumprod((1, *shape[:-1]), dtype=np.float64)[1:]
    widths = np.prod(np.asarray(shape, np.float64)) / heights
    return 1 + int(np.argmin(np.abs(np.log(widths / heights / 2.0))))


def concentrated_range(profile: np.ndarray, share: float = 0.99) -> tuple[int, int]:
    """Shortest contiguous index range that holds `share` of a profile's sum.

    Returns
    -------
    tuple of int
        Half-open ``(start, stop)``; of equally short ranges the first. The whole axis when the
        profile is all zero.
    """
    cumulated = np.concatenate([[0.0], np.cumsum(profile)])
    if not 0 < cumulated[-1] < np.inf:
        return 0, len(profile)
    cumulated /= cumulated[-1]
    # What begins further on does not hold the share: of 2**20 indices that is often nearly all.
    before = cumulated[: np.searchsorted(cumulated, 1.0 - share + 1e-9, side="right")]
    # The tiny allowance keeps rounding of the cumulated sum from lengthening an exact range.
    stops = np.searchsorted(cumulated, before + share - 1e-12)
    lengths = np.where(stops < len(cumulated), stops - np.arange(len(before)), len(profile) + 1)
    start = int(np.argmin(lengths))
    return start, int(stops[start])


def scattered_indices(profile: np.ndarray, share: float = 0.99) -> np.ndarray:
    """Fewest indices that hold `share` of a profile's sum, where they are no range of indices.

    Returns
    -------
    ndarray of int, shape (n,)
        In ascending order, of equal ones the first; empty where they are a range, more than half of
        the profile, or too many to be told from each other, and where it is all zero or not finite.
    """
    total = float(profile.sum())
    if not 0 < total < np.inf:
        return np.zeros(0, np.int64)
    order = np.argsort(-profile, kind="stable")
    count = int(np.searchsorted(np.cumsum(profile[order]), share * total * (1.0 - 1e-12))) + 1
    held = np.sort(order[:count])
    is_place = count <= min(LARGEST_PLACE * len(profile), MOST_INDICES_KEPT)
    return held if is_place and held[-1] + 1 - held[0] > count else held[:0]


def _reading(read: Any, dtype: np.dtype | None) -> Read:
    """The read of one side, into the same memory every time where a dtype is given."""
    if dtype is None:
        return cast(Read, read)
    memory = np.empty(LOCATE_RUN, dtype)

    def reused(start: int, stop: int) -> np.ndarray:
        count = stop - start
        into = memory[:count] if count <= len(memory) else None
        return cast(np.ndarray, read(start, stop, into))

    return reused


def _runs(rows: int, columns: int, block: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Flat ranges read at once, of about `most` elements, and the step of their blocks.

    A block is of whole rows, or of a part of one where a row exceeds the block.
    """
    whole = columns <= block
    step = block // columns * columns if whole else block
    length = most // step * step
    for first, last in [(0, rows * columns)] if whole else _rows(rows, columns):
        for start in range(first, last, length):
            yield start, min(start + length, last), step


def _rows(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    return ((row * columns, (row + 1) * columns) for row in range(rows))


def _add_block(found: Places, start: int, left: np.ndarray, right: np.ndarray) -> None:
    """What `LocateLoop.add` does with each block, with numpy."""
    row, column = divmod(start, found.columns)
    left, right = computable(left), computable(right)
    width = min(len(left), found.columns)
    wide_left, wide_right = magnitudes(left), magnitudes(right)
    errors = absolute_errors(left, right, wide_left, wide_right)
    finite = np.isfinite(wide_left) & np.isfinite(wide_right)
    mismatch = np.zeros(0, bool)
    if not finite.all():
        same = (left == right) | (np.isnan(wide_left) & np.isnan(wide_right))
        mismatch = ~(finite | same)
        errors = np.where(finite, errors, 0.0)
    np.minimum(errors, _LARGEST, out=errors)
    ranked = np.where(mismatch, np.inf, errors) if len(mismatch) else errors
    _add_worst(found, start, ranked, wide_left, wide_right)
    _add_histogram(found, 0, left, wide_left)
    _add_histogram(found, 1, right, wide_right)
    grid = errors.reshape(-1, width)
    _add_tiles(found, row, column, grid, np.maximum, found.tile_max)
    if mismatch.any():
        counts = mismatch.reshape(-1, width).astype(np.int64)
        _add_tiles(found, row, column, counts, np.add, found.tile_mismatch)
    squares = np.square(np.ldexp(grid, -found.exponent) if found.exponent else grid)
    found.row_sums.add(row, _row_sums(squares))
    found.column_sums.add(column, _column_sums(squares))


def _row_sums(squares: np.ndarray) -> np.ndarray:
    """Leaves of 128 columns as numpy adds them, leaves along a tree, then what is left over."""
    rows, width = squares.shape
    whole = width // LEAF
    leaves = squares[:, : whole * LEAF].reshape(rows, whole, LEAF).sum(axis=2)
    return np.asarray(tree_sum(leaves) + squares[:, whole * LEAF :].sum(axis=1))


def _column_sums(squares: np.ndarray) -> np.ndarray:
    """Row after row; a single column, which numpy would add pairwise, too."""
    return np.asarray(squares.sum(axis=0) if squares.shape[1] > 1 else np.cumsum(squares)[-1:])


def _add_worst(
    found: Places, start: int, errors: np.ndarray, left: np.ndarray, right: np.ndarray
) -> None:
    floor = found.worst_error[-1] if found.worst_count == WORST else 0.0
    at = np.flatnonzero(errors > floor)
    if len(at) > WORST:
        # All that reach the WORST-th largest, then a stable sort: ties keep the lower index.
        limit = np.partition(errors[at], -WORST)[-WORST]
        at = at[errors[at] >= limit]
        at = at[np.argsort(-errors[at], kind="stable")[:WORST]]
    if len(at):
        found.add_worst(errors[at], start + at, left[at], right[at])


def _add_histogram(found: Places, side: int, values: np.ndarray, wide: np.ndarray) -> None:
    edges = found.edges
    if values.dtype == np.float32:  # half the memory to go through
        wide, edges = values, found.float_edges
    finite = np.count_nonzero(np.isfinite(wide))
    infinite = np.count_nonzero(wide == np.inf) if finite < len(wide) else 0
    above = [np.count_nonzero(wide >= edge) - infinite for edge in edges]
    found.histograms[side] -= np.diff([finite, *above, 0])


def _add_tiles(
    found: Places,
    row: int,
    column: int,
    values: np.ndarray,
    reduce: np.ufunc,
    tiles: np.ndarray,
) -> None:
    row_tiles = (np.arange(row, row + len(values)) * tiles.shape[0]) // found.rows
    span = np.arange(column, column + values.shape[1])
    column_tiles = (span * tiles.shape[1]) // found.columns
    row_starts = np.flatnonzero(np.diff(row_tiles, prepend=-1))
    column_starts = np.flatnonzero(np.diff(column_tiles, prepend=-1))
    reduced = reduce.reduceat(reduce.reduceat(values, row_starts, axis=0), column_starts, axis=1)
    where = np.ix_(row_tiles[row_starts], column_tiles[column_starts])
    tiles[where] = reduce(tiles[where], reduced)


def _location(found: Places) -> Location:
    count = found.worst_count
    counted = bool(np.isfinite(found.value_range).all())
    return Location(
        rows=found.rows,
        columns=found.columns,
        tile_max=found.tile_max,
        tile_mismatch=found.tile_mismatch,
        profiles=found.row_sums.profiles() + found.column_sums.profiles(),
        worst_index=found.worst_index[:count],
        worst_error=found.worst_error[:count],
        worst_left=found.worst_left[:count],
        worst_right=found.worst_right[:count],
        left_histogram=found.histograms[0] * counted,
        right_histogram=found.histograms[1] * counted,
        value_range=found.value_range,
    )
