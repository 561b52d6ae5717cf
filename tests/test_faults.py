"""Disks that are full or broken, and files that change under a reader."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.formats.recorded import recorded
from troubleshooter_nb import (
    compare,
    convert_weights,
    draft_weight_map,
    export,
    open_dump,
    save_dump,
    verify,
)
from troubleshooter_nb.formats import aside, file_source

resource = pytest.importorskip("resource", reason="this system has no limits of files")

DRAW = np.random.default_rng(0)
OLD = {f"w{n}": DRAW.standard_normal((30, 40)) for n in range(6)}
NEW = {name: array + 1 for name, array in OLD.items()}
SUFFIXES = [".html", ".csv", ".json", ".xlsx", ".md", ".txt", ".nc"]


@contextlib.contextmanager
def no_file_longer_than(size):
    """The system refuses to write behind so many bytes of any file, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def exported(suffix):
    def write(arrays, folder):
        if suffix == ".xlsx":
            pytest.importorskip("openpyxl")
        if suffix == ".nc":
            pytest.importorskip("netCDF4")
        return export(compared(arrays is NEW), folder / f"cmp{suffix}")

    return write


@functools.cache
def compared(is_new):
    return compare(NEW if is_new else OLD, OLD)


def checkpoint(suffix):
    return lambda arrays, folder: save_dump(arrays, folder / f"net{suffix}")


def converted(arrays, folder):
    source = folder.parent / f"{'new' if arrays is NEW else 'old'}.pth"
    if not source.exists():
        save_dump(arrays, source)
    convert_weights(source, folder / "net.ckpt", draft_weight_map(source, source))
    return folder / "net.ckpt"


WRITERS = {
    "save_dump": lambda arrays, folder: save_dump(arrays, folder / "dump"),
    "convert": converted,
    **{f"save_dump {suffix}": checkpoint(suffix) for suffix in (".ckpt", ".pth", ".safetensors")},
    **{f"export {suffix}": exported(suffix) for suffix in SUFFIXES},
}


def contents(folder):
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize("kind", WRITERS)
def test_a_disk_that_takes_no_more_leaves_the_old_and_nothing_else(kind, tmp_path):
    folder, other = made(tmp_path / "place"), made(tmp_path / "other")
    WRITERS[kind](OLD, folder)
    WRITERS[kind](NEW, other)
    before, after = contents(folder), contents(other)
    largest = max(map(len, after.values()))
    for size in (largest // 2, largest - 1):
        with pytest.raises(OSError, match=r"."), no_file_longer_than(size):
            WRITERS[kind](NEW, folder)
        assert contents(folder) == before, size
    WRITERS[kind](NEW, folder)
    assert contents(folder).keys() == before.keys()


def made(folder):
    folder.mkdir()
    return folder


REFUSED = [("replace", errno.EACCES), ("mkdir", errno.ENOSPC), ("rename", errno.EIO)]


@pytest.mark.parametrize(("call", "code"), REFUSED)
@pytest.mark.parametrize("kind", ["save_dump", "convert", "save_dump .pth", "export .csv"])
def test_a_system_that_refuses_a_call_leaves_the_old(kind, call, code, tmp_path, monkeypatch):
    folder = tmp_path / "place"
    folder.mkdir()
    written = WRITERS[kind](OLD, folder)
    before = contents(folder)
    whole, refused = getattr(os, call), []

    def refuse(path, *args, **kwargs):
        is_made = call == "mkdir" and os.path.isdir(path)
        if is_made or not os.fspath(path).startswith(os.fspath(folder)):
            return whole(path, *args, **kwargs)
        refused.append(path)
        raise OSError(code, os.strerror(code), os.fspath(path))

    monkeypatch.setattr(os, call, refuse)
    with contextlib.suppress(OSError):
        WRITERS[kind](NEW, folder)
        assert not refused
    monkeypatch.undo()
    if refused and (kind, call) != ("save_dump", "replace"):
        assert contents(folder) == before
    if (kind, call) == ("save_dump", "replace"):
        # Some files have taken their places, perhaps: the dump says so, and the next save ends it.
        assert "files.not_whole" in {note.id for note in open_dump(written).notes} or (
            contents(folder) == before
        )
    WRITERS[kind](NEW, folder)
    assert not [name for name in contents(folder) if ".writing-" in name or ".placing-" in name]


def archive(arrays, folder):
    np.savez(folder / "net.npz", **arrays)
    return folder / "net.npz"


READ = {
    "npy_dir": WRITERS["save_dump"],
    **{suffix: checkpoint(suffix) for suffix in (".ckpt", ".pth", ".safetensors")},
    "npz": archive,
    "recording": recorded,
}


def file_of(dump):
    """The file of its first tensor, and where its values begin."""
    source = dump.sources[0]
    return source.path, source.spans[0][0]


def vanishes(file, _):
    os.unlink(file)


def shrinks(file, _):
    os.truncate(file, os.path.getsize(file) - 8)


def grows(file, _):
    with open(file, "ab") as stream:
        stream.write(b"more")


def is_a_folder(file, _):
    os.unlink(file)
    os.mkdir(file)


def is_rewritten(file, begin):
    with open(file, "r+b") as stream:
        stream.seek(begin)
        stream.write(b"12345678")
    status = os.stat(file)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def is_rewritten_unseen(file, begin):
    """With the size and time of before."""
    status = os.stat(file)
    is_rewritten(file, begin)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("happens", [vanishes, shrinks, grows, is_a_folder, is_rewritten])
@pytest.mark.parametrize("kind", READ)
def test_a_file_that_changed_after_opening_is_said_and_never_compared(kind, happens, tmp_path):
    left, right = (open_dump(READ[kind](OLD, made(tmp_path / side))) for side in ("left", "right"))
    file, begin = file_of(left)
    happens(file, begin)
    found = compare(left, right)
    hit = np.array([file in source.files() for source in left.sources])
    assert set(found.result["verdict"].values[: len(hit)][hit]) == {"unreadable"}
    assert found.exit_code == 2
    assert found.result["passed"].values[: len(hit)][~hit].all()
    assert os.path.basename(file) in "".join(found.result["reason"].values)


@pytest.mark.parametrize("kind", READ)
def test_what_size_and_time_do_not_tell_a_checksum_does(kind, tmp_path):
    left = READ[kind](OLD, made(tmp_path / "left"))
    is_rewritten_unseen(*file_of(open_dump(left)))
    assert verify(left).exit_code == 1
    if kind in ("npz", "recording"):  # whose readers look by themselves
        found = compare(left, READ[kind](OLD, made(tmp_path / "right")))
        assert "unreadable" in set(found.result["verdict"].values)
        assert found.exit_code == 2


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ESTALE])
@pytest.mark.parametrize("call", ["_read_at", "_descriptor"])
def test_a_disk_that_fails_to_read_costs_what_it_holds(call, code, tmp_path, monkeypatch):
    left, right = (save_dump(OLD, tmp_path / side) for side in ("left", "right"))
    dumps = open_dump(left), open_dump(right)
    whole, bad = getattr(file_source, call), os.fspath(left / "w2_float64_2.npy")

    def fails(file, *args):
        path = file if isinstance(file, str) else os.readlink(f"/proc/self/fd/{file}")
        if path != bad:
            return whole(file, *args)
        problem = OSError(code, os.strerror(code))
        raise file_source._not_read(path, problem) if call == "_descriptor" else problem

    if call == "_read_at" and sys.platform != "linux":
        pytest.skip("which file a descriptor is of is not told here")
    monkeypatch.setattr(file_source, call, fails)
    found = compare(*dumps)
    assert found.exit_code == 2
    verdicts = dict(zip(found.result["left"].values, found.result["verdict"].values, strict=True))
    assert [name for name, said in verdicts.items() if said == "unreadable"] == ["w2_float64_2"]
    assert verify(left).passed  # which reads by other calls


def test_a_file_that_cannot_be_read_is_not_verified(tmp_path, monkeypatch):
    folder = save_dump(OLD, tmp_path / "dump")
    verifying = sys.modules["troubleshooter_nb.formats.verifying"]
    whole = verifying.opened

    @contextlib.contextmanager
    def fails(path):
        if path.name.startswith("w2"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        with whole(path) as found:
            yield found

    monkeypatch.setattr(verifying, "opened", fails)
    found = verify(folder)
    assert found.exit_code == 2
    assert found.to_dataframe()["status"].tolist().count("unread") == 1


def test_what_a_writer_left_names_is_said_by_the_next_run(tmp_path):
    folder = save_dump(OLD, tmp_path / "dump")
    name = aside._name_for(folder)
    (folder / name).mkdir()
    said = {note.id for note in open_dump(folder).notes}
    assert said & {"files.left_behind", "files.written_now"}
    assert tnb.compare(folder, folder).exit_code == 0
