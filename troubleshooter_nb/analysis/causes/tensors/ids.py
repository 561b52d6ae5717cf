"""Ids of tokens and labels that are shifted: by a number, with a wrap, or along an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import Range, Sides
from troubleshooter_nb.analysis.causes.tensors.shifts import observed_shift
from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import FEWEST_WHOLE


def detect_shifted_ids(sides: Sides) -> list[Suspicion]:
    """position_offset: every id larger by one number, with a wrap or without; or ids moved along.

    Masks and flags are alike by chance: they have too few values.
    """
    is_asked = sides.same_shape and sides.integers and sides.tensor.role in ("", "input")
    if not is_asked or len(np.unique(sides.few.right)) < FEWEST_WHOLE:
        return []
    return _larger_by_one_number(sides) or _moved_along(sides)


def _larger_by_one_number(sides: Sides) -> list[Suspicion]:
    """Ids plus a number, modulo another one that is larger than all of them."""
    steps: set[float] = set()
    ends = Range()
    for _, left, right in sides.blocks():
        # Of a wrap there are two differences: the shift, and the shift less the modulus.
        steps.update(np.unique(left - right).tolist())
        if len(steps) > 2 or 0.0 in steps:
            return []
        for side in (left, right):
            ends.add(side)
    low, high = min(steps), max(steps)
    modulus = high - low
    if not all(map(math.isfinite, steps)) or (modulus and not 0 <= ends.low <= ends.high < modulus):
        return []
    shift = low if not modulus or abs(low) < abs(high) else high
    said: Any = shift
    if modulus:
        said = Message("evidence.larger_modulo", shift=shift, modulus=modulus)
    evidence = {"offset": shift, "kind": "constant", "left": said, "right": 0}
    return [sides.suspicion("position_offset", 0.0, evidence, fitted=len(steps))]


def _moved_along(sides: Sides) -> list[Suspicion]:
    """Ids that lie some places further along an axis; what left the end comes in at the other."""
    found = observed_shift(sides)
    if not found or found["residual"] > 0.0:
        return []
    axis, lag = found["axis"], found["lag"]
    is_rolled = not isinstance(sides, LargeSides) and np.array_equal(
        np.roll(sides.left, lag, axis), sides.right
    )
    said = Message("evidence.rolled" if is_rolled else "evidence.moved", lag=-lag, axis=axis)
    evidence = {"offset": -lag, "axis": axis, "left": said, "right": 0}
    size = sides.shapes[0][axis]
    share = 0 if is_rolled else sides.size // size * abs(lag)
    return [sides.suspicion("position_offset", 0.0, evidence, fitted=share)]
