"""Groups of a tensor that are normalised together, a sample of them as rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.sampling import places
from troubleshooter_nb.metrics.operators.normalisation import Moments, moments


@dataclass(frozen=True)
class Way:
    """One division of a tensor into groups that are normalised together.

    Attributes
    ----------
    settings : mapping
        What is said of it.
    shape : tuple of int
        To which the tensor is reshaped first (groups of channels).
    axes : tuple of int
        Of that shape, within a group; not negative.
    centred : bool
        Whether the mean is taken off.
    stored : bool
        Whether mean and variance are the running ones.
    """

    settings: dict[str, Any]
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    centred: bool = True
    stored: bool = False


@dataclass(frozen=True)
class NormOperands:
    """What one side's normalisation had, parameters in shapes that broadcast to `x`.

    Attributes
    ----------
    x, output : ndarray
        As stored. Backward: the output is the gradient of x.
    gradient : ndarray or None
        Of the forward output, when a backward call is fitted.
    weight, bias, mean, variance : ndarray or None
        Parameters and running statistics.
    roundoff : float
        Of the output.
    eps : float or None
        As recorded of the layer.
    distance4 : ndarray or None
        How far the two sides' outputs are apart, see `Operands`, in the output's shape.
    """

    x: np.ndarray
    output: np.ndarray
    gradient: np.ndarray | None
    weight: np.ndarray | None
    bias: np.ndarray | None
    mean: np.ndarray | None
    variance: np.ndarray | None
    roundoff: float
    eps: float | None = None
    distance4: np.ndarray | None = None


@dataclass(frozen=True)
class Rows:
    """A sample of groups, one a row, in float64."""

    x: np.ndarray
    output: np.ndarray
    gradient: np.ndarray | None
    weight: np.ndarray | None
    bias: np.ndarray | None
    statistics: Moments


@dataclass(frozen=True)
class _Members:
    """A sample of groups as they are: what is usable of them has finite members only."""

    take: Callable[[np.ndarray], np.ndarray]
    x: np.ndarray
    output: np.ndarray

    @cached_property
    def is_usable(self) -> np.ndarray:
        """Which groups of x are finite, shape (groups,)."""
        return np.asarray(np.isfinite(self.x).all(axis=1))

    @cached_property
    def is_finite(self) -> np.ndarray:
        """Which groups of the output are finite, shape (groups,)."""
        return np.asarray(np.isfinite(self.output).all(axis=1))

    @cached_property
    def is_kept(self) -> np.ndarray:
        """Which groups are finite in both, shape (groups,)."""
        return np.asarray(self.is_usable & self.is_finite)

    def kept(self, rows: np.ndarray) -> np.ndarray:
        """The rows of groups that are kept."""
        return rows if self.is_kept.all() else rows[self.is_kept]


class Sampling:
    """Samples of one side's groups; what two ways after each other share is taken once.

    Parameters
    ----------
    side : NormOperands
    """

    def __init__(self, side: NormOperands) -> None:
        self._side = side
        self._key: tuple[object, ...] = ()
        self._members: _Members | None = None
        self._given: dict[str, np.ndarray | None] = {}

    def rows(self, way: Way, *, thorough: bool) -> tuple[Rows | None, dict[str, str]]:
        """Groups of the way as rows, and what is seen at groups without variance."""
        side = self._side
        length = math.prod(way.shape[axis] for axis in way.axes)
        if not side.x.size or (length < 2 and not way.stored):
            return None, {}
        members = self._sampled(way, thorough=thorough and not way.stored)
        usable, finite = members.is_usable, members.is_finite
        flat = _without_variance(members.x, way)
        lost = usable & ~finite
        # Few groups may have been overwritten. Of most it is not this layer's output, and beside
        # constant ones it is not their variance that is at fault.
        few = 2 * np.count_nonzero(lost) <= np.count_nonzero(usable)
        few &= not np.any(np.ptp(members.x[lost], axis=1) == 0)
        if np.any(lost & ~flat) and not few:
            return None, {}
        special = {}
        if np.any(flat & usable) and side.gradient is None:
            special["constant_rows"] = "finite" if np.all(finite[flat & usable]) else "not finite"
        if np.count_nonzero(members.is_kept) * length < thresholds.FEWEST_TO_FIT:
            return None, {}
        x, output = members.kept(members.x), members.kept(members.output)
        weight, bias = (self._kept(name, way) for name in ("weight", "bias"))
        gradient = self._kept("gradient", way)
        if gradient is not None and not np.isfinite(gradient).all():
            return None, {}
        if way.stored and side.mean is not None and side.variance is not None:
            known = (members.kept(members.take(one)) for one in (side.mean, side.variance))
            stored = Moments(*(one[:, :1] for one in known))
            if not np.isfinite(stored.mean).all() or not np.all(stored.variance >= 0):
                return None, {}
        else:
            stored = moments(x, (1,), centred=way.centred)
        return Rows(x, output, gradient, weight, bias, stored), special

    def _sampled(self, way: Way, *, thorough: bool) -> _Members:
        key = way.shape, way.axes, thorough
        if self._members is None or self._key != key:
            # The old ones go before the new ones come.
            self._members, self._given = None, {}
            self._key, self._members = key, _members(self._side, way, thorough=thorough)
        return self._members

    def _kept(self, name: str, way: Way) -> np.ndarray | None:
        """One of the operands beside x at the groups that are kept."""
        if name not in self._given:
            values, members = getattr(self._side, name), self._members
            if values is not None and members is not None:
                shaped = values.reshape(way.shape) if name == "gradient" else values
                values = members.kept(members.take(shaped))
            self._given[name] = values
        return self._given[name]


def _members(side: NormOperands, way: Way, *, thorough: bool) -> _Members:
    """The sample of groups; `thorough`: also such as have no variance or are not finite."""
    output = side.output.reshape(way.shape)
    x = side.x.reshape(way.shape)
    rest = tuple(axis for axis in range(len(way.shape)) if axis not in way.axes)
    count = math.prod(way.shape[axis] for axis in rest)
    length = x.size // count
    chosen = min(count, thresholds.GROUP_ROWS, max(8, thresholds.GROUP_ELEMENTS // length))
    energy = None
    if side.distance4 is not None:
        # Groups are numbered in the order of the other axes.
        energy = side.distance4.reshape(way.shape).sum(axis=way.axes, dtype=np.float64).ravel()
    picked = places(count, chosen, energy)
    if thorough:
        picked = np.union1d(picked, _special(x, output, way.axes))
    take = partial(_taken, way=way, rest=rest, picked=picked)
    return _Members(take, take(x), take(output))


def _without_variance(rows: np.ndarray, way: Way) -> np.ndarray:
    """Rows that are constant, or zero where the mean is not taken off."""
    if way.stored:
        return np.zeros(len(rows), bool)
    return np.asarray(np.ptp(rows, axis=1) == 0 if way.centred else ~rows.any(axis=1))


def _special(x: np.ndarray, output: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Flat numbers of some groups that are constant or have an output that is not finite."""
    odd = (x.max(axis=axes) == x.min(axis=axes)) | ~np.isfinite(output).all(axis=axes)
    return np.flatnonzero(odd)[: thresholds.SPECIAL_GROUPS]


def _taken(array: np.ndarray, way: Way, rest: tuple[int, ...], picked: np.ndarray) -> np.ndarray:
    """The picked groups of an array that broadcasts to the tensor, one a row, in float64."""
    if array.ndim != len(way.shape) and len(way.shape) > array.ndim > 1:
        # channels of a group normalisation are two axes, groups and their members
        array = array.reshape(array.shape[0], way.shape[1], way.shape[2], *array.shape[2:])
    whole = np.broadcast_to(array, way.shape).transpose(rest + way.axes)
    index = np.unravel_index(picked, tuple(way.shape[axis] for axis in rest)) if rest else ()
    rows = whole[index] if rest else whole[None]
    return rows.reshape(len(picked), -1).astype(np.float64)


def brief(rows: Rows, most: tuple[int, int]) -> Rows:
    """So many groups and elements of them; the statistics stay those of all members."""
    count, elements = most
    step = -(-len(rows.x) // count)
    length = rows.x.shape[1]
    stride = -(-min(len(rows.x), count) * length // elements)
    if step == stride == 1:
        return rows

    def cut(values: np.ndarray | None) -> np.ndarray | None:
        return values[::step, ::stride] if values is not None else None

    if rows.gradient is not None:  # its group means need all members
        stride = 1
    return Rows(
        rows.x[::step, ::stride],
        rows.output[::step, ::stride],
        cut(rows.gradient),
        cut(rows.weight),
        cut(rows.bias),
        Moments(rows.statistics.mean[::step], rows.statistics.variance[::step])
        if len(rows.statistics.mean) == len(rows.x)
        else Moments(rows.statistics.mean, rows.statistics.variance[::step]),
    )
