"""Links that lead out of the folder that is being opened: what lies there is not read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.messages import Message, joined, message_of, messages_in
from troubleshooter_nb.options import get_options

# A download cache of Hugging Face holds the files in a folder beside that of their links.
_SNAPSHOTS, _BLOBS = "snapshots", "blobs"
_REFUSED = "files.link_outside"
_LEVELS = 3  # a snapshot may have sub-folders
_opening: ContextVar[_Opening | None] = ContextVar("troubleshooter_nb_opening", default=None)


class _Opening:
    """The path that is being opened, and which of its links lead elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = os.path.abspath(path)
        self._root = self._path if path.is_dir() else os.path.dirname(self._path)
        root = os.path.realpath(self._root)
        self._allowed = [os.path.join(root, ""), *_stores_of(root)]
        # Of each folder as it is spelled: where its name says that it is, and where it is.
        self._folders: dict[str, tuple[str, str]] = {}
        self._outside: dict[str, None] = {}

    def outside_of(self, path: str | Path) -> str:
        """Where a path leads by a link out of the folder, or nothing.

        The path that was given may be a link itself.
        """
        spelled, name = os.path.split(path)
        if spelled not in self._folders:
            folder = os.path.abspath(spelled)
            self._folders[spelled] = folder, os.path.realpath(folder)
        folder, real = self._folders[spelled]
        # Without a link on the way it is where its name says, also beside or above the path.
        is_link = os.path.islink(path)
        if not is_link and real == folder:
            return ""
        target = os.path.realpath(path) if is_link else os.path.join(real, name)
        named = os.path.join(folder, name)
        is_below = named.startswith(os.path.join(self._root, ""))
        is_asked_for = named == self._path or not (is_link or is_below)
        if is_asked_for or target.startswith((*self._allowed,)) or not os.path.exists(target):
            return ""
        self._outside[os.path.relpath(named, self._root)] = None
        return target

    def notes(self) -> list[str]:
        """What was refused, as a sentence."""
        if not (names := [*self._outside]):
            return []
        said = Message("files.links_outside", names=names, count=len(names))
        return [joined([said, Message("files.links_anywhere")])]


def _stores_of(root: str) -> list[str]:
    """The folder that a download cache keeps the files of this snapshot in."""
    for up in (Path(root), *Path(root).parents[:_LEVELS]):
        store = up.parent / _BLOBS
        if up.name == _SNAPSHOTS and store.is_dir():
            return [os.path.join(os.path.realpath(store), "")]
    return []


@contextmanager
def kept_inside(path: Path) -> Iterator[list[str]]:
    """Have `refuse_outside` refuse what links lead to, unless the option ``links`` lets them.

    Parameters
    ----------
    path : Path
        A folder, or a file, whose folder counts then. It may be a link.

    Yields
    ------
    list of str
        Notes of what was refused, there once the block has ended. An error that ends it says so
        itself.
    """
    notes: list[str] = []
    opening = None if get_options()["links"] == "anywhere" else _Opening(path)
    token = _opening.set(opening)
    try:
        yield notes
    except FormatError as error:
        said = message_of(error)
        if opening is None or any(part.id == _REFUSED for part in messages_in(said)):
            raise
        raise type(error)(joined([said, *opening.notes()])) from None
    finally:
        _opening.reset(token)
        notes += opening.notes() if opening is not None else []


def refuse_outside(path: str | Path) -> None:
    """Raise FormatError for a file that a link leads to, out of the folder that is being opened."""
    opening = _opening.get()
    if opening is not None and (target := opening.outside_of(path)):
        said = Message(_REFUSED, target=target)
        raise FormatError(joined([said, Message("files.links_anywhere")]))
