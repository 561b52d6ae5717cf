"""Batch norms in evaluation whose running statistics were not saved, as in dumps of modules."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.recomputed import recompute
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.messages import told

COUNT = 12


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def norm(x, eps=1e-5, *, weight=True, bias=True, mean=True, spread=0.05):
    """A batch norm in evaluation; without weight, bias or mean where a side leaves it out."""
    shape = (1, -1, *[1] * (x.ndim - 2))
    w, b, m, v = (one.astype(np.float64).reshape(shape) for one in stats(spread))
    made = (x - (m if mean else 0.0)) / np.sqrt(v + eps)
    return (made * (w if weight else 1.0) + (b if bias else 0.0)).astype(np.float32)


def stats(spread):
    variance = spread * (0.3 + np.random.default_rng(4).random(COUNT)).astype(np.float32)
    return 1 + 0.3 * draw(COUNT, seed=1), draw(COUNT, seed=2), 0.5 * draw(COUNT, seed=3), variance


def tensor(left, right, number=0):
    gap = float(np.linalg.norm(left - right) / np.linalg.norm(right))
    sources = ArrayInMemory(left), ArrayInMemory(right)
    return TensorPair(number, "x", sources=sources, rel_l2=gap, noise=1e-6)


def found_of(x, left, right, dtype=np.float32):
    weight, bias = stats(1.0)[:2]
    given = {"weight": tensor(weight, weight), "bias": tensor(bias, bias)}
    outputs = tensor(left.astype(dtype), right.astype(dtype), 7)
    x = x.astype(dtype)
    call = Call("batchnorm2d", "bn1", "forward", (tensor(x, x),), (outputs,), given)
    return recompute(call, 0.0)


@pytest.mark.parametrize("shape", [(4, COUNT, 7, 6), (64, COUNT), (5, COUNT, 30)])
@pytest.mark.parametrize("swapped", [False, True])
def test_another_eps_is_one_difference_in_all_channels(shape, swapped):
    x = draw(*shape, seed=9)
    sides = [norm(x, 1e-3), norm(x, 1e-5)]
    found = found_of(x, *(sides[::-1] if swapped else sides))
    assert found.suspicion.cause == "bn_eps"
    assert confidence(found.suspicion) > 0.9
    evidence = found.suspicion.evidence
    assert [evidence["left"], evidence["right"]] == ([1e-5, 1e-3] if swapped else [1e-3, 1e-5])


def test_where_several_eps_are_so_far_apart_the_difference_is_said():
    x = draw(4, COUNT, 7, 6, seed=9)
    found = found_of(x, norm(x, 2e-5, spread=1e-3), norm(x, 1e-5, spread=1e-3))
    evidence = found.suspicion.evidence
    assert found.suspicion.cause == "bn_eps"
    assert told(evidence["left"], "en") == "larger by 1.0e-5"
    assert told(evidence["right"], "en") == "smaller by 1.0e-5"


@pytest.mark.parametrize(
    ("leaf", "cause"), [("weight", "bn_gamma_ignored"), ("bias", "bias_missing")]
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_parameter_that_is_left_out_is_found(leaf, cause, swapped):
    x = draw(4, COUNT, 7, 6, seed=9)
    sides = [norm(x, **{leaf: False}), norm(x)]
    found = found_of(x, *(sides[::-1] if swapped else sides))
    assert found.suspicion.cause == cause
    assert found.suspicion.evidence["right" if swapped else "left"] == "ignored"
    assert confidence(found.suspicion) > 0.9


@pytest.mark.parametrize("other", [{"mean": False}, {"spread": 0.06}, {"eps": 1e-3, "bias": False}])
def test_what_is_neither_is_not_told(other):
    x = draw(4, COUNT, 7, 6, seed=9)
    assert found_of(x, norm(x, **other), norm(x)).suspicion is None


def test_equal_norms_created_nothing():
    x = draw(4, COUNT, 7, 6, seed=9)
    shaken = norm(x) * (1 + 2.0**-24 * draw(*x.shape, seed=5)).astype(np.float32)
    assert found_of(x, shaken, norm(x)).suspicion is None


@pytest.mark.parametrize("batch", ["left", "right"])
def test_statistics_of_the_batch_on_one_side_are_told_as_before(batch):
    x = draw(40, COUNT, 5, seed=9)
    mean, var = x.mean((0, 2), keepdims=True), x.var((0, 2), keepdims=True)
    w, b = (one.reshape(1, -1, 1) for one in stats(1.0)[:2])
    trained = ((x - mean) / np.sqrt(var + 1e-5) * w + b).astype(np.float32)
    sides = [trained, norm(x)]
    found = found_of(x, *(sides if batch == "left" else sides[::-1]))
    assert found.suspicion.cause == "eval_train_mode"
