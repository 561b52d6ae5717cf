"""The rows of a comparison as columns: their order, what is known of them, what is in the way."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.analysis.recorded import Recorded, over_all_values
from troubleshooter_nb.dump import ArraySource, Dump, fingerprints_of, object_array
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES
from troubleshooter_nb.metrics.verdict import Verdicts, expected_missing, verdict
from troubleshooter_nb.naming import CALL_KINDS
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.rows import display_names
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.table import Row, Table

Walk = Literal["auto", "forward", "backward"]
_SIDES = ("left", "right")
_KNOWN = ("left", "right", "step", "rank", "expected", "note")
_NUMBER = re.compile(r"([0-9]{1,9})")
# Roles of gradients that were saved one by one.
_WALKED = ("parameter", "gradient")


class SideRows:
    """One dump of a comparison, its entries row by row.

    Attributes
    ----------
    dump : Dump
    entries : ndarray of int64, shape (n,)
        Rows of the dump's table; -1 where a row has none on this side.
    """

    def __init__(self, dump: Dump, entries: np.ndarray) -> None:
        self.dump, self.entries = dump, entries

    def column(self, name: str, otherwise: Any = "") -> np.ndarray:
        """A column of the dump's table row by row, shape (n,); `otherwise` where there is none."""
        return self.taken(self.dump.columns[name], otherwise)

    def taken(self, values: np.ndarray, otherwise: Any) -> np.ndarray:
        """Values of the dump's entries, shape (entries,), row by row."""
        there = self.entries >= 0
        if len(values) and there.all():
            found: np.ndarray = values[self.entries]
            return found
        found = np.full(len(there), otherwise, values.dtype)
        found[there] = values[self.entries[there]]
        return found

    @cached_property
    def sources(self) -> list[ArraySource | None]:
        """The handles; None where there are no values."""
        known = self.dump.sources
        return [known[entry] if entry >= 0 else None for entry in self.entries.tolist()]

    @cached_property
    def has_values(self) -> np.ndarray:
        """Which rows have values to read on this side, shape (n,)."""
        return np.array([source is not None for source in self.sources], bool)

    @cached_property
    def dtypes(self) -> list[np.dtype | None]:
        """The stored dtypes of what can be read; None where nothing can."""
        return [None if source is None else source.dtype for source in self.sources]

    @cached_property
    def stored_shapes(self) -> list[Shape | None]:
        """The shapes of what can be read; None where nothing can."""
        return [None if source is None else source.shape for source in self.sources]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Elements of what can be read, shape (n,); 0 where nothing can."""
        # Shapes repeat.
        size_of: Callable[[Shape | None], int]
        size_of = cache(lambda shape: 0 if shape is None else math.prod(shape))
        return np.array([size_of(shape) for shape in self.stored_shapes], np.int64)

    @property
    def display(self) -> np.ndarray:
        """What is shown of each row, shape (n,)."""
        return self.taken(object_array(display_names(self.dump.columns)), "")

    @property
    def digests(self) -> np.ndarray:
        """The checksums that were recorded, with their kind in front, shape (n,)."""
        found, crc = self.column("digest"), self.column("crc32", -1)
        for row in np.flatnonzero((found == "") & (crc >= 0)).tolist():
            found[row] = f"crc32:{int(crc[row]):08x}"
        return found

    @property
    def is_lost(self) -> np.ndarray:
        """Which rows cannot be read, and nothing was recorded about them besides, shape (n,)."""
        recorded = (self.column("crc32", -1) >= 0) | ~np.isnan(self.column("max", np.nan))
        return np.asarray((self.column("status") == "unreadable") & ~recorded, bool)

    def recorded(self, row: int, computed: Mapping[str, Any] | None = None) -> Recorded:
        """What is known of a row without reading it, or from its values as `computed`."""
        entry = Row(self._recorded, int(self.entries[row]))
        if computed is None:
            known = {name: entry[name] for name in (*SUMMARY_FIGURES, "crc32")}
            numbers = self.fingerprint(row)
        else:
            known = over_all_values(computed)
            numbers = known.pop("fingerprint", ())
        return Recorded(
            value=str(entry["value"]),
            dtype=str(entry["dtype"]),
            shape=entry["shape"],
            size=entry["size"],
            crc32=int(known.pop("crc32")),
            digest=str(entry["digest"]),
            statistics=known,
            fingerprint=numbers,
        )

    def fingerprint(self, row: int) -> tuple[float, ...]:
        """The recorded fingerprint of a row; empty where there is none."""
        entry = int(self.entries[row])
        return self._fingerprints[entry] if entry >= 0 else ()

    @cached_property
    def _fingerprints(self) -> list[tuple[float, ...]]:
        return fingerprints_of(self.dump.index)

    @cached_property
    def _recorded(self) -> dict[str, list[Any]]:
        """The columns of the dump that `recorded` takes from."""
        names = ("value", "dtype", "shape", "size", "digest", "crc32", *SUMMARY_FIGURES)
        return self.dump.columns.lists(*names)


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a pairing in the order in which their values came to be.

    Attributes
    ----------
    left, right : SideRows
    known : Table
        ``left, right, step, rank, expected, note`` of the pairing.
    order_known : ndarray of bool, shape (n,)
        Whether a side has an order of saving; else names decide.
    walked_backward : ndarray of bool, shape (n,)
        Whether a row is listed from the loss backwards.
    """

    left: SideRows
    right: SideRows
    known: Table
    order_known: np.ndarray
    walked_backward: np.ndarray

    @property
    def sides(self) -> tuple[SideRows, SideRows]:
        """Left and right."""
        return self.left, self.right

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.order_known)

    def either(self, column: str) -> np.ndarray:
        """Texts of the left side, or where they are empty of the right one, shape (n,)."""
        left = self.left.column(column)
        return np.where(left == "", self.right.column(column), left)

    @cached_property
    def has_values(self) -> np.ndarray:
        """Which rows have values to read on both sides, shape (n,)."""
        return np.asarray(self.left.has_values & self.right.has_values)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Elements of the left side, or where it has none of the right one, shape (n,)."""
        return np.where(self.left.has_values, self.left.sizes, self.right.sizes)

    @cached_property
    def is_summarised(self) -> np.ndarray:
        """Where one side has values, to be compared with what was recorded of the other.

        What is no tensor, or of another shape, is judged without its partner's values.
        """
        found: np.ndarray = self.left.has_values ^ self.right.has_values
        for row in np.flatnonzero(found).tolist():
            entries = [(side.dump.columns, int(side.entries[row])) for side in self.sides]
            there = [(columns, entry) for columns, entry in entries if entry >= 0]
            if any(columns["value"][entry] for columns, entry in there):
                found[row] = self.sizes[row] == 1
            else:
                shapes = {columns["shape"][entry] for columns, entry in there} - {None}
                found[row] = len(shapes) < 2
        return found

    @cached_property
    def obstacles(self) -> Verdicts:
        """Why the values of rows cannot be compared; no verdict where nothing is in the way."""
        found = Verdicts.empty(len(self))
        shapes = [object_array(side.stored_shapes) for side in self.sides]
        unlike = self.has_values & np.asarray(shapes[0] != shapes[1], bool)
        found.put(unlike, verdict("shape", "shape"))
        for name, side in reversed([*zip(_SIDES, self.sides, strict=True)]):
            found.put(side.entries < 0, verdict("missing", f"missing_{name}"))
        for row in np.flatnonzero(self.known["expected"]).tolist():
            note = self.known["note"][row]
            reason = "missing_noted" if note else "missing_expected"
            found.put(row, replace(expected_missing(), reason=reason, detail=note))
        for name, side in reversed([*zip(_SIDES, self.sides, strict=True)]):
            for row in np.flatnonzero(side.is_lost).tolist():
                why = side.dump.columns["reason"][side.entries[row]]
                found.put(row, verdict("unreadable", f"unreadable_{name}", why))
        return found


def rows_of(pairing: Pairing, walk: Walk) -> Rows:
    """The rows of a pairing in the order of execution.

    Gradients are saved in the order of the parameters, or in that of the forward pass in which they
    were asked for, but computed from the loss backwards: they are walked in reverse, after
    everything of the forward pass.
    """
    table = pairing.columns
    sides = [
        SideRows(dump, table[f"{name}_entry"])
        for name, dump in zip(_SIDES, (pairing.left, pairing.right), strict=True)
    ]
    # A side of unnumbered files has no order of its own to offer.
    lead = 0 if (pairing.left.columns["order"] >= 0).any() else 1
    orders = [np.maximum(side.column("order", -1), -1) for side in sides]
    own = np.where(orders[lead] >= 0, orders[lead], orders[1 - lead])
    known, backward = own >= 0, _walked_backward(sides, lead, walk)
    first = np.where(sides[0].entries >= 0, 0, 1)
    entries = np.where(first == 0, sides[0].entries, sides[1].entries)
    own = np.where(known, own, entries)
    beside, where = _beside(table, sides, orders, lead, backward)
    sign = np.where(backward, -1, 1)
    keys = (
        *(table["step"], table["rank"], backward, ~known),
        sign * np.where(where == 0, own, beside),
        sign * where,
        np.where(where == 0, first, sign * own),
        entries,
    )
    order = np.lexsort(keys[::-1])
    left, right = (SideRows(side.dump, side.entries[order]) for side in sides)
    return Rows(
        left,
        right,
        Table({name: table[name][order] for name in _KNOWN}),
        known[order],
        backward[order],
    )


def _walked_backward(sides: Sequence[SideRows], lead: int, walk: Walk) -> np.ndarray:
    """Which rows are listed from the loss backwards, shape (n,)."""
    found = np.zeros(len(sides[0].entries), bool)
    if walk == "forward":
        return found
    for side in sides:
        direction = side.column("direction")
        wanted = direction == "backward"
        if walk == "backward":
            wanted |= direction == ""
        found |= np.asarray(wanted & np.isin(side.column("role"), _WALKED), bool)
    if walk == "auto" and found.any() and _gradients_run_backward(sides[lead].dump.columns):
        return np.zeros(len(found), bool)
    return found


def _gradients_run_backward(columns: Table) -> bool:
    """Whether gradients stand in the order of their computation, last layer first.

    Told from what the forward pass left of the same places, else from the numbers of layers.
    """
    is_gradient = np.isin(columns["role"], _WALKED) & (columns["direction"] == "backward")
    in_calls = np.isin(columns["kind"], list(CALL_KINDS))
    is_forward = in_calls & (columns["role"] == "output") & (columns["direction"] == "forward")
    is_forward |= ~in_calls & (columns["role"] == "") & (columns["direction"] == "")
    place: dict[tuple[int, int, str], int] = {}
    where = list(zip(columns["step"], columns["rank"], columns["path"], strict=True))
    # Files without a number stand by their name, which says nothing of when they were made.
    for row in np.flatnonzero(is_forward & (columns["order"] >= 0)):
        place.setdefault(where[row], int(row))
    rows = [place[where[row]] for row in np.flatnonzero(is_gradient) if where[row] in place]
    if rows:
        steps = [b - a for a, b in pairwise(rows)]
    else:
        is_numbered = is_gradient & (in_calls | (columns["order"] >= 0))
        paths = [_NUMBER.split(path) for path in columns["path"][is_numbered].tolist()]
        # Where indices of layers say nothing, numbers in their names may: conv1, conv2.
        steps = [_counted(a, b, is_index=True) for a, b in pairwise(paths)]
        steps = steps if any(steps) else [_counted(a, b) for a, b in pairwise(paths)]
    return sum(step < 0 for step in steps) > sum(step > 0 for step in steps)


def _counted(first: Sequence[str], second: Sequence[str], *, is_index: bool = False) -> int:
    """How much further the second of two names counts where they part; 0: in no number."""
    at = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), 0)
    if not at % 2 or (is_index and first[at - 1][-1:].isalpha()):
        return 0
    return int(second[at]) - int(first[at])


def _beside(
    table: Table,
    sides: Sequence[SideRows],
    orders: Sequence[np.ndarray],
    lead: int,
    back: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The order of a neighbour, and whether a row stands before (-1) or behind (1) that one.

    For the rows of one side only, where the other side's order leads; 0 for all others. The
    numbers of the two sides are not the same: what is the 30th on the right may belong to the 20th
    on the left. A row follows the one before it in the order of its own side that has a partner
    and the same direction, or else stands before the one behind it. Where the direction has none,
    a backward row comes last.
    """
    beside, where = (np.zeros(len(back), np.int64) for _ in range(2))
    alone = (sides[lead].entries < 0) & (orders[1 - lead] >= 0)
    if not alone.any():
        return beside, where
    left = sides[0].column("direction")
    direction = np.where(left == "", sides[1].column("direction"), left)
    groups = (table["step"], table["rank"], _numbered(direction.tolist()), back)
    # The rows group by group, and in each in the order of the side that does not lead.
    members = np.flatnonzero(orders[1 - lead] >= 0)
    keys = (orders[1 - lead], *groups[::-1])
    members = members[np.lexsort([key[members] for key in keys])]
    at = np.arange(len(members))
    is_new = np.ones(len(members), bool)
    is_new[1:] = np.any([np.diff(key[members].astype(np.int64)) != 0 for key in groups], axis=0)
    group = np.cumsum(is_new)
    has_partner = orders[lead][members] >= 0
    before = np.maximum.accumulate(np.where(has_partner, at, -1))
    behind = np.minimum.accumulate(np.where(has_partner, at, len(at))[::-1])[::-1]
    follows = (before >= 0) & (group[before] == group)
    precedes = ~follows & (behind < len(at))
    precedes &= group[np.minimum(behind, len(at) - 1)] == group
    neighbour = members[np.where(follows, before, np.minimum(behind, len(at) - 1))]
    placed = np.where(follows, 1, np.where(precedes, -1, 0)) * alone[members]
    beside[members], where[members] = orders[lead][neighbour], placed
    comes_last = alone & (where == 0) & (direction == "backward")
    if comes_last.any():
        last = _last(_numbered([*table.rows("step", "rank")]), orders[lead])
        comes_last &= last >= 0
        beside[comes_last], where[comes_last] = last[comes_last], 1
    return beside, where


def _numbered(values: Sequence[Any]) -> np.ndarray:
    """Equal numbers for equal values, shape (n,)."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)


def _last(places: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """The largest order in the place of each row, shape (n,)."""
    largest = np.full(places.max(initial=-1) + 1, -1, np.int64)
    np.maximum.at(largest, places, orders)
    return np.asarray(largest[places])
