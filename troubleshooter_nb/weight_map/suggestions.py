"""What values prove instead of rows that names made, and what comes of taking it."""

from __future__ import annotations

from collections.abc import Sequence

from troubleshooter_nb.errors import EntryNotFoundError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.weight_map.rows import (
    JOIN,
    SIDES,
    Side,
    WeightRow,
    given_up,
    positions,
    used_names,
)

# The note that counts rows whose values agree, as it is drafted and after suggestions are taken.
_AGREEING = ("weight_maps.values_agree", "weight_maps.values_agreed")
Rows = Sequence[WeightRow]


def suggested_for(suggestions: Rows, name: str, side: Side) -> WeightRow | None:
    """The suggestion that has a name of one side; None where there is none."""
    return next((row for row in suggestions if name in row.names(side)), None)


def suggestion_of(suggestions: Rows, name: str) -> WeightRow:
    """The suggestion of a source, else a target; raises EntryNotFoundError where none has it."""
    for side in SIDES:
        if (row := suggested_for(suggestions, name, side)) is not None:
            return row
    names = dict.fromkeys(name for row in suggestions for name in (*row.sources, *row.targets))
    near = closest(name, names)
    raise EntryNotFoundError(Message("weight_maps.no_suggestion", name=name, closest=near))


def suggested_instead(rows: Rows, suggestions: Rows) -> dict[int, WeightRow]:
    """By the position of a row what is suggested instead of it.

    Of a source that goes to several targets, one of them the suggested one, it is that row.
    """
    of_source, found = positions(rows, "source") if suggestions else {}, dict[int, WeightRow]()
    for row in suggestions:
        mine = of_source.get(row.sources[0], [])
        same = [at for at in mine if rows[at].targets == row.targets]
        found.update(dict.fromkeys(same or mine, row))
    return found


def with_displaced(rows: Rows, suggestions: Rows, first: WeightRow) -> list[WeightRow]:
    """A suggestion, and those for names that lose their row by it or by another of them."""
    places = positions(rows, "source"), positions(rows, "target")
    suggested = {side: positions(suggestions, side) for side in SIDES}
    left, taken = [suggestions.index(first)], set[int]()
    while left:
        number = left.pop()
        taken.add(number)
        gone = [rows[at] for at in given_up(rows, suggestions[number], *places)]
        for side in SIDES:
            for name in used_names(gone, side):
                left += [k for k in suggested[side].get(name, ()) if k not in taken]
    return [suggestions[k] for k in sorted(taken)]


def instead_text(row: WeightRow, suggestion: WeightRow | None) -> str:
    """What a suggestion changes in a row: ``-> fc2.weight``, ``transpose``, or both."""
    if suggestion is None:
        return ""
    targets = f"-> {JOIN.join(suggestion.targets)}" if suggestion.targets != row.targets else ""
    changed = suggestion.transform != row.transform or not targets
    return " ".join(filter(None, [targets, str(suggestion.transform) if changed else ""]))


def counted(note: str, accepted: int) -> str:
    """The note that counts rows whose values agree, as it holds after suggestions are taken."""
    if not isinstance(note, Message) or note.id not in _AGREEING or not accepted:
        return note
    counts = {name: note.values[name] for name in ("agreeing", "total")}
    return Message(_AGREEING[1], **counts, count=note.values.get("count", 0) + accepted)
