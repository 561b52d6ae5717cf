"""The conversion template runs in a fresh kernel: on its example and on given files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

TEMPLATE = Path(__file__).parents[2] / "notebooks/weight_conversion.ipynb"

pytestmark = pytest.mark.notebook


def cell_with(notebook, text):
    return next(cell for cell in notebook.cells if text in cell.source and cell.outputs)


def printed_by(notebook, text):
    return "".join(out.text for out in cell_with(notebook, text).outputs if "text" in out)


def files_of(notebook):
    """The files that the cell of the record names."""
    return [Path(line) for line in printed_by(notebook, "print(*files").splitlines()]


@pytest.mark.torch
@pytest.mark.mindspore
@pytest.mark.parametrize("net", ["resnet", pytest.param("gpt", marks=pytest.mark.long)])
def test_the_example_converts_proves_and_compares_every_output(run_demo, tmp_path, net):
    notebook = run_demo.execute(TEMPLATE, {"net": net, "page": str(tmp_path / "page.html")})
    weights, outputs = run_demo.verdict(notebook).splitlines()
    assert weights.startswith("weights: ✓ ")
    # Both run on the same CPU in float32: all that is left is rounding.
    assert outputs.startswith("outputs: ✓ ")
    assert "net.pth" in (tmp_path / "page.html").read_text("utf-8")
    files = files_of(notebook)
    names = ["converted.ckpt", "converted.map.yaml", "page.html", "net.pth"]
    assert [file.name for file in files[:4]] == names
    assert [file.name for file in files[4:]] == [
        "decoder.pth",
        "decoder_ms.ckpt",
        "decoder_converted.ckpt",
    ]
    assert all(file.exists() for file in files)


@pytest.mark.torch
@pytest.mark.mindspore
def test_the_example_shows_a_fused_a_permuted_and_a_stacked_weight(run_demo):
    notebook = run_demo.execute(TEMPLATE, {})
    printed = printed_by(notebook, "decoder_proof =").splitlines()
    assert printed == [
        "arrived: ✓ 9 of 9 pairs agree",
        "equal to the other file: ✓ 4 of 4 pairs agree",
    ]
    for source, transforms in (
        (
            "decoder = tnb.draft_weight_map(ours, theirs)",
            ["concat(0)", "stack(0)", "suggested: reshape("],
        ),
        (
            "tnb.draft_weight_map(theirs, ours)",
            ["split(0, 16, 16", "unstack(0, 4)", "| permute(0, 2, 1, 3)"],
        ),
    ):
        shown = cell_with(notebook, source).outputs[0]["data"]["text/plain"]
        assert all(transform in shown for transform in transforms)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("source", "target", "suffix"),
    [
        ("net.ckpt", "", ".pth"),
        pytest.param("net.ckpt", "torch", ".pth", marks=pytest.mark.long),
        pytest.param("net.pth", "mindspore.mint", ".ckpt", marks=pytest.mark.long),
        ("net.pth", "", ".ckpt"),
        ("net.ckpt", "like.safetensors", ".safetensors"),
    ],
)
def test_files_without_a_name_are_named_after_the_target(
    run_demo, tmp_path, source, target, suffix
):
    weights = {"fc.weight": np.ones((3, 2), "f4")}
    file = tnb.save_dump(weights, tmp_path / source)
    if target.startswith("like"):
        target = str(tnb.save_dump(weights, tmp_path / target))
    notebook = run_demo.execute(TEMPLATE, {"source": str(file), "target": target})
    destination, map_file = files_of(notebook)
    assert destination.suffix == suffix
    assert tnb.open_dump(destination).names == ["fc.weight"]
    assert len(tnb.read_weight_map(map_file)) == 1


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
    assert files_of(notebook) == [tmp_path / "net.ckpt", tmp_path / "net.map.yaml"]
