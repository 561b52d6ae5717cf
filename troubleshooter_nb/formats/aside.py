"""Files and folders that appear whole or not at all, and what a killed writer left of them.

Everything is written aside, under a name that says by which process, and then takes its place: a
file or a new folder at once. Files of a folder that is there take theirs one after the other, while
the folder they come from is called ``.placing-...``: who finds that knows that not all are there.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats import checksums
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.characters import printable

# Hidden: no reader of folders looks into them.
_WRITING, _PLACING = ".writing-", ".placing-"
_NAME = re.compile(r"\.(?:writing|placing)-([0-9]+)-([0-9a-f]{8})-[0-9]+-([0-9a-f]{8})(?:\..*)?")
# In a folder that is being placed: the files that go, as relative paths.
_GOING = ".going.json"
# What is written has names of its own, also in one thread (a signal, a finaliser).
_numbers = itertools.count()
_at_work: set[str] = set()  # by this process; what an error left of it is not


def _token(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def _name_for(place: Path, suffix: str = "") -> str:
    process = f"{os.getpid()}-{_token(platform.node())}"
    return f"{_WRITING}{process}-{next(_numbers)}-{_token(place.name)}{suffix}"


@contextmanager
def written_whole(file: Path, *, tidy: bool = True) -> Iterator[BinaryIO]:
    """A stream into a file that appears whole, or not at all; see `written_aside`.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then, nor by any other error.
    """
    with written_aside(file, tidy=tidy) as aside, open(aside, "w+b") as stream:
        yield stream


@contextmanager
def written_aside(file: Path, suffix: str = "", *, tidy: bool = True) -> Iterator[Path]:
    """A path to write to, which takes the place of a file at the end; on any error it is gone.

    Parameters
    ----------
    file : Path
    suffix : str
        For writers that know the format by it. Without one, what a killed process leaves behind
        is no file of ours.
    tidy : bool
        Whether to look for what killed processes left in the folder, which takes as long as
        listing it.
    """
    if file.is_dir():
        raise FormatError(Message("files.folder_of_this_name", file=file.name))
    if tidy:
        remove_left(file.parent)
    aside = file.with_name(_name_for(file, suffix))
    _at_work.add(aside.name)
    try:
        yield aside
        os.replace(aside, file)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    finally:
        _at_work.discard(aside.name)


@contextmanager
def folder_aside(above: Path, place: Path) -> Iterator[Path]:
    """A new folder in another one, which is gone in the end; `place` is what will come of it."""
    remove_left(above)
    aside = above / _name_for(place)
    _at_work.add(aside.name)
    try:
        aside.mkdir()
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        _at_work.discard(aside.name)


@contextmanager
def folder_whole(folder: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of a new or empty one at the end.

    Raises
    ------
    OSError
        If it cannot be written; nothing is left behind then, nor by any other error.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder_aside(folder.parent, folder) as aside:
        yield aside
        if folder.is_dir():
            folder.rmdir()
        os.replace(aside, folder)


@contextmanager
def files_placed(folder: Path, going: Iterable[str] = ()) -> Iterator[Path]:
    """A folder to write into, whose files take their places in another one at the end.

    A process that is killed meanwhile leaves what `left_behind` says and the next writer finishes.

    Parameters
    ----------
    folder : Path
        Is there.
    going : iterable of str
        Paths in it, of files that are to be removed once the others are in their places.
    """
    with folder_aside(folder, folder) as aside:
        yield aside
        (aside / _GOING).write_text(json.dumps([*going]), encoding="utf-8")
        placing = aside.with_name(aside.name.replace(_WRITING, _PLACING, 1))
        os.rename(aside, placing)
        _place(placing)


def _place(placing: Path) -> None:
    """Put the files of a folder in their places above it, and remove those that go."""
    folder = placing.parent
    going = _going(placing)
    coming = _coming(placing)
    # Lists of checksums first, with the lines that are there: no file is ever without its own.
    for file in sorted(coming, key=lambda file: file.name != checksums.FILE):
        target = folder / file.relative_to(placing)
        if _is_in(target, folder):
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.name == checksums.FILE:
                gone = [one.name for one in going if one.parent == target.parent]
                file.write_bytes(checksums.merge_lines(target.parent, file, gone))
            os.replace(file, target)
    for file in going:
        file.unlink(missing_ok=True)
    shutil.rmtree(placing)


def _coming(placing: Path) -> list[Path]:
    files = [Path(below, name) for below, _, names in os.walk(placing) for name in names]
    return [file for file in files if file != placing / _GOING]


def _going(placing: Path) -> list[Path]:
    """The files that are to be removed; ValueError where it does not say so soundly."""
    folder, said = placing.parent, placing / _GOING
    # It goes first of what is removed in the end.
    names = json.loads(said.read_bytes()) if said.exists() else []
    files = [folder / str(name) for name in names]
    return [file for file in files if _is_in(file, folder)]


def _is_in(file: Path, folder: Path) -> bool:
    """Whether a file lies in a folder, wherever links lead: a folder from elsewhere may say any."""
    real = os.path.join(os.path.realpath(folder), "")
    return os.path.join(os.path.realpath(file.parent), "").startswith(real)


def _is_open(placing: Path) -> bool:
    """Whether some of its files have still to come or go."""
    try:
        return bool(_coming(placing)) or any(file.exists() for file in _going(placing))
    except (OSError, ValueError):
        return True


class _Left(NamedTuple):
    """Something that is written aside now, or was."""

    path: Path
    place: str
    is_ours: bool  # of this machine
    is_alive: bool

    @property
    def is_placing(self) -> bool:
        """Whether some of its files may be in their places, and some not."""
        return self.path.name.startswith(_PLACING)


def _left_in(folder: Path) -> list[_Left]:
    """What is written aside in a folder, by name."""
    try:
        names = sorted(n for n in os.listdir(folder) if n.startswith((_WRITING, _PLACING)))
    except OSError:
        return []
    return [_known(folder / name) for name in names]


def _known(path: Path) -> _Left:
    match = _NAME.fullmatch(path.name)
    if match is None:  # of an older version
        return _Left(path, "", False, False)
    is_ours = match[2] == _token(platform.node())
    name, process = path.name.replace(_PLACING, _WRITING, 1), int(match[1])
    lives = name in _at_work if process == os.getpid() else is_alive(process)
    return _Left(path, match[3], is_ours, is_ours and lives)


def is_alive(process: int) -> bool:
    """Whether a process of this machine lives; where that cannot be told, True."""
    if sys.platform == "win32":  # where a signal 0 ends a process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def remove_left(folder: Path) -> None:
    """Remove what killed processes of this machine left in a folder; finish what they placed."""
    if any(part.startswith(_WRITING) for part in folder.parts):
        return  # new itself
    for left in _left_in(folder):
        if not left.is_ours or left.is_alive:
            continue
        with suppress(OSError, ValueError):
            if left.is_placing:
                _place(left.path)
            elif left.path.is_dir() and not left.path.is_symlink():
                shutil.rmtree(left.path)
            else:
                left.path.unlink()


def left_behind(path: Path) -> list[str]:
    """Notes of what is written aside in a folder, in those in it, and for a path beside it."""
    beside = Path(os.path.abspath(path))
    found = [one for one in _left_in(beside.parent) if one.place == _token(beside.name)]
    if path.is_dir():
        found += _left_in(path)
        with suppress(OSError), os.scandir(path) as children:
            folders = [child for child in children if child.is_dir(follow_symlinks=False)]
            shown = sorted(child.path for child in folders if not child.name.startswith("."))
            found += [one for child in shown for one in _left_in(Path(child))]
    half = [one for one in found if one.is_placing and _is_open(one.path)]
    return [*map(_half, half), *_aside([one for one in found if one not in half])]


def _half(left: _Left) -> str:
    name = printable(left.path.name)
    if left.is_alive:
        return Message("files.placing_now", folder=name)
    return Message("files.not_whole", folder=name)


def _aside(others: Sequence[_Left]) -> list[str]:
    told = {
        "files.written_now": [one for one in others if one.is_alive],
        "files.left_behind": [one for one in others if not one.is_alive and one.is_ours],
        "files.left_elsewhere": [one for one in others if not one.is_ours],
    }
    return [
        Message(id, names=[printable(one.path.name) for one in some])
        for id, some in told.items()
        if some
    ]
