"""Reprs of a difference of two checkpoints: structure first, then what changed, by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.columns.checkpoints import BLOCK_COLUMNS, DIFF_COLUMNS, MADE_OF_DIFF
from troubleshooter_nb.columns.column import Column, View, shown_columns
from troubleshooter_nb.messages import told
from troubleshooter_nb.render.cells import both_shapes_text, cell_text, heads, names_text
from troubleshooter_nb.render.html import (
    FILLS,
    Markup,
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
from troubleshooter_nb.render.lines import LINES, aligned, fitted, padded, spaced, wrapped
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.render.tables import aligned_cell, log_bar
from troubleshooter_nb.render.text import more_text, note_lines
from troubleshooter_nb.render.words import sentence
from troubleshooter_nb.table import Table, table_of

_MOST_BLOCKS = 200
_MOST_LISTED = 60
_MOST_RENAMES = 4
_MOST_NOTES = 4
# Structure in which the two files disagree.
_BROKEN = ("left_only", "right_only", "unreadable", "shape", "dtype", "guessed")


def was_compared(verdicts: np.ndarray) -> np.ndarray:
    """Which rows have values that were compared, whatever came of it."""
    return ~np.isin(verdicts, ("", "missing", "shape", "unreadable"))


def checkpoint_text(diff: xr.Dataset, blocks: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """Text repr of a CheckpointDiff."""
    columns = table_of(diff)
    language = facts["language"]
    names = {side: repr(facts[f"{side}_label"]) for side in ("left", "right")}
    lines = [sentence("pages.checkpoint_title", language, **names)]
    for mark, _, text in _answers(columns, facts):
        first, *rest = wrapped(f"{mark} {text}", facts, indent=4)
        # The text hangs behind its mark.
        lines += [first.removeprefix("  "), *rest[:1]]
        if len(rest) > 1:
            lines[-1] = f"{lines[-1].rstrip()} …"
    lines += note_lines(facts, _MOST_NOTES, sentence("pages.on_either_dump", language))
    broken = _broken(columns)
    room = LINES - len(lines) - 4
    for i in broken[: max(room // 2, 1)]:
        kind = str(columns["structure"][i])
        kind = kind if language == "en" else sentence(f"pages.kind_{kind}", language)
        lines.append(f"  {padded(kind, 10)} {_name(columns, i)}  {_why(columns, i)}")
    if (more := len(broken) - max(room // 2, 1)) > 0:
        lines.append(f"  ... {more_text(more, 'diff.to_dataframe()', facts)}")
    return fitted([*lines, *_block_lines(blocks, facts, LINES - len(lines) - 2)], facts)


def _block_lines(blocks: pd.DataFrame, facts: Mapping[str, Any], room: int) -> list[str]:
    """The table of blocks; figures of values only where they were compared."""
    shown = blocks.iloc[: room if len(blocks) <= room else max(room - 1, 0)]
    if not len(shown):
        return []
    columns, language = _block_columns("text", blocks, facts), facts["language"]
    rows = [[title for title, _ in heads(columns, language)]]
    for block in shown.to_dict("records"):
        rows.append([cell_text(column, block, language, "text") for column in columns])
    lines = [f"  {line}" for line in aligned(rows, [one.is_left for one in columns], facts)]
    if len(shown) < len(blocks):
        lines.append(f"  ... {more_text(len(blocks) - len(shown), 'diff.blocks()', facts)}")
    return lines


def _block_columns(view: View, blocks: pd.DataFrame, facts: Mapping[str, Any]) -> list[Column]:
    """The columns of the table of blocks; figures of values only where they were compared."""
    table = Table({str(name): blocks[name].to_numpy() for name in blocks})
    columns = shown_columns(view, BLOCK_COLUMNS.values(), table)
    return [one for one in columns if facts["verdict"] is not None or not one.is_figure]


def checkpoint_html(diff: xr.Dataset, blocks: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """HTML repr of a CheckpointDiff, at most ``facts["html_bytes"]`` long if at all possible."""
    columns = table_of(diff)
    return shortest(lambda most: _html(columns, blocks, facts, most), facts, _MOST_BLOCKS)


def _html(columns: Table, blocks: pd.DataFrame, facts: Mapping[str, Any], most: int) -> str:
    language = facts["language"]
    names = samp(facts["left_label"]), samp(facts["right_label"])
    listed = min(most, _MOST_LISTED)
    return fragment(
        paragraph(
            element("b", names[0]),
            " → ",
            element("b", names[1]),
            style="margin:2px 0;font-size:16px",
        ),
        *(
            paragraph(tone(name, f"{mark} {text}", bold=name != "ok") if name else f"{mark} {text}")
            for mark, name, text in _answers(columns, facts)
        ),
        *(paragraph(small(sentence("pages.note", language, text=note))) for note in facts["notes"]),
        *_structure(columns, facts, listed),
        *_blocks(blocks, facts, most),
        *_largest(columns, facts),
        *(_list(id, names, language, listed) for id, names in _folded(columns)),
    )


def _answers(columns: Table, facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What the diff says in sentences, as (mark, tone, text); the structure first."""
    language = facts["language"]
    structure = Counter(map(str, columns["structure"][~columns["expected"]]))
    paired = sum(structure.values()) - structure["left_only"] - structure["right_only"]
    total = len(columns["structure"])
    parts = [sentence("pages.paired_of", language, count=paired, total=total)]
    parts += [
        sentence(f"pages.structure_{name}", language, count=structure[name])
        for name in (*_BROKEN, "renamed")
        if structure[name]
    ]
    if expected := int(columns["expected"].sum()):
        parts.append(sentence("pages.structure_expected", language, count=expected))
    same = facts["same_structure"]
    word = sentence("pages.same_structure" if same else "pages.other_structure", language)
    said = word + sentence("pages.colon", language) + sentence("pages.comma", language).join(parts)
    answers = [("✓" if same else "▲", "ok" if same else "warn", said)]
    if renames := _renames(facts["renames"], language):
        answers.append(("·", "", spaced(sentence("pages.names_differ", language), renames)))
    if facts["verdict"] is None:
        return [*answers, ("·", "", sentence("pages.values_not_compared", language))]
    return [*answers, *_change(columns, facts)]


def _renames(renames: Mapping[str, int], language: str) -> str:
    """The kinds of renaming, the most frequent first."""
    found = sorted(renames.items(), key=lambda pair: -pair[1])
    shown = [f"{told(text, language)} ({count})" for text, count in found[:_MOST_RENAMES]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f", +{more}" if more > 0 else "")


def _change(columns: Table, facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    language = facts["language"]
    compared = was_compared(columns["verdict"])
    identical = columns["verdict"] == "identical"
    if not compared.any():
        return [("?", "warn", sentence("pages.nothing_compared", language))]
    if identical[compared].all():
        whole = not _broken(columns)
        text = sentence("pages.all_identical", language, count=int(compared.sum()))
        return [("✓" if whole else "=", "ok", text), ("·", "", facts["verdict"])]
    counts = {
        "changed": int((compared & ~identical).sum()),
        "untouched": int(identical.sum()),
    }
    passed = columns["passed"][compared].all()
    mark, name = ("✓", "ok") if passed else ("✗", "bad")
    text = sentence("pages.changed_untouched", language, **counts)
    change = facts["relative_change"]
    if np.isfinite(change) and change > 0:
        text += sentence("pages.whole_change", language, change=scientific(change))
    answers = [(mark, name, text), ("·", "", facts["verdict"])]
    rate = facts["learning_rate"]
    if np.isfinite(rate):
        answers.append(("·", "", sentence("pages.rate_known", language, rate=f"{rate:.6g}")))
    return answers


def _broken(columns: Table) -> list[int]:
    rows = np.isin(columns["structure"], _BROKEN) & ~columns["expected"]
    order = {name: number for number, name in enumerate(_BROKEN)}
    return sorted(map(int, np.flatnonzero(rows)), key=lambda i: order[str(columns["structure"][i])])


def _name(columns: Table, i: int) -> str:
    left, right = str(columns["left"][i]), str(columns["right"][i])
    return names_text(left, right) if left and right else left or right


def _why(columns: Table, i: int) -> str:
    """The two shapes or dtypes, or the shape of what stands alone."""
    if columns["structure"][i] == "dtype":
        return f"{columns['left_dtype'][i]} → {columns['right_dtype'][i]}"
    return both_shapes_text(columns["left_shape"][i], columns["right_shape"][i])


def _structure(columns: Table, facts: Mapping[str, Any], most: int) -> list[Markup]:
    rows = _broken(columns)
    if not rows:
        return []
    lines = [
        row(
            left_cell(
                tone("warn", sentence(f"pages.kind_{columns['structure'][i]}", facts["language"]))
            ),
            left_cell(samp(_name(columns, i))),
            left_cell(_why(columns, i)),
        )
        for i in rows[:most]
    ]
    language = facts["language"]
    name, shape, dtype = (
        DIFF_COLUMNS[name].titled(language) for name in ("left", "left_shape", "left_dtype")
    )
    titles = [("", True), (name, True), (f"{shape}, {dtype}", True)]
    found = [heading(sentence("pages.structure_rows", language)), table(titles, lines)]
    if len(rows) > most:
        text = more_text(len(rows) - most, "diff.to_dataframe()", facts)
        found.append(paragraph(small(text)))
    return found


def _blocks(blocks: pd.DataFrame, facts: Mapping[str, Any], most: int) -> list[Markup]:
    language, columns = facts["language"], _block_columns("html", blocks, facts)
    lines = [_block_row(block, columns, language) for block in blocks[:most].to_dict("records")]
    remark = sentence("pages.by_block_remark", language) if facts["verdict"] is not None else ""
    found = [
        heading(sentence("pages.by_block", language), remark),
        table(heads(columns, language), lines, class_="tsnb-t"),
    ]
    if len(blocks) > most:
        found.append(paragraph(small(more_text(len(blocks) - most, "diff.blocks()", facts))))
    return found


def _block_row(block: Mapping[Any, Any], columns: Sequence[Column], language: str) -> Markup:
    cells = []
    for column in columns:
        text = cell_text(column, block, language, "html")
        style = log_bar(FILLS["warn"], block[column.name], column.bar) if column.bar else None
        is_failure = column.format_in("html") == "failed" and block[column.name]
        shown = samp(text) if column.format == "name" else tone("bad", text) if is_failure else text
        cells.append(aligned_cell(column, shown, style=style))
    return row(*cells)


def _largest(columns: Table, facts: Mapping[str, Any]) -> list[Markup]:
    """The tensors that changed most in relation to their size."""
    change = np.nan_to_num(columns["relative_change"], nan=-1.0)
    order = [int(i) for i in np.argsort(-change, kind="stable") if change[i] > 0]
    rows = order[: int(facts["worst_rows"])]
    if not rows:
        return []
    # What an optimizer moves; statistics and its own states have other units.
    moved = np.where(columns["role"] == "parameter", columns["rms_change"], np.nan)
    with_rate = Table({**columns.columns, "rms_per_learning_rate": moved / facts["learning_rate"]})
    declared = [*DIFF_COLUMNS.values(), *MADE_OF_DIFF.values()]
    shown, language = shown_columns("html", declared, with_rate), facts["language"]
    lines = []
    for i in rows:
        values = with_rate.row(i)
        texts = [cell_text(column, values, language, "html") for column in shown]
        lines.append(
            row(
                *(
                    aligned_cell(column, samp(text) if column.format == "names" else text)
                    for column, text in zip(shown, texts, strict=True)
                )
            )
        )
    title = sentence("pages.largest_changes", language)
    return [heading(title), table(heads(shown, language), lines)]


def _folded(columns: Table) -> list[tuple[str, list[str]]]:
    """Lists that are folded away: what did not change, what is expected, what is tied."""
    rows = {
        "pages.untouched_list": columns["verdict"] == "identical",
        "pages.expected_list": columns["expected"],
    }
    found = [
        (id, [_name(columns, int(i)) for i in np.flatnonzero(chosen)])
        for id, chosen in rows.items()
    ]
    tied = [
        f"{_name(columns, int(i))} = {columns['tied_to'][i]}"
        for i in np.flatnonzero(columns["tied_to"] != "")
    ]
    return [*found, ("pages.tied_list", tied)]


def _list(id: str, names: Sequence[str], language: str, most: int) -> Markup | None:
    if not names:
        return None
    text = ", ".join(names[:most])
    more = f" … {len(names) - most:,}" if len(names) > most else ""
    summary = sentence(id, language, count=len(names))
    return details([summary], paragraph(samp(text), more))
