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
from typing import Any, cast

import numpy as np

from troubleshooter_nb.thresholds import FIGURES_BLOCK

LIBRARY = "_fused.so"

# What the loop gives, in the order of the C file.
SUMS = (
    *("left", "left_square", "right", "right_square", "error", "error_square", "relative"),
    "product",
)
MAXIMA = ("left_max", "left_min", "right_max", "right_min", "error", "relative", "tolerance")
COUNTS = ("left_zero", "right_zero", "close", "error_index")

Kernel = Callable[..., int]


@cache
def kernel(name: str = "fused_float32") -> Kernel | None:
    """The compiled loop, or None where there is none; ctypes lets other threads run meanwhile.

    ``portable_float32`` is the loop for processors without AVX-512.
    """
    try:
        fused: Any = getattr(ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))), name)
    except (OSError, AttributeError):
        return None
    pointer, real = ctypes.c_void_p, ctypes.c_double
    fused.argtypes = [pointer, pointer, ctypes.c_int64, real, real, *[pointer] * 5]
    fused.restype = ctypes.c_int
    return cast(Kernel, fused)


def measure_float32(
    run: Kernel, left: np.ndarray, right: np.ndarray, rtol: float, atol: float
) -> tuple[dict[str, float], dict[str, float], dict[str, int], np.ndarray] | None:
    """Sums, maxima, counts and counts per exponent field of a run of blocks.

    None where numpy has to do it: not all values are finite, or the norms of a block's sides are
    more than 2**10 apart, or 0.

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
    dict
        `SUMS` by name, in the order of `metrics.partial.pairwise_sum` within a `FIGURES_BLOCK`
        elements and of `metrics.partial.merge_tree` over blocks.
    dict
        `MAXIMA` by name.
    dict
        `COUNTS` by name.
    ndarray of int64, shape (2048,)
        |left - right| by the exponent field of float64.
    """
    blocks = -(-len(left) // FIGURES_BLOCK)
    scratch, reals = np.empty((len(SUMS), blocks)), np.empty(len(SUMS) + len(MAXIMA))
    counts, fields = np.empty(len(COUNTS), np.int64), np.empty(2048, np.int64)
    inputs = left.ctypes.data, right.ctypes.data, len(left), rtol, atol
    outputs = (scratch, reals, reals[len(SUMS) :], counts, fields)
    if not run(*inputs, *(output.ctypes.data for output in outputs)):
        return None
    found = reals.tolist()
    return (
        dict(zip(SUMS, found, strict=False)),
        dict(zip(MAXIMA, found[len(SUMS) :], strict=True)),
        dict(zip(COUNTS, counts.tolist(), strict=True)),
        fields,
    )
