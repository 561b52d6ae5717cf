"""Write arrays, tensors or a whole Dump as one checkpoint file."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, Dump
from troubleshooter_nb.errors import ArgumentError, TroubleshooterWarning
from troubleshooter_nb.formats import ckpt, pth, pth_writer, safetensors_
from troubleshooter_nb.formats.checkpoint import Item, blocks_of, item_of
from troubleshooter_nb.formats.ckpt import write_ckpt
from troubleshooter_nb.formats.npy_dir import array_to_save
from troubleshooter_nb.formats.pth_writer import write_pth
from troubleshooter_nb.formats.safetensors_ import write_safetensors
from troubleshooter_nb.frameworks import to_numpy
from troubleshooter_nb.messages import Message, told


class Writer(NamedTuple):
    """How a checkpoint of one format is written.

    Attributes
    ----------
    format : str
        By which the file is opened without asking every reader.
    write : callable
        ``(path, items)``: names that were left out, and why.
    why_not_held : callable
        ``(item)``: why a file cannot hold a tensor; empty if it can.
    """

    format: str
    write: Callable[[Path, Sequence[Item]], list[tuple[str, str]]]
    why_not_held: Callable[[Item], str]


_PTH = Writer(pth.NAME, write_pth, pth_writer.why_not_held)
WRITERS: Mapping[str, Writer] = {
    ".ckpt": Writer(ckpt.NAME, write_ckpt, ckpt.why_not_held),
    ".pth": _PTH,
    ".pt": _PTH,
    ".safetensors": Writer(safetensors_.NAME, write_safetensors, safetensors_.why_not_held),
}
_MOST_SHOWN = 5


def save_checkpoint(arrays: Mapping[str, Any] | Dump, path: Path, format: str) -> Path:
    """Write one checkpoint, tensor by tensor.

    Parameters
    ----------
    arrays : mapping of str to array, or Dump
        A Dump is copied from its files block by block; of a mapping one tensor at a time is
        turned into an array.
    path : Path
        The folder is created where missing; the file appears whole or not at all.
    format : str
        Of one of `WRITERS`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        For a value that holds no numbers, an entry that cannot be read, a Dump of several steps or
        ranks, or where the format can hold none of the tensors; nothing is written.

    Warns
    -----
    TroubleshooterWarning
        With the names of the tensors the format cannot hold, which were left out.
    """
    items = _of_dump(arrays) if isinstance(arrays, Dump) else _of_mapping(arrays)
    writer = next(writer for writer in WRITERS.values() if writer.format == format)
    refuse_where_none_is_held(items, path, writer)
    path.parent.mkdir(parents=True, exist_ok=True)
    left_out = writer.write(path, items)
    if left_out:
        shown = [
            Message("files.in_file", file=name, what=reason)
            for name, reason in left_out[:_MOST_SHOWN]
        ]
        rest = len(left_out) - _MOST_SHOWN
        more = Message("checkpoints.left_out_more", count=rest) if rest > 0 else ""
        facts = {"file": path.name, "count": len(left_out), "tensors": shown, "more": more}
        text = told(Message("checkpoints.left_out", **facts))
        warnings.warn(text, TroubleshooterWarning, stacklevel=4)
    return path


def refuse_where_none_is_held(items: Sequence[Item], path: Path, writer: Writer) -> None:
    """Refuse to replace a file by one without tensors.

    Raises
    ------
    ValueError
        If there are items, of which the format can hold none.
    """
    reasons = [writer.why_not_held(item) for item in items]
    if reasons and all(reasons):
        facts = {"file": path.name, "count": len(items), "name": items[0].name}
        raise ArgumentError(Message("checkpoints.none_held", **facts, reason=reasons[0]))


def of_tensors(dump: Dump) -> Dump:
    """The entries that are tensors.

    Warns
    -----
    TroubleshooterWarning
        With the number of entries that are numbers, texts or null, which were left out.
    """
    others = dump.columns["value"] != ""
    if not others.any():
        return dump
    facts = {"dump": dump.label, "count": int(others.sum())}
    text = told(Message("checkpoints.values_left_out", **facts))
    warnings.warn(text, TroubleshooterWarning, stacklevel=3)
    rows = np.flatnonzero(~others)
    sources = tuple(dump.sources[row] for row in rows)
    return replace(dump, index=dump.index.isel(entry=rows), sources=sources)


def check_readable(dump: Dump) -> None:
    """Refuse a Dump with an entry that has no values.

    Raises
    ------
    ValueError
        With its name and why it has none.
    """
    for name, source, reason in zip(dump.names, dump.sources, dump.columns["reason"], strict=True):
        if source is None:
            reason = reason or Message("checkpoints.statistics_only")
            facts = {"name": name, "dump": dump.label, "reason": reason}
            raise ArgumentError(Message("checkpoints.not_readable", **facts))


def _of_dump(dump: Dump) -> list[Item]:
    twice = [name for name, count in Counter(dump.names).items() if count > 1]
    if twice:
        raise ArgumentError(Message("checkpoints.several_places", dump=dump.label, name=twice[0]))
    check_readable(dump)
    return [
        item_of(name, source)
        for name, source in zip(dump.names, dump.sources, strict=True)
        if source is not None
    ]


def _of_mapping(arrays: Mapping[str, Any]) -> list[Item]:
    items = []
    for name, value in arrays.items():
        array = array_to_save(str(name), value)
        items.append(Item(str(name), array.dtype, array.shape, _converted(value)))
    return items


def _converted(value: Any) -> Callable[[], Iterator[np.ndarray]]:
    # Only when its turn comes: an array of a tensor on a device is a copy.
    def chunks() -> Iterator[np.ndarray]:
        yield from blocks_of(ArrayInMemory(np.ascontiguousarray(to_numpy(value))))

    return chunks
