"""Arrays in stored members of zip archives: read by place, checked by CRC-32 once read whole."""

from __future__ import annotations

import math
import threading
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.formats.archive_source import Placed
from troubleshooter_nb.formats.checksums import joined_crc
from troubleshooter_nb.formats.file_source import FileSource, reopened
from troubleshooter_nb.messages import Message
from troubleshooter_nb.ranges import Starts, gathered

_BLOCK = 1 << 20  # bytes
_MOST_SEGMENTS = 256


class _Covered:
    """The parts of the values that were read, and the CRC-32 of each.

    Blocks are read in any order and by several threads; each is put together with its neighbours.
    """

    def __init__(self) -> None:
        self.sound: bool | None = None  # None until everything was read
        self._lock = threading.Lock()
        self._segments: list[tuple[int, int, int]] = []

    def __reduce__(self) -> tuple[type[_Covered], tuple[()]]:
        return _Covered, ()

    def new_in(self, start: int, stop: int) -> tuple[int, int]:
        """The range without what was read of its beginning and of its end."""
        with self._lock:
            for first, last, _ in self._segments:
                if first <= start < last:
                    start = last
                if first < stop <= last:
                    stop = first
        return start, stop

    def add(self, start: int, stop: int, crc: int) -> tuple[int, int, int]:
        """Put a part in; the longest one that now holds it, as first byte, last and CRC."""
        with self._lock:
            kept = []
            for first, last, known in self._segments:
                if last == start:
                    start, crc = first, joined_crc(known, crc, stop - last)
                elif first == stop:
                    stop, crc = last, joined_crc(crc, known, last - first)
                elif last < start or stop < first:
                    kept.append((first, last, known))
                elif first < start or stop < last:
                    return 0, 0, 0  # another thread was faster
            self._segments = [*kept[1 - _MOST_SEGMENTS :], (start, stop, crc)]
            return self._segments[-1]


@dataclass(frozen=True, kw_only=True)
class StoredSource(FileSource):
    """One array in a member that is not compressed; a `FileSource` that knows its CRC-32.

    The CRC is that of the member as a whole: the read that completes the values, in whatever
    order they come, raises where it does not fit, and so does every later one. Who reads a part
    only gets it unchecked. What was checked once is not checked again.

    Attributes
    ----------
    member : Placed
    before : int
        CRC-32 of the bytes of the member before the values.
    offset : int
        How many these are.
    """

    member: Placed
    before: int
    offset: int
    covered: _Covered = field(default_factory=_Covered, compare=False, repr=False)

    def read_from(
        self, file: int, start: int, stop: int, into: np.ndarray | None = None
    ) -> np.ndarray:
        """Stored values; raises as `read`, also where the CRC-32 of all of them is wrong."""
        self._refuse_damaged()
        values = super().read_from(file, start, stop, into)
        if self.covered.sound is None:
            self._check(values, start)
        return values

    def rows_from(self, file: int, starts: Starts, length: int) -> np.ndarray:
        """Stored values of ranges; who reads fewer than all gets them unchecked, as by `read`."""
        self._refuse_damaged()
        if self.covered.sound is None and len(starts) * length >= math.prod(self.shape):
            # A map would not be checked.
            return gathered(partial(self.read_from, file), self.dtype, starts, length)
        plain = partial(super().read_from, file)
        if self.strides is None:
            return gathered(plain, self.dtype, starts, length)
        return super().rows_from(file, starts, length)

    def _check(self, values: np.ndarray, start: int) -> None:
        at = start * self.dtype.itemsize
        begin, end = self.covered.new_in(at, at + values.nbytes)
        if begin >= end:
            return
        # The bytes of other strides are not those of the file in their order.
        plain = self.strides is None
        crc = zlib.crc32(values.view(np.uint8).data[begin - at : end - at]) if plain else 0
        first, last, crc = self.covered.add(begin, end, crc)
        if (first, last) != (0, self.size_bytes):
            return
        crc = joined_crc(self.before, crc, last) if plain else self.before
        behind = self.offset + (last if plain else 0)
        self.covered.sound = self._rest(behind, crc) == self.member.crc
        self._refuse_damaged()

    def _rest(self, behind: int, crc: int) -> int:
        """The CRC-32 of the member, from that of its bytes up to a place."""
        left = self.member.size - behind
        if left:
            with reopened(self.path, self.stamp) as file:
                file.seek(self.member.begin + behind)
                while left and (piece := file.read(min(left, _BLOCK))):
                    crc = zlib.crc32(piece, crc)
                    left -= len(piece)
        return crc

    def _refuse_damaged(self) -> None:
        if self.covered.sound is False:
            where = {"file": Path(self.path).name, "member": self.member.name[:80]}
            detail = Message("zips.wrong_sum")
            raise ReadError(Message("zips.member_damaged", **where, detail=detail))
