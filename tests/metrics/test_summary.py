"""Figures of one tensor, against exact rational arithmetic."""

from __future__ import annotations

import math
import pickle
import zlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.partial import merge_tree
from troubleshooter_nb.metrics.summary import (
    SUMMARY_FIGURES,
    bits_seen,
    histogram_exponents,
    magnitudes,
    root,
    summarise,
    summarise_block,
    summary_figures,
    summary_partial,
    sums,
    used_significand_bits,
)

NAN, INF = float("nan"), float("inf")
FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
EVERY = [*FLOATS, *INTEGERS, "complex64", "complex128"]
# Pairwise sums of a few hundred float64 terms err by some 10 roundoffs of 1.1e-16.
SUM_ERROR = 1e-14


def exact_root(value: Fraction) -> float:
    """Square root of a rational to full float64 precision; inf beyond float64."""
    if not value:
        return 0.0
    shift = 160 - (value.numerator.bit_length() - value.denominator.bit_length())
    shift += shift & 1
    scaled = value.numerator << max(shift, 0)
    exact = Fraction(math.isqrt(scaled // (value.denominator << max(-shift, 0))))
    return to_float(exact / 2 ** (shift // 2) if shift >= 0 else exact * 2 ** (-shift // 2))


def to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return INF


def exact_figures(values: list) -> dict[str, float]:
    """`SUMMARY_FIGURES` of a list of Python numbers, by exact arithmetic."""
    if any(isinstance(value, complex) for value in values):
        # A NaN part makes the number NaN, whatever the other part.
        values = [NAN if v != v else abs(v) for v in values]
    finite = [Fraction(v) for v in values if math.isfinite(v)]
    return {
        "min": to_float(min(finite)) if finite else NAN,
        "max": to_float(max(finite)) if finite else NAN,
        "mean": to_float(sum(finite) / len(finite)) if finite else NAN,
        "l2": exact_root(sum((v * v for v in finite), Fraction(0))),
        "nan_count": sum(math.isnan(v) for v in values),
        "inf_count": sum(math.isinf(v) for v in values),
        "zero_count": sum(v == 0 for v in values),
    }


def figures(values: np.ndarray) -> dict[str, float]:
    return summary_figures(summary_partial(values))


def python_values(values: np.ndarray) -> list:
    """The exact values as Python numbers; ml_dtypes have no exact tolist()."""
    if values.dtype.type.__module__.startswith("ml_dtypes"):
        values = values.astype(np.float64)
    return values.tolist()


def check(values: np.ndarray, got: dict[str, float] | None = None) -> None:
    got = figures(values) if got is None else got
    expected = exact_figures(python_values(values))
    finite = [abs(v) for v in python_values(values) if math.isfinite(abs(v))]
    # The mean of values that cancel is as exact as the mean of their magnitudes.
    scale = max(finite, default=0.0)
    assert list(got) == list(SUMMARY_FIGURES) == list(STATISTICS)
    for name in ("min", "max", "nan_count", "inf_count", "zero_count"):
        np.testing.assert_equal(got[name], expected[name], err_msg=name)
    np.testing.assert_allclose(got["mean"], expected["mean"], rtol=0, atol=SUM_ERROR * scale)
    np.testing.assert_allclose(got["l2"], expected["l2"], rtol=SUM_ERROR, atol=0)


def typical(token: str, size: int = 200) -> np.ndarray:
    """Values of a dtype as tensors hold them, both signs and a zero where it has them."""
    rng = np.random.default_rng(0)
    dtype = dtype_from_token(token)
    if dtype.kind == "b":
        return rng.random(size) < 0.3
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, size, dtype, endpoint=True)
    elif dtype.kind == "c":
        values = (rng.standard_normal(size) + 1j * rng.standard_normal(size)).astype(dtype)
    else:
        values = rng.standard_normal(size).astype(dtype)
    values[size // 2] = 0
    return values


@pytest.mark.parametrize("token", EVERY)
def test_figures_of_every_dtype_equal_the_exact_ones(token):
    check(typical(token))


@pytest.mark.parametrize("token", EVERY)
def test_one_value_is_summarised(token):
    check(typical(token)[:1])


@pytest.mark.parametrize("token", EVERY)
def test_an_empty_tensor_has_the_documented_values(token):
    got = figures(np.zeros(0, dtype_from_token(token)))
    for name, column in STATISTICS.items():
        np.testing.assert_equal(got[name], column.of_empty, err_msg=name)
        assert type(got[name]) is {"float64": float, "int64": int}[column.dtype], name


@pytest.mark.parametrize("token", EVERY)
def test_figures_have_the_documented_types(token):
    got = figures(typical(token))
    kinds = {name: {"float64": float, "int64": int}[one.dtype] for name, one in STATISTICS.items()}
    assert {name: type(value) for name, value in got.items()} == kinds


@pytest.mark.parametrize(
    "values",
    [
        [NAN],
        [INF, -INF],
        [NAN, INF],
        [1.0, NAN, -2.0, INF, 0.0, -INF, NAN],
        [0.0, -0.0],
        [-0.0],
        [-3.0, -1.0],
        [1e200, -1e200, 3e200],
        [1.7e308, 1.7e308, -1.7e308],
        [1e-200, -1e-200],
        [5e-324, 1e-310],
        [1e200, 1e-200],
        [1.7e308, 5e-324, 1.0],
    ],
)
@pytest.mark.parametrize("token", ["float64", "float32", "float16", "bfloat16"])
def test_awkward_floats_equal_the_exact_figures(token, values):
    with np.errstate(over="ignore", under="ignore"):
        stored = np.array(values).astype(dtype_from_token(token))
    check(stored)


@pytest.mark.parametrize("token", ["int64", "uint64"])
def test_extremes_of_64_bit_integers_equal_the_exact_figures(token):
    info = np.iinfo(token)
    check(np.array([info.min, info.max, info.max - 1, 2**53 + 1, 7], token))


def test_a_norm_beyond_float64_is_inf_without_a_warning():
    assert figures(np.full(100, 1.7e308))["l2"] == INF


def test_the_mean_of_values_whose_sum_leaves_float64_is_finite():
    got = figures(np.full(100, 1.7e308))["mean"]
    assert got == pytest.approx(1.7e308, rel=SUM_ERROR)


def test_the_norm_of_tiny_values_does_not_vanish():
    assert figures(np.full(4, 1e-200))["l2"] == pytest.approx(2e-200, rel=1e-15)


def test_a_zero_extreme_is_plain_zero_whatever_its_sign():
    got = figures(np.array([-0.0, 0.0, -0.0]))
    assert (str(got["min"]), str(got["max"])) == ("0.0", "0.0")


def test_complex_numbers_are_summarised_by_their_modulus():
    got = figures(np.array([3 + 4j, 0, -5j]))
    assert [got[name] for name in ("min", "max", "mean", "zero_count")] == [0.0, 5.0, 10 / 3, 1]


@pytest.mark.parametrize("value", [complex(NAN, 0), complex(0, NAN), complex(INF, NAN)])
def test_a_complex_number_with_a_nan_part_is_nan(value):
    got = figures(np.array([value, 1.0]))
    assert (got["nan_count"], got["inf_count"], got["max"]) == (1, 0, 1.0)


def test_a_signalling_nan_is_counted_without_a_warning():
    values = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    assert (figures(values)["nan_count"], figures(values)["max"]) == (1, 1.0)


@pytest.mark.parametrize("description", [">f4", ">f8", ">f2", ">i8", ">c8"])
def test_big_endian_values_are_understood(description):
    values = np.array([1, -2, 3, 0]).astype(description)
    check(values)


def test_values_that_are_not_contiguous_are_understood():
    values = np.arange(20, dtype=np.float64)[::3]
    check(values)


def test_read_only_values_stay_as_they_are():
    values = typical("float64")
    values.flags.writeable = False
    before = values.copy()
    check(values)
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("values", [np.array(["a"]), np.array([None]), np.zeros(1, "M8[s]")])
def test_values_without_numbers_are_refused(values):
    with pytest.raises(ValueError, match="cannot summarise values of dtype"):
        summary_partial(values)


def test_positions_are_those_of_the_first_maximum_and_minimum():
    partial = summary_partial(np.array([NAN, 2.0, -1.0, 2.0, -1.0]), start=100)
    assert partial.positions.tolist() == [101, 102]


def test_without_finite_values_there_is_no_position():
    assert summary_partial(np.array([NAN, INF])).positions.tolist() == [-1, -1]


def test_the_histogram_counts_magnitudes_by_their_power_of_two():
    values = [1.0, -1.5, 2.0, 0.25, 0.0, NAN, INF, 1e-300, 1e300]
    counts = summary_partial(np.array(values)).histogram
    found = {int(e): int(n) for e, n in zip(histogram_exponents(), counts, strict=True) if n}
    # 1 and 1.5; 2; 1/4; below and above all bins.
    assert found == {0: 2, 1: 1, -2: 1, -64: 1, 31: 1}


@given(
    hnp.arrays(np.float64, st.integers(0, 60), elements=st.floats(width=64)),
    st.integers(1, 70),
)
def test_any_floats_in_any_blocks_equal_the_exact_figures(values, block):
    got, _ = summarise(lambda start, stop: values[start:stop], len(values), block=block)
    assert got.pop("crc32") == zlib.crc32(values.tobytes())
    check(values, got)


@given(hnp.arrays(st.sampled_from(["int64", "uint64", "int8"]), st.integers(0, 40)))
def test_any_integers_equal_the_exact_figures(values):
    check(values)


@pytest.mark.parametrize("token", EVERY)
@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_the_block_size_changes_no_figure_but_the_last_bits_of_sums(token, block):
    values = typical(token)
    got, _ = summarise(lambda start, stop: values[start:stop], len(values), block=block)
    assert got.pop("crc32") == zlib.crc32(values.tobytes())
    check(values, got)


def test_the_crc_is_that_of_the_stored_bytes():
    values = np.arange(10, dtype=">i2")
    assert summarise(lambda a, b: values[a:b], 10, block=3)[0]["crc32"] == zlib.crc32(
        values.tobytes()
    )


def test_an_empty_tensor_is_read_once_and_has_the_crc_of_nothing():
    reads = []

    def read(start: int, stop: int) -> np.ndarray:
        reads.append((start, stop))
        return np.zeros(stop - start, np.float32)

    assert summarise(read, 0)[0]["crc32"] == 0
    assert reads == [(0, 0)]


def test_a_partial_travels_through_pickle():
    partial = summary_partial(typical("float32"))
    again = pickle.loads(pickle.dumps(partial))
    assert summary_figures(merge_tree([again])) == summary_figures(partial)


@pytest.mark.parametrize(
    ("token", "pattern", "bits"),
    [
        ("float32", [0x3F800000], 1),  # 1.0: only the hidden bit
        ("float32", [0x3F800000, 0x3FC00000], 2),  # 1.5
        ("float32", [0x3F810000], 8),  # as bfloat16 stores it
        ("float32", [0x3F802000], 11),  # TF32
        ("float32", [0x3F800001], 24),
        ("float32", [0x00000000], 0),
        ("float32", [0x80000000], 0),
        ("float64", [0x3FF0000000000001], 53),
        ("float16", [0x3C01], 11),
        ("bfloat16", [0x3F81], 8),
        ("bfloat16", [0x3F80, 0x3FC0], 2),
    ],
)
def test_used_significand_bits_by_hand(token, pattern, bits):
    dtype = dtype_from_token(token)
    values = np.array(pattern, f"u{dtype.itemsize}").view(dtype)
    assert used_significand_bits(bits_seen(values), dtype) == bits


@given(
    hnp.arrays(np.float32, st.integers(1, 300), elements=st.floats(width=32)),
    st.integers(0, 22),
)
def test_used_bits_are_those_of_the_finest_value(values, dropped):
    bits = values.view(np.uint32) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    kept = [int(b) & 0x7FFFFF for b in bits]
    trailing = min((k & -k).bit_length() - 1 for k in kept if k) if any(kept) else 23
    all_zero = not any(int(b) & 0x7FFFFFFF for b in bits)
    expected = 0 if all_zero else 24 - trailing
    got = used_significand_bits(bits_seen(bits.view(np.float32)), np.dtype(np.float32))
    assert got == expected


def test_the_finest_value_may_be_the_last_of_many():
    values = np.ones(5000, np.float32)
    assert used_significand_bits(bits_seen(values), values.dtype) == 1
    values[-1] = np.nextafter(np.float32(1), np.float32(2))
    assert used_significand_bits(bits_seen(values), values.dtype) == 24


@pytest.mark.parametrize("token", [*INTEGERS, "complex64"])
def test_exact_and_complex_dtypes_use_no_significand_bits(token):
    values = np.ones(3, dtype_from_token(token))
    assert used_significand_bits(bits_seen(values), values.dtype) == 0


@pytest.mark.parametrize("description", [">f4", ">f2", ">f8"])
def test_bits_of_big_endian_values_are_those_of_the_values(description):
    values = np.array([1.0, 1.25, 3.0])
    assert bits_seen(values.astype(description)) == bits_seen(values.astype(description[1:]))


def test_no_values_have_no_bits():
    assert bits_seen(np.zeros(0, np.float32)) == 0


@pytest.mark.parametrize(
    ("mantissa", "exponent", "expected"),
    [(0.0, 7, 0.0), (9.0, 0, 3.0), (2.0, 1, 2.0), (0.5, -1, 0.5), (1.0, 2000, 2.0**1000)],
)
def test_root_by_hand(mantissa, exponent, expected):
    assert root(mantissa, exponent) == expected


@given(st.floats(1e-300, 1e300), st.integers(-900, 900))
def test_root_equals_the_exact_square_root(mantissa, exponent):
    scaled = Fraction(mantissa) * Fraction(2) ** exponent
    # One rounding of the root and one where the result is subnormal.
    assert root(mantissa, exponent) == pytest.approx(exact_root(scaled), rel=3e-16, abs=5e-324)


def test_sums_are_scaled_only_when_squares_would_leave_the_range():
    assert sums(np.array([3.0, 4.0]), 4.0) == (7.0, 25.0, 0)
    total, square, exponent = sums(np.array([1e200, 1e200]), 1e200)
    assert exponent == math.frexp(1e200)[1]
    assert math.ldexp(total, exponent) == 2e200
    assert 0.5 <= square <= 2.0


def test_magnitudes_leave_float64_alone_and_widen_the_rest():
    values = np.array([-1.5, 2.0])
    assert magnitudes(values) is values
    assert magnitudes(values.astype(np.float16)).dtype == np.float64
    assert magnitudes(np.array([3 + 4j], np.complex64)).tolist() == [5.0]


def test_magnitudes_write_where_they_are_told_to():
    out = np.empty(2)
    assert magnitudes(np.array([1, -2], np.int8), out) is out
    assert out.tolist() == [1.0, -2.0]


def test_a_block_is_summarised_in_its_stored_dtype_to_the_same_figures():
    stored = typical("float32")
    wide = stored.astype(np.float64)
    assert summarise_block(wide, stored) == summarise_block(wide)


def test_names_of_the_histogram_bins_are_its_exponents():
    assert histogram_exponents().tolist() == list(range(-64, 32))
