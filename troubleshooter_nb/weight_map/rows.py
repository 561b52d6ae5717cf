"""Rows of a weight map: which names they have, and which of them stand beside others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from troubleshooter_nb.errors import AmbiguousEntryError, EntryNotFoundError
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.transforms import Transform

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
JOIN = " + "


def other(side: Side) -> Side:
    """The side that is not this one."""
    return "target" if side == "source" else "source"


@dataclass(frozen=True)
class WeightRow:
    """One row: what becomes what.

    Attributes
    ----------
    sources, targets : tuple of str
        As many names as the transform takes and gives: one each, but for transforms that join
        several sources or split one, and for ``drop``, which has no target.
    transform : Transform
    layer : str
        Layer type of the source, where known.
    how : {"drafted", "edited", "imported"}
    note : str
        What to know about this row.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    transform: Transform = field(default_factory=Transform)
    layer: str = ""
    how: str = "drafted"
    note: str = ""

    def names(self, side: Side) -> tuple[str, ...]:
        """The names of one side."""
        return self.sources if side == "source" else self.targets

    def miscounted(self) -> str:
        """Why the transform does not take and give as many tensors as there are names."""
        if wrong := self.transform.miscounted(len(self.sources), len(self.targets)):
            return wrong
        if len(set(self.targets)) < len(self.targets):
            return Message("weight_maps.target_twice", names=list(self.targets))
        return ""


Positions = Mapping[str, Sequence[int]]


def positions(rows: Sequence[WeightRow], side: Side) -> dict[str, list[int]]:
    """Where each name of a side stands."""
    found: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        for name in row.names(side):
            found.setdefault(name, []).append(position)
    return found


def used_names(rows: Sequence[WeightRow], side: Side) -> list[str]:
    """The names of a side, in the order of the rows, as often as they stand there."""
    if side == "source":  # written out: an editor asks for all of them after every edit
        return [name for row in rows for name in row.sources]
    return [name for row in rows for name in row.targets]


def position_of(rows: Sequence[WeightRow], name: str | int, target: str | None = None) -> int:
    """Where the row of a source, else a target, stands; of several that say the same the first.

    Parameters
    ----------
    name : str or int
        The position itself, from 0, where it is a number.
    target : str, optional
        One of the row's targets, where the source `name` goes to several; empty for the row that
        drops it.

    Raises
    ------
    EntryNotFoundError
        If no row has it; the message lists the closest.
    AmbiguousEntryError
        If rows that say different things have it; the message lists them.
    """
    if isinstance(name, int):
        if 0 <= name < len(rows):
            return name
        counts = {"number": name, "count": len(rows)}
        raise EntryNotFoundError(Message("weight_maps.no_row_number", **counts))
    if target is not None:
        return _position_of_both(rows, name, target)
    for side in SIDES:
        found = [at for at, row in enumerate(rows) if name in row.names(side)]
        partners = list(dict.fromkeys(rows[at].names(other(side)) for at in found))
        if len(partners) == 1:
            return found[0]
        if partners:
            raise AmbiguousEntryError(_several(name, partners, side))
    names = dict.fromkeys(name for side in SIDES for name in used_names(rows, side))
    raise _no_row(name, names)


def _position_of_both(rows: Sequence[WeightRow], source: str, target: str) -> int:
    of_source = [at for at, row in enumerate(rows) if source in row.sources]
    found = [at for at in of_source if target in (rows[at].targets or ("",))]
    partners = list(dict.fromkeys(rows[at].targets for at in found))
    if len(partners) > 1:
        raise AmbiguousEntryError(_several(source, partners, "source"))
    if partners:
        return found[0]
    pairs = {f"{s} -> {t}": None for row in rows for s in row.sources for t in row.targets}
    raise _no_row(" -> ".join([source, target]), pairs)


def _no_row(name: str, names: Mapping[str, object]) -> EntryNotFoundError:
    said = Message("weight_maps.no_row", name=name, closest=closest(name, names))
    return EntryNotFoundError(said)


def _several(name: str, partners: Sequence[tuple[str, ...]], side: Side) -> Message:
    """That a name is in several rows, and how to say which is meant."""
    nothing = Message("weight_maps.nothing_dropped")
    listed = [repr(JOIN.join(one)) if one else nothing for one in partners]
    if side == "target":
        return Message("weight_maps.name_the_source", name=name, partners=listed)
    first = (*partners[0], "")[0]
    return Message("weight_maps.name_the_target", name=name, partners=listed, first=first)


def given_up(
    rows: Sequence[WeightRow],
    new: WeightRow,
    of_source: Positions,
    of_target: Positions,
    *,
    tied: bool = False,
) -> set[int]:
    """Where the rows stand that do not stay beside a new one.

    A target is filled by one row. A source that goes to one place goes to the new one instead; of
    one that goes to several, or is `tied`, only the row of the same target is given up.
    """
    gone = {at for name in new.targets for at in of_target.get(name, ())}
    for name in new.sources:
        mine = of_source.get(name, [])
        dropped = {at for at in mine if not rows[at].targets}
        one = len(mine) - len(dropped) == 1 and not tied
        gone |= set(mine) if one or not new.targets else dropped
    return gone


def beside(
    rows: Sequence[WeightRow], new: Sequence[WeightRow], *, tied: bool = False
) -> list[WeightRow]:
    """The rows that new ones leave standing, see `given_up`; a name may be on both sides."""
    places = positions(rows, "source"), positions(rows, "target")
    gone = {at for one in new for at in given_up(rows, one, *places, tied=tied)}
    return [row for at, row in enumerate(rows) if at not in gone]


def filled_by_several(rows: Sequence[WeightRow]) -> dict[str, list[int]]:
    """Targets of several rows, and where these stand."""
    filled = used_names(rows, "target")
    if len(set(filled)) == len(filled):  # as it is but for maps from files, after every edit
        return {}
    several = ((name, at) for name, at in positions(rows, "target").items() if len(at) > 1)
    return {name: once for name, at in several if len(once := list(dict.fromkeys(at))) > 1}


def said_of_filled(rows: Sequence[WeightRow], target: str, at: Sequence[int]) -> Message:
    """That the rows at these positions fill one target."""
    sources = [JOIN.join(rows[position].sources) for position in at]
    return Message("weight_maps.filled_by_several", name=target, sources=sources)


def filled_twice(rows: Sequence[WeightRow]) -> dict[int, str]:
    """By the position of a row that others fill a target of it as well, a sentence each."""
    found: dict[int, str] = {}
    for target, places in filled_by_several(rows).items():
        said = said_of_filled(rows, target, places)
        found |= {at: joined([found.get(at, ""), said]) for at in places}
    return found
