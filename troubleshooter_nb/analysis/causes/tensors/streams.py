"""All elements of tensors of any size, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import Budget
from troubleshooter_nb.dump import ArraySource, SizedByShape
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.ranges import Reading, Starts, read_in, reading, rows_of


def streamed(
    sources: Sequence[ArraySource],
    budget: Budget | None,
    *,
    width: int = 1,
    start: int = 0,
    size: int | None = None,
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Flat stored values of several tensors, block by block, with the place of the first.

    Parameters
    ----------
    sources : sequence of ArraySource
        Of as many elements, or of `size` at least.
    budget : Budget or None
        All of it must fit when the first block is asked for; a block counts when it is read.
    width : int
        Blocks hold whole rows of so many elements.
    start, size : int
        Where they begin, and how many elements are read of each; default all.

    Yields
    ------
    int, list of ndarray
        In dtypes numpy computes with; in memory that the next block overwrites.
    """
    stop = math.prod(sources[0].shape) if size is None else start + size
    if budget is not None:
        budget.require(len(sources) * (stop - start))
    step = max(thresholds.LARGE_BLOCK // width, 1) * width
    memory = [np.empty(min(step, max(stop - start, 0)), source.dtype) for source in sources]
    with ExitStack() as stack:
        opened = [stack.enter_context(reading(source)) for source in sources]
        for first in range(start, stop, step):
            parts = [one[: min(step, stop - first)] for one in memory]
            if budget is not None:
                budget.charge(sum(map(len, parts)))
            for part, source in zip(parts, opened, strict=True):
                read_in(part, source, first)
            yield first, [computable(part) for part in parts]


def mixed_bits(values: np.ndarray) -> np.ndarray:
    """A number for each float that the bits of no other one give but by chance; 0 and -0 are one.

    Sums of them, which may wrap around, tell whether two tensors hold the same values in any order.
    """
    return mixed((values + 0.0).view(f"u{values.dtype.itemsize}"))


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Another number of 64 bits for each whole number, as if drawn."""
    bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(29)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(32)
    return bits


class Charged:
    """A tensor what is read of which counts.

    Parameters
    ----------
    source : ArraySource
    budget : Budget or None
    opened : Reading, optional
        The source, opened for several ranges.
    """

    def __init__(
        self, source: ArraySource, budget: Budget | None, opened: Reading | None = None
    ) -> None:
        self.shape: tuple[int, ...] = source.shape
        self.dtype: np.dtype = source.dtype
        self._source, self._budget = source, budget
        self._opened: Reading = opened or source

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """As `ArraySource.read`."""
        if self._budget is not None:
            self._budget.charge(stop - start)
        return self._opened.read(start, stop, into)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """As `troubleshooter_nb.ranges.read_rows`; what lies between ranges counts for nothing."""
        if self._budget is not None:
            self._budget.charge(len(starts) * length)
        return rows_of(self._opened, self.dtype, starts, length)

    @contextmanager
    def opened(self) -> Iterator[Charged]:
        """The same while the file is open."""
        with reading(self._source) as opened:
            yield Charged(self._source, self._budget, opened)


@dataclass(frozen=True, eq=False)
class Reversed(SizedByShape):
    """An `ArraySource` of another one, reversed along an axis."""

    source: ArraySource
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """That of the source."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """That of the source."""
        return self.source.dtype

    def files(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.files()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat range; some around it are read as well where slabs are short."""
        size, after = self.shape[self.axis], math.prod(self.shape[self.axis + 1 :])
        period = size * after
        if period <= thresholds.LARGE_BLOCK:
            first, last = start // period * period, -(-stop // period) * period
            values = self.source.read(first, last).reshape(-1, size, after)[:, ::-1]
            return np.ascontiguousarray(values).reshape(-1)[start - first : stop - first]
        parts = []
        for slab in range(start // after, -(-stop // after)):
            # Where this slab lies in the source, and which part of it is asked for.
            there = (slab // size * size + size - 1 - slab % size) * after
            a, b = max(start - slab * after, 0), min(stop - slab * after, after)
            parts.append(self.source.read(there + a, there + b))
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)
