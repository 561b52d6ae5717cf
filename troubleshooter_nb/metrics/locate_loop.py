"""The compiled half of `metrics.locate`, from the C file beside this one, where it was compiled.

It fills the same arrays with the same bits as numpy does there, in a tenth of the time, and
without holding up other threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.compiled import LIBRARY, byte_values, code_of, contiguous
from troubleshooter_nb.metrics.places import LEAF, AxisSums, Places

_FILLED = ("tile_max", "tile_mismatch", "histograms", "edges", "float_edges")
_WORST = ("worst_error", "worst_left", "worst_right", "worst_index")
_SCRATCH = ("block_row_sums", "block_column_sums", "leaf_sums", "widened", "cleaned")


class _Axis(ctypes.Structure):
    """`struct axis` of the C file."""

    _fields_ = (
        ("profile", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("bins", "length", "inner")),
    )


class _Place(ctypes.Structure):
    """`struct place` of the C file."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "tile_rows", "tile_columns")),
        *((name, ctypes.c_void_p) for name in (*_FILLED, *_WORST)),
        ("worst_count", ctypes.c_int64),
        ("scale", ctypes.c_double * 2),
        *((name, ctypes.POINTER(_Axis)) for name in ("row_axes", "column_axes")),
        *((name, ctypes.c_int64) for name in ("count_of_row_axes", "count_of_column_axes")),
        ("byte_values", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in _SCRATCH),
    )


@cache
def _function() -> Any:
    try:
        run: Any = ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))).locate_run
    except (OSError, AttributeError):
        return None
    pointer, whole, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    run.argtypes = [pointer, *[pointer, whole] * 2, *[whole] * 3, flag, flag]
    run.restype = None
    return run


class LocateLoop:
    """Adds runs of two tensors to `Places`.

    Parameters
    ----------
    run : callable
        From the library.
    places : Places
        Changed in place.
    block : int
        Most elements of a block.
    portable : bool
        Without AVX-512, whatever the processor has: for the tests.
    """

    def __init__(self, run: Callable[..., None], places: Places, block: int, *, portable: bool):
        self._run, self._places, self._portable = run, places, portable
        block = min(block, places.rows * places.columns)
        # What is never written takes no memory.
        lengths = (block, block, block // LEAF + 1, 2 * block, 2 * block)
        filled = {name: getattr(places, name) for name in (*_FILLED, *_WORST)}
        scratch = {name: np.empty(n) for name, n in zip(_SCRATCH, lengths, strict=True)}
        arrays = filled | scratch | {"byte_values": byte_values()}
        rows, columns = (_axes(sums) for sums in (places.row_sums, places.column_sums))
        self._kept = arrays, rows, columns  # the structure has their addresses only
        self._place = _Place(
            places.rows,
            places.columns,
            *places.tile_max.shape,
            scale=_powers(-places.exponent),
            row_axes=rows,
            column_axes=columns,
            count_of_row_axes=len(rows),
            count_of_column_axes=len(columns),
            **{name: array.ctypes.data for name, array in arrays.items()},
        )

    @classmethod
    def of(cls, places: Places, block: int, *, portable: bool) -> LocateLoop | None:
        """The loop, or None where it was not compiled."""
        run = _function()
        return None if run is None else cls(run, places, block, portable=portable)

    def add(self, start: int, left: np.ndarray, right: np.ndarray, step: int) -> bool:
        """Add whole rows of the view, or a part of one; False for what is left to numpy.

        Parameters
        ----------
        start : int
            Flat index where they begin.
        left, right : ndarray, shape (n,)
            As stored.
        step : int
            Elements of a block: of whole rows or a part of one.
        """
        unit = _unit(left.dtype, right.dtype)
        width = min(len(left), self._places.columns)
        # A source that gives too little is left to numpy, too, which says so.
        if unit is None or left.shape != right.shape or not width or len(left) % width:
            return False
        left, right = contiguous(left), contiguous(right)
        # Only the loop over float64 scales errors.
        doubles = unit == np.float64 or self._places.exponent != 0
        self._place.worst_count = self._places.worst_count
        self._run(
            ctypes.addressof(self._place),
            *(left.ctypes.data, code_of(left.dtype), right.ctypes.data, code_of(right.dtype)),
            *(start, len(left), step, doubles, self._portable),
        )
        self._places.worst_count = self._place.worst_count
        return True


def _axes(sums: AxisSums) -> ctypes.Array[_Axis]:
    axes = [_Axis(array.ctypes.data, len(array), *spaced) for array, *spaced in sums.axes]
    return (_Axis * len(axes))(*axes)


@cache
def _unit(left: np.dtype, right: np.dtype) -> np.dtype | None:
    """The dtype that holds the values of both; None where |left - right| is not of those."""
    left, right = left.newbyteorder("="), right.newbyteorder("=")
    if not (code_of(left) and code_of(right)):
        return None
    if _is_narrow(left) and _is_narrow(right):
        return np.dtype(np.float32)
    if max(left.itemsize, right.itemsize) == 8 and left.kind in "iu" and right.kind in "iu":
        return None
    return np.dtype(np.float64)


def _is_narrow(dtype: np.dtype) -> bool:
    """Whether float32 holds all values."""
    return dtype.itemsize <= 2 or dtype == np.float32


def _powers(exponent: int) -> tuple[float, float]:
    """Two factors whose product is 2**exponent, which may be none of float64 itself."""
    half = exponent // 2
    return 2.0**half, 2.0 ** (exponent - half)
