"""Entries as the matchers see them, what is paired so far, and the questions all of them ask."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from troubleshooter_nb.analysis.value_figures import Figures
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import (
    canonical_parameter,
    likely_parameter,
    parameter_leaf,
    without_gradient_word,
    without_position,
)
from troubleshooter_nb.pairing import Match
from troubleshooter_nb.shapes import Shape, shape_text
from troubleshooter_nb.thresholds import MOST_PREFIX_PARTS, MOST_PREFIXES, PREFIX_SHARE

SEPARATOR = re.compile(r"[./]")
_WORD = re.compile(r"[^\W\d_]+")
# What MindSpore's calls are called, in dumps of calls.
_MINDSPORE_CALLS = ("Cell.", "Primitive.", "Mint.", "MintFunctional.")


class SiteFacts(NamedTuple):
    """What is known of an entry with a call site.

    `figures` are L2 norm, minimum and maximum where all are known, and the checksum of the bytes
    (-1 unknown): they break ties between calls that nothing else tells apart.
    """

    kind: str
    layer: str
    role: str
    slot: str
    value: str
    parent: str
    figures: tuple[float, float, float]
    crc32: int


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
    site : SiteFacts or None
        What is known only of entries with a call site.
    """

    row: int
    position: int
    ordered: bool
    name: str
    path: str
    call: int
    direction: str
    slot: tuple[str, str]
    shape: Shape | None
    site: SiteFacts | None = None

    @property
    def shape_order(self) -> str:
        """What shapes are sorted by: their text. It decides among equally good answers."""
        return shape_text(self.shape)

    @cached_property
    def spelled(self) -> str:
        """The path, in torch's spelling if it is a parameter's or a parameter's gradient's."""
        return self._spelled_by(canonical_parameter)

    @cached_property
    def likely(self) -> str:
        """Like `spelled`, with MindSpore's ambiguous spellings replaced as well."""
        return self._spelled_by(likely_parameter)

    @cached_property
    def leaf(self) -> str | None:
        """Torch's name of the parameter's last part, None for anything else."""
        return parameter_leaf(self._bare)

    @cached_property
    def _bare(self) -> str:
        """The path without what may stand behind a parameter's name: a position, the word grad."""
        return without_position(without_gradient_word(self.path))

    def _spelled_by(self, spelling: Callable[[str], str | None]) -> str:
        behind = self.path[len(without_gradient_word(self.path)) :]
        spelled = spelling(self._bare)
        return self.path if spelled is None else spelled + behind

    @cached_property
    def is_listed(self) -> bool:
        """Whether its name is a position in a list, such as ``grads.0``."""
        return SEPARATOR.split(self.path)[-1].isdigit()

    @cached_property
    def layers(self) -> list[str]:
        """What the entry lies in, from the outermost to the innermost: ``a``, ``a.b``."""
        ends = [match.start() for match in SEPARATOR.finditer(self.path)]
        return [self.path[:end] for end in ends[:MOST_PREFIX_PARTS]]


class Search:
    """What is paired so far of two sides of one step and rank, and what is left over."""

    def __init__(
        self,
        left: Sequence[Item],
        right: Sequence[Item],
        figures: tuple[Figures, Figures] | None = None,
    ) -> None:
        self.figures = figures  # of the values of both sides, where these may be asked
        self.all = tuple(left), tuple(right)
        self._left, self._right = list(left), list(right)
        self._taken_off = 0  # how many of the pairs are not among the leftovers any more
        self.pairs: list[tuple[Item, Item]] = []
        self.matches: list[Match] = []
        # What to know about an entry that stays alone, by side and row.
        self.alone: tuple[dict[int, str], dict[int, str]] = ({}, {})

    def add(
        self,
        pairs: Iterable[tuple[Item, Item]],
        method: str,
        confidence: Callable[[Item, Item], float],
        note: str = "",
    ) -> None:
        """Take these pairs of leftovers over."""
        for left, right in pairs:
            text = note or (Message("calls.other_shape") if shapes_differ(left, right) else "")
            sure = round(confidence(left, right), 2)
            self.pairs.append((left, right))
            self.matches.append(Match(left.row, right.row, method, sure, text))

    def add_matches(self, pairs: Iterable[tuple[Item, Item, Match]]) -> None:
        """Take these pairs of leftovers over, with a row for each."""
        for left, right, match in pairs:
            self.pairs.append((left, right))
            self.matches.append(match)

    def drop(self, wrong: set[int]) -> None:
        """Part the pairs of these left rows again."""
        kept = [k for k, (left, _) in enumerate(self.pairs) if left.row not in wrong]
        self.pairs = [self.pairs[k] for k in kept]
        self.matches = [self.matches[k] for k in kept]
        self._left, self._right, self._taken_off = list(self.all[0]), list(self.all[1]), 0

    @property
    def left(self) -> list[Item]:
        """What is left over on the left."""
        self._take_off()
        return self._left

    @property
    def right(self) -> list[Item]:
        """What is left over on the right."""
        self._take_off()
        return self._right

    def _take_off(self) -> None:
        """Take the pairs that came since off the leftovers."""
        new = self.pairs[self._taken_off :]
        if new:
            taken = {left.row for left, _ in new}, {right.row for _, right in new}
            self._left = [item for item in self._left if item.row not in taken[0]]
            self._right = [item for item in self._right if item.row not in taken[1]]
            self._taken_off = len(self.pairs)

    @cached_property
    def is_directed(self) -> bool:
        """Whether both sides hold entries of more than one direction."""
        return all(len({item.direction for item in side}) > 1 for side in self.all)

    @cached_property
    def tells_apart(self) -> bool:
        """Whether the entries of each side have words of their own, not only numbers."""
        return all(map(_tell_apart, self.all))

    @cached_property
    def prefixes(self) -> tuple[str, str]:
        """The longest that nearly all paths of a side have in front, of both sides."""
        left, right = (prefixes([item.path for item in side])[-1] for side in self.all)
        return left, right


def _tell_apart(items: Sequence[Item]) -> bool:
    words = [set(_WORD.findall(item.path)) for item in items]
    shared = set.intersection(*words) if words else set()
    return any(own - shared for own in words) if len(words) > 1 else bool(words)


def are_of_two_frameworks(left: Iterable[str], right: Iterable[str]) -> bool:
    """Whether the names of one side are those of MindSpore's calls, and the other's are not."""
    sides = [any(name.startswith(_MINDSPORE_CALLS) for name in side) for side in (left, right)]
    return sides[0] != sides[1]


def shapes_differ(left: Item, right: Item) -> bool:
    """Whether both shapes are known and not the same."""
    return None not in (left.shape, right.shape) and left.shape != right.shape


def equal(
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


def prefixes(paths: Sequence[str]) -> list[str]:
    """What nearly all paths have in front, part by part, from nothing to the longest."""
    if len(paths) < 2:
        return [""]
    counts: Counter[str] = Counter()
    for path in paths:
        ends = [match.end() for match in SEPARATOR.finditer(path)]
        counts.update(path[:end] for end in ends[:MOST_PREFIXES])
    found = [prefix for prefix, n in counts.items() if n >= PREFIX_SHARE * len(paths)]
    if not found:
        # The oldest naming joins the file name to the key with "_". The first and the last in
        # sorting order have in common what all have.
        first, last = min(paths), max(paths)
        common = next((k for k, (a, b) in enumerate(zip(first, last)) if a != b), 0)  # noqa: B905
        end = first.rfind("_", 0, common) + 1
        found = [first[:end]] if end else []
    return ["", *sorted(found, key=len)]
