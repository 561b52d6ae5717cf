"""Pairs of modules and their tensors, as a cell or layer mapping declares them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from troubleshooter_nb.analysis.declared.claims import Claims, with_closest
from troubleshooter_nb.analysis.declared.side import DumpNames, InnerCall
from troubleshooter_nb.dump import StepRank
from troubleshooter_nb.formats.layer_names import LayerNames
from troubleshooter_nb.formats.pairing_rules import ROOTS, NameRule
from troubleshooter_nb.formats.yaml_nodes import mapping_error, shown
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import canonical_parameter, likely_parameter

_Spelling = Callable[[str], str | None]
# The parameter's own name first: a layer may have both a gamma and a weight.
_SPELLINGS: tuple[_Spelling, ...] = (str, cache(canonical_parameter), cache(likely_parameter))


def cell_pairs(claims: Claims) -> None:
    """Modules by ``path.Class``: exact names first, then the first part that occurs in one.

    A name without a rule is looked for as it is.
    """
    if not _has_modules(claims):
        return
    rules = claims.file.names
    exact = {rule.left: rule for rule in rules}
    target_of: dict[NameRule, list[str]] = {rule: [] for rule in rules}
    plan = []
    for name, path in claims.source.cells.items():
        rule = exact.get(name) or next((r for r in rules if (r.left or "") in name), None)
        new = name
        if rule is not None:
            new = name.replace(rule.left or "", rule.right or "", 1)
            target_of[rule].append(new)
        plan.append((rule is None or name != rule.left, rule is None, path, new, rule))
    for _, _, path, new, rule in sorted(plan, key=lambda step: step[:2]):
        if new in claims.target.cells:
            _pair_module(claims, path, claims.target.cells[new], [rule] if rule else [])
    for rule, names in target_of.items():
        left = rule.left or ""
        if not names:
            text = Message("mappings.no_cell", where=claims.source.where)
            claims.lacks(rule.line, left, text, name=left, known=claims.source.cells)
        elif not any(name in claims.target.cells for name in names):
            _lacks_target(claims, rule, names[0])


def _lacks_target(claims: Claims, rule: NameRule, made: str) -> None:
    """No module of the target is called what a rule made of one of the source."""
    left, right = rule.left or "", rule.right or ""
    cells = claims.source.cells
    part_of = next(c for c in cells if left in c and c.replace(left, right, 1) == made)
    if f".{left}." in f".{part_of}.":
        text = Message("mappings.no_module", where=claims.target.where, name=shown(made))
        claims.lacks(rule.line, left, text, name=made, known=claims.target.cells)
        return
    # It cuts a word in two: rather a name with a letter missing than a part of one.
    names = {"part_of": shown(part_of), "made": shown(made)}
    sides = {"where": claims.source.where, "there": claims.target.where}
    text = Message("mappings.no_cell_nor_part", **names, **sides)
    claims.lacks(rule.line, left, text, name=left, known=cells)


def layer_pairs(claims: Claims) -> None:
    """Modules by renamed attributes, and the operators that rules name inside of them.

    What no rule renames keeps its name, and is left to the other matchers: the file does not speak
    of it, so that its pairs are no surer than without the file. A rule that meets nothing is a
    note, unless none meets anything: mappings are kept for whole networks, and dumps are cut down.
    """
    if not _has_modules(claims):
        return
    layers = LayerNames(claims.file.names, claims.source.classes)
    used: set[NameRule] = set()
    fitting: set[NameRule] = set()
    plan = []
    for path in claims.source.modules:
        new, rules = layers.renamed(path)
        used.update(rules)
        if new in claims.target.prefixes:
            fitting.update(rules)
        plan.append((not rules, path, new, rules))
    taken: dict[str, tuple[NameRule, ...]] = {}
    for _, path, new, rules in sorted(plan, key=lambda step: step[0]):
        if new not in claims.target.modules:
            continue
        if new in taken:
            if rules:
                _clash(claims, path, new, rules[-1], taken[new])
            continue
        taken[new] = rules
        _pair_module(claims, path, new, rules, declared=bool(rules))
    _pair_operators(claims, layers, used, fitting)
    lacking = [*_unknown_parents(claims), *_unknown_attributes(claims, layers, used, fitting)]
    for lack in lacking:
        text = with_closest(lack.text, lack.name, lack.known)
        if fitting or claims.unknown == "skip":
            claims.note(lack.line, lack.key, Message("mappings.not_used", said=text))
        else:
            raise mapping_error(claims.file.file, lack.line, lack.key, text)


class _Lack(NamedTuple):
    """A name of the file that the dumps lack."""

    line: int
    key: str
    text: Message
    name: str
    known: Iterable[str]


def _pair_operators(
    claims: Claims, layers: LayerNames, used: set[NameRule], fitting: set[NameRule]
) -> None:
    """Calls of operators whose own name a rule renames, in their order inside a module."""
    # Several operators of one side may be one of the other: their calls take turns.
    wanted: dict[str, dict[int, tuple[InnerCall, tuple[NameRule, ...]]]] = defaultdict(dict)
    for path, calls in claims.source.calls_inside.items():
        named = layers.renamed_inside(calls[0].inside, path)
        if named is None:
            continue
        new, rules = named
        used.update(rules)
        if new in claims.target.calls_inside:
            fitting.update(rules)
            wanted[new].update((call.rows[0], (call, rules)) for call in calls)
    for new, found in wanted.items():
        here: dict[StepRank, list[tuple[InnerCall, tuple[NameRule, ...]]]] = defaultdict(list)
        there: dict[StepRank, list[InnerCall]] = defaultdict(list)
        for row in sorted(found):
            here[found[row][0].place].append(found[row])
        for other in claims.target.calls_inside[new]:
            there[other.place].append(other)
        for place, mine in here.items():
            theirs = there[place]
            for (call, rules), other in zip(mine, theirs, strict=False):
                _pair_call(claims, call, other, rules)
            if theirs and len(mine) != len(theirs):
                rule = mine[0][1][-1]
                counts = {"count": len(mine), "others": len(theirs)}
                ends = {"where": claims.source.where, "there": claims.target.where}
                text = Message("mappings.other_counts", **counts, **ends)
                claims.note(rule.line, rule.left or "", text)


def _pair_call(
    claims: Claims, call: InnerCall, other: InnerCall, rules: Iterable[NameRule]
) -> None:
    """The values of a call with those of another one, by direction, role and slot."""
    note = claims.where(rules)

    def key(side: DumpNames, row: int) -> tuple[str, str, str]:
        columns = side.columns
        return columns["direction"][row], columns["role"][row], columns["slot"][row]

    theirs = {key(claims.target, row): row for row in other.rows}
    for row in call.rows:
        if (partner := theirs.get(key(claims.source, row))) is not None:
            claims.pair(row, partner, note, weak=True)


def _clash(
    claims: Claims, path: str, new: str, rule: NameRule, others: tuple[NameRule, ...]
) -> None:
    lines = [other.line for other in others]
    text = Message("mappings.clash", path=path, new=new, lines=lines)
    raise mapping_error(claims.file.file, rule.line, rule.left or "", text)


def _has_modules(claims: Claims) -> bool:
    for side in (claims.source, claims.target):
        if not side.modules:
            said = {"kind": claims.file.kind, "where": side.where}
            claims.lacks(1, "", Message("mappings.no_modules", **said))
            return False
    return True


def _unknown_parents(claims: Claims) -> Iterator[_Lack]:
    known: set[str] = set(ROOTS)
    for side in (claims.source, claims.target):
        known |= {*side.classes.values(), *side.prefixes, *side.attributes}
    for parent, line in claims.file.parents:
        if parent not in known:
            text = Message("mappings.no_parent", root=ROOTS[0])
            yield _Lack(line, parent, text, parent, sorted(known))


def _unknown_attributes(
    claims: Claims, layers: LayerNames, used: set[NameRule], fitting: set[NameRule]
) -> Iterator[_Lack]:
    """The rules that meet nothing."""
    source, target = claims.source, claims.target
    named = [side.attributes | side.inner_names for side in (source, target)]
    for rule in claims.file.names:
        left, right = rule.left or "", rule.right or ""
        if rule in fitting:
            continue
        on_left = named[0].issuperset(left.split("."))
        on_right = named[1].issuperset(right.split("."))
        if rule in used and not on_right:
            text = Message("mappings.nothing_called", where=target.where, name=shown(right))
            yield _Lack(rule.line, left, text, right, sorted(named[1]))
        elif rule not in used and not on_left:
            here = _children(source, layers, rule.parent) or sorted(named[0])
            text = Message("mappings.nothing_called_so", where=source.where)
            if not on_right:
                text = Message("mappings.neither_has", name=shown(right), parent=rule.parent)
            yield _Lack(rule.line, left, text, left, here)
        else:
            sides = {"where": source.where, "there": target.where}
            text = Message("mappings.nowhere_below", **sides, parent=shown(rule.parent))
            yield _Lack(rule.line, left, text, "", ())


def _children(side: DumpNames, layers: LayerNames, parent: str) -> list[str]:
    """Attributes below what a mapping calls so."""
    found = set()
    for prefix in [*side.prefixes, *side.calls_inside]:
        above, _, leaf = prefix.rpartition(".")
        if parent in layers.parents_of(above):
            found.add(leaf)
    return sorted(found)


def _pair_module(
    claims: Claims, path: str, new: str, rules: Iterable[NameRule], *, declared: bool = True
) -> None:
    """The tensors of a module with those of another one, by call, direction, role and slot.

    Where the file does not declare the pair, only gradients that neither side has are said.
    """
    note = claims.where(rules)
    mine, theirs = claims.source.modules[path], claims.target.modules[new]
    pairs = _same_parts(claims, mine, theirs)
    if declared:
        for row, other in pairs:
            claims.pair(row, other, note, weak=True)
    _no_gradients(claims, mine, theirs, note, partnered=list(zip(*pairs, strict=True)))


def _same_parts(claims: Claims, mine: list[int], theirs: list[int]) -> list[tuple[int, int]]:
    """Free rows of two modules that are the same of each."""
    left, right = (
        [row for row in rows if row not in used]
        for rows, used in zip((mine, theirs), claims.used, strict=True)
    )
    found: dict[int, int] = {}
    for spelling in _SPELLINGS:
        back = set(found.values())
        rows = _by_key(claims.source, [row for row in left if row not in found], spelling)
        others = _by_key(claims.target, [row for row in right if row not in back], spelling)
        for key, row in rows.items():
            if row is not None and (other := others.get(key)) is not None:
                found[row] = other
    return list(found.items())


def _by_key(side: DumpNames, rows: list[int], spelling: _Spelling) -> dict[Hashable, int | None]:
    """Rows by what they are; None where two are the same."""
    found: dict[Hashable, int | None] = {}
    columns = side.columns
    for row in rows:
        slot, role = columns["slot"][row], columns["role"][row]
        if role == "parameter":
            slot = spelling(slot)
        elif spelling is not str:
            continue
        if slot is None:
            continue
        key = side.places[row], columns["call"][row], columns["direction"][row], role, slot
        found[key] = None if key in found else row
    return found


def _no_gradients(
    claims: Claims,
    mine: list[int],
    theirs: list[int],
    note: str,
    partnered: Sequence[Sequence[int]],
) -> None:
    """MindSpore writes null where torch writes nothing: the input needs no gradient."""
    known = [set(rows) for rows in partnered] or [set(), set()]
    for in_source, side, rows, other, others in (
        (True, claims.source, mine, claims.target, theirs),
        (False, claims.target, theirs, claims.source, mine),
    ):
        places = {other.places[row] for row in others}
        for row in rows:
            is_null = side.columns["value"][row] == "null" and row not in known[not in_source]
            if (
                is_null
                and side.columns["direction"][row] == "backward"
                and (side.places[row] in places)
            ):
                said = Message("mappings.no_gradient", where=note)
                claims.alone(row, said, in_source=in_source)
