"""Folders of ``.npy`` files that the asynchronous dump of ``torch_npu.hooks`` left.

Each file holds the storage of a tensor; its name says which view of the storage the tensor is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import FileSource, checked_source
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.hooks import AsyncName, calls_of, parse_async_name, site_of_hook

NAME = "async_npy"
_HOW_MANY = 200  # files looked at before a folder is refused


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_file():
        return None if _parsed(path.name) else Message("hooks.async_name")
    if not path.is_dir():
        return Message("files.neither")
    names = [name for name in _names(path) if name.endswith(".npy")][:_HOW_MANY]
    known = sum(_parsed(name) is not None for name in names)
    if not known or 2 * known < len(names):
        return Message("hooks.async_none")
    return None


def open_async_npy(path: Path, *, label: str) -> Dump:
    """Open the arrays of an asynchronous dump as the tensors they were.

    Parameters
    ----------
    path : Path
        A folder, without its sub-folders, or one file.
    label : str

    Returns
    -------
    Dump
        One entry per file, named as the file without ``.npy``, in the order of the packets;
        `name` is long, `path` is ``Functional.relu``. A file whose storage does not hold the view
        is an entry with a reason. Other files are a note.

    Raises
    ------
    FormatError
        If there is no such file.
    """
    folder = path if path.is_dir() else path.parent
    names = _names(path) if path.is_dir() else [path.name]
    found = [(name, parsed) for name in names if (parsed := _parsed(name)) is not None]
    if not found:
        raise FormatError(Message("hooks.async_no_files", path=path.name))
    found.sort(key=lambda one: _order(one[1]))
    calls, _ = calls_of([parsed.name for _, parsed in found])
    entries = [
        _entry(folder / name, parsed, call, order)
        for order, ((name, parsed), call) in enumerate(zip(found, calls, strict=True))
    ]
    return Dump.from_entries(entries, label=label, format=NAME, notes=_notes(names, found))


def _notes(names: Sequence[str], found: Sequence[tuple[str, AsyncName]]) -> list[str]:
    notes: list[str] = [Message("hooks.async_views")]
    other = sum(name.endswith(".npy") for name in names) - len(found)
    if other:
        notes.append(Message("hooks.async_others", count=other))
    return notes


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _parsed(file: str) -> AsyncName | None:
    return parse_async_name(file.removesuffix(".npy")) if file.endswith(".npy") else None


def _order(parsed: AsyncName) -> tuple[int, int, tuple[int, ...]]:
    return parsed.name.number or 0, int(parsed.name.io != "input"), parsed.name.position


def _entry(file: Path, parsed: AsyncName, call: int, order: int) -> Entry:
    name = printable(file.name.removesuffix(".npy"))
    site = site_of_hook(parsed.name, call, arriving_is_output=True)
    entry = Entry(name, site, order=order, layer=parsed.name.op)
    try:
        return entry._replace(source=_view(open_npy(file), parsed))
    except (FormatError, OSError) as error:
        return entry._replace(reason=message_of(error))


def _view(storage: FileSource, parsed: AsyncName) -> FileSource:
    """The tensor in its storage; FormatError where it would reach outside."""
    if storage.strides is not None:
        raise FormatError(Message("hooks.async_fortran"))
    stamp = storage.stamp or (0, 0)
    return checked_source(
        Path(storage.path),
        parsed.shape,
        storage.dtype,
        storage.spans,
        stamp=stamp,
        offset=parsed.offset,
        strides=parsed.stride,
    )
