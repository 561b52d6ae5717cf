"""Folders of a run: checkpoints as steps, gradients and tensors in files of their own beside them.

One tensor per file is what people save by hand, and what SGLang's dumper leaves; numbered
checkpoints with folders of gradients are what a training loop leaves, ``checkpoint-100`` below the
weights what the Trainer of transformers does.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats import checkpoint_dir, pth, sharded
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_entries
from troubleshooter_nb.formats.checkpoint_file import SUFFIXES, why_not
from troubleshooter_nb.formats.distributed import METADATA
from troubleshooter_nb.formats.dumps_below import is_checkpoint
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.npy_dir import (
    Parts,
    files_below,
    finished,
    name_of,
    of_other_tool,
    read_card,
    said_of_folders,
)
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.formats.tensor_files import Held, held_in
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.naming import (
    Site,
    natural_key,
    parse_npy_name,
    says_gradient,
    site_of_npy_stem,
    site_of_parameter,
)
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.run_files import (
    DumperName,
    Numbered,
    is_of_steps,
    parse_dumper_name,
    rank_of_file,
    rank_of_folder,
    step_of_name,
)

NAME = "run_dir"
_NPY = ".npy"
_INDEX = ".index.json"
_STATE = "trainer_state.json"
_LARGEST_STATE = 64 << 20
_MOST_TRIED = 64  # files that are looked into before the folder is another reader's


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if not path.is_dir():
        return Message("dumps.not_a_folder")
    if tool := of_other_tool(path):
        return tool
    notes: list[str] = []
    found = [*_files(path, notes, SUFFIXES)]
    if not found:
        return Message("runs.no_files")
    try:
        return _refusal(path, found)
    except OSError as error:
        return message_of(error)


def _refusal(path: Path, files: Sequence[Parts]) -> str | None:
    has_arrays = next(files_below(path, []), None) is not None
    alone = Message("runs.other_reader")
    if not has_arrays and _is_whole_elsewhere(path, files):
        return alone
    places = [_Place.of(parts, path) for parts in files]
    steps = {place.step for place in places if place.step is not None}
    tried = [_held(path, parts) for parts in files[:_MOST_TRIED]]
    known = [held for held in tried if held is not None]
    if any(held.keys is not None for held in known):
        return None
    if steps:
        return _unlike(path, files, places)
    weights = [held for held in known if _is_of_weights(held)]
    if len(weights) == 1 and (has_arrays or len(known) > 1) and len(tried) == len(files):
        return None
    return Message("runs.no_steps")


def _is_whole_elsewhere(path: Path, files: Sequence[Parts]) -> bool:
    """Whether a reader of checkpoints takes everything in the folder."""
    if pth.refusal(path) is None:
        return all(len(parts) == 1 for parts in files)
    if sharded.refusal(path) is None:
        others = _of_units(path, files)[1]
        if not _has_index(path):
            others = [parts for parts in others if parts != (sharded.single_of(path),)]
        held = [_held(path, parts) for parts in others[:_MOST_TRIED]]
        return all(one is not None and not one.stored for one in held)
    if checkpoint_dir.refusal(path) is not None:
        return False
    held_first = _held(path, files[0])
    is_tensor = held_first is not None and held_first.keys is not None
    return len(checkpoint_dir.files_of_ranks(path, [])) == len(files) and not is_tensor


def _has_index(path: Path) -> bool:
    return next(path.glob(f"*{_INDEX}"), None) is not None


def open_run_dir(path: Path, *, label: str) -> Dump:
    """Open all tensors of a folder by headers alone, with the steps that names say.

    Parameters
    ----------
    path : Path
        Folder, searched with its sub-folders (not hidden ones, not links to folders). A file of
        one tensor (``.pt``, ``.pth``, ``.bin``, ``.safetensors``, ``.npz``, ``.npy``, ``.ckpt``)
        is an entry called like the file; a checkpoint is its parameters, and of the step that its
        name or folder has: ``step_0001.pth``, ``checkpoint-100/model.safetensors``. Folders
        called ``grads_0001`` or ``grads/0001``, and files of such names, are the gradients of that
        step. A checkpoint without a step is one of the last step, or of the step that
        ``trainer_state.json`` beside it has.
    label : str

    Returns
    -------
    Dump
        Parameters of kind ``checkpoint``, and tensors of files of kind ``file``, with the names
        that `open_npy_dir` gives. Names of a second checkpoint of one step get its own in front.
        What cannot be read is an entry with a reason.

    Raises
    ------
    FormatError
        If nothing can be read.
    OSError
        If the folder cannot be searched.
    """
    notes: list[str] = []
    files = sorted(_files(path, notes, (_NPY, *SUFFIXES)))
    if not files:
        raise FormatError(Message("runs.no_files"))
    notes = said_of_folders(notes)
    units, files = _of_units(path, files)
    tensors = _Tensors(path, notes)
    for folder, parts in units:
        tensors.add_unit(folder, parts)
    for parts in files:
        tensors.add(parts)
    card, card_notes = read_card([path, *(path.joinpath(*parts[:-1]) for parts in files)])
    entries = tensors.entries()
    if entries and all(entry.source is None and entry.reason for entry in entries):
        raise FormatError(Message("runs.none_readable", reason=entries[0].reason))
    all_notes = [*dict.fromkeys([*notes, *card_notes])]
    return Dump.from_entries(entries, label=label, format=NAME, card=card, notes=all_notes)


def _files(path: Path, notes: list[str], suffixes: tuple[str, ...]) -> Iterable[Parts]:
    """The files that may hold tensors; a ``.bin`` may be anything and is looked at."""
    for parts in files_below(path, notes, suffixes):
        if not parts[-1].endswith(".bin") or is_checkpoint(path.joinpath(*parts)):
            yield parts


class _Place(NamedTuple):
    """Where a file lies: the parts of names that say no step or rank, and what the others say.

    `group` is what all files of a series share: their folder and their name without the step.
    """

    inner: str
    stem: str
    group: str
    step: int | None
    rank: int
    epoch: int
    is_said: bool

    @classmethod
    def of(cls, parts: Parts, root: Path) -> _Place:
        """The place of a file below the root."""
        inner: list[str] = []
        found: Numbered | None = None
        rank: int | None = None
        for at, part in enumerate(parts[:-1]):
            above = parts[at - 1] if at else os.path.basename(os.path.abspath(root))
            own = rank_of_folder(part)
            if own is not None:
                rank = own if rank is None else rank
                continue
            numbered = step_of_name(part) if found is None else None
            if numbered is not None and (
                numbered.is_said or (not numbered.rest and is_of_steps(above))
            ):
                found = numbered
                inner += [numbered.rest] if numbered.rest else []
            else:
                inner.append(part)
        folder = "".join(f"{part}/" for part in inner)
        stem = Path(parts[-1]).stem
        if rank is None:
            rank = rank_of_file(stem)
        numbered = None if found or parts[-1].endswith(_NPY) else step_of_name(stem)
        name = stem if numbered is None else numbered.rest
        found = found or numbered
        step = None if found is None else min(found.step, 2**62)
        epoch = -1 if found is None else found.epoch
        is_said = found is not None and found.is_said
        return cls(folder, stem, folder + name, step, rank or 0, epoch, is_said)


def _held(path: Path, parts: Parts) -> Held | None:
    """What a file holds; None of one that cannot be read."""
    try:
        return held_in(path.joinpath(*parts))
    except (FormatError, OSError):
        return None


def _is_of_weights(held: Held) -> bool:
    sites = (one.site or site_of_parameter(one.name) for one in held.stored)
    return held.keys is None and any(site.role in ("parameter", "buffer") for site in sites)


def _unlike(path: Path, files: Sequence[Parts], places: Sequence[_Place]) -> str | None:
    """Why numbered checkpoints are no steps of one run; None where they are.

    Their folders are one, but for those of gradients; and where only a number stands in the names,
    they hold tensors of the same names and shapes.
    """
    members: dict[str, list[Parts]] = defaultdict(list)
    said: dict[str, bool] = {}
    for parts, place in zip(files, places, strict=True):
        if place.step is not None and not says_gradient(place.group):
            members[place.group].append(parts)
            said[place.group] = said.get(place.group, True) and place.is_said
    folders = {group.rpartition("/")[0] for group in members}
    if len(folders) > 1:
        return Message("runs.several", folders=sorted(folders))
    for group, series in members.items():
        if said[group]:
            continue
        held = [_held(path, one) for one in series[:2]]
        shapes = [
            {(one.name, one.source.shape if one.source else None) for one in found.stored}
            for found in held
            if found is not None
        ]
        if len(shapes) < 2 or shapes[0] != shapes[1]:
            return Message("runs.unlike", files=[one[-1] for one in series])
    return None


def _of_units(path: Path, files: Sequence[Parts]) -> tuple[list[tuple[Path, Parts]], list[Parts]]:
    """Checkpoints that are several files, each by its index or folder, and all other files."""
    units: list[tuple[Path, Parts]] = []
    used: set[Parts] = set()
    for folder in dict.fromkeys(parts[:-1] for parts in files):
        here = path.joinpath(*folder)
        inside = [parts for parts in files if parts[:-1] == folder]
        if os.path.isfile(here / METADATA):
            units.append((here, folder))
            used.update(inside)
            continue
        indexes = sorted(here.glob(f"*{_INDEX}"))
        for index in indexes if inside else ():
            try:
                shards = set(sharded.files_of_index(index))
            except (FormatError, OSError):
                continue
            units.append((index, (*folder, index.name)))
            used.update(parts for parts in inside if parts[-1] in shards)
    return units, [parts for parts in files if parts not in used]


class _Tensors:
    """The tensors of all files, gathered until all steps are known."""

    def __init__(self, path: Path, notes: list[str]) -> None:
        self._path, self._notes = path, notes
        self._said = name_of(path)
        self._arrays: list[tuple[Entry, Parts]] = []
        self._checkpoints: list[tuple[_Place, Held]] = []

    def add_unit(self, file: Path, parts: Parts) -> None:
        """A checkpoint of several files."""
        is_folder = file.is_dir()
        name = (*parts, "checkpoint.") if is_folder else parts
        try:
            reader = pth.open_stored if is_folder else sharded.open_stored
            stored, notes = reader(file)
            held = Held(None, stored, notes)
        except (FormatError, OSError) as error:
            held = _damaged(file, error)
        self._checkpoints.append((_Place.of(name, self._path), held))

    def add(self, parts: Parts) -> None:
        """A file of any kind."""
        file = self._path.joinpath(*parts)
        place = _Place.of(parts, self._path)
        if parts[-1].endswith(_NPY):
            self._arrays.append((_array(file, place, self._said), parts))
            return
        try:
            held = held_in(file)
        except (FormatError, OSError) as error:
            held = _damaged(file, error)
        if held.keys is None:
            if not held.stored and not held.notes:  # one number or text
                self._notes.append(Message("files.unopened", names=[printable("/".join(parts))]))
            self._checkpoints.append((place, held))
            return
        self._notes += held.notes
        dumped = parse_dumper_name(place.stem)
        for key, one in zip(held.keys, held.stored, strict=True):
            entry = _of_dumper(dumped, key, one) if dumped else _tensor(place, key, one, self._said)
            self._arrays.append((entry, parts))

    def entries(self) -> list[Entry]:
        """All tensors: parameters step by step, then what was saved beside them."""
        stored, notes = _placed(self._path, self._checkpoints)
        entries, said = checkpoint_entries(stored)
        self._notes += [*notes, *said]
        arrays = finished(
            [entry for entry, _ in self._arrays], [parts for _, parts in self._arrays]
        )
        taken = {(entry.step, entry.rank, entry.name) for entry in entries}
        before = Counter((entry.step, entry.rank) for entry in entries)
        for entry in arrays:
            place = entry.step, entry.rank
            name = entry.name if (*place, entry.name) not in taken else f"{entry.name}.file"
            taken.add((*place, name))
            order = before[place] + entry.order if entry.order >= 0 else -1
            entries.append(entry._replace(name=name, order=order))
        return sorted(entries, key=lambda entry: (entry.step, entry.rank))


def _damaged(file: Path, error: FormatError | OSError) -> Held:
    name = printable(file.name)
    return Held(None, [Stored(name, None, why_not(file, error), Site("file", name))], [])


def _array(file: Path, place: _Place, said: str) -> Entry:
    """The entry of one ``.npy`` file."""
    parsed = parse_npy_name(file.name)
    one = Stored(file.stem, None)
    try:
        one = one._replace(source=open_npy(file, parsed.dtype))
    except (FormatError, OSError) as error:
        one = one._replace(reason=message_of(error))
    return _tensor(place, "", one, said)


def _tensor(place: _Place, key: str, one: Stored, said: str) -> Entry:
    """The entry of one tensor of a file, called like the file."""
    parsed = parse_npy_name(place.stem)
    inner = f".{key}" if key else ""
    # The number in the name of a tensor's file is no step: only folders say that.
    is_of_folder = place.step is not None and place.group == place.inner + place.stem
    return Entry(
        printable(place.inner + place.stem + inner),
        site_of_npy_stem(printable(place.inner + parsed.stem + inner), folder=said),
        one.source,
        place.step if is_of_folder and place.step is not None else 0,
        place.rank,
        -1 if parsed.number is None else parsed.number,
        reason=one.reason,
    )


def _of_dumper(named: DumperName, key: str, one: Stored) -> Entry:
    path = printable(f"{named.path}.{key}" if key else named.path)
    site = site_of_npy_stem(f"{path}_backward" if named.is_gradient else path)
    name = f"{path}_{named.number}"
    return Entry(name, site, one.source, named.step, named.rank, named.number, reason=one.reason)


def _placed(
    path: Path, checkpoints: Sequence[tuple[_Place, Held]]
) -> tuple[list[Stored], list[str]]:
    """The tensors of checkpoints with their steps, and names that differ in each step."""
    notes: list[str] = []
    steps = _steps(path, [place for place, _ in checkpoints])
    groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for number, (place, _) in enumerate(checkpoints):
        groups[place.group, place.step is None].append(number)
    taken: set[tuple[int, int, str]] = set()
    stored: list[tuple[int, int, int, Stored]] = []
    # Steps before what has none, weights of usual names before others.
    for group in sorted(groups, key=lambda key: _precedence(key, checkpoints, groups[key])):
        found = [
            one._replace(step=steps[number], rank=checkpoints[number][0].rank)
            for number in groups[group]
            for one in _named(checkpoints[number][0], checkpoints[number][1])
        ]
        keys = [(one.step, one.rank, one.name) for one in found]
        if not taken.isdisjoint(keys) or len(set(keys)) < len(keys):
            found = [_in_front(group[0], one) for one in found]
            keys = [(one.step, one.rank, one.name) for one in found]
        taken.update(keys)
        said = [note for number in groups[group] for note in checkpoints[number][1].notes]
        name = printable(checkpoints[groups[group][0]][0].stem)
        notes += [Message("files.in_file", file=name, what=note) for note in dict.fromkeys(said)]
        stored += [(one.step, one.rank, at, one) for at, one in enumerate(found)]
    ordered = sorted(range(len(stored)), key=lambda at: stored[at][:2])
    return [stored[at][3] for at in ordered], notes


def _precedence(
    key: tuple[str, bool], checkpoints: Sequence[tuple[_Place, Held]], members: Sequence[int]
) -> tuple[bool, bool, bool, object]:
    group, is_last = key
    is_weights = _is_of_weights(checkpoints[members[0]][1])
    return is_last, says_gradient(group), not is_weights, natural_key(group)


def _steps(path: Path, places: Sequence[_Place]) -> list[int]:
    """The step of each checkpoint; epochs that begin again are counted on."""
    longest = max((place.step or 0 for place in places if place.epoch >= 0), default=0)
    known: list[int | None] = []
    for place in places:
        step = place.step
        if step is not None and place.epoch >= 0:
            step += max(place.epoch - 1, 0) * longest
        known.append(step)
    last = max((step for step in known if step is not None), default=0)
    state = _step_of_trainer(path)
    return [(last if state is None else state) if step is None else step for step in known]


def _step_of_trainer(path: Path) -> int | None:
    """The step that the state of transformers' Trainer beside a checkpoint has."""
    file = path / _STATE
    try:
        with opened(file) as (stream, (size, _)):
            if size > _LARGEST_STATE:
                return None
            state = json.loads(stream.read(size))
    except (OSError, ValueError, RecursionError):
        return None
    step = state.get("global_step") if isinstance(state, dict) else None
    return step if type(step) is int and 0 <= step < 2**62 else None


def _named(place: _Place, held: Held) -> Iterable[Stored]:
    """The tensors of a checkpoint; those of one that says so are gradients."""
    if not says_gradient(place.group):
        return held.stored
    word = place.group or place.stem
    return [
        one._replace(name=f"{word}/{one.name}", site=_of_gradient(word, one)) for one in held.stored
    ]


def _of_gradient(word: str, one: Stored) -> Site:
    if one.site is not None and one.site.kind == "file":
        return one.site
    site = site_of_npy_stem(f"{word}/{one.name}")
    return replace(site, role="parameter")


def _in_front(group: str, one: Stored) -> Stored:
    """A tensor whose name another file of the step has, under the name of its own file."""
    site = one.site or site_of_parameter(one.name)
    front = f"{group or 'checkpoint'}/"
    return one._replace(name=front + one.name, site=replace(site, path=front + site.path))
