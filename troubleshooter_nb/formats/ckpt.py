"""MindSpore's ``.ckpt``: opened by walking its records, written record by record.

The file is one protobuf message after another, ``1 {1 tag, 2 tensor {1 dims, 2 type, 3 bytes}}``,
without header or index. Source: files of MindSpore 2.10.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.checkpoint import Item, Stored, bytes_of, checkpoint_dump
from troubleshooter_nb.formats.checksums import (
    Part,
    beside,
    checked_part,
    crc_of,
    unsummed,
    written,
)
from troubleshooter_nb.formats.file_source import (
    COPY_OR_SAVE,
    checked_source,
    head_of,
    named,
    opened,
)
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.protobuf import Walker, bytes_head, number_field
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.metrics.floats import dtype_from_token

NAME = "ckpt"

# The first four bytes of an encrypted checkpoint.
_ENCRYPTED = {
    b"\xd8\x5e\x3a\x7f": "AES-GCM",
    b"\xd9\x5e\x3a\x7f": "AES-CBC",
    b"\xda\x5e\x3a\x7f": "SM4-CBC",
}
_OTHERS = {b"PK": "ckpt.zip", b"\x80": "ckpt.pickle", b"\x93NUMPY": "ckpt.npy"}
_NUMBERS = (
    *("float16", "float32", "float64", "bfloat16", "bool", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)
_TYPES = {
    name.replace("uint", "UInt").replace("bfloat", "BFloat")
    if name.startswith(("uint", "bfloat"))
    else name.capitalize(): name
    for name in _NUMBERS
}
_TYPE_OF = {name: type_ for type_, name in _TYPES.items()}
# Written by save_checkpoint, but refused by load_checkpoint.
_READ_ONLY = {
    "Complex64": "complex64",
    "Complex128": "complex128",
    "Int4": "int4",
    "Float8E4M3FN": "float8_e4m3fn",
    "Float8E5M2": "float8_e5m2",
    "HiFloat8": "",
}
_TEXT = "str"
_SUM_MARK = b"crc_num"
_SUM_SIZE = len(_SUM_MARK) + 10  # bytes: the mark and a big-endian CRC-32
# Behind the records that are written here, a field that MindSpore passes over: who asked MindSpore
# for a checksum wants it to be looked at, and others want to compare without reading twice.
_OURS = bytes_head(15, 3) + b"tnb"
_CHECKED_AT_ONCE = 64 * 1024**2  # bytes that take less than a tenth of a second
_LONGEST_NAME = 4096  # bytes
_LONGEST_TEXT = 64 * 1024  # bytes
_MOST_AXES = 64
_COUNTED = 20  # times the limit, to say which one would do
_SLICE = 512 * 1024**2  # bytes of one record: protobuf's own limit is 2 GiB


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    head = head_of(path, 64)
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            return Message("ckpt.other_file", what=Message(what))
    if head[:4] in _ENCRYPTED or path.suffix == ".ckpt" or _is_record(head):
        return None if path.is_file() else Message("ckpt.no_file")
    return Message("ckpt.no_record")


def _is_record(head: bytes) -> bool:
    """Whether a record with a tag begins here: 0x0a, its length, 0x0a, the tag's length."""
    length = next((i for i, byte in enumerate(head[1:11], 1) if byte < 128), 0)
    tag = head[length + 1 : length + 3]
    return head[:1] == b"\x0a" and length > 0 and tag[:1] == b"\x0a" and len(tag) == 2


def open_ckpt(path: Path, *, label: str) -> Dump:
    """Open a MindSpore checkpoint by its records; values are read when asked for.

    Parameters
    ----------
    path : Path
    label : str

    Returns
    -------
    Dump
        One entry per tensor; slices of one tensor are joined. A tensor whose bytes do not fit
        its shape is an entry with a reason; texts are a note. A CRC-32 of MindSpore is checked in
        files up to 64 MiB; `verify` checks any.

    Raises
    ------
    FormatError
        If the file is encrypted, truncated, no checkpoint, fails its CRC-32, or has two tensors
        of one name.
    OSError
        If it cannot be opened.
    """
    with named(path):
        stored, notes = open_stored(path)
        return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


def open_stored(path: Path) -> tuple[list[Stored], list[str]]:
    """The tensors of a checkpoint and what there is to say; raises as `open_ckpt` does."""
    with opened(path) as (file, stamp):
        if cipher := _ENCRYPTED.get(file.read(4)):
            what = Message("ckpt.encrypted", cipher=cipher)
            raise FormatError(joined([what, Message("ckpt.load_with_key")]))
        end, crc = _end_and_sum(file, stamp[0])
        file.seek(max(end - len(_OURS), 0))
        is_ours = crc is not None and file.read(len(_OURS)) == _OURS
        is_asked = crc is not None and not is_ours and end <= _CHECKED_AT_ONCE
        if is_asked and crc_of(file, 0, end) != crc:
            raise FormatError(joined([Message("ckpt.sum_wrong"), COPY_OR_SAVE]))
        records, texts = _records(file, end - len(_OURS) * is_ours)
    stored = [_stored(path, record, stamp) for record in records]
    return stored, [Message("ckpt.texts", texts=texts)] if texts else []


def checked_parts(file: BinaryIO, size: int) -> Iterator[Part]:
    """The records as a whole, against the CRC-32 behind them where there is one."""
    end, crc = _end_and_sum(file, size)
    part = unsummed("", 0, end)
    yield part if crc is None else checked_part(file, part, crc)


def _end_and_sum(file: BinaryIO, size: int) -> tuple[int, int | None]:
    """Where the records end, and the CRC-32 that they were saved with; None for none."""
    file.seek(max(size - _SUM_SIZE, 0))
    tail = file.read(_SUM_SIZE)
    if not tail.startswith(_SUM_MARK) or len(tail) < _SUM_SIZE:
        return size, None
    return size - _SUM_SIZE, int.from_bytes(tail[len(_SUM_MARK) :], "big")


@dataclass(frozen=True)
class _Record:
    """One tensor as the file describes it."""

    name: str
    type: str
    shape: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]

    @property
    def held(self) -> int:
        return sum(length for _, length in self.spans)


def _records(file: BinaryIO, end: int) -> tuple[list[_Record], list[str]]:
    walker = Walker(file)
    _check_count(walker, end)
    records: list[_Record] = []
    texts: list[str] = []
    name = ""
    try:
        for number, value, start, stop in walker.fields(0, end):
            if number != 1 or value is not None:
                raise FormatError(Message("ckpt.field_for_record", number=number))
            record = _record(walker, start, stop)
            name = record.name
            if record.type == _TEXT:
                texts.append(_shown(walker, record))
            elif records and record.name == records[-1].name:
                records[-1] = _joined(records[-1], record)
            else:
                records.append(record)
    except FormatError as error:
        if name:
            what = Message("ckpt.damaged_behind", name=name, what=error)
        else:
            what = Message("ckpt.no_checkpoint", what=error)
        raise FormatError(joined([what, COPY_OR_SAVE])) from None
    if not records:
        advice = Message("files.save_network_again")
        raise FormatError(joined([Message("files.no_tensors"), advice]))
    return records, texts


def _check_count(walker: Walker, end: int) -> None:
    """Refuse too many records before any is looked at; what is damaged is told later."""
    count, allowed = 0, most("tensors")
    with contextlib.suppress(FormatError):
        for _ in itertools.islice(walker.fields(0, end), _COUNTED * allowed):
            count += 1
    if count > allowed:
        said = Message("files.many_tensors", most=allowed)
        raise FormatError(beyond("tensors", said, count))


def _record(walker: Walker, begin: int, end: int) -> _Record:
    name, tensor, is_table = None, None, False
    for number, value, start, stop in walker.fields(begin, end):
        if number == 1 and value is None:
            name = _text(walker, start, stop, "utf-8")
        elif number == 2 and value is None:
            tensor = start, stop
        elif number == 3:
            is_table = True
    if name is None or (tensor is None and not is_table):
        lacking = "name" if name is None else "tensor"
        raise FormatError(Message(f"ckpt.record_without_{lacking}", begin=begin))
    if tensor is None:
        return _Record(name, "table", (), ())
    return _tensor(walker, name, *tensor)


def _tensor(walker: Walker, name: str, begin: int, end: int) -> _Record:
    shape: list[int] = []
    type_ = ""
    spans: tuple[tuple[int, int], ...] = ()
    for number, value, start, stop in walker.fields(begin, end):
        if number == 1 and value is not None:
            shape.append(value)
        elif number == 1:  # packed, as protobuf allows and MindSpore does not write it
            shape += itertools.islice(walker.varints(start, stop), _MOST_AXES + 1)
        elif number == 2 and value is None:
            type_ = _text(walker, start, stop, "ascii")
        elif number == 3 and value is None:
            spans = ((start, stop - start),)
        if len(shape) > _MOST_AXES:
            raise FormatError(Message("ckpt.axes", name=name, most=_MOST_AXES))
    return _Record(name, type_, tuple(shape), spans)


def _text(walker: Walker, start: int, stop: int, encoding: str) -> str:
    if stop - start > _LONGEST_NAME:
        raise FormatError(Message("ckpt.name_size", size=stop - start, start=start))
    try:
        return walker.take(start, stop).decode(encoding)
    except UnicodeDecodeError:
        raise FormatError(Message("ckpt.name_no_text", start=start)) from None


def _shown(walker: Walker, record: _Record) -> str:
    """A text with its name; MindSpore writes four bytes for each letter."""
    start, length = record.spans[0] if record.spans else (0, 0)
    text = walker.take(start, start + min(length, _LONGEST_TEXT)).decode("utf-32-le", "replace")
    return f"{record.name}={text[:40]!r}"


def _joined(first: _Record, more: _Record) -> _Record:
    if (first.type, first.shape) != (more.type, more.shape):
        raise FormatError(Message("ckpt.no_slices", name=more.name))
    return replace(first, spans=first.spans + more.spans)


def _stored(path: Path, record: _Record, stamp: tuple[int, int]) -> Stored:
    token = _TYPES.get(record.type) or _READ_ONLY.get(record.type)
    if not token:
        if record.type == "table":
            return Stored(record.name, None, Message("ckpt.hash_table"))
        return Stored(record.name, None, Message("ckpt.type_not_read", type=record.type[:40]))
    dtype = dtype_from_token(token)
    shape = record.shape
    if shape == (0,) and record.held == dtype.itemsize:
        shape = ()  # older releases gave numbers one axis of length 0
    try:
        source = checked_source(path, shape, dtype, record.spans, stamp=stamp)
        if record.held != source.size_bytes:
            packed = record.type == "Int4" and record.held == -(-source.size_bytes // 2)
            why = Message("ckpt.two_to_a_byte" if packed else "files.damaged")
            facts = {"held": record.held, "needed": source.size_bytes, "shape": shape, "why": why}
            if (pieces := len(record.spans)) > 1:
                return Stored(
                    record.name, None, Message("ckpt.size_of_pieces", pieces=pieces, **facts)
                )
            return Stored(record.name, None, Message("ckpt.size", **facts))
    except FormatError as error:
        return Stored(record.name, None, message_of(error))
    return Stored(record.name, source)


def write_ckpt(path: Path, items: Sequence[Item]) -> list[tuple[str, str]]:
    """Write a checkpoint that ``mindspore.load_checkpoint`` loads; the file appears whole or not.

    Parameters
    ----------
    path : Path
        Its folder exists. A file of that name is replaced.
    items : sequence of Item
        In the order of writing; one block of one tensor is in memory at a time.

    Returns
    -------
    list of (str, str)
        Names that were left out, and why: MindSpore drops empty tensors on saving, and a complex
        or float8 tensor makes it unable to load the file.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    reasons = [why_not_held(item) for item in items]
    left_out = [(item.name, reason) for item, reason in zip(items, reasons, strict=True) if reason]
    kept = [item for item, reason in zip(items, reasons, strict=True) if not reason]
    size = sum(item.size_bytes for item in kept)
    with written_whole(path) as stream, beside(size) as executor:
        pieces = (piece for item in kept for piece in _written(item))
        crc = written(stream, pieces, executor)
        crc = written(stream, [_OURS], None, crc)
        stream.write(_SUM_MARK + crc.to_bytes(_SUM_SIZE - len(_SUM_MARK), "big"))
    return left_out


def why_not_held(item: Item) -> str:
    """Why MindSpore does not load it; empty if it does."""
    if item.dtype.name not in _TYPE_OF:
        return Message("ckpt.not_loaded", dtype=item.dtype.name)
    return "" if math.prod(item.shape) else Message("ckpt.not_kept", shape=item.shape)


def _written(item: Item) -> Iterator[bytes | memoryview]:
    """The bytes of a tensor's records: a new one begins after every `_SLICE` of its values."""
    tag = item.name.encode(errors="backslashreplace")
    tag = bytes_head(1, len(tag)) + tag
    type_ = _TYPE_OF[item.dtype.name].encode()
    described = b"".join(number_field(1, length) for length in item.shape)
    described += bytes_head(2, len(type_)) + type_
    left, room = item.size_bytes, 0
    for view in bytes_of(item):
        while len(view):
            if not room:
                room = min(left, _SLICE)
                tensor = described + bytes_head(3, room)
                outer = bytes_head(2, len(tensor) + room)
                yield bytes_head(1, len(tag) + len(outer) + len(tensor) + room)
                yield tag + outer + tensor
            piece = view[:room]
            yield piece
            view, room, left = view[len(piece) :], room - len(piece), left - len(piece)
