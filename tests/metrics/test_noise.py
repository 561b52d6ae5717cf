"""The noise bound against measured differences of two correct frameworks."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from troubleshooter_nb.metrics.noise import NoiseBound, noise_bound

FLOAT32, FLOAT64, FLOAT16 = (np.dtype(name) for name in ("f4", "f8", "f2"))
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TABLE = Path(__file__).parents[1] / "data/metrics/noise_floor.csv"
# MindSpore's CPU kernels approximate these two functions; the bound is not to hide that.
APPROXIMATED = ("tanh", "exp")


def rows(*, wrong: bool) -> list[tuple[str, int | None, float, float]]:
    """Name, accumulated length where named, and both errors of the measured operators."""
    found = []
    with TABLE.open() as file:
        for row in csv.DictReader(file):
            if row["op"] in APPROXIMATED or ("user error" in row["op"]) != wrong:
                continue
            length = re.search(r"K=(\d+)", row["op"])
            errors = float(row["rel_l2"]), float(row["max_over_scale"])
            name = f"{row['op']}, {row['what']}"
            found.append((name, int(length[1]) if length else None, *errors))
    return found


@pytest.mark.parametrize(
    ("length", "rel_l2", "peak"),
    [row[1:] for row in rows(wrong=False)],
    ids=[row[0] for row in rows(wrong=False)],
)
def test_two_correct_frameworks_stay_inside_the_bound(length, rel_l2, peak):
    bound = noise_bound(FLOAT32, FLOAT32, length=length)
    assert rel_l2 <= bound.rel_l2
    assert peak <= bound.peak
    assert bound.explains(rel_l2, peak)


@pytest.mark.parametrize(
    ("rel_l2", "peak"),
    [row[2:] for row in rows(wrong=True)],
    ids=[row[0] for row in rows(wrong=True)],
)
def test_another_formula_lies_outside_the_bound(rel_l2, peak):
    bound = noise_bound(FLOAT32, FLOAT32)
    assert rel_l2 > bound.rel_l2
    assert peak > bound.peak
    assert not bound.explains(rel_l2, peak)


def test_the_measured_table_is_complete():
    assert (len(rows(wrong=False)), len(rows(wrong=True))) == (71, 2)


def test_correct_operators_of_the_table_keep_a_factor_of_three():
    bound = noise_bound(FLOAT32, FLOAT32)
    assert max(row[2] for row in rows(wrong=False)) * 3 <= bound.rel_l2
    assert max(row[3] for row in rows(wrong=False)) * 3 <= bound.peak


@pytest.mark.parametrize("length", [1, 64, 4096])
def test_a_float32_dot_product_in_any_order_is_explained(length):
    rng = np.random.default_rng(0)
    left = rng.standard_normal((64, length)).astype(np.float32)
    right = rng.standard_normal((length, 64)).astype(np.float32)
    forward = np.zeros((64, 64), np.float32)
    for k in range(length):
        forward += left[:, k : k + 1] * right[k]
    exact = left.astype(np.float64) @ right.astype(np.float64)
    error = forward - exact
    bound = noise_bound(FLOAT32, FLOAT32, length=length)
    rel_l2 = np.linalg.norm(error) / np.linalg.norm(exact)
    assert bound.explains(rel_l2, np.abs(error).max() / np.abs(exact).max())


def test_a_longer_sum_may_err_more():
    bounds = [noise_bound(FLOAT32, FLOAT32, length=n).rel_l2 for n in (1, 64, 4096, 65536)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1]


@pytest.mark.parametrize("length", [None, 4096])
def test_an_unknown_length_is_4096(length):
    assert noise_bound(FLOAT32, FLOAT32, length=length) == noise_bound(FLOAT32, FLOAT32)


def test_a_length_of_zero_is_one_product():
    assert noise_bound(FLOAT32, FLOAT32, length=0) == noise_bound(FLOAT32, FLOAT32, length=1)


@pytest.mark.parametrize("coarse", [FLOAT32, FLOAT16, BFLOAT16])
def test_the_coarser_dtype_decides(coarse):
    bound = noise_bound(coarse, coarse)
    assert noise_bound(FLOAT64, coarse) == noise_bound(coarse, FLOAT64) == bound


@pytest.mark.parametrize("dtype", [np.dtype(name) for name in ("i8", "i4", "u1", "bool")])
def test_integers_have_no_noise(dtype):
    bound = noise_bound(dtype, dtype)
    assert (bound.rel_l2, bound.peak) == (0.0, 0.0)
    assert not bound.explains(1e-30, 1e-30)


def test_16_bit_formats_are_summed_in_float32():
    # Storage alone: the length adds float32 roundoffs, a 2**13th of those of float16.
    short, long = (noise_bound(FLOAT16, FLOAT16, length=n).rel_l2 for n in (1, 4096))
    assert short <= long <= 1.01 * short


def test_one_element_that_stands_out_is_not_rounding():
    bound = noise_bound(FLOAT32, FLOAT32)
    noise = bound.rel_l2 / 100
    assert bound.explains(noise, 10 * noise)
    assert not bound.explains(noise, 0.9 * bound.peak)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16, BFLOAT16])
def test_one_element_four_ulp_off_is_rounding(dtype):
    ulp = 2.0 ** (1 - {FLOAT32: 24, FLOAT16: 11, BFLOAT16: 8}[dtype])
    # One of a million elements: the norm of the error is a thousandth of its peak.
    assert noise_bound(dtype, dtype).explains(4 * ulp / 1000, 4 * ulp)


def test_an_error_beyond_either_bound_is_not_rounding():
    bound = NoiseBound(rel_l2=1e-6, peak=4e-6, flipped=0.0)
    assert bound.explains(1e-6, 4e-6)
    assert not bound.explains(1.1e-6, 1e-6)
    assert not bound.explains(1e-6, 4.1e-6)


def test_an_error_that_is_not_a_number_is_not_rounding():
    assert not noise_bound(FLOAT32, FLOAT32).explains(float("nan"), float("nan"))
