"""One ``.npy`` file: written whole, or opened as a handle that reads ranges of it.

Damaged and hostile files are refused.
"""

from __future__ import annotations

import io
import math
import os
import tokenize
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.checkpoint import Item, bytes_of
from troubleshooter_nb.formats.checksums import (
    beside,
    crc_of,
    crc_of_array,
    joined_crc,
    written,
)
from troubleshooter_nb.formats.file_source import (
    COPY_OR_SAVE,
    FileSource,
    check_shape,
    checked_source,
    fortran_strides,
    head_and_stamp,
)
from troubleshooter_nb.formats.parse_errors import in_brief
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.naming import DTYPE_TOKENS

# numpy itself refuses headers of more than 10,000 characters, but only after reading them.
_LARGEST_HEADER = 16 * 1024
_LENGTH_BYTES = {b"\1\0": 2, b"\2\0": 4}
# Arrays of one shape and dtype have one header, byte for byte: parsing it takes 40 us.
_MOST_HEADERS = 1 << 10
# What numpy's header parser raises on damaged or hostile text.
_HEADER_ERRORS = (
    *(ValueError, TypeError, SyntaxError, LookupError, AttributeError, ArithmeticError),
    *(RecursionError, MemoryError, tokenize.TokenError),
)
# Dtypes that .npy has no name for, so that their values are stored as raw bytes. From ml_dtypes
# itself: once MindSpore is loaded, numpy's "bfloat16" is a dtype of MindSpore's own.
_RAW_DTYPES = {
    token: np.dtype(getattr(ml_dtypes, token))
    for token in DTYPE_TOKENS
    if hasattr(ml_dtypes, token)
}


def open_npy(file: str | Path, token: str | None = None) -> FileSource:
    """Handle to one ``.npy`` file; only its header is read, and never code from it.

    Parameters
    ----------
    file : str or Path
    token : str, optional
        Name of the dtype that raw bytes of its size stand for (``bfloat16``), from the file name.

    Raises
    ------
    FormatError
        If the file is not ``.npy``, is shorter than its header says, or holds no numbers.
    OSError
        If it cannot be opened.
    """
    head, stamp = head_and_stamp(file, _LARGEST_HEADER)
    (shape, fortran_order, stored, offset), dtype, promised = _layout(_header_of(head), token)
    if (held := stamp[0] - offset) < promised:
        facts = {"shape": shape, "dtype": stored, "needed": promised, "held": held}
        raise FormatError(joined([Message("npy.truncated", **facts), COPY_OR_SAVE]))
    spans = ((offset, promised),) if promised else ()
    if not fortran_order:
        return FileSource(os.fspath(file), shape, dtype, spans, None, stamp)
    return checked_source(file, shape, dtype, spans, stamp=stamp, strides=fortran_strides(shape))


@lru_cache(maxsize=_MOST_HEADERS)
def _layout(header: bytes, token: str | None) -> tuple[NpyHeader, np.dtype, int]:
    """A header, the dtype of the values and how many bytes they are; FormatError as `open_npy`."""
    found = _parsed(header)
    dtype = npy_meaning(found.dtype, token)
    check_shape(found.shape, found.dtype)
    return found, dtype, math.prod(found.shape) * found.dtype.itemsize


# What is told the CRC-32 of a file before it takes its place.
Told = Callable[[int], object]


def write_npy(file: Path, array: np.ndarray, told: Told | None = None) -> None:
    """Write one array as ``.npy``; the file appears whole or not at all.

    Parameters
    ----------
    file : Path
        Its folder exists. A file of that name is replaced.
    array : ndarray, any shape, any dtype of numbers
        bfloat16, float8 and their like are written as the one or two raw bytes that numpy itself
        writes for them, so the file name must say what they are.
    told : callable, optional
        Gets the CRC-32 of the file before this is in its place.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    if told is None:
        with written_whole(file, tidy=False) as stream:
            write_npy_into(stream, array)
        return
    with written_whole(file, tidy=False) as stream, beside(array.nbytes) as executor:
        summing = executor and executor.submit(crc_of_array, array)
        write_npy_into(stream, array)
        header = crc_of(stream, 0, stream.tell() - array.nbytes)
        values = summing.result() if summing else crc_of_array(array)
        told(joined_crc(header, values, array.nbytes))


def write_npy_into(stream: BinaryIO, array: np.ndarray) -> None:
    """As `write_npy`, into an open file."""
    np.lib.format.write_array(stream, _plain_bytes(array), allow_pickle=False)


def write_npy_blocks(file: Path, item: Item, told: Told | None = None) -> None:
    """Write one tensor block by block; otherwise as `write_npy` writes an array.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    stored = _plain_bytes(np.empty(0, item.dtype)).dtype.newbyteorder("<")
    header = {
        "descr": np.lib.format.dtype_to_descr(stored),
        "fortran_order": False,
        "shape": item.shape,
    }
    with written_whole(file, tidy=False) as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        if told is None:
            stream.writelines(bytes_of(item))
            return
        crc = crc_of(stream, 0, stream.tell())
        with beside(item.size_bytes) as executor:
            told(written(stream, bytes_of(item), executor, crc))


def _plain_bytes(array: np.ndarray) -> np.ndarray:
    # .npy has no name for ml_dtypes; numpy itself would write the same raw bytes.
    if array.dtype.type.__module__.startswith("ml_dtypes"):
        return array.view(f"V{array.dtype.itemsize}")
    return array


class NpyHeader(NamedTuple):
    """What a ``.npy`` header says, and how many bytes it is."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype
    size_bytes: int


def parse_npy_header(head: bytes) -> NpyHeader:
    """The header at the beginning of these bytes; FormatError if there is none."""
    return _parsed(_header_of(head))


def _header_of(head: bytes) -> bytes:
    """The header without what stands behind it, by the length that it states."""
    # In two bytes or in four, behind magic and version; another version has no header for us.
    width = _LENGTH_BYTES.get(head[6:8], 0)
    return head[: 8 + width + int.from_bytes(head[8 : 8 + width], "little")] if width else head


@lru_cache(maxsize=_MOST_HEADERS)
def _parsed(header: bytes) -> NpyHeader:
    stream = io.BytesIO(header)
    # numpy evaluates literals only: no code of the file runs, whatever the header says.
    try:
        version = np.lib.format.read_magic(stream)
        if version in ((1, 0), (2, 0)):
            read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            # It advises to re-save files of Python 2 and of old dtype names; both read well.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shape, fortran_order, dtype = read(stream)
            return NpyHeader(shape, fortran_order, dtype, stream.tell())
    except _HEADER_ERRORS as error:
        raise FormatError(Message("npy.not_npy", detail=in_brief(error, 160))) from None
    by = "npy.of_records" if version == (3, 0) else "npy.of_nobody"
    raise FormatError(Message(by, version=f"{version[0]}.{version[1]}"))


def npy_meaning(dtype: np.dtype, token: str | None) -> np.dtype:
    """The dtype of the values: the stored one, or what the file name says raw bytes are.

    FormatError where they are no numbers.
    """
    if dtype.hasobject:
        raise FormatError(Message("npy.objects"))
    raw = dtype.kind == "V" and dtype.names is None and dtype.subdtype is None
    named = _RAW_DTYPES.get(token or "")
    if raw and named is not None and named.itemsize == dtype.itemsize:
        return named
    if arithmetic_of(dtype) == "unsupported":
        what = "npy.raw_bytes" if raw else "npy.records" if dtype.kind == "V" else "npy.text"
        raise FormatError(Message(what, dtype=dtype))
    return dtype
