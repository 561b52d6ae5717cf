"""What merging ranks did, as the notes of the merged dump."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from troubleshooter_nb.messages import Message

_MOST_NOTES = 20
# Of one, and of several.
_NUMBERED = {
    "rank": ("alignment.rank", "alignment.ranks"),
    "step": ("alignment.step", "alignment.steps"),
    "axis": ("alignment.axis", "alignment.axes"),
}


def _by_name() -> dict[str, dict[str, set[int]]]:
    return defaultdict(lambda: defaultdict(set))


@dataclass
class Report:
    """What happened, to be told in notes: reason -> name -> steps."""

    ranks: int
    steps: int
    how: Counter[str] = field(default_factory=Counter)
    alone: Counter[int] = field(default_factory=Counter)
    left: dict[str, dict[str, set[int]]] = field(default_factory=_by_name)
    doubtful: dict[str, dict[str, set[int]]] = field(default_factory=_by_name)
    equal: dict[str, dict[str, set[int]]] = field(default_factory=_by_name)

    def notes(self) -> list[str]:
        """The sentences, the summary first."""
        parts = [
            Message("alignment.count_how", count=count, how=how)
            for how, count in sorted(self.how.items())
        ]
        if self.alone:
            of = [
                Message("alignment.count_of_rank", count=count, rank=rank)
                for rank, count in sorted(self.alone.items())
            ]
            parts.append(Message("alignment.count_alone", count=self.alone.total(), of=of))
        left = sum(len(steps) for names in self.left.values() for steps in names.values())
        if left:
            parts.append(Message("alignment.count_left", count=left))
        notes: list[str] = [Message("alignment.merged", ranks=self.ranks, parts=parts)]
        notes += self._listed("alignment.left_because", "reason", self.left)
        notes += self._listed("alignment.as_shapes_say", "reason", self.doubtful)
        notes += self._listed("alignment.as_declared", "how", self.equal)
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [Message("alignment.more_notes", count=len(notes) - _MOST_NOTES)]
        return notes

    def _listed(
        self, id: str, gap: str, reasons: Mapping[str, Mapping[str, set[int]]]
    ) -> list[Message]:
        notes = []
        for reason, names in sorted(reasons.items(), key=lambda one: -len(one[1])):
            steps = set().union(*names.values())
            where = ""
            if len(steps) < self.steps:
                where = Message("alignment.in_steps", steps=numbered("step", steps))
            shown = [json.dumps(name)[1:-1] for name in names]
            notes.append(Message(id, where=where, names=shown, **{gap: reason}))
        return notes


def numbered(noun: Literal["rank", "step", "axis"], numbers: Iterable[int]) -> Message:
    """``rank 7``, ``steps 3-5, 9``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    return Message(_NUMBERED[noun][not single], numbers=shown)
