import math

import numpy as np
import pytest

from troubleshooter_nb.metrics import signatures
from troubleshooter_nb.metrics.signatures import (
    best_start,
    match_rows,
    nearest,
    remainder_norm,
    row_signatures,
    spread_of,
)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize(
    ("values", "mean", "norm", "centred"),
    [
        ([3.0, 4.0], 3.5, 5.0, math.sqrt(0.5)),
        ([1.0, np.nan, 3.0, np.inf], 2.0, math.sqrt(10.0), math.sqrt(2.0)),
        ([1j, -1j], 0.0, math.sqrt(2.0), math.sqrt(2.0)),
        ([1e8, 1e8 + 1], 1e8 + 0.5, math.sqrt(2.0) * 1e8, math.sqrt(0.5)),
        ([], 0.0, 0.0, 0.0),
        ([np.nan], 0.0, 0.0, 0.0),
    ],
)
def test_spread_by_hand(values, mean, norm, centred):
    got = spread_of(np.array(values))
    # One part in 1e8 of the norm is the rounding of the shift.
    assert (got.mean, got.norm, got.centred) == pytest.approx((mean, norm, centred), rel=1e-7)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_do_not_change_what_is_left(monkeypatch, block):
    monkeypatch.setattr(signatures, "SIGNATURES_BLOCK", block)
    left, right = normal(5, 7), normal(5, 7, seed=1)
    left[2, 2] = right[2, 2] = np.nan
    expected = math.sqrt(np.nansum((left - right) ** 2))
    assert remainder_norm(left, right) == pytest.approx(expected, rel=1e-12)
    assert spread_of(left).norm == pytest.approx(math.sqrt(np.nansum(left**2)), rel=1e-12)
    right[2, 2] = np.inf
    assert remainder_norm(left, right) == math.inf


@pytest.mark.parametrize("brute", [1, 1 << 26])
def test_nearest_rows_are_found_by_either_way(monkeypatch, brute):
    monkeypatch.setattr(signatures, "SIGNATURE_DISTANCES", brute)
    pool = normal(300, 5)
    order = np.random.default_rng(2).permutation(300)
    found, first, second = nearest(pool, pool[order] + 1e-9)
    assert np.array_equal(found, order)
    assert first.max() < 1e-8
    assert second.min() > 0.01


def test_rows_have_the_same_signature_wherever_they_lie():
    values = normal(6, 50, 90)
    order = [4, 0, 5, 2, 1, 3]
    for axis in range(3):
        whole = row_signatures(values, axis)
        assert whole.shape == (values.shape[axis], 16)
    np.testing.assert_allclose(
        row_signatures(values[order], 0), row_signatures(values, 0)[order], rtol=0, atol=1e-12
    )


def test_a_part_is_found_where_it_starts():
    whole = normal(100, 3)
    start, error = best_start(whole, whole[40:60] + 0.1)
    assert start == 40
    assert error == pytest.approx(0.1 * math.sqrt(60))
    assert best_start(whole, whole)[0] == 0


def test_rows_without_a_partner_give_no_order():
    assert match_rows(normal(50, 4), normal(50, 4, seed=1), 1e-2) is None
    assert match_rows(np.ones((50, 4)), np.ones((50, 4)), 1e-2) is None
