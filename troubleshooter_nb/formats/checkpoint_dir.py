"""Folders with one checkpoint per rank, as distributed training leaves them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump
from troubleshooter_nb.formats.checkpoint_file import SUFFIXES, open_any, why_not
from troubleshooter_nb.formats.npy_dir import files_below
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.naming import Site, natural_key

NAME = "checkpoint_dir"

_RANK_FOLDER = re.compile(r"(?i)(?:mp_)?rank[_-]?([0-9]{1,9})")
# Tensor parallel, pipeline parallel and so on: several numbers that together are one process.
_PARALLEL_FOLDER = re.compile(r"(?i)mp_rank((?:_[0-9]{1,9}){2,3})")
_RANK_FILE = re.compile(r"(?is)(?:.*[._-])?rank[_-]?([0-9]{1,9})")
_STEP_FOLDER = re.compile(r"(?i)(?:iter|iteration|step|global_step|epoch)[_-]?([0-9]{1,18})")


class _CheckpointFile(NamedTuple):
    """A checkpoint file, whose it is, and the folder or file name that says so."""

    file: Path
    said_by: str
    step: int
    rank: int


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if not path.is_dir():
        return Message("checkpoints.no_folder")
    try:
        files_of_ranks(path, [])
    except (FormatError, OSError) as error:
        # Also where a rank has several: files of these names may be the dump of another tool.
        return message_of(error)
    return None


def open_checkpoint_dir(path: Path, *, label: str) -> Dump:
    """Open the checkpoints of all ranks, and of several steps, as one dump.

    Parameters
    ----------
    path : Path
        Folder with sub-folders ``rank_0`` (also ``rank0``, ``rank-0``, ``mp_rank_00``), each with
        one checkpoint, or with files ``x_rank_0.ckpt``; or with sub-folders ``iter_0000005``
        (also ``step_10``, ``global_step10``, ``epoch_3``) that hold these. Links to folders are
        not followed.
    label : str

    Returns
    -------
    Dump
        The entries of every file, with its rank and the step of its folder; what `path` itself
        is called says nothing. A file that cannot be read is one entry with a reason, named like
        the file.

    Raises
    ------
    FormatError
        If there is no checkpoint, there are several of one rank, or none can be read.
    OSError
        If the folder cannot be searched.
    """
    stored, notes = open_stored(path)
    return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


def open_stored(path: Path) -> tuple[list[Stored], list[str]]:
    """The tensors of all ranks, and what to say; raises as `open_checkpoint_dir` does."""
    notes: list[str] = []
    places = files_of_ranks(path, notes)
    said: dict[str, list[str]] = {}
    stored: list[Stored] = []
    failures: list[str] = []
    for place in places:
        try:
            found, more = open_any(place.file)
        except (FormatError, OSError) as error:
            failures.append(why_not(place.file, error))
            stored.append(_unreadable(place, failures[-1]))
            continue
        stored += (one._replace(step=place.step, rank=place.rank) for one in found)
        for note in more:
            said.setdefault(note, []).append(place.said_by)
    if len(failures) == len(places):
        none = Message("checkpoints.none_readable", count=len(places))
        raise FormatError(joined([none, failures[0]]))
    of_ranks = [
        Message("checkpoints.of_folders", folders=folders, note=note)
        for note, folders in said.items()
    ]
    return stored, [*dict.fromkeys(notes), *of_ranks]


def _unreadable(place: _CheckpointFile, reason: str) -> Stored:
    name = place.file.name
    # A site of its own: this is no parameter whose prefix could be that of all.
    return Stored(name, None, reason, Site("file", name), place.step, place.rank)


def files_of_ranks(folder: Path, notes: list[str]) -> list[_CheckpointFile]:
    """The checkpoints of a folder by step and rank; `notes` gets what is left aside.

    FormatError where there is none, or several of one rank.
    """
    folders, files = _children(folder, notes)
    steps = _numbered(folders, _STEP_FOLDER)
    if steps:
        _note_others([*_without(folders, steps), *files], notes)
        places = [
            place._replace(step=step, said_by=f"{child.name}/{place.said_by}")
            for step, child in sorted(steps.items())
            for place in _ranks(child, *_children_of_part(child, notes), notes)
        ]
    else:
        places = _ranks(folder, folders, files, notes)
    if not places:
        facts = {"folder": folder.name, "suffixes": [*SUFFIXES]}
        if not steps:
            raise FormatError(Message("checkpoints.none_in", **facts))
        names = [child.name for child in steps.values()]
        raise FormatError(Message("checkpoints.none_below", steps=names, **facts))
    return places


def _ranks(
    folder: Path, folders: list[Path], files: list[Path], notes: list[str]
) -> list[_CheckpointFile]:
    """The checkpoints of one step, by rank."""
    by_rank = _rank_folders(folders, notes)
    if by_rank:
        _note_others([*_without(folders, by_rank), *files], notes)
        return [
            _CheckpointFile(file, child.name, 0, rank)
            for rank, child in sorted(by_rank.items())
            if (file := _only_file(child, notes))
        ]
    ranked = _numbered(files, _RANK_FILE, of=lambda file: file.stem)
    if ranked:
        _note_others(_without(files, ranked), notes)
        return [_CheckpointFile(file, file.name, 0, rank) for rank, file in sorted(ranked.items())]
    if len(files) > 1:
        raise FormatError(_too_many(folder, files))
    return [_CheckpointFile(file, file.name, 0, 0) for file in files]


def _without(children: Iterable[Path], used: Mapping[int, Path]) -> list[Path]:
    known = set(used.values())
    return [child for child in children if child not in known]


def _only_file(folder: Path, notes: list[str]) -> Path | None:
    """The checkpoint in the folder of a rank; None, and a note, where it has none."""
    said = len(notes)
    _, files = _children_of_part(folder, notes)
    if len(files) > 1:
        raise FormatError(_too_many(folder, files))
    if not files and len(notes) == said:
        notes.append(Message("checkpoints.folder_of_none", folder=folder.name))
    return files[0] if files else None


def _too_many(folder: Path, files: Iterable[Path]) -> str:
    names = [file.name for file in files]
    return Message("checkpoints.several", folder=folder.name or str(folder), files=names)


def _children(folder: Path, notes: list[str]) -> tuple[list[Path], list[Path]]:
    """Sub-folders and checkpoint files, by name; hidden ones left out."""
    folders, files = [], []
    with os.scandir(folder) as children:
        for child in children:
            if child.name.startswith("."):
                continue
            if child.is_dir(follow_symlinks=False):
                folders.append(Path(child.path))
            elif child.is_symlink() and os.path.isdir(child.path):
                notes.append(Message("checkpoints.link", folder=child.name))
            elif child.name.lower().endswith(SUFFIXES):
                files.append(Path(child.path))
    return sorted(folders, key=_by_name), sorted(files, key=_by_name)


def _children_of_part(folder: Path, notes: list[str]) -> tuple[list[Path], list[Path]]:
    """Like `_children`; a folder that cannot be searched is a note, the others stay."""
    try:
        return _children(folder, notes)
    except OSError as error:
        notes.append(Message("checkpoints.not_searched", folder=folder.name, why=error))
        return [], []


def _by_name(path: Path) -> tuple[tuple[int, int, str], ...]:
    return natural_key(path.name)


def _rank_folders(folders: list[Path], notes: list[str]) -> dict[int, Path]:
    """The folder of each rank."""
    parallel = [child for child in folders if _PARALLEL_FOLDER.fullmatch(child.name)]
    if not parallel:
        return _numbered(folders, _RANK_FOLDER)
    # Without the number of pipeline stages the true rank cannot be known.
    parallel += (child for child in folders if _RANK_FOLDER.fullmatch(child.name))
    by_rank = dict(enumerate(sorted(parallel, key=_by_name)))
    ranks = [
        Message("checkpoints.rank_is", folder=child.name, rank=rank)
        for rank, child in by_rank.items()
    ]
    notes.append(Message("checkpoints.ranks_numbered", ranks=ranks))
    return by_rank


def _numbered(
    children: Iterable[Path],
    pattern: re.Pattern[str],
    of: Callable[[Path], str] = lambda child: child.name,
) -> dict[int, Path]:
    """The children whose names have a number, by it.

    Raises
    ------
    FormatError
        If two have the same.
    """
    found: dict[int, Path] = {}
    for child in children:
        match = pattern.fullmatch(of(child))
        if not match:
            continue
        number = int(match[1])
        if number in found:
            both = {"one": found[number].name, "other": child.name}
            raise FormatError(Message("checkpoints.same_number", number=number, **both))
        found[number] = child
    return found


def _note_others(children: Iterable[Path], notes: list[str]) -> None:
    """Say what is left: apart what may hold tensors, which a comparison will not know."""
    children = [*children]
    holding = [child for child in children if child.is_file() or _holds_tensors(child)]
    for id, found in ("unopened", holding), ("left_aside", children):
        if names := [child.name for child in found if found is holding or child not in holding]:
            notes.append(Message(f"files.{id}", names=names))


def _holds_tensors(folder: Path) -> bool:
    return next(files_below(folder, [], (".npy", *SUFFIXES)), None) is not None
