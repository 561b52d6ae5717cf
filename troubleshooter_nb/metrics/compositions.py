"""Which named tensors one tensor is put together from, recognised from values alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.arrangements import divisors
from troubleshooter_nb.metrics.floats import arithmetic_of, unit_roundoff
from troubleshooter_nb.metrics.ranges import Layout, c_strides, in_c_order
from troubleshooter_nb.metrics.signatures import best_start, nearest, remainder_square
from troubleshooter_nb.metrics.streamed import Streamed, side_by_side, streamed
from troubleshooter_nb.thresholds import (
    FEWEST_ADDED,
    MOST_MATCHED_ROWS,
    PART_ERROR,
    SHORT_ROW,
    SIGNATURE_LEAST,
)

_FIGURES = 8  # of the signature of a row

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
    given = {name: streamed(part) for name, part in parts.items()}
    return composition_of(given, streamed(whole), tolerance=tolerance)


def composition_of(
    parts: Mapping[str, Streamed], whole: Streamed, *, tolerance: float = 1e-2
) -> Composition | None:
    """As `find_composition`, of stored tensors of any size, of which blocks alone are in memory.

    What was found out of a part is kept in it: it serves for several wholes. `not_composed` says
    what is not looked for.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    if whole.size < 4 or whole.spread.constant:
        return None
    dtypes = [one.source.dtype for one in (whole, *parts.values())]
    search = _Search(parts, whole, max(tolerance, *map(unit_roundoff, dtypes)))
    for way in search.ways:
        if found := search.along(*way):
            return found
    return search.sum_of_two()


def not_composed(parts: Mapping[str, Streamed], whole: Streamed) -> Message | None:
    """What `composition_of` does not look for in tensors of these shapes; None if nothing."""
    search = _Search(parts, whole, 0.0)
    for way in search.ways:
        rows = sum(member.length for member in search.members(*way).values())
        if rows > MOST_MATCHED_ROWS and rows >= whole.shape[way[0]]:
            return Message("values.no_parts_of_many_rows", rows=rows, most=MOST_MATCHED_ROWS)
    return None


@dataclass(frozen=True)
class _Member:
    """A part as it may lie in the whole."""

    tensor: Streamed
    transposed: bool
    stacked: bool
    axis: int

    @property
    def length(self) -> int:
        """Rows along the axis of the whole."""
        return 1 if self.stacked else self._shape[self.axis]

    @property
    def _shape(self) -> tuple[int, ...]:
        shape = self.tensor.shape
        return shape[::-1] if self.transposed else shape

    def fits(self, whole: tuple[int, ...]) -> bool:
        """Whether it has the other axes of the whole."""
        if len(self.tensor.shape) != len(whole) - self.stacked:
            return False
        if self.transposed and len(self.tensor.shape) != 2:
            return False
        if self.stacked:
            return self._shape == (*whole[: self.axis], *whole[self.axis + 1 :])
        return bool(self.length) and np.array_equal(
            np.delete(self._shape, self.axis), np.delete(whole, self.axis)
        )

    def signatures(self, length: int) -> np.ndarray:
        """Of its rows along the axis of the whole."""
        if self.stacked:
            return self.tensor.signature(length, turned=self.transposed)
        axis = 1 - self.axis if self.transposed else self.axis
        return self.tensor.row_signatures(axis, length)

    def layout(self, groups: int) -> Layout:
        """Its elements with the axis of the whole split in turns."""
        strides = c_strides(self.tensor.shape)
        strides = strides[::-1] if self.transposed else strides
        shape, axis = self._shape, self.axis
        if self.stacked:
            shape, strides = (
                (*shape[:axis], 1, *shape[axis:]),
                (*strides[:axis], 0, *strides[axis:]),
            )
        return _in_turns(Layout(0, shape, strides), axis, groups)


def _in_turns(layout: Layout, axis: int, groups: int) -> Layout:
    shape, strides = layout.shape, layout.strides
    rows = shape[axis] // groups
    split = (*shape[:axis], groups, rows, *shape[axis + 1 :])
    steps = (*strides[:axis], rows * strides[axis], strides[axis], *strides[axis + 1 :])
    return Layout(layout.offset, split, steps)


@dataclass(frozen=True)
class _Search:
    parts: Mapping[str, Streamed]
    whole: Streamed
    tolerance: float

    @property
    def ways(self) -> Iterator[tuple[int, bool, bool]]:
        """Axes, whether it is a new one, and whether parts are transposed; simple ones first."""
        for transposed in (False, True):
            for stacked in (False, True):
                for axis in range(len(self.whole.shape)):
                    yield axis, stacked, transposed

    def members(self, axis: int, stacked: bool, transposed: bool) -> dict[str, _Member]:
        """The parts whose other axes are those of the whole."""
        every = {n: _Member(part, transposed, stacked, axis) for n, part in self.parts.items()}
        return {name: member for name, member in every.items() if member.fits(self.whole.shape)}

    def along(self, axis: int, stacked: bool, transposed: bool) -> Composition | None:
        """Parts that cover the whole along one axis, in the fewest turns."""
        members = self.members(axis, stacked, transposed)
        rows_of_whole = self.whole.shape[axis]
        covered = sum(member.length for member in members.values())
        if len(members) < 2 or covered < rows_of_whole or covered > MOST_MATCHED_ROWS:
            return None
        length = _FIGURES if covered <= MOST_MATCHED_ROWS // 4 else SIGNATURE_LEAST
        whole = self.whole.row_signatures(axis, length)
        rows = {name: member.signatures(length) for name, member in members.items()}
        rows = {name: part for name, part in rows.items() if np.any(part != part.flat[0])}
        short = self.whole.size // rows_of_whole <= SHORT_ROW
        if not short:
            rows = _placed(rows, whole, self.tolerance)
        for groups in _groupings(rows, whole, stacked, short):
            order = _cover(rows, whole, groups, 3.0 * self.tolerance)
            residual = self._verified(members, order, axis, groups) if order else None
            if order and residual is not None:
                sizes = tuple(members[name].length for name in order)
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
            name: part for name, part in self.parts.items() if part.shape == self.whole.shape
        }
        if len(members) < 2 or self.whole.size < FEWEST_ADDED:
            return None
        places = np.random.default_rng(self.whole.size).integers(self.whole.size, size=256)
        sampled = np.stack([part.at(places) for part in members.values()])
        partners, distances, _ = nearest(sampled, self.whole.at(places) - sampled)
        first = int(distances.argmin())
        pair = sorted((first, int(partners[first])))
        if pair[0] == pair[1]:
            return None
        names = tuple(list(members)[i] for i in pair)
        added = [members[name] for name in names]
        blocks = zip(*(one.blocks() for one in (*added, self.whole)), strict=True)
        error = math.sqrt(sum(remainder_square(one + other, both) for one, other, both in blocks))
        residual = error / self.whole.spread.centred
        least = min(part.spread.centred for part in added)
        if residual > self.tolerance or error >= PART_ERROR * least:
            return None
        text = Message("values.sum", first=names[0], second=names[1])
        return Composition("sum", names, {}, residual, text)

    def _verified(
        self, members: Mapping[str, _Member], order: list[str], axis: int, groups: int
    ) -> float | None:
        """The residual over all values when it is within the tolerance."""
        centred = self.whole.spread.centred
        most, square = (self.tolerance * centred) ** 2, 0.0
        turns = _in_turns(in_c_order(self.whole.shape), axis, groups)
        begun = 0  # rows of a turn
        for name in order:
            theirs = members[name].layout(groups)
            offset = begun * turns.strides[axis + 1]
            here = Layout(offset, theirs.shape, turns.strides)
            for part, wanted in side_by_side(members[name].tensor, theirs, self.whole, here):
                square += remainder_square(part, wanted)
                del part, wanted  # before the next ones come
                if square > most:
                    return None
            begun += theirs.shape[axis + 1]
        return math.sqrt(square) / centred


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
