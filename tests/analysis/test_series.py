"""The step at which two curves part is found against their self-noise."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from troubleshooter_nb import option_context
from troubleshooter_nb.analysis.series import compare_series
from troubleshooter_nb.errors import FormatError


def curve(seed, steps=200, noise=0.1):
    rng = np.random.default_rng(seed)
    return 2 * np.exp(-np.arange(steps) / 80) + noise * rng.normal(size=steps)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at", [0, 30, 120])
def test_runs_on_the_same_batches_part_where_the_fault_begins(seed, at):
    right = curve(seed)
    left = right.copy()
    left[at:] += 1e-4 * np.arange(1, 201 - at) ** 1.5
    found = compare_series(left, right)
    assert found.first_step == at
    assert found.growth_kind == "power"
    assert found.growth == pytest.approx(1.5, abs=0.05)


def test_exponential_growth_is_told_from_a_power():
    right = curve(0)
    left = right + np.where(np.arange(200) < 50, 0, 1e-4 * np.exp(0.05 * (np.arange(200) - 50)))
    found = compare_series(left, right)
    assert found.first_step == 50
    assert found.growth_kind == "exponential"
    assert found.growth == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_and_other_batches_do_not_part(seed):
    right = curve(seed)
    assert compare_series(right, right).passed
    assert compare_series((right * (1 + 1e-7)).astype(np.float32), right).passed
    assert compare_series(curve(seed + 100), right).passed


@pytest.mark.parametrize("seed", range(3))
def test_a_jump_leaves_the_noise_of_runs_on_other_batches(seed):
    left = curve(seed + 100)
    left[100:] += 1.0
    assert compare_series(left, curve(seed)).first_step == 100


def test_a_repeated_run_says_what_the_noise_is():
    right = curve(0)
    drift = np.cumsum(np.full(200, 1e-3))
    assert compare_series(right + drift, right).first_step == 0
    assert compare_series(right + drift, right, right + drift).passed
    assert compare_series(right + drift, right, 0.05).first_step == pytest.approx(50, abs=1)


def test_a_single_outlier_is_no_parting_and_nan_is_one():
    right = curve(0)
    left = right.copy()
    left[50] += 1
    assert compare_series(left, right).passed
    left[150:] = np.nan
    assert compare_series(left, right).first_step == 150


def test_steps_are_matched_and_those_of_one_side_are_noted():
    found = compare_series({1: 2.0, 2: 1.5, 4: 1.0}, {2: 1.5, 4: 0.5, 6: 1.0})
    assert found.table["step"].values.tolist() == [2, 4]
    assert found.first_step == 4
    with pytest.raises(FormatError, match="no step"):
        compare_series({1: 2.0}, {2: 1.5})
    with pytest.raises(FormatError, match="no measure"):
        compare_series({"a": [1.0]}, {"b": [1.0]})


def test_reprs_are_static_bounded_and_say_the_step():
    right = curve(0)
    left = right + np.where(np.arange(200) < 60, 0, 0.5)
    found = compare_series({"loss": left}, {"loss": right})
    html = found._repr_html_()
    assert html == compare_series({"loss": left}, {"loss": right})._repr_html_()
    assert not re.search(r"<script|<svg| id=", html)
    assert len(html) < 60_000
    for text in (html, repr(found)):
        assert "step 60" in text
    lines = repr(found).splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    with option_context(language="zh"):
        assert "第 60 步" in found._repr_html_()
    with option_context(ascii=True):
        assert repr(found).isascii()


def test_the_picture_has_both_curves():
    axes = compare_series(curve(0), curve(1)).plot()
    assert len(axes.lines) == 2
    assert axes.get_xlabel() == "step"


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_side_that_is_not_finite_parts_at_that_step(side, bad):
    runs = [curve(0), curve(0)]
    runs[side][20:22] = bad
    found = compare_series({"loss": runs[0], "lr": curve(1)}, {"loss": runs[1], "lr": curve(1)})
    assert (found.first_step, found.outside_step, found.back_step) == (None, 20, 22)
    assert not found.passed
    assert "one side is not finite" in repr(found)
    runs[side][20:] = bad
    assert compare_series(*runs).first_step == 20
    # Both alike are no difference.
    runs[1 - side][20:] = bad
    assert compare_series(*runs).passed


def test_a_nan_in_a_log_is_no_missing_value(tmp_path):
    for name, loss in (("a", "nan"), ("b", "1.5")):
        lines = [f"step {i} loss: {loss if i == 7 else 1.5} lr: 0.1\n" for i in range(20)]
        lines.insert(3, "step 2 grad_norm: 2.0\n")
        (tmp_path / f"{name}.log").write_text("".join(lines))
    found = compare_series(tmp_path / "a.log", tmp_path / "b.log")
    assert (found.outside_step, len(found)) == (7, 20)


def test_a_spike_outside_a_given_noise_counts_and_is_not_for_good():
    right = curve(0)
    left = right.copy()
    left[5] += 0.3
    rng = np.random.default_rng(1)
    for noise in (right + 1e-4 * rng.normal(size=200), 1e-3):
        found = compare_series(left, right, noise)
        assert (found.first_step, found.outside_step, found.back_step) == (None, 5, 6)
        assert not found.passed
        assert compare_series(right, right, noise).passed
    left[100:] += 0.5
    found = compare_series(left, right, 1e-3)
    assert (found.first_step, found.back_step) == (100, None)
    assert found.notes == ("outside the noise before that, and back in it: at step 5",)


@pytest.mark.parametrize("noise", [5e-3, 1e-3])
def test_curves_that_come_back_have_no_first_step_and_no_law(noise):
    right = np.linspace(3.0, 1.0, 8)
    apart = np.array([0, 0, 0.9, 0.2, 0.05, 0.01, 2e-4, 1e-4])
    found = compare_series(right + apart, right, noise)
    assert (found.first_step, found.back_step, found.growth_kind) == (None, 6, "")
    assert not found.passed
    assert "part at step 2 and are back in the noise from step 6" in repr(found)
    assert "steps^" not in repr(found)
    with option_context(language="zh"):
        assert "从第 6 步起回到噪声内" in found._repr_html_()


def test_one_step_inside_the_noise_is_not_back_in_it():
    right = np.linspace(3.0, 1.0, 60)
    apart = np.where(np.arange(60) < 20, 0.0, 0.5)
    apart[[30, 31, 32, 59]] = 0.0  # a crossing, and the last step
    assert compare_series(right + apart, right, 1e-3).first_step == 20
    apart[58] = 0.0
    assert compare_series(right + apart, right, 1e-3).back_step == 58


def test_a_handful_of_steps_follows_no_law_and_a_decade_does():
    right = np.full(24, 2.0)
    apart = 1e-3 * np.arange(1, 25.0) ** 1.5
    for count, kind in ((4, ""), (9, ""), (10, "power"), (24, "power")):
        assert compare_series((right + apart)[:count], right[:count]).growth_kind == kind


def test_a_difference_that_shrinks_is_not_said_to_grow():
    right = np.linspace(3.0, 1.0, 40)
    found = compare_series(right + 1.0 / np.arange(1, 41), right, 1e-3)
    assert (found.first_step, found.growth_kind) == (0, "power")
    assert found.growth == pytest.approx(-1.0, abs=0.01)
    assert "shrinks like steps^-1" in repr(found)
    found = compare_series(right + np.exp(-0.1 * np.arange(40)), right, 1e-3)
    assert "shrinks by the factor 0.905 per step" in repr(found)
    assert "grows" not in repr(found)


def test_what_goes_up_and_down_follows_no_law():
    right = np.zeros(60)
    apart = np.exp(np.random.default_rng(0).normal(size=60))
    assert compare_series(right + apart, right, 1e-3).growth_kind == ""


def test_a_law_is_of_steps_and_not_of_rows():
    steps = np.arange(0, 600, 10)
    apart = dict(zip(steps.tolist(), 1e-2 * np.exp(0.01 * steps), strict=True))
    found = compare_series(apart, dict.fromkeys(apart, 0.0), 1e-3)
    assert found.growth_kind == "exponential"
    assert found.growth == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_the_first_draws_of_a_repeated_run_are_no_limit_for_a_single_step(seed):
    rng = np.random.default_rng(seed)
    left, right, again = (curve(0) + 1e-3 * rng.normal(size=200) for _ in range(3))
    assert compare_series(left, right, again).passed


def test_all_measures_are_compared_and_named():
    steps = np.arange(20.0)
    left = {"norm_a": steps + 1, "norm_b": 2 * steps, "norm_c": steps}
    right = {**left, "norm_b": 2 * steps + 0.5 * (steps > 4)}
    found = compare_series(left, right)
    assert (found.measure, found.first_step) == ("norm_b", 5)
    assert found.notes == ("also compared, stay together: norm_a, norm_c",)
    assert "stays as large" in repr(found)
    found = compare_series({"loss": steps, **left}, {"loss": steps, **right})
    assert (found.measure, found.passed) == ("loss", True)
    assert found.notes[0] == "also part: norm_b at step 5"


def test_whole_numbers_of_a_table_are_exact(tmp_path):
    for name, more in (("a", 0), ("b", 0.5)):
        rows = "".join(f"{i},{2 * i + more * (i > 4)}\n" for i in range(10))
        (tmp_path / f"{name}.csv").write_text(f"step,norm\n{rows}")
    found = compare_series(tmp_path / "a.csv", tmp_path / "b.csv")
    assert found.first_step == 5
    assert found.table["noise"].values.max() < 0.1


def test_steps_without_a_partner_are_counted_and_the_largest_difference_has_no_sign():
    right = curve(0, 60)
    text = repr(compare_series(right[:10] - 1e-8, right))
    assert "50 steps have no partner (only left: 0, only right: 50)" in text
    assert "largest difference 1.0e-8" in text
    with option_context(language="zh"):
        assert "50 步没有对应" in repr(compare_series(right[:10], right))


def lightning(folder, name, more, *, validated):
    rows = ["epoch,step,train_loss,val_loss"]
    for step in range(8):
        rows.append(f"{step // 4},{step},{3 - 0.1 * step + more * (step > 3):.4f},")
        if validated and step % 4 == 3:
            rows.append(f"{step // 4},{step},,{3.2 - 0.1 * step:.4f}")
    (folder / name).write_text("\n".join(rows) + "\n")
    return folder / name


@pytest.mark.parametrize("validated", [True, False])
def test_a_table_with_empty_cells_parts_at_the_step_that_it_says(tmp_path, validated):
    runs = [
        lightning(tmp_path, f"{name}.csv", more, validated=validated)
        for name, more in (("a", 0), ("b", 0.3))
    ]
    for measure in (None, "train_loss"):
        found = compare_series(*runs, measure=measure)
        assert (found.measure, found.first_step, len(found)) == ("train_loss", 4, 8)
        assert not any("begin again" in note for note in found.notes)
    if validated:
        found = compare_series(*runs, measure="val_loss")
        assert found.passed
        assert found.table["step"].values.tolist() == [3, 7]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_trainer_state_parts_where_its_history_does(tmp_path, indent):
    for name, more in (("a", 0), ("b", 0.5)):
        rows = [
            {"epoch": 0.1 * i, "loss": 3 - 0.1 * i + more * (i >= 3), "step": 10 * i}
            for i in range(5)
        ]
        text = json.dumps({"global_step": 40, "log_history": rows}, indent=indent)
        (tmp_path / f"{name}.json").write_text(text)
    found = compare_series(tmp_path / "a.json", tmp_path / "b.json")
    assert (found.first_step, len(found)) == (30, 5)
