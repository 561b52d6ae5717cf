"""Where in a tensor the error sits: axis profiles, tile maxima, worst elements.

A second pass over the few tensors that are shown in detail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.pairwise import absolute_errors
from troubleshooter_nb.metrics.partial import scale_exponent
from troubleshooter_nb.metrics.summary import magnitudes
from troubleshooter_nb.thresholds import LOCATE_BLOCK, LONGEST_PROFILE

TILE_ROWS, TILE_COLUMNS = 64, 128
WORST = 8
VALUE_BINS = 10
_LARGEST = float(np.finfo(np.float64).max)

Read = Callable[[int, int], np.ndarray]


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
        Equal bins from `value_range`; finite values outside count in the first or last.
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
    block: int = LOCATE_BLOCK,
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
    block : int, elements
        Elements in memory at a time; a row of the two-dimensional view is never split unless it
        is longer than that.

    Raises
    ------
    ValueError
        If there are no elements.

    Notes
    -----
    Only profiles of at most 2**20 numbers, the tiles and a few candidates are kept in memory.
    """
    if 0 in shape:
        raise ArgumentError(Message("arguments.no_element", shape=shape))
    cut = split_axis(shape)
    rows = int(np.prod(shape[:cut], dtype=np.int64))
    columns = int(np.prod(shape[cut:], dtype=np.int64))
    collector = _Collector(_AxisSums(shape[:cut]), _AxisSums(shape[cut:]), value_range)
    # A signalling NaN warns at every touch, and what leaves float64's range is inf on purpose.
    with np.errstate(all="ignore"):
        for start, stop in _ranges(rows, columns, block):
            left, right = computable(read_left(start, stop)), computable(read_right(start, stop))
            collector.add(start, left, right)
    return collector.location()


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
    # The tiny allowance keeps rounding of the cumulated sum from lengthening an exact range.
    stops = np.searchsorted(cumulated, cumulated + share - 1e-12)
    lengths = np.where(stops < len(cumulated), stops - np.arange(len(cumulated)), len(profile) + 1)
    start = int(np.argmin(lengths))
    return start, int(stops[start])


def _ranges(rows: int, columns: int, block: int) -> Iterator[tuple[int, int]]:
    """Flat ranges of whole rows, or of parts of a row where one row exceeds the block."""
    if columns <= block:
        step = block // columns * columns
        for start in range(0, rows * columns, step):
            yield start, min(start + step, rows * columns)
        return
    for row in range(rows):
        for start in range(0, columns, block):
            yield row * columns + start, row * columns + min(start + block, columns)


class _AxisSums:
    """Sums along each of some consecutive axes, fed by runs of their common flat index."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.size = math.prod(shape)
        small = self.size <= LONGEST_PROFILE
        # A small space is kept whole and summed at the end; a large one is summed as it comes.
        self._whole = np.zeros(self.size) if small else None
        self._axes = [] if small else [np.zeros(min(n, LONGEST_PROFILE)) for n in shape]

    def add(self, start: int, sums: np.ndarray) -> None:
        if self._whole is not None:
            self._whole[start : start + len(sums)] += sums
            return
        inner = np.arange(start, start + len(sums))
        for length, profile in zip(self.shape[::-1], self._axes[::-1], strict=True):
            inner, index = np.divmod(inner, length)
            np.add.at(profile, index * len(profile) // length, sums)

    def profiles(self) -> tuple[np.ndarray, ...]:
        if self._whole is None:
            return tuple(self._axes)
        grid = self._whole.reshape(self.shape)
        axes = range(grid.ndim)
        return tuple(grid.sum(axis=tuple(k for k in axes if k != axis)) for axis in axes)


class _Collector:
    def __init__(
        self, rows: _AxisSums, columns: _AxisSums, value_range: tuple[float, float]
    ) -> None:
        self.row_sums, self.column_sums = rows, columns
        self.rows, self.columns, self.value_range = rows.size, columns.size, value_range
        self.exponent = scale_exponent(max(map(abs, value_range)))
        tiles = min(self.rows, TILE_ROWS), min(self.columns, TILE_COLUMNS)
        self.tile_max = np.zeros(tiles)
        self.tile_mismatch = np.zeros(tiles, np.int64)
        self.histograms = [np.zeros(VALUE_BINS, np.int64), np.zeros(VALUE_BINS, np.int64)]
        self.worst: list[tuple[float, int, float, float]] = []

    def add(self, start: int, left: np.ndarray, right: np.ndarray) -> None:
        row, column = divmod(start, self.columns)
        width = min(len(left), self.columns)
        wide_left, wide_right = magnitudes(left), magnitudes(right)
        errors = absolute_errors(left, right, wide_left, wide_right)
        finite = np.isfinite(wide_left) & np.isfinite(wide_right)
        same = (left == right) | (np.isnan(wide_left) & np.isnan(wide_right))
        mismatch = ~(finite | same)
        errors = np.where(finite, np.minimum(errors, _LARGEST), 0.0)
        self._add_worst(start, np.where(mismatch, np.inf, errors), wide_left, wide_right)
        self._add_histogram(0, wide_left)
        self._add_histogram(1, wide_right)
        grid = errors.reshape(-1, width)
        self._add_tiles(row, column, grid, np.maximum, self.tile_max)
        if mismatch.any():
            counts = mismatch.reshape(-1, width).astype(np.int64)
            self._add_tiles(row, column, counts, np.add, self.tile_mismatch)
        squares = np.square(np.ldexp(grid, -self.exponent) if self.exponent else grid)
        self.row_sums.add(row, squares.sum(axis=1))
        self.column_sums.add(column, squares.sum(axis=0))

    def _add_worst(
        self, start: int, errors: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> None:
        floor = self.worst[-1][0] if len(self.worst) == WORST else 0.0
        found = np.flatnonzero(errors > floor)
        if len(found) > WORST:
            # All that reach the WORST-th largest, then a stable sort: ties keep the lower index.
            limit = np.partition(errors[found], -WORST)[-WORST]
            found = found[errors[found] >= limit]
            found = found[np.argsort(-errors[found], kind="stable")[:WORST]]
        rows = [(float(errors[i]), start + int(i), float(left[i]), float(right[i])) for i in found]
        self.worst = sorted(self.worst + rows, key=lambda row: (-row[0], row[1]))[:WORST]

    def _add_histogram(self, side: int, values: np.ndarray) -> None:
        low, high = self.value_range
        if not (np.isfinite(low) and np.isfinite(high)):
            return
        finite = np.isfinite(values)
        if not finite.all():
            values = values[finite]
        bins = np.zeros(len(values), np.int64)
        if high > low:
            # The distance of two float64 extremes overflows; halves of the smallest vanish.
            scale = 1.0 if np.isfinite(high - low) else 0.5
            position = values * scale
            position -= low * scale
            position /= high * scale - low * scale
            position *= VALUE_BINS
            bins = np.clip(position, 0, VALUE_BINS - 1, out=position).astype(np.int64)
        self.histograms[side] += np.bincount(bins, minlength=VALUE_BINS)

    def _add_tiles(
        self, row: int, column: int, values: np.ndarray, reduce: np.ufunc, tiles: np.ndarray
    ) -> None:
        row_tiles = (np.arange(row, row + len(values)) * tiles.shape[0]) // self.rows
        span = np.arange(column, column + values.shape[1])
        column_tiles = (span * tiles.shape[1]) // self.columns
        row_starts = np.flatnonzero(np.diff(row_tiles, prepend=-1))
        column_starts = np.flatnonzero(np.diff(column_tiles, prepend=-1))
        reduced = reduce.reduceat(
            reduce.reduceat(values, row_starts, axis=0), column_starts, axis=1
        )
        where = np.ix_(row_tiles[row_starts], column_tiles[column_starts])
        tiles[where] = reduce(tiles[where], reduced)

    def location(self) -> Location:
        return Location(
            rows=self.rows,
            columns=self.columns,
            tile_max=self.tile_max,
            tile_mismatch=self.tile_mismatch,
            profiles=self.row_sums.profiles() + self.column_sums.profiles(),
            worst_index=np.array([row[1] for row in self.worst], np.int64),
            worst_error=np.array([row[0] for row in self.worst], np.float64),
            worst_left=np.array([row[2] for row in self.worst], np.float64),
            worst_right=np.array([row[3] for row in self.worst], np.float64),
            left_histogram=self.histograms[0],
            right_histogram=self.histograms[1],
            value_range=self.value_range,
        )
