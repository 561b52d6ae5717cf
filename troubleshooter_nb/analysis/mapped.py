"""A weight map over the tensors of a dump, and the dump as the map makes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from troubleshooter_nb.analysis.shards.table import DumpRows
from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import ASIDE_ROLES
from troubleshooter_nb.weight_map import Spec, WeightMap, WeightRow


def of_this_source(weight_map: WeightMap, dump: Dump) -> WeightMap:
    """The map over the tensors that are really there, so that `check` speaks of them."""
    named = {name for row in weight_map for name in row.sources}
    mapped = {*weight_map.source, *named}
    # One tensor under several names is written by any of them.
    also = {name for names in dump.tied if not named.isdisjoint(names) for name in names} - named
    states = dump.index["role"].isin(ASIDE_ROLES).values.tolist()
    specs: dict[str, Spec] = {}
    for name, source, is_state in zip(dump.names, dump.sources, states, strict=True):
        if source is not None and name not in also and (name in mapped or not is_state):
            specs[name] = Spec(source.shape, source.dtype)
    reasons = dict(zip(dump.names, dump.index["reason"].values.tolist(), strict=True))
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


def mapped(dump: Dump, weight_map: WeightMap) -> Dump:
    """What a map makes of a dump, read as it is asked for; what is not mapped stays.

    Parameters
    ----------
    dump : Dump
        With the sources of the map; of several steps or ranks in each that has weights.
    weight_map : WeightMap

    Raises
    ------
    WeightMapError
        If the dump lacks a source, or its shapes do not fit.
    """
    weight_map = of_this_source(weight_map, dump)
    weight_map.check()
    of_source: dict[str, list[WeightRow]] = defaultdict(list)
    for row in weight_map:
        of_source[row.sources[0]].append(row)
    taken = {name for row in weight_map for name in row.sources}
    rows = DumpRows(dump)
    entries = [rows.entry(number) for number in range(len(dump))]
    held: dict[tuple[int, int], dict[str, ArraySource]] = defaultdict(dict)
    for entry in entries:
        if entry.source is not None:
            held[entry.step, entry.rank][entry.name] = entry.source
    made: list[Entry] = []
    # Another name of a tensor that is mapped is that tensor; a name that the map gives is taken.
    also = {name for names in dump.tied if not taken.isdisjoint(names) for name in names} - taken
    given = {name for row in weight_map for name in row.targets}
    for entry in entries:
        if entry.name not in taken | also | given:
            made.append(entry)
        for row in of_source.get(entry.name, ()):
            made += _entries(row, held[entry.step, entry.rank], entry)
    aside = [entry.name for entry in entries if entry.name in given - taken]
    notes = [Message("weight_maps.name_is_taken", names=aside)] if aside else []
    return Dump.from_entries(
        made,
        label=dump.label,
        format=dump.format,
        card=dump.card,
        notes=(*dump.notes, *notes),
        settings=dump.settings,
    )


def _entries(row: WeightRow, held: Mapping[str, ArraySource], entry: Entry) -> list[Entry]:
    """What a row gives, in the place of its first source."""
    if not row.targets or not all(name in held for name in row.sources):
        return []
    results = transformed([held[name] for name in row.sources], row.transform)
    return [
        Entry(name, replace(entry.site, path=name), one, entry.step, entry.rank, entry.order)
        for name, one in zip(row.targets, results, strict=True)
    ]
