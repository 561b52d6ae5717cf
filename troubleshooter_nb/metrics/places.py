"""What `locate` knows so far: arrays that numpy and the compiled loop fill alike."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from troubleshooter_nb.metrics.partial import scale_exponent
from troubleshooter_nb.thresholds import LONGEST_PROFILE

TILE_ROWS, TILE_COLUMNS = 64, 128
WORST = 8
VALUE_BINS = 10
LEAF = 128  # columns whose squared errors are added up by 8 accumulators


class AxisSums:
    """Sums along each of some consecutive axes, fed by runs of their common flat index.

    Parameters
    ----------
    shape : tuple of int

    Attributes
    ----------
    size : int
    axes : list of tuple
        What is filled: an array of float64, shape (bins,), the length that its bins are equal
        parts of, and the elements from one index of that to the next.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size = shape, math.prod(shape)
        self.axes: list[tuple[np.ndarray, int, int]] = []
        if self.size <= LONGEST_PROFILE:
            # A small space is kept whole and summed at the end.
            self.axes.append((np.zeros(self.size), self.size, 1))
            return
        inner = self.size
        for length in shape:
            inner //= length
            self.axes.append((np.zeros(min(length, LONGEST_PROFILE)), length, inner))

    def add(self, start: int, sums: np.ndarray) -> None:
        """Add a run of sums, shape (n,), that begins at a flat index."""
        for profile, length, inner in self.axes:
            if len(profile) == self.size:
                profile[start : start + len(sums)] += sums
            else:
                _add_to_axis(profile, length, inner, sums, start)

    def profiles(self) -> tuple[np.ndarray, ...]:
        """The sums of each axis, shape (its length or 2**20,)."""
        if self.size > LONGEST_PROFILE:
            return tuple(profile for profile, _, _ in self.axes)
        grid = self.axes[0][0].reshape(self.shape)
        axes = range(grid.ndim)
        return tuple(grid.sum(axis=tuple(k for k in axes if k != axis)) for axis in axes)


def _add_to_axis(
    profile: np.ndarray, length: int, inner: int, sums: np.ndarray, start: int
) -> None:
    """Neighbours of one bin are added up first."""
    index = np.arange(start // inner, (start + len(sums) - 1) // inner + 1)
    bins = index % length * len(profile) // length
    if inner > 1:
        bins = np.repeat(bins, inner)[start % inner :][: len(sums)]
    is_first = np.diff(bins, prepend=-1) != 0
    added = np.bincount(np.cumsum(is_first) - 1, weights=sums)
    np.add.at(profile, bins[is_first], added)


class Places:
    """Tiles, worst elements and histograms of two tensors, as far as they were looked at.

    Parameters
    ----------
    row_sums, column_sums : AxisSums
        Of the axes that are rows and columns of the two-dimensional view.
    value_range : tuple of float
        Smallest and largest finite value of both sides.

    Attributes
    ----------
    exponent : int
        Errors are divided by this power of two before they are squared.
    edges : ndarray of float64, shape (9,)
        Smallest value of each bin of the histograms but the first.
    float_edges : ndarray of float32, shape (9,)
        The smallest float32 of each.
    tile_max, tile_mismatch, worst_error, worst_index, worst_left, worst_right : ndarray
        As in `metrics.locate.Location`; of the worst, only `worst_count` are set.
    histograms : ndarray of int64, shape (2, 10)
    """

    def __init__(
        self, row_sums: AxisSums, column_sums: AxisSums, value_range: tuple[float, float]
    ) -> None:
        self.row_sums, self.column_sums, self.value_range = row_sums, column_sums, value_range
        self.rows, self.columns = row_sums.size, column_sums.size
        self.exponent = scale_exponent(max(map(abs, value_range)))
        self.edges = bin_edges(*value_range)
        self.float_edges = _rounded_up(self.edges)
        tiles = min(self.rows, TILE_ROWS), min(self.columns, TILE_COLUMNS)
        self.tile_max = np.zeros(tiles)
        self.tile_mismatch = np.zeros(tiles, np.int64)
        self.histograms = np.zeros((2, VALUE_BINS), np.int64)
        self.worst_count = 0
        self.worst_error, self.worst_left, self.worst_right = np.zeros((3, WORST))
        self.worst_index = np.zeros(WORST, np.int64)

    def add_worst(
        self, errors: np.ndarray, index: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> None:
        """Rank some more elements among the worst; all shape (n,)."""
        known = self.worst_count
        columns = (
            (self.worst_error, errors),
            (self.worst_index, index),
            (self.worst_left, left),
            (self.worst_right, right),
        )
        joined = [np.concatenate([kept[:known], more]) for kept, more in columns]
        order = np.lexsort((joined[1], -joined[0]))[:WORST]
        self.worst_count = len(order)
        for (kept, _), values in zip(columns, joined, strict=True):
            kept[: len(order)] = values[order]


def bin_edges(low: float, high: float) -> np.ndarray:
    """Smallest float64 at or above each edge between 10 equal bins; inf where there are none.

    Exact, so that counting the values at or above an edge is all that a histogram needs.
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return np.full(VALUE_BINS - 1, np.inf)
    start, span = Fraction(low), Fraction(high) - Fraction(low)
    return np.array([_ceiling(start + span * k / VALUE_BINS) for k in range(1, VALUE_BINS)])


def _ceiling(exact: Fraction) -> float:
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def _rounded_up(edges: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        near = edges.astype(np.float32)
        return np.where(near < edges, np.nextafter(near, np.float32(np.inf)), near)
