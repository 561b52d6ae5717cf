"""Handles to tensors stored as plain bytes of a file, and the checked reading of those bytes."""

from __future__ import annotations

import errno
import io
import math
import mmap
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from troubleshooter_nb.dump import SizedByShape
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.links import refuse_outside
from troubleshooter_nb.messages import Message, joined, message_of, parts_of
from troubleshooter_nb.ranges import Starts, Strided, gathered, unsigned

_MOST_AXES = 64 if int(np.__version__.partition(".")[0]) > 1 else 32
_MOST_BYTES = 2**63 - 1
# An expanded tensor repeats what is stored; one that claims terabytes is made to exhaust memory.
_MOST_REPEATED, _LARGEST_REPEAT = 1 << 24, 1024
# What to do about a file; in an error it is a part of its own behind what is wrong.
COPY_OR_SAVE = Message("files.copy_or_save")
SAVE_AGAIN = Message("files.save_again")
# Of all that is no regular file, only a pipe would be waited for.
_READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class FileSource(SizedByShape):
    """One tensor in byte ranges of a file; an `ArraySource` that is read by flat range.

    Attributes
    ----------
    path : str
    shape : tuple of int
    dtype : dtype
        Of the values, with their byte order in the file.
    spans : tuple of (int, int)
        Offset and length in bytes of the pieces that, joined, are the storage of the tensor.
    strides : tuple of int, optional
        Distance of neighbours along each axis, in elements of the storage, which then lies in
        one span; None is C order without gaps.
    stamp : (int, int), optional
        Size in bytes and time of change in ns when it was opened; None is not checked.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype
    spans: tuple[tuple[int, int], ...]
    strides: tuple[int, ...] | None = None
    stamp: tuple[int, int] | None = None

    def files(self) -> tuple[str, ...]:
        """The one file that holds the values."""
        return (self.path,)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a range; see `ArraySource.read`."""
        with self.opened() as file:
            return file.read(start, stop, into)

    def opened(self) -> OpenedFile:
        """The file opened once for several reads, see `troubleshooter_nb.dump.reading`."""
        return OpenedFile(self)

    def read_from(
        self, file: int, start: int, stop: int, into: np.ndarray | None = None
    ) -> np.ndarray:
        """Stored values of a range, from the descriptor of the file."""
        if self.strides is None:
            return self._read_contiguous(file, start, stop, into)
        return self._read_strided(file, start, stop)

    def _read_contiguous(
        self, file: int, start: int, stop: int, into: np.ndarray | None
    ) -> np.ndarray:
        itemsize = self.dtype.itemsize
        values = np.empty(stop - start, self.dtype) if into is None else into
        # Not a memory map: a file that shrinks meanwhile must raise, not kill the process.
        view = memoryview(values.view(np.uint8).data)
        for offset, length in _cut(self.spans, start * itemsize, stop * itemsize):
            while length:
                count = _read_at(file, view[:length], offset)
                if not count:
                    raise ReadError(_changed(self.path))
                view, offset, length = view[count:], offset + count, length - count
        return values

    def rows_from(self, file: int, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges of one length, shape (n, length), from the descriptor."""
        if self.strides is None:
            read, each = partial(self.read_from, file), partial(self._read_each, file)
            return gathered(
                read, self.dtype, starts, length, each if len(self.spans) == 1 else None
            )
        stored = unsigned(self._mapped(file).view(self.dtype))

        def of_storage(places: Starts, count: int) -> np.ndarray:
            found: np.ndarray = sliding_window_view(stored, count)[places]
            return found.view(self.dtype)

        return Strided(self.shape, self.strides).rows(of_storage, self.dtype, starts, length)

    def _read_each(self, file: int, starts: np.ndarray, rows: np.ndarray) -> None:
        """Read ranges of one span into rows, in little more time than the system takes."""
        size = rows.shape[1] * self.dtype.itemsize
        view = memoryview(rows.reshape(-1).view(np.uint8).data)
        offsets = (self.spans[0][0] + starts * self.dtype.itemsize).tolist()
        for number, offset in enumerate(offsets):
            at = number * size
            if _read_at(file, view[at : at + size], offset) != size:
                start = int(starts[number])
                self._read_contiguous(file, start, start + rows.shape[1], rows[number])

    def _read_strided(self, file: int, start: int, stop: int) -> np.ndarray:
        stored = self._mapped(file)
        itemsize = self.dtype.itemsize
        steps = [step * itemsize for step in self.strides or ()]
        # Raw bytes: numpy's iterators do not know the dtypes of ml_dtypes.
        viewed: np.ndarray = np.ndarray(self.shape, f"V{itemsize}", stored.data, 0, steps)
        return np.asarray(viewed.flat[start:stop]).view(self.dtype)

    def _mapped(self, file: int) -> np.ndarray:
        """The bytes of the storage of a tensor with strides."""
        offset, length = self.spans[0]
        if _stamp_of(file)[0] < offset + length:
            raise ReadError(_changed(self.path))
        # A flat range lies scattered over the whole storage. Only a map gathers it at a bearable
        # speed; that a file shrinks within these microseconds is a risk we take.
        mapped = mmap.mmap(file, offset + length, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8, length, offset)


class OpenedFile:
    """The open file of a `FileSource`; that it is the one of the header was checked once.

    To be used in a ``with`` statement, by one thread.
    """

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def __enter__(self) -> OpenedFile:
        """Open it; `ReadError` if it is gone, changed, or cannot be opened."""
        self._file = _descriptor(self._source.path, self._source.stamp)
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        os.close(self._file)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a range; see `ArraySource.read`."""
        with self._told():
            return self._source.read_from(self._file, start, stop, into)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        with self._told():
            return self._source.rows_from(self._file, starts, length)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except ReadError:
            raise
        except OSError as error:
            raise _not_read(self._source.path, error) from error


def _descriptor(path: str, stamp: tuple[int, int] | None) -> int:
    """An open file whose header was read before, if it is still the same, as `reopened`."""
    try:
        file = os.open(path, _READ_ONLY)
    except OSError as error:
        raise _not_read(path, error) from error
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode) and stamp in (None, _stamp_of(file)):
        return file
    os.close(file)
    if stat.S_ISDIR(mode):
        raise _not_read(path, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    raise ReadError(_changed(path))


def _read_at(file: int, view: memoryview, offset: int) -> int:
    """Read some bytes from a place on; how many, 0 at the end of the file."""
    if sys.platform != "win32":
        return os.preadv(file, [view], offset)
    os.lseek(file, offset, os.SEEK_SET)
    content = os.read(file, len(view))
    view[: len(content)] = content
    return len(content)


@contextmanager
def reopened(path: str, stamp: tuple[int, int] | None) -> Iterator[io.FileIO]:
    """A file whose header was read before, unbuffered, if it is still the same.

    Raises
    ------
    ReadError
        If it is gone, changed, or cannot be read further.
    """
    try:
        with open(_descriptor(path, stamp), "rb", buffering=0) as file:
            yield file
    except ReadError:
        raise
    except OSError as error:
        raise _not_read(path, error) from error


def _not_read(path: str, error: OSError) -> ReadError:
    return ReadError(Message("files.in_file", file=Path(path).name, what=error))


def _changed(path: str) -> str:
    return Message("files.changed", file=Path(path).name)


def _cut(spans: Sequence[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """Offset and length of the pieces that hold the bytes from start to stop."""
    found = []
    before = 0
    for offset, length in spans:
        first, last = max(start - before, 0), min(stop - before, length)
        if first < last:
            found.append((offset + first, last - first))
        before += length
    return found


def checked_source(
    path: str | Path,
    shape: tuple[int, ...],
    dtype: np.dtype,
    spans: tuple[tuple[int, int], ...],
    *,
    stamp: tuple[int, int],
    offset: int = 0,
    strides: tuple[int, ...] | None = None,
) -> FileSource:
    """A handle to a tensor that really lies inside its storage and the file.

    Parameters
    ----------
    path, shape, dtype, spans, stamp
        As in `FileSource`; `shape` and `spans` may be anything a file claims.
    offset : int
        First element of the tensor in the storage.
    strides : tuple of int, optional
        In elements; those of C order become None.

    Raises
    ------
    FormatError
        For a shape no array can have, negative offsets or strides, or values that would lie
        outside the storage or the storage outside the file.
    """
    check_shape(shape, dtype)
    for begin, length in spans:
        if begin < 0 or length < 0 or begin + length > stamp[0]:
            where = {"begin": begin, "end": begin + length, "size": stamp[0]}
            raise FormatError(joined([Message("files.values_outside", **where), COPY_OR_SAVE]))
    stored = spans[0][1] if len(spans) == 1 else sum(length for _, length in spans)
    held, size = stored // dtype.itemsize, math.prod(shape)
    if strides is not None and (offset < 0 or any(step < 0 for step in strides)):
        raise FormatError(Message("files.offset_outside", offset=offset, strides=strides))
    if strides is not None and len(strides) != len(shape):
        raise FormatError(Message("files.strides_of_axes", strides=len(strides), axes=len(shape)))
    plain = strides is None or not size or _is_plain(shape, strides)
    reach = size
    if strides is not None and not plain:
        reach = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if size and offset + reach > held:
        facts = {"shape": shape, "dtype": dtype, "needed": offset + reach, "held": held}
        what = Message("files.storage_too_small", **facts)
        raise FormatError(joined([what, Message("files.damaged")]))
    if size > max(_MOST_REPEATED, _LARGEST_REPEAT * held):
        what = Message("files.repeats", size=size, shape=shape, held=held)
        raise FormatError(joined([what, Message("files.not_read")]))
    first, count = offset * dtype.itemsize, (reach if size else 0) * dtype.itemsize
    used = tuple(_cut(spans, first, first + count))
    if not plain and len(used) > 1:
        raise FormatError(Message("files.strides_of_pieces", strides=strides, count=len(used)))
    return FileSource(str(path), shape, dtype, used, None if plain else strides, stamp)


def _is_plain(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether these are the strides of C order; those of axes of length 1 say nothing."""
    expected = 1
    for length, step in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and step != expected:
            return False
        expected *= length
    return True


def fortran_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements with which the first axis varies fastest."""
    return tuple(math.prod(shape[:axis]) for axis in range(len(shape)))


def check_shape(shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse shapes no array can have.

    Raises
    ------
    FormatError
        For lengths that are no whole numbers or negative, too many axes, or more bytes than can
        be addressed.
    """
    if not _is_possible(shape, dtype.itemsize):
        raise FormatError(Message("files.impossible_shape", shape=str(shape)[:80]))


def _is_possible(shape: tuple[int, ...], itemsize: int) -> bool:
    if len(shape) > _MOST_AXES:
        return False
    size = itemsize or 1
    for length in shape:
        if type(length) is not int or length < 0:
            return False
        # An axis of no length does not excuse what the others claim.
        size *= length or 1
    return size <= _MOST_BYTES


def refuse_special(path: Path) -> None:
    """Raise FormatError for what is no regular file: a pipe is waited for, a device has no end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        said = Message("files.no_contents")
        raise FormatError(Message("files.in_file", file=path.name, what=said))


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, tuple[int, int]]]:
    """A regular file and its stamp.

    Raises
    ------
    FormatError
        If it is empty or no regular file: opening a pipe would wait for its writer. Or if a link
        leads to it, out of the folder that is being opened.
    OSError
        If it cannot be opened.
    """
    refuse_outside(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FormatError(Message("files.no_contents"))
    with open(path, "rb") as file:
        stamp = stamp_of(file)
        if not stamp[0]:
            raise FormatError(joined([Message("files.empty"), SAVE_AGAIN]))
        yield file, stamp


@contextmanager
def named(path: Path, otherwise: str = COPY_OR_SAVE) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it, and behind it what to do."""
    try:
        yield
    except FormatError as error:
        said = advised(error, "files.in_file", otherwise, file=path.name)
        raise FormatError(said) from None


def advised(error: FormatError, id: str, otherwise: str = COPY_OR_SAVE, **values: object) -> str:
    """What an error says in the gap ``what`` of a message, and what to do as a part behind it.

    That is what the error advises, its parts but the first, or else what is said `otherwise`.
    """
    what, *advice = parts_of(message_of(error))
    return joined([Message(id, what=what, **values), *(advice or [otherwise])])


def head_and_stamp(path: str | Path, count: int) -> tuple[bytes, tuple[int, int]]:
    """The first bytes of a regular file, and its stamp; raises as `opened`."""
    refuse_outside(path)
    try:
        file = os.open(path, _READ_ONLY)
    except OSError:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FormatError(Message("files.no_contents")) from None
        raise
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(Message("files.no_contents"))
        if not status.st_size:
            raise FormatError(joined([Message("files.empty"), SAVE_AGAIN]))
        head = os.read(file, min(count, status.st_size))
        return head, (status.st_size, status.st_mtime_ns)
    finally:
        os.close(file)


def head_of(path: Path, count: int) -> bytes:
    """The first bytes of a regular file; nothing of anything else or what cannot be read."""
    try:
        with opened(path) as (file, (size, _)):
            # read() sets aside what it is asked for, however short the file is.
            return file.read(min(count, size))
    except (FormatError, OSError):
        return b""


def stamp_of(file: io.FileIO | BinaryIO) -> tuple[int, int]:
    """Size in bytes and time of change in ns of an open file."""
    return _stamp_of(file.fileno())


def _stamp_of(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_size, status.st_mtime_ns
