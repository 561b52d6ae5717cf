"""What a name of a weight map may belong to, and pairs of what is left over on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.closeness import Candidate, Judged, closest_partners, rest_pairs
from troubleshooter_nb.transforms import Transform
from troubleshooter_nb.weight_map.rows import SIDES, Side, WeightRow, used_names
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
    other_side: Side = "target" if side == "source" else "source"
    if side == "source":
        check_names([name], names[0], tensors.source_label)
    else:
        check_names([name], names[1] or names[0], tensors.target_label)
    others = tuple(names[side == "source"])
    owners = {other: row for row in rows for other in row.names(other_side)}
    suggested = None
    if suggestions and not any(name in row.names(side) for row in rows):
        suggested = suggested_for(suggestions, name, side)
    proven = suggested.names(other_side) if suggested is not None else ()

    def judge(position: int) -> Judged:
        other = others[position]
        pair = (name, other) if side == "source" else (other, name)
        how = suggested.transform if suggested is not None and other in proven else None
        why, fits = _verdict(tensors, *pair, how)
        goes: str = ""
        if (owner := owners.get(other)) is not None:
            partners = list(owner.names(side))
            id = f"weight_maps.{'paired_with' if partners else 'dropped'}"
            goes = Message(id, names=partners)
        return Judged(why, goes, fits, how is not None)

    at = [others.index(one) for one in proven if one in names[side == "source"]]
    free = (position for position, one in enumerate(others) if one not in owners)
    return closest_partners(name, others, judge, free=free, proven=at, most=most)


def _verdict(
    tensors: Tensors, source: str, target: str, proven: Transform | None
) -> tuple[str, bool]:
    """What speaks for or against a pair, and whether shapes or values let it be."""
    if proven is not None:
        return Message("weight_maps.suggested_by", transform=proven), True
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
