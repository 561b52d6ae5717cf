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
def test_one_log_alone_is_refused(run_demo):
    with pytest.raises(Exception, match="fill in both left and right"):
        run_demo.execute(TEMPLATE, {"left_log": "loss.log"})


@pytest.mark.notebook
def test_two_logs_alone_say_where_the_curves_part(run_demo, tmp_path):
    for side, slope in (("ours", 0.5), ("theirs", 0.1)):
        (tmp_path / side).mkdir()
        losses = [2.0 - 0.1 * n - (slope * (n - 4) if n > 4 else 0.0) for n in range(12)]
        lines = [f"step {n} loss {loss:.6f}" for n, loss in enumerate(losses)]
        (tmp_path / side / "loss.log").write_text("\n".join(lines))
    left, right = (str(tmp_path / side / "loss.log") for side in ("ours", "theirs"))
    logs = {"left_log": left, "right_log": right}
    notebook = run_demo.execute(TEMPLATE, logs)
    assert run_demo.verdict(notebook) == "✗ loss: the curves part at step 5 (6 of 12)"
    shown = [
        o.data["text/plain"] for c in notebook.cells for o in c.get("outputs", []) if "data" in o
    ]
    # Both files have one name; what tells them apart is the folder.
    assert any("ours/loss.log" in text and "theirs/loss.log" in text for text in shown)
    with pytest.raises(Exception, match="the path is empty"):
        run_demo.execute(TEMPLATE, {**logs, "right": left})


@pytest.mark.few(1)
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
