"""CRC-32 of what is stored: of parts of a file, and of files in a list beside them.

CRC-32 finds every flipped bit and is quick (3 GiB/s where BLAKE2b makes 0.5); zip archives and
MindSpore's files have it as well. The list, ``.checksums`` in a folder, has a line ``NAME CRC32``
for each file, as ``.sfv`` has it: ``cksfv`` checks it, too. A line is written before its file takes
its place: a file is sound if any line of its name says so.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.messages import Message

FILE = ".checksums"
State = Literal["intact", "damaged", "no_checksum", "unread"]

_BLOCK = 1 << 20  # bytes read at a time
_SMALL = 4 << 20  # bytes that are summed and written before a thread has begun
_LARGEST_LIST = 64 << 20  # bytes: half a million files
_POLYNOMIAL = 0xEDB88320  # of CRC-32, lowest power in the highest bit
_ONE = 1 << 31
_LINE = re.compile(rb"([^\r\n]+) ([0-9A-F]{8})")


class Part(NamedTuple):
    """A part of a file that was checked, or cannot be.

    `name` is what the file calls it, empty for the file as a whole; `begin` and `end` are its
    place in bytes, `end` behind the last one. `reason` says what is wrong or missing.
    """

    name: str
    begin: int
    end: int
    state: State
    reason: str = ""


def unsummed(name: str = "", begin: int = 0, end: int = 0) -> Part:
    """A part of which nothing says what it was."""
    return Part(name, begin, end, "no_checksum", Message("checksums.none"))


def checked_part(file: BinaryIO, part: Part, crc: int) -> Part:
    """A part with what comes of reading it, against the CRC-32 that it was saved with."""
    return judged_part(part, crc_of(file, part.begin, part.end) == crc)


def judged_part(part: Part, is_sound: bool) -> Part:
    """A part that is intact, or damaged."""
    if is_sound:
        return part._replace(state="intact", reason="")
    return part._replace(state="damaged", reason=Message("checksums.other_bytes"))


def crc_of(file: BinaryIO, begin: int, end: int, crc: int = 0) -> int:
    """The CRC-32 of a part of a file that goes on after what `crc` is of.

    Raises
    ------
    FormatError
        If the file ends before.
    """
    file.seek(begin)
    left = end - begin
    while left:
        block = file.read(min(left, _BLOCK))
        if not block:
            raise FormatError(Message("zips.ends_before", end=end))
        crc = zlib.crc32(block, crc)
        left -= len(block)
    return crc


@contextmanager
def beside(size: int) -> Iterator[Executor | None]:
    """Who writes so many bytes while they are summed; None where that is not worth a thread."""
    if size <= _SMALL:
        yield None
        return
    with ThreadPoolExecutor(1) as executor:
        yield executor


def written(
    stream: BinaryIO, views: Iterable[bytes | memoryview], executor: Executor | None, crc: int = 0
) -> int:
    """Write pieces behind each other; their CRC-32, which goes on after what `crc` is of.

    The checksum of a block takes a third of the time that writing it does, and both let other
    threads run.
    """
    for view in views:
        if executor is None:
            stream.write(view)
            crc = zlib.crc32(view, crc)
            continue
        # Before the next block, which may lie in the same memory, this one is written.
        done = executor.submit(stream.write, view)
        crc = zlib.crc32(view, crc)
        done.result()
    return crc


def crc_of_array(array: np.ndarray, crc: int = 0) -> int:
    """The same of the values of an array, in the order in which they lie in memory."""
    plain = array.T if array.flags.f_contiguous else array
    return zlib.crc32(np.ascontiguousarray(plain).reshape(-1).view(np.uint8).data, crc)


def joined_crc(crc: int, after: int, length: int) -> int:
    """The CRC-32 of two pieces behind each other, of the second one with its length in bytes.

    As ``crc32_combine`` of zlib, which Python does not offer.
    """
    return _product(_power(8 * length), crc) ^ after


@lru_cache(maxsize=64)
def _power(exponent: int) -> int:
    """The remainder of x to this power."""
    result, square = _ONE, _ONE >> 1
    while exponent:
        if exponent & 1:
            result = _product(result, square)
        square = _product(square, square)
        exponent >>= 1
    return result


def _product(left: int, right: int) -> int:
    """The remainder of the product of two polynomials over bits."""
    result, bit = 0, _ONE
    while bit:
        if left & bit:
            result ^= right
        right = (right >> 1) ^ (_POLYNOMIAL if right & 1 else 0)
        bit >>= 1
    return result


def line_of_file(name: str, crc: int) -> bytes:
    """The line of a file in the list; nothing for a name that no line can hold."""
    raw = os.fsencode(name)
    return b"%b %08X\n" % (raw, crc) if b"\r" not in raw and b"\n" not in raw else b""


def add_line(folder: Path, name: str, crc: int) -> None:
    """Put a file into the list of its folder; several processes may do so at once."""
    with open(folder / FILE, "ab", buffering=0) as stream:
        stream.write(line_of_file(name, crc))


def merge_lines(folder: Path, coming: Path, going: Iterable[str] = ()) -> bytes:
    """The list of a folder with the lines of another list, and without the files that go.

    Of a file that comes again the last line of before stays: until the new one is in its place, the
    old one is sound.
    """
    new = _lines_of(coming)
    old = _lines_of(folder / FILE)
    without = {os.fsencode(name) for name in going}
    kept = {
        name: crcs[-1:] if name in new else crcs
        for name, crcs in old.items()
        if name not in without
    }
    for name, crcs in new.items():
        kept[name] = [*(crc for crc in kept.get(name, []) if crc not in crcs), *crcs]
    return b"".join(b"%b %b\n" % (name, crc) for name, crcs in kept.items() for crc in crcs)


def _lines_of(file: Path) -> dict[bytes, list[bytes]]:
    """Names and the CRC-32 that were written for each, the last one last; nothing of no list."""
    found: dict[bytes, list[bytes]] = {}
    try:
        with opened(file) as (stream, (size, _)):
            text = stream.read(min(size, _LARGEST_LIST))
    except (FormatError, OSError):
        return found
    for line in text.split(b"\n"):
        if match := _LINE.fullmatch(line):
            crcs = found.setdefault(match[1], [])
            crcs[:] = [*(crc for crc in crcs if crc != match[2]), match[2]]
    return found


def listed(folder: Path) -> Mapping[str, list[int]]:
    """The files of a folder that its list names, each with the CRC-32 that it may have."""
    return {
        os.fsdecode(name): [int(crc, 16) for crc in crcs]
        for name, crcs in _lines_of(folder / FILE).items()
    }


def parts_by_list(file: BinaryIO, size: int, crcs: Iterable[int]) -> Iterator[Part]:
    """A file as a whole, against its lines; without any it carries no checksum."""
    crcs = [*crcs]
    part = Part("", 0, size, "no_checksum", Message("checksums.not_listed"))
    yield judged_part(part, crc_of(file, 0, size) in crcs) if crcs else part
