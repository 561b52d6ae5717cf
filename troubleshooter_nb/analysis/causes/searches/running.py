"""Running statistics that were recorded behind their update: what the batch and their start make.

A batch norm in training leaves start + m * (statistics of the batch - start), and a hook behind the
call sees that in place of the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.analysis.causes.case import Call, Suspicion, TensorPair
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.thresholds import (
    FEWEST_CHANNELS,
    RUNNING_EXPLAINED,
    RUNNING_ROUNDINGS,
    SAME_MOMENTUM,
)

_NAMES = ("running_mean", "running_var")
# What means and variances start at, as the frameworks have it and as people fill them.
_STARTS = ((0.0, 1.0), (0.0, 0.0))


@dataclass(frozen=True)
class Running:
    """What is known of the statistics of a call: whether both sides made them alike, or a cause."""

    outcome: Literal["same", "different", "unknown"] = "unknown"
    suspicions: list[Suspicion] = field(default_factory=list)


@dataclass(frozen=True)
class _Side:
    """Means, then variances: those recorded, those of the batch, and rounding of each."""

    kept: np.ndarray
    batch: np.ndarray
    rounding: np.ndarray


@dataclass(frozen=True)
class _Start:
    """A start that explains one side, with the weight of the batch and what it leaves, relative."""

    values: tuple[float, float]
    momentum: float
    residual: float


def explain_running(call: Call) -> Running:
    """Whether the input of a batch norm explains the statistics recorded behind it.

    Parameters
    ----------
    call : Call
        Forward, with its input and both running statistics.

    Raises
    ------
    BudgetSpentError
        If there is no room to read it.
    """
    kept = [call.parameters.get(name) for name in _NAMES]
    pairs = [one for one in kept if one is not None]
    if len(pairs) < 2 or not call.inputs:
        return Running()
    sides = [_side(call.inputs[0], pairs, number) for number in (0, 1)]
    left, right = sides
    if left is None or right is None or len(left.kept) != len(right.kept):
        return Running()
    begun = _started(left), _started(right)
    if begun[0] is None and begun[1] is None:
        return Running("same" if _shared_start(left, right) else "unknown")
    return _judged((left, right), begun, pairs)


def _side(given: TensorPair, kept: list[TensorPair], number: int) -> _Side | None:
    x = (given.left, given.right)[number]
    statistics = [(one.left, one.right)[number] for one in kept]
    if x is None or x.ndim < 2 or x.size < 2 or any(one is None for one in statistics):
        return None
    known = np.concatenate([np.ravel(one) for one in statistics if one is not None])
    channels = known.size // 2
    axis = next((a for a in (1, x.ndim - 1) if x.shape[a] == channels), None)
    count = x.size // max(channels, 1)
    if axis is None or channels < FEWEST_CHANNELS or count < 2 or x.dtype.kind != "f":
        return None
    wide = np.moveaxis(x, axis, 0).reshape(channels, -1).astype(np.float64)
    mean, variance = wide.mean(1), wide.var(1) * count / (count - 1)
    batch, known = np.concatenate([mean, variance]), known.astype(np.float64)
    if not (np.isfinite(batch).all() and np.isfinite(known).all()):
        return None
    dtypes = [one for pair in (given, *kept) if (one := pair.dtypes[number]) is not None]
    roundoff = max(unit_roundoff(dtype) for dtype in dtypes)
    size = np.maximum(np.abs(known), np.concatenate([np.sqrt(variance), variance]))
    return _Side(known, batch, RUNNING_ROUNDINGS * roundoff * size)


def _started(side: _Side) -> _Start | None:
    """The usual start that a batch has moved; None where none explains the statistics."""
    half = len(side.kept) // 2
    for values in _STARTS:
        start = np.repeat(values, half)
        moved, way = side.kept - start, side.batch - start
        square = float(way @ way)
        momentum = float(moved @ way) / square if square > 0 else 0.0
        rest = float(np.linalg.norm(moved - momentum * way))
        explained = rest <= float(np.linalg.norm(side.rounding))
        # Statistics that have not moved, or were replaced by those of the batch, say no start.
        if explained and SAME_MOMENTUM < momentum < 1 - SAME_MOMENTUM:
            return _Start(values, momentum, rest / float(np.linalg.norm(side.kept)))
    return None


def _shared_start(left: _Side, right: _Side) -> bool:
    """Whether the statistics differ by a share of what those of the batches differ by."""
    apart, way = left.kept - right.kept, left.batch - right.batch
    square = float(way @ way)
    if not square > 0 or not apart.any():
        return False
    momentum = float(apart @ way) / square
    rest = float(np.linalg.norm(apart - momentum * way))
    floor = float(np.linalg.norm(np.hypot(left.rounding, right.rounding)))
    near = max(floor, RUNNING_EXPLAINED * float(np.linalg.norm(apart)))
    return 0 < momentum <= 1 + SAME_MOMENTUM and rest <= near


def _judged(
    sides: tuple[_Side, _Side], begun: tuple[_Start | None, _Start | None], kept: list[TensorPair]
) -> Running:
    left, right = begun
    scale = float(np.linalg.norm(sides[1].kept))
    if not scale > 0:
        return Running()
    momenta = [one.momentum for one in begun if one is not None]
    if left is not None and right is not None and left.values == right.values:
        if all(abs(one - other) <= SAME_MOMENTUM for one, other in pairwise(momenta)):
            return Running("same")
        cause, evidence = "bn_momentum_convention", _of_momenta(left, right)
    else:
        cause, evidence = "bn_start_state", {}
    evidence |= {
        word: Message("evidence.earlier_statistics")
        if one is None
        else Message(
            "evidence.started", mean=one.values[0], variance=one.values[1], momentum=one.momentum
        )
        for word, one in zip(("left", "right"), begun, strict=True)
    }
    before = float(np.linalg.norm(sides[0].kept - sides[1].kept)) / scale
    residual = max(one.residual for one in begun if one is not None)
    floor = max(float(np.linalg.norm(one.rounding)) for one in sides) / scale
    pair = next((one.pair for one in kept if one.differs), kept[0].pair)
    size = len(sides[0].kept) - 1
    return Running(
        "different",
        [
            Suspicion(
                cause, before, residual, before, floor / RUNNING_ROUNDINGS, evidence, pair, size
            )
        ],
    )


def _of_momenta(left: _Start, right: _Start) -> dict[str, Any]:
    return {
        "ratio": left.momentum / right.momentum,
        "left_momentum": left.momentum,
        "right_momentum": right.momentum,
        "convention": abs(left.momentum + right.momentum - 1) < SAME_MOMENTUM,
        "tensors": 2,
    }
