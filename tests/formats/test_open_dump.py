"""The one door: the format is recognised, and a refusal says what each reader said."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb import open_dump, save_dump
from troubleshooter_nb.errors import FormatError, UnknownFormatError
from troubleshooter_nb.formats import FORMATS


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


def test_a_dangling_link_is_missing(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        open_dump(tmp_path / "link")


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
