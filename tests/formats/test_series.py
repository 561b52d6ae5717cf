"""Logs and folders of checkpoints become series over steps."""

from __future__ import annotations

import json
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


# As the CSVLogger of PyTorch Lightning 2 writes it: a row has the columns of one phase.
LIGHTNING = """epoch,step,train_loss,val_loss,lr-AdamW
0,0,3.0,,
0,3,2.7,,
0,3,,2.9,
,3,,,0.1
1,4,2.6,,
1,7,2.3,,
1,7,,2.5,
,7,,,0.05
"""


def written(folder, text, name="metrics.csv"):
    (folder / name).write_text(text)
    return folder / name


def test_rows_of_one_phase_keep_their_steps(tmp_path):
    series = open_series(written(tmp_path, LIGHTNING))
    assert series.measures == ["train_loss", "val_loss", "lr_adamw"]
    assert series.steps.tolist() == [0, 3, 4, 7]
    for name, values in (
        ("train_loss", [3.0, 2.7, 2.6, 2.3]),
        ("val_loss", [math.nan, 2.9, math.nan, 2.5]),
        ("lr_adamw", [math.nan, 0.1, math.nan, 0.05]),
    ):
        np.testing.assert_array_equal(series.table[name].values, values)
        assert "nan_steps" not in series.table[name].attrs
    assert series.notes == ()


def test_rows_of_a_phase_that_has_no_number_are_no_steps(tmp_path):
    series = open_series(written(tmp_path, "epoch,step,loss\n0,0,3.0\n0,1,\n1,2,2.5\n"))
    assert series.steps.tolist() == [0, 2]
    assert series.table["loss"].values.tolist() == [3.0, 2.5]


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_column_is_no_column_of_names(tmp_path, empty):
    text = f"epoch,step,train_loss,val_loss\n0,0,3.0,{empty}\n0,1,2.5,{empty}\n"
    series = open_series(written(tmp_path, text))
    assert series.measures == ["train_loss"]
    assert series.table["train_loss"].values.tolist() == [3.0, 2.5]


def test_dates_are_no_names(tmp_path):
    text = "step,time,loss\n0,10:00:01,3.0\n1,10:00:02,2.5\n"
    assert open_series(written(tmp_path, text)).measures == ["loss"]


def test_a_row_cut_short_is_a_note(tmp_path):
    series = open_series(written(tmp_path, "step,loss,lr\n0,3.0,0.1\n1,2.5,0.1\n2,2"))
    assert series.steps.tolist() == [0, 1]
    assert series.notes == ("1 rows have more or fewer cells than the first: left out",)


@pytest.mark.parametrize("separate", [True, False])
def test_steps_that_do_begin_again_are_counted_on(tmp_path, separate):
    """With validation rows at the last step of each epoch, and the epoch not in every row."""
    rows = "1,1,3.0,\n1,2,2.5,\n1,2,,2.8\n2,1,2.3,\n{},2,2.1,\n2,2,,2.2\n"
    text = "epoch,step,loss,val_loss\n" + rows.format("" if separate else 2)
    series = open_series(written(tmp_path, text))
    assert series.steps.tolist() == [1, 2, 3, 4]
    assert series.table["loss"].values.tolist() == [3.0, 2.5, 2.3, 2.1]
    assert series.notes == ("steps begin again in every epoch: counted on by 2",)


def test_a_run_that_was_resumed_earlier_does_not_begin_again(tmp_path):
    rows = [(0, 1, 3.0), (0, 2, 2.9), (1, 3, 2.8), (1, 4, 2.7), (1, 3, 2.75), (1, 4, 2.65)]
    text = "".join(f"epoch {e} step {s} loss {loss}\n" for e, s, loss in rows)
    series = open_series(written(tmp_path, text, "run.log"))
    assert series.steps.tolist() == [1, 2, 3, 4]
    assert series.table["loss"].values.tolist() == [3.0, 2.9, 2.75, 2.65]
    assert series.notes == ("2 lines repeat a step; the last value of each measure is kept",)


# As transformers.Trainer writes it: losses, an evaluation at a step of its own kind, a summary.
HISTORY = [
    {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 1e-4, "loss": 3.0, "step": 10},
    {"epoch": 1.0, "grad_norm": 1.25, "learning_rate": 5e-5, "loss": 2.5, "step": 20},
    {"epoch": 1.0, "eval_loss": 2.75, "eval_runtime": 1.0, "step": 20},
    {"epoch": 1.5, "grad_norm": 1.0, "learning_rate": 0.0, "loss": float("nan"), "step": 30},
    {"epoch": 1.5, "total_flos": 1e9, "train_loss": 2.6, "step": 30},
]
STATE = {
    "best_metric": None,
    "epoch": 1.5,
    "global_step": 30,
    "log_history": HISTORY,
    "max_steps": 30,
}
JSON = {
    "state in one line": json.dumps(STATE),
    "state, indented": json.dumps(STATE, indent=2) + "\n",
    "list": json.dumps(HISTORY),
    "list, indented": json.dumps(HISTORY, indent=1),
    "lines": "".join(json.dumps(row) + "\n" for row in HISTORY),
    "lines, the last one cut": "".join(json.dumps(row) + "\n" for row in HISTORY) + '{"loss": 2.',
    "with a byte order mark": "\ufeff" + json.dumps(STATE),
}


@pytest.mark.parametrize("kind", JSON)
def test_objects_of_a_json_are_rows_at_their_steps(tmp_path, kind):
    series = open_series(written(tmp_path, JSON[kind], "trainer_state.json"))
    assert series.steps.tolist() == [10, 20, 30]
    assert set(series.measures) == {
        *("grad_norm", "learning_rate", "loss"),
        *("eval_loss", "train_loss"),
    }
    np.testing.assert_array_equal(series.table["loss"].values, [3.0, 2.5, math.nan])
    assert series.table["loss"].attrs["nan_steps"] == [30]
    np.testing.assert_array_equal(series.table["eval_loss"].values, [math.nan, 2.75, math.nan])
    assert series.notes == ()


def test_a_row_without_a_step_is_left_out_and_noted(tmp_path):
    text = '[{"step": 1, "loss": 2.0}, {"loss": 1.0}, {"step": null, "loss": 0.5}]'
    series = open_series(written(tmp_path, text, "a.json"))
    assert series.steps.tolist() == [1]
    assert series.notes == ("2 rows without a step: left out",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(STATE, indent=2)[:400], "Expecting|Unterminated"),
        (json.dumps({"steps": [1, 2], "loss": [3.0, 2.0]}), "it is no rows; rows are one object"),
        (json.dumps({"train": HISTORY}), "it is no rows.*log_history"),
        (json.dumps({"step": 3, "loss": 2.0}, indent=1), "it is no rows"),
        (json.dumps({"loss": 2.0}), "it is no rows"),
        (json.dumps({"global_step": 3, "log_history": [], "max_steps": 9}), "none of its 0 rows"),
        (json.dumps([{"loss": 2.0}, 3.0]), "it is no rows"),
        ("[[1, 3.0], [2, 2.5]]", "it is no rows"),
        ('[{"step": 1, "time": 2.0}]', "none of its 1 rows has a loss, norm or rate"),
        ('{"step": 1, "time": 2.0}\n{"step": 2, "time": 3.0}\n', "none of its objects has a loss"),
        ('{"step": 1, "loss"', "Expecting"),
    ],
)
def test_json_that_is_no_rows_is_refused_and_not_guessed(tmp_path, text, said):
    with pytest.raises(FormatError, match=rf"^a\.json: no series in this json.*({said})"):
        open_series(written(tmp_path, text, "a.json"))


def test_a_json_object_alone_on_its_line_is_a_row(tmp_path):
    series = open_series(written(tmp_path, '{"step": 7, "loss": 2.0}\n', "a.jsonl"))
    assert (series.steps.tolist(), series.table["loss"].values.tolist()) == ([7], [2.0])


def test_a_json_line_of_settings_above_a_log_is_not_its_series(tmp_path):
    text = '{"lr": 0.1, "max_steps": 2}\nstep 1 loss 3.0\nstep 2 loss 2.5\n'
    series = open_series(written(tmp_path, text, "run.log"))
    assert series.steps.tolist() == [1, 2]
    assert series.table["loss"].values.tolist() == [3.0, 2.5]


def test_absurd_numbers_are_no_steps(tmp_path):
    text = f'[{{"step": 1, "loss": {10**400}}}, {{"step": 1e300, "loss": 1.0}}]'
    series = open_series(written(tmp_path, text, "a.json"))
    assert series.steps.tolist() == [1]
    assert series.table["loss"].values.tolist() == [math.inf]


def test_the_last_digit_written_is_known(tmp_path):
    (tmp_path / "a").write_text("step 1 loss 2.3125\nstep 2 loss 2.25\n")
    assert open_series(tmp_path / "a").table["loss"].attrs["quantum"] == pytest.approx(5e-5)


@pytest.mark.parametrize("text", ["", "hello\n", "a,b\n1,2\n", "\0\0\0", "{}\n[1]\n", "step 10\n"])
def test_what_holds_no_series_is_refused_with_what_was_looked_for(tmp_path, text):
    (tmp_path / "a").write_text(text)
    with pytest.raises(FormatError, match=r"no series|no log|empty file"):
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


@pytest.mark.parametrize(
    "heading",
    [
        "name,kind,step,dtype,shape,max",
        "left,right,left_shape,right_shape,step,max_abs",
        "NPU Name,Bench Name,step,NPU max",
    ],
)
def test_tables_of_tensors_are_no_curves(heading, tmp_path):
    values = ",".join("1" for _ in heading.split(","))
    with pytest.raises(FormatError, match="give the dumps that it is of"):
        open_series(written(tmp_path, f"{heading}\n{values}\n"))
