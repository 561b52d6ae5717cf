"""Checkpoints in several files with an index beside them, as Hugging Face saves them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump
from troubleshooter_nb.formats.checkpoint_file import open_any, why_not
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.safetensors_ import json_object
from troubleshooter_nb.messages import Message, joined, message_of

NAME = "sharded"

_INDEX = ".index.json"
# What a folder of Hugging Face holds when one file was enough.
_SINGLE = ("model.safetensors", "pytorch_model.bin")
_AGAIN = Message("files.download_or_save")


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_file():
        is_index = path.name.endswith(_INDEX)
        return None if is_index else Message("checkpoints.not_called", suffix=_INDEX)
    if not path.is_dir():
        return Message("files.neither")
    try:
        _chosen(path)
    except (FormatError, OSError) as error:
        return message_of(error)
    return None


def open_sharded(path: Path, *, label: str) -> Dump:
    """Open a checkpoint by its index; values are read from the shards when asked for.

    Parameters
    ----------
    path : Path
        An index (``model.safetensors.index.json``), or a folder that holds one, or else one
        ``model.safetensors`` or ``pytorch_model.bin``.
    label : str

    Returns
    -------
    Dump
        One entry per name of the index, in its order, then what else the shards hold, which is
        a note. A name whose shard is missing or damaged, or does not hold it, is an entry with
        a reason.

    Raises
    ------
    FormatError
        If the index is damaged or names files outside its folder, no shard can be read, or a
        folder holds several indexes.
    OSError
        If the index cannot be opened.
    """
    stored, notes = open_stored(path)
    return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


def open_stored(path: Path) -> tuple[list[Stored], list[str]]:
    """The tensors of all shards and what there is to say; raises as `open_sharded` does."""
    file = _chosen(path) if path.is_dir() else path
    if not file.name.endswith(_INDEX):
        return open_any(file)
    with named(file):
        places = _weight_map(file)
    shards, failures, notes = _shards(file.parent, places)
    stored = [_stored(name, place, shards, failures) for name, place in places.items()]
    extra = _extra(places, shards)
    if extra:
        names = [one.name for one in extra]
        notes.append(Message("checkpoints.not_in_index", file=file.name, names=names))
    if lacking := sum(bool(one.reason) for one in stored):
        notes.append(Message("checkpoints.incomplete", count=lacking, size=len(stored)))
    return stored + extra, notes


def files_of_index(index: Path) -> list[str]:
    """The names of the shards of an index; raises as `open_sharded` does."""
    return [*dict.fromkeys(_weight_map(index).values())]


def single_of(folder: Path) -> str:
    """The name of the one file that `open_sharded` opens of a folder."""
    return _chosen(folder).name


def _chosen(folder: Path) -> Path:
    """The one index of a folder, else its one checkpoint of a usual name."""
    with os.scandir(folder) as children:
        names = sorted(child.name for child in children if not child.name.startswith("."))
    found = [name for name in names if name.endswith(_INDEX)]
    found = found or [name for name in names if name in _SINGLE]
    if len(found) == 1:
        return folder / found[0]
    if found:
        raise FormatError(Message("checkpoints.folder_with", names=found))
    one, other = _SINGLE
    lacking = {"index": f"*{_INDEX}", "one": one, "other": other}
    raise FormatError(Message("checkpoints.folder_without", **lacking))


def _weight_map(file: Path) -> dict[str, str]:
    """The file name of each tensor, in the order of the index."""
    with opened(file) as (stream, stamp):
        if stamp[0] > most("shard_index"):
            what = Message("checkpoints.index_size", size=stamp[0])
            raise FormatError(beyond("shard_index", what, stamp[0]))
        index = Message("checkpoints.index")
        found = json_object(stream.read(), index).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise FormatError(joined([Message("checkpoints.no_weight_map"), _AGAIN]))
    for name, place in found.items():
        if not isinstance(place, str) or not _is_base_name(place):
            facts = {"name": name[:80], "place": str(place)[:80]}
            raise FormatError(Message("checkpoints.outside_folder", **facts))
    return found


def _is_base_name(place: str) -> bool:
    return place not in ("", ".", "..") and not any(char in place for char in "/\\:\0")


def _shards(
    folder: Path, places: Mapping[str, str]
) -> tuple[dict[str, dict[str, Stored]], dict[str, str], list[str]]:
    """The tensors of each shard by name, why the other shards have none, and notes."""
    shards: dict[str, dict[str, Stored]] = {}
    failures: dict[str, str] = {}
    notes: list[str] = []
    for place in dict.fromkeys(places.values()):
        try:
            stored, said = open_any(folder / place)
        except (FormatError, OSError) as error:
            failures[place] = why_not(folder / place, error)
            continue
        shards[place] = {one.name: one for one in stored}
        notes += (Message("files.in_file", file=place, what=note) for note in said)
    if not shards:
        none = Message("checkpoints.no_shard", count=len(failures))
        raise FormatError(joined([none, next(iter(failures.values()))]))
    return shards, failures, notes


def _stored(
    name: str,
    place: str,
    shards: Mapping[str, Mapping[str, Stored]],
    failures: Mapping[str, str],
) -> Stored:
    if found := shards.get(place, {}).get(name):
        return found
    lacking = joined([Message("checkpoints.not_in_shard", file=place), _AGAIN])
    return Stored(name, None, failures.get(place) or lacking)


def _extra(places: Mapping[str, str], shards: Mapping[str, Mapping[str, Stored]]) -> list[Stored]:
    """What the index does not name; of what several shards hold, the first."""
    found: dict[str, Stored] = {}
    for shard in shards.values():
        for name, one in shard.items():
            if name not in places:
                found.setdefault(name, one)
    return list(found.values())
