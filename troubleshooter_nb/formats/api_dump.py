"""Folders that TroubleShooter's ``api_dump`` left: records, call stacks and arrays of one run."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import head_of, named, opened
from troubleshooter_nb.formats.hooks_lines import figure, figures_in, shape_in
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Foreign, Message, joined, message_of
from troubleshooter_nb.naming import Site, natural_key
from troubleshooter_nb.naming.api_dump import ApiName, parse_api_name, site_of_api
from troubleshooter_nb.naming.characters import printable

NAME = "api_dump"

_PART = re.compile(r"(torch|mindspore|mindtorch)_api_dump(|_info\.csv|_stack\.json)")
_RANK = re.compile(r"(?i)rank[_-]?([0-9]{1,9})")
_LONGEST_LINE = 1024**2  # bytes; a record holds no values
_LARGEST_STACK_FILE = 256 * 1024**2  # bytes
_MOST_NOTES = 9


@dataclass(frozen=True)
class _Part:
    """What one rank of one framework left."""

    folder: Path
    framework: str
    rank: int = 0

    def file(self, ending: str) -> Path:
        return self.folder / f"{self.framework}_api_dump{ending}"


@dataclass(frozen=True)
class _Record:
    """One line of the info file, or an array without one (`line` 0)."""

    line: int
    name: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistics: dict[str, float] = field(default_factory=dict)
    digest: str = ""
    fault: str = ""


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if not path.is_dir():
        return Message("dumps.not_a_folder")
    parts = _parts(path)
    if not parts:
        return Message("dumps.api_none")
    return _several(parts)


def open_api_dump(path: Path, *, label: str) -> Dump:
    """Open what ``api_dump_start`` wrote for one side.

    Parameters
    ----------
    path : Path
        The output folder, with its ``rank<r>`` folders, or one of these.
    label : str

    Returns
    -------
    Dump
        One entry per record, in the order of the info file, with its statistics, checksum and
        call stack; values where an array was written. A statistic that was not asked for is
        unknown. ``LAYER_...`` are markers without a role; the module of the call that follows one
        is its `parent`. A step begins where forward records follow backward ones; calls count
        from 0 in each. Arrays without a record come last.

    Raises
    ------
    FormatError
        If the folder is none of these, or holds the dumps of two frameworks.
    """
    parts = _parts(path)
    reason = refusal(path) if not parts else _several(parts)
    if reason is not None:
        raise FormatError(Message("files.in_file", file=path.name, what=reason))
    entries: list[Entry] = []
    notes: list[str] = [Message("dumps.api_of", framework=parts[0].framework)]
    for part in parts:
        found, said = _read(part)
        entries += found
        if len(parts) > 1:
            said = [Message("dumps.of_rank", rank=part.rank, note=note) for note in said]
        notes += said
    if not entries:
        raise FormatError(Message("dumps.api_empty", folder=path.name))
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [Message("dumps.more_notes_of_ranks", count=len(notes) - _MOST_NOTES)]
    return Dump.from_entries(entries, label=label, format=NAME, notes=notes)


def _parts(path: Path) -> list[_Part]:
    found: dict[tuple[Path, str], _Part] = {}
    folders = [path]
    try:
        folders += [f for f in path.iterdir() if _RANK.fullmatch(f.name) and f.is_dir()]
    except OSError:
        return []
    for folder in folders:
        match = _RANK.fullmatch(folder.name)
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            part = _PART.fullmatch(name)
            is_array_folder = part is not None and not part[2] and (folder / name).is_dir()
            if part is not None and (part[2] == "_info.csv" or is_array_folder):
                key = folder, part[1]
                found[key] = _Part(folder, part[1], int(match[1]) if match else 0)
    return sorted(found.values(), key=lambda part: (part.rank, part.folder, part.framework))


def _several(parts: Sequence[_Part]) -> str | None:
    frameworks = sorted({part.framework for part in parts})
    if len(frameworks) > 1:
        return Message("dumps.api_frameworks", first=frameworks[0], second=frameworks[1])
    if len({part.rank for part in parts}) < len(parts):
        return Message("dumps.api_ranks")
    return None


def _read(part: _Part) -> tuple[list[Entry], list[str]]:
    records, notes = _records(part.file("_info.csv"))
    arrays = part.file("")
    names = os.listdir(arrays) if arrays.is_dir() else []
    left = {name.removesuffix(".npy") for name in names if name.endswith(".npy")}
    missing = sum(record.name not in left for record in records)
    if not left:
        notes.append(Message("dumps.api_no_arrays"))
    elif missing:
        notes.append(Message("dumps.api_without_array", count=missing, total=len(records)))
    unlisted = sorted(left - {record.name for record in records}, key=natural_key)
    if unlisted:
        count, example = len(unlisted), unlisted[0]
        notes.append(Message("dumps.api_without_record", count=count, example=example))
    steps, steps_note = _steps(records)
    notes += steps_note
    stacks, stack_notes = _stacks(part.file("_stack.json"))
    entries = _entries([*records, *(_Record(0, name) for name in unlisted)], steps, stacks)
    filled = [
        (
            _with_array(entry, arrays / f"{entry.name}.npy") if entry.name in left else entry
        )._replace(rank=part.rank, order=order)
        for order, entry in enumerate(entries)
    ]
    return _distinct(filled), notes + stack_notes


def _records(file: Path) -> tuple[list[_Record], list[str]]:
    """The records of an info file, which holds one JSON array per line and is no csv."""
    if not file.exists():
        return [], [Message("dumps.api_no_file", file=file.name)]
    records: list[_Record] = []
    bad: list[_Record] = []
    try:
        with named(file), opened(file) as (stream, _):
            number = 0
            while text := stream.readline(_LONGEST_LINE + 1):
                number += 1
                if text.strip():
                    record = _record(text, number)
                    (records if record.name else bad).append(record)
    except FormatError as error:
        return [], [message_of(error)]
    if not bad:
        return records, []
    where = {"file": file.name, "lines": [record.line for record in bad]}
    return records, [Message("dumps.api_left_out", **where, problem=bad[0].fault)]


def _record(text: bytes, number: int) -> _Record:
    torn = not text.endswith(b"\n") and not text.rstrip().endswith(b"]")
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError) as error:
        cut, problem = Message("dumps.line_torn"), Foreign(str(error)[:80])
        fault = cut if torn else Message("dumps.line_no_json", problem=problem)
        return _Record(number, "", fault=fault)
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
        return _Record(number, "", fault=Message("dumps.line_no_list"))
    name = printable(parts[0])
    if len(parts) < 6 or not isinstance(parts[3], str):
        return _Record(number, name, fault=Message("dumps.api_elements", count=len(parts)))
    try:
        shape = shape_in(parts[4])
    except FormatError as error:
        return _Record(number, name, fault=message_of(error))
    statistics = dict(zip(("max", "min", "mean"), figures_in(parts[5]), strict=False))
    if len(parts) > 7:
        statistics["l2"] = figure(parts[7])
    digest = f"md5:{parts[6]}" if len(parts) > 6 and isinstance(parts[6], str) else ""
    finite = {key: value for key, value in statistics.items() if math.isfinite(value)}
    return _Record(number, name, _dtype(parts[3]), shape, finite, digest)


def _dtype(text: str) -> str:
    """``torch.float32`` and ``Float32`` are both ``float32``."""
    return printable(text.removeprefix("torch.").lower())[:80]


def _steps(records: Sequence[_Record]) -> tuple[list[int], list[str]]:
    """The step of each record: one begins where forward follows backward."""
    steps: list[int] = []
    step, before = 0, "forward"
    for record in records:
        parts = parse_api_name(record.name)
        direction = parts.direction if parts is not None else before
        step += before == "backward" and direction == "forward"
        before = direction
        steps.append(step)
    if not step:
        return steps, []
    last = Message("dumps.api_last_forward") if before == "forward" else ""
    return steps, [joined([Message("dumps.api_steps", count=step + 1), last])]


def _entries(
    records: Sequence[_Record], steps: Sequence[int], stacks: dict[str, str]
) -> list[Entry]:
    """Entries without arrays and rank."""
    names = [parse_api_name(record.name) for record in records]
    # Records of arrays alone stand behind the others, in step 0.
    places = [*steps, *[0] * (len(records) - len(steps))]
    firsts: dict[tuple[int, str, str], int] = {}
    for parts, step in zip(names, places, strict=True):
        if parts is not None and parts.call is not None:
            key = step, parts.category, parts.op
            firsts[key] = min(firsts.get(key, parts.call), parts.call)
    entries = []
    marker, owner = "", ("", -1)
    for record, parts, step in zip(records, names, places, strict=True):
        if parts is None:
            entries.append(_bare(record, Site("api", record.name), step))
            continue
        first = firsts.get((step, parts.category, parts.op), 0)
        site = site_of_api(parts, 0 if parts.call is None else parts.call - first)
        parent = ""
        if parts.is_marker:
            marker, owner = record.name, ("", -1)
        elif parts.direction == "forward" and parts.category == "NN" and marker:
            # A marker stands in front of the one module it is about.
            call = parts.op, parts.call or 0
            if owner in (("", -1), call):
                owner, parent = call, marker
            else:
                marker = ""
        else:
            marker = ""
        entry = _bare(record, site, step)._replace(parent=parent, stack=_stack(parts, stacks))
        entries.append(entry._replace(layer="" if parts.is_marker else parts.op))
    return entries


def _bare(record: _Record, site: Site, step: int) -> Entry:
    return Entry(
        *(record.name, site, None, step),
        reason=record.fault and Message("dumps.line", line=record.line, problem=record.fault),
        statistics=record.statistics,
        dtype=record.dtype,
        shape=record.shape,
        digest=record.digest,
    )


def _with_array(entry: Entry, file: Path) -> Entry:
    try:
        return entry._replace(source=open_npy(file), reason="")
    except (FormatError, OSError) as error:
        return entry._replace(reason=message_of(error))


def _stack(parts: ApiName, stacks: dict[str, str]) -> str:
    return next((stacks[key] for key in parts.stack_keys if key in stacks), "")


def _stacks(file: Path) -> tuple[dict[str, str], list[str]]:
    """The call stack of each call, one frame a line, innermost first."""
    if not file.exists():
        return {}, []
    text = head_of(file, _LARGEST_STACK_FILE + 1)
    if len(text) > _LARGEST_STACK_FILE:
        size = _LARGEST_STACK_FILE // 1024**2
        return {}, [Message("dumps.api_stacks_too_large", file=file.name, size=size)]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = Foreign(str(error)[:80])
        return {}, [Message("dumps.api_stacks", file=file.name, problem=problem)]
    if not isinstance(found, dict):
        return {}, [Message("dumps.api_stacks_no_object", file=file.name)]
    return {key: "\n".join(map(_frame, v)) for key, v in found.items() if isinstance(v, list)}, []


def _frame(text: Any) -> str:
    r"""``File pt.py, line 7, in forward, \n code`` -> ``pt.py:7 in forward: code``."""
    text = printable(str(text))
    match = re.fullmatch(r"(?s)File (.*?), line ([0-9]+), in (.*?), ?\n\s*(.*)", text)
    if match is None:
        return " ".join(text.split())[:1000]
    return f"{match[1]}:{match[2]} in {match[3]}: {' '.join(match[4].split())}"[:1000]


def _distinct(entries: Sequence[Entry]) -> list[Entry]:
    """The entries; a name that repeats within its step gets ``#1``, ``#2``, ... ."""
    taken: set[tuple[int, str]] = set()
    result = []
    for entry in entries:
        name, repeat = entry.name, 0
        while (entry.step, name) in taken:
            repeat += 1
            name = f"{entry.name}#{repeat}"
        taken.add((entry.step, name))
        result.append(entry._replace(name=name))
    return result
