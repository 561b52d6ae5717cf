"""Recordings of one or several ranks as one dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.record_folder import RecordedEvents, ranks_of, read_events
from troubleshooter_nb.messages import Message, joined, message_of

NAME = "tnb_record"


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
    return ranks, notes


# TODO(18): `dump_of` becomes an import of `record_entries` once that exists.
def open_record_dir(
    path: Path,
    *,
    label: str,
    dump_of: Callable[[Sequence[RecordedEvents], str, Sequence[str]], Dump],
) -> Dump:
    """Open a recording: its root, the folder of a rank, or an index.

    Raises
    ------
    FormatError
        If there is none, or no rank of it can be read.
    """
    ranks, notes = read_ranks(path)
    return dump_of(ranks, label, notes)
