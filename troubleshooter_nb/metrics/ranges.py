"""Reading tensors by range: blocks, scattered rows and boxes of them, in bounded memory.

A source is whatever has a shape, a dtype and flat ranges to read, as the sources of dumps do; an
array is one as `InMemory`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np

from troubleshooter_nb.ranges import Readable, Reading, read_rows, reading
from troubleshooter_nb.thresholds import (
    LARGEST_HELD,
    READ_BLOCK,
    READ_BOX,
    READ_RUN,
    READ_THROUGH_BYTES,
)


class InMemory:
    """An array of any layout as a source."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype = array.dtype
        self.flat = np.ascontiguousarray(array).reshape(-1)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """A view of the range."""
        return self.flat[start:stop]


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


def boxes(there: Layout, here: Layout) -> Iterator[tuple[Layout, Layout]]:
    """Parts of two layouts of one shape that are read at once, in long runs of both."""
    extents = _extents(there, here)
    counts = [-(-n // extent) for n, extent in zip(here.shape, extents, strict=True)]
    for number in np.ndindex(*counts):
        starts = [i * extent for i, extent in zip(number, extents, strict=True)]
        shape = tuple(
            min(extent, n - start)
            for extent, n, start in zip(extents, here.shape, starts, strict=True)
        )
        first, second = (
            Layout(one.offset + sum(map(mul, starts, one.strides)), shape, one.strides)
            for one in (there, here)
        )
        yield first, second


def _extents(there: Layout, here: Layout) -> list[int]:
    """Lengths of a box of at most `READ_BOX` elements."""
    shape, extents = here.shape, [1] * len(here.shape)
    # From the axis of nearest neighbours on.
    near, far = (
        sorted(reversed(range(len(shape))), key=lambda axis: abs(one.strides[axis]))
        for one in (here, there)
    )
    for axes, target in ((near, READ_RUN), (far, READ_RUN), (near, READ_BOX)):
        run = 1
        for axis in axes:
            others = math.prod(extents) // extents[axis]
            room = min(max(target // run, 1), READ_BOX // others)
            extents[axis] = max(extents[axis], min(shape[axis], room))
            run *= extents[axis]
            if extents[axis] < shape[axis]:
                break
    return extents


def in_c_order(shape: Sequence[int], offset: int = 0) -> Layout:
    """Of values one after the other."""
    return Layout(offset, tuple(shape), c_strides(shape))


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
    return read_rows(source, base + np.asarray(rows, np.int64) * width, width)


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
    between = READ_THROUGH_BYTES // into.itemsize * (into.size // run)
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
