"""The versions of a weight map under edit, with the rows that each had and lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.weight_map import WeightMap, WeightRow
from troubleshooter_nb.weight_map.rows import Side, used_names

Value = TypeVar("Value", WeightMap, Pairing)
Names = tuple[tuple[str, ...], tuple[str, ...]]  # of a row: sources and targets


@dataclass(frozen=True)
class Version(Generic[Value]):
    """A value, and of a weight map the rows that it had before, by their names, the last one last.

    Of a side that is not known such names are still there: what was parted can be paired again.
    """

    value: Value
    parted: Mapping[Names, WeightRow] = field(default_factory=dict)

    def loose(self, side: Side) -> list[str]:
        """The names of the rows it had."""
        return used_names([*self.parted.values()], side)

    def former(self, source: str) -> str:
        """The target that this source alone went to last; empty where there was none."""
        for sources, targets in reversed([*self.parted]):
            if sources == (source,) and len(targets) == 1:
                return targets[0]
        return ""


def next_version(before: Version[WeightMap], value: WeightMap) -> Version[WeightMap]:
    """The version that a changed map is.

    A target that a source went to is forgotten when the source gets a new name instead, one that
    was not there before: it was the name that changed.
    """
    parted = dict(before.parted)
    for row in _without(before.value.rows, value.rows):
        parted.pop((row.sources, row.targets), None)
        parted[row.sources, row.targets] = row
    known = {*used_names(before.value.rows, "target"), *before.loose("target")}
    known.update(value.target or ())
    new = _without(value.rows, before.value.rows)
    renamed = _sources_of([row for row in new if not known.issuperset(row.targets)])
    paired = _sources_of(value.rows) if renamed else set()
    for sources, targets in [*parted]:
        if not renamed.isdisjoint(sources) and paired.issuperset(sources):
            del parted[sources, targets]
    return Version(value, parted)


def _without(rows: Sequence[WeightRow], others: Sequence[WeightRow]) -> list[WeightRow]:
    """The rows whose names no other row has."""
    same = set(map(id, others))
    changed = [row for row in rows if id(row) not in same]
    names = {(row.sources, row.targets) for row in others} if changed else set()
    return [row for row in changed if (row.sources, row.targets) not in names]


def _sources_of(rows: Sequence[WeightRow]) -> set[str]:
    return set(used_names(rows, "source"))
