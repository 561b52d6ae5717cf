"""Reprs of a weight map: what needs attention first, then what was edited and what changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from troubleshooter_nb.columns.column import in_view
from troubleshooter_nb.columns.weight_maps import WEIGHT_MAP_COLUMNS
from troubleshooter_nb.messages import Message, ids_of, joined, told
from troubleshooter_nb.render.cells import UNKNOWN, cell_text, heads
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
from troubleshooter_nb.render.lines import fitted, most_lines, padded
from troubleshooter_nb.render.numbers import percent
from troubleshooter_nb.render.rows import blocks
from troubleshooter_nb.render.steps import brief
from troubleshooter_nb.render.tables import MOST_OPEN, aligned_cell, folded, folding_table
from troubleshooter_nb.render.text import more_text, note_lines
from troubleshooter_nb.render.words import sentence
from troubleshooter_nb.table import Table, table_of

_MOST_ROWS = 400
# Up to here the rows of all blocks stand open.
_MOST_LISTED = 16
_MOST_CHANGING = 40
_MOST_NAMES = 6
_MOST_NOTES = 4
_JOIN = " + "  # between the names of one side of a row
# What values said against a map, as `convert.evidence` does.
_UNRELATED = {f"weight_maps.{id}_unrelated" for id in ("rows", "values")}
# Of the note of a row that `WeightMap.match_rest` made, not a person.
_AUTO = "pairings.auto_matched"


def weight_map_text(rows: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """Text repr of a WeightMap."""
    columns = table_of(rows)
    count = len(columns)
    language = facts["language"]
    names = {side: repr(facts[f"{side}_label"]) for side in ("source", "target")}
    size = sentence("pages.map_rows", language, count=count)
    lines = [f"{sentence('pages.map_title', language, **names)} · {size}"]
    lines += [f"  {mark} {text}" for mark, _, text in _answers(columns, facts)]
    lines += note_lines(facts, _MOST_NOTES, f"{sentence('pages.colon', language)}weight_map.notes")
    # What a person did comes first, however far down it is.
    edited, changing = _edited(columns), _changing(columns)
    shown = [*edited, *changing] or list(range(count))
    room = max(most_lines() - len(lines) - 1 - bool(edited), 1)
    kept = shown[: room if len(shown) <= room else room - 1]
    if edited:
        lines.append(f"  {_counted('edited_rows', language, edited[: len(kept)], edited)}")
    sources = {i: _ends_of(columns["source"][i]) for i in kept}
    width = min(max(map(len, sources.values()), default=0), 40)
    for i in kept:
        arrow = "->" if columns["target"][i] else "  "
        target = _ends_of(columns["target"][i]) or sentence("pages.dropped_word", language)
        how = columns["transform"][i] if columns["transform"][i] not in ("copy", "drop") else ""
        remark = _remark(columns, i, language)
        text = f"  {padded(sources[i], width)} {arrow} {target}  {brief(how)}  {remark}"
        lines.append(text.rstrip())
    if len(kept) < count:
        lines.append(f"  ... {more_text(count - len(kept), 'weight_map.to_dataframe()', facts)}")
    return fitted(lines, facts)


def weight_map_html(rows: xr.Dataset, facts: Mapping[str, Any]) -> str:
    """HTML repr of a WeightMap, at most ``facts["html_bytes"]`` long if at all possible."""
    columns = table_of(rows)
    return shortest(lambda most: _html(columns, facts, most), facts, _MOST_ROWS)


def _html(columns: Table, facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    labels = samp(facts["source_label"]), samp(facts["target_label"])
    troubled = [i for i, problem in enumerate(columns["problem"]) if problem]
    edited, changing = _edited(columns), _changing(columns)
    first, listed = edited[: most // 2], changing[: min(most, _MOST_CHANGING)]
    title = sentence("pages.map_changing", language, shown=len(listed), count=len(changing))
    if edited:
        title = _counted("else_changing", language, listed, changing)
    return fragment(
        paragraph(element("b", labels[0]), " → ", element("b", labels[1]), style="font-size:16px"),
        *(
            paragraph(tone(name, f"{mark} {text}", bold=name != "ok"))
            for mark, name, text in _answers(columns, facts)
        ),
        _notes(facts["notes"], language),
        *_section(sentence("pages.map_problems", language), columns, troubled[:most], language),
        *_section(_counted("edited_rows", language, first, edited), columns, first, language),
        *_section(title, columns, listed, language),
        heading(sentence("pages.map_all", language)),
        *_blocks(columns, facts, most - len(first)),
    )


def _notes(notes: Sequence[str], language: str) -> Markup | None:
    """Notes under a line that counts them: there is one for each default that differs."""
    if not notes:
        return None
    summary = sentence("pages.notes", language, count=len(notes))
    lines = (paragraph(small(told(note, language))) for note in notes)
    return details([summary], *lines, opened=len(notes) < 4)


def _answers(columns: Table, facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What the map does and what it lacks, as (mark, tone, text)."""
    language = facts["language"]
    renamed = sum(
        bool(t) and t != s for s, t in zip(columns["source"], columns["target"], strict=True)
    )
    changed = sum(kind not in ("copy", "drop") for kind in columns["transform"])
    dropped = int((columns["transform"] == "drop").sum())
    complete = facts["coverage"] == 1.0 or not facts["unmatched_sources"]
    contradicted = facts["contradicted"] or bool(facts["suggestions"])
    contradicted |= any(not _UNRELATED.isdisjoint(ids_of(note)) for note in facts["notes"])
    counts = {"renamed": f"{renamed:,}", "changed": f"{changed:,}", "dropped": f"{dropped:,}"}
    text = sentence("pages.map_coverage", language, share=percent(facts["coverage"]), **counts)
    if not facts["known"]:
        text = sentence("pages.map_unknown", language, count=len(columns))
    fine = complete and not contradicted and facts["known"] and not any(columns["problem"])
    answers = [("✓", "ok", text) if fine else ("▲", "warn", text)]
    for key in ("unmatched_sources", "unmatched_targets"):
        if names := facts[key]:
            listed = _listed(names)
            text = sentence(f"pages.{key}", language, count=len(names), names=listed)
            answers.append(("○", "warn", text))
    if problems := sum(bool(problem) for problem in columns["problem"]):
        answers.append(("!", "bad", sentence("pages.map_problem_count", language, count=problems)))
    if suggestions := facts["suggestions"]:
        text = sentence("pages.map_suggestions", language, count=suggestions)
        answers.append(("▲", "warn", text))
    return answers


def _remark(columns: Table, i: int, language: str) -> str:
    """The problem of a row, else its note; and what is suggested."""
    said = columns["problem"][i] or columns["note"][i]
    suggestion = columns["suggestion"][i]
    how = brief(suggestion)
    suggested = sentence("pages.suggested", language, how=how) if suggestion else ""
    return told(joined([suggested, said]), language)


def _ends_of(names: str) -> str:
    """Joined names with the first and the last of many, so that a line shows the transform too."""
    first, *between, last = names.split(_JOIN) if _JOIN in names else (names, "")
    return _JOIN.join([first, "…", last]) if between else names


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" +{more}" if more > 0 else "")


def _edited(columns: Table) -> list[int]:
    """Rows that a person made or changed."""
    facts = enumerate(zip(columns["how"], columns["note"], strict=True))
    return [i for i, (how, note) in facts if how == "edited" and _AUTO not in ids_of(note)]


def _changing(columns: Table) -> list[int]:
    """The other rows that change something."""
    edited = set(_edited(columns))
    count = len(columns)
    return [i for i in range(count) if i not in edited and _changes(columns, i)]


def _counted(key: str, language: str, shown: Sequence[int], of: Sequence[int]) -> str:
    return told(Message(f"weight_maps.{key}", shown=len(shown), count=len(of)), language)


def _changes(columns: Table, i: int) -> bool:
    """Whether a row does more than copy a tensor under its own name."""
    same = columns["source"][i] == columns["target"][i] and columns["transform"][i] == "copy"
    return not same or bool(columns["problem"][i] or columns["note"][i])


def _section(title: str, columns: Table, rows: Sequence[int], language: str) -> list[Markup]:
    if not rows:
        return []
    lines = [_row(columns, i, language) for i in rows]
    return [heading(title), *folding_table(_titles(language), lines, language)]


def _blocks(columns: Table, facts: Mapping[str, Any], most: int) -> list[Markup]:
    language = facts["language"]
    sections: list[Markup] = []
    shown, total = 0, len(columns)
    for title, numbers in blocks(columns["source"].tolist()):
        kept = numbers[: max(most - shown, 0)]
        if not kept:
            break
        shown += len(kept)
        changing = sum(_changes(columns, i) for i in numbers)
        summary = [
            samp(title),
            f" · {sentence('pages.map_block', language, count=len(numbers), changing=changing)}",
        ]
        body = table(_titles(language), [_row(columns, i, language) for i in kept])
        sections.append(details(summary, body, opened=total <= _MOST_LISTED))
    if len(sections) > MOST_OPEN:
        rest = sections[MOST_OPEN:]
        sections[MOST_OPEN:] = [folded(len(rest), language, *rest)]
    if shown < total:
        text = more_text(total - shown, "weight_map.to_dataframe()", facts)
        sections.append(paragraph(small(text)))
    return sections


def _titles(language: str) -> list[tuple[str, bool]]:
    return heads(in_view("html", WEIGHT_MAP_COLUMNS.values()), language)


def _row(columns: Table, i: int, language: str) -> Markup:
    values = columns.row(i)
    problem, note = (told(values[name], language) for name in ("problem", "note"))
    suggestion = brief(values["suggestion"])
    suggested = sentence("pages.suggested", language, how=suggestion)
    remarks = [tone("warn", suggested, bold=True)] if suggestion else []
    # A relation found from values explains a problem, so both are shown.
    remarks += [tone("bad", problem)] if problem else []
    remarks += [small(note)] if note else []
    spaced = [part for remark in remarks for part in (" ", remark)][1:]
    dressed: dict[str, Sequence[object]] = {
        "source": [samp(values["source"])],
        "target": [samp(values["target"]) if values["target"] else small(UNKNOWN)],
        "transform": ["" if values["transform"] == "copy" else brief(values["transform"])],
        "note": spaced,
    }
    return row(
        *(
            aligned_cell(
                column,
                *dressed.get(column.name, [cell_text(column, values, language, "html")]),
            )
            for column in in_view("html", WEIGHT_MAP_COLUMNS.values())
        )
    )
