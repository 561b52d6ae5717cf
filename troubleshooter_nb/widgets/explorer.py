"""The explorer: a live table of a Comparison or a Dump, with every row open to single values."""

from __future__ import annotations

import html
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import anywidget
import numpy as np
import traitlets
import xarray as xr
from IPython.display import display

from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import ArgumentTypeError, EntryNotFoundError, OptionError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.verdict import TRUTH_TABLE
from troubleshooter_nb.options import get_options, option_context
from troubleshooter_nb.render.html import Markup, details, element, small
from troubleshooter_nb.render.text import dump_headline
from troubleshooter_nb.render.words import glyph, tone_of, word
from troubleshooter_nb.widgets.drill_down import (
    located,
    located_alone,
    located_entry,
    part,
    plane_of,
)
from troubleshooter_nb.widgets.opened_row import Answer, opened_entry, opened_pair, said_part
from troubleshooter_nb.widgets.packed_table import PackedTable, View
from troubleshooter_nb.widgets.page_files import script, style
from troubleshooter_nb.widgets.sendable import sendable
from troubleshooter_nb.widgets.words import explorer_word, front_end_note, words_of

_Found = xr.Dataset | str  # where something sits, or why nobody can tell
_KEPT = 32  # opened rows whose evidence is remembered
# health -> (glyph, tone)
_HEALTH = {
    "ok": ("✓", "ok"),
    "constant": ("▲", "warn"),
    "zero": ("▲", "warn"),
    "near": ("▲", "warn"),
    "saturated": ("▲", "warn"),
    "inf": ("◇", "miss"),
    "nan": ("◇", "miss"),
    "unreadable": ("!", "unread"),
    "not_read": ("○", "unread"),
}


class _Numbers(traitlets.TraitType[tuple[int, ...], Any]):
    """Whole numbers from any collection of them, in ascending order, each once."""

    default_value: tuple[int, ...] = ()

    def validate(self, _obj: object, value: Any) -> tuple[int, ...]:
        given = np.asarray(value).ravel().tolist() if hasattr(value, "__array__") else value
        whole = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))
        given = list(given) if whole else [given]
        for one in given:
            if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, np.integer)):
                whole = False
        if not whole:
            raise OptionError(Message("explorer.no_selection", got=repr(value)))
        return tuple(sorted({int(one) for one in given}))


class Explorer(anywidget.AnyWidget):
    """A table to sort, filter and open, of a `Comparison` or a `Dump`.

    The rows stay in the page; values are read when a row is opened. Nothing of them is saved with
    the notebook: the static record below the table is. ipywidgets keeps every widget of a session,
    also those of earlier runs of a cell, and with it what is explored: ``explorer.close()`` lets
    go of it.

    Attributes
    ----------
    selected : tuple of int
        Pair numbers (rows of a dump) that are selected, in ascending order; may be set, also to
        a set, a range or an array of them.
    view : View
        Filters and sort order; `show` changes them.
    """

    # Texts: of a path anywidget keeps a watcher for ever, and with it every explorer.
    _esm = script("explorer.js")
    _css = style("explorer.css")

    # What the page shows until the kernel answers, or for ever without one.
    waiting = traitlets.Unicode().tag(sync=True)
    # Not synchronised: the state of a widget is saved with the notebook, and rows are not.
    selected = _Numbers()
    view = traitlets.Instance(View, args=())

    def __init__(self, shown: Comparison | Dump) -> None:
        self._language = str(get_options()["language"])
        super().__init__(waiting=explorer_word("waiting", self._language))
        self._object = shown
        if isinstance(shown, Dump):
            self._table = PackedTable.of_index(shown.index)
        else:
            self._table = PackedTable.of_result(shown.result)
        self._evidence: dict[int, tuple[_Found, dict[str, _Found]]] = {}
        # Newer kernels hear the page in a thread of its own while a cell runs.
        self._turn = threading.RLock()
        self.on_msg(self._heard)

    def __repr__(self) -> str:
        """What is explored, and how much of it is shown and selected."""
        counts = {"shown": len(self.shown), "count": len(self._table)}
        counts["selected"] = len(self.selected)
        return explorer_word("of_what", self._language, title=self._headline(), **counts)

    @property
    def shown(self) -> list[int]:
        """Pair numbers (rows of a dump) that pass the filters, in sort order."""
        return [int(n) for n in self._table.numbers[self._table.rows(self.view)]]

    @property
    def value(self) -> Comparison | Dump:
        """The Comparison, or Dump, of what is selected, in its own sequence."""
        chosen = list(self.selected)
        if isinstance(self._object, Comparison):
            return self._object.select(order=chosen)
        sources = tuple(self._object.sources[row] for row in chosen)
        return replace(self._object, index=self._object.index.isel(entry=chosen), sources=sources)

    def show(self, **changes: Any) -> None:
        """Change filters or order, as the page does: see `View.changed`.

        None takes a filter back; an order or value that is not known raises `OptionError`.
        ``explorer.show(verdict="differs", text="attn", sort="rel_l2_error", descending=True)``
        """
        with self._turn:
            view = self.view.changed(**changes)
            self._table.check(view)
            self.view = view

    @traitlets.validate("selected")
    def _known(self, proposal: Any) -> tuple[int, ...]:
        numbers: tuple[int, ...] = proposal["value"]
        table = getattr(self, "_table", None)
        known = set(table.numbers.astype(int).tolist()) if table else set(numbers)
        unknown = [number for number in numbers if number not in known]
        if unknown:
            counts = {"number": unknown[0], "count": len(self._table)}
            raise EntryNotFoundError(Message("explorer.no_row", **counts))
        return numbers

    @traitlets.observe("selected", "view")
    def _tell(self, change: Any) -> None:
        """Tells the pages what changed and no more: the rest may have changed there meanwhile."""
        with self._turn:
            if change["name"] == "selected":
                parts: dict[str, Any] = {"selected": list(self.selected)}
            else:
                parts = {"view": _apart(change["old"].message(), change["new"].message())}
            self.send(sendable({"kind": "state", **parts}))

    def _state(self) -> dict[str, Any]:
        return {"selected": list(self.selected), "view": self.view.message()}

    def _take(self, told: Mapping[str, Any]) -> None:
        """Takes the parts of the state that a page tells; the others stay as they are."""
        if "view" in told:
            self.view = View.of(_with(self.view.message(), told["view"]))
        if "selected" in told:
            self.selected = tuple(told["selected"])

    def _otherwise(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """What is not as a page told it, because an observer set it or one of the two failed."""
        state = self._state()
        view = _apart(_with(state["view"], told.get("view", {})), state["view"])
        apart: dict[str, Any] = {"view": view} if view else {}
        if sorted(set(told.get("selected", state["selected"]))) != state["selected"]:
            apart["selected"] = state["selected"]
        return apart

    def _ipython_display_(self, **_: object) -> None:
        """Two outputs: the widget, and the record that needs neither script nor kernel."""
        bundle = self._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data:
            text = explorer_word("static", self._language)
            said = {"text/plain": text, "text/html": f"<p><small>{html.escape(text)}</small></p>"}
            display({**data, **said}, raw=True)  # type: ignore[no-untyped-call]
        with option_context(language=self._language):
            twin = {"text/plain": repr(self._object), "text/html": self.static_html()}
        display(sendable(twin), raw=True)  # type: ignore[no-untyped-call]

    def static_html(self) -> str:
        """The record below the table: the repr of the Comparison or Dump, folded.

        Above it stands what to do where nothing stands above that: the page itself cannot say it.
        """
        remark = explorer_word("static_record", self._language)
        title = (self._headline(), small(f" · {remark}"))
        with option_context(language=self._language):
            folded = details(title, Markup(self._object._repr_html_()))
        note = front_end_note("table", self._language)
        return str(element("div", note, folded, style="font-family:sans-serif;font-size:13px"))

    def _headline(self) -> str:
        if isinstance(self._object, Comparison):
            with option_context(language=self._language):  # it may have been changed since
                return self._object.verdict
        return (
            f"{self._object.label or 'dump'}: {dump_headline(self._object.index, self._language)}"
        )

    def _heard(self, _widget: object, asked: Mapping[str, Any], _buffers: object) -> None:
        """Answers the page; whatever happens, it gets an answer and need not wait for ever."""
        answer: dict[str, Any] = {"sentence": explorer_word("failed", self._language)}
        buffers: list[bytes] = []
        head = {"kind": "answer", "from": asked.get("from"), "id": asked.get("id")}
        if asked.get("kind") == "tell":
            with self._turn:
                try:
                    self._take(asked)
                finally:
                    self.send(sendable({**self._otherwise(asked), **head}))
            return
        try:
            answer, buffers = self._answer(asked)
        except OSError as error:
            answer = {"sentence": explorer_word("unread", self._language, reason=error)}
        finally:
            self.send(sendable({**answer, **head}), buffers)

    def _answer(self, asked: Mapping[str, Any]) -> Answer:
        if asked["kind"] == "ready":
            return self._ready()
        row = int(asked["row"])
        if asked["kind"] == "open":
            return self._opened(row, asked.get("side"))
        left, right = self._sources(row)
        if asked.get("side"):  # of a pair that cannot be compared
            left, right = (right if asked["side"] == "right" else left), None
        plane = plane_of(() if left is None else left.shape, asked.get("lead"))
        if left is None:
            return {"sentence": explorer_word("statistics_only", self._language)}, []
        return said_part(part(left, right, plane, asked.get("rows"), asked.get("columns")))

    def _ready(self) -> Answer:
        columns, buffers = self._table.message(self._language)
        is_dump = isinstance(self._object, Dump)
        # Of all verdicts: one can filter by those that no row has.
        marks = {name: self._mark(name) for name in (_HEALTH if is_dump else TRUTH_TABLE)}
        tolerance = 0.0 if isinstance(self._object, Dump) else self._object.tolerance.atol
        return {
            **self._state(),
            "columns": columns,
            "shown": self._table.shown,
            "words": words_of("explorer", self._language),
            "marks": marks,
            "title": self._headline(),
            "dump": is_dump,
            "line": [tolerance, f"atol {tolerance:g}"] if tolerance > 0 else None,
        }, buffers

    def _mark(self, verdict: str) -> list[str]:
        """Glyph, tone and word of a verdict, or of the health of an entry."""
        if isinstance(self._object, Comparison):
            return [glyph(verdict), tone_of(verdict), word(verdict, self._language)]
        key = "unreadable_entry" if verdict == "unreadable" else verdict
        return [*_HEALTH[verdict], explorer_word(key, self._language)]

    def _opened(self, row: int, side: str | None = None) -> Answer:
        found = self._evidence.pop(row, None)
        if isinstance(self._object, Dump):
            found = (located_entry(self._object, row), {}) if found is None else found
            answer = opened_entry(self._object, row, found[0], self._language)
        else:
            diff = self._object[self._number(row)]
            found = (located(diff), located_alone(diff)) if found is None else found
            answer = opened_pair(diff, found[0], self._language, found[1], side)
        self._evidence[row] = found
        if len(self._evidence) > _KEPT:
            del self._evidence[next(iter(self._evidence))]
        return answer

    def _sources(self, row: int) -> tuple[ArraySource | None, ArraySource | None]:
        if isinstance(self._object, Dump):
            return self._object.sources[row], None
        return self._object[self._number(row)].sources

    def _number(self, row: int) -> int:
        return int(self._table.numbers[row])


def _with(view: Mapping[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """A view's message with some parts of another; of the columns to filter by, too, only some."""
    where = {**view["where"], **parts.get("where", {})}
    return {**view, **parts, "where": {name: values for name, values in where.items() if values}}


def _apart(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a view's message that another has otherwise; a column without values has []."""
    parts = {name: value for name, value in after.items() if value != before[name]}
    if "where" in parts:
        columns = {**before["where"], **after["where"]}
        parts["where"] = {
            name: after["where"].get(name, [])
            for name in columns
            if after["where"].get(name, []) != before["where"].get(name, [])
        }
    return parts


def make_explorer(shown: Comparison | Dump) -> Explorer:
    """The widget of `troubleshooter_nb.explore`.

    Raises
    ------
    TypeError
        For anything but a Comparison or a Dump.
    """
    if not isinstance(shown, (Comparison, Dump)):
        raise ArgumentTypeError(Message("explorer.takes", got=type(shown).__name__))
    return Explorer(shown)
