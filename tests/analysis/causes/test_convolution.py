from dataclasses import replace

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.fits import settings_apart
from troubleshooter_nb.analysis.causes.layers import cause_of
from troubleshooter_nb.analysis.causes.searches.convolution import (
    fit_convolution,
    fit_convolution_backward,
    fit_transposed_convolution,
)

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameters(layer):
    return {name: value.detach().float().numpy() for name, value in layer.named_parameters()}


def settings_of(x, layer, pad=(0, 0, 0, 0), dtype="float32"):
    import torch

    kind = getattr(torch, dtype)
    # Summed in float32 and rounded at the end: where the processor has AMX, torch 2.13 itself is
    # wrong by 110 % in a bfloat16 convolution of kernel 8 and stride 8.
    x, layer = x.to(kind).float(), layer.to(kind).float()
    output = layer(torch.nn.functional.pad(x, pad)).detach().to(kind).float().numpy()
    best = fit_convolution(side([x.numpy()], output, parameters(layer), dtype))[0]
    # Of numbers stored in 16 bits nearly all elements become equal to the formula's.
    assert best.residual < 1e-6 if dtype == "float32" else best.residual < ROUNDOFF[dtype]
    return best.settings


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("arguments", "padding", "side_", "stride"),
    [
        ({"kernel_size": 3}, "0 rows, 0 columns", "even", "1, 1"),
        ({"kernel_size": 3, "padding": 1}, "2 rows, 2 columns", "even", "1, 1"),
        ({"kernel_size": 5, "padding": 2, "groups": 4}, "4 rows, 4 columns", "even", "1, 1"),
        ({"kernel_size": 3, "padding": 2, "dilation": 2}, "4 rows, 4 columns", "even", "1, 1"),
        ({"kernel_size": (1, 7), "padding": (0, 3)}, "0 rows, 6 columns", "even", "1, 1"),
        ({"kernel_size": 1, "stride": 2}, "0 rows, 0 columns", "even", "2, 2"),
        ({"kernel_size": 8, "stride": 8}, "0 rows, 0 columns", "even", "8, 8"),
        (
            {"kernel_size": 3, "padding": 1, "stride": 2},
            "1 rows, 1 columns",
            "more in front",
            "2, 2",
        ),
    ],
)
def test_geometries_are_found(arguments, padding, side_, stride, dtype):
    import torch

    torch.manual_seed(0)
    found = settings_of(torch.randn(2, 8, 24, 32), torch.nn.Conv2d(8, 12, **arguments), dtype=dtype)
    assert (found["padding"], found["padding_side"], found["stride"]) == (padding, side_, stride)
    assert (found["bias"], found["kernel"], found["padding_mode"]) == (True, "as stored", "zeros")


@pytest.mark.torch
def test_the_odd_cell_is_seen_at_the_end():
    import torch

    x, layer = torch.randn(2, 8, 24, 24), torch.nn.Conv2d(8, 12, 3, stride=2)
    found = settings_of(x, layer, pad=(0, 1, 0, 1))
    assert found["padding"] == "1 rows, 1 columns"
    assert found["padding_side"] == "more at the end"


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_other_borders_than_zeros_are_seen(mode):
    import torch

    layer = torch.nn.Conv2d(8, 12, 3, padding=1, padding_mode=mode)
    assert settings_of(torch.randn(2, 8, 20, 20), layer)["padding_mode"] == mode


@pytest.mark.torch
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda w: w.flip(2, 3), "flipped"),
        (lambda w: w.transpose(2, 3), "rows and columns swapped"),
        (lambda w: w.transpose(0, 1), "in and out swapped"),
    ],
)
def test_a_kernel_in_another_order_is_seen(change, name):
    import torch

    layer = torch.nn.Conv2d(8, 8, 3, padding=1)
    x = torch.randn(2, 8, 20, 20)
    output = torch.nn.functional.conv2d(x, change(layer.weight), layer.bias, padding=1)
    best = fit_convolution(side([x.numpy()], output.detach().numpy(), parameters(layer)))[0]
    assert best.settings["kernel"] == name
    assert best.settings["padding"] == "2 rows, 2 columns"


@pytest.mark.torch
def test_a_missing_bias_is_seen_in_one_dimension_too():
    import torch

    layer, x = torch.nn.Conv1d(8, 12, 3, padding=1), torch.randn(2, 8, 40)
    output = torch.nn.functional.conv1d(x, layer.weight, padding=1).detach().numpy()
    best = fit_convolution(side([x.numpy()], output, parameters(layer)))[0]
    assert best.settings["bias"] is False


@pytest.mark.torch
@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
        {"kernel_size": 4, "stride": 2, "padding": 1},
        {"kernel_size": 2, "stride": 2, "groups": 2},
        {"kernel_size": 3},
    ],
)
def test_transposed_convolutions_are_found(arguments):
    import torch

    layer, x = torch.nn.ConvTranspose2d(8, 12, **arguments), torch.randn(2, 8, 9, 10)
    output = layer(x).detach().numpy()
    best = fit_transposed_convolution(side([x.numpy()], output, parameters(layer)))[0]
    stride, padding = arguments.get("stride", 1), arguments.get("padding", 0)
    assert best.residual < 1e-6
    assert best.settings["stride"] == f"{stride}, {stride}"
    assert best.settings["padding"] == f"{padding} rows, {padding} columns in front"
    behind = padding - arguments.get("output_padding", 0)
    assert best.settings["padding_behind"] == f"{behind} rows, {behind} columns behind"


@pytest.mark.torch
def test_another_padding_of_the_output_is_no_equal_transposed_convolution():
    import torch

    torch.manual_seed(0)
    x = torch.randn(2, 8, 9, 9)
    layer = torch.nn.ConvTranspose2d(8, 12, 3, stride=2, padding=1)
    fits = []
    for extra in (0, 1):
        layer.output_padding = (extra, extra)
        output = layer(x).detach().numpy()
        fits.append(fit_transposed_convolution(side([x.numpy()], output, parameters(layer)))[0])
    assert cause_of("convtranspose2d", settings_apart(*fits), fits) == (
        "pad_mode",
        "padding_behind",
    )


@pytest.mark.torch
def test_the_gradient_of_the_input_is_found():
    import torch

    layer = torch.nn.Conv2d(8, 12, 3, stride=2, padding=1)
    x = torch.randn(2, 8, 20, 20, requires_grad=True)
    output = layer(x)
    gradient = torch.randn_like(output)
    output.backward(gradient)
    inputs = [gradient.numpy(), x.detach().numpy()]
    fits = fit_convolution_backward(side(inputs, x.grad.numpy(), parameters(layer)))
    assert fits[0].residual < 1e-6
    assert "bias" not in fits[0].settings


@pytest.mark.torch
def test_values_of_another_layer_fit_nothing():
    import torch

    layer, x = torch.nn.Conv2d(8, 12, 3, padding=1), torch.randn(2, 8, 20, 20)
    assert fit_convolution(side([x.numpy()], normal(2, 12, 20, 20), parameters(layer))) == []
    zeros = np.zeros((2, 12, 20, 20), np.float32)
    assert fit_convolution(side([x.numpy()], zeros, parameters(layer))) == []


@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("size", "stride", "mode", "padding", "side_"),
    [
        (24, 2, "same", "1 rows, 1 columns", "more at the end"),
        (24, 1, "same", "2 rows, 2 columns", "even"),
        (24, 1, "valid", "0 rows, 0 columns", "even"),
    ],
)
def test_mindspores_pad_modes_are_told_apart(size, stride, mode, padding, side_):
    import mindspore

    layer = mindspore.nn.Conv2d(8, 12, 3, stride, pad_mode=mode)
    x = normal(2, 8, size, size)
    output = layer(mindspore.Tensor(x)).asnumpy()
    best = fit_convolution(side([x], output, {"weight": layer.weight.asnumpy()}))[0]
    assert (best.settings["padding"], best.settings["padding_side"]) == (padding, side_)


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("size", [3, 4, 6])
def test_the_border_of_a_small_image_is_told(mode, size):
    import torch

    torch.manual_seed(0)
    layer = torch.nn.Conv2d(16, 16, 3, padding=1, bias=False, padding_mode=mode)
    found = settings_of(torch.randn(3, 16, size, size), layer)
    assert found["padding_mode"] == mode
    assert found["padding"] == "2 rows, 2 columns"


@pytest.mark.torch
def test_a_border_is_told_where_zeros_are_far_from_it():
    import torch

    torch.manual_seed(1)
    places = torch.arange(4.0)
    # Large values wrap around to small ones: with zeros there, any geometry is as far.
    x = (1 + 0.3 * torch.randn(3, 8, 4, 4)).relu() * (places[:, None] + places)
    weight = torch.randn(16, 8, 3, 3)
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), mode="circular")
    output = torch.nn.functional.conv2d(padded, weight, stride=2).numpy()
    found = fit_convolution(side([x.numpy()], output, {"weight": weight.numpy()}))[0].settings
    assert (found["padding_mode"], found["stride"]) == ("circular", "2, 2")


@pytest.mark.torch
def test_a_dilation_is_not_told_as_its_padding():
    import torch

    torch.manual_seed(0)
    x, weight = torch.randn(2, 8, 20, 20), torch.randn(12, 8, 3, 3)
    outputs = [torch.nn.functional.conv2d(x, weight, padding=n, dilation=n).numpy() for n in (2, 1)]
    fits = [fit_convolution(side([x.numpy()], y, {"weight": weight.numpy()}))[0] for y in outputs]
    assert cause_of("conv2d", settings_apart(*fits), fits) == ("argument_order", "dilation")


@pytest.mark.torch
def test_one_odd_element_is_in_the_sample():
    import torch

    layer, x = torch.nn.Conv2d(8, 32, 3, padding=1), torch.randn(5, 8, 40, 40)
    output = layer(x).detach().numpy()
    broken = output.copy()
    broken[2, 17, 23, 29] += 100.0
    given = side([x.numpy()], broken, parameters(layer))
    assert fit_convolution(given)[0].residual < 1e-6
    distance4 = np.abs(broken - output) / 100.0
    assert not fit_convolution(replace(given, distance4=distance4))
