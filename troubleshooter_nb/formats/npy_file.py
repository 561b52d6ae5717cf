"""One ``.npy`` file: written whole, or opened as a handle that reads ranges of it.

Damaged and hostile files are refused.
"""

from __future__ import annotations

import io
import math
import re
import tokenize
import warnings
from pathlib import Path
from typing import BinaryIO

import ml_dtypes
import numpy as np

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import (
    FileSource,
    check_shape,
    checked_source,
    fortran_strides,
    opened,
    written_whole,
)
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.naming import DTYPE_TOKENS

# numpy itself refuses headers of more than 10,000 characters, but only after reading them.
_LARGEST_HEADER = 16 * 1024
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


def open_npy(file: Path, token: str | None = None) -> FileSource:
    """Handle to one ``.npy`` file; only its header is read, and never code from it.

    Parameters
    ----------
    file : Path
    token : str, optional
        Name of the dtype that raw bytes of its size stand for (``bfloat16``), from the file name.

    Raises
    ------
    FormatError
        If the file is not ``.npy``, is shorter than its header says, or holds no numbers.
    OSError
        If it cannot be opened.
    """
    with opened(file) as (stream, stamp):
        head = io.BytesIO(stream.read(_LARGEST_HEADER))
    shape, fortran_order, stored = parse_npy_header(head)
    dtype = npy_meaning(stored, token)
    check_shape(shape, stored)
    offset, promised = head.tell(), math.prod(shape) * stored.itemsize
    if stamp[0] - offset < promised:
        msg = (
            f"truncated: {shape} of {stored} needs {promised:,} bytes, "
            f"the file holds {stamp[0] - offset:,}; copy or save it again"
        )
        raise FormatError(msg)
    strides = fortran_strides(shape) if fortran_order else None
    spans = ((offset, promised),)
    return checked_source(file, shape, dtype, spans, stamp=stamp, strides=strides)


def write_npy(file: Path, array: np.ndarray) -> None:
    """Write one array as ``.npy``; the file appears whole or not at all.

    Parameters
    ----------
    file : Path
        Its folder exists. A file of that name is replaced.
    array : ndarray, any shape, any dtype of numbers
        bfloat16, float8 and their like are written as the one or two raw bytes that numpy itself
        writes for them, so the file name must say what they are.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then.
    """
    with written_whole(file) as stream:
        np.lib.format.write_array(stream, _plain_bytes(array), allow_pickle=False)


def _plain_bytes(array: np.ndarray) -> np.ndarray:
    # .npy has no name for ml_dtypes; numpy itself would write the same raw bytes.
    if array.dtype.type.__module__.startswith("ml_dtypes"):
        return array.view(f"V{array.dtype.itemsize}")
    return array


def parse_npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, Fortran order and stored dtype of a ``.npy`` header; FormatError if it is none."""
    # numpy evaluates literals only: no code of the file runs, whatever the header says.
    try:
        version = np.lib.format.read_magic(stream)
        if version in ((1, 0), (2, 0)):
            read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            # It advises to re-save files of Python 2 and of old dtype names; both read well.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shape, fortran_order, dtype = read(stream)
            return shape, fortran_order, dtype
    except _HEADER_ERRORS as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        # A message may quote an object with its address, which is another one in every run.
        first = re.sub(r"<[^>]* object at 0x[0-9a-f]+>", "something else", first)
        msg = f"not a .npy file: {first[:160]}"
        raise FormatError(msg) from None
    use = "for records, which hold no tensor" if version == (3, 0) else "by no numpy we know"
    msg = f"npy format {version[0]}.{version[1]} is used only {use}"
    raise FormatError(msg)


def npy_meaning(dtype: np.dtype, token: str | None) -> np.dtype:
    """The dtype of the values: the stored one, or what the file name says raw bytes are.

    FormatError where they are no numbers.
    """
    if dtype.hasobject:
        msg = "holds Python objects; reading them would run code from the file, so it is not read"
        raise FormatError(msg)
    raw = dtype.kind == "V" and dtype.names is None and dtype.subdtype is None
    named = _RAW_DTYPES.get(token or "")
    if raw and named is not None and named.itemsize == dtype.itemsize:
        return named
    if arithmetic_of(dtype) == "unsupported":
        msg = f"holds {'records' if dtype.kind == 'V' else 'text or dates'} ({dtype}), not numbers"
        if raw:
            msg = (
                f"holds raw bytes ({dtype}); if they are bfloat16 or float8, say so in the file "
                "name, as in x_bfloat16_0.npy"
            )
        raise FormatError(msg)
    return dtype
