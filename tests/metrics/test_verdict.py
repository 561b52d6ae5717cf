"""The truth table, on figures of real arrays that have one known fault."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.metrics.blocks import pair_blocks
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.pairwise import figures_of, measure_many, pair_figures
from troubleshooter_nb.metrics.partial import merge_tree
from troubleshooter_nb.metrics.verdict import (
    TRUTH_TABLE,
    Tolerance,
    Verdict,
    expected_missing,
    fill_of,
    is_unrelated,
    judge,
    judge_all,
    judge_fingerprints,
    judge_statistics,
    narrower_format,
    verdict,
)
from troubleshooter_nb.thresholds import FIGURES_BLOCK

NAN, INF = math.nan, math.inf
STRICT = Tolerance(0.0, 0.0)
SEEDS = range(5)


def judged(left, right, tolerance: Tolerance = STRICT, *, length: int | None = None) -> Verdict:
    left, right = np.asarray(left), np.asarray(right)
    options = {"rtol": tolerance.rtol, "atol": tolerance.atol, "equal_nan": tolerance.equal_nan}
    figures = pair_figures(
        merge_tree(pair_blocks(left, right, block=FIGURES_BLOCK, **options)),
        left.dtype,
        right.dtype,
    )
    return judge(figures, tolerance, left.dtype, right.dtype, size=left.size, length=length)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """float32 values rounded to nearest, ties to even, to that many significand bits."""
    shift = 24 - bits
    raw = values.view(np.uint32).astype(np.uint64)
    raw += (1 << (shift - 1)) - 1 + ((raw >> shift) & 1)
    return (raw >> shift << shift).astype(np.uint32).view(np.float32)


def truncated(values: np.ndarray, bits: int) -> np.ndarray:
    """float32 values cut off after that many significand bits, as some bfloat16 casts do."""
    shift = 24 - bits
    return (values.view(np.uint32) >> shift << shift).view(np.float32)


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Matrix product of float32 matrices, rounded once."""
    return (left.astype(np.float64) @ right.astype(np.float64)).astype(np.float32)


def erf(values: np.ndarray) -> np.ndarray:
    return np.array([math.erf(x) for x in values.ravel()]).reshape(values.shape)


def exact_gelu(values: np.ndarray) -> np.ndarray:
    return (values * (1 + erf(values.astype(np.float64) / math.sqrt(2))) / 2).astype(np.float32)


def tanh_gelu(values: np.ndarray) -> np.ndarray:
    wide = values.astype(np.float64)
    inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    return (wide * (1 + np.tanh(inner)) / 2).astype(np.float32)


def test_rounded_is_what_ml_dtypes_does_for_bfloat16():
    values = normal(5000)
    expected = values.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(rounded(values, 8), expected)


# --- the table -----------------------------------------------------------------------------------


def test_the_table_says_which_verdicts_pass():
    passing = [name for name, (passed, _) in TRUTH_TABLE.items() if passed]
    assert passing == [
        *("identical", "pass", "rounding", "padded", "grown_rounding", "no_effect"),
    ]
    assert list(TRUTH_TABLE) == [
        "identical",
        "pass",
        "rounding",
        "padded",
        "grown_rounding",
        "no_effect",
        "reduced",
        "differs",
        "unrelated",
        "nan",
        "shape",
        "missing",
        "unreadable",
        "undecidable",
    ]


@pytest.mark.parametrize("name", TRUTH_TABLE)
def test_a_verdict_carries_the_passed_of_the_table(name):
    assert verdict(name, "why", "detail") == Verdict(name, TRUTH_TABLE[name][0], "why", "detail")


def test_an_expected_missing_partner_passes():
    assert expected_missing() == Verdict("missing", True, "missing_expected")
    assert not verdict("missing", "missing_left").passed


# --- identical, pass -----------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_equal_bits_are_identical(token):
    values = np.arange(10).astype(token)
    assert judged(values, values.copy()) == Verdict("identical", True, "", "")


def test_empty_tensors_are_identical():
    assert judged(np.zeros(0), np.zeros(0)).name == "identical"


def test_equal_bits_with_nan_are_identical_and_say_so():
    values = np.array([1.0, NAN, INF])
    assert judged(values, values.copy()) == Verdict("identical", True, "identical_nonfinite")


def test_signed_zeros_pass_without_being_identical():
    assert judged(np.array([0.0, 1.0]), np.array([-0.0, 1.0])) == Verdict("pass", True)


def test_within_the_tolerance_passes():
    right = normal(1000)
    assert judged(right + np.float32(5e-5), right, Tolerance()) == Verdict("pass", True)


def test_equal_values_of_other_dtypes_pass_with_a_note():
    right = np.arange(10, dtype=np.float32)
    assert judged(right.astype(np.float64), right) == Verdict("pass", True, "pass_dtypes")


def test_another_byte_order_is_no_other_dtype():
    right = normal(100)
    left = (right + np.float32(5e-5)).astype(">f4")
    assert judged(left, right, Tolerance()) == Verdict("pass", True)
    assert judged(right.astype(">f4"), right).name == "identical"


def test_a_tensor_below_atol_passes_blindly():
    right = np.float32(1e-6) * normal(1000)
    assert judged(-right, right, Tolerance()) == Verdict("pass", True, "pass_blind")
    assert judged(np.zeros_like(right), right, Tolerance()).reason == "pass_blind"
    assert judged(right, np.zeros_like(right), Tolerance()).reason == "pass_blind"


def test_a_tensor_below_atol_that_agrees_passes_with_open_eyes():
    right = np.float32(1e-6) * normal(1000)
    assert judged(right * np.float32(1.00005), right, Tolerance()) == Verdict("pass", True)
    assert judged(right * np.float32(1.0000001), right, Tolerance()) == Verdict("pass", True)


def test_one_large_value_does_not_hide_that_atol_decides():
    right = np.float32(1e-3) * normal(1000)
    right[0] = 1.0
    assert judged(right + np.float32(9e-5), right, Tolerance()).reason == "pass_blind"


def test_a_tensor_whose_values_agree_relative_to_their_size_is_not_blind():
    right = normal(1000)
    assert judged(right + np.float32(9e-5), right, Tolerance()) == Verdict("pass", True)


@pytest.mark.parametrize("token", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "float16"])
def test_a_scaled_or_zeroed_narrow_tensor_is_not_rounding(token):
    right = normal(5000).astype(dtype_from_token(token))
    for left in (right.astype(np.float32) * np.float32(0.6), np.zeros(5000, np.float32)):
        assert not judged(left.astype(right.dtype), right).passed


def test_a_small_scale_of_float32_is_not_rounding():
    right = normal(5000)
    assert judged(right * np.float32(1 + 8e-6), right).name == "differs"


# --- rounding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [None, 512])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_another_order_of_summation_is_rounding(scale, length):
    left, right = normal(64, 512), np.float32(scale) * normal(512, 64, seed=1)
    forward = np.zeros((64, 64), np.float32)
    for k in range(512):
        forward += left[:, k : k + 1] * right[k]
    assert judged(forward, product(left, right), length=length) == Verdict(
        "rounding", True, "rounding"
    )


@pytest.mark.parametrize("token", ["float16", "bfloat16"])
def test_one_ulp_in_a_narrow_dtype_is_rounding(token):
    exact = normal(5000)
    right = exact.astype(token)
    left = (exact * np.float32(1 + 1e-3 / 8)).astype(token)  # falls to the other neighbour at times
    assert judged(left, right).name == "rounding"


def test_a_few_flipped_values_in_a_narrow_dtype_are_rounding():
    right = normal(100_000).astype(ml_dtypes.bfloat16)
    left = right.copy()
    left.view(np.uint16)[[5, 70_000]] += 1
    assert judged(left, right).name == "rounding"


def test_a_narrow_output_against_a_wide_one_is_rounding():
    right = normal(5000)
    assert judged(right.astype(np.float16), right).name == "rounding"


def test_integers_never_round():
    right = np.arange(1_000_000_000, 1_000_001_000)
    left = right.copy()
    left[500] += 1
    assert judged(left, right).name == "differs"


@pytest.mark.parametrize("size", [0.002, 0.01, 0.1, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_outlier_in_rounding_noise_differs(size, seed):
    right = np.float32(100) * normal(100_000, seed=seed)
    noise = np.float32(2e-7) * right * normal(100_000, seed=seed + 100)
    assert judged(right + noise, right).name == "rounding"
    left = right + noise
    left[np.random.default_rng(seed).integers(left.size)] += np.float32(size * 2)
    # 0.004 is a hundred times the largest noise, and 1e-5 of the largest value.
    assert judged(left, right, Tolerance(1e-6, 1e-4)).name == "differs"


# --- reduced -------------------------------------------------------------------------------------

FORMATS = {"bfloat16": 8, "float16/tf32": 11, "hf32": 12}


@pytest.mark.parametrize(("name", "bits"), FORMATS.items())
@pytest.mark.parametrize("seed", SEEDS)
def test_values_stored_in_a_narrower_format_are_reduced(name, bits, seed):
    right = normal(1000, seed=seed)
    assert judged(rounded(right, bits), right) == Verdict("reduced", False, "reduced", name)
    assert judged(right, rounded(right, bits)) == Verdict("reduced", False, "reduced", name)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_cut_off_to_bfloat16_are_reduced(seed):
    right = normal(1000, seed=seed)
    assert judged(truncated(right, 8), right).detail == "bfloat16"


@pytest.mark.parametrize(("name", "bits"), FORMATS.items())
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_product_of_rounded_matrices_is_reduced(name, bits, relu, seed):
    left, right = normal(100, 256, seed=seed), normal(256, 100, seed=seed + 50)
    if relu:
        left = np.maximum(left, 0)
    narrow = product(rounded(left, bits), rounded(right, bits))
    assert judged(narrow, product(left, right)) == Verdict("reduced", False, "reduced", name)


def test_a_float64_computation_in_float32_is_reduced_to_no_listed_format():
    right = np.random.default_rng(0).standard_normal(1000)
    left = right.astype(np.float32).astype(np.float64)
    assert judged(left, right).name == "differs"


@pytest.mark.parametrize("token", ["float16", "bfloat16"])
def test_a_narrow_dtype_is_not_reduced_to_itself(token):
    right = normal(1000).astype(token)
    left = (right.astype(np.float32) * (1 + 0.2 * normal(1000, seed=1))).astype(token)
    assert judged(left, right).name == "differs"


@pytest.mark.parametrize("size", [1, 16, 63])
def test_few_values_show_no_pattern(size):
    right = normal(size)
    assert judged(rounded(right, 8), right).name == "differs"


# --- differs: what must not be taken for rounding ------------------------------------------------


@pytest.mark.parametrize("factor", [1.0005, 0.9995, 1.002, 1.01])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_scaled_copy_differs(factor, seed):
    right = normal(1000, seed=seed)
    assert judged(right * np.float32(factor), right).name == "differs"


@pytest.mark.parametrize("factor", [1.0002, 1.0005, 1.002, 1.004, 1.01])
def test_a_scaled_copy_of_round_numbers_differs(factor):
    # Whole numbers fit every narrow format; scaled they do not.
    whole = np.rint(20 * normal(1000))
    scaled = whole * np.float32(factor)
    assert judged(scaled, whole).name == "differs"
    assert judged(whole, scaled).name == "differs"


@pytest.mark.parametrize("offset", [1e-4, 5e-4, 2e-3, 1e-2])
def test_a_shifted_copy_differs(offset):
    right = normal(1000)
    assert judged(right + np.float32(offset), right).name == "differs"


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_tanh_gelu_against_the_exact_one_differs(scale, seed):
    values = np.float32(scale) * normal(5000, seed=seed)
    assert judged(tanh_gelu(values), exact_gelu(values)).name == "differs"
    assert judged(exact_gelu(values), tanh_gelu(values)).name == "differs"


@pytest.mark.parametrize("scale", [0.1, 0.01])
def test_another_layer_norm_epsilon_differs(scale):
    values = scale * np.random.default_rng(0).standard_normal((100, 64))
    centred = values - values.mean(1, keepdims=True)
    left, right = (
        (centred / np.sqrt(values.var(1, keepdims=True) + eps)).astype(np.float32)
        for eps in (1e-5, 1e-7)
    )
    assert judged(left, right).name == "differs"


def test_a_clipped_tensor_differs():
    right = normal(5000)
    assert judged(np.minimum(right, np.float32(2)), right).name == "differs"


def test_one_swapped_row_differs():
    right = normal(100, 64)
    left = right.copy()
    left[[3, 4]] = right[[4, 3]]
    assert judged(left, right).name == "differs"


def test_a_zero_tensor_against_values_differs():
    right = normal(1000)
    assert judged(np.zeros_like(right), right).name == "differs"
    assert judged(right, np.zeros_like(right)).name == "differs"


@given(
    hnp.arrays(np.float32, st.integers(1, 80), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.integers(0, 1000),
)
def test_every_pair_gets_a_verdict_and_a_reason(values, seed):
    other = np.random.default_rng(seed).permutation(values)
    got = judged(other, values, Tolerance())
    assert got.passed == TRUTH_TABLE[got.name][0]
    assert got.reason or got.name in ("identical", "pass")


# --- unrelated -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [256, 1000, 100_000])
@pytest.mark.parametrize("seed", SEEDS)
def test_independent_tensors_are_unrelated(size, seed):
    got = judged(normal(size, seed=seed), normal(size, seed=seed + 1000))
    assert got == Verdict("unrelated", False, "unrelated")


def test_independent_rectified_tensors_are_unrelated():
    # Their cosine is 0.3: positive values correlate only around their means.
    left, right = (np.maximum(normal(5000, seed=seed), 0) for seed in (0, 1))
    assert judged(left, right).name == "unrelated"


def test_independent_complex_tensors_are_unrelated():
    a, b = (normal(2, 5000, seed=seed) for seed in (0, 1))
    assert judged(a[0] + 1j * a[1], b[0] + 1j * b[1]).name == "unrelated"


def test_a_permuted_tensor_is_unrelated():
    right = normal(5000)
    assert judged(np.random.default_rng(0).permutation(right), right).name == "unrelated"


@pytest.mark.parametrize("size", [16, 25, 64, 1000])
@pytest.mark.parametrize("factor", [-1.0, 3.0, 0.2])
def test_a_tensor_that_follows_another_is_related(size, factor):
    right = normal(size)
    left = np.float32(factor) * right + np.float32(0.3) * normal(size, seed=1)
    assert judged(left, right).name == "differs"


def test_fewer_than_16_values_are_never_unrelated():
    got = {judged(normal(15, seed=s), normal(15, seed=s + 100)).name for s in range(50)}
    assert got == {"differs"}


def test_a_constant_tensor_is_not_unrelated():
    assert judged(np.ones(1000, np.float32), normal(1000)).name == "differs"


# --- nan -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([NAN, 1.0], [1.0, 1.0]),
        ([1.0, 1.0], [NAN, 1.0]),
        ([INF, 1.0], [1.0, 1.0]),
        ([INF, 1.0], [-INF, 1.0]),
        ([NAN, 1.0], [INF, 1.0]),
    ],
)
@pytest.mark.parametrize("equal_nan", [False, True])
def test_nan_and_inf_at_other_places_are_nan(left, right, equal_nan):
    got = judged(left, right, Tolerance(1.0, 1.0, equal_nan))
    assert got == Verdict("nan", False, "nan_mismatch")


def test_nan_shared_by_both_sides_is_nan_unless_they_are_equal():
    left, right = np.array([NAN, 1.0]), np.array([NAN, 1.00001])
    assert judged(left, right, Tolerance()) == Verdict("nan", False, "nan_shared")
    assert judged(left, right, Tolerance(equal_nan=True)).name == "pass"


def test_infinities_shared_by_both_sides_do_not_hide_the_rest():
    left, right = np.array([INF, 1.0]), np.array([INF, 1.00001])
    assert judged(left, right, Tolerance()).name == "pass"
    assert judged(np.array([INF, 1.0]), np.array([INF, 2.0]), Tolerance()).name == "differs"


def test_nothing_but_nan_passes_when_nan_are_equal():
    left = np.array([0x7FC00000] * 4, np.uint32).view(np.float32)
    right = np.array([0x7FC00001] * 4, np.uint32).view(np.float32)
    assert judged(left, right, Tolerance(equal_nan=True)).name == "pass"
    assert judged(left, right).name == "nan"


# --- statistics ----------------------------------------------------------------------------------


def statistics(values: np.ndarray) -> dict[str, float]:
    wide = values.astype(np.float64)
    return {
        "min": wide.min(),
        "max": wide.max(),
        "mean": wide.mean(),
        "l2": np.sqrt((wide * wide).sum()),
        "nan_count": 0,
    }


def test_equal_statistics_decide_nothing():
    values = normal(1000)
    got = judge_statistics(statistics(values), statistics(values), Tolerance(), size=1000)
    assert got == Verdict("undecidable", False, "undecidable")


@pytest.mark.parametrize("name", ["min", "max", "mean", "l2"])
def test_a_statistic_beyond_the_tolerance_refutes(name):
    right = statistics(normal(1000))
    left = right | {name: right[name] + 1.0}
    got = judge_statistics(left, right, Tolerance(), size=1000)
    assert got == Verdict("differs", False, "statistics_differ", name)


@pytest.mark.parametrize("name", ["nan_count", "inf_count"])
def test_other_counts_of_nan_or_inf_are_nan(name):
    word = {"nan_count": "NaN", "inf_count": "Inf"}[name]
    for left, right, reason, detail in (
        (1, 0, "statistics_only_left", word),
        (0, 3, "statistics_only_right", word),
        (4, 3, "statistics_counts", f"4 {word} / 3 {word}"),
    ):
        got = judge_statistics({name: left}, {name: right}, Tolerance(), size=10)
        assert got == Verdict("nan", False, reason, detail)


def test_a_recorded_count_of_one_may_be_any_number():
    got = judge_statistics({"nan_count": 1}, {"nan_count": 7}, Tolerance(), size=10)
    assert got.name == "undecidable"


@pytest.mark.parametrize("missing", [{}, {"max": NAN, "nan_count": NAN, "inf_count": -1}])
def test_what_a_side_does_not_know_is_not_compared(missing):
    known = {"max": 5.0, "nan_count": 3, "inf_count": 3}
    assert judge_statistics(known, missing, STRICT, size=10).name == "undecidable"
    assert judge_statistics(missing, known, STRICT, size=10).name == "undecidable"


@pytest.mark.parametrize("rtol", [0.0, 1e-4])
def test_an_infinite_statistic_refutes_from_either_side(rtol):
    for left, right in ((INF, 1.0), (1.0, INF), (INF, -INF)):
        got = judge_statistics({"max": left}, {"max": right}, Tolerance(rtol, 0.0), size=10)
        assert got.name == "differs"
    got = judge_statistics({"max": INF}, {"max": INF}, Tolerance(rtol, 0.0), size=10)
    assert got.name == "undecidable"


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [((1.0, INF), (-INF, 3.0), "+Inf / -Inf"), ((-INF, INF), (1.0, INF), "-Inf, +Inf / +Inf")],
)
def test_infinities_of_opposite_sign_are_called_so(left, right, said):
    sides = [{"min": low, "max": high, "inf_count": 1} for low, high in (left, right)]
    got = judge_statistics(*sides, Tolerance(), size=10)
    assert got == Verdict("nan", False, "statistics_opposite", said)


def test_a_statistic_over_finite_values_is_not_held_against_one_over_all():
    computed = {"min": 1.0, "max": 3.0, "mean": 2.0, "l2": 5.0, "nan_count": 0, "inf_count": 1}
    recorded = {"min": -INF, "max": 3.0, "mean": -INF, "l2": INF, "inf_count": 1}
    for sides in ((computed, recorded), (recorded, computed)):
        got = judge_statistics(*sides, Tolerance(), size=10)
        assert got == Verdict("undecidable", False, "statistics_both", "Inf")


def test_a_norm_that_ran_over_in_the_tool_refutes_nothing():
    """Case 10: the norm of finite float16 values was recorded as infinite."""
    finite = {"min": -3e4, "max": 6e4, "mean": 1e4}
    for sides in ((INF, 1.2e5), (1.2e5, INF)):
        got = judge_statistics(*(finite | {"l2": l2} for l2 in sides), Tolerance(), size=10)
        assert got.name == "undecidable"


def test_nan_on_both_sides_is_said_and_decides_nothing():
    side = {"min": NAN, "max": NAN, "nan_count": 1}
    got = judge_statistics(side, side, Tolerance(), size=10)
    assert got == Verdict("undecidable", False, "statistics_both", "NaN")
    # Every element is NaN: equal wherever they are.
    got = judge_statistics(side, side, Tolerance(equal_nan=True), size=1)
    assert got == Verdict("pass", True, "statistics_all_nan")
    assert judge_statistics(side, side, Tolerance(equal_nan=True), size=2).name == "undecidable"


@pytest.mark.parametrize(
    ("dtype", "off", "expected"),
    [
        # Rounding once to float16 is 2**-11 = 4.9e-4 of a value, to bfloat16 3.9e-3.
        ("float16", 4e-4, "undecidable"),
        ("float16", 2e-2, "differs"),
        ("bfloat16", 3e-3, "undecidable"),
        ("bfloat16", 2e-1, "differs"),
        ("float32", 4e-4, "differs"),
        ("int32", 4e-4, "differs"),
        ("bool", 4e-4, "differs"),
    ],
)
@pytest.mark.parametrize("name", ["min", "max", "mean", "l2"])
def test_what_rounding_in_the_dtype_explains_refutes_nothing(dtype, off, expected, name):
    right = {"min": -4.0, "max": 4.0, "mean": 1.0, "l2": 64.0, "nan_count": 0, "inf_count": 0}
    left = right | {name: right[name] * (1 + off)}
    stored = dtype_from_token(dtype)
    # 4,096 values of norm 64 are of size 1.
    got = judge_statistics(left, right, STRICT, size=4096, dtypes=(stored, stored))
    assert got.name == expected
    assert judge_statistics(left, right, STRICT, size=4096).name == "differs"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
def test_statistics_of_values_rounded_on_one_side_are_never_refuted(dtype, size):
    stored = dtype_from_token(dtype)
    right = normal(size)
    rounded = right.astype(stored).astype(np.float32)
    sides = [statistics(values) for values in (rounded, right)]
    for both in (sides, sides[::-1]):
        got = judge_statistics(*both, STRICT, size=size, dtypes=(stored, np.dtype(np.float32)))
        assert got.name == "undecidable"


@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e4, 1e4)),
    st.floats(0, 0.1),
    st.floats(0, 10),
    st.integers(0, 100),
)
def test_elements_within_the_tolerance_are_never_refuted(right, rtol, atol, seed):
    rng = np.random.default_rng(seed)
    # 1 % inside, so that rounding of the statistics themselves does not matter.
    off = 0.99 * rng.choice([-1, 1], len(right)) * (atol + rtol * np.abs(right))
    got = judge_statistics(
        statistics(right + off), statistics(right), Tolerance(rtol, atol + 1e-9), size=len(right)
    )
    assert got.name == "undecidable"


# --- tolerance -----------------------------------------------------------------------------------


def test_the_default_tolerance_is_that_of_the_old_tool():
    assert Tolerance() == Tolerance(1e-4, 1e-4, False)


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [-1e-9, NAN, INF, -INF])
def test_a_tolerance_is_finite_and_not_negative(name, value):
    with pytest.raises(ValueError, match=f"{name} must be finite and 0 or larger, got"):
        Tolerance(**{name: value})


@pytest.mark.parametrize("name", ["rtol", "atol"])
@pytest.mark.parametrize("value", [True, "1e-4", None, 1j])
def test_a_tolerance_is_a_number(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a number, got"):
        Tolerance(**{name: value})


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_every_kind_of_real_number_is_a_tolerance(value):
    assert Tolerance(rtol=value, atol=value).rtol == value


# --- the two questions asked on the way ----------------------------------------------------------


def test_unrelated_asks_for_a_large_error_too():
    figures = {"rel_l2_error": 0.4, "correlation": 0.0}
    assert not is_unrelated(figures, 1000)
    assert is_unrelated(figures | {"rel_l2_error": 1.4}, 1000)


def test_unknown_correlation_is_no_proof():
    assert not is_unrelated({"rel_l2_error": 1.4, "correlation": NAN}, 1000)


def test_integers_have_no_narrower_format():
    right = np.arange(1000)
    figures = pair_figures(
        merge_tree(pair_blocks(right + 1, right, block=FIGURES_BLOCK)), right.dtype, right.dtype
    )
    assert narrower_format(figures, right.dtype, right.dtype, 1000) == ""


# One of each verdict and reason that `judge` can give, whatever the dtype allows.
def _pairs(rng: np.random.Generator, dtype: str) -> list[tuple[np.ndarray, np.ndarray]]:
    kind = dtype_from_token(dtype)
    right = (rng.standard_normal(300) * 40).astype(kind)
    pairs = [(right.copy(), right)]
    for size in (1e-7, 1e-5, 3e-4, 1e-2, 1.0):
        noise = 1 + size * rng.standard_normal(300)
        pairs.append(((right.astype(float) * noise).astype(kind), right))
    pairs.append(((right.astype(float) + 1).astype(kind), right))
    pairs.append(((rng.standard_normal(300) * 40).astype(kind), right))
    pairs.append((right.astype(np.float64), right))
    pairs.append(((right.astype(float) * 1e-7).astype(kind), (right * 0).astype(kind)))
    pairs.append((right[:0], right[:0]))
    if np.issubdtype(kind, np.floating) or kind == dtype_from_token("bfloat16"):
        for left_hole, right_hole in ((NAN, NAN), (INF, INF), (NAN, 1.0), (INF, -INF)):
            holed = right.copy(), right.copy()
            holed[0][7], holed[1][7] = left_hole, right_hole
            pairs += [holed, ((holed[0].astype(float) * 1.0000001).astype(kind), holed[1])]
        pairs.append((np.full(4, NAN, kind), np.full(4, NAN, kind)))
    return pairs


@settings(max_examples=16)
@given(
    st.sampled_from([(0.0, 0.0), (1e-4, 1e-4), (1e-6, 10.0), (1e-1, 0.0)]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_verdicts_by_columns_are_those_of_judge_row_by_row(allowed, equal_nan, seed):
    rng = np.random.default_rng(seed)
    tolerance = Tolerance(*allowed, equal_nan)
    dtypes = ("float32", "float64", "float16", "bfloat16", "int32")
    pairs = [pair for dtype in dtypes for pair in _pairs(rng, dtype)]
    chosen = [pairs[k] for k in rng.permutation(len(pairs))]
    options = {"rtol": allowed[0], "atol": allowed[1], "equal_nan": equal_nan}
    lefts, rights = zip(*chosen, strict=True)
    own = [[values.dtype for values in side] for side in (lefts, rights)]
    figures = figures_of(measure_many(lefts, rights, None, **options), *own)
    found = judge_all(figures, tolerance, *own, np.array([len(left) for left in lefts]))
    told = zip(found.name, found.passed, found.reason, found.detail, strict=True)
    expected = [judged(left, right, tolerance) for left, right in chosen]
    assert [*told] == [(one.name, one.passed, one.reason, one.detail) for one in expected]


def test_no_pairs_have_no_verdicts():
    none = figures_of(measure_many([], [], None, rtol=0.0, atol=0.0, equal_nan=False), [], [])
    assert len(judge_all(none, STRICT, [], [], np.zeros(0, np.int64)).name) == 0


@pytest.mark.parametrize(
    ("apart", "expected"),
    [
        (0.0, "pass"),
        (1e-3, "pass"),  # below 1e-4 * 100 / 6.5
        (5e-3, "undecidable"),
        (2e-2, "undecidable"),  # elements within atol may make 1e-4 * sqrt(10_000) of it
        (6e-2, "differs"),  # above 2.5 * (1e-2 + 1e-2)
        (math.inf, "differs"),
    ],
)
def test_fingerprints_decide_where_statistics_agree(apart, expected):
    floats = np.dtype(np.float32), np.dtype(np.float32)
    got = judge_fingerprints(apart, 100.0, Tolerance(), size=10_000, dtypes=floats)
    assert got.name == expected


def test_fingerprints_of_integers_are_exact():
    integers = np.dtype(np.int64), np.dtype(np.int64)
    assert judge_fingerprints(0.0, 5.0, Tolerance(), size=4, dtypes=integers).name == "pass"
    assert judge_fingerprints(1.0, 5.0, Tolerance(), size=4, dtypes=integers).name == "differs"


@pytest.mark.parametrize(
    ("apart", "dtype", "expected"),
    [
        (1e-6, "float32", ("pass", "fingerprints_agree")),
        (1e-4, "float16", ("rounding", "fingerprints_rounding")),
        (1.2e-5, "float32", ("undecidable", "fingerprints_between")),
        (1e-1, "float32", ("differs", "fingerprints_differ")),
    ],
)
def test_a_distance_by_fingerprints_is_judged(apart, dtype, expected):
    dtypes = (np.dtype(dtype),) * 2
    tolerance = Tolerance(rtol=1e-5, atol=1e-9)
    found = judge_fingerprints(apart, 1.0, tolerance, size=1000, dtypes=dtypes)
    assert (found.name, found.reason) == expected


FILLS = [-1e9, -1e4, float(np.finfo(np.float32).min), 1e9]


@pytest.mark.parametrize("fill", FILLS)
def test_no_error_hides_beside_a_fill(fill):
    scores = np.random.default_rng(0).standard_normal((8, 64, 64)).astype(np.float32)
    masked = np.triu(np.ones((64, 64), bool), 1)
    right = np.where(masked, np.float32(fill), scores)
    usual = Tolerance()
    # Of other rows every score is wrong; rounding of each is rounding.
    for wrong in (scores[:, ::-1], scores + np.float32(0.01), scores * np.float32(1.01)):
        found = judged(np.where(masked, np.float32(fill), wrong), right, usual)
        assert (found.name, found.passed) == ("differs", False), found
    noise = np.random.default_rng(1).standard_normal(scores.shape)
    for apart in (1e-7, 1e-6):
        made = (scores * (1 + apart * noise)).astype(np.float32)
        found = judged(np.where(masked, np.float32(fill), made), right, Tolerance(1e-8, 1e-8))
        assert found.name == "rounding", found


def test_fingerprints_say_nothing_beside_a_fill():
    float32 = (np.dtype(np.float32),) * 2
    options = {"size": 1000, "dtypes": float32, "has_fill": True}
    found = judge_fingerprints(3.0, 1e10, Tolerance(), **options)
    assert (found.name, found.reason) == ("undecidable", "fingerprints_fill")
    assert judge_fingerprints(1e-6, 1e10, Tolerance(), **options).passed


def test_large_values_of_a_network_are_no_fill():
    values = {"min": -1e4, "max": 3.0, "l2": 1e4 * 5.3**0.5}
    assert fill_of(values, values, most=100) == 0.0  # the norm is of others as well
    one_hot = {"min": 0.0, "max": 1.0, "l2": 8.0}
    assert fill_of(one_hot, one_hot, most=100) == 0.0
    masked = {"min": -1e9, "max": 3.0, "l2": 1e9 * 50**0.5}
    assert fill_of(masked, masked, most=100) == -1e9
    assert fill_of(masked, masked, most=49) == 0.0  # so many are not equal
    assert fill_of({**masked, "min": -2.0}, masked, most=100) == 0.0
