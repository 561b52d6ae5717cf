"""Folders of TroubleShooter's api dump: records, checksums, call stacks, arrays, damage."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb import open_dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.api_dump import open_api_dump, refusal

DATA = Path(__file__).parents[1] / "data" / "api_dump"
COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50


def column(dump, name):
    return dump.index[name].values.tolist()


def records(side, framework):
    file = DATA / side / "rank0" / f"{framework}_api_dump_info.csv"
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.parametrize(
    ("side", "framework", "count"), [("pt_dump", "torch", 22), ("ms_dump", "mindspore", 18)]
)
def test_every_record_has_its_statistics_checksum_and_values(side, framework, count):
    dump = open_dump(DATA / side)
    assert dump.format == "api_dump"
    assert len(dump) == count
    assert set(column(dump, "status")) == {"ok"}
    folder = DATA / side / "rank0" / f"{framework}_api_dump"
    table = dump.to_dataframe()
    for (_, row), record in zip(table.iterrows(), records(side, framework), strict=True):
        name, _, _, _, shape, statistics, md5, l2 = record
        assert row["name"] == name
        assert [row["max"], row["min"], row["mean"], row["l2"]] == [*statistics, l2]
        assert row["digest"] == f"md5:{md5}"
        assert row["dtype"] == "float32"
        array = dump.array(name)
        assert list(array.shape) == shape
        np.testing.assert_array_equal(array, np.load(folder / f"{name}.npy"))
    assert open_dump(DATA / side / "rank0").names == dump.names


def test_the_torch_side_has_four_markers_twelve_forward_and_six_backward_records():
    dump = open_dump(DATA / "pt_dump")
    markers = [name for name in dump.names if name.startswith("LAYER_")]
    assert len(markers) == 4
    assert column(dump, "role").count("") == 4
    assert len(dump.select(direction="forward", role=["input", "output"])) == 12
    backward = dump.select(direction="backward")
    assert len(backward) == 6
    # What arrives, in msprobe's words.
    assert set(column(backward, "role")) == {"input"}


def test_the_module_of_a_call_is_its_parent_and_its_stack_is_kept():
    table = open_dump(DATA / "pt_dump").to_dataframe().set_index("name")
    assert table.loc["NN_Conv2d_0_forward_output", "parent"] == "LAYER_conv_forward_input"
    assert table.loc["Torch_clip_0_forward_output", "parent"] == ""
    assert table.loc["NN_Linear_0_forward_input.0", "parent"] == "LAYER_fc_forward_input"
    for name in ("NN_Conv2d_0_forward_output", "Torch_clip_0_forward_input.0"):
        assert table.loc[name, "stack"].startswith("pt.py:7 in forward: x=s.relu(")
    assert (table.loc[[n for n in table.index if "forward" in n], "stack"] != "").all()
    ours = table.loc["NN_Conv2d_0_forward_input.0", ["kind", "path", "layer", "call", "slot"]]
    assert ours.tolist() == ["module", "NN.Conv2d", "Conv2d", 0, "0"]


@pytest.mark.parametrize(("side", "count"), [("pt_stat", 22), ("ms_stat", 18)])
def test_statistics_alone_are_read_and_what_was_not_asked_for_is_unknown(side, count):
    dump = open_dump(DATA / side)
    assert len(dump) == count
    assert set(dump.sources) == {None}
    assert set(column(dump, "status")) == {"ok"}
    assert set(column(dump, "digest")) == {""}
    assert np.isnan(column(dump, "mean")).all()
    assert not np.isnan(column(dump, "max")).any()
    assert any("statistics only" in note for note in dump.notes)


def test_both_statistics_agree_to_the_fifth_digit():
    left, right = (open_dump(DATA / f"{side}_stat").to_dataframe() for side in ("pt", "ms"))
    left = left[left["role"] != ""].reset_index(drop=True)
    for name in ("max", "min"):
        assert (left[name] - right[name]).abs().max() < 1e-5


def copied(tmp_path, side="pt_dump"):
    shutil.copytree(DATA / side, tmp_path / side)
    return tmp_path / side


def info_file(folder):
    return next((folder / "rank0").glob("*_info.csv"))


def test_steps_begin_where_forward_follows_backward_and_the_last_stays(tmp_path):
    folder = copied(tmp_path)
    text = info_file(folder).read_text()
    second = text.replace("_0_forward", "_1_forward").replace("_0_backward", "_1_backward")
    forward = [line for line in second.splitlines(keepends=True) if "_backward" not in line]
    info_file(folder).write_text(text + "".join(forward))
    dump = open_dump(folder)
    assert column(dump, "step") == [0] * 22 + [1] * 16
    # Call numbers count from the first of the step.
    assert set(column(dump, "call")) == {0}
    assert "2 steps: inferred" in dump.notes[-1]
    assert "the last has no backward" in dump.notes[-1]


def test_arrays_without_records_are_read_by_their_names(tmp_path):
    folder = copied(tmp_path)
    info_file(folder).unlink()
    dump = open_dump(folder)
    assert len(dump) == 22
    assert "NN_BatchNorm2d_0_forward_output" in dump
    assert any("no torch_api_dump_info.csv" in note for note in dump.notes)


def test_a_missing_or_damaged_array_leaves_the_record(tmp_path):
    folder = copied(tmp_path)
    arrays = folder / "rank0" / "torch_api_dump"
    (arrays / "NN_ReLU_0_forward_output.npy").unlink()
    (arrays / "NN_Conv2d_0_forward_output.npy").write_bytes(b"x")
    table = open_dump(folder).to_dataframe().set_index("name")
    assert table.loc["NN_ReLU_0_forward_output", "status"] == "ok"
    assert table.loc["NN_ReLU_0_forward_output", "max"] > 2
    assert table.loc["NN_Conv2d_0_forward_output", "status"] == "unreadable"


def test_a_damaged_line_is_a_note_and_a_record_with_a_reason_stays(tmp_path):
    folder = copied(tmp_path, "pt_stat")
    lines = info_file(folder).read_text().splitlines(keepends=True)
    lines[1] = "nonsense\n"
    lines[2] = lines[2].replace("[2, 4, 4, 4]", "[2, 4, -4, 4]")
    lines[-1] = lines[-1][:40]
    info_file(folder).write_text("".join(lines))
    dump = open_dump(folder)
    assert len(dump) == 20
    assert any("line 2, 22 left out: no JSON" in note for note in dump.notes)
    assert column(dump, "reason")[1] == "line 3: the shape [2, 4, -4, 4] is impossible"


def test_a_damaged_stack_file_is_a_note(tmp_path):
    folder = copied(tmp_path, "pt_stat")
    (folder / "rank0" / "torch_api_dump_stack.json").write_text("{")
    dump = open_dump(folder)
    assert set(column(dump, "stack")) == {""}
    assert any("call stacks were not read" in note for note in dump.notes)


def test_two_frameworks_and_foreign_folders_are_refused(tmp_path):
    folder = copied(tmp_path)
    shutil.copytree(DATA / "ms_dump", folder, dirs_exist_ok=True)
    assert "dumps of mindspore and torch" in refusal(folder)
    with pytest.raises(FormatError, match="open the folder of one of them"):
        open_api_dump(folder, label="x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="empty: a folder without"):
        open_api_dump(tmp_path / "empty", label="x")
    assert refusal(tmp_path / "none") == "not a folder"


@pytest.mark.parametrize("ending", ["_info.csv", "_stack.json"])
def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path, ending):
    folder = copied(tmp_path, "ms_dump")
    file = folder / "rank0" / f"mindspore_api_dump{ending}"
    content = file.read_bytes()
    rng = random.Random(f"api dump {ending}")
    changed = 0
    right = open_api_dump(folder, label="x").index
    for number in range(COUNT):
        data = bytearray(content)
        rng.choice(ACCIDENTS)(data, rng)
        file.write_bytes(bytes(data))
        with bounded(len(content), number):
            dump = open_api_dump(folder, label="x")
            repr(dump)
        # Arrays are found by their names, whatever happened to the records.
        assert {name.partition("#")[0] for name in dump.names} >= {
            path.stem for path in (folder / "rank0" / "mindspore_api_dump").iterdir()
        }
        assert all(len(text) < 500 for text in (*dump.notes, *column(dump, "reason")))
        changed += not dump.index.equals(right)
    assert changed > COUNT // 4
