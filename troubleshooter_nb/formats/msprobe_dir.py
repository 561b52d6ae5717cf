"""Dumps of msprobe, the precision debugger of Ascend: ``dump.json`` with its files, of all ranks.

The three layouts of the releases 1.2.2, 8.3.3 and 26.2.0 are read by the same call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.msprobe_config import refuse_configuration
from troubleshooter_nb.formats.msprobe_entries import (
    Names,
    distinct,
    entries_of,
    recovered,
    release_of,
)
from troubleshooter_nb.formats.msprobe_json import (
    Document,
    Stacks,
    read_document,
    read_parents,
    read_stacks,
)
from troubleshooter_nb.formats.msprobe_layout import (
    CONSTRUCT,
    DOCUMENTS,
    KERNEL_RANK,
    STACK,
    RankFolder,
    folders_in,
    has_header,
    is_rank_folder,
    note_own_step,
    places_of,
)
from troubleshooter_nb.formats.msprobe_leaves import Beside
from troubleshooter_nb.formats.msprobe_tensors import FOLDER, tensor_files
from troubleshooter_nb.messages import Message, joined, message_of
from troubleshooter_nb.naming import Site, model_numbers, without_model
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.run_card import RunCard

NAME = "msprobe_dir"

_ERRORS = "dump_error_info.log"
_MOST_NOTES = 20
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class _Reading:
    """What one place held."""

    entries: list[Entry]
    facts: Mapping[str, str]
    notes: list[str]


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_file():
        if path.suffix != ".json":
            return Message("msprobe.not_json")
        if path.name in (STACK, CONSTRUCT) and is_rank_folder(path.parent):
            return Message("msprobe.part", file=path.name, folder=path.parent.name)
        is_ours = path.name in DOCUMENTS and is_rank_folder(path.parent)
        return None if is_ours or has_header(path) else Message("msprobe.without_header")
    if not path.is_dir():
        return Message("files.neither")
    try:
        if places_of(path, []):
            return None
    except OSError as error:
        return message_of(error)
    if os.path.exists(path / DOCUMENTS[0]):
        return Message("msprobe.document_without_header", file=DOCUMENTS[0])
    if kernels := [child.name for child in folders_in(path) if KERNEL_RANK.fullmatch(child.name)]:
        return Message("msprobe.kernel_rank", folder=kernels[0])
    return Message("msprobe.none")


def open_msprobe_dir(path: Path, *, label: str) -> Dump:
    """Open a dump of msprobe by its JSON files; tensors are read when asked for.

    Parameters
    ----------
    path : Path
        The root of the dump (``step*/{rank,rank<k>,proc<pid>}``), one step of it, the folder of
        one rank, or the ``dump.json`` or ``debug.json`` therein. What `path` itself is called
        says nothing: one step opened on its own is step 0, so that it compares with any other.
    label : str

    Returns
    -------
    Dump
        One entry per tensor, number, text or null of each call, named as msprobe names it:
        ``Module.fc1.Linear.forward.0.input.0``. A keyword argument is ``....kwargs.other`` in
        every task. Shape, dtype and statistics are those of the JSON; a value that is no tensor
        has a `value` and the name of its type as dtype. A tensor whose file is missing keeps its
        statistics and has a reason. ``proc<pid>`` is rank 0; where a step has several, they are
        ranks in order of their numbers, and a note says so.

        Of a dump that was interrupted the tensors are found by their file names.

        In a backward entry `input` are the gradients of the outputs and `output` those of the
        inputs, as in the dump.

    Raises
    ------
    FormatError
        If there is no dump, or none of its ranks can be read.
    OSError
        If the folder cannot be searched.
    """
    notes: list[str] = []
    # What "." is called says which release wrote it.
    path = Path(os.path.abspath(path))
    if path.is_file():
        refuse_configuration(path)
        note_own_step(path.parent.parent, notes)
        places = [RankFolder(path.parent, 0, 0, printable(path.name), (path.name,))]
    else:
        places = places_of(path, notes)
    if not places:
        raise FormatError(Message("msprobe.none_in", folder=path.name))
    names, stacks, failures = Names(), dict[str, str](), []
    readings = []
    for place in places:
        try:
            readings.append(_read(place, names, stacks))
        except FormatError as error:
            failures.append(message_of(error))
            readings.append(_unreadable(place, failures[-1]))
    if len(failures) == len(places):
        if len(places) == 1:
            raise FormatError(failures[0])
        count, problem = len(places), failures[0]
        raise FormatError(Message("msprobe.no_rank_read", count=count, problem=problem))
    entries = [entry for reading in readings for entry in reading.entries]
    entries, models = _without_only_model(entries, names)
    said = _said(
        [(place.said_by, reading.notes) for place, reading in zip(places, readings, strict=True)]
    )
    card, differing = _card([reading.facts for reading in readings])
    everything = [*notes, *models, *differing, *said]
    if len(everything) > _MOST_NOTES:
        more = len(everything) - _MOST_NOTES
        everything[_MOST_NOTES:] = [Message("dumps.more_notes", count=more)]
    return Dump.from_entries(entries, label=label, format=NAME, card=card, notes=everything)


def _read(place: RankFolder, names: Names, shared: dict[str, str]) -> _Reading:
    """The entries of one rank in one step.

    FormatError where its json cannot be read and no tensor file makes up for it.
    """
    notes: list[str] = []
    folder = place.folder
    try:
        files = tensor_files(folder)
    except OSError as error:
        files = None
        notes.append(Message("msprobe.tensors_not_searched", folder=FOLDER, problem=error))
    stacks = _or_note(folder / STACK, lambda file: read_stacks(file, shared), Stacks(), notes)
    parents = _or_note(folder / CONSTRUCT, read_parents, dict[str, str](), notes)
    documents, failure = [], ""
    present = [name for name in place.documents if os.path.lexists(folder / name)]
    for name in present:
        try:
            documents.append(read_document(folder / name))
        except FormatError as error:
            failure = failure or message_of(error)
    if not documents and not files:
        raise FormatError(failure or Message("msprobe.none_of_rank", folder=place.said_by))
    if failure:
        notes.append(failure)
    data = {name: value for one in documents for name, value in one.data.items()}
    facts = next((one.facts for one in documents), {})
    framework = facts.get("framework", "")
    release = release_of(data, stacks, framework, folder.name)
    beside = Beside(folder, place.step, place.rank, files, stacks, parents, framework, release)
    for call in parents:
        names.call(call)
    try:
        entries = entries_of(data, beside, names, notes)
    except FormatError as error:
        problem = Message("msprobe.of_files", files=present, problem=error)
        raise FormatError(problem) from None
    # A json asked for by name says what is wanted; beside it may lie files of the other one.
    if place.documents == DOCUMENTS or not data:
        entries += recovered(beside, names, notes)
    notes += _about(documents, data, parents, facts)
    if os.path.lexists(folder / _ERRORS):
        notes.append(Message("msprobe.own_errors", file=_ERRORS))
    if release:
        facts = {**facts, "msprobe_layout": release}
    return _Reading(distinct(entries, notes), facts, notes)


def _about(
    documents: Iterable[Document],
    data: Mapping[str, object],
    parents: Mapping[str, str],
    facts: Mapping[str, str],
) -> list[str]:
    """What to say about a document that is empty or has names twice."""
    repeated = [printable(name) for one in documents for name in one.repeated]
    said: list[str] = [Message("msprobe.repeated", names=repeated)] if repeated else []
    if not data and facts:
        named = Message("msprobe.calls_named", file=CONSTRUCT, count=len(parents))
        nothing = Message("msprobe.no_data", task=facts.get("task", ""))
        said.append(joined([nothing, named if parents else ""]))
    return said


def _or_note(file: Path, read: Callable[[Path], _Read], default: _Read, notes: list[str]) -> _Read:
    """What a file beside the dump holds; a missing one is fine, a damaged one is a note."""
    if not os.path.lexists(file):
        return default
    try:
        return read(file)
    except FormatError as error:
        notes.append(Message("msprobe.not_read", problem=error))
        return default


def _unreadable(place: RankFolder, reason: str) -> _Reading:
    name = place.documents[0]
    entry = Entry(name, Site("file", name), None, place.step, place.rank, reason=reason)
    return _Reading([entry], {}, [])


def _without_only_model(entries: list[Entry], names: Names) -> tuple[list[Entry], list[str]]:
    """The entries without the number of the model in their paths, if there is but one model."""
    numbers = model_numbers(names.modules)
    if len(numbers) > 1:
        return entries, [Message("msprobe.models", numbers=list(numbers))]
    if not numbers:
        return entries, []
    sites = {site: without_model(site) for site in {entry.site for entry in entries}}
    return [entry._replace(site=sites[entry.site]) for entry in entries], []


def _card(facts: Iterable[Mapping[str, str]]) -> tuple[RunCard, list[str]]:
    """The facts of the first rank that has any, and which of them others have otherwise."""
    known = [one for one in facts if one]
    if not known:
        return RunCard(), []
    differing = [key for key in known[0] if any(one.get(key) != known[0][key] for one in known)]
    said = Message("msprobe.facts_differ", names=differing)
    return RunCard.from_dict(known[0]), [said] if differing else []


def _said(of_places: list[tuple[str, list[str]]]) -> list[str]:
    """The notes of all places, each once, with the places it is about unless it is all."""
    by_note: dict[str, list[str]] = {}
    for said_by, notes in of_places:
        for note in dict.fromkeys(notes):
            by_note.setdefault(note, []).append(said_by)
    return [
        note
        if len(places) == len(of_places)
        else Message("msprobe.of_places", places=places, note=note)
        for note, places in by_note.items()
    ]
