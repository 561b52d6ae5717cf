"""Calls of classes of the user's own, tried as the layers that their shapes allow."""

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.between.unknown_layers import unknown_layer
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


def tried(call):
    found = unknown_layer(call)
    return found.outcome, found.suspicions


def rms(x, weight, eps):
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps) * weight


def test_the_eps_of_a_norm_of_its_own_class_is_found():
    x, weight = 0.03 * normal(64, 32), 1 + 0.1 * normal(32, seed=1)
    outcome, found = tried(call(x, rms(x, weight, 1e-3), rms(x, weight, 1e-6), weight=weight))
    assert outcome == "different"
    assert [s.cause for s in found] == ["norm_eps"]
    assert found[0].pair == 7


@pytest.mark.parametrize("function", [np.tanh, lambda x: x / (1 + np.exp(-x))])
def test_an_activation_of_its_own_class_that_both_sides_share_created_nothing(function):
    x = normal(64, 32).astype(np.float64)
    shaken = function(x) * (1 + 2.0**-24 * normal(64, 32, seed=1))
    assert tried(call(x, shaken, function(x))) == ("same", [])


def test_an_activation_that_became_another_is_found():
    x = normal(64, 32)
    outcome, found = tried(call(x, np.tanh(x), np.maximum(x, 0)))
    assert (outcome, [s.cause for s in found]) == ("different", ["activation_changed"])


def test_a_dense_layer_of_its_own_class_is_fitted():
    x, weight = normal(64, 32), normal(16, 32, seed=1)
    made = x.astype(np.float64) @ weight.T.astype(np.float64)
    bias = normal(16, seed=2)
    outcome, found = tried(call(x, made, made + bias, weight=weight, bias=bias))
    assert (outcome, [s.cause for s in found]) == ("different", ["bias_missing"])


@pytest.mark.parametrize("shape", [(64, 32), (64, 8)])
def test_what_is_no_such_layer_stays_unknown(shape):
    found = tried(call(normal(64, 32), normal(*shape, seed=1), normal(*shape, seed=2)))
    assert found == ("unknown", [])


def test_backward_calls_are_not_tried():
    x = normal(64, 32)
    given = call(x, np.tanh(x), np.maximum(x, 0))
    backward = Call("", "own", "backward", given.inputs, given.outputs)
    assert tried(backward) == ("unknown", [])


def channel(values, x):
    return np.asarray(values, np.float64).reshape(1, -1, *[1] * (x.ndim - 2))


def batch_norm(x, stats, eps):
    weight, bias, mean, var = (channel(stats[name], x) for name in stats)
    return (x - mean) / np.sqrt(var + eps) * weight + bias


@pytest.mark.parametrize("shape", [(4, 8, 9, 7), (6, 8, 11), (40, 8)])
def test_running_statistics_make_a_batch_norm(shape):
    x = 0.02 * normal(*shape)
    stats = {
        "weight": 1 + 0.2 * normal(8, seed=1),
        "bias": normal(8, seed=2),
        "running_mean": 0.01 * normal(8, seed=3),
        "running_var": 5e-4 * (1 + normal(8, seed=4) ** 2),
    }
    sides = (batch_norm(x, stats, eps) for eps in (1e-3, 1e-5))
    outcome, found = tried(call(x, *sides, **stats))
    assert (outcome, [s.cause for s in found]) == ("different", ["bn_eps"])


def test_a_norm_of_groups_is_told_by_its_values():
    x, weight, bias = 0.02 * normal(3, 8, 6, 5), normal(8, seed=1), normal(8, seed=2)

    def groups(count):
        rows = x.reshape(3, count, -1).astype(np.float64)
        rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        return rows.reshape(x.shape) * channel(weight, x) + channel(bias, x)

    outcome, found = tried(call(x, groups(4), groups(2), weight=weight, bias=bias))
    assert (outcome, [s.cause for s in found]) == ("different", ["normalised_axes"])


def windows(x, how, size=2):
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // size, size, w // size, size).astype(np.float64)
    return how(how(cells, axis=5), axis=3)


def test_fewer_places_are_pooled_and_two_poolings_are_two_layers():
    x = normal(2, 3, 8, 6)
    outcome, found = tried(call(x, windows(x, np.mean), windows(x, np.max)))
    assert (outcome, [s.cause for s in found]) == ("different", ["other_layer"])
    assert found[0].evidence["left_class"] == "AvgPool2d"
    assert found[0].evidence["right_class"] == "MaxPool2d"
    assert tried(call(x, windows(x, np.max), windows(x, np.max))) == ("same", [])


def test_a_pooling_and_what_is_no_layer_are_not_two_layers():
    x = normal(2, 3, 8, 6)
    outcome, found = tried(call(x, windows(x, np.mean), normal(2, 3, 4, 3, seed=1)))
    assert found == []
    assert outcome != "different"


def test_more_places_are_resized():
    x = normal(2, 3, 5, 4)
    nearest = x.repeat(2, -1).repeat(2, -2)
    at = (np.arange(10) * 4 / 9, np.arange(8) * 3 / 7)
    linear = [np.maximum(1 - np.abs(one[:, None] - np.arange(size)), 0)
              for one, size in zip(at, (5, 4), strict=True)]  # fmt: skip
    corners = np.einsum("nchw,ih,jw->ncij", x, *linear)
    outcome, found = tried(call(x, nearest, corners))
    assert (outcome, [s.cause for s in found]) == ("different", ["resize_convention"])


def softmax(x, axis):
    e = np.exp(x.astype(np.float64))
    return e / e.sum(axis, keepdims=True)


def test_what_sums_to_one_is_a_softmax():
    x = normal(2, 4, 6, 6)
    outcome, found = tried(call(x, softmax(x, -1), softmax(x, -2)))
    assert (outcome, [s.cause for s in found]) == ("different", ["softmax_axis"])


def test_a_kernel_makes_a_convolution():
    x, weight, bias = normal(2, 4, 12), normal(6, 4, 3, seed=1), normal(6, seed=2)
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1))).astype(np.float64)
    seen = np.stack([wide[..., k : k + 12] for k in range(3)], -1)
    made = np.einsum("nclk,ock->nol", seen, weight)
    outcome, found = tried(call(x, made, made + bias[None, :, None], weight=weight, bias=bias))
    assert (outcome, [s.cause for s in found]) == ("different", ["bias_missing"])


def of_two(x, other, left, right):
    inputs = tensor(x, x), tensor(other, other, 1)
    return Call("", "own", "forward", inputs, (tensor(left, right, 7),), {})


def test_two_inputs_are_products_of_matrices():
    q, k = normal(2, 4, 6, 8), normal(2, 4, 8, 6, seed=1)
    made = q.astype(np.float64) @ k.astype(np.float64)
    outcome, found = tried(of_two(q, k, made, made / np.sqrt(8)))
    assert (outcome, [s.cause for s in found]) == ("different", ["attention_scale"])


def test_the_order_of_a_difference_counts():
    a, b = normal(6, 32), normal(6, 32, seed=1)
    outcome, found = tried(of_two(a, b, a - b, b - a))
    assert outcome == "different"
    assert [s.cause for s in found] == ["argument_order"]


MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def image(mean, deviation, scale=1.0, last=False):
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 6, 5)).astype(np.float32)
    shape = (1, 3, 1, 1)
    made = (x * scale - np.reshape(mean, shape)) / np.reshape(deviation, shape)
    return [np.moveaxis(one, 1, -1) if last else one for one in (x, made)]


@pytest.mark.parametrize("last", [False, True])
def test_a_preprocessing_without_mean_and_deviation_is_a_normalisation(last):
    x, left = image(MEAN, DEVIATION, 1 / 255, last)
    right = image((0.0,) * 3, (1.0,) * 3, 1 / 255, last)[1]
    outcome, found = tried(call(x, left, right))
    assert (outcome, [s.cause for s in found]) == ("different", ["input_scale_or_normalisation"])
    assert found[0].evidence["recipes"] == ["ImageNet", "0..1"]


def test_a_preprocessing_that_leaves_out_255_is_a_normalisation():
    x, left = image((0.0,) * 3, (1.0,) * 3, 1 / 255)
    outcome, found = tried(call(x, left, x))
    assert (outcome, [s.cause for s in found]) == ("different", ["input_scale_or_normalisation"])
    assert found[0].pair == 7


def test_images_that_a_call_mixes_are_not_scaled():
    x, left = image(MEAN, DEVIATION, 1 / 255)
    right = left[:, ::-1] + 0.1 * left
    assert [s.cause for s in tried(call(x, left, right))[1]] == []
