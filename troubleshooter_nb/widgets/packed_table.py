"""A table as packed columns for the page, with the one rule for which rows it shows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import Column, in_view, says_something, shown_columns
from troubleshooter_nb.columns.entries import DUMP_COLUMNS, MADE_OF_ENTRIES
from troubleshooter_nb.columns.pairs import MADE_OF_PAIRS, RESULT_COLUMNS
from troubleshooter_nb.errors import OptionError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE
from troubleshooter_nb.render.rows import Entries, Pairs
from troubleshooter_nb.shapes import shape_texts
from troubleshooter_nb.table import Table
from troubleshooter_nb.widgets.sendable import sendable

NAMES = ("left", "right", "left_display", "right_display")
_FILTERS = ("verdict", "origin", "role", "direction", "step", "rank", "dtype")
# What the page takes besides the columns that it shows: to search in, to sort and to filter by.
_BESIDE_RESULT = ("left", "right", "right_display", "right_shape")
_BESIDE_INDEX = ("left", "kind", "size", "min", "max")
# Columns that the page has under another name, of pairs and of entries alike.
_PAGE_NAMES = {"order": "number", "name": "left_display"}
# Where a difference comes from; a pair that passes and only carries one on has none of these.
_ORIGINS = ("created", "within", "carried", "without_effect")
_HEALTH = ("ok", "constant", "zero", "near", "saturated", "inf", "nan", "unreadable", "not_read")

_LAST = 2**31 - 1  # stands for no upper bound, in the page as well
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class View:
    """Which rows are shown and in which order.

    Attributes
    ----------
    text : str
        Every word of it, in any case, stands in one of the row's names.
    where : mapping of str to sequence
        Column and the values wanted; a column that is not there or has no values asks nothing.
    between : tuple of int, optional
        Smallest and largest pair number, both included.
    sort : str
        Column; rows where it is nan come last, equal ones keep their sequence.
    descending : bool
    """

    text: str = ""
    where: Mapping[str, Sequence[Any]] | None = None
    between: tuple[int, int] | None = None
    sort: str = "number"
    descending: bool = False

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> View:
        """A view from what the page says."""
        return cls(
            str(said.get("text") or ""),
            {str(name): list(values) for name, values in dict(said.get("where") or {}).items()},
            _bounds(said.get("between")),
            str(said.get("sort") or "number"),
            bool(said.get("descending", False)),
        )

    def changed(self, **changes: Any) -> View:
        """The view with other filters or another order.

        Parameters
        ----------
        **changes
            ``text``, ``between``, ``sort``, ``descending``; or a column to filter by
            (``verdict, origin, role, direction, step, rank, dtype``) with a value or several:
            of ``origin`` created, within (created, but passes), carried or without_effect.
            None for all; of ``between`` also for one of the two bounds.

        Raises
        ------
        OptionError
            For anything else.
        """
        where = dict(self.where or {})
        for name in list(changes):
            if name in _FILTERS:
                wanted = changes.pop(name)
                several = isinstance(wanted, (list, tuple, set, frozenset, np.ndarray))
                values = [] if wanted is None else list(wanted) if several else [wanted]
                where[name] = [v.item() if isinstance(v, np.generic) else v for v in values]
        own = ("text", "between", "sort", "descending")
        unknown = [name for name in changes if name not in own]
        if unknown:
            said = {"name": unknown[0], "known": [*own, *_FILTERS]}
            raise OptionError(Message("explorer.no_filter", **said))
        if "between" in changes:
            changes["between"] = _bounds(changes["between"])
        nothing: dict[str, Any] = {
            "text": "",
            "between": None,
            "sort": "number",
            "descending": False,
        }
        for name, kind in (("text", str), ("sort", str), ("descending", (bool, np.bool_))):
            if not isinstance(changes.get(name), (kind, type(None))):
                id = f"explorer.takes_{'bool' if name == 'descending' else 'text'}"
                raise OptionError(Message(id, name=name, got=repr(changes[name])))
        asked = {name: nothing[name] if v is None else v for name, v in changes.items()}
        return replace(self, where={k: v for k, v in where.items() if v}, **asked)

    def message(self) -> dict[str, Any]:
        """The view as JSON."""
        return {
            "text": self.text,
            "where": {name: list(values) for name, values in (self.where or {}).items()},
            "between": list(self.between) if self.between else None,
            "sort": self.sort,
            "descending": self.descending,
        }


@dataclass(frozen=True)
class PackedColumn:
    """One column: numbers, or codes into a sorted table of texts (codes sort like the texts)."""

    values: np.ndarray
    texts: tuple[str, ...] | None = None

    def buffer(self) -> bytes:
        """The column as little-endian bytes: int32 codes or float64 numbers."""
        dtype = "<f8" if self.texts is None else "<i4"
        return np.ascontiguousarray(self.values, dtype).tobytes()


@dataclass(frozen=True)
class PackedTable:
    """All columns of one explorer, rows in the sequence of the Comparison or Dump.

    Attributes
    ----------
    columns : mapping of str to PackedColumn
        ``number`` is the pair number, or the row of a dump; ``verdict`` of an entry its health.
    declared : mapping of str to Column
        By the name that the page has for it.
    shown : sequence of str
        Those that the page shows, from left to right.
    """

    columns: Mapping[str, PackedColumn]
    declared: Mapping[str, Column]
    shown: Sequence[str]

    @classmethod
    def of_result(cls, result: xr.Dataset) -> PackedTable:
        """The columns of a `Comparison.result` that the explorer shows or needs."""
        pairs = Pairs.of(result)
        made = {
            "origin": _origins(pairs),
            "one_minus_cosine": np.maximum(1.0 - pairs["cosine"], 0.0),
        }
        orders = {"verdict": tuple(TRUTH_TABLE), "origin": _ORIGINS}
        declared = [*RESULT_COLUMNS.values(), *MADE_OF_PAIRS.values()]
        return cls._of({**pairs.columns, **made}, declared, _BESIDE_RESULT, orders)

    @classmethod
    def of_index(cls, index: xr.Dataset) -> PackedTable:
        """The columns of a `Dump.index` that the explorer shows or needs."""
        entries = Entries.of(index)
        made = {
            "number": np.arange(len(entries)),
            "left": entries["name"],
            "name": np.array(entries.names, object),
            "verdict": entries.kinds,
            "largest": entries.largest,
        }
        declared = [*DUMP_COLUMNS.values(), *MADE_OF_ENTRIES.values()]
        columns = {**entries.columns, **made}
        return cls._of(columns, declared, _BESIDE_INDEX, {"verdict": _HEALTH})

    @classmethod
    def _of(
        cls,
        columns: Mapping[str, np.ndarray],
        declared: Sequence[Column],
        beside: Sequence[str],
        orders: Mapping[str, Sequence[str]],
    ) -> PackedTable:
        """What the explorer may show of columns, packed, and what it does show of it."""
        said = {_PAGE_NAMES.get(column.name, column.name): column for column in declared}
        packed = {}
        names = [column.name for column in in_view("explorer", declared)]
        for name in dict.fromkeys([*names, *beside]):
            values = columns[name]
            if name.endswith("shape"):
                values = shape_texts(values)
            elif values.dtype.kind == "i":
                values = np.where(values < 0, np.nan, values)
            packed[_PAGE_NAMES.get(name, name)] = _packed(values, orders.get(name, ()))
        shown = shown_columns("explorer", declared, Table(columns))
        known = [
            _PAGE_NAMES.get(column.name, column.name)
            for column in shown
            if not column.is_figure or says_something(columns[column.name])
        ]
        return cls(packed, said, known)

    def check(self, view: View) -> None:
        """Raise `OptionError` for an order or a value that is not in this table.

        A verdict need not be there, but be one that tables of this kind have.
        """
        if view.sort not in self.columns:
            said = {"name": view.sort, "known": list(self.columns)}
            raise OptionError(Message("explorer.no_order", **said))
        for name, wanted in (view.where or {}).items():
            known = self._known(name)
            for value in wanted:
                if value not in known:
                    some = list(known) or [Message("explorer.none_known")]
                    said = {"name": name, "value": repr(value), "known": some}
                    raise OptionError(Message("explorer.no_such_value", **said))

    def _known(self, name: str) -> list[Any]:
        """The values that one can filter a column by."""
        if name == "verdict":
            return list(_HEALTH if "largest" in self.columns else TRUTH_TABLE)
        column = self.columns.get(name)
        if column is None:
            return []
        if column.texts is not None:
            return list(column.texts)
        values = np.unique(column.values)
        return [int(v) if v == int(v) else float(v) for v in values[np.isfinite(values)].tolist()]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.columns["number"].values)

    def message(self, language: str) -> tuple[list[dict[str, Any]], list[bytes]]:
        """Description of each column for the page, and one buffer each."""
        described = []
        for name, packed in self.columns.items():
            texts = None if packed.texts is None else list(packed.texts)
            one: dict[str, Any] = {"name": name, "texts": texts}
            if column := self.declared.get(name):
                one |= {
                    "title": column.titled(language),
                    "format": column.format_in("explorer"),
                    "right": not column.is_left,
                    "figure": column.is_figure,
                    "bar": column.bar,
                }
            described.append(one)
        return described, [column.buffer() for column in self.columns.values()]

    def rows(self, view: View) -> np.ndarray:
        """Rows a view shows, in its order; the page's script does the same.

        Returns
        -------
        ndarray of int64, shape (shown rows,)
        """
        keep = np.ones(len(self), bool)
        for name, wanted in (view.where or {}).items():
            column = self.columns.get(name)
            if column is not None and len(wanted):
                if column.texts is None:
                    keep &= np.isin(column.values, np.asarray(list(wanted), float))
                else:
                    fits = np.array([text in wanted for text in column.texts], bool)
                    keep &= fits[column.values]
        if view.between is not None:
            low, high = view.between
            keep &= (self.numbers >= low) & (self.numbers <= high)
        for word in sendable(view.text).lower().split():
            keep &= self._named(word)
        rows = np.flatnonzero(keep)
        column = self.columns.get(view.sort)
        if column is None:
            return rows
        keys = column.values[rows].astype(float)
        return np.asarray(
            rows[np.lexsort((rows, -keys if view.descending else keys, np.isnan(keys)))]
        )

    @property
    def numbers(self) -> np.ndarray:
        """Pair number of every row."""
        return self.columns["number"].values

    def _named(self, word: str) -> np.ndarray:
        found = np.zeros(len(self), bool)
        for name, texts in self._lowered.items():
            found |= np.array([word in text for text in texts], bool)[self.columns[name].values]
        return found

    @cached_property
    def _lowered(self) -> dict[str, list[str]]:
        return {
            name: [text.lower() for text in column.texts or ()]
            for name, column in self.columns.items()
            if name in NAMES
        }


def _bounds(between: Sequence[float | None] | None) -> tuple[int, int] | None:
    """The whole numbers between two bounds; one that is missing bounds nothing."""
    if between is None:
        return None
    try:
        low, high = between
        first = 0 if low is None or math.isnan(low) else math.ceil(min(max(low, 0), _LAST))
        last = _LAST if high is None or math.isnan(high) else math.floor(max(min(high, _LAST), -1))
    except (TypeError, ValueError):
        raise OptionError(Message("explorer.no_bounds", got=repr(between))) from None
    return first, last


def _origins(pairs: Pairs) -> np.ndarray:
    """What the headline counts each pair as, by the package's rule: `Pairs.states`."""
    origins = np.where(np.isin(pairs.states, _ORIGINS), pairs.states, "").astype(object)
    if pairs.has_origins:
        rest = np.zeros(len(pairs), bool)
        rest[pairs.failed] = True
        origins[rest & (origins == "")] = "without_effect"
    return origins


def _packed(values: np.ndarray, order: Sequence[str] = ()) -> PackedColumn:
    """Numbers as they are; texts coded in the order given, others after it in natural order."""
    if values.dtype.kind in "biuf":
        return PackedColumn(np.asarray(values, np.float64))
    # Escaped here, so that the page and `PackedTable.rows` search in the same texts.
    given = values.tolist()
    texts = {value: sendable(str(value)) for value in dict.fromkeys(given)}
    ranks = {text: rank for rank, text in enumerate(order)}
    table = sorted(
        set(texts.values()), key=lambda text: (ranks.get(text, len(ranks)), _natural(text))
    )
    codes = {text: code for code, text in enumerate(table)}
    known = {value: codes[text] for value, text in texts.items()}
    return PackedColumn(np.array([known[value] for value in given], np.int32), tuple(table))


def _natural(text: str) -> tuple[Any, ...]:
    """A key that puts layers.2 before layers.10."""
    parts = _DIGITS.split(text)
    return tuple(int(p) if i % 2 else p.lower() for i, p in enumerate(parts)), text
