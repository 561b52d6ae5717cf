"""Sharded checkpoints: what the index says, what the shards hold, and what is missing between."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.safetensors_ import write_safetensors
from troubleshooter_nb.formats.sharded import open_sharded, refusal

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def saved(path, arrays):
    def item(name, array):
        return Item(name, array.dtype, array.shape, lambda: [array.reshape(-1)])

    write_safetensors(path, [item(name, array) for name, array in arrays.items()])


def index(folder, weight_map, name="model.safetensors.index.json"):
    path = folder / name
    content = {"metadata": {"total_size": 8}, "weight_map": weight_map}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def folder(tmp_path):
    """Two shards and their index."""
    saved(tmp_path / FIRST, {"b.weight": np.arange(3.0), "b.bias": np.ones(1)})
    saved(tmp_path / SECOND, {"a.weight": np.arange(4.0)})
    index(tmp_path, {"b.weight": FIRST, "b.bias": FIRST, "a.weight": SECOND})
    return tmp_path


def opened(path):
    return open_sharded(path, label="x")


def reasons(dump):
    return dict(zip(dump.names, dump.index["reason"].values, strict=True))


@pytest.mark.parametrize("whole_folder", [False, True])
def test_all_shards_open_as_one_dump_in_the_order_of_the_index(folder, whole_folder):
    path = folder if whole_folder else folder / "model.safetensors.index.json"
    assert refusal(path) is None
    dump = opened(path)
    assert dump.format == "sharded"
    assert dump.names == ["b.weight", "b.bias", "a.weight"]
    np.testing.assert_array_equal(dump.array("a.weight"), np.arange(4.0))
    np.testing.assert_array_equal(dump.array("b.weight"), np.arange(3.0))
    assert dump.notes == ()


@pytest.mark.parametrize("missing", ["gone", "damaged", "a folder"])
def test_names_of_a_shard_that_cannot_be_read_have_a_reason(folder, missing):
    (folder / SECOND).unlink()
    if missing == "damaged":
        (folder / SECOND).write_bytes(b"\5\0")
    elif missing == "a folder":
        (folder / SECOND).mkdir()
    dump = opened(folder)
    said = reasons(dump)
    assert said["b.weight"] == ""
    assert said["a.weight"].startswith(f"{SECOND}: ")
    assert dump.notes == ("incomplete: 1 of 3 tensors cannot be read",)


def test_an_index_without_any_of_its_files_is_refused(folder):
    (folder / FIRST).unlink()
    (folder / SECOND).unlink()
    with pytest.raises(FormatError, match=r"none of its 2 files can be read; .*No such file"):
        opened(folder)


def test_a_name_its_shard_does_not_hold_has_a_reason(folder):
    index(folder, {"b.weight": FIRST, "c.weight": SECOND, "a.weight": SECOND, "b.bias": FIRST})
    assert f"{SECOND} does not hold it" in reasons(opened(folder))["c.weight"]


def test_what_only_the_shards_name_is_included_and_said(folder):
    index(folder, {"b.weight": FIRST, "a.weight": SECOND})
    dump = opened(folder)
    assert dump.names == ["b.weight", "a.weight", "b.bias"]
    assert dump.notes == ("in the shards, but not in model.safetensors.index.json: b.bias",)


def test_a_name_in_the_wrong_shard_too_is_read_from_the_one_the_index_says(folder):
    saved(folder / SECOND, {"a.weight": np.arange(4.0), "b.bias": np.zeros(1)})
    dump = opened(folder)
    np.testing.assert_array_equal(dump.array("b.bias"), np.ones(1))


@pytest.mark.parametrize(
    "place", ["../x.safetensors", "/etc/passwd", "sub/x", "..", ".", "", "c:x", "a\\b", "a\0b", 3]
)
def test_files_outside_the_folder_are_refused(folder, place):
    path = index(folder, {"b.weight": FIRST, "a.weight": place})
    with pytest.raises(FormatError, match=r"puts 'a.weight' into .*no file name of its own folder"):
        opened(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"[]", "the index is no JSON object"),
        (b"{", "the index is no JSON"),
        (b"\xff", "the index is no JSON"),
        (b"{}", "no weight_map of names and files"),
        (b'{"weight_map": {}}', "no weight_map of names and files"),
        (b'{"weight_map": [1]}', "no weight_map of names and files"),
        (b'{"weight_map": {"a": "x", "a": "y"}}', "has 'a' twice"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path, content, reason):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"^model.safetensors.index.json: .*{reason}"):
        opened(path)


def test_an_index_of_more_than_a_hundred_megabytes_is_not_read(tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_bytes(b"{}")
    os.truncate(path, 100_000_001)
    with pytest.raises(FormatError, match="an index of 100,000,001 bytes is not read"):
        opened(path)


def test_a_folder_of_one_file_opens_as_that(tmp_path):
    saved(tmp_path / "model.safetensors", {"w": np.ones(2)})
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "optimizer.pt").write_bytes(b"x")
    assert refusal(tmp_path) is None
    assert opened(tmp_path).names == ["w"]


def test_a_folder_with_two_indexes_is_refused_with_their_names(folder):
    index(folder, {"w": "pytorch_model-1.bin"}, "pytorch_model.bin.index.json")
    assert "model.safetensors.index.json, pytorch_model.bin.index.json; open one" in refusal(folder)
    with pytest.raises(FormatError, match="open one of them"):
        opened(folder)
    assert len(opened(folder / "model.safetensors.index.json")) == 3


def test_other_paths_are_not_taken(tmp_path):
    assert "a folder without *.index.json" in refusal(tmp_path)
    (tmp_path / "x.json").write_text("{}")
    assert refusal(tmp_path / "x.json") == "a file, but not called *.index.json"
    assert refusal(tmp_path / "nowhere") == "neither a folder nor a file"


def test_shards_that_are_links_open_as_a_download_cache_keeps_them(folder):
    blobs = folder / "blobs"
    blobs.mkdir()
    os.rename(folder / FIRST, blobs / "0123abcd")
    (folder / FIRST).symlink_to("blobs/0123abcd")
    np.testing.assert_array_equal(opened(folder).array("b.weight"), np.arange(3.0))


def test_a_shard_of_no_known_format_says_what_each_reader_said(folder):
    (folder / "part.dat").write_bytes(b"some text")
    index(folder, {"b.weight": FIRST, "a.weight": "part.dat"})
    said = reasons(opened(folder))["a.weight"]
    assert said.startswith("part.dat: no checkpoint of a known format (safetensors: does not begin")
    assert "; npz: no zip archive" in said


@pytest.mark.torch
def test_shards_of_torch_open(tmp_path):
    import torch

    torch.save({"a.weight": torch.arange(3.0)}, tmp_path / "pytorch_model-1.bin")
    torch.save({"b.weight": torch.ones(2)}, tmp_path / "pytorch_model-2.bin")
    places = {"a.weight": "pytorch_model-1.bin", "b.weight": "pytorch_model-2.bin"}
    index(tmp_path, places, "pytorch_model.bin.index.json")
    dump = opened(tmp_path)
    np.testing.assert_array_equal(dump.array("a.weight"), np.arange(3.0, dtype=np.float32))
