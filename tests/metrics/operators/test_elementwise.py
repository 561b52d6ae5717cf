import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.elementwise import combined, weights_of


@pytest.mark.parametrize(
    ("operator", "expected"), [("add", 8.0), ("sub", 4.0), ("mul", 12.0), ("div", 3.0)]
)
def test_operators_by_hand(operator, expected):
    assert combined(operator, np.array(6.0), np.array(2.0)) == expected


def test_weights_are_recovered_past_what_is_not_finite():
    first, second = np.random.default_rng(0).standard_normal((2, 50))
    output = 2 * first - 0.5 * second
    first[3] = np.nan
    np.testing.assert_allclose(weights_of([first, second], output), [2, -0.5], rtol=1e-12)


def test_weights_of_one_direction_are_not_told():
    first = np.random.default_rng(0).standard_normal(50)
    assert np.isnan(weights_of([first, 3 * first], first)).all()
