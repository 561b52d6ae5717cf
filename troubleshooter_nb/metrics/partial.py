"""Figures of a part of a tensor that merge into the figures of the whole, always the same way.

A tensor is cut into blocks of `FIGURES_BLOCK` elements and the blocks are merged along a binary
tree that depends on their number alone. Who computes which block, and in which order they arrive,
cannot change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message

_NO_EXPONENT = -(1 << 20)

# Errors are counted by the power of two they lie in; smaller and larger ones count at the ends.
EXPONENTS = range(-64, 32)
# Where each bin starts among the 2048 exponent fields of float64.
_FIELDS = np.array([0, *(e + 1023 for e in EXPONENTS[1:])])
_PIECE = 1 << 16
ROW = 1 << 13  # elements that `pairwise_sum` leaves to numpy at a time


@dataclass(frozen=True, slots=True)
class Partial:
    """Counts, scaled sums, maxima and a histogram over a contiguous run of elements.

    A sum is ``mantissas * 2**exponents``: squares of float64 values near 1e200 neither overflow nor
    vanish. A maximum keeps the flat index of its first occurrence; minima are kept as maxima of
    the negated values. `masks` are bits seen anywhere (or-ed).
    """

    counts: np.ndarray
    mantissas: np.ndarray
    exponents: np.ndarray
    maxima: np.ndarray
    positions: np.ndarray
    masks: np.ndarray
    histogram: np.ndarray

    def merge(self, after: Partial) -> Partial:
        """Figures of this run followed by the run `after`."""
        exponents = np.maximum(
            np.where(self.mantissas == 0, _NO_EXPONENT, self.exponents),
            np.where(after.mantissas == 0, _NO_EXPONENT, after.exponents),
        )
        exponents = np.where(exponents == _NO_EXPONENT, 0, exponents)
        with np.errstate(over="ignore"):  # a sum beyond float64's range is inf
            mantissas = np.ldexp(self.mantissas, self.exponents - exponents) + np.ldexp(
                after.mantissas, after.exponents - exponents
            )
        later = after.maxima > self.maxima
        return Partial(
            self.counts + after.counts,
            mantissas,
            exponents,
            np.where(later, after.maxima, self.maxima),
            np.where(later, after.positions, self.positions),
            self.masks | after.masks,
            self.histogram + after.histogram,
        )


@dataclass(frozen=True, slots=True)
class Partials:
    """n partials of pairs (`metrics.pairwise`) as columns, one row each.

    The columns of `empty` are views of one array, one behind the other: the compiled loop fills
    them from the address of the first.

    Parameters
    ----------
    counts : ndarray of int64, shape (n, 14)
    mantissas : ndarray of float64, shape (n, 12)
    exponents : ndarray of int64, shape (n, 12)
    maxima : ndarray of float64, shape (n, 7)
    positions : ndarray of int64, shape (n, 7)
    masks : ndarray of uint64, shape (n, 2)
    histogram : ndarray of int64, shape (n, 96)
    """

    counts: np.ndarray
    mantissas: np.ndarray
    exponents: np.ndarray
    maxima: np.ndarray
    positions: np.ndarray
    masks: np.ndarray
    histogram: np.ndarray

    @classmethod
    def empty(cls, count: int) -> Partials:
        """`count` partials of no elements each."""
        memory = np.zeros(count * sum(width for _, width, _ in _COLUMNS), np.int64)
        columns, start = {}, 0
        for name, width, kind in _COLUMNS:
            stop = start + count * width
            columns[name] = memory[start:stop].view(kind).reshape(count, width)
            start = stop
        columns["maxima"][...] = -np.inf
        columns["positions"][...] = -1
        return cls(**columns)

    def __len__(self) -> int:
        return len(self.counts)

    def at(self, row: int) -> Partial:
        """One of them; its arrays are views of the columns."""
        return Partial(**{name: getattr(self, name)[row] for name, _, _ in _COLUMNS})

    def put(self, row: int, partial: Partial) -> None:
        """Overwrite one row."""
        for name, _, _ in _COLUMNS:
            getattr(self, name)[row] = getattr(partial, name)

    def put_rows(self, rows: np.ndarray, others: Partials) -> None:
        """Overwrite the rows of these indices, shape (m,), with m others."""
        for name, _, _ in _COLUMNS:
            getattr(self, name)[rows] = getattr(others, name)


# name, length and dtype of the columns of pairs, in the order of the C file
_COLUMNS = (
    ("counts", 14, np.int64),
    ("mantissas", 12, np.float64),
    ("exponents", 12, np.int64),
    ("maxima", 7, np.float64),
    ("positions", 7, np.int64),
    ("masks", 2, np.uint64),
    ("histogram", len(EXPONENTS), np.int64),
)


def merge_tree(partials: Iterable[Partial]) -> Partial:
    """Merge consecutive partials of equal size (the last may be shorter) along the fixed tree.

    A run of ``2**k`` blocks that starts at a multiple of ``2**k`` is a whole branch of the tree,
    so it may be merged elsewhere first and passed here as one partial, provided that all others
    but the last are of that size too.

    Raises
    ------
    ValueError
        If there is nothing to merge; an empty tensor is one partial of no elements.
    """
    branches: list[tuple[int, Partial]] = []
    for partial in partials:
        height, branch = 0, partial
        while branches and branches[-1][0] == height:
            branch = branches.pop()[1].merge(branch)
            height += 1
        branches.append((height, branch))
    if not branches:
        raise ArgumentError(Message("arguments.no_partial"))
    merged = branches.pop()[1]
    while branches:
        merged = branches.pop()[1].merge(merged)
    return merged


def workspace(rows: int, length: int) -> np.ndarray:
    """Uninitialised float64 rows for intermediate values of one block.

    One allocation, because the C library gives several smaller ones back to the system after every
    block, and the page faults of the next block cost more than its arithmetic. The rows lie a
    little apart: numpy 1 takes three times as long between addresses that are equal modulo 4096.
    """
    return np.empty((rows, length + 8))[:, :length]


def pairwise_sum(values: np.ndarray) -> float:
    """Sum of float64 values, shape (n,), in an order that no CPU and no numpy release changes.

    Rows of 8,192 elements are summed by numpy: pairwise, in leaves of 128 with 8 accumulators each.
    The rows are summed along a binary tree, as releases of numpy do it or do not do it. A BLAS dot
    product would depend on the CPU.
    """
    rows = len(values) // ROW
    if not rows:
        return float(np.add.reduce(values))
    sums = np.add.reduce(values[: rows * ROW].reshape(rows, ROW), axis=1)
    return float(tree_sum(sums) + np.add.reduce(values[rows * ROW :]))


def tree_sum(values: np.ndarray) -> np.ndarray:
    """Sums along the last axis, neighbours first, as `merge_tree` merges; shape (...) of (..., n).

    An odd one at the end waits for the next round. No values at all give shape (..., 0) back as 0.
    """
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1])
    while values.shape[-1] > 1:
        even = values.shape[-1] // 2 * 2
        pairs = values[..., 0:even:2] + values[..., 1:even:2]
        values = np.append(pairs, values[..., even:], axis=-1)
    return np.asarray(values[..., 0])


def scale_exponent(largest: float) -> int:
    """Power of two to divide by before squaring; 0 unless squares could overflow or vanish."""
    if largest == 0.0 or 2.0**-400 < largest < 2.0**400 or not np.isfinite(largest):
        return 0
    return int(np.frexp(largest)[1])


def exponent_histogram(
    magnitudes: np.ndarray, scratch: np.ndarray | None = None
) -> tuple[np.ndarray, int]:
    """How many float64 magnitudes lie in each power of two of `EXPONENTS`, and how many are 0.

    Parameters
    ----------
    magnitudes : ndarray of float64, shape (n,), >= 0
        inf counts as larger than all.
    scratch : ndarray of float64, shape (n,), optional
        Memory to overwrite.

    Returns
    -------
    ndarray of int64, shape (96,)
        Counts of ``2**e <= x < 2**(e + 1)``; what lies outside is counted in the first or last.
    int
        Zeros, which are in no bin.
    """
    if scratch is None:
        scratch = np.empty(min(len(magnitudes), _PIECE))
    biased = np.zeros(2048, np.int64)
    # In pieces, because np.bincount alone here keeps other threads waiting.
    for start in range(0, len(magnitudes), _PIECE):
        bits = magnitudes[start : start + _PIECE].view(np.int64)
        fields = np.right_shift(bits, 52, out=scratch[: len(bits)].view(np.int64))
        biased += np.bincount(fields, minlength=2048)
    # Exponent field 0 holds zeros and subnormals alike; subnormals are the rare case.
    zeros = int(biased[0]) and int(np.count_nonzero(magnitudes == 0.0))
    biased[0] -= zeros
    return bins_of_fields(biased), zeros


def bins_of_fields(fields: np.ndarray) -> np.ndarray:
    """Counts per exponent field of float64, shape (2048,), regrouped into `EXPONENTS`."""
    return np.add.reduceat(fields, _FIELDS)
