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
    added: dict[str, dict[str, set[int]]] = field(default_factory=_by_name)
    reduced_gradients: set[int] = field(default_factory=set)
    unreduced_gradients: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

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
        # The merged tensor is the reference by choice: before all else, that is to be known.
        notes[1:1] = [
            *self._never_reduced(),
            *self._listed("alignment.added_like", "how", self.added),
        ]
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [Message("alignment.more_notes", count=len(notes) - _MOST_NOTES)]
        return notes

    def see_gradient(self, name: str, step: int, kind: str) -> None:
        """Count a parameter's gradient as the same on all ranks, or as added up like `like`."""
        if kind == "same":
            self.reduced_gradients.add(step)
        elif kind in ("sum", "mean"):
            self.unreduced_gradients[name].add(step)

    def _never_reduced(self) -> list[Message]:
        """That gradients differ between ranks in steps in which others are reduced."""
        found = {
            name: steps & self.reduced_gradients
            for name, steps in self.unreduced_gradients.items()
            if steps & self.reduced_gradients
        }
        for names in self.added.values():
            for name, steps in found.items():
                names[name] -= steps
        for how, names in [*self.added.items()]:
            self.added[how] = {name: steps for name, steps in names.items() if steps}
        return self._listed("alignment.never_reduced", "", {"": found}) if found else []

    def _listed(
        self, id: str, gap: str, reasons: Mapping[str, Mapping[str, set[int]]]
    ) -> list[Message]:
        notes = []
        for reason, names in sorted(reasons.items(), key=lambda one: -len(one[1])):
            if not names:
                continue
            steps = set().union(*names.values())
            where = ""
            if len(steps) < self.steps:
                where = Message("alignment.in_steps", steps=numbered("step", steps))
            shown = [json.dumps(name)[1:-1] for name in names]
            said = {gap: reason} if gap else {}
            notes.append(Message(id, where=where, names=shown, count=len(shown), **said))
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
