"""Dumps of msprobe: three releases, both frameworks, and what is left of interrupted runs."""

from __future__ import annotations

import json
import math
import os
import pickle
import random
import shutil
import zlib
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.formats.accidents import ACCIDENTS
from troubleshooter_nb import open_dump, save_dump
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError, ReadError, UnknownFormatError
from troubleshooter_nb.formats import limits, msprobe_dir
from troubleshooter_nb.formats.npy_file import write_npy
from troubleshooter_nb.naming import parse_msprobe_call, parse_row_name

DATA = Path(__file__).parents[1] / "data" / "msprobe"
TORCH = DATA / "v26_2_0" / "torch"
MINDSPORE = DATA / "v26_2_0" / "mindspore"
MLP = TORCH / "t_mlp_mix_tensor"
RANK = "step0/proc1000"
COUNT = 500 if os.environ.get("TNB_LONG") == "1" else 50
DTYPES = {"float32", "float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool"}
DTYPES |= {"complex64"}


def row(dump, name):
    """The row of an entry as a dict."""
    at = dump.position(name)
    return {column: dump.index[column].values[at] for column in dump.index.variables} | {
        "source": dump.sources[at]
    }


def calls_of(dump):
    """Entries as msprobe counts them: forward, backward, parameter gradients."""
    entries = {parse_row_name(name).entry for name in dump.names}
    counts = Counter(parse_msprobe_call(entry).event for entry in entries)
    return counts["forward"], counts["backward"], counts["parameters_grad"]


def files_of(dump):
    return sum(source is not None and source.size_bytes > 0 for source in dump.sources)


def copied(source, tmp_path, name="copy"):
    return Path(shutil.copytree(source, tmp_path / name))


def tensor(**facts):
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    return leaf | {"Max": 2.0, "Min": -1.0, "Mean": 0.5, "Norm": 2.25} | facts


def call(*inputs, **kwargs):
    return {"input_args": list(inputs), "input_kwargs": kwargs, "output": []}


def written(folder, data, **header):
    folder.mkdir(parents=True, exist_ok=True)
    head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, **header, "data": data}))
    return folder


# -- what the fixtures hold


def test_case_1_a_torch_dump_of_modules_and_operators():
    dump = open_dump(MLP)
    assert (dump.format, dump.label) == ("msprobe_dir", "t_mlp_mix_tensor")
    assert dump.card.facts["task"] == "tensor"
    assert dump.card.facts["level"] == "mix"
    assert dump.card.facts["framework"] == "pytorch"
    assert dump.card.facts["msprobe_layout"] == "26.2.0"
    assert calls_of(dump) == (7, 7, 2)
    kinds = Counter(dump.index["dtype"].values.tolist())
    assert sum(kinds[dtype] for dtype in DTYPES if dtype != "bool") == 43 == files_of(dump)
    assert (kinds["bool"], kinds["NoneType"]) == (1, 1)
    assert row(dump, "Functional.relu.0.forward.kwargs.inplace")["value"] == "false"
    assert set(dump.index["status"].values) == {"ok"}
    assert dump.notes == ()


@pytest.mark.parametrize(
    ("folder", "counts", "files"),
    [
        (TORCH / "t_mlp_L0_tensor", (3, 3, 2), 19),  # case 2
        (TORCH / "t_mlp_L1_tensor", (4, 4, 0), 24),
        (MINDSPORE / "m_mlp_mix_tensor", (13, 10, 2), 59),  # case 3
        (MINDSPORE / "m_mlp_L1_tensor", (10, 7, 0), 40),
        (DATA / "v1_2_2/torch/t_mlp_mix_tensor", (5, 4, 2), 29),  # case 4
        (DATA / "v8_3_3/torch/t_mlp_mix_tensor", (4, 4, 2), 26),
        (DATA / "v26_2_0/msadapter_like", (7, 7, 2), 43),  # case 15
    ],
)
def test_cases_2_3_4_and_15_counts_of_calls_and_files(folder, counts, files):
    dump = open_dump(folder)
    assert (calls_of(dump), files_of(dump)) == (counts, files)
    assert dump.notes == ()
    for name in dump.select(slot="0", direction="forward").names[:3]:
        assert dump.sources[dump.position(name)] is None or np.isfinite(dump.array(name)).all()


def test_case_3_two_steps():
    dump = open_dump(MINDSPORE / "m_mlp_L0_tensor")
    for step in (0, 1):
        assert sum(calls_of(dump.select(step=step))) == 8
        orders = dump.select(step=step).index["order"].values.tolist()
        assert orders == list(range(len(orders)))


@pytest.mark.parametrize(("release", "called"), [("v1_2_2", 5), ("v8_3_3", 4)])
def test_case_4_older_releases_have_the_sites_and_stacks_of_the_newest(release, called):
    old, new = open_dump(DATA / release / "torch/t_mlp_mix_tensor"), open_dump(MLP)
    assert old.card.facts["msprobe_layout"] == release[1:].replace("_", ".")
    gradient = "Module.fc1.Linear.parameters_grad"
    columns = ("kind", "path", "call", "direction", "role", "slot", "layer")
    theirs, ours = row(old, f"{gradient}.weight"), row(new, f"{gradient}.0.weight")
    assert [theirs[c] for c in columns] == [ours[c] for c in columns]
    with_stack = {
        parse_row_name(n).entry
        for n, s in zip(old.names, old.index["stack"].values, strict=True)
        if s
    }
    assert len(with_stack) == called
    stack = row(old, "Module.fc1.Linear.forward.0.input.0")["stack"]
    assert "in forward, \n return self.fc2(self.act(self.fc1(x)))" in stack
    assert stack.splitlines()[0].startswith("File site-packages/")


def test_case_4_gradients_of_parameters_stand_where_the_backward_of_their_module_ends():
    old = open_dump(DATA / "v1_2_2/torch/t_mlp_mix_tensor")
    at = {name: row(old, name)["order"] for name in old.names}
    gradient = at["Module.fc2.Linear.parameters_grad.weight"]
    assert at["Module.fc2.Linear.backward.0.output.0"] < gradient
    assert gradient < at["Functional.relu.0.backward.input.0"]


@pytest.mark.parametrize(
    ("folder", "name", "expected"),
    [
        (
            MLP,
            "Module.fc1.Linear.forward.0.input.0",
            ("module", "fc1", 0, "forward", "input", "0", "Linear"),
        ),
        (
            MLP,
            "Module.fc1.Linear.forward.0.parameters.bias",
            ("module", "fc1", 0, "forward", "parameter", "bias", "Linear"),
        ),
        (
            MLP,
            "Functional.linear.1.backward.output.0",
            ("api", "Functional.linear", 1, "backward", "output", "0", "linear"),
        ),
        (
            MINDSPORE / "m_mlp_mix_tensor",
            "Primitive.matmul.MatMul.0.forward.input.1",
            ("api", "Primitive.matmul", 0, "forward", "input", "1", "MatMul"),
        ),
        (
            TORCH / "v_listmodel",
            "Module.0.fc1.Linear.forward.0.input.0",
            ("module", "fc1", 0, "forward", "input", "0", "Linear"),
        ),
    ],
)
def test_case_5_names_become_sites(folder, name, expected):
    columns = ("kind", "path", "call", "direction", "role", "slot", "layer")
    found = row(open_dump(folder), name)
    assert tuple(found[column] for column in columns) == expected


def test_case_6_steps_and_ranks_are_dimensions():
    dump = open_dump(TORCH / "t_ddp")
    for step in (0, 1):
        for rank in (0, 1):
            assert sum(calls_of(dump.select(step=step, rank=rank))) == 19
    first = dump.select(step=0, rank=0)
    reduced = "Distributed.all_reduce.0.forward"
    slot = "kwargs.tensor" if f"{reduced}.kwargs.tensor" in first else "input.0"
    assert row(first, f"{reduced}.{slot}")["mean"] == 1.07683527469635
    assert row(first, f"{reduced}.output.0")["mean"] == 2.3051891326904297


def test_case_7_losses():
    loss = "Functional.cross_entropy.0.forward.output.0"
    assert row(open_dump(MLP), loss)["max"] == 1.07683527469635
    assert row(open_dump(MINDSPORE / "m_mlp_mix_tensor"), loss)["max"] == 1.0768346786499023
    second = open_dump(TORCH / "t_mlp_2step").select(step=1)
    assert row(second, loss)["max"] == 1.2220927476882935


def test_case_8_statistics_are_those_of_the_json_and_of_the_values():
    name = "Module.fc1.Linear.forward.0.input.0"
    dump = open_dump(MLP)
    expected = {
        **{"max": 2.2429723739624023, "min": -1.9311014413833618},
        **{"mean": 0.06796244531869888, "l2": 5.707038879394531},
    }
    told, measured = row(dump, name), row(dump.summarise(), name)
    assert told["shape"] == (4, 8)
    for figure, value in expected.items():
        assert told[figure] == value
        # msprobe computes in float32: 2**-24 relative to the values, which are up to 2.
        assert measured[figure] == pytest.approx(value, rel=1e-6, abs=1e-7)


def test_case_9_what_msprobe_calls_md5_is_the_crc_of_the_bytes():
    md5, tensors = open_dump(TORCH / "t_mlp_mix_md5"), open_dump(MLP)
    relu = "Functional.relu.0.forward"
    for slot, digits in (("input.0", "8dee87d2"), ("output.0", "01f27751")):
        assert row(md5, f"{relu}.{slot}")["crc32"] == int(digits, 16)
        assert zlib.crc32(tensors.array(f"{relu}.{slot}").tobytes()) == int(digits, 16)
    both = md5.index["crc32"].values >= 0
    np.testing.assert_array_equal(
        md5.index["crc32"].values[both], tensors.summarise().index["crc32"].values[both]
    )
    mindspore = open_dump(MINDSPORE / "m_mlp_mix_md5")
    for slot, digits in (("input.0", "b73067be"), ("output.0", "5def8310")):
        assert row(mindspore, f"Primitive.relu.ReLU.0.forward.{slot}")["crc32"] == int(digits, 16)


def test_case_9_xor_is_another_digest_and_a_null_digest_is_none():
    found = row(open_dump(TORCH / "t_mlp_mix_xor"), "Functional.relu.0.forward.input.0")
    assert (found["digest"], found["crc32"]) == ("xor:825dd06181f574df", -1)
    assert math.isnan(found["max"])
    found = row(open_dump(MINDSPORE / "m_mlp_mix_xor"), "Primitive.relu.ReLU.0.forward.input.0")
    assert (found["digest"], found["crc32"], found["status"]) == ("", -1, "ok")


def test_what_stands_for_the_xor_of_a_single_number_is_the_number():
    found = row(open_dump(TORCH / "t_mlp_mix_xor"), "Functional.cross_entropy.0.forward.output.0")
    assert [found[figure] for figure in ("max", "min", "mean", "l2")] == [1.07683527469635] * 4
    assert (found["digest"], found["crc32"]) == ("", -1)


def test_case_10_unusual_tensors_of_operators():
    dump = open_dump(TORCH / "s_L1_tensor")
    assert set(dump.index["status"].values) == {"ok"}
    assert row(dump, "Functional.relu.1.forward.input.0")["l2"] == math.inf
    assert row(dump, "Functional.relu.1.forward.input.0")["dtype"] == "float16"
    for figure in ("max", "min", "mean", "l2"):
        assert math.isnan(row(dump, "Functional.relu.3.forward.input.0")[figure])
    assert dump.array("Functional.relu.7.forward.input.0").shape == (0, 3)
    nothing = row(dump, "Tensor.__setitem__.0.forward.output.0")
    assert (nothing["value"], nothing["dtype"], nothing["status"]) == ("null", "NoneType", "ok")
    assert {"Torch.cat.0.forward.input.0.0", "Torch.cat.0.forward.input.0.1"} <= set(dump.names)
    assert dump.array("Torch.abs.0.forward.input.0").dtype == np.complex64
    assert dump.array("Functional.relu.2.forward.input.0").dtype == ml_dtypes.bfloat16
    assert row(dump, "Torch.full.0.forward.kwargs.dtype")["value"] == '"torch.float32"'
    assert row(dump, "Torch.full.0.forward.kwargs.device")["dtype"] == "torch.device"
    # msprobe gives a single negative element as its own norm.
    assert row(dump, "Tensor.sum.1.forward.output.0")["l2"] == 1.5242962837219238


def test_case_11_nested_inputs_shared_modules_and_parents_in_both_directions():
    dump = open_dump(TORCH / "s_L0_tensor")
    inner = "Module.inner.Inner.forward.0"
    for slot in ("input.0", "input.1.0", "input.1.1.k", "kwargs.opts.z.0", "kwargs.opts.z.2"):
        assert f"{inner}.{slot}" in dump
    assert row(dump, f"{inner}.kwargs.opts.z.2")["value"] == "null"
    assert not [name for name in dump.names if name.startswith("Module.inner.Inner.backward")]
    shared = dump.select(path="shared")
    order = [parse_row_name(name).entry.split(".", 3)[3] for name in shared.names]
    assert list(dict.fromkeys(order)) == [
        *("forward.0", "forward.1", "backward.1", "parameters_grad.0", "backward.0")
    ]
    for entry in ("forward.0.input.0", "backward.0.input.0", "parameters_grad.0.weight"):
        assert row(dump, f"Module.inner.lin.Linear.{entry}")["parent"] == inner


def test_case_12_save_points():
    dump = open_dump(TORCH / "t_save_tensor")
    assert dump.card.facts["level"] == "debug"
    assert [row(dump, f"h.{n}.debug")["shape"] for n in (0, 1)] == [(4, 6), (4, 3)]
    found = row(dump, "h_grad.1.debug")
    assert [found[c] for c in ("kind", "path", "call", "direction")] == [
        "debug",
        "h",
        1,
        "backward",
    ]
    for slot in ("a", "nested.0", "nested.1.k"):
        assert dump.array(f"bag.0.debug.{slot}").size
    assert [row(dump, f"bag.0.debug.{k}")["value"] for k in "nfs"] == ["3", "1.5", '"txt"']


def test_case_13_a_dump_of_structure_has_no_entries_and_says_so():
    dump = open_dump(TORCH / "v_structure")
    assert len(dump) == 0
    assert dump.notes == (
        "the json of task 'structure' holds no data; construct.json names 17 calls",
    )


@pytest.mark.parametrize("damage", ["as it was", "truncated", "no json", "by its json"])
def test_case_14_the_tensors_of_a_killed_run_are_found_by_their_names(tmp_path, damage):
    folder = copied(TORCH / "t_abort_exit", tmp_path)
    document = folder / RANK / "dump.json"
    if damage == "truncated":
        document.write_bytes((MLP / RANK / "dump.json").read_bytes()[:5000])
    elif damage == "no json":
        document.unlink()
    dump = open_dump(document if damage == "by its json" else folder)
    assert len(dump) == 20
    assert {parse_row_name(name).entry for name in dump.names} == {
        *("Functional.linear.0.forward", "Functional.linear.1.forward"),
        *("Functional.relu.0.forward", "Module.fc1.Linear.forward.0"),
        *("Module.act.ReLU.forward.0", "Module.fc2.Linear.forward.0"),
    }
    assert any(note.startswith("recovered from file names: 20 tensors of 6") for note in dump.notes)
    assert ("no valid JSON at line" in " ".join(dump.notes)) == (damage == "truncated")
    measured = row(dump.summarise(), "Module.fc1.Linear.forward.0.input.0")
    assert measured["max"] == 2.2429723739624023
    assert measured["order"] == -1


def test_case_15_a_dump_of_msadapter_has_the_names_of_torch():
    adapter, torch = open_dump(DATA / "v26_2_0/msadapter_like"), open_dump(MLP)
    assert adapter.card.facts["framework"] == "mindtorch"
    assert adapter.names == torch.names
    assert files_of(adapter) == 43
    assert row(adapter, adapter.names[0])["dtype"] == "float32"


def test_case_60_keyword_arguments_have_one_name_in_every_task(tmp_path):
    tensors = open_dump(TORCH / "t_kwargs")
    assert tensors.array("Torch.matmul.0.forward.kwargs.other").shape == (2, 2)
    found = row(tensors, "Torch.add.0.forward.kwargs.alpha")
    assert [found[c] for c in ("value", "dtype", "role", "slot")] == ["2", "int", "input", "alpha"]
    document = json.loads((TORCH / "t_kwargs" / RANK / "dump.json").read_bytes())
    for value in document["data"].values():
        for leaf in (*value["input_args"], *value["input_kwargs"].values(), *value["output"]):
            leaf.pop("data_name", None)
    statistics = open_dump(written(tmp_path / "d", document["data"]))
    assert statistics.names == tensors.names


def test_case_61_hard_paths_other_machines_and_missing_files(tmp_path):
    folder = copied(MLP, tmp_path, "a.b v1.2 模型/dump 1.0")
    document = folder / RANK / "dump.json"
    content = document.read_text().replace("./dump_tensor_data", "/gone/machine/dump_tensor_data")
    document.write_text(content)
    (folder / RANK / "dump_tensor_data" / "Functional.linear.0.forward.input.1.pt").unlink()
    dump = open_dump(folder)
    missing = row(dump, "Functional.linear.0.forward.input.1")
    assert (missing["status"], missing["max"]) == ("unreadable", 0.4076470136642456)
    assert "no file Functional.linear.0.forward.input.1.pt" in missing["reason"]
    assert dump.notes == ("tensors whose file is missing: 1",)
    with pytest.raises(ReadError, match="no file"):
        dump.array("Functional.linear.0.forward.input.1")
    assert dump.array("Functional.linear.0.forward.input.0").shape == (4, 8)


def test_case_61_two_processes_of_one_step_are_two_ranks_and_a_note(tmp_path):
    folder = copied(MLP, tmp_path)
    shutil.copytree(folder / RANK, folder / "step0" / "proc98")
    dump = open_dump(folder)
    assert [len(dump.select(rank=rank)) for rank in (0, 1)] == [45, 45]
    assert dump.notes == (
        "several processes in one step, of one run or of several: "
        "proc98 is rank 0, proc1000 is rank 1",
    )


def test_case_61_a_truncated_json_without_tensors_says_where_and_what_to_do(tmp_path):
    folder = copied(TORCH / "t_mlp_mix_md5", tmp_path)
    document = folder / RANK / "dump.json"
    document.write_bytes(document.read_bytes()[:3000])
    with pytest.raises(FormatError, match=r"^dump.json: no valid JSON at line \d+.*dump again$"):
        open_dump(folder)


# -- where a dump may be opened


def test_a_dump_opens_at_its_root_a_step_a_rank_and_its_json():
    names = open_dump(MLP).names
    for part in ("step0", RANK, f"{RANK}/dump.json"):
        assert open_dump(MLP / part).names == names


def test_the_current_folder_says_the_release_by_its_name(monkeypatch):
    monkeypatch.chdir(MLP / RANK)
    for path in (".", "dump.json"):
        assert open_dump(path).card.facts["msprobe_layout"] == "26.2.0"


def test_a_step_and_a_root_of_npy_files_are_not_taken_for_a_folder_of_arrays():
    for part in ("", "step0", RANK):
        assert open_dump(MINDSPORE / "m_mlp_mix_tensor" / part).format == "msprobe_dir"


def test_one_step_opened_on_its_own_is_step_0_and_says_so():
    for part in ("step1", "step1/rank1", "step1/rank1/dump.json"):
        dump = open_dump(TORCH / "t_ddp" / part)
        assert set(dump.index["step"].values) == {0}
        assert dump.notes == ("a part of step1 opened on its own: its entries count as step 0",)


def test_a_part_of_a_dump_is_refused_with_the_folder_to_open():
    with pytest.raises(UnknownFormatError, match=r"stack.json is a part of a dump of msprobe"):
        open_dump(MLP / RANK / "stack.json")


def test_other_folders_and_files_are_refused(tmp_path):
    (tmp_path / "rank_0").mkdir()
    assert "kernel level" in msprobe_dir.refusal(tmp_path)
    assert "no dump.json" in msprobe_dir.refusal(tmp_path / "rank_0")
    (tmp_path / "x.json").write_text('{"task": 1}')
    assert "header" in msprobe_dir.refusal(tmp_path / "x.json")
    arrays = save_dump({"x": np.ones(2)}, tmp_path / "step0" / "rank0")
    assert open_dump(arrays.parents[1]).format == "npy_dir"


def test_holes_in_steps_and_ranks_are_notes(tmp_path):
    data = {"Torch.abs.0.forward": call(tensor())}
    for place in ("step0/rank0", "step0/rank1", "step1/rank0", "step3/rank0", "step3/rank1"):
        written(tmp_path / "d" / place, data)
    (tmp_path / "d" / "step3" / "rank2").mkdir()
    dump = open_dump(tmp_path / "d")
    assert dump.notes == (
        "step3/rank2 holds no dump",
        "1 steps missing: there are 0, 1, 3",
        "step 1 lacks rank 1, which other steps have",
    )


def test_rank_beside_a_process_is_never_silently_one(tmp_path):
    data = {"Torch.abs.0.forward": call(tensor())}
    for name in ("rank", "proc7"):
        written(tmp_path / "d" / "step0" / name, data)
    dump = open_dump(tmp_path / "d")
    assert dump.index["rank"].values.tolist() == [0, 1]
    assert "rank is rank 0, proc7 is rank 1" in dump.notes[0]


def test_a_rank_that_cannot_be_read_is_an_entry_and_the_others_stay(tmp_path):
    folder = copied(TORCH / "t_ddp", tmp_path)
    (folder / "step0/rank1/dump.json").write_text('{"task": "statistics", "level": "mix", "da')
    dump = open_dump(folder)
    bad = dump.select(status="unreadable")
    assert (bad.names, bad.index["rank"].values.tolist()) == (["dump.json"], [1])
    assert len(dump) == 151


def test_save_points_beside_a_dump_are_read_with_it(tmp_path):
    folder = copied(MLP, tmp_path)
    for file in (TORCH / "t_save_tensor" / RANK).rglob("*"):
        if file.is_file():
            shutil.copy(file, folder / RANK / file.relative_to(TORCH / "t_save_tensor" / RANK))
    dump = open_dump(folder)
    assert len(dump) == 55
    assert dump.notes == ()
    assert len(open_dump(folder / RANK / "debug.json")) == 10


# -- what a json may hold


def test_several_models_keep_their_number_and_a_sequential_its_own(tmp_path):
    entry = {**call(tensor()), "parameters": {}}
    several = {f"Module.{n}.fc.Linear.forward.0": entry for n in (0, 1)}
    dump = open_dump(written(tmp_path / "several", several))
    assert dump.index["path"].values.tolist() == ["0.fc", "1.fc"]
    assert dump.notes == ("paths of modules begin with the number of the model: 0, 1",)
    sequential = {f"Module.0{path}.forward.0": entry for path in (".fc.Linear", ".Block")}
    dump = open_dump(written(tmp_path / "sequential", sequential))
    assert dump.index["path"].values.tolist() == ["0.fc", "0"]
    assert dump.notes == ()


@pytest.mark.parametrize(
    ("facts", "digest", "crc"),
    [
        ({"framework": "mindspore"}, "crc32-of-float32:8dee87d2", -1),
        ({"framework": "mindtorch"}, "crc32-of-float32:8dee87d2", -1),
        ({"framework": "pytorch"}, "", 0x8DEE87D2),  # 26.2.0
        ({"framework": "pytorch", "stack": "one by one"}, "crc32-of-float32:8dee87d2", -1),  # 1.2.2
        ({"framework": "pytorch", "stack": "shared"}, "", 0x8DEE87D2),  # 8.3.3
        ({"framework": "pytorch", "stack": "none"}, "crc32-of-any-width:8dee87d2", -1),
    ],
)
def test_the_digest_of_bfloat16_says_what_it_is_of(tmp_path, facts, digest, crc):
    leaf = tensor(dtype="torch.bfloat16", md5="8dee87d2")
    entry, stack = call(leaf), facts.get("stack")
    if stack:
        entry["is_recompute"] = False
    data = {"Torch.abs.0.forward": entry}
    folder = written(tmp_path / "d", data, framework=facts["framework"])
    frames = ["File a.py, line 1, in f, \n g()"]
    stacks = {"one by one": dict.fromkeys(data, frames), "shared": {"0": [list(data), frames]}}
    if stack in stacks:
        (folder / "stack.json").write_text(json.dumps(stacks[stack]))
    dump = open_dump(folder)
    found = row(dump, "Torch.abs.0.forward.input.0")
    assert (found["digest"], found["crc32"], found["dtype"]) == (digest, crc, "bfloat16")


def test_a_bfloat16_tensor_in_npy_is_the_float32_that_the_file_holds(tmp_path):
    name = "Mint.abs.0.forward.input.0.npy"
    leaf = tensor(type="mindspore.Tensor", dtype="BFloat16", data_name=name)
    folder = written(tmp_path / "d", {"Mint.abs.0.forward": call(leaf)}, framework="mindspore")
    (folder / "dump_tensor_data").mkdir()
    write_npy(folder / "dump_tensor_data" / name, np.array([2, -1], np.float32))
    dump = open_dump(folder)
    assert dump.array("Mint.abs.0.forward.input.0").tolist() == [2, -1]
    assert dump.notes == ("bfloat16 tensors that .npy files hold as float32: 1",)


def test_values_that_are_no_tensors_are_json_text(tmp_path):
    values = {
        "size": {"type": "torch.Size", "value": [1, 2]},
        "part": {"type": "slice", "value": [0, None, 2]},
        "form": {"type": "torch.memory_format", "format": "channels_last"},
        "text": {"type": "str", "value": "日本"},
        "group": {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "ab"},
        "type": {"type": "float", "value": math.nan},
        "empty": [],
    }
    dump = open_dump(written(tmp_path / "d", {"Torch.f.0.forward": call(**values)}))
    found = {str(s): (d, v) for s, d, v in dump.to_dataframe()[["slot", "dtype", "value"]].values}
    assert found == {
        "size": ("torch.Size", "[1, 2]"),
        "part": ("slice", "[0, null, 2]"),
        "form": ("torch.memory_format", '"channels_last"'),
        "text": ("str", '"日本"'),
        "group": ("torch.ProcessGroup", '{"group_ranks": [0, 1], "group_id": "ab"}'),
        "type": ("float", "NaN"),
    }


def test_names_entered_twice_and_keys_that_look_nested_are_notes(tmp_path):
    folder = written(tmp_path / "d", {"Torch.f.0.forward": call(**{"a.b": None, "a": {"b": None}})})
    text = (folder / "dump.json").read_text()
    twice = '"Torch.g.0.forward": {"output": [null]}, "Torch.g.0.forward": {"output": [null]}, '
    (folder / "dump.json").write_text(text.replace('"data": {', '"data": {' + twice))
    dump = open_dump(folder)
    name = "Torch.f.0.forward.kwargs.a.b"
    assert dump.names == ["Torch.g.0.forward.output.0", name, f"{name} (2)"]
    assert dump.notes == (
        "entered twice in the json, the later counts: Torch.g.0.forward",
        f"values of one name, the later ones numbered: {name} (2)",
    )


def test_nesting_past_400_is_refused_and_400_are_read(tmp_path):
    for depth in (390, 401, 100_000):
        nested = "[" * depth + "]" * depth
        folder = written(tmp_path / "d", {"Torch.f.0.forward": "HERE"})
        text = (folder / "dump.json").read_text()
        (folder / "dump.json").write_text(text.replace('"HERE"', f'{{"input_args": {nested}}}'))
        if depth == 390:
            assert len(open_dump(folder)) == 0
            continue
        with pytest.raises(FormatError, match=r"dump.json: nested deeper than the 400 levels"):
            open_dump(folder)


def test_a_json_that_is_too_large_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setitem(limits.MOST, "msprobe_json", 1000)
    with pytest.raises(FormatError, match=r"dump.json: .* too many; .*limit is 1,000"):
        open_dump(copied(TORCH / "t_mlp_mix_md5", tmp_path))


def test_shapes_and_dtypes_nobody_has_are_reasons(tmp_path):
    leaves = [tensor(shape=[2**62, 8]), tensor(shape=[-1]), tensor(shape="x")]
    leaves.append(tensor(dtype="torch.complex32", data_name="x.pt"))
    dump = open_dump(written(tmp_path / "d", {"Torch.f.0.forward": call(*leaves)}))
    assert [bool(reason) for reason in dump.index["reason"].values] == [True] * 4
    assert "impossible shape" in dump.index["reason"].values[0]


# -- tensor files


def test_opening_reads_no_tensor_and_handles_survive_pickling(tmp_path):
    folder = copied(MLP, tmp_path)
    files = folder / RANK / "dump_tensor_data"
    dump = open_dump(folder)
    source = pickle.loads(pickle.dumps(dump.sources[0]))
    assert source == dump.sources[0]
    assert source.read(0, 32).shape == (32,)
    # Later than the first read of the copy, but before that of the dump.
    (files / "Functional.linear.0.forward.input.0.pt").unlink()
    with pytest.raises(ReadError, match=r"Functional.linear.0.forward.input.0.pt: No such file"):
        dump.array("Functional.linear.0.forward.input.0")


def test_a_file_of_another_shape_or_content_is_a_read_error_that_names_it(tmp_path):
    folder = copied(MLP, tmp_path)
    files = folder / RANK / "dump_tensor_data"
    first, second, third = (files / f"Functional.linear.0.forward.input.{n}.pt" for n in range(3))
    shutil.copy(second, first)
    second.write_bytes(pickle.dumps({"a": [1, 2]}))
    third.write_bytes(b"\x80\x04cos\nsystem\n(X\x04\x00\x00\x00exittR.")
    dump = open_dump(folder)
    for file, said in (
        (first, "holds float32 (6, 8), the dump's json says float32 (4, 8)"),
        (second, "something else than a tensor"),
        (third, "something else than a tensor (it asks for os.system)"),
    ):
        with pytest.raises(ReadError) as caught:
            dump.array(file.stem)
        assert said in str(caught.value)
        assert file.name in str(caught.value)


def test_a_name_of_a_file_that_leaves_the_folder_is_a_missing_file(tmp_path):
    (tmp_path / "secret.pt").write_bytes(b"x")
    leaf = tensor(data_name="../../secret.pt")
    folder = written(tmp_path / "d", {"Torch.f.0.forward": call(leaf)}, task="tensor")
    (folder / "dump_tensor_data").mkdir()
    dump = open_dump(folder)
    assert "no file ../../secret.pt" in dump.index["reason"].values[0]


# -- damaged files


@pytest.mark.parametrize(
    ("base", "part"),
    [
        (MLP, "dump.json"),
        (MINDSPORE / "m_mlp_mix_md5", "dump.json"),
        (TORCH / "t_save_tensor", "debug.json"),
        (TORCH / "s_L0_tensor", "stack.json"),
        (TORCH / "s_L0_tensor", "construct.json"),
    ],
)
def test_a_damaged_json_gives_a_dump_or_our_error(tmp_path, base, part):
    folder = copied(base / "step0", tmp_path)
    target = next(folder.rglob(part))
    content = target.read_bytes()
    rng = random.Random(f"msprobe {base.name} {part}")
    opened = 0
    for number in range(COUNT):
        data = bytearray(content)
        ACCIDENTS[number % len(ACCIDENTS)](data, rng)
        target.write_bytes(data)
        try:
            dump = open_dump(folder)
        except (FormatError, ReadError):
            continue
        opened += 1
        assert isinstance(dump, Dump)
        assert repr(dump)
        "\n".join([*dump.names, *dump.notes]).encode()
        if part == "dump.json":
            assert dump._repr_html_()
            dump.summarise()
    if part in ("stack.json", "construct.json"):
        assert opened == COUNT
