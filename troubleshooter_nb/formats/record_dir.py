"""Recordings of one or several ranks as one dump."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.record_entries import NAME as NAME
from troubleshooter_nb.formats.record_entries import dump_of
from troubleshooter_nb.formats.record_folder import RecordedEvents, ranks_of, read_events
from troubleshooter_nb.formats.record_folder import refusal as refusal
from troubleshooter_nb.formats.record_grammar import is_whole_number
from troubleshooter_nb.messages import Message, joined, message_of


def read_ranks(path: Path) -> tuple[list[RecordedEvents], list[str]]:
    """What each rank recorded, by number, and notes about those that cannot be read.

    Raises
    ------
    FormatError
        If none can be read.
    """
    ranks: list[RecordedEvents] = []
    notes: list[str] = []
    for folder in ranks_of(path):
        try:
            ranks.append(read_events(folder))
        except FormatError as error:
            problem = message_of(error)
            notes.append(Message("records.rank_left_out", folder=folder.name, problem=problem))
    if not ranks:
        raise FormatError(joined([Message("records.refusal"), *notes]))
    ranks, stale = _of_one_run(ranks)
    notes += stale
    if len({recorded.rank for recorded in ranks}) < len(ranks):
        # Put together from several runs, perhaps: only the folders tell them apart.
        ranks = [replace(each, rank=number) for number, each in enumerate(ranks)]
        notes.append(Message("records.ranks_by_folder", count=len(ranks)))
    return ranks, notes


def _of_one_run(ranks: list[RecordedEvents]) -> tuple[list[RecordedEvents], list[str]]:
    """The ranks of the run that wrote the first folder last, and a note about those of others.

    A run of fewer processes leaves the folders of an earlier one as they are.
    """
    count = ranks[0].header.get("ranks", 0)
    if not is_whole_number(count) or count <= ranks[0].rank:
        return ranks, []  # nothing says how many there were, as where users number them
    kept = [recorded for recorded in ranks if recorded.rank < count]
    left = [recorded.folder.name for recorded in ranks if recorded.rank >= count]
    first = ranks[0].folder.name
    said = Message("records.stale_ranks", folders=left, first=first, count=count)
    return kept, [said] if left else []


def open_record_dir(path: Path, *, label: str) -> Dump:
    """Open a recording: its root, the folder of a rank, or an index.

    It may still be written, or have broken off: what was complete then is there.

    Raises
    ------
    FormatError
        If there is none, or no rank of it can be read.
    """
    ranks, notes = read_ranks(path)
    return dump_of(ranks, label, notes)
