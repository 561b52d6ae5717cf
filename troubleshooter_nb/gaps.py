"""What was seen and stands outside the verdicts of pairs: it is said with the verdict, and counts.

A reader or `merge_ranks` says it as a note of its dump, whose id is here; `analysis.omissions`
adds what the rows of a comparison show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from troubleshooter_nb.messages import Message, messages_in

# As those of a comparison: it is said only; proves a difference; leaves open whether there is one.
Weight = Literal[0, 1, 2]
_SAID: Final = 0
_DIFFERS: Final = 1
_OPEN: Final = 2

# Ids of notes of a dump that tell of tensors which were seen and are not in it, or are in it only
# as the other side was.
WEIGHT_OF_NOTES: Mapping[str, Weight] = {
    "alignment.never_reduced": _DIFFERS,
    "alignment.added_like": _OPEN,
    "checkpoints.incomplete": _OPEN,
    "checkpoints.link": _OPEN,
    "checkpoints.not_in_index": _OPEN,
    "checkpoints.not_searched": _OPEN,
    "dumps.below_checkpoints": _OPEN,
    "dumps.below_pickles": _OPEN,
    "dumps.kernel_others": _OPEN,
    "dumps.kernel_rows": _OPEN,
    "dumps.kernel_table_too_large": _OPEN,
    "dumps.link": _OPEN,
    "dumps.more_folders": _OPEN,
    "dumps.not_searched": _OPEN,
    "files.not_whole": _OPEN,
    "files.placing_now": _OPEN,
    "files.unopened": _OPEN,
    "msprobe.not_read": _OPEN,
    "msprobe.tensors_not_searched": _OPEN,
    "npy.no_arrays": _SAID,
    "records.cut_line": _OPEN,
    "records.damaged_lines": _OPEN,
    "records.rank_left_out": _OPEN,
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that no verdict of a pair says.

    Attributes
    ----------
    said : str
        A message, as it stands in the verdict line.
    weight : {0, 1, 2}
        The exit code that it alone would give: 1 proves a difference, 2 leaves open whether there
        is one.
    """

    said: str
    weight: Weight


def gaps_of_notes(side: Literal["left", "right"], notes: Iterable[str]) -> list[Gap]:
    """What the notes of one side's dump say was left out, those of one weight and id together."""
    found: dict[tuple[str, Weight], list[str]] = {}
    for note in notes:
        known = [one.id for one in messages_in(note) if one.id in WEIGHT_OF_NOTES]
        if known:
            found.setdefault((known[0], WEIGHT_OF_NOTES[known[0]]), []).append(note)
    gaps = []
    for (_, weight), alike in found.items():
        what = alike[0]
        if more := len(alike) - 1:
            what = Message("gaps.and_more", what=what, count=more)
        gaps.append(Gap(Message(f"gaps.{side}", what=what), weight))
    return gaps


def exit_code_with(own: int, gaps: Iterable[Gap]) -> int:
    """The exit code of verdicts and gaps together: a proved difference first, then what is open."""
    codes = {own, *(gap.weight for gap in gaps)}
    return next(code for code in (_DIFFERS, _OPEN, _SAID) if code in codes)
