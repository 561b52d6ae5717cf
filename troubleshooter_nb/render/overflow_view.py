"""Where NaN, Inf and overflow begin in a recording, as text and as HTML."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from troubleshooter_nb.columns.column import Column, in_view
from troubleshooter_nb.columns.overflows import MADE_OF_OVERFLOWS, OVERFLOW_COLUMNS
from troubleshooter_nb.messages import Message, joined, told
from troubleshooter_nb.metrics.float_formats import FORMATS
from troubleshooter_nb.render.cells import cell_text, heads
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
from troubleshooter_nb.render.lines import fitted, most_lines, padded, width, wrapped
from troubleshooter_nb.render.numbers import percent, scientific
from troubleshooter_nb.render.recording_view import ranges_text
from troubleshooter_nb.render.tables import aligned_cell, bar
from troubleshooter_nb.render.text import more_text
from troubleshooter_nb.render.words import mismatches, sentence

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
_FEW_LATER = 5  # rows of later steps that stand open
_NONFINITE = ("starts", "passed_on", "recovered")
# Kinds of what a recording lacks behind which values were not seen.
_HIDING = (
    *("graph_mode", "compiled", "scripted", "traced", "bprop", "unhookable"),
    *("no_values", "generator", "other_thread"),
)
_CALL = "watch.overflow.to_dataframe()"


def overflow_html(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """HTML of the calls at which values stop being finite, or come near to it.

    Parameters
    ----------
    rows : sequence of mapping
        As `capture.overflow.classify` gives them, in order of execution.
    facts : mapping
        ``language, ascii, html_bytes`` of the options, and what was watched: ``calls, values``
        (counts) and ``steps`` (list of int). What is not there is left out, as may be
        ``nonfinite_steps`` (list of int), ``missing`` (rows as `MissingRow`) and ``state`` of the
        watch. Rows may say how many ``times`` it was so, and in which ``last_step``.
    """
    return shortest(lambda most: _overflow_html(rows, facts, most), facts, _MOST_ROWS)


def _overflow_html(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    name, head = _headline(rows, facts)
    parts = [
        paragraph(tone(name, head), style="margin:2px 0;font-size:16px"),
        *(paragraph(text) for text in _below(rows, facts)),
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
        parts += _row_tables(shown, first_row(rows), language)
    if rest := len(rows) - len(shown):
        parts.append(paragraph(small(more_text(rest, _CALL, facts))))
    return fragment(*parts)


def overflow_text(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> str:
    """Text of the same; takes what `overflow_html` takes."""
    language = facts["language"]
    lines = wrapped(_headline(rows, facts)[1], facts)
    for text in _below(rows, facts):
        lines += wrapped(text, facts, indent=2)
    if below := " · ".join([*_counts(rows, language), *_watched(facts)]):
        lines += wrapped(below, facts, indent=2)
    room = most_lines() - len(lines) - 1
    shown = _chosen(rows, len(rows) if len(rows) <= room else room - 1)
    words = [f"{_KINDS[one['kind']][0]} {_word(one, language)}{_times(one)}" for one in shown]
    widest = max(map(width, words), default=0)
    for one, word in zip(shown, words, strict=True):
        place = f"{one['step']:>5} {one['call']:>6}"
        figures = f"{_figures(one):<24}"
        lines.append(f"  {place}  {padded(word, widest)}  {figures} {_place(one, language)}")
    if shown:
        step, call = (OVERFLOW_COLUMNS[name].titled(language) for name in ("step", "call"))
        title = f"  {' ' * (5 - width(step))}{step} {' ' * (6 - width(call))}{call}"
        lines.insert(len(lines) - len(shown), title)
    if rest := len(rows) - len(shown):
        lines.append(f"  ... {more_text(rest, _CALL, facts)}")
    return fitted(lines, facts)


def message_of_row(one: Mapping[str, Any]) -> str:
    """What happened at a row, and where in the code, as an error says it."""
    head, about = _said(one), joined([_slot(one), *_about(one)], ",")
    stack = str(one.get("stack") or "").strip().splitlines()
    line = " ".join(part.strip() for part in stack[:2])  # the innermost frame
    id = "recording.overflow_raised" if line else "recording.overflow_raised_alone"
    return Message(id, head=head, about=about, line=line)


def _headline(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> tuple[str, str]:
    """Where it starts, in words that can be sent to somebody, as (tone, text)."""
    language, one = facts["language"], first_row(rows)
    if one is not None:
        mark, name = _KINDS[one["kind"]][:2]
        if one["kind"] in ("passed_on", "recovered"):
            mark, name = "◇", "miss"
        return name, f"{mark} {told(_said(one), language)}"
    if facts.get("calls"):
        return "ok", f"✓ {sentence('recording.overflow_none', language)}"
    waits = facts.get("state") in ("not started", "running", "paused")
    id = "recording.watched_nothing_yet" if waits else "recording.watched_nothing"
    return "warn", f"○ {sentence(id, language)}"


def _said(one: Mapping[str, Any]) -> str:
    """What happened at a row, and where."""
    where = Message("recording.at_step", name=_place_of(one), step=one["step"])
    kind, dtype = one["kind"], one["dtype"]
    if kind == "starts":
        return Message("recording.overflow_starts", what=_nonfinite(one), where=where)
    if kind in ("passed_on", "recovered"):
        slot = one.get("source") or one["slot"]
        id = "recording.overflow_enters"
        if slot.startswith("parameters."):
            id, slot = "recording.overflow_parameter", slot.removeprefix("parameters.")
        elif one.get("between") is not None:
            net = one["between"] or Message("recording.whole_net")
            id = "recording.overflow_between"
            return Message(id, what=_nonfinite(one), slot=slot, where=where, net=net)
        return Message(id, what=_nonfinite(one), slot=slot, where=where)
    if kind == "saturated":
        return Message("recording.overflow_saturated", where=where, dtype=dtype)
    share = percent(float(one["share_of_limit"]))
    return Message(
        "recording.overflow_near", where=where, dtype=dtype, share=share, limit=_limit(dtype)
    )


def _limit(dtype: str) -> str:
    """Largest finite number of a dtype: 65,504 for float16, 3.4e38 for float32."""
    if dtype not in FORMATS:
        return "–"
    largest = FORMATS[dtype].largest
    return f"{largest:,.0f}" if largest < 1e6 else scientific(largest)


def first_row(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row that the headline is about: a start, else what came from outside, else the limit.

    Of the first step in which there is either; a later one may come of it.
    """
    for kinds in (("starts", "passed_on"), ("recovered",), ("saturated",)):
        found = [one for one in rows if one["kind"] in kinds]
        first = min((one["step"] for one in found), default=0)
        found = [one for one in found if one["step"] == first]
        for one in [*(one for one in found if one["kind"] == "starts"), *found]:
            return one
    return max(rows, key=lambda one: float(one["share_of_limit"]), default=None)


def _place(one: Mapping[str, Any], language: str) -> str:
    return told(_place_of(one), language)


def _place_of(one: Mapping[str, Any]) -> str:
    """``fc1 (Linear)``, or its backward."""
    name = str(one["path"]) or Message("recording.whole_net")
    layer = str(one.get("layer") or "")
    said = (text.rpartition(".")[2].lower() for text in (layer, str(one["path"])))
    if layer and len({*said}) > 1:
        name = Message("recording.place", name=name, layer=layer)
    if one.get("inside"):
        name = Message("recording.place_inside", name=name, inside=one["inside"])
    if one.get("direction") == "backward":
        return Message("recording.place_backward", name=name)
    return name


def _below(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """Of the row in the headline: how many elements, what its inputs were; in how many steps."""
    language, one = facts["language"], first_row(rows)
    if one is None or one["kind"] not in _NONFINITE:
        return []
    about = [_slot(one), *(told(part, language) for part in _about(one))]
    about.append(sentence("recording.call", language, number=one["call"]))
    return [" · ".join(about), *_in_steps(rows, facts)]


def _about(one: Mapping[str, Any]) -> list[str]:
    """How many elements are not finite, and what is known of the inputs."""
    said: list[str] = []
    if counts := mismatches(*_nonfinite_counts(one)):
        size = int(one["size"])
        id = "recording.of_elements"
        said.append(Message(id, counts=counts, size=size, dtype=one["dtype"]))
    if one["kind"] == "starts":
        if unknown := int(one.get("unmeasured", 0)):
            said.append(Message("recording.unmeasured", count=unknown))
        elif one.get("meant"):
            said.append(Message("recording.masked_inputs"))
        else:
            said.append(Message("recording.finite_inputs"))
    return said


def _in_steps(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> list[str]:
    """In how many of the steps, and whether it is over: as a loss scaler lets it be."""
    language, steps = facts["language"], sorted({*(facts.get("steps") or ())})
    bad = sorted({*(facts.get("nonfinite_steps") or ())})
    if len(steps) < 2 or not bad:
        return []
    which = ranges_text(bad, language)
    id = "recording.overflow_steps"
    parts = [sentence(id, language, count=len(bad), total=len(steps), which=which)]
    if steps[-1] > bad[-1]:
        parts.append(sentence("recording.overflow_again", language, step=bad[-1]))
    if all(one["direction"] == "backward" for one in rows if one["kind"] in _NONFINITE):
        parts.append(sentence("recording.overflow_gradients", language))
    return [" · ".join(parts)]


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
    """What was looked at, and what could not be: an empty table says something only of that."""
    language, calls, steps = facts["language"], facts.get("calls"), facts.get("steps")
    hidden = sum(one.count for one in facts.get("missing") or () if one.kind in _HIDING)
    lacks = [sentence("recording.overflow_hidden", language, count=hidden)] if hidden else []
    if not calls:
        return lacks
    parts = [sentence("recording.calls", language, count=calls)]
    if values := facts.get("values"):
        parts.append(sentence("recording.values", language, count=values))
    if steps:
        which = ranges_text(steps, language)
        parts.append(sentence("recording.steps", language, count=len(set(steps)), which=which))
    what = sentence("pages.comma", language).join(parts)
    return [sentence("recording.watched", language, what=what), *lacks]


def _chosen(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The first rows in order of execution; starts are taken first, wherever they stand."""
    if len(rows) <= most:
        return list(rows)
    ranked = sorted(range(len(rows)), key=lambda i: (rows[i]["kind"] != "starts", i))
    return [rows[i] for i in sorted(ranked[: max(most, 0)])]


def _stack(rows: Sequence[Mapping[str, Any]], language: str) -> list[Markup]:
    one = first_row(rows)
    lines = str((one or {}).get("stack") or "").strip().splitlines()
    if not lines:
        return []
    shown = lines[:_MOST_STACK]  # the innermost frames stand first
    text = [part for line in shown for part in (samp(line.rstrip()), element("br"))][:-1]
    # Spaces that no style keeps would be lost where styles are.
    code = element("div", *text, style="white-space:pre-wrap;margin:2px 0 6px 12px")
    return [details([sentence("recording.where_from", language)], code, opened=True)]


def _row_tables(
    rows: Sequence[Mapping[str, Any]], first: Mapping[str, Any] | None, language: str
) -> list[Markup]:
    """The rows up to the step of the headline, with all starts; what came of it later, closed."""
    last = rows[-1]["step"] if first is None or first["kind"] not in _NONFINITE else first["step"]
    later = [one for one in rows if one["step"] > last and one["kind"] != "starts"]
    if len(later) <= _FEW_LATER:
        return [_row_table(rows, language)]
    now = [one for one in rows if one not in later]
    title = sentence("recording.rows_later", language, count=len(later))
    return [_row_table(now, language), details([title], _row_table(later, language))]


def _row_table(rows: Sequence[Mapping[str, Any]], language: str) -> Markup:
    """The rows, with the columns that hold something: a notebook may be narrow."""
    declared = in_view("html", [*OVERFLOW_COLUMNS.values(), *MADE_OF_OVERFLOWS.values()])
    empty = set()
    if not any(sum(_nonfinite_counts(one)) for one in rows):
        empty.add("nonfinite")
    if not any(float(one["share_of_limit"]) >= _TOLD_SHARE for one in rows):
        empty.add("share_of_limit")
    columns = [column for column in declared if column.name not in empty]
    lines = [row(*(_cell(column, one, language) for column in columns)) for one in rows]
    return table(heads(columns, language), lines, class_="tsnb-t")


def _cell(column: Column, one: Mapping[str, Any], language: str) -> Markup:
    text = cell_text(column, one, language, "html", "")
    match column.name:
        case "kind":
            mark, name = _KINDS[one["kind"]][:2]
            text = tone(name, f"{mark} {_word(one, language)}", bold=name == "bad")
            return left_cell(text, _times(one) or None)
        case "path":
            return element("td", samp(_place(one, language)), style=_WRAPPED)
        case "slot":
            return element("td", f"{_slot(one)} {one['dtype']}", style=_WRAPPED)
        case "nonfinite":
            counts = mismatches(*_nonfinite_counts(one))
            return cell(f"{counts} / {int(one['size']):,}" if counts else "")
        case "share_of_limit":
            share = float(one["share_of_limit"])
            if not share >= _TOLD_SHARE:  # as nan is not
                return cell()
            return cell(text, bar(FILLS["warn"], share))
    return aligned_cell(column, text)


def _slot(one: Mapping[str, Any]) -> str:
    """``output.0``: what recovered is shown as it came in."""
    slot = str(one["slot"])
    if slot.startswith(("parameters.", "parameters_grad.", "forward.")):
        return slot
    return f"{'input' if one['kind'] == 'recovered' else 'output'}.{slot}"


def _times(one: Mapping[str, Any]) -> str:
    """`` ×3``: how often it was so, once is not told."""
    times = int(one.get("times", 1))
    return f" ×{times:,}" if times > 1 else ""


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
