"""What lies below a folder beside what its reader takes: dumps, checkpoints and real pickles."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint_file import SUFFIXES
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.pth_containers import is_torch
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import natural_key
from troubleshooter_nb.naming.characters import printable

# Folders that are a part of the dump above them and none of their own.
_PART = re.compile(r"(?i)(?:ptdbg_dump|step|rank|proc)[_-]?v?[0-9.]*")
_PICKLES = (".pkl", ".pickle")
# What arrays are saved as and no reader of folders of arrays takes.
_OTHER_ARRAYS = (".npy", ".npy.gz", ".npz.gz", ".zip", ".h5", ".hdf5", ".mat", ".raw", ".tmp")
_MOST_FOLDERS = 2000  # looked at; a folder of dumps is flat


class Below(NamedTuple):
    """What was found, relative to the folder, in the order of names and numbers."""

    dumps: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def beside_arrays(self, folder: Path) -> list[str]:
        """What is no array of a folder of arrays: its checkpoints, and arrays in other files."""
        found = [name for name in self.checkpoints if is_checkpoint(folder / name)]
        others = [name for name in self.checkpoints if name not in found]
        others = sorted([*others, *self.others], key=natural_key)
        said: list[str] = [Message("files.unopened", names=others)] if others else []
        if not found:
            return said
        # "." has no name of its own.
        example = f"{printable(os.path.basename(os.path.abspath(folder)))}/{found[0]}"
        return [Message("dumps.below_checkpoints", names=found, example=example), *said]

    def note(self) -> list[str]:
        """A sentence about the pickles, which no reader of folders looks into."""
        if not self.pickles:
            return []
        return [Message("dumps.below_pickles", names=list(self.pickles))]


def look_below(
    folder: Path,
    *,
    is_dump: Callable[[Path], bool],
    is_pickle: Callable[[Path], bool],
    taken: bool,
) -> Below:
    """The dumps, the real pickles and what is called like a checkpoint, level by level.

    Parameters
    ----------
    folder : Path
        Hidden folders and links to folders are not searched, nor is what lies in a dump.
    is_dump, is_pickle : callable
        Asked for every folder below and every file called ``.pkl`` or ``.pickle``.
    taken : bool
        A reader of dumps takes `folder` itself: its own files, and its folders of steps and
        ranks, are no dumps of their own then.
    """
    dumps, pickles, checkpoints, others = [], [], [], []
    waiting = [(folder, taken)]
    for here, is_part in waiting:
        folders, files = _children(here)
        for file in files:
            if file.name.lower().endswith(SUFFIXES):
                checkpoints.append(file)
            elif file.name.lower().endswith(_OTHER_ARRAYS):
                others.append(file)
            elif is_pickle(file):
                pickles.append(file)
            elif is_dump(file) and not is_part:
                dumps.append(file)
        for child in folders:
            part = is_part and _PART.fullmatch(child.name) is not None
            if not part and is_dump(child):
                dumps.append(child)
            elif len(waiting) < _MOST_FOLDERS:
                waiting.append((child, part))
    return Below(*(_relative(found, folder) for found in (dumps, pickles, checkpoints, others)))


def several(folder: Path, below: Below, taken_by: str) -> str:
    """Why `folder` is not opened, and what to open instead; `taken_by` is the reader it had."""
    name, dumps = _shown(folder.name), list(below.dumps)
    if taken_by:
        return Message("dumps.below_dump", folder=name, names=dumps, format=taken_by)
    if len(dumps) == 1:
        return Message("dumps.below_one", folder=name, name=dumps[0])
    return Message("dumps.below_several", folder=name, count=len(dumps), names=dumps)


def _children(folder: Path) -> tuple[list[Path], list[Path]]:
    """Sub-folders, and files called like pickles, checkpoints or arrays of other kinds, by name.

    Nothing where it may not be read.
    """
    folders, files = [], []
    try:
        with os.scandir(folder) as children:
            for child in children:
                if child.name.startswith("."):
                    continue
                if child.is_dir(follow_symlinks=False):
                    folders.append(Path(child.path))
                elif _is_asked(child.name):
                    files.append(Path(child.path))
    except OSError:
        return [], []
    return sorted(folders, key=_by_name), sorted(files, key=_by_name)


def _is_asked(name: str) -> bool:
    """Whether a file is called like what readers of arrays do not take."""
    is_other = name.lower().endswith(_PICKLES + SUFFIXES + _OTHER_ARRAYS)
    return is_other and not name.endswith(".npy")


def is_checkpoint(file: Path) -> bool:
    """By its name; a ``.bin`` may be anything, and has to begin like one of torch."""
    if file.suffix.lower() != ".bin":
        return True
    try:
        with opened(file) as (stream, (size, _)):
            return is_torch(stream, size)
    except (FormatError, OSError):
        return False


def _by_name(path: Path) -> tuple[tuple[int, int, str], ...]:
    return natural_key(path.name)


def _relative(found: Iterable[Path], folder: Path) -> tuple[str, ...]:
    names = [path.relative_to(folder).as_posix() for path in found]
    return tuple(_shown(name, quoted=False) for name in sorted(names, key=natural_key))


def _shown(name: str, *, quoted: bool = True) -> str:
    """Text that can be written out: bytes of a file name that are no UTF-8 come escaped."""
    text = printable(name)
    return repr(text) if quoted else text
