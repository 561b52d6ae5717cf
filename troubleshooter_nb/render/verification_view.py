"""What checksums say of stored values, as text and HTML: what is damaged first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import Column, shown_columns
from troubleshooter_nb.columns.verifications import VERIFICATION_COLUMNS
from troubleshooter_nb.render.cells import cell_text, heads
from troubleshooter_nb.render.html import (
    Markup,
    element,
    fragment,
    paragraph,
    row,
    samp,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.lines import aligned, fitted, most_lines
from troubleshooter_nb.render.tables import aligned_cell
from troubleshooter_nb.render.text import more_text, note_lines
from troubleshooter_nb.render.words import sentence
from troubleshooter_nb.table import Table

# Status -> mark and tone, the worst first.
_LOOKS = {
    "damaged": ("✗", "bad"),
    "unread": ("○", "warn"),
    "no_checksum": ("○", "warn"),
    "intact": ("✓", "ok"),
}
_OF_CODE = ("intact", "damaged", "unread")
_CALL = "verification.to_dataframe()"
_MOST_ROWS = 200


def _verdict(found: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """How many are of each status, in words, behind the label."""
    counts = Counter(found["status"].values.tolist())
    said = [
        sentence(f"checksums.count_{status}", facts["language"], count=counts[status])
        for status in _LOOKS
        if counts[status]
    ]
    said = said or [sentence("checksums.count_nothing", facts["language"])]
    return " · ".join([facts["label"], *said])


def verification_verdict(found: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """The answer in one line, behind its mark."""
    mark = _LOOKS[_OF_CODE[facts["exit_code"]]][0]
    return fitted([f"{mark} {_verdict(found, facts)}"], facts)


def _order(found: xr.Dataset) -> np.ndarray:
    """The rows, the worst first, those of one status as they are stored."""
    ranks = [*_LOOKS]
    places = [ranks.index(status) for status in found["status"].values]
    return np.argsort(np.array(places, np.int64), kind="stable")


def _columns_and_rows(view: Any, found: xr.Dataset) -> tuple[list[Column], Table]:
    names = VERIFICATION_COLUMNS
    whole = Table({name: found[name].values[_order(found)] for name in names})
    return shown_columns(view, names.values(), whole), whole


def verification_text(found: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """The answer, and as many rows as fit."""
    language = facts["language"]
    lines = [verification_verdict(found, facts), *note_lines(facts, 4)]
    columns, whole = _columns_and_rows("text", found)
    count, room = len(whole), most_lines() - 2 - len(lines)
    shown = count if count <= room else room - 1
    rows = [
        [cell_text(column, whole.row(i), language, "text", "") for column in columns]
        for i in range(shown)
    ]
    table_lines = aligned(rows, [column.is_left for column in columns], facts) if rows else []
    lines += [f"  {line}" for line in table_lines]
    if count > shown:
        lines.append(f"  ... {more_text(count - shown, _CALL, facts)}")
    return fitted(lines, facts)


def verification_html(found: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """The answer and the rows, of many the worst."""
    return shortest(lambda most: _html(found, facts, most), facts, _MOST_ROWS)


def _html(found: xr.Dataset, facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    columns, whole = _columns_and_rows("html", found)
    lines = []
    for i in range(min(len(whole), most)):
        values = whole.row(i)
        cells: dict[str, Any] = {
            column.name: cell_text(column, values, language, "html", "") for column in columns
        }
        cells["name"] = samp(cells["name"])
        cells["status"] = tone(_LOOKS[values["status"]][1], cells["status"])
        lines.append(row(*(aligned_cell(column, cells[column.name]) for column in columns)))
    mark, colour = _LOOKS[_OF_CODE[facts["exit_code"]]]
    return fragment(
        paragraph(tone(colour, mark), " ", element("b", _verdict(found, facts))),
        *(paragraph(small(sentence("pages.note", language, text=note))) for note in facts["notes"]),
        table(heads(columns, language), lines),
        *_more(len(whole) - len(lines), facts),
    )


def _more(count: int, facts: Mapping[str, Any]) -> list[Markup]:
    return [paragraph(small(more_text(count, _CALL, facts)))] if count else []
