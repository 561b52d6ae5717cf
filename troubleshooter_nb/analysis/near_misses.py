"""What an entry without a partner might have belonged to, and what speaks against each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.api_names import bare_name, op_class, operator
from troubleshooter_nb.analysis.layer_kinds import layer_kind
from troubleshooter_nb.analysis.search import Item
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.closeness import Likeness
from troubleshooter_nb.naming.hooks import sampled_slot
from troubleshooter_nb.pairing import Match, of_shape


def near_misses(
    items: Sequence[Item], others: Sequence[Item], partners: Mapping[int, str]
) -> list[str]:
    """For each item the likest others of its direction and role, and why they are not the partner.

    Parameters
    ----------
    items : sequence of Item
        Without a partner.
    others : sequence of Item
        All of the other side, of the same step and rank.
    partners : mapping of int to str
        Names of the partners of the others that have one, by their rows.

    Returns
    -------
    list of str
        At most three each, equal shapes and operators of one family first, among equals those at
        the nearest place in the run; empty where nothing is near.
    """
    if not items or not others:
        return [""] * len(items)
    likeness = Likeness([item.path for item in items], [other.path for other in others])
    directions, roles, families = (_Column(others, value) for value in (_direction, _role, _family))
    numbers = {shape: k for k, shape in enumerate(dict.fromkeys(o.shape for o in others))}
    shapes = np.array([numbers[other.shape] for other in others])
    places = _places(others)
    texts = []
    for i, (item, place) in enumerate(zip(items, _places(items), strict=True)):
        alike, same = likeness.row(i), shapes == numbers.get(item.shape, -1)
        family, other_family = families.same(item), families.differs(item)
        fits = ~directions.differs(item) & ~roles.differs(item)
        fits &= same | ((alike >= thresholds.BARELY_ALIKE) & ~other_family)
        score = np.round(
            alike + thresholds.SAME_SHAPE_WORTH * same + thresholds.SAME_FAMILY_WORTH * family, 3
        )
        ranked = np.lexsort((np.abs(places - place), -score))
        found = []
        for j in ranked[fits[ranked]][: thresholds.NEAR_MISSES]:
            other = others[j]
            why = [] if same[j] else [of_shape(other.shape)]
            why += [Message("pairings.other_operator")] if other_family[j] else []
            if other.row in partners:
                why.append(Message("pairings.paired_with", name=partners[other.row]))
            said = joined(why or [Message("pairings.alone_as_well")], by=",")
            found.append(Message("pairings.candidate", name=other.name, why=said))
        texts.append(joined(found))
    return texts


def from_elsewhere(matches: Sequence[Match], left: Dump, right: Dump) -> list[Match]:
    """The matches; those alone and without candidates name their equal of another step or rank."""
    found = list(matches)
    for side, (mine, theirs) in enumerate(((left, right), (right, left))):
        ends = [(match.left, match.right)[:: 1 - 2 * side] for match in found]
        rows = [
            (number, row)
            for number, (row, other) in enumerate(ends)
            if other < 0 <= row and not (found[number].candidates or found[number].expected)
        ][: thresholds.NEAR_MISS_ROWS]
        if not rows:
            continue
        names = mine.index["name"].values
        wanted = {names[row] for _, row in rows}
        where: dict[str, int] = {}
        for k, name in enumerate(theirs.index["name"].values):
            if name in wanted:
                where.setdefault(name, k)
        for number, row in rows:
            k = where.get(names[row], -1)
            why = _other_place(mine, row, theirs, k) if k >= 0 else ""
            if why:
                said = Message("pairings.candidate", name=names[row], why=why)
                found[number] = found[number]._replace(candidates=said)
    return found


def _other_place(mine: Dump, row: int, theirs: Dump, other: int) -> str:
    """The step and rank of the other where they are not those of the row."""
    found = []
    for name in ("step", "rank"):
        here, there = int(mine.index[name].values[row]), int(theirs.index[name].values[other])
        if here != there:
            found.append(Message(f"pairings.at_{name}", number=there))
    return joined(found, by=",")


class _Column:
    """A fact about each of the others, empty where unknown."""

    def __init__(self, others: Sequence[Item], value: Callable[[Item], str]) -> None:
        self._value = value
        self._all = np.array([value(other) for other in others], object)

    def same(self, item: Item) -> np.ndarray:
        """Where it is known of both and the same."""
        value = self._value(item)
        return np.asarray((self._all == value) & bool(value), bool)

    def differs(self, item: Item) -> np.ndarray:
        """Where it is known of both and not the same."""
        value = self._value(item)
        return np.asarray((self._all != value) & (self._all != "") & bool(value), bool)


def _direction(item: Item) -> str:
    return item.direction


def _role(item: Item) -> str:
    """Its role; a sample of a tensor has one of its own."""
    role = item.site.role if item.site else item.slot[0]
    sample = sampled_slot(item.slot[1])[1]
    return f"{role}, {sample}" if sample else role


def _family(item: Item) -> str:
    """A word for the operator or class of layers that both frameworks share."""
    site = item.site
    if site is None:
        return ""
    if site.kind == "module":
        word, known = layer_kind(site.layer)
        return word if known else ""
    return op_class(bare_name(operator(item.path, site.layer))) if site.kind == "api" else ""


def _places(items: Sequence[Item]) -> np.ndarray:
    """How far into its run each entry is."""
    return np.array([item.position for item in items], np.float64)
