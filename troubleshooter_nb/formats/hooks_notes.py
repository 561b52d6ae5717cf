"""What was seen on the way through a text file of the hooks, and the notes about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from troubleshooter_nb.formats.hooks_lines import Line, listed_numbers
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
    notes = []
    if count := findings.without_line:
        notes.append(f"{count} arrays have no line: the run ended before it wrote the text")
    for fault, numbers in findings.left_out.items():
        plural = "s" * (len(numbers) > 1)
        notes.append(f"line{plural} {listed_numbers(numbers)} left out: {fault}")
    if findings.parts:
        notes.append(
            f"{len(findings.parts)} of {len(tensors)} tensors are there in part; those values are "
            f"entries named ...#{findings.parts[0].rpartition('#')[2]}"
        )
    if findings.casts:
        casts = ", ".join(f"{count} {dtype}" for dtype, count in findings.casts.most_common(4))
        notes.append(f"values are float32 casts; the tensors were {casts}")
    if findings.not_finite:
        names = findings.not_finite
        share = f"{len(names)} of {len(tensors)}"
        notes.append(f"{share} tensors have a nan or infinite max, min or mean: {names[0]}")
    if findings.other_shape:
        names = findings.other_shape
        notes.append(f"{len(names)} arrays have another shape than their line: {names[0]!r}")
    in_place = [
        line.name
        for line in tensors
        if (hook := hooks[line.number]) is not None
        and (line.mode is None and is_in_place(hook.op))
        and (hook.io, hook.direction) == ("input", "forward")
    ]
    if in_place:
        notes.append(
            f"input read after the call for ops that work in place, {len(in_place)} times: "
            f"{in_place[0]} holds the result"
        )
    if unsure:
        notes.append(
            "backward calls counted as written, not paired with forward ones, which are more or "
            f"fewer: {', '.join(unsure[:3])}" + ", ..." * (len(unsure) > 3)
        )
    notes += _own_detach(hooks, tensors)
    return notes


def _own_detach(hooks: Mapping[int, HookName | None], tensors: Sequence[Line]) -> list[str]:
    backward = False
    count = 0
    for line in tensors:
        hook = hooks[line.number]
        if hook is not None and line.mode is not None:
            backward |= hook.direction == "backward"
            count += backward and hook.api == "Tensor.detach"
    return [
        f"{count} entries of Tensor.detach during backward are the dumping tool's own calls"
    ] * bool(count)
