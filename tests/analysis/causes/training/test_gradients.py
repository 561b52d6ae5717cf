"""Causes that scale or stop parameter gradients are named from figures alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.runs import Recorder, draws
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.causes.training.gradients import Ratio, detect_gradients
from troubleshooter_nb.catalogue import CAUSES

NAMES = ["embed.weight", "a.fc.weight", "a.fc.bias", "b.fc.weight", "b.fc.bias", "head.weight"]
SHAPES = [(40, 16), (16, 16), (16,), (16, 16), (16,), (40, 16)]
ROUNDOFFS = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def gradients(seed, dtype="float32", scale=0.1):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) * scale / (1 + i) for i, shape in enumerate(SHAPES)]


def noisy(arrays, seed, dtype):
    rng = np.random.default_rng(seed + 99)
    return [a * (1 + ROUNDOFFS[dtype] * rng.uniform(-1, 1, a.shape)) for a in arrays]


def ratios(left, right, dtype="float32"):
    found = []
    for pair, (name, one, other) in enumerate(zip(NAMES, left, right, strict=True)):
        norms = np.linalg.norm(one), np.linalg.norm(other)
        cosine = float((one * other).sum() / (norms[0] * norms[1])) if min(norms) else math.nan
        noise = 4 * ROUNDOFFS[dtype]
        found.append(
            Ratio.of_figures(
                *(pair, name),
                cosine=cosine,
                left_l2=float(norms[0]),
                right_l2=float(norms[1]),
                size=one.size,
                noise=noise,
            )
        )
    return found


def scaled(factor, seed=0, dtype="float32"):
    right = gradients(seed)
    left = [factor * a for a in right]
    return ratios(noisy(left, seed, dtype), noisy(right, seed + 1, dtype), dtype)


@pytest.mark.parametrize("dtype", ROUNDOFFS)
@pytest.mark.parametrize(
    ("factor", "context", "cause", "name"),
    [
        (8.0, {"world_size": 8}, "world_size_scale", "world size 8"),
        (1 / 8, {"world_size": (8, 8)}, "world_size_scale", "world size 8"),
        (32.0, {"batch": 32, "world_size": 4}, "loss_reduction", "batch size 32"),
        (4.0, {"accumulation": 4}, "loss_reduction", "accumulation steps 4"),
        (65536.0, {}, "loss_scale_left", "loss scale 2^16"),
        (1024.0, {"loss_scale": 1024}, "loss_scale_left", "loss scale 1024"),
        (24.0, {"batch": 8, "world_size": 3}, "loss_reduction", "batch size 8"),
        (5.0, {}, "loss_reduction", "a count of 5"),
    ],
)
def test_one_factor_for_all_gradients_gets_its_name(factor, context, cause, name, dtype):
    found = detect_gradients(scaled(factor, dtype=dtype), context)
    assert [one.cause for one in found] == [cause]
    assert name in found[0].evidence["name"]
    assert found[0].evidence["factor"] == pytest.approx(factor, rel=8 * ROUNDOFFS[dtype])
    assert found[0].residual < 4 * ROUNDOFFS[dtype] < found[0].before
    assert found[0].evidence["tensors"] == len(NAMES)


def test_all_names_that_fit_are_said():
    found = detect_gradients(scaled(8.0), {"world_size": 8, "batch": 8})
    assert len(found) == 1
    assert set(found[0].evidence["names"]) >= {"world size 8", "batch size 8"}


@pytest.mark.parametrize("limit", [1.0, 0.5, 5.0])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("seed", range(3))
def test_a_global_norm_at_a_round_limit_is_clipping(limit, side, seed):
    whole = [a * 40 for a in gradients(seed)]
    norm = math.sqrt(sum((a**2).sum() for a in whole))
    assert norm > limit
    clipped = [a * limit / (norm + 1e-6) for a in whole]
    pairs = (clipped, whole) if side == "left" else (whole, clipped)
    found = detect_gradients(ratios(*(noisy(one, seed, "float32") for one in pairs)), {})
    assert [one.cause for one in found] == ["gradient_clipping"]
    assert found[0].evidence["limit"] == limit
    assert found[0].evidence["clipped"] == side


def test_each_gradient_clipped_by_itself_is_recognised():
    whole = [a * 40 for a in gradients(3)]
    clipped = [a * min(1.0, 2.0 / np.linalg.norm(a)) for a in whole]
    assert sum(np.linalg.norm(a) > 2 for a in whole) >= 3
    found = detect_gradients(ratios(clipped, whole), {})
    assert [(one.cause, one.evidence["form"]) for one in found] == [("gradient_clipping", "each")]
    assert found[0].evidence["limit"] == 2.0


@pytest.mark.parametrize("seed", range(5))
def test_no_cause_is_seen_in_rounding_in_noise_or_in_factors_of_their_own(seed):
    right = gradients(seed)
    other = gradients(seed + 50)
    growing = [a * 1.5**i for i, a in enumerate(right)]
    one_off = [a * (3 if i == 1 else 1) for i, a in enumerate(right)]
    for left in (right, noisy(right, seed, "float32"), other, growing, one_off):
        assert detect_gradients(ratios(left, right), {"world_size": 8}) == []
    systematic = [3 * a + 0.01 * b for a, b in zip(right, other, strict=True)]
    assert detect_gradients(ratios(systematic, right), {}) == []


def test_one_tensor_alone_proves_no_common_factor():
    assert detect_gradients(scaled(8.0)[:1], {"world_size": 8}) == []


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("absent", [False, True])
def test_a_connected_part_without_gradient_is_frozen(side, absent):
    whole = gradients(1)
    part = [0 * a if name.startswith("b.") else a for name, a in zip(NAMES, whole, strict=True)]
    pairs = (part, whole) if side == "left" else (whole, part)
    found = ratios(*pairs)
    if absent:
        found = [
            Ratio(
                *(one.pair, one.name, math.nan, math.nan, one.size, one.noise),
                *(math.nan if not norm > 0 else norm for norm in (one.left_l2, one.right_l2)),
            )
            for one in found
        ]
    suspicions = detect_gradients(found, {})
    assert [one.cause for one in suspicions] == ["frozen_part"]
    assert suspicions[0].evidence["part"] == "b.fc.*"
    assert suspicions[0].evidence["side"] == side


def test_scattered_or_negligible_gradients_are_no_frozen_part():
    whole = gradients(1)
    scattered = [0 * a if i in (0, 3) else a for i, a in enumerate(whole)]
    assert detect_gradients(ratios(scattered, whole), {}) == []
    # A bias before a normalisation: rounding residue on one side, zero on the other.
    tiny = [a * 1e-9 if i == 2 else a for i, a in enumerate(whole)]
    zero = [a * 0 if i == 2 else a for i, a in enumerate(whole)]
    assert detect_gradients(ratios(zero, tiny), {}) == []


def test_the_words_are_filled_by_the_evidence():
    whole = [a * 40 for a in gradients(0)]
    norm = math.sqrt(sum((a**2).sum() for a in whole))
    cases = [
        scaled(8.0),
        scaled(65536.0),
        ratios([a / norm for a in whole], whole),
        ratios([0 * a if i > 4 else a for i, a in enumerate(whole)], whole),
    ]
    for case in cases:
        for one in detect_gradients(case, {"world_size": 8}):
            for text in CAUSES[one.cause].proof:
                said = text.format(
                    before=one.before, residual=one.residual, rival=one.rival, **one.evidence
                )
                assert "{" not in said


def test_rounding_that_a_long_backward_pass_adds_up_hides_no_clipping():
    norm = math.sqrt(sum(float((a**2).sum()) for a in gradients(0)))
    found = ratios([a * 0.01 / norm * (1 + 1e-6 * np.cos(a)) for a in gradients(0)], gradients(0))
    # A tenth of what this pass leaves is taken for rounding.
    found = [replace(one, misfit=2e-6) for one in found]
    found = detect_gradients(found, {})
    assert [one.cause for one in found] == ["gradient_clipping"]
    assert found[0].evidence["limit"] == 0.01


@pytest.mark.parametrize("side", ["left", "right"])
def test_gradients_that_a_side_lacks_are_measured_on_the_other(side):
    def run(last):
        recorder = Recorder()
        for number in range(last):
            for slot, array in draws(number, weight=(16, 16), bias=(16,)).items():
                name = f"Module.fc{number}.Linear.parameters_grad.{slot}"
                # What lies before the cut gets a part of its gradient only.
                values = array[::-1] if (number, last) == (0, 3) else array
                recorder.add(name, f"fc{number}", "backward", "parameter", slot, values, "Linear")
        return recorder.dump()

    runs = (run(3), run(4)) if side == "left" else (run(4), run(3))
    finding = compare(*runs).findings[0]
    assert (finding.cause, finding.evidence["side"]) == ("frozen_part", side)
    assert finding.evidence["part"] == "fc3.*"


def test_a_gradient_that_is_turned_round_is_no_reduction():
    assert detect_gradients(scaled(-1.0), {}) == []
