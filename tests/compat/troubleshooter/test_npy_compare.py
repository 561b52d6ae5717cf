"""`compare_npy_dir` and its three variants: table, csv, log lines, damaged files."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb import compare as compare_dumps
from troubleshooter_nb import save
from troubleshooter_nb.errors import NotOfferedError, OptionError, TroubleshooterError
from troubleshooter_nb.options import option_context

DATA = Path(__file__).parents[2] / "data/compat/troubleshooter"
BUILDS = ["master_1.0.19", "wheel_1.0.18"]
COMPARISONS = [
    ts.migrator.compare_npy_dir,
    ts.migrator.compare_list_dir,
    ts.migrator.compare_dict_dir,
    ts.migrator.compare_grads_dir,
]
HEADING = (
    "orig array name | target array name | result of allclose | ratio of allclose | "
    "cosine similarity | mean & max diffs"
)


def folder_with(path: Path, **arrays) -> Path:
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def rows_of(table: str) -> list[list[str]]:
    """Cells of a printed table, below the headings."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()[4:]
        if not line.startswith("+")
    ]


@pytest.mark.parametrize("build", BUILDS)
def test_by_name_gives_the_old_table_and_csv(tmp_path, capsys, build):
    saved = DATA / build / "save_and_compare"
    table = ts.migrator.compare_npy_dir(
        saved / "ms_ts_save",
        saved / "torch_ts_save",
        rtol=1e-3,
        atol=1e-3,
        equal_nan=True,
        compare_shape=True,
        output_file=str(tmp_path / "compare.csv"),
    )
    expected = (saved / "compare_by_name.txt").read_text()
    assert capsys.readouterr().out == table + "\n" == expected
    assert (tmp_path / "compare.csv").read_bytes() == (saved / "compare_by_name.csv").read_bytes()


@pytest.mark.parametrize("build", BUILDS)
def test_by_number_gives_the_old_table_and_csv(tmp_path, capsys, build):
    saved = DATA / build / "save_and_compare"
    left, right = saved / "ms_ts_save", saved / "torch_ts_save"
    ts.migrator.compare_npy_dir(
        left,
        right,
        name_map_list=ts.migrator.get_name_map_list_by_number(left, right),
        output_file=tmp_path / "compare.csv",
    )
    assert capsys.readouterr().out == (saved / "compare_by_number.txt").read_text()
    expected = (saved / "compare_by_number.csv").read_bytes()
    assert (tmp_path / "compare.csv").read_bytes() == expected


@pytest.mark.parametrize("build", BUILDS)
def test_gradients_give_the_old_table_and_csv(tmp_path, capsys, build):
    saved = DATA / build / "grads"
    ts.migrator.compare_grads_dir(
        saved / "torch_grads_dir", saved / "ms_grads_dir", output_file=tmp_path / "x.csv"
    )
    assert (tmp_path / "x.csv").read_bytes() == (saved / "compare_grads.csv").read_bytes()
    assert capsys.readouterr().out == (saved / "compare_grads.txt").read_text()


def test_a_list_is_paired_by_the_last_number(tmp_path):
    left = folder_with(tmp_path / "l", conv2_float32_0=np.zeros(2), conv1_float32_1=np.ones(2))
    right = folder_with(tmp_path / "r", a_float32_0=np.zeros(2), b_float32_1=np.ones(2))
    rows = rows_of(ts.migrator.compare_list_dir(left, right))
    assert [row[:3] for row in rows] == [
        ["conv2_float32_0.npy", "a_float32_0.npy", "True"],
        ["conv1_float32_1.npy", "b_float32_1.npy", "True"],
    ]


def test_a_dictionary_is_paired_by_name(tmp_path):
    left = folder_with(tmp_path / "l", x_0=np.zeros(2), y_1=np.ones(3))
    right = folder_with(tmp_path / "r", y_1=np.ones(3), z_2=np.ones(3))
    rows = rows_of(ts.migrator.compare_dict_dir(left, right, compare_shape=True))
    assert [row[:5] for row in rows] == [
        ["x_0.npy", "None", "(2,)", "None", "False"],
        ["y_1.npy", "y_1.npy", "(3,)", "(3,)", "True"],
        ["None", "z_2.npy", "None", "(3,)", "False"],
    ]


@pytest.mark.parametrize(
    "compare", [ts.migrator.compare_npy_dir, ts.migrator.compare_dict_dir], ids=["npy", "dict"]
)
@pytest.mark.parametrize("naming", ["current", "id-first", "1.0.15"])
def test_a_dictionary_saved_in_another_order_is_paired_by_its_keys(tmp_path, compare, naming):
    values = {"fc.weight": np.ones((2, 3)), "fc.bias": np.zeros(2), "out": np.full((2, 3), 2.0)}
    with option_context(npy_names=naming):
        for step in range(2):
            for side, keys in (("l", [*values]), ("r", ["out", "fc.weight", "fc.bias"])):
                save(tmp_path / side / "d", {key: values[key] + step for key in keys})
    rows = rows_of(compare(tmp_path / "l", tmp_path / "r"))
    assert len(rows) == 6
    assert [row[2] for row in rows] == ["True"] * 6
    comparison = compare_dumps(tmp_path / "l", tmp_path / "r")
    assert comparison.result.sizes["pair"] == 6
    assert comparison.passed


def test_a_dictionary_of_steps_that_overlap_is_compared_where_they_do(tmp_path, caplog):
    # As a run that kept its first steps, and one that kept its last.
    for side, steps in (("l", (0, 1)), ("r", (1, 2))):
        for step in steps:
            at = f"float32_{2 * step}", f"float32_{2 * step + 1}"
            (tmp_path / side).mkdir(exist_ok=True)
            np.save(tmp_path / side / f"g.w_{at[0]}.npy", np.full(2, step))
            np.save(tmp_path / side / f"g.b_{at[1]}.npy", np.full(3, step))
    rows = rows_of(ts.migrator.compare_dict_dir(tmp_path / "l", tmp_path / "r"))
    assert sorted(row[:3] for row in rows) == [
        ["None", "g.b_float32_5.npy", "False"],
        ["None", "g.w_float32_4.npy", "False"],
        ["g.b_float32_1.npy", "None", "False"],
        ["g.b_float32_3.npy", "g.b_float32_3.npy", "True"],
        ["g.w_float32_0.npy", "None", "False"],
        ["g.w_float32_2.npy", "g.w_float32_2.npy", "True"],
    ]
    assert "no file of the same name" in caplog.text


@pytest.mark.parametrize("naming", ["current", "id-first"])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("keys", [[0, 1], ["1_x", "2_y", "3"], [0, "a"]], ids=str)
def test_keys_like_indices_are_paired_by_key(tmp_path, keys, steps, naming):
    with option_context(npy_names=naming):
        for step in range(steps):
            for side, order in (("l", keys), ("r", keys[::-1])):
                values = {key: np.full(2, keys.index(key) + 10.0 * step) for key in order}
                save(tmp_path / side / "d", values)
    rows = rows_of(ts.migrator.compare_dict_dir(tmp_path / "l", tmp_path / "r"))
    assert [row[2] for row in rows] == ["True"] * len(keys) * steps


def test_keys_that_one_side_has_more_often_stay_with_their_names(tmp_path):
    left = folder_with(tmp_path / "l", **{f"d.a_float32_{k}": np.ones(2) * k for k in (0, 3, 6)})
    right = folder_with(tmp_path / "r", **{f"d.a_float32_{k}": np.ones(2) * k for k in (3, 6)})
    names = [row[:2] for row in rows_of(ts.migrator.compare_dict_dir(left, right))]
    assert names == [
        ["d.a_float32_0.npy", "None"],
        *([f"d.a_float32_{k}.npy"] * 2 for k in (3, 6)),
    ]


def test_damaged_files_are_rows_with_a_reason(caplog):
    table = ts.migrator.compare_npy_dir(DATA / "damaged", DATA / "damaged", compare_shape=True)
    rows = {row[0]: row[2:6] for row in rows_of(table)}
    for name in ("good_0.npy", "big_endian_7.npy", "fortran_8.npy"):
        assert rows[name] == [rows[name][0], rows[name][0], "True", "100.00%"]
    reasons = {
        "truncated_1.npy": "truncated",
        "zero_byte_2.npy": "empty file",
        "garbage_3.npy": "not a .npy file",
        "object_4.npy": "Python objects",
        "string_5.npy": "text",
        "structured_6.npy": "records",
    }
    said = [record.getMessage() for record in caplog.records]
    for name, reason in reasons.items():
        assert rows[name] == ["None", "None", "File is unreadable", "0.00%"]
        lines = [text for text in said if f"{name} of" in text]
        assert len(lines) == 2  # one for each side
        assert all(reason in text for text in lines)


def test_a_damaged_file_against_a_good_one_is_no_crash(tmp_path):
    left = folder_with(tmp_path / "l", x_0=np.zeros(2))
    right = folder_with(tmp_path / "r", x_0=np.zeros(2))
    (right / "x_0.npy").write_bytes((right / "x_0.npy").read_bytes()[:-1])
    row = rows_of(ts.migrator.compare_grads_dir(left, right, name_map_list=[("x_0", "x_0")]))[0]
    assert row == ["x_0", "x_0", "(2,)", "None", "File is unreadable", "0.00%", "nan", "nan, nan"]


def test_names_of_a_map_may_lack_their_suffix_or_their_file(tmp_path):
    folder = folder_with(tmp_path / "l", x_0=np.zeros(2))
    table = ts.migrator.compare_npy_dir(
        folder, folder, name_map_list=[("x_0", "x_0.npy"), ["x_0.npy", "gone.npy"], (None, "x_0")]
    )
    assert [row[:3] for row in rows_of(table)] == [
        ["x_0", "x_0.npy", "True"],
        ["x_0.npy", "gone.npy", "False"],
        ["None", "x_0", "False"],
    ]


def test_an_empty_map_compares_nothing(tmp_path, capsys):
    folder = folder_with(tmp_path / "l", x_0=np.zeros(2))
    assert ts.migrator.compare_npy_dir(folder, folder, name_map_list=[]) is None
    assert capsys.readouterr().out == ""


def test_markers_of_the_old_api_dump_are_hidden(tmp_path, caplog):
    folder = folder_with(tmp_path / "l", LAYER_fc_forward_input=np.zeros(1), x_0=np.zeros(2))
    rows = rows_of(ts.migrator.compare_npy_dir(folder, folder))
    assert [row[0] for row in rows] == ["x_0.npy"]


def test_a_bare_file_name_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder_with(Path("l"), x_0=np.zeros(2))
    ts.migrator.compare_npy_dir("l", "l", output_file="compare.csv")
    ts.migrator.compare_npy_dir("l", "../" + tmp_path.name + "/l", output_file="./compare2.csv")
    assert Path("compare.csv").read_bytes() == Path("compare2.csv").read_bytes()


def test_title_and_headings_can_be_given(tmp_path):
    folder = folder_with(tmp_path / "l", x_0=np.zeros(2))
    table = ts.migrator.compare_npy_dir(
        folder, folder, title="mine", field_names=list("abcdef"), frame_names=("torch", "torch")
    )
    assert table.splitlines()[1].strip("| ") == "mine"
    assert table.splitlines()[3].replace(" ", "") == "|a|b|c|d|e|f|"


def test_the_rows_do_not_depend_on_the_number_of_workers(tmp_path):
    draw = np.random.default_rng(0)
    arrays = {f"x_{k}": draw.standard_normal(k + 1) for k in range(30)}
    left, right = folder_with(tmp_path / "l", **arrays), folder_with(tmp_path / "r", **arrays)
    tables = {ts.migrator.compare_npy_dir(left, right, num_processes=n) for n in (None, 1, 7)}
    assert len(tables) == 1


@pytest.mark.parametrize("tolerance", [1, 0, np.float32(0.5), np.int64(2)])
def test_any_number_is_a_tolerance(tmp_path, tolerance):
    # rtol=1 was a TypeError of the old tool.
    left = folder_with(tmp_path / "l", x_0=np.array([1.0]))
    row = rows_of(ts.migrator.compare_npy_dir(left, left, rtol=tolerance, atol=tolerance))[0]
    assert row[2] == "True"


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"rtol": "1e-3"}, TypeError, "rtol must be a number, got '1e-3'"),
        ({"atol": True}, TypeError, "atol must be a number, got True"),
        ({"equal_nan": "yes"}, TypeError, "equal_nan must be True or False, got 'yes'"),
        ({"compare_shape": 2}, TypeError, "compare_shape must be True or False, got 2"),
        ({"num_processes": 0}, OptionError, "num_processes must be at least 1, got 0"),
        ({"num_processes": 1.5}, TypeError, "num_processes must be a whole number"),
        ({"name_map_list": ["ab"]}, TypeError, r"row 0 of name_map_list is 'ab'; expected"),
        ({"field_names": ["a"]}, OptionError, "field_names must be 6 headings"),
        ({"field_names": "abcdef"}, OptionError, "field_names must be 6 headings"),
        ({"field_names": 3}, TypeError, "field_names must be 6 headings like .*, got 3"),
        ({"title": 3}, TypeError, "title must be a text or None, got 3"),
        ({"name_map_list": 3}, TypeError, "name_map_list must be a list of .* None, got 3"),
        (
            {"frame_names": 3, "field_names": list("abcdef")},
            *(TypeError, "frame_names must be a tuple of names, got 3"),
        ),
        ({"output_file": 3}, TypeError, "output_file must be the path of a csv file or None, got"),
        ({"output_file": "."}, OptionError, r"output_file '\.' is a folder; give the name of the"),
        ({"output_file": "no/such/x.csv"}, OptionError, "the folder 'no/such' does not exist"),
        (
            {"frame_names": ("msadapter", "torch"), "field_names": list("abcdefg")},
            *(NotOfferedError, "to_dataframe"),
        ),
        ({"tolerance": 1, "x": 2}, ValueError, "no argument 'tolerance', 'x'; it has name_map_l"),
    ],
)
def test_wrong_arguments_are_named_before_the_work(tmp_path, capsys, arguments, error, match):
    folder = folder_with(tmp_path / "l", x_0=np.zeros(2))
    with pytest.raises(error, match=match) as caught:
        ts.migrator.compare_npy_dir(folder, folder, **arguments)
    assert isinstance(caught.value, TroubleshooterError)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda function: function.__name__)
def test_every_comparison_names_both_folders(tmp_path, caplog, compare):
    left = folder_with(tmp_path / "l", x_0=np.zeros(2))
    shutil.copytree(left, tmp_path / "r")
    compare(left, tmp_path / "r")
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records] == [
        (
            "troubleshooter.log",
            logging.WARNING,
            "[*User Attention*] The compare directory information:\n"
            f" The orig dir: {left} \n The target dir: {tmp_path / 'r'}",
        )
    ]


PROGRAM = """
import logging, sys
import troubleshooter_nb.compat.troubleshooter as ts
if sys.argv[2] == "configured":
    logging.basicConfig(format="mine: %(message)s")
for _ in range(2):
    ts.migrator.compare_npy_dir(sys.argv[1], sys.argv[1])
assert logging.getLogger().handlers == [] or sys.argv[2] == "configured"
"""


@pytest.mark.parametrize(
    ("logging_is", "line"),
    [
        (
            "untouched",
            r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - troubleshooter\.log - WARNING - "
            r"\[\*User Attention\*\] The compare directory information:",
        ),
        ("configured", r"mine: \[\*User Attention\*\] The compare directory information:"),
    ],
)
def test_the_line_is_logged_once_in_the_old_look_or_the_users(tmp_path, logging_is, line):
    import re

    folder = folder_with(tmp_path / "l", x_0=np.zeros(2))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, logging_is],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert len(lines) == 6  # three for each call
    assert re.fullmatch(line, lines[0])
    assert lines[1:3] == [f" The orig dir: {folder} ", f" The target dir: {folder}"]
