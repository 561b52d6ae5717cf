"""Verdicts once it is known where differences come from: what grew, and what has no effect."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.analysis.runs import Recorder, chain, draws, linear, relu
from troubleshooter_nb import compare, option_context
from troubleshooter_nb.dump import Dump


def halves(*, seed: int = 0, scale: float = 1.0) -> Dump:
    """A chain whose values are rounded to bfloat16 behind each layer, with noise as sums leave it.

    `scale` is a fault of the fourth layer.
    """
    recorder, noise = Recorder(), np.random.default_rng(seed)
    values = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32)
    for number in range(8):
        given = draws(number, weight=(32, 32), bias=(32,))
        factor = scale if number == 3 else 1.0

        def layer(
            x: np.ndarray, weight: np.ndarray, bias: np.ndarray, factor: float = factor
        ) -> np.ndarray:
            made = relu(linear(x, 0.3 * weight, bias)) * factor
            made = made * (1 + 2.0**-9 * noise.standard_normal(made.shape))
            return made.astype(ml_dtypes.bfloat16).astype(np.float32)

        values = recorder.call(f"h{number}.layer", "Own", layer, values, **given)
    return recorder.dump()


def verdicts(comparison) -> set[str]:
    return {*comparison.columns["verdict"].tolist()}


def test_rounding_that_grew_and_nothing_created_passes_and_says_from_which_tolerance():
    asked = compare(halves(seed=1), halves(seed=2))
    assert "grown_rounding" in verdicts(asked), verdicts(asked)
    assert (asked.passed, asked.exit_code, asked.first_divergence) == (True, 0, None)
    smallest = asked.columns["smallest_passing_tolerance"]
    grown = asked.columns["verdict"] == "grown_rounding"
    assert f"{smallest[grown].max():.1e}".replace("e-0", "e-") in asked.verdict
    assert not (asked.columns["origin"][grown] != "").any()
    assert "nothing created" in str(asked.explain())


def test_without_diagnosis_a_verdict_is_that_of_the_pair_alone():
    plain = compare(halves(seed=1), halves(seed=2), diagnose=False)
    assert plain.exit_code == 1
    assert "grown_rounding" not in verdicts(plain)


def test_what_was_created_and_all_behind_it_still_fails():
    found = compare(halves(seed=1, scale=1.5), halves(seed=2))
    assert found.exit_code == 1
    assert "h3.layer" in str(found.first_divergence.row["right"].values)
    behind = found.columns["order"] >= int(found.first_divergence.row["order"])
    failed = np.isin(found.columns["verdict"], ("differs", "reduced", "unrelated"))
    assert failed[behind & (found.columns["role"] != "parameter")].all()


def turned(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return x @ weight + bias


def test_a_weight_in_another_layout_whose_layer_agrees_has_no_effect():
    left = chain(weights={"fc2": lambda w: np.ascontiguousarray(w.T)}, changed={"fc2": turned})
    found = compare(left, chain())
    row = found.columns["verdict"] == "no_effect"
    assert found.columns["right_display"][row].tolist() == ["fc2.weight"]
    assert [f.cause for f in found.findings] == ["linear_transposed"]
    assert (found.exit_code, found.passed) == (0, True)
    assert "without effect" in found.verdict
    (check,) = [check for check in found.preflight if check.what == "layouts"]
    assert (check.status, check.values["count"]) == ("note", 1)


def test_a_shape_that_differs_without_effect_says_both():
    left = chain(
        weights={"fc2": lambda w: w[:, :, None]},
        changed={"fc2": lambda x, weight, bias: linear(x, weight[:, :, 0], bias)},
    )
    found = compare(left, chain())
    reason = found["fc2.weight"].row["reason"].values.item()
    assert found.exit_code == 0
    assert "16x16x1" in str(reason)
    assert "16x16 " in str(reason) or "16x16," in str(reason)


def test_weights_alone_prove_nothing_of_what_uses_them():
    weight = draws(1, weight=(16, 16))["weight"]
    sides = []
    for values in (weight, np.ascontiguousarray(weight.T)):
        recorder = Recorder()
        recorder.add("fc.weight", "fc", "", "parameter", "weight", values)
        sides.append(recorder.dump())
    found = compare(*sides)
    assert found.exit_code == 1
    assert "no_effect" not in verdicts(found)


def test_rows_of_a_table_that_no_id_took_are_no_other_layout():
    def run(changed: bool) -> Dump:
        recorder = Recorder()
        table = draws(2, weight=(20, 8))["weight"]
        if changed:
            table[15:] += 1.0
        recorder.call(
            "tok", "Embedding", lambda ids, weight: weight[ids], np.arange(12), weight=table
        )
        return recorder.dump()

    found = compare(run(True), run(False))
    assert found.exit_code == 1
    assert "no_effect" not in verdicts(found)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_both_are_told_in_both_languages(language):
    with option_context(language=language):
        text = str(compare(halves(seed=1), halves(seed=2)).explain())
    assert ("沿途放大" in text) == (language == "zh")


def test_an_input_that_differs_is_never_excused():
    def run(factor: float) -> Dump:
        recorder = Recorder()
        x = draws(4, x=(32, 16))["x"]
        x = np.where(x < 0, factor * x, x).astype(np.float32)
        made = recorder.call("act", "ReLU", relu, x)
        recorder.call("fc", "Linear", linear, made, **draws(5, weight=(16, 16), bias=(16,)))
        return recorder.dump()

    found = compare(run(0.2), run(1.0))
    assert found.exit_code == 1
    assert "no_effect" not in verdicts(found)


def test_one_value_of_a_weight_is_no_rounding_of_the_others():
    def run(*, changed: bool) -> Dump:
        recorder = Recorder()
        given = draws(6, weight=(64, 64), bias=(64,))
        if changed:
            given = {k: v.astype(ml_dtypes.bfloat16).astype(np.float32) for k, v in given.items()}
            given["weight"][3, 5] += 0.25
        recorder.call("fc", "Linear", linear, draws(7, x=(64, 64))["x"], **given)
        return recorder.dump()

    found = compare(run(changed=True), run(changed=False))
    assert found.exit_code == 1
    assert found["fc.weight"].verdict not in ("grown_rounding", "no_effect")


@pytest.mark.parametrize("scale", [1.02, 1.05])
def test_a_factor_just_above_the_rounding_is_none(scale):
    found = compare(halves(seed=1, scale=scale), halves(seed=2))
    assert found.exit_code == 1
    assert "grown_rounding" not in verdicts(found)


def test_masked_scores_that_are_wrong_are_no_rounding():
    """Of a norm of -1e9 no error of the scores beside it shows, so they are told by themselves."""
    scores = np.random.default_rng(0).standard_normal((4, 32, 32)).astype(np.float32)
    masked = np.triu(np.ones((32, 32), bool), 1)
    right = np.where(masked, np.float32(-1e9), scores)
    wrong = np.where(masked, np.float32(-1e9), scores[:, ::-1])
    cmp = compare({"scores": wrong}, {"scores": right})
    assert not cmp.passed
    row = cmp.to_dataframe().iloc[0]
    assert (row["verdict"], row["reason_id"]) == ("differs", "differs_beside_fill")
    assert row["growth"] > 1e3
    bare = [
        replace(Dump.from_arrays({"scores": one}).summarise(), sources=(None,))
        for one in (wrong, right)
    ]
    assert compare(*bare).to_dataframe().iloc[0]["verdict"] == "undecidable"
