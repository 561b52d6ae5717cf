"""The template for one network in two environments, and what its example plants."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_nets.environments import ENVIRONMENTS, make_environment_runs

import troubleshooter_nb as tnb

TEMPLATE = Path(__file__).parents[2] / "notebooks" / "two_environments.ipynb"

pytestmark = pytest.mark.torch


@pytest.mark.notebook
def test_the_example_names_what_the_other_environment_does(run_demo):
    notebook = run_demo.execute(TEMPLATE, {})
    planted, *found, cause = run_demo.verdict(notebook).splitlines()
    assert "gelu_tanh" in planted
    assert "first at blocks.0.act output 0" in " ".join(found)
    assert cause.startswith("gelu_variant (")
    shown = [o.data for c in notebook.cells for o in c.get("outputs", []) if "data" in o]
    # The reference, run once more with another number of threads, agrees with itself.
    assert any("pairs agree" in data.get("text/plain", "") for data in shown)
    assert any("threads" in data.get("text/html", "") for data in shown)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["none", "autocast"])
def test_another_library_and_a_shorter_type_are_no_fault(tmp_path, fault):
    tested, reference, again = make_environment_runs(tmp_path, fault)
    noise = tnb.measure_noise(tnb.compare(again, reference, progress=False))
    found = tnb.compare(tested, reference, rtol=1e-4, atol=1e-5, noise=noise, progress=False)
    assert found.passed
    stored = {str(one) for one in found.result["left_dtype"].values}
    assert ("bfloat16" in stored) == (fault == "autocast")


@pytest.mark.long
def test_other_weights_are_where_it_begins(tmp_path):
    tested, reference, _ = make_environment_runs(tmp_path, "old_weights")
    found = tnb.compare(tested, reference, progress=False)
    assert found.first_divergence.row["left_display"].item() == "blocks.2.attn.qkv.weight"


def test_an_unknown_fault_is_refused(tmp_path):
    with pytest.raises(ValueError, match=", ".join(ENVIRONMENTS)):
        make_environment_runs(tmp_path, "typo")
