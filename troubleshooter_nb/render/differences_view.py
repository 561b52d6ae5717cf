"""What differs from a reference while a network runs, as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from troubleshooter_nb.columns.column import in_view
from troubleshooter_nb.columns.differences import DIFFERENCE_COLUMNS
from troubleshooter_nb.messages import told
from troubleshooter_nb.render.cells import heads
from troubleshooter_nb.render.html import (
    Markup,
    element,
    fragment,
    heading,
    paragraph,
    row,
    shortest,
    small,
    table,
    tone,
)
from troubleshooter_nb.render.lines import fitted, most_lines, spaced, wrapped
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.render.tables import plain_cell
from troubleshooter_nb.render.text import more_text
from troubleshooter_nb.render.words import glyph, sentence, word

_MOST_ROWS = 100
_ROW_LINES = 4  # of the text of a call, the first of which says where it is
_NAMES = 6
_ALL = "rec.differences.to_dataframe()"


def differences_headline(facts: Mapping[str, Any]) -> str:
    """How many calls differ, which first, and how many were compared."""
    language, rows = facts["language"], facts["rows"]
    reference = repr(facts["reference"])
    parts = []
    if rows:
        parts.append(
            sentence("against.head_differ", language, count=len(rows), reference=reference)
        )
        first = rows[facts["first"]]
        id = "head_first" if first["origin"] == "created" else "head_first_carried"
        parts.append(sentence(f"against.{id}", language, where=_where(first, language)))
    elif not (facts["compared"] or facts["gradients"]):
        parts.append(sentence("against.head_nothing", language, reference=reference))
    else:
        parts.append(sentence("against.head_none", language, reference=reference))
    count, gradients = facts["compared"], facts["gradients"]
    if gradients:
        said = {"count": count, "gradients": gradients}
        parts.append(sentence("against.compared_gradients", language, **said))
    elif count:
        parts.append(sentence("against.compared", language, count=count))
    if facts["is_stopped"]:
        parts.append(sentence("against.stopped_there", language))
    return " · ".join(parts)


def differences_text(facts: Mapping[str, Any]) -> str:
    """Text repr of `capture.differences.Differences`.

    Parameters
    ----------
    facts : mapping
        Its attributes, ``rows`` as mappings, ``first`` (number of the row that is named first),
        ``passed``, and the options.
    """
    lines = wrapped(f"{_mark(facts)[0]} {differences_headline(facts)}", facts)
    rest = [line for text in _remarks(facts) for line in wrapped(text, facts, indent=2)]
    tail = [f"  {spaced(sentence('pages.next', facts['language']), _next(facts))}"]
    room = max((most_lines() - len(lines) - len(rest) - len(tail) - 1) // _ROW_LINES, 1)
    shown = facts["rows"][:room]
    for one in shown:
        lines += [line[:200] for line in _row_lines(one, facts)]
    if more := len(facts["rows"]) - len(shown):
        lines.append(f"  ... {more_text(more, _ALL, facts)}")
    return fitted([*lines, *rest, *tail], facts)


def _row_lines(one: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    language = facts["language"]
    lines = [
        f"  {glyph(one['verdict'])} {_where(one, language)}",
        f"    {_origin(one, language)}",
        f"    {_apart(one, language)}",
    ]
    return [*lines, f"    {one['stack_line']}"] if one["stack_line"] else lines


def differences_html(facts: Mapping[str, Any]) -> str:
    """HTML repr; takes what `differences_text` takes."""
    return shortest(lambda most: _html(facts, most), facts, _MOST_ROWS)


def _html(facts: Mapping[str, Any], most: int) -> str:
    language, (mark, name) = facts["language"], _mark(facts)
    head = tone(name, f"{mark} {differences_headline(facts)}")
    return fragment(
        paragraph(head, style="margin:2px 0;font-size:16px"),
        *_table(facts, most),
        *(paragraph(small(text)) for text in _remarks(facts)),
        paragraph(
            sentence("pages.next", language),
            " ",
            element("code", _next(facts)),
            style="margin:4px 0",
        ),
    )


def _table(facts: Mapping[str, Any], most: int) -> list[Markup]:
    language, rows = facts["language"], facts["rows"]
    if not rows:
        return []
    columns = in_view("html", DIFFERENCE_COLUMNS.values())
    lines = []
    for one in rows[: max(most, 1)]:
        said = {
            "where": f"{glyph(one['verdict'])} {_where(one, language)}",
            "origin": _origin(one, language),
            "apart": _apart(one, language),
            "stack_line": one["stack_line"],
        }
        lines.append(row(*(plain_cell(column, said, language) for column in columns)))
    found = [heading(sentence("against.title", language))]
    found.append(table(heads(columns, language), lines, class_="tsnb-t"))
    if more := len(rows) - len(lines):
        found.append(paragraph(small(more_text(more, _ALL, facts))))
    return found


def _mark(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Sign and tone of the whole."""
    if facts["rows"]:
        return "✗", "bad"
    return ("✓", "ok") if facts["passed"] else ("▲", "warn")


def _next(facts: Mapping[str, Any]) -> str:
    if facts["is_running"]:
        return "rec.stop()"
    explain = ".explain()" if facts["rows"] else ""
    return f"tnb.compare(rec.dump, {facts['reference']!r}){explain}"


def _where(one: Mapping[str, Any], language: str) -> str:
    """``blocks.1.fc (Linear)``, with number and step where they are not the first."""
    text = one["path"] or sentence("against.whole_net", language)
    if one["layer"]:
        text = sentence("against.where", language, path=text, layer=one["layer"])
    if one["direction"] == "backward":
        text = sentence("against.where_backward", language, where=text)
    for id, number in (("at_call", one["number"]), ("at_step", one["step"])):
        if number:
            text = sentence(f"against.{id}", language, where=text, number=number, step=number)
    return text


def _origin(one: Mapping[str, Any], language: str) -> str:
    own = list(one["parameters"])
    if one["origin"] == "created" and own:
        return sentence("against.created_parameters", language, names=own)
    return sentence(f"against.{one['origin']}", language)


def _apart(one: Mapping[str, Any], language: str) -> str:
    """What differs most, and by how much as far as that is known."""
    error, largest = float(one["rel_l2_error"]), float(one["max_abs_error"])
    id = "apart"
    if one["verdict"] == "shape" or math.isnan(error):
        id = "apart_shape" if one["basis"] == "values" else "apart_statistics"
    elif one["basis"] != "values":
        id = "apart_estimated"
    what = told(one["slot"], "zh" if language == "zh" else "en")
    figures = {"error": scientific(error), "largest": scientific(largest)}
    said = {"what": what, "verdict": word(one["verdict"], language), **figures}
    return sentence(f"against.{id}", language, **said)


def _remarks(facts: Mapping[str, Any]) -> list[str]:
    """What was not compared."""
    language, found = facts["language"], []
    if alone := facts["alone"]:
        found.append(_counted("against.alone", alone, language))
    if unmet := facts["unmet"]:
        if facts["is_running"] or facts["is_stopped"]:
            found.append(sentence("against.unmet_yet", language, count=len(unmet)))
        else:
            found.append(_counted("against.unmet", unmet, language))
    if count := facts["undecided"]:
        found.append(sentence("against.undecided", language, count=count))
    return found


def _counted(id: str, names: Sequence[str], language: str) -> str:
    shown = list(names[:_NAMES])
    if more := len(names) - len(shown):
        shown.append(sentence("pages.more", language, count=more))
    return sentence(id, language, count=len(names), names=shown)
