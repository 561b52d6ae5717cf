"""Facts about dtypes, against what ml_dtypes, numpy and a count of values say."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.metrics.floats import (
    arithmetic_of,
    computable,
    dtype_from_token,
    largest_finite,
    native_order,
    same_dtype,
    significand_bits,
    unit_roundoff,
)

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
NO_NUMBERS = ["U3", "S3", "O", "M8[s]", "m8[s]", "V4", [("a", "f4")]]


def all_values(dtype: np.dtype) -> np.ndarray:
    """Every value of a dtype of one or two bytes but signalling NaN, whose casts warn."""
    bits = np.arange(256**dtype.itemsize).astype(f"u{dtype.itemsize}")
    values = bits.view(dtype)
    with np.errstate(invalid="ignore"):
        return values[values == values]


@pytest.mark.parametrize("token", FLOATS)
def test_floats_of_numpy_and_ml_dtypes_are_floats(token):
    assert arithmetic_of(dtype_from_token(token)) == "float"


@pytest.mark.parametrize("token", [*INTEGERS, "int4", "uint4"])
def test_integers_and_bool_are_integers(token):
    assert arithmetic_of(dtype_from_token(token)) == "integer"


@pytest.mark.parametrize("token", ["complex64", "complex128"])
def test_complex_dtypes_are_complex(token):
    assert arithmetic_of(dtype_from_token(token)) == "complex"


@pytest.mark.parametrize("description", NO_NUMBERS)
def test_text_dates_objects_and_records_are_unsupported(description):
    assert arithmetic_of(np.dtype(description)) == "unsupported"


def test_byte_order_does_not_change_the_arithmetic():
    assert [arithmetic_of(np.dtype(name)) for name in (">f4", ">i8", ">c8")] == [
        "float",
        "integer",
        "complex",
    ]


@pytest.mark.parametrize("token", [*FLOATS, *INTEGERS, "complex64", "complex128", "int4"])
def test_a_token_is_the_name_of_its_dtype(token):
    assert dtype_from_token(token).name == token


# finfo is a name in ml_dtypes and no dtype; numpy reads the others as records, text, raw bytes.
@pytest.mark.parametrize("token", ["", "float31", "finfo", "float32,int8", "1,2(", "V4", "U3", "O"])
def test_a_token_that_names_no_numbers_is_refused(token):
    with pytest.raises(ValueError, match=f"unknown dtype '{token}'".replace("(", r"\(")):
        dtype_from_token(token)


# IEEE 754 binary64, 32, 16; Google's bfloat16; OCP 8-bit formats. The hidden bit counts.
@pytest.mark.parametrize(("token", "bits"), list(zip(FLOATS, [53, 24, 11, 8, 4, 3], strict=True)))
def test_significand_bits_of_each_format(token, bits):
    assert significand_bits(dtype_from_token(token)) == bits


def test_complex_dtypes_have_the_precision_of_a_part():
    assert significand_bits(np.dtype(np.complex64)) == 24
    assert significand_bits(np.dtype(np.complex128)) == 53


@pytest.mark.parametrize("token", [*INTEGERS, "int4"])
def test_integers_round_nothing(token):
    dtype = dtype_from_token(token)
    assert (significand_bits(dtype), unit_roundoff(dtype)) == (0, 0.0)


@pytest.mark.parametrize("token", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_unit_roundoff_is_half_the_largest_gap_between_neighbours(token):
    dtype = dtype_from_token(token)
    normal = float(np.finfo(dtype).tiny if token == "float16" else ml_dtypes.finfo(dtype).tiny)
    values = all_values(dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values) & (values >= normal)])
    assert unit_roundoff(dtype) == np.max(np.diff(values) / values[:-1]) / 2


@pytest.mark.parametrize("token", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"])
def test_the_largest_finite_value_is_the_largest_of_all_values(token):
    dtype = dtype_from_token(token)
    values = all_values(dtype).astype(np.float64)
    assert largest_finite(dtype) == values[np.isfinite(values)].max()


def test_the_largest_finite_value_of_wide_dtypes():
    got = [largest_finite(np.dtype(name)) for name in ("f8", "f4", "c8", "u8", "i8", "bool")]
    largest_float32 = float((2 - Fraction(1, 2**23)) * 2**127)
    largest_float64 = float((2 - Fraction(1, 2**52)) * 2**1023)
    # Integers of 64 bits round up to the next float64.
    assert got == [largest_float64, largest_float32, largest_float32, 2.0**64, 2.0**63, 1.0]


def test_a_dtype_without_numbers_has_no_largest_value():
    assert largest_finite(np.dtype("U3")) == float("inf")


@pytest.mark.parametrize("token", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_computable_keeps_every_value_of_a_narrow_float(token):
    values = all_values(dtype_from_token(token))
    wide = computable(values).astype(np.float64)
    np.testing.assert_array_equal(wide, values.astype(np.float64))
    assert np.isnan(computable(np.array([np.nan]).astype(values.dtype))).all()


@pytest.mark.parametrize("token", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_computable_widens_ml_dtypes_to_float32(token):
    assert computable(np.zeros(2, dtype_from_token(token))).dtype == np.float32


@pytest.mark.parametrize(("token", "wide"), [("int4", np.int8), ("uint4", np.uint8)])
def test_computable_widens_small_integers(token, wide):
    values = np.array([0, 3, 7]).astype(dtype_from_token(token))
    got = computable(values)
    assert got.dtype == wide
    assert got.tolist() == [0, 3, 7]


@pytest.mark.parametrize("token", ["float64", "float32", "float16", "int64", "bool", "complex64"])
def test_computable_copies_nothing_that_numpy_computes_with(token):
    values = np.zeros(3, token)
    assert computable(values) is values


@pytest.mark.parametrize("convert", [computable, native_order])
@pytest.mark.parametrize("description", [">f4", ">f2", ">i8", ">u2", ">c16"])
def test_big_endian_values_come_out_native(convert, description):
    got = convert(np.array([1, 2, 300]).astype(description))
    assert got.dtype.isnative
    assert got.tolist() == [1, 2, 300]


def test_dtypes_are_the_same_whatever_the_byte_order():
    assert same_dtype(np.dtype(">f4"), np.dtype("<f4"))
    assert not same_dtype(np.dtype("f4"), np.dtype("i4"))
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    assert same_dtype(bfloat16, bfloat16)
    assert not same_dtype(bfloat16, np.dtype(np.float16))
