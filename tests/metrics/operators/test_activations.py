import math

import numpy as np
import pytest

from troubleshooter_nb.metrics.operators import activations

X = np.concatenate([np.linspace(-9, 9, 1001), [0.0, 3.0, -3.0, 6.0]])


def test_erf_is_that_of_the_standard_library():
    wanted = [math.erf(x) for x in X]
    np.testing.assert_allclose(activations.erf(X), wanted, rtol=0, atol=4e-15)


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (activations.relu6, 7.0, 6.0),
        (activations.sigmoid, -1000.0, 0.0),
        (activations.sigmoid, math.log(3.0), 0.75),
        (activations.silu, math.log(3.0), 0.75 * math.log(3.0)),
        (activations.softplus, 0.0, math.log(2.0)),
        (activations.elu, -math.log(2.0), -0.5),
        (activations.hardswish, 3.0, 3.0),
        (activations.hardsigmoid_fifth, 1.0, 0.7),
        (activations.softsign, -1.0, -0.5),
        (activations.squared_relu, 3.0, 9.0),
        (activations.gelu_erf, 1.0, 0.8413447460685429),  # the normal distribution function at 1
    ],
)
def test_values_by_hand(function, x, expected):
    assert float(function(np.array([x]))[0]) == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_the_forms_of_gelu_are_as_far_apart_as_published():
    # By hand: 4.73e-4 at 2.70, 2.03e-2 at 2.27
    x = np.linspace(0, 6, 60001)
    exact = activations.gelu_erf(x)
    for form, size, place in (("tanh", 4.73e-4, 2.70), ("sigmoid", 2.03e-2, 2.27)):
        error = np.abs(activations.CATALOGUE["gelu", form](x) - exact)
        assert error.max() == pytest.approx(size, rel=2e-3)
        assert x[error.argmax()] == pytest.approx(place, abs=0.02)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "form", "torch_name", "options"),
    [
        *((name, "", name, {}) for name in ("relu", "relu6", "hardtanh", "silu", "sigmoid")),
        *((name, "", name, {}) for name in ("tanh", "selu", "mish", "hardswish", "softsign")),
        ("logsigmoid", "", "logsigmoid", {}),
        ("hardsigmoid", "sixth", "hardsigmoid", {}),
        ("gelu", "erf", "gelu", {}),
        ("gelu", "tanh", "gelu", {"approximate": "tanh"}),
    ],
)
def test_functions_and_slopes_are_those_of_torch(name, form, torch_name, options):
    import torch

    x = np.random.default_rng(0).uniform(-7, 7, 2000)
    function = activations.CATALOGUE[name, form]
    tensor = torch.tensor(x, requires_grad=True)
    output = getattr(torch.nn.functional, torch_name)(tensor, **options)
    output.sum().backward()
    np.testing.assert_allclose(function(x), output.detach().numpy(), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        activations.slope_of(function, x), tensor.grad.numpy(), rtol=1e-7, atol=1e-9
    )
