"""The one door: the format is recognised, and a refusal says what each reader said."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from troubleshooter_nb import formats, open_dump, read_mapping, save_dump
from troubleshooter_nb.errors import FormatError, UnknownFormatError
from troubleshooter_nb.formats import FORMATS

DATA = Path(__file__).parents[1] / "data"
PTDBG = DATA / "torch_npu_hooks" / "ptdbg"
MSPROBE = DATA / "msprobe" / "v26_2_0"
TORCH = MSPROBE / "torch"


def test_a_folder_of_arrays_is_recognised(tmp_path):
    folder = save_dump({"x": np.ones(2)}, tmp_path / "run_7")
    for path in (folder, str(folder), f"{folder}/"):
        dump = open_dump(path)
        assert (dump.format, dump.label) == ("npy_dir", "run_7")
    assert open_dump(folder, label="mine").label == "mine"
    assert open_dump(folder, format="npy_dir").format == "npy_dir"


def test_an_unknown_format_names_the_known_ones(tmp_path):
    folder = save_dump({"x": np.ones(2)}, tmp_path / "d")
    known = ", ".join(reader.name for reader in FORMATS)
    with pytest.raises(UnknownFormatError, match=f"no format 'hdf5'; known: {known}"):
        open_dump(folder, format="hdf5")


@pytest.mark.parametrize("make", ["empty folder", "text file", "foreign dump"])
def test_a_refusal_lists_what_every_reader_said(tmp_path, make):
    path = tmp_path / "thing"
    if make == "text file":
        path.write_text("hello")
    else:
        path.mkdir()
    if make == "foreign dump":
        np.save(path / "x.npy", np.ones(2))
        (path / "dump.json").write_text("{}")
    with pytest.raises(UnknownFormatError) as caught:
        open_dump(path)
    message = str(caught.value)
    assert repr(str(path)) in message
    said = message.splitlines()[1:]
    assert [line.split(":")[0].strip() for line in said] == [reader.name for reader in FORMATS]
    assert all(line.split(":", 1)[1].strip() for line in said)
    if make == "foreign dump":
        assert "holds dump.json, so it is a dump of msprobe" in message


def test_a_format_that_is_asked_for_is_not_put_off_by_another_tools_file(tmp_path):
    folder = save_dump({"x": np.ones(2)}, tmp_path / "d")
    (folder / "dump.json").write_text("{}")
    assert len(open_dump(folder, format="npy_dir")) == 1


def test_the_error_of_an_unknown_path_is_a_value_error_too(tmp_path):
    with pytest.raises(ValueError, match="was not recognised"):
        open_dump(tmp_path)
    assert issubclass(UnknownFormatError, FormatError)


def test_a_missing_path_names_the_part_that_exists(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"the part {tmp_path} exists"):
        open_dump(tmp_path / "no" / "such" / "folder")


def test_a_missing_path_names_what_is_close(tmp_path):
    (tmp_path / "torch_ts_save").mkdir()
    with pytest.raises(FileNotFoundError, match="exists; it has 'torch_ts_save'"):
        open_dump(tmp_path / "torch_ts_saves")


def test_a_path_behind_a_file_is_missing(tmp_path):
    (tmp_path / "x.npy").write_text("")
    with pytest.raises(FileNotFoundError, match=r"x\.npy exists"):
        open_dump(tmp_path / "x.npy" / "y")


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "run git lfs pull"),
        (b"\n<!DOCTYPE html><html>sign in</html>", "a web page, not a checkpoint; download it"),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "net.pth", "net.ckpt", "pytorch_model.bin"])
def test_what_lies_in_place_of_a_large_file_is_called_by_its_name(tmp_path, name, content, advice):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=rf"^{name}: .*{advice}"):
        open_dump(tmp_path / name)


def test_a_folder_in_the_way_of_a_file_is_said(tmp_path):
    (tmp_path / "net.ckpt").mkdir()
    with pytest.raises(FormatError, match=r"cannot write 'net.ckpt': a folder has this name"):
        save_dump({"w": [1.0]}, tmp_path / "net.ckpt")


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        (PTDBG, r"'ptdbg' is a dump with others below it: v1/npu, v4/npu; open one of these, or "),
        (PTDBG / "v1", r"'v1' lies above a dump: open npu"),
        (MSPROBE / "mindspore", r"'mindspore' holds \d+ dumps: m_\w+, m_\w+.*; open one of them"),
        (MSPROBE, r"'v26_2_0' holds \d+ dumps: .*; open one of them, or compare two of them"),
        (DATA / "api_dump", r"'api_dump' holds 4 dumps: ms_dump, ms_stat, pt_dump, pt_stat;"),
        (DATA / "torch_npu_hooks" / "edge", r"'edge' holds \d+ dumps: .*\.pkl and \d+ more"),
    ],
)
def test_a_folder_above_several_dumps_is_refused_with_their_names(folder, said):
    with pytest.raises(FormatError, match=said):
        open_dump(folder)


def test_two_sides_in_one_folder_are_refused_with_both_names(tmp_path):
    for side in ("npu", "bench"):
        shutil.copytree(PTDBG / "v1" / "npu", tmp_path / "v1" / side)
    with pytest.raises(UnknownFormatError, match=r"'v1' holds 2 dumps: bench, npu; open one of"):
        open_dump(tmp_path / "v1")


def test_arrays_beside_the_dump_of_another_tool_are_opened_only_when_asked_for(tmp_path):
    save_dump({"x": np.ones(2)}, tmp_path / "runs")
    shutil.copytree(PTDBG / "v1" / "npu", tmp_path / "runs" / "old" / "npu")
    with pytest.raises(FormatError, match=r"'runs' lies above a dump: open old/npu"):
        open_dump(tmp_path / "runs")
    assert "x_float64_0" in open_dump(tmp_path / "runs", format="npy_dir").names


def test_a_dump_with_others_below_it_says_how_it_is_opened_alone(tmp_path):
    shutil.copytree(PTDBG / "v1" / "npu" / "ptdbg_dump_v1.0" / "rank0", tmp_path / "run")
    alone = open_dump(tmp_path / "run")
    shutil.copytree(PTDBG / "v1" / "npu", tmp_path / "run" / "v1" / "npu")
    with pytest.raises(FormatError, match=r"others below it: v1/npu; .*format='hooks_file'"):
        open_dump(tmp_path / "run")
    assert open_dump(tmp_path / "run", format="hooks_file").names == alone.names


def test_the_steps_and_ranks_of_a_dump_are_no_dumps_of_their_own(tmp_path):
    for rank in (0, 1):
        shutil.copytree(
            PTDBG / "v1" / "npu" / "ptdbg_dump_v1.0" / "rank0",
            tmp_path / "run" / "ptdbg_dump_v1.0" / f"rank{rank}",
        )
    assert set(open_dump(tmp_path / "run").index["rank"].values) == {0, 1}


class Executed:
    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.mark.parametrize("format", [None, "npy_dir"])
def test_a_pickle_among_arrays_is_named_and_never_loaded(tmp_path, monkeypatch, format):
    monkeypatch.chdir(tmp_path)
    folder = save_dump({"x": np.ones(2)}, tmp_path / "d")
    assert not open_dump(folder, format=format).notes
    (folder / "rank0").mkdir()
    for name in ("evil.pkl", "rank0/b.pickle"):
        (folder / name).write_bytes(pickle.dumps(Executed()))
    dump = open_dump(folder, format=format)
    said = "not read, as loading a pickle could run code: evil.pkl, rank0/b.pickle"
    assert dump.notes == (said,)
    assert dump.unopened == ("evil.pkl", "rank0/b.pickle")
    assert len(dump) == 1
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("format", [None, "npy_dir"])
def test_checkpoints_among_arrays_are_named_with_the_way_to_open_them(tmp_path, format):
    folder = save_dump({"x": np.ones(2)}, tmp_path / "d")
    (folder / "rank0").mkdir()
    for name in ("t.ckpt", "t.pth", "rank0/u.safetensors"):
        save_dump({"w": np.ones(2)}, folder / name)
    np.savez(folder / "z.npz", w=np.ones(2))
    shutil.copy(folder / "t.pth", folder / "weights.bin")
    (folder / "values.bin").write_bytes(bytes(40))
    (folder / "readme.md").write_text("notes")
    dump = open_dump(folder, format=format)
    assert dump.notes == (
        "checkpoints were not opened: rank0/u.safetensors, t.ckpt, t.pth, weights.bin and 1 more; "
        "open each by itself: open_dump('d/rank0/u.safetensors')",
        "not opened: values.bin",
    )
    assert dump.names == ["x_float64_0"]
    assert dump.unopened[:2] == ("rank0/u.safetensors", "t.ckpt")
    assert len(dump.unopened) == 6
    # What a dump is made into keeps knowing it.
    assert dump.select(role="").relabel("y").unopened == dump.unopened


def test_the_tensors_of_a_dump_are_no_checkpoints_among_arrays():
    for folder in ("t_mlp_mix_tensor", "t_mlp_mix_tensor/step0/proc1000"):
        assert not any("checkpoint" in note for note in open_dump(TORCH / folder).notes)


CONFIG = {"task": "tensor", "dump_path": "out/run", "rank": [], "step": [], "level": "mix"}


@pytest.mark.parametrize("format", [None, "msprobe_dir"])
@pytest.mark.parametrize("lacking", ["", "task", "level"])
def test_the_configuration_of_msprobe_is_no_dump(tmp_path, monkeypatch, format, lacking):
    config = {key: value for key, value in CONFIG.items() if key != lacking}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    said = r"^config\.json: the configuration of msprobe, which is no dump; open the folder "
    with pytest.raises(FormatError, match=said + r"of its dump, or .*dump_path says 'out/run'"):
        open_dump(file, format=format)
    # Where the dump is found, it is named: beside the file, or where the path leads.
    shutil.copytree(TORCH / "t_mlp_mix_tensor", tmp_path / "out" / "run")
    with pytest.raises(FormatError, match=said + r"'\S*out/run' instead"):
        open_dump(file, format=format)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError, match=said + r"'out/run' instead"):
        open_dump("config.json", format=format)


def test_the_configuration_beside_its_dump_leads_to_it():
    folder = TORCH / "t_mlp_mix_tensor"
    with pytest.raises(
        FormatError, match=r"which is no dump; open the folder '\S+' instead"
    ) as error:
        open_dump(folder / "config.json")
    named = str(error.value).split("'")[1]
    assert open_dump(named).names == open_dump(folder).names


@pytest.mark.parametrize("path", ["\0", "x" * 5000, 7, "\ud800"])
def test_hostile_paths_in_a_configuration_are_text(tmp_path, path):
    (tmp_path / "c.json").write_text(json.dumps(CONFIG | {"dump_path": path}))
    with pytest.raises(FormatError, match=r"c\.json: the configuration of msprobe") as error:
        open_dump(tmp_path / "c.json")
    assert len(str(error.value)) < 500
    assert str(error.value).encode()


def test_a_folder_of_nothing_but_pickles_names_them(tmp_path):
    (tmp_path / "bench.pkl").write_bytes(pickle.dumps([1]))
    with pytest.raises(UnknownFormatError, match=r"hooks_file: .*could run code: bench\.pkl"):
        open_dump(tmp_path)


def test_api_dumps_of_both_frameworks_in_one_folder_are_no_folder_of_arrays(tmp_path):
    for side in ("ms_dump", "pt_dump"):
        shutil.copytree(DATA / "api_dump" / side, tmp_path / "both", dirs_exist_ok=True)
    with pytest.raises(UnknownFormatError, match=r"api_dump: holds dumps of mindspore and torch"):
        open_dump(tmp_path / "both")


@pytest.mark.parametrize("reader", FORMATS, ids=lambda reader: reader.name)
def test_a_reader_is_called_as_in_its_module(reader, tmp_path):
    assert reader.refusal(tmp_path / "nothing")
    module = {"tnb_record": "record_dir", "safetensors": "safetensors_"}.get(reader.name)
    assert reader.name == import_module(f"{formats.__name__}.{module or reader.name}").NAME


def test_readers_are_loaded_when_they_are_asked():
    program = """
import sys
from troubleshooter_nb import *
loaded = {name.rpartition(".")[2] for name in sys.modules}
print(sorted(loaded & {"msprobe_dir", "hooks_file", "kernel_dir", "run_dir", "polygraphy_json"}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("make", ["npz", "arrays", "msprobe", "text"])
def test_each_reader_is_asked_once_at_most(tmp_path, monkeypatch, make):
    path = tmp_path / "thing"
    if make == "npz":
        path = tmp_path / "x.npz"
        np.savez(path, x=np.ones(2))
    elif make == "arrays":
        save_dump({"x": np.ones(2)}, path)
    elif make == "msprobe":
        path = TORCH / "t_mlp_mix_tensor"
    else:
        path.write_text("hello")
    asked = Counter()

    def counting(reader):
        def refusal(asked_for):
            if asked_for == path:
                asked[reader.name] += 1
            return reader.refusal(asked_for)

        return replace(reader, refusal=refusal)

    counted = {reader.name: counting(reader) for reader in FORMATS}
    monkeypatch.setattr(formats, "FORMATS", tuple(counted.values()))
    monkeypatch.setattr(formats, "_TOOLS", tuple(counted[tool.name] for tool in formats._TOOLS))
    if make == "text":
        with pytest.raises(UnknownFormatError):
            open_dump(path)
        assert asked == dict.fromkeys(counted, 1)
    else:
        taken = open_dump(path).format
        assert asked[taken] == 1
        assert set(asked.values()) == {1}


def test_the_home_folder_may_be_called_as_in_a_record(tmp_path, monkeypatch):
    np.save(tmp_path / "weight.npy", np.zeros(2))
    (tmp_path / "map.yaml").write_text("x.weight: y.weight\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_dump("~/weight.npy").names == ["weight"]
    assert read_mapping("~/map.yaml")
    # One that is really called so is meant, wherever somebody made it.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    np.save(tmp_path / "~" / "bias.npy", np.zeros(2))
    assert open_dump("~/bias.npy").names == ["bias"]


@pytest.mark.parametrize("inside", ["", "/weight.npy"])
def test_a_link_to_what_is_gone_says_where_it_leads(inside, tmp_path):
    (tmp_path / "run").symlink_to("/mnt/gone/run")
    with pytest.raises(FileNotFoundError, match="run is a link to /mnt/gone/run, which is not"):
        open_dump(f"{tmp_path}/run{inside}")
