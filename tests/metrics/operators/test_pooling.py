import numpy as np
import pytest

from troubleshooter_nb.metrics.operators.pooling import (
    adaptive_average_pool,
    average_pool,
    average_pool_gradient,
    max_pool,
    max_pool_gradient,
)


def test_divisors_by_hand():
    plane = np.ones((1, 3, 3))
    corner = {
        divisor: average_pool(plane, (3, 3), (2, 2), (1, 1), (2, 2), divisor)[0, 0, 0]
        for divisor in ("window", "padded image", "image")
    }
    assert corner == {"window": 4 / 9, "padded image": 4 / 9, "image": 1.0}
    # Of size 4 the last window of ceil mode reaches a cell beyond the padding.
    over = average_pool(np.ones((1, 4, 4)), (3, 3), (2, 2), (1, 1), (3, 3), "padded image")
    assert over[0, 2, 2] == 1 / 4


def test_ties_get_the_gradient_of_the_first_the_last_or_all():
    plane, gradient = np.zeros((1, 2, 2)), np.ones((1, 1, 1))
    got = {
        ties: max_pool_gradient(gradient, plane, (2, 2), (2, 2), (0, 0), ties)[0].ravel().tolist()
        for ties in ("first", "last", "all")
    }
    assert got == {"first": [1, 0, 0, 0], "last": [0, 0, 0, 1], "all": [1, 1, 1, 1]}


@pytest.mark.torch
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_pools_and_gradients_are_torchs(ceil, counted):
    import torch
    from torch.nn import functional

    x = torch.randn(2, 9, 10, dtype=torch.float64, requires_grad=True)
    largest = functional.max_pool2d(x, 3, 2, 1, ceil_mode=ceil)
    mean = functional.avg_pool2d(x, 3, 2, 1, ceil_mode=ceil, count_include_pad=counted)
    shape, sizes = tuple(mean.shape[1:]), ((3, 3), (2, 2), (1, 1))
    plane, divisor = x.detach().numpy(), "padded image" if counted else "image"
    np.testing.assert_array_equal(max_pool(plane, *sizes, shape), largest.detach().numpy())
    got = average_pool(plane, *sizes, shape, divisor)
    np.testing.assert_allclose(got, mean.detach().numpy(), rtol=1e-12)
    for output, formula in (
        (largest, lambda g: max_pool_gradient(g, plane, *sizes)),
        (mean, lambda g: average_pool_gradient(g, (9, 10), *sizes, divisor)),
    ):
        given = torch.randn_like(output)
        (wanted,) = torch.autograd.grad(output, x, given)
        np.testing.assert_allclose(formula(given.numpy()), wanted.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.torch
def test_adaptive_windows_are_torchs():
    import torch

    x = torch.randn(2, 33, 34, dtype=torch.float64)
    expected = torch.nn.functional.adaptive_avg_pool2d(x, (7, 5)).numpy()
    np.testing.assert_allclose(adaptive_average_pool(x.numpy(), (7, 5)), expected, rtol=1e-9)
