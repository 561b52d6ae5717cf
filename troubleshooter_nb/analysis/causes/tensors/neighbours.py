"""Values of one tensor that are those of another: wrong layers, ties, sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Error,
    Sides,
    error_of,
    transform,
)
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.naming.roles import is_embedding, is_head, is_in_a_list, is_product
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import (
    EQUAL_LAYERS,
    FEWEST_MOVED,
    FEWEST_WHOLE,
    OTHER_HEAD_ERROR,
    TIED_FIRST,
    TIED_PROBE,
)

_SIDES = ("left", "right")
_Match = tuple[float, str, str, TensorPair]  # what is left, side, name of the other, the other
_SUMS = {"left": "evidence.left_sums_biases", "right": "evidence.right_sums_biases"}


def detect_tied(sides: Sides, others: Sequence[TensorPair]) -> list[Suspicion]:
    """tied_weights_broken: a head that equals the embedding on one side only."""
    name = sides.tensor.name
    shape = sides.shapes[0]
    if len(shape) != 2 or sides.size < FEWEST_MOVED or not sides.same_shape:
        return []
    for other in others if _has_tied_name(name) else ():
        if other is sides.tensor or not _are_named_tied(shape, name, other.name):
            continue
        if not _are_real(other) or other.shapes != sides.shapes:
            continue
        partner = sides.like(other, 0), sides.like(other, 1)
        if partner[0] is None or partner[1] is None:
            continue
        tied = [
            error_of(sides.left, partner[0]) <= sides.floor,
            error_of(sides.right, partner[1]) <= sides.floor,
        ]
        if isinstance(sides, LargeSides) and tied[0] != tied[1]:
            own = tied.index(True)
            tied[own] = sides.apart(sides.tensor.sources[own], other.sources[own]) <= sides.floor
        if tied[0] != tied[1] and not sides.is_constant(0) and not sides.is_constant(1):
            if isinstance(sides, LargeSides):
                pairs = zip(sides.tensor.sources, other.sources, strict=True)
                (left, their_left), (right, their_right) = pairs
                residual = sides.apart(*((left, their_right) if tied[0] else (their_left, right)))
            else:
                both = (sides.left, partner[1]) if tied[0] else (partner[0], sides.right)
                residual = error_of(*both)
            evidence = {"other": other.name, "tied": "left" if tied[0] else "right"}
            return [sides.suspicion("tied_weights_broken", residual, evidence)]
    return []


def detect_wrong_layer(
    sides: Sides, others: Sequence[TensorPair], near: Sequence[TensorPair] | None = None
) -> list[Suspicion]:
    """wrong_layer_loaded: left holds what another name holds on the right.

    Of an input: data_order, as it is that of another call. `near`: those of `others` that may hold
    it, see `Peers.near`; default all.
    """
    if not sides.same_shape or sides.size < FEWEST_MOVED or sides.is_constant(0):
        return []
    # Masks and flags are alike by chance.
    if sides.integers and len(np.unique(sides.left)) < FEWEST_WHOLE:
        return []
    matches = []
    for other, side in alike_elsewhere(sides.tensor, others if near is None else near):
        own = _SIDES.index(side)
        values, theirs = (sides.left, sides.right)[own], sides.like(other, 1 - own)
        # Zeros are anybody's.
        if theirs is not None and not sides.is_constant(own):
            matches.append((error_of(values, theirs), side, other.name, other))
    matches.sort(key=lambda one: one[:3])
    limit = max(4.0 * sides.floor, EQUAL_LAYERS)
    if isinstance(sides, LargeSides):
        matches = _proved(sides, [one for one in matches if one[0] <= limit])
    if not matches or matches[0][0] > limit or matches[0][0] > 0.1 * sides.before:
        return []
    residual, side, name, _ = matches[0]
    held = {one[2] for one in matches if one[0] <= limit}
    cause = "data_order" if sides.tensor.role == "input" else "wrong_layer_loaded"
    evidence = {
        "other": name,
        "side": side,
        "equal": sorted(held),
        "duplicates": _duplicates(sides, others),
        "what": "values of another call",
    }
    return [sides.suspicion(cause, residual, evidence)]


def _proved(sides: LargeSides, matches: list[_Match]) -> list[_Match]:
    """What some rows say is put to all elements until it holds."""
    for number, (_, side, name, other) in enumerate(matches):
        own = _SIDES.index(side)
        residual = sides.apart(sides.tensor.sources[own], other.sources[1 - own])
        if residual <= max(4.0 * sides.floor, EQUAL_LAYERS):
            return [(residual, side, name, other), *matches[number + 1 :]]
    return []


def detect_summed_bias(sides: Sides, others: Sequence[TensorPair]) -> list[Suspicion]:
    """lstm_gate_order: one bias on one side that is the sum of two on the other."""
    if not sides.same_shape or "bias_ih" not in sides.tensor.name or sides.size < FEWEST_MOVED:
        return []
    wanted = sides.tensor.name.replace("bias_ih", "bias_hh")
    for other in others:
        if other.name != wanted:
            continue
        # Of the side that has one bias the second is absent, or zero.
        for own, side in enumerate(_SIDES):
            if other.shapes[1 - own] != sides.shapes[1 - own]:
                continue
            one, ours = (sides.left, sides.right) if own == 0 else (sides.right, sides.left)
            theirs = sides.like(other, 1 - own)
            if theirs is None:
                continue
            residual = error_of(one, ours + theirs)
            if sides.few.holds(residual) and isinstance(sides, LargeSides):
                residual = _summed(sides, own, other)
            if sides.holds(residual):
                evidence: dict[str, Any] = {"other": wanted, "side": side, "kind": "sum"}
                evidence["text"] = Message(_SUMS[side])
                if side == "right":
                    evidence["transform"] = transform("add")
                return [sides.suspicion("lstm_gate_order", residual, evidence)]
    return []


def _summed(sides: LargeSides, own: int, other: TensorPair) -> float:
    """Error of a side, held against the sum of the other one and another tensor of that side."""
    sources = [sides.tensor.sources[own], sides.tensor.sources[1 - own], other.sources[1 - own]]
    total = Error(is_quick=True)
    known = [source for source in sources if source is not None]
    for _, raw in streamed(known, sides.tensor.budget):
        one, ours, theirs = map(values_of, raw)
        total.add(one, ours + theirs)
    return total.value


def may_be_tied(tensor: TensorPair, others: Sequence[TensorPair]) -> bool:
    """Whether another tensor's name and shape say that the two may be one."""
    shape = tensor.shapes[0]
    if shape is None or not _has_tied_name(tensor.name):
        return False
    return any(
        other is not tensor
        and other.shapes[0] == shape
        and _are_named_tied(shape, tensor.name, other.name)
        for other in others
    )


def alike_elsewhere(
    tensor: TensorPair, others: Sequence[TensorPair]
) -> list[tuple[TensorPair, str]]:
    """Other tensors one side of which may hold what this one holds on the side that is named.

    A few values decide; a tensor that is left out holds something else.
    """
    own = [_Probed(source) for source in tensor.sources]
    found = []
    for other in others:
        for side in (0, 1):
            source = other.sources[1 - side]
            if other is not tensor and source is not None and own[side].is_like(source):
                found.append((other, _SIDES[side]))
    return found


class Peers:
    """Root tensors of one role, among which those are found that may hold the same values.

    Parameters
    ----------
    rows : sequence of int
        Their rows in the result.
    result : Table
    made : callable
        Makes the `TensorPair` of a row: most are never asked for.
    """

    def __init__(
        self, rows: Sequence[int], result: Table, made: Callable[[int], TensorPair]
    ) -> None:
        self._rows, self._result, self._made = np.array(rows, np.int64), result, made
        self._figures = _bounding(result, self._rows)

    def but(self, row: int) -> Sequence[TensorPair]:
        """All but that of one row."""
        return _Made(self._rows[self._rows != row].tolist(), self._made)

    def near(self, row: int, tensor: TensorPair) -> Sequence[TensorPair]:
        """Those whose figures allow that they hold what the other side of a tensor holds.

        Norms, means and ends of two tensors are no further apart than the tensors: what is left
        out is none that `detect_wrong_layer` would take.
        """
        own = _bounding(self._result, row)
        scales = np.array([1.0, 1.0, 1.0, 1.0 / math.sqrt(max(tensor.size, 1))])[:, None]
        near = np.zeros(len(self._rows), bool)
        for side in (0, 1):
            theirs = self._figures[:, 1 - side]
            norms = np.maximum(theirs[0], own[0, side])
            reach = max(4.0 * tensor.floor, EQUAL_LAYERS) * norms * scales
            # An unknown figure compares false.
            near |= ~(np.abs(theirs - own[:, side, None]) > reach).any(0)
        return _Made(self._rows[near & (self._rows != row)].tolist(), self._made)


def _bounding(result: Table, rows: Any) -> np.ndarray:
    """Norm, ends and mean of both sides, shape (4, 2, ...) of rows (...); nan where unknown."""
    names = [[f"{side}_{name}" for side in _SIDES] for name in ("l2", "min", "max", "mean")]
    return np.stack([np.stack([result[name][rows] for name in both]) for both in names])


class _Made(Sequence[TensorPair]):
    """Tensors that are made when they are looked at."""

    def __init__(self, rows: list[int], made: Callable[[int], TensorPair]) -> None:
        self._rows, self._made = rows, made

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> TensorPair: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TensorPair]: ...
    def __getitem__(self, place: int | slice) -> TensorPair | Sequence[TensorPair]:
        if isinstance(place, slice):
            return _Made(self._rows[place], self._made)
        return self._made(self._rows[place])


def _are_named_tied(shape: tuple[int, ...], name: str, other: str) -> bool:
    return _are_tied_names(name, other) or _may_be_tied(shape, name, other)


def _has_tied_name(name: str) -> bool:
    """Whether any other name could say that the two are one; layers of a list have none."""
    return is_embedding(name) or is_head(name) or is_product(name) or not is_in_a_list(name)


def _are_tied_names(name: str, other: str) -> bool:
    """Whether one is an embedding's and the other a head's, or any product's."""
    pairs = ((name, other), (other, name))
    # A head is a mere operator where calls have no layer's name.
    return any(is_embedding(table) and (is_head(head) or is_product(head)) for head, table in pairs)


def _may_be_tied(shape: tuple[int, ...], name: str, other: str) -> bool:
    """Whether one is a head and the other, of whatever name, outside all numbered layers.

    Square matrices are those of layers, and seldom a vocabulary's.
    """
    heads = [is_head(one) for one in (name, other)]
    numbered = any(map(is_in_a_list, (name, other)))
    return heads[0] != heads[1] and not numbered and shape[0] > shape[1]


def _are_real(tensor: TensorPair) -> bool:
    return all(source is not None and _is_real(source.dtype) for source in tensor.sources)


@functools.cache
def _is_real(dtype: np.dtype) -> bool:
    return arithmetic_of(dtype) in ("float", "integer")


class _Probed:
    """A few values of a tensor, read when asked for, to be held against those of others."""

    def __init__(self, source: ArraySource | None) -> None:
        self.source = source
        self._first: np.ndarray | None = None
        self._probes: list[tuple[int, np.ndarray]] = []

    def is_like(self, other: ArraySource) -> bool:
        """Whether the first values, and as many in the middle, are near."""
        source = self.source
        if source is None or other.shape != source.shape or not _is_real(other.dtype):
            return False
        size = math.prod(source.shape)
        if self._first is None:
            starts = (0, size // 2)
            self._probes = [(start, _values_at(source, start, size)) for start in starts]
            self._first = self._probes[0][1][:TIED_FIRST].astype(np.float64)
        # Most differ in the first few already, and so many tensors are asked that nothing else
        # counts.
        own = self._first
        error = other.read(0, len(own)).astype(np.float64) - own
        if error @ error > OTHER_HEAD_ERROR * (own @ own):
            return False
        return all(
            error_of(values, _values_at(other, start, size)) <= 1e-2
            for start, values in self._probes
        )


def _values_at(source: ArraySource, start: int, size: int) -> np.ndarray:
    return values_of(computable(source.read(start, min(start + TIED_PROBE, size))))


def _duplicates(sides: Sides, others: Sequence[TensorPair]) -> list[str]:
    """Names that hold the same values on the left: two were filled from one."""
    own, found = _Probed(sides.tensor.sources[0]), []
    for other in others:
        source = other.sources[0]
        if other is not sides.tensor and source is not None and own.is_like(source):
            found.append(other.name)
    return found[:8]
