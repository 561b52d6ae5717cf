"""The compiled loop gives the bits that numpy gives, and leaves to numpy what is not its kind."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from troubleshooter_nb.metrics import compiled
from troubleshooter_nb.metrics.pairwise import pair_figures, pair_partial, pair_run
from troubleshooter_nb.thresholds import FIGURES_BLOCK

pytestmark = pytest.mark.skipif(
    compiled.kernel() is None, reason="installed without a C compiler: no compiled loop"
)


@pytest.fixture(scope="module", params=["fused_float32", "portable_float32"])
def kernel(request):
    return compiled.kernel(request.param)


def equal(left, right, kernel, **tolerance):
    numpy = pair_partial(left, right, 1000, **tolerance)
    fused = pair_partial(left, right, 1000, kernel=kernel, **tolerance)
    for field in dataclasses.fields(numpy):
        ours, theirs = getattr(fused, field.name), getattr(numpy, field.name)
        # Bytes, not values: -0.0 and the last bit count.
        assert ours.tobytes() == theirs.tobytes(), field.name


CASES = {
    "noise": lambda rng, n: (rng.normal(size=n), 1e-6),
    "large_errors": lambda rng, n: (rng.normal(size=n), 1.0),
    "many_zeros": lambda rng, n: (np.maximum(rng.normal(size=n), 0), 1e-4),
    "huge": lambda rng, n: (rng.normal(size=n) * 1e37, 1e30),
    "tiny": lambda rng, n: (rng.normal(size=n) * 1e-42, 1e-44),
    "all_zero_reference": lambda rng, n: (np.zeros(n), 1.0),
    "constant": lambda rng, n: (np.full(n, 0.1), 1e-3),
    "spread": lambda rng, n: (rng.normal(size=n), 2.0 ** rng.integers(-20, 60, size=n)),
    "negative": lambda rng, n: (-np.abs(rng.normal(size=n)), 1e-5),
}


@pytest.mark.parametrize("size", [128, 1024, FIGURES_BLOCK])
@pytest.mark.parametrize("case", CASES)
def test_float32_blocks_have_the_same_bits(kernel, case, size):
    rng = np.random.default_rng(len(case) + size)
    values, noise = CASES[case](rng, size)
    right = values.astype(np.float32)
    left = (right + noise * rng.normal(size=size)).astype(np.float32)
    equal(left, right, kernel)
    equal(left, right, kernel, rtol=0.0, atol=0.0)
    equal(right, left, kernel, rtol=1e-2, atol=1e-30)


def test_sparse_differences_and_ties_have_the_same_bits(kernel):
    rng = np.random.default_rng(0)
    right = rng.normal(size=1024).astype(np.float32)
    left = right.copy()
    left[[5, 700]] += np.float32(0.5)
    right[300], left[300] = 0.0, -0.0
    equal(left, right, kernel)


@pytest.mark.parametrize("size", [5, 1024, 20_000])
@pytest.mark.parametrize("values", ["normal", "zeros", "signed_zeros"])
def test_equal_values_have_the_same_bits(kernel, values, size):
    right = np.random.default_rng(4).normal(size=size).astype(np.float32)
    if values != "normal":
        right[:] = 0.0
    left = -right if values == "signed_zeros" else right.copy()
    equal(left, right, kernel)
    right[::3], left[::3] = 0.0, -0.0
    equal(left, right, kernel)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_left_to_numpy(kernel, wrong):
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(2, 1024)).astype(np.float32)
    left[777] = wrong
    equal(left, right, kernel)
    right[777] = wrong
    equal(left, right, kernel)


@pytest.mark.parametrize("dtype", [">f4", "f8", "f2", "i4", "c8"])
def test_other_dtypes_are_left_to_numpy(kernel, dtype):
    rng = np.random.default_rng(2)
    left, right = (rng.normal(size=(2, 1024)) * 50).astype(dtype)
    equal(left, right, kernel)


@pytest.mark.parametrize(
    "size",
    [
        *(0, 1, 7, 8, 9, 100, 127, 129, 136, 255, 257, 384, 3 * 1024),
        *(8191, 8192, 8193, 16383, 16384, 16385, 20_000, 24_576, 100_003, FIGURES_BLOCK - 1),
    ],
)
def test_any_length_has_the_same_bits(kernel, size):
    rng = np.random.default_rng(3)
    left, right = rng.normal(size=(2, size)).astype(np.float32)
    equal(left, right, kernel)


@pytest.mark.parametrize(
    "size",
    [FIGURES_BLOCK + 1, 2 * FIGURES_BLOCK, 3 * FIGURES_BLOCK + 20_001, 500_000, 7 * FIGURES_BLOCK],
)
def test_a_run_of_any_length_has_the_figures_of_its_blocks(kernel, size):
    rng = np.random.default_rng(size)
    right = rng.normal(size=size).astype(np.float32)
    left = (right + 1e-5 * rng.normal(size=size)).astype(np.float32)
    whole, blocks = (
        pair_run(left, right, 0, loop, rtol=1e-4, atol=1e-5) for loop in (kernel, None)
    )
    for name in ("mantissas", "exponents", "maxima", "positions", "histogram"):
        assert getattr(whole, name).tobytes() == getattr(blocks, name).tobytes(), name


@pytest.mark.parametrize("at", [0, 8191, 8192, 19_999])
def test_a_nan_anywhere_is_left_to_numpy(kernel, at):
    left, right = np.random.default_rng(1).normal(size=(2, 20_000)).astype(np.float32)
    left[at] = np.nan
    equal(left, right, kernel)


def test_strided_and_read_only_blocks_are_measured(kernel):
    rng = np.random.default_rng(4)
    both = rng.normal(size=(2, 2048)).astype(np.float32)
    equal(both[0, ::2], both[1, ::2], kernel)
    both.flags.writeable = False
    equal(both[0, :1024], both[1, :1024], kernel)


def test_equal_blocks_have_the_same_bits(kernel):
    values = np.random.default_rng(5).normal(size=1024).astype(np.float32)
    equal(values, values.copy(), kernel)


@pytest.mark.parametrize("spoiled", [None, "nan", "equal", "zero"])
def test_a_run_of_blocks_has_the_figures_of_its_blocks(kernel, spoiled):
    rng = np.random.default_rng(6)
    right = rng.normal(size=8 * FIGURES_BLOCK).astype(np.float32)
    left = (right + 1e-5 * rng.normal(size=right.size)).astype(np.float32)
    block = slice(3 * FIGURES_BLOCK, 4 * FIGURES_BLOCK)
    if spoiled == "nan":
        left[3 * FIGURES_BLOCK + 5] = np.nan
    elif spoiled == "equal":
        left[block] = right[block]
    elif spoiled == "zero":
        right[block] = 0
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    whole = pair_run(left, right, 7, kernel, **tolerance)
    blocks = pair_run(left, right, 7, None, **tolerance)
    assert pair_figures(whole, left.dtype, right.dtype) == pytest.approx(
        pair_figures(blocks, left.dtype, right.dtype), rel=0, abs=0, nan_ok=True
    )
    np.testing.assert_array_equal(whole.histogram, blocks.histogram)
