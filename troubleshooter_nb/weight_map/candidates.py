"""What a name of a weight map may belong to, and pairs of what is left over on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import Candidate, Judged, closest_partners, rest_pairs
from troubleshooter_nb.transforms import Transform
from troubleshooter_nb.weight_map.rows import SIDES, Side, WeightRow, other, used_names
from troubleshooter_nb.weight_map.suggestions import suggested_for
from troubleshooter_nb.weight_map.tensors import Tensors, check_names

Names = Sequence[str]


def candidates(
    tensors: Tensors,
    rows: Sequence[WeightRow],
    suggestions: Sequence[WeightRow],
    name: str,
    side: Side | None,
    more: tuple[Names, Names],
    most: int,
) -> list[Candidate]:
    """What `WeightMap.candidates` gives; `more` are names of a source or target not known."""
    names = [tensors.names(one, rows, more[at]) for at, one in enumerate(SIDES)]
    if side is None:
        side = "source" if name in names[0] else "target"
    mine, theirs = names if side == "source" else names[::-1]
    check_names([name], mine or theirs, tensors.label(side))
    others, other_side = tuple(theirs), other(side)
    owners = {one: row for row in rows for one in row.names(other_side)}
    suggested = None
    if name not in used_names(rows, side):
        suggested = suggested_for(suggestions, name, side)
    proven = suggested.names(other_side) if suggested is not None else ()

    def judge(position: int) -> Judged:
        one = others[position]
        owner = owners.get(one)
        taken = "" if owner is None else _taken(owner.names(side))
        if suggested is not None and one in proven:
            why = Message("weight_maps.suggested_by", transform=suggested.transform)
            return Judged(why, taken=taken, proven=True)
        return Judged(*_fit(tensors, *((name, one) if side == "source" else (one, name))), taken)

    at = [others.index(one) for one in proven if one in theirs]
    free = (position for position, one in enumerate(others) if one not in owners)
    return closest_partners(name, others, judge, free=free, proven=at, most=most)


def _taken(partners: Names) -> Message:
    """What a name is paired with already, or that it is dropped."""
    if not partners:
        return Message("weight_maps.dropped")
    return Message("weight_maps.paired_with", names=list(partners))


def _fit(tensors: Tensors, source: str, target: str) -> tuple[str, bool]:
    """What shapes say for or against a pair, and whether they let it be."""
    if tensors.target is None or not tensors.source:
        return Message("pairings.unknown_shape"), True
    transforms = tensors.fitting([source], [target])
    if not transforms:
        return tensors.misfit([source], [target]), False
    if transforms[0].kind == "copy":
        return Message("pairings.same_shape"), True
    return Message("weight_maps.fits_by", transform=transforms[0]), True


def rest_of(
    tensors: Tensors,
    rows: Sequence[WeightRow],
    more: tuple[Names, Names],
    former: Sequence[WeightRow],
) -> list[WeightRow]:
    """The rows that `WeightMap.match_rest` makes of what is left."""
    used = [set(used_names(rows, side)) for side in SIDES]
    left, right = (
        [name for name in tensors.names(side, rows, more[at]) if name not in used[at]]
        for at, side in enumerate(SIDES)
    )
    target = tensors.target if tensors.source else None
    as_before = {(row.sources, row.targets): row.transform for row in former}

    def how(i: int, j: int) -> Transform | None:
        names = (left[i],), (right[j],)
        if target is None:
            return as_before.get(names, Transform())
        return next(iter(tensors.fitting(*names)), None)

    sizes: tuple[list[int], list[int]] = [0] * len(left), [0] * len(right)
    if target is not None:
        sizes = [tensors.source[n].size for n in left], [target[n].size for n in right]
    made = []
    # Where shapes are not known it says nothing that two names are left over.
    pairs = rest_pairs(left, right, sizes, lambda i, j: bool(how(i, j)), alone=target is not None)
    for i, j, note in pairs:
        transform = how(i, j) or Transform()
        row = WeightRow((left[i],), (right[j],), transform, how="edited", note=note)
        # Both names are known and the transform fits: nothing else can be wrong with the row.
        if right[j].strip() and not tensors.part(row):
            made.append(row)
    return made
