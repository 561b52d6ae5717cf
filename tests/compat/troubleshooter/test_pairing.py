"""The old tool's three ways to pair two folders, on the folders it was run on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb.compat.troubleshooter.pairing import edit_distance, end_number
from troubleshooter_nb.errors import FormatError

DATA = Path(__file__).parents[2] / "data/compat/troubleshooter"
CASES = json.loads((DATA / "name_map_cases.json").read_text())
SHAPES = json.loads((DATA / "metric_cases.json").read_text())["shape_edit_distance_cases"]
METHODS = {
    "by_name": ts.migrator.get_name_map_list_by_name,
    "by_number": ts.migrator.get_name_map_list_by_number,
    "by_end_number": lambda orig, target: ts.migrator.get_name_map_list_by_number(
        orig, target, end_number
    ),
    "by_shape_edit_distance": ts.migrator.get_name_map_list_by_shape_edit_distance,
}


def folder_with(path: Path, *names, shapes=None) -> Path:
    """A folder of arrays, created in this order, a second apart."""
    path.mkdir()
    for second, name in enumerate(names):
        np.save(path / name, np.zeros(shapes[second] if shapes else (2,), np.float32))
        os.utime(path / name, (1e9 + second, 1e9 + second))
    return path


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_files_are_paired_as_the_old_tool_paired_them(tmp_path, case, method):
    sides = [
        folder_with(
            tmp_path / side,
            *(name for name, _ in CASES[case][side]),
            shapes=[shape for _, shape in CASES[case][side]],
        )
        for side in ("orig", "target")
    ]
    assert METHODS[method](*sides) == [tuple(pair) for pair in CASES[case][method]]


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case["name"])
def test_shapes_are_aligned_at_the_old_tools_cost(case):
    delete, insert, replace = case["del_ins_rep"]
    cost, pairs = edit_distance(
        [tuple(shape) for shape in case["orig_shapes"]],
        [tuple(shape) for shape in case["target_shapes"]],
        delete=delete,
        insert=insert,
        replace=replace,
    )
    assert cost == case["peer_cost"]
    assert pairs == [tuple(pair) for pair in case["peer_pairs"]]


def test_all_stored_cases_are_there():
    assert (len(CASES), len(SHAPES)) == (12, 9)


def test_equal_numbers_and_times_fall_back_on_names(tmp_path):
    # As in a copy that kept no times.
    names = ["0_x.10.npy", "0_x.10b.npy", "0_x.2.npy"]
    folder = folder_with(tmp_path / "copied", *names)
    for name in names:
        os.utime(folder / name, (1e9, 1e9))
    pairs = ts.migrator.get_name_map_list_by_number(folder, folder)
    assert [left for left, _ in pairs] == ["0_x.2.npy", "0_x.10.npy", "0_x.10b.npy"]


def test_a_damaged_file_fits_no_shape(tmp_path):
    left = folder_with(tmp_path / "left", "x_0.npy", "x_1.npy")
    right = folder_with(tmp_path / "right", "x_0.npy", "x_1.npy")
    (left / "x_0.npy").write_bytes(b"nothing")
    (right / "x_0.npy").write_bytes(b"nothing")
    pairs = ts.migrator.get_name_map_list_by_shape_edit_distance(left, right)
    assert ("x_1.npy", "x_1.npy") in pairs
    assert ("x_0.npy", "x_0.npy") not in pairs


def test_only_arrays_of_the_folder_itself_count(tmp_path):
    folder = folder_with(tmp_path / "left", "x_0.npy")
    folder_with(folder / "sub.npy", "y_0.npy")
    (folder / "notes.txt").write_text("no array")
    (folder / "._x_0.npy").write_bytes(b"macOS")
    (folder / "gone_1.npy").symlink_to("nowhere.npy")
    pairs = ts.migrator.get_name_map_list_by_name(folder, folder)
    assert pairs == [("x_0.npy", "x_0.npy"), ("gone_1.npy", "gone_1.npy")]


@pytest.mark.parametrize("method", METHODS)
def test_a_folder_without_arrays_is_refused(tmp_path, method):
    full = folder_with(tmp_path / "full", "x_0.npy")
    empty = folder_with(tmp_path / "empty")
    with pytest.raises(FormatError, match=r"target_dir '.*empty' has no \.npy file"):
        METHODS[method](full, empty)
    with pytest.raises(ValueError, match=r"orig_dir must be an existing folder, got '.*missing'"):
        METHODS[method](tmp_path / "missing", full)
    with pytest.raises(ValueError, match="target_dir must be an existing folder, got None"):
        METHODS[method](full, None)


def test_what_stays_alone_is_said(tmp_path, caplog):
    left = folder_with(tmp_path / "left", "a_0.npy", "b_1.npy", shapes=[(2,), (3,)])
    right = folder_with(tmp_path / "right", "a_0.npy")
    for method in METHODS.values():
        caplog.clear()
        method(left, right)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert caplog.records[0].getMessage().startswith("[*User Warning*] ")
        caplog.clear()
        method(left, left)
        assert caplog.records == []
