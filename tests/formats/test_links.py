"""A link of a dump that leads out of its folder is not read; nothing but a regular file ever is."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.errors import FormatError, TroubleshooterError

DATA = Path(__file__).parents[1] / "data"
MSPROBE = DATA / "msprobe" / "v26_2_0" / "torch" / "t_mlp_mix_tensor"
NET = {"a.weight": np.arange(6.0).reshape(2, 3), "b.weight": np.ones(4)}


def moved_out(path: Path, elsewhere: Path) -> None:
    """Put a link to a folder outside in the place of a file or folder."""
    elsewhere.mkdir(exist_ok=True)
    os.rename(path, elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)


def reasons(dump: tnb.Dump) -> dict[str, str]:
    """Why entries have no values, by name."""
    columns = zip(dump.names, dump.index["reason"].values.tolist(), strict=True)
    return {name: str(reason) for name, reason in columns if reason}


def noted(dump: tnb.Dump, text: str) -> bool:
    return any(text in note for note in dump.notes)


def test_an_array_that_a_link_leads_to_is_an_unreadable_entry_with_a_note(tmp_path):
    folder = tnb.save_dump(NET, tmp_path / "run")
    moved_out(folder / "a.weight_float64_0.npy", tmp_path / "elsewhere")
    dump = tnb.open_dump(folder)
    (reason,) = reasons(dump).values()
    assert reason.startswith(f"a link out of the folder, to {tmp_path / 'elsewhere'}")
    assert noted(
        dump, "1 file is not read, as links lead out of the folder: a.weight_float64_0.npy"
    )
    assert noted(dump, 'set_options(links="anywhere")')
    np.testing.assert_array_equal(dump.array("b.weight_float64_1"), NET["b.weight"])


def test_the_option_follows_it(tmp_path):
    folder = tnb.save_dump(NET, tmp_path / "run")
    moved_out(folder / "a.weight_float64_0.npy", tmp_path / "elsewhere")
    with tnb.option_context(links="anywhere"):
        dump = tnb.open_dump(folder)
    assert not reasons(dump)
    assert not dump.notes
    np.testing.assert_array_equal(dump.array("a.weight_float64_0"), NET["a.weight"])


@pytest.mark.parametrize("way", ["the folder", "a file", "above", "relative"])
def test_a_path_that_is_a_link_itself_opens(tmp_path, monkeypatch, way):
    folder = tnb.save_dump(NET, tmp_path / "run")
    link = tmp_path / "links" / "here"
    link.parent.mkdir()
    if way == "a file":
        link = link.with_suffix(".npy")
        link.symlink_to(folder / "a.weight_float64_0.npy")
    elif way == "above":
        (tmp_path / "up").symlink_to(tmp_path)
        link = tmp_path / "up" / "run"
    else:
        link.symlink_to(folder)
    if way == "relative":
        monkeypatch.chdir(link)
        link = Path()
    dump = tnb.open_dump(link)
    assert (reasons(dump), dump.notes) == ({}, ())


def test_links_within_the_folder_are_followed(tmp_path):
    folder = tnb.save_dump(NET, tmp_path / "run")
    (folder / "kept").mkdir()
    os.rename(folder / "a.weight_float64_0.npy", folder / "kept" / "blob")
    (folder / "a.weight_float64_0.npy").symlink_to("kept/blob")
    assert reasons(tnb.open_dump(folder)) == {}


def test_a_download_cache_opens_with_its_blobs_and_nothing_else(tmp_path):
    snapshot = tmp_path / "run" / "snapshots" / "12ab"
    blobs = tmp_path / "run" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    os.rename(tnb.save_dump(NET, tmp_path / "x.safetensors"), blobs / "0123")
    (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
    assert reasons(tnb.open_dump(snapshot)) == {}
    moved_out(blobs / "0123", tmp_path / "elsewhere")
    assert len(tnb.open_dump(snapshot / "model.safetensors")) == 2  # a file that is given itself
    with pytest.raises(FormatError, match=r"model\.safetensors: a link out of the folder, to"):
        tnb.open_dump(snapshot)


def test_a_shard_of_an_index_is_refused_with_its_names(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for number, (name, values) in enumerate(NET.items()):
        tnb.save_dump({name: values}, folder / f"m-{number}.safetensors")
    places = ", ".join(f'"{name}": "m-{n}.safetensors"' for n, name in enumerate(NET))
    index = folder / "model.safetensors.index.json"
    index.write_text(f'{{"weight_map": {{{places}}}}}')
    moved_out(folder / "m-1.safetensors", tmp_path / "elsewhere")
    for path in (folder, index):
        dump = tnb.open_dump(path, format="sharded")
        assert "a link out of the folder" in reasons(dump)["b.weight"]
        assert noted(dump, "m-1.safetensors")


@pytest.mark.parametrize("what", ["", "dump.json"])
def test_a_rank_of_msprobe_that_leads_elsewhere_is_not_read(tmp_path, what):
    shutil.copytree(MSPROBE, tmp_path / "run")
    moved_out(tmp_path / "run" / "step0" / "proc1000" / what, tmp_path / "elsewhere")
    dump = tnb.open_dump(tmp_path / "run")
    assert noted(dump, "links lead out of the folder: ")
    # Without its json the tensors are found by the names of their files.
    is_read = what == "dump.json"
    assert {bool(source and source.files()) for source in dump.sources} == {is_read}


def test_a_folder_of_arrays_that_leads_elsewhere_is_not_read(tmp_path):
    shutil.copytree(MSPROBE, tmp_path / "run")
    (arrays,) = (tmp_path / "run").rglob("dump_tensor_data")
    moved_out(arrays, tmp_path / "elsewhere")
    dump = tnb.open_dump(tmp_path / "run")
    assert all(source is None or not source.files() for source in dump.sources)
    assert len(reasons(dump)) > 10
    assert noted(dump, "links lead out of the folder: ")


@pytest.fixture
def recording(tmp_path):
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(2, 2)
    with tnb.record(net, to=tmp_path / "run"):
        net(torch.ones(1, 2))
    return tmp_path / "run"


@pytest.mark.torch
@pytest.mark.parametrize("what", ["index.jsonl", ""])
def test_a_rank_of_a_recording_that_leads_elsewhere_is_not_read(recording, tmp_path, what):
    moved_out(recording / "rank0" / what, tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="links lead out of the folder"):
        tnb.open_dump(recording)


@pytest.mark.torch
def test_values_of_a_recording_that_lie_elsewhere_are_not_read(recording, tmp_path):
    moved_out(recording / "rank0" / "data-0.bin", tmp_path / "elsewhere")
    dump = tnb.open_dump(recording)
    assert all("a link out of the folder" in reason for reason in reasons(dump).values())
    assert all(source is None for source in dump.sources)


@pytest.mark.parametrize("kind", ["pipe", "device", "socket", "link to a device"])
@pytest.mark.parametrize(
    "read",
    [
        tnb.open_series,
        tnb.open_dump,
        tnb.open_comparison,
        tnb.read_weight_map,
        lambda path: tnb.pair_dumps(NET, NET, mapping=path),
        lambda path: tnb.open_dump(path, format="print_text"),
        lambda path: tnb.open_dump(path, format="npy_dir"),
        lambda path: tnb.open_dump(path, format="npz"),
        lambda path: tnb.open_dump(path, format="pth"),
    ],
)
@pytest.mark.parametrize("suffix", [".log", ".json", ".nc", ".yaml", ".npy"])
def test_what_is_no_regular_file_is_refused_and_not_read(tmp_path, kind, read, suffix):
    path = tmp_path / f"x{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.fspath(path))
        server.close()
    elif kind == "device":
        path = Path("/dev/zero")
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(TroubleshooterError, match=r"not a file|neither a folder|no .npy files"):
        read(path)


@pytest.mark.parametrize("name", ["run_card.json", "trainer_state.json", "b.npy", "step_3.pth"])
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path, name):
    np.save(tmp_path / "a.npy", np.ones(2))
    tnb.save_dump(NET, tmp_path / "step_1.pth")
    os.mkfifo(tmp_path / name)
    for read in (tnb.open_dump, tnb.open_series):
        assert len(read(tmp_path)) >= 1


def test_a_file_that_became_a_pipe_is_said_to_have_changed(tmp_path):
    path = tnb.save_dump(NET, tmp_path / "x.safetensors")
    dump = tnb.open_dump(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(tnb.ReadError, match="changed since it was opened"):
        dump.array("a.weight")
