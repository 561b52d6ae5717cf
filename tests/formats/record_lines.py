"""The lines of a recording with something taken away, and what opening it then says."""

from __future__ import annotations

import json

from troubleshooter_nb import open_dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.messages import Message

# What is left out of events where it says nothing.
UNSAID = {"stack", "random", "view_of", "statistics", "fingerprint", "figures", "crc32", "reason"}
UNSAID |= {"strides", "device", "keywords", "nesting", "role", "step"}
# A dump says nothing of these.
UNSAID |= {"thread", "training", "grad", "autocast", "requires_grad"}
NOTED = {"refused", "records.damaged_lines", "records.not_closed", "records.closed_early"}


def lines_of(folder):
    return (folder / "index.jsonl").read_bytes().splitlines(keepends=True)


def opened_notes(folder):
    """Ids of the notes of the dump; nothing but a refusal may be raised on the way to it."""
    try:
        dump = open_dump(folder)
    except FormatError:
        return ["refused"]
    assert all(isinstance(note, Message) for note in dump.notes)
    assert len(dump.names) == len(dump.columns)
    return [note.id for note in dump.notes]


def paths_in(value, path=()):
    """Where the keys of nested objects are."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in pairs:
        if isinstance(value, dict):
            yield (*path, key)
        if isinstance(one, (dict, list)):
            yield from paths_in(one, (*path, key))


def changed(event, path, *replacement):
    """The event without what is at the path, or with something else there."""
    copy = json.loads(json.dumps(event))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    if replacement:
        inner[path[-1]] = replacement[0]
    return copy


def each_line_changed(folder, *replacement):
    """Notes of the dump for each key of each line that is left out, or says something else."""
    index = folder / "index.jsonl"
    lines = lines_of(folder)
    for number, line in enumerate(lines):
        event = json.loads(line)
        for path in paths_in(event):
            new = json.dumps(changed(event, path, *replacement), separators=(",", ":")).encode()
            index.write_bytes(b"".join([*lines[:number], new + b"\n", *lines[number + 1 :]]))
            yield event, path, opened_notes(folder)
    index.write_bytes(b"".join(lines))


def assert_missing_keys_are_noted(folder):
    """Whatever key of whatever line is left out, the dump opens, and says so if it was needed."""
    count = 0
    for event, path, notes in each_line_changed(folder):
        count += 1
        is_optional = path[-1] in UNSAID and event.keys() != {"step"}
        if not is_optional and not {"header", "values", "statistics"} & {*path[:-1]}:
            assert NOTED & {*notes}, (event, path)
    assert count > 100
