"""`ts.widget`: gradients by name, json files, seeds."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import save_dump

PROGRAM = """
import os, random
import mindspore, numpy as np, torch
import troubleshooter_nb.compat.troubleshooter as ts

def draw():
    ts.widget.fix_random(3)
    frameworks = torch.rand(3).tolist(), mindspore.ops.rand(3).asnumpy().tolist()
    return random.random(), float(np.random.rand()), frameworks

assert draw() == draw()
assert os.environ["PYTHONHASHSEED"] == "3"
assert mindspore.get_seed() == 3
cudnn = torch.backends.cudnn
assert (cudnn.deterministic, cudnn.benchmark, cudnn.enabled) == (True, False, False)
"""


@pytest.mark.torch
@pytest.mark.mindspore
def test_draws_repeat_after_fixing_the_seed():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


@pytest.mark.usefixtures("seeds_undone")
def test_a_missing_framework_is_no_obstacle(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    for name in ("torch", "mindspore"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, f"troubleshooter_nb.frameworks.{name}_", raising=False)
    drawn = []
    for _ in range(2):
        ts.widget.fix_random()
        drawn.append((random.random(), np.random.rand()))  # noqa: NPY002
    assert drawn[0] == drawn[1]
    assert os.environ["PYTHONHASHSEED"] == "16"


@pytest.mark.torch
def test_gradients_are_named_by_parameter_and_position():
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    net[1].bias.requires_grad_(False)
    net(torch.ones(4, 3)).sum().backward()
    grads = ts.widget.get_pt_grads(net)
    assert list(grads) == ["0.weight_0", "0.bias_1", "1.weight_2", "1.bias_3"]
    assert grads["0.weight_0"] is net[0].weight.grad
    assert grads["1.bias_3"] is None


def test_objects_go_through_json(tmp_path):
    value = {"conv.weight": "conv.weight", "列": [1, 2.5, None]}
    ts.widget.object_dump(value, tmp_path / "map.json")
    assert ts.widget.object_load(str(tmp_path / "map.json")) == value
    assert json.loads((tmp_path / "map.json").read_text()) == value


def test_a_value_json_does_not_take_leaves_the_file_alone(tmp_path):
    ts.widget.object_dump([1], tmp_path / "map.json")
    with pytest.raises(TypeError, match="not JSON serializable"):
        ts.widget.object_dump([object()], tmp_path / "map.json")
    assert ts.widget.object_load(tmp_path / "map.json") == [1]


def logs(folder, left: str, right: str) -> list[dict[str, str]]:
    """Two logs, and what `loss_compare` wants to know of them."""
    described = []
    for name, text in (("left.txt", left), ("right.txt", right)):
        (folder / name).write_text(text)
        described.append({"path": str(folder / name), "loss_tag": "loss:", "label": name})
    return described


def statistic(folder) -> dict[str, str]:
    [figures] = csv.DictReader((folder / "loss_compare/statistic.csv").open())
    return figures


def test_a_loss_that_is_nan_keeps_its_place(tmp_path, monkeypatch):
    # The old tool left it out and compared 2 with 9.
    monkeypatch.chdir(tmp_path)
    ts.widget.loss_compare(
        *logs(tmp_path, "loss: 3\nloss: nan\nloss: 2\n", "loss: 3\nloss: 9\nloss: 2\n")
    )
    text = (tmp_path / "loss_compare/left.txt.csv").read_text()
    assert text == ",loss\n0,3.0\n1,nan\n2,2.0\n"
    figures = statistic(tmp_path)
    assert (figures["MAX_ABS_ERROR"], figures["LEFT_MAX"]) == ("0.0", "3.0")


def test_losses_of_unequal_number_and_none_are_said(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    ts.widget.loss_compare(*logs(tmp_path, "loss: 3\nloss:\n", "lr: 3\n"))
    assert "right.txt has no number behind 'loss:'" in caplog.text
    assert "left.txt has 1 losses, right.txt has 0" in caplog.text
    assert statistic(tmp_path)["MAX_ABS_ERROR"] == "Nan"
    assert statistic(tmp_path)["RIGHT_MEAN"] == "Nan"


@pytest.mark.parametrize(
    ("logs_at", "files"),
    [
        (("npu/train.log", "gpu/train.log"), ("train.log.csv", "train.log_2.csv")),
        (("npu/train.log", "gpu/Train.log"), ("train.log.csv", "Train.log_2.csv")),
        (("npu/statistic", "gpu/statistic"), ("statistic_2.csv", "statistic_3.csv")),
        (("statistic_2", "statistic"), ("statistic_2.csv", "statistic_3.csv")),
    ],
)
def test_logs_of_one_name_keep_a_csv_each(tmp_path, monkeypatch, caplog, logs_at, files):
    monkeypatch.chdir(tmp_path)
    described = []
    for number, log in enumerate(logs_at):
        file = tmp_path / log
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"loss: {number}\n" * (number + 1))
        described.append({"path": log, "loss_tag": "loss:", "label": log})
    ts.widget.loss_compare(*described)
    saved = tmp_path / "loss_compare"
    assert [(saved / name).read_text() for name in files] == [
        ",loss\n0,0.0\n",
        ",loss\n0,1.0\n1,1.0\n",
    ]
    assert statistic(tmp_path)["RIGHT_MAX"] == "1.0"
    assert {path.name for path in saved.glob("*.csv")} == {*files, "statistic.csv"}
    if logs_at[0] == "npu/train.log" and logs_at[1] == "gpu/train.log":
        assert "npu/train.log has 1 losses, gpu/train.log has 2" in caplog.text


def test_logs_that_are_not_there_or_not_described_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left, right = logs(tmp_path, "loss: 3\n", "loss: 3\n")
    with pytest.raises(TypeError, match="right_file must be a dictionary with 'path', 'loss_tag'"):
        ts.widget.loss_compare(left, {"path": "x"})
    with pytest.raises(ValueError, match=r"no such file or folder: .*gone\.txt") as caught:
        ts.widget.loss_compare(left, right | {"path": str(tmp_path / "gone.txt")})
    assert isinstance(caught.value, FileNotFoundError)
    assert not (tmp_path / "loss_compare").exists()


@pytest.mark.mindspore
def test_what_was_not_loaded_is_returned_and_said(tmp_path, caplog):
    import mindspore

    file = save_dump({"weight": np.ones((2, 3), np.float32)}, tmp_path / "x.ckpt")
    net = mindspore.nn.Dense(3, 2)
    assert ts.widget.load_ms_weight2net(net, file) == (["bias"], [])
    assert "not loaded, the network keeps its own values: bias" in caplog.text
    values = {"weight": np.ones((2, 3), np.float32), "scale": np.ones(1, np.float32)}
    assert ts.widget.load_ms_weight2net(net, save_dump(values, tmp_path / "y.ckpt"))[1] == ["scale"]
    assert "not loaded, the network has no such parameter: scale" in caplog.text
    assert "converted" not in caplog.text
