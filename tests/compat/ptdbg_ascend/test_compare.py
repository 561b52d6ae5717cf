"""The comparison of ptdbg_ascend: its table, to the last row, and what it says of bad files."""

from __future__ import annotations

import inspect
import json
import math
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.compat.ptdbg_ascend.dumps import (
    DATA,
    DUMPS,
    LINEAR,
    WANTED,
    headings,
    line,
    param,
    run,
    table,
    v4,
    written,
)
from troubleshooter_nb.compat import ptdbg_ascend
from troubleshooter_nb.compat.ptdbg_ascend import compare, compare_distributed
from troubleshooter_nb.compat.ptdbg_ascend.verdicts import verdict
from troubleshooter_nb.errors import FormatError, OptionError

ONES = np.ones((2, 3), np.float32)


def compared(tmp_path, left, right, **ways):
    return table(compare(param(left, right), tmp_path / "out", **ways))


def of_outputs(tmp_path, actual, benchmark, **ways):
    """The row of two arrays."""
    name = "Torch_relu_0_forward_output"
    left = run(tmp_path / "left", {name: np.asarray(actual)})
    right = run(tmp_path / "right", {name: np.asarray(benchmark)})
    (row,) = compared(tmp_path, left, right, **ways)
    return row


# Cases 30 and 31


def test_the_table_is_that_of_the_tool(tmp_path):
    got, wanted = table(compare(v4(), tmp_path)), table(WANTED / "expected_f64.csv")
    assert len(got) == len(wanted) == 29
    assert [*got[0]] == [*wanted[0]]
    columns = [one for one in wanted[0] if one != "Err_message"]
    assert len(columns) == 20
    for row, want in zip(got, wanted, strict=True):
        for column in columns:
            # The figures of the tool have twelve decimals, the wanted ones all.
            assert row[column] == want[column] or float(row[column]) == pytest.approx(
                float(want[column]), rel=1e-9, abs=1e-12
            ), (row["NPU Name"], column)


def test_the_statistics_alone_are_the_same_to_the_last_letter(tmp_path):
    path = compare(v4(arrays=False), tmp_path)
    assert path.read_text() == (WANTED / "expected_statistics_only.csv").read_text()
    assert len(headings(path)) == 18
    assert [one.name for one in tmp_path.iterdir()] == [path.name]  # no verdicts, no advice


@pytest.mark.parametrize(
    ("cosine", "error", "rule", "said"),
    [
        (0.995, 0.01, "1.0", "Yes"),
        (0.995, 0.01, "2.0", "Yes"),
        (0.985, 0.0005, "1.0", "Yes"),
        (0.985, 0.0005, "2.0", "Yes"),
        (0.985, 0.01, "1.0", "No"),
        (0.985, 0.01, "2.0", "No"),
        (0.89, 0.0001, "1.0", "Yes"),
        (0.89, 0.0001, "2.0", "No"),
        (0.9999, 1.5, "1.0", "Yes"),
        (0.9999, 1.5, "2.0", "No"),
        # On the limits.
        (0.99, 0.5, "2.0", "Yes"),
        (0.98, 0.001, "2.0", "Yes"),
        (0.9, 0.001, "2.0", "Yes"),
        (1.0, 1.0, "2.0", "Yes"),
        # What is no number.
        ("unsupported", 0.0, "1.0", "Nan"),
        ("unsupported", 5.0, "2.0", "Nan"),
        ("Nan", 5.0, "2.0", "Nan"),
        (math.nan, 5.0, "2.0", "Nan"),
        (1.0, math.nan, "1.0", "Nan"),
        ("N/A", "N/A", "1.0", "No"),
        ("N/A", "N/A", "2.0", "No"),
        ("shape unmatched", "shape unmatched", "1.0", "Unmatched"),
        ("shape unmatched", "shape unmatched", "2.0", "Unmatched"),
    ],
)
def test_the_verdict_by_both_rules(cosine, error, rule, said):
    assert verdict(cosine, error, rule) == said


def test_the_releases_judge_the_same_arrays_by_their_rules(tmp_path):
    far = np.array([3.0, 4.0], np.float32), np.array([5.0, 12.0], np.float32) / 13 * 5
    near = [one * 1e-5 for one in far]
    for arrays, said in ((far, ("No", "No")), (near, ("Yes", "Yes"))):
        rows = [of_outputs(tmp_path, *arrays, release=release) for release in ("1.0", "2.0")]
        assert tuple(row["Accuracy Reached or Not"] for row in rows) == said
    opposite = [3e-5, 4e-5], [4e-5, -3e-5]
    rows = [of_outputs(tmp_path, *opposite, release=release) for release in ("1.0", "2.0")]
    assert [row["Accuracy Reached or Not"] for row in rows] == ["Yes", "No"]


# Columns


@pytest.mark.parametrize(
    ("release", "count"), [("1.0", 16), ("2.0", 17), ("3.0", 17), ("4.0", 21), (None, 21)]
)
@pytest.mark.parametrize("stacks", [False, True])
def test_columns_of_the_releases(tmp_path, release, count, stacks):
    ways = {} if release is None else {"release": release}
    names = headings(compare(v4(), tmp_path, stack_mode=stacks, **ways))
    assert len(names) == count + stacks
    assert names[-1] == ("NPU_Stack_Info" if stacks else "Err_message")
    assert ("MaxRelativeErr" in names) == (release != "1.0")


def test_the_stack_stands_in_the_first_row_of_a_call(tmp_path):
    rows = table(compare(v4(), tmp_path, stack_mode=True))
    first = "train.py:31 in forward: y = op(x)\ntrain.py:80 in <module>: loss = net(x).mean()"
    assert [row["NPU_Stack_Info"] for row in rows[:5]] == [first, "None", "None", "None", first]
    assert sum(row["NPU_Stack_Info"] == first for row in rows) == 10
    plain = table(compare(v4(arrays=False), tmp_path, stack_mode=True))
    assert [row["NPU_Stack_Info"] for row in plain] == [row["NPU_Stack_Info"] for row in rows]


def test_figures_have_six_decimals_until_release_3(tmp_path):
    cells = {
        release: table(compare(v4(), tmp_path, release=release))[7]["Cosine"]
        for release in ("1.0", "2.0", "3.0")
    }
    assert cells == {"1.0": "0.995698", "2.0": "0.995698", "3.0": "0.995698019773"}


def test_a_dump_of_release_1_has_no_norm(tmp_path):
    rank = DATA / "ptdbg/v1/npu/ptdbg_dump_v1.0/rank0"
    given = {"is_print_compare_log": False}
    for side in ("npu", "bench"):
        given |= {f"{side}_pkl_path": rank / "myDump.pkl", f"{side}_dump_data_dir": rank / "myDump"}
    rows = table(compare(given, tmp_path))
    assert len(rows) == 25
    assert {row["NPU l2norm"] for row in rows} == {"Nan"}
    assert {row["Accuracy Reached or Not"] for row in rows} == {"Yes"}
    assert "Nan" not in {row["NPU mean"] for row in rows}
    one = table(compare(given, tmp_path, release="1.0"))
    assert {row["Cosine"] for row in one} == {"1.0"}


# Figures


@pytest.mark.parametrize(
    ("left", "right", "cosine", "largest", "relative", "ratios", "said"),
    [
        ([3.0, 4.0], [4.0, 3.0], 0.96, 1.0, 1 / 3, (0.0, 0.0), "No"),
        ([2.0, 2.0, 2.0, 2.008], [2.0, 2.0, 2.0, 2.0], 1.0, 0.008, 0.004, (0.75, 1.0), "Yes"),
        ([0.0, 0.0], [0.0, 0.0], 1.0, 0.0, 0.0, (1.0, 1.0), "Yes"),
        ([0.0, 0.0], [3.0, 0.0], "Nan", 3.0, 1.0, (0.5, 0.5), "Nan"),
        ([3.0, 0.0], [0.0, 0.0], "Nan", 3.0, 3 * 2.0**52, (0.5, 0.5), "Nan"),
        ([5.0], [4.0], "unsupported", 1.0, 0.25, (0.0, 0.0), "Nan"),
        (5.0, 4.0, "unsupported", 1.0, 0.25, ("Nan", "Nan"), "Nan"),
        ([math.nan, 2.0], [math.nan, 2.0], 1.0, 0.0, 0.0, (1.0, 1.0), "Yes"),
        ([math.inf, 2.0], [math.inf, 2.0], 1.0, 0.0, 0.0, (1.0, 1.0), "Yes"),
        ([math.inf, 2.0], [1.0, 2.0], "N/A", "N/A", "N/A", ("N/A", "N/A"), "No"),
        ([math.nan, 2.0], [math.inf, 2.0], "N/A", "N/A", "N/A", ("N/A", "N/A"), "No"),
        ([True, False], [True, True], 1 / math.sqrt(2), 1.0, 1.0, (0.5, 0.5), "No"),
        ([7, 9], [7, 8], 121 / math.sqrt(130 * 113), 1.0, 0.125, (0.5, 0.5), "Yes"),
    ],
)
def test_figures_by_hand(tmp_path, left, right, cosine, largest, relative, ratios, said):
    row = of_outputs(tmp_path, left, right)
    names = ("Cosine", "MaxAbsErr", "MaxRelativeErr")
    names += ("One Thousandth Err Ratio", "Five Thousandths Err Ratio")
    for name, wanted in zip(names, (cosine, largest, relative, *ratios), strict=True):
        if isinstance(wanted, str):
            assert row[name] == wanted
        else:
            assert float(row[name]) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
    assert row["Accuracy Reached or Not"] == said
    assert bool(row["Err_message"]) == isinstance(cosine, str)


def test_a_cosine_above_five_nines_is_one(tmp_path):
    angle = math.sqrt(2 * 0.9e-5)
    row = of_outputs(tmp_path, [1.0, 0.0], [math.cos(angle), math.sin(angle)])
    assert row["Cosine"] == "1.0"
    angle = math.sqrt(2 * 2.05e-5)
    row = of_outputs(tmp_path, [1.0, 0.0], [math.cos(angle), math.sin(angle)])
    # The tool would say 0.999979500070, see figures_of.
    assert float(row["Cosine"]) == pytest.approx(math.cos(angle), abs=5.1e-7)


def test_zero_is_replaced_by_the_step_of_the_reference(tmp_path):
    step = np.finfo(np.float32).eps
    row = of_outputs(tmp_path, np.float32([step, 1.0]), np.float32([0.0, 1.0]))
    assert float(row["MaxRelativeErr"]) == pytest.approx(1.0)


def test_one_element_had_a_cosine_in_release_1(tmp_path):
    row = of_outputs(tmp_path, [5.0], [1.0], release="1.0")
    assert (row["Cosine"], row["Accuracy Reached or Not"]) == ("1.0", "Yes")
    assert row["Err_message"] == ""


def test_shapes_differ_where_names_alone_are_matched(tmp_path):
    row = of_outputs(tmp_path, ONES, ONES.T, release="1.0")
    assert row["Cosine"] == row["MaxAbsErr"] == "shape unmatched"
    assert row["Accuracy Reached or Not"] == "Unmatched"
    assert row["Err_message"] == "the shapes differ: [2, 3] and [3, 2]"


def test_empty_tensors_have_rows(tmp_path):
    row = of_outputs(tmp_path, np.ones((0, 3)), np.ones((0, 3)))
    assert (row["Cosine"], row["NPU max"]) == ("unsupported", "Nan")
    assert row["Accuracy Reached or Not"] == "Nan"


def test_scalars_of_python_keep_their_spelling(tmp_path):
    name = "Torch_add_0_forward_output"
    for word, value, shown in (("int", 3, "3"), ("float", 3.0, "3.0"), ("bool", True, "1")):
        lines = [line(name, np.array(value), f"<class '{word}'>", "[]")]
        lines[0][-1] = [value] * 4
        rank = written(tmp_path / word, lines, {name: np.array(value)})
        (row,) = compared(tmp_path, rank, rank)
        assert (row["NPU max"], row["NPU Tensor Shape"]) == (shown, "[]")
        (row,) = table(compare(param(rank, rank, arrays=False), tmp_path / "out"))
        assert row["Max diff"] == ("0.0" if word == "float" else "0")


# Arrays that cannot be read


def test_a_missing_array_is_a_row_that_says_so(tmp_path):
    tensors = dict.fromkeys(LINEAR, ONES)
    left, right = run(tmp_path / "left", tensors), run(tmp_path / "right", tensors)
    (left / f"dump/{LINEAR[0]}.npy").unlink()
    (right / f"dump/{LINEAR[1]}.npy").unlink()
    rows = compared(tmp_path, left, right)
    assert [row["Accuracy Reached or Not"] for row in rows] == ["Nan", "Nan", "Yes"]
    assert [row["Cosine"] for row in rows] == ["Nan", "Nan", "1.0"]
    assert rows[0]["Err_message"] == f"NPU: there is no {LINEAR[0]}.npy in dump"
    assert rows[1]["Err_message"] == f"Bench: there is no {LINEAR[1]}.npy in dump"
    assert rows[0]["NPU max"] == rows[0]["Bench max"] == "1.0"
    (left / f"dump/{LINEAR[1]}.npy").unlink()
    both = compared(tmp_path, left, right)[1]["Err_message"]
    assert both == f"NPU: there is no {LINEAR[1]}.npy in dump; " + rows[1]["Err_message"]


@pytest.mark.parametrize("damage", ["cut", "pickle", "text", "folder", "object"])
def test_a_damaged_array_is_a_row_that_says_so(tmp_path, damage):
    tensors = dict.fromkeys(LINEAR, ONES)
    left, right = run(tmp_path / "left", tensors), run(tmp_path / "right", tensors)
    file = left / f"dump/{LINEAR[1]}.npy"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-4])
    elif damage == "pickle":
        file.write_bytes(pickle.dumps(Bomb()))
    elif damage == "text":
        np.save(file, np.array(["a"]))
    elif damage == "object":
        np.save(file, np.array([Bomb()], object), allow_pickle=True)
    else:
        file.unlink()
        file.mkdir()
    rows = compared(tmp_path, left, right)
    assert [row["Accuracy Reached or Not"] for row in rows] == ["Yes", "Nan", "Yes"]
    assert rows[1]["Err_message"].startswith("NPU: ")
    assert not (tmp_path / "exploded").exists()


def test_a_name_cannot_lead_out_of_the_folder(tmp_path):
    name = "../secret_0_forward_output"
    np.save(tmp_path / "secret_0_forward_output.npy", ONES)
    rank = written(tmp_path / "rank", [line(name, ONES)], {})
    (row,) = compared(tmp_path, rank, rank)
    assert "there is no" in row["Err_message"]


# Text files that are none


class Bomb:
    def __reduce__(self):
        return (Path.write_text, (Path("exploded"), ""))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_real_pickle_is_refused_and_never_unpickled(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    rank = run(tmp_path / "rank", {LINEAR[2]: ONES})
    real = tmp_path / "real.pkl"
    real.write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(FormatError, match=r"real.pkl: "):
        compare({**param(rank, rank), "npu_pkl_path": real}, "out")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["rank", "real.pkl"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('["Torch_relu_0_forward_output", 0, [], "torch.float32", [2]', "line 2"),
        ('["Torch_relu_0_forward_output", 0, [], "torch.float32", -1, []]', "line 2"),
        ('["Torch_relu_0_forward_output", 0, []]', "line 2"),
        ('["0_Torch_relu_forward_output", [1.0], "torch.float32", [1]]', "hooks.tools.compare"),
        ('["Torch_relu_forward_output", 3, [1.0], "torch.float32", [1], []]', "the prototype"),
        ('{"name": 1}', "line 2"),
        ("[" * 100_000, "line 2"),
    ],
)
def test_a_line_that_is_none_of_the_tool_is_named(tmp_path, text, said):
    rank = run(tmp_path / "rank", {LINEAR[2]: ONES})
    with (rank / "dump.pkl").open("a") as file:
        file.write(text + "\n")
    with pytest.raises(FormatError, match=rf"dump.pkl: .*{said}.*open_dump"):
        compare(param(rank, rank), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_text_is_refused(tmp_path, text):
    rank = run(tmp_path / "rank", {LINEAR[2]: ONES})
    (rank / "dump.pkl").write_text(text)
    with pytest.raises(FormatError, match=r"dump.pkl: "):
        compare(param(rank, rank), tmp_path / "out")


# Arguments


def test_the_call_is_the_documented_one():
    names = ["input_param", "output_path", "stack_mode", "auto_analyze", "fuzzy_match"]
    parameters = inspect.signature(compare).parameters
    assert [*parameters][:5] == names
    assert [one.default for one in parameters.values()][2:5] == [False, True, False]
    assert [*inspect.signature(compare_distributed).parameters] == [
        *("npu_dump_dir", "bench_dump_dir", "output_path", "kwargs")
    ]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"npu_pkl_path": "gone.pkl"}, FileNotFoundError, "npu_pkl_path: there is no file"),
        ({"bench_pkl_path": "."}, ValueError, "bench_pkl_path: '.' is a folder; name the .pkl"),
        ({"npu_dump_data_dir": "gone"}, FileNotFoundError, "npu_dump_data_dir: there is no folder"),
        ({"bench_dump_data_dir": __file__}, ValueError, "is a file; expected a folder"),
        ({"npu_pkl_path": None}, ValueError, "'npu_pkl_path'.* is missing"),
        ({"bench_pkl_path": ""}, ValueError, "'bench_pkl_path'.* is missing"),
        ({"npu_pkl_path": 3}, TypeError, "a path is a str"),
        ({"npu_dump_data_dir": None}, ValueError, "npu_dump_data_dir is missing; give the folders"),
        ({"bench_dump_data_dir": ""}, ValueError, "bench_dump_data_dir is missing; give"),
        ({"npu_path": "x"}, OptionError, "input_param has no argument 'npu_path'; it has npu_pkl"),
        ({"is_print_compare_log": 1}, TypeError, "is_print_compare_log must be True or False"),
    ],
)
def test_what_is_wrong_with_the_input_is_named(tmp_path, change, error, said):
    with pytest.raises(error, match=said):
        compare({**v4(), **change}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("switch", ["stack_mode", "auto_analyze", "fuzzy_match"])
def test_switches_are_true_or_false(tmp_path, switch):
    with pytest.raises(TypeError, match=f"{switch} must be True or False, got 'no'"):
        compare(v4(), tmp_path, **{switch: "no"})


def test_other_inputs_and_releases_are_refused(tmp_path):
    with pytest.raises(TypeError, match="input_param takes a dict, got str"):
        compare("npu.pkl", tmp_path)
    with pytest.raises(OptionError, match=r"release is one of '1.0', .*, not '5.0'"):
        compare(v4(), tmp_path, release="5.0")
    with pytest.raises(ValueError, match=r'by release "4.0" only; give npu_dump_data_dir and'):
        compare(v4(arrays=False), tmp_path, release="3.0")


def test_the_folder_of_the_table_is_made(tmp_path):
    assert compare(v4(), str(tmp_path / "a/b")).parent == tmp_path / "a/b"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; expected a folder"):
        compare(v4(), tmp_path / "file")


def test_two_tables_of_one_second_are_both_there(tmp_path):
    paths = {compare(v4(), tmp_path) for _ in range(3)}
    assert len(paths) == 3
    assert len([*tmp_path.glob("compare_result_??????????????.csv")]) == 3
    assert len([*tmp_path.glob("advisor_??????????????.txt")]) == 3


def test_rows_are_printed_unless_told_otherwise(tmp_path, capsys):
    given = v4()
    compare(given, tmp_path, auto_analyze=False)
    assert capsys.readouterr().out == ""
    del given["is_print_compare_log"]
    path = compare(given, tmp_path, auto_analyze=False)
    *lines, last = capsys.readouterr().out.splitlines()
    assert len(lines) == 29
    assert lines[7].startswith(
        "[Functional_linear_1_forward_input.1] Cosine 0.995698019773, MaxAbsErr 0.25009"
    )
    assert last == f"the table is {path}"


# Several ranks


def ranks(folder: Path, *names: str) -> Path:
    for name in names:
        shutil.copytree(DUMPS["npu"] / "rank0", folder / name)
    return folder


def test_ranks_are_paired_by_their_numbers(tmp_path):
    left = ranks(tmp_path / "left", "rank2", "rank10")
    right = ranks(tmp_path / "right", "rank30263", "rank9")
    (right / "notes.txt").write_text("")
    paths = compare_distributed(left, right, tmp_path / "out", is_print_compare_log=False)
    begins = [path.name.rpartition("_")[0] for path in paths]
    assert begins == ["compare_result_rank2-rank9", "compare_result_rank10-rank30263"]
    assert len([*(tmp_path / "out").glob("advisor_rank*-rank*_*.txt")]) == 2
    rows = table(paths[1])
    assert len(rows) == 29
    assert {row["Accuracy Reached or Not"] for row in rows} == {"Yes", "Nan"}


def test_ranks_take_the_arguments_of_compare(tmp_path, capsys):
    ways = {"stack_mode": True, "auto_analyze": False, "fuzzy_match": True, "release": "3.0"}
    (path,) = compare_distributed(*DUMPS.values(), tmp_path, is_print_compare_log=False, **ways)
    assert len(headings(path)) == 18
    assert [*tmp_path.iterdir()] == [path]
    assert capsys.readouterr().out == ""
    with pytest.raises(OptionError, match="compare_distributed has no argument 'suffix'; it has"):
        compare_distributed(*DUMPS.values(), tmp_path, suffix="_x")


def test_ranks_without_arrays_compare_their_statistics(tmp_path):
    dumps = [ranks(tmp_path / side, "rank0") for side in ("left", "right")]
    for dump in dumps:
        shutil.rmtree(dump / "rank0/api_stack_dump")
    (path,) = compare_distributed(*dumps, tmp_path / "out", is_print_compare_log=False)
    assert len(headings(path)) == 18


def test_the_folder_of_arrays_may_end_in_a_time(tmp_path):
    dumps = [ranks(tmp_path / side, "rank0") for side in ("left", "right")]
    for dump in dumps:
        (dump / "rank0/api_stack_dump").rename(dump / "rank0/api_stack_dump_20230401_120000")
    (path,) = compare_distributed(*dumps, tmp_path / "out", is_print_compare_log=False)
    assert len(headings(path)) == 21


def test_ranks_that_do_not_fit_are_named(tmp_path):
    one, two = ranks(tmp_path / "1", "rank0"), ranks(tmp_path / "2", "rank0", "rank1")
    with pytest.raises(ValueError, match="1 rank folders against 2"):
        compare_distributed(one, two, tmp_path / "out")
    with pytest.raises(FormatError, match=r"bench_dump_dir: .* has no folders rank0, rank1"):
        compare_distributed(one, tmp_path, tmp_path / "out")
    with pytest.raises(FileNotFoundError, match="npu_dump_dir: there is no folder"):
        compare_distributed(tmp_path / "gone", one, tmp_path / "out")
    shutil.copy(two / "rank1/api_stack_dump.pkl", two / "rank1/dump.pkl")
    shutil.copytree(one / "rank0", one / "rank1")
    with pytest.raises(FormatError, match=r"several .pkl files, api_stack_dump.pkl, dump.pkl;"):
        compare_distributed(one, two, tmp_path / "out")
    (two / "rank1/dump.pkl").unlink()
    shutil.rmtree(two / "rank1/api_stack_dump")
    with pytest.raises(FormatError, match="has no folder of arrays beside it"):
        compare_distributed(one, two, tmp_path / "out")
    (two / "rank1/api_stack_dump.pkl").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .pkl file in .*rank1"):
        compare_distributed(one, two, tmp_path / "out")
    assert not (tmp_path / "out").exists()


# What is not offered, and the import


@pytest.mark.parametrize(
    "name", sorted({*ptdbg_ascend.__all__} - {"compare", "compare_distributed"})
)
def test_calls_that_record_say_what_to_use(name):
    with pytest.raises(NotImplementedError, match=rf"^{name} is not offered .*troubleshooter_nb\."):
        getattr(ptdbg_ascend, name)("./dump", dump_tag="all")


def test_the_import_loads_no_framework():
    program = (
        "import sys; from troubleshooter_nb.compat.ptdbg_ascend import *; compare; "
        "assert not {'torch', 'mindspore'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_lines_are_json_of_the_tool():
    """The small dumps of these tests are written as the large ones are."""
    first = json.loads((DUMPS["npu"] / "rank0/api_stack_dump.pkl").open().readline())
    ours = line("Functional_linear_0_forward_input.0", np.ones((6, 5), np.float32))
    assert [type(one) for one in ours] == [type(one) for one in first]
    assert len(ours[-1]) == len(first[-1])
