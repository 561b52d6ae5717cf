"""`ts.widget`: gradients by name, json files, seeds."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts

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
