"""Layers written in other ways that compute the same: one pair, whatever stands inside them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.analysis.value_figures import Figures, are_near
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.naming import CALL_KINDS, saved_calls
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.thresholds import DECIDED, MOST_LINKED, MOST_NEIGHBOURS, TIES_BYTES

_Figures = tuple[Figures, Figures]


class _Where(NamedTuple):
    """The module of an entry and what it is of it."""

    module: str
    role: str


def grouped(matches: Sequence[Match], dumps: tuple[Dump, Dump], figures: _Figures) -> list[Match]:
    """The matches, those of groups of layers anew, by what comes out of them.

    A convolution that holds the norm behind it gives what that norm gives on the other side: the
    two results are a pair, and what else there is of the norm needs no partner. Nor do a tensor
    that holds the other side's query, key and value behind each other, and those.

    Parameters
    ----------
    matches : sequence of Match
    dumps : (Dump, Dump)
    figures : (Figures, Figures)
        Of the two, with what may still be read.
    """
    found = list(matches)
    for side in (0, 1):
        if any(_is_alone(match, side) for match in found):
            found = _with_folded(found, dumps, figures, side)
            found = _with_joined(found, dumps, figures, side)
    return found


def _is_alone(match: Match, side: int) -> bool:
    """Whether it is of an entry of this side that lacks a partner it should have."""
    rows = match.left, match.right
    return rows[side] >= 0 > rows[1 - side] and not match.expected


def _entry(match: Match, side: int) -> int:
    return match.left if side == 0 else match.right


def _pair(side: int, mine: int, theirs: int) -> tuple[int, int]:
    return (mine, theirs) if side == 0 else (theirs, mine)


def _places(dump: Dump) -> list[_Where]:
    """Where each entry was seen; what was saved by hand without more counts as a result."""
    names = ("kind", "path", "direction", "role")
    rows = [*dump.columns.rows(*names)]
    saved = saved_calls(path for kind, path, way, _ in rows if kind not in CALL_KINDS and not way)
    found = []
    for kind, path, way, role in rows:
        if way == "backward":
            found.append(_Where(path, "gradient"))
        elif role in ("parameter", "buffer") and kind not in CALL_KINDS:
            found.append(_Where(path.rpartition(".")[0], role))
        elif kind in CALL_KINDS or path not in saved:
            found.append(_Where(path, role or "output"))
        else:
            found.append(_Where(*saved[path][:2]))
    return found


def _with_folded(
    matches: list[Match], dumps: tuple[Dump, Dump], figures: _Figures, side: int
) -> list[Match]:
    """Results of a layer that only one side has, paired where the other's in front gives them."""
    where, columns = _places(dumps[side]), dumps[side].columns
    at = {_entry(m, side): k for k, m in enumerate(matches) if _entry(m, side) >= 0}
    paired = [row for row, k in at.items() if min(matches[k].left, matches[k].right) >= 0]
    known = {where[row].module for row in paired}
    results = _Results([row for row in paired if where[row].role == "output"], dumps[side])
    lone = [
        row
        for row, k in at.items()
        if _is_alone(matches[k], side)
        and where[row].role == "output"
        and where[row].module not in known
    ]
    found, inside = list(matches), set[str]()
    note = Message("pairings.same_group")
    for row in lone:
        before = results.before(row)
        match = matches[at[before]] if before >= 0 else None
        if match is None or match.method == "user" or found[at[before]] is not match:
            continue
        theirs = _entry(match, 1 - side)
        if columns["shape"][row] != dumps[1 - side].columns["shape"][theirs]:
            continue
        if not _are_same(figures, side, before, theirs) and _are_same(figures, side, row, theirs):
            alone = _pair(side, before, -1)
            found[at[row]] = Match(*_pair(side, row, theirs), "values", DECIDED[1], note)
            found[at[before]] = Match(*alone, "unmatched", np.nan, note, expected=True)
            inside.add(where[row].module)
    return [
        match._replace(expected=True, note=note, candidates="")
        if _is_alone(match, side) and where[_entry(match, side)].module in inside
        else match
        for match in found
    ]


class _Results:
    """Results of a side in the order of saving, by step and rank."""

    def __init__(self, rows: Sequence[int], dump: Dump) -> None:
        self._columns = dump.columns
        self._saved: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            if self._columns["order"][row] >= 0:
                self._saved[self._place(row)].append((int(self._columns["order"][row]), row))
        for some in self._saved.values():
            some.sort()

    def _place(self, row: int) -> Hashable:
        return self._columns["step"][row], self._columns["rank"][row]

    def before(self, row: int) -> int:
        """The last that was saved before a row; -1 for none."""
        some = self._saved.get(self._place(row), [])
        at = bisect_left(some, (int(self._columns["order"][row]), -1))
        return some[at - 1][1] if at else -1


def _are_same(figures: _Figures, side: int, mine: int, theirs: int) -> bool:
    """Whether an entry of a side and one of the other hold the same values, by their figures."""
    asked = [(figures[side], mine), (figures[1 - side], theirs)]
    read = figures[0].budget.spend(sum(of.cost([row]) for of, row in asked))
    one, other = (of.of(row, read=read) for of, row in asked)
    limit = max(of.tolerance(row) for of, row in asked)
    return bool(are_near(one, other[None], limit)[0])


def _with_joined(
    matches: list[Match], dumps: tuple[Dump, Dump], figures: _Figures, side: int
) -> list[Match]:
    """Tensors of this side that are several of the other behind each other need no partner."""
    alone = [
        [_entry(match, s) for match in matches if _is_alone(match, s)] for s in (side, 1 - side)
    ]
    if not alone[0] or len(alone[1]) < 2:
        return matches
    notes: list[dict[int, str]] = [{}, {}]
    others: dict[Hashable, list[int]] = defaultdict(list)
    for other in alone[1]:
        others[_alike(dumps[1 - side], other)].append(other)
    for row in alone[0]:
        alike = others.get(_alike(dumps[side], row), [])
        for parts in _windows(row, alike, dumps, side):
            if notes[1].keys().isdisjoint(parts) and _is_joined(row, parts, dumps, figures, side):
                names = [dumps[1 - side].names[part] for part in parts]
                notes[0][row] = Message("pairings.joined_of", names=names)
                whole = Message("pairings.part_of", name=dumps[side].names[row])
                notes[1].update(dict.fromkeys(parts, whole))
                break
    found = []
    for match in matches:
        here, there = _entry(match, side), _entry(match, 1 - side)
        note = notes[0].get(here, "") if there < 0 else notes[1].get(there, "") if here < 0 else ""
        is_told = match._replace(expected=True, note=note, candidates="")
        found.append(is_told if note else match)
    return found


def _alike(dump: Dump, row: int) -> Hashable:
    """What an entry shares with those that it may be joined of; None for a single number."""
    columns = dump.columns
    shape, role = columns["shape"][row], str(columns["role"][row])
    if not shape:
        return None
    axis = _joined_axis(role, shape)
    place = (columns[name][row] for name in ("step", "rank", "direction"))
    return *place, role, len(shape), (*shape[:axis], *shape[axis + 1 :])


def _windows(
    row: int, alike: Sequence[int], dumps: tuple[Dump, Dump], side: int
) -> Iterator[tuple[int, ...]]:
    """Neighbours on the other side whose sizes add up to that of a row along its joined axis."""
    mine, theirs = dumps[side].columns, dumps[1 - side].columns
    shape = mine["shape"][row]
    if not shape or len(alike) > MOST_LINKED:
        return
    axis = _joined_axis(str(mine["role"][row]), shape)
    sizes = [theirs["shape"][other][axis] for other in alike]
    for start in range(len(alike)):
        for stop in range(start + 2, min(start + MOST_NEIGHBOURS, len(alike)) + 1):
            if sum(sizes[start:stop]) == shape[axis]:
                yield tuple(alike[start:stop])


def _joined_axis(role: str, shape: Sequence[int]) -> int:
    """Features: the first axis of a parameter, the last of anything else."""
    return 0 if role == "parameter" else len(shape) - 1


def _is_joined(
    row: int, parts: Sequence[int], dumps: tuple[Dump, Dump], figures: _Figures, side: int
) -> bool:
    """Whether a tensor holds others of the other side behind each other, but for rounding."""
    sources = [dumps[side].sources[row], *(dumps[1 - side].sources[part] for part in parts)]
    values = []
    for source in sources:
        if source is None or arithmetic_of(source.dtype) != "float":
            return False
        size = math.prod(source.shape)
        if size * source.dtype.itemsize > TIES_BYTES:
            return False
        if not figures[0].budget.spend(size * source.dtype.itemsize):
            return False
        try:
            values.append(computable(source.read(0, size)).reshape(source.shape))
        except ReadError:
            return False
    axis = _joined_axis(str(dumps[side].columns["role"][row]), values[0].shape)
    joined = np.concatenate(values[1:], axis)
    limit = figures[side].tolerance(row) * float(np.abs(values[0]).max(initial=0.0))
    is_telling = values[0].size > 1 and bool((values[0] != values[0].flat[0]).any())
    return is_telling and bool((np.abs(values[0] - joined) <= limit).all())
