"""Pairs of operators as the rules of an api mapping, as far as one can say them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import MappingFileError
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.pairing import Pairing

_COLUMNS = (*("name", "kind", "path", "call", "direction", "role", "slot"), "shape", "step", "rank")
_Part = Literal["input", "output"]
# Of gradients too: what leaves backward is of the inputs, what arrives of the outputs.
_SECTIONS: tuple[tuple[str, str, _Part], ...] = (
    ("forward", "input", "input"),
    ("forward", "output", "output"),
    ("backward", "output", "input"),
    ("backward", "input", "output"),
)
_MOST_NAMED = 3
_Entry = dict[str, Any]
_Slot = tuple[int, str]  # position, what stands behind it


@dataclass
class OperatorRule:
    """One operator for another, with the positions that belong together; None: first for first."""

    left: str
    right: str
    positions: dict[_Part, dict[int, int] | None] = field(
        default_factory=lambda: {"input": None, "output": None}
    )


def operator_rules(pairing: Pairing) -> tuple[list[OperatorRule], list[Message]]:
    """The rules that say which operators are paired, and what they cannot say.

    Parameters
    ----------
    pairing : Pairing

    Returns
    -------
    rules : list of OperatorRule
        In the order of the pairs; with positions where first for first says something else.
    not_said : list of Message
        Pairs that follow from no position, such as those of keywords, and pairs that the rules
        make beyond those of the pairing.

    Raises
    ------
    MappingFileError
        If no operators are paired; if a call is paired with one of another number, arguments in
        one call otherwise than in another, or a rule would pair what has another partner.
    """
    sides = _rows(pairing.left), _rows(pairing.right)
    partner: dict[int, int] = {}
    groups: dict[tuple[str, str], list[tuple[_Entry, _Entry]]] = defaultdict(list)
    for a, b in pairing.columns.rows("left_entry", "right_entry"):
        if a >= 0 and b >= 0:
            mine, theirs = sides[0][a], sides[1][b]
            partner[a] = b
            if mine["kind"] == theirs["kind"] == "api":
                groups[mine["path"], theirs["path"]].append((mine, theirs))
    forward = {ops: [p for p in of if p[0]["direction"] == "forward"] for ops, of in groups.items()}
    groups = {ops: of for ops, of in groups.items() if forward[ops]}
    if not groups:
        raise MappingFileError(Message("mappings.no_operator_paired"))
    taken = set(partner.values())
    calls = _calls(sides[0]), _calls(sides[1])
    rules: list[OperatorRule] = []
    not_said: list[Message] = []
    wrong: list[Message] = []
    for (left, right), pairs in groups.items():
        rule = OperatorRule(left, right)
        wrong += _set_positions(rule, pairs, (calls[0][left], calls[1][right]), not_said)
        rules.append(rule)
        for mine, theirs in _said(rule, calls[0][left], calls[1][right]):
            a, b = mine["row"], theirs["row"]
            if partner.get(a) == b:
                continue
            names = {"left": mine["name"], "right": theirs["name"]}
            if a in partner or b in taken:
                wrong.append(Message("mappings.has_another", **names))
            else:
                not_said.append(Message("mappings.said_otherwise", **names))
    if wrong:
        raise MappingFileError(Message("mappings.api_cannot_say", pairs=some_of(wrong)))
    return rules, not_said


def some_of(said: Sequence[str]) -> str:
    """The first few of what is said, and how many more there are."""
    first = joined(said[:_MOST_NAMED])
    more = len(said) - _MOST_NAMED
    return Message("lists.more", shown=first, count=more) if more > 0 else first


def _rows(dump: Dump) -> list[_Entry]:
    rows = [dict(zip(_COLUMNS, row, strict=True)) for row in dump.columns.rows(*_COLUMNS)]
    for number, row in enumerate(rows):
        row["row"] = number
        row["at"] = (row["step"], row["rank"], row["call"])
    return rows


_Calls = dict[tuple[int, int, int], dict[tuple[str, str], dict[_Slot, _Entry]]]


def _calls(rows: list[_Entry]) -> dict[str, _Calls]:
    """Rows of operators with a position, by path, call, section and position."""
    found: dict[str, _Calls] = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for row in rows:
        if row["kind"] == "api" and (slot := _slot(row)):
            found[row["path"]][row["at"]][row["direction"], row["role"]][slot] = row
    return found


def _slot(row: _Entry) -> _Slot | None:
    head, _, rest = row["slot"].partition(".")
    return (int(head), rest) if head.isascii() and head.isdigit() else None


def _set_positions(
    rule: OperatorRule,
    pairs: list[tuple[_Entry, _Entry]],
    calls: tuple[_Calls, _Calls],
    not_said: list[Message],
) -> Iterator[Message]:
    """Find the positions of a rule; what it cannot say."""
    for direction, role, part in _SECTIONS[:2]:
        there: dict[int, int] = {}
        back: dict[int, int] = {}
        wanted = set()
        for mine, theirs in pairs:
            if mine["direction"] != direction or mine["role"] != role:
                continue
            names = {"left": mine["name"], "right": theirs["name"]}
            slots = _slot(mine), _slot(theirs)
            where = theirs["direction"], theirs["role"]
            if where != (direction, role) or slots[0] is None or slots[1] is None:
                not_said.append(Message("mappings.not_said", **names))
                continue
            (left, rest), (right, other) = slots[0], slots[1]
            same = there.setdefault(left, right) == right and back.setdefault(right, left) == left
            if mine["call"] != theirs["call"]:
                numbers = {"first": mine["call"], "second": theirs["call"]}
                yield Message("mappings.other_calls", **names, **numbers)
            elif rest != other or not same:
                yield Message("mappings.otherwise_elsewhere", **names)
            wanted.add((mine["row"], theirs["row"]))
        said = {
            (mine["row"], theirs["row"])
            for mine, theirs in _said(rule, *calls)
            if (mine["direction"], mine["role"]) == (direction, role)
        }
        if said != wanted:
            rule.positions[part] = dict(sorted(there.items()))


def _said(rule: OperatorRule, left: _Calls, right: _Calls) -> Iterator[tuple[_Entry, _Entry]]:
    """The pairs that a rule makes, gradients of equal shapes included."""
    for at in left.keys() & right.keys():
        for direction, role, part in _SECTIONS:
            positions = rule.positions[part]
            theirs = right[at].get((direction, role), {})
            for (number, rest), row in left[at].get((direction, role), {}).items():
                place = number if positions is None else positions.get(number, -1)
                other = theirs.get((place, rest))
                if other is None or (direction == "backward" and row["shape"] != other["shape"]):
                    continue
                yield row, other
