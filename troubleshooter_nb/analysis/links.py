"""Values that plain work between recorded calls makes of others.

An activation of one, the sum or the product of two; a chunk, an entry or the mean of a larger one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.floats import arithmetic_of, computable, unit_roundoff
from troubleshooter_nb.metrics.operators import activations
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.thresholds import (
    LINK_ROUNDINGS,
    LINK_RUNS,
    LINK_SAMPLE,
    MOST_AVERAGED,
    MOST_CHUNKS,
    MOST_LINKED,
)

_FUNCTIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    *(activations.relu, activations.gelu_erf, activations.gelu_tanh, activations.silu),
    *(np.tanh, activations.sigmoid, activations.relu6, activations.hardswish),
)


def made_of(
    comparison: Comparison, rows: Sequence[int], makers: Sequence[int]
) -> dict[int, frozenset[int]]:
    """Which other rows each row was made of by one plain step.

    Told from some elements at places that go together. A value that other values would make as well
    is left out.

    Parameters
    ----------
    comparison : Comparison
    rows, makers : sequence of int
        Rows of the comparison, whose values are those of the right side, or else of the left.

    Returns
    -------
    dict of int to frozenset of int
        Row to all that hold the one value, or the two, that it was made of.
    """
    samples = _Samples(comparison)
    groups: dict[Shape, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for kind, some in enumerate((rows, makers)):
        for row in some:
            if (shape := samples.shape(row)) is not None:
                groups[shape][kind].append(row)
    found: dict[int, frozenset[int]] = {}
    for shape, (wanted, known) in groups.items():
        if not wanted or max(len(wanted), len(known)) > MOST_LINKED:
            continue
        own = _Values.of((samples.of(row), row) for row in known)
        found |= _links(samples, wanted, own)
        rest = [row for row in wanted if row not in found]
        sizes = [size for size in groups if size != shape]
        cuts = [
            (cut, row) for size in sizes for cut in _cuts(size, shape) for row in groups[size][1]
        ]
        if rest and 0 < len(cuts) <= MOST_LINKED:
            parts = _Values.of((samples.cut(row, shape, cut), row) for cut, row in cuts)
            found |= _links(samples, rest, own, parts)
    return found


@dataclass(frozen=True)
class _Values:
    """Different values, shape (n, elements), and the rows that hold each."""

    values: np.ndarray
    members: list[list[int]]

    @classmethod
    def of(cls, found: Iterable[tuple[np.ndarray | None, int]]) -> _Values:
        """Values that are there, each once."""
        holders: dict[bytes, tuple[np.ndarray, list[int]]] = {}
        for value, row in found:
            if value is not None:
                holders.setdefault(value.tobytes(), (value, []))[1].append(row)
        values = [value for value, _ in holders.values()]
        return cls(np.array(values), [rows for _, rows in holders.values()])


def _links(
    samples: _Samples, wanted: Sequence[int], whole: _Values, parts: _Values | None = None
) -> dict[int, frozenset[int]]:
    """What rows were made of: of values of their shape, and of parts of others where given."""
    members = [*whole.members, *(parts.members if parts is not None else ())]
    if not members:
        return {}
    own = len(whole.members)
    values = np.array([*whole.values, *(parts.values if parts is not None else ())])
    made = [np.stack([function(one) for one in values]) for function in _FUNCTIONS]
    found: dict[int, frozenset[int]] = {}
    for row in wanted:
        one = samples.of(row)
        if one is None:
            continue
        limit = samples.limit(row) * float(np.abs(one).max())
        equal = _are_near(values, one, limit)
        # A value that is equal says nothing of what was made of what; a part says it.
        others = ~equal
        hits = [np.flatnonzero(equal[own:]) + own]
        hits += [np.flatnonzero(_are_near(results, one, limit) & others) for results in made]
        sources: set[tuple[int, ...]] = {(int(k),) for some in hits for k in some}
        for combine in (np.add, np.multiply):
            sources = sources or _pairs(combine, values, one, limit, others)
        if len(sources) == 1:
            found[row] = frozenset(maker for k in sources.pop() for maker in members[k])
    return found


def _pairs(
    combine: np.ufunc, values: np.ndarray, one: np.ndarray, limit: float, others: np.ndarray
) -> set[tuple[int, ...]]:
    """Pairs of values whose sum, or product, a value is."""
    found: set[tuple[int, ...]] = set()
    for k in np.flatnonzero(others).tolist():
        made = combine(values, values[k])
        partners = np.flatnonzero(_are_near(made, one, limit) & others).tolist()
        found |= {(k, j) for j in partners if j > k}
    return found


def _are_near(values: np.ndarray, one: np.ndarray, limit: float) -> np.ndarray:
    return np.asarray(np.abs(values - one).max(axis=1) <= limit)


# Axes of images, and of what was made of them for a last layer.
_IMAGE, _FLAT = 4, 2
# Of places of the part, an array per axis: those of the whole, shape (elements, averaged).
_Cut = Callable[[Sequence[np.ndarray]], tuple[np.ndarray, ...]]


def _cuts(whole: Shape, part: Shape) -> Iterator[_Cut]:
    """How the places of a part lie in a larger tensor: chunks, first and last entries, means.

    Means of so many elements that reading them costs too much are left out.
    """
    most = MOST_AVERAGED // max(len(_places(part)), 1) if part else 0
    if len(whole) == len(part):
        axes = [axis for axis in range(len(part)) if whole[axis] != part[axis]]
        if len(axes) == 1 and part[axes[0]] and not whole[axes[0]] % part[axes[0]]:
            count = whole[axes[0]] // part[axes[0]]
            if 1 < count <= MOST_CHUNKS:
                yield from (
                    partial(_chunk, axis=axes[0], start=k * part[axes[0]]) for k in range(count)
                )
    if len(whole) == len(part) + 1:
        for axis in range(len(whole)):
            if (*whole[:axis], *whole[axis + 1 :]) == part:
                ends = dict.fromkeys((0, whole[axis] - 1))
                yield from (partial(_entry, axis=axis, at=at) for at in ends)
                if whole[axis] <= most:
                    yield partial(_averaged, axis=axis, size=whole[axis])
    if len(whole) == _IMAGE and part[:1] == whole[:1]:
        grid = _grid(whole, part)
        bins = [_bins(*both) for both in zip(whole[2:], grid, strict=True)] if grid else []
        if grid is not None and all(bins) and math.prod(len(one[0]) for one in bins) <= most:
            yield partial(_pooled, whole=whole, grid=grid)


def _grid(whole: Shape, part: Shape) -> tuple[int, int] | None:
    """Height and width to which images were averaged, flattened or not; else None."""
    if len(part) == _IMAGE and part[1] == whole[1]:
        return (part[2], part[3]) if part[2] <= whole[2] and part[3] <= whole[3] else None
    if len(part) != _FLAT or part[1] % whole[1]:
        return None
    side = math.isqrt(part[1] // whole[1])
    return (side, side) if side * side * whole[1] == part[1] and side <= min(whole[2:]) else None


def _bins(size: int, count: int) -> list[range]:
    """What is averaged along an axis, as adaptive pooling has it; empty where it is not as many."""
    bins = [range(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]
    return bins if len({len(one) for one in bins}) == 1 else []


def _chunk(places: Sequence[np.ndarray], axis: int, start: int) -> tuple[np.ndarray, ...]:
    return tuple((p + start if k == axis else p)[:, None] for k, p in enumerate(places))


def _entry(places: Sequence[np.ndarray], axis: int, at: int) -> tuple[np.ndarray, ...]:
    found = [one[:, None] for one in places]
    return (*found[:axis], np.full_like(found[0], at), *found[axis:])


def _averaged(places: Sequence[np.ndarray], axis: int, size: int) -> tuple[np.ndarray, ...]:
    found = [one[:, None] for one in places]
    found.insert(axis, np.arange(size)[None, :])
    return tuple(np.broadcast_arrays(*found))


def _pooled(
    places: Sequence[np.ndarray], whole: Shape, grid: tuple[int, int]
) -> tuple[np.ndarray, ...]:
    if len(places) == _FLAT:
        places = places[0], *np.unravel_index(places[1], (whole[1], *grid))
    rows, columns = (np.array(_bins(n, k)) for n, k in zip(whole[2:], grid, strict=True))
    inside = [rows[places[2]][:, :, None], columns[places[3]][:, None, :]]
    found = np.broadcast_arrays(*(one[:, None, None] for one in places[:2]), *inside)
    return tuple(one.reshape(len(one), -1) for one in found)


class _Samples:
    """Some elements of rows at the places that all tensors of a shape share."""

    def __init__(self, comparison: Comparison) -> None:
        columns, pairing = comparison.columns, comparison.pairing
        self._sides = [
            (columns[f"{side}_entry"], dump.sources)
            for side, dump in (("right", pairing.right), ("left", pairing.left))
        ]
        self._read: dict[int, np.ndarray | None] = {}

    def _source(self, row: int) -> ArraySource | None:
        there = (sources[entry[row]] for entry, sources in self._sides if entry[row] >= 0)
        source = next(there, None)
        is_float = source is not None and arithmetic_of(source.dtype) == "float"
        return source if is_float else None

    def shape(self, row: int) -> Shape | None:
        """The shape of what can be asked; None for integers, and for what is not there."""
        source = self._source(row)
        return source.shape if source is not None and math.prod(source.shape) > 1 else None

    def limit(self, row: int) -> float:
        """How near two values are that differ by rounding, against the largest."""
        source = self._source(row)
        return LINK_ROUNDINGS * unit_roundoff(source.dtype) if source is not None else 0.0

    def of(self, row: int) -> np.ndarray | None:
        """Elements as float64, shape (n,); None where they are not finite or all the same."""
        if row not in self._read:
            self._read[row] = self._sample(row)
        return self._read[row]

    def _sample(self, row: int) -> np.ndarray | None:
        source = self._source(row)
        return None if source is None else self._at(source, _places(source.shape))

    def cut(self, row: int, part: Shape, cut: _Cut) -> np.ndarray | None:
        """Elements of a part of a row's tensor, at the places of a tensor of that shape."""
        source = self._source(row)
        if source is None:
            return None
        places = np.ravel_multi_index(cut(np.unravel_index(_places(part), part)), source.shape)
        return self._at(source, places)

    @staticmethod
    def _at(source: ArraySource, places: np.ndarray) -> np.ndarray | None:
        """Elements at flat places, averaged over a second axis."""
        try:
            read = computable(read_rows(source, places.reshape(-1), 1)).astype(np.float64)
        except ReadError:
            return None
        values = read.reshape(len(places), -1).mean(axis=1)
        is_telling = np.isfinite(values).all() and values.min() < values.max()
        return values if is_telling else None


def _places(shape: Shape) -> np.ndarray:
    """Flat places that all tensors of a shape are asked at, in runs."""
    size = math.prod(shape)
    run = max(min(size, LINK_SAMPLE) // LINK_RUNS, 1)
    starts = spread(size - run + 1, LINK_RUNS)
    return np.asarray((starts[:, None] + np.arange(run)).reshape(-1))
