"""Where NaN, Inf and overflow begin in a recording, as text and as HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from troubleshooter_nb.metrics.float_formats import FORMATS
from troubleshooter_nb.render.charts import scientific
from troubleshooter_nb.render.html import (
    FILLS,
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
from troubleshooter_nb.render.lines import LINES, fitted, padded, width, wrapped
from troubleshooter_nb.render.recording_view import ranges_text
from troubleshooter_nb.render.text import more_text
from troubleshooter_nb.render.words import mismatches, percent, sentence

# kind -> (glyph, tone, its word, how many of it)
_KINDS = {
    "starts": ("✗", "bad", "recording.starts", "recording.count_starts"),
    "passed_on": ("↳", "warn", "recording.passed_on", "recording.count_passed_on"),
    "recovered": ("✓", "ok", "recording.recovered", "recording.count_recovered"),
    "saturated": ("▲", "warn", "recording.saturated", "recording.count_saturated"),
    "near_limit": ("▲", "warn", "recording.near_limit", "recording.count_near_limit"),
}
_MOST_ROWS = 200
_TOLD_SHARE = 0.01  # of the limit; less says nothing
_WRAPPED = "text-align:left;white-space:normal"
_MOST_STACK = 12
_CALL = "rec.overflow.to_dataframe()"


def overflow_html(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """HTML of the calls at which values stop being finite, or come near to it.

    Parameters
    ----------
    rows : sequence of mapping
        As `capture.overflow.classify` gives them, in order of execution.
    facts : mapping
        ``language, ascii, html_bytes`` of the options, and what was watched: ``calls, values``
        (counts) and ``steps`` (list of int).
    """
    return shortest(lambda most: _overflow_html(rows, facts, most), facts, _MOST_ROWS)


def _overflow_html(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    name, head = _headline(rows, facts)
    parts = [
        paragraph(tone(name, head), style="margin:2px 0;font-size:16px"),
        *(paragraph(text) for text in _about(rows, language)),
        paragraph(small(" · ".join([*_counts(rows, language), *_watched(facts)]))),
    ]
    if not rows:
        return fragment(*parts)
    shown = _chosen(rows, most)
    parts += _stack(rows, language)
    is_plain = all(one["kind"] in ("saturated", "near_limit") for one in rows)
    remark = "" if is_plain else sentence("recording.rows_remark", language)
    parts.append(heading(sentence("recording.rows_in_order", language), remark))
    if shown:
        parts.append(_row_table(shown, language))
    if rest := len(rows) - len(shown):
        parts.append(paragraph(small(more_text(rest, _CALL, facts))))
    return fragment(*parts)


def overflow_text(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """Text of the same; takes what `overflow_html` takes."""
    language = facts["language"]
    lines = wrapped(_headline(rows, facts)[1], facts)
    for text in _about(rows, language):
        lines += wrapped(text, facts, indent=2)
    if below := " · ".join([*_counts(rows, language), *_watched(facts)]):
        lines += wrapped(below, facts, indent=2)
    room = LINES - len(lines) - 1
    shown = _chosen(rows, len(rows) if len(rows) <= room else room - 1)
    words = [f"{_KINDS[one['kind']][0]} {_word(one, language)}" for one in shown]
    widest = max(map(width, words), default=0)
    for one, word in zip(shown, words, strict=True):
        place = f"{one['step']:>5} {one['call']:>6}"
        figures = f"{_figures(one):<24}"
        lines.append(f"  {place}  {padded(word, widest)}  {figures} {_place(one, language)}")
    if shown:
        title = f"  {'step':>5} {'call':>6}"
        lines.insert(len(lines) - len(shown), title)
    if rest := len(rows) - len(shown):
        lines.append(f"  ... {more_text(rest, _CALL, facts)}")
    return fitted(lines, facts)


def _headline(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> tuple[str, str]:
    """Where it starts, in words that can be sent to somebody, as (tone, text)."""
    language, one = facts["language"], _first(rows)
    if one is None and not facts.get("calls"):
        return "warn", f"○ {sentence('recording.watched_nothing', language)}"
    if one is None:
        return "ok", f"✓ {sentence('recording.overflow_none', language)}"
    kind, name = one["kind"], _place(one, language)
    where = sentence("recording.at_step", language, name=name, step=one["step"])
    mark, name = _KINDS[kind][:2]
    if kind == "starts":
        text = sentence("recording.overflow_starts", language, what=_nonfinite(one), where=where)
    elif kind in ("passed_on", "recovered"):
        slot = one.get("source") or one["slot"]
        id = "recording.overflow_enters"
        if slot.startswith("parameters."):
            id, slot = "recording.overflow_parameter", slot.removeprefix("parameters.")
        text = sentence(id, language, what=_nonfinite(one), slot=slot, where=where)
        mark, name = "◇", "miss"
    elif kind == "saturated":
        dtype = one["dtype"]
        text = sentence("recording.overflow_saturated", language, where=where, dtype=dtype)
    else:
        share, dtype = percent(float(one["share_of_limit"])), one["dtype"]
        limit = _limit(dtype)
        text = sentence(
            "recording.overflow_near", language, where=where, dtype=dtype, share=share, limit=limit
        )
    return name, f"{mark} {text}"


def _limit(dtype: str) -> str:
    """Largest finite number of a dtype: 65,504 for float16, 3.4e38 for float32."""
    if dtype not in FORMATS:
        return "–"
    largest = FORMATS[dtype].largest
    return f"{largest:,.0f}" if largest < 1e6 else scientific(largest)


def _first(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row that the headline is about: a start, else what came from outside, else the limit."""
    for kinds in (("starts",), ("passed_on", "recovered"), ("saturated",)):
        for one in rows:
            if one["kind"] in kinds:
                return one
    return max(rows, key=lambda one: float(one["share_of_limit"]), default=None)


def _place(one: Mapping[str, Any], language: str) -> str:
    """``fc1 (Linear)``, or its backward."""
    name = str(one["path"])
    layer = str(one.get("layer") or "")
    said = (text.rpartition(".")[2].lower() for text in (layer, name))
    if layer and len({*said}) > 1:
        name = sentence("recording.place", language, name=name, layer=layer)
    if one.get("inside"):
        name = sentence("recording.place_inside", language, name=name, inside=one["inside"])
    if one.get("direction") == "backward":
        return sentence("recording.place_backward", language, name=name)
    return name


def _about(rows: Sequence[Mapping[str, Any]], language: str) -> list[str]:
    """Of the row in the headline: how many elements, and what its inputs were."""
    one = _first(rows)
    if one is None or one["kind"] in ("saturated", "near_limit"):
        return []
    said = []
    if counts := mismatches(*_nonfinite_counts(one)):
        said.append(
            sentence(
                "recording.of_elements",
                language,
                counts=counts,
                size=int(one["size"]),
                dtype=one["dtype"],
            )
        )
    if one["kind"] == "starts":
        unknown = int(one.get("unmeasured", 0))
        if unknown:
            said.append(sentence("recording.unmeasured", language, count=unknown))
        else:
            said.append(sentence("recording.finite_inputs", language))
    return [" · ".join([*said, sentence("recording.call", language, number=one["call"])])]


def _nonfinite_counts(one: Mapping[str, Any]) -> tuple[int, int]:
    return max(int(one["nan_count"]), 0), max(int(one["inf_count"]), 0)


def _nonfinite(one: Mapping[str, Any]) -> str:
    """``NaN``, ``Inf`` or both."""
    nan, inf = _nonfinite_counts(one)
    return "/".join([name for name, count in (("NaN", nan), ("Inf", inf)) if count]) or "NaN/Inf"


def _counts(rows: Sequence[Mapping[str, Any]], language: str) -> list[str]:
    counts = Counter(one["kind"] for one in rows)
    return [
        f"{mark} {sentence(id, language, count=counts[kind])}"
        for kind, (mark, _, _, id) in _KINDS.items()
        if counts[kind]
    ]


def _watched(facts: Mapping[str, Any]) -> list[str]:
    """What was looked at: an empty table says something only of that."""
    language, calls, steps = facts["language"], facts.get("calls"), facts.get("steps")
    if not calls:
        return []
    parts = [sentence("recording.calls", language, count=calls)]
    if values := facts.get("values"):
        parts.append(sentence("recording.values", language, count=values))
    if steps:
        which = ranges_text(steps, language)
        parts.append(sentence("recording.steps", language, count=len(set(steps)), which=which))
    what = sentence("pages.comma", language).join(parts)
    return [sentence("recording.watched", language, what=what)]


def _chosen(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The first rows in order of execution; starts are taken first, wherever they stand."""
    if len(rows) <= most:
        return list(rows)
    ranked = sorted(range(len(rows)), key=lambda i: (rows[i]["kind"] != "starts", i))
    return [rows[i] for i in sorted(ranked[: max(most, 0)])]


def _stack(rows: Sequence[Mapping[str, Any]], language: str) -> list[Markup]:
    one = _first(rows)
    lines = str((one or {}).get("stack") or "").strip().splitlines()
    if not lines:
        return []
    shown = lines[-_MOST_STACK:]  # the innermost frames stand last
    text = [part for line in shown for part in (samp(line.rstrip()), element("br"))][:-1]
    # Spaces that no style keeps would be lost where styles are.
    code = element("div", *text, style="white-space:pre-wrap;margin:2px 0 6px 12px")
    return [details([sentence("recording.where_from", language)], code, opened=True)]


def _row_table(rows: Sequence[Mapping[str, Any]], language: str) -> Markup:
    """The rows, with the columns that hold something: a notebook may be narrow."""
    counted = any(sum(_nonfinite_counts(one)) for one in rows)
    shared = any(float(one["share_of_limit"]) >= _TOLD_SHARE for one in rows)
    titles = [("step", False), ("call", False), ("", True), ("name", True), ("value", True)]
    titles += [("not finite", False)] if counted else []
    titles += [("max |x|", False)]
    titles += [("of limit", False)] if shared else []
    lines = [_row(one, language, counted, shared) for one in rows]
    return table(titles, lines, class_="tsnb-t")


def _row(one: Mapping[str, Any], language: str, counted: bool, shared: bool) -> Markup:
    mark, name = _KINDS[one["kind"]][:2]
    largest, share = float(one["max_abs"]), float(one["share_of_limit"])
    is_much = share >= _TOLD_SHARE  # nan is not
    bar = f"background:linear-gradient(90deg,{FILLS['warn']} {min(100 * share, 100):.0f}%,#0000 0)"
    counts = mismatches(*_nonfinite_counts(one))
    return row(
        cell(str(one["step"])),
        cell(str(one["call"])),
        left_cell(tone(name, f"{mark} {_word(one, language)}", bold=name == "bad")),
        element("td", samp(_place(one, language)), style=_WRAPPED),
        element("td", f"{_slot(one)} {one['dtype']}", style=_WRAPPED),
        *([cell(f"{counts} / {int(one['size']):,}" if counts else "")] if counted else []),
        cell("" if math.isnan(largest) else scientific(largest)),
        *([cell(percent(share) if is_much else "", style=bar if is_much else None)] * shared),
    )


def _slot(one: Mapping[str, Any]) -> str:
    """``output.0``: what recovered is shown as it came in."""
    slot = str(one["slot"])
    if slot.startswith("parameters."):
        return slot
    return f"{'input' if one['kind'] == 'recovered' else 'output'}.{slot}"


def _word(one: Mapping[str, Any], language: str) -> str:
    return sentence(_KINDS[one["kind"]][2], language)


def _figures(one: Mapping[str, Any]) -> str:
    counts = mismatches(*_nonfinite_counts(one))
    if counts:
        return f"{counts} / {int(one['size']):,}"
    largest, share = float(one["max_abs"]), float(one["share_of_limit"])
    if math.isnan(largest):
        return ""
    return scientific(largest) + (f" ({percent(share)})" if share >= _TOLD_SHARE else "")
