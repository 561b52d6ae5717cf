"""Where the ranks and steps of an msprobe dump lie in its folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.formats.file_source import head_of
from troubleshooter_nb.formats.msprobe_tensors import FOLDER
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import natural_key
from troubleshooter_nb.naming.characters import printable

DOCUMENTS = ("dump.json", "debug.json")
STACK, CONSTRUCT = "stack.json", "construct.json"
_KEYS = (b'"task"', b'"level"', b'"framework"', b'"dump_data_dir"')
_HEAD = 4096  # bytes; the header is at most a path longer than 100
_STEP = re.compile(r"step(0|[1-9][0-9]{0,17})")
_RANK = re.compile(r"rank(0|[1-9][0-9]{0,8})?")
_PROCESS = re.compile(r"proc([0-9]{1,18})")
# What kernel-level dumps, and MindSpore's own, call the folder of a rank.
KERNEL_RANK = re.compile(r"rank_[0-9]+")


class RankFolder(NamedTuple):
    """The folder of one rank in one step, the files of it that are read, and what it is called."""

    folder: Path
    step: int
    rank: int
    said_by: str
    documents: tuple[str, ...] = DOCUMENTS


def places_of(path: Path, notes: list[str]) -> list[RankFolder]:
    """The folders of all ranks and steps, in their order; OSError where `path` is not readable."""
    if is_rank_folder(path):
        note_own_step(path.parent, notes)
        return [RankFolder(path, 0, 0, printable(path.name))]
    children = folders_in(path)
    steps = {int(m[1]): child for child in children if (m := _STEP.fullmatch(child.name))}
    if not steps:
        by_step = {0: _ranks_of(children, notes)}
        if by_step[0]:
            note_own_step(path, notes)
    else:
        by_step = {step: _ranks_of(folders_in(child), notes) for step, child in steps.items()}
        for step in sorted(steps):
            if not by_step[step]:
                notes.append(Message("msprobe.step_empty", folder=f"step{step}"))
    ranks = _rank_numbers(list(by_step.values()), notes)
    places = [
        RankFolder(folder, step, ranks[step_of][folder.name], _with_parent(folder))
        for step_of, (step, folders) in enumerate(by_step.items())
        for folder in folders
    ]
    places.sort(key=lambda place: (place.step, place.rank))
    notes += _holes(places) if places else []
    return places


def note_own_step(folder: Path, notes: list[str]) -> None:
    """Say that the folder's own step does not count, where it is another than 0."""
    match = _STEP.fullmatch(folder.name)
    if match and int(match[1]):
        notes.append(Message("msprobe.own_step", folder=folder.name))


def _ranks_of(children: Iterable[Path], notes: list[str]) -> list[Path]:
    """Folders of ranks and processes that hold a dump."""
    named = [c for c in children if _RANK.fullmatch(c.name) or _PROCESS.fullmatch(c.name)]
    found = [child for child in named if is_rank_folder(child)]
    if found:
        notes += (
            Message("msprobe.step_empty", folder=_with_parent(child))
            for child in named
            if child not in found
        )
    return found


def _rank_numbers(steps: list[list[Path]], notes: list[str]) -> list[dict[str, int]]:
    """The rank of each folder by name, for each step.

    A process alone in its step is rank 0, as is ``rank``. Where a step has several, those without
    a number of rank get the free ones in the order of their own numbers, the same in every step.
    """
    numbered = {
        f.name: int(m[1]) for fs in steps for f in fs if (m := _RANK.fullmatch(f.name)) and m[1]
    }
    crowded = any(
        len(folders) > 1 and any(f.name not in numbered for f in folders) for folders in steps
    )
    if not crowded:
        return [{f.name: numbered.get(f.name, 0) for f in folders} for folders in steps]
    others = sorted(
        {f.name for folders in steps for f in folders if f.name not in numbered},
        key=lambda name: natural_key(name.removeprefix("rank").removeprefix("proc")),
    )
    first = max(numbered.values(), default=-1) + 1
    given = {name: first + position for position, name in enumerate(others)}
    of_names = [Message("msprobe.rank_of", name=name, rank=rank) for name, rank in given.items()]
    notes.append(Message("msprobe.several_processes", ranks=of_names))
    return [{f.name: (numbered | given)[f.name] for f in folders} for folders in steps]


def _with_parent(folder: Path) -> str:
    return printable(f"{folder.parent.name}/{folder.name}")


def _holes(places: list[RankFolder]) -> list[str]:
    """What is missing between the first and the last step, and the ranks that a step lacks."""
    steps = sorted({place.step for place in places})
    ranks = sorted({place.rank for place in places})
    said: list[str] = []
    if count := steps[-1] + 1 - steps[0] - len(steps):
        said.append(Message("msprobe.steps_missing", count=count, numbers=steps))
    if count := ranks[-1] + 1 - len(ranks):
        said.append(Message("msprobe.ranks_missing", count=count, numbers=ranks))
    present = {(place.step, place.rank) for place in places}
    for step in steps:
        missing = [rank for rank in ranks if (step, rank) not in present]
        if missing:
            said.append(Message("msprobe.step_lacks", step=step, ranks=missing))
    return said


def folders_in(path: Path) -> list[Path]:
    """Sub-folders in the order of their numbers; links count, as the depth is limited."""
    with os.scandir(path) as children:
        return sorted(
            (Path(c.path) for c in children if c.is_dir()), key=lambda p: natural_key(p.name)
        )


def is_rank_folder(folder: Path) -> bool:
    """Whether this is the folder of one rank, also of one whose json was never finished."""
    present = [name for name in DOCUMENTS if os.path.isfile(folder / name)]
    if any(has_header(folder / name) for name in present):
        return True
    others = (FOLDER, STACK, CONSTRUCT) if present else (FOLDER,)
    return any(os.path.exists(folder / name) for name in others)


def has_header(file: Path) -> bool:
    """Whether a file begins like a ``dump.json``."""
    head = head_of(file, _HEAD)
    return sum(key in head for key in _KEYS) > 1
