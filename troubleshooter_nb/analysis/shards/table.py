"""The entries of a dump by step and name over its ranks, and what was declared of them."""

from __future__ import annotations

import fnmatch
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.analysis.shards.layouts import Layout, layout_of
from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.dump import Dump, Entry, fingerprints_of
from troubleshooter_nb.errors import PairingError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES
from troubleshooter_nb.naming import Site

_STATISTICS = (*SUMMARY_FIGURES, "crc32")
_TEXTS = ("producer", "reason", "value", "layer", "parent", "stack", "digest")
_COLUMNS = (
    *("name", "step", "rank", "order", "dtype", "shape", "status"),
    *("kind", "path", "call", "direction", "role", "slot"),
    *_TEXTS,
    *_STATISTICS,
)


class DumpRows:
    """The rows of a dump, by step and name."""

    def __init__(self, dump: Dump) -> None:
        self.sources = dump.sources
        self.columns = dump.columns.lists(*_COLUMNS)
        self._fingerprints = fingerprints_of(dump.index)
        steps, ranks, names = (self.columns[name] for name in ("step", "rank", "name"))
        self.places = set(zip(steps, ranks, strict=True))
        self.groups: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in sorted(range(len(dump)), key=lambda row: (steps[row], ranks[row])):
            self.groups[steps[row], names[row]].append(row)
        self._of_step: dict[int, set[int]] = defaultdict(set)
        for step, rank in self.places:
            self._of_step[step].add(rank)
        self._holders: dict[int, set[frozenset[int]]] = defaultdict(set)
        for (step, _), rows in self.groups.items():
            self._holders[step].add(frozenset(ranks[row] for row in rows))
        self._lacking: dict[tuple[int, frozenset[int]], list[int]] = {}

    def lacking(self, step: int, holders: frozenset[int]) -> list[int]:
        """Ranks that should hold what these do.

        Empty if all others are in groups of the same size that hold names of their own.
        """
        key = (step, holders)
        if key not in self._lacking:
            others = self._of_step[step] - holders
            for group in self._holders[step]:
                if len(group) == len(holders) and not group & holders:
                    others -= group
            self._lacking[key] = sorted(self._of_step[step] - holders) if others else []
        return self._lacking[key]

    def entry(self, row: int) -> Entry:
        """The row as a reader would have made it."""
        cells = {name: values[row] for name, values in self.columns.items()}
        site = (cells[name] for name in ("kind", "path", "call", "direction", "role", "slot"))
        figures = {name: cells[name] for name in _STATISTICS}
        unreadable = cells["status"] == "unreadable"
        source = None if unreadable else self.sources[row]
        return Entry(
            cells["name"],
            Site(*site),
            source,
            cells["step"],
            cells["rank"],
            cells["order"],
            statistics={name: value for name, value in figures.items() if _is_known(name, value)},
            dtype=cells["dtype"],
            shape=cells["shape"] if source is None else source.shape,
            **{name: cells[name] for name in _TEXTS},
            fingerprint=self._fingerprints[row],
        )


def _is_known(name: str, value: float) -> bool:
    exact = DUMP_COLUMNS[name].dtype == "int64"
    return value >= 0 if exact else not math.isnan(value)


class Rules:
    """What the user declared, and what of it was never asked for."""

    def __init__(self, axes: Mapping[str, Any]) -> None:
        self._rules: list[tuple[str, re.Pattern[str], Layout]] = []
        self._used: set[str] = set()
        for pattern, declared in axes.items():
            if not isinstance(pattern, str):
                raise PairingError(Message("alignment.no_pattern", pattern=repr(pattern)))
            try:
                layout = layout_of(declared)
            except PairingError as error:
                said = Message("alignment.in_axes", pattern=pattern, reason=error)
                raise PairingError(said) from None
            # fnmatch would take the brackets of "layers[0]" for a set of characters.
            fits = re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
            self._rules.append((pattern, fits, layout))

    def of(self, entry: Entry) -> tuple[str, Layout] | None:
        """The first pattern that fits name or path, with its layout."""
        for pattern, fits, layout in self._rules:
            if fits.match(entry.name) or fits.match(entry.site.path):
                self._used.add(pattern)
                return pattern, layout
        return None

    def unused(self) -> list[str]:
        """A note about the patterns that fitted nothing."""
        alone = [pattern for pattern, *_ in self._rules if pattern not in self._used]
        return [Message("alignment.unused_patterns", patterns=alone)] if alone else []


class Reference:
    """Entries of another run by name or site."""

    def __init__(self, dump: Dump) -> None:
        self._table = DumpRows(dump)
        self._sites: dict[tuple[int, Site], list[str]] = defaultdict(list)
        for (step, name), rows in self._table.groups.items():
            self._sites[step, self._table.entry(rows[0]).site].append(name)

    def of(self, entry: Entry) -> list[Entry]:
        """The entries of all ranks; none where nothing, or several, are meant."""
        rows = self._table.groups.get((entry.step, entry.name))
        if rows is None:
            names = self._sites.get((entry.step, entry.site), [])
            rows = self._table.groups[entry.step, names[0]] if len(names) == 1 else []
        found = [self._table.entry(row) for row in rows]
        return [] if any(one.reason or one.shape is None for one in found) else found
