"""Tensors of several processes as one: laid side by side along an axis, or added up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from troubleshooter_nb.dump import ArraySource, SizedByShape, files_of
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.boxes import Box, rows_of_boxes
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.metrics.floats import arithmetic_of, computable, same_dtype
from troubleshooter_nb.ranges import Starts, gathered, read_in, read_rows
from troubleshooter_nb.thresholds import READ_BLOCK

_BLOCK = 1 << 16  # elements added at once


@dataclass(frozen=True)
class JoinedSource(SizedByShape):
    """An `ArraySource` of tensors that lie side by side along one axis; see `joined`.

    A read of n elements reads n elements of the parts, and at most one row of each part more
    than once.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
    parts : tuple of ArraySource
    axis : int
    pieces : tuple of (int, int, int)
        What follows on what along the axis: number of the part, first index in it, length.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: tuple[ArraySource, ...]
    axis: int
    pieces: tuple[tuple[int, int, int], ...]

    def files(self) -> tuple[str, ...]:
        """The files of all parts."""
        return files_of(self.parts)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a range; see `ArraySource.read`."""
        values = np.empty(max(stop - start, 0), self.dtype) if into is None else into
        inner = math.prod(self.shape[self.axis + 1 :])
        row = self.shape[self.axis] * inner
        if not row or start >= stop:
            return values
        first, last = -(-start // row), stop // row
        if first >= last:  # no row is whole
            middle = min(first * row, stop)
            self._fill_part(values[: middle - start], start, inner)
            self._fill_part(values[middle - start :], middle, inner)
            return values
        self._fill_part(values[: first * row - start], start, inner)
        whole = values[first * row - start : last * row - start]
        self._fill_rows(whole.reshape(last - first, row), first, inner)
        self._fill_part(values[last * row - start :], last * row, inner)
        return values

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        boxes, before = [], 0
        for part, first, count in self.pieces:
            corner, inside = ([0] * len(self.shape) for _ in range(2))
            corner[self.axis], inside[self.axis] = before, first
            box = (*self.shape[: self.axis], count, *self.shape[self.axis + 1 :])
            boxes.append(Box(tuple(corner), box, self.parts[part], tuple(inside)))
            before += count
        rows = rows_of_boxes(self.shape, self.dtype, boxes, starts, length)
        return gathered(self.read, self.dtype, starts, length) if rows is None else rows

    def _fill_part(self, values: np.ndarray, start: int, inner: int) -> None:
        """Read a range that lies in one row."""
        number, low = divmod(start, self.shape[self.axis] * inner)
        high, before = low + len(values), 0
        for part, first, length in self.pieces:
            begin, end = max(low, before), min(high, before + length * inner)
            if begin < end:
                source = self.parts[part]
                at = (number * source.shape[self.axis] + first) * inner + begin - before
                some = values[begin - low : end - low]
                if source.dtype == values.dtype:
                    read_in(some, source, at)
                else:  # another byte order
                    some[:] = source.read(at, at + len(some))
            before += length * inner

    def _fill_rows(self, rows: np.ndarray, number: int, inner: int) -> None:
        """Read whole rows, of which the first is `number`; each part once."""
        for part, source in enumerate(self.parts):
            width = source.shape[self.axis] * inner
            if not width:
                continue
            stored = source.read(number * width, (number + len(rows)) * width)
            stored, before = stored.reshape(len(rows), width), 0
            for of_part, first, length in self.pieces:
                if of_part == part:
                    begin, end = first * inner, (first + length) * inner
                    rows[:, before : before + length * inner] = stored[:, begin:end]
                before += length * inner


def joined_shape(
    shapes: Sequence[tuple[int, ...]], axis: int, proportions: Sequence[int] = (1,)
) -> tuple[int, ...]:
    """Shape of the tensors of these shapes joined along an axis.

    Raises
    ------
    FormatError
        If the axis does not exist in one of them, another axis differs in length, or a part
        cannot be divided in the proportions.
    """
    first = shapes[0]
    if not -len(first) <= axis < len(first):
        if not first:
            raise FormatError(Message("checkpoints.no_axis", axis=axis, shape=first))
        last = len(first) - 1
        raise FormatError(Message("checkpoints.no_such_axis", axis=axis, shape=first, last=last))
    axis %= len(first)
    for shape in shapes:
        fits = len(shape) == len(first) and all(
            mine == other
            for number, (mine, other) in enumerate(zip(first, shape, strict=True))
            if number != axis
        )
        if not fits:
            shapes_apart = Message("checkpoints.shapes_apart", one=first, other=shape, axis=axis)
            raise FormatError(shapes_apart)
        if shape[axis] % sum(proportions):
            length, shown = shape[axis], ":".join(map(str, proportions))
            raise FormatError(
                Message("checkpoints.not_divided", length=length, axis=axis, proportions=shown)
            )
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def joined(
    parts: Sequence[ArraySource], axis: int, proportions: Sequence[int] = (1,)
) -> ArraySource:
    """The tensor whose parts lie side by side along an axis.

    Parameters
    ----------
    parts : sequence of ArraySource
        Of one dtype; a single one is returned itself.
    axis : int
        Negative ones count from the last.
    proportions : sequence of int
        Each part is cut along the axis in these proportions, and the first cuts of all parts
        come first, then the second ones: with ``(1, 1, 1)`` parts of queries, keys and values
        become all queries, all keys, all values.

    Raises
    ------
    FormatError
        As `joined_shape`; or if the dtypes differ.
    """
    shape = joined_shape([part.shape for part in parts], axis, proportions)
    dtype = _dtype_of(parts)
    if len(parts) == 1:
        return parts[0]
    axis %= len(shape)
    whole, before, pieces = sum(proportions), 0, []
    for share in proportions:
        for number, part in enumerate(parts):
            length = part.shape[axis]
            pieces.append((number, length * before // whole, length * share // whole))
        before += share
    kept = tuple(piece for piece in pieces if piece[2])
    return JoinedSource(shape, dtype, tuple(parts), axis, kept)


@dataclass(frozen=True)
class SummedSource:
    """An `ArraySource` of the sum of tensors, divided by a number; see `summed`.

    Attributes
    ----------
    parts : tuple of ArraySource
    dtype : dtype
        Of the result.
    divisor : int
    """

    parts: tuple[ArraySource, ...]
    dtype: np.dtype
    divisor: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.parts[0].shape

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def files(self) -> tuple[str, ...]:
        """The files of all parts."""
        return files_of(self.parts)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Sums; as `ArraySource.read`, also where one of integers lies outside the dtype."""
        values = np.empty(max(stop - start, 0), self.dtype) if into is None else into
        for low in range(start, stop, _BLOCK):
            high = min(low + _BLOCK, stop)
            values[low - start : high - start] = self._sum(low, high)
        return values

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Sums of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        rows = np.empty((len(starts), length), self.dtype)
        most = max(READ_BLOCK // max(length, 1), 1)
        for at in range(0, len(starts), most):
            some = starts[at : at + most]
            found = self._sum_of(read_rows(part, some, length).reshape(-1) for part in self.parts)
            rows[at : at + most] = found.reshape(-1, length)
        return rows

    def _sum(self, start: int, stop: int) -> np.ndarray:
        return self._sum_of(part.read(start, stop) for part in self.parts)

    def _sum_of(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        blocks = map(computable, parts)
        if arithmetic_of(self.parts[0].dtype) == "integer":
            return self._of_integers(blocks)
        # numpy warns about sums that overflow or meet NaN; here they are ordinary results.
        with np.errstate(all="ignore"):
            first = next(blocks)
            total = first.astype(np.promote_types(first.dtype, np.float64))
            for block in blocks:
                total += block
            if self.divisor > 1:
                total /= self.divisor
            return stored_as(total, self.dtype)

    def _of_integers(self, blocks: Iterator[np.ndarray]) -> np.ndarray:
        """The sum in 64 bits, or of 64-bit values in Python's integers, which have no end."""
        first = next(blocks)
        total: np.ndarray = first.astype(np.int64 if first.dtype.itemsize < 8 else object)
        for block in blocks:
            total = total + block.astype(total.dtype)
        if self.divisor > 1:
            return np.asarray(total / self.divisor, np.float64)
        low, high = total.min(), total.max()
        least, most = _bounds(self.dtype)
        if not least <= low <= high <= most:
            facts = {"count": len(self.parts), "dtype": self.dtype, "low": low, "high": high}
            raise ReadError(Message("checkpoints.sum_outside", **facts))
        return total.astype(self.dtype)


def summed(parts: Sequence[ArraySource], *, mean: bool = False) -> ArraySource:
    """The sum, or the mean, of tensors of one shape and dtype.

    Parameters
    ----------
    parts : sequence of ArraySource
        Floats and complex numbers are added in 64 bits per part of a number, in the order
        given, and rounded once; integers are added exactly. A single one is returned itself.
    mean : bool
        The mean of integers is float64.

    Raises
    ------
    FormatError
        If shapes or dtypes differ, or the dtype holds no numbers to add (bool).
    """
    shapes = list(dict.fromkeys(part.shape for part in parts))
    if len(shapes) > 1:
        raise FormatError(Message("checkpoints.shapes_not_added", one=shapes[0], other=shapes[1]))
    dtype = _dtype_of(parts)
    kind = arithmetic_of(dtype)
    if dtype.kind == "b" or kind == "unsupported":
        raise FormatError(Message("checkpoints.dtype_not_added", dtype=dtype))
    if len(parts) == 1:
        return parts[0]
    result = np.dtype(np.float64) if mean and kind == "integer" else dtype
    return SummedSource(tuple(parts), result, len(parts) if mean else 1)


def _bounds(dtype: np.dtype) -> tuple[int, int]:
    if dtype.kind in "iu":
        found = np.iinfo(dtype)
        return int(found.min), int(found.max)
    iinfo: Any = ml_dtypes.iinfo
    narrow = iinfo(dtype)
    return int(narrow.min), int(narrow.max)


def _dtype_of(parts: Sequence[ArraySource]) -> np.dtype:
    dtype = parts[0].dtype
    for part in parts:
        if not same_dtype(part.dtype, dtype):
            raise FormatError(Message("checkpoints.dtypes_of_parts", one=dtype, other=part.dtype))
    # Parts in another byte order are converted as they are copied.
    return dtype if dtype.isnative else dtype.newbyteorder("=")
