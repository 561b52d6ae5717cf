"""Safetensors files: opened by their checked header, written tensor by tensor.

The file is the length of a JSON header in 8 bytes, the header, then the raw values. Source: the
format's own description at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ArgumentError, FormatError
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.checkpoint import Item, Stored, bytes_of, checkpoint_dump
from troubleshooter_nb.formats.checksums import (
    Part,
    beside,
    checked_part,
    crc_of,
    judged_part,
    written,
)
from troubleshooter_nb.formats.file_source import (
    COPY_OR_SAVE,
    FileSource,
    check_shape,
    checked_source,
    head_of,
    named,
    opened,
)
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.parse_errors import in_brief
from troubleshooter_nb.messages import Message, joined, message_of, parts_of
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming.characters import printable

NAME = "safetensors"

# The limit of the safetensors package itself, for what is written.
_LARGEST_HEADER = 100_000_000
_LENGTH_SIZE = 8
_METADATA = "__metadata__"
# Metadata of ours: CRC-32 of the header with zeros in this place, then of each tensor in the order
# of the header, eight hexadecimal digits each. Spaces behind the header say that it is still ours:
# other programs copy metadata into files that they write, and put at most seven there.
_SUMS = "troubleshooter_nb.crc32"
_DIGITS, _SPACES = 8, 16
_SUM_OF_MINDSPORE = "crc_num"
_TYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
_TYPE_OF = {token: type_ for type_, token in _TYPES.items()}


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    head = head_of(path, _LENGTH_SIZE + 1)
    length = int.from_bytes(head[:_LENGTH_SIZE], "little")
    if head[_LENGTH_SIZE:] == b"{" and length <= most("safetensors_header"):
        return None
    if path.suffix == ".safetensors" and path.is_file():
        return None
    return Message("safetensors.refusal")


def open_safetensors(path: Path, *, label: str) -> Dump:
    """Open a safetensors file by its header; values are read when asked for.

    Parameters
    ----------
    path : Path
    label : str

    Returns
    -------
    Dump
        One entry per tensor, and one per name that ``save_model`` left out because its tensor is
        stored under another. Tensors of a dtype numpy does not have are entries with a reason.

    Raises
    ------
    FormatError
        If the file is truncated, or anything its header says about a tensor cannot be.
    OSError
        If it cannot be opened.
    """
    with named(path):
        stored, notes = open_stored(path)
        return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


def open_stored(path: Path) -> tuple[list[Stored], list[str]]:
    """The tensors of a file and what there is to say; raises as `open_safetensors` does."""
    with opened(path) as (file, stamp):
        header, base = _header(file, stamp[0])
    metadata = _metadata(header.pop(_METADATA, {}))
    if len(header) > most("tensors"):
        said = Message("files.many_tensors", most=most("tensors"))
        raise FormatError(beyond("tensors", said, len(header)))
    records = [_record(name, facts) for name, facts in header.items()]
    if not records:
        advice = Message("files.save_network_again")
        raise FormatError(joined([Message("files.no_tensors"), advice]))
    notes = _check_layout(records, stamp[0] - base)
    stored = [_stored(path, record, base, stamp, metadata) for record in records]
    tied = _tied(stored, metadata)
    if tied:
        notes.append(Message("safetensors.tied", names=[one.name for one in tied]))
    if _SUM_OF_MINDSPORE in metadata:
        notes.append(Message("safetensors.sum_of_mindspore"))
    stored += tied
    return (stored if _keeps_saving_order(records) else sorted(stored, key=_name)), notes


@dataclass(frozen=True)
class _Record:
    """One tensor as the header describes it; offsets count from the end of the header."""

    name: str
    type: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _name(one: Stored) -> str:
    return one.name


def _header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The JSON of the header, and where the values begin."""
    head = file.read(_LENGTH_SIZE)
    length = int.from_bytes(head, "little")
    if len(head) < _LENGTH_SIZE:
        raise FormatError(joined([Message("safetensors.too_short", size=size), COPY_OR_SAVE]))
    if length > most("safetensors_header"):
        said = Message("safetensors.header_size", length=length)
        # A length beyond the file is no header that an option could open.
        is_inside = length <= size - _LENGTH_SIZE
        raise FormatError(beyond("safetensors_header", said, length) if is_inside else said)
    if length > size - _LENGTH_SIZE:
        what = Message("safetensors.header_cut", length=length, size=size)
        raise FormatError(joined([what, COPY_OR_SAVE]))
    header = Message("safetensors.header")
    return json_object(file.read(length), header), _LENGTH_SIZE + length


def json_object(raw: bytes, what: str) -> dict[str, Any]:
    """The JSON object these bytes are, with every key once.

    Parameters
    ----------
    raw : bytes
        UTF-8, spaces around it allowed.
    what : str
        What it is, for the message.

    Raises
    ------
    FormatError
        If it is none.
    """
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_distinct, parse_constant=_not_in_json)
    except FormatError as error:
        raise FormatError(Message("safetensors.fault", what=what, fault=error)) from None
    except RecursionError:
        raise FormatError(Message("safetensors.nested", what=what)) from None
    except ValueError as error:
        detail = in_brief(error, 100)
        raise FormatError(Message("safetensors.no_json", what=what, detail=detail)) from None
    if not isinstance(value, dict):
        raise FormatError(Message("safetensors.no_object", what=what))
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {printable(key): value for key, value in pairs}
    if len(found) < len(pairs):
        twice = Counter(printable(key) for key, _ in pairs).most_common(1)[0][0]
        raise FormatError(Message("safetensors.twice", name=_short(twice)))
    return found


def _not_in_json(constant: str) -> Any:
    raise ArgumentError(Message("safetensors.constant", constant=constant))


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def _metadata(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        what = Message("safetensors.metadata", key=_METADATA, value=_short(found))
        raise FormatError(joined([what, COPY_OR_SAVE]))
    return {key: printable(value) for key, value in found.items() if isinstance(value, str)}


def _record(name: str, facts: object) -> _Record:
    """What the header says about one tensor, as far as it can be without the others."""
    if not isinstance(facts, dict) or not facts.keys() >= {"dtype", "shape", "data_offsets"}:
        raise _wrong(name, Message("safetensors.facts", value=_short(facts)))
    type_, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(type_, str):
        raise _wrong(name, Message("safetensors.dtype", value=_short(type_)))
    if not _are_lengths(shape):
        raise _wrong(name, Message("safetensors.shape", value=_short(shape)))
    if not _are_lengths(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _wrong(name, Message("safetensors.offsets", value=_short(offsets)))
    return _Record(name, type_, tuple(shape), offsets[0], offsets[1])


def _wrong(name: str, what: str) -> FormatError:
    entry = Message("safetensors.entry", name=_short(name), what=parts_of(what)[0])
    return FormatError(joined([entry, Message("files.damaged_again")]))


def _are_lengths(value: object) -> bool:
    # A bool is an int to isinstance.
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def _check_layout(records: Sequence[_Record], held: int) -> list[str]:
    """Notes on bytes that belong to no tensor; FormatError where two tensors share some."""
    covered, holes = 0, 0
    previous = records[0]
    for record in sorted(records, key=lambda record: (record.begin, record.end)):
        if record.end > held:
            facts = {"name": _short(record.name), "end": record.end, "held": held}
            raise FormatError(joined([Message("safetensors.entry_cut", **facts), COPY_OR_SAVE]))
        if record.begin == record.end:
            continue
        if record.begin < covered:
            overlap = Message("safetensors.overlap", other=_short(previous.name))
            raise _wrong(record.name, overlap)
        holes += record.begin - covered
        covered, previous = record.end, record
    holes += held - covered
    return [Message("safetensors.holes", count=holes)] if holes else []


def _stored(
    path: Path,
    record: _Record,
    base: int,
    stamp: tuple[int, int],
    metadata: Mapping[str, str],
) -> Stored:
    """A tensor with a handle to its values, or with the reason why it has none."""
    if metadata.get(record.name) == "Int4":
        return Stored(record.name, None, Message("safetensors.int4"))
    dtype = _dtype(record.type)
    if dtype is None:
        reason = Message("safetensors.dtype_not_read", value=_short(record.type))
        return Stored(record.name, None, reason)
    try:
        source = _source(path, record, base, stamp, dtype)
    except FormatError as error:
        raise _wrong(record.name, message_of(error)) from None
    return Stored(record.name, source)


def _source(
    path: Path, record: _Record, base: int, stamp: tuple[int, int], dtype: np.dtype
) -> FileSource:
    check_shape(record.shape, dtype)
    held, needed = record.end - record.begin, math.prod(record.shape) * dtype.itemsize
    if held != needed:
        facts = {"shape": _short(record.shape), "dtype": dtype, "needed": needed, "held": held}
        raise FormatError(Message("safetensors.size", **facts))
    spans = ((base + record.begin, held),)
    return checked_source(path, record.shape, dtype, spans, stamp=stamp)


@functools.cache
def _dtype_of_token(token: str) -> np.dtype | None:
    try:
        return dtype_from_token(token).newbyteorder("<")
    except ValueError:
        return None


def _dtype(type_: str) -> np.dtype | None:
    """None for what this numpy has no dtype for: F4, F6, and F8_E8M0 with an old ml_dtypes."""
    token = _TYPES.get(type_)
    return None if token is None else _dtype_of_token(token)


def _tied(stored: Sequence[Stored], metadata: Mapping[str, str]) -> list[Stored]:
    """Names that are only in the metadata, as {name left out: name kept}.

    ``save_model`` of the safetensors package keeps them so.
    """
    kept = {one.name: one for one in stored}
    return [
        Stored(name, kept[other].source, kept[other].reason)
        for name, other in metadata.items()
        if name not in ("format", _SUMS) and name not in kept and other in kept
    ]


def _keeps_saving_order(records: Sequence[_Record]) -> bool:
    """Whether the header is in an order of its own.

    MindSpore sorts by name, the safetensors package by dtype, then name.
    """
    groups = [
        (type_, [record.name for record in group])
        for type_, group in itertools.groupby(records, lambda record: record.type)
    ]
    by_type = len({type_ for type_, _ in groups}) == len(groups)
    return not by_type or any(names != sorted(names) for _, names in groups)


def write_safetensors(path: Path, items: Sequence[Item]) -> list[tuple[str, str]]:
    """Write a file that the safetensors package and MindSpore load; it appears whole or not.

    Takes, returns and raises what `write_pth` does; the format lacks the dtypes that are left out.
    Items keep their order where that leaves every tensor at a multiple of its dtype's size, as
    torch needs it; otherwise those of larger dtypes come first. Big-endian values are converted.
    """
    left_out = [(item.name, reason) for item in items if (reason := why_not_held(item))]
    kept = [item for item in items if not why_not_held(item)]
    names = Counter(item.name for item in kept)
    if len(names) < len(kept):
        raise ArgumentError(Message("safetensors.same_name", name=names.most_common(1)[0][0]))
    ordered = _aligned(kept)
    header, place = _header_of(ordered)
    size = sum(item.size_bytes for item in ordered)
    with written_whole(path) as stream, beside(size) as executor:
        sums = [written(stream, [header], None)]
        sums += [written(stream, bytes_of(item), executor) for item in ordered]
        stream.seek(place)
        stream.write("".join(f"{crc:08x}" for crc in sums).encode())
    return left_out


def why_not_held(item: Item) -> str:
    """Why a file cannot hold it; empty if it can."""
    if item.name == _METADATA:
        return Message("safetensors.own_name")
    if item.dtype.name not in _TYPE_OF:
        return Message("safetensors.no_dtype", dtype=item.dtype.name)
    return ""


def _aligned(items: Sequence[Item]) -> Sequence[Item]:
    """The items in an order in which each begins at a multiple of its dtype's size."""
    begin = 0
    for item in items:
        if begin % item.dtype.itemsize:
            return sorted(items, key=lambda item: -item.dtype.itemsize)
        begin += item.size_bytes
    return items


def _header_of(items: Sequence[Item]) -> tuple[bytes, int]:
    """The length and the header, with zeros for the checksums, and where in the file these are."""
    zeros = "0" * _DIGITS * (len(items) + 1)
    # MindSpore takes only files whose header lists the tensors in the order of their values.
    header: dict[str, object] = {_METADATA: {"format": "pt", _SUMS: zeros}}
    begin = 0
    for item in items:
        end = begin + item.size_bytes
        header[item.name] = {
            "dtype": _TYPE_OF[item.dtype.name],
            "shape": [int(length) for length in item.shape],
            "data_offsets": [begin, end],
        }
        begin = end
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (_SPACES + -len(raw) % 8)
    if len(raw) > _LARGEST_HEADER:
        raise ArgumentError(Message("safetensors.names_size", size=len(raw), most=_LARGEST_HEADER))
    return len(raw).to_bytes(_LENGTH_SIZE, "little") + raw, _LENGTH_SIZE + _place_of_sums(raw)


def _place_of_sums(header: bytes) -> int:
    # The metadata stands first: no name of a tensor is taken for it.
    mark = f'"{_SUMS}":"'.encode()
    return header.find(mark) + len(mark)


def checked_parts(file: BinaryIO, size: int) -> Iterator[Part]:
    """The header and the tensors of a file, each against its checksum where the file has some.

    Raises
    ------
    FormatError
        If it is damaged so that its tensors are not known.
    """
    header, base = _header(file, size)
    metadata = _metadata(header.pop(_METADATA, {}))
    records = [_record(name, facts) for name, facts in header.items()]
    parts = [
        Part(record.name, base + record.begin, base + record.end, "no_checksum")
        for record in records
    ]
    if _SUM_OF_MINDSPORE in metadata and _SUMS not in metadata:
        yield from _checked_as_mindspore(file, parts, metadata[_SUM_OF_MINDSPORE])
        return
    sums = metadata.get(_SUMS, "")
    file.seek(0)
    raw = file.read(base)
    reason = Message("checksums.none")
    if sums:
        place = _place_of_sums(raw)
        zeroed = raw[:place] + b"0" * len(sums) + raw[place + len(sums) :]
        numbers = [_number(sums[at : at + _DIGITS]) for at in range(0, len(sums), _DIGITS)]
        if len(numbers) == len(parts) + 1 and zlib.crc32(zeroed) == numbers[0]:
            yield Part(_METADATA, 0, base, "intact")
            for part, crc in zip(parts, numbers[1:], strict=True):
                yield checked_part(file, part, crc)
            return
        if raw.endswith(b" " * (_SPACES // 2)):
            yield judged_part(Part(_METADATA, 0, base, "damaged"), is_sound=False)
            reason = Message("checksums.of_other_header")
        else:
            reason = Message("checksums.copied")
    for part in parts:
        yield part._replace(reason=reason)


def _number(digits: str) -> int:
    try:
        return int(digits, 16)
    except ValueError:
        return -1


def _checked_as_mindspore(file: BinaryIO, parts: Sequence[Part], said: str) -> Iterator[Part]:
    """One checksum for all: of names and values, by name."""
    crc = 0
    for part in sorted(parts):
        crc = crc_of(file, part.begin, part.end, zlib.crc32(part.name.encode(), crc))
    for part in parts:
        yield judged_part(part, str(crc) == said)
