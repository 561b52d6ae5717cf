"""The merge law: who computes which block, and in which order, changes nothing."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.metrics.blocks import pair_blocks
from troubleshooter_nb.metrics.pairwise import pair_figures, pair_partial
from troubleshooter_nb.metrics.partial import (
    EXPONENTS,
    Partial,
    Partials,
    exponent_histogram,
    merge_tree,
    scale_exponent,
    workspace,
)
from troubleshooter_nb.thresholds import FIGURES_BLOCK

LONG = os.environ.get("TNB_LONG") == "1"
FIELDS = ("counts", "mantissas", "exponents", "maxima", "positions", "masks", "histogram")
# Sums depend on the blocks in the last bits; counts, extremes and places know no rounding.
SUMMED = {"cosine", "correlation", "rmse", "mape", "mean_abs_error", "mean_rel_error"} | {
    "rel_l2_error",
    "left_mean",
    "left_l2",
    "right_mean",
    "right_l2",
}
SMALL = 5


def assert_identical(got: Partial, expected: Partial) -> None:
    """Every field equal to the bit."""
    for name in FIELDS:
        assert getattr(got, name).tobytes() == getattr(expected, name).tobytes(), name


def figures_of(partial: Partial) -> dict[str, float]:
    return pair_figures(partial, np.dtype(np.float32), np.dtype(np.float32))


def assert_same_counts_and_extremes(got: Partial, expected: Partial) -> None:
    """All that is not summed, to the bit."""
    np.testing.assert_array_equal(got.histogram, expected.histogram)
    figures, wanted = figures_of(got), figures_of(expected)
    for name, want in wanted.items():
        if name not in SUMMED:
            np.testing.assert_equal(figures[name], want, err_msg=name)


def two_sides(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two float32 tensors of `n` values: noise, zeros, NaN, Inf and one far outlier."""
    rng = np.random.default_rng(seed)
    right = rng.standard_normal(n).astype(np.float32)
    left = right + np.float32(1e-5) * rng.standard_normal(n).astype(np.float32)
    right[rng.random(n) < 0.05] = 0
    left[rng.random(n) < 0.02] = np.nan
    left[rng.random(n) < 0.02] = np.inf
    if n:
        left[rng.integers(n)] = 1e6
    return left, right


def partial_of(left: np.ndarray, right: np.ndarray, start: int = 0) -> Partial:
    """What one task of an executor computes: a run of blocks of `SMALL` elements."""
    starts = range(0, max(len(left), 1), SMALL)
    return merge_tree(
        pair_partial(left[i : i + SMALL], right[i : i + SMALL], start + i) for i in starts
    )


def branches(left: np.ndarray, right: np.ndarray, k: int) -> list[tuple]:
    """Arguments of `partial_of` for runs of ``2**k`` blocks."""
    step = SMALL << k
    starts = range(0, max(len(left), 1), step)
    return [(left[i : i + step], right[i : i + step], i) for i in starts]


def exact_sums(left: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Some sums of the finite pairs by `math.fsum`, whose one rounding is the last."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    kept = np.isfinite(a) & np.isfinite(b)
    a, b = a[kept], b[kept]
    return {
        "mean_abs_error": math.fsum(abs(a - b)) / len(a),
        "rmse": math.sqrt(math.fsum((a - b) ** 2) / len(a)),
        "cosine": math.fsum(a * b) / math.sqrt(math.fsum(a * a) * math.fsum(b * b)),
    }


@pytest.mark.parametrize("block", [1, 2, 3, 17, 64, 999, 1000, 4096])
def test_any_block_size_gives_the_same_counts_extremes_and_histogram(block):
    left, right = two_sides(1000)
    whole = merge_tree(pair_blocks(left, right, block=1000))
    assert_same_counts_and_extremes(merge_tree(pair_blocks(left, right, block=block)), whole)


@pytest.mark.parametrize("block", [1, 2, 3, 17, 64, 999, 1000, 4096])
def test_any_block_size_gives_the_same_sums_but_for_the_last_bits(block):
    left, right = two_sides(1000)
    whole = figures_of(merge_tree(pair_blocks(left, right, block=1000)))
    got = figures_of(merge_tree(pair_blocks(left, right, block=block)))
    for name, want in whole.items():
        # 1,000 float64 terms in whatever order: some 1,000 roundoffs of 1.1e-16 at worst.
        atol = 1e-12 if name in ("cosine", "correlation") or name.endswith("mean") else 0
        np.testing.assert_allclose(got[name], want, rtol=1e-12, atol=atol, err_msg=name)


def test_a_million_values_sum_to_twelve_digits():
    left, right = two_sides(1_000_000)
    got = figures_of(merge_tree(pair_blocks(left, right, block=FIGURES_BLOCK)))
    for name, want in exact_sums(left, right).items():
        assert got[name] == pytest.approx(want, rel=1e-12), name


@settings(max_examples=1000 if LONG else 60)
@given(st.integers(0, 300), st.integers(0, 5), st.integers(0, 100))
def test_branches_of_the_tree_may_be_merged_elsewhere_to_the_same_bits(n, k, seed):
    left, right = two_sides(n, seed)
    expected = merge_tree(pair_blocks(left, right, block=SMALL))
    got = merge_tree([partial_of(*branch) for branch in branches(left, right, k)])
    assert_identical(got, expected)


@settings(max_examples=300 if LONG else 30)
@given(st.integers(0, 400), st.integers(0, 3), st.integers(0, 2))
def test_branches_of_branches_give_the_same_bits(n, k, deeper):
    left, right = two_sides(n)
    small = [partial_of(*branch) for branch in branches(left, right, k)]
    step = 1 << deeper
    large = [merge_tree(small[i : i + step]) for i in range(0, len(small), step)]
    assert_identical(merge_tree(large), merge_tree(pair_blocks(left, right, block=SMALL)))


@settings(max_examples=300 if LONG else 30)
@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(width=64)),
    hnp.arrays(np.float64, 60, elements=st.floats(width=64)),
    st.integers(0, 3),
)
def test_branches_of_any_values_give_the_same_bits(left, right, k):
    right = right[: len(left)]
    got = merge_tree([partial_of(*branch) for branch in branches(left, right, k)])
    assert_identical(got, merge_tree(pair_blocks(left, right, block=SMALL)))


def test_threads_give_the_same_bits_in_whatever_order_they_finish():
    left, right = two_sides(5000)
    expected = merge_tree(pair_blocks(left, right, block=SMALL))
    work = branches(left, right, 4)
    with ThreadPoolExecutor(8) as executor:
        futures = [executor.submit(partial_of, *branch) for branch in reversed(work)]
        got = merge_tree([future.result() for future in reversed(futures)])
    assert_identical(got, expected)


def test_a_spawned_process_gives_the_same_bits():
    left, right = two_sides(20 * FIGURES_BLOCK // 8)
    expected = merge_tree(pair_blocks(left, right, block=FIGURES_BLOCK // 8))
    context = multiprocessing.get_context("spawn")
    starts = range(0, len(left), FIGURES_BLOCK // 8)
    runs = [
        (left[i : i + FIGURES_BLOCK // 8], right[i : i + FIGURES_BLOCK // 8], i) for i in starts
    ]
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        got = merge_tree(executor.map(pair_partial, *zip(*runs, strict=True)))
    assert_identical(got, expected)


def test_a_partial_travels_through_pickle():
    partial = partial_of(*two_sides(50))
    assert_identical(pickle.loads(pickle.dumps(partial)), partial)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 20))
def test_merging_counts_like_one_run(first, second, seed):
    left, right = two_sides(first + second, seed)
    merged = pair_partial(left[:first], right[:first]).merge(
        pair_partial(left[first:], right[first:], first)
    )
    assert_same_counts_and_extremes(merged, pair_partial(left, right))


def test_an_empty_partial_is_neutral():
    left, right = two_sides(40)
    empty, partial = pair_partial(left[:0], right[:0]), pair_partial(left, right)
    assert_identical(partial.merge(empty), partial)
    assert_identical(empty.merge(partial), partial)


def test_a_maximum_keeps_the_lower_of_two_places():
    first = pair_partial(np.array([0.0, 2.0]), np.zeros(2))
    second = pair_partial(np.array([2.0, 1.0]), np.zeros(2), 2)
    merged = first.merge(second)
    assert 1 in merged.positions.tolist()
    assert 2 not in merged.positions.tolist()


def test_sums_of_different_scale_are_merged_at_the_larger_one():
    tiny, huge = np.full(2, 1e-250), np.full(2, 1e250)
    zeros = np.zeros(2)
    merged = merge_tree([pair_partial(tiny, zeros), pair_partial(huge, zeros, 2)])
    dtype = tiny.dtype
    got = pair_figures(merged, dtype, dtype)
    assert got["left_l2"] == pytest.approx(math.hypot(*huge), rel=1e-15)
    assert got["mean_abs_error"] == pytest.approx(5e249, rel=1e-15)


def test_nothing_cannot_be_merged():
    with pytest.raises(ValueError, match="needs at least one partial"):
        merge_tree([])


# --- exponents -----------------------------------------------------------------------------------


@given(st.lists(st.floats(0, allow_infinity=False), max_size=50))
def test_the_histogram_counts_by_the_exponent_of_frexp(values):
    counts, zeros = exponent_histogram(np.array(values))
    expected = dict.fromkeys(EXPONENTS, 0)
    for value in values:
        if value:
            exponent = math.frexp(value)[1] - 1
            expected[min(max(exponent, EXPONENTS[0]), EXPONENTS[-1])] += 1
    assert counts.tolist() == list(expected.values())
    assert zeros == values.count(0.0)


@pytest.mark.parametrize(
    "n", [0, 1, FIGURES_BLOCK - 1, FIGURES_BLOCK, FIGURES_BLOCK + 1, 3 * FIGURES_BLOCK + 7]
)
def test_the_histogram_of_many_values_misses_none(n):
    values = np.abs(np.random.default_rng(0).standard_normal(n))
    values[::7] = 0
    counts, zeros = exponent_histogram(values, np.empty(n))
    assert counts.sum() + zeros == n
    assert zeros == np.count_nonzero(values == 0)
    exponents = np.clip(np.frexp(values[values > 0])[1] - 1, EXPONENTS[0], EXPONENTS[-1])
    np.testing.assert_array_equal(counts, np.bincount(exponents + 64, minlength=96))


def test_powers_of_two_open_their_bin_and_infinity_fills_the_last():
    counts, zeros = exponent_histogram(np.array([2.0**-3, np.nextafter(0.125, 0), np.inf, 5e-324]))
    assert zeros == 0
    assert [counts[e - EXPONENTS[0]] for e in (-3, -4, 31, -64)] == [1, 1, 1, 1]


@pytest.mark.parametrize("largest", [0.0, 1.0, 1e-100, 1e100, math.inf, math.nan])
def test_ordinary_values_are_not_scaled(largest):
    assert scale_exponent(largest) == 0


@given(st.floats(5e-324, 1.79e308))
def test_scaled_values_have_squares_inside_the_range(largest):
    scaled = math.ldexp(largest, -scale_exponent(largest))
    # A sum of 2**60 squares still fits, and one square is no subnormal.
    assert scaled * scaled * 2.0**60 < math.inf
    assert scaled * scaled > 2.0**-1022


def test_workspace_rows_are_contiguous_and_lie_apart():
    rows = workspace(3, 1024)
    assert rows.shape == (3, 1024)
    assert all(row.flags.c_contiguous for row in rows)
    # Addresses equal modulo 4096 make numpy 1 slow.
    distance = rows[1].ctypes.data - rows[0].ctypes.data
    assert distance % 4096 != 0


def test_empty_rows_are_partials_of_no_elements():
    rows = Partials.empty(3)
    nothing = np.zeros(0, np.float32)
    assert len(rows) == 3
    for row in range(3):
        assert_identical(rows.at(row), pair_partial(nothing, nothing))


def test_rows_keep_what_is_put_into_them():
    partials = [pair_partial(*two_sides(n, n)) for n in (1, 20, 300)]
    rows = Partials.empty(4)
    for row, partial in enumerate(partials):
        rows.put(row, partial)
    others = Partials.empty(5)
    others.put_rows(np.array([4, 0, 2, 1]), rows)
    for at, row in zip((4, 0, 2), range(3), strict=True):
        assert_identical(others.at(at), partials[row])
    for at in (1, 3):
        assert_identical(others.at(at), Partials.empty(1).at(0))


def test_rows_merge_as_partials_do():
    left, right = two_sides(40)
    halves = [pair_partial(left[:20], right[:20]), pair_partial(left[20:], right[20:], 20)]
    rows = Partials.empty(2)
    for row, partial in enumerate(halves):
        rows.put(row, partial)
    assert_identical(rows.at(0).merge(rows.at(1)), halves[0].merge(halves[1]))
