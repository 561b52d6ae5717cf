"""Which entry of the left dump belongs to which entry of the right one, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.columns.column import described
from troubleshooter_nb.columns.pairings import PAIRING_COLUMNS
from troubleshooter_nb.dump import Dump, object_array
from troubleshooter_nb.errors import AmbiguousEntryError, EntryNotFoundError, PairingError
from troubleshooter_nb.messages import Message, of_one_class
from troubleshooter_nb.naming.closeness import (
    Candidate,
    Judged,
    close_names,
    closest,
    closest_partners,
    rest_pairs,
)
from troubleshooter_nb.options import get_options
from troubleshooter_nb.render.pairing_view import pairing_html, pairing_text
from troubleshooter_nb.shapes import Shape, shape_text, with_shape_texts, with_shape_tuples
from troubleshooter_nb.table import Table, table_of

SCHEMA = "troubleshooter_nb.pairing/1"
# The id of the note of an entry that a person declared to have no partner.
EXPECTED = "pairings.expected"
Side = Literal["left", "right"]
_SIDES: tuple[Side, Side] = ("left", "right")


class Match(NamedTuple):
    """One row of a pairing: dump rows of both sides (-1 for none), method and confidence."""

    left: int
    right: int
    method: str
    confidence: float
    note: str = ""
    candidates: str = ""
    expected: bool = False


@dataclass(frozen=True, repr=False)
class Pairing:
    """Rows of matched and unmatched entries of two dumps.

    Attributes
    ----------
    table : xarray.Dataset, dimension ``pair``
        One row per matched pair or unmatched entry, with the variables of
        `troubleshooter_nb.columns.pairings.PAIRING_COLUMNS`::

            left, right              str      entry names; empty where there is no partner
            left_entry, right_entry  int64    rows in the two dumps; -1 where there is no partner
            left_shape, right_shape  tuple    () for a scalar; None if unknown or no partner
            step, rank               int64    training step, process of a distributed run
            method                   str      how they were found, see `pair_dumps`; or unmatched
            confidence               float64  0 to 1, 1 is certain; nan if alone
            note                     str      what to know about this pair
            candidates               str      closest partners of an unmatched entry, and why not
            expected                 bool     a missing partner was declared expected
    left, right : Dump
        The two dumps.
    """

    table: xr.Dataset
    left: Dump
    right: Dump

    @classmethod
    def from_matches(cls, left: Dump, right: Dump, matches: Iterable[Match]) -> Pairing:
        """Build the table from dump row numbers; every entry should occur exactly once.

        Parameters
        ----------
        left, right : Dump
        matches : iterable of Match
            In the order of the rows. Steps and ranks are those of `places_of`.
        """
        rows = [*zip(*matches, strict=True)] or [()] * len(Match._fields)
        of = dict(zip(Match._fields, rows, strict=True))
        entries = {side: np.array(of[side], np.int64) for side in _SIDES}
        columns: dict[str, Any] = {}
        for side, dump in zip(_SIDES, (left, right), strict=True):
            columns[side] = _cells(dump.columns["name"].astype(object), entries[side], "")
            columns[f"{side}_entry"] = entries[side]
            columns[f"{side}_shape"] = _cells(dump.columns["shape"], entries[side], None)
        for name, (mine, theirs) in places_of(left, right).items():
            here, there = _cells(mine, entries["left"], 0), _cells(theirs, entries["right"], 0)
            columns[name] = np.where(entries["left"] >= 0, here, there).astype(np.int64)
        columns["method"] = object_array(of["method"])
        columns["confidence"] = np.array(of["confidence"], np.float64)
        columns["note"] = object_array(of_one_class(of["note"]))
        columns["candidates"] = object_array(of_one_class(of["candidates"]))
        columns["expected"] = np.array(of["expected"], bool)
        table = xr.Dataset(described("pair", PAIRING_COLUMNS, columns), attrs={"schema": SCHEMA})
        return cls(table, left, right)

    def __post_init__(self) -> None:
        # A table that was stored has them as text.
        object.__setattr__(self, "table", with_shape_tuples(self.table))

    @cached_property
    def columns(self) -> Table:
        """The rows as plain arrays by name, those of `table` themselves."""
        return table_of(self.table)

    @property
    def labels(self) -> tuple[str, str]:
        """Labels of both dumps as they are shown: ``left`` and ``right`` tell equal ones apart."""
        left, right = self.left.label or "left", self.right.label or "right"
        return (f"{left} (left)", f"{right} (right)") if left == right else (left, right)

    def matches(self) -> list[Match]:
        """The rows as `Match` values."""
        t = self.columns
        return [
            Match(
                int(t["left_entry"][i]),
                int(t["right_entry"][i]),
                str(t["method"][i]),
                float(t["confidence"][i]),
                t["note"][i],
                t["candidates"][i],
                bool(t["expected"][i]),
            )
            for i in range(len(self))
        ]

    def __len__(self) -> int:
        """Rows: matched pairs and unmatched entries."""
        return int(self.table.sizes["pair"])

    @property
    def matched(self) -> int:
        """Number of pairs with both sides."""
        both = (self.table["left_entry"].values >= 0) & (self.table["right_entry"].values >= 0)
        return int(np.count_nonzero(both))

    @property
    def unmatched_left(self) -> list[str]:
        """Left names without a partner."""
        return self._names("left", self.table["right_entry"].values < 0)

    @property
    def unmatched_right(self) -> list[str]:
        """Right names without a partner."""
        return self._names("right", self.table["left_entry"].values < 0)

    def pair(
        self, left: str, right: str, *, step: int | None = None, rank: int | None = None
    ) -> Pairing:
        """A pairing in which these two belong together; their former partners become unmatched.

        Parameters
        ----------
        left, right : str
            Entry names.
        step, rank : int, optional
            Where, if a name occurs in several steps or ranks.

        Raises
        ------
        EntryNotFoundError
            If a name is in no row there; the message lists the closest.
        AmbiguousEntryError
            If it is in several.
        PairingError
            If the two are of different steps or ranks.
        """
        left_row, right_row = (
            self._row("left", left, step, rank),
            self._row("right", right, step, rank),
        )
        rows = self.matches()
        first, second = rows[left_row], rows[right_row]
        places = [
            tuple(int(self.table[name].values[row]) for name in ("step", "rank"))
            for row in (left_row, right_row)
        ]
        if places[0] != places[1]:
            here, there = (Message("pairings.place", step=s, rank=r) for s, r in places)
            said = {"left": left, "here": here, "right": right, "there": there}
            raise PairingError(Message("pairings.other_place", **said))
        new = Match(first.left, second.right, "user", 1.0)
        if left_row == right_row:
            return self._replaced(rows, {left_row: [new]})
        alone_right = Match(-1, first.right, "unmatched", np.nan)
        alone_left = Match(second.left, -1, "unmatched", np.nan)
        changes = {
            left_row: [new, *([alone_right] if first.right >= 0 else [])],
            right_row: [alone_left] if second.left >= 0 else [],
        }
        return self._replaced(rows, changes)

    def candidates(
        self,
        name: str,
        *,
        side: Side | None = None,
        step: int | None = None,
        rank: int | None = None,
        most: int = 3,
    ) -> list[Candidate]:
        """The closest names of the other side, and what speaks for or against each.

        Parameters
        ----------
        name : str
            A left name, or a right one where the left side has none.
        side : {"left", "right"}, optional
            Where the name is, if both sides have it.
        step, rank : int, optional
            Where, if a name occurs in several steps or ranks.
        most : int

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As for `pair`.
        """
        side = side or self._side_of(name)
        row = self._row(side, name, step, rank)
        other = "right" if side == "left" else "left"
        columns = self.columns
        here = columns[f"{other}_entry"] >= 0
        for key in ("step", "rank"):
            here &= columns[key] == columns[key][row]
        rows = np.flatnonzero(here)
        free = np.flatnonzero(columns[f"{side}_entry"][rows] < 0).tolist()

        def judge(position: int) -> Judged:
            k = rows[position]
            shapes = columns[f"{side}_shape"][row], columns[f"{other}_shape"][k]
            known, same = None not in shapes, shapes[0] == shapes[1]
            why = of_shape(shapes[1] if known else None, same=known and same)
            taken: str = ""
            if columns[f"{side}_entry"][k] >= 0:
                taken = Message("pairings.paired_with", name=str(columns[side][k]))
            return Judged(why, same or not known, taken)

        names = tuple(str(columns[other][k]) for k in rows)
        return closest_partners(str(columns[side][row]), names, judge, free=free, most=most)

    def match_rest(self) -> Pairing:
        """A pairing in which what is left on both sides is paired where names and shapes say how.

        Equal names first, then names that are each other's closest and have the same numbers, then
        the only ones of their shape; only equal shapes of the same step and rank. What was declared
        expected to be missing stays so. The note of each new pair says why.
        """
        rows, columns = self.matches(), self.columns
        open_: dict[Side, list[int]] = {"left": [], "right": []}
        for number, row in enumerate(rows):
            if not row.expected and (row.left < 0) != (row.right < 0):
                open_["left" if row.right < 0 else "right"].append(number)
        left, right = (
            [
                (columns["step"][k], columns["rank"][k], columns[f"{side}_shape"][k])
                for k in open_[side]
            ]
            for side in _SIDES
        )
        pairs = rest_pairs(
            [str(columns["left"][k]) for k in open_["left"]],
            [str(columns["right"][k]) for k in open_["right"]],
            (left, right),
            lambda i, j: bool(left[i] == right[j]),
        )
        changes: dict[int, list[Match]] = {}
        for i, j, note in pairs:
            first, second = open_["left"][i], open_["right"][j]
            new = Match(rows[first].left, rows[second].right, "user", 1.0, note)
            changes |= {first: [new], second: []}
        return self._replaced(rows, changes) if changes else self

    def unpair(self, name: str, *, step: int | None = None, rank: int | None = None) -> Pairing:
        """A pairing in which the pair of this left (else right) name is split in two.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As for `pair`.
        PairingError
            If the entry has no partner.
        """
        row = self._row(self._side_of(name), name, step, rank)
        rows = self.matches()
        old = rows[row]
        if old.left < 0 or old.right < 0:
            raise PairingError(Message("pairings.no_partner", name=name))
        halves = [
            Match(old.left, -1, "unmatched", np.nan),
            Match(-1, old.right, "unmatched", np.nan),
        ]
        return self._replaced(rows, {row: halves})

    def expect_missing(
        self,
        *names: str,
        side: Side | None = None,
        step: int | None = None,
        rank: int | None = None,
        expected: bool = True,
    ) -> Pairing:
        """A pairing in which these unmatched entries are declared expected and so pass.

        The same pairing where they all are already.

        Parameters
        ----------
        *names : str
            Left names, or right ones where the left side has none.
        side : {"left", "right"}, optional
            Where the names are, if both sides have them.
        step, rank : int, optional
            Where, if a name occurs in several steps or ranks.
        expected : bool
            False takes a declaration back: a partner is wanted again.

        Raises
        ------
        EntryNotFoundError, AmbiguousEntryError
            As for `pair`.
        PairingError
            If one of them has a partner.
        """
        rows, changed = self.matches(), False
        for name in names:
            row = self._row(side or self._side_of(name), name, step, rank)
            if rows[row].left >= 0 and rows[row].right >= 0:
                pair = {side: str(self.table[side].values[row]) for side in _SIDES}
                raise PairingError(Message("pairings.has_partner", name=name, **pair))
            if rows[row].expected != expected:
                note = Message(EXPECTED) if expected else ""
                rows[row], changed = rows[row]._replace(expected=expected, note=note), True
        return Pairing.from_matches(self.left, self.right, rows) if changed else self

    def to_dataset(self) -> xr.Dataset:
        """The table, a copy in which shapes are text, such as 64x128."""
        return with_shape_texts(self.table).copy(deep=True)

    def to_dataframe(self) -> pd.DataFrame:
        """The table with one row per pair or unmatched entry."""
        # Of a copy: pandas 3 writes through to arrays it was given.
        return self.to_dataset().to_dataframe().reset_index(drop=True)

    def __repr__(self) -> str:
        """Counts, pairs of the user, unmatched and the least certain ones, at most 25 lines."""
        return pairing_text(self.table, self._facts())

    def _repr_html_(self) -> str:
        return pairing_html(self.table, self._facts())

    def _facts(self) -> dict[str, Any]:
        labels = dict(zip(("left_label", "right_label"), self.labels, strict=True))
        return labels | get_options()

    def _names(self, side: str, rows: np.ndarray) -> list[str]:
        own = rows & (self.table[f"{side}_entry"].values >= 0)
        return [str(name) for name in self.table[side].values[own]]

    def _side_of(self, name: str) -> Side:
        """The left where it has the name, else the right; by full names first, then by paths."""
        for find in (self._rows, lambda side, name: self._rows_of_path(side, name, None, None)):
            for side in _SIDES:
                if len(find(side, name)):
                    return side
        names = {one: side for side in reversed(_SIDES) for one in self._names_of(side)}
        close = close_names(name, names)
        found = [Message(f"pairings.name_on_{names[one]}", name=one) for one in close]
        near = Message("pairings.closest_on_sides", names=found) if found else ""
        raise EntryNotFoundError(Message("pairings.on_neither_side", name=name, closest=near))

    def _names_of(self, side: Side) -> list[str]:
        return list(dict.fromkeys(self._names(side, np.ones(len(self), bool))))

    def _rows_of_path(self, side: str, name: str, step: int | None, rank: int | None) -> list[int]:
        """Rows whose entry has this path, the short name that comparisons show."""
        paths = (self.left if side == "left" else self.right).columns["path"]
        rows = enumerate(self.columns.rows(f"{side}_entry", "step", "rank"))
        return [
            row
            for row, (entry, at, of) in rows
            if entry >= 0 and paths[entry] == name and step in (None, at) and rank in (None, of)
        ]

    def _row(self, side: Side, name: str, step: int | None, rank: int | None) -> int:
        found = [
            row
            for row in self._rows(side, name)
            if step in (None, self.columns["step"][row])
            and rank in (None, self.columns["rank"][row])
        ]
        if not found:
            found = self._rows_of_path(side, name, step, rank)
        if not found:
            said = {"name": name, "closest": closest(name, self._names_of(side))}
            for key, value in (("step", step), ("rank", rank)):
                where = Message(f"pairings.in_{key}", number=value) if value is not None else ""
                said[f"in_{key}"] = where
            raise EntryNotFoundError(Message(f"pairings.not_on_{side}", **said))
        if len(found) > 1:
            several = {"name": name, "count": len(found)}
            raise AmbiguousEntryError(Message(f"pairings.several_on_{side}", **several))
        return int(found[0])

    def _rows(self, side: str, name: str) -> np.ndarray:
        named = self.table[side].values == name
        return np.flatnonzero(named & (self.table[f"{side}_entry"].values >= 0))

    def _replaced(self, rows: list[Match], changes: dict[int, list[Match]]) -> Pairing:
        new = [m for i, row in enumerate(rows) for m in changes.get(i, [row])]
        return Pairing.from_matches(self.left, self.right, new)


def of_shape(shape: Shape | None, *, same: bool = False) -> Message:
    """What speaks for or against a partner of this shape, None for one that is not known."""
    if same or shape is None:
        return Message(f"pairings.{'same_shape' if same else 'unknown_shape'}")
    return Message("pairings.of_shape", shape=shape_text(shape))


def places_of(left: Dump, right: Dump) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Steps and ranks of the entries of both dumps, as they are paired.

    Where each side has one step only, the right one's is taken for the left one's, whatever its
    number; so with ranks. What belongs to it is compared, not missing.

    Returns
    -------
    dict of str to (ndarray, ndarray)
        ``step`` and ``rank`` of each entry, left and right.
    """
    found = {}
    for name in ("step", "rank"):
        mine, theirs = left.index[name].values, right.index[name].values
        if len(mine) and len(theirs) and (mine == mine[0]).all() and (theirs == theirs[0]).all():
            theirs = np.full_like(theirs, mine[0])
        found[name] = mine, theirs
    return found


def _cells(column: np.ndarray, entries: np.ndarray, missing: object) -> np.ndarray:
    """The cells of a dump's column at these entries, `missing` for -1."""
    known = entries >= 0
    found = np.full(len(entries), missing, column.dtype)
    found[known] = column[entries[known]]
    return found
