"""Every documented command, run as it is written, and every documented refusal."""

import csv
import json
import shutil

import pytest
import yaml

from tests.analysis import parallel_dumps
from tests.compat.msprobe.compare.commands import (
    DDP,
    FIRST,
    L0M,
    L0T,
    L1M,
    L1T,
    LONG,
    OLD,
    SNIPPETS,
    STATISTICS,
    TWINS,
    book_of,
    outputs,
    refused,
    rows_of,
)
from tests.compat.msprobe.compare.tables_of_peers import DATA, MAPS
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.compat.msprobe.compare.command import is_documented
from troubleshooter_nb.compat.msprobe.compare.config import read_config, without_comments
from troubleshooter_nb.errors import FormatError

COMMANDS = {
    "22_api": (STATISTICS, "single", f"{FIRST} -s"),
    "22_api_long": (STATISTICS, "single", f"-f mindspore compare {LONG}"),
    "22_no_output": (STATISTICS, "single", "-f mindspore compare -i ./compare.json -c -f"),
    "22_ranks": (DDP, "ranks", "-f pytorch compare -i ./compare.json -o ./output"),
    "24_cell": ([L0M, L0M], "single", f"{FIRST} -s"),
    "25_am": ([L1M, L1T], "single", f"{FIRST} -s -am"),
    "25_am_file": ([L1M, L1T], "single", f"{FIRST} -s -am map_api.yaml"),
    "25_am_file_long": ([L1M, L1T], "single", f"{FIRST} --stack_mode --api_mapping map_api.yaml"),
    "26_cm": ([L0M, L0T], "single", f"{FIRST} -s -cm"),
    "26_cm_file": ([L0M, L0T], "single", f"{FIRST} -s -cm map_cell.yaml"),
    "26_cell_mapping": ([L0M, L0T], "single", f"{FIRST} -s --cell_mapping"),
    "26_cell_mapping_file": ([L0M, L0T], "single", f"{FIRST} -s --cell_mapping map_cell.yaml"),
    "27_dm": ([L1M, L1T], "single", f"{FIRST} -s -dm map_data.yaml"),
    "27_data_mapping": ([L1M, L1T], "single", f"{FIRST} -s --data_mapping map_data.yaml"),
    "28_lm": (TWINS, "single", f"{FIRST} -s -lm map_layer.yaml"),
    "28_layer_mapping": (TWINS, "single", f"{FIRST} -s --layer_mapping map_layer.yaml"),
}
KINDS = {
    "none needed": "no row is flagged",
    "forward input": "What goes into this call",
    "backward": "The gradient that arrives",
}


def expected():
    found = {}
    with (DATA / "commands.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["command"], []).append(row)
    return found


def check(files, wanted):
    assert sorted(files) == sorted(row["file"] for row in wanted)
    for row in wanted:
        file = files[row["file"]]
        if row["rows"]:
            headings, found = rows_of(file)
            assert ", ".join(headings) == row["headings"]
            assert len(found) == int(row["rows"])
            matched = sum(one["Bench Name"] != "N/A" for one in found)
            assert matched == int(row["matched"])
            verdict = "Result" if "Result" in headings else "Accuracy Reached or Not"
            counts = {}
            for one in found:
                counts[one[verdict] or "None"] = counts.get(one[verdict] or "None", 0) + 1
            if row["command"].startswith("28_"):
                # 1.2.2 looks for the gradients of parameters under their old names: 17 of None.
                counts = {"Yes": counts["Yes"] - 17, "None": counts["None"] + 17}
            assert counts == json.loads(row["verdicts"])
        elif row["advice"]:
            lines = file.read_text().splitlines()
            assert lines[:2] == row["advice"].split("|")
            assert lines[2].startswith(f"Expert Advice: {KINDS[row['advice_kind']]}")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_documented_command_writes_the_documented_files(name, place, capsys):
    dumps, config, words = COMMANDS[name]
    folder = place(*dumps, config)
    assert is_documented(words.split())
    assert main(words.split()) == 0
    check(outputs(folder), expected()[name])
    printed = capsys.readouterr().out
    assert ("Expert Advice" in printed) == (
        "-c" not in words.split() and "--compare_only" not in words
    )
    assert "troubleshooter_nb: " in printed
    assert "[" in printed  # a line for each operator, as is_print_compare_log asks


@pytest.mark.parametrize("which", ["one", "all"])
def test_kernel_dumps_have_a_table_per_rank_and_step(which, place, tmp_path, kernels, capsys):
    folder = place(kernels / "npu_npy", kernels / "bench_npy", f"kernel_{which}")
    assert main(FIRST.split()) == 0
    check(outputs(folder), expected()[f"23_kernel_{which}"])
    assert "right = left × 0.999001" in capsys.readouterr().out


def test_the_mapping_that_a_layer_mapping_finds_is_written(place):
    folder = place(*TWINS, "single")
    assert main([*FIRST.split(), "-lm", "map_layer.yaml"]) == 0
    names = yaml.safe_load(outputs(folder)["data_mapping_{timestamp}.yaml"].read_text())
    assert len(names) == 125
    key = "Cell.blocks.0.qkv_proj.Dense.forward.0.input.0"
    assert names[key] == "Module.layers.0.qkv.Linear.forward.0.input.0"
    assert sum(value == "N/A" for value in names.values()) == 22


def test_a_layer_mapping_names_operators_too(place, tmp_path):
    sides = [tmp_path / "made" / name / "step0" / "rank0" for name in ("mindspore", "torch")]
    for folder, framework in zip(sides, ("mindspore", "torch"), strict=True):
        parallel_dumps.write(folder, framework)
    folder = place(*sides, "single")
    (folder / "map_layer.yaml").write_text(parallel_dumps.MAPPING)
    assert main([*FIRST.split(), "-lm", "map_layer.yaml"]) == 0
    _, rows = rows_of(outputs(folder)["compare_result_{timestamp}.xlsx"])
    assert len(rows) == 44
    matched = [row for row in rows if row["Bench Name"] != "N/A"]
    assert len(matched) == 32
    assert {row["Accuracy Reached or Not"] for row in matched} == {"Yes", "None"}


def test_the_newer_grammar_gives_the_newer_tables(place):
    folder = place(*DDP, "ranks")
    words = "compare -tp npu_dump/step0 -gp bench_dump/step0 -o ./output".split()
    assert is_documented(words)
    assert main(words) == 0
    assert [*outputs(folder)] == [f"compare_result_rank{k}_{{timestamp}}.csv" for k in (0, 1)]
    with outputs(folder)["compare_result_rank0_{timestamp}.csv"].open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert sum(row["Result"] == "warning" for row in rows) == 4
    assert rows[0]["NPU_Stack_Info"] == "N/A" or rows[0]["NPU_Stack_Info"].startswith("['File ")


@pytest.mark.parametrize(
    ("release", "file", "heading"),
    [
        ("1.2", "compare_result_{timestamp}.xlsx", "Accuracy Reached or Not"),
        ("8.3", "compare_result_{timestamp}.xlsx", "Requires_grad Consistent"),
        ("26.2", "compare_result_{timestamp}.csv", "EucDist"),
    ],
)
def test_the_release_is_chosen(release, file, heading, place):
    folder = place(L0M, L0T, "single")
    assert main([*FIRST.split(), "-cm", "map_cell.yaml", "--release", release]) == 0
    found = outputs(folder)[file]
    text = found.read_text() if found.suffix == ".csv" else ", ".join(rows_of(found)[0])
    assert heading in text
    assert ("advisor_{timestamp}.txt" in outputs(folder)) == (release != "26.2")


def test_rows_are_coloured_frozen_and_filtered(place):
    folder = place(
        f"{OLD}/torch/t_mlp_mix_tensorB/step0/rank",
        f"{OLD}/torch/t_mlp_mix_tensor/step0/rank",
        "single",
    )
    assert main(FIRST.split()) == 0
    sheet = book_of(outputs(folder)["compare_result_{timestamp}.xlsx"])["Sheet"]
    fills = {}
    for row in sheet.iter_rows():
        if row[0].fill.fill_type:
            fills.setdefault(row[0].fill.fgColor.rgb, []).append(row[0].row)
    assert fills == {"FFFF0000": [5, 9, 32, 36], "FFFFFF00": [72, 74]}  # case 30
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == "A1:V74"


def test_what_only_the_golden_dump_has_is_a_sheet_of_its_own(place):
    folder = place(L1M, L1T, "single")
    assert main([*FIRST.split(), "-am"]) == 0
    book = book_of(outputs(folder)["compare_result_{timestamp}.xlsx"])
    assert book.sheetnames == ["Sheet", "Bench only"]
    names = {row[1].value for row in book["Bench only"].iter_rows(min_row=2)}
    assert "Functional.linear.0.forward.input.1" in names
    assert {row[0].value for row in book["Bench only"].iter_rows(min_row=2)} == {"N/A"}


def test_two_runs_in_one_second_keep_both_tables(place):
    folder = place(L0M, L0M, "single")
    for _ in range(2):
        assert main(FIRST.split()) == 0
    assert len([*(folder / "output").glob("*.xlsx")]) == 2


def test_the_console_is_quiet_where_rows_are_not_asked_for(place, capsys):
    folder = place(L0M, L0T, "single")
    config = json.loads(without_comments((folder / "compare.json").read_text()))
    (folder / "compare.json").write_text(json.dumps(config | {"is_print_compare_log": False}))
    assert main([*FIRST.split(), "-cm", "map_cell.yaml"]) == 0
    assert "[Cell.fc1" not in capsys.readouterr().out


# What is said where table and our own verdict disagree.


def test_a_rule_that_flags_nothing_is_explained(place, capsys):
    """A weight that is 0.05 off passes the old rule for MindSpore's statistics."""
    place(*STATISTICS, "single")
    assert main(FIRST.split()) == 0
    printed = capsys.readouterr().out
    assert "first at fc1.weight" in printed
    assert "The table flags nothing in 46 rows that differ here" in printed
    assert "with MindSpore in all four at once" in printed


def test_a_gradient_that_is_defined_otherwise_is_explained(place, capsys):
    """Case 49."""
    place(L1M, L1T, "single")
    assert main([*FIRST.split(), "-am"]) == 0
    printed = capsys.readouterr().out
    assert "cannot be decided here, such as Functional.cross_entropy.0.backward.output.0" in printed
    assert "torch records the gradient of the log-softmax" in printed


def test_rows_that_meet_nothing_are_counted_and_a_mapping_is_proposed(place, capsys):
    """Case 46."""
    place(L0M, L0T, "single")
    assert main(FIRST.split()) == 2
    said = capsys.readouterr()
    printed = said.out
    assert "20 rows, 0 of them matched; 20 only in the golden dump" in printed
    assert "for dumps of two frameworks give -cm" in said.err
    assert "20 of 20 pairs agree" in printed


def test_a_statistics_dump_against_a_tensor_dump_is_compared_by_statistics(place, capsys):
    """Case 58: the old tool refuses."""
    folder = place(
        f"{OLD}/torch/t_mlp_mix_statisticsB/step0/rank",
        f"{OLD}/torch/t_mlp_mix_tensor/step0/rank",
        "single",
    )
    assert main(FIRST.split()) == 0
    assert "compared by what both have: statistics" in capsys.readouterr().out
    headings, rows = rows_of(outputs(folder)["compare_result_{timestamp}.xlsx"])
    assert "Max diff" in headings
    assert sum(row["Result"] == "Warning" for row in rows) == 8


def test_a_tensor_that_cannot_be_read_is_a_row_with_the_reason(place, capsys):
    folder = place(L0M, L0T, "single")
    name = "Cell.fc1.Dense.forward.0.output.0"
    (folder / "npu_dump/dump_tensor_data" / f"{name}.npy").unlink()
    (folder / "bench_dump/dump_tensor_data/Module.act.ReLU.forward.0.output.0.pt").write_bytes(b"x")
    assert main([*FIRST.split(), "-cm", "map_cell.yaml"]) == 0
    _, rows = rows_of(outputs(folder)["compare_result_{timestamp}.xlsx"])
    lost = {row["NPU Name"]: row["Err_message"] for row in rows if row["Err_message"]}
    assert {name, "Cell.act.ReLU.forward.0.output.0"} <= lost.keys()
    printed = capsys.readouterr().out
    assert "2 of the tensors could not be read" in printed


# Refusals


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-f tensorflow compare -i x", "one of mindspore, pytorch, not 'tensorflow'"),
        ("-f", "one of mindspore, pytorch, not -"),
        ("-f mindspore", "what is to be done: compare, merge_result"),
        ("-f mindspore graph -i x", "graph is a command of msprobe that is not offered"),
        ("run_ut -i x", "run_ut is a command of msprobe"),
        ("compare -i x -da", "-da of msprobe is not offered"),
        ("compare -tp x", "needs -i compare.json, or both -tp and -gp"),
        ("compare -i x -tp y", "either -i, or -tp and -gp"),
        ("compare -i x --release 9.9", "usage: troubleshooter-nb"),
        ("compare -i", "usage: troubleshooter-nb"),
        ("compare -tp x -gp y --rank a", "--rank takes numbers"),
        ("merge_result -i x", "usage: troubleshooter-nb merge_result"),
    ],
)
def test_wrong_words_are_said_with_the_right_ones(words, said, capsys):
    assert said in refused(words, capsys, 3)


def test_the_stack_needs_its_path(place, capsys):
    folder = place(L0M, L0T, "single")
    config = json.loads(without_comments((folder / "compare.json").read_text()))
    del config["stack_path"]
    (folder / "compare.json").write_text(json.dumps(config))
    assert "-s needs stack_path" in refused(f"{FIRST} -s", capsys)
    assert not (folder / "output").exists()


def test_the_stack_is_for_one_rank(place, capsys):
    place(*DDP, "ranks")
    assert "-s is for one rank" in refused(f"{FIRST} -s", capsys)


@pytest.mark.parametrize("flag", ["-s", "-c", "-f", "-am", "-cm", "-lm map_layer.yaml"])
def test_kernel_dumps_take_no_other_flag(flag, place, kernels, capsys):
    place(kernels / "npu_npy", kernels / "bench_npy", "kernel_all")
    assert "kernel dumps are compared with -i and -o alone" in refused(f"{FIRST} {flag}", capsys)


@pytest.mark.parametrize(("key", "other"), [("rank_id", "step_id"), ("step_id", "rank_id")])
def test_a_rank_or_step_that_was_not_dumped_is_named(key, other, place, kernels, capsys):
    folder = place(kernels / "npu_npy", kernels / "bench_npy", "kernel_all")
    config = json.loads((folder / "compare.json").read_text()) | {key: [0, 7], other: []}
    (folder / "compare.json").write_text(json.dumps(config))
    said = refused(FIRST, capsys)
    assert f"{key} asks for 7, of which npu_path has none" in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"npu_path": "nowhere/dump.json"}, "there is no such dump"),
        ({"npu_path": "./npu_dump"}, "one of the two paths is a file"),
        ({"bench_path": 3}, "needs a path as text under bench_path"),
        ({"is_print_compare_log": "yes"}, "is true or false, not 'yes'"),
        ({"rank_id": "0"}, "is a list of numbers"),
    ],
)
def test_a_wrong_compare_json_is_refused(change, said, place, capsys):
    folder = place(L0M, L0T, "single")
    config = json.loads(without_comments((folder / "compare.json").read_text()))
    (folder / "compare.json").write_text(json.dumps(config | change))
    assert said in refused(FIRST, capsys)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is no JSON"), ("[]", "must hold one table"), ("{'a': 1}", "line 1 is no JSON")],
)
def test_a_compare_json_that_is_none_is_refused(text, said, tmp_path):
    file = tmp_path / "compare.json"
    file.write_text(text)
    with pytest.raises(FormatError, match=said):
        read_config(file)


def test_the_dump_root_is_refused_with_the_steps_it_has(place, capsys):
    folder = place(*DDP, "ranks")
    config = {"npu_path": "./npu_dump", "bench_path": "./bench_dump"}
    (folder / "compare.json").write_text(json.dumps(config))
    assert "holds steps (step0)" in refused(FIRST, capsys)


def test_torch_against_mindspore_is_refused(place, capsys):
    place(L0T, L0M, "single")
    assert "give them the other way round" in refused(FIRST, capsys)


def test_an_api_mapping_is_for_mindspore_against_torch(place, capsys):
    place(L1T, L1T, "single")
    assert "-am is for a target of MindSpore" in refused(f"{FIRST} -am", capsys)


@pytest.mark.parametrize("name", ["single", "ranks", "kernel_one", "kernel_all"])
def test_the_documented_compare_jsons_are_read(name):
    given = json.loads(without_comments((SNIPPETS / f"compare_{name}.json").read_text()))
    assert given == json.loads((SNIPPETS / f"compare_{name}.parsed.json").read_text())


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ('"a": "b#c", # d', '"a": "b#c", '),
        (r'"a": "\"#", # d', r'"a": "\"#", '),
        ("# all", ""),
    ],
)
def test_a_comment_begins_outside_of_texts_only(line, kept):
    assert without_comments(line) == kept


def test_tables_of_ranks_are_merged(place, capsys):
    """Case 55."""
    folder = place(*DDP, "ranks")
    assert main("compare -tp npu_dump/step0 -gp bench_dump/step0 -o tables".split()) == 0
    shutil.copy(MAPS / "merge.yaml", folder)
    assert is_documented(["merge_result", "-i", "tables"])
    assert main("merge_result -i tables -o output -config merge.yaml".split()) == 0
    book = book_of(outputs(folder)["multi_ranks_compare_merge_{timestamp}.xlsx"])
    found = []
    for sheet in book:
        headings, *rows = sheet.iter_rows(values_only=True)
        assert headings == ("NPU Name", "rank0", "rank1")
        found += [[sheet.title, *row] for row in rows]
    with (DATA / "merged.csv").open(newline="") as file:
        wanted = [*csv.reader(file)][1:]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours[:2] == theirs[:2]
        for cell, other in zip(ours[2:], theirs[2:], strict=True):
            numbers = [float(str(one).rstrip("%")) for one in (cell, other)]
            assert numbers[0] == pytest.approx(numbers[1], rel=2e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("api: [x]", "list of texts under compare_index"),
        ("compare_index: [x]", "list of texts under api"),
        ("api: [Functional]\ncompare_index: [Cosines]", "no table has a column 'Cosines'"),
    ],
)
def test_a_merge_needs_its_lists(config, said, place, capsys):
    folder = place(*DDP, "ranks")
    assert main("compare -tp npu_dump/step0 -gp bench_dump/step0 -o tables".split()) == 0
    (folder / "merge.yaml").write_text(config)
    capsys.readouterr()
    assert said in refused("merge_result -i tables -o output -config merge.yaml", capsys)


@pytest.mark.parametrize(
    ("words", "documented"),
    [
        (["compare", "a", "b"], False),
        (["compare", "a", "b", "-o", "x.html"], False),
        (["compare", "-i", "x"], True),
        (["compare", "--input_path=x"], True),
        (["-f", "mindspore", "compare"], True),
        (["--framework", "pytorch", "compare"], True),
        (["merge_result"], True),
        (["open", "x"], False),
        ([], False),
    ],
)
def test_the_old_grammar_is_told_from_our_own(words, documented):
    assert is_documented(words) == documented
