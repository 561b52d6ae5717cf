"""What was seen on the way through a text file of the hooks, and the notes about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from troubleshooter_nb.formats.hooks_lines import FEW, Line
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.hooks import HookName, is_in_place


@dataclass
class Findings:
    """What was seen on the way through one file, for its notes."""

    parts: list[str] = field(default_factory=list)  # entries that hold a part of a tensor
    casts: Counter[str] = field(default_factory=Counter)
    not_finite: list[str] = field(default_factory=list)
    left_out: dict[str, list[int]] = field(default_factory=dict)
    other_shape: list[str] = field(default_factory=list)
    without_line: int = 0


def notes_of(
    findings: Findings,
    hooks: Mapping[int, HookName | None],
    tensors: Sequence[Line],
    unsure: Sequence[str],
) -> list[str]:
    """What there is to say about one file, most urgent first."""
    notes: list[str] = []
    if count := findings.without_line:
        notes.append(Message("hooks.without_line", count=count))
    for fault, numbers in findings.left_out.items():
        where = {"lines": len(numbers), "numbers": numbers}
        notes.append(Message("hooks.left_out", **where, problem=fault))
    if findings.parts:
        ending = findings.parts[0].rpartition("#")[2]
        counts = {"count": len(findings.parts), "total": len(tensors)}
        notes.append(Message("hooks.parts", **counts, ending=ending))
    if findings.casts:
        dtypes = [f"{count} {dtype}" for dtype, count in findings.casts.most_common(4)]
        notes.append(Message("hooks.casts", dtypes=dtypes))
    if findings.not_finite:
        names, total = findings.not_finite, len(tensors)
        notes.append(Message("hooks.not_finite", count=len(names), total=total, example=names[0]))
    if findings.other_shape:
        names = findings.other_shape
        notes.append(Message("hooks.other_shape", count=len(names), example=names[0]))
    if in_place := _read_after(hooks, tensors):
        notes.append(Message("hooks.in_place", count=len(in_place), example=in_place[0]))
    if unsure:
        notes.append(Message("hooks.unsure", ops=list(unsure)))
    notes += _own_detach(hooks, tensors)
    return notes


def _read_after(hooks: Mapping[int, HookName | None], tensors: Sequence[Line]) -> list[str]:
    """Inputs of operators that work in place, but those whose result holds other values."""
    found: list[str] = []
    waiting: dict[str, tuple[str, Line]] = {}  # by operator, its first input
    for line in tensors:
        hook = hooks[line.number]
        if hook is None or hook.direction != "forward" or line.mode is not None:
            continue
        if hook.io == "input" and is_in_place(hook.op):
            found.append(line.name)
            if hook.position == (0,):
                waiting[hook.api] = line.name, line
        elif hook.io == "output" and hook.api in waiting:
            name, first = waiting.pop(hook.api)
            if _first_values(first) != _first_values(line):
                # Written by this package, which reads them before.
                found.remove(name)
    return found


def _first_values(line: Line) -> list[float]:
    if line.few or line.source is None:
        return list(line.few)
    values: list[float] = line.source.read(0, min(line.count, FEW)).tolist()
    return values


def _own_detach(hooks: Mapping[int, HookName | None], tensors: Sequence[Line]) -> list[str]:
    backward = False
    count = 0
    for line in tensors:
        hook = hooks[line.number]
        if hook is not None and line.mode is not None:
            backward |= hook.direction == "backward"
            count += backward and hook.api == "Tensor.detach"
    return [Message("hooks.own_detach", count=count)] if count else []
