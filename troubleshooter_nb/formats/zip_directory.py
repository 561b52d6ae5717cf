"""Where the members of a zip archive lie: its directory, checked against their own headers.

The standard library's `zipfile` does not tell the place of a member's bytes, and takes the word
of a damaged directory for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import COPY_OR_SAVE
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.messages import Message, joined

MAGIC = b"PK\x03\x04"
# What torch writes for a CRC-32 where it is told to compute none (`set_crc32_options`).
NO_SUM = 0
_STORED = 0
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_FULL = 0xFFFFFFFF  # the number is in the zip64 field instead
_ENCRYPTED, _SIZES_BEHIND = 1, 8  # flag bits


@dataclass(frozen=True)
class Member:
    """One member as the directory describes it; `header` is the place of its own header."""

    name: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    header: int


def members(file: BinaryIO, start: int, stop: int) -> dict[str, Member]:
    """The members of the archive that lies between two positions of a file.

    Raises
    ------
    FormatError
        If it has no directory, a damaged one, or two members of one name.
    """
    begin, length = _directory(file, start, stop)
    if length > most("zip_directory"):
        said = Message("zips.directory_size", size=length)
        raise FormatError(beyond("zip_directory", said, length))
    content = _taken(file, begin, begin + length, start, stop)
    found: dict[str, Member] = {}
    at = 0
    while at < len(content):
        member, at = _member(content, at, start)
        if member.name in found:
            raise FormatError(Message("zips.same_name", name=member.name[:80]))
        found[member.name] = member
    return found


def _directory(file: BinaryIO, start: int, stop: int) -> tuple[int, int]:
    """Place and length of the directory, from the record at the end of the archive."""
    first = max(start, stop - _END.size - 0xFFFF)
    tail = _taken(file, first, stop, start, stop)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise FormatError(joined([Message("zips.no_directory"), COPY_OR_SAVE]))
    *_, length, begin, _ = _END.unpack_from(tail, at)
    end = first + at
    if at >= _LOCATOR.size and tail[at - _LOCATOR.size :].startswith(b"PK\x06\x07"):
        place = start + _LOCATOR.unpack_from(tail, at - _LOCATOR.size)[2]
        record = _taken(file, place, place + _END64.size, start, stop)
        if not record.startswith(b"PK\x06\x06"):
            raise FormatError(Message("zips.no_zip64", place=place))
        length, begin = _END64.unpack(record)[-2:]
        end = place
    if start + begin + length != end:
        raise FormatError(Message("zips.directory_end", end=end))
    return start + begin, length


def _taken(file: BinaryIO, begin: int, end: int, start: int, stop: int) -> bytes:
    if begin < start or end > stop or end < begin:
        raise FormatError(joined([Message("zips.outside", begin=begin, end=end), COPY_OR_SAVE]))
    file.seek(begin)
    content = file.read(end - begin)
    if len(content) != end - begin:
        raise FormatError(joined([Message("zips.ends_before", end=end), COPY_OR_SAVE]))
    return content


def _member(content: bytes, at: int, start: int) -> tuple[Member, int]:
    """The directory entry at a place, and where the next one begins."""
    if len(content) - at < _ENTRY.size or content[at : at + 4] != b"PK\x01\x02":
        raise FormatError(Message("zips.no_member"))
    fields = _ENTRY.unpack_from(content, at)
    flags, method, crc, packed, size = fields[3], fields[4], *fields[7:10]
    name_length, extra_length, comment_length, header = *fields[10:13], fields[16]
    name_end = at + _ENTRY.size + name_length
    extra_end = name_end + extra_length
    if extra_end + comment_length > len(content):
        raise FormatError(Message("zips.member_beyond"))
    size, packed, header = _wide([size, packed, header], content[name_end:extra_end])
    name = content[at + _ENTRY.size : name_end].decode("utf-8", "backslashreplace")
    member = Member(name, flags, method, crc, packed, size, start + header)
    return member, extra_end + comment_length


def _wide(numbers: list[int], extra: bytes) -> list[int]:
    """The numbers, with those of the zip64 field where 32 bits do not hold them."""
    at = 0
    while at + 4 <= len(extra) and _FULL in numbers:
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            count = min(length, len(extra) - at - 4) // 8
            wide = iter(struct.unpack_from(f"<{count}Q", extra, at + 4))
            return [next(wide, number) if number == _FULL else number for number in numbers]
        at += 4 + length
    return numbers


class OwnHeader(NamedTuple):
    """What stands in front of a member's bytes, which begin at `begin`.

    `agrees` says that it is a header, and of the name and method that the directory has.
    """

    agrees: bool
    flags: int
    packed: int
    size: int
    begin: int


def own_header(file: BinaryIO, member: Member, stop: int) -> OwnHeader:
    """The header of a member where the directory says it is.

    Raises
    ------
    FormatError
        If the archive ends before it does.
    """
    header = _taken(file, member.header, member.header + _LOCAL.size, 0, stop)
    magic, _, flags, method, _, _, _, packed, size, name_length, extra = _LOCAL.unpack(header)
    name = file.read(name_length).decode("utf-8", "backslashreplace")
    agrees = (magic, method, name) == (MAGIC, member.method, member.name)
    begin = member.header + _LOCAL.size + name_length + extra
    return OwnHeader(agrees, flags, packed, size, begin)


def span_of(file: BinaryIO, member: Member, stop: int) -> tuple[int, int]:
    """Place and length of a member's bytes, which are not compressed.

    Raises
    ------
    FormatError
        If it is compressed or encrypted, or its own header says something else than the
        directory.
    """
    name = member.name[:80]
    if member.method != _STORED or member.flags & _ENCRYPTED:
        how = "encrypted" if member.flags & _ENCRYPTED else "compressed"
        what = Message(f"zips.member_{how}", name=name)
        raise FormatError(joined([what, Message("zips.save_with_torch")]))
    own = own_header(file, member, stop)
    known = {member.size, _FULL} | ({0} if own.flags & _SIZES_BEHIND else set())
    if not own.agrees or not {own.packed, own.size} <= known:
        what = Message("zips.member_elsewhere", name=name, header=member.header)
        raise FormatError(joined([what, Message("files.damaged_again")]))
    if own.begin + member.size > stop or member.packed != member.size:
        end = own.begin + member.size
        what = Message("zips.member_truncated", name=name, end=end, stop=stop)
        raise FormatError(joined([what, COPY_OR_SAVE]))
    return own.begin, member.size
