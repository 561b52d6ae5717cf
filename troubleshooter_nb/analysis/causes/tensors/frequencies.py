"""Frequencies of rotary positions: whether two buffers have other bases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of


def detect_frequencies(sides: Sides) -> list[Suspicion]:
    """rope_theta: both sides are powers of a base from 1 on, or a multiple of such, of other bases.

    Notes
    -----
    ``factor * theta ** (-i / n)`` for ``i < n``, as `inv_freq` of rotary embeddings holds. The
    evidence gives both bases as ``left`` and ``right``; ``left_factor`` and ``right_factor``.
    """
    if not sides.same_shape or sides.size < thresholds.FEWEST_FREQUENCIES:
        return []
    # No format tells as many powers apart as a large tensor holds.
    if sides.left.size < sides.size:
        return []
    fits = [_base(one) for one in (sides.left, sides.right)]
    tolerance = max(16.0 * sides.floor, 1e-6)
    if any(fit is None or fit[2] > tolerance for fit in fits):
        return []
    (theta, factor, left), (other, its, right) = (fit for fit in fits if fit is not None)
    # The same base with another factor is a factor, whatever made it.
    apart = abs(math.log(theta / other)) > thresholds.SAME_THETA
    residual = max(left, right)
    if not apart or residual > 0.1 * sides.before:
        return []
    evidence = {"left": theta, "right": other, "left_factor": factor, "right_factor": its}
    # Each power agrees in all its digits, and not only in sign or order.
    independent = thresholds.DIGITS_OF_DRAW * (sides.left.size - 2)
    return [replace(sides.suspicion("rope_theta", residual, evidence), independent=independent)]


def is_computed(values: np.ndarray) -> bool:
    """Whether values are made by a formula and never trained: see `detect_uninitialised`.

    Powers of a base; numbers that count up along the last axis; waves along the first one, as the
    tables of rotary and sinusoidal positions hold.
    """
    flat = values.reshape(-1)
    if len(flat) < thresholds.FEWEST_FREQUENCIES or not np.isfinite(flat).all():
        return False
    counts = (
        bool((np.diff(values, axis=-1) == 1.0).all())
        and values.shape[-1] >= thresholds.FEWEST_FREQUENCIES
    )
    return counts or _is_power_of_base(values) or _are_waves(values)


def is_angles(values: np.ndarray) -> bool:
    """Whether rows are whole numbers, counting up, times powers of a base."""
    table = values.reshape(-1, values.shape[-1]).astype(np.float64) if values.ndim > 1 else None
    if table is None or len(table) < thresholds.FEWEST_FREQUENCIES or not np.isfinite(table).all():
        return False
    steps = np.diff(table[: _period(table)], axis=0)
    if len(steps) < 2 or not steps[0].any():
        return False
    # Frequencies may come twice, for both halves of a head.
    width = table.shape[1]
    half = width // 2
    twice = width % 2 == 0 and np.array_equal(steps[0][:half], steps[0][half:])
    step = steps.mean(0)
    first = np.rint(table[0, 0] / step[0]) * step if step[0] else np.full(width, np.nan)
    straight = error_of(steps, np.broadcast_to(step, steps.shape)) < thresholds.ROUNDED_FREQUENCIES
    begins = float(np.abs(first - table[0]).max()) < thresholds.ROUNDED_FREQUENCIES
    return straight and begins and _is_power_of_base(step[: half if twice else width])


def _period(table: np.ndarray) -> int:
    """Rows until the first one comes again, as in the next sample."""
    again = np.flatnonzero((table[1:] == table[0]).all(1))
    return int(again[0]) + 1 if len(again) else len(table)


def _is_power_of_base(values: np.ndarray) -> bool:
    fit = _base(values)
    return fit is not None and fit[2] < thresholds.ROUNDED_FREQUENCIES


def _are_waves(values: np.ndarray) -> bool:
    """Whether each column is a wave: the next value is a multiple of this one, less the last."""
    if (
        values.ndim < 2
        or len(values) < 4 * thresholds.FEWEST_FREQUENCIES
        or np.abs(values).max() > 1.0 + thresholds.ROUNDED_FREQUENCIES
    ):
        return False
    table = values.reshape(len(values), -1).astype(np.float64)
    middle, around = table[1:-1], table[2:] + table[:-2]
    square = np.einsum("ij,ij->j", middle, middle)
    twice = np.einsum("ij,ij->j", middle, around) / np.where(square, square, 1.0)
    return error_of(middle * twice, around) < thresholds.ROUNDED_FREQUENCIES and bool(
        np.ptp(table, axis=0).any()
    )


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
