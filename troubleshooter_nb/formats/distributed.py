"""Folders of torch.distributed.checkpoint: ``.metadata`` says where each part of a tensor lies.

Source: torch/distributed/checkpoint/metadata.py and filesystem.py of torch 2.13.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import COPY_OR_SAVE, SAVE_AGAIN, opened
from troubleshooter_nb.formats.grid_source import Part, checked_grid
from troubleshooter_nb.formats.inert_pickle import MadeBy, PickledDict
from troubleshooter_nb.formats.pth_containers import Contents, contents_of, key_text
from troubleshooter_nb.formats.pth_tensors import Ready, Tensors, is_whole, whole_numbers
from troubleshooter_nb.formats.pth_walk import Tree, walked
from troubleshooter_nb.messages import Message, joined, message_of

METADATA = ".metadata"

_OURS = "torch.distributed.checkpoint."
_LARGEST_OBJECT = 64 * 1024**2  # bytes of an item that is no tensor


@dataclass(frozen=True)
class _Item:
    """One part of one value: in which file, from where to where, and its place in the tensor."""

    name: str
    offsets: tuple[int, ...]
    file: str
    start: int
    length: int


@dataclass
class _Found:
    """What the files hold of each name."""

    parts: dict[str, list[Part]] = field(default_factory=lambda: defaultdict(list))
    objects: dict[str, Any] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    globals: dict[str, None] = field(default_factory=dict)


def distributed_tree(folder: Path) -> tuple[Tree, list[str], list[str]]:
    """The values of a distributed checkpoint, the globals it names, and what there is to say.

    Raises
    ------
    FormatError
        If ``.metadata`` is missing or damaged. A part that is missing or damaged makes its
        tensor one that cannot be read.
    """
    contents, stamp = _metadata(folder / METADATA)
    root = contents.root.state if isinstance(contents.root, MadeBy) else None
    described = root.get("state_dict_metadata") if isinstance(root, PickledDict) else None
    placed = root.get("storage_data") if isinstance(root, PickledDict) else None
    if not isinstance(described, PickledDict) or not isinstance(placed, PickledDict):
        what = Message("checkpoints.not_distributed", file=METADATA)
        raise FormatError(joined([what, COPY_OR_SAVE]))
    found = _read(folder, list(_items(placed)), dict(_sizes(described)))
    paths = root.get("planner_data") if isinstance(root, PickledDict) else None
    known = paths.texts() if isinstance(paths, PickledDict) else {}
    nested = PickledDict()
    for name, record in described.texts().items():
        value = _value(name, record, found)
        _put(nested, _steps(name, known.get(name)), value)
    tree = walked(nested, Tensors(folder, contents, stamp))
    return tree, [*contents.globals, *found.globals], []


def _metadata(path: Path) -> tuple[Contents, tuple[int, int]]:
    if not path.is_file():
        raise FormatError(Message("checkpoints.folder_without_metadata", file=METADATA))
    try:
        with opened(path) as (file, stamp):
            return contents_of(file, 0, stamp[0]), stamp
    except FormatError as error:
        what = Message("files.in_file", file=METADATA, what=error)
        raise FormatError(joined([what, Message("checkpoints.interrupted")])) from None


def _state(record: Any, kind: str) -> PickledDict | None:
    """The fields of one of torch's records."""
    ours = isinstance(record, MadeBy) and record.path.startswith(_OURS)
    if not ours or not record.path.endswith(f".{kind}"):
        return None
    return record.state if isinstance(record.state, PickledDict) else None


def _sizes(described: PickledDict) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Shapes of the tensors; values that are none have no size."""
    for name, record in described.texts().items():
        state = _state(record, "TensorStorageMetadata")
        shape = whole_numbers(state.get("size")) if state else None
        if shape is not None:
            yield name, shape


def _items(placed: PickledDict) -> Iterator[_Item]:
    for index, info in placed.pairs:
        key, place = _state(index, "MetadataIndex"), _state(info, "_StorageInfo")
        if key is None or place is None:
            what = Message("checkpoints.no_place", file=METADATA)
            raise FormatError(joined([what, COPY_OR_SAVE]))
        name, offsets = key.get("fqn"), whole_numbers(key.get("offset") or ())
        file, start, length = (place.get(part) for part in ("relative_path", "offset", "length"))
        sound = type(name) is str and type(file) is str and offsets is not None
        if not sound or not is_whole(start) or not is_whole(length) or start < 0:
            what = Message("checkpoints.place_of_else", file=METADATA)
            raise FormatError(joined([what, SAVE_AGAIN]))
        if place.get("transform_descriptors"):
            file = ""  # compressed or encrypted: no file holds its bytes as they are
        yield _Item(name, offsets or (), file, start, length)


def _read(folder: Path, items: list[_Item], sizes: dict[str, tuple[int, ...]]) -> _Found:
    """Look at every item once, file by file."""
    found = _Found()
    by_file: dict[str, list[_Item]] = defaultdict(list)
    for item in items:
        by_file[item.file].append(item)
    for name, inside in by_file.items():
        if reason := _outside(name):
            found.reasons.update((item.name, reason) for item in inside)
            continue
        try:
            with opened(folder / name) as (file, stamp):
                for item in inside:
                    _look(file, folder / name, stamp, item, item.name in sizes, found)
        except (FormatError, OSError) as error:
            reason = Message("files.in_file", file=name[:80], what=error)
            found.reasons.update((item.name, reason) for item in inside)
    return found


def _outside(name: str) -> str:
    if not name:
        return Message("checkpoints.transformed")
    if "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        return Message("checkpoints.said_outside", place=name[:80])
    return ""


def _look(
    file: BinaryIO,
    path: Path,
    stamp: tuple[int, int],
    item: _Item,
    is_tensor: bool,
    found: _Found,
) -> None:
    """Add one item; one that is damaged becomes a reason."""
    try:
        if item.start + item.length > stamp[0] or item.length < 4:
            raise FormatError(Message("checkpoints.item_cut", start=item.start, size=stamp[0]))
        if not is_tensor and item.length > _LARGEST_OBJECT:
            raise FormatError(Message("checkpoints.object_size", size=item.length))
        contents = contents_of(file, item.start, item.start + item.length)
        found.globals.update(dict.fromkeys(contents.globals))
        if not is_tensor:
            found.objects[item.name] = contents.root
            return
        ready = Tensors(path, contents, stamp).found(contents.root)
        if not isinstance(ready, Ready) or ready.source is None:
            no_tensor = Message("checkpoints.no_tensor")
            raise FormatError(ready.reason if isinstance(ready, Ready) else no_tensor)
        found.parts[item.name].append((item.offsets, ready.source))
    except FormatError as error:
        found.reasons[item.name] = Message("files.in_file", file=path.name, what=error)


def _value(name: str, record: Any, found: _Found) -> Any:
    """A tensor put together, or the object that is kept under this name."""
    if _state(record, "BytesStorageMetadata") or name in found.objects:
        return found.objects.get(name)
    if reason := found.reasons.get(name):
        return Ready(None, reason)
    shape = next((shape for _, shape in _sizes(PickledDict([(name, record)]))), None)
    parts = found.parts.get(name)
    if shape is None or not parts:
        return Ready(None, Message("checkpoints.no_part", file=METADATA))
    try:
        return Ready(_joined(shape, parts))
    except FormatError as error:
        return Ready(None, message_of(error))


def _joined(shape: tuple[int, ...], parts: list[Part]) -> ArraySource:
    # A part without offset is the whole.
    placed = [(offsets or (0,) * len(shape), source) for offsets, source in parts]
    return checked_grid(shape, parts[0][1].dtype, placed)


def _steps(name: str, known: Any) -> list[str]:
    """The keys that lead to a value in the nested dict that was saved."""
    if isinstance(known, tuple | list) and known and all(key_text(key) for key in known):
        return [key_text(key) for key in known]
    return [name]


def _put(nested: PickledDict, steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        inner = nested.get(step)
        if not isinstance(inner, PickledDict):
            inner = PickledDict()
            nested.pairs.append((step, inner))
        nested = inner
    nested.pairs.append((steps[-1], value))
