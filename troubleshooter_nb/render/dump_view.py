"""HTML reprs of a dump and of a run card: health first, then the entries by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import Column
from troubleshooter_nb.render.cells import cell_text, heads
from troubleshooter_nb.render.charts import depth_chart
from troubleshooter_nb.render.html import (
    Markup,
    details,
    element,
    fragment,
    heading,
    paragraph,
    row,
    samp,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.render.rows import Entries, blocks, thinned_ticks
from troubleshooter_nb.render.tables import aligned_cell, card_table
from troubleshooter_nb.render.text import dump_headline, more_text
from troubleshooter_nb.render.words import sentence

_MOST_ENTRIES = 400
_MOST_SICK = 8
_MOST_POINTS = 600


def dump_html(index: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Dump, at most ``facts["html_bytes"]`` long if at all possible."""
    entries = Entries.of(index)
    return shortest(lambda most: _dump_html(index, entries, facts, most), facts, _MOST_ENTRIES)


def _dump_html(index: xr.Dataset, entries: Entries, facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    return fragment(
        paragraph(
            element("b", samp(facts["label"])),
            f" · {dump_headline(index, language)}",
            style="margin:2px 0;font-size:16px",
        ),
        *(paragraph(tone(name, text)) for name, text in entries.health(language)),
        *(paragraph(small(sentence("pages.note", language, text=note))) for note in facts["notes"]),
        *_along(entries, language),
        *_sick(entries, language),
        *_blocks(entries, language, most),
        _card_details(facts["card"], language),
    )


def card_html(facts: Mapping[str, Any], language: str) -> str:
    """HTML repr of a RunCard."""
    if not facts:
        return fragment(paragraph(small(sentence("pages.no_facts", language))))
    return fragment(card_table(facts, language))


def _along(entries: Entries, language: str) -> list[Markup]:
    """Largest magnitude of every entry in the order of saving, with the overflow limit."""
    largest = entries.largest
    if len(entries) < 2 or not np.isfinite(largest).any():
        return []
    runs = np.array_split(np.arange(len(entries)), min(len(entries), _MOST_POINTS))
    sick = [entries.is_sick(i) for i in range(len(entries))]
    weight = np.where(sick, np.inf, np.nan_to_num(largest, nan=-1.0))
    chosen = [int(run[np.argmax(weight[run])]) for run in runs]
    limit = float(entries.limits[chosen].min())
    near = float(np.nanmax(largest)) > limit * 1e-4
    return [
        heading(
            sentence("pages.magnitudes", language), sentence("pages.magnitudes_remark", language)
        ),
        depth_chart(
            [float(largest[i]) for i in chosen],
            [entries.tone(i) for i in chosen],
            line=(limit, sentence("pages.largest_finite", language, value=scientific(limit)))
            if near
            else None,
            first=None,
            first_label="",
            labels=thinned_ticks([entries.names[i] for i in chosen]),
            alt=sentence(
                "pages.magnitudes_alt",
                language,
                smallest=scientific(float(np.nanmin(largest))),
                largest=scientific(float(np.nanmax(largest))),
            ),
        ),
    ]


def _sick(entries: Entries, language: str) -> list[Markup]:
    found = entries.sick(_MOST_SICK)
    if not found:
        return []
    title = sentence("pages.look_first", language, count=len(found))
    return [heading(title), _entry_table(entries, found, language)]


def _blocks(entries: Entries, language: str, most: int) -> list[Markup]:
    sections: list[Markup] = []
    shown = 0
    for title, numbers in blocks(entries.names, entries["direction"].tolist()):
        kept = numbers[: max(most - shown, 0)]
        if not kept:
            break
        shown += len(kept)
        size = sum(max(int(entries["size"][i]), 0) for i in numbers)
        sick = [i for i in numbers if entries.is_sick(i)]
        summary = [
            samp(title),
            f" · {sentence('pages.tensors', language, count=len(numbers), size=size)}",
            tone("warn", f" · ▲ {len(sick)}") if sick else None,
        ]
        opened = len(entries) <= 12
        sections.append(details(summary, _entry_table(entries, kept, language), opened=opened))
    if shown < len(entries):
        text = more_text(len(entries) - shown, "dump.to_dataframe()", {"language": language})
        sections.append(paragraph(small(text)))
    return sections


def _entry_table(entries: Entries, numbers: list[int], language: str) -> Markup:
    """The entries of these numbers; figures only where the values of one were read."""
    columns = [
        column
        for column in entries.shown("html")
        if not column.is_figure or np.isfinite(entries["l2"][numbers]).any()
    ]
    if entries.histogram is None:
        columns = [column for column in columns if column.format != "decades"]
    lines = [_entry_row(entries, i, columns, language) for i in numbers]
    return table(heads(columns, language), lines, class_="tsnb-t")


def _entry_row(entries: Entries, i: int, columns: Sequence[Column], language: str) -> Markup:
    values = entries.shown_row(i, language)
    cells = []
    for column in columns:
        text = cell_text(column, values, language, "html", "")
        dressed: object = samp(text) if column.format in ("names", "decades") else text
        if column.format == "remark" and text:
            dressed = tone(entries.tone(i), text, bold=False)
        cells.append(aligned_cell(column, dressed))
    return row(*cells)


def _card_details(card: Mapping[str, Any], language: str) -> Markup | None:
    if not card:
        return None
    return details([sentence("pages.provenance", language)], card_table(card, language))
