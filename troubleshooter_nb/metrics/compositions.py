"""Which named tensors one tensor is put together from, recognised from values alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.arrangements import divisors
from troubleshooter_nb.metrics.floats import arithmetic_of, unit_roundoff
from troubleshooter_nb.metrics.signatures import (
    best_start,
    nearest,
    remainder_norm,
    row_signatures,
    searchable,
    spread_of,
    values_of,
)
from troubleshooter_nb.thresholds import FEWEST_ADDED, PART_ERROR, SHORT_ROW

CompositionKind = Literal["concat", "interleave", "stack", "sum"]


@dataclass(frozen=True, slots=True)
class Composition:
    """How one tensor is put together from several, with the error that is left as evidence.

    Attributes
    ----------
    kind : CompositionKind
        "concat": the parts one after the other (q|k|v). "interleave": a piece of each part in
        turn, per head or per row. "stack": the parts along a new axis (experts, layers). "sum": of
        two parts (the two biases of a recurrent layer).
    parts : tuple of str
        Names in their order in the whole.
    arguments : Mapping[str, Any]
        axis: of the whole. sizes: of each part along it, 1 in a stack. groups: how many times the
        parts take turns, 1 for "concat" and "stack". transposed: whether the two axes of each part
        were swapped first. Empty for "sum".
    residual : float
        Norm of the error that is left, over the norm of the whole about its mean.
    text : str
        One sentence with the whole as the subject.
    """

    kind: CompositionKind
    parts: tuple[str, ...]
    arguments: Mapping[str, Any]
    residual: float
    text: str

    def apply(self, parts: Mapping[str, np.ndarray]) -> np.ndarray:
        """The whole that the named parts make; parts without a share are ignored."""
        given = self.arguments
        members = [parts[name] for name in self.parts]
        if self.kind == "sum":
            return np.asarray(members[0] + members[1])
        axis = given["axis"]
        if given["transposed"]:
            members = [member.T for member in members]
        if self.kind == "stack":
            return np.stack(members, axis)
        return _joined(members, axis, given["groups"])


def find_composition(
    parts: Mapping[str, np.ndarray], whole: np.ndarray, *, tolerance: float = 1e-2
) -> Composition | None:
    """Which of the parts the whole is made of, in which order and along which axis.

    Parameters
    ----------
    parts : Mapping of str to ndarray
        Candidates of any shape and dtype; those without a share are left out. Each is used once
        at most; of several equal ones the first.
    whole : ndarray, any shape
        NaN and inf must be equal at the places that correspond.
    tolerance : float
        Largest residual. Formats coarser than it raise it to their unit roundoff.

    Returns
    -------
    Composition or None
        None unless two or more parts cover the whole without a gap, or two add up to it. Axis 0 is
        tried first, parts as they are before transposed ones, and sums last. Constant parts and
        wholes are not recognised.

    Raises
    ------
    ValueError
        If a dtype holds no numbers.
    """
    for values in (whole, *parts.values()):
        if arithmetic_of(values.dtype) == "unsupported":
            needs = {"function": "find_composition", "dtype": values.dtype}
            raise ArgumentError(Message("arguments.no_numbers", **needs))
    if whole.size < 4:
        return None
    coarse = max(unit_roundoff(values.dtype) for values in (whole, *parts.values()))
    search = _Search(parts, values_of(whole), max(tolerance, coarse))
    if spread_of(search.whole).constant:
        return None
    for transposed in (False, True):
        for kind in ("concat", "stack"):
            for axis in range(whole.ndim):
                if found := search.along(axis, kind == "stack", transposed):
                    return found
    return search.sum_of_two()


@dataclass(frozen=True)
class _Search:
    parts: Mapping[str, np.ndarray]
    whole: np.ndarray
    tolerance: float

    def along(self, axis: int, stacked: bool, transposed: bool) -> Composition | None:
        """Parts that cover the whole along one axis, in the fewest turns."""
        members = self._members(axis, stacked, transposed)
        if len(members) < 2 or sum(m.shape[axis] for m in members.values()) < self.rows(axis):
            return None
        whole = row_signatures(searchable(self.whole), axis, length=8)
        rows = {
            name: row_signatures(searchable(member), axis, length=8)
            for name, member in members.items()
        }
        rows = {name: part for name, part in rows.items() if np.any(part != part.flat[0])}
        short = self.whole.size // self.rows(axis) <= SHORT_ROW
        if not short:
            rows = _placed(rows, whole, self.tolerance)
        for groups in _groupings(rows, whole, stacked, short):
            order = _cover(rows, whole, groups, 3.0 * self.tolerance)
            residual = self._verified(members, order, axis, groups) if order else None
            if order and residual is not None:
                sizes = tuple(members[name].shape[axis] for name in order)
                arguments = {"axis": axis, "sizes": sizes, "groups": groups}
                arguments |= {"transposed": transposed}
                kind: CompositionKind = "concat" if groups == 1 else "interleave"
                kind = "stack" if stacked else kind
                text = _text(kind, order, arguments)
                return Composition(kind, tuple(order), arguments, residual, text)
        return None

    def sum_of_two(self) -> Composition | None:
        """Two parts of the shape of the whole that give it when added."""
        members = {
            name: values_of(part)
            for name, part in self.parts.items()
            if part.shape == self.whole.shape
        }
        if len(members) < 2 or self.whole.size < FEWEST_ADDED:
            return None
        places = np.random.default_rng(self.whole.size).integers(self.whole.size, size=256)
        sampled = np.stack([searchable(part).reshape(-1)[places] for part in members.values()])
        rests = searchable(self.whole).reshape(-1)[places] - sampled.astype(np.float64)
        partners, distances, _ = nearest(sampled.astype(np.float64), rests)
        first = int(distances.argmin())
        pair = sorted((first, int(partners[first])))
        if pair[0] == pair[1]:
            return None
        names = tuple(list(members)[i] for i in pair)
        added = [members[name] for name in names]
        spreads = [spread_of(part).centred for part in added]
        error = remainder_norm(added[0] + added[1], self.whole)
        residual = error / spread_of(self.whole).centred
        if residual > self.tolerance or error >= PART_ERROR * min(spreads):
            return None
        text = Message("values.sum", first=names[0], second=names[1])
        return Composition("sum", names, {}, residual, text)

    def rows(self, axis: int) -> int:
        """Length of an axis of the whole."""
        return self.whole.shape[axis]

    def _members(self, axis: int, stacked: bool, transposed: bool) -> dict[str, np.ndarray]:
        """Values of the parts whose other axes are those of the whole."""
        others = np.delete(self.whole.shape, axis)
        members = {}
        for name, part in self.parts.items():
            if part.ndim != self.whole.ndim - stacked or (transposed and part.ndim != 2):
                continue
            shape = part.shape[::-1] if transposed else part.shape
            shape = (*shape[:axis], 1, *shape[axis:]) if stacked else shape
            if shape[axis] and np.array_equal(np.delete(shape, axis), others):
                values = values_of(part)
                members[name] = (values.T if transposed else values).reshape(shape)
        return members

    def _verified(
        self,
        members: Mapping[str, np.ndarray],
        order: list[str],
        axis: int,
        groups: int,
    ) -> float | None:
        """The residual over all values when it is within the tolerance."""
        made = _joined([members[name] for name in order], axis, groups)
        residual = remainder_norm(made, self.whole) / spread_of(self.whole).centred
        return residual if residual <= self.tolerance else None


def _placed(
    rows: Mapping[str, np.ndarray], whole: np.ndarray, tolerance: float
) -> dict[str, np.ndarray]:
    """The parts whose first and last rows are rows of the whole."""
    if not rows:
        return {}
    ends = np.concatenate([part[[0, -1]] for part in rows.values()])
    _, distance, _ = nearest(whole, ends)
    scale = float(np.sqrt(np.mean(np.square(whole).sum(1))))
    near = (distance <= 6.0 * tolerance * scale).reshape(-1, 2).all(1)
    return {name: part for (name, part), found in zip(rows.items(), near, strict=True) if found}


def _groupings(
    rows: Mapping[str, np.ndarray], whole: np.ndarray, stacked: bool, short: bool
) -> list[int]:
    """How many times the parts may take turns, simplest first.

    The first row of every part lies in the first turn, so the place of the second part says how
    many rows of the first there are in a turn.
    """
    if len(rows) < 2:
        return []
    if stacked:
        return [1]
    if short:
        return list(divisors(len(whole)))
    place, _, _ = nearest(whole, np.stack([part[0] for part in rows.values()]))
    lengths = [len(part) for _, part in sorted(zip(place, rows.values(), strict=True), key=_first)]
    starts = np.unique(place[place > 0])
    found = {1}
    for start in starts[:8].tolist():
        found |= {length // start for length in lengths if length % start == 0}
    return sorted(found)


def _first(item: tuple[Any, Any]) -> int:
    return int(item[0])


def _cover(
    rows: Mapping[str, np.ndarray], whole: np.ndarray, groups: int, tolerance: float
) -> list[str] | None:
    """Names of parts that follow each other without a gap in every turn of the whole."""
    turns = _turns(whole, groups)
    if turns is None:
        return None
    scale = float(np.sqrt(np.mean(np.square(turns).sum(1))))
    placed: dict[int, tuple[float, int, str]] = {}
    for name, part in rows.items():
        pieces = _turns(part, groups)
        if pieces is None or len(pieces) >= len(turns):
            continue
        start, error = best_start(turns, pieces)
        # Noise goes by the whole, where a part of small values has more of it.
        fits = error <= tolerance * scale * len(pieces) ** 0.5
        fits &= error <= PART_ERROR * float(np.linalg.norm(pieces))
        # Of two that fit one place the better, of equals the first.
        if fits and error < placed.get(start, (np.inf,))[0]:
            placed[start] = (error, len(pieces), name)
    place, order = 0, []
    while place in placed:
        _, length, name = placed[place]
        order.append(name)
        place += length
    return order if place == len(turns) else None


def _turns(rows: np.ndarray, groups: int) -> np.ndarray | None:
    """Signatures of the rows of all turns beside each other, shape (rows of a turn, ...)."""
    if len(rows) % groups:
        return None
    turns = rows.reshape(groups, -1, rows.shape[1]).swapaxes(0, 1)
    return turns.reshape(len(rows) // groups, -1)


def _joined(members: list[np.ndarray], axis: int, groups: int) -> np.ndarray:
    pieces = [_split(member, axis, groups) for member in members]
    joined = np.concatenate(pieces, axis + 1)
    shape = joined.shape
    shape = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    return np.asarray(joined.reshape(shape))


def _split(member: np.ndarray, axis: int, groups: int) -> np.ndarray:
    shape = member.shape
    return member.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _text(kind: str, order: list[str], given: Mapping[str, Any]) -> Message:
    turned = Message("values.each_transposed") if given["transposed"] else ""
    said = {"names": order, "turned": turned, "axis": given["axis"]}
    if kind == "interleave":
        sizes = tuple(size // given["groups"] for size in given["sizes"])
        said |= {"groups": given["groups"], "sizes": sizes}
    return Message(f"values.{kind}", **said)
