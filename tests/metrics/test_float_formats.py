"""Formats and rounding, against fractions, ml_dtypes and counts of values."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.metrics.float_formats import (
    COMPUTE_FORMATS,
    FORMATS,
    HALF_FORMATS,
    SHORT_FORMATS,
    UNIT_FORMATS,
    as_stored,
    coarser,
    half_format,
    in_format,
    stored_as,
    stored_by_way,
    to_bits,
)
from troubleshooter_nb.metrics.floats import dtype_from_token, largest_finite, significand_bits

STORED = [name for name in FORMATS if name not in ("tf32", "hf32")]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def nearest(value: float, name: str) -> float:
    """What a format makes of a value, in exact arithmetic; overflow is left out."""
    form = FORMATS[name]
    if value == 0 or not np.isfinite(value):
        return value
    size = abs(Fraction(value))
    power = max(int(np.frexp(value)[1]) - 1, form.lowest)
    unit = Fraction(2) ** (power - form.bits + 1)
    # Python rounds a fraction to the even one of two that are as near.
    return float(np.copysign(float(round(size / unit) * unit), value))


def interesting(name: str) -> np.ndarray:
    """Numbers of the format, what lies halfway between them, and the neighbours of that."""
    form, rng = FORMATS[name], np.random.default_rng(0)
    whole = rng.integers(2 ** (form.bits - 1), 2**form.bits, 400).astype(float)
    powers = rng.integers(form.lowest - 3, min(form.lowest + 250, 126), 400) - form.bits + 1
    numbers = np.ldexp(whole, powers)
    ties = np.ldexp(whole + 0.5, powers)
    few = form.smallest * np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 5.25])
    ends = form.smallest_normal * np.array([1.0, 1 - 2.0**-20, 1 + 2.0**-20])
    values = np.concatenate([numbers, ties, few, ends, few * (1 + 2.0**-40), few * (1 - 2.0**-40)])
    values = np.concatenate([values, ties * (1 + 2.0**-40), ties * (1 - 2.0**-45), [0.0]])
    return np.concatenate([values, -values])


@pytest.mark.parametrize("name", STORED)
def test_facts_are_those_of_numpy_and_ml_dtypes(name):
    form, dtype = FORMATS[name], dtype_from_token(name)
    info = ml_dtypes.finfo(dtype)
    assert form.bits == significand_bits(dtype)
    assert form.largest == largest_finite(dtype)
    assert form.smallest_normal == float(info.smallest_normal)
    assert form.smallest == float(info.smallest_subnormal)
    with np.errstate(over="ignore"):
        beyond = float(np.array(3.4e38 if form.bits < 24 else 1e400).astype(dtype))
    assert np.isinf(beyond) == form.has_inf
    assert np.isnan(beyond) != form.has_inf


def test_formats_of_matrix_units_have_their_documented_precision():
    # TF32 stores 10 bits, HF32 11, as their makers say; both have a hidden bit.
    assert COMPUTE_FORMATS == {"float16": 11, "bfloat16": 8, "tf32": 11, "hf32": 12}
    assert FORMATS["tf32"].smallest_normal == FORMATS["float32"].smallest_normal


def test_narrow_formats_come_first():
    bits = [form.bits for form in FORMATS.values()]
    assert bits == sorted(bits)
    assert HALF_FORMATS == {8: "bfloat16", 11: "float16"}


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "float64"])
def test_rounding_is_to_the_nearest_and_even_in_exact_arithmetic(name):
    values = interesting(name)
    wanted = [nearest(value, name) for value in values]
    got = in_format(values, name, overflow=False)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("name", [*SHORT_FORMATS, "float32"])
def test_one_rounding_gives_what_a_dtype_gives(name):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(20000) * np.exp(rng.uniform(-100, 88, 20000))
    ends = FORMATS[name].largest * np.array([1.0, 1 + 2.0**-13, 1.02, 1.04, 1.1, 2.0])
    values = np.concatenate([values, ends, -ends, [np.inf, -np.inf, np.nan, 0.0, -0.0]])
    with np.errstate(over="ignore"):
        values = values.astype(np.float32)
        wanted = values.astype(dtype_from_token(name)).astype(np.float64)
    got = in_format(values, name)
    np.testing.assert_array_equal(got, wanted)
    signs = [np.signbit(one[~np.isnan(wanted)]) for one in (got, wanted)]
    np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("name", SHORT_FORMATS)
def test_values_in_a_dtype_are_those_in_its_format(name):
    values = interesting(name)
    values = values[np.abs(values) <= FORMATS[name].largest]
    got = stored_as(values, dtype_from_token(name))
    assert got.dtype == dtype_from_token(name)
    np.testing.assert_array_equal(got.astype(float), [nearest(value, name) for value in values])
    turned = np.asfortranarray(values[:400].reshape(20, 20))
    again = stored_as(turned, dtype_from_token(name)).astype(float)
    np.testing.assert_array_equal(again.reshape(-1), got[:400].astype(float))


@pytest.mark.parametrize(("name", "largest"), [("tf32", 2 - 2.0**-10), ("float32", 2 - 2.0**-23)])
def test_beyond_the_largest_number_there_is_inf(name, largest):
    largest, bits = largest * 2.0**127, FORMATS[name].bits
    values = np.array([largest, largest + 2.0 ** (127 - bits), 2.0**128, -1e300, np.inf])
    expected = [largest, np.inf, np.inf, -np.inf, np.inf]
    np.testing.assert_array_equal(in_format(values, name), expected)
    values[1] *= 1 - 2.0**-50
    assert in_format(values, name)[1] == largest


@pytest.mark.parametrize("make", [
    lambda values: in_format(values, "bfloat16"),
    lambda values: as_stored(values, 2.0**-8),
    lambda values: to_bits(values, 8),
    lambda values: stored_as(values, BFLOAT16).astype(float),
])  # fmt: skip
def test_a_tie_that_float32_would_make_is_none(make):
    # 1 + 2**-8 is a tie of bfloat16; a bit more, which float32 cannot hold, is above it.
    values = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, -(1 + 2**-8 + 2**-40), np.nan, np.inf])
    np.testing.assert_array_equal(make(values), [1.0078125, 1.0, -1.0078125, np.nan, np.inf])


@pytest.mark.torch
def test_frameworks_round_a_float64_twice():
    import torch

    values = np.array([1 + 2**-8 + 2**-40])
    assert stored_by_way(values, BFLOAT16).astype(float) == 1.0
    assert float(torch.tensor(values, dtype=torch.float64).to(torch.bfloat16)) == 1.0


@given(st.floats(allow_nan=False, allow_infinity=False, width=64))
def test_storing_in_bfloat16_is_to_the_nearest(value):
    got = stored_as(np.array([value]), BFLOAT16)[0]
    bits = got.view(np.uint16)
    if not np.isfinite(np.float32(got)):
        assert abs(value) > 3.3895e38  # the largest bfloat16
        return
    beside = np.array([bits - 1, bits + 1], np.uint16) if bits & 0x7FFF else np.array([bits + 1])
    error = abs(Fraction(float(got)) - Fraction(value))
    for other in beside.astype(np.uint16).view(ml_dtypes.bfloat16):
        if np.isfinite(np.float32(other)):
            assert error <= abs(Fraction(float(other)) - Fraction(value))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "bool", "float16"])
def test_integers_and_narrow_floats_are_stored_as_well(dtype):
    values = np.array([0, 1, 1, 0]).astype(dtype)
    assert stored_as(values, BFLOAT16).tolist() == [0, 1, 1, 0]
    assert stored_as(values, np.dtype(np.int16)).dtype == np.int16


@pytest.mark.parametrize(
    ("value", "bits", "truncate", "expected"),
    [
        (1 + 2**-11, 11, False, 1.0),  # a tie: to the even neighbour
        (1 + 3 * 2**-11, 11, False, 1 + 2**-9),  # a tie, up
        (1 + 2**-10 + 2**-12, 11, False, 1 + 2**-10),
        (1 + 2**-11 + 2**-12, 11, True, 1.0),
        (-(1 + 2**-11 + 2**-12), 11, True, -1.0),
        (2 - 2**-12, 11, False, 2.0),  # carries into the exponent
        (0.0, 8, False, 0.0),
        (np.inf, 8, False, np.inf),
    ],
)
def test_significands_are_cut_by_hand(value, bits, truncate, expected):
    assert to_bits(np.array(value), bits, truncate=truncate) == expected


@pytest.mark.parametrize("pattern", [0x7FF8 << 48, 0x7FFF_FFFF_FFFF_FFFF, 0x7FF8 << 48 | 1])
@pytest.mark.parametrize("truncate", [False, True])
def test_nan_stays_nan(pattern, truncate):
    value = np.array([pattern], np.uint64).view(np.float64)
    assert np.isnan(to_bits(value, 8, truncate=truncate)).all()
    assert all(np.isnan(in_format(value, name)).all() for name in (*FORMATS, *UNIT_FORMATS))


def test_units_that_cut_go_towards_zero():
    values = np.array([1 + 2**-11 + 2**-12, -(1 + 3 * 2**-11), 2.0**-149, 1.5 * 2.0**-136])
    expected = [1.0, -(1 + 2**-10), 0.0, 2.0**-136]
    np.testing.assert_array_equal(in_format(values, "tf32 truncated"), expected)


def test_the_exact_format_changes_nothing():
    values = np.random.default_rng(0).standard_normal(9)
    np.testing.assert_array_equal(in_format(values, "exact"), values)
    np.testing.assert_array_equal(as_stored(values, 2.0**-24), values)


def test_overflow_is_left_out_on_request():
    values = np.array([70000.0, -1e30])
    np.testing.assert_array_equal(in_format(values, "float16"), [np.inf, -np.inf])
    kept = in_format(values, "float16", overflow=False)
    np.testing.assert_array_equal(kept, to_bits(values, 11))


def test_formats_by_their_roundoff():
    assert [half_format(2.0**-bits) for bits in (8, 11, 24)] == ["bfloat16", "float16", ""]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("float32", "bfloat16", "bfloat16"),
        ("float16", "float32", "float16"),
        ("float16", "bfloat16", "bfloat16"),
        ("float8_e4m3fn", "float64", "float8_e4m3fn"),
        ("complex128", "float32", "float32"),
        ("int8", "float32", "float32"),
        ("int8", "int8", "int8"),
        ("int8", "bool", "int8/bool"),
    ],
)
def test_the_coarser_of_two_dtypes(left, right, expected):
    assert coarser(left, right) == expected
