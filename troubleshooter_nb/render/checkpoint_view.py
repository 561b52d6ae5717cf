"""Reprs of a difference of two checkpoints: the verdict, the structure, what changed by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.columns.checkpoints import BLOCK_COLUMNS, DIFF_COLUMNS, MADE_OF_DIFF
from troubleshooter_nb.columns.column import Column, View, shown_columns
from troubleshooter_nb.gaps import Gap
from troubleshooter_nb.messages import told
from troubleshooter_nb.naming import ASIDE_ROLES
from troubleshooter_nb.render.cells import both_shapes_text, cell_text, heads, names_text
from troubleshooter_nb.render.comparison_view import beginning, findings_details
from troubleshooter_nb.render.html import (
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
from troubleshooter_nb.render.lines import aligned, fitted, most_lines, padded, spaced, wrapped
from troubleshooter_nb.render.numbers import figure
from troubleshooter_nb.render.rows import Pairs
from troubleshooter_nb.render.tables import aligned_cell
from troubleshooter_nb.render.text import (
    answer_lines,
    criterion,
    first_lines,
    more_text,
    note_lines,
)
from troubleshooter_nb.render.words import sentence
from troubleshooter_nb.table import Table, table_of

_MOST_BLOCKS = 200
_MOST_LISTED = 60
_MOST_OPEN = 12
_MOST_RENAMES = 4
_MOST_NOTES, _MOST_NOTES_OF_TEXT = 8, 2
# Lines of the text that the table of blocks has at least.
_FEWEST_BLOCK_LINES = 4
_KIND_WIDTH = 17  # columns of "only on the right"
# Mark and tone of what no row says, by its weight.
_GAPS = (("·", ""), ("✗", "bad"), ("?", "warn"))
# Structure in which the two files disagree.
_BROKEN = ("left_only", "right_only", "unreadable", "shape", "dtype", "guessed")


def was_compared(verdicts: np.ndarray) -> np.ndarray:
    """Which rows have values that were compared, whatever came of it."""
    return ~np.isin(verdicts, ("", "missing", "shape", "unreadable"))


def are_measured(columns: Table) -> np.ndarray:
    """Which rows have a norm that says something: floats on both sides, no counters of steps."""
    rows: np.ndarray = columns["role"] != "step_counter"
    for side in ("left", "right"):
        rows &= np.array(["float" in str(dtype) for dtype in columns[f"{side}_dtype"]], bool)
    return rows


def checkpoint_text(
    diff: xr.Dataset, blocks: pd.DataFrame, pairs: Pairs | None, facts: Mapping[str, Any]
) -> str:
    """Text repr of a CheckpointDiff; `pairs` are those of the comparison, if there is one."""
    columns, language = table_of(diff), facts["language"]
    names = {side: repr(facts[f"{side}_label"]) for side in ("left", "right")}
    lines = [sentence("pages.checkpoint_title", language, **names)]
    if pairs is not None:
        lines += [f"  {line}" for line in answer_lines(pairs, facts)]
        lines.append(f"  {criterion(facts)}")
    for mark, _, text in _answers(columns, facts):
        first, *rest = wrapped(f"{mark} {text}", facts, indent=4)
        # The text hangs behind its mark.
        lines += [first.removeprefix("  "), *rest[:1]]
        if len(rest) > 1:
            lines[-1] = f"{lines[-1].rstrip()} …"
    if pairs is not None and pairs.first is not None:
        lines += first_lines(pairs, pairs.first, facts)
    lines += note_lines(facts, _MOST_NOTES_OF_TEXT, sentence("pages.on_either_dump", language))
    broken = _broken(columns)
    room = max((most_lines() - len(lines) - _FEWEST_BLOCK_LINES) // 2, 1)
    for i in broken[:room]:
        kind = sentence(f"pages.kind_{columns['structure'][i]}", language)
        lines.append(f"  {padded(kind, _KIND_WIDTH)} {_name(columns, i)}  {_why(columns, i)}")
    if (more := len(broken) - room) > 0:
        lines.append(f"  ... {more_text(more, 'diff.to_dataframe()', facts)}")
    return fitted([*lines, *block_lines(blocks, facts, most_lines() - len(lines) - 1)], facts)


def block_lines(blocks: pd.DataFrame, facts: Mapping[str, Any], room: int) -> list[str]:
    """The table of the blocks in which something changed, in at most `room` lines.

    Where they do not fit, those that fail before the others.
    """
    moved, still = _moved(blocks, facts)
    untouched = _untouched(still, facts["language"])
    room = max(room - 1 - len(untouched), 1)
    shown = moved
    if len(moved) > room:
        first = np.argsort(-(moved["failed"] + moved["other"]).clip(upper=1), kind="stable")
        shown = moved.iloc[np.sort(first[: max(room - 1, 1)])]
    columns, language = _block_columns("text", blocks, facts), facts["language"]
    lines = []
    if len(shown):
        rows = [[title for title, _ in heads(columns, language)]]
        for block in shown.to_dict("records"):
            rows.append(_block_cells(block, columns, "text", language))
        lines = [f"  {line}" for line in aligned(rows, [one.is_left for one in columns], facts)]
    if len(shown) < len(moved):
        lines.append(f"  ... {more_text(len(moved) - len(shown), 'diff.blocks()', facts)}")
    return [*lines, *(f"  {text}" for text in untouched)]


def _moved(blocks: pd.DataFrame, facts: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The blocks of which something changed or was not compared, and those that did not change.

    All are of the first kind where no values were compared. What has no partner, as expected, is
    of neither.
    """
    if not facts["has_values"]:
        return blocks, blocks.iloc[:0]
    moved = (blocks["changed"] > 0) | (blocks["other"] > 0)
    return blocks[moved], blocks[~moved & (blocks["untouched"] > 0)]


def _untouched(blocks: pd.DataFrame, language: str) -> list[str]:
    """How many blocks did not change, and which; nothing where all did."""
    if not len(blocks):
        return []
    names = list(dict.fromkeys(blocks["block"].where(blocks["block"] != "", blocks["role"])))
    return [sentence("pages.untouched_blocks", language, count=len(blocks), names=names)]


def _block_cells(
    block: Mapping[Any, Any], columns: Sequence[Column], view: View, language: str
) -> list[str]:
    """A row of the table of blocks; training state of all blocks has no name of its own."""
    cells = [cell_text(column, block, language, view) for column in columns]
    whole = sentence("pages.all_blocks", language)
    return [
        whole if column.name == "block" and not block["block"] else cell
        for column, cell in zip(columns, cells, strict=True)
    ]


def _block_columns(view: View, blocks: pd.DataFrame, facts: Mapping[str, Any]) -> list[Column]:
    """The columns of the table of blocks; figures of values only where they were compared."""
    table = Table({str(name): blocks[name].to_numpy() for name in blocks})
    columns = shown_columns(view, BLOCK_COLUMNS.values(), table)
    return [one for one in columns if facts["has_values"] or not one.is_figure]


def checkpoint_html(
    diff: xr.Dataset,
    blocks: pd.DataFrame,
    pairs: Pairs | None,
    evidence: Mapping[int, xr.Dataset],
    facts: Mapping[str, Any],
) -> str:
    """HTML repr of a CheckpointDiff, at most ``facts["html_bytes"]`` long if at all possible."""
    columns = table_of(diff)
    top = (None, None) if pairs is None else beginning(pairs, evidence, facts)
    return shortest(lambda most: _html(columns, blocks, top, facts, most), facts, _MOST_BLOCKS)


def _html(
    columns: Table,
    blocks: pd.DataFrame,
    top: tuple[Markup | None, Markup | None],
    facts: Mapping[str, Any],
    most: int,
) -> str:
    language = facts["language"]
    listed = min(most, _MOST_LISTED)
    names = {side: samp(facts[f"{side}_label"]) for side in ("left", "right")}
    verdict, why = top
    return fragment(
        paragraph(
            element("b", names["left"]),
            " → ",
            element("b", names["right"]),
            style="margin:2px 0;font-size:16px",
        ),
        verdict,
        *(
            paragraph(tone(name, f"{mark} {text}", bold=name != "ok") if name else f"{mark} {text}")
            for mark, name, text in _answers(columns, facts)
        ),
        paragraph(small(criterion(facts))) if verdict else None,
        why,
        *_structure(columns, facts, listed),
        *_blocks(blocks, facts, most),
        *_largest(columns, facts),
        findings_details(facts),
        *(_list(id, names, language, listed) for id, names in _folded(columns)),
        *_notes(facts),
    )


def _notes(facts: Mapping[str, Any]) -> list[Markup]:
    language, notes = facts["language"], facts["notes"]
    shown = notes[:_MOST_NOTES]
    found = [paragraph(small(sentence("pages.note", language, text=note))) for note in shown]
    if rest := len(notes) - len(shown):
        more = sentence("pages.more_notes", language, count=rest, where="")
        found.append(paragraph(small(more)))
    return found


def structure_answer(diff: xr.Dataset, gaps: Sequence[Gap], facts: Mapping[str, Any]) -> str:
    """The answer in one line where only headers were read, with what was not even opened."""
    mark, _, text = _structure_answer(table_of(diff), facts)
    if facts["same_structure"] and any(gap.weight for gap in gaps):
        mark = _GAPS[2][0]
    return " · ".join([f"{mark} {text}", *(told(gap.said, facts["language"]) for gap in gaps)])


def answers(diff: xr.Dataset, facts: Mapping[str, Any]) -> list[str]:
    """What is said of two checkpoints besides the verdict, each with its mark."""
    return [f"{mark} {text}" for mark, _, text in _answers(table_of(diff), facts)]


def _structure_answer(columns: Table, facts: Mapping[str, Any]) -> tuple[str, str, str]:
    """The structure in a sentence, as (mark, tone, text)."""
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
    return ("✓" if same else "▲", "ok" if same else "warn", said)


def _answers(columns: Table, facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What is said besides the verdict, as (mark, tone, text); the structure first."""
    language = facts["language"]
    found = [_structure_answer(columns, facts)]
    if renames := _renames(facts["renames"], language):
        found.append(("·", "", spaced(sentence("pages.names_differ", language), renames)))
    found += [("·", "", told(note, language)) for note in facts["other_step"]]
    if not facts["has_values"]:
        gaps = [(*_GAPS[gap["weight"]], told(gap["said"], language)) for gap in facts["gaps"]]
        return [*found, *gaps]
    return [*found, *_change(columns, facts)]


def _renames(renames: Mapping[str, int], language: str) -> str:
    """The kinds of renaming, the most frequent first."""
    found = sorted(renames.items(), key=lambda pair: -pair[1])
    shown = [f"{told(text, language)} ({count})" for text, count in found[:_MOST_RENAMES]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f", +{more}" if more > 0 else "")


def _change(columns: Table, facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """How many tensors changed, whatever the tolerance, and by how much; the verdict judges."""
    language = facts["language"]
    compared = was_compared(columns["verdict"])
    if not compared.any():
        return [("?", "warn", sentence("pages.nothing_compared", language))]
    count, untouched = int(compared.sum()), int((columns["verdict"] == "identical").sum())
    if untouched == count:
        return [("·", "", sentence("pages.all_identical", language, count=count))]
    text = sentence(
        "pages.changed_untouched", language, changed=count - untouched, untouched=untouched
    )
    if others := int((~compared & ~columns["expected"]).sum()):
        text += sentence("pages.not_compared_besides", language, count=others)
    change = facts["relative_change"]
    if np.isfinite(change) and change > 0:
        text += sentence("pages.whole_change", language, change=figure(change))
    rate = facts["learning_rate"]
    if not np.isfinite(rate):
        return [("·", "", text)]
    return [("·", "", text), ("·", "", sentence("pages.rate_known", language, rate=f"{rate:.6g}"))]


def _broken(columns: Table) -> list[int]:
    """Rows in which the two files disagree, those of the network before training state."""
    rows = np.isin(columns["structure"], _BROKEN) & ~columns["expected"]
    order = {name: number for number, name in enumerate(_BROKEN)}
    is_state = np.isin(columns["role"], ASIDE_ROLES)

    def place(i: int) -> tuple[bool, int]:
        return bool(is_state[i]), order[str(columns["structure"][i])]

    return sorted(map(int, np.flatnonzero(rows)), key=place)


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
    found = [heading(sentence("pages.structure_rows", language))]
    found.append(table(titles, lines[:_MOST_OPEN]))
    if folded := lines[_MOST_OPEN:]:
        more = [table(titles, folded)]
        if len(rows) > most:
            text = more_text(len(rows) - most, "diff.to_dataframe()", facts)
            more.append(paragraph(small(text)))
        rest = sentence("pages.more", language, count=len(rows) - _MOST_OPEN)
        found.append(details([rest], *more))
    return found


def _blocks(blocks: pd.DataFrame, facts: Mapping[str, Any], most: int) -> list[Markup]:
    language, columns = facts["language"], _block_columns("html", blocks, facts)
    moved, still = _moved(blocks, facts)

    def drawn(some: pd.DataFrame) -> list[Markup]:
        rows = [_block_row(block, columns, language) for block in some[:most].to_dict("records")]
        found = [table(heads(columns, language), rows, class_="tsnb-t")]
        if len(some) > most:
            more = more_text(len(some) - most, "diff.blocks()", facts)
            found.append(paragraph(small(more)))
        return found

    remark = sentence("pages.by_block_remark", language) if facts["has_values"] else ""
    found = [heading(sentence("pages.by_block", language), remark)]
    if len(moved):
        found += drawn(moved)
    if len(still):
        found.append(details(_untouched(still, language), *drawn(still)))
    return found


def _block_row(block: Mapping[Any, Any], columns: Sequence[Column], language: str) -> Markup:
    cells = []
    texts = _block_cells(block, columns, "html", language)
    for column, text in zip(columns, texts, strict=True):
        is_failure = column.format_in("html") == "failed" and block[column.name]
        shown = samp(text) if column.format == "name" else tone("bad", text) if is_failure else text
        cells.append(aligned_cell(column, shown))
    return row(*cells)


def _largest(columns: Table, facts: Mapping[str, Any]) -> list[Markup]:
    """The tensors that changed most in relation to their size."""
    change = np.where(are_measured(columns), columns["relative_change"], np.nan)
    change = np.nan_to_num(change, nan=-1.0)
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
