"""The three containers torch has saved in, and plain pickles: the object, and its storages.

Source: torch/serialization.py of torch 2.13, which still reads all of them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import COPY_OR_SAVE
from troubleshooter_nb.formats.inert_pickle import (
    Global,
    MadeBy,
    Persistent,
    PickledDict,
    Unpickled,
    unpickled,
    unpickled_at,
)
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.zip_directory import MAGIC, NO_SUM, Member, members, span_of
from troubleshooter_nb.messages import Message, joined, message_of

Span = tuple[int, int]

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001
_PICKLE = "data.pkl"
_TAR_MEMBERS = ("pickle", "storages", "tensors")
_BLOCK = 512  # bytes, of a tar archive
_MOST_MEMBERS = 1000
_MOST_AXES = 64
_NO_STORAGE = Message("pth.storage_missing")
# Type names in front of "Storage", and the dtypes of their values.
STORAGE_DTYPES = {
    **{"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16"},
    **{"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8"},
    **{"Bool": "bool", "ComplexDouble": "complex128", "ComplexFloat": "complex64"},
    **{"QInt8": "int8", "QUInt8": "uint8", "QInt32": "int32", "Untyped": "uint8"},
}
_ITEMSIZES = {"Double": 8, "Long": 8, "ComplexFloat": 8, "ComplexDouble": 16, "Half": 2} | {
    "Float": 4,
    "Int": 4,
    "QInt32": 4,
    "BFloat16": 2,
    "Short": 2,
}


@dataclass
class Contents:
    """The object of a file, and where the storages are that it speaks of.

    `storage` gives the place of a storage by its key and raises FormatError where there is none.
    `tensors` are those of the oldest container, by the key the object knows them under.
    """

    root: Any
    globals: list[str]
    storage: Callable[[str], Span]
    big_endian: bool = False
    tensors: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def contents_of(file: BinaryIO, start: int, stop: int) -> Contents:
    """What lies between two positions of a file, in whichever container.

    Raises
    ------
    FormatError
        If it is none of them or damaged.
    """
    file.seek(start)
    head = file.read(4)
    if head == MAGIC:
        return _zip_contents(file, start, stop)
    if names := _tar_members(file, start, stop):
        return _tar_contents(file, names)
    file.seek(start)
    return _legacy_contents(file, stop)


def is_torch(file: BinaryIO, stop: int) -> bool:
    """Whether a file looks like one of the containers, sound or not."""
    head = file.read(4)
    if head == MAGIC:
        try:
            return bool(_pickle_member(members(file, 0, stop)))
        except FormatError:
            return False
    is_pickle = head[:1] == b"\x80" and head[1:2] <= b"\x05" and len(head) == 4
    return is_pickle or bool(_tar_members(file, 0, stop))


def _pickle_member(found: Iterable[str]) -> str:
    """The shortest name that is data.pkl at the top or in a folder; empty where there is none."""
    fitting = [name for name in found if name == _PICKLE or name.endswith(f"/{_PICKLE}")]
    return min(fitting, key=len, default="")


def _zip_contents(file: BinaryIO, start: int, stop: int) -> Contents:
    found = members(file, start, stop)
    name = _pickle_member(found)
    if not name:
        raise FormatError(Message("pth.zip_without_pickle"))
    top = name.removesuffix(_PICKLE)
    content = _content(file, found[name], stop)
    notes: list[str] = []
    if found[name].crc not in (NO_SUM, zlib.crc32(content)):
        notes.append(Message("pth.pickle_sum", file=_PICKLE))
    read = unpickled(content)
    order = found.get(f"{top}byteorder")
    big_endian = order is not None and _content(file, order, stop) == b"big"
    keys = [_storage_key(one) for one in read.persistents]
    spans: dict[str, Span | str] = {}
    for key in dict.fromkeys(keys):
        spans[key] = _stored_span(file, found.get(f"{top}data/{key}"), stop)
    _check_apart([span for span in spans.values() if isinstance(span, tuple)])
    return Contents(read.root, read.globals, _finder(spans), big_endian, notes=notes)


def _content(file: BinaryIO, member: Member, stop: int) -> bytes:
    if member.size > most("pickle"):
        said = Message("pth.member_size", name=member.name[:80], size=member.size)
        raise FormatError(beyond("pickle", said, member.size))
    begin, length = span_of(file, member, stop)
    file.seek(begin)
    return file.read(length)


def _stored_span(file: BinaryIO, member: Member | None, stop: int) -> Span | str:
    """Place of a storage, or why it has none."""
    if member is None:
        return _NO_STORAGE
    try:
        return span_of(file, member, stop)
    except FormatError as error:
        return message_of(error)


def _finder(spans: dict[str, Span | str]) -> Callable[[str], Span]:
    def storage(key: str) -> Span:
        span = spans.get(key, _NO_STORAGE)
        if isinstance(span, str):
            raise FormatError(span)
        return span

    return storage


def _check_apart(spans: Iterable[Span]) -> None:
    end = 0
    for begin, length in sorted(spans):
        if begin < end and length:
            raise FormatError(Message("pth.storages_overlap", begin=begin))
        end = max(end, begin + length)


def _storage_key(persistent: Persistent) -> str:
    pid = persistent.pid
    if isinstance(pid, tuple) and len(pid) > 2 and pid[0] == "storage":
        return key_text(pid[2])
    return ""


def key_text(key: Any) -> str:
    """A text or a number as a key; empty for anything else, also for absurd numbers."""
    if type(key) is str:
        return key
    return str(key) if type(key) is int and abs(key) < 2**64 else ""


def _legacy_contents(file: BinaryIO, stop: int) -> Contents:
    """Five pickles, then the storages; or one pickle that torch did not write."""
    first = unpickled_at(file, stop)
    if first.root != _LEGACY_MAGIC:
        notes: list[str] = [Message("pth.plain_pickle")]
        return Contents(first.root, first.globals, _finder({}), notes=notes)
    protocol, system = unpickled_at(file, stop).root, unpickled_at(file, stop).root
    if protocol != _LEGACY_PROTOCOL:
        what = Message("pth.torch_protocol", known=_LEGACY_PROTOCOL)
        raise FormatError(joined([what, Message("pth.update_or_save")]))
    big_endian = isinstance(system, PickledDict) and system.get("little_endian") is False
    read = unpickled_at(file, stop)
    keys = unpickled_at(file, stop).root
    if not isinstance(keys, list) or not all(map(key_text, keys)):
        raise FormatError(Message("pth.no_storages"))
    sizes = {_storage_key(one): _itemsize(one.pid[1]) for one in _storages(read)}
    spans: dict[str, Span | str] = {}
    for key in map(key_text, keys):
        if key not in sizes:
            raise FormatError(Message("pth.unknown_storage", key=key[:40]))
        spans[key] = _counted_span(file, sizes[key], stop)
    return Contents(read.root, read.globals, _finder(spans), big_endian)


def _storages(read: Unpickled) -> list[Persistent]:
    return [one for one in read.persistents if _storage_key(one)]


def storage_name(kind: Any) -> str:
    """``Float`` for torch.FloatStorage and torch.cuda.FloatStorage; empty for anything else."""
    if not isinstance(kind, Global) or kind.module.split(".")[0] != "torch":
        return ""
    return kind.name.lstrip("_").removesuffix("Storage") if "Storage" in kind.name else ""


def _itemsize(kind: Any) -> int:
    return _ITEMSIZES.get(storage_name(kind), 1)


def _counted_span(file: BinaryIO, itemsize: int, stop: int) -> Span:
    """Place of the values behind their number; the file then stands behind them."""
    head = file.read(8)
    count = struct.unpack("<q", head)[0] if len(head) == 8 else -1
    begin = file.tell()
    if count < 0 or begin + count * itemsize > stop:
        facts = {"count": count, "itemsize": itemsize, "begin": begin, "stop": stop}
        raise FormatError(joined([Message("pth.values_cut", **facts), COPY_OR_SAVE]))
    file.seek(begin + count * itemsize)
    return begin, count * itemsize


def _tar_members(file: BinaryIO, start: int, stop: int) -> dict[str, Span]:
    """Places of the members of torch's tar; empty for anything else."""
    found: dict[str, Span] = {}
    at = start
    for _ in range(_MOST_MEMBERS):
        file.seek(at)
        header = file.read(_BLOCK)
        size = header[124:136].strip(b" \0")
        if len(header) < _BLOCK or header[257:262] != b"ustar" or not _is_octal(size):
            break
        length = int(size, 8)
        name = header[:100].split(b"\0")[0].decode("ascii", "replace").removeprefix("./")
        if header[156:157] in (b"0", b"\0"):
            found.setdefault(name, (at + _BLOCK, length))
        at += _BLOCK * (1 + -(-length // _BLOCK))
        if at > stop:
            break
    return found if set(_TAR_MEMBERS) <= set(found) else {}


def _is_octal(digits: bytes) -> bool:
    return bool(digits) and not digits.strip(b"01234567")


def _tar_contents(file: BinaryIO, places: dict[str, Span]) -> Contents:
    spans, kinds = _tar_storages(file, places["storages"])
    tensors = _tar_tensors(file, places["tensors"], kinds)
    begin, length = places["pickle"]
    file.seek(begin)
    read = unpickled_at(file, begin + length)
    return Contents(read.root, read.globals, _finder(spans), tensors=tensors)


def _tar_storages(file: BinaryIO, place: Span) -> tuple[dict[str, Span | str], dict[str, Any]]:
    """Places and types of the storages, each behind a pickle (key, device, type)."""
    file.seek(place[0])
    stop = sum(place)
    spans: dict[str, Span | str] = {}
    kinds: dict[str, Any] = {}
    for _ in range(_count(unpickled_at(file, stop))):
        key, _, kind = _three(unpickled_at(file, stop).root)
        kinds[key] = kind
        spans[key] = _counted_span(file, _itemsize(kind), stop)
    views = unpickled_at(file, stop).root
    for view in views if isinstance(views, list) else []:
        if not isinstance(view, tuple) or len(view) != 4 or not all(map(key_text, view)):
            raise FormatError(Message("pth.no_view"))
        key, base, offset, count = key_text(view[0]), key_text(view[1]), view[2], view[3]
        span = spans.get(base)
        itemsize = _itemsize(kinds.get(base))
        if not isinstance(span, tuple) or not 0 <= offset <= offset + count <= span[1] // itemsize:
            raise FormatError(Message("pth.view_outside", key=base[:40]))
        kinds[key] = kinds[base]
        spans[key] = span[0] + offset * itemsize, count * itemsize
    return spans, kinds


def _tar_tensors(file: BinaryIO, place: Span, kinds: dict[str, Any]) -> dict[str, Any]:
    """Each is a pickle (key, storage, type), then axes, lengths, strides and offset in binary."""
    file.seek(place[0])
    stop = sum(place)
    tensors: dict[str, Any] = {}
    for _ in range(_count(unpickled_at(file, stop))):
        key, storage, _ = _three(unpickled_at(file, stop).root)
        storage = key_text(storage)
        axes = int.from_bytes(file.read(8)[:4], "little")
        rest = file.read(16 * min(axes, _MOST_AXES) + 8)
        if axes > _MOST_AXES or len(rest) != 16 * axes + 8 or file.tell() > stop:
            raise FormatError(Message("pth.tar_axes", key=key[:40], axes=axes))
        *numbers, offset = struct.unpack(f"<{2 * axes + 1}q", rest)
        pid = Persistent(("storage", kinds.get(storage), storage, "cpu", None))
        args = pid, offset, tuple(numbers[:axes]), tuple(numbers[axes:])
        tensors[key] = MadeBy(Global("torch._utils", "_rebuild_tensor"), args)
    return tensors


def _count(read: Unpickled) -> int:
    if type(read.root) is not int or read.root < 0:
        raise FormatError(Message("pth.no_count"))
    return read.root


def _three(root: Any) -> tuple[str, Any, Any]:
    if not isinstance(root, tuple) or len(root) != 3 or not key_text(root[0]):
        raise FormatError(Message("pth.no_key"))
    return key_text(root[0]), root[1], root[2]
