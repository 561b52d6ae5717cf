"""What the values of two checkpoints say about a map that names and shapes left open."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.metrics.compositions import find_composition
from troubleshooter_nb.metrics.fingerprints import Fingerprint, candidates, fingerprint
from troubleshooter_nb.metrics.relations import Relation, find_relation
from troubleshooter_nb.weight_map import Spec, Transform, WeightMap, WeightRow

# Values of more bytes than this in one tensor are not looked at: a relation needs a few copies.
_LARGEST = 2 * 1024**3
# Fewer values than these are alike by chance: the ones and zeros of norms, a handful of biases.
_FEWEST = 16
_MOST_PARTS = 64
GUESSED = "paired by"  # in the note of a row that names do not prove
_EQUAL = ("identical", "close", "cast")


def with_values(drafted: WeightMap, source: Dump, target: Dump) -> WeightMap:
    """The map with the rows that values prove: pairs, transforms, joined and split tensors.

    Only what names and shapes left open is looked at: tensors without a row, rows that do not fit
    and rows that are a guess. What no transform of the closed list can do (a scale, rows in
    another order) is a note.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    broken = [row for row in drafted.rows if row.targets and _is_open(row, drafted)]
    kept = [row for row in drafted.rows if row not in broken]
    ours = [*drafted.unmatched_sources, *(name for row in broken for name in row.sources)]
    theirs = [*drafted.unmatched_targets, *(name for row in broken for name in row.targets)]
    left, right = _Values(source, ours), _Values(target, [n for n in theirs if n in target])
    rows, notes = _pairs(left, right, drafted)
    rows += _joined(left, right)
    rows += _split(left, right)
    proved = {name for row in rows for name in (*row.sources, *row.targets)}
    kept += [row for row in broken if not proved & {*row.sources, *row.targets}]
    changed = drafted.with_rows([*kept, *rows])
    return replace(changed, notes=(*drafted.notes, *notes))


def _is_open(row: WeightRow, drafted: WeightMap) -> bool:
    """Whether a row does not fit, or was paired by a guess."""
    return bool(drafted.problem(row)) or GUESSED in row.note


class _Values:
    """Tensors of one side that have no partner yet, read when asked for."""

    def __init__(self, dump: Dump, names: Sequence[str]) -> None:
        self.sources: dict[str, ArraySource] = {}
        for name in names:
            source = dump.sources[dump.position(name)]
            if source is None or source.size_bytes > _LARGEST:
                continue
            if math.prod(source.shape) >= _FEWEST:
                self.sources[name] = source

    def array(self, name: str) -> np.ndarray:
        source = self.sources[name]
        return source.read(0, math.prod(source.shape)).reshape(source.shape)

    def fingerprints(self) -> dict[str, Fingerprint]:
        return {name: fingerprint(self.array(name)) for name in self.sources}

    def take(self, names: Sequence[str]) -> None:
        for name in names:
            del self.sources[name]


def _pairs(left: _Values, right: _Values, drafted: WeightMap) -> tuple[list[WeightRow], list[str]]:
    """Rows of one tensor each, the surest first; notes of relations that no transform undoes."""
    if not left.sources or not right.sources:
        return [], []
    found = []
    for ours, theirs, _ in candidates(left.fingerprints(), right.fingerprints()):
        relation = find_relation(left.array(ours), right.array(theirs))
        if relation is not None and relation.kind not in ("slice", "pad", "repeat"):
            found.append((relation.residual, ours, theirs, relation))
    rows, notes = [], []
    for residual, ours, theirs, relation in sorted(found, key=lambda one: one[:3]):
        if ours not in left.sources or theirs not in right.sources:
            continue
        transform = _transform(relation, drafted.source[ours])
        said = f"by values: {relation.text}, residual {residual:.1e}"
        if transform is None:
            notes.append(f"{ours} -> {theirs} {said}; no transform does that")
        else:
            rows.append(WeightRow((ours,), (theirs,), transform, note=said))
        left.take([ours])
        right.take([theirs])
    return rows, notes


def _transform(relation: Relation, spec: Spec) -> Transform | None:
    """The transform of the closed list that does what a relation says, if one does."""
    given = relation.arguments
    if relation.kind in _EQUAL:
        return Transform()
    try:
        if relation.kind == "reshape":
            transform = Transform("reshape", tuple(given["shape"]))
        elif relation.kind in ("transpose", "permute") and set(given) == {"axes"}:
            transform = Transform("permute", tuple(given["axes"]))
        else:
            return None
        transform.specs([spec])
    except WeightMapError:
        return None
    reverse = tuple(reversed(range(len(spec.shape))))
    return Transform("transpose") if transform.arguments == reverse else transform


def _joined(left: _Values, right: _Values) -> list[WeightRow]:
    """Targets that are several sources one after the other."""
    rows = []
    for name in list(right.sources):
        if parts := _parts(left, right.array(name)):
            names, axis, _ = parts
            rows.append(WeightRow(names, (name,), Transform("concat", (axis,)), note="by values"))
            left.take(names)
            right.take([name])
    return rows


def _split(left: _Values, right: _Values) -> list[WeightRow]:
    """Sources that are several targets one after the other."""
    rows = []
    for name in list(left.sources):
        if parts := _parts(right, left.array(name)):
            names, axis, sizes = parts
            transform = Transform("split", (axis, *sizes))
            rows.append(WeightRow((name,), names, transform, note="by values"))
            left.take([name])
            right.take(names)
    return rows


def _parts(side: _Values, whole: np.ndarray) -> tuple[tuple[str, ...], int, tuple[int, ...]] | None:
    """Names of the tensors that a whole is made of, the axis, and their sizes along it."""
    smaller = [n for n, s in side.sources.items() if math.prod(s.shape) < whole.size]
    if len(smaller) < 2:
        return None
    arrays: Mapping[str, np.ndarray] = {name: side.array(name) for name in smaller[:_MOST_PARTS]}
    found = find_composition(arrays, whole)
    if found is None or found.kind != "concat" or len(found.parts) < 2:
        return None
    given = found.arguments
    if given["transposed"] or given["groups"] != 1:
        return None
    return found.parts, int(given["axis"]), tuple(int(size) for size in given["sizes"])
