"""The conversion template runs in a fresh kernel: on its example and on given files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

TEMPLATE = Path(__file__).parents[2] / "notebooks/weight_conversion.ipynb"

pytestmark = pytest.mark.notebook


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("net", ["resnet", "gpt"])
def test_the_example_converts_proves_and_compares_every_output(run_demo, tmp_path, net):
    notebook = run_demo.execute(TEMPLATE, {"net": net, "page": str(tmp_path / "page.html")})
    weights, outputs = run_demo.verdict(notebook).splitlines()
    assert weights.startswith("weights: ✓ ")
    # Both run on the same CPU in float32: all that is left is rounding.
    assert outputs.startswith("outputs: ✓ ")
    assert "net.pth" in (tmp_path / "page.html").read_text("utf-8")


def test_given_files_are_converted_without_a_framework(run_demo, tmp_path):
    weights = {"bn.weight": np.ones(3, "f4"), "bn.bias": np.zeros(3, "f4")}
    source = tnb.save_dump(weights, tmp_path / "net.pth")
    parameters = {
        "source": str(source),
        "destination": str(tmp_path / "net.ckpt"),
        "prefix": "net",
        "language": "zh",
    }
    notebook = run_demo.execute(TEMPLATE, parameters)
    weights, outputs = run_demo.verdict(notebook).splitlines()
    assert weights.startswith("weights: ✓ 2 对中 2 对一致")
    assert outputs == "outputs: not compared"
    assert tnb.open_dump(tmp_path / "net.ckpt").names == ["net.bn.gamma", "net.bn.beta"]
