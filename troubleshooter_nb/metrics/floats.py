"""Facts about dtypes: which arithmetic is exact for them, how precise they are, where they end."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, Literal, TypeGuard

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message

ml_dtypes: Any = None
with suppress(ImportError):  # beside the single file of the recorder
    import ml_dtypes

Arithmetic = Literal["float", "integer", "complex", "unsupported"]
# Bits of the mantissa of what is known without ml_dtypes, and the exponent that means one.
_WITHOUT_ML = {"bfloat16": (7, 127), "float8_e5m2": (2, 15), "float8_e4m3fn": (3, 7)}


def is_number(value: object) -> TypeGuard[float]:
    """Whether a setting that somebody gave is a real number; True and False are none."""
    return not isinstance(value, bool) and isinstance(value, (int, float, np.integer, np.floating))


@cache
def arithmetic_of(dtype: np.dtype) -> Arithmetic:
    """The arithmetic a dtype's values are measured in; "unsupported" for text, objects, records.

    bool counts as integer. bfloat16, float8 and the other ml_dtypes floats count as float.
    """
    if _ml_finfo(dtype) is not None or _field_of(dtype):
        return "float"
    if _ml_iinfo(dtype) is not None or dtype.kind in "biu":
        return "integer"
    if dtype.kind == "c":
        return "complex"
    return "float" if dtype.kind == "f" else "unsupported"


@cache
def small_float(name: str) -> np.dtype | None:
    """The dtype of floats that numpy itself has none for, such as ``bfloat16``; None for others.

    That of ml_dtypes. Where ml_dtypes is not installed, which only the single file of the recorder
    does without, the bits of each number: a record whose one field has this name.
    """
    if ml_dtypes is not None:
        found = getattr(ml_dtypes, name, None)
        return None if found is None else np.dtype(found)
    if name not in _WITHOUT_ML:
        return None
    return np.dtype([(name, np.uint16 if name == "bfloat16" else np.uint8)])


def byte_dtypes() -> list[np.dtype]:
    """All dtypes of one byte that ml_dtypes has, by name."""
    kinds = [] if ml_dtypes is None else [kind for _, kind in sorted(vars(ml_dtypes).items())]
    found = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, np.generic)]
    return [np.dtype(kind) for kind in found if np.dtype(kind).itemsize == 1]


def name_of(dtype: np.dtype) -> str:
    """The token of a dtype, as `dtype_from_token` takes it."""
    return _field_of(dtype) or dtype.name


def _field_of(dtype: np.dtype) -> str:
    """The name of a float whose bits a dtype without ml_dtypes holds; "" for all others."""
    names = dtype.names or ()
    return names[0] if ml_dtypes is None and len(names) == 1 and names[0] in _WITHOUT_ML else ""


@cache
def are_exact(left: np.dtype, right: np.dtype) -> bool:
    """Whether two tensors are compared as integers: at least one of them holds integers or bool."""
    return "integer" in (arithmetic_of(left), arithmetic_of(right))


def dtype_from_token(token: str) -> np.dtype:
    """The dtype a token of a file name stands for, including ml_dtypes' (``bfloat16``).

    Raises
    ------
    ValueError
        If numpy and ml_dtypes know no numbers of that name.
    """
    try:
        # importing ml_dtypes teaches numpy its names
        dtype = _own(small_float(token) or np.dtype(token))
    except (TypeError, ValueError, SyntaxError):
        dtype = np.dtype(object)
    if arithmetic_of(dtype) == "unsupported":
        raise ArgumentError(Message("arguments.unknown_dtype", name=token))
    return dtype


@cache
def significand_bits(dtype: np.dtype) -> int:
    """Bits of precision, hidden bit included: 53, 24, 11, 8 for float64, 32, 16, bfloat16.

    For complex dtypes that of a part; 0 for integers and bool, which are exact.
    """
    if (finfo := _ml_finfo(dtype)) is not None:
        return int(finfo.nmant) + 1
    return int(np.finfo(dtype).nmant) + 1 if dtype.kind in "fc" else 0


def unit_roundoff(dtype: np.dtype) -> float:
    """Largest relative error of rounding once to this dtype; 0.0 for integers and bool."""
    bits = significand_bits(dtype)
    return 2.0**-bits if bits else 0.0


def largest_finite(dtype: np.dtype) -> float:
    """Largest finite value; inf for dtypes without one (text, objects)."""
    info = _ml_finfo(dtype) or _ml_iinfo(dtype)
    if info is not None:
        return float(info.max)
    if dtype.kind == "b":
        return 1.0
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).max)
    return float(np.finfo(dtype).max) if dtype.kind in "fc" else float("inf")


@cache
def is_integer_name(name: str) -> bool:
    """Whether this is the name of a dtype of integers or bool."""
    try:
        return arithmetic_of(dtype_from_token(name)) == "integer"
    except (ValueError, TypeError):
        return False


def same_dtype(left: np.dtype, right: np.dtype) -> bool:
    """Whether two dtypes mean the same values; big-endian data is only stored differently."""
    return _own(left).newbyteorder("=") == _own(right).newbyteorder("=")


def native_order(values: np.ndarray) -> np.ndarray:
    """The same values in this machine's byte order; no copy when they already are."""
    dtype = values.dtype
    return values if dtype.isnative else values.astype(dtype.newbyteorder("="))


def computable(values: np.ndarray) -> np.ndarray:
    """The same values in a dtype numpy computes with correctly; no copy when it already does.

    ml_dtypes floats widen exactly to float32, ml_dtypes integers to int8 or uint8, and big-endian
    data to native order. Reductions of bfloat16 itself are wrong in numpy and xarray.
    """
    values = native_order(values)
    dtype = values.dtype
    if _ml_finfo(dtype) is not None:
        return values.view(_own(dtype)).astype(np.float32)
    if (info := _ml_iinfo(dtype)) is not None:
        return values.astype(np.int8 if info.min < 0 else np.uint8)
    name = _field_of(dtype)
    return _from_bits(values[name], *_WITHOUT_ML[name]) if name else values


def _from_bits(bits: np.ndarray, mantissa: int, one: int) -> np.ndarray:
    """What the bits of a short float mean, as float32."""
    whole = bits.astype(np.uint32)
    if mantissa == 7:  # the upper half of a float32
        return (whole << np.uint32(16)).view(np.float32)
    exponent = (whole >> mantissa) & ((1 << (7 - mantissa)) - 1)
    part = (whole & ((1 << mantissa) - 1)).astype(np.float32) * np.float32(0.5) ** mantissa
    size = np.ldexp(part + (exponent > 0), np.maximum(exponent, 1).astype(np.int32) - one)
    if mantissa == 2:
        size = np.where(exponent == 31, np.where(part == 0, np.inf, np.nan), size)
    else:  # one number is no number, and none is infinite
        size = np.where((whole & 0x7F) == 0x7F, np.nan, size)
    return np.where(whole & 0x80, -size, size).astype(np.float32)


@cache
def _ml_finfo(dtype: np.dtype) -> Any:
    dtype = _own(dtype)
    return ml_dtypes.finfo(dtype) if _is_ml(dtype, ("bfloat", "float")) else None


@cache
def _ml_iinfo(dtype: np.dtype) -> Any:
    return ml_dtypes.iinfo(dtype) if _is_ml(dtype, ("int", "uint")) else None


def _is_ml(dtype: np.dtype, prefixes: tuple[str, ...]) -> bool:
    # Scalar types of other extensions need not have a module.
    module = getattr(dtype.type, "__module__", "")
    return module.startswith("ml_dtypes") and dtype.name.startswith(prefixes)


@cache
def _own(dtype: np.dtype) -> np.dtype:
    """The dtype itself, or ml_dtypes' bfloat16 for the one MindSpore brings, of the same bits.

    Once MindSpore is imported, ``np.dtype("bfloat16")`` is its own, too.
    """
    known = small_float("bfloat16") if dtype.name == "bfloat16" else None
    return dtype if known is None or known == dtype else known
