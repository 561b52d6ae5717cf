"""What all detectors of one pair measure: errors, floors, and the shape of a suspicion."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair, plain
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.signatures import remainder_norm, values_of
from troubleshooter_nb.thresholds import EXPLAINED, SQUARES_TOLD, TENSOR_SAMPLE


class Block(NamedTuple):
    """Elements of both sides that follow each other in flat order, and the place of the first.

    Both in the shape of the tensors, as whole rows of their last axis, or flat. To be used before
    the next one is asked for: its memory is used again.
    """

    start: int
    left: np.ndarray
    right: np.ndarray


Undone = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Sides:
    """Both sides of a pair as real floats of the same or other shapes, with what they measure.

    What recognises a cause looks at `few`; what proves it goes through all elements by `blocks`
    and `error`. Here these are one and the same; see `large.LargeSides`.

    Attributes
    ----------
    tensor : TensorPair
    left, right : ndarray of float32 or float64
        Integers and bool as float64, exact up to ``2**53``.
    """

    is_large: ClassVar[bool] = False  # whether `few` holds some elements only

    tensor: TensorPair
    left: np.ndarray
    right: np.ndarray

    @property
    def few(self) -> Sides:
        """As many elements as may be looked at at once."""
        return self

    @property
    def sampled(self) -> Mapping[str, Any]:
        """What the evidence says of how many elements were looked at; nothing of all."""
        return {}

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the tensors."""
        return self.left.shape, self.right.shape

    @property
    def size(self) -> int:
        """Elements of the smaller tensor."""
        return min(self.left.size, self.right.size)

    def blocks(self) -> Iterator[Block]:
        """All elements of both sides, of one shape, in order."""
        yield Block(0, self.left, self.right)

    def error(self, undone: Undone) -> float:
        """Error over all elements once something is undone in every block: actual, benchmark."""
        return error_of(*undone(self.left, self.right))

    def is_constant(self, side: int) -> bool:
        """As the function of this name, of all elements of the left (0) or the right (1)."""
        return is_constant((self.left, self.right)[side])

    def ends(self, side: int) -> tuple[float, float]:
        """Smallest and largest value of a side; of a large one the finite ones."""
        one = (self.left, self.right)[side]
        return float(one.min()), float(one.max())

    @property
    def norm(self) -> float:
        """Norm of the right side; of a large one of its finite values."""
        return float(np.linalg.norm(self.right.astype(np.float64)))

    def with_left_reversed(self, axis: int) -> Sides:
        """The same with left reversed along an axis."""
        return Sides(self.tensor, np.flip(self.left, axis), self.right)

    def may_hold(self, side: int, name: str, least: int = 1) -> bool:
        """Whether a side may have so many more of a count of `SUMMARY_FIGURES` than the other.

        Always where looking costs no more than this question.
        """
        return True

    def like(self, other: TensorPair, side: int) -> np.ndarray | None:
        """The elements of another tensor of this shape at the places of `few`; None without."""
        values = (other.left, other.right)[side]
        return None if values is None else values_of(values)

    @cached_property
    def before(self) -> float:
        """Error of left as it is; inf where the shapes or the sets of NaN and inf differ."""
        if not self.same_shape:
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
        return self.shapes[0] == self.shapes[1]

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
        independent = max(self.size - fitted, 0)
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
        near = residual <= max(4.0 * self.floor, tolerance)
        return near and residual <= EXPLAINED * self.before and self.size >= 4 * fitted + 8


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


class Error:
    """Norm of an error over the norm of the benchmark, added up block by block.

    Of a single block as `error_of`; where `is_quick` to the digits of float32.
    """

    def __init__(self, *, is_quick: bool) -> None:
        self._is_quick = is_quick
        self._error, self._norm = 0.0, 0.0

    def add(self, actual: np.ndarray, benchmark: np.ndarray) -> None:
        """Take in corresponding elements."""
        if actual.shape != benchmark.shape:
            self._error = math.inf
            return
        with np.errstate(over="ignore", invalid="ignore"):
            if self._is_quick and actual.dtype == benchmark.dtype == np.float32:
                # Differences of near values are exact in float32, and others need no more digits.
                # Sums of numpy, whose digits depend on no number of threads.
                squares = [float(np.square(one).sum()) for one in (actual - benchmark, benchmark)]
                if sum(squares) < math.inf and squares[1] > SQUARES_TOLD:
                    self._error = math.hypot(self._error, math.sqrt(squares[0]))
                    self._norm = math.hypot(self._norm, math.sqrt(squares[1]))
                    return
            self._error = math.hypot(self._error, remainder_norm(actual, benchmark))
            self._norm = math.hypot(self._norm, norm_of(benchmark))

    @property
    def value(self) -> float:
        """So far; inf where NaN or inf did not correspond."""
        if not self._error:
            return 0.0
        return self._error / self._norm if self._norm else math.inf


class Range:
    """How many values there were, the smallest and the largest one; NaN where there was one."""

    def __init__(self) -> None:
        self.count, self.low, self.high = 0, math.inf, -math.inf

    def add(self, values: np.ndarray) -> None:
        """Take in values, of any number."""
        if values.size:
            self.count += values.size
            self.low = float(np.minimum(self.low, values.min()))
            self.high = float(np.maximum(self.high, values.max()))


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
    return is_even(float(flat.min()), float(flat.max()))


def is_even(low: float, high: float) -> bool:
    """Whether values between these ends are constant; with one that is not finite, too."""
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
