"""The wire format of protocol buffers, walked over a file without loading it.

Source: protobuf.dev/programming-guides/encoding. Only what MindSpore's files use: whole numbers and
pieces of bytes; of fixed-size numbers only the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.messages import Message

_WINDOW = 4096
_LONGEST_VARINT = 10  # bytes of 64 bits, seven in each
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


# A field of a message: its number, its value if that is a whole number, the range of its bytes.
# A bare tuple, because a checkpoint of thousands of tensors has tens of thousands of them.
Field = tuple[int, int | None, int, int]


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
            here = at - self._begin
            key = self._window[here] if 0 <= here < len(self._window) else 0xFF
            # Nearly all keys are a byte in the window, of a number or of bytes: bits 0, 2 and 7 are
            # not set. A call costs more than such a byte.
            if key & 0x85:
                key, size, at = self._head(at, stop)
            else:
                size = self._window[here + 1] if here + 1 < len(self._window) else 0xFF
                at += 2
                if size > 127 or at > stop:
                    size, at = self._varint(at - 1, stop)
            if key & 7 == _VARINT:
                yield key >> 3, size, begin, at
                continue
            if at + size > stop:
                facts = {"number": key >> 3, "begin": begin, "size": size, "left": stop - at}
                raise FormatError(Message("ckpt.field_too_long", **facts))
            yield key >> 3, None, at, at + size
            at += size

    def varints(self, start: int, stop: int) -> Iterator[int]:
        """Whole numbers written one after the other."""
        at = start
        while at < stop:
            value, at = self._varint(at, stop)
            yield value

    def _head(self, at: int, stop: int) -> tuple[int, int, int]:
        """Key of a field, its number or the size of its bytes, and where they begin."""
        key, at = self._varint(at, stop)
        wire = key & 7
        if wire in (_VARINT, _BYTES):
            return key, *self._varint(at, stop)
        if wire not in (_FIXED_32, _FIXED_64):
            raise FormatError(Message("ckpt.no_field", at=at - 1, wire=wire))
        return key, 4 if wire == _FIXED_32 else 8, at

    def _varint(self, at: int, stop: int) -> tuple[int, int]:
        first = at - self._begin
        here = self._window[first : first + _LONGEST_VARINT] if first >= 0 else b""
        if len(here) < _LONGEST_VARINT:
            here = self.take(at, min(at + _LONGEST_VARINT, stop))
        value = shift = 0
        for length, byte in enumerate(here, 1):
            value |= (byte & 127) << shift
            if byte < 128:
                if at + length > stop:
                    break
                return value, at + length
            shift += 7
        raise FormatError(Message("ckpt.endless_number", at=at))


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
