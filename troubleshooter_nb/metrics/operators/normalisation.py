"""Normalisation in float64, forward and backward, and the eps that an output tells."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.metrics.float_formats import FLOAT32
from troubleshooter_nb.thresholds import BEYOND_ROUNDING, NORM_SEARCH_ROUNDS

# Frameworks take mean and variance in float32, of float64 tensors too.
_STATISTICS_ROUNDOFF = FLOAT32.unit_roundoff
# In use, the most common first: defaults of torch, MindSpore, Keras, MXNet, Flax; the epsilon of
# float32, float16 and bfloat16.
USUAL_EPS = (
    *(1e-5, 1e-6, 1e-7, 1e-12, 1e-8, 1e-3, 1e-4, 2.0**-23, 2e-5, 1e-2, 0.0, 1e-9, 1e-10, 5e-6),
    *(5e-5, 2.0**-7, 2.0**-10, 1e-1),
)
_LEAST_EPS = 1e-30  # in place of zero: groups without variance then have a finite scale
# Values of eps that are tried first, and multiples of the best of them.
_ROUGH = np.concatenate([[0.0], np.geomspace(1e-13, 10.0, 57)])
_FINE = np.geomspace(0.3, 3.0, 21)
_STEPS = np.arange(21)  # values between the neighbours of the best one


class Moments(NamedTuple):
    """Mean and variance along axes, which are kept with length one."""

    mean: np.ndarray
    variance: np.ndarray


class EpsFit(NamedTuple):
    """The eps that leaves the least, and what is left.

    Attributes
    ----------
    eps : float
        At least 0; a usual value where there is one inside the half width.
    half_width : float
        Three standard errors, rounding of the statistics included; inf where eps has no effect.
    residual : float
        Norm of the error over the norm of the output.
    """

    eps: float
    half_width: float
    residual: float


def moments(x: np.ndarray, axes: tuple[int, ...], *, centred: bool = True) -> Moments:
    """Mean and biased variance along axes; about zero if not centred (RMSNorm)."""
    mean = x.mean(axis=axes, keepdims=True) if centred else np.zeros_like(x, shape=(1,) * x.ndim)
    return Moments(mean, np.square(x - mean).mean(axis=axes, keepdims=True))


def normalise(
    x: np.ndarray,
    axes: tuple[int, ...],
    eps: float,
    weight: np.ndarray | float = 1.0,
    bias: np.ndarray | float = 0.0,
    *,
    centred: bool = True,
    statistics: Moments | None = None,
) -> np.ndarray:
    """(x - mean) / sqrt(variance + eps) * weight + bias.

    Parameters
    ----------
    x : ndarray
        Any real dtype; computed in float64.
    axes : tuple of int
        Mean and variance are taken along these.
    weight, bias : ndarray or float
        Of a shape that broadcasts to x.
    centred : bool
        False leaves the mean in, as RMSNorm does.
    statistics : Moments, optional
        Stored ones in place of those of x; of a shape that broadcasts to x.
    """
    x = np.asarray(x, np.float64)
    taken = statistics or moments(x, axes, centred=centred)
    return np.asarray((x - taken.mean) / np.sqrt(taken.variance + eps) * weight + bias)


def fit_eps(
    output: np.ndarray,
    linear: np.ndarray,
    statistics: Moments,
    axes: tuple[int, ...],
    roundoff: float,
    cubic: np.ndarray | None = None,
    recorded: float | None = None,
) -> EpsFit:
    """The eps for which ``output = s linear + s^3 cubic`` with ``s = (variance + eps)^-1/2``.

    Parameters
    ----------
    output, linear, cubic : ndarray, float64, finite, one shape
        Forward: output less bias, and weight times distance from the mean.
    statistics : Moments
        Of every group, of a shape that broadcasts to the output.
    axes : tuple of int
        Those within a group: the variance does not change along them.
    roundoff : float
        Unit roundoff of the output.
    recorded : float, optional
        What the layer is said to have; taken before usual values where the fit allows it.

    Notes
    -----
    Least squares, every group weighted by the variance of its score: independent rounding of the
    elements, and an error common to the group from rounding of its mean and variance, which grows
    with mean over standard deviation. The second pass measures the errors about the first answer,
    as differences of sums would lose them.
    """
    groups = _Groups(output, linear, cubic, statistics, axes, roundoff)
    if not groups.size:
        return EpsFit(math.nan, math.inf, math.nan)
    eps = groups.search(groups.start(), wide=True)
    eps = groups.search(eps, wide=False)
    half_width = groups.half_width(eps)
    snapped = usual_eps(eps, half_width)
    if recorded is not None and abs(recorded - eps) <= half_width:
        snapped = recorded
    return EpsFit(snapped, half_width, groups.residual(snapped))


def usual_eps(eps: float, half_width: float) -> float:
    """The most common value inside the half width; eps itself where there is none."""
    return next((usual for usual in USUAL_EPS if abs(usual - eps) <= half_width), eps)


class _Groups:
    """Sums over the groups of a normalisation, from which the error at any eps follows."""

    def __init__(
        self,
        output: np.ndarray,
        linear: np.ndarray,
        cubic: np.ndarray | None,
        statistics: Moments,
        axes: tuple[int, ...],
        roundoff: float,
    ) -> None:
        self.output, self.linear, self.cubic, self.axes = output, linear, cubic, axes
        self.size = math.sqrt(float(np.square(output).sum()))
        self.variance = np.broadcast_to(statistics.variance, self._sum(output, output).shape)
        self.roundoff = roundoff
        rms = self.size / math.sqrt(max(output.size, 1))
        self.element = max(roundoff * rms / math.sqrt(3.0), 1e-300)
        spread = np.sqrt(np.maximum(self.variance, 1e-300))
        off = np.minimum(np.abs(statistics.mean) / spread, 1e6)
        common = _STATISTICS_ROUNDOFF * (2.0 + off)
        self.common = common**2 * self._sum(output, output)
        self.aa = self._sum(linear, linear)
        self.ab = self._sum(linear, cubic) if cubic is not None else np.zeros_like(self.aa)
        self.bb = self._sum(cubic, cubic) if cubic is not None else np.zeros_like(self.aa)
        self.usable = self.aa.ravel() > 0.0
        self.weight = (1.0 / (self.element**2 + self.common.ravel()))[self.usable]

    def _sum(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        every = [*range(first.ndim)]
        kept = [axis for axis in every if axis not in self.axes]
        found = np.einsum(first, every, second, every, kept)
        return np.expand_dims(found, self.axes)

    def start(self) -> float:
        """A first eps: a small share of the middle variance."""
        return 1e-5 * float(np.median(self.variance)) + 1e-12

    def _error(self, eps: float) -> np.ndarray:
        """What this eps leaves of the output."""
        self.scale = 1.0 / np.sqrt(self.variance + max(eps, _LEAST_EPS))
        error = np.multiply(self.scale, self.linear)
        np.subtract(self.output, error, out=error)
        if self.cubic is not None:
            error -= self.scale**3 * self.cubic
        return error

    def _measure(self, eps: float) -> None:
        """Errors about this eps, and their products with the two bases."""
        error = self._error(eps)
        self.rr, self.ra = self._sum(error, error), self._sum(error, self.linear)
        self.rb = self._sum(error, self.cubic) if self.cubic is not None else np.zeros_like(self.rr)

    def _errors(self, eps: np.ndarray) -> np.ndarray:
        """Squared error of every usable group (last axis) at every eps (first axis)."""
        known = (self.variance, self.scale, self.rr, self.ra, self.aa)
        variance, about, rr, ra, aa = (by.ravel()[self.usable] for by in known)
        scale = 1.0 / np.sqrt(variance + np.maximum(eps, _LEAST_EPS)[:, None])
        one = scale - about
        total = rr - 2.0 * one * ra + one**2 * aa
        if self.cubic is not None:
            rb, bb, ab = (by.ravel()[self.usable] for by in (self.rb, self.bb, self.ab))
            three = scale**3 - about**3
            total += -2.0 * three * rb + three**2 * bb
            total += 2.0 * one * three * ab
        return np.asarray(np.maximum(total, 0.0))

    def _cost(self, eps: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("ij,j->i", self._errors(eps), self.weight))

    def search(self, start: float, *, wide: bool) -> float:
        """The eps of least weighted error, measured about the start."""
        self._measure(start)
        grid = _ROUGH if wide else np.concatenate([[0.0], start * _FINE])
        best = start
        for _ in range(NORM_SEARCH_ROUNDS[not wide]):
            middle = int(np.argmin(self._cost(grid)))
            best = float(grid[middle])
            low, high = grid[max(middle - 1, 0)], grid[min(middle + 1, grid.size - 1)]
            grid = low + (high - low) / _STEPS[-1] * _STEPS
        return best

    def half_width(self, eps: float) -> float:
        """Three standard errors of eps, from the errors where they are.

        Rounding is largest at the elements that say most about eps, so that a common variance of
        all elements would promise too much. Errors beyond rounding are taken for common to a
        group: those of an inexact kernel do not average out.
        """
        error = self._error(eps)
        slope = -0.5 * self.scale**3 * self.linear
        if self.cubic is not None:
            slope = slope - 1.5 * self.scale**5 * self.cubic
        square = np.maximum(error**2, (self.roundoff * self.output) ** 2 / 3.0)
        energy = self._sum(slope, slope)
        weight = 1.0 / (self.element**2 + self.common)
        common = self.common
        if float(square.mean()) > (BEYOND_ROUNDING * self.element) ** 2:
            common = common + self._sum(error, error)
        scores = self._sum(slope**2, square) + common * energy
        information = float((weight * energy).sum())
        if not information > 0:
            return math.inf
        return 3.0 * math.sqrt(float((weight**2 * scores).sum())) / information

    def residual(self, eps: float) -> float:
        """Norm of the error over the norm of the output."""
        error = self._error(eps).ravel()
        return math.sqrt(float(np.einsum("i,i->", error, error))) / self.size
