"""The checkpoint template runs in a fresh kernel: on its example and on given files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
TEMPLATE = NOTEBOOKS / "checkpoint_diff.ipynb"

pytestmark = pytest.mark.notebook


def texts(notebook) -> list[str]:
    """The text of every shown result, in order."""
    return [
        "".join(output.get("data", {}).get("text/plain", ""))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_example_finds_the_statistics_that_no_gradient_shows(run_demo, tmp_path):
    notebook = run_demo.execute(TEMPLATE, {"page": str(tmp_path / "page.html")})
    verdict = run_demo.verdict(notebook)
    assert verdict.startswith("✗ 18 of 77 pairs differ: ")
    assert "➤ first at bn1.moving_mean" in verdict
    left, right, structure, values, why, first, training, *_ = texts(notebook)
    assert "after.ckpt" in left
    assert "weights are those of 'model'" in right
    assert "✓ same structure: 77 of 89 entries paired" in structure
    assert "values were not compared" in structure
    # All parameters and all momentum agree; the statistics of every normalisation do not.
    assert verdict in values
    rows = [line.split() for line in values.splitlines()]
    failed = {(row[0], row[1]) for row in rows if len(row) == 8 and row[4] not in ("0", "failed")}
    assert failed == {(block, "buffer") for block in ("bn1", "layer1", "layer2", "layer3")}
    assert "buffers differ, 0 of 18 equal" in why
    assert "bn1.moving_mean" in first
    # SGD moved every parameter; both files are torch's, so every batch counter counts.
    assert "saved at different steps of training: epoch is 2" in training
    assert "never loaded" not in training
    assert "tensors: 57 changed, 1 untouched" in training
    assert "learning rate 0.05" in training
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "after.ckpt" in page
    assert str(tmp_path) not in page


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("net", [pytest.param("resnet", marks=pytest.mark.long), "gpt"])
def test_a_faithful_port_makes_the_same_step(run_demo, net):
    notebook = run_demo.execute(TEMPLATE, {"net": net, "fault": "none"})
    assert run_demo.verdict(notebook).startswith("✓ ")


def test_given_files_are_compared_without_training(run_demo, tmp_path):
    rng = np.random.default_rng(0)
    good = {f"fc{i}.weight": rng.normal(size=(4, 6)) for i in range(4)}
    bad = good | {"fc2.weight": good["fc2.weight"] + 1}
    left = tnb.save_dump(bad, tmp_path / "new.ckpt")
    right = tnb.save_dump(good, tmp_path / "old.safetensors")
    parameters = {"left": str(left), "right": str(right), "language": "zh"}
    first, second = (run_demo.execute(TEMPLATE, parameters) for _ in range(2))
    verdict = run_demo.verdict(first)
    assert verdict.startswith("✗ 4 对中 1 对不一致：")
    assert verdict.endswith("➤ 首个差异：fc2.weight (#2)")
    assert [cell.get("outputs") for cell in first.cells] == [
        cell.get("outputs") for cell in second.cells
    ]
    assert any("结构相同" in text for text in texts(first))


def test_one_file_alone_is_refused(run_demo, tmp_path):
    with pytest.raises(Exception, match="fill in both left and right"):
        run_demo.execute(TEMPLATE, {"left": str(tmp_path)})
