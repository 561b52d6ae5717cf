"""How alike the names of two dumps are, as one number per pair of names."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from troubleshooter_nb.naming import parameter_leaf

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"[0-9]+")
# Camel case counts as several words: selfAttn.
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Beyond this many different pairs of names a table of them is not worth its memory.
_MOST_CELLS = 16_000_000


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
        self._words = _Table(left, right, _words, _letter_pairs)
        # Where no words are alike, numbers are not asked: there may be thousands of different ones.
        asked = (left, right) if self._words.is_any else ([""] * len(left), [""] * len(right))
        self._numbers = _Table(*asked, _numbers, _number_features)

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
        text: Callable[[str], str],
        features: Callable[[str], list[str]],
    ) -> None:
        sides = [[text(name) for name in side] for side in (left, right)]
        different = [list(dict.fromkeys(side)) for side in sides]
        numbers = [{value: k for k, value in enumerate(side)} for side in different]
        self._left, self._right = (
            np.array([numbers[k][value] for value in side], np.intp) for k, side in enumerate(sides)
        )
        if len(different[0]) * len(different[1]) > _MOST_CELLS:
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


def _words(path: str) -> str:
    leaf = parameter_leaf(path)
    if leaf is not None:
        path = path[: max(path.rfind("."), path.rfind("/")) + 1] + leaf
    return " ".join(word.lower() for word in _WORD.findall(_HUMP.sub(" ", path)))


def _letter_pairs(words: str) -> list[str]:
    return [
        pair
        for word in words.split()
        for framed in (f"^{word}$",)
        for pair in (word, *(framed[k : k + 2] for k in range(len(framed) - 1)))
    ]


def _numbers(path: str) -> str:
    return " ".join(number.lstrip("0") or "0" for number in _NUMBER.findall(path))


def _number_features(numbers: str) -> list[str]:
    # Counted from the end: what differs is more often in front. "#" makes no numbers a likeness.
    found = numbers.split()
    return ["#", *found, *(f"{len(found) - k}:{number}" for k, number in enumerate(found))]
