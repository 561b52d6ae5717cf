"""What lies below a folder beside that which its reader takes: dumps of their own, real pickles."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.formats.checkpoint import listed
from troubleshooter_nb.naming import natural_key
from troubleshooter_nb.naming.characters import printable

# Folders that are a part of the dump above them and none of their own.
_PART = re.compile(r"(?i)(?:ptdbg_dump|step|rank|proc)[_-]?v?[0-9.]*")
_PICKLES = (".pkl", ".pickle")
_MOST_FOLDERS = 2000  # looked at; a folder of dumps is flat


class Below(NamedTuple):
    """What was found, relative to the folder, in the order of names and numbers."""

    dumps: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()

    def note(self) -> list[str]:
        """A sentence about the pickles, which no reader of folders looks into."""
        if not self.pickles:
            return []
        return [f"not read, as loading a pickle could run code: {listed(self.pickles)}"]


def look_below(
    folder: Path,
    *,
    is_dump: Callable[[Path], bool],
    is_pickle: Callable[[Path], bool],
    taken: bool,
) -> Below:
    """The dumps and the real pickles in a folder, level by level.

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
    dumps, pickles = [], []
    waiting = [(folder, taken)]
    for here, is_part in waiting:
        folders, files = _children(here)
        for file in files:
            if is_pickle(file):
                pickles.append(file)
            elif is_dump(file) and not is_part:
                dumps.append(file)
        for child in folders:
            part = is_part and _PART.fullmatch(child.name) is not None
            if not part and is_dump(child):
                dumps.append(child)
            elif len(waiting) < _MOST_FOLDERS:
                waiting.append((child, part))
    return Below(_relative(dumps, folder), _relative(pickles, folder))


def several(folder: Path, below: Below, taken_by: str) -> str:
    """Why `folder` is not opened, and what to open instead; `taken_by` is the reader it had."""
    if taken_by:
        way = f"open one of these, or format={taken_by!r} for what is no part of them"
        return f"{_shown(folder.name)} is a dump with others below it: {listed(below.dumps)}; {way}"
    if len(below.dumps) == 1:
        return f"{_shown(folder.name)} lies above a dump: open {below.dumps[0]}"
    return (
        f"{_shown(folder.name)} holds {len(below.dumps)} dumps: {listed(below.dumps)}; open one of "
        "them, or compare two of them"
    )


def _children(folder: Path) -> tuple[list[Path], list[Path]]:
    """Sub-folders, and files called like pickles, by name; nothing where it may not be read."""
    folders, files = [], []
    try:
        with os.scandir(folder) as children:
            for child in children:
                if child.name.startswith("."):
                    continue
                if child.is_dir(follow_symlinks=False):
                    folders.append(Path(child.path))
                elif child.name.lower().endswith(_PICKLES):
                    files.append(Path(child.path))
    except OSError:
        return [], []
    return sorted(folders, key=_by_name), sorted(files, key=_by_name)


def _by_name(path: Path) -> tuple[tuple[int, int, str], ...]:
    return natural_key(path.name)


def _relative(found: Iterable[Path], folder: Path) -> tuple[str, ...]:
    names = [path.relative_to(folder).as_posix() for path in found]
    return tuple(_shown(name, quoted=False) for name in sorted(names, key=natural_key))


def _shown(name: str, *, quoted: bool = True) -> str:
    """Text that can be written out: bytes of a file name that are no UTF-8 come escaped."""
    text = printable(name)
    return repr(text) if quoted else text
