"""Running statistics recorded behind their update: start, momentum, what inputs explain."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.searches.running import explain_running
from troubleshooter_nb.dump import ArrayInMemory

CHANNELS = 12


def behind(x, mean, variance, momentum=0.1, axis=1):
    """What torch leaves behind a call in training."""
    wide = np.moveaxis(x.astype(float), axis, 0).reshape(CHANNELS, -1)
    new = wide.mean(1), wide.var(1, ddof=1)
    return [
        ((1 - momentum) * old + momentum * one).astype(np.float32)
        for old, one in zip((mean, variance), new, strict=True)
    ]


def call(left, right):
    """Of (input, means, variances) of both sides."""
    names = ("input", "running_mean", "running_var")
    pairs = [
        TensorPair(
            *(number, name),
            sources=(ArrayInMemory(one), ArrayInMemory(other)),
            rel_l2=float(np.linalg.norm(one - other)),
        )
        for number, (name, one, other) in enumerate(zip(names, left, right, strict=True))
    ]
    parameters = {"running_mean": pairs[1], "running_var": pairs[2]}
    return Call("batchnorm2d", "bn", "forward", (pairs[0],), (pairs[0],), parameters)


def drawn(axis=1, seed=0):
    rng = np.random.default_rng(seed)
    shape = [6, 5, 5]
    shape.insert(axis, CHANNELS)
    scale = np.moveaxis(np.ones(shape), axis, -1) * rng.uniform(0.5, 2, CHANNELS)
    return (rng.normal(0.3, 1, shape) * np.moveaxis(scale, -1, axis)).astype(np.float32)


def started(x, mean=0.0, variance=1.0, **more):
    return [x, *behind(x, np.full(CHANNELS, mean), np.full(CHANNELS, variance), **more)]


def loaded(x, **more):
    rng = np.random.default_rng(7)
    return [x, *behind(x, rng.normal(size=CHANNELS), rng.uniform(0.5, 2, CHANNELS), **more)]


@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_start_of_0_and_1_against_loaded_statistics_is_told(axis, swapped):
    x = drawn(axis)
    sides = [started(x, axis=axis), loaded(x, axis=axis)]
    found = explain_running(call(*(sides[::-1] if swapped else sides)))
    (one,) = found.suspicions
    assert (found.outcome, one.cause) == ("different", "bn_start_state")
    assert one.evidence["right" if swapped else "left"].id == "evidence.started"
    assert confidence(one) > 0.6


def test_variances_that_start_at_0_are_told_from_those_that_start_at_1():
    x = drawn()
    (one,) = explain_running(call(started(x, variance=0.0), started(x))).suspicions
    assert one.cause == "bn_start_state"
    assert one.pair == 2  # the means agree


def test_another_momentum_is_told_with_both_numbers():
    x = drawn()
    (one,) = explain_running(call(started(x, momentum=0.9), started(x))).suspicions
    assert one.cause == "bn_momentum_convention"
    assert one.evidence["left_momentum"] == pytest.approx(0.9, rel=1e-4)
    assert one.evidence["right_momentum"] == pytest.approx(0.1, rel=1e-4)
    assert one.evidence["convention"]


@pytest.mark.parametrize("made", [started, loaded])
@pytest.mark.parametrize("size", [1e-3, 0.3])
def test_statistics_that_follow_from_other_inputs_were_made_alike(made, size):
    x = drawn()
    other = (x + size * drawn(seed=1)).astype(np.float32)
    found = explain_running(call(made(other), made(x)))
    assert (found.outcome, found.suspicions) == ("same", [])


def test_statistics_that_no_start_explains_say_nothing():
    x = drawn()
    rng = np.random.default_rng(3)
    stray = [x, rng.normal(size=CHANNELS).astype(np.float32), np.ones(CHANNELS, np.float32)]
    assert explain_running(call(stray, loaded(x))).outcome == "unknown"
    # Nor do those that have not moved, or are all the batch's.
    still = [x, np.zeros(CHANNELS, np.float32), np.ones(CHANNELS, np.float32)]
    assert explain_running(call(still, loaded(x))).outcome == "unknown"
    assert explain_running(call(started(x, momentum=1.0), loaded(x))).outcome == "unknown"
