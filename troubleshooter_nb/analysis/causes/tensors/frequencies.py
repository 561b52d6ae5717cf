"""Frequencies of rotary positions: whether two buffers have other bases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of

_FEWEST = 3
_SAME = 1e-5
_DIGITS = 6


def detect_frequencies(sides: Sides) -> list[Suspicion]:
    """rope_theta: both sides are powers of a base from 1 on, or a multiple of such, of other bases.

    Notes
    -----
    ``factor * theta ** (-i / n)`` for ``i < n``, as `inv_freq` of rotary embeddings holds. The
    evidence gives both bases as ``left`` and ``right``; ``left_factor`` and ``right_factor``.
    """
    if not sides.same_shape or sides.left.size < _FEWEST:
        return []
    fits = [_base(one) for one in (sides.left, sides.right)]
    tolerance = max(16.0 * sides.floor, 1e-6)
    if any(fit is None or fit[2] > tolerance for fit in fits):
        return []
    (theta, factor, left), (other, its, right) = (fit for fit in fits if fit is not None)
    # The same base with another factor is a factor, whatever made it.
    apart = abs(math.log(theta / other)) > _SAME
    residual = max(left, right)
    if not apart or residual > 0.1 * sides.before:
        return []
    evidence = {"left": theta, "right": other, "left_factor": factor, "right_factor": its}
    # Each power agrees in all its digits, and not only in sign or order.
    independent = _DIGITS * (sides.left.size - 2)
    return [replace(sides.suspicion("rope_theta", residual, evidence), independent=independent)]


def _base(values: np.ndarray) -> tuple[float, float, float] | None:
    """Base, factor, and what they leave; None where the values do not fall from 1 or below."""
    flat = values.reshape(-1).astype(np.float64)
    if not np.isfinite(flat).all() or (flat <= 0).any() or (np.diff(flat) >= 0).any():
        return None
    size = len(flat)
    slope, level = np.polyfit(np.arange(size), np.log(flat), 1)
    if abs(level) > math.log(64.0) or slope >= 0:
        return None
    factor = 1.0 if abs(level) < 1e-3 else math.exp(level)
    if factor == 1.0:
        slope = float(np.log(flat).sum() / np.arange(size).sum())
    theta = math.exp(-slope * size)
    rounder = float(f"{theta:.3g}")
    if abs(rounder - theta) < 1e-5 * theta:
        theta = rounder
    formula = factor * theta ** (-np.arange(size) / size)
    return float(f"{theta:.7g}"), float(f"{factor:.5g}"), error_of(formula, flat)
