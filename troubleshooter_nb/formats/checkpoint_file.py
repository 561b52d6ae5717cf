"""One checkpoint file of any format, as its tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats import ckpt, npz, pth, safetensors_
from troubleshooter_nb.formats.checkpoint import Stored, check_distinct
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.messages import Message, message_of

# What files with a checkpoint in them are called.
SUFFIXES = (".ckpt", ".pth", ".pt", ".bin", ".safetensors", ".npz")


class _Reader(NamedTuple):
    name: str
    refusal: Callable[[Path], str | None]
    open_stored: Callable[[Path], tuple[list[Stored], list[str]]]


_READERS = (
    _Reader(safetensors_.NAME, safetensors_.refusal, safetensors_.open_stored),
    _Reader(npz.NAME, npz.refusal, npz.open_stored),
    _Reader(ckpt.NAME, ckpt.refusal, ckpt.open_stored),
    _Reader(pth.NAME, pth.refusal, pth.open_stored),
)


def open_any(path: Path) -> tuple[list[Stored], list[str]]:
    """The tensors of a checkpoint file, and what there is to say.

    Raises
    ------
    FormatError
        If no reader takes the file, or the one that does finds it damaged, or two tensors have one
        name; the message begins with the file's.
    OSError
        If it cannot be opened.
    """
    refusals: list[str] = []
    for reader in _READERS:
        reason = reader.refusal(path)
        if reason is None:
            with named(path):
                stored, notes = reader.open_stored(path)
                # Several files are put together by name.
                check_distinct(stored)
                return stored, notes
        refusals.append(Message("files.in_file", file=reader.name, what=reason))
    # What cannot be opened at all, or is empty, gets an error of its own.
    with named(path), opened(path):
        pass
    raise FormatError(Message("checkpoints.no_known_format", file=path.name, refusals=refusals))


def why_not(path: Path, error: FormatError | OSError) -> str:
    """The reason an entry gets for what `open_any` raised."""
    if isinstance(error, FormatError):
        return message_of(error)
    return Message("files.in_file", file=path.name, what=error)
