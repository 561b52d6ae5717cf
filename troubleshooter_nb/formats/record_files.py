"""The open files of a recording that is being written, by one thread at a time."""

from __future__ import annotations

import errno
import os
import sys
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.formats.file_source import head_of
from troubleshooter_nb.formats.record_layout import (
    ALIGNMENT,
    INDEX,
    OPENING,
    SEALED,
    SHARD_NAME,
    seal_of,
    shard_name,
)
from troubleshooter_nb.messages import Message

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Record = tuple[bytes, "np.ndarray | None"]  # its line without newline, and the values it is of
_Piece = bytes | memoryview
_Large = tuple[int, memoryview]  # which line, and the values that are to be summed

_SHARD_BYTES = 1 << 30
_ZEROS = bytes(ALIGNMENT)
_MOST_PIECES = 1000  # in one call; POSIX systems take 1024
_SUMMED_AT_ONCE = 1 << 20  # bytes that are summed before another thread has begun
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OPEN = os.O_CREAT | os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class RecordFiles:
    """Index and shards of one rank, replaced where an earlier recording left some.

    Parameters
    ----------
    folder : Path
    header : bytes
        The first line, without newline.

    Raises
    ------
    ArgumentError
        If the folder holds files that are not ours, or another recording writes into it.
    OSError
        If it cannot be written.
    """

    def __init__(self, folder: Path, header: bytes) -> None:
        shards = _checked(folder)
        self._folder = folder
        self._blob = -1
        self._shard, self._synced = -1, 0
        self._at = self._index_size = 0
        self.index_sum = 0  # CRC-32 of what the index holds
        self._summing = ThreadPoolExecutor(1)
        self._index = os.open(folder / INDEX, _OPEN, 0o666)
        try:
            _lock(self._index, folder)
            # An index without its shards is still ours, should we be killed in between.
            for name in shards:
                os.unlink(folder / name)
            os.ftruncate(self._index, 0)
            self._add([header], [0], [], [])
        except BaseException:
            os.close(self._index)
            raise

    def write(self, records: Iterable[Record]) -> None:
        """Write records in order, all bytes before any line.

        Raises
        ------
        OSError
            If they do not all fit. Those that do are there, and nothing half.
        """
        lines: list[bytes] = []
        ends: list[int] = []
        pieces: list[_Piece] = []
        large: list[_Large] = []
        for line, array in records:
            if array is not None:
                if self._blob < 0 or self._at >= _SHARD_BYTES:
                    self._add(lines, ends, pieces, large)
                    lines, ends, pieces, large = [], [], [], []
                    self._begin_shard()
                values = _bytes_of(array)
                place = self._shard, self._at, seal_of(values)
                line = b'%b,"at":[%d,%d],"seal":%d}' % (line[:-1], *place)
                if len(values) > 2 * SEALED:
                    large.append((len(lines), values))
                pieces += (values, _ZEROS[: -len(values) % ALIGNMENT])
                self._at += len(values) + len(pieces[-1])
            lines.append(line)
            ends.append(self._at)
        self._add(lines, ends, pieces, large)

    def _add(
        self,
        lines: list[bytes],
        ends: list[int],
        pieces: Sequence[_Piece],
        large: Sequence[_Large],
    ) -> None:
        """Append pieces to the shard and lines to the index; `ends` is where their bytes end."""
        begin = self._at - sum(map(len, pieces))
        sums = self._sums([values for _, values in large])
        done, failed = _written(self._blob, pieces)
        for (at, _), crc in zip(large, sums(), strict=True):
            lines[at] = b'%b,"sum":%d}' % (lines[at][:-1], crc)
        whole = bisect_right(ends, begin + done)
        while True:
            if whole < len(lines):
                self._at = ends[whole - 1] if whole else begin
                _cut(self._blob, self._at)
            text = b"".join([part for line in lines[:whole] for part in (line, b"\n")])
            done, no_line = _written(self._index, [text])
            if no_line is not None:
                done = text.rfind(b"\n", 0, done) + 1
                _cut(self._index, self._index_size + done)
            if not pieces or not whole or getattr(no_line, "errno", 0) not in _FULL:
                break
            # Values without lines are lost: half of them make room for the lines of the others.
            _cut(self._index, self._index_size)
            failed, whole = failed or no_line, whole // 2
        self._index_size += done
        self.index_sum = zlib.crc32(text[:done], self.index_sum)
        if error := failed or no_line:
            raise error

    def _sums(self, values: Sequence[memoryview]) -> Callable[[], list[int]]:
        """The CRC-32 of each value: of many bytes computed while they are being written."""

        def computed() -> list[int]:
            return [*map(zlib.crc32, values)]

        if sum(map(len, values)) < _SUMMED_AT_ONCE:
            return computed
        try:
            return self._summing.submit(computed).result
        except RuntimeError:  # the interpreter is going
            return computed

    def _begin_shard(self) -> None:
        if self._blob >= 0:
            os.close(self._blob)
        self._blob, self._at = -1, 0
        self._shard += 1
        path = self._folder / shard_name(self._shard)
        self._blob = os.open(path, _OPEN | os.O_TRUNC, 0o666)

    def sync(self) -> None:
        """Have the disk hold what was written so far; may run beside `write`."""
        last = self._shard
        for number in range(self._synced, last + 1):
            _sync(self._folder / shard_name(number))
        _sync(self._folder / INDEX)
        self._synced = max(last, 0)
        if hasattr(os, "O_DIRECTORY"):  # elsewhere folders cannot be opened
            _sync(self._folder)

    def close(self) -> None:
        """Close the files; what was written stays."""
        if fcntl is not None:
            with suppress(OSError):  # a forked child holds them, too, and the lock with them
                fcntl.flock(self._index, fcntl.LOCK_UN)
        for file in (self._blob, self._index):
            if file >= 0:
                os.close(file)
        self._blob = self._index = -1
        self._summing.shutdown(wait=False)


def _checked(folder: Path) -> list[str]:
    """The shards of an earlier recording in a folder, which is made where missing.

    ArgumentError for one with anything else in it.
    """
    if folder.exists() and not folder.is_dir():
        raise ArgumentError(Message("records.a_file", folder=folder.name))
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(os.listdir(folder))
    shards = [name for name in names if SHARD_NAME.fullmatch(name)]
    others = [name for name in names if name not in (INDEX, *shards)]
    if not others and shards and INDEX not in names:
        others = shards
    if INDEX in names and not _is_ours(folder / INDEX):
        others = [INDEX, *others]
    if others:
        raise ArgumentError(Message("records.foreign_files", folder=folder.name, names=others))
    return shards


def _is_ours(index: Path) -> bool:
    """Whether it begins as ours do; one that was killed at its header holds less."""
    head = head_of(index, len(OPENING))
    return index.is_file() and OPENING.startswith(head)


def _lock(file: int, folder: Path) -> None:
    """Hold the index until this process ends; two that take one rank would spoil each other's."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Disks of a network may have no locks.
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise ArgumentError(Message("records.being_written", folder=folder.name)) from None


def _bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of the values in C order, little-endian; a view where they lie so."""
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # By way of bytes: arrays of ml_dtypes have no buffer.
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _written(file: int, pieces: Sequence[_Piece]) -> tuple[int, OSError | None]:
    """Append pieces, in as few calls as there can be: bytes written, and what stopped it."""
    done, left = 0, [piece for piece in pieces if len(piece)]
    try:
        while left:
            count = _write_some(file, left[:_MOST_PIECES])
            done += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if count:
                left[0] = memoryview(left[0])[count:]
    except OSError as error:
        return done, error
    return done, None


def _write_some(file: int, pieces: Sequence[_Piece]) -> int:
    if sys.platform != "win32":
        return os.writev(file, pieces)
    return os.write(file, pieces[0])


def _cut(file: int, size: int) -> None:
    """Drop what lies behind a place, and go on there; where it cannot be, it stays."""
    with suppress(OSError):
        os.ftruncate(file, size)
        os.lseek(file, size, os.SEEK_SET)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
