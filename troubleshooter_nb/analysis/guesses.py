"""Pairs that no equal name proves: likeness, shape, order and the layer around an entry."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.search import SEPARATOR, Item, Search, equal
from troubleshooter_nb.analysis.sequence import NEVER, align, longest_increasing
from troubleshooter_nb.analysis.value_order import equal_values
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import Likeness


def guess_pairs(search: Search) -> None:
    """Pair leftovers: clearly alike names first, then by layers and in order, then the crumbs."""
    if not search.left or not search.right:
        return
    sure = {left.row for left, _ in search.pairs}
    # In order both; without one, values in each other's place are told by names that are alike.
    if all(item.ordered for item in (*search.left, *search.right)):
        _by_equal_values(search)
    _by_alike_names(search)
    _by_equal_values(search)
    _by_layers(search)
    for left, right in _gaps(search):
        _by_alignment(search, left, right)
    if 2 * min(len(search.left), len(search.right)) > min(map(len, search.all)):
        # What is paired so far does not stand in the order of the rest.
        _by_alignment(search, search.left, search.right)
    _drop_strays(search, sure)
    _by_layers(search)
    _by_what_is_left(search)


def _by_equal_values(search: Search) -> None:
    """Values that no other of the rest holds."""
    note = Message("pairings.equal_values")
    search.add(equal_values(search), "values", lambda *_: thresholds.DECIDED[1], note)


def _by_alike_names(search: Search) -> None:
    """Names that are each other's likest by far, in any order."""
    for _ in range(thresholds.GUESS_ROUNDS):
        left, right = search.left, search.right
        if not left or not right:
            return
        found = _mutual_best(_Fitting(search, left, right))
        if not found:
            return
        guess = {left[i].row: likeness for i, _, likeness in found}
        search.add(
            [(left[i], right[j]) for i, j, _ in found],
            "name",
            lambda a, b: _guess_of_names(a, b, guess[a.row]),  # noqa: B023
            note=Message("pairings.names_alike"),
        )


def _by_alignment(
    search: Search, left: Sequence[Item], right: Sequence[Item], note: str = ""
) -> bool:
    """Equal shapes in the same order, as many as possible; likeness of names breaks ties."""
    pairs = _aligned(search, left, right, 1000)
    counts = [Counter(item.shape for item in side) for side in (left, right)]
    same_sequence = [item.shape for item in left] == [item.shape for item in right]
    alike = {a.row: likeness for a, _, likeness in pairs}
    # Where the names of both sides mean something and yet are not alike, order is a weak reason.
    both_tell = search.tells_apart

    def confidence(a: Item, b: Item) -> float:
        mine, theirs = (count[a.shape] for count in counts)
        base = thresholds.LOOSE if mine == theirs else thresholds.VAGUE
        if same_sequence or mine == theirs == 1:
            base = thresholds.SUREST_GUESS
        if both_tell and alike[a.row] < thresholds.ALIKE:
            return min(base, thresholds.SURE_UNLIKE)
        return max(base, _guess_of_names(a, b, alike[a.row]))

    search.add([(a, b) for a, b, _ in pairs], "order", confidence, note)
    return bool(pairs)


def _aligned(
    search: Search,
    left: Sequence[Item],
    right: Sequence[Item],
    worth: int,
    least: float = 0.0,
) -> list[tuple[Item, Item, float]]:
    """Pairs in order with the most of `worth` each and 500 times likeness, and that likeness."""
    known = {item.shape for item in left} & {item.shape for item in right}
    left, right = ([item for item in side if item.shape in known] for side in (left, right))
    if not left or not right:
        return []
    fitting = _Fitting(search, left, right)

    def gain(i: int) -> np.ndarray:
        likeness = fitting.likeness.row(i)
        # Whole numbers, so that equally good ways compare equal.
        gains = worth + np.round(500 * likeness).astype(np.int64)
        return np.where(fitting.row(i) & (likeness >= least), gains, NEVER)

    pairs = align(gain, len(left), len(right))
    return [(left[i], right[j], float(fitting.likeness.row(i)[j])) for i, j in pairs]


def _drop_strays(search: Search, sure: set[int]) -> None:
    """Part the guesses that lead out of the layer in which most of their neighbours' pairs lie.

    Where one side saves the parameters of a layer in another order than the other, an alignment
    in order pairs what is left of one layer with the next one's.
    """
    if len(search.pairs) == len(sure):
        return
    partners = _partner_layers(search.pairs)
    mirrored = _partner_layers([(right, left) for left, right in search.pairs])

    def leads_out(layers: Sequence[str], into: Sequence[str], of: dict[str, str]) -> bool:
        return any(layer in of and of[layer] not in into for layer in layers)

    strays = {
        left.row
        for left, right in search.pairs
        if left.row not in sure
        # On both sides: a network that is called so here only, "transformer.wte" against "tok",
        # has most of its pairs in the other's "blocks", and this one is right all the same.
        and leads_out(left.layers, right.layers, partners)
        and leads_out(right.layers, left.layers, mirrored)
    }
    search.drop(strays)


def _by_layers(search: Search) -> None:
    """Leftovers inside layers that belong together because of other pairs, the innermost first."""
    if not search.left or not search.right:
        return
    partners = _partner_layers(search.pairs)
    inside: list[dict[str, list[Item]]] = []
    for items in (search.left, search.right):
        inside.append(defaultdict(list))
        for item in items:
            for layer in item.layers:
                inside[-1][layer].append(item)
    taken: tuple[set[int], set[int]] = set(), set()
    known = 0
    for layer in sorted(partners, key=lambda layer: (-len(SEPARATOR.findall(layer)), layer)):
        found = bool(inside[0][layer] and inside[1][partners[layer]])
        # Again, as an alignment in order leaves out what stands crosswise.
        while found:
            for item, other in search.pairs[known:]:
                taken[0].add(item.row)
                taken[1].add(other.row)
            known = len(search.pairs)
            left = [item for item in inside[0][layer] if item.row not in taken[0]]
            right = [item for item in inside[1][partners[layer]] if item.row not in taken[1]]
            note = Message("pairings.same_layer")
            found = bool(left and right) and _by_alignment(search, left, right, note)


def _by_what_is_left(search: Search) -> None:
    """Pairs that break the order of the others: somewhat alike, or the only ones of their shape."""
    pairs = _aligned(search, search.left, search.right, 0, thresholds.BARELY_ALIKE)
    search.add([(a, b) for a, b, _ in pairs], "order", lambda *_: thresholds.VAGUE)

    def place(item: Item) -> Hashable:
        return item.spelled, "" if item.leaf else item.direction, item.slot

    search.add(equal(search, place), "name", lambda *_: thresholds.DOUBTFUL)
    # That both are the only number left says nothing.
    left, right = ([i for i in side if i.shape != ()] for side in (search.left, search.right))
    if left and right:
        only = _only_ones(_Fitting(search, left, right))
        search.add([(left[i], right[j]) for i, j in only], "shape", lambda *_: thresholds.VAGUE)


class _Fitting:
    """Which leftovers could be partners at all, row by row, and how alike their names are.

    They have the same known shape; a weight is no bias; and where both sides hold forward and
    backward, a gradient is no output.
    """

    def __init__(self, search: Search, left: Sequence[Item], right: Sequence[Item]) -> None:
        self.size = len(left), len(right)
        both_ways = search.is_directed
        self._shapes = _coded(left, right, lambda item: item.shape)
        self._others = (
            _coded(left, right, lambda item: item.leaf),
            _coded(left, right, lambda item: item.direction if both_ways else None),
        )
        mine, theirs = search.prefixes
        self.likeness = Likeness(
            [item.path.removeprefix(mine) for item in left],
            [item.path.removeprefix(theirs) for item in right],
        )

    def same_shape(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions on both sides that have one shape, for every known shape both have."""
        for shape in np.intersect1d(*self._shapes):
            if shape >= 0:
                left, right = (np.flatnonzero(side == shape) for side in self._shapes)
                yield left, right

    def row(self, i: int, right: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Whether left `i` and these positions on the right could be partners: bool."""
        shapes = self._shapes[1][right]
        fits: np.ndarray = (shapes == self._shapes[0][i]) & (shapes >= 0)
        for mine, theirs in self._others:
            if mine[i] >= 0:
                fits &= (theirs[right] == mine[i]) | (theirs[right] < 0)
        return fits

    def likeness_where_fits(self, i: int, right: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Likeness of left `i` and these on the right, 0 where they cannot be partners."""
        return np.where(self.row(i, right), self.likeness.row(i, right), np.float32(0))


def _only_ones(fitting: _Fitting) -> Iterator[tuple[int, int]]:
    """Positions that fit each other and nothing else."""
    for left, right in fitting.same_shape():
        if len(left) * len(right) > thresholds.TABLE_CELLS:
            continue
        fits = np.array([fitting.row(i, right) for i in left])
        alone = (fits.sum(axis=1) == 1)[:, None] & (fits.sum(axis=0) == 1)[None, :]
        for i, j in np.argwhere(fits & alone):
            yield int(left[i]), int(right[j])


def _mutual_best(fitting: _Fitting) -> list[tuple[int, int, float]]:
    """Positions whose names are alike, and clearly more so than with any other that fits."""
    found = []
    for left, right in fitting.same_shape():
        if len(left) * len(right) > thresholds.TABLE_CELLS:
            continue  # the order tells more about so many of one shape
        likeness = np.array([fitting.likeness_where_fits(i, right) for i in left])
        rivals = _second(likeness, 1)[:, None], _second(likeness, 0)[None, :]
        lead = likeness - np.maximum(*rivals)
        for i, j in np.argwhere((likeness >= thresholds.ALIKE) & (lead >= thresholds.ALIKE_MARGIN)):
            found.append((int(left[i]), int(right[j]), float(likeness[i, j])))
    return found


def _second(table: np.ndarray, axis: int) -> np.ndarray:
    """The second largest value along an axis, 0 where there is only one."""
    if table.shape[axis] == 1:
        return np.zeros(table.shape[1 - axis], table.dtype)
    second: np.ndarray = np.partition(table, -2, axis).take(-2, axis)
    return second


def _guess_of_names(left: Item, right: Item, likeness: float) -> float:
    """Confidence from likeness; low where the names are the same but for their numbers."""
    texts = [re.sub(r"\d+", "*", item.path) for item in (left, right)]
    other_number = texts[0] == texts[1] and left.path != right.path
    return thresholds.SURE_OTHER_NUMBER if other_number else _guess(likeness)


def _guess(likeness: float) -> float:
    """Confidence from the likeness of two names."""
    return min(thresholds.SUREST_GUESS, thresholds.VAGUE + thresholds.LIKENESS_WORTH * likeness)


def _gaps(search: Search) -> Iterator[tuple[list[Item], list[Item]]]:
    """Leftovers between the same two pairs, of the pairs that stand in the same order."""
    pairs = sorted((a.position, b.position) for a, b in search.pairs)
    kept = [pairs[k] for k in longest_increasing([b for _, b in pairs])]
    gaps: dict[int, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
    for side, items in enumerate((search.left, search.right)):
        bounds = np.array([pair[side] for pair in kept], np.int64)
        where = np.searchsorted(bounds, [item.position for item in items])
        for item, gap in zip(items, where, strict=True):
            gaps[int(gap)][side].append(item)
    for gap in sorted(gaps):
        left, right = gaps[gap]
        if left and right:
            yield left, right


def _partner_layers(pairs: Sequence[tuple[Item, Item]]) -> dict[str, str]:
    """For each layer on the left the one on the right that most pairs of both lie in, if any."""
    mine, theirs, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for left, right in pairs:
        mine.update(left.layers)
        theirs.update(right.layers)
        both.update(product(left.layers, right.layers))
    partners: dict[str, tuple[float, int, str]] = {}
    for (a, b), votes in both.items():
        share = votes / max(mine[a], theirs[b])
        if share > 0.5:
            partners[a] = max(partners.get(a, (0.0, 0, "")), (share, len(b), b))
    return {a: b for a, (_, _, b) in partners.items()}


def _coded(
    left: Sequence[Item], right: Sequence[Item], value: Callable[[Item], Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    """The values of both sides as numbers, -1 for None."""
    codes: dict[Hashable, int] = {None: -1}
    sides = [
        np.array([codes.setdefault(value(item), len(codes)) for item in side], np.int64)
        for side in (left, right)
    ]
    return sides[0], sides[1]
