"""What merging ranks did, as the notes of the merged dump."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from troubleshooter_nb.formats.checkpoint import listed

_MOST_NOTES = 20


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
        parts = [f"{count:,} {words}" for words, count in sorted(self.how.items())]
        if self.alone:
            of = ", ".join(
                f"{count:,} of rank {rank}" for rank, count in sorted(self.alone.items())
            )
            parts.append(f"{self.alone.total():,} held by one rank only ({of})")
        left = sum(len(steps) for names in self.left.values() for steps in names.values())
        if left:
            parts.append(f"{left:,} left under their ranks")
        notes = [f"{self.ranks} ranks merged: {', '.join(parts)}"]
        notes += self._listed("left under their ranks", self.left)
        notes += self._listed("merged as their shapes say", self.doubtful)
        for words, names in self.equal.items():
            why = "the same on all ranks; declare 'same' if they are replicas"
            notes += self._listed(f"merged {words} as declared", {why: names})
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [f"{len(notes) - _MOST_NOTES} more notes about merging"]
        return notes

    def _listed(self, what: str, reasons: Mapping[str, Mapping[str, set[int]]]) -> list[str]:
        notes = []
        for reason, names in sorted(reasons.items(), key=lambda one: -len(one[1])):
            steps = set().union(*names.values())
            where = f" in {numbered('step', steps)}" if len(steps) < self.steps else ""
            shown = listed([json.dumps(name)[1:-1] for name in names])
            notes.append(f"{what}{where}: {reason}: {shown}")
        return notes


def numbered(noun: str, numbers: Iterable[int], plural: str = "") -> str:
    """``rank 7``, ``steps 3-5, 9``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    single = len(runs) == 1 and runs[0][0] == runs[0][1]
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    return f"{noun if single else plural or noun + 's'} {', '.join(shown)}"
