import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.normalisation import (
    fit_eps,
    moments,
    normalise,
    usual_eps,
)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def backward_basis(
    gradient: np.ndarray,
    x: np.ndarray,
    axes: tuple[int, ...],
    weight: np.ndarray | float = 1.0,
    *,
    centred: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Arrays a and b for which the gradient of x is s a + s^3 b, with s = 1 / sqrt(var + eps).

    ``weight * gradient`` alone, times s, is the gradient with detached statistics, or of stored
    ones.
    """
    x = np.asarray(x, np.float64)
    inner = np.asarray(gradient, np.float64) * weight
    distance = x - moments(x, axes, centred=centred).mean
    cubic = -distance * (inner * distance).mean(axis=axes, keepdims=True)
    linear = inner - inner.mean(axis=axes, keepdims=True) if centred else inner
    return linear, cubic


def normalise_backward(
    gradient: np.ndarray,
    x: np.ndarray,
    axes: tuple[int, ...],
    eps: float,
    weight: np.ndarray | float = 1.0,
    *,
    centred: bool = True,
) -> np.ndarray:
    """Gradient of the input of `normalise`, through its statistics."""
    linear, cubic = backward_basis(gradient, x, axes, weight, centred=centred)
    variance = moments(np.asarray(x, np.float64), axes, centred=centred).variance
    scale = 1.0 / np.sqrt(variance + eps)
    return np.asarray(scale * linear + scale**3 * cubic)


def fitted(output, x, axes=(1,), roundoff=2.0**-24):
    statistics = moments(x, axes)
    return fit_eps(output, x - statistics.mean, statistics, axes, roundoff)


def test_a_row_of_two_by_hand():
    # mean 2, variance 1, eps 3: the distances -1 and 1 over 2, times 6 plus 10
    got = normalise(np.array([[1.0, 3.0]]), (1,), 3.0, 6.0, 10.0)
    assert got.tolist() == [[7.0, 13.0]]


def test_without_centre_the_mean_square_is_taken():
    got = normalise(np.array([[3.0, 4.0]]), (1,), 0.0, centred=False)
    np.testing.assert_allclose(got, [[3 / 12.5**0.5, 4 / 12.5**0.5]], rtol=1e-15)


@pytest.mark.parametrize("centred", [True, False])
def test_the_gradient_is_the_derivative(centred):
    x, gradient, weight = normal(3, 5), normal(3, 5, seed=1), normal(5, seed=2)

    def loss(values):
        return (normalise(values, (1,), 0.3, weight, centred=centred) * gradient).sum()

    wanted = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        wanted[place] = (loss(x + step) - loss(x - step)) / 2e-6
    got = normalise_backward(gradient, x, (1,), 0.3, weight, centred=centred)
    np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("eps", [1e-3, 1e-5, 3.7e-6, 1e-7, 1e-12])
def test_eps_is_fitted_within_its_half_width(eps, scale):
    x = scale * normal(64, 48) * np.exp(normal(64, 1, seed=1))
    found = fitted(normalise(x, (1,), eps).astype(np.float32).astype(np.float64), x)
    assert abs(found.eps - eps) <= found.half_width
    # eps counts where it is a millionth of the variance or more: then it is told, and usual
    if eps >= 1e-5 * scale**2:
        assert found.half_width < 0.3 * eps
        assert found.eps == pytest.approx(eps, rel=1e-3)
    assert found.residual < 1e-7


def test_eps_is_fitted_from_a_gradient():
    x, gradient = 1e-2 * normal(64, 48), normal(64, 48, seed=1)
    output = normalise_backward(gradient, x, (1,), 2.5e-5).astype(np.float32).astype(np.float64)
    linear, cubic = backward_basis(gradient, x, (1,))
    found = fit_eps(output, linear, moments(x, (1,)), (1,), 2.0**-24, cubic)
    assert found.eps == pytest.approx(2.5e-5, rel=1e-5)
    assert found.half_width < 1e-9


def test_an_eps_without_effect_is_not_told():
    found = fitted(
        normalise(normal(64, 48), (1,), 1e-12).astype(np.float32).astype(float), normal(64, 48)
    )
    assert found.half_width > 1e-9
    assert found.eps < 1e-7


def test_constant_rows_say_nothing():
    found = fitted(np.zeros((4, 8)) + 1.0, np.ones((4, 8)))
    assert found.half_width == np.inf


def test_the_recorded_eps_goes_before_a_usual_one():
    x = normal(8, 48)
    statistics = moments(x, (1,))
    output = normalise(x, (1,), 1e-12).astype(np.float32).astype(np.float64)
    found = fit_eps(output, x - statistics.mean, statistics, (1,), 2.0**-24, recorded=3e-9)
    assert found.eps == 3e-9


@pytest.mark.parametrize(
    ("eps", "width", "expected"),
    [(1.02e-5, 1e-6, 1e-5), (1.2e-5, 1e-6, 1.2e-5), (1e-9, 1e-8, 1e-12)],
)
def test_usual_values(eps, width, expected):
    assert usual_eps(eps, width) == expected
