"""The compiled sums are those of numpy, up to the rounding of float64."""

import numpy as np
import pytest

from troubleshooter_nb.metrics import relation_loop
from troubleshooter_nb.metrics.relation_loop import shifted_sums, squared_distance
from troubleshooter_nb.metrics.signatures import remainder_square, spread_of

pytestmark = pytest.mark.skipif(
    relation_loop._function("shifted_sums") is None, reason="the loop was not compiled"
)
SHAPES = [(1,), (7,), (1, 5), (65, 131), (64, 16), (70, 1030), (3, 1, 4), (5, 7, 3, 2)]


def views(values):
    """Of one shape: as it is, in the other order in memory, and backwards."""
    turned = np.ascontiguousarray(values.T).T
    return [values, turned, np.ascontiguousarray(values[::-1])[::-1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 7, 8, 1000])
def test_sums_about_a_shift(count, dtype):
    values = np.random.default_rng(count).standard_normal(count).astype(dtype)
    found = shifted_sums(values, 0.25)
    apart = values.astype(np.float64) - 0.25
    assert found.total == pytest.approx(apart.sum(), rel=1e-12, abs=1e-12)
    assert found.square == pytest.approx(apart @ apart, rel=1e-12)
    assert (found.low, found.high) == (values.min(), values.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_distance_is_that_of_any_strides(shape, dtype):
    random = np.random.default_rng(3)
    left, right = (random.standard_normal(shape).astype(dtype) for _ in range(2))
    expected = float(np.square(left.astype(np.float64) - right).sum())
    for ours in views(left):
        for theirs in views(right):
            assert squared_distance(ours, theirs) == pytest.approx(expected, rel=1e-12)


def test_what_is_not_finite_or_real_is_left_to_numpy():
    odd = np.array([1.0, np.nan, np.inf, 2.0], np.float32)
    assert shifted_sums(odd, 0.0) is None
    assert squared_distance(odd, odd) is None
    assert remainder_square(odd, odd) == 0.0
    assert shifted_sums(np.ones(3, np.complex64), 0.0) is None
    assert shifted_sums(np.ones((2, 6), np.float32)[0, ::2], 0.0) is None
    assert squared_distance(np.ones(3, np.float32), np.ones(3)) is None


def test_without_the_loop_numpy_finds_the_same(monkeypatch):
    random = np.random.default_rng(9)
    left, right = (random.standard_normal((40, 30)).astype(np.float32) for _ in range(2))
    with_loop = remainder_square(left, right), spread_of(left)
    monkeypatch.setattr(relation_loop, "_function", lambda name: None)
    assert remainder_square(left, right) == pytest.approx(with_loop[0], rel=1e-12)
    assert spread_of(left).centred == pytest.approx(with_loop[1].centred, rel=1e-12)
