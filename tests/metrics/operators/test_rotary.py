import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.rotary import (
    angles,
    as_pairs,
    frequencies,
    pair_factors,
    turning_rates,
)


def test_pairs_by_hand():
    row = np.array([1.0, 2, 3, 4])
    np.testing.assert_array_equal(as_pairs(row, "halves"), [1 + 3j, 2 + 4j])
    np.testing.assert_array_equal(as_pairs(row, "interleaved"), [1 + 2j, 3 + 4j])


def test_rates_are_recovered_over_many_turns():
    steps = frequencies(1e6, 64)
    turned = np.exp(1j * angles(np.arange(1000.0), steps))
    before = np.random.default_rng(0).standard_normal((1000, 3, 32)) + 0.5j
    rates = turning_rates(pair_factors(before, before * turned[:, None]))
    np.testing.assert_allclose(rates, steps, atol=1e-13)


@pytest.mark.parametrize(("name", "exact_up_to"), [("bfloat16", 256), ("float16", 2048)])
def test_positions_in_16_bits_are_exact_up_to(name, exact_up_to):
    places = np.arange(exact_up_to + 2.0)
    got = angles(places, np.ones(1), f"{name} positions")[:, 0]
    np.testing.assert_array_equal(got[:-1], places[:-1])
    assert got[-1] != places[-1]
