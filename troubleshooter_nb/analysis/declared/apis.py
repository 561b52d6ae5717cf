"""Pairs of the tensors of operators, as an api mapping declares them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from troubleshooter_nb.analysis.declared.claims import Claims
from troubleshooter_nb.analysis.declared.side import DumpNames
from troubleshooter_nb.dump import StepRank
from troubleshooter_nb.formats.pairing_rules import ApiRule, Position
from troubleshooter_nb.formats.yaml_nodes import shown
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.thresholds import SUPPOSED

# A section of a call: direction and role. What is backward's input are gradients of the outputs.
_SECTIONS = (
    ("forward", "input", "inputs"),
    ("forward", "output", "outputs"),
    ("backward", "input", "outputs"),
    ("backward", "output", "inputs"),
)

_Slots = dict[tuple[int, str], int]  # position, what stands behind it in the slot -> row


def api_pairs(claims: Claims) -> None:
    """The n-th call of an operator with the n-th of the other, by position of the arguments.

    Where the file gives positions, they decide forward; where it gives none, the first belongs to
    the first. Gradients follow them as far as their shapes agree, since the frameworks need not
    list them in the order of the arguments.
    """
    for side in (claims.source, claims.target):
        if not side.operators:
            claims.lacks(1, "", Message("mappings.no_operators", where=side.where))
            return
    # What is said outright goes before what is only supposed.
    for weak in (False, True):
        for rule in claims.file.apis:
            _apply(claims, rule, weak=weak)


def _apply(claims: Claims, rule: ApiRule, *, weak: bool) -> None:
    names = (claims.source, rule.left, "ms_api"), (claims.target, rule.right, "pt_api")
    paths = [side.operators_of(name) for side, name, _ in names]
    for (side, name, key), found, line in zip(names, paths, rule.lines, strict=True):
        if not found:
            if not weak:
                text = Message("mappings.no_operator", name=shown(name), where=side.where)
                claims.lacks(line, key, text, name=name, known=side.operator_names)
            return
    calls = [
        list(_calls(side, found, numbered=len(paths[0]) == len(paths[1]) == 1))
        for (side, _, _), found in zip(names, paths, strict=True)
    ]
    if not weak:
        _check_positions(claims, rule, calls)
    partners = dict(calls[1])
    note = claims.where([rule])
    for turn, call in calls[0]:
        if turn in partners:
            _pair_call(claims, rule, call, partners[turn], note, weak=weak)


class _RowsOfCall(dict[tuple[str, str], _Slots]):
    """Rows of a call by section and position."""


def _calls(
    side: DumpNames, paths: list[str], *, numbered: bool
) -> Iterator[tuple[tuple[StepRank, int], _RowsOfCall]]:
    """Each call with its place and its number: its own, or its turn among those of all paths."""
    columns = side.columns
    calls: dict[tuple[StepRank, str, int], _RowsOfCall] = defaultdict(_RowsOfCall)
    for row in sorted(row for path in paths for row in side.operators[path]):
        head, _, rest = columns["slot"][row].partition(".")
        call = calls[side.places[row], columns["path"][row], columns["call"][row]]
        if head.isascii() and head.isdigit():
            section = columns["direction"][row], columns["role"][row]
            call.setdefault(section, {})[int(head), rest] = row
    turns: dict[StepRank, int] = defaultdict(int)
    for (place, _, number), call in calls.items():
        yield (place, number if numbered else turns[place]), call
        turns[place] += 1


def _check_positions(
    claims: Claims, rule: ApiRule, calls: list[list[tuple[tuple[StepRank, int], _RowsOfCall]]]
) -> None:
    """That no position is beyond what any call has."""
    for part, role in (("inputs", "input"), ("outputs", "output")):
        positions: tuple[Position, ...] | None = getattr(rule, part)
        for which, side in enumerate((claims.source, claims.target)):
            known = [p for _, call in calls[which] for p, _ in call.get(("forward", role), ())]
            count = max(known, default=-1) + 1
            for position in positions or ():
                number = (position.left, position.right)[which]
                if count and number >= count:
                    name = (rule.left, rule.right)[which]
                    said = {"number": number, "name": name, "where": side.where}
                    text = Message(f"mappings.{part}_end", **said, last=count - 1)
                    claims.lacks(position.lines[which], position.keys[which], text)


def _pair_call(
    claims: Claims,
    rule: ApiRule,
    mine: _RowsOfCall,
    theirs: _RowsOfCall,
    note: Message,
    *,
    weak: bool,
) -> None:
    for direction, role, part in _SECTIONS:
        positions: tuple[Position, ...] | None = getattr(rule, part)
        is_weak = direction == "backward" or positions is None
        if is_weak != weak:
            continue
        left, right = (call.get((direction, role), {}) for call in (mine, theirs))
        wanted = None if positions is None else {p.left: p for p in positions}
        for (number, rest), row in left.items():
            position = wanted.get(number) if wanted is not None else None
            if wanted is not None and position is None:
                continue
            other = right.get((position.right if position else number, rest))
            if direction == "backward":
                single = len(left) == len(right) == 1 or role == "input"
                _pair_gradient(claims, row, other, right, note, sure=1.0 if single else SUPPOSED)
            elif other is not None:
                key = position.keys[0] if position else "ms_api"
                claims.pair(row, other, note, weak=weak, rule=rule, key=key)


def _pair_gradient(
    claims: Claims, row: int, other: int | None, right: _Slots, note: Message, *, sure: float
) -> None:
    if other is None:
        if right and claims.source.columns["value"][row] == "null":
            claims.alone(row, Message("mappings.no_gradient", where=note))
        return
    shapes = claims.source.columns["shape"][row], claims.target.columns["shape"][other]
    if shapes[0] == shapes[1]:
        said = joined([note, Message("mappings.gradients_may_differ")])
        claims.pair(row, other, said, weak=True, confidence=sure)
