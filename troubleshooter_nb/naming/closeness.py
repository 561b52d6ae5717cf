"""How close two names of tensors are, and which names of two lists belong together by that."""

from __future__ import annotations

import difflib
import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.parameters import canonical_parameter

_WORD = re.compile(r"[0-9]+|[A-Z]*[a-z]+|[A-Z]+")
_NUMBER = re.compile(r"([0-9]+)")
# Two names that share their numbers and their last word are likelier partners than two that do
# not, whatever else they share.
_SAME_NUMBERS, _SAME_END = 0.25, 0.25
# What a pair that names alone make needs at least, and by how much it has to be the best.
_LEAST, _CLEARLY = 0.5, 0.02
# How many names a hint shows, and the share of letters that a slip leaves in place.
_HINTS, _SLIP = 2, 0.4
# The id of what `rest_pairs` says of pairs that nothing but their kind speaks for.
BY_SHAPE_ALONE = "pairings.only_of_shape"


def closest(name: str, known: Iterable[str]) -> str:
    """``; closest: 'a', 'b'``, to end a sentence about a name that is not known; or nothing."""
    names = close_names(name, known)
    return Message("list.closest", names=names) if names else ""


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most two of the known names, those that a name may be a slip of, the closest first."""
    different = list(dict.fromkeys(map(str, known)))
    return difflib.get_close_matches(str(name), different, n=_HINTS, cutoff=_SLIP)


class Candidate(NamedTuple):
    """A name that another might belong to, and what speaks for or against it."""

    name: str
    why: str
    fits: bool


class NameIndex:
    """The names of one side, to be asked for those close to another name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._sizes = [sum(words(name).values()) for name in self.names]
        self._numbers = [numbers(name) for name in self.names]
        self._ends = [end(name) for name in self.names]
        self._holding: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, name in enumerate(self.names):
            for word, count in words(name).items():
                self._holding[word].append((position, count))

    def closest(self, name: str, most: int | None = None) -> list[tuple[int, float]]:
        """Positions of names that share a word with this one and how close, closest first.

        Parameters
        ----------
        name : str
        most : int, optional
            How many at most; default all.

        Returns
        -------
        list of (int, float)
            Closeness from 0 to 1.5; equal ones in the order of the names.
        """
        own = words(name)
        shared: dict[int, int] = defaultdict(int)
        for word, count in own.items():
            for position, theirs in self._holding.get(word, ()):
                shared[position] += count if count < theirs else theirs
        total, own_numbers, own_end = sum(own.values()), numbers(name), end(name)
        scored = []
        for position, count in shared.items():
            score = 2 * count / (total + self._sizes[position])
            if own_numbers and own_numbers == self._numbers[position]:
                score += _SAME_NUMBERS
            if own_end == self._ends[position]:
                score += _SAME_END
            scored.append((-score, position))
        ranked = sorted(scored) if most is None else heapq.nsmallest(most, scored)
        return [(position, -score) for score, position in ranked]


@lru_cache(maxsize=8)
def name_index(names: tuple[str, ...]) -> NameIndex:
    """The index of these names; the last few are kept, for whoever asks name by name."""
    return NameIndex(names)


@lru_cache(maxsize=1 << 16)
def words(name: str) -> Counter[str]:
    """The words and numbers of a name, in torch's spelling where it is that of a parameter."""
    spelled = canonical_parameter(name) or name
    return Counter(word.lower() for word in _WORD.findall(spelled))


def numbers(name: str) -> tuple[str, ...]:
    """The numbers of a name, in their order."""
    return _numbered(name)[1]


@lru_cache(maxsize=1 << 16)
def _numbered(name: str) -> tuple[str, tuple[str, ...]]:
    """A name whose numbers are counted instead of said, and they: ``a.7.b9`` gives ``a.0.b1``."""
    parts = _NUMBER.split(name)
    said = tuple(parts[1::2])
    parts[1::2] = map(str, range(len(said)))
    return "".join(parts), said


@lru_cache(maxsize=1 << 16)
def end(name: str) -> str:
    """The last part of a name, in torch's spelling."""
    return re.split(r"[./]", canonical_parameter(name) or name)[-1].lower()


def rest_pairs(
    left: Sequence[str],
    right: Sequence[str],
    kinds: tuple[Sequence[Hashable], Sequence[Hashable]],
    fits: Callable[[int, int], bool],
) -> list[tuple[int, int, Message]]:
    """Pairs of what is left over on both sides.

    First equal names (in torch's spelling), then names that are each other's closest among those
    of one kind and with the same numbers, then the only one of a kind with the only one.

    Parameters
    ----------
    left, right : sequence of str
    kinds : two sequences of hashable
        Of each name, such as its number of elements: only equal kinds are paired.
    fits : callable
        Takes a left and a right position.

    Returns
    -------
    list of (int, int, Message)
        Positions and why; no position twice.
    """
    found: list[tuple[int, int, Message]] = []
    open_left, open_right = set(range(len(left))), set(range(len(right)))

    def take(i: int, j: int, why: Message) -> None:
        found.append((i, j, why))
        open_left.discard(i)
        open_right.discard(j)

    spelled: dict[str, list[int]] = defaultdict(list)
    for j, name in enumerate(right):
        spelled[canonical_parameter(name) or name].append(j)
    for i, name in enumerate(left):
        same = spelled.get(canonical_parameter(name) or name, [])
        exact = [j for j in same if right[j] == name] or same
        if len(exact) == 1 and exact[0] in open_right and fits(i, exact[0]):
            take(i, exact[0], Message("pairings.same_name"))
    for mine, theirs in _groups(left, right, kinds, open_left, open_right, by_number=True):
        # The layers of a net differ in their numbers alone: what holds for one holds for all.
        counted = [[_numbered(left[i])[0] for i in mine], [_numbered(right[j])[0] for j in theirs]]
        for i, j, score in _mutual(*map(tuple, counted)):
            if fits(mine[i], theirs[j]):
                why = Message("pairings.closest_names", closeness=min(score / 1.5, 1))
                take(mine[i], theirs[j], why)
    for mine, theirs in _groups(left, right, kinds, open_left, open_right, by_number=False):
        if len(mine) == len(theirs) == 1 and fits(mine[0], theirs[0]):
            take(mine[0], theirs[0], Message(BY_SHAPE_ALONE))
    return found


def _groups(
    left: Sequence[str],
    right: Sequence[str],
    kinds: tuple[Sequence[Hashable], Sequence[Hashable]],
    open_left: set[int],
    open_right: set[int],
    *,
    by_number: bool,
) -> list[tuple[list[int], list[int]]]:
    groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, (names, open_) in enumerate(((left, open_left), (right, open_right))):
        for position in sorted(open_):
            kind = kinds[side][position]
            key = (kind, numbers(names[position])) if by_number else kind
            groups[key][side].append(position)
    return [group for group in groups.values() if all(group)]


@lru_cache(maxsize=1 << 10)
def _mutual(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[tuple[int, int, float], ...]:
    """Pairs that are clearly each other's closest."""
    best: list[dict[int, tuple[int, float]]] = []
    for names, others in ((left, right), (right, left)):
        index, found = NameIndex(others), {}
        for i, name in enumerate(names):
            near = index.closest(name)
            clear = len(near) == 1 or (len(near) > 1 and near[0][1] > near[1][1] + _CLEARLY)
            if clear and near[0][1] >= _LEAST:
                found[i] = near[0]
        best.append(found)
    return tuple(
        (i, j, score) for i, (j, score) in best[0].items() if best[1].get(j, (-1, 0.0))[0] == i
    )
