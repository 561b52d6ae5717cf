"""Pair tensors by the places that their names say they have in a stack of layers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from troubleshooter_nb.naming.blocks import PACKED, Place, place_in_blocks
from troubleshooter_nb.thresholds import PACKED_AT_PLACE, SAME_PLACE
from troubleshooter_nb.transforms import Spec, Transform, chained
from troubleshooter_nb.weight_map import WeightRow

Specs = Mapping[str, Spec]
# The first product of a feed-forward layer may be a gate and what it opens in one.
_PACKED = {**PACKED, "inner": PACKED["gate_up"]}
_ALIKE = {"inner": "up", "up": "inner"}


class PlacedRow(NamedTuple):
    """A row and how sure the words of its names are."""

    row: WeightRow
    confidence: float


def rows_by_place(source: Specs, target: Specs) -> list[PlacedRow]:
    """Rows of tensors at one place: alone, packed in one on one side, or stacked.

    Only places that one tensor of a side has, and shapes that fit, make a row. In which order parts
    are packed (per rank, per head) no name says: they are taken one after the other.

    Parameters
    ----------
    source, target : mapping of str to Spec
        What has no partner yet.
    """
    rows: list[PlacedRow] = []
    for length in (None, 1):  # T5 numbers the parts of a layer, others do not
        taken = {name for row, _ in rows for name in (*row.sources, *row.targets)}
        ours, theirs = (
            _by_place({n: spec for n, spec in side.items() if n not in taken}, length)
            for side in (source, target)
        )
        rows += _alone(ours, theirs, source, target)
        rows += _packed(ours, theirs, source, target)
    taken = {name for row, _ in rows for name in (*row.sources, *row.targets)}
    left, right = ({n: s for n, s in side.items() if n not in taken} for side in (source, target))
    return [*rows, *_stacked(left, right)]


def _by_place(side: Specs, length: int | None) -> dict[Place, str]:
    """The names of one side by place, where it has one only."""
    found: dict[Place, list[str]] = defaultdict(list)
    for place, name in _placed(side):
        found[place._replace(numbers=place.numbers[:length])].append(name)
    return {place: names[0] for place, names in found.items() if len(names) == 1}


def _placed(side: Specs) -> list[tuple[Place, str]]:
    """Places with their stack, where the side has two of such."""
    found = [(place, name) for name in side if (place := place_in_blocks(name)) is not None]
    stacks = defaultdict(set)
    for place, _ in found:
        stacks[place.role, bool(place.numbers)].add(place.stack)
    return [
        (
            place if len(stacks[place.role, bool(place.numbers)]) > 1 else place._replace(stack=""),
            name,
        )
        for place, name in found
    ]


def _alone(
    ours: Mapping[Place, str], theirs: Mapping[Place, str], source: Specs, target: Specs
) -> list[PlacedRow]:
    pairs: dict[str, tuple[str, Place]] = {}
    for place, name in ours.items():
        also = place._replace(role=_ALIKE.get(place.role, place.role))
        to = theirs.get(place) or (theirs.get(also) if also not in ours else None)
        if to is not None:
            pairs[name] = to, place
    shapes = [
        (source[name].shape, target[to].shape) for name, (to, at) in pairs.items() if at.numbers
    ]
    told = [mine == other for mine, other in shapes if len(set(mine)) > 1]
    turned = bool(told) and not any(told)
    rows: list[PlacedRow] = []
    for name, (to, place) in pairs.items():
        mine, other = source[name].shape, target[to].shape
        square = len(mine) == 2 and mine[0] == mine[1]
        if mine == other and not (square and turned and place.numbers):
            rows.append(PlacedRow(WeightRow((name,), (to,)), SAME_PLACE))
        elif len(mine) == 2 and mine == other[::-1]:
            rows.append(PlacedRow(WeightRow((name,), (to,), Transform("transpose")), SAME_PLACE))
    return rows


def _packed(
    ours: Mapping[Place, str], theirs: Mapping[Place, str], source: Specs, target: Specs
) -> Iterator[PlacedRow]:
    """Parts that lie one after the other on the other side."""
    for wholes, parts, joined in ((theirs, ours, True), (ours, theirs, False)):
        specs = (target, source) if joined else (source, target)
        for place, whole in wholes.items():
            names = [parts.get(place._replace(role=r)) for r in _PACKED.get(place.role, ())]
            known = [name for name in names if name is not None]
            if not names or len(known) != len(names):
                continue
            sizes = [specs[1][name].shape for name in known]
            way = _way(specs[0][whole].shape, sizes, joined=joined)
            if way is not None:
                yield _of_several(whole, tuple(known), way, joined=joined)


def _of_several(whole: str, parts: tuple[str, ...], way: Transform, *, joined: bool) -> PlacedRow:
    """The row that joins these parts, or parts the whole."""
    row = WeightRow(parts, (whole,), way) if joined else WeightRow((whole,), parts, way)
    return PlacedRow(row, PACKED_AT_PLACE)


def _way(
    whole: tuple[int, ...], parts: Sequence[tuple[int, ...]], *, joined: bool
) -> Transform | None:
    """What joins these parts along their first axis, or parts the whole."""
    if any(not part or part[1:] != parts[0][1:] for part in parts):
        return None
    rows = sum(part[0] for part in parts)
    behind = (rows, *parts[0][1:])
    turn = [] if whole == behind else [Transform("transpose")]
    if whole not in (behind, behind[::-1]):
        return None
    if joined:
        return chained([Transform("concat", (0,)), *turn])
    return chained([*turn, Transform("split", (0, *(part[0] for part in parts)))])


def _stacked(source: Specs, target: Specs) -> Iterator[PlacedRow]:
    """Experts that the other side has in one tensor of three axes."""
    for wholes, parts, joined in ((target, source, True), (source, target, False)):
        experts: dict[Place, list[str]] = defaultdict(list)
        for place, name in _placed(parts):
            experts[place._replace(numbers=place.numbers[:-1])].append(name)
        for place, whole in _placed(wholes):
            shape = wholes[whole].shape
            each = [
                experts.get(place._replace(role=r), [])
                for r in _PACKED.get(place.role, (place.role,))
            ]
            if len(shape) != 3 or any(len(names) != shape[0] for names in each):
                continue
            names = tuple(itertools.chain(*zip(*each, strict=True)))
            shapes = [parts[name].shape for name in names]
            way = _way_of_experts(shape, shapes, joined=joined)
            if way is not None:
                yield _of_several(whole, names, way, joined=joined)


def _way_of_experts(
    whole: tuple[int, ...], parts: Sequence[tuple[int, ...]], *, joined: bool
) -> Transform | None:
    if len({part[1:] for part in parts}) > 1 or len(parts[0]) != 2:
        return None
    rows, width = sum(part[0] for part in parts), parts[0][1]
    each = (whole[0], rows // whole[0], width)
    if rows % whole[0] or whole not in (each, (each[0], each[2], each[1])):
        return None
    turn = [] if whole == each else [Transform("permute", (0, 2, 1))]
    if joined:
        return chained([Transform("concat", (0,)), Transform("reshape", each), *turn])
    cut = Transform("split", (0, *(part[0] for part in parts)))
    return chained([*turn, Transform("reshape", (rows, width)), cut])
