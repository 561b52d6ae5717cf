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

LIBRARY = "_fused.so"
# The leaves of `metrics.partial.pairwise_sum`; a run of a power of two of elements is made of such.
_LEAF = 128

# Rows of the table of sums, and what the loop counts, in the order of the C file.
SUMS = ("left", "left_square", "right", "right_square", "error", "error_square", "relative")
MAXIMA = ("left_max", "left_min", "right_max", "right_min", "error", "relative", "tolerance")
COUNTS = ("left_zero", "right_zero", "close", "error_index")

Kernel = Callable[..., int]


@cache
def kernel() -> Kernel | None:
    """The compiled loop, or None where there is none; ctypes lets other threads run meanwhile."""
    try:
        fused = ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))).fused_float32
    except (OSError, AttributeError):
        return None
    pointer, real = ctypes.c_void_p, ctypes.c_double
    fused.argtypes = [pointer, pointer, ctypes.c_int64, real, real, *[pointer] * 4]
    fused.restype = ctypes.c_int
    return fused


def measure_float32(
    run: Kernel, left: np.ndarray, right: np.ndarray, rtol: float, atol: float, blocks: int
) -> tuple[np.ndarray, dict[str, float], dict[str, int], np.ndarray] | None:
    """Sums per block, maxima, counts and counts per exponent field; None if not its kind.

    Parameters
    ----------
    run : callable
        From `kernel`.
    left, right : ndarray of float32, shape (n,), contiguous
        n is 128 times a power of two.
    blocks : int
        A power of two: the sums are given for this many equal parts.

    Returns
    -------
    ndarray of float64, shape (7, blocks)
        `SUMS`, each along the tree of `metrics.partial.pairwise_sum`.
    dict
        `MAXIMA` by name.
    dict
        `COUNTS` by name.
    ndarray of int64, shape (2048,)
        |left - right| by the exponent field of float64.
    """
    leaves, rest = divmod(len(left), _LEAF)
    if rest or leaves & (leaves - 1) or leaves < blocks:
        return None
    table, maxima = np.empty((len(SUMS), leaves)), np.empty(len(MAXIMA))
    counts, fields = np.empty(len(COUNTS), np.int64), np.empty(2048, np.int64)
    inputs = left.ctypes.data, right.ctypes.data, len(left), rtol, atol
    if not run(*inputs, *(output.ctypes.data for output in (table, maxima, counts, fields))):
        return None
    while table.shape[1] > blocks:
        table = table[:, 0::2] + table[:, 1::2]
    return (
        table,
        dict(zip(MAXIMA, maxima.tolist(), strict=True)),
        dict(zip(COUNTS, counts.tolist(), strict=True)),
        fields,
    )
