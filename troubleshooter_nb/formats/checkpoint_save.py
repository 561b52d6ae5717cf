"""Write arrays, tensors or a whole Dump as one checkpoint file."""

from __future__ import annotations

import math
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump
from troubleshooter_nb.errors import ArgumentError, TroubleshooterWarning
from troubleshooter_nb.formats import ckpt, pth, safetensors_
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.ckpt import write_ckpt
from troubleshooter_nb.formats.npy_dir import array_to_save
from troubleshooter_nb.formats.pth_writer import write_pth
from troubleshooter_nb.formats.safetensors_ import write_safetensors
from troubleshooter_nb.frameworks import to_numpy
from troubleshooter_nb.messages import Message, told

Writer = Callable[[Path, Sequence[Item]], list[tuple[str, str]]]
WRITERS: Mapping[str, Writer] = {
    ".ckpt": write_ckpt,
    ".pth": write_pth,
    ".pt": write_pth,
    ".safetensors": write_safetensors,
}
# The formats that these write, by which a file is opened without asking every reader.
WRITTEN: Mapping[str, str] = {
    ".ckpt": ckpt.NAME,
    ".pth": pth.NAME,
    ".pt": pth.NAME,
    ".safetensors": safetensors_.NAME,
}
_BLOCK = 1 << 20  # values written at a time
_MOST_SHOWN = 5
_memory = threading.local()


def save_checkpoint(arrays: Mapping[str, Any] | Dump, path: Path) -> Path:
    """Write one checkpoint, tensor by tensor, in the format of the file's suffix.

    Parameters
    ----------
    arrays : mapping of str to array, or Dump
        A Dump is copied from its files block by block; of a mapping one tensor at a time is
        turned into an array.
    path : Path
        ``.ckpt``, ``.pth``, ``.pt`` or ``.safetensors``. The folder is created where missing; the
        file appears whole or not at all.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        For a value that holds no numbers, an entry that cannot be read, or a Dump of several
        steps or ranks; nothing is written.

    Warns
    -----
    TroubleshooterWarning
        With the names of the tensors the format cannot hold, which were left out.
    """
    items = _of_dump(arrays) if isinstance(arrays, Dump) else _of_mapping(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    left_out = WRITERS[path.suffix.lower()](path, items)
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


def names_of(dump: Dump) -> list[str]:
    """Names of the entries, if each can be read and is there once.

    Raises
    ------
    ValueError
        If one cannot, or is in several steps or ranks.
    """
    twice = [name for name, count in Counter(dump.names).items() if count > 1]
    if twice:
        raise ArgumentError(Message("checkpoints.several_places", dump=dump.label, name=twice[0]))
    for name, source, reason in zip(
        dump.names, dump.sources, dump.index["reason"].values, strict=True
    ):
        if source is None:
            facts = {"name": name, "dump": dump.label, "reason": reason}
            raise ArgumentError(Message("checkpoints.not_readable", **facts))
    return dump.names


def _of_dump(dump: Dump) -> list[Item]:
    return [
        item_of(name, source)
        for name, source in zip(names_of(dump), dump.sources, strict=True)
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
        yield from _blocks(ArrayInMemory(np.ascontiguousarray(to_numpy(value))))

    return chunks


def item_of(name: str, source: ArraySource) -> Item:
    """A stored tensor to write, read in blocks."""
    return Item(name, source.dtype, source.shape, lambda: _blocks(source))


def _blocks(source: ArraySource) -> Iterator[np.ndarray]:
    """The values, block by block; a block of a file is valid until the next one."""
    size = math.prod(source.shape)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        yield source.read(start, stop, _lent(stop - start, source.dtype))


def _lent(count: int, dtype: np.dtype) -> np.ndarray:
    """Memory that this thread used for the block before: new pages cost as much as the reading."""
    memory: np.ndarray | None = getattr(_memory, "block", None)
    size_bytes = count * dtype.itemsize
    if memory is None or len(memory) < size_bytes:
        memory = _memory.block = np.empty(size_bytes, np.uint8)
    return memory[:size_bytes].view(dtype)
