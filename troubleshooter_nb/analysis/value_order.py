"""Where one side saved or ran something more often, values say which of it is additional."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.analysis.call_pairs import RunCallPair
from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.analysis.search import Item, Search, shapes_differ
from troubleshooter_nb.analysis.sequence import NEVER, align
from troubleshooter_nb.analysis.value_figures import Figures, are_near
from troubleshooter_nb.messages import Message
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.thresholds import DECIDED, DOUBTFUL, MOST_LINKED, TABLE_CELLS

_NUMBER = re.compile(r"[0-9]+")
# A number behind the name of a layer, as scripts give it to a second pass: "fc_1.input".
_VISIT = re.compile(r"_[0-9]+(?=$|[./](?:inputs?|outputs?|in|out)(?:[._/0-9]*)$)")
_Sides = tuple[Figures, Figures]


class _Placed(NamedTuple):
    """Two positions that belong together, and whether values hold them in their place."""

    left: int
    right: int
    is_held: bool


def settle_numbered(
    search: Search, figures: _Sides, given: tuple[set[int], set[int]] = (set(), set())
) -> None:
    """Pair anew, by values, what is called alike but for numbers that one side has more of.

    With ten saves here and eleven there, the additional one need not be the last; a pass more, such
    as a warm-up, puts all numbers behind it off. Where not one value more agrees in another
    arrangement, everything stays as it is.

    Parameters
    ----------
    search : Search
        With the pairs that names and order give.
    figures : (Figures, Figures)
        Of the left and the right dump.
    given : pair of sets of int
        Rows of both sides whose partner the user names: they are left alone.
    """
    if not search.left and not search.right:
        return
    sides = [
        [item for item in side if item.site is None and item.row not in rows]
        for side, rows in zip(search.all, given, strict=True)
    ]
    counts = [Counter(map(_pattern, side)) for side in sides]
    more = {key for key in counts[0].keys() & counts[1].keys() if counts[0][key] != counts[1][key]}
    left, right = (
        sorted((item for item in side if _pattern(item) in more), key=lambda item: item.position)
        for side in sides
    )
    of_row = [{item.row: k for k, item in enumerate(side)} for side in (left, right)]
    pairs = [(of_row[0].get(a.row, -1), of_row[1].get(b.row, -1)) for a, b in search.pairs]
    # What names put together with something else is not taken apart.
    bound = {i for i, j in pairs if j < 0}, {j for i, j in pairs if i < 0}
    old = {(i, j) for i, j in pairs if min(i, j) >= 0}
    keys = [[_key(item) for item in side] for side in (left, right)]
    for side, numbers in enumerate(bound):
        for number in numbers - {-1}:
            keys[side][number] = None
    equal = _equal(figures, (left, right))
    if all(item.ordered for side in (left, right) for item in side):
        new = _aligned(keys, equal, old)
    else:
        names = [
            [None if key is None else _name(item) for key, item in zip(*both, strict=True)]
            for both in zip(keys, (left, right), strict=True)
        ]
        new = _by_visits(names, equal, old) or _series_by_series(keys, equal, old)
    if not new:
        return
    placed = {keys[0][one.left] for one in new}
    parted = old - {(one.left, one.right) for one in new}
    search.drop({left[i].row for i, _ in parted if keys[0][i] in placed})
    kept = {left.row for left, _ in search.pairs}
    search.add_matches(
        (left[i], right[j], _match(left[i], right[j], is_held=is_held))
        for i, j, is_held in new
        if left[i].row not in kept
    )
    taken = {left.row for left, _ in search.pairs}, {right.row for _, right in search.pairs}
    for side, items in enumerate((left, right)):
        note = Message("pairings.outvalued")
        alone = (
            item.row
            for item, key in zip(items, keys[side], strict=True)
            if item.row not in taken[side] and key in placed
        )
        search.alone[side].update(dict.fromkeys(alone, note))


def equal_values(search: Search) -> list[tuple[Item, Item]]:
    """Leftovers of one shape that hold the same values, which no other leftover holds.

    Where both sides have an order, those that cross others are left out: values in each other's
    place are a fault, and not two other names.
    """
    figures = search.figures
    if figures is None or not search.left or not search.right:
        return []
    groups: dict[Hashable, tuple[list[Item], list[Item]]] = {}
    for side, items in enumerate((search.left, search.right)):
        for item in items:
            if item.shape is not None:
                groups.setdefault(item.shape, ([], []))[side].append(item)
    pairs = []
    for mine, theirs in groups.values():
        if mine and theirs and max(len(mine), len(theirs)) <= MOST_LINKED:
            agree = _equal(figures, (mine, theirs))
            only = agree & (agree.sum(1) == 1)[:, None] & (agree.sum(0) == 1)[None, :]
            pairs += [(mine[i], theirs[j]) for i, j in np.argwhere(only).tolist()]
    pairs = [(a, b) for a, b in pairs if not a.direction or a.direction == b.direction]
    if not all(item.ordered for pair in pairs for item in pair):
        return pairs
    pairs.sort(key=lambda pair: pair[0].position)
    places = [b.position for _, b in pairs]
    before = [-1, *accumulate(places, max)]
    behind = [*[*accumulate(reversed(places), min)][::-1][1:], 1 << 62]
    return [pair for k, pair in enumerate(pairs) if before[k] < places[k] < behind[k]]


def visits_by_values(
    left: Sequence[RunCall], right: Sequence[RunCall], figures: _Sides
) -> list[RunCallPair]:
    """Calls that one side made more often, paired by what they were given.

    Those of modules; where none were recorded, those of operators, if one side made whole passes
    more: as many times more of each.

    Parameters
    ----------
    left, right : sequence of RunCall
    figures : (Figures, Figures)
        Of the left and the right dump.

    Returns
    -------
    list of RunCallPair
        Empty where values say nothing, or nothing but what the numbers of the calls say.
    """
    # Of a module there may be gradients of its parameters alone.
    sides = [[call for call in side if _given_to(call) is not None] for side in (left, right)]
    is_of_modules = any(call.is_module for side in sides for call in side)
    sides = [
        [call for call in side if (call.is_module if is_of_modules else call.kind == "api")]
        for side in sides
    ]
    counts = [Counter(call.path for call in side) for side in sides]
    more = {
        path for path in counts[0].keys() & counts[1].keys() if counts[0][path] != counts[1][path]
    }
    if not more or not (is_of_modules or _is_repeated(*counts)):
        return []
    mine, theirs = (
        sorted((call for call in side if call.path in more), key=lambda call: call.position)
        for side in sides
    )
    keys = [
        [call.path if is_of_modules else (call.path, call.signature) for call in side]
        for side in (mine, theirs)
    ]
    numbers = {(call.path, call.call): j for j, call in enumerate(theirs)}
    old = {
        (i, numbers[call.path, call.call])
        for i, call in enumerate(mine)
        if (call.path, call.call) in numbers
    }
    items = tuple([_given_to(call) for call in side] for side in (mine, theirs))
    new = _aligned(keys, _equal(figures, (items[0], items[1])), old)
    note = Message("calls.visits_by_values")
    return [
        RunCallPair(mine[i], theirs[j], "values", DECIDED[1] if is_held else DOUBTFUL, note)
        for i, j, is_held in new
    ]


def _is_repeated(left: Counter[str], right: Counter[str]) -> bool:
    """Whether one side has as many times more of everything."""
    if left.keys() != right.keys():
        return False
    ratios = {max(left[key], right[key]) / min(left[key], right[key]) for key in left}
    return len(ratios) == 1 and ratios.pop().is_integer()


def _given_to(call: RunCall) -> Item | None:
    """What says best which call it is: what it was given, else what it gave."""
    found = call.leaves("forward", "input") or call.leaves("forward", "output")
    return next((item for item in found if item.shape is not None), None)


def _pattern(item: Item) -> Hashable:
    return _NUMBER.sub("#", _VISIT.sub("", item.path)), item.direction, item.slot


def _name(item: Item) -> Hashable:
    """What all passes through one layer share."""
    return _VISIT.sub("", item.path), item.direction, item.slot, item.shape


def _key(item: Item) -> Hashable:
    return _pattern(item), item.shape


def _match(left: Item, right: Item, *, is_held: bool) -> Match:
    note = Message("calls.other_shape") if shapes_differ(left, right) else ""
    note = note or Message("pairings.placed_by_values")
    return Match(left.row, right.row, "values", DECIDED[1] if is_held else DOUBTFUL, note)


def _equal(
    figures: _Sides, sides: tuple[Sequence[Item | None], Sequence[Item | None]]
) -> np.ndarray:
    """Where the values of two entries are the same, as far as figures tell: shape (left, right)."""
    size = len(sides[0]), len(sides[1])
    if not all(size) or size[0] * size[1] > TABLE_CELLS:
        return np.zeros(size, bool)
    rows = [[item.row for item in side if item is not None] for side in sides]
    wanted = sum(of.cost(some, exact=True) for of, some in zip(figures, rows, strict=True))
    read = figures[0].budget.spend(wanted)
    known, texts, tolerances = [], [], [0.0]
    for of, side in zip(figures, sides, strict=True):
        unknown = np.full(of.width, np.nan)
        known.append(np.array([unknown if i is None else of.of(i.row, read=read) for i in side]))
        texts.append(["" if i is None else of.exactly(i.row, read=read) for i in side])
        tolerances += [of.tolerance(i.row) for i in side if i is not None]
    limit = max(tolerances)
    table = np.array([are_near(one, known[1], limit) for one in known[0]], bool).reshape(size)
    same = [[bool(a) and a == b for b in texts[1]] for a in texts[0]]
    return np.asarray(table | np.array(same, bool).reshape(size))


def _aligned(
    keys: Sequence[Sequence[Hashable]], equal: np.ndarray, old: set[tuple[int, int]]
) -> list[_Placed]:
    """Most values that agree and are no other's, then most pairs, in order; else nothing.

    Nothing as well where no more values agree than in the pairs there are.
    """
    fits = _fitting(keys)
    agree, only = equal & fits, _only(keys, equal)
    if only.sum() <= sum(bool(only[pair]) for pair in old):
        return []
    most = 3 * min(fits.shape) + 3

    def gain(i: int) -> np.ndarray:
        return np.where(fits[i], 2 + agree[i] + most * only[i], NEVER)

    pairs = align(gain, *fits.shape)
    if sum(bool(only[pair]) for pair in pairs) <= sum(bool(only[pair]) for pair in old):
        return []
    held = _held(pairs, only, fits.shape)
    return [_Placed(i, j, is_held) for (i, j), is_held in zip(pairs, held, strict=True)]


def _fitting(keys: Sequence[Sequence[Hashable]]) -> np.ndarray:
    """Where two keys are the same and not None, shape (left, right)."""
    codes: dict[Hashable, int] = {None: -1}
    mine, theirs = (
        np.array([codes.setdefault(key, len(codes)) for key in side], np.int64) for side in keys
    )
    return np.asarray((mine[:, None] == theirs[None, :]) & (mine >= 0)[:, None])


def _only(keys: Sequence[Sequence[Hashable]], equal: np.ndarray) -> np.ndarray:
    """Where values agree that no other does; those that one side has twice place nothing."""
    agree = equal & _fitting(keys)
    return np.asarray(agree & (agree.sum(1) == 1)[:, None] & (agree.sum(0) == 1)[None, :])


def _by_visits(
    keys: Sequence[Sequence[Hashable]], equal: np.ndarray, old: set[tuple[int, int]]
) -> list[_Placed]:
    """As `_aligned` of what has no order: as one pass of a side is the other's, so are all of it.

    Where an entry stands among those called alike says which pass it is of. The passes of the side
    that has fewer are the first or the last of the other, if all values that agree say the same.
    """
    places: list[dict[Hashable, list[int]]] = []
    for side in keys:
        places.append({})
        for number, key in enumerate(side):
            places[-1].setdefault(key, []).append(number)
    only = _only(keys, equal)
    if only.sum() <= sum(bool(only[pair]) for pair in old):
        return []
    agreeing = {*map(tuple, np.argwhere(only).tolist())}
    shared = [key for key in places[0].keys() & places[1].keys() if key is not None]
    for at_end in (False, True):
        pairs = [
            pair
            for key in shared
            for pair in _side_by_side(places[0][key], places[1][key], at_end=at_end)
        ]
        if agreeing <= {*pairs}:
            return [_Placed(i, j, True) for i, j in sorted(pairs)]
    return []


def _series_by_series(
    keys: Sequence[Sequence[Hashable]], equal: np.ndarray, old: set[tuple[int, int]]
) -> list[_Placed]:
    """As `_aligned`, each series on its own: nothing says how one lies to another."""
    found: list[_Placed] = []
    for key in dict.fromkeys(keys[0]):
        rows = [[k for k, other in enumerate(side) if other == key] for side in keys]
        if key is None or not all(rows):
            continue
        at = [{row: k for k, row in enumerate(some)} for some in rows]
        inside = {(at[0][i], at[1][j]) for i, j in old if i in at[0] and j in at[1]}
        same = [[key] * len(side) for side in rows]
        placed = _aligned(same, equal[np.ix_(*rows)], inside)
        found += [_Placed(rows[0][i], rows[1][j], is_held) for i, j, is_held in placed]
    return found


def _side_by_side(
    left: Sequence[int], right: Sequence[int], *, at_end: bool
) -> list[tuple[int, int]]:
    """The first of both, or the last, as many as both have."""
    count = min(len(left), len(right))
    start = (len(left) - count, len(right) - count) if at_end else (0, 0)
    return [*zip(left[start[0] :][:count], right[start[1] :][:count], strict=True)]


def _held(pairs: Sequence[tuple[int, int]], only: np.ndarray, size: Iterable[int]) -> list[bool]:
    """Which pairs values hold: they agree, or lie where both sides have equally many between such.

    Behind the last that agree, as behind where two networks part, it is enough that nothing is
    left over: all that one side has is paired there.
    """
    anchors = [(-1, -1), *(pair for pair in pairs if only[pair]), tuple(size)]
    found = []
    for i, j in pairs:
        before = max(anchor for anchor in anchors if anchor <= (i, j))
        behind = min(anchor for anchor in anchors if anchor >= (i, j))
        found.append(behind[0] - before[0] == behind[1] - before[1])
    return found
