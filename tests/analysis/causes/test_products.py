from dataclasses import replace

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.laws import products
from troubleshooter_nb.analysis.causes.laws.products import (
    ADDMM,
    LINEAR,
    LINEAR_GRADIENT,
    MATMUL,
    MATMUL_GRADIENT,
    WEIGHT_GRADIENT,
)
from troubleshooter_nb.metrics.float_formats import in_format
from troubleshooter_nb.metrics.operators.products import product

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


STANDARD = {
    "bias": True,
    "bias_times": 1.0,
    "weight": "as stored",
    "reduced": "all",
    "product_format": "exact",
    "operand_dtype": "as stored",
}


def dense(rows=40, features=96, outputs=96, seed=0):
    x, weight = normal(rows, features, seed=seed), normal(outputs, features, seed=seed + 1)
    return x, weight, normal(outputs, seed=seed + 2)


def rounded(values, name):
    return in_format(values, name).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("formula", "changed"),
    [
        (lambda x, w, b: x @ w.T + b, {}),
        (lambda x, w, b: x @ w.T, {"bias": False}),
        (lambda x, w, b: x @ w.T + 4 * b, {"bias_times": 4.0}),
        (lambda x, w, b: x @ w + b, {"weight": "transposed"}),
        (lambda x, w, b: x[:, 48:72] @ w[:, 48:72].T + b, {"reduced": "part 3 of 4"}),
        (lambda x, w, b: x[:, :48] @ w[:, :48].T, {"reduced": "part 1 of 2", "bias": False}),
        (lambda x, w, b: 2 * (x @ w.T) + b, {"reduced": "2 times"}),
        (
            lambda x, w, b: rounded(x, "tf32") @ rounded(w, "tf32").T + b,
            {"product_format": "tf32"},
        ),
        (
            lambda x, w, b: rounded(x, "hf32") @ rounded(w, "hf32").T + b,
            {"product_format": "hf32"},
        ),
        (
            lambda x, w, b: rounded(x, "bfloat16") @ rounded(w, "bfloat16").T + b,
            {"operand_dtype": "bfloat16"},
        ),
    ],
)
def test_a_dense_layer_says_what_it_did(formula, changed, seed):
    x, weight, bias = dense(seed=10 * seed)
    fits = LINEAR.fit(side([x], formula(x, weight, bias), {"weight": weight, "bias": bias}))
    assert fits[0].settings == {**STANDARD, **changed}
    assert fits[0].residual < 1e-6
    assert fits[1].residual > 50 * fits[0].residual


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("dtype", "unit"),
    # In range float16 rounds as TF32 does: of float16 outputs only HF32 can be told.
    [("bfloat16", "exact"), ("bfloat16", "tf32"), ("float16", "exact"), ("float16", "hf32")],
)
def test_tf32_shows_below_the_rounding_of_16_bits(dtype, unit, seed):
    x, weight, _ = dense(64, 256, 64, seed=seed)
    exact = in_format(x, unit) @ in_format(weight, unit).T
    output = in_format(exact, dtype).astype(np.float32)
    best = LINEAR.fit(side([x], output, {"weight": weight}, dtype))[0]
    assert best.settings["product_format"] == unit


def test_a_bias_of_zero_is_as_good_as_none():
    x, weight, bias = dense()
    fits = LINEAR.fit(side([x], x @ weight.T, {"weight": weight, "bias": 0 * bias}))
    assert {fit.settings["bias"] for fit in fits if fit.residual < 1e-6} == {True, False}


@pytest.mark.parametrize("output", [normal(40, 96, seed=9), np.zeros((40, 96), np.float32)])
def test_values_of_another_layer_or_zeros_fit_nothing(output):
    x, weight, bias = dense()
    assert LINEAR.fit(side([x], output, {"weight": weight, "bias": bias})) == []


def test_shapes_that_are_not_a_dense_layers_fit_nothing():
    x, weight, bias = dense()
    assert LINEAR.fit(side([x], normal(40, 95), {"weight": weight, "bias": bias})) == []
    assert LINEAR.fit(side([x[:1, :]], normal(1, 4), {"weight": weight[:4]})) == []
    assert LINEAR.fit(side([None], x @ weight.T, {"weight": weight})) == []


def test_addmm_takes_its_arguments_in_its_own_order():
    x, weight, bias = dense(outputs=64)
    best = ADDMM.fit(side([bias, x, weight.T], x @ weight.T + bias))[0]
    assert best.settings == STANDARD


@pytest.mark.parametrize(
    ("factor", "name"), [(1.0, "1"), (1 / 64**0.5, "1/sqrt(64)"), (1 / 64, "1/64"), (0.2345, "")]
)
def test_a_product_says_its_scale(factor, name):
    q, k = normal(2, 3, 20, 64), normal(2, 3, 64, 21, seed=1)
    best = MATMUL.fit(side([q, k], np.float32(factor) * (q @ k)))[0]
    assert best.settings["scale"] == pytest.approx(factor, rel=1e-5)
    assert best.settings["scale_name"] == name


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_torchs_layer_is_the_standard_one_in_both_directions(dtype):
    import torch

    layer = torch.nn.Linear(96, 80).to(getattr(torch, dtype))
    x = torch.randn(4, 30, 96).to(getattr(torch, dtype)).requires_grad_()
    output = layer(x)
    gradient = torch.randn_like(output)
    output.backward(gradient)
    x_, output_, gradient_, to_x, to_weight, weight, bias = (
        value.detach().float().numpy()
        for value in (x, output, gradient, x.grad, layer.weight.grad, layer.weight, layer.bias)
    )
    known = {"weight": weight, "bias": bias}
    assert LINEAR.fit(side([x_], output_, known, dtype))[0].settings == STANDARD
    back = LINEAR_GRADIENT.fit(side([gradient_, x_], to_x, known, dtype))[0]
    assert back.settings["gradient_factor"] == 1
    assert back.residual < 4 * ROUNDOFF[dtype]
    twice = LINEAR_GRADIENT.fit(side([gradient_, x_], 2 * to_x, known, dtype))[0]
    assert twice.settings["gradient_factor"] == 2
    weights = WEIGHT_GRADIENT.fit(side([gradient_, x_], to_weight, known, dtype))[0]
    assert weights.settings["gradient_factor"] == 1


@pytest.mark.torch
def test_both_gradients_of_a_product_are_found():
    import torch

    a, b = torch.randn(3, 20, 24, requires_grad=True), torch.randn(3, 24, 16, requires_grad=True)
    output = a @ b
    gradient = torch.randn_like(output)
    output.backward(gradient)
    inputs = [value.detach().numpy() for value in (gradient, a, b)]
    for one in (a, b):
        assert MATMUL_GRADIENT.fit(side(inputs, one.grad.numpy()))[0].residual < 1e-6


@pytest.mark.mindspore
def test_mindspores_dense_without_bias_differs_from_torchs():
    import mindspore

    x, weight, _ = dense()
    layer = mindspore.nn.Dense(96, 96, has_bias=False)
    layer.weight.set_data(mindspore.Tensor(weight))
    best = LINEAR.fit(side([x], layer(mindspore.Tensor(x)).asnumpy(), {"weight": weight}))[0]
    assert best.settings == {**STANDARD, "bias": False}


def test_a_first_look_at_sums_tries_them_as_they_are_stored(monkeypatch):
    formats = []

    def counted(left, right, *, operands="exact"):
        formats.append(operands)
        return product(left, right, operands=operands)

    monkeypatch.setattr(products.formulas, "product", counted)
    x, weight, bias = dense()
    operands = side([x], x @ weight.T + bias, {"weight": weight, "bias": bias})
    first = LINEAR.fit(replace(operands, thorough=False))
    assert set(formats) == {"exact"}
    assert first[0].settings == STANDARD
    # The same as the best of all ways.
    assert LINEAR.fit(operands)[0].residual == first[0].residual
    assert len(set(formats)) > 4
