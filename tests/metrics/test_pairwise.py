"""Figures of two tensors, against exact rational arithmetic."""

from __future__ import annotations

import json
import math
import os
import tracemalloc
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.metrics.blocks import pair_blocks
from troubleshooter_nb.columns.pairs import PAIR_FIGURES
from troubleshooter_nb.columns.statistics import STATISTICS
from troubleshooter_nb.metrics import pairwise
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.pairwise import (
    absolute_errors,
    pair_figures,
    pair_partial,
)
from troubleshooter_nb.metrics.partial import EXPONENTS, merge_tree
from troubleshooter_nb.thresholds import FIGURES_BLOCK

DATA = Path(__file__).parents[1] / "data/metrics"
CASES = json.loads((DATA / "metric_cases.json").read_text())["metric_cases"]
NAN, INF = float("nan"), float("inf")
FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
EVERY = [*FLOATS, *INTEGERS, "complex64", "complex128"]
# Pairwise sums of a few hundred float64 terms err by some 10 roundoffs of 1.1e-16.
SUM_ERROR = 1e-14
LONG = os.environ.get("TNB_LONG") == "1"


# --- the reference: the same definitions in exact arithmetic, one element at a time -------------


def to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return INF


def root(value: Fraction) -> Fraction:
    """Square root to 70 bits, far beyond what float64 can tell apart."""
    shift = 140 - (value.numerator.bit_length() - value.denominator.bit_length())
    shift += shift & 1
    scaled = value * Fraction(4) ** (shift // 2)
    return Fraction(math.isqrt(int(scaled))) / Fraction(2) ** (shift // 2)


def parts(value) -> tuple[Fraction, Fraction]:
    if isinstance(value, complex):
        return Fraction(value.real), Fraction(value.imag)
    return Fraction(value), Fraction(0)


def size(value) -> Fraction:
    """What is summed and ranked of a value: itself, or the modulus of a complex number."""
    real, imaginary = parts(value)
    return root(real * real + imaginary * imaginary) if isinstance(value, complex) else real


def is_nan(value) -> bool:
    return value != value


def is_inf(value) -> bool:
    if isinstance(value, complex):
        return not is_nan(value) and (math.isinf(value.real) or math.isinf(value.imag))
    return isinstance(value, float) and math.isinf(value)


def is_finite(value) -> bool:
    return not (is_nan(value) or is_inf(value))


def exact_side(values: list) -> dict[str, float]:
    sizes = [size(v) for v in values if is_finite(v)]
    return {
        "min": to_float(min(sizes)) if sizes else NAN,
        "max": to_float(max(sizes)) if sizes else NAN,
        "mean": to_float(sum(sizes) / len(sizes)) if sizes else NAN,
        "l2": to_float(root(sum((x * x for x in sizes), Fraction(0)))),
        "nan_count": sum(map(is_nan, values)),
        "inf_count": sum(map(is_inf, values)),
        "zero_count": sum(v == 0 for v in values),
    }


def exact_correlation(left: list[Fraction], right: list[Fraction]) -> float:
    n = len(left)
    if n < 2:
        return NAN
    a, b = sum(left) / n, sum(right) / n
    covariance = sum((x - a) * (y - b) for x, y in zip(left, right, strict=True))
    spread = sum((x - a) ** 2 for x in left) * sum((y - b) ** 2 for y in right)
    return to_float(covariance / root(spread)) if spread else NAN


def exact_figures(left: list, right: list, rtol=1e-4, atol=1e-4, equal_nan=False) -> dict:
    """Every figure but `identical` and the significand bits, by exact arithmetic."""
    n = len(left)
    pairs = list(zip(left, right, strict=True))
    kept = [i for i, (x, y) in enumerate(pairs) if is_finite(x) and is_finite(y)]
    rest = [pair for i, pair in enumerate(pairs) if i not in set(kept)]
    nan_mismatch = sum(is_nan(x) != is_nan(y) for x, y in rest)
    both_nan = sum(is_nan(x) and is_nan(y) for x, y in rest)
    same_inf = sum(x == y for x, y in rest)
    errors = []
    for i in kept:
        (a, b), (c, d) = parts(left[i]), parts(right[i])
        square = (a - c) ** 2 + (b - d) ** 2
        errors.append(root(square) if b or d else abs(a - c))
    sizes = [abs(size(right[i])) for i in kept]
    limits = [Fraction(atol) + Fraction(rtol) * y for y in sizes]
    close = sum(e <= limit for e, limit in zip(errors, limits, strict=True))
    close += same_inf + (both_nan if equal_nan else 0)
    tolerances = [e / (1 + y) for e, y in zip(errors, sizes, strict=True)]
    relative = [e / y for e, y in zip(errors, sizes, strict=True) if y]
    squares = sum((e * e for e in errors), Fraction(0))
    lefts, rights = ([parts(side[i]) for i in kept] for side in (left, right))
    left_square, right_square = (
        sum((a * a + b * b for a, b in side), Fraction(0)) for side in (lefts, rights)
    )
    product = sum(
        (a * c + b * d for (a, b), (c, d) in zip(lefts, rights, strict=True)), Fraction(0)
    )
    cosine = 1.0 if kept and not left_square and not right_square else NAN
    if left_square and right_square:
        cosine = to_float(product / (root(left_square) * root(right_square)))
    none = NAN if n and not kept else 0.0
    largest = max(errors, default=Fraction(0))
    rounded = [to_float(e) for e in errors]  # errors that float64 cannot tell apart are a tie
    relative_none = NAN if largest else none
    mean_relative = to_float(sum(relative) / len(relative)) if relative else relative_none
    relative_l2 = 0.0 if not squares else INF
    if squares and right_square:
        relative_l2 = to_float(root(squares / right_square))
    is_complex = any(isinstance(v, complex) for v in (*left, *right))
    figures = {
        "allclose": close == n,
        "allclose_ratio": close / n if n else 1.0,
        "smallest_passing_tolerance": (
            INF
            if len(rest) > same_inf + (both_nan if equal_nan else 0)
            else to_float(max(tolerances, default=Fraction(0)))
        ),
        "cosine": cosine,
        "correlation": cosine
        if is_complex
        else exact_correlation([a for a, _ in lefts], [c for c, _ in rights]),
        "rmse": to_float(root(squares / len(kept))) if kept else none,
        "mape": 100 * mean_relative,
        "max_abs_error": to_float(largest) if kept else none,
        "mean_abs_error": to_float(sum(errors) / len(kept)) if kept else none,
        "max_rel_error": to_float(max(relative)) if relative else relative_none,
        "mean_rel_error": mean_relative,
        "rel_l2_error": relative_l2 if kept else none,
        "nan_mismatch_count": nan_mismatch,
        "inf_mismatch_count": len(rest) - nan_mismatch - both_nan - same_inf,
        "unequal_count": sum(e > 0 for e in errors) + len(rest) - both_nan - same_inf,
        "zero_reference_count": sum(not y for y in sizes),
        "max_abs_index": kept[rounded.index(max(rounded))] if largest else -1,
    }
    for side, values in (("left", left), ("right", right)):
        figures |= {f"{side}_{name}": v for name, v in exact_side(values).items()}
    return figures


def exact_histogram(left: list, right: list) -> list[int]:
    counts = [0] * len(EXPONENTS)
    for x, y in zip(left, right, strict=True):
        if not (is_finite(x) and is_finite(y)):
            continue
        (a, b), (c, d) = parts(x), parts(y)
        error = to_float(root((a - c) ** 2 + (b - d) ** 2))
        if error:
            exponent = math.frexp(error)[1] - 1 if math.isfinite(error) else 2000
            counts[min(max(exponent, EXPONENTS[0]), EXPONENTS[-1]) - EXPONENTS[0]] += 1
    return counts


# --- comparing with it ---------------------------------------------------------------------------

# Ranked or counted, never summed: these are the exact value rounded once or twice.
EXACT = {
    "allclose",
    "nan_mismatch_count",
    "inf_mismatch_count",
    "unequal_count",
    "zero_reference_count",
    "max_abs_index",
    *(f"{s}_{n}_count" for s in ("left", "right") for n in ("nan", "inf", "zero")),
}
ROUNDED_ONCE = {"allclose_ratio", "max_abs_error", "max_rel_error"} | {
    f"{s}_{n}" for s in ("left", "right") for n in ("min", "max")
}


def python_values(values: np.ndarray) -> list:
    if values.dtype.type.__module__.startswith("ml_dtypes"):
        values = values.astype(np.float64)  # every ml_dtypes value is a float64
    return values.reshape(-1).tolist()


def figures_of(left, right, *, block: int = FIGURES_BLOCK, **tolerance) -> dict[str, float]:
    left, right = np.asarray(left), np.asarray(right)
    partial = merge_tree(pair_blocks(left, right, block=block, **tolerance))
    return pair_figures(partial, left.dtype, right.dtype)


def check(left: np.ndarray, right: np.ndarray, *, block: int = FIGURES_BLOCK, **tolerance) -> dict:
    """Compare every figure with the exact one; returns ours."""
    got = figures_of(left, right, block=block, **tolerance)
    values = python_values(left), python_values(right)
    expected = exact_figures(*values, **tolerance)
    assert set(got) == set(expected) | {
        "identical",
        "left_significand_bits",
        "right_significand_bits",
    }
    for name, want in expected.items():
        if name in EXACT:
            assert got[name] == want, name
            continue
        rtol = 4e-16 if name in ROUNDED_ONCE else SUM_ERROR
        atol = 5e-324  # results may be subnormal
        if name in ("left_mean", "right_mean"):
            # The mean of values that cancel is as exact as the mean of their magnitudes.
            side = values[name == "right_mean"]
            scale = max((abs(v) for v in side if is_finite(v)), default=0.0)
            rtol, atol = 0, SUM_ERROR * scale
        if name in ("cosine", "correlation"):
            rtol, atol = 0, 1e-13
        if name == "smallest_passing_tolerance":
            rtol = 2e-15  # rounded up by 2**-50 on purpose
        np.testing.assert_allclose(got[name], want, rtol=rtol, atol=atol, err_msg=name)
    return got


def typical(token: str, n: int = 150, seed: int = 0) -> np.ndarray:
    """Values of a dtype as tensors hold them, both signs and a zero where it has them."""
    rng = np.random.default_rng(seed)
    dtype = dtype_from_token(token)
    if dtype.kind == "b":
        return rng.random(n) < 0.3
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, n, dtype, endpoint=True)
    elif dtype.kind == "c":
        values = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(dtype)
    else:
        values = rng.standard_normal(n).astype(dtype)
    values[n // 2] = 0
    return values


def slightly_off(values: np.ndarray) -> np.ndarray:
    """A copy in which half of the values are the next or an almost equal one."""
    off = values.copy()
    if values.dtype.kind in "biu":
        off[::2] = np.where(values[::2] == values.max(), values.min(), values.max())
        return off
    off[::2] = (values[::2] * np.float32(1.01)).astype(values.dtype)
    return off


@pytest.mark.parametrize("token", EVERY)
def test_almost_equal_tensors_of_every_dtype(token):
    left = typical(token)
    check(slightly_off(left), left)


@pytest.mark.parametrize("token", EVERY)
def test_unrelated_tensors_of_every_dtype(token):
    check(typical(token), typical(token, seed=1))


@pytest.mark.parametrize("token", EVERY)
def test_equal_tensors_of_every_dtype(token):
    got = check(typical(token), typical(token))
    assert got["identical"] is True
    assert got["cosine"] == 1.0


@pytest.mark.parametrize("token", EVERY)
def test_single_elements_of_every_dtype(token):
    check(typical(token)[:1], typical(token, seed=1)[:1])


@pytest.mark.parametrize("token", EVERY)
@pytest.mark.parametrize("zero", ["left", "right", "both"])
def test_zero_tensors_of_every_dtype(token, zero):
    values, zeros = typical(token), np.zeros(150, dtype_from_token(token))
    left, right = {
        "left": (zeros, values),
        "right": (values, zeros),
        "both": (zeros, zeros.copy()),
    }[zero]
    check(left, right)


# int64 within 2**53: beyond, one side is rounded to float64 first, see the test below.
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float8_e5m2", "bfloat16"),
        ("float32", "float64"),
        ("int32", "float32"),
        ("uint8", "float16"),
        ("bool", "int64"),
        ("bool", "float32"),
        ("int8", "uint64"),
        ("uint64", "int16"),
        ("int64", "uint32"),
        ("int64", "uint64"),
        ("complex64", "float32"),
        ("float64", "complex128"),
        ("int8", "complex64"),
    ],
)
def test_mixed_dtypes(left, right):
    check(typical(left), typical(right, seed=1))
    shared = np.abs(np.random.default_rng(2).integers(0, 2, 90))
    got = check(shared.astype(dtype_from_token(left)), shared.astype(dtype_from_token(right)))
    assert got["identical"] is False
    assert got["unequal_count"] == 0


def test_64_bit_integers_against_floats_are_rounded_first():
    got = figures_of(np.array([2**53 + 1]), np.array([2.0**53]))
    assert (got["max_abs_error"], got["unequal_count"], got["identical"]) == (0.0, 0, False)


SPECIAL = [0.0, -0.0, 1.0, -2.5, NAN, INF, -INF]


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("token", ["float64", "float32", "float16", "bfloat16"])
def test_every_combination_of_special_values(token, equal_nan):
    left = np.array([a for a in SPECIAL for _ in SPECIAL]).astype(dtype_from_token(token))
    right = np.array([b for _ in SPECIAL for b in SPECIAL]).astype(dtype_from_token(token))
    check(left, right, equal_nan=equal_nan)


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize(("left", "right"), [(a, b) for a in SPECIAL for b in SPECIAL])
def test_every_pair_of_special_values_alone(left, right, equal_nan):
    check(np.array([left]), np.array([right]), equal_nan=equal_nan)


@pytest.mark.parametrize("equal_nan", [False, True])
def test_every_combination_of_special_complex_values(equal_nan):
    values = [complex(a, b) for a in (0.0, 1.0, NAN, INF) for b in (0.0, -2.0, NAN, -INF)]
    left = np.array([a for a in values for _ in values])
    right = np.array([b for _ in values for b in values])
    check(left, right, equal_nan=equal_nan)


@pytest.mark.parametrize("token", ["float64", "float32", "complex64"])
def test_special_values_against_integers(token):
    left = np.array([NAN, INF, -INF, 3.0, -0.0]).astype(dtype_from_token(token))
    check(left, np.array([1, 2, 3, 3, 0]))
    check(np.array([1, 2, 3, 3, 0], np.uint8), left)


HUGE_AND_TINY = [
    ([1e200, -1e200, 3e200], [1.1e200, -1e200, 0.0]),
    ([1e200, 1.0], [1e200, 2.0]),
    ([1e-200, -3e-200], [1.5e-200, -3e-200]),
    ([5e-324, 1e-310, 0.0], [1e-323, 2e-310, 5e-324]),
    ([1e200, 1e-200], [1e-200, 1e200]),
    ([1.7e308, -1.7e308], [-1.7e308, 1.7e308]),
    ([1.7e308, 1.0, -5.0], [-1.7e308, 1.0, 5.0]),
    ([1.7e308, 1.7e308], [1.7e308, 1.6e308]),
    ([1e-300, 2e-300], [1e300, 2e300]),
    ([1e150, 1e-150], [1e-150, 1e-150]),
    ([1.0, 2.0], [5e-324, 1.0]),
    ([1e308] * 3, [-1e308] * 3),
]


@pytest.mark.parametrize("block", [1, 2, 64])
@pytest.mark.parametrize(("left", "right"), HUGE_AND_TINY)
def test_huge_and_tiny_values_neither_overflow_nor_vanish(left, right, block):
    check(np.array(left), np.array(right), block=block)


def test_opposite_extremes_have_a_finite_relative_error():
    got = figures_of([1.7e308, -1.7e308], [-1.7e308, 1.7e308])
    assert got["max_abs_error"] == INF  # 3.4e308 is beyond float64
    assert got["rel_l2_error"] == got["max_rel_error"] == 2.0
    assert (got["cosine"], got["correlation"]) == (-1.0, -1.0)


def test_scales_that_differ_from_block_to_block_do_not_spoil_the_cosine():
    # The product of huge left and zero right values is 0 and brings no scale along.
    left, right = np.array([1e200, 1.0, 2.0]), np.array([0.0, 3.0, -1.0])
    check(left, right, block=1)
    check(right, left, block=1)


I64, U64 = np.iinfo(np.int64), np.iinfo(np.uint64)
INT64_VALUES = [I64.min, I64.min + 1, -(2**53) - 1, -1, 0, 1, 2**53 + 1, I64.max - 1, I64.max]
UINT64_VALUES = [0, 1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, U64.max - 1, U64.max]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.array(INT64_VALUES), np.array(INT64_VALUES)),
        (np.array(UINT64_VALUES, np.uint64), np.array(UINT64_VALUES, np.uint64)),
        (np.array(INT64_VALUES), np.array(UINT64_VALUES, np.uint64)),
        (np.array(UINT64_VALUES, np.uint64), np.array(INT64_VALUES)),
    ],
    ids=["int64", "uint64", "int64-uint64", "uint64-int64"],
)
def test_64_bit_integers_are_subtracted_exactly(left, right):
    a, b = np.repeat(left, len(right)), np.tile(right, len(left))
    got = absolute_errors(a, b, a.astype(np.float64), b.astype(np.float64))
    expected = [float(abs(x - y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    below = np.array(expected) < 2.0**63
    np.testing.assert_array_equal(got[below], np.array(expected)[below])
    # Beyond 2**63 both sides were rounded before: 2 roundoffs of 2**-53 more.
    np.testing.assert_allclose(got, expected, rtol=4e-16)
    check(a, b)


def test_neighbours_around_two_to_the_63_differ_by_one_in_both_orders():
    left, right = np.array([2**63 - 1]), np.array([2**63], np.uint64)
    assert figures_of(left, right)["max_abs_error"] == 1.0
    assert figures_of(right, left)["max_abs_error"] == 1.0


def test_signed_zeros_are_equal_but_not_identical():
    got = figures_of([0.0, -0.0], [-0.0, -0.0])
    assert (got["identical"], got["unequal_count"], got["allclose"]) == (False, 0, True)
    assert (got["max_abs_error"], got["max_abs_index"], got["max_rel_error"]) == (0.0, -1, 0.0)


def test_nan_of_the_same_bits_is_identical_but_close_only_if_asked():
    values = np.array([1.0, NAN])
    strict, lenient = figures_of(values, values), figures_of(values, values, equal_nan=True)
    assert (strict["identical"], strict["allclose"], strict["allclose_ratio"]) == (True, False, 0.5)
    assert (lenient["identical"], lenient["allclose"]) == (True, True)
    assert strict["smallest_passing_tolerance"] == INF
    assert lenient["smallest_passing_tolerance"] == 0.0


def test_nan_of_other_bits_is_the_same_nan_but_not_identical():
    left = np.array([0x7FC00000, 0x3F800000], np.uint32).view(np.float32)
    right = np.array([0xFFC00001, 0x3F800000], np.uint32).view(np.float32)
    got = figures_of(left, right, equal_nan=True)
    assert (got["identical"], got["nan_mismatch_count"], got["allclose"]) == (False, 0, True)


def test_a_signalling_nan_raises_no_warning():
    left = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    assert figures_of(left, np.ones(2, np.float32))["nan_mismatch_count"] == 1


def test_a_complex_modulus_beyond_float64_counts_as_infinite_but_equal_to_itself():
    huge = np.array([complex(1.7e308, 1.7e308), 1.0])
    other = np.array([complex(1.7e308, -1.7e308), 1.0])
    got = figures_of(huge, np.append(huge[:1], 2.0))
    assert (got["left_inf_count"], got["inf_mismatch_count"]) == (1, 0)
    assert figures_of(huge, other)["inf_mismatch_count"] == 1


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("kind", ["f4", "f2", "f8", "i4", "i8", "c8"])
def test_byte_order_changes_nothing(kind, order):
    left = typical(np.dtype(kind).name)
    right = slightly_off(left)
    plain, swapped = figures_of(left, right), figures_of(left.astype(order + kind), right)
    np.testing.assert_equal(swapped, plain)


def test_the_same_values_in_another_byte_order_are_identical():
    values = typical("float32")
    assert figures_of(values.astype(">f4"), values)["identical"] is True


def test_tensors_that_are_not_contiguous_are_understood():
    left, right = typical("float32"), typical("float32", seed=1)
    expected = figures_of(left[::3].copy(), right[::3].copy())
    np.testing.assert_equal(figures_of(left[::3], right[::3]), expected)
    square = left[:144].reshape(12, 12)
    expected = figures_of(square.T.copy(), right[:144].reshape(12, 12))
    np.testing.assert_equal(figures_of(square.T, right[:144].reshape(12, 12)), expected)


@pytest.mark.parametrize("token", ["float64", "float32", "int64", "complex128"])
def test_inputs_are_left_as_they_are(token):
    left, right = typical(token), typical(token, seed=1)
    right[3] = 0
    before = left.copy(), right.copy()
    left.flags.writeable = right.flags.writeable = False
    check(left, right)
    np.testing.assert_array_equal(left, before[0])
    np.testing.assert_array_equal(right, before[1])


@pytest.mark.parametrize("token", ["float64", "float32"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_zero_references_are_left_out_of_relative_figures(token, share):
    rng = np.random.default_rng(3)
    right = np.where(rng.random(300) < share, 0.0, rng.standard_normal(300)).astype(
        dtype_from_token(token)
    )
    check((right + 0.01 * rng.standard_normal(300)).astype(dtype_from_token(token)), right)


@pytest.mark.parametrize("rtol", [0.0, 1e-3, 2.0])
@pytest.mark.parametrize("atol", [0.0, 1e-3, 2.0])
def test_every_tolerance(rtol, atol):
    left, right = typical("float32"), slightly_off(typical("float32"))
    check(left, right, rtol=rtol, atol=atol)


def test_the_tolerance_is_relative_to_the_right_side():
    assert figures_of([100.0], [101.0], rtol=0.00995, atol=0.0)["allclose"] is True
    assert figures_of([101.0], [100.0], rtol=0.00995, atol=0.0)["allclose"] is False


@given(
    hnp.arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)),
    hnp.arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)),
)
def test_the_smallest_passing_tolerance_passes_and_a_smaller_one_does_not(left, right):
    least = figures_of(left, right)["smallest_passing_tolerance"]
    assert figures_of(left, right, rtol=least, atol=least)["allclose"]
    if least > 1e-300:
        smaller = least * (1 - 1e-9)
        assert not figures_of(left, right, rtol=smaller, atol=smaller)["allclose"]


@pytest.mark.parametrize("position", [0, 1, 99, 149])
def test_the_largest_error_is_found_where_it_is(position):
    right = typical("float32")
    left = right.copy()
    left[position] += 100
    assert figures_of(left, right, block=40)["max_abs_index"] == position


def test_of_equal_largest_errors_the_first_counts_also_across_blocks():
    left = np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    assert figures_of(left, np.zeros(5), block=2)["max_abs_index"] == 1


def test_the_largest_error_is_found_among_infinities():
    left = np.array([INF, 0.0, NAN, 5.0, 1.0])
    got = check(left, np.zeros(5))
    assert got["max_abs_index"] == 3


# --- constants and correlation -------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.1, 1e-3, 12345.678, -7.7e100])
@pytest.mark.parametrize("n", [2, 1000, 70000])
def test_a_constant_side_has_no_correlation(value, n):
    # 0.1 is no binary fraction: the sums of its squares leave a rounding residue.
    other = np.random.default_rng(0).standard_normal(n)
    assert math.isnan(figures_of(np.full(n, value), other)["correlation"])
    assert math.isnan(figures_of(other, np.full(n, value))["correlation"])


def test_correlation_sees_through_a_common_offset():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(2000), rng.standard_normal(2000)
    got = figures_of(100 + a, 100 + b)
    assert got["cosine"] > 0.999
    # An offset of 100 costs 4 digits of the centred sums.
    assert got["correlation"] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-10)


@given(
    hnp.arrays(np.float64, st.integers(1, 64), elements=st.floats(-1e3, 1e3, width=32)),
    st.floats(0.125, 64.0),
)
def test_positive_scaling_changes_no_cosine(values, scale):
    got = figures_of(values, values * scale)["cosine"]
    if values.any():
        assert got == pytest.approx(1.0, abs=1e-12)


@given(hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e3, 1e3, width=32)))
def test_permuting_both_sides_changes_only_the_last_bits(values):
    order = np.random.default_rng(0).permutation(len(values))
    other = np.sin(values)
    got, permuted = figures_of(values, other), figures_of(values[order], other[order])
    for name in ("max_abs_index", "correlation"):  # a position; ill-conditioned for near-constants
        del got[name], permuted[name]
    for name, want in got.items():
        np.testing.assert_allclose(permuted[name], want, rtol=1e-12, atol=1e-12, err_msg=name)


# --- any values, any dtypes, any blocks ----------------------------------------------------------

ELEMENTS = {
    "float64": st.floats(width=64),
    "float32": st.floats(width=32),
    "float16": st.floats(width=16),
}


@st.composite
def two_arrays(draw):
    n = draw(st.integers(0, 40))
    sides = []
    for _ in range(2):
        token = draw(st.sampled_from([*ELEMENTS, "int64", "uint64", "int8", "bool"]))
        sides.append(draw(hnp.arrays(token, n, elements=ELEMENTS.get(token))))
    left, right = sides
    if draw(st.booleans()):  # often equal in most places
        with np.errstate(all="ignore"):
            right = np.where(np.arange(n) % 3 == 0, right, left.astype(right.dtype))
    return left, right


def rounded_if_mixed(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is documented of 64-bit integers against floats: they are rounded to float64."""
    if "f" in (left.dtype.kind, right.dtype.kind):
        return tuple(s.astype(np.float64) if s.dtype.kind in "iu" else s for s in (left, right))
    return left, right


def borderline(left: list, right: list) -> bool:
    """Whether rounding may decide if an element is close, or if a side is constant."""
    for x, y in zip(left, right, strict=True):
        if is_finite(x) and is_finite(y):
            error, limit = abs(Fraction(x) - Fraction(y)), Fraction(1e-4) * (1 + abs(Fraction(y)))
            if abs(error - limit) <= limit * Fraction(1, 10**12):
                return True
    return False


def correlation_is_uncertain(left: list, right: list) -> bool:
    """Whether a side is constant but for its last digits, or one value hides all others."""
    for side in (left, right):
        kept = [
            Fraction(x)
            for x, a, b in zip(side, left, right, strict=True)
            if is_finite(a) and is_finite(b)
        ]
        if not kept:
            return True
        mean = sum(kept) / len(kept)
        spread, square = sum((x - mean) ** 2 for x in kept), sum(x * x for x in kept)
        if spread <= square * Fraction(1, 10**2):
            return True
    return False


@settings(max_examples=3000 if LONG else 80)
@given(two_arrays(), st.integers(1, 50), st.booleans())
def test_any_two_arrays_in_any_blocks_equal_the_exact_figures(arrays, block, equal_nan):
    with np.errstate(all="ignore"):
        left, right = arrays
        wide = rounded_if_mixed(left, right)
    values = python_values(wide[0]), python_values(wide[1])
    if borderline(*values):
        return
    got = figures_of(left, right, block=block, equal_nan=equal_nan)
    expected = exact_figures(*values, equal_nan=equal_nan)
    if correlation_is_uncertain(*values):
        del got["correlation"], expected["correlation"]
    for name, want in expected.items():
        if name in EXACT:
            assert got[name] == want, name
        elif name.endswith("_mean"):
            finite = [abs(v) for v in values[name == "right_mean"] if is_finite(v)]
            atol = SUM_ERROR * max(finite, default=0.0)
            np.testing.assert_allclose(got[name], want, rtol=0, atol=atol, err_msg=name)
        elif name in ("mean_rel_error", "mape") and got["max_rel_error"] > 1e300:
            continue  # a sum of quotients that may leave float64's range: inf is documented
        elif name == "smallest_passing_tolerance" and want > 1e308:
            continue  # rounding it up leaves float64's range
        else:
            atol = 1e-12 if name in ("cosine", "correlation") else 1e-323
            np.testing.assert_allclose(got[name], want, rtol=1e-12, atol=atol, err_msg=name)
    partial = merge_tree(pair_blocks(left, right, block=block))
    assert partial.histogram.sum() == sum(exact_histogram(*values))


@settings(max_examples=1000 if LONG else 60)
@given(
    hnp.arrays(np.complex128, 12, elements=st.complex_numbers(max_magnitude=1e6)),
    hnp.arrays(np.complex128, 12, elements=st.complex_numbers(max_magnitude=1e6)),
)
def test_any_complex_arrays_equal_the_exact_figures(left, right):
    expected = exact_figures(left.tolist(), right.tolist())
    got = figures_of(left, right)
    for name in ("max_abs_error", "mean_abs_error", "rmse", "rel_l2_error", "left_l2", "right_max"):
        # hypot errs by an ulp where the exact modulus does not.
        np.testing.assert_allclose(got[name], expected[name], rtol=1e-13, atol=1e-300)
    # As of real numbers: the last bits hang on the processor's order of summing.
    np.testing.assert_allclose(got["cosine"], expected["cosine"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("token", EVERY)
@pytest.mark.parametrize("block", [1, 7, 64])
def test_the_histogram_counts_errors_by_their_power_of_two(token, block):
    left, right = typical(token), typical(token, seed=1)
    partial = merge_tree(pair_blocks(left, right, block=block))
    expected = exact_histogram(python_values(left), python_values(right))
    assert partial.histogram.tolist() == expected


def test_the_histogram_puts_what_is_outside_into_its_ends():
    left = np.array([1e-300, 1e300, 1.7e308, 0.0, NAN, INF])
    right = np.array([0.0, 0.0, -1.7e308, 0.0, 0.0, INF])
    histogram = pair_partial(left, right).histogram
    assert (histogram[0], histogram[-1], histogram.sum()) == (1, 2, 3)


# --- what is promised about the figures ----------------------------------------------------------

KINDS = {"bool": bool, "int64": int, "float64": float}


@pytest.mark.parametrize("token", EVERY)
def test_empty_tensors_have_the_documented_values(token):
    empty = np.zeros(0, dtype_from_token(token))
    got = figures_of(empty, empty)
    for name, column in PAIR_FIGURES.items():
        np.testing.assert_equal(got[name], column.of_empty, name)


@pytest.mark.parametrize(
    "arrays",
    [
        (np.zeros(0), np.zeros(0)),
        (np.ones(3), np.ones(3)),
        (np.ones(3, np.float32), np.zeros(3)),
        (np.array([NAN, INF]), np.array([1.0, INF])),
        (np.array([NAN]), np.array([NAN])),
        (np.array([True]), np.array([1], np.int8)),
        (np.array([1j]), np.array([2j])),
    ],
)
def test_figures_have_the_documented_names_and_types(arrays):
    got = figures_of(*arrays)
    kinds = {name: KINDS[one.dtype] for name, one in PAIR_FIGURES.items()}
    for side in ("left", "right"):
        kinds |= {f"{side}_{name}": KINDS[one.dtype] for name, one in STATISTICS.items()}
    assert {name: type(value) for name, value in got.items()} == kinds


def test_columns_of_figures_hold_those_of_each_pair():
    rng = np.random.default_rng(0)
    lefts, rights = [], []
    for i, token in enumerate(EVERY * 3):
        left, right = typical(token, seed=i), typical(token, seed=i + 1)
        if i % 4 == 1:
            left[:] = 0
        if i % 4 == 2 and token in FLOATS[:4]:
            right[rng.random(right.shape) < 0.5] = NAN
        lefts.append(left[: i % 7 * 9])
        rights.append(right[: i % 7 * 9])
    tolerance = {"rtol": 1e-4, "atol": 1e-4, "equal_nan": False}
    partials = pairwise.measure_many(lefts, rights, None, **tolerance)
    dtypes = [[values.dtype for values in side] for side in (lefts, rights)]
    columns = pairwise.figures_of(partials, *dtypes)
    documented = {name: one.dtype for name, one in PAIR_FIGURES.items()}
    for row, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        alone = figures_of(left, right)
        for name, column in columns.items():
            np.testing.assert_equal(column[row].item(), alone[name], name)
    for name, dtype in documented.items():
        assert columns[name].dtype == dtype, name


def test_every_figure_is_described():
    for name, column in (PAIR_FIGURES | STATISTICS).items():
        assert column.dtype in KINDS, name
        assert column.meaning, name
        assert column.of_empty is not None, name
        assert column.unit in (
            "",
            "share",
            "tensor",
            "percent",
            "elements",
            "flat index",
            "bits",
        ), name


def test_without_a_finite_pair_the_errors_are_not_numbers():
    got = figures_of([NAN, INF, 1.0], [1.0, 1.0, NAN])
    for name in (
        "cosine",
        "correlation",
        "rmse",
        "mape",
        "max_abs_error",
        "mean_abs_error",
        "max_rel_error",
        "mean_rel_error",
        "rel_l2_error",
    ):
        assert math.isnan(got[name]), name


def test_errors_relative_to_zeros_alone_are_not_numbers():
    got = figures_of([1.0, 2.0], [0.0, 0.0])
    assert math.isnan(got["max_rel_error"])
    assert math.isnan(got["mean_rel_error"])
    assert got["rel_l2_error"] == INF
    assert got["zero_reference_count"] == 2


@pytest.mark.parametrize(
    ("token", "left", "right"),
    [("bfloat16", 8, 8), ("float32", 24, 24), ("float8_e5m2", 3, 3), ("int8", 0, 0)],
)
def test_significand_bits_of_both_sides(token, left, right):
    got = figures_of(typical(token), typical(token, seed=1))
    assert (got["left_significand_bits"], got["right_significand_bits"]) == (left, right)


def test_bfloat16_stored_as_float32_shows_its_eight_bits():
    right = typical("float32")
    got = figures_of(right.astype(ml_dtypes.bfloat16).astype(np.float32), right)
    assert (got["left_significand_bits"], got["right_significand_bits"]) == (8, 24)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"), [((3,), (4,)), ((2, 2), (2, 2)), ((), ()), ((3,), (1,))]
)
def test_only_flat_blocks_of_one_length_are_compared(left, right):
    with pytest.raises(ValueError, match="needs equal flat lengths, got"):
        pair_partial(np.zeros(left), np.zeros(right))


@pytest.mark.parametrize("other", [np.array(["a"]), np.array([None]), np.zeros(1, "M8[s]")])
def test_values_without_numbers_are_refused(other):
    with pytest.raises(ValueError, match="cannot compare values of dtype"):
        pair_partial(np.zeros(1), other)
    with pytest.raises(ValueError, match="cannot compare values of dtype"):
        pair_partial(other, np.zeros(1))


# --- the old tool's cases ------------------------------------------------------------------------


def array_of(stored) -> np.ndarray | None:
    if stored is None:
        return None
    values = np.array(stored["data"], dtype=object)
    if stored["dtype"].startswith(("float", "complex")):
        values = values.astype(float)
    return values.astype(dtype_from_token(stored["dtype"])).reshape(stored["shape"])


COMPARABLE = [
    case
    for case in CASES
    if case["orig"] and case["target"] and case["orig"]["shape"] == case["target"]["shape"]
]


def figures_of_case(name: str) -> dict[str, float]:
    case = next(case for case in CASES if case["name"] == name)
    return figures_of(array_of(case["orig"]), array_of(case["target"]))


@pytest.mark.parametrize("case", COMPARABLE, ids=lambda case: case["name"])
def test_the_old_tools_cases_have_exact_figures(case):
    left, right = array_of(case["orig"]), array_of(case["target"])
    tolerance = {name: case[name] for name in ("rtol", "atol", "equal_nan")}
    values = python_values(left), python_values(right)
    got = figures_of(left, right, **tolerance)
    expected = exact_figures(*values, **tolerance)
    for name, want in expected.items():
        atol = 1e-15 if name in ("cosine", "correlation") else 0
        np.testing.assert_allclose(got[name], want, rtol=1e-14, atol=atol, err_msg=name)


def test_all_38_cases_are_there_and_six_have_nothing_to_measure():
    assert (len(CASES), len(CASES) - len(COMPARABLE)) == (38, 6)


@pytest.mark.parametrize("case", COMPARABLE, ids=lambda case: case["name"])
def test_closeness_differs_from_the_old_tool_only_where_it_rounds(case):
    left, right = array_of(case["orig"]), array_of(case["target"])
    got = figures_of(left, right, rtol=case["rtol"], atol=case["atol"], equal_nan=case["equal_nan"])
    assert got["allclose"] is case["peer_result"]
    assert got["allclose_ratio"] == case["peer_ratio"]


def test_a_float16_dot_product_does_not_overflow():
    got = figures_of_case("float16_dot_overflow")
    assert got["cosine"] == pytest.approx(1.0, abs=1e-15)
    assert got["max_abs_error"] == 1.0


def test_a_float16_difference_does_not_overflow():
    got = figures_of_case("float16_overflow")
    assert (got["cosine"], got["max_abs_error"]) == (-1.0, 120000.0)


def test_a_float32_difference_does_not_overflow():
    got = figures_of_case("float32_max")
    assert got["cosine"] == -1.0
    assert got["max_abs_error"] == 2 * float(np.float32(3e38))


def test_integers_beyond_float64_differ_by_one():
    got = figures_of_case("int64_beyond_2_53")
    assert (got["max_abs_error"], got["unequal_count"], got["identical"]) == (1.0, 1, False)


def test_imaginary_parts_count():
    got = figures_of([1 + 1j], [1 + 2j])
    assert (got["max_abs_error"], got["allclose"]) == (1.0, False)


def test_the_mean_is_over_all_elements_and_the_unequal_ones_are_counted():
    got = figures_of_case("mean_over_unequal_only")
    assert (got["mean_abs_error"], got["unequal_count"]) == (0.25, 1)


def test_one_nan_is_counted_and_the_rest_measured():
    got = figures_of_case("nan_one_side")
    assert (got["nan_mismatch_count"], got["max_abs_error"], got["cosine"]) == (1, 0.0, 1.0)


def test_the_planted_fault_of_a_batch_norm_is_measured():
    right = np.load(DATA / "batch_norm_torch.npy")
    got = check(np.load(DATA / "batch_norm_fault.npy"), right)
    # The issue tracker's figures, to the five digits they have.
    assert got["mean_abs_error"] == pytest.approx(0.14627, abs=1e-5)
    assert got["max_abs_error"] == pytest.approx(0.49623, abs=1e-5)
    assert got["allclose_ratio"] == pytest.approx(0.0078125)
    assert got["cosine"] == pytest.approx(0.998590, abs=1e-6)
    assert got["unequal_count"] == right.size


# --- memory --------------------------------------------------------------------------------------


def peak_memory(left: np.ndarray, right: np.ndarray) -> int:
    """Bytes allocated at once while two tensors are measured block by block."""
    tracemalloc.start()
    try:
        figures_of(left, right)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("token", "times"), [("float32", 3), ("int8", 10)])
def test_extra_memory_is_a_few_blocks(token, times):
    rng = np.random.default_rng(0)
    left = rng.integers(-100, 100, (32, 16, 64, 128)).astype(dtype_from_token(token))
    right = left + rng.integers(0, 2, left.shape).astype(dtype_from_token(token))
    # The old tool took 11.8 and 73 times the tensor; the promise is 3 and 10.
    peak = peak_memory(left, right)
    assert peak < times * left.nbytes
    assert peak < 12 * 8 * FIGURES_BLOCK


def test_extra_memory_does_not_grow_with_the_tensor():
    rng = np.random.default_rng(0)
    peaks = []
    for blocks in (2, 8):
        left = rng.standard_normal(blocks * FIGURES_BLOCK, np.float32)
        peaks.append(peak_memory(left, left + np.float32(1e-5)))
    assert peaks[1] < 1.1 * peaks[0]


def test_nan_and_zeros_everywhere_take_no_more_than_some_blocks_either():
    rng = np.random.default_rng(0)
    left = rng.standard_normal(4 * FIGURES_BLOCK)
    left[rng.random(len(left)) < 0.3] = NAN
    right = np.where(rng.random(len(left)) < 0.3, 0.0, left)
    assert peak_memory(left, right) < 24 * 8 * FIGURES_BLOCK
