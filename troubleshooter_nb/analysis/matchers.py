"""The ways to find pairs among the entries of one step and rank: by name, order, shape or all."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from troubleshooter_nb.analysis.guesses import guess_pairs
from troubleshooter_nb.analysis.search import (
    SEPARATOR,
    Item,
    Search,
    equal,
    prefixes,
    shapes_differ,
)
from troubleshooter_nb.analysis.sequence import shape_edit_distance
from troubleshooter_nb.thresholds import (
    APART,
    DOUBTFUL,
    FITTING,
    NAMED,
    NAMES_AMONG,
    OTHER_SHAPE,
    SAME_SHAPE,
    SUREST_GUESS,
)

_DIGITS = re.compile(r"([0-9]+)")
_Certainty = Callable[[Item, Item], float]


def by_name(search: Search) -> None:
    """Equal entry names."""
    search.add(equal(search, lambda item: item.name), "name", lambda *_: 1.0)


def by_order(search: Search) -> None:
    """First with first."""
    _unordered_by_name(search)
    surest = SUREST_GUESS if len(search.left) == len(search.right) else DOUBTFUL
    search.add(
        list(zip(search.left, search.right, strict=False)),
        "order",
        lambda a, b: surest if a.shape is not None and a.shape == b.shape else OTHER_SHAPE,
    )


def by_shape(search: Search) -> None:
    """Shape edit distance."""
    _unordered_by_name(search)
    left, right = search.left, search.right
    pairs = shape_edit_distance([a.shape_order for a in left], [b.shape_order for b in right])
    search.add(
        [(left[i], right[j]) for i, j in pairs],
        "shape",
        lambda a, b: SAME_SHAPE if a.shape == b.shape else OTHER_SHAPE,
    )


def by_everything(search: Search) -> None:
    """Names as far as they go, then the layer around an entry, its shape and the order."""
    by_names(search)
    guess_pairs(search)


def by_names(search: Search) -> None:
    """Equal paths, then parameter names in either framework's spelling."""
    _by_equal_paths(search)
    _by_parameter_names(search, lambda item: item.spelled, NAMED)
    _by_parameter_names(search, lambda item: item.likely, SUREST_GUESS)


def _unordered_by_name(search: Search) -> None:
    """Files without number have no order, only the alphabet's: equal names go before it."""
    same_name = equal(search, lambda item: None if item.ordered else item.name)
    search.add(same_name, "name", lambda *_: 1.0)


def _by_equal_paths(search: Search) -> None:
    confidence = _sure(search, lambda item: item.path, lambda item: item.path, 1.0)
    run_calls = equal(search, lambda item: (item.path, item.call, item.direction, item.slot))
    # A position in a list is a weaker name than a shape: one side's list may have one more item.
    named = [(a, b) for a, b in run_calls if not (shapes_differ(a, b) and a.is_listed)]
    search.add(named, "name", confidence)
    search.add(equal(search, lambda item: item.name), "name", confidence)


def _by_parameter_names(search: Search, spelling: Callable[[Item], str], confidence: float) -> None:
    """Equal names in one spelling, behind what each side has in front of (nearly) all of its own.

    Of the prefixes that come into question, the two that make most names equal are taken first.
    """
    if not (search.left and search.right):
        return
    choices = [prefixes([spelling(item) for item in side]) for side in search.all]
    while search.left and search.right:
        tried = [(_behind(search, spelling, pair), pair) for pair in product(*choices)]
        pairs, chosen = max(tried, key=lambda t: (len(t[0]), -len(t[1][0]) - len(t[1][1])))
        if not pairs:
            return
        left, right = (_Rest(spelling, prefix) for prefix in chosen)
        sure = _sure(search, left, right, confidence)

        def certainty(a: Item, b: Item, rest: _Rest = left, sure: _Certainty = sure) -> float:
            # "weight" behind "conv1." here and "conv2." there need not be the same layer's.
            is_whole = not rest.prefix or SEPARATOR.search(rest(a))
            is_parameter = a.leaf or b.leaf
            return min(
                sure(a, b), 1.0 if is_whole else FITTING, 1.0 if is_parameter else SUREST_GUESS
            )

        for method, wanted in (("parameter", True), ("name", False)):
            search.add(
                [(a, b) for a, b in pairs if bool(a.leaf or b.leaf) == wanted], method, certainty
            )


@dataclass(frozen=True)
class _Rest:
    """What a name has behind a prefix; empty for a name that does not begin with it."""

    spelling: Callable[[Item], str]
    prefix: str

    def __call__(self, item: Item) -> str:
        path = self.spelling(item)
        return path[len(self.prefix) :] if path.startswith(self.prefix) else ""


def _behind(
    search: Search, spelling: Callable[[Item], str], before: Sequence[str]
) -> list[tuple[Item, Item]]:
    both_ways = search.is_directed

    def key(item: Item, rest: str) -> Hashable:
        # Whether a folder is called "grads" says nothing about the parameter in it.
        direction = item.direction if both_ways or item.leaf is None else ""
        return (rest, item.call, direction, item.slot) if rest else None

    left, right = (_Rest(spelling, prefix) for prefix in before)
    pairs = equal(search, lambda item: key(item, left(item)), lambda item: key(item, right(item)))
    same = sum(not shapes_differ(a, b) for a, b in pairs)
    # Another shape does not make it another layer where the names of most prove themselves.
    proved = 2 * same >= len(pairs) or not any(before)

    def is_named(a: Item, b: Item) -> bool:
        plain = (spelling(a), spelling(b)) == (a.spelled, b.spelled)
        is_whole = SEPARATOR.search(left(a)) is not None
        return proved and plain and is_whole and not a.is_listed

    return [(a, b) for a, b in pairs if not shapes_differ(a, b) or is_named(a, b)]


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
    counted: list[dict[tuple[str, str], set[tuple[object, ...]]]] = []
    patterns: list[dict[int, tuple[str, str]]] = []
    for side, text in zip(search.all, (left, right), strict=True):
        numbers, of_row = defaultdict(set), {}
        for item in side:
            # Numbers and what stands between them, in turn.
            parts = _DIGITS.split(text(item))
            of_row[item.row] = pattern = "#".join(parts[::2]), item.direction
            numbers[pattern].add((*parts[1::2], item.call))
        counted.append(numbers)
        patterns.append(of_row)

    @cache
    def of_patterns(a: tuple[str, str], b: tuple[str, str]) -> float:
        mine, theirs = counted[0][a], counted[1][b]
        if mine == theirs:
            return confidence
        return min(confidence, NAMES_AMONG if mine <= theirs or theirs <= mine else APART)

    def of_pair(a: Item, b: Item) -> float:
        if shapes_differ(a, b):
            return min(confidence, APART)
        return of_patterns(patterns[0][a.row], patterns[1][b.row])

    return of_pair
