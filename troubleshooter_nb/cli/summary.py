"""What a person reads of a comparison: verdict, beginning, cause, what to do, what was not read."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.analysis.engine import interruptions
from troubleshooter_nb.cli.exit_codes import UNDECIDED
from troubleshooter_nb.cli.terminal import paragraph, verdict_lines
from troubleshooter_nb.comparison import Comparison, Explanation
from troubleshooter_nb.messages import Message, language_in_force, told
from troubleshooter_nb.render.explanation import part_title, sentences_by_part
from troubleshooter_nb.render.text import criterion
from troubleshooter_nb.render.words import word

# Names may be as long as a file's; a sentence holds few of them.
_LONGEST = 900
_MOST_ALONE, _MOST_NOTES = 6, 8


def exit_code_of(found: Comparison) -> int:
    """The exit code of a comparison; one that was interrupted is undecided."""
    return UNDECIDED if interruptions(found) else found.exit_code


def summary_lines(found: Comparison) -> list[str]:
    """The whole summary, some dozens of lines however large the comparison is."""
    sides = Message("pages.sides", left=found.left_label, right=found.right_label)
    explained = found.explain()
    lines = verdict_lines(_short(found.verdict), exit_code_of(found))
    lines += [*_item(sides), *_item(criterion(explained.facts)), *explained_lines(explained)]
    return [*lines, *not_compared_lines(found), *notes_lines(found.notes)]


def explained_lines(explained: Explanation) -> list[str]:
    """Each part of an explanation under its heading."""
    lines = []
    for part, sentences in sentences_by_part(explained.row, explained.facts):
        lines += paragraph(part_title(part, language_in_force()))
        for said in sentences:
            lines += _item(said.whole)
    return lines


def notes_lines(notes: tuple[str, ...]) -> list[str]:
    """The first notes, a paragraph each, and how many more there are."""
    lines = []
    for note in notes[:_MOST_NOTES]:
        lines += _item(told(Message("pages.note", text=note)))
    if (rest := len(notes) - _MOST_NOTES) > 0:
        lines += _item(told(Message("pages.more_notes", count=rest, where="")))
    return lines


def not_compared_lines(found: Comparison) -> list[str]:
    """Entries of which it is not known whether they differ, each with the reason."""
    columns = found.columns
    open_ = np.isin(columns["verdict"], ("missing", "unreadable", "undecidable"))
    rows = np.flatnonzero(open_ & ~columns["passed"])
    # What cannot be read is to be mended; all the rest may be meant so.
    rows = rows[np.argsort(columns["verdict"][rows] != "unreadable", kind="stable")]
    if not len(rows):
        return []
    lines = paragraph(Message("command.not_compared"))
    for row in rows[:_MOST_ALONE].tolist():
        name = f"{columns.place(row)}{columns.short(row)}"
        verdict = str(columns["verdict"][row])
        why = told(columns["reason"][row]) or word(verdict, language_in_force())
        lines += _item(told(Message("command.entry", name=name, why=why)))
    if (rest := len(rows) - _MOST_ALONE) > 0:
        lines += _item(told(Message("pages.more", count=rest)))
    return lines


def _item(text: str) -> list[str]:
    return paragraph(_short(text), indent=2)


def _short(text: str) -> str:
    text = told(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
