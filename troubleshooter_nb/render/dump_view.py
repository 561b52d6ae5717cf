"""HTML reprs of a dump and of a run card: health first, then the entries by block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.render.charts import decades, depth_chart, scientific, spark
from troubleshooter_nb.render.html import (
    Markup,
    cell,
    details,
    element,
    fragment,
    heading,
    left_cell,
    paragraph,
    row,
    samp,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.rows import Entries, blocks, thinned_ticks
from troubleshooter_nb.render.tables import simple_table
from troubleshooter_nb.render.text import dump_headline, more_text
from troubleshooter_nb.render.words import percent, sentence
from troubleshooter_nb.shapes import shape_text

_MOST_ENTRIES = 400
_MOST_SICK = 8
_MOST_POINTS = 600


def dump_html(index: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Dump, at most ``facts["html_bytes"]`` long if at all possible."""
    entries = Entries.of(index, facts["limits"])
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
    return fragment(simple_table(("fact", "value"), [(samp(k), str(v)) for k, v in facts.items()]))


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
    for title, numbers in blocks(entries.names):
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
    titles = [("#", False), ("name", True), ("role", True), ("shape", False), ("dtype", True)]
    figures = any(np.isfinite(entries["l2"][i]) for i in numbers)
    histogram = figures and entries.histogram is not None
    if figures:
        titles += [("min", False), ("max", False), ("mean", False), ("l2", False), ("zero", False)]
    if histogram:
        titles.append(("1e-6…|x|…1e4", False))
    titles.append(("", True))
    return table(
        titles,
        [_entry_row(entries, i, figures, histogram, language) for i in numbers],
        class_="tsnb-t",
    )


def _entry_row(entries: Entries, i: int, figures: bool, histogram: bool, language: str) -> Markup:
    values = entries.row(i)
    role = " ".join(text for text in (str(values["role"]), str(values["direction"])) if text)
    cells = [
        cell(str(i)),
        left_cell(samp(entries.names[i])),
        left_cell(role),
        cell(shape_text(values["shape"], "×")),
        left_cell(str(values["dtype"])),
    ]
    if figures:
        cells += [cell(_number(values[name])) for name in ("min", "max", "mean", "l2")]
        share = values["zero_count"] / values["size"] if values["size"] > 0 else 0.0
        cells.append(cell(percent(share) if values["zero_count"] > 0 else ""))
    if histogram and entries.histogram is not None:
        counts = decades(entries.histogram[i], entries.exponents, lowest=-6)
        cells.append(cell(samp(spark(counts))))
    remark = entries.remark(i, language)
    cells.append(left_cell(tone(entries.tone(i), remark, bold=False) if remark else ""))
    return row(*cells)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _card_details(card: Mapping[str, Any], language: str) -> Markup | None:
    if not card:
        return None
    rows = [(samp(key), str(value)) for key, value in card.items()]
    return details([sentence("pages.provenance", language)], simple_table(("fact", "value"), rows))
