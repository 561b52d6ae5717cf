"""The compiled loop gives the bits that numpy gives, and leaves to numpy what is not its kind."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubleshooter_nb.metrics import compiled
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.pairwise import measure_many, pair_partial, pair_run
from troubleshooter_nb.thresholds import FIGURES_BLOCK

pytestmark = pytest.mark.skipif(
    compiled.kernel() is None, reason="installed without a C compiler: no compiled loop"
)


@pytest.fixture(scope="module", params=["fused_pairs", "avx2_pairs", "portable_pairs"])
def kernel(request):
    return compiled.kernel(request.param)


def same_bits(ours, theirs):
    for field in dataclasses.fields(theirs):
        # Bytes, not values: -0.0 and the last bit count.
        mine, other = getattr(ours, field.name), getattr(theirs, field.name)
        assert mine.dtype == other.dtype, field.name
        assert mine.tobytes() == other.tobytes(), field.name


def equal(left, right, kernel, **tolerance):
    numpy = pair_partial(left, right, 1000, **tolerance)
    same_bits(pair_partial(left, right, 1000, kernel=kernel, **tolerance), numpy)


def measured(left, right, kernel):
    """Whether the loop itself does it."""
    return bool(compiled.measure(kernel, [left], [right], rtol=1e-4, atol=1e-5)[1][0])


LONG = os.environ.get("TNB_LONG") == "1"
FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
OTHERS = ["int4", "uint4", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"]
DTYPES = [*FLOATS, *INTEGERS, *OTHERS]
WHOLE = {"float64": 2.0**40, "int8": 100, "uint8": 200, "bool": 2, "int4": 7, "uint4": 15}


def values_of(token, rng, size):
    """Random values that suit the dtype: signs, zeros and small and large ones."""
    dtype = dtype_from_token(token)
    if token in FLOATS or token.startswith("float"):
        values = rng.normal(size=size) * 2.0 ** rng.integers(-3, 3, size)
        return np.where(rng.random(size) < 0.1, 0.0, values).astype(np.float32).astype(dtype)
    top = WHOLE.get(token, 30_000)
    low = 0 if token.startswith(("u", "bool")) else -top
    return rng.integers(low, top, size).astype(dtype)


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


@pytest.mark.few(20)
@pytest.mark.parametrize("token", DTYPES)
def test_all_pairs_of_dtypes_are_measured_with_the_same_bits(kernel, token):
    rng = np.random.default_rng(DTYPES.index(token))
    ones = np.arange(400) % 2
    for other in DTYPES:
        for size in (7, 300, 8192 + 1024 + 77):
            left, right = values_of(token, rng, size), values_of(other, rng, size)
            equal(left, right, kernel)
            equal(left, left.copy(), kernel)
        assert measured(ones.astype(left.dtype), ones.astype(right.dtype), kernel), other


SHORT = [token for token in DTYPES if dtype_from_token(token).itemsize <= 2]


@pytest.mark.few(12)
@pytest.mark.parametrize("token", SHORT)
def test_every_stored_value_is_widened_exactly(kernel, token):
    dtype = dtype_from_token(token)
    count = 2 if token == "bool" else 256**dtype.itemsize
    stored = np.arange(count, dtype=f"u{dtype.itemsize}").view(dtype)
    with np.errstate(all="ignore"):
        wide = stored.astype(np.float32).astype(np.float64)
    finite = np.isfinite(wide)
    # One value a pair, so that nothing hides another, and itself as its other side.
    pairs = [stored[i : i + 1] for i in range(count)]
    found, done = compiled.measure(kernel, pairs, pairs, rtol=0.0, atol=0.0)
    np.testing.assert_array_equal(done, finite)
    np.testing.assert_array_equal(found.mantissas[done, 0], wide[done])
    # In the vector loop and beside float64, too.
    values = stored[finite]
    equal(values, values[::-1].copy(), kernel)
    equal(values, np.ones(len(values)), kernel)


BORDERS = [1, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000, 8191, 8192, 8193, 8192 + 129, 24_577]
EXTREMES = {
    "none": lambda values: None,
    "zeros": lambda values: values.fill(0),
    "minus_zeros": lambda values: values.__imul__(np.zeros((), values.dtype)),
    "nan": lambda values: values.__setitem__(len(values) // 2, np.nan),
    "inf": lambda values: values.__setitem__(-1, -np.inf),
    "huge": lambda values: values.__setitem__(0, 1e30),
    "tiny": lambda values: values.__imul__(np.float32(1e-30).astype(values.dtype)),
}


@given(
    left=st.sampled_from(DTYPES),
    right=st.sampled_from(DTYPES),
    size=st.sampled_from(BORDERS),
    spoiled=st.tuples(st.sampled_from(sorted(EXTREMES)), st.sampled_from(sorted(EXTREMES))),
    copied=st.booleans(),
    equal_nan=st.booleans(),
    tolerance=st.sampled_from([(0.0, 0.0), (1e-4, 1e-5), (0.5, 1e-30), (1e-2, 10.0)]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=5000 if LONG else 150)
@pytest.mark.parametrize("name", ["fused_pairs", "avx2_pairs", "portable_pairs"])
def test_any_two_sides_have_the_same_bits(
    name, left, right, size, spoiled, copied, equal_nan, tolerance, seed
):
    rng = np.random.default_rng(seed)
    sides = [values_of(left, rng, size), values_of(right, rng, size)]
    with np.errstate(all="ignore"):
        if copied:
            sides[0] = sides[1].astype(np.float32).astype(sides[0].dtype)
        for values, how in zip(sides, spoiled, strict=True):
            # Neither integers nor float8 hold all of these.
            if values.dtype.name in FLOATS[:4] or how == "zeros":
                EXTREMES[how](values)
    rtol, atol = tolerance
    equal(*sides, compiled.kernel(name), rtol=rtol, atol=atol, equal_nan=equal_nan)


@pytest.mark.parametrize("size", [1, 100, 128, 8192, 20_000])
@pytest.mark.parametrize("token", ["float32", "float64", "bfloat16", "uint8", "int64"])
@pytest.mark.parametrize("zero", ["left", "right", "both"])
def test_zeros_are_measured_with_the_same_bits(kernel, zero, token, size):
    rng = np.random.default_rng(size)
    sides = {name: values_of(token, rng, size) for name in ("left", "right")}
    for name in sides:
        if zero in (name, "both"):
            sides[name][:] = 0
    assert measured(*sides.values(), kernel)
    equal(*sides.values(), kernel)
    if token.startswith(("float", "bfloat")):
        equal(-sides["left"], sides["right"], kernel)
        equal(-sides["left"], -sides["right"], kernel)


@pytest.mark.parametrize("size", [1, 9, 127, 128, 300, 8192, 8193, 20_000, FIGURES_BLOCK])
@pytest.mark.parametrize("token", ["float32", "float64", "bfloat16", "int32"])
def test_sides_of_unlike_norms_have_the_same_bits(kernel, token, size):
    rng = np.random.default_rng(size)
    left, right = values_of(token, rng, size), values_of(token, rng, size)
    left = (left.astype(np.float64) * (60_000 if token == "int32" else 2.0**30)).astype(left.dtype)
    assert measured(left, right, kernel)
    equal(left, right, kernel)
    equal(right, left, kernel)


@pytest.mark.parametrize("size", [5, 128, 9000])
@pytest.mark.parametrize(
    "scale", [2.0**-1074, 2.0**-1030, 2.0**-401, 2.0**-399, 2.0**399, 2.0**401]
)
def test_float64_of_any_magnitude_has_the_same_bits(kernel, scale, size):
    rng = np.random.default_rng(7)
    right = rng.integers(-9, 9, size) * scale
    left = right + rng.integers(-2, 2, size) * scale
    equal(left, right, kernel)
    left[0] = right[0] = 1.0
    equal(left, right, kernel)  # the error alone leaves the range


@pytest.mark.parametrize("size", [5, 128, 9000])
def test_subnormal_errors_of_float64_count_as_differences(kernel, size):
    right = np.full(size, 2.0**-1022)
    right[::3] = 1.0
    left = right.copy()
    left[1] = np.nextafter(left[1], 1.0)
    left[2] += 1e-3
    equal(left, right, kernel)
    assert measured(left, right, kernel)
    assert pair_partial(left, right, kernel=kernel).histogram[0] == 1


@pytest.mark.parametrize("token", ["int64", "uint64"])
@pytest.mark.parametrize("other", ["int64", "uint64", "int8", "float32", "float64"])
@pytest.mark.parametrize("at", [2**53 - 1, 2**53, 2**53 + 1, 2**62 + 1])
def test_integers_of_64_bits_have_the_same_bits_where_float64_ends(kernel, at, other, token):
    left = np.full(200, at, token)
    right = values_of(other, np.random.default_rng(0), 200)
    equal(left, right, kernel)
    equal(right, left, kernel)
    near = (left - np.arange(200).astype(token)).astype(other if other[-2:] == "64" else token)
    equal(left, near, kernel)


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">f2", ">i4", "c8", "c16", "g"])
def test_other_dtypes_and_byte_orders_have_the_same_bits(kernel, dtype):
    rng = np.random.default_rng(2)
    left, right = (rng.normal(size=(2, 1024)) * 50).astype(dtype)
    equal(left, right, kernel)
    equal(left, np.abs(right).astype("f4"), kernel)


def test_what_lies_askew_in_memory_is_measured(kernel):
    rng = np.random.default_rng(8)
    both = rng.normal(size=(2, 2048)).astype(np.float32)
    askew = np.zeros(both.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(both.shape)
    askew[...] = both
    assert not askew.flags.aligned
    equal(*askew, kernel)
    assert measured(*askew, kernel)


@pytest.mark.parametrize("token", ["float32", "bfloat16", "float16", "float64", "float8_e5m2"])
@pytest.mark.parametrize("odd_at", [None, 1023, 1024, 5000])
def test_bits_seen_stop_where_the_reference_does(kernel, odd_at, token):
    dtype = dtype_from_token(token)
    values = np.full(6000, 2.0, dtype)
    stored = values.view(f"u{dtype.itemsize}")
    if odd_at is not None:
        stored[odd_at] += stored.dtype.type(1)
    stored[5500] += stored.dtype.type(2)
    equal(values, np.ones(6000, dtype), kernel)


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
    same_bits(whole, blocks)


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
    same_bits(
        pair_run(left, right, 7, kernel, **tolerance), pair_run(left, right, 7, None, **tolerance)
    )


@pytest.mark.parametrize("token", ["bfloat16", "float16", "float64", "int16", "bool"])
def test_a_run_of_blocks_of_any_dtype_has_the_figures_of_its_blocks(kernel, token):
    rng = np.random.default_rng(9)
    size = 3 * FIGURES_BLOCK + 9001
    left, right = values_of(token, rng, size), values_of(token, rng, size)
    left[: 2 * FIGURES_BLOCK] = right[: 2 * FIGURES_BLOCK]
    tolerance = {"rtol": 1e-4, "atol": 1e-5}
    whole = pair_run(left, right, 7, kernel, **tolerance)
    same_bits(whole, pair_run(left, right, 7, None, **tolerance))


@pytest.mark.parametrize("loop", ["fused_pairs", "avx2_pairs", "portable_pairs", None])
def test_many_pairs_have_the_bits_of_each(loop):
    rng = np.random.default_rng(10)
    lefts, rights = [], []
    for i in range(60):
        size = int(rng.choice([0, 1, 5, 256, 300, 9000]))
        tokens = rng.choice(DTYPES, 2)
        lefts.append(values_of(tokens[0], rng, size))
        rights.append(values_of(tokens[i % 2], rng, size))
    lefts.append(np.array([1.0, np.nan], np.float32))
    rights.append(np.array([1.0, np.nan], np.float32))
    tolerance = {"rtol": 1e-3, "atol": 1e-4, "equal_nan": True}
    kernel = loop and compiled.kernel(loop)
    many = measure_many(lefts, rights, kernel, **tolerance)
    assert len(many) == len(lefts)
    for row, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        same_bits(many.at(row), pair_partial(left, right, **tolerance))


def test_no_pairs_are_no_rows(kernel):
    assert len(measure_many([], [], kernel, rtol=0.0, atol=0.0, equal_nan=False)) == 0


def test_pairs_that_do_not_fit_are_refused(kernel):
    tolerance = {"rtol": 0.0, "atol": 0.0, "equal_nan": False}
    with pytest.raises(ValueError, match="length"):
        measure_many([np.zeros(2)], [np.zeros(3)], kernel, **tolerance)
    with pytest.raises(ValueError, match="object"):
        measure_many([np.zeros(2, object)], [np.zeros(2)], kernel, **tolerance)
