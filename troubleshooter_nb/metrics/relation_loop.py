"""The compiled half of the sums of `metrics.signatures`, from the C file beside this one.

It adds in another order than numpy, so that sums differ by rounding of float64, and takes a
fraction of the time, without other threads. Where it was not compiled, and for what is not real or
not finite, numpy does the work.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.metrics.compiled import LIBRARY

_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_pointer, _whole, _flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


class Sums(NamedTuple):
    """Of values less a shift: their sum and that of their squares; the ends of the values."""

    total: float
    square: float
    low: float
    high: float


@cache
def _function(name: str) -> Any:
    try:
        run: Any = getattr(ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))), name)
    except (OSError, AttributeError):
        return None
    if name == "shifted_sums":
        run.argtypes = [_pointer, _whole, _flag, ctypes.c_double, _pointer]
        run.restype = None
    else:
        run.argtypes = [_pointer, _pointer, _flag, _whole, *[_pointer] * 3]
        run.restype = ctypes.c_double
    return run


def shifted_sums(values: np.ndarray, shift: float) -> Sums | None:
    """Sums over values of shape (n,), accumulated in float64.

    None where numpy is to form them: no loop, no real floats one after the other in memory, none
    at all, or one that is not finite.
    """
    run = _function("shifted_sums")
    if run is None or values.dtype not in _REAL or not len(values):
        return None
    if not values.flags.c_contiguous:
        return None
    found = (ctypes.c_double * 4)()
    run(values.ctypes.data, len(values), values.dtype == np.float64, shift, found)
    return Sums(*found) if np.isfinite(found[1]) else None


def squared_distance(actual: np.ndarray, benchmark: np.ndarray) -> float | None:
    """Square of the norm of ``actual - benchmark``, of one shape and any strides, in float64.

    None where numpy is to form it: no loop, not both of float32 or of float64, or not finite.
    """
    run = _function("squared_distance")
    if run is None or actual.dtype not in _REAL or actual.dtype != benchmark.dtype:
        return None
    if actual.shape != benchmark.shape or not actual.size:
        return None
    shape, *strides = _tiled(actual, benchmark)
    arrays = [np.array(one, np.int64) for one in (shape, *strides)]
    found: float = run(
        actual.ctypes.data,
        benchmark.ctypes.data,
        actual.dtype == np.float64,
        len(shape),
        *(one.ctypes.data for one in arrays),
    )
    return found if np.isfinite(found) else None


def _tiled(actual: np.ndarray, benchmark: np.ndarray) -> tuple[list[int], list[int], list[int]]:
    """Shape and strides in elements; the axes of nearest neighbours come last."""
    size = actual.itemsize
    axes = [
        (length, ours // size, theirs // size)
        for length, ours, theirs in zip(
            actual.shape, actual.strides, benchmark.strides, strict=True
        )
        if length > 1
    ]
    axes = [(1, 0, 0)] * max(2 - len(axes), 0) + axes
    last = min(axes, key=lambda axis: (axis[0] == 1, abs(axis[2])))
    axes.remove(last)
    first = min(axes, key=lambda axis: (axis[0] == 1, abs(axis[1])))
    axes.remove(first)
    # Far ones outside, as they lie in memory.
    axes.sort(key=lambda axis: -abs(axis[2]))
    shape, ours, theirs = zip(*[*axes, first, last], strict=True)
    return list(shape), list(ours), list(theirs)
