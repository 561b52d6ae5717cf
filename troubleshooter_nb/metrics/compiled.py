"""One fused loop over float32 pairs, from the C file beside this one, where it was compiled.

It gives the very bits that `metrics.pairwise` computes with numpy, in less time, and without
holding up other threads. numpy stays the reference: what is not float32, or not finite, is left to
it.
Installing the package compiles the loop where there is a C compiler (``hatch_build.py``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from troubleshooter_nb.metrics.partial import BLOCK, ROW, tree_sum

LIBRARY = "_fused.so"
# The leaves of `metrics.partial.pairwise_sum` in whole rows.
_LEAF = 128
_LEAVES_IN_ROW = ROW // _LEAF

# Rows of the table of sums, and what the loop counts, in the order of the C file.
SUMS = ("left", "left_square", "right", "right_square", "error", "error_square", "relative")
MAXIMA = ("left_max", "left_min", "right_max", "right_min", "error", "relative", "tolerance")
COUNTS = ("left_zero", "right_zero", "close", "error_index")

Kernel = Callable[..., int]


@cache
def kernel(name: str = "fused_float32") -> Kernel | None:
    """The compiled loop, or None where there is none; ctypes lets other threads run meanwhile.

    ``portable_float32`` is the loop for processors without AVX-512.
    """
    try:
        fused = getattr(ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))), name)
    except (OSError, AttributeError):
        return None
    pointer, real = ctypes.c_void_p, ctypes.c_double
    fused.argtypes = [pointer, pointer, *[ctypes.c_int64] * 2, real, real, *[pointer] * 5]
    fused.restype = ctypes.c_int
    return fused


def measure_float32(
    run: Kernel, left: np.ndarray, right: np.ndarray, rtol: float, atol: float
) -> tuple[np.ndarray, dict[str, float], dict[str, int], np.ndarray] | None:
    """Sums per block, maxima, counts and counts per exponent field; None if not all are finite.

    Parameters
    ----------
    run : callable
        From `kernel`.
    left, right : ndarray of float32, shape (n,), contiguous
        n is at least 1.
    rtol, atol : float
        Closeness of `COUNTS`.

    Returns
    -------
    ndarray of float64, shape (7, blocks)
        `SUMS` of each block of `BLOCK` elements, the last one shorter, in the order of
        `metrics.partial.pairwise_sum`.
    dict
        `MAXIMA` by name.
    dict
        `COUNTS` by name.
    ndarray of int64, shape (2048,)
        |left - right| by the exponent field of float64.
    """
    whole, last = divmod(len(left), BLOCK)
    last_rows = last // ROW
    rows = whole * (BLOCK // ROW) + last_rows
    table, rest = np.empty((len(SUMS), rows * _LEAVES_IN_ROW)), np.empty(len(SUMS))
    maxima = np.empty(len(MAXIMA))
    counts, fields = np.empty(len(COUNTS), np.int64), np.empty(2048, np.int64)
    inputs = left.ctypes.data, right.ctypes.data, len(left), table.shape[1], rtol, atol
    outputs = (table, rest, maxima, counts, fields)
    if not run(*inputs, *(output.ctypes.data for output in outputs)):
        return None
    sums = tree_sum(table.reshape(len(SUMS), rows, _LEAVES_IN_ROW))
    blocks = tree_sum(sums[:, : rows - last_rows].reshape(len(SUMS), whole, BLOCK // ROW))
    if last:
        of_last = tree_sum(sums[:, rows - last_rows :]) + rest if last_rows else rest
        blocks = np.append(blocks, of_last[:, np.newaxis], axis=1)
    return (
        blocks,
        dict(zip(MAXIMA, maxima.tolist(), strict=True)),
        dict(zip(COUNTS, counts.tolist(), strict=True)),
        fields,
    )
