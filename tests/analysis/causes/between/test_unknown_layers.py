"""Calls of classes of the user's own, tried as the layers that their shapes allow."""

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.between.unknown_layers import unknown_layer_suspicions
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.dump import ArrayInMemory


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tensor(left, right, number=0):
    sides = [np.asarray(values, np.float32) for values in (left, right)]
    gap = float(np.linalg.norm(sides[0] - sides[1]) / np.linalg.norm(sides[1]))
    return TensorPair(number, "x", sources=tuple(map(ArrayInMemory, sides)), rel_l2=gap)


def call(x, left, right, **parameters):
    known = {name: tensor(value, value) for name, value in parameters.items()}
    return Call("", "own", "forward", (tensor(x, x),), (tensor(left, right, 7),), known)


def rms(x, weight, eps):
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps) * weight


def test_the_eps_of_a_norm_of_its_own_class_is_found():
    x, weight = 0.03 * normal(64, 32), 1 + 0.1 * normal(32, seed=1)
    outcome, found = unknown_layer_suspicions(
        call(x, rms(x, weight, 1e-3), rms(x, weight, 1e-6), weight=weight)
    )
    assert outcome == "different"
    assert [s.cause for s in found] == ["norm_eps"]
    assert found[0].pair == 7


@pytest.mark.parametrize("function", [np.tanh, lambda x: x / (1 + np.exp(-x))])
def test_an_activation_of_its_own_class_that_both_sides_share_created_nothing(function):
    x = normal(64, 32).astype(np.float64)
    shaken = function(x) * (1 + 2.0**-24 * normal(64, 32, seed=1))
    assert unknown_layer_suspicions(call(x, shaken, function(x))) == ("same", [])


def test_an_activation_that_became_another_is_found():
    x = normal(64, 32)
    outcome, found = unknown_layer_suspicions(call(x, np.tanh(x), np.maximum(x, 0)))
    assert (outcome, [s.cause for s in found]) == ("different", ["activation_changed"])


def test_a_dense_layer_of_its_own_class_is_fitted():
    x, weight = normal(64, 32), normal(16, 32, seed=1)
    made = x.astype(np.float64) @ weight.T.astype(np.float64)
    bias = normal(16, seed=2)
    outcome, found = unknown_layer_suspicions(call(x, made, made + bias, weight=weight, bias=bias))
    assert (outcome, [s.cause for s in found]) == ("different", ["bias_missing"])


@pytest.mark.parametrize("shape", [(64, 32), (64, 8)])
def test_what_is_no_such_layer_stays_unknown(shape):
    found = unknown_layer_suspicions(
        call(normal(64, 32), normal(*shape, seed=1), normal(*shape, seed=2))
    )
    assert found == ("unknown", [])


def test_backward_calls_are_not_tried():
    x = normal(64, 32)
    given = call(x, np.tanh(x), np.maximum(x, 0))
    backward = Call("", "own", "backward", given.inputs, given.outputs)
    assert unknown_layer_suspicions(backward) == ("unknown", [])
