"""One fused loop over a block of float32 pairs, compiled by numba where it is installed.

It gives the very bits that `metrics.pairwise` computes with numpy, at a fraction of the time, and
without holding up other threads. numpy stays the reference: a block with NaN or Inf, of another
dtype or length, is left to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache
from typing import cast, no_type_check

import numpy as np

# The leaves of `metrics.partial.pairwise_sum`, with 8 accumulators each; a block whose length is a
# power of two is made of whole leaves.
_LEAF = 128

# Sums, in the order of the columns of the kernel's leaf table.
SUMS = ("left", "left_square", "right", "right_square", "error", "error_square", "relative")
MAXIMA = ("left_max", "left_min", "right_max", "right_min", "error", "relative", "tolerance")
COUNTS = ("left_zero", "right_zero", "close", "error_index")

Kernel = Callable[..., bool]


def is_loaded() -> bool:
    """Whether `kernel` was called in this process, so that using it costs nothing more."""
    return kernel.cache_info().currsize > 0


@cache
def kernel() -> Kernel | None:
    """The compiled loop, or None without numba. The first call in a process takes seconds."""
    try:
        import numba
    except ImportError:
        return None
    # nogil: other threads go on. No fastmath: sums keep their order, nothing is fused.
    compiled = numba.njit(nogil=True, error_model="numpy")(_fused)
    # Without a folder to keep it in it is compiled again in the next process.
    with contextlib.suppress(RuntimeError):
        compiled.enable_caching()
    zeros = np.zeros(_LEAF, np.float32)
    measure_float32(compiled, zeros, zeros, 0.0, 0.0)
    return cast("Kernel", compiled)


def measure_float32(
    run: Kernel, left: np.ndarray, right: np.ndarray, rtol: float, atol: float
) -> tuple[dict[str, float], dict[str, float], dict[str, int], np.ndarray] | None:
    """Sums, maxima, counts and biased exponent counts of two blocks, or None if not its kind.

    Parameters
    ----------
    run : callable
        From `kernel`.
    left, right : ndarray of float32, shape (n,), contiguous
        n is 128 times a power of two.
    """
    leaves, rest = divmod(len(left), _LEAF)
    if rest or leaves & (leaves - 1) or not leaves:
        return None
    table = np.empty((len(SUMS), leaves))
    maxima, counts = np.empty(len(MAXIMA)), np.empty(len(COUNTS), np.int64)
    fields = np.zeros(2048, np.int64)
    if not run(left, right, rtol, atol, table, maxima, counts, fields):
        return None
    while table.shape[1] > 1:
        table = table[:, 0::2] + table[:, 1::2]
    return (
        dict(zip(SUMS, table[:, 0].tolist(), strict=True)),
        dict(zip(MAXIMA, maxima.tolist(), strict=True)),
        dict(zip(COUNTS, counts.tolist(), strict=True)),
        fields,
    )


@no_type_check
def _fused(left, right, rtol, atol, table, maxima, counts, fields):
    """The loop, in the subset of Python that numba compiles; False at the first NaN or Inf."""
    largest_finite = np.float64(3.4028234663852886e38)
    lanes = np.empty((7, 8))
    errors = np.empty(128)
    bits = errors.view(np.int64)
    left_zero = right_zero = close = 0
    worst = 0
    top_error = -1.0
    low_left = low_right = np.inf
    high_left = high_right = top_relative = -np.inf
    top_tolerance = -1.0
    for leaf in range(len(left) // 128):
        base = leaf * 128
        finite = True
        for k in range(0, 128, 8):
            for j in range(8):
                i = k + j
                a = np.float64(left[base + i])
                b = np.float64(right[base + i])
                finite &= (abs(a) <= largest_finite) & (abs(b) <= largest_finite)
                reference = abs(b)
                error = abs(a - b)
                errors[i] = error
                zero = reference == 0.0
                relative = (0.0 if zero else error) / (1.0 if zero else reference)
                # A division only where it may raise the maximum; the slack covers rounding.
                if error >= top_tolerance * (reference + 1.0) * 0.999999999999:
                    top_tolerance = max(top_tolerance, error / (reference + 1.0))
                left_zero += a == 0.0
                right_zero += zero
                close += error <= reference * rtol + atol
                low_left, high_left = min(low_left, a), max(high_left, a)
                low_right, high_right = min(low_right, b), max(high_right, b)
                top_relative = max(top_relative, relative)
                if k == 0:
                    lanes[0, j] = a
                    lanes[1, j] = a * a
                    lanes[2, j] = b
                    lanes[3, j] = b * b
                    lanes[4, j] = error
                    lanes[5, j] = error * error
                    lanes[6, j] = relative
                else:
                    lanes[0, j] += a
                    lanes[1, j] += a * a
                    lanes[2, j] += b
                    lanes[3, j] += b * b
                    lanes[4, j] += error
                    lanes[5, j] += error * error
                    lanes[6, j] += relative
        if not finite:
            return False
        for s in range(7):
            table[s, leaf] = ((lanes[s, 0] + lanes[s, 1]) + (lanes[s, 2] + lanes[s, 3])) + (
                (lanes[s, 4] + lanes[s, 5]) + (lanes[s, 6] + lanes[s, 7])
            )
        for i in range(128):
            fields[bits[i] >> 52] += 1
            if errors[i] > top_error:
                top_error = errors[i]
                worst = base + i
    maxima[0], maxima[1], maxima[2], maxima[3] = high_left, -low_left, high_right, -low_right
    maxima[4], maxima[5], maxima[6] = top_error, top_relative, top_tolerance
    counts[0], counts[1], counts[2], counts[3] = left_zero, right_zero, close, worst
    return True
