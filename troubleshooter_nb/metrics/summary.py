"""Figures of one tensor: extremes, mean, norm, counts of what is not an ordinary number."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import (
    arithmetic_of,
    computable,
    native_order,
    significand_bits,
)
from troubleshooter_nb.metrics.partial import (
    EXPONENTS,
    Partial,
    exponent_histogram,
    merge_tree,
    pairwise_sum,
    scale_exponent,
    workspace,
)
from troubleshooter_nb.thresholds import FIGURES_BLOCK, FIRST_VALUES

# What they are is said in `columns.statistics`.
SUMMARY_FIGURES = ("min", "max", "mean", "l2", "nan_count", "inf_count", "zero_count")


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """Figures of one side of one block, before they are packed into a `Partial`."""

    count: int
    nan: int
    inf: int
    zero: int
    total: float
    square: float
    exponent: int  # total is scaled by 2**exponent, square by 4**exponent
    largest: float
    smallest: float


def magnitudes(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """What is summarised of a value: itself as float64, or the modulus of a complex number.

    Parameters
    ----------
    values : ndarray, shape (n,)
        In a dtype numpy computes with (`metrics.floats.computable`). A complex number with a NaN
        part is NaN; a modulus beyond float64's range is inf.
    out : ndarray of float64, shape (n,), optional
        Memory to overwrite. float64 input is returned as it is.
    """
    if values.dtype == np.float64:
        return values
    if out is None:
        out = np.empty(len(values))
    if values.dtype.kind == "c":
        np.abs(values.astype(np.complex128, copy=False), out=out)
        out[np.isnan(values)] = np.nan  # C99 calls the modulus of inf + nan i infinite
    else:
        np.copyto(out, values)
    return out


def summarise_block(
    values: np.ndarray, stored: np.ndarray | None = None, scratch: np.ndarray | None = None
) -> BlockSummary:
    """Summary of one block.

    Parameters
    ----------
    values : ndarray of float64, shape (n,), n >= 1
        May hold NaN and infinities; they are counted and left out of the rest.
    stored : ndarray, shape (n,), optional
        The same values in a smaller dtype, in which extremes and zeros are found sooner.
    scratch : ndarray of float64, shape (at least n,), optional
        Memory to overwrite.
    """
    count = len(values)
    narrow = values
    # Not float16, which numpy compares in software.
    if stored is not None and stored.dtype.kind != "c" and stored.dtype != np.float16:
        narrow = stored
    # np.count_nonzero is slow on numbers and fast on bools.
    zero = int(np.count_nonzero(narrow == 0))
    # min and max pass NaN on, so two cheap reductions also tell whether all is finite.
    smallest, largest = float(np.minimum.reduce(narrow)), float(np.maximum.reduce(narrow))
    nan = inf = 0
    if not (np.isfinite(smallest) and np.isfinite(largest)):
        nan = int(np.count_nonzero(np.isnan(values)))
        finite = values[np.isfinite(values)]
        inf = count - nan - len(finite)
        if not len(finite):
            return BlockSummary(count, nan, inf, zero, 0.0, 0.0, 0, -np.inf, np.inf)
        values, smallest, largest = finite, float(finite.min()), float(finite.max())
    total, square, exponent = sums(values, max(-smallest, largest), scratch)
    # Adding 0.0 makes -0.0 a plain zero: which of the two numpy finds depends on the CPU.
    return BlockSummary(
        count, nan, inf, zero, total, square, exponent, largest + 0.0, smallest + 0.0
    )


def sums(
    values: np.ndarray, largest: float, scratch: np.ndarray | None = None
) -> tuple[float, float, int]:
    """Sum and sum of squares of finite float64 values, divided by 2**e and 4**e, and e."""
    exponent = scale_exponent(largest)
    if exponent:
        values = np.ldexp(values, -exponent)
    squares = np.multiply(values, values, out=None if scratch is None else scratch[: len(values)])
    return pairwise_sum(values), pairwise_sum(squares), exponent


def summary_partial(values: np.ndarray, start: int = 0) -> Partial:
    """`Partial` of one block of any supported dtype, whose first element has flat index `start`.

    Raises
    ------
    ValueError
        If the dtype holds no numbers.
    """
    if arithmetic_of(values.dtype) == "unsupported":
        raise ArgumentError(Message("arguments.dtype_not_summarised", dtype=values.dtype))
    work = workspace(2, len(values))
    # A signalling NaN, as uninitialised memory may hold, warns at every touch.
    with np.errstate(all="ignore"):
        wide = magnitudes(computable(values), work[0])
        block = BlockSummary(0, 0, 0, 0, 0.0, 0.0, 0, -np.inf, np.inf)
        if len(wide):
            block = summarise_block(wide, scratch=work[1])
        finite = wide if block.nan + block.inf == 0 else wide[np.isfinite(wide)]
        histogram, _ = exponent_histogram(np.abs(finite, out=work[1][: len(finite)]))
        where_max = where_min = -1
        if len(finite):
            where_max = start + int(np.argmax(wide == block.largest))
            where_min = start + int(np.argmax(wide == block.smallest))
    return Partial(
        counts=np.array([block.count, block.nan, block.inf, block.zero]),
        mantissas=np.array([block.total, block.square]),
        exponents=np.array([block.exponent, 2 * block.exponent]),
        maxima=np.array([block.largest, -block.smallest]),
        positions=np.array([where_max, where_min]),
        masks=np.array([bits_seen(values)], np.uint64),
        histogram=histogram,
    )


def summarise(
    read: Callable[[int, int], np.ndarray], size: int, *, block: int = FIGURES_BLOCK
) -> tuple[dict[str, float], np.ndarray]:
    """All `SUMMARY_FIGURES` of a tensor with ``crc32`` of its bytes, and how large its values are.

    Parameters
    ----------
    read : callable
        ``read(start, stop)`` returns the stored values of that flat range, shape (stop - start,).
    size : int
        Number of elements.
    block : int, elements
        For tests: the figures do not depend on it beyond the last bits of the sums.

    Returns
    -------
    dict
        Figures by name.
    ndarray of int64, shape (96,)
        Finite values that are not 0, by the power of two of their magnitude
        (`metrics.partial.EXPONENTS`).
    """
    crc = 0

    def blocks() -> Iterator[Partial]:
        nonlocal crc
        for start in range(0, max(size, 1), block):
            values = np.ascontiguousarray(read(start, min(start + block, size)))
            crc = zlib.crc32(values.tobytes(), crc)
            yield summary_partial(values, start)

    merged = merge_tree(blocks())
    return summary_figures(merged) | {"crc32": crc}, merged.histogram


def summary_figures(partial: Partial) -> dict[str, float]:
    """Figures by name from a summary `Partial`."""
    total, square = zip(partial.mantissas[:, None], partial.exponents[:, None], strict=True)
    columns = side_figures(partial.counts[:, None], total, square, partial.maxima[:, None])
    return {name: column[0].item() for name, column in columns.items()}


def side_figures(
    counts: Sequence[np.ndarray] | np.ndarray,
    total: tuple[np.ndarray, np.ndarray],
    square: tuple[np.ndarray, np.ndarray],
    extremes: Sequence[np.ndarray] | np.ndarray,
) -> dict[str, np.ndarray]:
    """`SUMMARY_FIGURES` of one side of n tensors, as columns of shape (n,).

    Parameters
    ----------
    counts : four ndarray of int64, shape (n,)
        Elements, and of them those that are NaN, infinite or 0.
    total, square : tuple of ndarray of float64 and of int64, shape (n,)
        Sums of the finite values and of their squares, as mantissas and exponents.
    extremes : two ndarray of float64, shape (n,)
        The largest finite value, and the largest of the negated ones.
    """
    count, nan, inf, zero = counts
    largest, minus_smallest = extremes
    finite = count - nan - inf
    some = finite > 0
    # Without a finite value there is nothing to divide; a mean beyond float64's range is inf.
    with np.errstate(all="ignore"):
        mean = np.ldexp(total[0] / finite, total[1])
    return {
        "min": np.where(some, -minus_smallest, np.nan),
        "max": np.where(some, largest, np.nan),
        "mean": np.where(some, mean, np.nan),
        "l2": root(*square),
        "nan_count": nan,
        "inf_count": inf,
        "zero_count": zero,
    }


def root(mantissa: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Square root of ``mantissa * 2**exponent``, shape (n,); exact scaling, so no early overflow.

    inf beyond float64's range.
    """
    odd = exponent & 1
    with np.errstate(all="ignore"):
        return np.asarray(np.ldexp(np.sqrt(mantissa * (1 + odd)), (exponent - odd) // 2))


def bits_seen(values: np.ndarray) -> int:
    """All bits that occur in float values, or-ed; 0 for other dtypes.

    Trailing zero bits common to all values show that they went through a narrower format. Once
    the lowest bit was seen there are none, and the rest of the values is not looked at.
    """
    if arithmetic_of(values.dtype) != "float" or values.dtype.itemsize > 8:
        return 0
    unsigned = np.ascontiguousarray(native_order(values)).view(f"u{values.dtype.itemsize}")
    seen = int(np.bitwise_or.reduce(unsigned[:FIRST_VALUES]))
    return seen if seen & 1 else seen | int(np.bitwise_or.reduce(unsigned[FIRST_VALUES:]))


def used_significand_bits(mask: int, dtype: np.dtype) -> int:
    """Significand bits, hidden bit included, that the values really use.

    0 for exact and complex dtypes, for formats wider than float64, and where all values are 0.
    """
    bits = significand_bits(dtype)
    seen = int(mask) & ~(1 << (8 * dtype.itemsize - 1))  # the sign bit
    if not bits or dtype.kind == "c" or not seen:
        return 0
    fraction = int(mask) & ((1 << (bits - 1)) - 1)
    if not fraction:
        return 1
    return bits - ((fraction & -fraction).bit_length() - 1)


def histogram_exponents() -> np.ndarray:
    """Coordinate of the histogram: bin e counts ``2**e <= |x| < 2**(e + 1)``."""
    return np.arange(EXPONENTS[0], EXPONENTS[-1] + 1)
