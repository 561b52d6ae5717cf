"""Batch norms whose stored statistics nobody saved: what both sides have in common stands for them.

In evaluation such a norm multiplies each channel by s = w / sqrt(variance + eps) and adds
t = b - mean * s. Mean and variance are unknown, but the same on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import misfit
from troubleshooter_nb.analysis.causes.law import Shared
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.operators.normalisation import USUAL_EPS
from troubleshooter_nb.render.numbers import scientific
from troubleshooter_nb.thresholds import (
    FEWEST_CHANNELS,
    FEWEST_TO_FIT,
    FORMULA_FLOORS,
    LARGEST_EPS,
    LAYER_SAMPLE,
    SAME_DEVIATION,
    UNLIKE,
)


@dataclass(frozen=True)
class ChannelMap:
    """One side as slopes and offsets; `x` and `output` have a channel a row."""

    x: np.ndarray
    output: np.ndarray
    slope: np.ndarray
    offset: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    residual: float
    roundoff: float

    def left_over(self, slope: np.ndarray, offset: np.ndarray) -> float:
        """Residual of these slopes and offsets."""
        return misfit(self.output, slope[:, None] * self.x + offset[:, None], self.roundoff)


def shared_statistics(left: Operands, right: Operands) -> Shared | None:
    """What a batch norm without its stored statistics did otherwise on the other side.

    Parameters
    ----------
    left, right : Operands
        Input and output with channels second; weight and bias where the layer has them.

    Returns
    -------
    Shared or None
        ``eps``, ``weight`` or ``bias``: where one difference of the eps, or leaving out one of the
        two, makes the right side's channels of the left side's. Of eps the difference is known
        alone: where it is one of two values in use, these are said.
    """
    sides = channel_map(left), channel_map(right)
    mine, theirs = sides
    if mine is None or theirs is None or len(mine.slope) != len(theirs.slope):
        return None
    tried = [(one, theirs.left_over(*made)) for one, made in _ways(mine, theirs)]
    tried.sort(key=lambda trial: trial[1])
    if not tried:
        return None
    (setting, *values), best = tried[0]
    rival = min((residual for (other, *_), residual in tried if other != setting), default=np.inf)
    rival = min(rival, theirs.left_over(mine.slope, mine.offset))
    residuals = mine.residual, best
    fits = [
        Fit({"statistics": "running", setting: value}, residual)
        for value, residual in zip(values, residuals, strict=True)
    ]
    return Shared(setting, (fits[0], fits[1]), rival)


_Way = tuple[tuple[str, Any, Any], tuple[np.ndarray, np.ndarray]]


def _ways(left: ChannelMap, right: ChannelMap) -> Iterator[_Way]:
    """Settings of both sides, and slopes and offsets that the left side's make of the right's."""
    weight, bias = left.weight, left.bias
    with np.errstate(all="ignore"):
        for ours, theirs in (("applied", "ignored"), ("ignored", "applied")):
            gains = [
                weight if said == "applied" else np.ones_like(weight) for said in (ours, theirs)
            ]
            slope = left.slope / gains[0] * gains[1]
            mean = (bias - left.offset) / left.slope
            yield ("weight", ours, theirs), (slope, bias - mean * slope)
            added = [bias if said == "applied" else 0.0 * bias for said in (ours, theirs)]
            mean = (added[0] - left.offset) / left.slope
            yield ("bias", ours, theirs), (left.slope, added[1] - mean * left.slope)
        # The same weight and mean: only what is added to the variance of each channel.
        squares = [np.square(weight / one.slope) for one in (left, right)]
        if np.ptp(squares[0]) <= SAME_DEVIATION * squares[0].max():
            return
        sure = 1.0 / np.square(np.maximum(*squares))
        change = float(((squares[1] - squares[0]) * sure).sum() / sure.sum())
        if abs(change) > LARGEST_EPS:
            return
        slope = np.sign(left.slope) * np.abs(weight) / np.sqrt(squares[0] + change)
        mean = (bias - left.offset) / left.slope
        said = _eps(
            change, FORMULA_FLOORS * max(left.roundoff, right.roundoff) * float(squares[0].min())
        )
        yield ("eps", *said), (slope, bias - mean * slope)


def _eps(change: float, doubt: float) -> tuple[Any, Any]:
    """The eps of both sides: two in use that are so far apart, else how much one is larger."""
    pairs = [
        (one, other)
        for one in USUAL_EPS
        for other in USUAL_EPS
        if one != other and abs(other - one - change) <= max(doubt, 1e-3 * abs(change))
    ]
    if len(pairs) == 1:
        return pairs[0]
    more = Message("evidence.larger_by", value=scientific(abs(change)))
    less = Message("evidence.smaller_by", value=scientific(abs(change)))
    return (less, more) if change > 0 else (more, less)


def channel_map(side: Operands) -> ChannelMap | None:
    """Slopes and offsets of every channel; None where the output is no such norm's."""
    x, output = side.inputs[0], side.output
    known = {name: side.parameters.get(name) for name in ("weight", "bias")}
    if x is None or x.shape != output.shape or x.ndim < 2 or {"running_var"} & {*side.parameters}:
        return None
    count = x.shape[1]
    if count < FEWEST_CHANNELS or any(
        one is not None and one.size != count for one in known.values()
    ):
        return None
    rows = [np.moveaxis(one, 1, 0).reshape(count, -1) for one in (x, output)]
    length = rows[0].shape[1]
    picked = spread(length, max(LAYER_SAMPLE // count, FEWEST_TO_FIT))
    given, made = (np.asarray(one[:, picked], np.float64) for one in rows)
    if given.shape[1] < FEWEST_TO_FIT or not (np.isfinite(given).all() and np.isfinite(made).all()):
        return None
    distance = given - given.mean(axis=1, keepdims=True)
    spreads = np.square(distance).sum(axis=1)
    if not np.all(spreads > 0):
        return None
    slope = (distance * made).sum(axis=1) / spreads
    offset = made.mean(axis=1) - slope * given.mean(axis=1)
    weight, bias = (
        np.full(count, default) if one is None else np.asarray(one.reshape(-1), np.float64)
        for one, default in ((known["weight"], 1.0), (known["bias"], 0.0))
    )
    if not np.all(slope) or not np.all(weight):
        return None
    found = ChannelMap(given, made, slope, offset, weight, bias, 0.0, side.roundoff)
    residual = found.left_over(slope, offset)
    return replace(found, residual=residual) if residual <= UNLIKE else None
