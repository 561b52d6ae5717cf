"""The compiled drill-down gives the bits that numpy gives, over every dtype and shape."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from troubleshooter_nb.metrics import locate_loop
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.locate import Location, locate
from troubleshooter_nb.metrics.places import AxisSums, Places, bin_edges
from troubleshooter_nb.thresholds import LOCATE_BLOCK, LOCATE_RUN

LONG = os.environ.get("TNB_LONG") == "1"
NAN, INF = np.nan, np.inf
is_compiled = pytest.mark.skipif(
    locate_loop.LocateLoop.of(Places(AxisSums(()), AxisSums(()), (0.0, 0.0)), 1, portable=True)
    is None,
    reason="installed without a C compiler: no compiled loop",
)
WAYS = ("compiled", "portable")


def reader(array: np.ndarray) -> Callable[[int, int], np.ndarray]:
    flat = array.reshape(-1)
    return lambda start, stop: flat[start:stop]


def as_bytes(location: Location) -> dict[str, object]:
    """Every attribute down to the last bit and the sign of zero."""
    found: dict[str, object] = {}
    for field in dataclasses.fields(location):
        value = getattr(location, field.name)
        arrays = value if field.name == "profiles" else (np.asarray(value),)
        found[field.name] = [(str(a.dtype), a.shape, a.tobytes()) for a in arrays]
    return found


def equal(left: np.ndarray, right: np.ndarray, value_range=None, **settings_) -> None:
    if value_range is None:
        sides = [np.abs(side) if side.dtype.kind == "c" else side for side in (left, right)]
        with np.errstate(all="ignore"):
            values = np.concatenate([side.astype(np.float64).reshape(-1) for side in sides])
        finite = values[np.isfinite(values)]
        value_range = (finite.min(), finite.max()) if len(finite) else (NAN, NAN)
    numpy, *others = (
        as_bytes(locate(reader(left), reader(right), left.shape, value_range, way=way, **settings_))
        for way in ("numpy", *WAYS)
    )
    for way, other in zip(WAYS, others, strict=True):
        for name, expected in numpy.items():
            assert other[name] == expected, (way, name)


def noisy(shape, dtype="float32", seed=0, noise=1e-3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    right = rng.standard_normal(shape)
    left = right + noise * rng.standard_normal(shape)
    scale = 50 if np.dtype(dtype_from_token(dtype)).kind in "iub" else 1
    sides = [np.asarray(side * scale) for side in (left, right)]
    if np.dtype(dtype_from_token(dtype)).kind in "ub":
        sides = [np.abs(side) for side in sides]
    return sides[0].astype(dtype_from_token(dtype)), sides[1].astype(dtype_from_token(dtype))


SHAPES = [
    *((), (1,), (7,), (1000,), (LOCATE_BLOCK + 1,), (3 * LOCATE_BLOCK + 127,)),
    *((3, 5), (200, 3), (5000, 1), (1, 5000), (65, 129), (600, 128), (500, 1000), (63, 4096)),
    *((4, 5, 6), (3, 4, 5, 6), (70, 2, 2, 2, 33), (2, 3 * LOCATE_BLOCK - 5), (64, 3, 7, 7)),
]


@is_compiled
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_has_the_same_bits(shape):
    equal(*noisy(shape))


@is_compiled
@pytest.mark.parametrize(
    "shape",
    [((1 << 20) + 3,), (3_000_000,), (1_100_000, 2), (2, 1_100_000), (1_050_000, 2, 2)],
    ids=str,
)
def test_axes_that_are_summed_into_bins_have_the_same_bits(shape):
    equal(*noisy(shape))


DTYPES = [
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"),
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "int4"),
]


@is_compiled
@pytest.mark.parametrize("other", [None, "float32", "float64", "int64"])
@pytest.mark.parametrize("token", DTYPES)
def test_any_pair_of_dtypes_has_the_same_bits(token, other):
    left, right = noisy((30, 200), token, noise=0.1)
    equal(left, right if other is None else noisy((30, 200), other)[1])


@is_compiled
@pytest.mark.parametrize("token", [">f4", ">f8", ">i2"])
def test_other_byte_orders_and_strides_have_the_same_bits(token):
    left, right = noisy((30, 200), "float32")
    equal((left * 9).astype(token), (right * 9).astype(token))
    both = np.stack([left.reshape(-1), right.reshape(-1)], axis=1)
    equal(both[:, 0], both[:, 1])


@is_compiled
@pytest.mark.parametrize("share", [1e-4, 0.1, 1.0])
@pytest.mark.parametrize("shape", [(200_000,), (100, 1000), (70, 9, 11), (3000, 5)], ids=str)
@pytest.mark.parametrize("token", ["float32", "float64", "bfloat16"])
def test_nan_and_inf_anywhere_have_the_same_bits(token, shape, share):
    left, right = noisy(shape, token)
    rng = np.random.default_rng(7)
    for side, values in ((left, (NAN, INF, -INF)), (right, (NAN, INF)), (left, (INF,))):
        for value in values:
            side[rng.random(shape) < share / 3] = value
    equal(left, right)


@is_compiled
def test_the_same_infinities_on_both_sides_are_no_mismatch_in_any_way():
    left, right = noisy((300, 300))
    mask = np.triu(np.ones((300, 300), bool), 1)
    left[mask] = right[mask] = -INF
    equal(left, right)
    assert not locate(reader(left), reader(right), (300, 300), (-4.0, 4.0)).tile_mismatch.any()


@is_compiled
@pytest.mark.parametrize("scale", [1.7e308, 1e200, 1e-200, 5e-324])
def test_errors_that_need_scaling_have_the_same_bits(scale):
    left, right = noisy((40, 300), "float64")
    equal(np.clip(left, -1, 1) * scale, np.clip(right, -1, 1) * scale)


@is_compiled
@pytest.mark.parametrize("wrong", [0, 1, 7, 8, 9, 300, 20_000])
@pytest.mark.parametrize("shape", [(20_000,), (100, 200), (20, 1000)], ids=str)
def test_equal_errors_are_ranked_by_their_index_in_any_way(shape, wrong):
    right = np.zeros(math.prod(shape), np.float32)
    left = right.copy()
    left[np.random.default_rng(wrong).permutation(left.size)[:wrong]] = 1.0
    equal(left.reshape(shape), right.reshape(shape))


@is_compiled
@pytest.mark.parametrize("order", [1, -1])
def test_errors_that_grow_or_shrink_have_the_same_bits(order):
    left = np.arange(200_000, dtype=np.float32)[::order].reshape(200, 1000)
    equal(left, np.zeros_like(left))


@is_compiled
@pytest.mark.parametrize("value_range", [(0.0, 0.0), (0.25, 0.5), (1.0, 1e300), (NAN, NAN)])
def test_values_outside_the_range_are_counted_alike(value_range):
    equal(*noisy((50, 70)), value_range=value_range)


@is_compiled
@settings(max_examples=500 if LONG else 40, deadline=None)
@given(
    st.lists(st.integers(1, 10), max_size=3),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 3, 8, 100, 128, 1000]),
    st.integers(0, 1 << 30),
)
@example([40, 3, 400], "float32", 128, 0)
def test_any_block_has_the_same_bits(shape, token, block, seed):
    equal(*noisy(tuple(shape), token, seed, noise=0.3), block=block)


# --- reading --------------------------------------------------------------------------------------


class Source:
    """A source that reads into the memory it is given, or into its own."""

    def __init__(self, values: np.ndarray, takes_memory: bool) -> None:
        self.values, self.takes_memory = values, takes_memory
        self.memory: set[int] = set()
        self.most = 0

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        self.most = max(self.most, stop - start)
        if into is None or not self.takes_memory:
            return self.values[start:stop].copy()
        self.memory.add(into.ctypes.data)
        into[:] = self.values[start:stop]
        return into


@pytest.mark.parametrize("takes_memory", [True, False])
@pytest.mark.parametrize("way", ["numpy", "compiled"])
def test_a_source_is_read_in_long_runs_into_the_same_memory(way, takes_memory):
    shape = (3, LOCATE_RUN // 2 + 5)
    left, right = noisy(shape)
    sides = [Source(side.reshape(-1), takes_memory) for side in (left, right)]
    dtypes = (left.dtype, right.dtype)
    got = locate(sides[0].read, sides[1].read, shape, (-6.0, 6.0), dtypes=dtypes, way=way)
    plain = locate(reader(left), reader(right), shape, (-6.0, 6.0), way=way)
    assert as_bytes(got) == as_bytes(plain)
    assert [len(side.memory) for side in sides] == [int(takes_memory)] * 2
    assert LOCATE_BLOCK < sides[0].most <= LOCATE_RUN


def test_arrays_in_memory_are_left_as_they_are():
    left, right = noisy((300, 1000))
    left[5, 5] = NAN
    before = left.tobytes(), right.tobytes()
    locate(reader(left), reader(right), left.shape, (-6.0, 6.0))
    assert (left.tobytes(), right.tobytes()) == before


@pytest.mark.parametrize("lost", [1, 500])
def test_a_source_that_gives_too_little_is_refused(lost):
    left, right = noisy((300, 1000))
    short = reader(right.reshape(-1)[:-lost])
    with pytest.raises(ValueError, match="broadcast"):
        locate(reader(left), short, left.shape, (-6.0, 6.0))
    with pytest.raises(ValueError, match="reshape"):
        locate(short, short, left.shape, (-6.0, 6.0))


# --- edges of the bins ----------------------------------------------------------------------------


@settings(max_examples=1000 if LONG else 100)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
)
@example(-1.7e308, 1.7e308)
@example(-5e-324, 5e-324)
@example(-1.0, 1.0)
def test_an_edge_is_the_smallest_float_of_its_bin(one, other):
    low, high = sorted((one, other))
    edges = bin_edges(low, high)
    if low == high:
        assert np.isinf(edges).all()
        return
    for k, edge in enumerate(edges.tolist(), 1):
        exact = Fraction(low) + (Fraction(high) - Fraction(low)) * k / 10
        assert Fraction(edge) >= exact > Fraction(math.nextafter(edge, -INF))


def test_a_float32_reaches_an_edge_of_float32_where_it_reaches_that_of_float64():
    for low, high in ((-0.7, 0.3), (0.1, 3e38), (1e-45, 3e-45), (0.0, 1e300)):
        found = Places(AxisSums(()), AxisSums(()), (low, high))
        near = np.nan_to_num(found.float_edges, posinf=3e38)
        for values in (near, np.nextafter(near, np.float32(-INF))):
            wide = values.astype(np.float64)
            np.testing.assert_array_equal(values >= found.float_edges, wide >= found.edges)


def test_without_the_library_numpy_does_the_work(monkeypatch):
    monkeypatch.setattr(locate_loop, "_function", lambda: None)
    left, right = (np.array([1.0, value], ml_dtypes.bfloat16) for value in (2.0, 3.0))
    assert locate(reader(left), reader(right), (2,), (1.0, 3.0)).worst_error.tolist() == [1.0]
