"""HTML tables of pairs, entries and elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.render.charts import decades, level, scientific, spark
from troubleshooter_nb.render.html import (
    FILLS,
    Markup,
    cell,
    details,
    element,
    left_cell,
    row,
    samp,
    table,
    tone,
)
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.words import (
    glyph,
    growth_of,
    percent,
    reason_text,
    sentence,
    tone_of,
    word,
)
from troubleshooter_nb.shapes import known_shape, shape_text

_UNMEASURED = "–"
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
    titles = (
        ("#", False),
        ("verdict", False),
        (f"{facts['left_label']} → {facts['right_label']}", True),
        ("shape", False),
        ("max |Δ|", False),
        ("rel L2", False),
        ("1 − cos", False),
        ("in tol.", False),
        *((("growth", False),) if pairs.has_origins else ()),
        ("1e-9…|Δ|…1e1", False),
    )
    lines = [_pair_row(pairs, i, facts) for i in rows]
    return table(titles, lines, class_="tsnb-t")


def passed_table(pairs: Pairs, facts: Mapping[str, Any]) -> Markup:
    """One short row per pair, for a comparison in which nothing failed."""
    lines = []
    for i in range(len(pairs)):
        error, relative = pairs["max_abs_error"][i], pairs["rel_l2_error"][i]
        figures = (_UNMEASURED if np.isnan(x) else scientific(float(x)) for x in (error, relative))
        mark = verdict_mark(str(pairs.states[i]), facts["language"])
        lines.append(
            row(
                *map(cell, figures),
                left_cell(mark, " ", pairs.place(i, short=True), samp(pairs.label(i))),
            )
        )
    titles = (("max |Δ|", False), ("rel L2", False), (facts["left_label"], True))
    return table(titles, lines)


def verdict_mark(verdict: str, language: str, *, count: int | None = None) -> Markup:
    """Glyph and word of a verdict, or of what became known of its origin, in its tone."""
    words = [glyph(verdict), *([] if count is None else [str(count)]), word(verdict, language)]
    text = "\N{NO-BREAK SPACE}".join(words)
    name = tone_of(verdict)
    return Markup(text) if name == "ok" else tone(name, text, bold=name == "bad")


def element_table(rows: Sequence[tuple[str, float, float, float, float]]) -> Markup:
    """Worst elements: index, both values, absolute and relative error."""
    titles = (("worst at", True), ("left", False), ("right", False), ("|Δ|", False), ("rel", False))
    lines = [
        row(
            left_cell(samp(index)),
            cell(f"{left:.7g}"),
            cell(f"{right:.7g}"),
            cell(scientific(error)),
            cell(scientific(relative)),
        )
        for index, left, right, error, relative in rows
    ]
    return table(titles, lines)


def figure_table(values: Mapping[str, Any]) -> Markup:
    """Every figure of one pair by its name."""
    groups = (
        ("max_abs_error", "rel_l2_error", "allclose_ratio"),
        ("mean_abs_error", "cosine", "smallest_passing_tolerance"),
        ("rmse", "correlation", "unequal_count"),
        ("max_rel_error", "mape", "nan_mismatch_count"),
        ("mean_rel_error", "zero_reference_count", "inf_mismatch_count"),
    )
    lines = [
        row(
            *(
                part
                for name in group
                for part in (left_cell(samp(name)), cell(_figure(values[name])))
            )
        )
        for group in groups
    ]
    return element("table", element("tbody", *lines), style="border-collapse:collapse;margin:4px 0")


def facts_table(left: Mapping[str, Any], right: Mapping[str, Any], titles: Sequence[str]) -> Markup:
    """Two run cards side by side; facts that differ are bold."""
    lines = []
    for key in dict.fromkeys([*left, *right]):
        values = [str(side.get(key, _UNMEASURED)) for side in (left, right)]
        differs = values[0] != values[1]
        lines.append(
            row(
                left_cell(element("b", key) if differs else key),
                *(left_cell(element("b", value) if differs else value) for value in values),
            )
        )
    return table([("fact", True), *((title, True) for title in titles)], lines)


def simple_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Left-aligned text cells under titles."""
    return table(
        [(title, True) for title in titles],
        [row(*(left_cell(value) for value in values)) for values in rows],
    )


def _pair_row(pairs: Pairs, i: int, facts: Mapping[str, Any]) -> Markup:
    values = pairs.row(i)
    left, right = pairs.sides(i)
    mark = ("➤ " if i == pairs.first else "") + pairs.place(i, short=True)
    name = samp(left) if left == right else Markup(f"{samp(left or '–')} → {samp(right or '–')}")
    shape = shape_text(known_shape(values["left_shape"], values["right_shape"]), "×")
    measured = not np.isnan(values["max_abs_error"])
    if not measured:
        reason = reason_text(values, facts["language"])
        return row(
            cell(str(pairs.number(i))),
            cell(verdict_mark(str(pairs.states[i]), facts["language"])),
            left_cell(mark, name),
            cell(shape),
            element(
                "td",
                reason,
                colspan=5 + pairs.has_origins,
                style="text-align:left;white-space:normal",
            ),
        )
    error = float(values["max_abs_error"])
    fill = FILLS[pairs.tone(i)]
    bar = f"background:linear-gradient(90deg,{fill} {100 * level(error):.0f}%,#0000 0)"
    mismatch = int(values["nan_mismatch_count"]) + int(values["inf_mismatch_count"])
    return row(
        cell(str(pairs.number(i))),
        cell(verdict_mark(str(pairs.states[i]), facts["language"])),
        left_cell(mark, name, tone("miss", f" {mismatch} NaN/Inf") if mismatch else None),
        cell(shape),
        cell(scientific(error), style=bar),
        cell(scientific(float(values["rel_l2_error"]))),
        cell(_one_minus(float(values["cosine"]))),
        cell(percent(float(values["allclose_ratio"]))),
        *((_growth_cell(values, facts["language"]),) if pairs.has_origins else ()),
        cell(samp(spark(decades(pairs.histogram[i], pairs.exponents)))),
    )


def _growth_cell(values: Mapping[str, Any], language: str) -> Markup:
    text = growth_of(values, language)
    if values["origin"] != "created" or not text:
        return cell(text)
    return cell(tone("miss" if values["verdict"] == "nan" else "bad", text))


def _one_minus(cosine: float) -> str:
    return "nan" if np.isnan(cosine) else scientific(max(0.0, 1.0 - cosine))


def _figure(value: Any) -> str:
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    return f"{float(value):.6g}"
