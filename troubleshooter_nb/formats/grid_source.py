"""A tensor cut into boxes that lie in several files, read by flat range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.dump import ArraySource, SizedByShape, files_of
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.boxes import Box, rows_of_boxes
from troubleshooter_nb.formats.file_source import check_shape
from troubleshooter_nb.messages import Message
from troubleshooter_nb.ranges import Starts, gathered, read_in

_BLOCK = 1 << 20  # elements read at once
_MOST_CELLS = 1 << 22  # that the check of a grid may count

Part = tuple[tuple[int, ...], ArraySource]


@dataclass(frozen=True)
class GridSource(SizedByShape):
    """An `ArraySource` of boxes that together are the tensor.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    parts : tuple of (tuple of int, ArraySource)
        Position of the first element of each box in the tensor, and its values.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: tuple[Part, ...]

    def files(self) -> tuple[str, ...]:
        """The files of all boxes."""
        return files_of(source for _, source in self.parts)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a range; see `ArraySource.read`."""
        values = np.empty(stop - start, self.dtype) if into is None else into
        if start < stop:
            for offsets, source in self.parts:
                self._fill(values, start, offsets, source)
        return values

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        boxes = [
            Box(corner, source.shape, source, (0,) * len(corner)) for corner, source in self.parts
        ]
        rows = rows_of_boxes(self.shape, self.dtype, boxes, starts, length)
        return gathered(self.read, self.dtype, starts, length) if rows is None else rows

    def _fill(
        self, values: np.ndarray, start: int, offsets: tuple[int, ...], source: ArraySource
    ) -> None:
        """Copy what one box has of the range that begins at `start`."""
        stop = start + len(values)
        run, leading, base = self._runs(offsets, source.shape)
        count = math.prod(leading)
        if not run or not count:
            return
        steps = _steps(self.shape)[: len(leading)]
        first = _first_run(leading, steps, base, start - run + 1, count)
        last = _first_run(leading, steps, base, stop, count)
        for low, high in _blocks(first, last, max(_BLOCK // run, 1)):
            index = np.unravel_index(np.arange(low, high), leading) if leading else ()
            places = np.full(high - low, base - start, np.int64)
            for axis, step in zip(index, steps, strict=True):
                places += axis * step
            if high - low == 1:
                self._copy(values, int(places[0]), run, low, source)
                continue
            read = source.read(low * run, high * run)
            targets = (places[:, None] + np.arange(run)).reshape(-1)
            inside = (targets >= 0) & (targets < len(values))
            values[targets[inside]] = read[inside]

    @staticmethod
    def _copy(values: np.ndarray, place: int, run: int, number: int, source: ArraySource) -> None:
        """Copy what the range has of one run, block by block."""
        begin, end = max(place, 0), min(place + run, len(values))
        for low, high in _blocks(begin, end, _BLOCK):
            at = number * run + low - place
            read_in(values[low:high], source, at)

    def _runs(
        self, offsets: tuple[int, ...], box: tuple[int, ...]
    ) -> tuple[int, tuple[int, ...], int]:
        """Length of the runs of a box that lie together in the tensor, its axes, its place."""
        steps = _steps(self.shape)
        axis = len(box)
        while axis > 0 and box[axis - 1] == self.shape[axis - 1]:
            axis -= 1
        axis = max(axis - 1, 0)
        base = sum(offset * step for offset, step in zip(offsets, steps, strict=True))
        return math.prod(box[axis:]), box[:axis], base


def _steps(shape: Sequence[int]) -> list[int]:
    """Distance of neighbours along each axis in C order."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _first_run(
    leading: tuple[int, ...], steps: Sequence[int], base: int, wanted: int, count: int
) -> int:
    """Number of the first run of a box that begins at `wanted` or behind it."""
    low, high = 0, count
    while low < high:
        middle, rest, place = (low + high) // 2, (low + high) // 2, base
        for length, step in zip(reversed(leading), reversed(steps), strict=True):
            rest, index = divmod(rest, length)
            place += index * step
        if place < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def _blocks(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    for low in range(start, stop, size):
        yield low, min(low + size, stop)


def checked_grid(shape: tuple[int, ...], dtype: np.dtype, parts: Sequence[Part]) -> ArraySource:
    """The tensor of these boxes, which fill it without gap and overlap.

    A single box that is the whole tensor is returned itself.

    Raises
    ------
    FormatError
        If a box has another dtype or lies outside, or they do not fill the tensor exactly.
    """
    check_shape(shape, dtype)
    for offsets, source in parts:
        fits = len(offsets) == len(source.shape) == len(shape) and all(
            0 <= offset <= offset + length <= whole
            for offset, length, whole in zip(offsets, source.shape, shape, strict=True)
        )
        if not fits or source.dtype != dtype:
            part = {"part_dtype": source.dtype, "part": source.shape, "offsets": offsets}
            whole = {"dtype": dtype, "shape": shape}
            raise FormatError(Message("checkpoints.part_does_not_fit", **part, **whole))
    held = sum(math.prod(source.shape) for _, source in parts)
    size = math.prod(shape)
    if held != size:
        how = "missing" if held < size else "twice"
        raise FormatError(Message(f"checkpoints.values_{how}", count=abs(size - held), size=size))
    if len(parts) == 1:
        return parts[0][1]
    filled = tuple(part for part in parts if math.prod(part[1].shape))
    _check_cells(shape, filled)
    return GridSource(shape, dtype, filled)


def _check_cells(shape: tuple[int, ...], parts: Sequence[Part]) -> None:
    """Refuse overlaps: no cell between any two cuts may belong to two boxes."""
    cuts = [
        sorted({edge for at, box in parts for edge in (at[axis], at[axis] + box.shape[axis])})
        for axis in range(len(shape))
    ]
    numbers = [{edge: number for number, edge in enumerate(edges)} for edges in cuts]
    if math.prod(max(len(edges) - 1, 1) for edges in cuts) > _MOST_CELLS:
        raise FormatError(Message("checkpoints.parts_of_many_sizes", count=len(parts)))
    taken = np.zeros([len(edges) - 1 for edges in cuts], bool)
    for at, box in parts:
        cells = tuple(
            slice(number[first], number[first + length])
            for number, first, length in zip(numbers, at, box.shape, strict=True)
        )
        if taken[cells].any():
            raise FormatError(Message("checkpoints.second_part", shape=box.shape, offsets=at))
        taken[cells] = True
