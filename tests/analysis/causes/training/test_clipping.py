"""Clippings that show in the updates alone, and what is like them: rates, momentum, decay."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.analysis.causes.training.kit import Run, adam, history, norms, sgd
from troubleshooter_nb.analysis.causes.training.updates import detect_updates
from troubleshooter_nb.messages import told


def by_norm(limit):
    def clip(made):
        norm = math.sqrt(sum(float((one.astype(float) ** 2).sum()) for one in made.values()))
        return {name: one * min(1.0, limit / (norm + 1e-6)) for name, one in made.items()}

    return clip


def by_value(limit):
    return lambda made: {name: np.clip(one, -limit, limit) for name, one in made.items()}


RULES = {
    "sgd": sgd(0.1),
    "momentum": sgd(0.1, momentum=0.9),
    "decay": sgd(0.1, momentum=0.9, decay=0.01),
    "schedule": sgd(rates=[0.02, 0.04, 0.06, 0.08, 0.1]),
    "adam": adam(1e-2),
}


def middle(data):
    """A norm that some of the steps are above."""
    return float(np.sort(norms(data.run(sgd())[1]))[2])


@pytest.mark.few(8)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_clipping_of_the_norm_is_told_from_a_rate(rule, side, share):
    data = Run(side)
    limit = share * middle(data)
    runs = [data.run(RULES[rule]), data.run(RULES[rule])]
    runs[side] = data.run(RULES[rule], clip=by_norm(limit))
    (found,) = detect_updates(history(*runs))
    assert found.cause == "gradient_clipping"
    assert found.evidence["clipped"] == ("left", "right")[side]
    # Adam takes the scale off that all steps have in common.
    if share == 1.0 or not rule.startswith("adam"):
        assert found.evidence["limit"] == pytest.approx(limit, rel=1e-4)
    said = told(found.evidence[found.evidence["clipped"]], "en")
    assert said.endswith(f"{found.evidence['limit']:.4g}")


@pytest.mark.parametrize("rule", ["sgd", "momentum", "adam"])
def test_a_clipping_of_each_value_is_told_with_its_limit(rule):
    data = Run(0)
    runs = data.run(RULES[rule], clip=by_value(0.02)), data.run(RULES[rule])
    (found,) = detect_updates(history(*runs))
    assert (found.cause, found.evidence["form"]) == ("gradient_clipping", "element")
    assert found.evidence["limit"] == pytest.approx(0.02, rel=1e-3)


NEIGHBOURS = {
    "rate": (sgd(0.1), sgd(0.037), None, None, {"learning_rate"}),
    "rate with momentum": (
        *(sgd(0.1, momentum=0.9), sgd(0.037, momentum=0.9), None, None),
        {"learning_rate"},
    ),
    "momentum, both clipped": (
        *(sgd(0.1, momentum=0.9), sgd(0.1, momentum=0.8), 0.1, 0.1),
        {"momentum_convention"},
    ),
    "decay, both clipped": (
        *(sgd(0.1, momentum=0.9, decay=0.05), sgd(0.1, momentum=0.9), 0.1, 0.1),
        {"weight_decay_coupling"},
    ),
    "the same, both clipped": (sgd(0.1, momentum=0.9), sgd(0.1, momentum=0.9), 0.1, 0.1, set()),
    # A limit of norms that are all cut is known times the rate.
    "limits": (sgd(0.1), sgd(0.1), 0.1, 0.2, {"gradient_clipping", "learning_rate"}),
    "rate, both clipped": (sgd(0.1), sgd(0.2), 0.1, 0.1, {"gradient_clipping", "learning_rate"}),
}


@pytest.mark.parametrize("case", NEIGHBOURS)
def test_what_is_near_a_clipping_is_told_as_what_it_is(case):
    left, right, ours, theirs, expected = NEIGHBOURS[case]
    data = Run(0)
    clips = [None if limit is None else by_norm(limit) for limit in (ours, theirs)]
    runs = [data.run(rule, clip=clip) for rule, clip in zip((left, right), clips, strict=True)]
    found = detect_updates(history(*runs))
    assert {one.cause for one in found} == expected
    if len(expected) > 1:
        assert all(one.share == 0.5 for one in found)


@pytest.mark.parametrize(("rates", "limit", "expected"), [
    ((0.1, 0.05), None, {"learning_rate"}),
    ((0.1, 0.0731), None, {"learning_rate", "gradient_clipping"}),
    ((0.1, 0.1), 0.2, {"gradient_clipping"}),
])  # fmt: skip
def test_of_one_step_the_round_number_decides_or_nothing(rates, limit, expected):
    data = Run(0, steps=1)
    clip = None if limit is None else by_norm(limit)
    runs = data.run(sgd(rates[0])), data.run(sgd(rates[1]), clip=clip)
    found = detect_updates(history(*runs))
    assert {one.cause for one in found} == expected
    assert all(one.share == (0.5 if len(expected) > 1 else 1.0) for one in found)


def test_without_the_norms_of_all_gradients_no_norm_is_said_to_be_clipped():
    data = Run(0)
    runs = data.run(sgd(0.1), clip=by_norm(0.1)), data.run(sgd(0.1))
    without = history(*runs)
    found = detect_updates(type(without)(without.tracks))
    assert "gradient_clipping" not in {one.cause for one in found}
