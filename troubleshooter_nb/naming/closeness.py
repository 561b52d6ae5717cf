"""How close two names of tensors are, and which names of two lists belong together by that.

Both measures read a name alike - words, numbers, torch's spelling of a parameter - and answer two
questions. `Likeness` compares all names of two dumps, where nearly all have a partner and the same
words come again in every layer: rare words count more, words that share letters count too
(``attn``, ``attention``), and the number is one of many kinds of evidence. `NameIndex` finds the
few names that another, perhaps half typed, one may mean, without a table of all pairs: it counts
whole words, and what is equal in numbers and in the last word. Its numbers are shown to people and
clear a limit of their own, so that one measure for both would have to be tuned twice.
"""

from __future__ import annotations

import difflib
import heapq
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.parameters import canonical_parameter
from troubleshooter_nb.thresholds import (
    CLEARLY_CLOSER,
    LEAST_CLOSENESS,
    LIKENESS_CELLS,
    SAME_END_BONUS,
    SAME_NUMBERS_BONUS,
    SLIP,
)

_WORD = re.compile(r"[^\W\d_]+")
# Camel case counts as several words: selfAttn.
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"([0-9]+)")
# How many names a hint shows.
_HINTS = 2


def closest(name: str, known: Iterable[str]) -> str:
    """``; closest: 'a', 'b'``, to end a sentence about a name that is not known; or nothing."""
    names = close_names(name, known)
    return Message("lists.closest", names=names) if names else ""


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """At most two of the known names, those that a name may be a slip of, the closest first."""
    different = list(dict.fromkeys(map(str, known)))
    return difflib.get_close_matches(str(name), different, n=_HINTS, cutoff=SLIP)


class Candidate(NamedTuple):
    """A name that another might belong to, and what speaks for or against it."""

    name: str
    why: str
    fits: bool


class Judged(NamedTuple):
    """What else than its name speaks for or against a candidate.

    `fits` says whether shapes let it be one, `taken` what it is paired with already, empty where it
    is free, `proven` whether values prove that it is the one.
    """

    why: str
    fits: bool = True
    taken: str = ""
    proven: bool = False


class NameIndex:
    """The names of one side, to be asked for those close to another name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self._sizes = [sum(_parts(name).values()) for name in self.names]
        self._numbers = [numbers(name) for name in self.names]
        self._ends = [end(name) for name in self.names]
        self._holding: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, name in enumerate(self.names):
            for word, count in _parts(name).items():
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
        own = _parts(name)
        shared: dict[int, int] = defaultdict(int)
        for word, count in own.items():
            for position, theirs in self._holding.get(word, ()):
                shared[position] += count if count < theirs else theirs
        total, own_numbers, own_end = sum(own.values()), numbers(name), end(name)
        scored = []
        for position, count in shared.items():
            score = 2 * count / (total + self._sizes[position])
            if own_numbers and own_numbers == self._numbers[position]:
                score += SAME_NUMBERS_BONUS
            if own_end == self._ends[position]:
                score += SAME_END_BONUS
            scored.append((-score, position))
        ranked = sorted(scored) if most is None else heapq.nsmallest(most, scored)
        return [(position, -score) for score, position in ranked]


@lru_cache(maxsize=8)
def name_index(names: tuple[str, ...]) -> NameIndex:
    """The index of these names; the last few are kept, for whoever asks name by name."""
    return NameIndex(names)


def closest_partners(
    name: str,
    others: tuple[str, ...],
    judge: Callable[[int], Judged],
    *,
    free: Iterable[int],
    proven: Iterable[int] = (),
    most: int,
) -> list[Candidate]:
    """The names of the other side that a name may belong to, the best first.

    What is proven comes first, then what fits and is free, then what is taken, then what does not
    fit; among these the closest names.

    Parameters
    ----------
    name : str
    others : tuple of str
    judge : callable
        Takes the position of one of them.
    free : iterable of int
        Positions of those that are left over, for where too few are called alike.
    proven : iterable of int
        Positions of those that are listed whatever they are called.
    most : int
    """
    near = dict(name_index(others).closest(name, 8 * most))
    if len(near) < most:
        more = (position for position in free if position not in near)
        near |= dict.fromkeys([*itertools.islice(more, 8 * most)], 0.0)
    found = []
    for position, closeness in (dict.fromkeys(proven, 0.0) | near).items():
        why, fits, taken, is_proven = judge(position)
        rank = -1 if is_proven else bool(taken) + 2 * (not fits)
        candidate = Candidate(others[position], joined([why, taken]), fits and not taken)
        found.append((rank, -closeness, position, candidate))
    return [candidate for *_, candidate in sorted(found, key=lambda one: one[:3])[:most]]


@lru_cache(maxsize=1 << 16)
def words(name: str) -> tuple[str, ...]:
    """The words of a name, lower case, in torch's spelling where it is that of a parameter."""
    spelled = canonical_parameter(name) or name
    return tuple(word.lower() for word in _WORD.findall(_HUMP.sub(" ", spelled)))


def numbers(name: str) -> tuple[str, ...]:
    """The numbers of a name, in their order, without zeros in front."""
    return _numbered(name)[1]


@lru_cache(maxsize=1 << 16)
def _numbered(name: str) -> tuple[str, tuple[str, ...]]:
    """A name whose numbers are counted instead of said, and they: ``a.7.b9`` gives ``a.0.b1``."""
    parts = _NUMBER.split(name)
    said = tuple(number.lstrip("0") or "0" for number in parts[1::2])
    parts[1::2] = map(str, range(len(said)))
    return "".join(parts), said


@lru_cache(maxsize=1 << 16)
def _parts(name: str) -> Counter[str]:
    """How often words and numbers come in a name."""
    return Counter((*words(name), *numbers(canonical_parameter(name) or name)))


@lru_cache(maxsize=1 << 16)
def end(name: str) -> str:
    """The last part of a name, in torch's spelling."""
    return re.split(r"[./]", canonical_parameter(name) or name)[-1].lower()


def rest_pairs(
    left: Sequence[str],
    right: Sequence[str],
    kinds: tuple[Sequence[Hashable], Sequence[Hashable]],
    fits: Callable[[int, int], bool],
    *,
    alone: bool = True,
) -> list[tuple[int, int, Message]]:
    """Pairs of what is left over on both sides.

    First equal names (in torch's spelling), then names that are each other's closest among those
    of one kind and with the same numbers, then the only one of a kind with the only one. The note
    of a pair says which.

    Parameters
    ----------
    left, right : sequence of str
    kinds : two sequences of hashable
        Of each name, such as its number of elements: only equal kinds are paired.
    fits : callable
        Takes a left and a right position.
    alone : bool
        Whether it says anything that two are the only ones of their kind.

    Returns
    -------
    list of (int, int, Message)
        Positions and the note; no position twice.
    """
    found: list[tuple[int, int, Message]] = []
    open_left, open_right = set(range(len(left))), set(range(len(right)))

    def take(i: int, j: int, why: Message) -> None:
        found.append((i, j, Message("pairings.auto_matched", why=why)))
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
    lonely = _groups(left, right, kinds, open_left, open_right, by_number=False) if alone else []
    for mine, theirs in lonely:
        if len(mine) == len(theirs) == 1 and fits(mine[0], theirs[0]):
            take(mine[0], theirs[0], Message("pairings.only_of_shape"))
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
            clear = len(near) == 1 or (len(near) > 1 and near[0][1] > near[1][1] + CLEARLY_CLOSER)
            if clear and near[0][1] >= LEAST_CLOSENESS:
                found[i] = near[0]
        best.append(found)
    return tuple(
        (i, j, score) for i, (j, score) in best[0].items() if best[1].get(j, (-1, 0.0))[0] == i
    )


class Likeness:
    """Likeness of every left name with every right name, 0 (nothing in common) to 1 (equal).

    Words are compared by their letter pairs, so that ``attn`` and ``attention`` are alike, rare
    ones weighing more; numbers by value and position; the leaf of a parameter in torch's
    spelling. A name without words, such as ``0`` of a list, is like no other.

    Parameters
    ----------
    left, right : sequence of str
        Dotted paths, without what all names of a side have in front.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str]) -> None:
        self._words = _Table(left, right, words, _letter_pairs)
        # Where no words are alike, numbers are not asked: there may be thousands of different ones.
        asked = (left, right) if self._words.is_any else ([""] * len(left), [""] * len(right))
        self._numbers = _Table(*asked, numbers, _number_features)

    def row(self, i: int, right: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Likeness of left name `i` with the right names at these positions: float32."""
        words, numbers = self._words.row(i, right), self._numbers.row(i, right)
        likeness: np.ndarray = words * (np.float32(0.5) + np.float32(0.5) * numbers)
        return likeness


class _Table:
    """Cosines between the weighted features of the different texts of two sides."""

    def __init__(
        self,
        left: Sequence[str],
        right: Sequence[str],
        text: Callable[[str], tuple[str, ...]],
        features: Callable[[tuple[str, ...]], list[str]],
    ) -> None:
        sides = [[text(name) for name in side] for side in (left, right)]
        different = [list(dict.fromkeys(side)) for side in sides]
        numbers = [{value: k for k, value in enumerate(side)} for side in different]
        self._left, self._right = (
            np.array([numbers[k][value] for value in side], np.intp) for k, side in enumerate(sides)
        )
        if len(different[0]) * len(different[1]) > LIKENESS_CELLS:
            self._left, self._right = np.zeros_like(self._left), np.zeros_like(self._right)
            self._cosines = np.zeros((1, 1), np.float32)
        else:
            self._cosines = _cosines(*([features(value) for value in side] for side in different))

    @property
    def is_any(self) -> bool:
        """Whether any two have anything in common."""
        return bool(self._cosines.any())

    def row(self, i: int, right: np.ndarray | slice) -> np.ndarray:
        cosines: np.ndarray = self._cosines[self._left[i]][self._right[right]]
        return cosines


def _cosines(left: list[list[str]], right: list[list[str]]) -> np.ndarray:
    """Table of shape (len(left), len(right)); a feature weighs more the fewer texts have it."""
    seen = Counter(feature for features in (*left, *right) for feature in set(features))
    total = len(left) + len(right)
    weights = {feature: float(np.log(1 + total / count)) for feature, count in seen.items()}
    mine, theirs = _postings(left, weights), _postings(right, weights)
    cosines = np.zeros((len(left), len(right)), np.float32)
    # Feature by feature: most are rare, so that a product of matrices would multiply zeros.
    for feature in sorted(mine.keys() & theirs.keys()):
        (rows, row_values), (columns, column_values) = mine[feature], theirs[feature]
        cosines[np.ix_(rows, columns)] += np.outer(row_values, column_values)
    return cosines


def _postings(
    texts: list[list[str]], weights: dict[str, float]
) -> dict[str, tuple[list[int], np.ndarray]]:
    """For each feature the texts that have it, and how much of their length it makes up."""
    where: dict[str, list[int]] = defaultdict(list)
    values: dict[str, list[float]] = defaultdict(list)
    for i, features in enumerate(texts):
        sizes = {feature: weights[feature] * n for feature, n in Counter(features).items()}
        length = math.sqrt(sum(size * size for size in sizes.values()))
        for feature, size in sizes.items():
            where[feature].append(i)
            values[feature].append(size / length)
    return {feature: (where[feature], np.array(values[feature], np.float32)) for feature in where}


def _letter_pairs(found: tuple[str, ...]) -> list[str]:
    return [
        pair
        for word in found
        for framed in (f"^{word}$",)
        for pair in (word, *(framed[k : k + 2] for k in range(len(framed) - 1)))
    ]


def _number_features(found: tuple[str, ...]) -> list[str]:
    # Counted from the end: what differs is more often in front. "#" makes no numbers a likeness.
    return ["#", *found, *(f"{len(found) - k}:{number}" for k, number in enumerate(found))]
