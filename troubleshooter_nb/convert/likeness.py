"""How alike two stored tensors are, from a few of their values where these decide it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.relations import is_rounded
from troubleshooter_nb.metrics.signatures import searchable, values_of

Kind = Literal["equal", "rounded", "near", "similar", "other", "constant"]


@dataclass(frozen=True)
class Likeness:
    """What two tensors of one size, in flat order, have in common.

    Attributes
    ----------
    kind : {"equal", "rounded", "near", "similar", "other", "constant"}
        "rounded": equal once the wider side has the narrower one's dtype, named in `dtype`.
        "near": apart by noise. "similar": correlated, as before and after training. "other": no
        more alike than chance. "constant": different, and one side is constant.
    residual : float
        Norm of the difference over that of right about its mean; of the sample for the last three.
    cosine : float
        Of the values about their means; nan where a side is constant.
    """

    kind: Kind
    residual: float
    cosine: float
    dtype: str = ""


def has_numbers(source: ArraySource) -> bool:
    """Whether its values can be compared at all."""
    return arithmetic_of(source.dtype) != "unsupported"


def likeness(left: ArraySource, right: ArraySource) -> Likeness:
    """How alike the flat values of two tensors of one size are.

    Few values are read where they already differ, all in blocks where they agree. NaN and inf are
    equal to themselves and count as 0 otherwise.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    ours, theirs = _sample(left), _sample(right)
    centred = ours - ours.mean(), theirs - theirs.mean()
    spreads = [float(np.linalg.norm(side)) for side in centred]
    apart = float(np.linalg.norm(ours - theirs))
    residual = apart / spreads[1] if spreads[1] else (math.inf if apart else 0.0)
    if residual <= 4.0 * thresholds.SAME_VALUES_NOISE:
        if equal_values(left, right):
            return Likeness("equal", 0.0, 1.0)
        if (dtype := _narrower(left, right)) is not None and _equal_rounded(left, right, dtype):
            return Likeness("rounded", residual, 1.0, dtype.name)
        residual = _residual(left, right)
        if residual <= thresholds.SAME_VALUES_NOISE:
            return Likeness("near", residual, 1.0)
    if not all(spreads):
        return Likeness("constant", residual, math.nan)
    cosine = float(centred[0] @ centred[1]) / spreads[0] / spreads[1]
    return Likeness("similar" if _correlated(cosine, len(ours)) else "other", residual, cosine)


def _narrower(left: ArraySource, right: ArraySource) -> np.dtype | None:
    """The narrower of two floating dtypes; None where they are as wide, or of another kind."""
    if left.dtype.itemsize == right.dtype.itemsize:
        return None
    if {arithmetic_of(left.dtype), arithmetic_of(right.dtype)} != {"float"}:
        return None
    return min(left.dtype, right.dtype, key=lambda dtype: dtype.itemsize)


def _equal_rounded(left: ArraySource, right: ArraySource, dtype: np.dtype) -> bool:
    pairs = _blocks(left, right) if right.dtype == dtype else _blocks(right, left)
    return all(is_rounded(wide, narrow, dtype) for wide, narrow in pairs)


def _correlated(cosine: float, count: int) -> bool:
    rest = max(1.0 - cosine**2, 1e-12)
    beyond_chance = abs(cosine) * math.sqrt((count - 2) / rest) >= thresholds.CORRELATED_T
    return abs(cosine) >= thresholds.CORRELATED_COSINE and beyond_chance


def key_of(source: ArraySource) -> bytes:
    """Equal for tensors of equal values in flat order, and seldom for others; b"" if constant."""
    values = _sample(source, thresholds.KEY_VALUES)
    if not len(values) or (values == values[0]).all():
        return b""
    return values.tobytes() + str(math.prod(source.shape)).encode()


def equal_values(left: ArraySource, right: ArraySource) -> bool:
    """Whether all values are equal in flat order, whatever their dtypes."""
    if math.prod(left.shape) != math.prod(right.shape):
        return False
    return all(_equal(*pair) for pair in _blocks(left, right))


def _sample(source: ArraySource, piece: int = thresholds.MAP_PIECE) -> np.ndarray:
    size = math.prod(source.shape)
    if size <= thresholds.MAP_PIECES * piece:
        read = [source.read(0, size)]
    else:
        starts = [
            i * (size - piece) // (thresholds.MAP_PIECES - 1) for i in range(thresholds.MAP_PIECES)
        ]
        read = [source.read(start, start + piece) for start in starts]
    values = [searchable(values_of(np.asarray(part))).astype(np.float64) for part in read]
    return np.concatenate(values)


def _blocks(left: ArraySource, right: ArraySource) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    size = math.prod(left.shape)
    for start in range(0, size, thresholds.SIGNATURES_BLOCK):
        stop = min(start + thresholds.SIGNATURES_BLOCK, size)
        yield left.read(start, stop), right.read(start, stop)


def _equal(left: np.ndarray, right: np.ndarray) -> bool:
    left, right = computable(left), computable(right)
    floats = left.dtype.kind in "fc" or right.dtype.kind in "fc"
    return np.array_equal(left, right, equal_nan=floats)


def _residual(left: ArraySource, right: ArraySource) -> float:
    error = total = square = 0.0
    shift: float | None = None
    for pair in _blocks(left, right):
        ours, theirs = (searchable(values_of(side)).astype(np.float64) for side in pair)
        shift = float(theirs.mean()) if shift is None else shift  # so that little cancels below
        error += float(np.square(ours - theirs).sum())
        total += float((theirs - shift).sum())
        square += float(np.square(theirs - shift).sum())
    spread = max(square - total**2 / math.prod(right.shape), 0.0)
    return math.sqrt(error / spread) if spread else math.inf
