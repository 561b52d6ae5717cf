"""A new run into a place that is used: an error, a new place, or a replacement; never a mix."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.formats.test_aside import killed_saves
from troubleshooter_nb.errors import ArgumentError

OLD, NEW = {"a": np.zeros(2), "sub/b": np.zeros(2)}, {"a": np.ones(2)}


def held(path: Path) -> list[float]:
    dump = tnb.open_dump(path)
    return [dump.array(name)[0] for name in dump.names]


@pytest.mark.parametrize("name", ["run", "x.pth", "x.safetensors"])
def test_a_used_place_is_refused_with_error(tmp_path, name):
    path = tnb.save_dump(OLD, tmp_path / name, exist="error")
    with pytest.raises(ArgumentError, match="is there already"):
        tnb.save_dump(NEW, path, exist="error")
    assert held(path) == [0, 0]


@pytest.mark.parametrize(
    ("name", "others"), [("run", ["run-2", "run-3"]), ("x.pth", ["x-2.pth", "x-3.pth"])]
)
def test_new_takes_the_next_free_number(tmp_path, name, others):
    paths = [tnb.save_dump(NEW, tmp_path / name, exist="new") for _ in range(3)]
    assert [path.name for path in paths] == [name, *others]
    assert all(held(path) == [1] for path in paths)


def test_an_empty_folder_is_free(tmp_path):
    (tmp_path / "run").mkdir()
    assert tnb.save_dump(NEW, tmp_path / "run", exist="new") == tmp_path / "run"


def test_replace_leaves_nothing_of_the_arrays_before_and_everything_else(tmp_path):
    path = tnb.save_dump(OLD, tmp_path / "run")
    (path / "notes.txt").write_text("mine")
    tnb.save_dump(NEW, path, exist="replace")
    assert held(path) == [1]
    assert (path / "notes.txt").read_text() == "mine"
    assert os.listdir(path / "sub") == []


def test_a_replacement_that_is_killed_is_old_or_new_or_said_not_to_be_whole(tmp_path):
    folders = killed_saves(tmp_path, "dict(exist='replace')")
    for folder in folders:
        said = {getattr(note, "id", note) for note in tnb.open_dump(folder).notes}
        assert len({*held(folder)}) == 1 or "files.not_whole" in said


def test_a_replacement_that_breaks_off_before_old_arrays_are_gone_says_so(tmp_path, monkeypatch):
    path = tnb.save_dump(OLD, tmp_path / "run")

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "unlink", broken)
    with pytest.raises(OSError, match="Input/output error"):
        tnb.save_dump(NEW, path, exist="replace")
    monkeypatch.undo()
    assert sorted(held(path)) == [0, 1]
    assert [note.id for note in tnb.open_dump(path).notes] == ["files.not_whole"]
    tnb.save_dump(NEW, path, exist="replace")
    assert (held(path), tnb.open_dump(path).notes) == ([1], ())


def test_without_a_word_arrays_are_added_with_a_warning(tmp_path):
    path = tnb.save_dump(OLD, tmp_path / "run")
    with pytest.warns(tnb.TroubleshooterWarning, match="holds 1 arrays of an earlier save"):
        tnb.save_dump(NEW, path)


@pytest.mark.parametrize("exist", ["overwrite", "", True])
def test_another_word_is_refused(tmp_path, exist):
    with pytest.raises(ArgumentError, match="exist takes one of 'error', 'new', 'replace'"):
        tnb.save_dump(NEW, tmp_path / "run", exist=exist)


@pytest.mark.torch
def test_a_recording_says_what_it_does_with_an_earlier_one(tmp_path):
    import torch

    net = torch.nn.Linear(2, 2)

    def recorded(**how: str) -> Path:
        with tnb.record(net, to=tmp_path / "run", **how) as recording:
            net(torch.ones(1, 2))
        return recording.folder

    places = [recorded(exist=exist) for exist in ("error", "new", "replace", "new")]
    assert [place.name for place in places] == ["run", "run-2", "run", "run-3"]
    assert recorded() == tmp_path / "run"
    with pytest.raises(ArgumentError, match="is there already"):
        recorded(exist="error")
    with pytest.raises(ArgumentError, match="exist takes one of"):
        recorded(exist="add")
    assert {len(tnb.open_dump(place)) for place in places} == {len(tnb.open_dump(places[0]))}
