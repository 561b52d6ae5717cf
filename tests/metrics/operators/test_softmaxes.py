import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.softmaxes import (
    narrow_softmax,
    softmax,
    softmax_backward,
)


def test_two_values_by_hand():
    x = np.log([[1.0, 3.0]])
    np.testing.assert_allclose(softmax(x), [[0.25, 0.75]], rtol=1e-15)
    np.testing.assert_allclose(softmax(x, scale=2.0), [[0.1, 0.9]], rtol=1e-15)
    np.testing.assert_allclose(softmax(x, log=True), np.log([[0.25, 0.75]]), rtol=1e-15)


def test_masked_places_have_no_probability():
    got = softmax(np.array([[0.0, -np.inf], [-np.inf, -np.inf]]))
    assert got[0].tolist() == [1.0, 0.0]
    assert np.isnan(got[1]).all()


@pytest.mark.parametrize("log", [False, True])
def test_the_gradient_is_the_derivative(log):
    rng = np.random.default_rng(0)
    x, gradient = rng.standard_normal((2, 3, 4))
    wanted = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        ends = [(softmax(x + s, 0, log=log) * gradient).sum() for s in (step, -step)]
        wanted[place] = (ends[0] - ends[1]) / 2e-6
    got = softmax_backward(gradient, softmax(x, 0, log=log), 0, log=log)
    np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("path", ["input", "output", "input and output", "inside"])
def test_a_narrow_path_is_near_the_exact_one_and_not_equal(path):
    x = np.random.default_rng(0).standard_normal((16, 16))
    error = np.abs(narrow_softmax(x, 1, 1.0, "bfloat16", path) - softmax(x, 1))
    assert 1e-5 < error.max() < 1e-2
