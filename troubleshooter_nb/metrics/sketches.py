"""Statistics of a tensor with 17 sums that tell two tensors apart when neither is kept.

The sums are called the fingerprint of a tensor. They are written in files, so that their definition
never changes:

- The values in C order are cut into rows of 512, the last one filled up with zeros. NaN and
  infinities count as 0. Of complex numbers, the real and the imaginary part are two values.
- ``bits(seed, i)`` is the splitmix64 output number i, from 0, of a generator seeded with `seed`: of
  ``z = seed + (i + 1) * 0x9E3779B97F4A7C15`` modulo 2**64.
- The sign of a row in pattern p, 0 to 7, is minus where bit p of ``bits(2, row)`` is set; in
  pattern 0 it is always plus. That of a column in pattern k, 0 to 15, is minus where bit k of
  ``bits(1, column)`` is set.
- Number 0 is the sum of all values. Number 1 + k is the sum of all values times the sign of their
  row in pattern k // 2 and the sign of their column in pattern k.

Each of the numbers from 3 on differs between two tensors by a sum of the differences of their
values with random signs, whose square is expected to be the square of their distance.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.compiled import LIBRARY, byte_values, code_of, contiguous
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.summary import (
    BlockSummary,
    magnitudes,
    root,
    summarise,
    summarise_block,
)
from troubleshooter_nb.thresholds import FIGURES_BLOCK

NUMBERS = 17
COLUMNS = 512
SIGNED_SUMS = 16
PATTERNS = 8  # of row signs
FIRST_TO_COMPARE = 3  # those before it have no row signs: columns that sum to 0 would hide in them

STATISTICS = 6  # numbers before the signed sums
_Measured = ctypes.c_double * (STATISTICS + SIGNED_SUMS)  # `struct measured` of the C file
# Squares this small may have lost their last bits to underflow; only those of float64 can be.
_LEAST_SQUARE = 1e-290


def row_signs(count: int, first: int = 0) -> np.ndarray:
    """Signs of rows of a tensor, from `first` on, in each pattern; float64, shape (8, count)."""
    signs = _signs(2, PATTERNS, first, count)
    signs[0] = 1.0
    return signs


@cache
def column_signs() -> np.ndarray:
    """Signs of the columns of a row in each pattern; float64, shape (16, 512), read-only."""
    signs = _signs(1, SIGNED_SUMS, 0, COLUMNS)
    signs.flags.writeable = False
    return signs


def _signs(seed: int, patterns: int, first: int, count: int) -> np.ndarray:
    bits = _splitmix(seed, first, count)
    return np.array([1.0 - 2.0 * ((bits >> np.uint64(k)) & np.uint64(1)) for k in range(patterns)])


def _splitmix(seed: int, first: int, count: int) -> np.ndarray:
    """Numbers of a generator that needs no state; uint64, shape (count,)."""
    numbers = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    z = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def sketch(array: np.ndarray) -> np.ndarray:
    """The fingerprint of a tensor; see the module.

    Parameters
    ----------
    array : ndarray, any shape and dtype that holds numbers

    Returns
    -------
    ndarray of float64, shape (17,)
        Accumulated in float64; all 0 for an empty tensor.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    """
    return np.array(statistics_of(array, fingerprint=True)["fingerprint"])


class BlockSketch:
    """The fingerprint of a tensor that comes in blocks.

    Attributes
    ----------
    numbers : ndarray of float64, shape (17,)
        Of the blocks added so far.
    """

    def __init__(self) -> None:
        self.numbers = np.zeros(NUMBERS)

    def add(self, start: int, values: np.ndarray) -> None:
        """Add the values from a flat index on, which begins a row, shape (n,)."""
        parts = _parts(values)
        first_row = start * len(parts) // max(len(values), 1) // COLUMNS
        found = _measured(parts, True, first_row)
        if found is None:
            self.numbers += _sums(parts, FIGURES_BLOCK, first_row)
        else:
            self.numbers += found["fingerprint"]


def summarise_with_sketch(
    read: Callable[[int, int], np.ndarray], size: int
) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
    """What `summarise` gives of a tensor, and its fingerprint, from reading once.

    Parameters
    ----------
    read, size
        As `metrics.summary.summarise` takes them.
    """
    found = BlockSketch()

    def seen(start: int, stop: int) -> np.ndarray:
        values = read(start, stop)
        found.add(start, values)
        return values

    figures, histogram = summarise(seen, size)
    return figures, histogram, found.numbers


def estimated_l2(left: np.ndarray, right: np.ndarray) -> float:
    """Estimate of the Euclidean distance of two tensors of one shape from their fingerprints.

    Parameters
    ----------
    left, right : ndarray, shape (17,)

    Returns
    -------
    float
        nan where a fingerprint is unknown, which is nan. For nearly all differences it lies
        between 0.43 and 1.63 of the truth in nine cases of ten.
    """
    apart = np.subtract(left, right)[FIRST_TO_COMPARE:]
    largest = float(np.abs(apart).max())
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    # Scaled first: squares of what is near either end of float64 leave its range.
    return largest * math.sqrt(float(np.mean((apart / largest) ** 2)))


def statistics_of(array: np.ndarray, fingerprint: bool) -> dict[str, Any]:
    """What is recorded of a tensor whose values are not kept, in one pass.

    Parameters
    ----------
    array : ndarray, any shape and dtype that holds numbers
        Read where it lies if it is contiguous.
    fingerprint : bool

    Returns
    -------
    dict
        ``min, max, mean, l2`` of the finite values and ``nan_count, inf_count``, as
        `metrics.summary.SUMMARY_FIGURES` defines them, of Python's own types; ``posinf_count``
        where there are infinities. ``fingerprint`` is a list of 17 numbers.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    """
    found = _measured(array, fingerprint)
    if found is None:
        found = _by_numpy(array, fingerprint)
    if found["inf_count"]:
        found["posinf_count"] = int((magnitudes(computable(array).reshape(-1)) == math.inf).sum())
    return found


def _measured(array: np.ndarray, fingerprint: bool, first_row: int = 0) -> dict[str, Any] | None:
    """`statistics_at` of an array."""
    if not code_of(array.dtype):
        return None
    kept = contiguous(array)
    address = kept.__array_interface__["data"][0]
    return statistics_at(address, kept.dtype, kept.size, fingerprint, first_row=first_row)


def statistics_at(
    address: int,
    dtype: np.dtype,
    count: int,
    fingerprint: bool,
    *,
    first_row: int = 0,
    portable: bool = False,
) -> dict[str, Any] | None:
    """`statistics_of` what lies in memory from an address on, with other threads running.

    Parameters
    ----------
    address : int
        Of memory that stays until the call returns; aligned for the dtype.
    dtype : dtype
        In this machine's byte order.
    count : int
        Elements, one after the other.
    fingerprint : bool
    first_row : int
        Of the fingerprint of a whole tensor, where this is a part of it.
    portable : bool
        Without AVX-512, whatever the processor has: for the tests.

    Returns
    -------
    dict or None
        None for what is left to numpy: without the compiled loop, dtypes that it does not know,
        and float64 whose squares leave its range.
    """
    run, tables, signs = _loop()
    code, doubles = _reading_of(dtype)
    if run is None or not code:
        return None
    all_ = _Measured()
    column_signs = signs if fingerprint else None
    run(address, code, count, first_row, tables, doubles, portable, column_signs, all_)
    numbers = all_[:] if fingerprint else all_[:STATISTICS]
    smallest, largest, _, squares = numbers[:4]
    lost = squares < _LEAST_SQUARE and (smallest or largest)
    # Without a finite value the extremes are infinite, and there is nothing to lose.
    if smallest <= largest and (lost or squares == math.inf):
        return None
    return statistics_from(numbers, count)


def statistics_from(numbers: Sequence[float], count: int) -> dict[str, Any]:
    """`statistics_of` what was measured elsewhere.

    Parameters
    ----------
    numbers : sequence of float, length 6 or 22
        Smallest and largest finite value, inf and -inf if there is none, sum and sum of squares of
        the finite values, number of NaN and of infinities; then the 16 signed sums, if known.
    count : int
        Elements.
    """
    smallest, largest, total, squares, nan, inf, *signed_sums = numbers
    finite = count - nan - inf
    mean = total / finite if finite else math.nan
    found = _named(smallest, largest, mean, math.sqrt(squares), int(nan), int(inf))
    if signed_sums:
        found["fingerprint"] = [total, *signed_sums]
    return found


def _named(
    smallest: float, largest: float, mean: float, l2: float, nan: int, inf: int
) -> dict[str, Any]:
    if smallest > largest:  # nothing was finite
        smallest = largest = math.nan
    # Adding 0.0 makes -0.0 a plain zero, as in `metrics.summary`.
    found = {"min": smallest + 0.0, "max": largest + 0.0, "mean": mean, "l2": l2}
    return found | {"nan_count": nan, "inf_count": inf}


@cache
def _reading_of(dtype: np.dtype) -> tuple[int, bool]:
    """How the loop reads a dtype: its code, and whether float32 cannot hold all its values."""
    return code_of(dtype), dtype.itemsize > 2 and dtype != np.float32


@cache
def _loop() -> tuple[Any, int, int]:
    """The compiled loop, or None, with the addresses of the tables that it reads."""
    tables, signs = byte_values().ctypes.data, column_signs().ctypes.data
    try:
        run: Any = ctypes.CDLL(str(Path(__file__).with_name(LIBRARY))).measure_values
    except (OSError, AttributeError):
        return None, tables, signs
    pointer, whole, flag = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    run.argtypes = [pointer, whole, whole, whole, pointer, flag, flag, pointer, _Measured]
    run.restype = None
    return run, tables, signs


def _by_numpy(array: np.ndarray, fingerprint: bool, block: int = FIGURES_BLOCK) -> dict[str, Any]:
    """`statistics_of` in blocks of whole rows."""
    if arithmetic_of(array.dtype) == "unsupported":
        raise ArgumentError(Message("arguments.dtype_not_summarised", dtype=array.dtype))
    values = np.ascontiguousarray(array).reshape(-1)
    # A signalling NaN, as uninitialised memory may hold, warns at every touch.
    with np.errstate(all="ignore"):
        found = _figures(values, block)
        if fingerprint:
            found["fingerprint"] = _sums(_parts(values), block).tolist()
    return found


def _figures(values: np.ndarray, block: int) -> dict[str, Any]:
    blocks: list[BlockSummary] = []
    for start in range(0, len(values), block):
        blocks.append(summarise_block(magnitudes(computable(values[start : start + block]))))
    # No sum is scaled but those that would leave float64's range otherwise.
    exponent = max((of.exponent for of in blocks), default=0)
    total = sum(math.ldexp(of.total, of.exponent - exponent) for of in blocks)
    squares = sum(math.ldexp(of.square, 2 * (of.exponent - exponent)) for of in blocks)
    nan, inf = sum(of.nan for of in blocks), sum(of.inf for of in blocks)
    finite = len(values) - nan - inf
    return _named(
        min((of.smallest for of in blocks), default=math.inf),
        max((of.largest for of in blocks), default=-math.inf),
        float(np.ldexp(total / finite, exponent)) if finite else math.nan,
        float(root(np.array([squares]), np.array([2 * exponent]))[0]),
        nan,
        inf,
    )


def _parts(values: np.ndarray) -> np.ndarray:
    """The real and imaginary parts of complex numbers, shape (2 n,); other values as they are."""
    if values.dtype.kind != "c":
        return values
    return np.ascontiguousarray(values).view(values.real.dtype)


def _sums(values: np.ndarray, block: int, first_row: int = 0) -> np.ndarray:
    """The 17 numbers of real values, shape (n,); blocks are cut at whole rows."""
    block = max(block // COLUMNS, 1) * COLUMNS
    signs = row_signs(-(-len(values) // COLUMNS), first_row)
    folded = np.zeros((PATTERNS, COLUMNS))
    for start in range(0, len(values), block):
        wide = computable(values[start : start + block]).astype(np.float64)
        wide[~np.isfinite(wide)] = 0.0
        rows = np.zeros((-(-len(wide) // COLUMNS), COLUMNS))
        rows.reshape(-1)[: len(wide)] = wide
        folded += signs[:, start // COLUMNS :][:, : len(rows)] @ rows
    columns = column_signs().reshape(PATTERNS, -1, COLUMNS)
    signed_sums = (columns * folded[:, None]).sum(-1).reshape(-1)
    return np.concatenate([folded[:1].sum(-1), signed_sums])
