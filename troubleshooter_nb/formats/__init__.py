"""Every on-disk format, and the one door that asks each of them."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import UnknownFormatError
from troubleshooter_nb.formats import npy_dir, print_text
from troubleshooter_nb.run_card import RunCard


@dataclass(frozen=True)
class Format:
    """A reader: its name, what it says to a path it does not take, and how it opens one."""

    name: str
    refusal: Callable[[Path], str | None]
    open: Callable[..., Dump]


FORMATS: tuple[Format, ...] = (
    Format(npy_dir.NAME, npy_dir.refusal, npy_dir.open_npy_dir),
    Format(print_text.NAME, print_text.refusal, print_text.open_print_text),
)


def open_dump(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    label: str | None = None,
) -> Dump:
    """Open stored tensors, whatever tool left them; the format is recognised.

    Only headers are read; values load when asked for, and nothing in a file is executed.

    Parameters
    ----------
    path : str or path-like
        A folder of ``.npy`` files (with ``rank<k>`` or ``step<k>`` folders), or one such file.
    format : str, optional
        Name of the reader to use without asking the others.
    label : str, optional
        Short name of the dump in tables; default the last part of the path.

    Returns
    -------
    Dump
        Damaged files are entries with a reason, not errors.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    UnknownFormatError
        If no reader takes it; the message lists what each one said. Or for an unknown `format`.
    FormatError
        If the reader asked for by `format` finds nothing it can read.
    """
    if not os.fspath(path):
        msg = "the path is empty; '.' opens the current folder"
        raise FileNotFoundError(msg)
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(_not_there(path))
    # abspath also takes "." and "..", whose own names say nothing.
    label = label or os.path.basename(os.path.abspath(path)) or "root"
    if format is not None:
        return _named(format).open(path, label=label)
    refusals = {}
    for reader in FORMATS:
        refusal = reader.refusal(path)
        if refusal is None:
            return reader.open(path, label=label)
        refusals[reader.name] = refusal
    said = "\n".join(f"  {name}: {refusal}" for name, refusal in refusals.items())
    msg = f"{str(path)!r} was not recognised. Each reader said:\n{said}"
    raise UnknownFormatError(msg)


DumpLike = Dump | str | PathLike[str] | Mapping[str, Any]


def as_dump(value: DumpLike, side: str) -> Dump:
    """A dump as it is, opened from a path, or made of arrays in memory.

    Raises
    ------
    TypeError
        For anything else; `side` says which argument it was.
    """
    if isinstance(value, Dump):
        return value
    if isinstance(value, Mapping):
        return Dump.from_arrays(value, label=side)
    if isinstance(value, (str, PathLike)):
        return open_dump(value)
    msg = f"{side} takes a Dump, a path or a mapping of names to arrays, got {type(value).__name__}"
    raise TypeError(msg)


def save_dump(
    arrays: Mapping[str, Any], path: str | PathLike[str], *, card: RunCard | None = None
) -> Path:
    """Write arrays or tensors as a dump that `open_dump` reads.

    Parameters
    ----------
    arrays : mapping of str to array
        Tensors of torch or MindSpore, numpy arrays or numbers, in the order of saving.
    path : str or path-like
        Folder to write to, empty or new: one ``{name}_{dtype}_{number}.npy`` per array and
        ``run_card.json``.
    card : RunCard, optional
        What the run was made with; default what this process knows.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ValueError
        For a name that leaves the folder or a value that holds no numbers; nothing is written.

    Warns
    -----
    TroubleshooterWarning
        If arrays of an earlier save stay in the folder.
    """
    return npy_dir.save_npy_dir(arrays, Path(path), card=card)


def _not_there(path: Path) -> str:
    exists = next((up for up in path.absolute().parents if up.exists()), Path("/"))
    missing = path.absolute().relative_to(exists).parts[0]
    inside = os.listdir(exists) if exists.is_dir() and os.access(exists, os.R_OK) else []
    close = difflib.get_close_matches(missing, inside, n=2)
    hint = f"; it has {', '.join(map(repr, close))}" if close else ""
    return f"no such file or folder: {path} (the part {exists} exists{hint})"


def _named(name: str) -> Format:
    for reader in FORMATS:
        if reader.name == name:
            return reader
    msg = f"no format {name!r}; known: {', '.join(reader.name for reader in FORMATS)}"
    raise UnknownFormatError(msg)
