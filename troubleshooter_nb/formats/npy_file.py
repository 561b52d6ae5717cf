"""One ``.npy`` file: written whole, or opened as a handle that reads ranges of it.

Damaged and hostile files are refused.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import re
import stat
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import ml_dtypes
import numpy as np

from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.naming import DTYPE_TOKENS

# numpy itself refuses headers of more than 10,000 characters, but only after reading them.
_LARGEST_HEADER = 16 * 1024
# Files being written have names of their own, also in one thread (a signal, a finaliser).
_writing = itertools.count()
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


@dataclass(frozen=True)
class NpySource:
    """One ``.npy`` file, opened by its header alone.

    Attributes
    ----------
    path : str
    shape : tuple of int
    dtype : dtype
        Of the values: bfloat16 where `stored_dtype` is two raw bytes.
    stored_dtype : dtype
        As the header has it.
    offset : int, bytes
        Where the values begin.
    fortran_order : bool
        The first axis varies fastest in the file.
    stamp : (int, int), optional
        Size in bytes and time of change in ns when it was opened; None is not checked.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype
    stored_dtype: np.dtype
    offset: int
    fortran_order: bool = False
    stamp: tuple[int, int] | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> np.ndarray:
        """Stored values of a flat C-order range, shape (stop - start,).

        Raises
        ------
        ReadError
            If the file is gone, or not the one that was opened any more.
        """
        try:
            with open(self.path, "rb", buffering=0) as file:
                if self.stamp not in (None, _stamp(file)):
                    raise ReadError(self._changed())
                if self.fortran_order:
                    values = self._read_fortran(file, start, stop)
                else:
                    values = self._read_contiguous(file, start, stop)
        except ReadError:
            raise
        except OSError as error:
            msg = f"{Path(self.path).name}: {error.strerror or error}"
            raise ReadError(msg) from error
        return values if self.dtype == self.stored_dtype else values.view(self.dtype)

    def _read_contiguous(self, file: io.FileIO, start: int, stop: int) -> np.ndarray:
        values = np.empty(stop - start, self.stored_dtype)
        # Not a memory map: a file that shrinks meanwhile must raise, not kill the process.
        file.seek(self.offset + start * self.stored_dtype.itemsize)
        view = memoryview(values.view(np.uint8).data)
        while len(view):
            count = file.readinto(view)
            if not count:
                raise ReadError(self._changed())
            view = view[count:]
        return values

    def _read_fortran(self, file: io.FileIO, start: int, stop: int) -> np.ndarray:
        if _stamp(file)[0] < self.offset + self.size_bytes:
            raise ReadError(self._changed())
        # A flat range lies scattered over the whole file. Only a map gathers it at a bearable
        # speed; that a file shrinks within these microseconds is a risk we take.
        mapped = np.memmap(file, self.stored_dtype, "r", self.offset, self.shape, "F")
        return np.asarray(mapped.flat[start:stop])

    def _changed(self) -> str:
        return f"{Path(self.path).name} changed since it was opened; open the dump again"


def open_npy(file: Path, token: str | None = None) -> NpySource:
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
    # Opening a pipe would wait for its writer.
    if not stat.S_ISREG(os.stat(file).st_mode):
        msg = "not a file with contents (a folder, pipe or device)"
        raise FormatError(msg)
    with open(file, "rb") as stream:
        stamp = _stamp(stream)
        head = io.BytesIO(stream.read(_LARGEST_HEADER))
    if not stamp[0]:
        msg = "empty file: the save was interrupted; save it again"
        raise FormatError(msg)
    shape, fortran_order, dtype = _parse_header(head)
    meaning = _meaning(dtype, token)
    _check_shape(shape, dtype)
    held, promised = stamp[0] - head.tell(), math.prod(shape) * dtype.itemsize
    if held < promised:
        msg = (
            f"truncated: {shape} of {dtype} needs {promised:,} bytes, "
            f"the file holds {held:,}; copy or save it again"
        )
        raise FormatError(msg)
    scattered = fortran_order and len(shape) > 1 and promised > 0
    return NpySource(str(file), shape, meaning, dtype, head.tell(), scattered, stamp)


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
    # Hidden, and no .npy: what a killed process leaves behind is no array of the dump.
    aside = file.with_name(f".writing-{os.getpid()}-{next(_writing)}")
    try:
        with open(aside, "wb") as stream:
            np.lib.format.write_array(stream, _plain_bytes(array), allow_pickle=False)
        os.replace(aside, file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _plain_bytes(array: np.ndarray) -> np.ndarray:
    # .npy has no name for ml_dtypes; numpy itself would write the same raw bytes.
    if array.dtype.type.__module__.startswith("ml_dtypes"):
        return array.view(f"V{array.dtype.itemsize}")
    return array


def _parse_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
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


def _check_shape(shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Refuse shapes no array can have; bool counts as int for numpy's own check."""
    try:
        if any(type(length) is not int for length in shape):
            raise TypeError
        # Refuses negative lengths, too many axes and more bytes than can be addressed.
        np.broadcast_to(np.empty((), dtype), shape)
    except (TypeError, ValueError, OverflowError):
        msg = f"header gives the impossible shape {str(shape)[:80]}"
        raise FormatError(msg) from None


def _meaning(dtype: np.dtype, token: str | None) -> np.dtype:
    """The dtype of the values: the stored one, or what the file name says raw bytes are."""
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


def _stamp(file: io.FileIO | io.BufferedReader) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns
