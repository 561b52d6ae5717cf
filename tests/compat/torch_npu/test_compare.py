"""The comparison of torch_npu.hooks: what the old tool wrote for these pairs, to the last row."""

from __future__ import annotations

import csv
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import troubleshooter_nb as tnb
from tests.compat.search_by_rounds import searched
from troubleshooter_nb.compat.torch_npu.hooks.figures import figure_cells
from troubleshooter_nb.compat.torch_npu.hooks.lines import TensorLine, groups_of, lines_of_file
from troubleshooter_nb.compat.torch_npu.hooks.matching import matched_groups
from troubleshooter_nb.compat.torch_npu.hooks.tools import compare, main
from troubleshooter_nb.errors import FormatError, OptionError

DATA = Path(__file__).parents[2] / "data/torch_npu_hooks"
EDGE = json.loads((DATA / "edge/expected.json").read_text())
RUNS = ("module_full", "module_sampled", "identical", "extra_ops", "fused_op", "same_name_extra")
ROWS = {**dict.fromkeys(RUNS, 49), "fused_op": 41, "shifted_chain": 14}
DOCUMENTED = (
    "Name,Npu Tensor Dtype,Bench Tensor Dtype,Npu Tensor Shape,Bench Tensor Shape,Cosine,RMSE,MAPE"
)


def table(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def assert_same(got: list[list[str]], want: list[list[str]]) -> None:
    """Equal texts, or equal figures: to 1e-9, percentages to their last decimal."""
    assert [row[:6] for row in got] == [row[:6] for row in want]
    for ours, theirs in zip(got, want, strict=True):
        for cell, other in zip(ours[6:], theirs[6:], strict=True):
            assert cell == other or is_close(cell, other), (ours, theirs)


def is_close(cell: str, other: str) -> bool:
    if cell.endswith("%") and other.endswith("%"):
        return abs(float(cell[:-1]) - float(other[:-1])) <= 1e-4
    try:
        return math.isclose(float(cell), float(other), rel_tol=1e-9, abs_tol=1e-15)
    except ValueError:  # words
        return False


@pytest.mark.parametrize("folder", ROWS)
def test_the_table_is_that_of_the_old_tool(tmp_path, folder):
    compare(DATA / folder / "npu.pkl", str(DATA / folder / "bench.pkl"), tmp_path / "out.csv")
    got = table(tmp_path / "out.csv")
    assert len(got) == ROWS[folder] + 1
    assert_same(got, table(DATA / folder / "expected_legacy.csv"))


@pytest.mark.parametrize(
    ("case", "way"),
    [
        (case, way)
        for case, ways in EDGE["cases"].items()
        for way in ("name_only", "with_shapes")
        if way in ways
    ],
)
def test_odd_pairs_read_as_they_did(tmp_path, case, way):
    files = (DATA / f"edge/{case}.{side}.pkl" for side in ("npu", "bench"))
    compare(*files, tmp_path / "out.csv", way == "with_shapes")
    want = [EDGE["legacy_columns"], *EDGE["cases"][case][way]["legacy_rows"]]
    assert_same(table(tmp_path / "out.csv"), want)


def test_there_are_fourteen_odd_pairs():
    ways = [way for case in EDGE["cases"].values() for way in case if way != "note"]
    assert len(ways) == 14


@pytest.mark.parametrize("folder", ["extra_ops", "fused_op"])
def test_what_the_search_drops_is_known(folder):
    """Case 10: the old table does not tell of it."""
    sides = [[*groups_of(lines_of_file(DATA / folder / f"{s}.pkl"))] for s in ("npu", "bench")]
    found = [*matched_groups(*map(iter, sides), with_shapes=False)]
    skipped = json.loads((DATA / folder / "expected_skipped.json").read_text())
    for side, name in enumerate(("npu", "bench")):
        paired = {pair[side][-1].name for pair in found}
        last = [group[-1].name for group in sides[side]]
        assert [one for one in last if one not in paired] == skipped[name]


def test_our_own_comparison_tells_of_it():
    comparison = tnb.compare(*(DATA / f"extra_ops/{side}.pkl" for side in ("npu", "bench")))
    table = comparison.to_dataframe()
    alone = {name for name in table[table["right"] == ""]["left"] if "output" in name}
    alone = {name for name in alone if "#" not in name}
    skipped = json.loads((DATA / "extra_ops/expected_skipped.json").read_text())
    assert alone == {*skipped["npu"]}
    assert not (table["left"] == "").any()


@pytest.mark.parametrize("folder", ["module_full", "shifted_chain"])
def test_our_own_comparison_has_the_plain_figures(folder):
    """Case 9; of sampled files it does not count statistics as elements, as these figures do."""
    comparison = tnb.compare(*(DATA / folder / f"{side}.pkl" for side in ("npu", "bench")))
    rows = {
        (row["left"], row["right"]): row for row in comparison.to_dataframe().to_dict("records")
    }
    with (DATA / folder / "expected_f64.csv").open() as file:
        wanted = [*csv.DictReader(file)]
    found = [want for want in wanted if (want["npu_name"], want["bench_name"]) in rows]
    # In the chain all but the first and the last pair are the wrong ones, which it finds out.
    assert len(found) == (49 if folder == "module_full" else 4)
    names = {"cosine": "cosine", "rmse": "rmse", "max_abs": "max_abs_error"}
    for want in found:
        row = rows[want["npu_name"], want["bench_name"]]
        for theirs, ours in {**names, "mean_abs": "mean_abs_error"}.items():
            assert row[ours] == pytest.approx(float(want[theirs]), rel=1e-9, abs=1e-15)
        if not row["zero_reference_count"]:  # which the old figure divides by
            assert row["mape"] == pytest.approx(100 * float(want["mape_fraction"]), rel=1e-9)


def test_a_sampled_file_against_a_full_one_is_refused_and_nothing_is_written(tmp_path):
    files = (DATA / f"edge/sampled_vs_full.{side}.pkl" for side in ("npu", "bench"))
    with pytest.raises(ValueError, match=r"5 values and .* has 2, both of shape"):
        compare(*files, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_lines_without_numbers_find_those_with_numbers(tmp_path):
    compare(
        DATA / "variants/no_index_full.pkl", DATA / "module_full/bench.pkl", tmp_path / "out.csv"
    )
    rows = table(tmp_path / "out.csv")[1:]
    assert len(rows) == 49
    assert {row[7] for row in rows} == {"0.0"}


def test_lines_without_numbers_keep_their_category(tmp_path):
    """The old tool would cut `Torch_` off as if it were a number, and pair these two."""
    for name, category in (("left", "Torch"), ("right", "Functional")):
        line = [f"{category}_relu_forward_output", [1.0], "torch.float32", [1]]
        (tmp_path / f"{name}.pkl").write_text(json.dumps(line) + "\n")
    compare(tmp_path / "left.pkl", tmp_path / "right.pkl", tmp_path / "out.csv")
    assert len(table(tmp_path / "out.csv")) == 1


# Columns


@pytest.mark.parametrize("way", ["keyword", "variable"])
def test_the_columns_of_the_document_can_be_had(tmp_path, monkeypatch, way):
    files = (DATA / f"module_full/{side}.pkl" for side in ("npu", "bench"))
    keyword = {"columns": "document"} if way == "keyword" else {}
    if way == "variable":
        monkeypatch.setenv("TNB_HOOKS_COLUMNS", "document")
    compare(*files, tmp_path / "out.csv", **keyword)
    head, *rows = table(tmp_path / "out.csv")
    assert ",".join(head) == DOCUMENTED
    wanted = table(DATA / "module_full/expected_legacy.csv")[1:]
    assert [row[:5] for row in rows] == [[row[0], *row[2:6]] for row in wanted]


def test_a_keyword_beats_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("TNB_HOOKS_COLUMNS", "document")
    files = (DATA / f"module_full/{side}.pkl" for side in ("npu", "bench"))
    compare(*files, tmp_path / "out.csv", columns="tool")
    assert table(tmp_path / "out.csv")[0] == EDGE["legacy_columns"]


def test_other_columns_are_refused(tmp_path, monkeypatch):
    files = [DATA / f"module_full/{side}.pkl" for side in ("npu", "bench")]
    with pytest.raises(OptionError, match='columns is "tool" or "document", not \'nine\''):
        compare(*files, tmp_path / "out.csv", columns="nine")
    monkeypatch.setenv("TNB_HOOKS_COLUMNS", "8")
    with pytest.raises(OptionError, match="TNB_HOOKS_COLUMNS"):
        compare(*files, tmp_path / "out.csv")


# What is no dump


class Bomb:
    def __reduce__(self):
        return (Path.write_text, (Path("exploded"), ""))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_real_pickle_is_refused_and_never_unpickled(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    real = tmp_path / "real.pkl"
    real.write_bytes(pickle.dumps(Bomb(), protocol))
    with pytest.raises(FormatError, match=r"real.pkl"):
        compare(real, DATA / "module_full/bench.pkl", "out.csv")
    assert [*tmp_path.iterdir()] == [real]


@pytest.mark.parametrize(
    "line",
    [
        '["0_Torch_relu_forward_output", [1.0, 2.0], "torch.float32", [2]',  # torn
        '["Torch_relu_forward_stack_info.0", "FrameInfo(...)"]',
        '["0_Torch_relu_0_forward_output", 1, [], "torch.float32", [2], [1, 0, 0.5]]',
        '["0_Torch_relu_forward_output", "1.0", "torch.float32", [2]]',
        '["0_Torch_relu_forward_output", [[1.0], [2.0]], "torch.float32", [2]]',
        '["0_Torch_relu_forward_output", [1.0], "torch.float32", "[]"]',
        '{"name": 1}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_tensor_is_named(tmp_path, line):
    good = '["0_Torch_relu_forward_output", [1.0, 2.0], "torch.float32", [2]]\n'
    (tmp_path / "odd.pkl").write_text(good + line + "\n")
    with pytest.raises(FormatError, match=r"odd.pkl, line 2 is no "):
        compare(tmp_path / "odd.pkl", tmp_path / "odd.pkl", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_files_and_folders_that_do_not_exist_are_named(tmp_path):
    bench = DATA / "module_full/bench.pkl"
    with pytest.raises(FileNotFoundError, match=r"no file '.*gone.pkl'"):
        compare(tmp_path / "gone.pkl", bench, tmp_path / "out.csv")
    with pytest.raises(FileNotFoundError, match=r"the folder '.*gone' of output_path"):
        compare(bench, bench, tmp_path / "gone/out.csv")


def test_an_empty_file_gives_the_headings_alone(tmp_path):
    (tmp_path / "empty.pkl").write_text("")
    compare(tmp_path / "empty.pkl", DATA / "module_full/bench.pkl", tmp_path / "out.csv")
    assert table(tmp_path / "out.csv") == [EDGE["legacy_columns"]]


# The command


def test_the_command_does_the_same(tmp_path):
    program = [sys.executable, "-m", "troubleshooter_nb.compat.torch_npu.hooks.tools"]
    npu, bench = (str(DATA / f"module_sampled/{side}.pkl") for side in ("npu", "bench"))
    arguments = ["--npu_pkl", npu, "--bench_pkl", bench, "--out_path", str(tmp_path / "out.csv")]
    done = subprocess.run([*program, *arguments, "--shape"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert_same(table(tmp_path / "out.csv"), table(DATA / "module_sampled/expected_legacy.csv"))


@pytest.mark.parametrize(("given", "count"), [([], 2), (["--shape"], 0), (["--shape", "False"], 2)])
def test_the_command_takes_shapes_with_and_without_a_word(tmp_path, given, count):
    npu, bench = (str(DATA / f"edge/dtype_mismatch.{side}.pkl") for side in ("npu", "bench"))
    out = tmp_path / "out.csv"
    main(["--npu_pkl", npu, "--bench_pkl", bench, "--out_path", str(out), *given])
    assert len(table(out)) - 1 == count


def test_the_command_says_what_is_wrong_without_a_traceback(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--npu_pkl", "gone.pkl", "--bench_pkl", "gone.pkl", "--out_path", "out.csv"])
    assert "there is no file 'gone.pkl'" in capsys.readouterr().err


# The search, beside a plain reading of its rules


def reference(left, right, *, with_shapes):
    def fit(p, q):
        names = [[line.bare_name for line in group] for group in (left[p], right[q])]
        rest = [[line[2:] for line in group] for group in (left[p], right[q])]
        return names[0] == names[1] and (not with_shapes or rest[0] == rest[1])

    return [(left[p], right[q]) for p, q in searched(left, right, fit)]


def groups(side: str, ops: str):
    return [
        [TensorLine(f"{n}_Torch_{op.lower()}_forward_output", side + str(n), op, (1,))]
        for n, op in enumerate(ops)
    ]


@pytest.mark.parametrize("with_shapes", [False, True])
@given(left=st.text("aAbc", max_size=14), right=st.text("aAbc", max_size=14))
def test_the_search_finds_what_trying_everything_finds(with_shapes, left, right):
    sides = groups("l", left), groups("r", right)
    found = matched_groups(*map(iter, sides), with_shapes=with_shapes)
    assert [*found] == reference(*sides, with_shapes=with_shapes)


def test_a_long_search_without_a_partner_is_no_square():
    """A search that tries all that wait would compare 2.5e9 pairs of groups here."""
    sides = groups("l", "a" * 50_000), groups("r", "b" * 50_000)
    assert [*matched_groups(*map(iter, sides), with_shapes=False)] == []


def test_a_group_ends_with_its_first_output():
    names = ["x_forward_input.0", "x_forward_output.0", "x_forward_output.1", "y_forward_input.0"]
    lines = [TensorLine(f"{n}_Torch_{name}", np.ones(1), "", (1,)) for n, name in enumerate(names)]
    found = [[line.name for line in group] for group in groups_of(lines)]
    assert found == [
        ["0_Torch_x_forward_input.0", "1_Torch_x_forward_output.0"],
        ["2_Torch_x_forward_output.1"],
    ]


# Figures, by hand


@pytest.mark.parametrize(
    ("left", "right", "cells"),
    [
        ([3.0, 4.0], [4.0, 3.0], (0.5 + 0.5 * 24 / 25, 1.0, "29.1667%")),
        ([1.0, -2.0], [-1.0, 2.0], (0.0, math.sqrt(10), "200.0%")),
        ([5.0], [1.0], (1.0, 4.0, "400.0%")),
        ([0.0, 0.0], [0.0, 0.0], ("nan", 0.0, "nan%")),
        ([0.0, 0.0], [1.0, 0.0], ("nan", math.sqrt(0.5), "nan%")),
        ([1.0, 1.0], [1.0, 0.0], (0.5 + 0.5 / math.sqrt(2), math.sqrt(0.5), "inf%")),
        ([math.nan, 2.0], [1.0, 2.0], ("nan", "", "nan%")),
        ([math.inf, 2.0], [math.inf, 2.0], ("nan", "", "nan%")),
        ([math.inf, 2.0], [1.0, 2.0], ("nan", math.inf, "inf%")),
        ([], [], ("nan", "", "nan%")),
    ],
)
def test_figures_by_hand(left, right, cells):
    got = figure_cells(np.array(left, float), np.array(right, float))
    for cell, want in zip(got, cells, strict=True):
        if isinstance(want, str):
            assert cell == want
        else:
            assert float(cell) == pytest.approx(want, rel=1e-12, abs=2e-16)
