"""The wire format of protocol buffers, walked over a file without loading it.

Source: protobuf.dev/programming-guides/encoding. Only what MindSpore's files use: whole numbers and
pieces of bytes; of fixed-size numbers only the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from troubleshooter_nb.errors import FormatError

_WINDOW = 4096
_LONGEST_VARINT = 10  # bytes of 64 bits, seven in each
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class Field(NamedTuple):
    """One field of a message: its number, and a whole number or the range of its bytes."""

    number: int
    value: int | None
    start: int
    stop: int

    @property
    def is_bytes(self) -> bool:
        """Whether it is a piece of bytes: a text, a message or contents."""
        return self.value is None


class Walker:
    """A file read in small windows, wherever asked."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._window = b""
        self._begin = 0

    def take(self, start: int, stop: int) -> bytes:
        """The bytes of a range; fewer where the file ends."""
        first = start - self._begin
        if first < 0 or stop - self._begin > len(self._window):
            self._file.seek(start)
            self._window = self._file.read(max(_WINDOW, stop - start))
            self._begin, first = start, 0
        return self._window[first : first + stop - start]

    def fields(self, start: int, stop: int) -> Iterator[Field]:
        """The fields of the message in this range, in their order.

        Raises
        ------
        FormatError
            If a field ends behind the message, or the bytes are no message at all.
        """
        at = start
        while at < stop:
            begin = at
            key, size, at = self._head(at, stop)
            if key & 7 == _VARINT:
                yield Field(key >> 3, size, begin, at)
                continue
            if at + size > stop:
                msg = (
                    f"field {key >> 3} at byte {begin:,} needs {size:,} bytes, "
                    f"{stop - at:,} are left"
                )
                raise FormatError(msg)
            yield Field(key >> 3, None, at, at + size)
            at += size

    def varints(self, start: int, stop: int) -> Iterator[int]:
        """Whole numbers written one after the other."""
        at = start
        while at < stop:
            value, at = self._varint(at, stop)
            yield value

    def _head(self, at: int, stop: int) -> tuple[int, int, int]:
        """Key of a field, its number or the size of its bytes, and where they begin."""
        here = at - self._begin
        head = self._window[here : here + 2] if here >= 0 else b""
        # Nearly all of them are a byte each and in the window.
        if len(head) == 2 and not head[0] & 0x85 and head[1] < 128 and at + 2 <= stop:
            return head[0], head[1], at + 2
        key, at = self._varint(at, stop)
        wire = key & 7
        if wire in (_VARINT, _BYTES):
            return key, *self._varint(at, stop)
        if wire not in (_FIXED_32, _FIXED_64):
            msg = f"no field begins at byte {at - 1:,} (wire type {wire})"
            raise FormatError(msg)
        return key, 4 if wire == _FIXED_32 else 8, at

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        here = at - self._begin
        # Nearly all of them are one byte long and in the window.
        if 0 <= here < len(self._window) and at < stop and (byte := self._window[here]) < 128:
            return byte, at + 1
        value = shift = 0
        for byte in self.take(at, min(at + _LONGEST_VARINT, stop)):
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
        msg = f"the number at byte {at - shift // 7:,} does not end"
        raise FormatError(msg)


def varint(value: int) -> bytes:
    """A whole number from 0, as written."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def bytes_head(number: int, size: int) -> bytes:
    """What stands in front of a field of this many bytes."""
    return varint(number << 3 | _BYTES) + varint(size)


def number_field(number: int, value: int) -> bytes:
    """A field with a whole number."""
    return varint(number << 3 | _VARINT) + varint(value)
