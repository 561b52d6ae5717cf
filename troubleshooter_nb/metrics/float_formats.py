"""Formats of floating-point numbers: bits, limits, and values rounded to them, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token, significand_bits


@dataclass(frozen=True)
class FloatFormat:
    """What numbers a format has.

    Attributes
    ----------
    name : str
        Token of its dtype, or ``tf32`` and ``hf32``, which exist only inside matrix units.
    bits : int
        Of the significand, hidden bit included.
    lowest : int
        Exponent of the smallest normal number.
    largest : float
        Largest finite number.
    has_inf : bool
        Whether what lies beyond becomes inf; else nan.
    """

    name: str
    bits: int
    lowest: int
    largest: float
    has_inf: bool = True

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding once to a normal number."""
        return 2.0**-self.bits

    @property
    def smallest_normal(self) -> float:
        """Smallest positive number of full precision."""
        return 2.0**self.lowest

    @property
    def smallest(self) -> float:
        """Smallest positive number, a subnormal one; half of it rounds to zero."""
        return 2.0 ** (self.lowest - self.bits + 1)


def _ieee(name: str, bits: int, lowest: int) -> FloatFormat:
    """A format whose exponents end as far above one as they begin below it."""
    return FloatFormat(name, bits, lowest, (2.0 - 2.0 ** (1 - bits)) * 2.0 ** (1 - lowest))


# Narrow ones first: what has eight bits has eleven, too. TF32 keeps 10 stored bits of a float32,
# HF32 (Ascend) 11, and both its exponents. float8_e4m3fn gives inf away for one more exponent.
FORMATS = {
    form.name: form
    for form in (
        _ieee("float8_e5m2", 3, -14),
        FloatFormat("float8_e4m3fn", 4, -6, 448.0, has_inf=False),
        _ieee("bfloat16", 8, -126),
        _ieee("float16", 11, -14),
        _ieee("tf32", 11, -126),
        _ieee("hf32", 12, -126),
        _ieee("float32", 24, -126),
        _ieee("float64", 53, -1022),
    )
}
FLOAT32 = FORMATS["float32"]
# Those that tensors are stored in and that are shorter than float32, narrow ones first.
SHORT_FORMATS = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16")
# Those that networks are computed in, by the bits of precision that their values use.
HALF_FORMATS = {FORMATS[name].bits: name for name in ("bfloat16", "float16")}
# Bits of formats that a computation can pass through without any tensor being stored in them.
COMPUTE_FORMATS = {name: FORMATS[name].bits for name in ("float16", "bfloat16", "tf32", "hf32")}
# What matrix units make of float32 operands: cuBLAS rounds, the tensor core itself ignores the low
# bits.
UNIT_FORMATS = ("tf32", "tf32 truncated", "hf32", "hf32 truncated")


def half_format(roundoff: float) -> str:
    """``float16`` or ``bfloat16`` by its unit roundoff; empty for any other."""
    return next((name for bits, name in HALF_FORMATS.items() if roundoff == 2.0**-bits), "")


def coarser(left_dtype: str, right_dtype: str) -> str:
    """The less precise of two dtypes, by name; both when they are not comparable."""
    both = left_dtype, right_dtype
    bits = [_bits(token) for token in both]
    if any(bits):
        # Integers are exact.
        return min(both, key=lambda token: _bits(token) or 99)
    return left_dtype if left_dtype == right_dtype else f"{left_dtype}/{right_dtype}"


@cache
def _bits(token: str) -> int:
    try:
        return significand_bits(dtype_from_token(token))
    except ValueError:
        return 0


def as_stored(values: np.ndarray, roundoff: float) -> np.ndarray:
    """A formula's values as an output of this unit roundoff holds them; overflow is left out.

    The same values where no short format has that roundoff.
    """
    short = (name for name in SHORT_FORMATS if FORMATS[name].unit_roundoff == roundoff)
    return in_format(values, next(short, "exact"), overflow=False)


def to_bits(values: np.ndarray, bits: int, *, truncate: bool = False) -> np.ndarray:
    """Values with `bits` bits of significand, to nearest even or towards zero; float64.

    Fewer than 53 bits. The range of exponents stays that of float64; inf and nan pass through.
    """
    exact = np.asarray(values, np.float64)
    pattern = np.array(exact).view(np.uint64)
    drop, one = np.uint64(53 - bits), np.uint64(1)
    if not truncate:
        # Half a unit of the last bit kept; a tie goes up where that bit is set.
        half = pattern >> drop
        half &= one
        half += (one << (drop - one)) - one
        pattern += half
    pattern &= ~((one << drop) - one)
    near = pattern.view(np.float64)
    # The bits of a nan may be all in what is dropped, or carry into its sign.
    if (nan := np.isnan(exact)).any():
        near[nan] = np.nan
    return near


def in_format(values: np.ndarray, name: str, *, overflow: bool = True) -> np.ndarray:
    """Values as they are in a format, rounded once, to the nearest even.

    Parameters
    ----------
    values : ndarray, any real dtype
    name : str
        A name of `FORMATS`, or one with " truncated" behind it: towards zero. Anything else, such
        as "exact" and "as stored", changes nothing.
    overflow : bool
        Whether what is beyond the largest finite number becomes inf, or nan where the format has
        no inf. Else that number is no limit.

    Returns
    -------
    ndarray of float64
        Subnormal numbers have the fewer bits that the format leaves them.
    """
    name, _, how = name.partition(" ")
    if name in SHORT_FORMATS and overflow and not how:
        return stored_as(np.asarray(values), dtype_from_token(name)).astype(np.float64)
    exact = np.asarray(values, np.float64)
    form = FORMATS.get(name)
    if form is None or name == "float64":
        return exact
    near = to_bits(exact, form.bits, truncate=bool(how))
    size = np.abs(exact)
    if (size < form.smallest_normal).any():
        small = (size < form.smallest_normal) & (size > 0)
        near[small] = _multiples(exact[small], form.smallest, truncate=bool(how))
    if overflow and not size.max(initial=0.0) < form.largest:
        near[np.abs(near) > form.largest] *= np.inf if form.has_inf else np.nan
    return near


def _multiples(values: np.ndarray, unit: float, *, truncate: bool) -> np.ndarray:
    """The nearest multiples of a power of two, of values that are few of them; even at ties."""
    if truncate:
        return np.asarray(np.trunc(values / unit) * unit)
    # The sum has no room for bits below the unit, and rounds as it drops them.
    pushed = 1.5 * 2.0**52 * unit
    return np.copysign((values + pushed) - pushed, values)


def stored_as(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values in another dtype, floats rounded once, to the nearest even.

    ml_dtypes converts by way of float32, which would round float64 twice: 1 + 2**-8 + 2**-40 is
    a tie in float32, and not the nearest bfloat16 then. Frameworks do just that, see
    `stored_by_way`.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        by_way = arithmetic_of(dtype) == "float" and not np.issubdtype(dtype, np.floating)
        if not by_way or values.dtype.kind not in "fiu" or values.dtype.itemsize <= 2:
            return values.astype(dtype, copy=False)
        narrow = values.astype(np.float32, order="C")
        if values.dtype == narrow.dtype:
            return narrow.astype(dtype)
        _to_odd(values, narrow)
        return narrow.astype(dtype)


def stored_by_way(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As `stored_as`, but as PyTorch, MindSpore and ml_dtypes convert float64: through float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(dtype)


def _to_odd(values: np.ndarray, narrow: np.ndarray) -> None:
    """Makes float32 of rounded values odd where they look like a tie and were none, in place.

    What lies halfway between two numbers of at most nine bits ends in 15 zeros. One whose last
    bit says that there was more cannot look like that.
    """
    flat, exact = narrow.reshape(-1), values.reshape(-1)
    places = np.flatnonzero(((flat.view(np.uint32) & np.uint32(0x7FFF)) == 0) & (flat != 0))
    wide = flat[places].astype(np.float64)
    moved = (wide != exact[places]) & np.isfinite(exact[places])
    places, wide = places[moved], wide[moved]
    pattern = flat[places].view(np.uint32)
    pattern -= (np.abs(wide) > np.abs(exact[places])).astype(np.uint32)
    pattern |= np.uint32(1)
    flat[places] = pattern.view(np.float32)
