"""Calls of which the user gave a pair: the other tensors of these calls belong together as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from troubleshooter_nb.analysis.call_pairs import RunCallPair
from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.analysis.fused import drawn_together
from troubleshooter_nb.analysis.search import Item
from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import FITTING, NAMED

# Insertion keeps the order of the mapping.
_Partners = dict[RunCall, dict[RunCall, None]]
_Given = Sequence[tuple[Item, Item]]


def forced_pairs(
    left: Sequence[RunCall], right: Sequence[RunCall], given: _Given, found: Iterable[RunCallPair]
) -> list[RunCallPair]:
    """The calls that given pairs put together, where those that were found do not.

    Parameters
    ----------
    left, right : sequence of RunCall
        All calls, with the entries of given pairs.
    given : sequence of (Item, Item)
        One of an input and one of an output say that a value goes on, not that the calls are the
        same: they put none together.
    found : iterable of VisitPair
        As they come out without looking at what is given.

    Returns
    -------
    list of VisitPair
        One call with one, or with several operators whose work it does.
    """
    together = {(a, b) for pair in found for a in pair.left.parts for b in pair.right.parts}
    mine, theirs = _partners(left, right, given)
    stars = [
        ([a], [*others]) for a, others in mine.items() if all(len(theirs[b]) == 1 for b in others)
    ]
    stars += [
        ([*others], [b])
        for b, others in theirs.items()
        if len(others) > 1 and all(len(mine[a]) == 1 for a in others)
    ]
    return [
        _forced(*star)
        for star in stars
        if not all((a, b) in together for a in star[0] for b in star[1])
        and (len(star[0]) == len(star[1]) == 1 or not star[0][0].is_module)
    ]


def with_notes(
    left: Sequence[RunCall], right: Sequence[RunCall], given: _Given, pairs: Iterable[RunCallPair]
) -> list[RunCallPair]:
    """The pairs of calls; those of which a pair is given are surer and say so."""
    named: dict[tuple[RunCall, RunCall], str] = {}
    for (a, b), (mine, theirs) in zip(_linked(left, right, given), given, strict=True):
        if a is not None and b is not None:
            said = Message("calls.follows", left=mine.name, right=theirs.name)
            named.setdefault((a, b), said)
    result = []
    for pair in pairs:
        parts = ((a, b) for a in pair.left.parts for b in pair.right.parts)
        note = next((named[part] for part in parts if part in named), "")
        if note:
            single = not pair.left.members and not pair.right.members
            sure = max(pair.confidence, NAMED) if single else pair.confidence
            pair = replace(pair, confidence=sure, note=note)
        result.append(pair)
    return result


def _linked(
    left: Sequence[RunCall], right: Sequence[RunCall], given: _Given
) -> list[tuple[RunCall | None, RunCall | None]]:
    """The calls that each given pair puts together, None for one that does not."""
    of = [
        {item.row: run_call for run_call in side for item in run_call.items}
        for side in (left, right)
    ]
    found: list[tuple[RunCall | None, RunCall | None]] = []
    for mine, theirs in given:
        a, b = of[0].get(mine.row), of[1].get(theirs.row)
        same = _part(mine) == _part(theirs) and a and b and a.is_module == b.is_module
        found.append((a, b) if same else (None, None))
    return found


def _part(item: Item) -> tuple[bool, str]:
    return item.direction == "backward", item.site.role if item.site else ""


def _partners(
    left: Sequence[RunCall], right: Sequence[RunCall], given: _Given
) -> tuple[_Partners, _Partners]:
    mine: _Partners = defaultdict(dict)
    theirs: _Partners = defaultdict(dict)
    for a, b in _linked(left, right, given):
        if a is not None and b is not None:
            mine[a][b] = theirs[b][a] = None
    return mine, theirs


def _forced(left: list[RunCall], right: list[RunCall]) -> RunCallPair:
    if len(left) == len(right) == 1:
        return RunCallPair(left[0], right[0], "site", NAMED)
    sides = [sorted(side, key=lambda run_call: run_call.position) for side in (left, right)]
    wholes = [
        side[0] if len(side) == 1 else drawn_together(side, other[0].op, "chain")
        for side, other in (sides, sides[::-1])
    ]
    return RunCallPair(wholes[0], wholes[1], "api", FITTING)
