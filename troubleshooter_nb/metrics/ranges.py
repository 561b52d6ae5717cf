"""Reading tensors by range: blocks, scattered rows and boxes of them, in bounded memory.

A source is whatever has a shape, a dtype and flat ranges to read, as the sources of dumps do; an
array is one as `InMemory`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from typing import Protocol

import numpy as np

from troubleshooter_nb.thresholds import LARGEST_HELD, READ_BLOCK, READ_BOX, READ_RUN, READ_THROUGH


class Reading(Protocol):
    """What ranges are read from: a source, or one that was opened for several of them."""

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a flat range in C order, shape (stop - start,)."""


class Readable(Protocol):
    """A stored tensor that is read by flat range; `troubleshooter_nb.dump.ArraySource` is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""

    @property
    def dtype(self) -> np.dtype:
        """Stored dtype."""

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a flat range in C order, shape (stop - start,)."""


class InMemory:
    """An array of any layout as a source."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype = array.dtype
        self.flat = np.ascontiguousarray(array).reshape(-1)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """A view of the range."""
        return self.flat[start:stop]


def reading(source: Readable) -> AbstractContextManager[Reading]:
    """A context in which several ranges of a source are read; its file is opened once.

    Sources that offer no ``opened()`` are read as ever. To be used by one thread.

    Raises
    ------
    ReadError
        On entering, if the file changed or vanished since the header was read.
    """
    opened = getattr(source, "opened", None)
    return nullcontext(source) if opened is None else opened()


def size_of(source: Readable) -> int:
    """Number of elements."""
    return math.prod(source.shape)


def held(source: Readable) -> Readable:
    """The tensor in memory if it is small, to be read once however often it is looked at."""
    size = size_of(source)
    if isinstance(source, InMemory) or size > LARGEST_HELD:
        return source
    return InMemory(source.read(0, size).reshape(source.shape))


@dataclass(frozen=True)
class Layout:
    """Where the elements of one array, in its C order, lie in the flat values of another.

    Attributes
    ----------
    offset : int
        Place of the first element.
    shape : tuple of int
        Of the first array, or with axes split or left out that make no difference.
    strides : tuple of int
        Distance of neighbours along each axis, in elements; negative where it is reversed.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def at(self, places: np.ndarray) -> np.ndarray:
        """Where the elements at these flat places lie."""
        found = np.full(len(places), self.offset, np.int64)
        for index, stride in zip(np.unravel_index(places, self.shape), self.strides, strict=True):
            found += index * stride
        return found

    def merged(self) -> Layout:
        """The same with as few axes as possible; equal for the same order of elements."""
        axes: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if axes and axes[-1][1] == stride * size:
                axes[-1] = axes[-1][0] * size, stride
            else:
                axes.append((size, stride))
        return Layout(self.offset, tuple(n for n, _ in axes), tuple(s for _, s in axes))

    def boxes(self) -> Iterator[tuple[Layout, Layout]]:
        """Parts that are read at once: where they lie in the other array, and in the first."""
        plain = c_strides(self.shape)
        extents = self._extents(READ_BOX)
        counts = [-(-n // extent) for n, extent in zip(self.shape, extents, strict=True)]
        for number in np.ndindex(*counts):
            starts = [i * extent for i, extent in zip(number, extents, strict=True)]
            shape = tuple(
                min(extent, n - start)
                for extent, n, start in zip(extents, self.shape, starts, strict=True)
            )
            there = self.offset + sum(map(mul, starts, self.strides))
            here = sum(map(mul, starts, plain))
            yield Layout(there, shape, self.strides), Layout(here, shape, plain)

    def _extents(self, most: int) -> list[int]:
        """Lengths of a box of so many elements that lie in long runs on both sides."""
        extents = [1] * len(self.shape)
        here = list(reversed(range(len(extents))))
        there = sorted(here, key=lambda axis: abs(self.strides[axis]))
        for axes, target in ((here, READ_RUN), (there, READ_RUN), (here, most)):
            run = 1
            for axis in axes:
                others = math.prod(extents) // extents[axis]
                room = min(max(target // run, 1), most // others)
                extents[axis] = max(extents[axis], min(self.shape[axis], room))
                run *= extents[axis]
                if extents[axis] < self.shape[axis]:
                    break
        return extents


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array in C order."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def slabs(before: int, rows: int, after: int, most: int) -> Iterator[tuple[slice, slice, slice]]:
    """Parts of an array (before, rows, after), in C order, contiguous, of `most` elements each."""
    counts = [1, 1, 1]
    room = most
    for axis, length in ((2, after), (1, rows), (0, before)):
        counts[axis] = max(1, min(length, room))
        if counts[axis] < length:
            break
        room //= max(length, 1)
    for a in range(0, before, counts[0]):
        for i in range(0, rows, counts[1]):
            for c in range(0, after, counts[2]):
                yield (
                    slice(a, min(a + counts[0], before)),
                    slice(i, min(i + counts[1], rows)),
                    slice(c, min(c + counts[2], after)),
                )


def read_slabs_at(
    source: Readable, rows: np.ndarray, width: int = 1, *, base: int = 0
) -> np.ndarray:
    """Stored values of rows of an array (n, width) that begins at flat place `base`.

    Parameters
    ----------
    source : Readable
    rows : ndarray of int, shape (m,)
        In any order, with repetitions. What lies near to each other is read at once.
    width, base : int

    Returns
    -------
    ndarray, shape (m, width)
    """
    if isinstance(source, InMemory):
        if width == 1:
            return np.asarray(source.flat[base + rows, None])
        count = (len(source.flat) - base) // width
        shaped = source.flat[base : base + count * width].reshape(count, width)
        return np.asarray(shaped[rows])
    found = np.empty((len(rows), width), source.dtype)
    order = np.argsort(rows, kind="stable")
    ranked = rows[order]
    with reading(source) as opened:
        for first, last in _runs(ranked, width):
            start, stop = int(ranked[first]), int(ranked[last - 1]) + 1
            read = opened.read(base + start * width, base + stop * width)
            found[order[first:last]] = read.reshape(-1, width)[ranked[first:last] - start]
    return found


def _runs(ranked: np.ndarray, width: int) -> Iterator[tuple[int, int]]:
    """Which of ascending rows are read at once."""
    if not len(ranked):
        return
    apart = np.diff(ranked, prepend=ranked[0]) * width > READ_THROUGH
    firsts = ranked[np.flatnonzero(np.diff(np.cumsum(apart), prepend=-1))]
    piece = (ranked - firsts[np.cumsum(apart)]) // max(1, READ_BLOCK // width)
    cuts = np.flatnonzero(apart | (np.diff(piece, prepend=piece[0]) != 0))
    ends = [0, *cuts[cuts > 0].tolist(), len(ranked)]
    yield from pairwise(ends)


def read_box(source: Readable, box: Layout) -> np.ndarray:
    """Stored values of a box, in its shape; contiguous unless the array lies in memory."""
    low = box.offset + sum(
        (n - 1) * step for n, step in zip(box.shape, box.strides, strict=True) if step < 0
    )
    steps = tuple(abs(step) for step in box.strides)
    back = tuple(axis for axis, step in enumerate(box.strides) if step < 0)
    if isinstance(source, InMemory):
        return np.flip(_strided(source.flat[low:], box.shape, steps), back)
    values = np.empty(box.shape, source.dtype)
    order = sorted(range(len(steps)), key=lambda axis: -steps[axis])
    into = np.flip(values, back).transpose(order)
    with reading(source) as opened:
        _fill(into, opened, low, tuple(steps[axis] for axis in order))
    return values


def _fill(into: np.ndarray, opened: Reading, start: int, steps: tuple[int, ...]) -> None:
    """Read what lies at these descending steps, halving it until there is little else between."""
    span = 1 + sum((n - 1) * step for n, step in zip(into.shape, steps, strict=True))
    run = 1
    for n, step in zip(reversed(into.shape), reversed(steps), strict=True):
        if step > run and n > 1:
            break
        run = max(run, step * n)
    between = READ_THROUGH * (into.size // run)
    if span == 1 or (span <= READ_BLOCK and span <= into.size + between):
        into[...] = _strided(opened.read(start, start + span), into.shape, steps)
        return
    axis = next(axis for axis, n in enumerate(into.shape) if n > 1)
    half = into.shape[axis] // 2
    first = (slice(None),) * axis
    _fill(into[(*first, slice(half))], opened, start, steps)
    _fill(into[(*first, slice(half, None))], opened, start + half * steps[axis], steps)


def _strided(flat: np.ndarray, shape: tuple[int, ...], steps: tuple[int, ...]) -> np.ndarray:
    itemsize = flat.dtype.itemsize
    return np.lib.stride_tricks.as_strided(flat, shape, [step * itemsize for step in steps])
