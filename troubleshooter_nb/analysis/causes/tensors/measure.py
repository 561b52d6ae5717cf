"""What all detectors of one pair measure: errors, floors, and the shape of a suspicion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair, plain
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.signatures import remainder_norm, values_of
from troubleshooter_nb.thresholds import EXPLAINED, TENSOR_SAMPLE


@dataclass(frozen=True)
class Sides:
    """Both sides of a pair as real floats of the same or other shapes, with what they measure.

    Attributes
    ----------
    tensor : TensorPair
    left, right : ndarray of float32 or float64
        Integers and bool as float64, exact up to ``2**53``.
    """

    tensor: TensorPair
    left: np.ndarray
    right: np.ndarray

    @cached_property
    def before(self) -> float:
        """Error of left as it is; inf where the shapes or the sets of NaN and inf differ."""
        if self.left.shape != self.right.shape:
            return math.inf
        return error_of(self.left, self.right)

    @cached_property
    def floor(self) -> float:
        """What rounding to the stored dtypes leaves, or what the pair's noise allows."""
        return self.tensor.floor

    @cached_property
    def integers(self) -> bool:
        """Whether both sides hold whole numbers only, whatever their dtype."""
        return is_whole(self.left) and is_whole(self.right)

    @property
    def same_shape(self) -> bool:
        """Whether elements correspond one to one."""
        return self.left.shape == self.right.shape

    @property
    def reversed(self) -> Sides:
        """The sides exchanged; `before` of the two differs in its norm alone."""
        return Sides(self.tensor, self.right, self.left)

    def suspicion(
        self,
        cause: str,
        residual: float,
        evidence: Mapping[str, Any],
        *,
        rival: float = math.inf,
        fitted: int = 0,
    ) -> Suspicion:
        """A suspicion about this pair; `fitted` numbers were taken from the values."""
        best_other = min(rival, self.before)
        independent = max(min(self.left.size, self.right.size) - fitted, 0)
        return Suspicion(
            cause,
            self.before,
            residual,
            best_other,
            self.floor,
            plain(evidence),
            self.tensor.pair,
            independent,
        )

    def holds(self, residual: float, *, fitted: int = 0, tolerance: float = 1e-3) -> bool:
        """Whether what is left is near rounding, far below the start and beyond chance."""
        size = min(self.left.size, self.right.size)
        near = residual <= max(4.0 * self.floor, tolerance)
        return near and residual <= EXPLAINED * self.before and size >= 4 * fitted + 8


def sides_of(tensor: TensorPair) -> Sides | None:
    """Both sides, or None where values are missing, complex or no numbers."""
    arrays = []
    for source, stored in zip(tensor.sources, (0, 1), strict=True):
        if source is None or arithmetic_of(source.dtype) not in ("float", "integer"):
            return None
        values = (tensor.left, tensor.right)[stored]
        if values is None or not values.size:
            return None
        arrays.append(values_of(values))
    return Sides(tensor, arrays[0], arrays[1])


def error_of(actual: np.ndarray, benchmark: np.ndarray) -> float:
    """Norm of the error over the norm of the benchmark; inf where NaN or inf do not correspond."""
    if actual.shape != benchmark.shape:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        error, norm = remainder_norm(actual, benchmark), norm_of(benchmark)
    if not error:
        return 0.0
    return error / norm if norm else math.inf


def norm_of(values: np.ndarray) -> float:
    """Norm over the finite values, accumulated in float64."""
    flat = values.reshape(-1).astype(np.float64)
    if not (finite := np.isfinite(flat)).all():
        flat = flat[finite]
    largest = float(np.abs(flat).max(initial=0.0))
    # Squares beyond float64 would be inf.
    return largest * float(np.linalg.norm(flat / largest)) if largest else 0.0


def is_constant(values: np.ndarray) -> bool:
    """Whether all elements are equal, or hardly any differs from the others in float precision."""
    flat = values.reshape(-1)
    low, high = float(flat.min()), float(flat.max())
    return not math.isfinite(low + high) or high - low <= 1e-6 * max(abs(low), abs(high))


def correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Pearson's correlation of two arrays of equal size; 0 where one is constant."""
    first, second = (one.reshape(-1).astype(np.float64) for one in (left, right))
    first, second = first - first.mean(), second - second.mean()
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms else 0.0


def transform(kind: str, *arguments: int | str) -> dict[str, Any]:
    """A transform of the closed list of `troubleshooter_nb.transforms`, as evidence."""
    return {"kind": kind, "arguments": list(arguments)}


def is_whole(values: np.ndarray) -> bool:
    """Whether the first elements are whole numbers, whatever their dtype."""
    head = values.reshape(-1)[:TENSOR_SAMPLE]
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(head).all() and (head == np.rint(head)).all())
