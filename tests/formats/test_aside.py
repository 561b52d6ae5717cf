"""What is written is whole or absent, or said not to be whole; what a killed writer left goes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb import open_dump, save_dump
from troubleshooter_nb.errors import UnknownFormatError
from troubleshooter_nb.formats import aside

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked and killed")

OLD = {f"{name}": np.zeros(3) for name in "abcdefgh"}
NEW = {f"{name}": np.ones(3) for name in "abcdefgh"}

# Saves over an old dump once for every call of the system that puts something in its place, each
# time in a process that is killed just before that call.
KILLED = """
import os, signal, sys
import numpy as np
from troubleshooter_nb import save_dump

CALLS = ("replace", "rename", "unlink", "mkdir", "rmdir")
whole = {name: getattr(os, name) for name in CALLS}

def run(folder, left):
    def counted(call):
        def perhaps(*args, **kwargs):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)
        return perhaps
    for name, call in whole.items():
        setattr(os, name, counted(call))
    save_dump({name: np.ones(3) for name in "abcdefgh"}, folder, **eval(sys.argv[2]))
    os._exit(0)

for number in range(200):
    folder = f"{sys.argv[1]}/{number}"
    save_dump({name: np.zeros(3) for name in "abcdefgh"}, folder)
    child = os.fork()
    if not child:
        run(folder, number)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
"""


def killed_saves(folder: Path, how: str = "{}") -> list[Path]:
    """What processes left that were killed at each step of a save, and of one that was not."""
    subprocess.run([sys.executable, "-c", KILLED, os.fspath(folder), how], check=True)
    return in_order(folder)


def in_order(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: int(path.name))


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return killed_saves(tmp_path_factory.mktemp("killed"))


def ids(dump: tnb.Dump) -> set[str]:
    return {getattr(note, "id", note) for note in dump.notes}


def kinds(dump: tnb.Dump) -> set[str]:
    """Which of the saves its arrays are of."""
    return {"new" if dump.array(name).all() else "old" for name in dump.names}


def left_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith((".writing-", ".placing-"))]


def test_a_save_killed_at_any_step_is_old_or_new_or_said_not_to_be_whole(killed):
    found = set()
    for folder in killed[:-1]:
        dump = open_dump(folder)
        assert len(dump) == len(OLD)
        is_whole = "files.not_whole" not in ids(dump)
        assert len(kinds(dump)) == 1 or not is_whole
        assert bool(left_in(folder)) == bool({"files.not_whole", "files.left_behind"} & ids(dump))
        found.add((*sorted(kinds(dump)), is_whole))
    assert {("old", True), ("new", "old", False), ("new", True)} <= found | {("new", True)}
    assert kinds(open_dump(killed[-1])) == {"new"}
    assert open_dump(killed[-1]).notes == ()


def test_a_dump_that_is_not_whole_leaves_a_comparison_open(killed):
    half = next(f for f in killed if "files.not_whole" in ids(open_dump(f)))
    cmp = tnb.compare(half, half)
    assert cmp.exit_code == 2
    assert "not whole" in str(cmp)


def test_the_next_save_finishes_what_was_begun_and_removes_what_was_left(killed, tmp_path):
    shutil.copytree(killed[0].parent, tmp_path / "saves")
    for folder in in_order(tmp_path / "saves")[:-1]:
        was_half = "files.not_whole" in ids(open_dump(folder))
        with pytest.warns(tnb.TroubleshooterWarning, match="holds 8 arrays"):
            save_dump({"other": np.ones(1)}, folder)
        dump = open_dump(folder)
        assert (left_in(folder), dump.notes) == ([], ())
        assert len(kinds(dump.select(name="?_*"))) == 1 or not was_half


def test_what_lives_is_left_alone_and_said(tmp_path):
    save_dump(OLD, tmp_path / "d")
    with aside.files_placed(tmp_path / "d") as writing:
        (writing / "x").write_text("1")
        assert "files.written_now" in ids(open_dump(tmp_path / "d"))
        with pytest.warns(tnb.TroubleshooterWarning):
            save_dump({"y": np.ones(1)}, tmp_path / "d")
    assert (tmp_path / "d" / "x").read_text() == "1"


def dead_process() -> int:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return child


@pytest.fixture
def dead(monkeypatch):
    """Names that are given now are those of a process that is gone."""
    process = dead_process()
    monkeypatch.setattr(aside.os, "getpid", lambda: process)


def test_what_was_left_beside_a_file_is_named_and_removed_by_its_next_writer(tmp_path, dead):
    file = tmp_path / "x.safetensors"
    save_dump(NEW, file)
    other = tmp_path / aside._name_for(tmp_path / "other.safetensors")
    ours = tmp_path / aside._name_for(file)
    for left in (other, ours):
        left.write_bytes(b"half")
    (note,) = open_dump(file).notes
    assert note.id == "files.left_behind"
    assert note.values["names"] == [ours.name]
    save_dump(NEW, file)
    assert os.listdir(tmp_path) == [file.name]


def test_what_is_of_another_machine_or_version_stays_and_is_said(tmp_path, dead, monkeypatch):
    save_dump(OLD, tmp_path / "d")
    monkeypatch.setattr(aside.platform, "node", lambda: "elsewhere")
    (tmp_path / "d" / aside._name_for(tmp_path / "d")).mkdir()
    monkeypatch.undo()
    (tmp_path / "d" / ".writing-k3jf8s_x").mkdir()
    save_dump(OLD, tmp_path / "d")
    (note,) = open_dump(tmp_path / "d").notes
    assert note.id == "files.left_elsewhere"
    assert len(note.values["names"]) == 2


def test_a_folder_that_holds_nothing_but_what_was_left_says_so(tmp_path, dead):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / aside._name_for(tmp_path / "d")).mkdir()
    with pytest.raises(UnknownFormatError, match="a writer that was cut off left"):
        open_dump(tmp_path / "d")


def test_a_folder_from_elsewhere_reaches_no_file_outside(tmp_path, dead):
    (tmp_path / "kept.npy").write_bytes(b"kept")
    (tmp_path / "out").mkdir()
    folder = save_dump(OLD, tmp_path / "d")
    (folder / "link").symlink_to(tmp_path / "out")
    placing = folder / aside._name_for(folder).replace(".writing-", ".placing-")
    (placing / "link").mkdir(parents=True)
    (placing / "link" / "x.npy").write_bytes(b"x")
    (placing / ".going.json").write_text(json.dumps(["../kept.npy", str(tmp_path / "kept.npy")]))
    save_dump(OLD, folder)
    assert (tmp_path / "kept.npy").read_bytes() == b"kept"
    assert os.listdir(tmp_path / "out") == []
    assert left_in(folder) == []


@pytest.mark.parametrize("suffix", [".csv", ".html", ".json", ".md", ".txt", ".xlsx", ".nc"])
def test_an_export_that_fails_leaves_the_old_file(tmp_path, suffix, monkeypatch):
    cmp = tnb.compare(OLD, NEW)
    file = tnb.export(cmp, tmp_path / f"x{suffix}")
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(aside.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        tnb.export(cmp, file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == [file.name]
