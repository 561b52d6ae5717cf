"""Reading tensors by range: blocks, scattered rows and boxes of them, in bounded memory.

A source is whatever has a shape, a dtype and flat ranges to read, as the sources of dumps do; an
array is one as `InMemory`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.ranges import Readable, Reading, read_rows, reading, whole
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
    return InMemory(whole(source))


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

    def part(self, part: Sequence[slice]) -> Layout:
        """That of a part of the array; slices of step one."""
        offset = sum(one.start * step for one, step in zip(part, self.strides, strict=True))
        shape = tuple(one.stop - one.start for one in part)
        return Layout(self.offset + offset, shape, self.strides)

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


def boxes(there: Layout, here: Layout, most: int | None = None) -> Iterator[tuple[Layout, Layout]]:
    """Parts of two layouts of one shape that are read at once, in long runs of both.

    `most`: elements of a box; default `READ_BOX`.
    """
    extents = _extents(there, here, READ_BOX if most is None else most)
    for part in _parts(here.shape, extents):
        yield there.part(part), here.part(part)


def passing(layout: Layout) -> Iterator[tuple[slice, ...]]:
    """Parts of a layout of at most `READ_BLOCK` elements, in runs that are as long as possible."""
    extents, room = [1] * len(layout.shape), READ_BLOCK
    for axis in sorted(range(len(extents)), key=lambda axis: abs(layout.strides[axis])):
        extents[axis] = max(min(layout.shape[axis], room), 1)
        room //= extents[axis]
    yield from _parts(layout.shape, extents)


def _parts(shape: Sequence[int], extents: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    counts = [-(-n // extent) for n, extent in zip(shape, extents, strict=True)]
    for number in np.ndindex(*counts):
        starts = [i * extent for i, extent in zip(number, extents, strict=True)]
        yield tuple(
            slice(start, min(start + extent, n))
            for start, extent, n in zip(starts, extents, shape, strict=True)
        )


def _extents(there: Layout, here: Layout, most: int) -> list[int]:
    """Lengths of a box of at most so many elements."""
    shape, extents = here.shape, [1] * len(here.shape)
    # From the axis of nearest neighbours on.
    near, far = (
        sorted(reversed(range(len(shape))), key=lambda axis: abs(one.strides[axis]))
        for one in (here, there)
    )
    for axes, target in ((near, READ_RUN), (far, READ_RUN), (near, most)):
        run = 1
        for axis in axes:
            others = math.prod(extents) // extents[axis]
            room = min(max(target // run, 1), most // others)
            extents[axis] = max(extents[axis], min(shape[axis], room))
            run *= extents[axis]
            if extents[axis] < shape[axis]:
                break
    # Of equal parts none is so narrow that what lies between is most of what is read.
    return [-(-n // -(-n // extent)) for n, extent in zip(shape, extents, strict=True)]


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
    """Stored values of a box, in its shape; in the order in which they are stored."""
    low = box.offset + sum(
        (n - 1) * step for n, step in zip(box.shape, box.strides, strict=True) if step < 0
    )
    steps = tuple(abs(step) for step in box.strides)
    back = tuple(axis for axis, step in enumerate(box.strides) if step < 0)
    if isinstance(source, InMemory):
        return np.flip(_strided(source.flat[low:], box.shape, steps), back)
    order = sorted(range(len(steps)), key=lambda axis: -steps[axis])
    values = np.empty([box.shape[axis] for axis in order], source.dtype)
    with reading(source) as opened:
        _fill(values, opened, low, tuple(steps[axis] for axis in order))
    return np.flip(values.transpose(np.argsort(order)), back)


def _fill(into: np.ndarray, opened: Reading, start: int, steps: tuple[int, ...]) -> None:
    """Read what lies at these descending steps, halving it until there is little else between."""
    span = 1 + sum((n - 1) * step for n, step in zip(into.shape, steps, strict=True))
    if span == into.size and into.flags.c_contiguous:
        flat = into.reshape(-1)
        for place in range(0, span, READ_BLOCK):
            part = flat[place : place + READ_BLOCK]
            found = opened.read(start + place, start + place + len(part), part)
            if found is not part:
                part[:] = found
        return
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
