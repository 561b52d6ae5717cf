"""Text files of torch_npu.hooks and ptdbg_ascend: every release, damaged ones, none unpickled."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS, bounded
from troubleshooter_nb import open_dump
from troubleshooter_nb.errors import FormatError, ReadError, UnknownFormatError
from troubleshooter_nb.formats import hooks_file, hooks_lines
from troubleshooter_nb.formats.async_npy import open_async_npy
from troubleshooter_nb.formats.hooks_file import open_hooks_file

DATA = Path(__file__).parents[1] / "data" / "torch_npu_hooks"
COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50


def column(dump, name):
    return dump.index[name].values.tolist()


def row_of(dump, name):
    return {
        key: values.item() for key, values in dump.index.isel(entry=dump.position(name)).items()
    }


def written(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def tensor(name, values, shape=None, dtype="torch.float32"):
    return [name, values, dtype, [len(values)] if shape is None else shape]


# Files as torch_npu.hooks writes them.


def test_a_full_file_is_read_to_the_last_digit():
    file = DATA / "module_full" / "npu.pkl"
    dump = open_dump(file)
    assert dump.format == "hooks_file"
    assert len(dump) == 49
    assert dump.names[0] == "0_Functional_linear_forward_input.0"
    assert dump.names[-1] == "48_Functional_linear_backward_output.0"
    assert column(dump, "shape")[0] == (6, 5)
    assert column(dump, "order") == list(range(49))
    for line in file.read_text().splitlines():
        name, _, dtype, shape = json.loads(line)
        array = dump.array(name)
        assert array.dtype == np.float32
        assert list(array.shape) == shape
        again = [float(value) for value in array.reshape(-1)]
        assert json.dumps([name, again, dtype, shape]) == line


def test_a_sampled_file_keeps_ten_values_apart_from_the_statistics():
    file = DATA / "module_sampled" / "npu.pkl"
    dump = open_dump(file)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 49
    larger = 0
    for name, values, _, shape in lines:
        row, size = row_of(dump, name), int(np.prod(shape))
        assert [row["max"], row["min"], row["mean"]] == values[-3:]
        assert row["size"] == size
        assert row["status"] == "ok"
        first = np.float32(values[:-3])
        if size <= 10:
            np.testing.assert_array_equal(dump.array(name).reshape(-1), first)
            continue
        larger += 1
        assert dump.sources[dump.position(name)] is None
        part = f"{name}#10_of_{size}"
        np.testing.assert_array_equal(dump.array(part), first)
        assert row_of(dump, part)["slot"] == row["slot"] + "#first"
        assert row_of(dump, part)["path"] == row["path"]
    assert len(dump) == 49 + larger
    assert "first 10 values, max, min, mean" in dump.notes[0]
    assert f"{larger} of 49 tensors are there in part" in dump.notes[1]


def test_files_of_thirteen_elements_are_decided_by_content_and_say_so():
    dump = open_dump(DATA / "edge" / "thirteen_elements.npu.pkl")
    assert any("undecidable" in note for note in dump.notes)
    assert len(dump.array("0_Torch_a_forward_output#10_of_13")) == 10


def test_thirteen_elements_that_end_in_no_statistics_are_all_values(tmp_path):
    lines = [tensor(f"{k}_Torch_a_forward_output", [float(v) for v in range(13)]) for k in (0, 1)]
    dump = open_dump(written(tmp_path / "x.pkl", *lines))
    assert len(dump) == 2
    assert len(dump.array("0_Torch_a_forward_output")) == 13


def test_nan_and_infinities_are_counted_right():
    dump = open_dump(DATA / "edge" / "nan_inf.npu.pkl").summarise()
    assert column(dump, "nan_count") == [1, 0]
    assert column(dump, "inf_count") == [0, 1]


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_real_pickle_is_refused_and_never_unpickled(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    for thing in (Bomb(), ["0_Torch_a_forward_output", [1.0], "torch.float32", [1]], {"a": 1}):
        Path("x.pkl").write_bytes(pickle.dumps(thing, protocol))
        with pytest.raises(FormatError, match="a real pickle, which is never loaded"):
            open_hooks_file(Path("x.pkl"), label="x")
    assert os.listdir(tmp_path) == ["x.pkl"]


# Steps, older releases, overflow: cases 21, 22, 24.


def test_two_steps_in_one_file_are_found():
    dump = open_dump(DATA / "multistep" / "steps_1_2.pkl")
    truth = json.loads((DATA / "multistep" / "step_of_line.json").read_text())
    whole = [i for i, name in enumerate(dump.names) if "#" not in name]
    steps = [column(dump, "step")[i] for i in whole]
    # The file does not say that its first step was step 1 of the schedule.
    assert [step - steps[0] for step in steps] == [step - truth[0] for step in truth]
    assert steps.count(0) == steps.count(1) == 49
    first, second = dump.select(step=0), dump.select(step=1)
    assert first.names == second.names
    for name in ("path", "call", "direction", "role", "slot"):
        assert column(first, name) == column(second, name)
    assert "2 steps of 49 lines: inferred" in dump.notes[1]


def test_a_chain_of_one_op_is_no_sequence_of_steps():
    dump = open_dump(DATA / "shifted_chain" / "npu.pkl")
    assert set(column(dump, "step")) == {0}
    assert column(dump, "call") == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 0, 0]


def test_a_full_file_without_numbers_holds_the_values_of_the_one_with_numbers():
    bare = open_dump(DATA / "variants" / "no_index_full.pkl")
    # Both were made by the bench run of the same net.
    assert len(bare) == 49
    assert "(D0): every value" in bare.notes[0]
    repeated = [name for name in bare.names if name.endswith("#1")]
    assert len(repeated) == 7
    text = (DATA / "variants" / "no_index_full.pkl").read_text().splitlines()
    for source, line in zip(bare.sources, text, strict=True):
        values = source.read(0, int(np.prod(source.shape)))
        np.testing.assert_array_equal(values, np.float32(json.loads(line)[1]))


def test_sum_and_mean_are_told_from_max_min_and_mean():
    dump = open_dump(DATA / "variants" / "no_index_first10_sum_mean.pkl")
    assert "(D1): first 10 values, sum, mean" in dump.notes[0]
    row = row_of(dump, "Functional_linear_forward_input.0")
    line = json.loads(
        (DATA / "variants" / "no_index_first10_sum_mean.pkl").read_text().splitlines()[0]
    )
    assert row["mean"] == line[1][-1]
    assert np.isnan(row["max"])
    assert len(dump.array("Functional_linear_forward_input.0#10_of_30")) == 10


def test_numbers_that_start_late_and_module_entries_are_read():
    late = open_dump(DATA / "variants" / "index_from_57.pkl")
    assert "lines from 57" in late.notes[0]
    assert late.names[0] == "57_Functional_linear_forward_input.0"
    modules = open_dump(DATA / "variants" / "with_module_entries.pkl")
    assert "(D2)" in modules.notes[0]
    row = row_of(modules, "5_Module_Linear_forward_output")
    assert (row["kind"], row["path"], row["layer"]) == ("module", "Module.Linear", "Linear")


def test_calls_and_arriving_gradients_of_the_old_tool():
    dump = open_dump(DATA / "module_full" / "npu.pkl")
    # Two linear layers: the first to run backward is the second of forward.
    assert row_of(dump, "8_Functional_linear_forward_input.0")["call"] == 1
    arriving = row_of(dump, "41_Functional_linear_backward_output.0")
    assert (arriving["call"], arriving["direction"], arriving["role"]) == (1, "backward", "input")
    assert row_of(dump, "48_Functional_linear_backward_output.0")["call"] == 0
    leaving = row_of(dump, "47_Functional_linear_backward_input.2")
    assert (leaving["role"], leaving["slot"]) == ("output", "2")


@pytest.mark.parametrize(
    "file", sorted((DATA / "overflow").glob("*.pkl")), ids=lambda file: file.name
)
def test_overflow_files_keep_values_frames_and_scalars(file):
    truth = json.loads((DATA / "overflow" / "expected.json").read_text())[file.name]
    dump = open_dump(file).summarise()
    assert set(column(dump, "path")) == {truth["api"].replace("_", ".", 1)}
    assert set(column(dump, "direction")) == {truth["direction"]}
    for role in ("input", "output"):
        part = dump.select(role=role)
        counts = [
            row["nan_count"] + row["inf_count"]
            for _, row in part.to_dataframe().iterrows()
            if row["nan_count"] >= 0
        ]
        assert sum(counts) == truth[f"{role}_nonfinite"]
    for slot, value in truth.get("scalars", {}).items():
        found = dump.select(role="input", slot=slot.removeprefix("input."))
        assert json.loads(column(found, "value")[0]) == value
        assert column(found, "status") == ["ok"]
    assert len(column(dump, "stack")[0].splitlines()) == truth["frames"]
    assert "an overflow that torch_npu.hooks found" in dump.notes[0]


def test_a_frame_is_shown_with_file_line_function_and_code():
    dump = open_dump(DATA / "overflow" / "Overflow_info_20230105_081530.pkl")
    assert column(dump, "stack")[0].splitlines() == [
        "train.py:41 in forward: y = torch.matmul(a, b)",
        "train.py:77 in <module>: out = model(x)",
    ]
    assert any("3 float16" in note for note in dump.notes)


# The successor: cases 28, 29, 32, 33.


def test_the_first_release_of_the_successor_loads_from_its_folder():
    dump = open_dump(DATA / "ptdbg" / "v1" / "npu")
    folder = DATA / "ptdbg" / "v1" / "npu" / "ptdbg_dump_v1.0" / "rank0"
    assert dump.format == "hooks_file"
    assert len(dump) == 25
    for line in (folder / "myDump.pkl").read_text().splitlines():
        name, _, _, _, shape, statistics = json.loads(line)
        row = row_of(dump, name)
        assert [row["max"], row["min"], row["mean"]] == statistics
        np.testing.assert_array_equal(dump.array(name), np.load(folder / "myDump" / f"{name}.npy"))
        assert list(dump.array(name).shape) == shape
    for same in (folder, folder / "myDump.pkl", folder.parent):
        assert open_dump(same).names == dump.names


def test_the_last_release_of_the_successor_has_stacks_scalars_and_unknown_statistics():
    dump = open_dump(DATA / "ptdbg" / "v4" / "npu")
    assert len(dump) == 29
    scalar = row_of(dump, "Tensor_max_0_forward_input.1")
    assert (scalar["shape"], scalar["ndim"], scalar["mean"]) == ((), 0, 1.0)
    assert dump.array("Tensor_max_0_forward_input.1") == 1
    integers = row_of(dump, "Tensor_max_0_forward_output.1")
    assert (integers["dtype"], integers["max"]) == ("int64", 3.0)
    assert np.isnan(integers["l2"])
    assert row_of(dump, "Functional_linear_0_forward_input.0")["l2"] == 5.42440128326416
    stacks = column(dump, "stack")
    assert all(stack.startswith("train.py:31 in forward: y = op(x)\n") for stack in stacks)


def test_without_arrays_the_successor_has_statistics_and_values_of_scalars(tmp_path):
    file = DATA / "ptdbg/v4/npu/ptdbg_dump_v4.0/rank0/api_stack_dump.pkl"
    dump = open_dump(shutil.copy(file, tmp_path))
    assert len(dump) == 29
    assert set(column(dump, "status")) == {"ok"}
    row = row_of(dump, "Tensor_max_0_forward_input.1")
    assert (row["value"], row["dtype"], row["shape"]) == ("1", "int", ())
    assert "statistics only" in dump.notes[0]


def test_backward_means_the_same_in_both_tools():
    old = open_dump(DATA / "module_full" / "npu.pkl").select(path="Torch.relu")
    new = open_dump(DATA / "ptdbg" / "v1" / "npu").select(path="Torch.relu")
    arriving = [dump.select(direction="backward", role="input").names for dump in (old, new)]
    assert arriving == [["43_Torch_relu_backward_output.0"], ["Torch_relu_0_backward_input.0"]]


def test_the_prototype_keeps_values_by_its_three_modes():
    dump = open_dump(DATA / "ptdbg" / "prototype_modes.pkl")
    assert dump.names == [
        *("Torch_relu_forward_output", "Torch_relu_forward_output#256_of_300"),
        *("Torch_abs_forward_output", "Torch_abs_forward_output#1_of_300"),
        "Torch_neg_forward_output",
    ]
    sizes = [0 if source is None else source.shape[0] for source in dump.sources]
    assert sizes == [0, 256, 0, 1, 300]
    assert column(dump, "size") == [300, 256, 300, 1, 300]
    assert column(dump, "slot")[1::2] == ["#first", "#rows"]


def test_levels_of_folders_give_step_and_rank(tmp_path):
    inside = DATA / "ptdbg" / "v1" / "npu" / "ptdbg_dump_v1.0" / "rank0"
    for step in (0, 2):
        for rank in (0, 3):
            shutil.copytree(inside, tmp_path / "ptdbg_dump_v3.0" / f"step{step}" / f"rank{rank}")
    dump = open_dump(tmp_path)
    assert len(dump) == 100
    assert sorted(set(zip(column(dump, "step"), column(dump, "rank"), strict=True))) == [
        *((0, 0), (0, 3), (2, 0), (2, 3))
    ]


def test_a_data_folder_with_a_time_and_arrays_without_lines_are_found(tmp_path):
    inside = DATA / "ptdbg" / "v1" / "npu" / "ptdbg_dump_v1.0" / "rank0"
    shutil.copytree(inside / "myDump", tmp_path / "myDump_20230410_101010")
    lines = (inside / "myDump.pkl").read_text().splitlines(keepends=True)
    (tmp_path / "myDump.pkl").write_text("".join(lines[:20]))
    dump = open_dump(tmp_path)
    assert len(dump) == 25
    assert set(column(dump, "status")) == {"ok"}
    assert any("5 arrays have no line" in note for note in dump.notes)


def test_two_runs_in_one_folder_are_refused_with_both_names(tmp_path):
    for name in ("npu.pkl", "bench.pkl"):
        shutil.copy(DATA / "module_full" / "npu.pkl", tmp_path / name)
    with pytest.raises(UnknownFormatError, match=r"holds 2 dumps: bench.pkl, npu.pkl; open one"):
        open_dump(tmp_path)


# Cases 16, 18, 27, 34.


def test_an_op_without_output_is_read_like_any_other():
    dump = open_dump(DATA / "edge" / "no_output_line.npu.pkl")
    assert column(dump, "path") == ["Tensor.sum", "Torch.relu", "Torch.relu", "Tensor.mean"]


def test_inputs_of_ops_that_work_in_place_are_flagged(tmp_path):
    lines = [
        tensor("0_Torch_relu__forward_input.0", [0.0, 2.0]),
        tensor("1_Torch_relu__forward_output", [0.0, 2.0]),
        tensor("2_Tensor___iadd___forward_input.0", [0.0, 2.0]),
        tensor("3_Tensor___add___forward_input.0", [0.0, 2.0]),
    ]
    dump = open_dump(written(tmp_path / "x.pkl", *lines))
    flags = [note for note in dump.notes if note.startswith("input read after the call")]
    assert len(flags) == 1
    assert ", 2 times: 0_Torch_relu__forward_input.0" in flags[0]


def test_an_input_from_before_the_call_is_not_flagged(tmp_path):
    before, after = [float(number - 8) for number in range(20)], [0.0] * 20
    lines = [
        tensor("0_Torch_relu__forward_input.0", before),
        tensor("1_Torch_relu__forward_output", after),
        tensor("2_Torch_relu__forward_input.0", after),
        tensor("3_Torch_relu__forward_output", after),
    ]
    dump = open_dump(written(tmp_path / "x.pkl", *lines))
    (flag,) = [note for note in dump.notes if note.startswith("input read after the call")]
    assert "once" in flag or ", 1 times: 2_Torch_relu__forward_input.0" in flag


def test_asynchronous_arrays_are_rebuilt_from_their_storages():
    truth = json.loads((DATA / "async_npy" / "expected.json").read_text())
    dump = open_dump(DATA / "async_npy")
    assert dump.format == "async_npy"
    assert len(dump) == 6
    for file, facts in truth.items():
        array = dump.array(file)
        assert list(array.shape) == facts["shape"]
        np.testing.assert_array_equal(array, facts["value"])
        row = row_of(dump, file)
        label = f"{facts['index']}_{facts['label']}"
        assert row["path"] == ".".join(
            label.split("_forward")[0].split("_backward")[0].split("_", 2)[1:]
        )
        one = open_dump(DATA / "async_npy" / file)
        np.testing.assert_array_equal(one.array(file), facts["value"])


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        ("shape[3,4]_stride[1,3]_offset[1]", "needs 13 elements of storage, there are 12"),
        ("shape[100]_stride[1]_offset[0]", "needs 100 elements"),
        ("shape[3,4]_stride[1]_offset[0]", "1 strides for 2 axes"),
        ("shape[99999999999,99999999999]_stride[0,0]_offset[0]", "impossible shape"),
    ],
)
def test_a_view_outside_its_storage_is_an_entry_with_a_reason(tmp_path, view, reason):
    name = f"0_Torch_a_forward_input0_{view}_format[2].npy"
    np.save(tmp_path / name, np.arange(12.0).reshape(4, 3))
    dump = open_async_npy(tmp_path, label="x")
    assert reason in column(dump, "reason")[0]
    with pytest.raises(ReadError, match="cannot be read"):
        dump.array(name)


# Broken files.


def test_a_truncated_last_line_is_an_entry_that_says_so(tmp_path):
    text = (DATA / "module_full" / "npu.pkl").read_text()
    (tmp_path / "x.pkl").write_text(text[:-300])
    dump = open_dump(tmp_path / "x.pkl")
    assert len(dump) == 49
    assert column(dump, "status").count("unreadable") == 1
    assert "line 49: truncated: the run was stopped" in column(dump, "reason")[-1]


def test_one_bad_line_is_not_the_end(tmp_path):
    lines = (DATA / "module_full" / "npu.pkl").read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace("[6, 7]", "[6, 8]")
    lines[5] = lines[5].replace("[6, 7]", "[6, -7]")
    lines[7] = lines[7].replace("], ", ", ", 1)
    lines[9] = "garbage\n"
    lines[11] = '["11_Functional_linear_forward_output", 1, 2, 3]\n'
    (tmp_path / "x.pkl").write_text("".join(lines))
    dump = open_dump(tmp_path / "x.pkl")
    reasons = {
        name: why for name, why in zip(dump.names, column(dump, "reason"), strict=True) if why
    }
    assert len(dump) == 48
    assert reasons["3_Functional_linear_forward_output"].startswith(
        "line 4: 42 values for shape [6, 8]; with every value of each tensor there are 48"
    )
    assert "line 6: the shape [6, -7] is impossible" in reasons["5_Torch_relu_forward_output"]
    assert "line 8: " in reasons["7_Functional_relu_forward_output"]
    assert (
        "line 12: 4 elements; expected 2, 4 or 6" in reasons["11_Functional_linear_forward_output"]
    )
    assert len(reasons) == 4
    assert any(note.startswith("line 10 left out: no JSON") for note in dump.notes)


def test_values_that_are_no_numbers_are_found_when_read(tmp_path):
    values = [float(k) for k in range(20)]
    file = written(tmp_path / "x.pkl", tensor("0_Torch_a_forward_output", values))
    for wrong in ('"7.0"', "null", "true,", "{}", "7.0.0"):
        file.write_text(
            json.dumps(tensor("0_Torch_a_forward_output", values)).replace("7.0", wrong, 1)
        )
        dump = open_dump(file)
        if column(dump, "status") == ["ok"]:
            with pytest.raises(
                ReadError, match=r"x.pkl: line 1: its values are no list of numbers"
            ):
                dump.array("0_Torch_a_forward_output")


def test_a_file_that_changed_is_not_read(tmp_path):
    file = shutil.copy(DATA / "module_full" / "npu.pkl", tmp_path / "x.pkl")
    dump = open_dump(file)
    with open(file, "a") as stream:
        stream.write("\n")
    with pytest.raises(ReadError, match="changed since it was opened"):
        dump.array("0_Functional_linear_forward_input.0")


def test_names_that_repeat_are_kept_apart(tmp_path):
    line = tensor("Torch_a_forward_output", [1.0])
    dump = open_dump(written(tmp_path / "x.pkl", line, line, line))
    assert dump.names == [f"Torch_a_forward_output{end}" for end in ("", "#1", "#2")]
    assert column(dump, "call") == [0, 1, 2]


def test_a_name_cannot_leave_the_folder_of_arrays(tmp_path):
    np.save(tmp_path / "secret.npy", np.arange(3.0))
    (tmp_path / "d").mkdir()
    lines = [
        ["Torch_a_0_forward_output", 1, [], "torch.float32", [3], [2.0, 0.0, 1.0]],
        ["../secret", 1, [], "torch.float32", [3], [2.0, 0.0, 1.0]],
    ]
    dump = open_dump(written(tmp_path / "d.pkl", *lines))
    assert dump.sources == (None, None)


def test_a_line_that_is_too_long_is_refused_with_words(tmp_path, monkeypatch):
    monkeypatch.setattr(hooks_lines, "_LONGEST_LINE", 200)
    lines = [
        tensor("0_Torch_a_forward_output", [1.0] * 5),
        tensor("1_Torch_b_forward_output", [1.0] * 500),
        tensor("2_Torch_c_forward_output", [1.0, 3.0]),
    ]
    dump = open_dump(written(tmp_path / "x.pkl", *lines))
    assert column(dump, "status") == ["ok", "unreadable", "ok"]
    assert "longer than" in column(dump, "reason")[1]
    assert dump.array("2_Torch_c_forward_output").tolist() == [1.0, 3.0]


@pytest.mark.parametrize("chunk", [1, 7, 64, 4096])
def test_any_range_of_a_line_is_the_same_range_of_its_values(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(hooks_lines, "_CHUNK", chunk)
    rng = np.random.default_rng(7)
    values = rng.normal(size=300).astype(np.float32)
    values[[3, 50]] = np.nan, -np.inf
    line = tensor("0_Torch_a_forward_output", [float(v) for v in values])
    source = open_dump(written(tmp_path / "x.pkl", line, line)).sources[0]
    for _ in range(200):
        start, stop = sorted(int(k) for k in rng.integers(0, 301, 2))
        np.testing.assert_array_equal(source.read(start, stop), values[start:stop])
    assert pickle.loads(pickle.dumps(source)) == source


def test_empty_and_foreign_files_are_refused(tmp_path):
    for content in (b"", b"\n\n", b"[1, 2]\n", b"hello\n", b'["x", 1]\n'):
        (tmp_path / "x.pkl").write_bytes(content)
        with pytest.raises(FormatError):
            open_hooks_file(tmp_path / "x.pkl", label="x")
    assert hooks_file.refusal(tmp_path) is not None
    assert hooks_file.refusal(tmp_path / "none") == "neither a folder nor a file"


def test_views_of_every_fixture_are_short_and_escaped():
    files = [*DATA.rglob("*.pkl"), DATA / "async_npy"]
    assert len(files) > 15
    for file in files:
        dump = open_dump(file)
        assert len(repr(dump).splitlines()) <= 25
        dump._repr_html_().encode()


def mutated(content, rng):
    data = bytearray(content)
    rng.choice(ACCIDENTS)(data, rng)
    return bytes(data)


def read_all(path, open_):
    """The bytes of each entry, or None; the errors that may be raised become reasons."""
    try:
        dump = open_(path, label="x")
    except FormatError as error:
        return None, [str(error)]
    values, said = {}, []
    for name, source, reason in zip(
        dump.names, dump.sources, dump.index["reason"].values, strict=True
    ):
        values[name] = None
        if source is None:
            said += [str(reason)] * bool(reason)
            continue
        size = int(np.prod(source.shape, dtype=object))
        try:
            values[name] = b"".join(
                source.read(start, min(start + 50, size)).tobytes()
                for start in range(0, min(size, 5000), 50)
            )
        except ReadError as error:
            said.append(str(error))
    repr(dump)
    return values, said


@pytest.mark.parametrize(
    "file",
    [
        *("module_full/npu.pkl", "module_sampled/npu.pkl", "multistep/steps_1_2.pkl"),
        *("overflow/Overflow_info_20230105_081531.pkl", "ptdbg/prototype_modes.pkl"),
        "ptdbg/v4/npu/ptdbg_dump_v4.0/rank0/api_stack_dump.pkl",
    ],
)
def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path, file):
    content = (DATA / file).read_bytes()
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    right, _ = read_all(path, open_hooks_file)
    rng = random.Random(f"hooks {file}")
    same = refused = 0
    for number in range(COUNT):
        path.write_bytes(mutated(content, rng))
        with bounded(len(content), number):
            values, said = read_all(path, open_hooks_file)
        assert all(0 < len(reason) < 500 for reason in said), said
        refused += values is None
        same += values == right
    print(f"{file}: of {COUNT} files {refused} are refused, {same} give the right values")  # noqa: T201
    assert refused < COUNT // 2
    assert same < COUNT


def test_rows_drawn_at_random_are_recognised(tmp_path):
    lines = [
        tensor("Torch_a_forward_input.0", [1.0, 2.0, 3.0] * 2, [32, 3]),
        tensor("Torch_a_forward_output", [1.0, 2.0], [2]),
    ]
    dump = open_dump(written(tmp_path / "x.pkl", *lines))
    assert "(D0s): a random sixteenth of the rows" in dump.notes[0]
    assert dump.names[1] == "Torch_a_forward_input.0#6_of_96"
    assert column(dump, "slot")[:2] == ["0", "0#rows"]
    assert dump.array("Torch_a_forward_output").tolist() == [1.0, 2.0]


def test_statistics_that_are_not_finite_are_unknown_and_noted(tmp_path):
    inf, nan = float("inf"), float("nan")
    lines = [
        tensor("0_Torch_a_forward_input.0", [1.0] * 10 + [inf, -1.0, nan], [40]),
        tensor("1_Torch_a_forward_output", [1.0] * 10 + [2.0, -1.0, 0.5], [40]),
    ]
    dump = open_dump(written(tmp_path / "x.pkl", *lines))
    assert np.isnan(column(dump, "max")[0])
    assert column(dump, "min")[0] == -1.0
    assert any("1 of 2 tensors have a nan or infinite max" in note for note in dump.notes)


def test_mutated_asynchronous_dumps_are_read_or_refused_and_nothing_else(tmp_path):
    rng = random.Random("asynchronous")
    files = sorted(path for path in (DATA / "async_npy").iterdir() if path.suffix == ".npy")
    said, damaged = [], 0
    for number in range(COUNT):
        folder = tmp_path / str(number)
        shutil.copytree(DATA / "async_npy", folder)
        file = folder / rng.choice(files).name
        if rng.random() < 0.5:
            data = bytearray(file.read_bytes())
            rng.choice(ACCIDENTS)(data, rng)
            file.write_bytes(bytes(data))
        else:
            digits = [k for k, letter in enumerate(file.name) if letter.isdigit()]
            at = rng.choice(digits)
            other = rng.choice(["0", "9", "77", "-1", "", "9" * 19])
            file.rename(folder / (file.name[:at] + other + file.name[at + 1 :]))
        with bounded(0, number):
            values, reasons = read_all(folder, open_async_npy)
        said += reasons
        damaged += values is None or None in values.values()
    assert all(0 < len(reason) < 500 for reason in said)
    assert 0 < damaged < COUNT
