import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.laws.recurrent import GRU, LSTM
from troubleshooter_nb.metrics.operators.recurrent import Gates, gru

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def side(inputs, output, parameters=None, dtype="float32"):
    return Operands(inputs, parameters or {}, output, ROUNDOFF[dtype])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def torch_case(kind, first=False):
    import torch

    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(12, 16, batch_first=first)
    x = torch.randn(5, 9, 12)
    known = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    return x.numpy(), layer(x)[0].detach().numpy(), known


@pytest.mark.torch
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("kind", "fit"), [("GRU", GRU.fit), ("LSTM", LSTM.fit)])
def test_torchs_layers_are_the_standard_ones(kind, fit, first):
    x, output, known = torch_case(kind, first)
    fits = fit(side([x], output, known))
    assert fits[0].residual < 1e-6
    assert fits[0].settings["axes"] == ("items first" if first else "steps first")
    assert fits[0].settings["gates"] == ("rzn" if kind == "GRU" else "ifgo")
    assert fits[0].settings["biases"] == "both"
    assert fits[1].residual > 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_a_reset_before_the_product_is_seen(seed):
    arrays = [0.3 * normal(*s, seed=seed) for s in ((48, 12), (48, 16), (48,), (48,))]
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    x = normal(9, 5, 12, seed=seed + 50)
    output = gru(x, np.zeros((5, 16)), Gates(*arrays), reset_after=False).astype(np.float32)
    best = GRU.fit(side([x], output, dict(zip(names, arrays, strict=True))))[0]
    assert best.settings["reset"] == "before the product"
    assert best.residual < 1e-6


@pytest.mark.torch
def test_another_order_of_gates_and_a_missing_bias_are_seen():
    x, output, known = torch_case("LSTM")
    blocks = {name: np.split(value, 4) for name, value in known.items()}
    # As Keras: i f g o is the same there; here o comes first.
    swapped = {name: np.concatenate([b[3], b[1], b[2], b[0]]) for name, b in blocks.items()}
    assert LSTM.fit(side([x], output, swapped))[0].settings["gates"] == "ofgi"
    import torch

    layer = torch.nn.LSTM(12, 16)
    layer.load_state_dict({n: torch.tensor(v) for n, v in known.items()})
    torch.nn.init.zeros_(layer.bias_hh_l0)
    less = layer(torch.tensor(x))[0].detach().numpy()
    assert LSTM.fit(side([x], less, known))[0].settings["biases"] == "input only"


@pytest.mark.torch
def test_several_layers_and_unrelated_values_fit_nothing():
    x, output, known = torch_case("GRU")
    assert GRU.fit(side([x], output, {**known, "weight_ih_l1": known["weight_hh_l0"]})) == []
    assert GRU.fit(side([x], normal(*output.shape), known)) == []


def test_a_late_step_is_held_against_the_formula_as_well():
    x, given, seen = normal(80, 3, 5), normal(24, 5, seed=1), normal(24, 8, seed=2)
    gates = Gates(*(v.astype(np.float64) for v in (given, seen, np.zeros(24), np.zeros(24))))
    right = gru(x.astype(np.float64), np.zeros((3, 8)), gates).astype(np.float32)
    known = {"weight_ih_l0": given, "weight_hh_l0": seen}
    assert GRU.fit(side([x], right, known))[0].residual < 1e-6
    left = right.copy()
    left[70] = 0.0
    assert GRU.fit(side([x], left, known)) == []
