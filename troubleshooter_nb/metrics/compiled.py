"""One fused loop over pairs of numbers, from the C file beside this one, where it was compiled.

It gives the very bits that `metrics.pairwise` computes with numpy, in less time, and without
holding up other threads. Half precision, float8 and small integers are widened in front of it, a
leaf at a time. numpy stays the reference: complex numbers, what is not finite and what needs
scaling are left to it.
Installing the package compiles the loop where there is a C compiler (``hatch_build.py``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from troubleshooter_nb.metrics.floats import (
    arithmetic_of,
    byte_dtypes,
    computable,
    native_order,
    small_float,
)
from troubleshooter_nb.metrics.partial import Partials

LIBRARY = "_fused.so"

# The kinds of the C file, from 1 on.
KINDS = (
    *("float32", "float64", "float16", "bfloat16"),
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("byte_integer", "byte_float"),
)
_CONTIGUOUS, _ALIGNED = 0x1, 0x100  # of ndarray.flags.num

Kernel = Callable[..., int]


@cache
def kernel(name: str = "fused_pairs") -> Kernel | None:
    """The compiled loop, or None where there is none; ctypes lets other threads run meanwhile.

    ``avx2_pairs`` and ``portable_pairs`` are the loop for processors that have less.
    """
    try:
        fused: Any = getattr(ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))), name)
    except (OSError, AttributeError):
        return None
    pointer, whole, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
    fused.argtypes = [pointer, whole, whole, real, real, pointer, pointer]
    fused.restype = whole
    return cast(Kernel, fused)


def measure(
    run: Kernel,
    lefts: Sequence[np.ndarray],
    rights: Sequence[np.ndarray],
    start: int = 0,
    *,
    rtol: float,
    atol: float,
) -> tuple[Partials, np.ndarray]:
    """`Partial` of pairs, each a run of whole blocks but for the last one, in one call of the loop.

    Parameters
    ----------
    run : callable
        From `kernel`.
    lefts, rights : sequence of ndarray, shape (n,), any dtype and n
        Other shapes are left, too, and so are pairs of unequal length.
    start : int
        Flat index of the first element of each.
    rtol, atol : float
        Closeness is ``|left - right| <= atol + rtol * |right|``.

    Returns
    -------
    Partials
        Blocks are merged as `metrics.partial.merge_tree` does it. Rows that are left to numpy
        hold anything.
    ndarray of bool, shape (pairs,)
        Which were measured.
    """
    partials = Partials.empty(len(lefts))
    rows, kept = [], []
    for left, right in zip(lefts, rights, strict=True):
        a, b = contiguous(left), contiguous(right)
        if a.shape != b.shape or a.ndim != 1:
            rows.append((0, 0, 0, 0, 0, 0))
            continue
        codes = code_of(a.dtype), code_of(b.dtype)
        rows.append((a.ctypes.data, b.ctypes.data, a.size, *codes, 0))
        kept.append((a, b))  # a copy has to live until the call
    pairs = np.array(rows, np.int64).reshape(-1, 6)
    if len(pairs):
        addresses = pairs.ctypes.data, byte_values().ctypes.data, partials.counts.ctypes.data
        run(addresses[0], len(pairs), start, rtol, atol, *addresses[1:])
    return partials, pairs[:, 5] != 0


@cache
def code_of(dtype: np.dtype) -> int:
    """What the loop calls a dtype: equal ones are one format; 0 for those it does not know.

    The low byte is a kind, from 1 on; the rest tells apart what shares one, and is the row of
    `byte_values` of kinds that are looked up there.
    """
    if dtype in _BYTE_DTYPES:
        kind = "byte_float" if arithmetic_of(dtype) == "float" else "byte_integer"
        return KINDS.index(kind) + 1 + 256 * _BYTE_DTYPES.index(dtype)
    if dtype == np.bool_:
        return KINDS.index("uint8") + 1 + 256
    if not dtype.isnative or dtype.name not in KINDS:
        return 0
    foreign = dtype.name == "bfloat16" and dtype != small_float("bfloat16")
    return KINDS.index(dtype.name) + 1 + 256 * foreign


def contiguous(values: np.ndarray) -> np.ndarray:
    """The same values where C can read them: in place, unless they are strided or swapped."""
    if values.flags.num & _CONTIGUOUS and values.flags.num & _ALIGNED and values.dtype.isnative:
        return values
    return np.require(native_order(values), requirements=["C", "A"])


# float8 and narrower, and the integers of less than a byte, as far as this ml_dtypes has them
_BYTE_DTYPES = byte_dtypes()


@cache
def byte_values() -> np.ndarray:
    """What each byte means in each of `_BYTE_DTYPES`; float32, shape (dtypes, 256)."""
    stored = np.arange(256, dtype=np.uint8)
    return np.array([computable(stored.view(dtype)) for dtype in _BYTE_DTYPES], np.float32)
