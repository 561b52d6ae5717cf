"""A recorded value that an operator changed in place before it was written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Error, Range, Sides, error_of
from troubleshooter_nb.messages import Message


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _gelu(x: np.ndarray) -> np.ndarray:
    erf = np.array([math.erf(v) for v in (x / math.sqrt(2.0)).reshape(-1).tolist()])
    return np.asarray(0.5 * x * (1.0 + erf.reshape(x.shape)))


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1.0 + np.tanh(inner)))


# In the order of how often they are called in place.
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "relu6": lambda x: np.clip(x, 0.0, 6.0),
    "leaky relu, slope 0.01": lambda x: np.where(x < 0, 0.01 * x, x),
    "leaky relu, slope 0.1": lambda x: np.where(x < 0, 0.1 * x, x),
    "leaky relu, slope 0.2": lambda x: np.where(x < 0, 0.2 * x, x),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0.0)), x),
    "silu": lambda x: x * _sigmoid(x),
    "hardswish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
    "hardtanh": lambda x: np.clip(x, -1.0, 1.0),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "gelu": _gelu,
    "gelu, tanh form": _gelu_tanh,
}
_SLOW = ("gelu", "gelu, tanh form")


def detect_inplace(sides: Sides) -> list[Suspicion]:
    """recorder_inplace: one side is an activation, or a clip, of the other.

    A missing activation leaves the same values: only whether the consumers of the value agree
    tells the two, which one pair cannot know. The evidence says so in ``needs``, and the cause has
    half of the share; who knows that the consumers agree gives it all of it.
    """
    few = sides.few
    if not sides.same_shape or sides.size < thresholds.FEWEST_OVERWRITTEN or few.integers:
        return []
    if sides.tensor.role == "parameter":
        return []  # no layer activates a weight, or its gradient
    if sides.is_constant(0) or sides.is_constant(1) or not math.isfinite(sides.before):
        return []
    found = [one for both in _both(few) for one in _tried(*both)]
    found.sort(key=lambda one: one[0])
    residual, form, side = found[0]
    if not few.holds(residual, tolerance=thresholds.INEXACT_FUNCTIONS):
        return _clipped(sides)
    # What is slow is held against some rows of a large pair alone.
    held = few if form in _SLOW else sides
    whole = _whole_error(held, form, side)
    if not held.holds(whole, tolerance=thresholds.INEXACT_FUNCTIONS):
        return []
    equal = [one[1] for one in found if one[0] <= 2.0 * residual + sides.floor and one[2] == side]
    return [_suspicion(held, whole, {"form": form, "forms": equal, "side": side})]


def _suspicion(
    sides: Sides, residual: float, evidence: dict[str, Any], fitted: int = 0
) -> Suspicion:
    # An activation that the other side lacks leaves the same values.
    evidence["needs"] = "consumers agree"
    found = sides.suspicion("recorder_inplace", residual, evidence, fitted=fitted)
    return replace(found, share=0.5)


def _both(sides: Sides) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    step = -(-sides.left.size // thresholds.OVERWRITTEN_SAMPLE)
    left, right = (one.reshape(-1)[::step].astype(np.float64) for one in (sides.left, sides.right))
    yield "left", left, right
    yield "right", right, left


def _tried(side: str, values: np.ndarray, before: np.ndarray) -> list[tuple[float, str, str]]:
    """Errors of all activations that would give `values`, named with the side that was changed."""
    with np.errstate(over="ignore", invalid="ignore"):
        return [
            (error_of(np.asarray(function(before)), values), form, side)
            for form, function in _ACTIVATIONS.items()
        ]


def _whole_error(sides: Sides, form: str, side: str) -> float:
    def undone(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ours, theirs = (left, right) if side == "left" else (right, left)
        if form in _SLOW and ours.size > 1 << 20:
            ours, theirs = ours.reshape(-1)[: 1 << 20], theirs.reshape(-1)[: 1 << 20]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(_ACTIVATIONS[form](theirs.astype(np.float64))), ours

    return sides.error(undone)


def _clipped(sides: Sides) -> list[Suspicion]:
    """Equal but for values beyond a bound, which are the bound."""
    few, count = sides.few, -(-sides.few.left.size // thresholds.OVERWRITTEN_SAMPLE)
    some = slice(None, None, count)
    for own, side in enumerate(("left", "right")):
        low, high = sides.ends(own)
        left, right = (one.reshape(-1)[some] for one in (few.left, few.right))
        ours, theirs = (right, left) if own else (left, right)
        if error_of(np.clip(theirs, low, high), ours) > 1e-2:
            continue
        beyond, bound, rest = 0, 0, Error(is_quick=sides.is_large)
        below = Range()
        for _, left, right in sides.blocks():
            ours, theirs = (right, left) if own else (left, right)
            below.add(theirs[theirs < low])
            beyond += int((theirs < low).sum()) + int((theirs > high).sum())
            bound += int((ours == low).sum()) + int((ours == high).sum())
            rest.add(np.clip(theirs, low, high), ours)
        if below.count and below.low == below.high:
            continue  # one masked value for another
        enough = beyond >= thresholds.FEWEST_CLIPPED and bound >= beyond
        if enough and sides.holds(rest.value, fitted=2, tolerance=1e-5):
            form = Message("evidence.clip", low=low, high=high)
            evidence = {"form": form, "forms": [form], "side": side, "clipped": beyond}
            return [_suspicion(sides, rest.value, evidence, fitted=2)]
    return []
