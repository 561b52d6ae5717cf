"""The template for curves that part, and the runs that it makes."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_nets.divergence import UPDATE_FAULTS, make_runs

import troubleshooter_nb as tnb

TEMPLATE = Path(__file__).parents[2] / "notebooks" / "training_divergence.ipynb"
# fault -> first step whose loss differs, the cause.
FOUND = {
    "momentum": (2, "momentum_convention"),
    "rate": (1, "learning_rate"),
    "schedule": (1, "schedule_off_by_one"),
}


@pytest.mark.notebook
@pytest.mark.torch
@pytest.mark.mindspore
def test_the_example_finds_the_step_and_the_rule(run_demo):
    notebook = run_demo.execute(TEMPLATE, {})
    _, curves, values, cause = run_demo.verdict(notebook).splitlines()
    assert curves == "✗ loss: the curves part at step 2 (3 of 12)"
    assert "first at step 2: tok.embedding_table" in values
    assert cause.startswith("momentum_convention (")


@pytest.mark.notebook
@pytest.mark.torch
def test_a_part_of_the_inputs_is_refused(run_demo, tmp_path):
    with pytest.raises(Exception, match="fill in both logs and both dumps"):
        run_demo.execute(TEMPLATE, {"left_log": str(tmp_path)})


@pytest.mark.torch
@pytest.mark.parametrize("fault", FOUND)
def test_a_planted_rule_is_found(fault, tmp_path):
    left, right = make_runs(tmp_path, fault, "torch", steps=6)
    curves = tnb.compare_series(left / "loss.log", right / "loss.log")
    cmp = tnb.compare(left / "dump", right / "dump")
    assert (curves.first_step, cmp.findings[0].cause) == FOUND[fault]


@pytest.mark.torch
def test_equal_runs_stay_together(tmp_path):
    left, right = make_runs(tmp_path, "none", "torch", steps=6)
    assert tnb.compare_series(left / "loss.log", right / "loss.log").passed
    cmp = tnb.compare(left / "dump", right / "dump")
    assert cmp.passed
    assert cmp.findings == ()
    # Only the first steps are recorded, the losses of all.
    assert sorted(set(cmp.to_dataframe()["step"])) == [0, 1, 2, 3, 4]
    assert len((left / "loss.log").read_text().splitlines()) == 6


@pytest.mark.parametrize(("fault", "left"), [("typo", "torch"), ("none", "jax")])
def test_an_unknown_fault_or_framework_is_refused(fault, left, tmp_path):
    with pytest.raises(ValueError, match=", ".join(UPDATE_FAULTS) if fault == "typo" else "'jax'"):
        make_runs(tmp_path, fault, left)
