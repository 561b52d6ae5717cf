"""The ways to find pairs among the entries of one step and rank: by name, order, shape or all."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np

from troubleshooter_nb.analysis.likeness import Likeness
from troubleshooter_nb.analysis.sequence import (
    NEVER,
    align,
    longest_increasing,
    shape_edit_distance,
)
from troubleshooter_nb.naming import (
    canonical_parameter,
    likely_parameter,
    parameter_leaf,
    without_position,
)
from troubleshooter_nb.pairing import Match

# A part in front of at least this share of a side's names is what that side calls the network.
_PREFIX_SHARE = 0.8
_MOST_PREFIXES, _MOST_LAYERS = 6, 12
# A name is recognised without help from the order when it is this alike and nothing else nearly so.
_ALIKE, _MARGIN, _ROUNDS = 0.5, 0.1, 3
_BARELY_ALIKE = 0.3
# Tables of more pairs of one shape than this are not made.
_MOST_CELLS = 4_000_000
# What order, shape and likeness say is never as sure as an equal name.
_SUREST_GUESS = 0.9
_DIGITS = re.compile(r"[0-9]+")
_SEPARATOR = re.compile(r"[./]")

_Certainty = Callable[["Item", "Item"], float]


@dataclass(frozen=True)
class Item:
    """One entry as the matchers see it.

    Attributes
    ----------
    row : int
        In the dump.
    position : int
        In the sequence of its step and rank.
    ordered : bool
        Whether that sequence says anything: files without number stand by their name.
    name, path, call, direction, slot, shape
        As in `DUMP_COLUMNS`; `slot` with the role if that is input or output.
    """

    row: int
    position: int
    ordered: bool
    name: str
    path: str
    call: int
    direction: str
    slot: tuple[str, str]
    shape: str

    @cached_property
    def spelled(self) -> str:
        """The path, in torch's spelling if it is a parameter's."""
        return canonical_parameter(without_position(self.path)) or self.path

    @cached_property
    def likely(self) -> str:
        """Like `spelled`, with MindSpore's ambiguous spellings replaced as well."""
        return likely_parameter(without_position(self.path)) or self.path

    @cached_property
    def leaf(self) -> str | None:
        """Torch's name of the parameter's last part, None for anything else."""
        return parameter_leaf(without_position(self.path))

    @cached_property
    def layers(self) -> list[str]:
        """What the entry lies in, from the outermost to the innermost: ``a``, ``a.b``."""
        ends = [match.start() for match in _SEPARATOR.finditer(self.path)]
        return [self.path[:end] for end in ends[:_MOST_LAYERS]]


class Search:
    """What is paired so far of two sides of one step and rank, and what is left over."""

    def __init__(self, left: Sequence[Item], right: Sequence[Item]) -> None:
        self.all = tuple(left), tuple(right)
        self.left, self.right = list(left), list(right)
        self.pairs: list[tuple[Item, Item]] = []
        self.matches: list[Match] = []

    def add(
        self,
        pairs: Iterable[tuple[Item, Item]],
        method: str,
        confidence: Callable[[Item, Item], float],
        note: str = "",
    ) -> None:
        """Take these pairs of leftovers over."""
        for left, right in pairs:
            text = note or ("other shape" if shapes_differ(left, right) else "")
            sure = round(confidence(left, right), 2)
            self.pairs.append((left, right))
            self.matches.append(Match(left.row, right.row, method, sure, text))
        self._find_leftovers()

    def drop(self, wrong: set[int]) -> None:
        """Part the pairs of these left rows again."""
        kept = [k for k, (left, _) in enumerate(self.pairs) if left.row not in wrong]
        self.pairs = [self.pairs[k] for k in kept]
        self.matches = [self.matches[k] for k in kept]
        self._find_leftovers()

    def _find_leftovers(self) -> None:
        taken = {left.row for left, _ in self.pairs}, {right.row for _, right in self.pairs}
        self.left, self.right = (
            [item for item in side if item.row not in rows]
            for side, rows in zip(self.all, taken, strict=True)
        )


def by_name(search: Search) -> None:
    """Equal entry names."""
    search.add(_equal(search, lambda item: item.name), "name", lambda *_: 1.0)


def by_order(search: Search) -> None:
    """First with first."""
    _unordered_by_name(search)
    surest = _SUREST_GUESS if len(search.left) == len(search.right) else 0.5
    search.add(
        list(zip(search.left, search.right, strict=False)),
        "order",
        lambda a, b: surest if a.shape and a.shape == b.shape else 0.2,
    )


def by_shape(search: Search) -> None:
    """Shape edit distance."""
    _unordered_by_name(search)
    left, right = search.left, search.right
    pairs = shape_edit_distance([a.shape for a in left], [b.shape for b in right])
    search.add(
        [(left[i], right[j]) for i, j in pairs],
        "shape",
        lambda a, b: 0.6 if a.shape == b.shape else 0.2,
    )


def by_everything(search: Search) -> None:
    """Names as far as they go, then the layer around an entry, its shape and the order."""
    _by_equal_paths(search)
    _by_parameter_names(search, lambda item: item.spelled, 0.98)
    _by_parameter_names(search, lambda item: item.likely, _SUREST_GUESS)
    sure = {left.row for left, _ in search.pairs}
    _by_alike_names(search)
    for left, right in _gaps(search):
        _by_alignment(search, left, right)
    if 2 * min(len(search.left), len(search.right)) > min(map(len, search.all)):
        # What is paired so far does not stand in the order of the rest.
        _by_alignment(search, search.left, search.right)
    _drop_strays(search, sure)
    _by_layers(search)
    _by_what_is_left(search)


def shapes_differ(left: Item, right: Item) -> bool:
    """Whether both shapes are known and not the same."""
    return bool(left.shape and right.shape and left.shape != right.shape)


def _unordered_by_name(search: Search) -> None:
    """Files without number have no order, only the alphabet's: equal names go before it."""
    equal = _equal(search, lambda item: None if item.ordered else item.name)
    search.add(equal, "name", lambda *_: 1.0)


def _by_equal_paths(search: Search) -> None:
    confidence = _sure(search, lambda item: item.path, lambda item: item.path, 1.0)
    equal = _equal(search, lambda item: (item.path, item.call, item.direction, item.slot))
    # A position in a list is a weaker name than a shape: one side's list may have one more item.
    named = [
        (a, b)
        for a, b in equal
        if not (shapes_differ(a, b) and _SEPARATOR.split(a.path)[-1].isdigit())
    ]
    search.add(named, "name", confidence)
    search.add(_equal(search, lambda item: item.name), "name", confidence)


def _by_parameter_names(search: Search, spelling: Callable[[Item], str], confidence: float) -> None:
    """Equal names in one spelling, behind what each side has in front of (nearly) all of its own.

    Of the prefixes that come into question, the two that make most names equal are taken first.
    """
    choices = [_prefixes([spelling(item) for item in side]) for side in search.all]
    while search.left and search.right:
        tried = [(_behind(search, spelling, pair), pair) for pair in product(*choices)]
        pairs, prefixes = max(tried, key=lambda t: (len(t[0]), -len(t[1][0]) - len(t[1][1])))
        if not pairs:
            return
        left, right = (_Rest(spelling, prefix) for prefix in prefixes)
        sure = _sure(search, left, right, confidence)

        def certainty(a: Item, b: Item, rest: _Rest = left, sure: _Certainty = sure) -> float:
            # "weight" behind "conv1." here and "conv2." there need not be the same layer's.
            unproved = rest.prefix and not _SEPARATOR.search(rest(a))
            return min(sure(a, b), 0.85 if unproved else 1.0, 1.0 if a.leaf else _SUREST_GUESS)

        search.add([pair for pair in pairs if pair[0].leaf], "parameter", certainty)
        search.add([pair for pair in pairs if not pair[0].leaf], "name", certainty)


@dataclass(frozen=True)
class _Rest:
    """What a name has behind a prefix; empty for a name that does not begin with it."""

    spelling: Callable[[Item], str]
    prefix: str

    def __call__(self, item: Item) -> str:
        path = self.spelling(item)
        return path[len(self.prefix) :] if path.startswith(self.prefix) else ""


def _behind(
    search: Search, spelling: Callable[[Item], str], prefixes: Sequence[str]
) -> list[tuple[Item, Item]]:
    directed = _directed(search)

    def key(item: Item, rest: str) -> Hashable:
        # Whether a folder is called "grads" says nothing about the parameter in it.
        direction = item.direction if directed or item.leaf is None else ""
        return (rest, item.call, direction, item.slot) if rest else None

    left, right = (_Rest(spelling, prefix) for prefix in prefixes)
    pairs = _equal(search, lambda item: key(item, left(item)), lambda item: key(item, right(item)))
    same = sum(not shapes_differ(a, b) for a, b in pairs)
    # Another shape does not make it another layer where the names of most prove themselves.
    proved = 2 * same >= len(pairs) or not any(prefixes)

    def is_named(a: Item, b: Item) -> bool:
        plain = (spelling(a), spelling(b)) == (a.spelled, b.spelled)
        return proved and plain and _SEPARATOR.search(left(a)) is not None

    return [(a, b) for a, b in pairs if not shapes_differ(a, b) or is_named(a, b)]


def _by_alike_names(search: Search) -> None:
    """Names that are each other's likest by far, in any order."""
    for _ in range(_ROUNDS):
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
            lambda a, _: _guess(guess[a.row]),  # noqa: B023
            note="names alike",
        )


def _by_alignment(
    search: Search, left: Sequence[Item], right: Sequence[Item], note: str = ""
) -> bool:
    """Equal shapes in the same order, as many as possible; likeness of names breaks ties."""
    pairs = _aligned(search, left, right, 1000)
    counts = [Counter(item.shape for item in side) for side in (left, right)]
    same_sequence = [item.shape for item in left] == [item.shape for item in right]
    alike = {a.row: likeness for a, _, likeness in pairs}

    def confidence(a: Item, _: Item) -> float:
        mine, theirs = (count[a.shape] for count in counts)
        base = 0.7 if mine == theirs else 0.4
        if same_sequence or mine == theirs == 1:
            base = _SUREST_GUESS
        return max(base, _guess(alike[a.row]))

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
    for layer in sorted(partners, key=lambda layer: (-len(_SEPARATOR.findall(layer)), layer)):
        found = bool(inside[0][layer] and inside[1][partners[layer]])
        # Again, as an alignment in order leaves out what stands crosswise.
        while found:
            taken = {item.row for item, _ in search.pairs}, {item.row for _, item in search.pairs}
            left = [item for item in inside[0][layer] if item.row not in taken[0]]
            right = [item for item in inside[1][partners[layer]] if item.row not in taken[1]]
            found = bool(left and right) and _by_alignment(search, left, right, "same layer")


def _by_what_is_left(search: Search) -> None:
    """Pairs that break the order of the others: somewhat alike, or the only ones of their shape."""
    pairs = _aligned(search, search.left, search.right, 0, _BARELY_ALIKE)
    search.add([(a, b) for a, b, _ in pairs], "order", lambda *_: 0.4)

    def place(item: Item) -> Hashable:
        return item.spelled, "" if item.leaf else item.direction, item.slot

    search.add(_equal(search, place), "name", lambda *_: 0.5)
    left, right = search.left, search.right
    if left and right:
        only = _only_ones(_Fitting(search, left, right))
        search.add([(left[i], right[j]) for i, j in only], "shape", lambda *_: 0.4)


class _Fitting:
    """Which leftovers could be partners at all, row by row, and how alike their names are.

    They have the same known shape; a weight is no bias; and where both sides hold forward and
    backward, a gradient is no output.
    """

    def __init__(self, search: Search, left: Sequence[Item], right: Sequence[Item]) -> None:
        self.size = len(left), len(right)
        directed = _directed(search)
        self._shapes = _coded(left, right, lambda item: item.shape or None)
        self._others = (
            _coded(left, right, lambda item: item.leaf),
            _coded(left, right, lambda item: item.direction if directed else None),
        )
        prefixes = [_prefixes([item.path for item in side])[-1] for side in search.all]
        self.likeness = Likeness(
            [item.path.removeprefix(prefixes[0]) for item in left],
            [item.path.removeprefix(prefixes[1]) for item in right],
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
        if len(left) * len(right) > _MOST_CELLS:
            continue
        fits = np.array([fitting.row(i, right) for i in left])
        alone = (fits.sum(axis=1) == 1)[:, None] & (fits.sum(axis=0) == 1)[None, :]
        for i, j in np.argwhere(fits & alone):
            yield int(left[i]), int(right[j])


def _mutual_best(fitting: _Fitting) -> list[tuple[int, int, float]]:
    """Positions whose names are alike, and clearly more so than with any other that fits."""
    found = []
    for left, right in fitting.same_shape():
        if len(left) * len(right) > _MOST_CELLS:
            continue  # the order tells more about so many of one shape
        likeness = np.array([fitting.likeness_where_fits(i, right) for i in left])
        rivals = _second(likeness, 1)[:, None], _second(likeness, 0)[None, :]
        lead = likeness - np.maximum(*rivals)
        for i, j in np.argwhere((likeness >= _ALIKE) & (lead >= _MARGIN)):
            found.append((int(left[i]), int(right[j]), float(likeness[i, j])))
    return found


def _second(table: np.ndarray, axis: int) -> np.ndarray:
    """The second largest value along an axis, 0 where there is only one."""
    if table.shape[axis] == 1:
        return np.zeros(table.shape[1 - axis], table.dtype)
    second: np.ndarray = np.partition(table, -2, axis).take(-2, axis)
    return second


def _guess(likeness: float) -> float:
    """Confidence from the likeness of two names, 0.4 to 0.9."""
    return min(_SUREST_GUESS, 0.4 + 0.5 * likeness)


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


def _sure(
    search: Search,
    left: Callable[[Item], str],
    right: Callable[[Item], str],
    confidence: float,
) -> Callable[[Item, Item], float]:
    """Confidence of equal names: less where the sides count differently.

    With layers 0 to 11 here and 0 to 12 there, the additional one need not be the last; with
    layers 0, 2, 4 here and 0, 4, 6 there, each side has one the other lacks, or 4 is not 4.
    """

    def pattern(item: Item, name: str) -> tuple[str, str]:
        return _DIGITS.sub("#", name), item.direction

    counted: list[dict[tuple[str, str], set[tuple[object, ...]]]] = []
    for side, text in zip(search.all, (left, right), strict=True):
        numbers = defaultdict(set)
        for item in side:
            name = text(item)
            numbers[pattern(item, name)].add((*_DIGITS.findall(name), item.call))
        counted.append(numbers)

    @cache
    def of_patterns(a: tuple[str, str], b: tuple[str, str]) -> float:
        mine, theirs = counted[0][a], counted[1][b]
        if mine == theirs:
            return confidence
        return min(confidence, 0.95 if mine <= theirs or theirs <= mine else 0.8)

    def of_pair(a: Item, b: Item) -> float:
        if shapes_differ(a, b):
            return min(confidence, 0.8)
        return of_patterns(pattern(a, left(a)), pattern(b, right(b)))

    return of_pair


def _equal(
    search: Search,
    left: Callable[[Item], Hashable],
    right: Callable[[Item], Hashable] | None = None,
) -> list[tuple[Item, Item]]:
    """Leftovers with equal keys, where only one of each side has it; None is no key."""
    sides = []
    for items, key in ((search.left, left), (search.right, right or left)):
        keyed: dict[Hashable, list[Item]] = defaultdict(list)
        for item in items:
            keyed[key(item)].append(item)
        keyed.pop(None, None)
        sides.append({k: found[0] for k, found in keyed.items() if len(found) == 1})
    return [(item, sides[1][k]) for k, item in sides[0].items() if k in sides[1]]


def _directed(search: Search) -> bool:
    """Whether both sides hold entries of more than one direction."""
    return all(len({item.direction for item in side}) > 1 for side in search.all)


def _prefixes(paths: Sequence[str]) -> list[str]:
    """What nearly all paths have in front, part by part, from nothing to the longest."""
    if len(paths) < 2:
        return [""]
    counts: Counter[str] = Counter()
    for path in paths:
        ends = [match.end() for match in _SEPARATOR.finditer(path)]
        counts.update(path[:end] for end in ends[:_MOST_PREFIXES])
    found = [prefix for prefix, n in counts.items() if n >= _PREFIX_SHARE * len(paths)]
    if not found:
        # The oldest naming joins the file name to the key with "_". The first and the last in
        # sorting order have in common what all have.
        first, last = min(paths), max(paths)
        common = next((k for k, (a, b) in enumerate(zip(first, last)) if a != b), 0)  # noqa: B905
        end = first.rfind("_", 0, common) + 1
        found = [first[:end]] if end else []
    return ["", *sorted(found, key=len)]


def _coded(
    left: Sequence[Item], right: Sequence[Item], value: Callable[[Item], str | None]
) -> tuple[np.ndarray, np.ndarray]:
    """The values of both sides as numbers, -1 for None."""
    codes: dict[str | None, int] = {None: -1}
    sides = [
        np.array([codes.setdefault(value(item), len(codes)) for item in side], np.int64)
        for side in (left, right)
    ]
    return sides[0], sides[1]
