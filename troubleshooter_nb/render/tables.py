"""HTML tables of pairs, entries and elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.columns.column import Column, figures_span, in_view
from troubleshooter_nb.columns.elements import ELEMENT_COLUMNS
from troubleshooter_nb.columns.facts import FACT_COLUMNS
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.render.cells import UNKNOWN, cell_text, heads
from troubleshooter_nb.render.charts import level
from troubleshooter_nb.render.html import (
    FILLS,
    Markup,
    cell,
    details,
    element,
    left_cell,
    row,
    samp,
    scrolling_table,
    table,
    tone,
)
from troubleshooter_nb.render.numbers import is_known
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.words import glyph, reason_text, sentence, tone_of, word
from troubleshooter_nb.shapes import Shape

_FIGURES_A_LINE = 2
# Rows of a part that stand open where an editor stands above them: Notebook 7 puts a cell into a
# small box that scrolls once its output is taller than 100 lines.
MOST_OPEN = 6


def folded(count: int, language: str, *children: Markup) -> Markup:
    """What need not be seen at once, under a line that counts it."""
    return details([sentence("pages.more", language, count=count)], *children)


def folding_table(
    titles: Sequence[tuple[str, bool]], lines: Sequence[Markup], language: str
) -> list[Markup]:
    """A table of which only the first rows stand open."""
    first, rest = lines[:MOST_OPEN], lines[MOST_OPEN:]
    more = [folded(len(rest), language, table(titles, rest))] if rest else []
    return [table(titles, first), *more]


def pair_table(pairs: Pairs, rows: Iterable[int], facts: Mapping[str, Any]) -> Markup:
    """One row per pair, with what differs, by how much, and how the errors are spread."""
    columns = pairs.shown("html")
    lines = [_pair_row(pairs, i, columns, facts) for i in rows]
    return table(_pair_heads(columns, facts), lines, class_="tsnb-t")


def passed_table(pairs: Pairs, facts: Mapping[str, Any]) -> Markup:
    """One short row per pair, for a comparison in which nothing failed."""
    columns, language = pairs.shown("passed"), facts["language"]
    lines = []
    for i in range(len(pairs)):
        values = pairs.shown_row(i)
        mark = verdict_mark(str(pairs.states[i]), language)
        name = left_cell(mark, " ", pairs.place(i, short=True), samp(pairs.label(i)))
        lines.append(
            row(
                *(
                    name
                    if column.format == "names"
                    else aligned_cell(column, cell_text(column, values, language, "passed"))
                    for column in columns
                )
            )
        )
    return table(_pair_heads(columns, facts), lines)


def aligned_cell(column: Column, *children: object) -> Markup:
    """A cell of a column, on its side."""
    return left_cell(*children) if column.is_left else cell(*children)


def bar(fill: str, share: float) -> Markup | None:
    """A bar under the figure of a cell, nothing for nothing; behind it would end within digits."""
    if not share > 0:
        return None
    return element("div", style=f"width:{100 * min(share, 1.0):.0f}%;border-top:3px solid {fill}")


def verdict_mark(verdict: str, language: str, *, count: int | None = None) -> Markup:
    """Glyph and word of a verdict, or of what became known of its origin, in its tone."""
    words = [glyph(verdict), *([] if count is None else [str(count)]), word(verdict, language)]
    text = "\N{NO-BREAK SPACE}".join(words)
    name = tone_of(verdict)
    return Markup(text) if name == "ok" else tone(name, text, bold=name == "bad")


def element_table(
    rows: Sequence[tuple[Shape, float, float, float, float]], language: str
) -> Markup:
    """Worst elements: index, both values, absolute and relative error."""
    columns = in_view("html", ELEMENT_COLUMNS.values())
    lines = [
        row(*(plain_cell(column, values, language) for column in columns))
        for values in (dict(zip(ELEMENT_COLUMNS, one, strict=True)) for one in rows)
    ]
    return table(heads(columns, language), lines)


def figure_table(values: Mapping[str, Any], language: str) -> Markup:
    """Every figure of one pair by the name that the result has for it."""
    cells = [
        (left_cell(samp(column.name)), cell(cell_text(column, values, language, "opened")))
        for column in in_view("opened", RESULT_COLUMNS.values())
        if is_known(values[column.name])
    ]
    groups = [cells[at : at + _FIGURES_A_LINE] for at in range(0, len(cells), _FIGURES_A_LINE)]
    lines = [row(*(part for one in group for part in one)) for group in groups]
    return scrolling_table(element("tbody", *lines), style="border-collapse:collapse;margin:4px 0")


def facts_table(
    left: Mapping[str, Any], right: Mapping[str, Any], titles: Sequence[str], language: str
) -> Markup:
    """Two run cards side by side; facts that differ are bold."""
    lines = []
    for key in dict.fromkeys([*left, *right]):
        values = [str(side.get(key, UNKNOWN)) for side in (left, right)]
        differs = values[0] != values[1]
        lines.append(
            row(
                left_cell(element("b", key) if differs else key),
                *(left_cell(element("b", value) if differs else value) for value in values),
            )
        )
    fact = FACT_COLUMNS["fact"].titled(language)
    return table([(fact, True), *((title, True) for title in titles)], lines)


def card_table(card: Mapping[str, Any], language: str) -> Markup:
    """The facts of one run card."""
    columns = in_view("html", FACT_COLUMNS.values())
    lines = [
        row(*(plain_cell(column, values, language) for column in columns))
        for values in ({"fact": fact, "value": str(value)} for fact, value in card.items())
    ]
    return table(heads(columns, language), lines)


def simple_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Left-aligned text cells under titles."""
    return table(
        [(title, True) for title in titles],
        [row(*(left_cell(value) for value in values)) for values in rows],
    )


def _pair_heads(columns: Sequence[Column], facts: Mapping[str, Any]) -> list[tuple[str, bool]]:
    return heads(columns, facts["language"], (facts["left_label"], facts["right_label"]))


def _pair_row(pairs: Pairs, i: int, columns: Sequence[Column], facts: Mapping[str, Any]) -> Markup:
    """The cells of one pair; where nothing was measured a reason in place of the figures."""
    values, language = pairs.shown_row(i), facts["language"]
    cells = [_pair_cell(pairs, i, column, values, language) for column in columns]
    if not np.isnan(values["max_abs_error"]):
        return row(*cells)
    first, after = figures_span(columns)
    style = "text-align:left;white-space:normal"
    reason = element("td", reason_text(values, language), colspan=after - first, style=style)
    return row(*cells[:first], reason, *cells[after:])


def _pair_cell(
    pairs: Pairs, i: int, column: Column, values: Mapping[str, Any], language: str
) -> Markup:
    """A cell in the dress of its format."""
    text = cell_text(column, values, language, "html")
    match column.format:
        case "verdict":
            return aligned_cell(column, verdict_mark(str(values["state"]), language))
        case "names":
            return left_cell(*_names(pairs, i, values))
        case "decades":
            return aligned_cell(column, samp(text))
        case "growth" if values["origin"] == "created" and text:
            name = "miss" if values["verdict"] == "nan" else "bad"
            return aligned_cell(column, tone(name, text))
    share = level(values[column.name], *column.bar) if column.bar else 0.0
    return aligned_cell(column, text, bar(FILLS[pairs.tone(i)], share))


def _names(pairs: Pairs, i: int, values: Mapping[str, Any]) -> list[object]:
    left, right = pairs.sides(i)
    mark = ("➤ " if i == pairs.first else "") + pairs.place(i, short=True)
    names = (
        [samp(left)] if left == right else [samp(left or UNKNOWN), " → ", samp(right or UNKNOWN)]
    )
    counts = [max(int(values[f"{what}_mismatch_count"]), 0) for what in ("nan", "inf")]
    return [mark, *names, tone("miss", f" {sum(counts)} NaN/Inf") if any(counts) else None]


def plain_cell(column: Column, values: Mapping[str, Any], language: str) -> Markup:
    """A cell without a dress but the fixed width of names and places."""
    text = cell_text(column, values, language, "html")
    return aligned_cell(column, samp(text) if column.format in ("index", "name") else text)
