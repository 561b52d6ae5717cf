"""Logs and folders of checkpoints become series over steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.series import open_series

LOGS = {
    "plain": ("step 10 loss 2.31\nstep 20 loss 2.25\n", [10, 20], "loss", [2.31, 2.25]),
    # MindSpore's LossMonitor begins again in every epoch.
    "monitor": (
        "epoch: 1 step: 1, loss is 2.30\nepoch: 1 step: 2, loss is 2.2\n"
        "epoch: 2 step: 1, loss is 2.1\nepoch: 2 step: 2, loss is 2.0\n",
        *([1, 2, 3, 4], "loss", [2.3, 2.2, 2.1, 2.0]),
    ),
    "megatron": (
        " iteration  10/  100 | consumed samples: 80 | lm loss: 2.31E+00 | grad norm: 1.234 |\n"
        " iteration  20/  100 | consumed samples: 90 | lm loss: 2.21E+00 | grad norm: 1.134 |\n",
        *([10, 20], "grad_norm", [1.234, 1.134]),
    ),
    "printed dictionary": (
        "{'loss': 2.31, 'learning_rate': 1e-05}\n{'loss': nan, 'learning_rate': 1e-05}\n",
        *([0, 1], "loss", [2.31, math.nan]),
    ),
    "json": (
        '{"step": 1, "train": {"loss": 2.5}}\nnoise\n{"step": 2, "train": {"loss": 2.4}}\n',
        *([1, 2], "train.loss", [2.5, 2.4]),
    ),
    "csv": ("step,fc.weight,fc.bias\n0,1.5,2\n4,1.25,3\n", [0, 4], "fc.weight", [1.5, 1.25]),
    "long csv": ("step,name,norm\n0,a,1\n0,b,2\n1,a,3\n", [0, 1], "b", [2, math.nan]),
    "one step of epochs": (
        "Epoch [1/2], Step [100/600], Loss: 0.12\nEpoch [2/2], Step [100/600], Loss: 0.10\n",
        *([100, 200], "loss", [0.12, 0.10]),
    ),
    "logger": ("2026-01-02 10:00:00 INFO step=5 loss=1.5 lr=1e-3\n", [5], "lr", [1e-3]),
}


@pytest.mark.parametrize("kind", LOGS)
def test_logs_in_common_shapes(tmp_path, kind):
    text, steps, measure, values = LOGS[kind]
    (tmp_path / "run.log").write_text(text)
    series = open_series(tmp_path / "run.log")
    assert series.steps.tolist() == steps
    np.testing.assert_array_equal(series.table[measure].values, values)
    assert series.label == "run.log"


def test_the_last_digit_written_is_known(tmp_path):
    (tmp_path / "a").write_text("step 1 loss 2.3125\nstep 2 loss 2.25\n")
    assert open_series(tmp_path / "a").table["loss"].attrs["quantum"] == pytest.approx(5e-5)


@pytest.mark.parametrize("text", ["", "hello\n", "a,b\n1,2\n", "\0\0\0", "{}\n[1]\n", "step 10\n"])
def test_what_holds_no_series_is_refused_with_what_was_looked_for(tmp_path, text):
    (tmp_path / "a").write_text(text)
    with pytest.raises(FormatError, match=r"no series|no log"):
        open_series(tmp_path / "a")


@pytest.mark.parametrize(
    "names",
    [
        {"step_2.npz": 2, "step_10.npz": 10},
        {"net-1_2.npz": 2, "net-2_1.npz": 3},
        {"model_0001.npz": 1, "model_0002.npz": 2, "best.npz": None},
    ],
)
def test_a_folder_of_checkpoints_is_one_dump_with_steps(tmp_path, names):
    for place, name in enumerate(names):
        np.savez(tmp_path / name, **{"fc.weight": np.full((2, 3), place, np.float32)})
    dump = open_series(tmp_path)
    assert isinstance(dump, tnb.Dump)
    steps = [step for step in names.values() if step is not None]
    assert dump.index["step"].values.tolist() == steps
    for place, step in enumerate(steps):
        assert (dump.select(step=step).array("fc.weight") == place).all()
    assert any("best" in note for note in dump.notes) == ("best.npz" in names)


def test_a_damaged_checkpoint_is_a_row_with_a_reason(tmp_path):
    np.savez(tmp_path / "step_1.npz", w=np.ones(3))
    (tmp_path / "step_2.npz").write_bytes(b"broken")
    dump = open_series(tmp_path)
    assert dump.index["status"].values.tolist() == ["ok", "unreadable"]
    with pytest.raises(FormatError, match="no checkpoints"):
        open_series(_empty(tmp_path))


def _empty(folder):
    (folder / "empty").mkdir()
    return folder / "empty"
