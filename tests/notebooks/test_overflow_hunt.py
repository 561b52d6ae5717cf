"""The template that finds where NaN begins, and the training that overflows where it is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_nets.overflow import BAD_STEP, LAYER, make_training

import troubleshooter_nb as tnb

TEMPLATE = Path(__file__).parents[2] / "notebooks" / "overflow_hunt.ipynb"
FRAMEWORKS = [
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("mindspore", marks=pytest.mark.mindspore),
]


def watched(framework, **more):
    repaired = more.pop("repaired", False)
    net, train = make_training(framework, repaired=repaired)
    with tnb.watch_overflow(net, **more) as watch:
        losses = []
        for step in range(BAD_STEP + 2):
            losses.append(train(step))
            watch.step()
    return losses, watch.overflow


@pytest.mark.few(1)
@pytest.mark.notebook
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_template_finds_the_layer_and_sees_the_repair(run_demo, framework, tmp_path):
    page = tmp_path / "found.html"
    notebook = run_demo.execute(TEMPLATE, {"framework": framework, "page": str(page)})
    before, after = run_demo.verdict(notebook).splitlines()
    assert before.startswith("✗ Inf starts in ")
    assert before.endswith(f".mul in {LAYER}, step {BAD_STEP}")
    assert after == "after the repair: ✓ no NaN, no Inf, nothing near the limit of its dtype"
    printed = "".join(
        o["text"] for c in notebook.cells for o in c.get("outputs", []) if "text" in o
    )
    assert "return x * x" in printed
    assert f"{LAYER}, step {BAD_STEP} (output.0, 1 Inf of 512 elements, float16" in printed
    assert LAYER in page.read_text("utf-8")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_example_overflows_in_the_layer_that_it_names(framework):
    losses, found = watched(framework)
    assert losses[BAD_STEP] == float("inf")
    first = found.first
    assert (first["step"], first["path"], first["kind"]) == (BAD_STEP, LAYER, "starts")
    assert first["dtype"] == "float16"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_repaired_example_has_nothing_to_find(framework):
    losses, found = watched(framework, repaired=True)
    assert not found
    assert max(losses) < 100


def test_another_framework_is_refused():
    with pytest.raises(ValueError, match="'torch' or 'mindspore', got 'jax'"):
        make_training("jax")
