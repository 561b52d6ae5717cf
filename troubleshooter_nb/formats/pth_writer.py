"""Writes a state dict that ``torch.load(weights_only=True)`` loads, without torch and streamed."""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.checkpoint import Item, bytes_of
from troubleshooter_nb.formats.checksums import beside, written
from troubleshooter_nb.messages import Message

_STORAGES = {
    **{"float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16"},
    **{"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte"},
    **{"bool": "Bool", "complex128": "ComplexDouble", "complex64": "ComplexFloat"},
}
# Dtypes without a storage class: torch keeps them as bytes and says the dtype beside them.
_UNTYPED = (
    *("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"),
    *("float8_e5m2fnuz", "float8_e8m0fnu"),
)
_TOP = "archive/"
_ALIGNMENT = 64  # bytes, as torch does it, so that a map of the file can be used as it is
_LARGE = 0xFFFFFFFF  # what 32 bits hold, and in a zip the mark of a number that needs more
_MOST_MEMBERS = 0xFFFF
_DATE = 0x21  # 1 January 1980: the same values give the same file


def write_pth(path: Path, items: Sequence[Item]) -> list[tuple[str, str]]:
    """Write a state dict; the file appears whole or not at all.

    Takes, returns and raises what `ckpt.write_ckpt` does, and `ArgumentError` where two items have
    one name or values do not make up a shape; torch lacks the dtypes that are left out.
    """
    left_out = [(item.name, reason) for item in items if (reason := why_not_held(item))]
    kept = [item for item in items if not why_not_held(item)]
    if len({item.name for item in kept}) < len(kept):
        raise ArgumentError(Message("pth.same_name"))
    _write(path, b"".join(_pickle(kept)), kept)
    return left_out


def why_not_held(item: Item) -> str:
    """Why torch cannot hold it; empty if it can."""
    lacking = Message("pth.torch_lacks", dtype=item.dtype.name)
    return "" if torch_holds(item.dtype) else lacking


def torch_holds(dtype: np.dtype) -> bool:
    """Whether torch has a dtype of this name."""
    return dtype.name in _STORAGES or dtype.name in _UNTYPED


def write_pth_tensor(path: Path, item: Item) -> None:
    """Write one tensor, of a dtype that torch holds, as ``torch.save`` of it alone does."""
    with written_whole(path) as stream:
        write_pth_tensor_into(stream, item)


def write_pth_tensor_into(stream: BinaryIO, item: Item) -> None:
    """As `write_pth_tensor`, into a file that can be read and sought."""
    _write_into(stream, b"\x80\x02" + b"".join(_tensor(0, item)) + b".", [item])


def _write(path: Path, pickle: bytes, items: Sequence[Item]) -> None:
    with written_whole(path) as stream:
        _write_into(stream, pickle, items)


def _write_into(stream: BinaryIO, pickle: bytes, items: Sequence[Item]) -> None:
    size = sum(item.size_bytes for item in items)
    with beside(size) as executor:
        if executor is not None:
            _fill(_Archive(stream, executor), pickle, items)
            return
        whole = BytesIO()  # to go back in it costs nothing
        _fill(_Archive(whole, None), pickle, items)
        stream.write(whole.getbuffer())


def _fill(archive: _Archive, pickle: bytes, items: Sequence[Item]) -> None:
    archive.add("data.pkl", pickle)
    archive.add("byteorder", b"little")
    for number, item in enumerate(items):
        archive.add_values(f"data/{number}", item)
    archive.add("version", b"3\n")
    archive.finish()


def _pickle(items: Sequence[Item]) -> Iterator[bytes]:
    """The state dict in protocol 2, the opcodes torch's own writer uses."""
    yield b"\x80\x02ccollections\nOrderedDict\n)R("
    for number, item in enumerate(items):
        yield _text(item.name)
        yield from _tensor(number, item)
    yield b"u."


def _tensor(number: int, item: Item) -> Iterator[bytes]:
    size = math.prod(item.shape)
    kind = _STORAGES.get(item.dtype.name)
    rebuild = b"_rebuild_tensor_v2" if kind else b"_rebuild_tensor_v3"
    yield b"ctorch._utils\n" + rebuild + b"\n(("
    yield _text("storage")
    if kind:
        yield f"ctorch\n{kind}Storage\n".encode()
    else:
        yield b"ctorch.storage\nUntypedStorage\n"
        size *= item.dtype.itemsize
    yield _text(str(number)) + _text("cpu") + _number(size) + b"tQ"
    strides = [math.prod(item.shape[axis + 1 :]) for axis in range(len(item.shape))]
    yield _number(0) + _numbers(item.shape) + _numbers(strides)
    yield b"\x89ccollections\nOrderedDict\n)R"  # no gradient is needed, and there are no hooks
    yield b"" if kind else f"ctorch\n{item.dtype.name}\n".encode()
    yield b"tR"


def _text(text: str) -> bytes:
    content = text.encode(errors="backslashreplace")
    return b"X" + struct.pack("<I", len(content)) + content


def _number(number: int) -> bytes:
    if number < 2**31:
        return b"J" + struct.pack("<i", number)
    content = number.to_bytes(9, "little", signed=True)
    return b"\x8a" + bytes([len(content)]) + content


def _numbers(numbers: Sequence[int]) -> bytes:
    return b"(" + b"".join(_number(number) for number in numbers) + b"t"


@dataclass(frozen=True)
class _Written:
    """A member as the directory at the end describes it."""

    name: bytes
    crc: int
    size: int
    header: int


class _Archive:
    """A zip without compression, written from front to end."""

    def __init__(self, stream: BinaryIO, executor: Executor | None) -> None:
        self._stream = stream
        self._executor = executor
        self._members: list[_Written] = []

    def add(self, name: str, content: bytes) -> None:
        self._begin(name, len(content))
        self._stream.write(content)
        self._end(binascii.crc32(content))

    def add_values(self, name: str, item: Item) -> None:
        self._begin(name, item.size_bytes)
        self._end(written(self._stream, bytes_of(item), self._executor))

    def _begin(self, name: str, size: int) -> None:
        """Write a member's header; its checksum is filled in when it is known."""
        member = _Written((_TOP + name).encode(), 0, size, self._stream.tell())
        self._members.append(member)
        extra = b""
        if size >= _LARGE:
            extra = struct.pack("<2H2Q", 1, 16, size, size)
        begin = member.header + 30 + len(member.name) + len(extra) + 4
        padding = -begin % _ALIGNMENT
        extra += b"FB" + struct.pack("<H", padding) + b"Z" * padding
        small = min(size, _LARGE)
        fields = (45 if size >= _LARGE else 20, 0, 0, 0, _DATE, 0, small, small)
        self._stream.write(b"PK\x03\x04")
        self._stream.write(struct.pack("<5H3L2H", *fields, len(member.name), len(extra)))
        self._stream.write(member.name + extra)

    def _end(self, crc: int) -> None:
        member = self._members[-1]
        self._members[-1] = _Written(member.name, crc, member.size, member.header)
        behind = self._stream.tell()
        self._stream.seek(member.header + 14)
        self._stream.write(struct.pack("<L", crc))
        self._stream.seek(behind)

    def finish(self) -> None:
        """Write the directory, with 64-bit records where 32 bits do not hold a number."""
        begin = self._stream.tell()
        for member in self._members:
            self._stream.write(_directory_entry(member))
        end = self._stream.tell()
        count, length = len(self._members), end - begin
        if count >= _MOST_MEMBERS or begin >= _LARGE or length >= _LARGE:
            fields = (44, 45, 45, 0, 0, count, count, length, begin)
            self._stream.write(b"PK\x06\x06" + struct.pack("<Q2H2L4Q", *fields))
            self._stream.write(b"PK\x06\x07" + struct.pack("<LQL", 0, end, 1))
        few, small = min(count, _MOST_MEMBERS), (min(length, _LARGE), min(begin, _LARGE))
        self._stream.write(b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, few, few, *small, 0))


def _directory_entry(member: _Written) -> bytes:
    wide = [member.size, member.size] if member.size >= _LARGE else []
    wide += [member.header] if member.header >= _LARGE else []
    extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    version = 45 if wide else 20
    size, header = min(member.size, _LARGE), min(member.header, _LARGE)
    fields = (version, version, 0, 0, 0, _DATE, member.crc, size, size)
    lengths = (len(member.name), len(extra), 0, 0, 0)
    packed = struct.pack("<6H3L5H2L", *fields, *lengths, 0, header)
    return b"PK\x01\x02" + packed + member.name + extra
