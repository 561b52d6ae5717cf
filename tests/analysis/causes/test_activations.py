import functools

import numpy as np
import pytest

from tests.analysis.causes.decided import Tried, cause, decided
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.kernel_fault import kernel_fault
from troubleshooter_nb.analysis.causes.laws import activations
from troubleshooter_nb.analysis.causes.layers import BACKWARD_FITTERS, FITTERS
from troubleshooter_nb.metrics.float_formats import in_format
from troubleshooter_nb.metrics.operators import activations as formulas

SINGLE, HALF, BRAIN = 2.0**-24, 2.0**-11, 2.0**-8
FORMATS = {SINGLE: "", HALF: "float16", BRAIN: "bfloat16"}
FUNCTIONS = {
    **formulas.CATALOGUE,
    ("leaky_relu", "0.2"): functools.partial(formulas.leaky_relu, slope=0.2),
    ("elu", "0.7"): functools.partial(formulas.elu, alpha=0.7),
    ("softplus", "2"): functools.partial(formulas.softplus, beta=2.0),
}


def stored(x, roundoff):
    name = FORMATS[roundoff]
    return in_format(np.asarray(x, np.float64), name) if name else np.asarray(x, np.float32)


def normal(*shape, seed=0, roundoff=SINGLE):
    return stored(2.0 * np.random.default_rng(seed).standard_normal(shape), roundoff)


def fit(word, x, function, roundoff=SINGLE):
    output = stored(function(np.asarray(x, np.float64)), roundoff)
    return Tried(FITTERS, word, Operands([x], {}, output, roundoff))


@pytest.mark.parametrize("size", [60, 3000])
@pytest.mark.parametrize("roundoff", FORMATS)
@pytest.mark.parametrize(("name", "form"), [key for key in FUNCTIONS if key[0] != "identity"])
def test_a_function_is_recognised(name, form, roundoff, size):
    x = 1.5 * normal(size, roundoff=roundoff)
    x[3] = 6.5  # relu6 is relu below
    found = fit("relu", x, FUNCTIONS[name, form], roundoff)
    assert found[0].settings["function"] == name
    assert found[0].settings["times"] == 1
    assert found[0].residual < 2 * roundoff
    assert found[0].uncertainty["function"] < 0.25
    for key in ("slope", "alpha", "beta"):
        if key in found[0].settings:
            assert abs(found[0].settings[key] - float(form)) <= found[0].uncertainty[key]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "roundoff"), [(40, SINGLE), (400, HALF), (2000, BRAIN)])
def test_forms_of_gelu_are_told_below_the_rounding(size, roundoff, seed):
    x = normal(size, seed=seed, roundoff=roundoff)
    forms = ("erf", "tanh", "sigmoid")
    fits = [fit("gelu", x, formulas.CATALOGUE["gelu", form], roundoff) for form in forms]
    assert [side[0].settings["form"] for side in fits] == list(forms)
    assert cause(fits[0], fits[1]) == "gelu_variant"
    assert cause(fits[0], fits[2]) == "gelu_variant"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("roundoff", FORMATS)
@pytest.mark.parametrize(("name", "form"), list(FUNCTIONS))
def test_one_function_of_two_inputs_is_no_cause(name, form, roundoff, seed):
    fits = [
        fit(name, normal(80, seed=100 * seed + side, roundoff=roundoff), FUNCTIONS[name, form],
            roundoff) if name in FITTERS else
        fit("relu", normal(80, seed=100 * seed + side, roundoff=roundoff), FUNCTIONS[name, form],
            roundoff)
        for side in (0, 1)
    ]  # fmt: skip
    assert cause(*fits) is None


@pytest.mark.parametrize("function", [formulas.gelu_erf, formulas.silu, np.tanh, formulas.sigmoid])
def test_missing_and_doubled_activations(function):
    x = normal(200)
    fits = [
        fit("gelu", x, f) for f in (function, formulas.identity, lambda x: function(function(x)))
    ]
    assert fits[1][0].settings["function"] == "identity"
    assert fits[2][0].settings["times"] == 2
    assert cause(fits[0], fits[1]) == "activation_changed"
    assert cause(fits[0], fits[2]) == "activation_changed"


def test_inputs_above_zero_do_not_tell_relu_from_nothing():
    x = np.abs(normal(200))
    found = fit("relu", x, formulas.relu)
    assert found[0].settings["function"] == "relu"
    assert found[0].uncertainty["function"] == np.inf
    assert cause(found, fit("relu", normal(200), formulas.identity)) is None


def test_two_slopes():
    x = normal(300)
    fits = [
        fit("leakyrelu", x, functools.partial(formulas.leaky_relu, slope=s)) for s in (0.01, 0.2)
    ]
    assert [side[0].settings["slope"] for side in fits] == [0.01, 0.2]
    assert cause(*fits) == "activation_changed"


def random_slopes(x, seed=0):
    slopes = np.random.default_rng(seed).uniform(1 / 8, 1 / 3, x.shape)
    return np.where(x < 0, slopes * x, x)


@pytest.mark.parametrize("seed", range(6))
def test_random_slopes_are_told_from_fixed_ones(seed):
    x = normal(1000, seed=seed)
    drawn = fit("rrelu", x, functools.partial(random_slopes, seed=seed))
    fixed = fit("rrelu", x, functools.partial(formulas.leaky_relu, slope=11 / 48))
    assert drawn[0].settings["random"] is True
    assert drawn[0].settings["low"] == pytest.approx(1 / 8, abs=drawn[0].uncertainty["low"])
    assert drawn[0].settings["high"] == pytest.approx(1 / 3, abs=drawn[0].uncertainty["high"])
    assert fixed[0].settings["random"] is False
    assert fixed[0].settings["slope"] == 11 / 48
    assert cause(drawn, fixed) == "random_in_eval"


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "gelu", "silu"])
def test_slopes_that_follow_the_input_are_not_random(name):
    found = fit("rrelu", normal(1000), next(f for key, f in FUNCTIONS.items() if key[0] == name))
    assert not any(way.settings["random"] for way in found)


def test_unrelated_values_fit_nothing():
    x, y = normal(1000), normal(1000, seed=5)
    found = FITTERS["gelu"](Operands([x], {}, y, SINGLE))
    assert found[0].residual > 0.5


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones(100, np.float32), np.ones(100, np.float32)),
        (normal(100), np.zeros(100, np.float32)),
        (normal(4), normal(4)),
        (normal(100), normal(50)),
        (None, normal(50)),
        (np.full(100, np.nan, np.float32), normal(100)),
    ],
)
def test_nothing_is_fitted_to_nothing(x, y):
    assert FITTERS["relu"](Operands([x], {}, y, SINGLE)) == []


def test_places_that_are_not_finite_are_left_out():
    x = normal(200)
    y = formulas.gelu_erf(x.astype(np.float64)).astype(np.float32)
    y[:3], x[5] = np.nan, np.inf
    assert FITTERS["gelu"](Operands([x], {}, y, SINGLE))[0].settings["form"] == "erf"


def test_a_kernel_beyond_rounding_is_named_and_its_function_still_found():
    x = normal(4000)
    exact = np.tanh(x.astype(np.float64))
    noise = 1.0 + 2e-5 * np.random.default_rng(3).standard_normal(4000)
    fits = [Tried(FITTERS, "tanh", Operands([x], {}, y.astype(np.float32), SINGLE))
            for y in (exact * noise, exact)]  # fmt: skip
    assert decided(*fits).outcome == "one_side"
    found = kernel_fault(*fits, (SINGLE, SINGLE), 2e-5)
    assert found.cause == "kernel_fault"
    assert found.evidence["side"] == "left"
    assert found.evidence["factor"] > 100
    assert found.residual < found.floor < found.before
    assert kernel_fault(fits[1], fits[1], (SINGLE, SINGLE), 0.0) is None
    assert kernel_fault(fits[0], fits[0], (SINGLE, SINGLE), 2e-5) is None


def test_another_function_is_no_fault_of_a_kernel():
    x = normal(4000)
    fits = [fit("gelu", x, formulas.CATALOGUE["gelu", form]) for form in ("erf", "tanh")]
    assert kernel_fault(*fits, (SINGLE, SINGLE), 2e-4) is None


@pytest.mark.parametrize("roundoff", [SINGLE, HALF])
@pytest.mark.parametrize("name", ["gelu", "silu", "tanh", "sigmoid", "mish", "selu", "relu"])
def test_a_function_is_recognised_by_its_gradient(name, roundoff):
    x = normal(2000, roundoff=roundoff)
    gradient = normal(2000, seed=1, roundoff=roundoff)
    for key, function in FUNCTIONS.items():
        if key[0] != name:
            continue
        output = stored(gradient * formulas.slope_of(function, x.astype(np.float64)), roundoff)
        found = BACKWARD_FITTERS[name](Operands([gradient, x], {}, output, roundoff))
        assert found[0].settings["function"] == name
        assert found[0].settings["derivative"] == "at the input"
        assert found[0].settings.get("form", "") == key[1]
        assert found[0].residual < 2 * roundoff


@pytest.mark.parametrize("slope", [0.01, 0.2])
def test_a_slope_is_fitted_from_a_gradient(slope):
    x, gradient = normal(500), normal(500, seed=1)
    output = np.where(x < 0, np.float32(slope), np.float32(1.0)) * gradient
    found = BACKWARD_FITTERS["leakyrelu"](Operands([gradient, x], {}, output, SINGLE))
    assert found[0].settings["slope"] == slope


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_gelu_of_the_two_frameworks():
    import mindspore
    import torch

    x = normal(64, 32)
    left = mindspore.nn.GELU()(mindspore.Tensor(x)).asnumpy()
    right = torch.nn.GELU()(torch.tensor(x)).numpy()
    fits = [Tried(FITTERS, "gelu", Operands([x], {}, output, SINGLE)) for output in (left, right)]
    assert cause(*fits) == "gelu_variant"
    assert [side[0].settings["form"] for side in fits] == ["tanh", "erf"]


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_tanh_of_mindspore_is_inexact():
    import mindspore
    import torch

    x = normal(64, 32)
    left = mindspore.nn.Tanh()(mindspore.Tensor(x)).asnumpy()
    right = torch.tanh(torch.tensor(x)).numpy()
    fits = [Tried(FITTERS, "tanh", Operands([x], {}, output, SINGLE)) for output in (left, right)]
    assert decided(*fits).outcome == "one_side"
    before = float(np.linalg.norm(left - right) / np.linalg.norm(right))
    found = kernel_fault(*fits, (SINGLE, SINGLE), before)
    assert found.evidence["side"] == "left"


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_gradient_of_selu_of_mindspore_takes_one_for_alpha():
    import mindspore
    import torch

    x, weights = normal(64, 32), normal(64, 32, seed=1)
    net = mindspore.nn.SeLU()
    weighted = mindspore.grad(lambda t: (net(t) * mindspore.Tensor(weights)).sum())
    tensor = torch.tensor(x, requires_grad=True)
    torch.nn.functional.selu(tensor).backward(torch.tensor(weights))
    outputs = weighted(mindspore.Tensor(x)).asnumpy(), tensor.grad.numpy()
    fits = [Tried(BACKWARD_FITTERS, "selu", Operands([weights, x], {}, output, SINGLE))
            for output in outputs]  # fmt: skip
    assert cause(*fits, backward=True) == "kernel_fault"
    assert [side[0].settings["derivative"] for side in fits] == ["with alpha 1", "at the input"]


@pytest.mark.torch
@pytest.mark.mindspore
def test_a_random_relu_of_mindspore_stays_random():
    import mindspore
    import torch

    x = normal(64, 32)
    left = mindspore.nn.RReLU().set_train(False)(mindspore.Tensor(x)).asnumpy()
    right = torch.nn.RReLU().eval()(torch.tensor(x)).numpy()
    fits = [Tried(FITTERS, "rrelu", Operands([x], {}, output, SINGLE)) for output in (left, right)]
    assert cause(*fits) == "random_in_eval"


@pytest.mark.parametrize("word", ["relu", "silu", "gelu"])
def test_a_nan_that_became_a_number_is_swallowed(word):
    x = normal(64, 32)
    x[3], x[9, 4] = np.nan, np.nan
    function = FUNCTIONS[word, "erf" if word == "gelu" else ""]
    kept = fit(word, x, function)
    zero = fit(word, x, lambda v: np.where(np.isnan(v), 0.0, function(np.nan_to_num(v))))
    assert kept[0].settings["of_nan"] == "nan"
    assert zero[0].settings["of_nan"] == 0.0
    assert cause(zero, kept) == "nan_swallowed"
    assert cause(kept, kept) is None


def test_nan_that_became_various_numbers_says_nothing():
    x = normal(64, 32)
    x[3] = np.nan
    found = fit("relu", x, lambda v: np.where(np.isnan(v), normal(64, 32, seed=1), v.clip(0)))
    assert "of_nan" not in found[0].settings


@pytest.mark.parametrize("roundoff", [SINGLE, HALF, BRAIN])
def test_random_slopes_are_seen_in_every_precision(roundoff):
    x = normal(64, 64, roundoff=roundoff)
    slopes = np.random.default_rng(3).uniform(0.1, 0.3, x.shape)
    found = fit("rrelu", x, lambda v: np.where(v < 0, slopes * v, v), roundoff)
    assert found[0].settings["random"] is True
    plain = fit("rrelu", x, functools.partial(formulas.leaky_relu, slope=0.2), roundoff)
    assert all(one.settings["random"] is False for one in plain)


def test_where_the_sides_are_far_apart_is_no_sample_of_random_slopes(monkeypatch):
    monkeypatch.setattr(activations, "ACTIVATION_SAMPLE", 1 << 10)
    x = normal(64, 64)
    slopes = np.random.default_rng(3).uniform(0.1, 0.3, x.shape)
    output = np.where(x < 0, slopes * x, x).astype(np.float32)
    distance4 = np.abs(output - formulas.leaky_relu(x, 0.2)).astype(np.float32)
    found = FITTERS["rrelu"](Operands([x], {}, output, SINGLE, distance4=distance4))
    assert found[0].settings["random"] is True


def test_a_first_look_tries_the_layers_own_function_only():
    x = normal(16, 16)
    output = formulas.gelu_erf(x.astype(np.float64)).astype(np.float32)
    found = FITTERS["gelu"](Operands([x], {}, output, SINGLE, thorough=False))
    assert {one.settings["function"] for one in found} == {"gelu"}
    assert found[0].settings["form"] == "erf"
