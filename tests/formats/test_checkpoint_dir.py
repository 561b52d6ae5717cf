"""Folders of ranks: which file belongs to which rank and step, and what is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.checkpoint_dir import open_checkpoint_dir, refusal
from troubleshooter_nb.formats.ckpt import write_ckpt
from troubleshooter_nb.formats.safetensors_ import write_safetensors


def saved(path, value, names=("fc.weight", "fc.bias")):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.full(2, value, np.float32) for name in names}
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
        return

    def item(name, array):
        return Item(name, array.dtype, array.shape, lambda: [array])

    write = write_ckpt if path.suffix == ".ckpt" else write_safetensors
    write(path, [item(name, array) for name, array in arrays.items()])


def opened(path):
    return open_checkpoint_dir(path, label="x")


def places(dump):
    """(step, rank) of every first weight, with its value."""
    steps, ranks = dump.index["step"].values, dump.index["rank"].values
    return {
        (int(steps[row]), int(ranks[row])): float(dump.sources[row].read(0, 1)[0])
        for row, name in enumerate(dump.names)
        if name == "fc.weight"
    }


@pytest.mark.parametrize(
    "names",
    [
        ["rank_0/x.ckpt", "rank_1/x.ckpt"],
        ["rank0/x.safetensors", "rank1/y.npz"],
        ["rank-0/x.safetensors", "Rank_1/any.name.bin"],
        ["mp_rank_00/model_optim_rng.pt", "mp_rank_01/model_optim_rng.pt"],
        ["x_rank_0.ckpt", "x_rank_1.ckpt"],
        ["rank_0.ckpt", "rank_1.ckpt"],
        ["x-rank0.safetensors", "y-rank1.npz"],
    ],
    ids=str,
)
def test_each_rank_has_its_own_entries(tmp_path, names):
    for value, name in enumerate(names):
        saved(tmp_path / name, value)
    assert refusal(tmp_path) is None
    dump = opened(tmp_path)
    assert dump.format == "checkpoint_dir"
    assert places(dump) == {(0, 0): 0.0, (0, 1): 1.0}
    assert len(dump) == 4


@pytest.mark.parametrize(
    ("folders", "steps"),
    [
        (["iter_0000005", "iter_0000010"], [5, 10]),
        (["step_10", "step_2"], [10, 2]),
        (["global_step10", "global_step20"], [10, 20]),
        (["epoch_3", "epoch_4"], [3, 4]),
    ],
)
def test_folders_above_the_ranks_give_the_step(tmp_path, folders, steps):
    for number, folder in enumerate(folders):
        saved(tmp_path / folder / "mp_rank_00" / "m.ckpt", 10 * number)
        saved(tmp_path / folder / "mp_rank_01" / "m.ckpt", 10 * number + 1)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("10")
    dump = opened(tmp_path)
    expected = {
        (step, rank): 10.0 * number + rank for number, step in enumerate(steps) for rank in (0, 1)
    }
    assert places(dump) == expected
    assert dump.notes == ()
    # Opened by itself it is one state of the network, like any other checkpoint.
    assert set(opened(tmp_path / folders[0]).index["step"].values) == {0}


def test_steps_without_ranks_hold_one_checkpoint_each(tmp_path):
    saved(tmp_path / "step_1" / "net.ckpt", 1)
    saved(tmp_path / "step_2" / "net.ckpt", 2)
    (tmp_path / "step_3").mkdir()
    assert places(opened(tmp_path)) == {(1, 0): 1.0, (2, 0): 2.0}


def test_tensor_and_pipeline_ranks_are_numbered_in_order_and_it_is_said(tmp_path):
    for value, name in enumerate(["mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000"]):
        saved(tmp_path / name / "m.safetensors", value)
    dump = opened(tmp_path)
    assert places(dump) == {(0, 0): 0.0, (0, 1): 1.0, (0, 2): 2.0}
    assert "ranks numbered in the order of the folders: mp_rank_00_000 is 0," in dump.notes[0]


def test_one_checkpoint_without_rank_opens_as_rank_0(tmp_path):
    saved(tmp_path / "net.ckpt", 7)
    (tmp_path / "readme.txt").write_text("x")
    assert places(opened(tmp_path)) == {(0, 0): 7.0}


def test_several_checkpoints_of_one_rank_are_refused_with_their_names(tmp_path):
    saved(tmp_path / "rank_0" / "net-1_5.ckpt", 1)
    saved(tmp_path / "rank_0" / "net-2_5.ckpt", 2)
    saved(tmp_path / "rank_1" / "net-1_5.ckpt", 1)
    reason = "'rank_0' holds several checkpoints: net-1_5.ckpt, net-2_5.ckpt; open one of them"
    with pytest.raises(FormatError, match=reason):
        opened(tmp_path)
    assert refusal(tmp_path) == reason


def test_several_checkpoints_of_no_rank_are_refused_with_their_names(tmp_path):
    for number in range(6):
        saved(tmp_path / f"net-{number}_5.ckpt", number)
    reason = r"several checkpoints: net-0_5.ckpt, .* and 2 more; open one of them"
    with pytest.raises(FormatError, match=reason):
        opened(tmp_path)


@pytest.mark.parametrize(
    "names", [["rank_0/x.ckpt", "rank0/x.ckpt"], ["a_rank_0.ckpt", "b_rank_0.ckpt"]]
)
def test_a_rank_that_is_there_twice_is_refused(tmp_path, names):
    for name in names:
        saved(tmp_path / name, 1)
    with pytest.raises(FormatError, match="both are number 0; open one of them"):
        opened(tmp_path)


def test_a_rank_that_cannot_be_read_is_one_entry_with_a_reason(tmp_path):
    saved(tmp_path / "rank_0" / "x.ckpt", 0, ["module.fc.weight", "module.fc.bias"])
    saved(tmp_path / "rank_1" / "x.ckpt", 1)
    (tmp_path / "rank_1" / "x.ckpt").write_bytes(b"\x0a\xff")
    dump = opened(tmp_path)
    assert dump.names == ["fc.weight", "fc.bias", "x.ckpt"]
    assert list(dump.index["rank"].values) == [0, 0, 1]
    assert dump.index["reason"].values[2].startswith("x.ckpt: ")
    (tmp_path / "rank_0" / "x.ckpt").write_bytes(b"")
    with pytest.raises(FormatError, match=r"none of 2 checkpoints can be read; x.ckpt: empty file"):
        opened(tmp_path)


def test_what_the_ranks_say_is_said_once_with_their_folders(tmp_path):
    for rank in range(6):
        saved(tmp_path / f"rank_{rank}" / "x.safetensors", rank)
        with open(tmp_path / f"rank_{rank}" / "x.safetensors", "ab") as file:
            file.write(b"\0\0")
    note = "rank_0, rank_1, rank_2, rank_3 and 2 more: 2 bytes of the file belong to no tensor"
    assert opened(tmp_path).notes == (note,)


def test_what_is_left_aside_is_said(tmp_path):
    saved(tmp_path / "rank_0" / "x.ckpt", 0)
    saved(tmp_path / "merged.ckpt", 9)
    (tmp_path / "logs").mkdir()
    (tmp_path / "rank_1").mkdir()
    dump = opened(tmp_path)
    assert dump.notes == (
        "not opened: merged.ckpt",
        "left aside: logs",
        "rank_1 holds no checkpoint",
    )
    assert dump.unopened == ("merged.ckpt",)
    assert places(dump) == {(0, 0): 0.0}


def test_a_rank_with_two_tensors_of_one_name_is_one_entry_with_a_reason(tmp_path):
    saved(tmp_path / "rank_0" / "x.ckpt", 0)
    saved(tmp_path / "rank_1" / "x.ckpt", 1, ["a", "b", "c"])
    content = (tmp_path / "rank_1" / "x.ckpt").read_bytes()[:-22]  # without its CRC-32
    (tmp_path / "rank_1" / "x.ckpt").write_bytes(content.replace(b"\x01c", b"\x01a"))
    dump = opened(tmp_path)
    assert dump.index["reason"].values[-1].startswith("x.ckpt: 2 tensors are called 'a'")
    assert len(dump) == 3


def test_a_rank_that_cannot_be_searched_leaves_the_others(tmp_path, monkeypatch):
    saved(tmp_path / "rank_0" / "x.ckpt", 0)
    saved(tmp_path / "rank_1" / "x.ckpt", 1)
    scandir = os.scandir

    def refusing(folder):
        if str(folder).endswith("rank_1"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    dump = opened(tmp_path)
    assert places(dump) == {(0, 0): 0.0}
    assert dump.notes == ("rank_1 was not searched: Permission denied",)


def test_links_to_folders_are_not_followed(tmp_path):
    saved(tmp_path / "rank_0" / "x.ckpt", 0)
    (tmp_path / "rank_1").symlink_to("rank_0")
    dump = opened(tmp_path)
    assert places(dump) == {(0, 0): 0.0}
    assert dump.notes == ("rank_1 is a link to a folder: not followed",)


def test_hidden_files_are_none_of_it(tmp_path):
    saved(tmp_path / "rank_0" / "x.ckpt", 0)
    (tmp_path / "rank_0" / "._x.ckpt").write_bytes(b"x")
    (tmp_path / ".rank_1").mkdir()
    assert places(opened(tmp_path)) == {(0, 0): 0.0}


def test_dumps_of_other_tools_are_not_taken(tmp_path):
    (tmp_path / "step0" / "rank0" / "dump_tensor_data").mkdir(parents=True)
    (tmp_path / "step0" / "rank0" / "dump.json").write_text("{}")
    (tmp_path / "step0" / "rank0" / "dump_tensor_data" / "x.pt").write_bytes(b"x")
    assert refusal(tmp_path).startswith("no checkpoint in ")
    assert refusal(tmp_path / "step0").startswith("no checkpoint in ")
    assert refusal(tmp_path / "nowhere") == "no folder"
    with pytest.raises(FormatError, match=r"no checkpoint in .* below step0; they end in .ckpt"):
        opened(tmp_path)


def test_a_pipe_called_like_a_checkpoint_does_not_make_us_wait(tmp_path):
    saved(tmp_path / "rank_0" / "x.ckpt", 0)
    (tmp_path / "rank_1").mkdir()
    os.mkfifo(tmp_path / "rank_1" / "x.ckpt")
    assert "not a file with contents" in opened(tmp_path).index["reason"].values[-1]


@pytest.mark.torch
def test_ranks_of_torch_open(tmp_path):
    import torch

    for rank in (0, 1):
        folder = tmp_path / "iter_0000005" / f"mp_rank_{rank:02}"
        folder.mkdir(parents=True)
        content = {"model": {"fc.weight": torch.full((2,), rank)}, "iteration": 5}
        torch.save(content, folder / "model_optim_rng.pt")
    dump = opened(tmp_path)
    weights = dump.select(role="parameter")
    assert list(weights.index["rank"].values) == [0, 1]
    assert set(weights.index["step"].values) == {5}
