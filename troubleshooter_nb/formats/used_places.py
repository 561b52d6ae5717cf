"""A place that an earlier run was saved to, and what a new run is to do about it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Literal

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message

Exist = Literal["error", "new", "replace"]
_CHOICES = ("error", "new", "replace")


def check_exist(exist: str | None) -> None:
    """Raise ArgumentError for an unknown word."""
    if exist not in (None, *_CHOICES):
        raise ArgumentError(Message("files.no_exist", known=[*_CHOICES], given=repr(exist)))


def refuse_used(path: Path) -> None:
    """Raise ArgumentError for a file that is there, or a folder with anything in it."""
    if _is_used(path):
        raise ArgumentError(Message("files.taken", file=os.fspath(path)))


def first_free(path: Path, *, is_folder: bool) -> Path:
    """A path where nothing is: itself, or else the first of ``run-2``, ``run-3`` and so on.

    A folder is made, so that no two processes get the same one. A file keeps its suffix.
    """
    stem, suffix = (path.name, "") if is_folder else (path.stem, path.suffix)
    others = (path.with_name(f"{stem}-{number}{suffix}") for number in itertools.count(2))
    if not _is_used(path) and (not is_folder or path.is_dir()):
        return path
    for one in itertools.chain([path], others):
        if _is_made(one) if is_folder else not os.path.lexists(one):
            return one
    raise AssertionError  # numbers do not end


def _is_used(path: Path) -> bool:
    return os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir()))


def _is_made(folder: Path) -> bool:
    """Whether a folder could be made, by nobody else meanwhile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True
