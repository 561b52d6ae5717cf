"""Where the error sits, against a computation over the whole tensor at once."""

from __future__ import annotations

import math
import os
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.locate import (
    Location,
    concentrated_range,
    locate,
    scattered_indices,
    split_axis,
)
from troubleshooter_nb.metrics.places import TILE_COLUMNS, TILE_ROWS, VALUE_BINS, WORST

LONG = os.environ.get("TNB_LONG") == "1"
NAN, INF = np.nan, np.inf
SHAPES = [
    (),
    (1,),
    (7,),
    (1000,),
    (3, 5),
    (200, 3),
    (3, 300),
    (1, 1),
    (65, 129),
    (130, 260),
    (4, 5, 6),
    (2, 1, 70),
    (3, 4, 5, 6),
    (2, 3, 1, 4, 5),
    (1, 1, 1, 1, 1),
    (70, 2, 2, 2, 33),
]


def reader(array: np.ndarray) -> Callable[[int, int], np.ndarray]:
    flat = array.reshape(-1)
    return lambda start, stop: flat[start:stop]


def value_range(left: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    values = np.concatenate([wide(left), wide(right)])
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (NAN, NAN)


def located(left: np.ndarray, right: np.ndarray, **settings_) -> Location:
    return locate(reader(left), reader(right), left.shape, value_range(left, right), **settings_)


def wide(array: np.ndarray) -> np.ndarray:
    """Flat float64 values, moduli of complex ones."""
    flat = array.reshape(-1)
    if array.dtype.kind == "c":
        return np.abs(flat.astype(np.complex128))
    return flat.astype(np.float64)


def brute_errors(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """|left - right| of every pair by Python's own arithmetic; inf for mismatched NaN and Inf."""
    if left.dtype.type.__module__.startswith("ml_dtypes"):
        left, right = left.astype(np.float64), right.astype(np.float64)
    errors = []
    for a, b in zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True):
        if a == b or (a != a and b != b):
            errors.append(0.0)
        elif np.isfinite(a) and np.isfinite(b):
            errors.append(float(abs(a - b)))
        else:
            errors.append(INF)
    return np.array(errors)


def tile_of(index: np.ndarray, length: int, tiles: int) -> np.ndarray:
    return np.array([int(i) * tiles // length for i in index])


def check(left: np.ndarray, right: np.ndarray, **settings_) -> Location:
    """Compare every attribute with brute force; returns the location."""
    got = located(left, right, **settings_)
    errors = brute_errors(left, right)
    mismatch = np.isinf(errors)
    finite = np.where(mismatch, 0.0, errors)
    cut = split_axis(left.shape)
    assert (got.rows, got.columns) == (math.prod(left.shape[:cut]), math.prod(left.shape[cut:]))

    tiles = min(got.rows, TILE_ROWS), min(got.columns, TILE_COLUMNS)
    expected_max, expected_mismatch = np.zeros(tiles), np.zeros(tiles, np.int64)
    row, column = np.divmod(np.arange(left.size), got.columns)
    where = tile_of(row, got.rows, tiles[0]), tile_of(column, got.columns, tiles[1])
    np.maximum.at(expected_max, where, finite)
    np.add.at(expected_mismatch, where, mismatch)
    # One rounding of the difference, or an ulp of hypot for complex numbers.
    np.testing.assert_allclose(got.tile_max, expected_max, rtol=4e-16)
    np.testing.assert_array_equal(got.tile_mismatch, expected_mismatch)

    squares = np.square(finite).reshape(left.shape)
    assert len(got.profiles) == left.ndim
    for axis, profile in enumerate(got.profiles):
        others = tuple(k for k in range(left.ndim) if k != axis)
        np.testing.assert_allclose(profile, squares.sum(axis=others), rtol=1e-12)

    order = np.argsort(-errors, kind="stable")[:WORST]
    order = order[errors[order] > 0]
    np.testing.assert_array_equal(got.worst_index, order)
    np.testing.assert_array_equal(got.worst_left, wide(left)[order])
    np.testing.assert_array_equal(got.worst_right, wide(right)[order])

    low, high = value_range(left, right)
    assert got.value_range == (low, high) or np.isnan(low)
    for values, counts in ((left, got.left_histogram), (right, got.right_histogram)):
        inside = wide(values)
        inside = inside[np.isfinite(inside)]
        assert counts.sum() == len(inside)
        if high > low:
            expected = np.histogram(inside, VALUE_BINS, (low, high))[0]
            # A value on an edge may be rounded into the bin before.
            assert np.abs(np.cumsum(counts - expected)).max() <= 1 + len(inside) // 500
        elif len(inside):
            assert counts[0] == len(inside)
    return got


def two_sides(shape: tuple[int, ...], token: str = "float32", seed: int = 0):
    rng = np.random.default_rng(seed)
    if dtype_from_token(token).kind in "iu":
        return tuple(rng.integers(0, 100, shape).astype(dtype_from_token(token)) for _ in range(2))
    if dtype_from_token(token).kind == "b":
        return tuple(np.asarray(rng.random(shape) < 0.3) for _ in range(2))
    sides = [rng.standard_normal(shape) for _ in range(2)]
    if dtype_from_token(token).kind == "c":
        sides = [side + 1j * rng.standard_normal(shape) for side in sides]
    return tuple(np.asarray(side).astype(dtype_from_token(token)) for side in sides)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_attribute_equals_brute_force(shape):
    check(*two_sides(shape))


@pytest.mark.parametrize("block", [1, 2, 7, 64, 100, 1000, 100_000])
@pytest.mark.parametrize("shape", [(7,), (300,), (65, 129), (4, 5, 6), (2, 900), (900, 2)], ids=str)
def test_the_block_size_changes_nothing(shape, block):
    check(*two_sides(shape), block=block)


DTYPES = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int32"]


@pytest.mark.parametrize("token", [*DTYPES, "int64", "uint64", "bool", "complex64", "complex128"])
def test_every_dtype_equals_brute_force(token):
    check(*two_sides((30, 50), token))


def test_big_endian_values_equal_brute_force():
    left, right = two_sides((30, 50))
    check(left.astype(">f4"), right)


def test_64_bit_integers_are_told_apart():
    right = np.full((10, 10), 2**60)
    left = right.copy()
    left[3, 4], left[7, 1] = 2**60 + 1, 2**60 - 2
    got = check(left, right)
    assert got.worst_index.tolist() == [71, 34]


def test_equal_tensors_have_no_worst_element():
    left, _ = two_sides((20, 20))
    got = check(left, left.copy())
    assert len(got.worst_index) == 0
    assert not got.tile_max.any()


def test_ties_go_to_the_lower_index_across_blocks():
    right = np.zeros(100)
    left = np.where(np.arange(100) % 2, 1.0, 0.0)
    got = check(left, right, block=7)
    assert got.worst_index.tolist() == [1, 3, 5, 7, 9, 11, 13, 15]


def test_a_late_larger_error_pushes_the_last_tie_out():
    left = np.ones(100)
    left[99] = 2.0
    got = check(left, np.zeros(100), block=10)
    assert got.worst_index.tolist() == [99, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("token", ["float64", "float32", "bfloat16", "complex64"])
def test_mismatched_nan_and_inf_come_first_and_are_counted(token):
    left, right = two_sides((20, 30), token)
    left[3, 4], left[5, 6], right[7, 8], left[9, 1] = NAN, INF, NAN, 100.0
    left[1, 1] = right[1, 1] = NAN
    left[2, 2] = right[2, 2] = INF
    left[4, 4], right[4, 4] = INF, -INF
    got = check(left, right)
    assert got.worst_index[:5].tolist() == [3 * 30 + 4, 4 * 30 + 4, 5 * 30 + 6, 7 * 30 + 8, 271]
    assert got.tile_mismatch.sum() == 4


def test_nothing_finite_leaves_empty_histograms():
    left = np.full((3, 3), NAN)
    got = check(left, left.copy())
    assert got.left_histogram.sum() == got.right_histogram.sum() == 0


def test_constant_values_fall_into_the_first_bin():
    got = check(np.full(5, 2.0), np.full(5, 2.0))
    assert got.left_histogram.tolist() == [5] + [0] * 9


def test_values_outside_the_range_count_in_the_end_bins():
    left = np.array([-5.0, 0.0, 0.55, 1.0, 7.0])
    got = locate(reader(left), reader(left), (5,), (0.0, 1.0))
    assert got.left_histogram.tolist() == [2, 0, 0, 0, 0, 1, 0, 0, 0, 2]


@pytest.mark.parametrize("scale", [1.7e308, 1e200, 1.0, 1e-200, 5e-324])
def test_huge_and_tiny_values_keep_their_place(scale):
    right = np.zeros((4, 6))
    right[0, 0] = -scale
    left = right.copy()
    left[2, 5] = scale
    got = located(left, right)
    assert got.worst_index.tolist() == [17]
    assert got.tile_max[2, 5] == scale
    assert [concentrated_range(profile) for profile in got.profiles] == [(2, 3), (5, 6)]
    assert got.left_histogram.tolist() == [1, 0, 0, 0, 0, 22, 0, 0, 0, 1]


def test_the_distance_of_two_extremes_is_the_largest_float():
    left, right = np.array([[1.7e308, 1.0]]), np.array([[-1.7e308, 0.0]])
    got = located(left, right)
    assert got.tile_max[0, 0] == np.finfo(np.float64).max
    assert got.worst_index.tolist() == [0, 1]


def test_a_signalling_nan_raises_no_warning():
    left = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    got = locate(reader(left), reader(np.ones(2, np.float32)), (2,), (1.0, 1.0))
    assert got.tile_mismatch.tolist() == [[1, 0]]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2)])
def test_an_empty_tensor_is_refused(shape):
    with pytest.raises(ValueError, match="needs at least one element, got shape"):
        located(np.zeros(shape), np.zeros(shape))


# --- the two-dimensional view --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "cut"),
    [
        ((), 0),
        ((100,), 0),
        ((10, 10), 1),
        ((3, 1000), 1),
        ((8, 64, 32, 32), 2),  # 512 x 1024, not 8 x 65536 or 16384 x 32
        ((64, 3, 7, 7), 1),  # 64 x 147
        ((2, 2, 2, 2), 1),  # 2 x 8 and 4 x 4 are equally far off: the first
        ((1, 1, 4096), 1),
    ],
)
def test_the_view_is_cut_where_it_looks_like_a_screen(shape, cut):
    assert split_axis(shape) == cut


@given(st.lists(st.integers(1, 50), min_size=2, max_size=6))
def test_no_other_cut_is_closer_to_twice_as_wide_as_high(shape):
    def distance(cut: int) -> float:
        ratio = math.prod(shape[cut:]) / math.prod(shape[:cut])
        return abs(math.log(ratio / 2))

    best = min(distance(cut) for cut in range(1, len(shape)))
    assert distance(split_axis(tuple(shape))) == pytest.approx(best)


# --- planted outliers ----------------------------------------------------------------------------

SIDE = 4096


def generated(start: int, stop: int) -> np.ndarray:
    """A stretch of a 4096 x 4096 float32 tensor that is never in memory as a whole."""
    row = np.random.default_rng(start // SIDE).standard_normal(SIDE, np.float32)
    return np.resize(row, stop - start)


@pytest.mark.parametrize("seed", range(60 if LONG else 4))
def test_a_planted_outlier_is_found_wherever_it_is(seed):
    place = int(np.random.default_rng(seed).integers(SIDE * SIDE))

    def read_left(start: int, stop: int) -> np.ndarray:
        values = generated(start, stop) * np.float32(1 + 1e-6)
        if start <= place < stop:
            values[place - start] += 1.0
        return values

    got = locate(read_left, generated, (SIDE, SIDE), (-6.0, 6.0))
    row, column = divmod(place, SIDE)
    assert got.worst_index[0] == place
    tile = row * TILE_ROWS // SIDE, column * TILE_COLUMNS // SIDE
    assert np.unravel_index(got.tile_max.argmax(), got.tile_max.shape) == tile
    assert got.tile_max[tile] == pytest.approx(1.0, abs=1e-4)
    assert [concentrated_range(profile, 0.9) for profile in got.profiles] == [
        (row, row + 1),
        (column, column + 1),
    ]


# --- long axes, memory ---------------------------------------------------------------------------

LONG_SHAPES = [(1 << 24,), (1 << 12, 1 << 12), (1 << 23, 2), (2, 1 << 23), (1 << 21, 4, 2)]


@pytest.mark.parametrize("shape", LONG_SHAPES, ids=str)
def test_memory_stays_small_on_64_mib(shape):
    rng = np.random.default_rng(0)
    right = rng.standard_normal(1 << 16, np.float32)
    left = right + np.float32(1e-3)
    tracemalloc.start()
    try:
        got = locate(
            lambda start, stop: left[: stop - start],
            lambda start, stop: right[: stop - start],
            shape,
            (-6.0, 6.0),
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20
    total = float(np.square(left.astype(np.float64) - right).sum()) * 256
    for length, profile in zip(shape, got.profiles, strict=True):
        assert len(profile) == min(length, 1 << 20)
        # 2**24 float64 terms, added in blocks: some hundred roundoffs of 1.1e-16.
        assert profile.sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("shape", [(3_000_000,), (3_000_000, 2), (2, 3, 1_500_000)], ids=str)
def test_an_error_on_a_long_axis_is_in_the_bin_of_its_place(shape):
    size = math.prod(shape)
    places = [0, 1_234_567, size - 1]
    right = np.zeros(size, np.float32)
    left = right.copy()
    left[places] = [1.0, 2.0, 3.0]
    got = locate(reader(left), reader(right), shape, (0.0, 3.0))
    index = np.unravel_index(places, shape)
    for axis, profile in enumerate(got.profiles):
        expected = np.zeros(len(profile))
        bins = [int(i) * len(profile) // shape[axis] for i in index[axis]]
        np.add.at(expected, bins, [1.0, 4.0, 9.0])
        np.testing.assert_array_equal(profile, expected)


# --- the shortest range --------------------------------------------------------------------------


def brute_range(profile: list[int], share: Fraction) -> tuple[int, int]:
    total = sum(profile)
    if not total:
        return 0, len(profile)
    for length in range(1, len(profile) + 1):
        for start in range(len(profile) - length + 1):
            if sum(profile[start : start + length]) >= share * total:
                return start, start + length
    raise AssertionError


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=30),
    st.sampled_from([Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(1)]),
)
@example([0, 1, 1, 0], Fraction(1))
@example([5], Fraction(99, 100))
@example([1, 0, 0, 1], Fraction(1, 2))
def test_no_shorter_range_holds_the_share(profile, share):
    # Whole numbers of at most 30,000 in total: a share is either reached or missed by 1e-7.
    got = concentrated_range(np.array(profile, np.float64), float(share))
    assert got == brute_range(profile, share)


@settings(max_examples=1000 if LONG else 50)
@given(hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(0, 1e300)))
def test_the_range_holds_its_share_of_any_profile(profile):
    start, stop = concentrated_range(profile)
    assert 0 <= start < stop <= len(profile)
    exact = [Fraction(x) for x in profile.tolist()]
    assert sum(exact[start:stop]) >= (Fraction(99, 100) - Fraction(1, 10**11)) * sum(exact)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ([0, 5, 0, 5, 0, 5], [1, 3, 5]),
        ([1e-9, 7, 1e-9, 7], [1, 3]),
        ([0, 5, 5, 0], []),  # a range
        ([5, 0, 5, 5], []),  # most of it
        ([0, 0, 0], []),
        ([np.inf, 0, 1.0, 0], []),
        ([3], []),
    ],
)
def test_the_fewest_indices_that_hold_the_error_where_they_are_no_range(profile, expected):
    got = scattered_indices(np.array(profile, np.float64))
    np.testing.assert_array_equal(got, expected)


def test_an_all_zero_profile_is_concentrated_nowhere():
    assert concentrated_range(np.zeros(7)) == (0, 7)


def test_rounding_of_the_sum_does_not_lengthen_the_range():
    # 0.1 ten times: the sums on the way carry rounding.
    profile = np.array([0.0] * 5 + [0.1] * 10 + [0.0] * 5)
    assert concentrated_range(profile, 1.0) == (5, 15)


def test_bfloat16_is_read_as_it_is_stored():
    left = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    right = np.array([1.0, 3.0], ml_dtypes.bfloat16)
    got = check(left, right)
    assert (got.worst_left.tolist(), got.worst_right.tolist()) == ([2.0], [3.0])
