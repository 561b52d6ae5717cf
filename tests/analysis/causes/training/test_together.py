"""Ranks and micro batches: weights by tokens, clipping by rank, and what one place alone shows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.training.gradients import Ratio
from troubleshooter_nb.analysis.causes.training.together import detect_together

SHAPES = {"a.weight": (24, 12), "a.bias": (24,), "b.weight": (8, 24)}
COUNTS = np.array([37, 21, 48])


def drawn(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return {name: scale * rng.normal(size=shape) for name, shape in SHAPES.items()}


def norm(gradients):
    return math.sqrt(sum(float((one**2).sum()) for one in gradients.values()))


def scaled(gradients, factor):
    return {name: (one * factor).astype(np.float32) for name, one in gradients.items()}


def ratios(left, right, first):
    found = []
    for pair, name in enumerate(left, first):
        one, other = left[name].astype(float), right[name].astype(float)
        sizes = float(np.linalg.norm(one)), float(np.linalg.norm(other))
        found.append(
            Ratio.of_figures(
                *(pair, name),
                cosine=float((one * other).sum() / (sizes[0] * sizes[1])),
                left_l2=sizes[0],
                right_l2=sizes[1],
                size=one.size,
                noise=2e-7,
                left_largest=float(np.abs(one).max()),
                right_largest=float(np.abs(other).max()),
            )
        )
    return found


def told_of(lefts, rights, of_steps=False, **context):
    places = {
        ((number, 0) if of_steps else (0, number)): ratios(left, right, 3 * number)
        for number, (left, right) in enumerate(zip(lefts, rights, strict=True))
    }
    return detect_together(places, context)


PARTS = [drawn(seed) for seed in range(len(COUNTS))]


def weighted(weights):
    return [scaled(one, weight) for one, weight in zip(PARTS, weights, strict=True)]


BY_TOKENS = {"of the mean": COUNTS / COUNTS.mean(), "of the sum": COUNTS / COUNTS.sum()}


@pytest.mark.parametrize("weights", BY_TOKENS)
@pytest.mark.parametrize("of_steps", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_weights_of_tokens_are_told_of_ranks_and_of_micro_batches(weights, of_steps, swapped):
    sides = [weighted(BY_TOKENS[weights]), weighted(np.ones(3))]
    (found,) = told_of(*(sides[::-1] if swapped else sides), of_steps)
    assert found.cause == "loss_weights"
    assert found.evidence["weighted"] == ("right" if swapped else "left")
    assert found.evidence["weights"] == pytest.approx(COUNTS / COUNTS.mean(), rel=1e-5)
    assert confidence(found) > 0.9


@pytest.mark.parametrize(
    ("weights", "cause"),
    [(COUNTS, "loss_reduction"), (np.full(3, 2.0), "loss_reduction"), (np.ones(3), None)],
)
def test_other_factors_are_no_weights_of_parts(weights, cause):
    found = told_of(weighted(weights), weighted(np.ones(3)))
    assert {one.cause for one in found} == ({cause} if cause else set())


def by_rank(limit):
    return [scaled(one, min(1.0, limit / norm(one))) for one in PARTS]


def by_all(limit):
    whole = math.sqrt(sum(norm(one) ** 2 for one in PARTS))
    return [scaled(one, limit / whole) for one in PARTS]


@pytest.mark.parametrize("swapped", [False, True])
# The middle one cuts two of three ranks.
@pytest.mark.parametrize("limit", [0.7131, float(np.median([norm(one) for one in PARTS]))])
def test_ranks_that_clip_by_their_own_norm_are_told_from_those_that_clip_together(limit, swapped):
    sides = [by_rank(limit), by_all(limit)]
    (found,) = told_of(*(sides[::-1] if swapped else sides))
    assert (found.cause, found.evidence["form"]) == ("gradient_clipping", "rank")
    assert found.evidence["clipped"] == ("right" if swapped else "left")
    assert found.evidence["limit"] == pytest.approx(limit, rel=1e-3)
    assert confidence(found) > 0.9


def test_a_limit_that_is_not_round_shows_at_several_places():
    found = told_of(by_rank(0.7131), weighted(np.ones(3)))
    assert {one.cause for one in found} == {"gradient_clipping"}
    assert found[0].evidence["limit"] == pytest.approx(0.7131, rel=1e-4)
    # One place has one norm: a factor without a name is no more than possible.
    (alone,) = told_of(by_rank(0.7131)[:1], weighted(np.ones(3))[:1])
    assert (alone.cause, confidence(alone) < 0.5) == ("loss_reduction", True)


def test_parts_of_one_network_are_clipped_together_to_a_round_limit():
    found = told_of(by_all(0.5), weighted(np.ones(3)))
    assert [(one.cause, one.evidence["limit"]) for one in found] == [("gradient_clipping", 0.5)]


@pytest.mark.parametrize("swapped", [False, True])
def test_values_that_are_clipped_each_have_one_largest(swapped):
    cut = [{name: np.clip(one, -0.5, 0.5) for name, one in PARTS[0].items()}]
    sides = [cut, PARTS[:1]]
    (found,) = told_of(*(sides[::-1] if swapped else sides))
    assert (found.cause, found.evidence["form"]) == ("gradient_clipping", "element")
    assert found.evidence["limit"] == pytest.approx(0.5)
    assert found.evidence["clipped"] == ("right" if swapped else "left")
    # Bounds of their own are no clipping of all.
    own = [
        {
            n: np.clip(one, -b, b)
            for (n, one), b in zip(PARTS[0].items(), (0.5, 0.6, 0.7), strict=True)
        }
    ]
    assert told_of(own, PARTS[:1]) == []
