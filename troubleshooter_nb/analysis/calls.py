"""Calls of operators, kernels and save points: aligned in the order in which they ran."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from troubleshooter_nb.analysis.call_order import in_order
from troubleshooter_nb.analysis.call_pairs import RunCallPair, order_confidence, unpaired
from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.analysis.fused import with_fused
from troubleshooter_nb.naming import parse_msprobe_call
from troubleshooter_nb.thresholds import DOUBTFUL, FITTING, LOOSE, NAMED, SUREST

_Sequences = list[tuple[list[RunCall], list[RunCall]]]


def pair_calls(
    left: Sequence[RunCall],
    right: Sequence[RunCall],
    modules: Iterable[RunCallPair],
    *,
    fuzzy: bool = False,
) -> list[RunCallPair]:
    """The calls of operators that belong together.

    Parameters
    ----------
    left, right : sequence of RunCall
        Calls of anything but modules, in the order in which they began.
    modules : iterable of VisitPair
        Modules that belong together: what runs inside them is aligned first.
    fuzzy : bool
        Ignore call numbers of operators, keep the order.

    Returns
    -------
    list of VisitPair
        Call numbers count where both runs have the same calls of an operator in the same order;
        elsewhere the alignment decides, as one more call shifts the numbers of all behind it.
    """
    pairs = _same_calls(left, right, fuzzy=fuzzy)
    rest = unpaired(left, right, pairs)
    for mine, theirs in _sequences(*rest, list(modules)):
        pairs += _aligned(mine, theirs)
    rest = unpaired(left, right, pairs)
    leftover = _aligned(*rest) if rest[0] and rest[1] else []
    return pairs + [replace(p, confidence=min(p.confidence, LOOSE)) for p in leftover]


def _same_calls(
    left: Sequence[RunCall], right: Sequence[RunCall], *, fuzzy: bool = False
) -> list[RunCallPair]:
    """Equal names, if the runs have the same calls in the same order, save points in any."""

    def key(run_call: RunCall) -> Hashable:
        return run_call.kind, run_call.path, run_call.layer, run_call.call

    def without_number(run_call: RunCall) -> Hashable:
        return run_call.kind, run_call.path, run_call.layer

    order = without_number if fuzzy else key
    if [order(v) for v in left] == [order(v) for v in right]:
        same = all(a.signature == b.signature for a, b in zip(left, right, strict=True))
        sure = 1.0 if same else 0.9
        return [
            RunCallPair(a, b, "name", sure)
            if a.call == b.call
            else RunCallPair(a, b, "order", SUREST)
            for a, b in zip(left, right, strict=True)
        ]
    # Save points and kernels have names of their own, not numbers that shift.
    counts = [Counter((v.kind, v.path, v.layer) for v in side) for side in (left, right)]
    theirs = {key(v): v for v in right}
    return [
        RunCallPair(v, theirs[key(v)], "name", NAMED)
        for v in left
        if v.kind in ("debug", "kernel")
        and key(v) in theirs
        and counts[0][v.kind, v.path, v.layer] == counts[1][v.kind, v.path, v.layer]
    ]


def _sequences(
    left: Sequence[RunCall], right: Sequence[RunCall], modules: Sequence[RunCallPair]
) -> _Sequences:
    """Calls inside modules that belong together, and those outside of any."""
    partners: dict[tuple[str, int], tuple[str, int]] = {
        (pair.right.path, pair.right.call): (pair.left.path, pair.left.call)
        for pair in modules
        if not pair.left.members and not pair.right.members
    }
    known = set(partners.values())
    groups: dict[tuple[str, int], tuple[list[RunCall], list[RunCall]]] = defaultdict(
        lambda: ([], [])
    )
    places: tuple[dict[str, tuple[str, int]], dict[str, tuple[str, int]]] = ({}, {})
    for side, run_calls in enumerate((left, right)):
        for run_call in run_calls:
            if run_call.parent not in places[side]:
                places[side][run_call.parent] = _place(run_call.parent)
            place = places[side][run_call.parent]
            if side == 1:
                place = partners.get(place, ("", 0))
            groups[place if place in known else ("", 0)][side].append(run_call)
    return [both for both in groups.values() if both[0] and both[1]]


def _place(parent: str) -> tuple[str, int]:
    call = parse_msprobe_call(parent) if parent else None
    return (call.path, call.call or 0) if call else ("", 0)


def _aligned(left: list[RunCall], right: list[RunCall]) -> list[RunCallPair]:
    """One sequence of calls with the other, fused operators against their parts included."""
    wholes: tuple[list[RunCall], list[RunCall]] = with_fused(left, right), with_fused(right, left)
    while True:
        pairs = in_order(wholes[0], wholes[1], loose=True)
        used = {id(wholes[0][i]) for i, _, _ in pairs} | {id(wholes[1][j]) for _, j, _ in pairs}
        alone = [v for side in wholes for v in side if v.members and id(v) not in used]
        if not alone:
            break
        # What found no fused partner is taken apart again.
        apart = set(map(id, alone))
        wholes = _taken_apart(wholes[0], apart), _taken_apart(wholes[1], apart)
    sure = order_confidence(wholes[0], wholes[1], pairs)
    return [
        _call_pair(wholes[0][i], wholes[1][j], confidence)
        for (i, j, _), confidence in zip(pairs, sure, strict=True)
    ]


def _taken_apart(run_calls: Sequence[RunCall], apart: set[int]) -> list[RunCall]:
    found = [m for v in run_calls for m in (v.members if id(v) in apart else (v,))]
    return sorted(found, key=lambda run_call: run_call.position)


def _call_pair(left: RunCall, right: RunCall, confidence: float) -> RunCallPair:
    if left.members or right.members:
        return RunCallPair(left, right, "api", min(confidence, FITTING))
    same_name = (left.path, left.layer) == (right.path, right.layer)
    if same_name and left.call == right.call and confidence > DOUBTFUL:
        return RunCallPair(left, right, "name", max(confidence, SUREST))
    return RunCallPair(left, right, "order" if same_name else "api", confidence)
