"""Arrays in compressed members of zip archives: read by flat range, whatever they claim."""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from troubleshooter_nb.dump import SizedByShape
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.checksums import Part, checked_part, judged_part, unsummed
from troubleshooter_nb.formats.file_source import COPY_OR_SAVE, fortran_strides, reopened
from troubleshooter_nb.formats.limits import BOMB_RATIO, beyond, most
from troubleshooter_nb.formats.zip_directory import NO_SUM, Member, members, own_header
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.ranges import Pieces, Starts, Strided, gathered

STORED, DEFLATED = 0, 8

# Deflate cannot do better than 1,032 to 1; the rest is for members of a few bytes.
_BEST_RATIO, _RATIO_SLACK = 1032, 1024
_ENCRYPTED = 1  # bit of the flags
_BLOCK = 1 << 18  # bytes


class Placed(NamedTuple):
    """A member and the place of its bytes; `problem` says why it cannot be read, if so."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    begin: int
    problem: str


def placed_members(file: BinaryIO, size: int) -> list[Placed]:
    """The members of an archive, in its order, with the place of their bytes.

    Parameters
    ----------
    file : binary file
    size : int
        Bytes of the file.

    Returns
    -------
    list of Placed
        Folders are left out. One that is encrypted, or whose claims about itself cannot be true,
        has a `problem`.

    Raises
    ------
    FormatError
        If its directory is missing or damaged, or names too many members, or one twice, or two
        share bytes: a few bytes could then stand for any amount of values.
    """
    listed = members(file, 0, size)
    if len(listed) > most("tensors"):
        what = Message("zips.too_many_members", count=len(listed))
        raise FormatError(beyond("tensors", what, len(listed)))
    inner = [member for member in listed.values() if member.name[-1:] != "/"]
    found = [_placed(file, member, size) for member in inner]
    end, previous = 0, ""
    for one in sorted(found, key=lambda one: one.begin):
        if 0 <= one.begin < end:
            what = Message("zips.overlaps", name=one.name[:80], other=previous[:80])
            raise FormatError(joined([what, Message("zips.archive_damaged")]))
        end, previous = max(end, one.begin + one.packed * (one.begin >= 0)), one.name
    return _without_bombs(found)


def _without_bombs(found: list[Placed]) -> list[Placed]:
    """The members, with a problem for those that make the archive stand for too much.

    What a person's arrays compress to is of a size with them, or they are small. In front of the
    limit they open, also where they are zeros.
    """
    bombs = [one for one in found if one.size > BOMB_RATIO * one.packed and not one.problem]
    total, left = sum(one.size for one in bombs), most("unpacked")
    if total <= left:
        return found
    refused = set()
    for one in bombs:
        if one.size > left:
            refused.add(one.name)
        else:
            left -= one.size
    return [
        one._replace(problem=_bomb(one, total)) if one.name in refused else one for one in found
    ]


def _bomb(one: Placed, total: int) -> str:
    return beyond("unpacked", Message("zips.bomb", packed=one.packed, size=one.size), total)


def _placed(file: BinaryIO, member: Member, size: int) -> Placed:
    """A member where its own header, which must agree with the directory, puts it."""
    begin = _begin(file, member, size)
    problem: str = ""
    if begin < 0:
        problem = Message("zips.no_own_header")
    elif member.flags & _ENCRYPTED:
        problem = Message("zips.password")
    elif member.method not in (STORED, DEFLATED):
        problem = Message("zips.method", method=member.method)
    elif member.method == STORED and member.packed != member.size:
        problem = Message("zips.stored_size", packed=member.packed, size=member.size)
    elif member.size > _BEST_RATIO * member.packed + _RATIO_SLACK:
        problem = Message("zips.cannot_hold", packed=member.packed, size=member.size)
    return Placed(
        member.name, member.method, member.crc, member.packed, member.size, begin, problem
    )


def _begin(file: BinaryIO, member: Member, size: int) -> int:
    """The place of a member's bytes; -1 where its own header is another or missing."""
    try:
        own = own_header(file, member, size)
    except FormatError:
        return -1
    return own.begin if own.agrees and own.begin + member.packed <= size else -1


def checked_parts(file: BinaryIO, size: int) -> Iterator[Part]:
    """The members of an archive, each against its CRC-32; raises as `placed_members`."""
    for member in placed_members(file, size):
        part = Part(member.name, member.begin, member.begin + member.packed, "unread")
        if member.problem:
            yield part._replace(reason=member.problem)
        elif member.method == DEFLATED:
            yield judged_part(part, _is_sound(file, member))
        else:
            found = checked_part(file, part, member.crc)
            if found.state == "damaged" and member.crc == NO_SUM:
                found = unsummed(part.name, part.begin, part.end)
            yield found


def _is_sound(file: BinaryIO, member: Placed) -> bool:
    """Whether a compressed member has the CRC-32 that the directory says."""
    stream = _Stream(member)
    try:
        stream.skip(file, member.size)
    except (zlib.error, EOFError):
        return False
    return stream.crc == member.crc


def head_of_member(file: BinaryIO, member: Placed, count: int) -> bytes:
    """The first bytes of a member without problem.

    Raises
    ------
    FormatError
        If its compression is damaged there.
    """
    count = min(count, member.size)
    file.seek(member.begin)
    # What does not compress grows a little.
    packed = file.read(min(member.packed, count + 1024))
    if member.method == STORED:
        return packed[:count]
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, max(count, 1))[:count]
    except zlib.error as error:
        what = Message("zips.compression", detail=error)
        raise FormatError(joined([what, COPY_OR_SAVE])) from None


@dataclass(frozen=True)
class ArchiveSource(SizedByShape):
    """One array in a compressed member; an `ArraySource` best read from front to back.

    Reading on where an earlier read ended goes on decompressing there; anything else starts
    over at the front. Rows are read in one pass, in whatever order they are asked for. In Fortran
    order a pass makes a part, which is kept for the next read.

    Attributes
    ----------
    path : str
    shape : tuple of int
    dtype : dtype
        Of the values, with their byte order in the file.
    member : Placed
    offset : int
        Bytes of the member before the values.
    fortran : bool
        Whether the first axis varies fastest.
    stamp : (int, int)
        Size in bytes and time of change in ns when it was opened.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype
    member: Placed
    offset: int
    fortran: bool
    stamp: tuple[int, int]

    def files(self) -> tuple[str, ...]:
        """The one file that holds the values."""
        return (self.path,)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values; as `ArraySource.read`, also where the member is damaged."""
        with self.opened() as opened:
            return opened.read(start, stop, into)

    @contextmanager
    def opened(self) -> Iterator[_OpenedMember]:
        """The file opened once for several reads, see `troubleshooter_nb.dump.reading`."""
        with reopened(self.path, self.stamp) as file:
            yield _OpenedMember(self, file)

    def _values(
        self, file: BinaryIO, start: int, stop: int, into: np.ndarray | None = None
    ) -> np.ndarray:
        """Values in the order they are stored in."""
        values = np.empty(stop - start, self.dtype) if into is None else into
        view = memoryview(values.view(np.uint8).data)
        if not len(view):
            return values
        first = self.offset + start * self.dtype.itemsize
        stream = _streams.take(self, first)
        try:
            stream.skip(file, first)
            stream.fill(file, view)
        except (zlib.error, EOFError) as error:
            where = {"file": Path(self.path).name, "member": self.member.name[:80]}
            raise ReadError(Message("zips.member_damaged", **where, detail=error)) from None
        _streams.give(self, stream)
        return values


class _OpenedMember:
    """The open file of an `ArchiveSource`."""

    def __init__(self, source: ArchiveSource, file: BinaryIO) -> None:
        self._source = source
        self._stored = partial(source._values, file)
        self._order = Strided(source.shape, fortran_strides(source.shape))

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values of a range; see `ArraySource.read`."""
        if not self._source.fortran:
            return self._stored(start, stop, into)
        return _pieces.read(self._source, math.prod(self._source.shape), self._made, start, stop)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        if not self._source.fortran:
            return self._as_stored(starts, length)
        return self._order.rows(self._as_stored, self._source.dtype, starts, length)

    def _made(self, start: int, stop: int) -> np.ndarray:
        return self._order.range(self._as_stored, self._source.dtype, start, stop)

    def _as_stored(self, starts: Starts, length: int) -> np.ndarray:
        return gathered(self._stored, self._source.dtype, starts, length)


@dataclass
class _Stream:
    """A decompressor, and how far it has come in its member."""

    member: Placed
    done: int = 0  # bytes of values
    taken: int = 0  # compressed bytes
    crc: int = 0
    waiting: bytes = b""
    decompressor: Any = field(default_factory=lambda: zlib.decompressobj(-zlib.MAX_WBITS))

    def skip(self, file: BinaryIO, to: int) -> None:
        while self.done < to:
            self._next(file, to - self.done)

    def fill(self, file: BinaryIO, view: memoryview) -> None:
        while len(view):
            piece = self._next(file, len(view))
            view[: len(piece)] = piece
            view = view[len(piece) :]

    def _next(self, file: BinaryIO, most: int) -> bytes:
        """Some bytes, at most so many, never none."""
        piece = b""
        while not piece:
            if not self.waiting and self.taken < self.member.packed:
                file.seek(self.member.begin + self.taken)
                self.waiting = file.read(min(_BLOCK, self.member.packed - self.taken))
                self.taken += len(self.waiting)
            ended = self.decompressor.eof or not self.waiting
            piece = self.decompressor.decompress(self.waiting, min(most, _BLOCK))
            self.waiting = self.decompressor.unconsumed_tail
            if ended and not piece:
                raise EOFError(Message("zips.ends_after", done=self.done, size=self.member.size))
        self.done += len(piece)
        self.crc = zlib.crc32(piece, self.crc)
        if self.done == self.member.size and self.crc != self.member.crc:
            raise EOFError(Message("zips.wrong_sum"))
        return piece


class _Streams:
    """Decompressors that stand where the last read of their member ended, a few at most.

    Each is used by one thread at a time: it is taken out for a read and given back after it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._idle: list[tuple[ArchiveSource, _Stream]] = []

    def take(self, source: ArchiveSource, at: int) -> _Stream:
        """The decompressor that is nearest before this byte, or a new one."""
        with self._lock:
            fits = [one for one in self._idle if one[0] == source and one[1].done <= at]
            if not fits:
                return _Stream(source.member)
            nearest = max(fits, key=lambda one: one[1].done)
            self._idle = [one for one in self._idle if one is not nearest]
            return nearest[1]

    def give(self, source: ArchiveSource, stream: _Stream) -> None:
        """Keep it for the next read, instead of the one that waits longest."""
        if stream.done == stream.member.size:
            return
        with self._lock:
            self._idle = [*self._idle, (source, stream)][-self._most :]


# A decompressor takes 40 KB, and its waiting input up to 256 KB.
_streams = _Streams(most=16)
_pieces = Pieces()
