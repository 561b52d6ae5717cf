"""Values that plain work between recorded calls makes of others: an activation, a sum of two."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.floats import arithmetic_of, computable, unit_roundoff
from troubleshooter_nb.metrics.operators import activations
from troubleshooter_nb.thresholds import LINK_ROUNDINGS, LINK_RUNS, LINK_SAMPLE, MOST_LINKED

_FUNCTIONS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    *(activations.relu, activations.gelu_erf, activations.gelu_tanh, activations.silu),
    *(np.tanh, activations.sigmoid, activations.relu6, activations.hardswish),
)


def made_of(
    comparison: Comparison, rows: Sequence[int], makers: Sequence[int]
) -> dict[int, frozenset[int]]:
    """Which other rows each row is an activation of, or the sum of two of.

    Told from some elements at the same places, as both keep the shape. A value that other values
    would make as well is left out.

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
    groups: dict[tuple[int, ...], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for kind, some in enumerate((rows, makers)):
        for row in some:
            if (shape := samples.shape(row)) is not None:
                groups[shape][kind].append(row)
    found: dict[int, frozenset[int]] = {}
    for wanted, known in groups.values():
        if wanted and known and max(len(wanted), len(known)) <= MOST_LINKED:
            found |= _links(samples, wanted, known)
    return found


def _links(
    samples: _Samples, wanted: Sequence[int], makers: Sequence[int]
) -> dict[int, frozenset[int]]:
    holders: dict[bytes, list[int]] = defaultdict(list)
    for row in makers:
        if (value := samples.of(row)) is not None:
            holders[value.tobytes()].append(row)
    if not holders:
        return {}
    members = [*holders.values()]
    values = np.array([samples.of(rows[0]) for rows in members])
    made = [np.stack([function(one) for one in values]) for function in _FUNCTIONS]
    found: dict[int, frozenset[int]] = {}
    for row in wanted:
        one = samples.of(row)
        if one is None:
            continue
        limit = samples.limit(row) * float(np.abs(one).max())
        # A value that is equal says nothing of what was made of what.
        others = ~_are_near(values, one, limit)
        hits = [np.flatnonzero(_are_near(results, one, limit) & others) for results in made]
        sources = {(int(k),) for some in hits for k in some} or _sums(values, one, limit, others)
        if len(sources) == 1:
            found[row] = frozenset(maker for k in sources.pop() for maker in members[k])
    return found


def _sums(
    values: np.ndarray, one: np.ndarray, limit: float, others: np.ndarray
) -> set[tuple[int, ...]]:
    """Pairs of values whose sum a value is."""
    found: set[tuple[int, ...]] = set()
    for k in np.flatnonzero(others).tolist():
        partners = np.flatnonzero(_are_near(values, one - values[k], limit) & others).tolist()
        found |= {(k, j) for j in partners if j > k}
    return found


def _are_near(values: np.ndarray, one: np.ndarray, limit: float) -> np.ndarray:
    return np.asarray(np.abs(values - one).max(axis=1) <= limit)


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

    def shape(self, row: int) -> tuple[int, ...] | None:
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
        if source is None:
            return None
        try:
            size = math.prod(source.shape)
            run = max(min(size, LINK_SAMPLE) // LINK_RUNS, 1)
            starts = spread(size - run + 1, LINK_RUNS).tolist()
            parts = [computable(np.array(source.read(at, at + run))) for at in starts]
            values = np.concatenate(parts).reshape(-1).astype(np.float64)
        except ReadError:
            return None
        is_telling = np.isfinite(values).all() and values.min() < values.max()
        return values if is_telling else None
