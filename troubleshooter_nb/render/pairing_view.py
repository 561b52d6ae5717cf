"""Reprs of a pairing: the user's pairs, no partner and uncertain ones first, then patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.column import in_view
from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.columns.pairings import PAIRING_COLUMNS
from troubleshooter_nb.messages import Message, ids_of, told
from troubleshooter_nb.render.cells import cell_text, heads
from troubleshooter_nb.render.html import (
    Markup,
    details,
    element,
    fragment,
    heading,
    join,
    left_cell,
    paragraph,
    row,
    samp,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.lines import fitted, gap, most_lines, spaced
from troubleshooter_nb.render.tables import aligned_cell, folding_table
from troubleshooter_nb.render.text import more_text, pairing_headline
from troubleshooter_nb.render.words import glyph, sentence
from troubleshooter_nb.shapes import shape_text
from troubleshooter_nb.table import Table, table_of

_MOST_ROWS = 200
_CERTAIN = 0.9
_MOST_OF_USER = 100  # a mapping file may give thousands; the others follow by pattern
# Of the note of a pair that `Pairing.match_rest` made, not a person.
_AUTO = "pairings.auto_matched"


def pairing_text(table: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Text repr of a Pairing."""
    language = facts["language"]
    names = {side: repr(facts[f"{side}_label"]) for side in ("left", "right")}
    title = sentence("pages.pairing_title", language, **names)
    lines = [title, f"  {pairing_headline(table, language)}"]
    columns = table_of(table)
    alone = np.flatnonzero(columns["method"] == "unmatched").tolist()
    chosen = _of_user(columns)
    sure_last = np.argsort(columns["confidence"], kind="stable").tolist()
    room = most_lines() - 4 - bool(chosen)
    # A mapping file may give thousands of pairs: what has no partner is seen all the same.
    order = list(dict.fromkeys([*chosen[: room // 2], *alone, *chosen, *sure_last]))
    if chosen:
        shown = len(set(chosen) & set(order[:room]))
        lines.append(f"  {_of_user_text(language, shown, len(chosen))}")
    lines += [_text_line(columns, i, language) for i in order[:room]]
    if len(order) > room:
        lines.append(f"  ... {more_text(len(order) - room, 'pairing.to_dataframe()', facts)}")
    return fitted(lines, facts)


def _text_line(columns: Table, i: int, language: str) -> str:
    left, right = str(columns["left"][i]) or "-", str(columns["right"][i]) or "-"
    if columns["method"][i] != "unmatched":
        sure = f"{columns['confidence'][i]:.2f} {columns['method'][i]}"
        return f"    {left} -> {right}  {sure}  {told(columns['note'][i], language)}".rstrip()
    near = told(columns["candidates"][i], language)
    what = spaced(sentence("pages.closest", language), near) if near else ""
    if columns["expected"][i]:
        what = sentence("pages.expected_word", language)
    return f"  {glyph('missing', ascii_only=True)} {left} -> {right}  {what}".rstrip()


def _of_user_text(language: str, shown: int, count: int) -> str:
    return told(Message("pairings.pairs_of_user", shown=shown, count=count), language)


def pairing_html(pairing: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Pairing, at most ``facts["html_bytes"]`` long if at all possible."""
    return shortest(lambda most: _pairing_html(pairing, facts, most), facts, _MOST_ROWS)


def _pairing_html(pairing: xr.Dataset, facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    columns = table_of(pairing)
    alone = columns["method"] == "unmatched"
    confidence = np.where(alone, 0.0, columns["confidence"])
    chosen = _of_user(columns)
    first = chosen[: min(most // 2, _MOST_OF_USER)]
    rest = ~alone
    rest[first] = False
    uncertain = [int(i) for i in np.flatnonzero(rest & (confidence < _CERTAIN))]
    uncertain.sort(key=lambda i: (confidence[i], i))
    others = rest & (columns["left_shape"] != columns["right_shape"])
    other_shape = np.flatnonzero(others & ~(confidence < _CERTAIN)).tolist()
    certain = sorted(set(np.flatnonzero(rest).tolist()) - {*uncertain, *other_shape})
    labels = (facts["left_label"], facts["right_label"])
    return fragment(
        paragraph(
            element("b", samp(labels[0]), " ↔ ", samp(labels[1])),
            f" · {pairing_headline(pairing, language)}",
            style="margin:2px 0;font-size:16px",
        ),
        *_chosen(columns, first, len(chosen), labels, language),
        *_pools(columns, alone, labels, language, most),
        *_section("pages.check_these", columns, [*other_shape, *uncertain], labels, language, most),
        _certain(columns, certain, labels, language, most),
    )


def _of_user(columns: Table) -> list[int]:
    """Pairs that the user made."""
    found = np.flatnonzero(columns["method"] == "user").tolist()
    return [i for i in found if _AUTO not in ids_of(columns["note"][i])]


def _chosen(
    columns: Table, rows: list[int], count: int, labels: Sequence[str], language: str
) -> list[Markup]:
    """Pairs that the user made, however far down they are."""
    if not rows:
        return []
    title = _of_user_text(language, len(rows), count)
    lines = [_pair_row(columns, i, language) for i in rows]
    return [heading(title), *folding_table(_titles(labels, language), lines, language)]


def _pools(
    columns: Table, alone: np.ndarray, labels: Sequence[str], language: str, most: int
) -> list[Markup]:
    """Entries without a partner, side by side with their closest candidates."""
    sections: list[Markup] = []
    for side, label in zip(("left", "right"), labels, strict=True):
        rows = np.flatnonzero(alone & (columns[f"{side}_entry"] >= 0))
        if not len(rows):
            continue
        title = sentence("pages.pool", language, count=f"{len(rows):,}", label=label)
        lines = []
        if len(rows) > most:  # what was declared so is not left out
            rows = rows[np.argsort(~columns["expected"][rows], kind="stable")]
        for i in rows[:most]:
            near = told(columns["candidates"][i], language)
            closest = sentence("pages.closest", language)
            note: object = join([closest, gap(closest), samp(near)]) if near else "–"
            if columns["expected"][i]:
                note = told(columns["note"][i] or Message("verdicts.missing_expected"), language)
            mark = tone("warn", glyph("missing"))
            shape = shape_text(columns[f"{side}_shape"][i], "×")
            lines.append(
                row(left_cell(mark, " ", samp(columns[side][i])), left_cell(shape), left_cell(note))
            )
        named = [DUMP_COLUMNS["name"], DUMP_COLUMNS["shape"], PAIRING_COLUMNS["note"]]
        titles = [(column.titled(language), True) for column in named]
        sections += [heading(title), *folding_table(titles, lines, language)]
        sections += _more(len(rows) - most, language)
    return sections


def _section(
    key: str,
    columns: Table,
    rows: list[int],
    labels: Sequence[str],
    language: str,
    most: int,
) -> list[Markup]:
    if not rows:
        return []
    lines = [_pair_row(columns, i, language) for i in rows[:most]]
    title = sentence(key, language, count=f"{len(rows):,}")
    more = _more(len(rows) - most, language)
    return [heading(title), *folding_table(_titles(labels, language), lines, language), *more]


def _certain(
    columns: Table, rows: list[int], labels: Sequence[str], language: str, most: int
) -> Markup | None:
    """Certain pairs, one line for all that follow the same pattern of names."""
    if not rows:
        return None
    patterns: dict[tuple[str, str, str], list[int]] = {}
    for i in rows:
        key = _pattern(str(columns["left"][i])), _pattern(str(columns["right"][i]))
        patterns.setdefault((*key, str(columns["method"][i])), []).append(i)
    lines = []
    for (left, right, _), found in list(patterns.items())[:most]:
        if len(found) == 1:
            lines.append(_pair_row(columns, found[0], language))
            continue
        shapes = sorted({shape_text(columns["left_shape"][i], "×") for i in found})
        shape = ", ".join(shapes[:3]) + (" …" if len(shapes) > 3 else "")
        least = columns.row(min(found, key=lambda i: columns["confidence"][i]))
        texts = {
            column.name: cell_text(column, least, language, "html")
            for column in in_view("html", PAIRING_COLUMNS.values())
        }
        texts |= {"left_shape": shape, "note": ""}
        lines.append(_row(left, right, texts, f" × {len(found):,}"))
    summary = sentence("pages.certain", language, count=f"{len(rows):,}")
    more = _more(len(patterns) - most, language)
    return details([summary], table(_titles(labels, language), lines), *more)


def _pair_row(columns: Table, i: int, language: str) -> Markup:
    values = columns.row(i)
    texts = {
        column.name: cell_text(column, values, language, "html")
        for column in in_view("html", PAIRING_COLUMNS.values())
    }
    return _row(str(values["left"]), str(values["right"]), texts)


def _row(left: str, right: str, texts: Mapping[str, str], times: str = "") -> Markup:
    """The cells of a pair, or of a pattern and how many follow it."""
    names = [samp(left)] if left == right else [*_changed(left, right)]
    cells = {**texts, "left": join([*names, times])}
    return row(
        *(
            aligned_cell(column, cells[column.name])
            for column in in_view("html", PAIRING_COLUMNS.values())
        )
    )


def _titles(labels: Sequence[str], language: str) -> list[tuple[str, bool]]:
    return heads(in_view("html", PAIRING_COLUMNS.values()), language, labels)


def _changed(left: str, right: str) -> tuple[Markup, str, Markup]:
    """Both names with the whole words in which they differ in bold."""
    words = [re.split(r"([._/])", name) for name in (left, right)]
    shortest = min(map(len, words))
    start = 0
    while start < shortest and words[0][start] == words[1][start]:
        start += 1
    end = 0
    while end < shortest - start and words[0][-1 - end] == words[1][-1 - end]:
        end += 1
    parts = []
    for pieces in words:
        stop = len(pieces) - end
        before, changed, after = (
            "".join(p) for p in (pieces[:start], pieces[start:stop], pieces[stop:])
        )
        parts.append(element("samp", before, element("b", changed) if changed else None, after))
    return parts[0], " → ", parts[1]


def _pattern(name: str) -> str:
    """The name with its numbers replaced, so that repeated blocks look alike."""
    return re.sub(r"(?<![a-zA-Z\d])\d+", "*", name)


def _more(count: int, language: str) -> list[Markup]:
    if count <= 0:
        return []
    text = more_text(count, "pairing.to_dataframe()", {"language": language})
    return [paragraph(small(text))]
