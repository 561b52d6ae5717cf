"""Damaged, incomplete and unlike dumps: nothing passes unread, and each refusal says what to do."""

import csv
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.analysis import parallel_dumps
from tests.cli.running import environment
from tests.compat.msprobe.compare.commands import (
    DDP,
    FIRST,
    L0M,
    L0T,
    OLD,
    outputs,
    refused,
    rows_of,
)
from tests.compat.msprobe.compare.tables_of_peers import DATA
from troubleshooter_nb.cli.main import main
from troubleshooter_nb.compat.msprobe.compare.files import Names

NEWER = "v26_2_0/torch"
OF_XOR = DATA.parent / "msprobe" / NEWER / "t_mlp_mix_xor/step0/proc1000"
OF_STRUCTURE = DATA.parent / "msprobe" / NEWER / "v_structure/step0/proc1000"
RANKS = "compare -tp npu_dump/step0 -gp bench_dump/step0 -o output"
BOTH = "compare -tp npu_dump -gp bench_dump -o output"


def changed(folder, change):
    """Let a function change what the ``dump.json`` of a folder holds."""
    file = folder / "dump.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def table(folder, name="compare_result_{timestamp}.csv"):
    with outputs(folder)[name].open(newline="", encoding="utf-8-sig") as file:
        return {row["NPU Name"]: row for row in csv.DictReader(file)}


# What differs is not passed.


def test_the_xor_of_a_single_number_counts(place, capsys):
    folder = place(OF_XOR, OF_XOR, "single")
    loss = "Functional.cross_entropy.0.forward"

    def change(content):
        content["data"][loss]["output"][0]["md5"] += 0.5

    changed(folder / "npu_dump", change)
    assert main(BOTH.split()) == 0
    rows = table(folder)
    assert [name for name, row in rows.items() if row["Result"] == "error"] == [f"{loss}.output.0"]
    assert "first at Functional.cross_entropy output 0" in capsys.readouterr().out


def test_what_could_not_be_read_does_not_pass(place, capsys):
    folder = place(
        f"{NEWER}/t_mlp_mix_tensorB/step0/proc1000",
        f"{NEWER}/t_mlp_mix_tensor/step0/proc1000",
        "single",
    )
    name = "Functional.relu.0.forward.output.0"
    (folder / "npu_dump/dump_tensor_data" / f"{name}.pt").write_bytes(b"no tensor")
    assert main(BOTH.split()) == 0
    assert table(folder)[name]["Result"] == "error"
    assert "1 of the tensors could not be read" in capsys.readouterr().out


def test_a_nan_that_met_nothing_is_an_error(place):
    dump = f"{NEWER}/t_mlp_mix_statistics/step0/proc1000"
    folder = place(dump, dump, "single")
    relu = "Functional.relu.0.forward"

    def lose(content):
        del content["data"][relu]

    def spoil(content):
        content["data"][relu]["output"][0] |= {"Max": float("nan"), "Min": float("nan")}

    changed(folder / "npu_dump", spoil)
    changed(folder / "bench_dump", lose)
    assert main(BOTH.split()) == 0
    assert table(folder)[f"{relu}.output.0"]["Result"] == "error"


def test_statistics_with_some_tensors_beside_them_are_compared_as_statistics(place):
    dump = f"{NEWER}/t_mlp_mix_statistics/step0/proc1000"
    folder = place(dump, dump, "single")

    def change(content):
        name = "Functional.relu.0.forward.output.0.pt"
        content["data"]["Functional.relu.0.forward"]["output"][0]["data_name"] = name

    for side in ("npu_dump", "bench_dump"):
        changed(folder / side, change)
    assert main(BOTH.split()) == 0
    rows = table(folder)
    assert len(rows) > 40
    assert {row["Result"] for row in rows.values()} == {"pass"}
    assert "Max diff" in next(iter(rows.values()))


@pytest.fixture
def parallel(place, tmp_path):
    """A pair of two frameworks of which only some operators are called alike."""
    sides = [tmp_path / "made" / name / "step0" / "rank0" for name in ("mindspore", "torch")]
    for folder, framework in zip(sides, ("mindspore", "torch"), strict=True):
        parallel_dumps.write(folder, framework)
    return place(*sides, "single")


def test_a_table_of_which_no_row_met_another_is_no_success(parallel, capsys):
    (parallel / "none.yaml").write_text("Foo:\n  bar: baz\n")
    said = refused(f"{BOTH} -lm none.yaml", capsys)
    assert "no row met another one" in said
    rows = table(parallel)
    assert {row["Result"] for name, row in rows.items() if name != "N/A"} == {"N/A"}


def test_what_of_a_mapping_met_nothing_is_said(parallel, capsys):
    (parallel / "layers.yaml").write_text(parallel_dumps.MAPPING)
    assert main(f"{BOTH} -lm layers.yaml".split()) == 0
    printed = capsys.readouterr().out
    assert "44 rows, 32 of them matched" in printed
    assert "note: layers.yaml, line 3, 'PipelineCell': neither dump has a layer" in printed
    assert "error" not in {row["Result"] for row in table(parallel).values()}
    (parallel / "none.yaml").write_text("Foo:\n  bar: baz\n")
    refused(f"{BOTH} -lm none.yaml", capsys)


# What cannot be compared is refused, with the side that it is about.


def test_dumps_with_nothing_in_common_are_refused(place, capsys):
    folder = place(OF_XOR, f"{NEWER}/t_mlp_mix_statistics/step0/proc1000", "single")
    assert "nothing in common to compare by" in refused(BOTH, capsys)
    assert not (folder / "output").exists()


def test_a_dump_of_the_structure_alone_is_refused(place, capsys):
    folder = place(OF_STRUCTURE, OF_STRUCTURE, "single")
    assert "npu_path has no values (task 'structure')" in refused(BOTH, capsys)
    assert not (folder / "output").exists()


def test_a_damaged_json_names_its_side(place, capsys):
    folder = place(L0M, L0T, "single")
    (folder / "bench_dump/dump.json").write_text("[]")
    said = refused(FIRST, capsys)
    assert "bench_path, " in said
    assert "dump.json" in said


def test_a_stack_path_of_something_else_is_refused(place, capsys):
    folder = place(L0M, L0T, "single")
    (folder / "npu_dump/stack.json").write_text("{}")
    assert "there is no stack in" in refused(f"{FIRST} -s", capsys)


def test_an_output_that_is_a_file_is_refused(place, capsys):
    folder = place(L0M, L0T, "single")
    (folder / "output").write_text("kept")
    assert "-o names a folder" in refused(FIRST, capsys)
    assert (folder / "output").read_text() == "kept"


def test_a_verb_that_msprobe_never_had_is_refused_with_those_that_it_has(capsys):
    said = refused("-f mindspore compere -i x", capsys, 3)
    assert "'compere' is no command" in said
    assert "compare, merge_result" in said


# Several ranks.


def test_a_rank_that_cannot_be_read_leaves_the_others(place, capsys):
    folder = place(*DDP, "ranks")
    (folder / "npu_dump/step0/rank0/dump.json").write_text("{")
    assert main(RANKS.split()) == 2
    assert [*outputs(folder)] == ["compare_result_rank1_{timestamp}.csv"]
    said = capsys.readouterr()
    assert "rank0 was not compared: npu_path, " in said.out
    assert "of 2 ranks rank0 could not be compared" in said.err


def test_ranks_of_one_side_are_named(place, capsys):
    folder = place(*DDP, "ranks")
    shutil.rmtree(folder / "bench_dump/step0/rank1")
    shutil.copytree(folder / "bench_dump/step0/rank0", folder / "bench_dump/step0/rank5")
    assert main(RANKS.split()) == 0
    said = capsys.readouterr().out
    assert "only on the side of npu_path, and not compared: rank1" in " ".join(said.split())
    assert "only on the side of bench_path, and not compared: rank5" in " ".join(said.split())


def test_one_rank_of_another_number_meets_the_only_one_there_is(place, capsys):
    folder = place(*DDP, "ranks")
    shutil.rmtree(folder / "npu_dump/step0/rank1")
    shutil.rmtree(folder / "bench_dump/step0/rank0")
    assert main(RANKS.split()) == 0
    assert "rank0 of the target meets rank1 of the golden dump" in capsys.readouterr().out


# Kernel dumps.


def test_stored_kernels_are_compared_with_summed_up_ones_by_statistics(place, kernels, capsys):
    folder = place(kernels / "npu_npy", kernels / "bench_stat", "kernel_all")
    assert main(FIRST.split()) == 0
    headings, rows = rows_of(outputs(folder)["compare_result_0_0_{timestamp}.xlsx"])
    assert "Max diff" in headings
    matched = [row for row in rows if "N/A" not in (row["NPU Name"], row["Bench Name"])]
    assert len(matched) == len(rows) == 3
    assert all(isinstance(row["Max diff"], float) for row in matched)
    assert "flags what is off by half in the largest value." in capsys.readouterr().out


def test_a_step_of_one_side_is_named(place, kernels, capsys):
    folder = place(kernels / "npu_npy", kernels / "bench_npy", "kernel_all")
    for step in (folder / "bench_dump/rank_0").rglob("1"):
        shutil.rmtree(step)
    assert main(FIRST.split()) == 0
    assert [*outputs(folder)] == ["compare_result_0_0_{timestamp}.xlsx"]
    assert "only on the side of npu_path, and not compared: rank_0/1" in capsys.readouterr().out


def test_a_kernel_that_cannot_be_read_is_counted(place, kernels, capsys):
    folder = place(kernels / "npu_npy", kernels / "bench_npy", "kernel_all")
    next((folder / "npu_dump").rglob("ReLU.*")).write_bytes(b"no array")
    assert main(FIRST.split()) == 0
    assert "1 of the tensors could not be read" in capsys.readouterr().out


# Files.


def test_runs_at_once_keep_their_files_apart(tmp_path):
    def write(number):
        with Names(tmp_path / "output") as names:
            file = names.path("compare_result", ".csv")
            assert not file.exists()
            file.write_text(str(number))
            return file

    with ThreadPoolExecutor(8) as workers:
        files = [*workers.map(write, range(8))]
    assert len(set(files)) == 8
    assert sorted(path.read_text() for path in (tmp_path / "output").iterdir()) == [*"01234567"]


def test_a_folder_that_was_there_stays(tmp_path):
    with pytest.raises(ZeroDivisionError), Names(tmp_path):
        raise ZeroDivisionError
    assert [*tmp_path.iterdir()] == []


def test_a_name_that_no_sheet_can_hold_is_escaped(place):
    folder = place(f"{OLD}/torch/t_mlp_mix_statistics/step0/rank", L0T, "single")
    (folder / "bench_dump/dump.json").write_bytes((folder / "npu_dump/dump.json").read_bytes())
    odd = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 1.0}
    odd |= {"Mean": 1.0, "Norm": 1.0}

    def change(content):
        content["data"]["Functional.a\x0bb\ud800.0.forward"] = {
            "input_args": [odd], "input_kwargs": {}, "output": [],
        }  # fmt: skip

    for side in ("npu_dump", "bench_dump"):
        changed(folder / side, change)
    assert main(FIRST.split()) == 0
    _, rows = rows_of(outputs(folder)["compare_result_{timestamp}.xlsx"])
    assert any(r"a\x0bb\ud800" in row["NPU Name"] for row in rows)


def test_a_reader_that_stops_reading_costs_no_file(place):
    folder = place(L0M, L0T, "single")
    words = [sys.executable, "-m", "troubleshooter_nb", *FIRST.split(), "-cm", "map_cell.yaml"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(60) == 0
    assert said == ""
    assert {*outputs(folder)} == {"compare_result_{timestamp}.xlsx", "advisor_{timestamp}.txt"}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("compare_result_rank3_1.xlsx", "no book", "compare_result_rank3_1.xlsx is no table"),
        ("compare_result_rank3_1.csv", "a,b\n1,2\n", "it has no column 'NPU Name'"),
    ],
)
def test_a_table_that_is_none_is_named_by_merging(file, content, said, place, capsys):
    folder = place(*DDP, "ranks")
    (folder / "tables").mkdir()
    (folder / "tables" / file).write_text(content)
    (folder / "merge.yaml").write_text("api: [Functional]\ncompare_index: [Cosine]")
    assert said in refused("merge_result -i tables -o output -config merge.yaml", capsys)
    assert not (folder / "output").exists()


def test_merging_rows_that_no_table_has_is_refused(place, capsys):
    folder = place(*DDP, "ranks")
    assert main("compare -tp npu_dump/step0 -gp bench_dump/step0 -o tables".split()) == 0
    (folder / "merge.yaml").write_text("api: [Nothing]\ncompare_index: [Result]")
    capsys.readouterr()
    said = refused("merge_result -i tables -o output -config merge.yaml", capsys)
    assert "no row of any table begins with one of Nothing" in said
