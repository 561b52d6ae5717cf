"""Archives of ``.npy`` members, as ``numpy.savez`` and ``numpy.savez_compressed`` write them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.archive_source import (
    STORED,
    ArchiveSource,
    Placed,
    head_of_member,
    placed_members,
)
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump
from troubleshooter_nb.formats.file_source import (
    SAVE_AGAIN,
    check_shape,
    checked_source,
    fortran_strides,
    head_of,
    named,
    opened,
)
from troubleshooter_nb.formats.npy_file import npy_meaning, parse_npy_header
from troubleshooter_nb.formats.stored_source import StoredSource
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.naming import parameter_leaf, parse_npy_name, site_of_npy_stem

NAME = "npz"

_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
# As in npy_file: numpy refuses headers of more than 10,000 characters.
_LARGEST_HEADER = 16 * 1024


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.suffix == ".npz" and path.is_file():
        return None
    if head_of(path, 4) not in _MAGIC:
        return Message("npy.no_archive")
    try:
        with opened(path) as (file, stamp):
            names = [member.name for member in placed_members(file, stamp[0])]
    except (FormatError, OSError) as error:
        return Message("npy.not_listed", why=error)
    if others := [name for name in names if not name.endswith(".npy")]:
        return Message("npy.of_other_things", names=others)
    return None if names else Message("npy.empty_archive")


def open_npz(path: Path, *, label: str) -> Dump:
    """Open an archive of arrays by their headers; values are read when asked for.

    Parameters
    ----------
    path : Path
    label : str

    Returns
    -------
    Dump
        One entry per array, named as in the archive without ``.npy``. Where most names end like
        those of parameters they all count as such. An array that holds no numbers, is encrypted
        or damaged is an entry with a reason; other files of the archive are a note. Whether the
        values have the CRC-32 that they were saved with is found where all of an array are read:
        a part of it comes unchecked.

    Raises
    ------
    FormatError
        If it is no archive, is truncated, holds no array, or two of one name.
    OSError
        If it cannot be opened.
    """
    with named(path):
        stored, notes = open_stored(path)
        return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


def open_stored(path: Path) -> tuple[list[Stored], list[str]]:
    """The arrays of an archive and what there is to say; raises as `open_npz` does."""
    with opened(path) as (file, stamp):
        if file.read(2) != _MAGIC[0][:2]:
            raise FormatError(joined([Message("npy.not_zip"), Message("npy.save_arrays_again")]))
        members = placed_members(file, stamp[0])
        arrays = [member for member in members if member.name.endswith(".npy")]
        if not arrays:
            raise FormatError(joined([Message("npy.no_members"), Message("npy.save_with_savez")]))
        stored = [_stored(path, file, stamp, member) for member in arrays]
    others = [member.name for member in members if not member.name.endswith(".npy")]
    return _with_sites(stored), [Message("npy.no_arrays", names=others)] if others else []


def _with_sites(stored: Sequence[Stored]) -> list[Stored]:
    """Names of parameters are left to the common rule; others are those of saved arrays."""
    known = sum(parameter_leaf(one.name) is not None for one in stored)
    if 2 * known > len(stored):
        return list(stored)
    return [one._replace(site=site_of_npy_stem(parse_npy_name(one.name).stem)) for one in stored]


def _stored(path: Path, file: BinaryIO, stamp: tuple[int, int], member: Placed) -> Stored:
    name = member.name.removesuffix(".npy")
    if member.problem:
        return Stored(name, None, member.problem)
    try:
        return Stored(name, _source(path, file, stamp, member))
    except FormatError as error:
        return Stored(name, None, message_of(error))


def _source(path: Path, file: BinaryIO, stamp: tuple[int, int], member: Placed) -> ArraySource:
    head = head_of_member(file, member, _LARGEST_HEADER)
    shape, fortran, stored, offset = parse_npy_header(head)
    dtype = npy_meaning(stored, parse_npy_name(member.name).dtype)
    check_shape(shape, stored)
    promised = math.prod(shape) * dtype.itemsize
    if (held := member.size - offset) < promised:
        facts = {"shape": shape, "dtype": dtype, "needed": promised, "held": held}
        raise FormatError(joined([Message("npy.member_truncated", **facts), SAVE_AGAIN]))
    fortran = fortran and len(shape) > 1
    if member.method == STORED:
        strides = fortran_strides(shape) if fortran else None
        spans = ((member.begin + offset, promised),)
        plain = checked_source(path, shape, dtype, spans, stamp=stamp, strides=strides)
        before = zlib.crc32(head[:offset])
        return StoredSource(**vars(plain), member=member, before=before, offset=offset)
    return ArchiveSource(str(path), shape, dtype, member, offset, fortran, stamp)
