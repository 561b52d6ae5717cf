"""The matchers behind a `Pairing`: names, parameter names, saving order, shapes."""

from __future__ import annotations

import difflib
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.analysis.api_names import backward_note, operator
from troubleshooter_nb.analysis.declared.pairs import declared_pairs
from troubleshooter_nb.analysis.likeness import Likeness
from troubleshooter_nb.analysis.matchers import (
    by_everything,
    by_name,
    by_names,
    by_order,
    by_shape,
)
from troubleshooter_nb.analysis.search import Item, Search, SiteFacts
from troubleshooter_nb.analysis.sites import by_sites
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import PairingError, TroubleshooterWarning
from troubleshooter_nb.formats import DumpLike, as_dump
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.naming import CALL_KINDS, TRAINING_ROLES, natural_key, parse_npy_name
from troubleshooter_nb.pairing import Match, Pairing

PairingMethod = Literal["auto", "name", "order", "shape"]
MappingLike = (
    str
    | PathLike[str]
    | MappingFile
    | Mapping[str, str | None]
    | Iterable[tuple[str | None, str | None]]
)

_CANDIDATES = 3
_MOST_CANDIDATE_ROWS = 200
_BARELY_ALIKE = 0.3
_Place = tuple[int, int]
_Group = tuple[int, int, str]  # step, rank, and the role of what only training needs
# Torch's normalisations count their batches, MindSpore's do not.
_BATCH_COUNTER = "num_batches_tracked"


def pair_dumps(
    left: DumpLike,
    right: DumpLike,
    *,
    method: PairingMethod = "auto",
    mapping: MappingLike | None = None,
    fuzzy: bool = False,
) -> Pairing:
    """Find which entries of two dumps belong together.

    Parameters
    ----------
    left, right : Dump, path, or mapping of str to array
    method : {"auto", "name", "order", "shape"}
        ``auto``: equal stems first, then parameter names in either framework's spelling and
        behind whatever each side calls the network, then what remains by saving order, shape and
        likeness of names together. ``name``: equal entry names only. ``order``: first with
        first. ``shape``: shape edit distance with the costs of TroubleShooter (delete 1, insert
        1, replace 5). Entries whose place in the saving order is unknown (files without number)
        are paired by equal names before ``order`` and ``shape`` look at the rest.
    mapping : dict, list of pairs or path, optional
        The path of a mapping file (see `read_mapping`): api, cell, data or layer yaml, or plain
        pairs; or what `read_mapping` gave. Else ``{left name: right name}`` for pairs that are
        known; None on a side declares that a partner is expected to be missing. Names may be
        given with ``.npy`` or, where it means one entry only, as the path. The method pairs the
        rest.
    fuzzy : bool
        With ``auto``: ignore the numbers of calls of operators and keep only their order. Without,
        numbers count where both runs have the same calls.

    Returns
    -------
    Pairing
        Every entry of both dumps occurs in exactly one row. Only entries of the same step and
        rank are paired. `method` is ``name`` for equal names, ``parameter`` for those in torch's
        spelling, ``site`` for the same place of one call, ``renamed`` behind a renaming of paths,
        ``api`` for counterparts among operators, ``order``, ``shape``, ``user`` for the mapping's.

        `confidence` is 1 for equal names (0.95 where one side has more of the
        same numbering, such as a thirteenth layer; 0.8 where both have), 0.98 for parameters by
        name, at most 0.9 where order and likeness decided. Swapping the sides mirrors the result.

        Entries that know the call they were seen in are paired by calls: equal paths of modules,
        then a renaming of paths that sure pairs show (0.95 where it holds more than once), calls
        of operators through ``tables/api_names.csv`` in the order in which they ran (at most 0.93),
        fused operators with the ends of the chain they replace (at most 0.85). What the
        frameworks define differently is at most 0.5, and its note says so.

    Raises
    ------
    PairingError
        If the method is unknown, or the mapping names an entry that does not exist or names one
        twice.
    MappingFileError
        If a mapping file cannot be read or does not fit the dumps; names file, line and key.

    Warns
    -----
    TroubleshooterWarning
        For rows of a mapping file that met nothing in these dumps.
    """
    matchers: dict[str, Callable[[Search], None]] = {
        "auto": by_everything,
        "name": by_name,
        "order": by_order,
        "shape": by_shape,
    }
    if method not in matchers:
        msg = f"unknown pairing {method!r}; choose one of {', '.join(matchers)}"
        raise PairingError(msg)
    left, right = as_dump(left, "left"), as_dump(right, "right")
    given = _labelled(_given_matches(left, right, mapping), left, right)
    mine = _groups(left, {match.left for match in given})
    theirs = _groups(right, {match.right for match in given})
    matches: list[Match] = []
    both = mine.keys() & theirs.keys()
    for group in sorted(mine.keys() | theirs.keys()):
        role = group[2]
        # States of two optimizers, or a counter on each side, need not be the same thing.
        guess = not role or method != "auto"
        matcher = matchers[method] if guess else by_names
        ways: list[Callable[[Search], None]] = [matcher]
        if method == "auto":
            ways = [partial(by_sites, fuzzy=fuzzy), matcher]
        found = _pair_place(mine.pop(group, []), theirs.pop(group, []), ways)
        one_sided = group not in both or left.format != right.format
        if role and one_sided:
            found = [_expected(match, "training state of one side only") for match in found]
        matches += found
    matches = [*given, *_uncounted_batches(matches, left, right)]
    return Pairing.from_matches(left, right, _in_left_order(matches, left, right))


def _pair_place(
    left: list[Item], right: list[Item], ways: Sequence[Callable[[Search], None]]
) -> list[Match]:
    """All rows of one step and rank; the last way takes entries that do not know their call."""
    # Where two answers are equally good, the choice must not depend on which side is left.
    if [_sorting_key(item) for item in right] < [_sorting_key(item) for item in left]:
        return [
            replace(match, left=match.right, right=match.left)
            for match in _pair_place(right, left, ways)
        ]
    parts = [(left, right)]
    # Entries that know their call on both sides are never matched by what their names look like.
    if len(ways) > 1 and all(any(item.site for item in side) for side in (left, right)):
        parts = [_of_calls(left, right, known=True), _of_calls(left, right, known=False)]
    matches = []
    for part, way in zip(parts, ways[-len(parts) :], strict=True):
        search = Search(*part)
        if part[0] and part[1]:
            way(search)
        matches += [*search.matches, *_rest(search)]
    return matches


def _of_calls(left: list[Item], right: list[Item], *, known: bool) -> tuple[list[Item], list[Item]]:
    """The entries of both sides that know their call, or those that do not."""
    mine, theirs = ([i for i in side if (i.site is not None) == known] for side in (left, right))
    return mine, theirs


def _sorting_key(item: Item) -> tuple[object, ...]:
    return item.shape, item.path, item.call, item.direction, item.slot, item.name, item.ordered


def _groups(dump: Dump, skip: set[int]) -> dict[_Group, list[Item]]:
    """Entries in the order of saving; unordered ones last, by name.

    An optimizer's state has the shape and the name of its parameter, and is never paired with it.
    """
    names = (*("name", "kind", "path", "call", "direction", "role", "slot"), "order", "shape")
    columns = [dump.index[name].values.tolist() for name in (*names, "step", "rank")]
    sites = _site_facts(dump)
    rows: dict[_Group, list[tuple[tuple[object, ...], int]]] = defaultdict(list)
    records = list(zip(*columns, strict=True))
    for row, values in enumerate(records):
        if row in skip:
            continue
        name, kind, _, _, _, role, _, order, _, step, rank = values
        # Files without number have an order too, that of the alphabet.
        unnumbered = kind == "file" and parse_npy_name(name.rpartition("/")[2]).number is None
        ordered = order >= 0 and not unnumbered
        place = (False, order, ()) if ordered else (True, 0, natural_key(name))
        rows[step, rank, role if role in TRAINING_ROLES else ""].append((place, row))
    groups: dict[_Group, list[Item]] = {}
    for group, found in rows.items():
        items = groups[group] = []
        for position, ((unordered, *_), row) in enumerate(sorted(found)):
            name, _, path, call, direction, role, slot, _, shape, _, _ = records[row]
            visit = (role if role in ("input", "output") else "", slot)
            facts = (path, call, direction, visit, shape, sites[row])
            items.append(Item(row, position, not unordered, name, *facts))
    return groups


def _site_facts(dump: Dump) -> list[SiteFacts | None]:
    """What the rows of an entry with a call site say beyond its name, None for the others."""
    kinds = dump.index["kind"].values.tolist()
    if CALL_KINDS.isdisjoint(kinds):
        return [None] * len(kinds)
    names = ("layer", "role", "slot", "value", "parent", "l2", "min", "max", "crc32")
    columns = [dump.index[name].values.tolist() for name in names]
    return [
        SiteFacts(kind, layer, role, slot, value, parent, (l2, low, high), crc)
        if kind in CALL_KINDS
        else None
        for kind, layer, role, slot, value, parent, l2, low, high, crc in zip(
            kinds, *columns, strict=True
        )
    ]


def _labelled(given: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Pairs of a mapping; gradients that the frameworks define differently say so here as well."""
    names = ("kind", "direction", "role", "path", "layer")
    sides = [[dump.index[name].values for name in names] for dump in (left, right)]

    def operators(match: Match) -> list[str]:
        found = []
        for columns, row in zip(sides, (match.left, match.right), strict=True):
            if row < 0:
                continue
            kind, direction, role, path, layer = (str(column[row]) for column in columns)
            if (kind, direction, role) == ("api", "backward", "output"):
                found.append(operator(path, layer))
        return found

    labelled = []
    for match in given:
        both = operators(match)
        note = backward_note(*both) if len(both) == 2 else ""
        labelled.append(replace(match, note=note) if note else match)
    return labelled


def _given_matches(left: Dump, right: Dump, mapping: MappingLike | None) -> list[Match]:
    if mapping is None:
        return []
    if isinstance(mapping, str | PathLike | MappingFile):
        notes: list[str] = []
        declared = declared_pairs(left, right, mapping, notes=notes)
        for text in notes:
            warnings.warn(text, TroubleshooterWarning, stacklevel=3)
        return declared
    rows = _RowsByName(left, "left"), _RowsByName(right, "right")
    used: tuple[set[int], set[int]] = set(), set()
    matches = []
    for number, names in enumerate(_mapped(mapping)):
        found = []
        for side in (0, 1):
            here = rows[side].of(names[side], number)
            if not used[side].isdisjoint(here.values()):
                msg = f"row {number} of the mapping names {names[side]!r} a second time"
                raise PairingError(msg)
            used[side].update(here.values())
            found.append(here)
        if names[0] is None or names[1] is None:
            pairs = [(row, -1) for row in found[0].values()]
            pairs += [(-1, row) for row in found[1].values()]
            note = "expected to be missing"
            matches += [Match(*p, "unmatched", np.nan, note, expected=True) for p in pairs]
            continue
        places = sorted(found[0].keys() & found[1].keys())
        if not places:
            msg = (
                f"row {number} of the mapping: {names[0]!r} and {names[1]!r} share no step and rank"
            )
            raise PairingError(msg)
        matches += [Match(found[0][place], found[1][place], "user", 1.0) for place in places]
    return matches


def _mapped(mapping: Mapping[Any, Any] | Iterable[Any]) -> Iterator[tuple[str | None, str | None]]:
    pairs = mapping.items() if isinstance(mapping, Mapping) else mapping
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if (
            not is_pair
            or not all(name is None or isinstance(name, str) for name in pair)
            or tuple(pair) == (None, None)
        ):
            msg = f"row {number} of the mapping is {pair!r}; expected (left name, right name)"
            raise PairingError(msg)
        yield pair[0], pair[1]


class _RowsByName:
    """Rows of one dump by what a mapping may call them."""

    def __init__(self, dump: Dump, side: str) -> None:
        self.where = f"{side} {dump.label!r}"
        index = {name: dump.index[name].values for name in ("name", "path", "step", "rank")}
        self.names: dict[str, dict[_Place, int]] = defaultdict(dict)
        paths: dict[str, dict[_Place, int]] = defaultdict(dict)
        repeated = set()
        for row, (name, path, step, rank) in enumerate(zip(*index.values(), strict=True)):
            self.names[str(name)][int(step), int(rank)] = row
            if (int(step), int(rank)) in paths[str(path)]:
                repeated.add(str(path))
            paths[str(path)][int(step), int(rank)] = row
        self.paths = {path: rows for path, rows in paths.items() if path not in repeated}

    def of(self, name: str | None, number: int) -> dict[_Place, int]:
        """The row in every step and rank that has it; nothing for None."""
        if name is None:
            return {}
        for known, wanted in (
            (self.names, name),
            (self.names, name.removesuffix(".npy")),
            (self.paths, name),
        ):
            if wanted in known:
                return known[wanted]
        known_names = list(dict.fromkeys([*self.names, *self.paths]))
        close = difflib.get_close_matches(name, known_names, n=2, cutoff=0.4)
        hint = f"; closest: {', '.join(map(repr, close))}" if close else ""
        msg = f"row {number} of the mapping: no {name!r} in {self.where}{hint}"
        raise PairingError(msg)


def _rest(search: Search) -> list[Match]:
    """A row for every entry without a partner, with its closest candidates."""
    rows = []
    sides = ((search.left, search.all[1]), (search.right, search.all[0]))
    for side, (alone, others) in enumerate(sides):
        taken = {pair[1 - side].row for pair in search.pairs}
        texts = _candidates(alone[:_MOST_CANDIDATE_ROWS], others, taken)
        note = "" if others else "the other side has nothing of this step and rank"
        said = search.alone[side]
        for k, item in enumerate(alone):
            pair = (item.row, -1) if side == 0 else (-1, item.row)
            near = texts[k] if k < len(texts) else ""
            rows.append(Match(*pair, "unmatched", np.nan, said.get(item.row, note), near))
    return rows


def _expected(match: Match, note: str) -> Match:
    """The match, declared expected if it has no partner."""
    alone = match.left < 0 or match.right < 0
    return replace(match, expected=True, note=note, candidates="") if alone else match


def _uncounted_batches(matches: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Batch counters are expected to be alone where the other side counts none at all."""
    counts = [
        [str(path).endswith(_BATCH_COUNTER) for path in dump.index["path"].values]
        for dump in (left, right)
    ]
    if any(counts[0]) == any(counts[1]):
        return matches
    side = 0 if any(counts[0]) else 1
    return [
        _expected(match, "the other framework counts no batches")
        if counts[side][(match.left, match.right)[side]] and (match.left, match.right)[side] >= 0
        else match
        for match in matches
    ]


def _candidates(items: Sequence[Item], others: Sequence[Item], taken: set[int]) -> list[str]:
    """For each item the likest others, and what speaks against them."""
    if not items or not others:
        return [""] * len(items)
    likeness = Likeness([item.path for item in items], [other.path for other in others])
    shapes = np.array([other.shape for other in others], object)
    texts = []
    for i, item in enumerate(items):
        alike, same = likeness.row(i), shapes == item.shape
        found = []
        for j in np.argsort(-(alike + same), kind="stable")[:_CANDIDATES]:
            if alike[j] < _BARELY_ALIKE and not same[j]:
                continue
            other = others[j]
            why = [] if same[j] else [f"shape {other.shape or 'unknown'}"]
            why += ["taken"] if other.row in taken else []
            found.append(other.name + (f" ({', '.join(why)})" if why else ""))
        texts.append("; ".join(found))
    return texts


def _in_left_order(matches: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Left entries in their own sequence; entries only on the right follow their step and rank."""
    places = [
        list(zip(dump.index["step"].values, dump.index["rank"].values, strict=True))
        for dump in (left, right)
    ]

    def key(match: Match) -> tuple[_Place, bool, int]:
        on_left = match.left >= 0
        place = places[0][match.left] if on_left else places[1][match.right]
        return place, not on_left, match.left if on_left else match.right

    return sorted(matches, key=key)
