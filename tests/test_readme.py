"""What the README shows of recording runs as it is written there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def code_of(heading):
    """The first block of code under a heading."""
    _, _, section = README.partition(f"\n{heading}\n")
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.mark.torch
def test_the_first_lines_find_the_cause_and_the_section_on_recording_runs(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {}
    exec(code_of("## Five lines"), names)
    cmp = names["cmp"]
    assert [finding.cause for finding in cmp.findings] == ["gelu_variant"]
    assert "first at 1 output 0 " in cmp.verdict
    assert Path("record.html").exists()
    names |= {
        "loader": [(torch.randn(4, 8), torch.randn(4, 8)) for _ in range(12)],
        "loss_of": torch.nn.functional.mse_loss,
        "optimizer": torch.optim.SGD(names["net"].parameters(), 0.1),
    }
    exec(code_of("## Record"), names)
    assert names["rec"].steps == [0, 5, 10]
    assert not names["rec"].missing
    exec('tnb.save_dump(rec.dump, "files", format="msprobe_dir")', names)
    assert tnb.compare("files", "torch_run").passed


@pytest.mark.torch
def test_what_makes_a_run_repeatable_runs(monkeypatch):
    torch = pytest.importorskip("torch")
    code = code_of("### Make a run repeatable")
    losses = []
    for _ in range(2):
        names = {"tnb": tnb, "net": None, "batch": None, "step": lambda net, batch: torch.rand(1)}
        exec(code, names)
        losses.append(names["loss"].item())
    assert losses[0] == losses[1]


def test_moving_weights_runs_and_the_map_makes_both_sides_equal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    shapes = {"backbone.fc.weight": (4, 3), "head.w": (4, 2), "in_proj": (64, 192)}
    weights = {name: rng.random(shape).astype("f4") for name, shape in shapes.items()}
    tnb.save_dump(weights, "net.pth")
    lines = code_of("## Move weights").splitlines()
    # Two networks have names of their own: `tests/convert` fills one.
    code = "\n".join(line for line in lines if "torch_net" not in line)
    names = {"tnb": tnb}
    exec(code, names)
    assert names["proof"].passed
    assert tnb.compare("net.pth", "net.ckpt", mapping=names["wm"]).passed
    assert tnb.open_dump("net.ckpt").names == ["net.fc.weight", "fc.weight", "q", "k", "v"]
    assert len(tnb.read_weight_map("map.yaml")) == 3
