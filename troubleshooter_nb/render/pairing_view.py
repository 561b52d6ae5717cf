"""HTML repr of a pairing: what has no partner or is uncertain first, the rest by pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

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
from troubleshooter_nb.render.text import pairing_headline
from troubleshooter_nb.render.words import glyph, sentence

_MOST_ROWS = 200
_CERTAIN = 0.9


def pairing_html(pairing: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a Pairing, at most ``facts["html_bytes"]`` long if at all possible."""
    return shortest(lambda most: _pairing_html(pairing, facts, most), facts, _MOST_ROWS)


def _pairing_html(pairing: xr.Dataset, facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    columns = {str(name): pairing[name].values for name in pairing.data_vars}
    alone = columns["method"] == "unmatched"
    confidence = np.where(alone, 0.0, columns["confidence"])
    uncertain = [int(i) for i in np.flatnonzero(~alone & (confidence < _CERTAIN))]
    uncertain.sort(key=lambda i: (confidence[i], i))
    other_shape = [
        int(i)
        for i in np.flatnonzero(~alone & (columns["left_shape"] != columns["right_shape"]))
        if i not in set(uncertain)
    ]
    certain = sorted(set(np.flatnonzero(~alone).tolist()) - {*uncertain, *other_shape})
    labels = (facts["left_label"], facts["right_label"])
    return fragment(
        paragraph(
            element("b", samp(labels[0]), " ↔ ", samp(labels[1])),
            f" · {pairing_headline(pairing, language)}",
            style="margin:2px 0;font-size:16px",
        ),
        *_pools(columns, alone, labels, language, most),
        *_section("check_these", columns, [*other_shape, *uncertain], labels, language, most),
        _certain(columns, certain, labels, language, most),
    )


def _pools(
    columns: Mapping[str, Any], alone: np.ndarray, labels: Sequence[str], language: str, most: int
) -> list[Markup]:
    """Entries without a partner, side by side with their closest candidates."""
    sections: list[Markup] = []
    for side, label in zip(("left", "right"), labels, strict=True):
        rows = np.flatnonzero(alone & (columns[f"{side}_entry"] >= 0))
        if not len(rows):
            continue
        title = sentence("pool", language, count=f"{len(rows):,}", label=label)
        lines = []
        for i in rows[:most]:
            near = str(columns["candidates"][i])
            note: object = join([f"{sentence('closest', language)} ", samp(near)]) if near else "–"
            if columns["expected"][i]:
                note = str(columns["note"][i]) or sentence("missing_expected", language)
            mark = tone("warn", glyph("missing"))
            shape = str(columns[f"{side}_shape"][i]).replace("x", "×")
            lines.append(
                row(left_cell(mark, " ", samp(columns[side][i])), left_cell(shape), left_cell(note))
            )
        sections += [heading(title), table([("name", True), ("shape", True), ("", True)], lines)]
        sections += _more(len(rows) - most, language)
    return sections


def _section(
    key: str,
    columns: Mapping[str, Any],
    rows: list[int],
    labels: Sequence[str],
    language: str,
    most: int,
) -> list[Markup]:
    if not rows:
        return []
    lines = [_pair_row(columns, i) for i in rows[:most]]
    title = sentence(key, language, count=f"{len(rows):,}")
    more = _more(len(rows) - most, language)
    return [heading(title), _pair_table(lines, labels), *more]


def _certain(
    columns: Mapping[str, Any], rows: list[int], labels: Sequence[str], language: str, most: int
) -> Markup | None:
    """Certain pairs, one line for all that follow the same pattern of names."""
    if not rows:
        return None
    patterns: dict[tuple[str, str, str], list[int]] = {}
    for i in rows:
        key = _pattern(str(columns["left"][i])), _pattern(str(columns["right"][i]))
        patterns.setdefault((*key, str(columns["method"][i])), []).append(i)
    lines = []
    for (left, right, method), found in list(patterns.items())[:most]:
        if len(found) == 1:
            lines.append(_pair_row(columns, found[0]))
            continue
        shapes = sorted({str(columns["left_shape"][i]).replace("x", "×") for i in found})
        shape = ", ".join(shapes[:3]) + (" …" if len(shapes) > 3 else "")
        least = f"{min(columns['confidence'][i] for i in found):.2f}"
        lines.append(_row(left, right, f" × {len(found):,}", shape, method, least, ""))
    summary = sentence("certain", language, count=f"{len(rows):,}")
    more = _more(len(patterns) - most, language)
    return details([summary], _pair_table(lines, labels), *more)


def _pair_row(columns: Mapping[str, Any], i: int) -> Markup:
    shapes = [str(columns[f"{side}_shape"][i]).replace("x", "×") for side in ("left", "right")]
    shape = shapes[0] if shapes[0] == shapes[1] else " / ".join(text or "–" for text in shapes)
    return _row(
        str(columns["left"][i]),
        str(columns["right"][i]),
        "",
        shape,
        str(columns["method"][i]),
        f"{columns['confidence'][i]:.2f}",
        str(columns["note"][i]),
    )


def _row(
    left: str, right: str, times: str, shape: str, method: str, confidence: str, note: str
) -> Markup:
    names = samp(left) if left == right else join([*_changed(left, right), times])
    if left == right:
        names = join([names, times])
    return row(*(left_cell(value) for value in (names, shape, method, confidence, note)))


def _pair_table(lines: list[Markup], labels: Sequence[str]) -> Markup:
    titles = (f"{labels[0]} → {labels[1]}", "shape", "method", "confidence", "")
    return table([(title, True) for title in titles], lines)


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
    text = f"{sentence('more', language, count=f'{count:,}')}: pairing.to_dataframe()"
    return [paragraph(small(text))]
