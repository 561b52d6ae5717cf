import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.laws.pooling import (
    AVERAGE_POOL,
    AVERAGE_POOL_GRADIENT,
    MAX_POOL,
    MAX_POOL_GRADIENT,
)

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.torch
@pytest.mark.parametrize("size", [(24, 24), (33, 34)])
@pytest.mark.parametrize(
    ("arguments", "padding", "last"),
    [
        ({"kernel_size": 2}, "0, 0", "inside"),
        ({"kernel_size": 3, "stride": 2, "padding": 1}, "1, 1", "inside"),
        ({"kernel_size": 3, "stride": 1}, "0, 0", "inside"),
    ],
)
def test_windows_of_a_max_pool_are_found(arguments, padding, last, size):
    import torch

    x = torch.randn(2, 5, *size)
    best = MAX_POOL.fit(side([x.numpy()], torch.nn.MaxPool2d(**arguments)(x).numpy()))[0]
    kernel, stride = arguments["kernel_size"], arguments.get("stride", arguments["kernel_size"])
    assert best.residual == 0
    assert best.settings == {
        "kernel_size": f"{kernel}, {kernel}",
        "stride": f"{stride}, {stride}",
        "pool_padding": padding,
        "last_window": last,
    }


@pytest.mark.torch
def test_a_last_window_beyond_the_end_is_seen():
    import torch

    x = torch.randn(2, 5, 24, 24)
    output = torch.nn.MaxPool2d(3, 2, ceil_mode=True)(x).numpy()
    assert MAX_POOL.fit(side([x.numpy()], output))[0].settings["last_window"] == "beyond the end"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "divisors"),
    [
        ({"count_include_pad": False}, {"image"}),
        ({"count_include_pad": True}, {"window", "padded image"}),
        ({"count_include_pad": True, "ceil_mode": True}, {"padded image"}),
    ],
)
def test_divisors_of_an_average_pool_are_found(arguments, divisors):
    import torch

    x = torch.randn(2, 5, 24, 24)
    output = torch.nn.AvgPool2d(3, 2, 1, **arguments)(x).numpy()
    fits = AVERAGE_POOL.fit(side([x.numpy()], output))
    good = {fit.settings["divisor"] for fit in fits if fit.residual < 1e-6}
    assert good == divisors


@pytest.mark.torch
def test_adaptive_windows_are_told_from_even_ones():
    import torch

    x = torch.randn(2, 5, 33, 34)
    output = torch.nn.AdaptiveAvgPool2d(7)(x).numpy()
    assert AVERAGE_POOL.fit(side([x.numpy()], output))[0].settings == {"windows": "adaptive"}
    even = torch.nn.AdaptiveAvgPool2d(7)(x[:, :, :28, :28])
    fits = AVERAGE_POOL.fit(side([x[:, :, :28, :28].numpy()], even.numpy()))
    # Both ways are the same computation here, and said in one way.
    assert {fit.settings["windows"] for fit in fits if fit.residual < 1e-6} == {"of one size"}


@pytest.mark.torch
def test_gradients_and_their_factor_are_found():
    import torch

    x = torch.randn(2, 5, 24, 24).relu().requires_grad_()
    for layer, fit in (
        (torch.nn.MaxPool2d(3, 2, 1), MAX_POOL_GRADIENT.fit),
        (torch.nn.AvgPool2d(3, 2, 1, count_include_pad=False), AVERAGE_POOL_GRADIENT.fit),
    ):
        output = layer(x)
        gradient = torch.randn_like(output)
        (given,) = torch.autograd.grad(output, x, gradient)
        inputs = [gradient.numpy(), x.detach().numpy()]
        best = fit(side(inputs, given.numpy()))[0]
        assert best.settings["gradient_factor"] == 1
        assert best.settings.get("ties", "first") == "first"
        assert best.settings.get("divisor", "image") == "image"
        assert fit(side(inputs, 4 * given.numpy()))[0].settings["gradient_factor"] == 4


def test_constant_and_unrelated_values_fit_nothing():
    flat = np.ones((2, 3, 8, 8), np.float32)
    assert MAX_POOL.fit(side([flat], flat[:, :, ::2, ::2])) == []
    assert MAX_POOL.fit(side([normal(2, 3, 8, 8)], normal(2, 3, 4, 4, seed=1))) == []
    assert AVERAGE_POOL.fit(side([normal(2, 3, 8, 8)], normal(2, 3, 4, 4, seed=1))) == []


@pytest.mark.mindspore
def test_mindspores_stride_and_same_padding_are_seen():
    import mindspore

    x = normal(2, 5, 24, 24)
    output = mindspore.nn.MaxPool2d(2)(mindspore.Tensor(x)).asnumpy()
    assert MAX_POOL.fit(side([x], output))[0].settings["stride"] == "1, 1"
    same = mindspore.nn.MaxPool2d(3, 2, pad_mode="same")(mindspore.Tensor(x)).asnumpy()
    best = MAX_POOL.fit(side([x], same))[0]
    assert best.residual == 0
    assert best.settings["pool_padding"].startswith("0, 0")
