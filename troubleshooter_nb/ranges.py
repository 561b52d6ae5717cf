"""Flat ranges of tensors: many short ones by few long reads, and those of other strides."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from troubleshooter_nb.thresholds import READ_BLOCK, READ_EACH_BYTES, READ_THROUGH_BYTES

_PLACES = 1 << 16  # places that are counted out one by one
_READ_THROUGH = 16  # times as much is read rather than places counted out
_LONG_RANGE = 1 << 10  # elements of what is not put together one by one
PIECE = 1 << 24  # elements of a part that is made at once and kept

# ``(start, stop, into)``, as `ArraySource.read`.
Read = Callable[[int, int, np.ndarray | None], np.ndarray]
# ``(starts, length)``, as `troubleshooter_nb.dump.read_rows`.
Starts = Sequence[int] | np.ndarray
ReadRows = Callable[[Starts, int], np.ndarray]
# ``(starts, rows)``: ranges that lie apart, into rows of shape (n, length).
ReadEach = Callable[[np.ndarray, np.ndarray], None]


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


def whole(source: Readable) -> np.ndarray:
    """All stored values of a source, in its shape.

    Raises
    ------
    ReadError
        As `ArraySource.read`.
    """
    return source.read(0, math.prod(source.shape)).reshape(source.shape)


def read_copy(source: Readable, start: int, stop: int) -> np.ndarray:
    """Stored values of a flat range, in memory of their own: a source may keep what it gives.

    Raises
    ------
    ReadError
        As `ArraySource.read`.
    """
    values = np.empty(stop - start, source.dtype)
    read_in(values, source, start)
    return values


def read_in(values: np.ndarray, source: Reading, start: int) -> None:
    """Fill an array, contiguous and of the source's dtype, with what stands from `start` on."""
    _fill(values, source.read, start)


def read_rows(source: Readable, starts: Starts, length: int) -> np.ndarray:
    """Stored values of flat ranges of one length, in one opening of the file.

    Ranges are read in the order in which they are stored, with what lies between neighbours, so
    that a million single elements take some hundred reads. Besides the result a few million
    elements lie in memory.

    Parameters
    ----------
    source : Readable
    starts : sequence of int, shape (n,)
        In any order; each range lies inside the tensor.
    length : int

    Returns
    -------
    ndarray, shape (n, length)

    Raises
    ------
    ReadError
        As `ArraySource.read`.
    """
    with reading(source) as opened:
        return rows_of(opened, source.dtype, starts, length)


def rows_of(opened: Reading, dtype: np.dtype, starts: Starts, length: int) -> np.ndarray:
    """The same of what is open; its own way of gathering ranges comes first."""
    own: ReadRows | None = getattr(opened, "read_rows", None)
    if own is not None:
        return own(starts, length)
    return gathered(opened.read, dtype, starts, length)


def gathered(
    read: Read, dtype: np.dtype, starts: Starts, length: int, read_each: ReadEach | None = None
) -> np.ndarray:
    """Values of flat ranges of one length, read from front to back, neighbours together.

    Parameters
    ----------
    read : callable
        ``(start, stop, into)``, as `ArraySource.read`.
    dtype : dtype
    starts : sequence of int, shape (n,)
        In any order; ranges may overlap.
    length : int
    read_each : callable, optional
        For short ranges, with less ado than a call of `read` for each.

    Returns
    -------
    ndarray, shape (n, length)
    """
    firsts = np.asarray(starts, np.int64)
    rows = np.empty((len(firsts), length), dtype)
    if not rows.size:
        return rows
    low, high = int(firsts.min()), int(firsts.max()) + length
    gaps = high - low - rows.size
    if (
        length < _LONG_RANGE
        and high - low <= READ_BLOCK
        and gaps <= READ_THROUGH_BYTES // dtype.itemsize
    ):
        with _scratch.lent(high - low, dtype) as memory:
            _take(unsigned(read(low, high, memory)), firsts - low, unsigned(rows))
        return rows
    order = None
    if np.any(firsts[1:] < firsts[:-1]):
        order = np.argsort(firsts, kind="stable")
        firsts = firsts[order]
    raw = unsigned(rows)
    is_next = firsts[1:] - firsts[:-1] == length
    runs = _together(firsts, length, READ_THROUGH_BYTES // dtype.itemsize)
    if read_each is not None and length < _LONG_RANGE:
        is_sparse = _are_sparse(runs, firsts, length, dtype.itemsize)
        sparse = np.repeat(is_sparse, runs[:, 1] - runs[:, 0])
        some = np.empty((int(sparse.sum()), length), dtype)
        read_each(firsts[sparse], some)
        raw[sparse if order is None else order[sparse]] = unsigned(some)
        runs = runs[~is_sparse]
    for begin, end in runs.tolist():
        first, last = int(firsts[begin]), int(firsts[end - 1]) + length
        if end - begin == 1 or (order is None and is_next[begin : end - 1].all()):
            at = begin if order is None else int(order[begin])
            _fill(rows[at : at + end - begin].reshape(-1), read, first)
            continue
        if length >= _LONG_RANGE:
            for number in range(begin, end):
                _fill(rows[number if order is None else order[number]], read, int(firsts[number]))
            continue
        some = np.empty((end - begin, length), raw.dtype) if order is not None else raw[begin:end]
        with _scratch.lent(last - first, dtype) as memory:
            _take(unsigned(read(first, last, memory)), firsts[begin:end] - first, some)
        if order is not None:
            raw[order[begin:end]] = some
    return rows


class Scratch(threading.local):
    """Memory that each thread keeps to read into: new pages cost as much as reading, or more."""

    def __init__(self) -> None:
        self._kept = np.empty(0, np.uint8)

    def of(self, count: int, dtype: np.dtype) -> np.ndarray:
        """An array of so many elements, of any content, until this thread asks again."""
        size = count * dtype.itemsize
        if len(self._kept) < size:
            self._kept = np.empty(size, np.uint8)
        return self._kept[:size].view(dtype)

    @contextmanager
    def lent(self, count: int, dtype: np.dtype) -> Iterator[np.ndarray]:
        """The same until the end of the context: whoever asks meanwhile gets other memory."""
        memory = self.of(count, dtype)
        kept, self._kept = self._kept, np.empty(0, np.uint8)
        yield memory
        self._kept = kept


_scratch = Scratch()


def _take(values: np.ndarray, places: np.ndarray, into: np.ndarray) -> None:
    """Neighbours from these places on, into rows of shape (n, length)."""
    length = into.shape[1]
    if len(values) % length or np.any(places % length):
        into[:] = sliding_window_view(values, length)[places]
    else:  # rows that are copied whole; "raise" would make them twice
        values.reshape(-1, length).take(places // length, axis=0, out=into, mode="clip")


def _fill(values: np.ndarray, read: Read, start: int) -> None:
    found = read(start, start + len(values), values)
    if found is not values:
        values[:] = found


def _together(firsts: np.ndarray, length: int, gap: int) -> np.ndarray:
    """Half-open runs of sorted ranges that are read in one go, gaps that short with them."""
    gap = gap if length <= gap else 0  # what is long is read by itself
    is_new = np.diff(firsts, prepend=firsts[0] - length - gap - 1) > length + gap
    begins = np.flatnonzero(is_new)
    of = np.repeat(begins, np.diff(begins, append=len(firsts)))
    for part, most in (
        (firsts - firsts[of], READ_BLOCK),
        (np.arange(len(firsts)) - of, READ_BLOCK // length),
    ):
        number = part // max(most, 1)
        is_new[1:] |= number[1:] != number[:-1]
    begins = np.flatnonzero(is_new)
    return np.stack([begins, np.append(begins[1:], len(firsts))], 1)


def _are_sparse(runs: np.ndarray, firsts: np.ndarray, length: int, itemsize: int) -> np.ndarray:
    """Which runs are better read range by range than with what lies between, shape (n,)."""
    begins, ends = runs.T
    span = firsts[ends - 1] - firsts[begins] + length
    return np.asarray((ends - begins) * READ_EACH_BYTES <= READ_THROUGH_BYTES + span * itemsize)


class Pieces:
    """The part of a tensor that each thread made last, of those that cost as much as a whole.

    A part is bounded, so that a tensor of any size is made in a few of them.
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def clear(self) -> None:
        """Forget what this thread made."""
        self._of_thread.last = None

    def read(
        self,
        source: Hashable,
        size: int,
        make: Callable[[int, int], np.ndarray],
        start: int,
        stop: int,
        *,
        most: int = PIECE,
    ) -> np.ndarray:
        """Values of a range of a tensor of `size`; ``make(start, stop)`` makes a part of `most`."""
        kept: tuple[Hashable, int, np.ndarray] | None = getattr(self._of_thread, "last", None)
        if kept is not None and kept[0] == source:
            _, first, values = kept
            if first <= start and stop <= first + len(values):
                return values[start - first : stop - first]
        self._of_thread.last = kept = None  # the old one goes before the new one comes
        first = min(start, max(size - most, 0))
        values = make(first, max(stop, min(first + most, size)))
        values.flags.writeable = False
        self._of_thread.last = source, first, values
        return values[start - first : stop - first]


def unsigned(values: np.ndarray) -> np.ndarray:
    """The same memory in a dtype that numpy copies fast: it knows no dtype of ml_dtypes."""
    size = values.dtype.itemsize
    return values.view(f"u{size}" if size in (1, 2, 4, 8) else f"V{size}")


def cut(starts: np.ndarray, length: int, width: int) -> tuple[np.ndarray, ...]:
    """Ranges cut where rows of a width end.

    Returns
    -------
    tuple of ndarray, shape (m,)
        Of each piece: number of the range, its first place in it, the row and the column where it
        begins, and how many elements it has; ordered by range and place.
    """
    rows = starts // width
    counts = (starts + length - 1) // width - rows + 1
    of = np.repeat(np.arange(len(starts)), counts)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    row = rows[of] + nth
    begin = np.maximum(starts[of], row * width)
    end = np.minimum(starts[of] + length, (row + 1) * width)
    return of, begin - starts[of], row, begin - row * width, end - begin


@dataclass(frozen=True)
class Strided:
    """Where the elements of a tensor stand in another order: in a file, or another tensor.

    Attributes
    ----------
    shape : tuple of int
        As the tensor is read, in C order.
    strides : tuple of int
        Distance of neighbours along each axis, in elements of what is read from; from 0 on.
    offset : int
        Place of the first element there.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @cached_property
    def _axes(self) -> tuple[tuple[int, int], ...]:
        """Length and stride of the axes, those together that one step goes through."""
        merged: list[tuple[int, int]] = []
        for length, step in zip(self.shape, self.strides, strict=True):
            if length == 1:
                continue
            if merged and merged[-1][1] == length * step:
                merged[-1] = merged[-1][0] * length, step
            else:
                merged.append((length, step))
        return tuple(merged or [(1, 1)])

    def places(self, flat: np.ndarray) -> np.ndarray:
        """Where the elements of these flat numbers stand."""
        found, rest = np.full(flat.shape, self.offset, np.int64), flat
        for length, step in reversed(self._axes):
            rest, index = np.divmod(rest, length)
            found += index * step
        return found

    def rows(self, read_rows: ReadRows, dtype: np.dtype, starts: Starts, length: int) -> np.ndarray:
        """Values of flat ranges of one length, shape (n, length), gathered by `read_rows`.

        That is asked for places in as few and as sorted calls as there can be.
        """
        firsts = np.asarray(starts, np.int64)
        width = self._axes[-1][0]
        if not len(firsts) or not length:
            return np.empty((len(firsts), length), dtype)
        if np.all(firsts % width + length <= width):
            return self._of_one_axis(read_rows, dtype, firsts, length)
        if length % width == 0 and not np.any(firsts % width):
            parts = (firsts[:, None] + np.arange(0, length, width)).reshape(-1)
            return self._of_one_axis(read_rows, dtype, parts, width).reshape(-1, length)
        if len(firsts) == 1:
            start = int(firsts[0])
            return self.range(read_rows, dtype, start, start + length)[None]
        rows = np.empty((len(firsts), length), dtype)
        most = max(_PLACES // length, 1)
        for at in range(0, len(firsts), most):
            flat = firsts[at : at + most, None] + np.arange(length)
            found = read_rows(self.places(flat.reshape(-1)), 1)
            rows[at : at + most] = found.reshape(flat.shape)
        return rows

    def _of_one_axis(
        self, read_rows: ReadRows, dtype: np.dtype, firsts: np.ndarray, length: int
    ) -> np.ndarray:
        """Of ranges that lie within the last axis each."""
        step = self._axes[-1][1]
        bases = self.places(firsts)
        if step == 1 or length == 1:
            return read_rows(bases, length)
        order = np.argsort(bases, kind="stable")
        bases, away = bases[order], np.arange(length) * step
        rows = np.empty((len(bases), length), dtype)
        raw, wide = unsigned(rows), int(bases[-1] - bases[0]) + 1
        if wide > step:
            most = max(_PLACES // length, 1)
            for at in range(0, len(bases), most):
                asked = bases[at : at + most, None] + away
                found = unsigned(read_rows(asked.reshape(-1), 1)).reshape(asked.shape)
                raw[order[at : at + most]] = found
            return rows
        # Column by column is the order there; what lies close together is read as a run.
        is_run = wide <= _READ_THROUGH * len(bases)
        most = max(READ_BLOCK // wide if is_run else _PLACES // len(bases), 1)
        for at in range(0, length, most):
            if is_run:
                runs = unsigned(read_rows(bases[0] + away[at : at + most], wide))
                found = runs[:, bases - bases[0]]
            else:
                asked = away[at : at + most, None] + bases
                found = unsigned(read_rows(asked.reshape(-1), 1)).reshape(asked.shape)
            raw[order, at : at + most] = found.T
        return rows

    def range(self, read_rows: ReadRows, dtype: np.dtype, start: int, stop: int) -> np.ndarray:
        """Values of one flat range, by rows of the last axis."""
        if start >= stop:
            return np.empty(0, dtype)
        width = self._axes[-1][0]
        if start % width == stop % width == 0:
            starts = np.arange(start, stop, width)
            return self._of_one_axis(read_rows, dtype, starts, width).reshape(-1)
        values = np.empty(stop - start, dtype)
        first, last = -(-start // width), stop // width
        if first >= last:
            edges = [start, min(max(first * width, start), stop), stop]
        else:
            edges = [start, first * width, last * width, stop]
        for low, high in itertools.pairwise(edges):
            if low >= high:
                continue
            whole = high - low >= width and low % width == 0
            count, length = ((high - low) // width, width) if whole else (1, high - low)
            starts = low + np.arange(count) * length
            found = self._of_one_axis(read_rows, dtype, starts, length)
            values[low - start : high - start] = found.reshape(-1)
        return values


class Rows:
    """Where the elements of a tensor stand in another one that has its rows in another order.

    Parameters
    ----------
    source : tuple of int
        Shape of what is read from.
    axis : int
        Along which rows are taken, from 0 on.
    runs : ndarray, shape (n, 2)
        First row in the source, and number of rows, of each run of neighbours.
    """

    def __init__(self, source: tuple[int, ...], axis: int, runs: np.ndarray) -> None:
        inner = math.prod(source[axis + 1 :])
        self._given = source[axis] * inner  # elements of all rows, as they are read from
        self._firsts = runs[:, 0] * inner
        self._bounds = np.concatenate([[0], np.cumsum(runs[:, 1] * inner)])
        self._made = int(self._bounds[-1])  # elements of all rows, as they are made

    def places(self, flat: np.ndarray) -> np.ndarray:
        """Where the elements of these flat numbers stand."""
        number, rest = np.divmod(flat, self._made)
        run = np.searchsorted(self._bounds, rest, "right") - 1
        return np.asarray(number * self._given + self._firsts[run] + rest - self._bounds[run])

    def rows(self, read_rows: ReadRows, dtype: np.dtype, starts: Starts, length: int) -> np.ndarray:
        """Values of flat ranges of one length, shape (n, length), gathered by `read_rows`."""
        firsts = np.asarray(starts, np.int64)
        rows = np.empty((len(firsts), length), dtype)
        if length > _LONG_RANGE:
            for row, first in zip(rows, firsts.tolist(), strict=True):
                row[:] = self.range(read_rows, dtype, first, first + length)
            return rows
        most = max(_PLACES // max(length, 1), 1)
        for at in range(0, len(firsts) if length else 0, most):
            asked = self.places(firsts[at : at + most, None] + np.arange(length))
            rows[at : at + most] = read_rows(asked.reshape(-1), 1).reshape(asked.shape)
        return rows

    def range(self, read_rows: ReadRows, dtype: np.dtype, start: int, stop: int) -> np.ndarray:
        """Values of one flat range, by the runs that it is made of."""
        if start >= stop:
            return np.empty(0, dtype)
        low, high = start // self._made, -(-stop // self._made)
        begins = np.arange(low, high)[:, None] * self._made + self._bounds[:-1]
        ends = begins + np.diff(self._bounds)
        cut = np.maximum(begins, start)
        stored = np.arange(low, high)[:, None] * self._given + self._firsts + cut - begins
        lengths = np.minimum(ends, stop) - cut
        inside = lengths > 0
        at, stored, lengths = cut[inside] - start, stored[inside], lengths[inside]
        # Runs of nearly one length are read as pieces of one, already in their order.
        piece = int(np.gcd.reduce(lengths))
        counts = lengths // piece
        if counts.sum() <= 2 * len(counts):
            nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            return read_rows(np.repeat(stored, counts) + nth * piece, piece).reshape(-1)
        values = np.empty(stop - start, dtype)
        for length in np.unique(lengths).tolist():
            some = lengths == length
            found = unsigned(read_rows(stored[some], length))
            _scatter(unsigned(values), at[some], found)
        return values


def _scatter(values: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> None:
    """Put rows, shape (n, length), at flat places; neighbours in one go."""
    length = rows.shape[1]
    if len(starts) and np.all(np.diff(starts) == length):
        values[starts[0] : starts[0] + rows.size] = rows.reshape(-1)
    elif not (len(values) % length or np.any(starts % length)):
        values.reshape(-1, length)[starts // length] = rows
    elif length < _LONG_RANGE:
        sliding_window_view(values, length, writeable=True)[starts] = rows
    else:
        for start, row in zip(starts.tolist(), rows, strict=True):
            values[start : start + length] = row
