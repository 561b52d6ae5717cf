"""A weight map over the tensors of a dump, and the dump as the map makes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from troubleshooter_nb.analysis.shards.table import DumpRows
from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import ASIDE_ROLES, CALL_KINDS, Site, parameters_of_gradients
from troubleshooter_nb.transforms import Transform
from troubleshooter_nb.weight_map import Spec, WeightMap, WeightRow


def of_this_source(
    weight_map: WeightMap, dump: Dump, names: Iterable[str] | None = None
) -> WeightMap:
    """The map over the tensors that are really there, so that `check` speaks of them.

    `names` are what the map calls the entries, where those of the dump are others.
    """
    names = [*(dump.names if names is None else names)]
    named = {name for row in weight_map for name in row.sources}
    mapped = {*weight_map.source, *named}
    # One tensor under several names is written by any of them.
    also = {name for group in dump.tied if not named.isdisjoint(group) for name in group} - named
    states = dump.index["role"].isin(ASIDE_ROLES).values.tolist()
    specs: dict[str, Spec] = {}
    for name, source, is_state in zip(names, dump.sources, states, strict=True):
        if source is not None and name not in also and (name in mapped or not is_state):
            specs.setdefault(name, Spec(source.shape, source.dtype))
    reasons = dict(zip(names, dump.index["reason"].values.tolist(), strict=True))
    unread = {name: why for name, why in unread_of(dump).items() if name not in also}
    for row in weight_map:
        for name in row.sources if row.targets else ():
            if name in reasons and name not in specs:
                said = {"name": name, "label": dump.label, "reason": reasons[name]}
                raise WeightMapError(Message("dumps.cannot_be_read", **said))
    if not specs:
        raise WeightMapError(Message("weight_maps.nothing_readable", label=dump.label))
    return replace(weight_map, source=specs, source_label=dump.label, unread=unread)


def unread_of(dump: Dump) -> dict[str, str]:
    """The weights of a dump that cannot be read, and why."""
    columns = (dump.index[name].values.tolist() for name in ("role", "reason", "value"))
    return {
        name: reason
        for name, source, role, reason, value in zip(
            dump.names, dump.sources, *columns, strict=True
        )
        if source is None and reason and not value and role not in ASIDE_ROLES
    }


class Mapped(NamedTuple):
    """The left side of a comparison as a weight map makes it.

    Attributes
    ----------
    dump : Dump
    pairs : list of (str or None, str or None)
        What the map says of names of both sides, as `pair_dumps` takes it.
    """

    dump: Dump
    pairs: list[tuple[str | None, str | None]]


def mapped(dump: Dump, weight_map: WeightMap, right: Dump) -> Mapped:
    """What a map makes of a dump, read as it is asked for; what is not mapped stays.

    The weights are the entries of a checkpoint, or those that calls hold, and the gradients of
    either. In a checkpoint the sources are gone; calls keep theirs, which need no partner then. A
    gradient of what the map computes (`lora`, `add` and the like) is in neither.

    Parameters
    ----------
    dump : Dump
        With the sources of the map; of several steps or ranks in each that has weights.
    weight_map : WeightMap
    right : Dump
        The other side, whose names are taken.

    Raises
    ------
    WeightMapError
        If the dump lacks a source, or its shapes do not fit.
    """
    rows = DumpRows(dump)
    entries = [rows.entry(number) for number in range(len(dump))]
    held = _weights_of(entries, {name for row in weight_map for name in row.sources})
    there = DumpRows(right)
    theirs = [there.entry(number) for number in range(len(right))]
    goals = _weights_of(theirs, {name for row in weight_map for name in row.targets})
    weight_map = of_this_source(weight_map, dump, (weight.name for weight in held))
    weight_map.check()
    made = _Made(weight_map, entries, held, _Goals(theirs, goals))
    # Another name of a tensor that is mapped is that tensor; a name that the map gives is taken.
    taken = {name for row in weight_map for name in row.sources}
    also = {name for names in dump.tied if not taken.isdisjoint(names) for name in names} - taken
    given = {name for row in weight_map for name in row.targets}
    made.run(gone=also | given)
    aside = [entry.name for entry in entries if entry.name in given - taken]
    notes = [Message("weight_maps.name_is_taken", names=aside)] if aside else []
    result = Dump.from_entries(
        made.entries,
        label=dump.label,
        format=dump.format,
        card=dump.card,
        notes=(*dump.notes, *notes),
        settings=dump.settings,
    )
    known, paired = set(right.names), {name for _, name in made.pairs}
    kept = [(None, name) for name in weight_map.kept if name in known - paired]
    return Mapped(result, [*made.pairs, *kept])


class _Weight(NamedTuple):
    """What a map calls an entry, and which of the tensors of that name it is."""

    name: str
    call: int = -1  # -1 outside of calls
    is_gradient: bool = False


def _weights_of(entries: list[Entry], known: set[str]) -> list[_Weight]:
    """What each entry is of a weight; itself where it is of none that is known."""
    saved = [entry.site.path for entry in entries if _is_saved_gradient(entry.site)]
    of_gradient = parameters_of_gradients(saved, known) if saved else {}
    found = []
    for entry in entries:
        site = entry.site
        weight = _Weight(entry.name)
        if site.kind in CALL_KINDS and site.role == "parameter":
            name = ".".join(filter(None, (site.path, site.slot)))
            weight = _Weight(name, site.call, site.direction == "backward")
        elif _is_saved_gradient(site) and site.path in of_gradient and entry.name not in known:
            weight = _Weight(of_gradient[site.path], is_gradient=True)
        found.append(weight if weight.name in known else _Weight(entry.name))
    return found


def _is_saved_gradient(site: Site) -> bool:
    """Whether it may be the gradient of a weight that was saved by itself."""
    return site.direction == "backward" and site.kind not in CALL_KINDS


class _Goals:
    """Where the tensors that a map makes belong on the other side."""

    def __init__(self, entries: list[Entry], weights: list[_Weight]) -> None:
        self._found: dict[tuple[str, bool], dict[int, Entry]] = defaultdict(dict)
        for entry, weight in zip(entries, weights, strict=True):
            of_calls = self._found[weight.name, weight.is_gradient]
            of_calls.setdefault(weight.call, entry)

    def of(self, name: str, weight: _Weight) -> Entry | None:
        """The entry that this tensor has as its partner; None where the other side has none."""
        of_calls = self._found.get((name, weight.is_gradient), {})
        return of_calls.get(weight.call) or next(iter(of_calls.values()), None)


@dataclass
class _Made:
    """The entries that a map leaves and makes, and the pairs that follow."""

    weight_map: WeightMap
    given: list[Entry]
    weights: list[_Weight]
    goals: _Goals
    entries: list[Entry] = field(default_factory=list)
    pairs: list[tuple[str | None, str | None]] = field(default_factory=list)

    def run(self, gone: set[str]) -> None:
        """Make them; entries of a checkpoint that are called so are left out."""
        of_source: dict[str, list[WeightRow]] = defaultdict(list)
        for row in self.weight_map:
            for name in dict.fromkeys(row.sources):
                of_source[name].append(row)
        held: dict[tuple[int, int, int, bool], dict[str, ArraySource]] = defaultdict(dict)
        for entry, weight in zip(self.given, self.weights, strict=True):
            if entry.source is not None:
                held[_place(entry, weight)][weight.name] = entry.source
        for entry, weight in zip(self.given, self.weights, strict=True):
            rows, sources = of_source.get(weight.name, []), held[_place(entry, weight)]
            if weight.call >= 0:
                self._of_call(entry, weight, rows, sources)
                continue
            if not rows and (weight.is_gradient or entry.name not in gone):
                self.entries.append(entry)
            for row in rows:
                if weight.name == row.sources[0]:
                    self._add(entry, weight, row, sources)

    def _of_call(
        self,
        entry: Entry,
        weight: _Weight,
        rows: list[WeightRow],
        sources: Mapping[str, ArraySource],
    ) -> None:
        """What becomes of a weight that a call holds: the call stays whole."""
        alone = [row for row in rows if len(row.sources) == len(row.targets) == 1]
        if len(rows) == len(alone) == 1:
            (target,) = alone[0].targets
            goal = self.goals.of(target, weight)
            made = self._results(weight, alone[0], sources)
            self.entries.append(_with_values(entry, made[0]) if made else entry)
            self.pairs += [(entry.name, goal.name)] if goal is not None else []
            return
        self.entries.append(entry)
        self.pairs += [(entry.name, None)] if rows else []
        for row in rows:
            if weight.name == row.sources[0]:
                self._add(entry, weight, row, sources)

    def _add(
        self, entry: Entry, weight: _Weight, row: WeightRow, sources: Mapping[str, ArraySource]
    ) -> None:
        """What a row makes, in the place of its first source."""
        results = self._results(weight, row, sources)
        for name, result in zip(row.targets, results, strict=False):
            goal = self.goals.of(name, weight)
            site, called = replace(entry.site, path=name), name
            if goal is not None:
                site, called = goal.site, goal.name
            elif weight.is_gradient or weight.call >= 0:
                called = f"{entry.name} -> {name}"
            at = entry.step, entry.rank, entry.order
            self.entries.append(Entry(called, site, result, *at, layer=_layer(goal)))
            self.pairs += [(called, called)] if goal is not None else []

    @staticmethod
    def _results(
        weight: _Weight, row: WeightRow, sources: Mapping[str, ArraySource]
    ) -> list[ArraySource]:
        """The tensors that a row makes; none where a part of it lacks."""
        transform: Transform | None = row.transform
        if weight.is_gradient:
            transform = row.transform.of_gradients
        if transform is None or not row.targets or not all(name in sources for name in row.sources):
            return []
        return list(transformed([sources[name] for name in row.sources], transform))


def _with_values(entry: Entry, source: ArraySource) -> Entry:
    """The entry with values of which nothing is known that was known of its own."""
    if source is entry.source:
        return entry
    return Entry(
        *(entry.name, entry.site, source, entry.step, entry.rank, entry.order, entry.producer),
        layer=entry.layer,
        parent=entry.parent,
        stack=entry.stack,
    )


def _place(entry: Entry, weight: _Weight) -> tuple[int, int, int, bool]:
    """Where a weight finds those that are joined with it."""
    return entry.step, entry.rank, weight.call, weight.is_gradient


def _layer(goal: Entry | None) -> str:
    return goal.layer if goal is not None else ""
