"""The numbers of saved files, claimed so that several processes never give one twice.

A file of this machine, outside the folder that is saved into, knows the next number and who saves:
it is locked while a number is taken. A process that began while another one saved, or lives beside
it, goes on with its count; any other is a new run, which counts from 0. A folder that several
saved into says so in a hidden file.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from troubleshooter_nb.formats.aside import is_alive
from troubleshooter_nb.formats.file_source import head_of

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE = ".saving"
_LARGEST = 64 * 1024  # bytes
_KEPT = 24 * 3600  # seconds that the count of a folder is kept in which nobody saves


class Claim(NamedTuple):
    """A number, the run that it belongs to, and whether that begins with it."""

    number: int
    run: str
    is_new: bool


def claim(folder: Path, count: str, least: int, run: str) -> Claim:
    """Take the next number of a folder.

    Parameters
    ----------
    folder : Path
        Is there.
    count : str
        Which of several counts of the folder.
    least : int
        The least number that it may be.
    run : str
        The run that this process saved for last in the folder; empty for none.
    """
    place = _counts()
    if place is None:
        return Claim(least, run or "alone", not run)
    with _locked(place / _count_of(folder)) as file:
        state = _state_of(os.pread(file, _LARGEST, 0))
        processes = state["processes"]
        is_new = not (run and run == state["run"]) and not _others_save(processes)
        if is_new:
            processes = {}
            state = {"run": secrets.token_hex(8), "next": {}, "processes": processes}
            (folder / FILE).unlink(missing_ok=True)
            _forget_old(place)
        if processes and _own_name() not in processes:
            (folder / FILE).write_text(json.dumps({"processes": len(processes) + 1}))
        number = max(least, state["next"].get(count, 0))
        processes[_own_name()] = time.time()
        state["next"][count] = number + 1
        text = json.dumps(state).encode()
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))
    return Claim(number, state["run"], is_new)


def processes_in(folder: Path) -> int:
    """How many processes saved into a folder at the same time; 1 where nothing says so."""
    try:
        count = json.loads(head_of(folder / FILE, _LARGEST))["processes"]
        return int(count) if 1 < count < 1 << 31 else 1
    except (ValueError, TypeError, KeyError, RecursionError):
        return 1


def _counts() -> Path | None:
    """The folder of the counts, which nobody else may write into; None where there is none."""
    if fcntl is None:
        return None
    place = Path(tempfile.gettempdir(), f"troubleshooter_nb-counts-{os.getuid()}")
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        status = place.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return place if is_ours and not status.st_mode & 0o022 else None


def _count_of(folder: Path) -> str:
    """What the file with the count of a folder is called."""
    return hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()


def _forget_old(place: Path) -> None:
    oldest = time.time() - _KEPT
    with suppress(OSError), os.scandir(place) as files:
        for file in files:
            with suppress(OSError):
                if file.stat().st_mtime < oldest:
                    os.unlink(file.path)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        # A child that was forked meanwhile holds the file, too.
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _state_of(text: bytes) -> dict[str, Any]:
    """What the file says; a beginning where it says nothing that can be."""
    try:
        state = json.loads(text)
        times = {str(int(name)): float(last) for name, last in state["processes"].items()}
        following = {str(name): int(number) for name, number in state["next"].items()}
        return {"run": str(state["run"]), "next": following, "processes": times}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return {"run": "", "next": {}, "processes": {}}


def _others_save(processes: Mapping[str, float]) -> bool:
    """Whether another process lives that saved here, or did since this one began."""
    began = _began()
    own = _own_name()
    others = {name: last for name, last in processes.items() if name != own}
    return any(last >= began or is_alive(int(name)) for name, last in others.items())


def _own_name() -> str:
    return str(os.getpid())


def _began() -> float:
    """When this process began, in seconds since the epoch."""
    try:
        # The name before it may hold blanks and brackets; of the fields behind, it is the 20th.
        ticks = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_bytes().split()[0])
        return time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return _IMPORTED


_IMPORTED = time.time()
