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


def named(*names: str) -> list[str]:
    """``d.a 3`` as the file name of a tensor with the number 3."""
    return [f"{name.replace(' ', '_float32_')}.npy" for name in names]


@pytest.mark.parametrize(
    ("orig", "target", "paired"),
    [
        # Once on each side, in another order: after something else, or with a key more.
        (["x 0", "d.a 1", "d.b 2"], ["d.b 0", "d.a 1"], {"d.a 1": "d.a 1", "d.b 2": "d.b 0"}),
        (["d.a 0", "d.b 1"], ["d.b 0", "d.c 1", "d.a 2"], {"d.a 0": "d.a 2", "d.b 1": "d.b 0"}),
        (["d.a 0", "d.b 1", "d.c 2"], ["d.a 0", "d.c 1"], {"d.a 0": "d.a 0", "d.c 2": "d.c 1"}),
        (["d.0 5", "d.1 6"], ["d.1 0", "d.0 1"], {"d.0 5": "d.0 1", "d.1 6": "d.1 0"}),
        # Of one step that both folders have, while each has another one too.
        (
            ["d.a 0", "d.b 1", "d.a 2", "d.b 3"],
            ["d.b 2", "d.a 3", "d.b 4", "d.a 5"],
            {"d.a 2": "d.a 3", "d.b 3": "d.b 2"},
        ),
        # Steps of other length, under the same numbers.
        (
            ["d.a 0", "d.b 1", "d.a 2", "d.b 3", "d.c 4"],
            ["d.b 0", "d.a 1", "d.c 2", "d.b 3", "d.a 4"],
            {"d.a 0": "d.a 1", "d.b 1": "d.b 0", "d.a 2": "d.a 4", "d.b 3": "d.b 3"}
            | {"d.c 4": "d.c 2"},
        ),
        # Another dtype of the same key under the same number.
        (["d.a 0"], ["d.a_float16_0"], {"d.a 0": "d.a_float16_0"}),
        # Only later: another step, for all one can tell.
        (["d.a 0", "d.b 1"], ["d.a 4", "d.b 5"], {}),
        (["d.a 0", "d.b 1", "d.a 2", "d.b 3"], ["d.b 8", "d.a 9", "d.b 10", "d.a 11"], {}),
        # Names with a dot, from no dictionary.
        (["net.fc 0", "net.fc 5"], ["net.fc 5", "net.fc 7"], {"net.fc 5": "net.fc 5"}),
        # Lists: an index is no key.
        (["l.0 0", "l.1 1"], ["l.0 3", "l.1 4"], {}),
        (["l.0 0", "l.2 1"], ["l.0 0", "l.1 1", "l.2 2"], {"l.0 0": "l.0 0"}),
        (["l.0 0", "l.1 1", "l.0 2"], ["l.0 0", "l.0 1", "l.1 2"], {"l.0 0": "l.0 0"}),
        (["l.0_s 0", "l.1_s 1"], ["l.0_s 2", "l.1_s 3"], {}),
    ],
)
def test_of_what_equal_names_leave_keys_are_paired_where_that_is_safe(
    tmp_path, orig, target, paired
):
    left = folder_with(tmp_path / "left", *named(*orig))
    right = folder_with(tmp_path / "right", *named(*target))
    for one, other, expected in (
        (left, right, paired),
        (right, left, {there: here for here, there in paired.items()}),
    ):
        pairs = ts.migrator.get_name_map_list_by_name(one, other)
        assert {here: there for here, there in pairs if here and there} == dict(
            zip(named(*expected), named(*expected.values()), strict=True)
        )
        assert sorted(here for here, _ in pairs if here) == sorted(os.listdir(one))
        assert sorted(there for _, there in pairs if there) == sorted(os.listdir(other))


@pytest.mark.parametrize("names", [("2_d_a", "5_d_a"), ("2_d_fc.w", "5_d_fc.w")])
def test_a_dictionary_of_another_call_stays_alone_with_names_of_release_1_0_15(tmp_path, names):
    left, right = (
        folder_with(tmp_path / name, f"{name}.npy", f"{name.replace('d_', 'd_n')}.npy")
        for name in names
    )
    assert all(None in pair for pair in ts.migrator.get_name_map_list_by_name(left, right))


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
