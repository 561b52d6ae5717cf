"""MindSpore's kernel dumps: file names, coordinates, statistics, long names, damage."""

from __future__ import annotations

import csv
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb import open_dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.kernel_dir import open_kernel_dir, refusal

DATA = Path(__file__).parents[1] / "data" / "kernel"
COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50


def column(dump, name):
    return dump.index[name].values.tolist()


def copied(tmp_path, what, name="d"):
    """A copy with the folder name MindSpore writes; ours is `rank0`, because of .gitignore."""
    shutil.copytree(DATA / what, tmp_path / name)
    os.rename(tmp_path / name / "rank0", tmp_path / name / "rank_0")
    return tmp_path / name


def test_the_real_dump_has_five_operators_and_five_parameters(tmp_path):
    dump = open_dump(copied(tmp_path, "kernel_real/a"))
    assert dump.format == "kernel_dir"
    assert len(dump) == 25
    table = dump.to_dataframe()
    kernels = table[table["role"] != "parameter"]
    assert sorted(kernels["path"].unique()) == [
        *("Default_BiasAdd-op0", "Default_BiasAdd-op1", "Default_MatMul-op0"),
        *("Default_MatMul-op1", "Default_ReLU-op0"),
    ]
    parameters = table[table["role"] == "parameter"]["path"].tolist()
    assert sorted(parameters) == ["fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight", "x"]
    assert set(table["status"]) == {"ok"}
    assert table["order"].tolist() == list(range(25))
    files = {f.name.split(".0.0.")[0]: f for f in (DATA / "kernel_real/a").rglob("*op0*.output.*")}
    for start, file in files.items():
        np.testing.assert_array_equal(dump.array(f"{start}.output.0"), np.load(file))


def test_dots_in_folders_above_change_nothing(tmp_path):
    folder = copied(tmp_path, "kernel_real/a", "v26.2.0.run.1")
    assert len(open_dump(folder)) == 25
    assert open_dump(folder).names == open_dump(folder / "rank_0" / "Net" / "0" / "0").names


def test_names_of_two_runs_agree_without_task_stream_and_time(tmp_path):
    a, b = (open_dump(copied(tmp_path, f"kernel_real/{side}", side)) for side in "ab")
    assert sorted(a.names) == sorted(b.names)
    equal = [n for n in a.names if n.startswith("Parameter") and (a.array(n) == b.array(n)).all()]
    assert len(equal) == 4
    assert "Parameter.fc1_weight.output.0" not in equal
    name = "MatMul.Default_MatMul-op0.output.0"
    left, right = (dump.array(name).reshape(-1).astype(float) for dump in (b, a))
    cosine = left @ right / np.linalg.norm(left) / np.linalg.norm(right)
    # The figures of msprobe 26.2.0, computed in float32.
    assert cosine == pytest.approx(0.979025125581, abs=1e-7)
    assert np.linalg.norm(left - right) == pytest.approx(0.9016048523404273, rel=1e-6)


def test_two_steps_have_three_tensors_each():
    dump = open_dump(DATA / "kernel_synthetic" / "npu_npy")
    assert column(dump, "step") == [0, 0, 0, 1, 1, 1]
    assert column(dump, "order") == [0, 1, 2] * 2
    assert dump.names[:3] == dump.names[3:]
    assert column(dump, "layer")[:3] == ["MatMul", "ReLU", "MatMul"]


def test_statistics_alone_are_read():
    dump = open_dump(DATA / "kernel_synthetic" / "npu_stat")
    arrays = open_dump(DATA / "kernel_synthetic" / "npu_npy").summarise()
    assert dump.names == arrays.names
    assert set(dump.sources) == {None}
    for name in ("step", "dtype", "shape", "path", "role", "slot"):
        assert column(dump, name) == column(arrays, name)
    for name in ("max", "min", "mean", "l2"):
        # Those of the file were computed in float32.
        np.testing.assert_allclose(column(dump, name), column(arrays, name), rtol=1e-5, atol=1e-7)


def test_statistics_beside_arrays_are_merged(tmp_path):
    shutil.copytree(DATA / "kernel_synthetic" / "npu_npy", tmp_path / "d")
    shutil.copytree(DATA / "kernel_synthetic" / "npu_stat", tmp_path / "d", dirs_exist_ok=True)
    dump = open_dump(tmp_path / "d")
    assert len(dump) == 6
    assert None not in dump.sources
    assert not np.isnan(column(dump, "max")).any()


def test_long_names_are_looked_up_in_the_mapping(tmp_path):
    folder = tmp_path / "rank_2" / "Net" / "0" / "7"
    folder.mkdir(parents=True)
    long = "MatMul.Default_network-Net_MatMul-op3.0.0.17.output.0.DefaultFormat.Float32.npy"
    np.save(folder / "1234567890.npy", np.arange(3.0))
    for row in (f"1234567890.npy,{long}", f"1234567890,{long}", f"{long},1234567890.npy"):
        (folder / "mapping.csv").write_text(f"{row}\n")
        dump = open_dump(tmp_path)
        assert dump.format == "kernel_dir"
        assert dump.names == ["MatMul.Default_network-Net_MatMul-op3.output.0"]
        assert (column(dump, "rank"), column(dump, "step")) == ([2], [7])
        assert dump.array(dump.names[0]).tolist() == [0, 1, 2]


def test_a_tensor_that_is_written_again_is_the_next_visit(tmp_path):
    for time_ in (30, 5, 200):
        np.save(tmp_path / f"ReLU.a_ReLU-op0.0.0.{time_}.output.0.ND.npy", np.float32(time_))
    dump = open_dump(tmp_path)
    assert dump.names == [f"ReLU.a_ReLU-op0.output.0{end}" for end in ("", "#1", "#2")]
    assert column(dump, "call") == [0, 1, 2]
    assert [float(dump.array(name)) for name in dump.names] == [5, 30, 200]


def test_folders_with_a_time_and_several_graphs_are_understood(tmp_path):
    for part in ("20240101/step_3", "20240101/step_12"):
        (tmp_path / "a" / "rank_1" / part).mkdir(parents=True)
        np.save(tmp_path / "a" / "rank_1" / part / "ReLU.x.0.0.1.output.0.ND.FLOAT32", np.ones(2))
    dump = open_dump(tmp_path / "a")
    assert (column(dump, "rank"), column(dump, "step")) == ([1, 1], [3, 12])
    for graph in ("0", "1"):
        (tmp_path / "b" / "rank_0" / "Net" / graph / "0").mkdir(parents=True)
        np.save(
            tmp_path / "b" / "rank_0" / "Net" / graph / "0" / "ReLU.x.0.0.1.output.0.ND", np.ones(2)
        )
    assert open_dump(tmp_path / "b").names == ["Net/0/ReLU.x.output.0", "Net/1/ReLU.x.output.0"]


def test_raw_files_are_entries_with_a_reason_and_bfloat16_is_known_by_the_name(tmp_path):
    np.save(tmp_path / "ReLU.x.0.0.1.output.0.ND.BF16.npy", np.array([0x3F80], "<u2").view("V2"))
    (tmp_path / "ReLU.x.0.0.2.output.1.ND.BF16").write_bytes(b"\x80\x3f")
    (tmp_path / "other.npy").write_bytes(b"")
    dump = open_dump(tmp_path)
    assert column(dump, "dtype") == ["bfloat16", ""]
    assert float(dump.array("ReLU.x.output.0")[0]) == 1.0
    assert "raw bytes (BF16, ND) without a shape" in column(dump, "reason")[1]
    assert any("other names are not read, such as other.npy" in note for note in dump.notes)


def test_several_dumps_in_one_folder_are_refused():
    with pytest.raises(FormatError, match=r"holds several dumps, \S+ and \S+; open one"):
        open_dump(DATA / "kernel_real")


def test_folders_of_other_arrays_are_left_to_others(tmp_path):
    np.save(tmp_path / "x_float32_0.npy", np.ones(2))
    assert "without files named as MindSpore" in refusal(tmp_path)
    assert open_dump(tmp_path).format == "npy_dir"
    with pytest.raises(FormatError, match="without files named"):
        open_kernel_dir(tmp_path, label="x")
    assert refusal(tmp_path / "none") == "not a folder"


def test_damaged_rows_are_left_out_with_a_note(tmp_path):
    file = tmp_path / "statistic.csv"
    shutil.copy(DATA / "kernel_synthetic/npu_stat/rank0/Net/0/0/statistic.csv", file)
    rows = list(csv.reader(file.open()))
    rows[2][5] = "sideways"
    rows[3] = rows[3][:4]
    rows.append([*rows[1][:5], "output", "3", *rows[1][7:9], "(4, x)", "nan", "", "?", "1", "2"])
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    dump = open_dump(tmp_path)
    assert len(dump) == 2
    assert "2 rows left out, such as row 3" in dump.notes[0]
    assert column(dump, "shape")[1] is None
    assert column(dump, "l2")[1] == 2.0


def test_counts_and_checksums_of_the_newer_statistics_are_kept(tmp_path):
    header = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Type,Shape,Max Value"
    header += ",NaN Count,Negative Inf Count,Positive Inf Count,Zero Count,MD5"
    row = 'Mul,Gradients/Default/Mul-op0,0,0,5,input,1,Float16,"(2,)",1.5,1,2,3,4,abc'
    (tmp_path / "statistic.csv").write_text(f"{header}\n{row}\n")
    dump = open_dump(tmp_path)
    got = [column(dump, n)[0] for n in ("nan_count", "inf_count", "zero_count", "digest", "dtype")]
    assert got == [1, 5, 4, "md5:abc", "float16"]
    assert column(dump, "direction") == ["backward"]


@pytest.mark.parametrize("what", ["statistic.csv", "mapping.csv", "array"])
def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path, what):
    folder = tmp_path / "rank_0" / "Net" / "0" / "0"
    if what == "statistic.csv":
        shutil.copytree(DATA / "kernel_synthetic/npu_stat/rank0/Net/0/0", folder)
        file = folder / what
    else:
        folder.mkdir(parents=True)
        names = [f"MatMul.Default_op{k}.0.0.{k}.output.0.ND.Float32.npy" for k in range(6)]
        for number, name in enumerate(names):
            np.save(folder / (f"{number}.npy" if what == "mapping.csv" else name), np.ones(3))
        rows = "".join(f"{number},{name}\n" for number, name in enumerate(names))
        file = folder / ("mapping.csv" if what == "mapping.csv" else names[0])
        if what == "mapping.csv":
            file.write_text(rows)
    content = file.read_bytes()
    rng = random.Random(f"kernel {what}")
    said = []
    for number in range(COUNT):
        data = bytearray(content)
        rng.choice(ACCIDENTS)(data, rng)
        file.write_bytes(bytes(data))
        with bounded(len(content), number):
            try:
                dump = open_kernel_dir(tmp_path, label="x")
            except FormatError as error:
                said.append(str(error))
                continue
            repr(dump)
            dump.summarise()
        said += [text for text in (*dump.notes, *column(dump, "reason")) if text]
    assert all(0 < len(text) < 500 for text in said)
