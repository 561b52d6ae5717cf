"""msprobe's six figures of two tensors, read block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.ranges import reading

UNSUPPORTED, UNMATCHED, UNKNOWN, ZERO = "unsupported", "shape unmatched", "N/A", "Nan"
METRICS = (
    *("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr"),
    *("One Thousandth Err Ratio", "Five Thousandths Err Ratio"),
)
Cell = float | str
Trouble = Literal["", "empty", "places", "scalar", "one", "zero_target", "zero_golden"]

_BLOCK = 1 << 15  # elements: what is computed of them stays in a processor's cache
_TINY = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Measured:
    """The six figures in the order of `METRICS`, and what kept some from being any."""

    cells: tuple[Cell, ...]
    trouble: Trouble = ""


@dataclass
class _Sums:
    target: float = 0.0
    golden: float = 0.0
    product: float = 0.0
    error: float = 0.0
    largest: float = 0.0
    relative: float = 0.0
    thousandth: int = 0
    five: int = 0
    count: int = 0
    same_places: bool = True

    def add(self, target: np.ndarray, golden: np.ndarray, eps: float) -> None:
        """One more block of both, float64."""
        squares = float(target @ target), float(golden @ golden)
        # A sum that is finite has no part that is not.
        if not all(map(math.isfinite, squares)):
            target, golden = self._without_nonfinite(target, golden)
            squares = float(target @ target), float(golden @ golden)
        self.target += squares[0]
        self.golden += squares[1]
        self.product += float(target @ golden)
        error = target - golden
        np.abs(error, out=error)
        self.error += float(error @ error)
        self.largest = max(self.largest, float(error.max()))
        relative = self._relative(error, target, golden, eps)
        largest = float(relative.max())
        self.relative = max(self.relative, largest)
        self.thousandth += _below(relative, largest, 1e-3)
        self.five += _below(relative, largest, 5e-3)
        self.count += len(target)

    @staticmethod
    def _relative(
        error: np.ndarray, target: np.ndarray, golden: np.ndarray, eps: float
    ) -> np.ndarray:
        """The error over the golden value; where that is 0, both sides get the smallest step."""
        base = np.abs(golden)
        relative: np.ndarray = error / base
        zeros = np.flatnonzero(base == 0)
        if len(zeros):
            relative[zeros] = np.abs((target[zeros] + eps) - eps) / eps
        return relative

    def _without_nonfinite(
        self, target: np.ndarray, golden: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both with 0 at such places; they must be the same, also by the sign of infinities."""
        here, there = ~np.isfinite(target), ~np.isfinite(golden)
        same = np.array_equal(here, there)
        # The old tool does not look at the sign; an overflow the other way is no agreement.
        same = same and np.array_equal(target[here], golden[here], equal_nan=True)
        self.same_places = self.same_places and same
        return np.where(here, 0.0, target), np.where(there, 0.0, golden)


def _below(relative: np.ndarray, largest: float, bound: float) -> int:
    return len(relative) if largest < bound else int(np.count_nonzero(relative < bound))


def measure(
    target: ArraySource, golden: ArraySource, *, squeezes: bool, own_step: bool
) -> Measured:
    """The six figures.

    Parameters
    ----------
    target, golden : ArraySource
        Any dtype; of complex values the real part, as in msprobe. Computed in float64.
    squeezes : bool
        Axes of length 1 do not count (26.2); before, ``[1]`` is a vector of one element.
    own_step : bool
        Where the golden value is 0, it gets the machine epsilon of its dtype (26.2), else that of
        float64.

    Returns
    -------
    Measured
        Cosine, distances and errors in the tensor's unit with 12 decimals (the distance with
        all), ratios of elements. Texts where there is no number: ``unsupported``,
        ``shape unmatched``, ``N/A`` where the places of NaN or infinities differ, and ``Nan`` for
        the cosine where one side is all zeros.

    Raises
    ------
    ReadError
        If a file cannot be read.

    Notes
    -----
    Source: tables of msprobe 1.2.2, 8.3.3 and 26.2.0, whose figures these are. Other than there,
    infinities of opposite signs are no common place.
    """
    shapes = [_squeezed(one.shape) if squeezes else tuple(one.shape) for one in (target, golden)]
    if math.prod(target.shape) == 0 or math.prod(golden.shape) == 0:
        return Measured((UNSUPPORTED,) * len(METRICS), "empty")
    if shapes[0] != shapes[1]:
        return Measured((UNMATCHED,) * len(METRICS))
    eps = _step(golden.dtype) if own_step else _TINY
    sums, size = _Sums(), math.prod(target.shape)
    with np.errstate(all="ignore"), reading(target) as one, reading(golden) as other:
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            sums.add(_real(one.read(start, stop)), _real(other.read(start, stop)), eps)
    if not sums.same_places:
        return Measured((UNKNOWN,) * len(METRICS), "places")
    return _figures(sums, shapes[0])


def _figures(sums: _Sums, shape: tuple[int, ...]) -> Measured:
    largest, relative = _rounded(sums.largest), _rounded(sums.relative)
    if not shape:
        cells: tuple[Cell, ...] = (UNSUPPORTED, UNSUPPORTED, largest, relative)
        return Measured((*cells, UNSUPPORTED, UNSUPPORTED), "scalar")
    ratios = _rounded(sums.thousandth / sums.count), _rounded(sums.five / sums.count)
    distance = math.sqrt(sums.error)
    if shape == (1,):
        return Measured((UNSUPPORTED, distance, largest, relative, *ratios), "one")
    cosine, trouble = _cosine(sums)
    return Measured((cosine, distance, largest, relative, *ratios), trouble)


def _cosine(sums: _Sums) -> tuple[Cell, Trouble]:
    here, there = math.sqrt(sums.target), math.sqrt(sums.golden)
    if here <= _TINY and there <= _TINY:
        return 1.0, ""
    if here <= _TINY:
        return ZERO, "zero_target"
    if there <= _TINY:
        return ZERO, "zero_golden"
    cosine = _rounded(sums.product / here / there)
    return (round(cosine, 6) if cosine > 0.9999 else cosine), ""


def _rounded(value: float) -> float:
    return round(value, 12) if math.isfinite(value) else value


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def _step(dtype: np.dtype) -> float:
    """The machine epsilon of a dtype; of float64 for what is no float."""
    try:
        return float(np.finfo(computable(np.zeros(0, dtype)).dtype).eps)
    except ValueError:
        return _TINY


def _real(block: np.ndarray) -> np.ndarray:
    return computable(block).real.astype(np.float64, copy=False)
