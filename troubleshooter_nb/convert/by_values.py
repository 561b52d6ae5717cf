"""What the values of two checkpoints say about a map that names and shapes left open."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from troubleshooter_nb.convert.draft import GUESSED
from troubleshooter_nb.convert.likeness import has_numbers
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.formats.transformed_source import transformed
from troubleshooter_nb.messages import Message, ids_of
from troubleshooter_nb.metrics.compositions import Composition, composition_of, not_composed
from troubleshooter_nb.metrics.derivations import Derivation, derivation_between
from troubleshooter_nb.metrics.fingerprints import Fingerprint, candidates, fingerprint_of
from troubleshooter_nb.metrics.relations import not_related
from troubleshooter_nb.metrics.streamed import KeptSignatures, Streamed
from troubleshooter_nb.naming.roles import is_packed_attention, is_recurrent_tensor
from troubleshooter_nb.thresholds import FEWEST_RELATED, MOST_JOINED, MOST_PAIRS_TRIED
from troubleshooter_nb.transforms import Spec, Transform, chained, of_relation
from troubleshooter_nb.weight_map import WeightMap, WeightRow, reparametrized

# Relations in which the target has values that the source lacks, as no transform makes them.
NOT_SAME = frozenset(("pad",))
# What a composition is, seen from the whole.
_PARTED = {"concat": "part", "interleave": "part", "stack": "unstack"}
_EQUAL = ("identical", "close")
# What the blocks of packed tensors are called, in the order of torch.
_GATES: tuple[tuple[str, ...], ...] = (("i", "f", "g", "o"), ("r", "z", "n"))  # LSTM, GRU


def with_values(drafted: WeightMap, source: Dump, target: Dump) -> WeightMap:
    """The map with the rows that values prove: pairs, transforms, joined and split tensors.

    Only what names and shapes left open is looked at: tensors without a row, rows that do not fit
    and rows that are a guess; `troubleshooter_nb.convert.evidence` looks at the others. What no
    transform of the closed list can do is a note.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    broken = [row for row in drafted.rows if row.targets and _is_open(row, drafted)]
    kept = [row for row in drafted.rows if row not in broken]
    ours = [*drafted.unmatched_sources, *(name for row in broken for name in row.sources)]
    parts = {n for whole in reparametrized(drafted.target or {}).values() for n in whole.names}
    theirs = [name for name in drafted.unmatched_targets if name not in parts]
    theirs += [name for row in broken for name in row.targets]
    signatures = KeptSignatures()
    left = _Values(source, ours, signatures)
    right = _Values(target, [name for name in theirs if name in target], signatures)
    rows, notes = _pairs(left, right, drafted, whole=True)
    for joined in (True, False):
        more, said_ = _composed(left, right, drafted, joined=joined)
        rows += more
        notes += said_
    # A whole that is split is no source of one of its parts.
    more, said_ = _pairs(left, right, drafted, whole=False)
    rows += more
    notes += [note for note in said_ if note not in notes]
    proved = {name for row in rows for name in (*row.sources, *row.targets)}
    kept += [row for row in broken if not proved & {*row.sources, *row.targets}]
    changed = drafted.with_rows([*kept, *rows])
    return replace(changed, notes=(*drafted.notes, *notes))


def _is_open(row: WeightRow, drafted: WeightMap) -> bool:
    """Whether a row does not fit, or was paired by a guess."""
    return bool(drafted.problem(row)) or GUESSED in ids_of(row.note)


class _Values:
    """Tensors of one side that have no partner yet."""

    def __init__(self, dump: Dump, names: Sequence[str], kept: KeptSignatures) -> None:
        self.sources: dict[str, ArraySource] = {}
        self.tensors: dict[str, Streamed] = {}
        self._prints: dict[str, Fingerprint] = {}
        for name in names:
            source = dump.sources[dump.position(name)]
            if source is None or not has_numbers(source):
                continue
            if math.prod(source.shape) >= FEWEST_RELATED:
                self.sources[name] = source
                self.tensors[name] = Streamed(source, kept=kept)

    def fingerprints(self) -> dict[str, Fingerprint]:
        """Of what is left; each tensor is read for it once."""
        for name, source in self.sources.items():
            if name not in self._prints:
                self._prints[name] = fingerprint_of(source)
        return {name: self._prints[name] for name in self.sources}

    def take(self, names: Sequence[str]) -> None:
        for name in names:
            del self.sources[name]


def _pairs(
    left: _Values, right: _Values, drafted: WeightMap, *, whole: bool
) -> tuple[list[WeightRow], list[str]]:
    """Rows of one tensor each, the surest first; notes of relations that no transform undoes.

    Of tensors of one size if `whole`, else of two: parts and repetitions.
    """
    if not left.sources or not right.sources:
        return [], []
    limits: dict[str, str] = {}
    found = [
        (relation.residual, ours, theirs, relation)
        for ours, theirs in _likely(left, right)
        if (left.tensors[ours].size == right.tensors[theirs].size) is whole
        if (relation := related(left.sources[ours], right.sources[theirs], limits)) is not None
        if relation.kind not in NOT_SAME
    ]
    rows: list[WeightRow] = []
    notes: list[str] = [*limits.values()]
    for _, ours, theirs, relation in sorted(found, key=lambda one: one[:3]):
        if ours not in left.sources or theirs not in right.sources:
            continue
        transforms = transform_of(relation, drafted.source[ours], Transform())
        row = WeightRow((ours,), (theirs,))
        text = by_values(relation, row)
        if not transforms:
            names = f"{ours} -> {theirs}"
            notes.append(Message("weight_maps.no_transform_does", names=names, how=text))
        else:
            rows.append(replace(row, transform=transforms[0], note=text))
        left.take([ours])
        right.take([theirs])
    return rows, notes


def _likely(left: _Values, right: _Values) -> Iterator[tuple[str, str]]:
    """Pairs worth a search: of one fingerprint, and all pairs of what is left if that is little."""
    alike = [
        (ours, theirs) for ours, theirs, _ in candidates(left.fingerprints(), right.fingerprints())
    ]
    yield from alike
    met = {name for pair in alike for name in pair}
    rest = [[n for n in side.sources if n not in met] for side in (left, right)]
    if len(rest[0]) * len(rest[1]) <= MOST_PAIRS_TRIED:
        yield from itertools.product(*rest)


def related(source: ArraySource, target: ArraySource, limits: dict[str, str]) -> Derivation | None:
    """What makes a target of a source; `limits` takes what was not looked for."""
    relation = derivation_between(source, target)
    if relation is None and (limit := not_related(source.shape, target.shape)):
        limits[limit] = limit
    return relation


def by_values(relation: Derivation, row: WeightRow) -> Message:
    """The note of a row that a relation made."""
    said = said_of_row(relation, row)
    return Message("weight_maps.by_values", relation=said, residual=relation.residual)


def said_of_row(relation: Derivation, row: WeightRow, source: str = "values.the_source") -> Message:
    """What a relation says of the target; `source` is the id of what it was made of."""
    sides = {"left": Message(source), "right": Message("values.the_target")}
    packed = _of_packed(relation, row, sides)
    return packed or relation.said(**sides)


def _of_packed(relation: Derivation, row: WeightRow, sides: Mapping[str, str]) -> Message | None:
    """The order of gates, of q, k and v, or of two halves, in words."""
    if relation.kind != "blocks":
        return None
    given = relation.steps[0].arguments
    order = given["order"]
    recurrent = any(is_recurrent_tensor(name) for name in (*row.sources, *row.targets))
    gates = next((g for g in _GATES if recurrent and len(g) == len(order)), ())
    if not gates:
        packed = any(is_packed_attention(name) for name in (*row.sources, *row.targets))
        gates = ("q", "k", "v") if packed and len(order) == 3 else ()
    if gates:
        parts = {"parts": list(gates), "order": [gates[i] for i in order]}
        return Message("values.packed", **sides, **parts)
    return Message("values.halves", **sides, axis=given["axis"]) if order == (1, 0) else None


def transform_of(relation: Derivation, spec: Spec, base: Transform) -> list[Transform]:
    """The transforms of the closed list that do what a relation says, the likeliest first.

    Parameters
    ----------
    relation : Derivation
        From the source after `base` to the target.
    spec : Spec
        Of the source.
    base : Transform
    """
    if relation.kind in _EQUAL:
        return list(dict.fromkeys([base, Transform()]))
    try:
        given = base.specs([spec])
    except WeightMapError:  # the tensor of another layer was taken as it is stored
        base, given = Transform(), [spec]
    made = base
    for step in relation.steps:
        found = of_relation(step.kind, step.arguments, given)
        if found is None:
            return []
        made, given = chained([made, found]), found.specs(given)
    return [made]


def _composed(
    left: _Values, right: _Values, drafted: WeightMap, *, joined: bool
) -> tuple[list[WeightRow], list[str]]:
    """Targets that several sources make, or else sources that several targets make."""
    rows: list[WeightRow] = []
    notes: list[str] = []
    wholes, parts = (right, left) if joined else (left, right)
    for name in list(wholes.sources):
        whole = wholes.tensors[name]
        found, flat, limit = _composition(parts, wholes.sources[name], whole)
        if limit and limit not in notes:
            notes.append(limit)
        if found is None:
            continue
        # A whole is never split into parts that add up to it.
        kind = found.kind if joined else _PARTED.get(found.kind, "")
        first = (
            [drafted.source[one] for one in found.parts]
            if joined
            else flat.specs([drafted.source[name]])
        )
        transform = of_relation(kind, found.arguments, first)
        if transform is not None and flat.kind != "copy":
            back = Transform("reshape", whole.shape)
            transform = chained([transform, back] if joined else [flat, transform])
        said = {"relation": found.text, "residual": found.residual}
        text = Message("weight_maps.by_values", **said)
        if transform is None:
            notes.append(Message("weight_maps.no_transform_does", names=name, how=text))
        elif joined:
            rows.append(WeightRow(found.parts, (name,), transform, note=text))
        else:
            rows.append(WeightRow((name,), found.parts, transform, note=text))
        wholes.take([name])
        parts.take(found.parts)
    return rows, notes


def _composition(
    side: _Values, source: ArraySource, whole: Streamed
) -> tuple[Composition | None, Transform, str]:
    """What a whole is made of, tensors that are parts of it, or two of its shape that add up.

    And how it was looked at, and what was not looked for, if it was not found. `source` is what
    the whole is read from.
    """
    fitting = [name for name in side.sources if side.tensors[name].size <= whole.size]
    if len(fitting) < 2:
        return None, Transform(), ""
    parts = {name: side.tensors[name] for name in fitting[:MOST_JOINED]}
    for view in _views(whole.shape):
        seen = whole if view.kind == "copy" else Streamed(transformed([source], view)[0])
        if found := composition_of(parts, seen):
            return found, view, ""
    return None, Transform(), not_composed(parts, whole) or ""


def _views(shape: tuple[int, ...]) -> Iterator[Transform]:
    """As it is, and with its first two axes as one: stacked experts, each joined of two halves."""
    yield Transform()
    if len(shape) == 3:
        yield Transform("reshape", (-1, shape[2]))
