"""The matchers behind a `Pairing`: names, parameter names, saving order, shapes."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Union, cast

import numpy as np

from troubleshooter_nb.analysis.api_names import backward_note, operator
from troubleshooter_nb.analysis.declared.pairs import declared_pairs
from troubleshooter_nb.analysis.groups import grouped
from troubleshooter_nb.analysis.matchers import (
    by_everything,
    by_name,
    by_names,
    by_order,
    by_shape,
)
from troubleshooter_nb.analysis.near_misses import from_elsewhere, near_misses
from troubleshooter_nb.analysis.pair_by_calls import by_sites
from troubleshooter_nb.analysis.recorded_samples import with_first_values
from troubleshooter_nb.analysis.search import Item, Search, SiteFacts, are_of_two_frameworks
from troubleshooter_nb.analysis.value_figures import Figures, ReadingBudget, is_constant_checksum
from troubleshooter_nb.analysis.value_order import settle_numbered
from troubleshooter_nb.analysis.value_ties import settle_by_values
from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.dump import Dump, StepRank
from troubleshooter_nb.errors import ArgumentTypeError, PairingError, TroubleshooterWarning
from troubleshooter_nb.formats import DumpLike, as_dump
from troubleshooter_nb.formats.pairing_rules import MappingFile
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.naming import (
    ASIDE_ROLES,
    CALL_KINDS,
    TRAINING_ROLES,
    is_whole_gradient,
    natural_key,
    parse_npy_name,
)
from troubleshooter_nb.naming.closeness import closest
from troubleshooter_nb.pairing import Match, Pairing, places_of
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import NEAR_MISS_ROWS, TIES_BYTES

if TYPE_CHECKING:
    from troubleshooter_nb.weight_map import WeightMap

PairingMethod = Literal["auto", "name", "order", "shape"]
MappingLike = Union[
    str,
    PathLike[str],
    MappingFile,
    Sequence[MappingFile],
    Mapping[str, str | None],
    Iterable[tuple[str | None, str | None]],
    "WeightMap",
]

_UNKNOWN = (np.nan, np.nan, np.nan)
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
        pairs; or what `read_mapping` gave, also a list of it, in which the earlier files win. Else
        ``{left name: right name}`` for pairs that are
        known; None on a side declares that a partner is expected to be missing. Names may be
        given with ``.npy`` or, where it means one entry only, as the path. The method pairs the
        rest. A `WeightMap` makes the weights of the left side what they are on the right, joined,
        split, in another order, before they are paired; their gradients, and what calls hold of
        them, go along.
    fuzzy : bool
        With ``auto``: ignore the numbers of calls of operators and keep only their order. Without,
        numbers count where both runs have the same calls.

    Returns
    -------
    Pairing
        Every entry of both dumps occurs in exactly one row. A sample of a tensor follows the
        tensor; if the other side has the whole tensor, its first values are a further entry of
        that dump of the pairing. What is given for one tensor of a call takes the others of the
        call along. Only entries of the same step and rank are paired; where each side has one step
        only, or one rank, these are taken for the same whatever their numbers.

        `method` is ``name`` for equal names, ``parameter`` for those in torch's
        spelling, ``site`` for the same place of one call, ``renamed`` behind a renaming of paths,
        ``api`` for counterparts among operators, ``order``, ``shape``, ``values`` where these chose
        among equal calls, ``user`` for the mapping's.

        `confidence` is 1 for equal names (0.95 where one side has more of the
        same numbering, such as a thirteenth layer; 0.8 where both have), 0.98 for parameters by
        name, at most 0.9 where order and likeness decided. Swapping the sides mirrors the result.

        Entries that know the call they were seen in are paired by calls: equal paths of modules,
        then a renaming of paths that sure pairs show (0.95 where it holds more than once), calls
        of operators through ``tables/api_names.csv`` in the order in which they ran (at most 0.93),
        fused operators with the ends of the chain they replace (at most 0.85). What the
        frameworks define differently is at most 0.5, and its note says so.

        Where one side has more of equal calls in a row, values decide which one is additional (at
        most 0.85): calls with nearly equal tensors, or that do the same to their input up to a
        factor. Recorded statistics and checksums serve, else at most 64 MiB of values are read.
        They never part what names or order tell apart; constant tensors do not count, and without
        clear agreement the order stands. So it is where one side has more of what is called alike
        but for a number, such as saves, or passes through a module: the values that agree place
        the additional ones.

        Layers that compute the same in another way, such as a norm that a convolution holds or
        queries, keys and values in one tensor, are one pair by what comes out of them; what stands
        inside needs no partner, and its note says so.

        Entries without a partner list what they might have belonged to, of their own direction and
        role, and what speaks against it: another shape, another operator, another partner, another
        step or rank.

    Raises
    ------
    TypeError
        If `fuzzy` is neither True nor False.
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
        raise PairingError(Message("pairings.no_method", method=repr(method), known=[*matchers]))
    check_fuzzy(fuzzy)
    with uncollected():
        left, whole = as_dump(left, "left"), as_dump(right, "right")
        if mapping is not None:
            left, mapping = _made_by_map(left, whole, mapping)
        right = _in_places_of(left, whole)
        given = _labelled(_given_matches(left, right, mapping), left, right)
        # What is given of a call stays in sight, so that the rest of the call follows it.
        seen = _of_calls_on_both_sides(given, left, right)
        mine = _Entries(left, {match.left for match in given} - seen.keys())
        theirs = _Entries(right, {m.right for m in given} - {m.right for m in seen.values()})
        matches: list[Match] = []
        both = mine.groups.keys() & theirs.groups.keys()
        budget = ReadingBudget(TIES_BYTES)
        figures = Figures(left, budget), Figures(right, budget)
        for group in sorted(mine.groups.keys() | theirs.groups.keys()):
            if method in ("auto", "name") and mine.say_the_same(theirs, group):
                rows = mine.groups[group], theirs.groups[group]
                matches += [Match(*pair, "name", 1.0) for pair in zip(*rows, strict=True)]
                continue
            role = group[2]
            # States of two optimizers, or a counter on each side, need not be the same thing.
            guess = not role or method != "auto"
            matcher = matchers[method] if guess else by_names
            ways: list[Callable[[Search], None]] = [matcher]
            if method == "auto":
                ways = [partial(by_sites, fuzzy=fuzzy), matcher]
            found = _pair_place(mine.items(group), theirs.items(group), ways, figures, seen)
            one_sided = group not in both or left.format != right.format
            if role and one_sided:
                word = "state" if role in TRAINING_ROLES else "part"
                said = Message(f"pairings.one_sided_{word}")
                found = [_expected(match, said) for match in found]
            matches += found
        if method == "auto":
            matches = grouped(matches, (left, right), figures)
        given = [match for match in given if match.left not in seen]
        matches = _without_their_values(matches, left, right)
        matches = [*given, *_one_sided(matches, left, right)]
        matches = from_elsewhere(_in_left_order(matches, left, right), left, right)
        return with_first_values(Pairing.from_matches(left, whole, matches))


def check_fuzzy(fuzzy: object) -> None:
    """Raise TypeError unless it is True or False."""
    if not isinstance(fuzzy, bool | np.bool_):
        raise ArgumentTypeError(Message("pairings.no_bool", got=repr(fuzzy)))


def _in_places_of(left: Dump, right: Dump) -> Dump:
    """The right dump with the steps and ranks under which it is paired, see `places_of`."""
    columns = right.index
    for name, (_, theirs) in places_of(left, right).items():
        if theirs is not columns[name].values and (theirs != columns[name].values).any():
            columns = columns.assign({name: (columns[name].dims, theirs, columns[name].attrs)})
    return right if columns is right.index else replace(right, index=columns)


def _of_calls_on_both_sides(given: list[Match], left: Dump, right: Dump) -> dict[int, Match]:
    """The given pairs of entries that both know their call, by left row."""
    kinds = [dump.index["kind"].values for dump in (left, right)]
    return {
        match.left: match
        for match in given
        if min(match.left, match.right) >= 0
        and kinds[0][match.left] in CALL_KINDS
        and kinds[1][match.right] in CALL_KINDS
    }


def _pair_place(
    left: list[Item],
    right: list[Item],
    ways: Sequence[Callable[[Search], None]],
    figures: tuple[Figures, Figures],
    seen: Mapping[int, Match],
) -> list[Match]:
    """All rows of one step and rank; the last way takes entries that do not know their call."""
    # Where two answers are equally good, the choice must not depend on which side is left.
    if _is_before(right, left):
        turned = {m.right: m._replace(left=m.right, right=m.left) for m in seen.values()}
        return [
            match._replace(left=match.right, right=match.left)
            for match in _pair_place(right, left, ways, (figures[1], figures[0]), turned)
        ]
    parts = [(left, right)]
    # Entries that know their call on both sides are never matched by what their names look like.
    if len(ways) > 1 and all(any(item.site for item in side) for side in (left, right)):
        parts = [_of_calls(left, right, known=True), _of_calls(left, right, known=False)]
    matches = []
    for part, way in zip(parts, ways[-len(parts) :], strict=True):
        search = Search(*part, figures)
        partners = {item.row: item for item in part[1]}
        known = [(item, seen[item.row]) for item in part[0] if item.row in seen]
        search.add_matches((item, partners[match.right], match) for item, match in known)
        if part[0] and part[1]:
            given = {m.left for m in search.matches}, {m.right for m in search.matches}
            way(search)
            if way is not ways[-1]:
                settle_by_values(search, figures, given)
            elif way is by_everything:
                settle_numbered(search, figures, given)
        matches += [*search.matches, *_rest(search)]
    return matches


def _of_calls(left: list[Item], right: list[Item], *, known: bool) -> tuple[list[Item], list[Item]]:
    """The entries of both sides that know their call, or those that do not."""
    mine, theirs = ([i for i in side if (i.site is not None) == known] for side in (left, right))
    return mine, theirs


def _is_before(one: Sequence[Item], other: Sequence[Item]) -> bool:
    """Whether a side comes before the other in an order of all sides there can be."""
    for mine, theirs in zip(map(_sorting_key, one), map(_sorting_key, other), strict=False):
        if mine != theirs:
            return mine < theirs
    return len(one) < len(other)


def _sorting_key(item: Item) -> tuple[object, ...]:
    facts = item.path, item.call, item.direction, item.slot, item.name, item.ordered
    return item.shape_order, *facts


class _Entries:
    """The entries of a dump, in groups within which they are paired.

    Attributes
    ----------
    groups : dict of _Group to list of int
        Rows in the order of saving; unordered ones last, by name. An optimizer's state has the
        shape and the name of its parameter, and is never paired with it.
    """

    def __init__(self, dump: Dump, skip: set[int]) -> None:
        names = "name", "path", "call", "direction", "role", "slot", "shape"
        self._columns = dump.columns.lists(*names)
        self._sites = _site_facts(dump)
        numbered: dict[_Group, list[tuple[int, int]]] = defaultdict(list)
        others: dict[_Group, list[tuple[object, int]]] = defaultdict(list)
        where = dump.columns.rows("name", "kind", "role", "order", "step", "rank")
        for row, (name, kind, role, order, step, rank) in enumerate(where):
            if row in skip:
                continue
            group = step, rank, role if role in ASIDE_ROLES else ""
            if order >= 0 and not (kind == "file" and _is_unnumbered(name)):
                numbered[group].append((order, row))
            else:
                others[group].append((natural_key(name), row))
        self._ordered = {row for found in numbered.values() for _, row in found}
        self.groups = {
            group: [row for _, row in (*sorted(numbered[group]), *sorted(others[group]))]
            for group in {**numbered, **others}
        }

    def items(self, group: _Group) -> list[Item]:
        """The entries of a group as the matchers see them; nothing for a group that is not here."""
        columns = [*self._columns.values(), self._sites]
        items = []
        for position, row in enumerate(self.groups.get(group, ())):
            name, path, call, direction, role, slot, *facts = (column[row] for column in columns)
            run_call = (role if role in ("input", "output") else "", slot)
            place = path, call, direction, run_call
            items.append(Item(row, position, row in self._ordered, name, *place, *facts))
        return items

    def say_the_same(self, other: _Entries, group: _Group) -> bool:
        """Whether each entry of a group is called, shaped and placed as the other's in its turn.

        Then there is nothing to search. Not of entries that know their call: `by_sites` has a word
        of its own for them.
        """
        mine, theirs = self.groups.get(group, []), other.groups.get(group, [])
        if len(mine) != len(theirs) or any(self._sites[row] for row in mine):
            return False
        for name, column in self._columns.items():
            if [column[row] for row in mine] != [other._columns[name][row] for row in theirs]:
                return False
        names = self._columns["name"]
        return len({names[row] for row in mine}) == len(mine)


def _is_unnumbered(name: str) -> bool:
    """Whether an array's file has no number; its order is then that of the alphabet."""
    return parse_npy_name(name.rpartition("/")[2]).number is None


def _site_facts(dump: Dump) -> list[SiteFacts | None]:
    """What the rows of an entry with a call site say beyond its name, None for the others."""
    kinds = dump.index["kind"].values.tolist()
    if CALL_KINDS.isdisjoint(kinds):
        return [None] * len(kinds)
    names = ("layer", "role", "slot", "value", "parent", "dtype", "size")
    columns = dump.columns.lists(*names, "l2", "min", "max", "crc32").values()
    found: list[SiteFacts | None] = []
    for kind, layer, role, slot, value, parent, dtype, size, l2, low, high, crc in zip(
        kinds, *columns, strict=True
    ):
        if kind not in CALL_KINDS:
            found.append(None)
            continue
        figures = l2, low, high
        if low == high or (crc >= 0 and is_constant_checksum(f"crc32:{crc}", dtype, size)):
            # That two tensors of zeros are equal does not make them the same tensor.
            figures, crc = _UNKNOWN, -1
        found.append(SiteFacts(kind, layer, role, slot, value, parent, figures, crc))
    return found


def _labelled(given: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Pairs of a mapping; gradients that the frameworks define differently say so here as well."""
    names = (dump.index["name"].values for dump in (left, right))
    if not given or not are_of_two_frameworks(*names):
        return given
    sides = [_gradient_operators(dump) for dump in (left, right)]
    labelled = []
    for match in given:
        mine, theirs = sides[0].get(match.left), sides[1].get(match.right)
        note = backward_note(mine, theirs) if mine and theirs else ""
        labelled.append(match._replace(note=note) if note else match)
    return labelled


def _gradient_operators(dump: Dump) -> dict[int, str]:
    """The operator of every row that is a gradient which leaves one."""
    names = ("kind", "direction", "role", "path", "layer")
    rows = enumerate(dump.columns.rows(*names))
    return {
        row: operator(path, layer)
        for row, (kind, direction, role, path, layer) in rows
        if (kind, direction, role) == ("api", "backward", "output")
    }


def _given_matches(left: Dump, right: Dump, mapping: MappingLike | None) -> list[Match]:
    if mapping is None:
        return []
    if (files := _files_of(mapping)) is not None:
        notes: list[str] = []
        declared = declared_pairs(left, right, files, notes=notes)
        for text in notes:
            warnings.warn(told(text), TroubleshooterWarning, stacklevel=3)
        return declared
    rows = _RowsByName(left, "left"), _RowsByName(right, "right")
    used: tuple[set[int], set[int]] = set(), set()
    matches = []
    for number, names in enumerate(_mapped(cast("Mapping[Any, Any] | Iterable[Any]", mapping))):
        found = []
        for side in (0, 1):
            here = rows[side].of(names[side], number)
            if not used[side].isdisjoint(here.values()):
                twice = {"number": number, "name": names[side]}
                raise PairingError(Message("pairings.named_twice", **twice))
            used[side].update(here.values())
            found.append(here)
        if names[0] is None or names[1] is None:
            pairs = [(row, -1) for row in found[0].values()]
            pairs += [(-1, row) for row in found[1].values()]
            note = Message("pairings.expected")
            matches += [Match(*p, "unmatched", np.nan, note, expected=True) for p in pairs]
            continue
        places = sorted(found[0].keys() & found[1].keys())
        if not places:
            said = {"number": number, "left": names[0], "right": names[1]}
            raise PairingError(Message("pairings.no_common_place", **said))
        matches += [Match(found[0][place], found[1][place], "user", 1.0) for place in places]
    return matches


def _made_by_map(left: Dump, right: Dump, mapping: MappingLike) -> tuple[Dump, MappingLike | None]:
    """The left side as a weight map makes it and the pairs that follow; of others, as it is."""
    # Here, for only who has a map pays for it.
    from troubleshooter_nb.analysis.mapped import mapped
    from troubleshooter_nb.formats.mapping_file import is_weight_map, read_weight_map
    from troubleshooter_nb.weight_map import WeightMap

    if isinstance(mapping, (str, PathLike)) and is_weight_map(mapping):
        mapping = read_weight_map(mapping)
    if not isinstance(mapping, WeightMap):
        return left, mapping
    return mapped(left, mapping, right)


def _files_of(
    mapping: MappingLike,
) -> str | PathLike[str] | MappingFile | Sequence[MappingFile] | None:
    """The mapping file or files that are meant; None where it is names."""
    if isinstance(mapping, str | PathLike | MappingFile):
        return mapping
    if isinstance(mapping, Sequence) and any(isinstance(one, MappingFile) for one in mapping):
        return [one for one in mapping if isinstance(one, MappingFile)]
    return None


def _mapped(mapping: Mapping[Any, Any] | Iterable[Any]) -> Iterator[tuple[str | None, str | None]]:
    if not isinstance(mapping, Iterable):
        raise ArgumentTypeError(Message("pairings.no_mapping", got=type(mapping).__name__))
    pairs = mapping.items() if isinstance(mapping, Mapping) else mapping
    for number, pair in enumerate(pairs):
        is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
        if (
            not is_pair
            or not all(name is None or isinstance(name, str) for name in pair)
            or tuple(pair) == (None, None)
        ):
            raise PairingError(Message("pairings.no_pair", number=number, got=repr(pair)))
        yield pair[0], pair[1]


class _RowsByName:
    """Rows of one dump by what a mapping may call them."""

    def __init__(self, dump: Dump, side: str) -> None:
        self.where = Message(f"mappings.{side}_dump", label=dump.label)
        self.names: dict[str, dict[StepRank, int]] = defaultdict(dict)
        paths: dict[str, dict[StepRank, int]] = defaultdict(dict)
        repeated = set()
        rows = dump.columns.rows("name", "path", "step", "rank")
        for row, (name, path, step, rank) in enumerate(rows):
            self.names[name][step, rank] = row
            if (step, rank) in paths[path]:
                repeated.add(path)
            paths[path][step, rank] = row
        self.paths = {path: rows for path, rows in paths.items() if path not in repeated}

    def of(self, name: str | None, number: int) -> dict[StepRank, int]:
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
        near = closest(name, [*self.names, *self.paths])
        said = {"number": number, "name": name, "where": self.where, "closest": near}
        raise PairingError(Message("pairings.no_entry_of_row", **said))


def _rest(search: Search) -> list[Match]:
    """A row for every entry without a partner, with its closest candidates."""
    rows = []
    sides = ((search.left, search.all[1]), (search.right, search.all[0]))
    for side, (alone, others) in enumerate(sides):
        partners = {pair[1 - side].row: pair[side].name for pair in search.pairs}
        texts = near_misses(alone[:NEAR_MISS_ROWS], others, partners)
        note = "" if others else Message("pairings.nothing_of_place")
        said = search.alone[side]
        for k, item in enumerate(alone):
            pair = (item.row, -1) if side == 0 else (-1, item.row)
            near = texts[k] if k < len(texts) else ""
            rows.append(Match(*pair, "unmatched", np.nan, said.get(item.row, note), near))
    return rows


def _expected(match: Match, note: str) -> Match:
    """The match, declared expected if it has no partner."""
    alone = match.left < 0 or match.right < 0
    return match._replace(expected=True, note=note, candidates="") if alone else match


def _one_sided(matches: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Expect to be alone what the other side records of nothing: it does not tell it.

    These are batch counters, buffers such as masks, what one call adds to the gradient of its
    input, and the whole gradient of that.
    """
    for kind, note in (
        (_counts_batches, Message("pairings.no_batches")),
        (_is_buffer_of_call, Message("pairings.no_buffers")),
        (_is_own_gradient, Message("pairings.no_own_gradients")),
        (_is_whole_gradient, Message("pairings.no_whole_gradients")),
    ):
        there = kind(left.columns), kind(right.columns)
        if there[0].any() == there[1].any():
            continue
        side, alone = (0, there[0]) if there[0].any() else (1, there[1])
        rows = [(match.left, match.right)[side] for match in matches]
        matches = [
            _expected(match, note) if row >= 0 and alone[row] else match
            for match, row in zip(matches, rows, strict=True)
        ]
    return matches


def _without_their_values(matches: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Expect weights to be alone that the other side holds quantized: no value stands for them."""
    quantized = [
        {path for path, role in dump.columns.rows("path", "role") if role == "quantized"}
        for dump in (left, right)
    ]
    if not any(quantized):
        return matches
    paths = [dump.index["path"].values for dump in (left, right)]
    roles = [dump.index["role"].values for dump in (left, right)]
    note = Message("pairings.quantized_there")
    found = []
    for match in matches:
        side, row = (0, match.left) if match.right < 0 else (1, match.right)
        is_alone = min(match.left, match.right) < 0
        if is_alone and roles[side][row] == "parameter" and paths[side][row] in quantized[1 - side]:
            match = _expected(match, note)
        found.append(match)
    return found


def _counts_batches(columns: Table) -> np.ndarray:
    # A checkpoint names them in the path, a recording in the slot of a layer.
    in_path = np.array([str(path).endswith(_BATCH_COUNTER) for path in columns["path"]], bool)
    return np.asarray(in_path | (columns["slot"] == _BATCH_COUNTER), bool)


def _is_buffer_of_call(columns: Table) -> np.ndarray:
    is_forward = np.isin(columns["kind"], ("module", "api")) & (columns["direction"] == "forward")
    return np.asarray(is_forward & (columns["role"] == "buffer"), bool)


def _is_own_gradient(columns: Table) -> np.ndarray:
    return np.asarray((columns["direction"] == "backward") & (columns["role"] == "output"), bool)


def _is_whole_gradient(columns: Table) -> np.ndarray:
    facts = zip(columns["kind"], columns["role"], strict=True)
    is_whole = np.array([is_whole_gradient(*each) for each in facts], bool)
    return np.asarray(is_whole & (columns["direction"] == "backward"), bool)


def _in_left_order(matches: list[Match], left: Dump, right: Dump) -> list[Match]:
    """Left entries in their own sequence; entries only on the right follow their step and rank."""
    places = [[*dump.columns.rows("step", "rank")] for dump in (left, right)]

    def key(match: Match) -> tuple[StepRank, bool, int]:
        if match.left >= 0:
            return places[0][match.left], False, match.left
        return places[1][match.right], True, match.right

    return sorted(matches, key=key)
