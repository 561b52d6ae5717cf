"""A dump whose weights are those that a map makes of them, under the names of the target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from troubleshooter_nb.analysis.shards.table import DumpRows
from troubleshooter_nb.convert.apply import of_this_source, transformed
from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.weight_map import WeightMap, WeightRow


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
    for entry in entries:
        if entry.name not in taken:
            made.append(entry)
        for row in of_source.get(entry.name, ()):
            made += _entries(row, held[entry.step, entry.rank], entry)
    return Dump.from_entries(
        made,
        label=dump.label,
        format=dump.format,
        card=dump.card,
        notes=dump.notes,
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
