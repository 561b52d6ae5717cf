"""Weights that differ by a matrix of low rank, as an adapter that one side merged leaves it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.fits import coefficient
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of, norm_of
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.naming.roles import adapter_stem
from troubleshooter_nb.ranges import read_rows

_SIDES = ("left", "right")


class _Difference(NamedTuple):
    """Left less right in some rows, of low rank.

    `basis`, shape (rank, columns): rows at right angles, which all rows are sums of.
    """

    rows: np.ndarray
    values: np.ndarray
    basis: np.ndarray

    @property
    def rank(self) -> int:
        return len(self.basis)


def may_differ_by_low_rank(tensor: TensorPair) -> bool:
    """Whether some rows of a weight differ by sums of fewer rows."""
    return _difference(tensor) is not None


def detect_low_rank(sides: Sides, others: Sequence[TensorPair]) -> list[Suspicion]:
    """low_rank_difference: left less right has a small rank; by which factors, if they are there.

    Without the factors few steps of training on few tokens may have left it as well.
    """
    tensor = sides.tensor
    if sides.before == 0.0 or not math.isfinite(sides.before):
        return []
    found = _difference(tensor)
    if found is None:
        return []
    columns, shape = found.basis.shape[1], sides.shapes[0]
    if sides.is_large and (len(shape) > 2 or columns > thresholds.LARGE_BLOCK):
        return []  # of which blocks hold parts of rows

    def undone(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        wide = (left.reshape(-1, columns) - right.reshape(-1, columns)).astype(np.float64)
        return left - (wide @ found.basis.T @ found.basis).reshape(left.shape), right

    residual = sides.error(undone)
    made = _made_by(tensor, found, others)
    fitted = found.rank * (shape[0] + columns - found.rank) if made is None else 1
    if not sides.holds(residual, fitted=fitted):
        return []
    evidence = {"rank": found.rank, "most": min(shape[0], columns), **(made or {})}
    said = sides.suspicion("low_rank_difference", residual, evidence, fitted=fitted)
    return [said if made else replace(said, share=thresholds.ADAPTER_UNSEEN)]


def _difference(tensor: TensorPair) -> _Difference | None:
    """The difference of a matrix in some rows; None unless its rank is low."""
    shape = tensor.shapes[0]
    left, right = tensor.sources
    is_asked = tensor.role in ("", "parameter") and shape == tensor.shapes[1]
    if not is_asked or shape is None or len(shape) < 2 or left is None or right is None:
        return None
    if any(arithmetic_of(source.dtype) != "float" for source in (left, right)):
        return None
    columns = math.prod(shape[1:])
    if min(shape[0], columns) < thresholds.FEWEST_OF_RANK:
        return None
    most = min(thresholds.RANK_ROWS, thresholds.RANK_SAMPLE // columns, shape[0])
    rows = spread(shape[0], most)
    ours, theirs = (_rows_of(tensor, side, rows) for side in (0, 1))
    apart = ours - theirs
    if not np.isfinite(apart).all():
        return None
    basis = _basis(apart, 4.0 * tensor.floor * norm_of(theirs))
    return None if basis is None else _Difference(rows, apart, basis)


def _rows_of(tensor: TensorPair, side: int, rows: np.ndarray) -> np.ndarray:
    """Some rows of a side as a matrix, float64."""
    source, shape = tensor.sources[side], tensor.shapes[side]
    if source is None or shape is None:
        return np.zeros((len(rows), 0))
    columns = math.prod(shape[1:])
    if tensor.budget is not None:
        tensor.budget.charge(len(rows) * columns)
    stored = read_rows(source, (rows * columns).tolist(), columns)
    return values_of(computable(stored)).reshape(len(rows), columns).astype(np.float64)


def _basis(apart: np.ndarray, rounding: float) -> np.ndarray | None:
    """Rows that all of some rows are sums of, but for rounding; None if they are not few."""
    # A row or a column here and there has a low rank as well, and is no sum of others.
    for axis in (0, 1):
        if np.count_nonzero(apart.any(axis)) < thresholds.SPREAD_OF_RANK * apart.shape[1 - axis]:
            return None
    squares, turned = np.linalg.eigh(apart @ apart.T)
    squares = np.maximum(squares[::-1], 0.0)
    rest = np.sqrt(np.cumsum(squares[::-1])[::-1])  # what is left without the first few
    limit = max(rounding, thresholds.LEFT_OF_RANK * rest[0])
    rank = int(np.count_nonzero(rest > limit))
    if not 0 < rank <= min(apart.shape) // thresholds.TIMES_THE_RANK:
        return None
    sums = turned[:, ::-1][:, :rank].T @ apart
    return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True))


def _made_by(
    tensor: TensorPair, found: _Difference, others: Sequence[TensorPair]
) -> dict[str, Any] | None:
    """The factors beside a weight whose product the difference is, and what it is times."""
    for first, second, side in _factors(tensor, found, others):
        count = (first.shapes[side] or (0,))[0]
        product = _rows_of(second, side, found.rows) @ _rows_of(first, side, np.arange(count))
        times = coefficient(found.values, product)
        if not math.isfinite(times) or not times:
            continue
        if error_of(times * product, found.values) > thresholds.FACTORS_LEFT:
            continue
        alpha = abs(times) * count
        near = max(thresholds.SAME_NUMBER, 4.0 * tensor.floor)
        alpha = round(alpha) if abs(round(alpha) - alpha) <= near * alpha else alpha
        said = Message("evidence.alpha_over_rank", times=alpha / count, alpha=alpha, rank=count)
        return {"side": _SIDES[times < 0], "factor": said, "other": first.name}
    return None


def _factors(
    tensor: TensorPair, found: _Difference, others: Sequence[TensorPair]
) -> Iterator[tuple[TensorPair, TensorPair, int]]:
    """Matrices (rank, columns) and (rows, rank) that belong to a weight, and the side of both."""
    rows, columns = (tensor.shapes[0] or (0,))[0], found.basis.shape[1]
    stem = adapter_stem(tensor.name)
    near = [other for other in others if adapter_stem(other.name) == stem]
    for side, first, second in itertools.product((0, 1), near, near):
        one, other = first.shapes[side], second.shapes[side]
        if one is None or other is None or not len(one) == len(other) == 2:
            continue
        (count, wide), (high, inner) = one, other
        fits = (wide, high) == (columns, rows) and count == inner
        if fits and found.rank <= count <= thresholds.RANK_SAMPLE // columns:
            yield first, second, side
