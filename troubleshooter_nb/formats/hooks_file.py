"""Dumps of ``torch_npu.hooks`` and ``ptdbg_ascend``: text files called ``.pkl``.

Nothing here unpickles anything.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import head_of, named, opened
from troubleshooter_nb.formats.hooks_arrays import Arrays
from troubleshooter_nb.formats.hooks_lines import Line, lines_of
from troubleshooter_nb.formats.hooks_notes import Findings, notes_of
from troubleshooter_nb.formats.hooks_rule import Rule, rule_of
from troubleshooter_nb.formats.hooks_stacks import stacks_of
from troubleshooter_nb.formats.recorded import with_nonfinite
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.hooks import (
    HookName,
    calls_of,
    parse_hook_name,
    sample_name,
    sample_slot,
    site_of_hook,
    steps_of,
)

NAME = "hooks_file"

_HEAD_LINE = re.compile(rb'\s*\[\s*"((?:[^"\\\r\n]|\\.){1,2000})"\s*,')
# What pickle.dump() leaves in front: a protocol, or the text of protocol 0.
_PICKLE = re.compile(rb"\x80[\x00-\x08]|\((?:dp|lp|i)|[cS]['a-zA-Z_]|[\]\}]q")
_LEVEL = re.compile(r"(?i)(ptdbg_dump|step|rank)[_-]?(?:v?[0-9.]*|([0-9]{1,9}))")
_NUMBERED_LEVEL = re.compile(r"(?i)(step|rank)[_-]?([0-9]{1,9})")
_NUMBER = re.compile(r"([0-9]{1,18})_")
_MOST_NOTES = 9
_LONGEST_VALUE = 1000  # characters of what is no tensor


@dataclass(frozen=True)
class _RecordFile:
    """One record file, and the step and rank its folders say."""

    file: Path
    step: int | None = None
    rank: int = 0


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_dir():
        places = _places(path)
        if not places:
            return Message("hooks.none")
        return _several(places)
    if not path.is_file():
        return Message("files.neither")
    return _refusal_of_file(path)


def open_hooks_file(path: Path, *, label: str) -> Dump:
    """Open a text file of the hooks, or a folder of ``ptdbg_ascend``.

    Parameters
    ----------
    path : Path
        A ``.pkl`` of JSON lists, of any release: `torch_npu.hooks` (all values, or the first 10
        with statistics), ``Overflow_info_<time>.pkl``, the prototype of `ptdbg_ascend`, or its
        releases, which keep the arrays as ``.npy`` in a folder of the file's name. Or a folder
        with one such file, or one in each of its ``step<k>`` and ``rank<k>`` folders.
    label : str

    Returns
    -------
    Dump
        Values that stand in a line are float32, as the tools wrote them; they are parsed when
        asked for. Of a tensor of which the file holds a part there are two entries: the tensor
        with its shape and statistics and without values, and ``{name}#10_of_42`` with the values
        there are and ``#first`` (``#rows`` for rows drawn at random) in its slot. Names are those
        of the file; one that repeats within a step gets ``#1``, ``#2``, ... . In the direction
        backward the role ``input`` is the gradient that arrives, whichever word the tool has for
        it. Steps are inferred, which a note says: nothing in the text marks them.

    Raises
    ------
    FormatError
        If it is a real pickle, which is never loaded, or holds no line of these tools.
    OSError
        If it cannot be opened.
    """
    places = _places(path) if path.is_dir() else [_RecordFile(path)]
    reason = _several(places) if path.is_dir() else _refusal_of_file(path)
    if reason is None and not places:
        reason = Message("hooks.none")
    if reason is not None:
        raise FormatError(Message("files.in_file", file=path.name, what=reason))
    entries: list[Entry] = []
    notes: list[str] = []
    for place in places:
        with named(place.file):
            found, said = _read(place)
        entries += found
        if len(places) > 1:
            said = [Message("dumps.of_rank", rank=place.rank, note=note) for note in said]
        notes += said
    notes = list(dict.fromkeys(notes))
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [Message("dumps.more_notes_of_ranks", count=len(notes) - _MOST_NOTES)]
    return Dump.from_entries(_distinct(entries, notes), label=label, format=NAME, notes=notes)


def is_real_pickle(path: Path) -> bool:
    """Whether a file called ``.pkl`` or ``.pickle`` is one, and no text."""
    named_so = path.suffix.lower() in (".pkl", ".pickle")
    head = head_of(path, 4096) if named_so else b""
    return bool(_PICKLE.match(head)) and not _HEAD_LINE.match(head)


def _refusal_of_file(path: Path) -> str | None:
    head = head_of(path, 4096)
    if not head:
        return Message("hooks.empty")
    match = _HEAD_LINE.match(head)
    if match:
        if parse_hook_name(match[1].decode(errors="replace")):
            return None
        if path.suffix == ".pkl" and head.count(b"\n") and _second_is_ours(head):
            return None
        return Message("hooks.other_op")
    if is_real_pickle(path):
        return Message("hooks.real_pickle")
    if path.suffix == ".pkl" and _second_is_ours(head):
        return None
    return Message("hooks.no_text")


def _second_is_ours(head: bytes) -> bool:
    """Whether a line behind the first, which may be damaged, is one of the hooks."""
    matches = [_HEAD_LINE.match(line) for line in head.split(b"\n")[1:]]
    names = [match[1].decode(errors="replace") for match in matches if match]
    return any(parse_hook_name(name) for name in names)


def _places(folder: Path) -> list[_RecordFile]:
    """Text files of the hooks in a folder and in its levels of steps and ranks."""
    found: list[_RecordFile] = []
    waiting = [(folder, _coordinate(folder.name, "step"), _coordinate(folder.name, "rank") or 0)]
    while waiting:
        here, step, rank = waiting.pop()
        folders, files = _children(here)
        for child in folders:
            if _LEVEL.fullmatch(child.name):
                inner_step, inner_rank = (_coordinate(child.name, w) for w in ("step", "rank"))
                waiting.append(
                    (
                        child,
                        step if inner_step is None else inner_step,
                        rank if inner_rank is None else inner_rank,
                    )
                )
        found += [_RecordFile(file, step, rank) for file in files if _refusal_of_file(file) is None]
    return sorted(found, key=lambda place: (place.step or 0, place.rank, place.file))


def _children(folder: Path) -> tuple[list[Path], list[Path]]:
    """Sub-folders, links to which are not followed, and files called ``.pkl``."""
    folders, files = [], []
    try:
        with os.scandir(folder) as children:
            for child in children:
                if child.is_dir(follow_symlinks=False):
                    folders.append(Path(child.path))
                elif child.name.endswith(".pkl"):
                    files.append(Path(child.path))
    except OSError:
        return [], []
    return sorted(folders), sorted(files)


def _coordinate(name: str, word: str) -> int | None:
    match = _NUMBERED_LEVEL.fullmatch(name)
    return int(match[2]) if match and match[1].lower() == word else None


def _several(places: Sequence[_RecordFile]) -> str | None:
    seen: dict[tuple[int | None, int], Path] = {}
    for place in places:
        other = seen.setdefault((place.step, place.rank), place.file)
        if other != place.file:
            return Message("hooks.several", first=other.name, second=place.file.name)
    return None


def _read(place: _RecordFile) -> tuple[list[Entry], list[str]]:
    """The entries of one record file, and what there is to say."""
    with opened(place.file) as (stream, stamp):
        lines = list(lines_of(place.file, stream, stamp))
    known = [line for line in lines if line.name]
    if not lines:
        raise FormatError(joined([Message("hooks.no_lines"), Message("dumps.dump_again")]))
    if not known:
        problem = lines[0].fault
        raise FormatError(Message("hooks.no_line_read", count=len(lines), problem=problem))
    hooks = {line.number: parse_hook_name(line.name) for line in known}
    stacks = stacks_of(known, hooks)
    tensors = [line for line in known if not _is_stack(line, hooks)]
    findings = Findings()
    for line in lines:
        if not line.name:
            findings.left_out.setdefault(line.fault, []).append(line.number)
    rule, notes = rule_of(tensors, hooks)
    if stacks and rule is not None:
        op = next((hook.api for hook in hooks.values() if hook), "")
        notes = [Message("hooks.overflow", op=op)]
    steps, step_notes = _steps(tensors, hooks, place)
    calls, unsure = _calls(tensors, hooks, steps)
    records = [line for line in tensors if line.mode is not None]
    arrays = Arrays.beside(place.file) if any(not line.count for line in records) else None
    entries: list[Entry] = []
    for line in tensors:
        entry = _bare(line, hooks[line.number], calls.get(line.number, 0))
        entry = entry._replace(step=steps[line.number], rank=place.rank)
        hook = hooks[line.number]
        if hook is not None:
            entry = entry._replace(stack=stacks.get((hook.api, hook.call, hook.direction), ""))
        entries += _filled(entry, line, rule, arrays, findings)
    entries = _numbered_by_step(entries)
    if arrays is not None:
        entries += _without_line(arrays, place, findings)
    if records:
        kind = Message("hooks.prototype") if arrays is None else arrays.note(len(records))
        notes.append(kind)
    notes += step_notes + notes_of(findings, hooks, tensors, unsure)
    return [entry._replace(order=order) for order, entry in enumerate(entries)], notes


def _numbered_by_step(entries: list[Entry]) -> list[Entry]:
    """The entries; the number in front of a name counts from the first of its step.

    The tool counts on from step to step, so that no name of one step would be in another.
    """
    if not any(entry.step for entry in entries):
        return entries
    firsts: dict[int, int] = {}
    result = []
    for entry in entries:
        match = _NUMBER.match(entry.name)
        if match:
            first = firsts.setdefault(entry.step, int(match[1]))
            start = firsts[min(firsts)]
            number = int(match[1]) - first + start
            entry = entry._replace(name=f"{number}_{entry.name[match.end() :]}")
        result.append(entry)
    return result


def _is_stack(line: Line, hooks: dict[int, HookName | None]) -> bool:
    hook = hooks[line.number]
    return hook is not None and hook.io == "stack_info"


def _bare(line: Line, hook: HookName | None, call: int) -> Entry:
    """The entry of a line without what the line holds."""
    if hook is None:
        return Entry(line.name, Site("api", line.name))
    old = line.mode is None or hook.call is None
    site = site_of_hook(hook, call, arriving_is_output=old)
    return Entry(line.name, site, layer=hook.op)


def _steps(
    lines: Sequence[Line], hooks: dict[int, HookName | None], place: _RecordFile
) -> tuple[dict[int, int], list[str]]:
    """Step of each line by its number."""
    given = place.step or 0
    named_lines = [(line.number, hook) for line in lines if (hook := hooks[line.number])]
    steps = {line.number: given for line in lines}
    if place.step is not None or any(hook.call is not None for _, hook in named_lines):
        return steps, []
    sequence = [hook for _, hook in named_lines]
    found, period = steps_of(sequence)
    backward = [hook.direction == "backward" for hook in sequence]
    if period is None:
        turns = sum(b and not n for b, n in itertools.pairwise(backward))
        if turns:
            return steps, [Message("hooks.one_step", count=turns)]
        return steps, []
    steps |= {number: step for (number, _), step in zip(named_lines, found, strict=True)}
    # A line without a known name belongs to the step of the line before it.
    before = 0
    for line in lines:
        before = steps[line.number] if hooks[line.number] else before
        steps[line.number] = before
    last = len(sequence) % period
    counts = {"count": found[-1] + 1, "lines": period}
    if last:
        return steps, [Message("hooks.steps_cut", **counts, last=last)]
    return steps, [Message("hooks.steps", **counts)]


def _calls(
    lines: Sequence[Line], hooks: dict[int, HookName | None], steps: dict[int, int]
) -> tuple[dict[int, int], list[str]]:
    """Visit of each line by its number, and the ops whose backward visits are unsure."""
    of_step: dict[int, list[tuple[int, HookName]]] = {}
    for line in lines:
        if hook := hooks[line.number]:
            of_step.setdefault(steps[line.number], []).append((line.number, hook))
    calls: dict[int, int] = {}
    unsure: dict[str, None] = {}
    for members in of_step.values():
        found, doubtful = calls_of([hook for _, hook in members])
        calls |= {number: call for (number, _), call in zip(members, found, strict=True)}
        unsure |= dict.fromkeys(doubtful)
    return calls, list(unsure)


def _filled(
    entry: Entry, line: Line, rule: Rule | None, arrays: Arrays | None, findings: Findings
) -> list[Entry]:
    """The entry of a line with its values, shape and statistics; two where it holds a part."""
    if line.fault:
        return [entry._replace(reason=_of_line(line, line.fault))]
    if line.is_pair:
        return [entry._replace(value=_json(line.value))]
    shape, dtype = line.shape or (), _dtype(line.dtype)
    if line.mode is None and rule is not None:
        expected = rule.expected(shape)
        if line.count != expected:
            counts = {"count": line.count, "shape": str([*shape]), "expected": expected}
            reason = Message("hooks.line_values_expected", **counts, rule=rule.text)
            return [entry._replace(reason=_of_line(line, reason))]
        kept, statistics = line.count - rule.extra, rule.statistics(line.few)
        word = "rows" if rule.key == "rows" else "first"
    else:
        kept, statistics = line.count, _statistics_of(line)
        word = "rows" if line.mode == 2 else "first"
        if kept > math.prod(shape):
            reason = Message("hooks.line_values", count=kept, shape=str([*shape]))
            return [entry._replace(reason=_of_line(line, reason))]
    known = with_nonfinite(statistics)
    finite = {name: value for name, value in known.items() if math.isfinite(value)}
    if any(math.isinf(v) or (math.isnan(v) and k != "l2") for k, v in statistics.items()):
        findings.not_finite.append(entry.name)
    entry = entry._replace(statistics=finite, shape=shape, dtype=dtype)
    if line.mode is not None and not kept:
        return [_with_array(entry, line, arrays, findings)]
    if kept == math.prod(shape):
        if dtype != "float32":
            findings.casts[dtype] += 1
        return [entry._replace(source=_values(line, shape, kept, rule))]
    if not kept:
        return [entry]
    part = entry._replace(
        name=sample_name(entry.name, kept, math.prod(shape)),
        site=replace(entry.site, slot=sample_slot(entry.site.slot, word)),
        source=_values(line, (kept,), kept, rule),
        statistics={},
    )
    findings.parts.append(part.name)
    return [entry, part]


def _of_line(line: Line, problem: str) -> str:
    return Message("dumps.line", line=line.number, problem=problem)


def _values(line: Line, shape: tuple[int, ...], kept: int, rule: Rule | None) -> ArraySource:
    """The values of a line; those with statistics behind them are few and held in memory."""
    if line.source is not None and not (line.mode is None and rule is not None and rule.extra):
        return replace(line.source, shape=shape)
    with np.errstate(over="ignore"):
        array = np.array(line.few[:kept], np.float64).astype(np.float32).reshape(shape)
    array.flags.writeable = False
    return ArrayInMemory(array)


def _statistics_of(line: Line) -> dict[str, float]:
    """The statistics of six elements: sum, mean; max, min, mean; or these and the l2 norm."""
    figures = line.statistics
    if len(figures) == 2:
        return {"mean": figures[1]}
    return dict(zip(("max", "min", "mean", "l2"), figures, strict=False))


def _with_array(entry: Entry, line: Line, arrays: Arrays | None, findings: Findings) -> Entry:
    """The entry of a record with the array of its name, where there is one."""
    source, reason = arrays.take(entry.name) if arrays is not None else (None, "")
    if source is not None and source.shape != entry.shape:
        findings.other_shape.append(entry.name)
    if source is None and not reason and line.dtype.startswith("<class ") and line.statistics:
        # A Python scalar whose array is missing: its statistics repeat it.
        return entry._replace(value=_json(_scalar(line)), statistics={})
    return entry._replace(source=source, reason=reason)


def _scalar(line: Line) -> float | int | bool:
    value = line.statistics[0]
    if "bool" in line.dtype and math.isfinite(value):
        return bool(value)
    return int(value) if "int" in line.dtype and math.isfinite(value) else value


def _without_line(arrays: Arrays, place: _RecordFile, findings: Findings) -> list[Entry]:
    """Entries of arrays no line names: the lines are written when the switch goes off."""
    entries = []
    for name in arrays.left:
        hook = parse_hook_name(name)
        number = hook.call if hook and hook.call is not None else 0
        site = (
            site_of_hook(hook, number, arriving_is_output=False)
            if hook is not None
            else Site("api", name)
        )
        source, reason = arrays.take(name)
        layer = hook.op if hook else ""
        entries.append(
            Entry(
                *(name, site, source, place.step or 0, place.rank),
                reason=reason,
                layer=layer,
            )
        )
    findings.without_line = len(entries)
    return entries


def _distinct(entries: Sequence[Entry], notes: list[str]) -> list[Entry]:
    """The entries; a name that repeats within its step and rank gets the number of the repeat."""
    taken: set[tuple[int, int, str]] = set()
    repeats: Counter[tuple[int, int, str]] = Counter()
    renamed = 0
    result = []
    for entry in entries:
        key = entry.step, entry.rank, entry.name
        name = entry.name
        while (entry.step, entry.rank, name) in taken:
            repeats[key] += 1
            name = f"{entry.name}#{repeats[key]}"
        taken.add((entry.step, entry.rank, name))
        renamed += name != entry.name
        result.append(entry._replace(name=name))
    if renamed:
        notes.append(Message("hooks.repeated", count=renamed))
    return result


def _dtype(text: str) -> str:
    if text.startswith("<class '"):
        text = text.removeprefix("<class '").removesuffix("'>")
    return printable(text.removeprefix("torch."))[:80]


def _json(value: Any) -> str:
    return json.dumps(value)[:_LONGEST_VALUE]
