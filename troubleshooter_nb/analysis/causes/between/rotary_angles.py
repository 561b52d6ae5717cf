"""Angles of rotary positions: products of positions and frequencies."""

from __future__ import annotations

import math

import numpy as np

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues
from troubleshooter_nb.analysis.causes.case import Fit
from troubleshooter_nb.analysis.causes.fits import misfit
from troubleshooter_nb.metrics.operators.rotary import angles, frequencies
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.thresholds import FEWEST_ANGLES

_FORMATS = ("float32", "bfloat16 positions", "float16 positions")


def angle_fits(earlier: EarlierValues) -> list[Fit]:
    """How angles (positions, pairs) came of positions that count up and of a base.

    Returns
    -------
    list of Fit
        Settings: ``formula`` "angles", ``position_offset``, ``theta``, ``frequency_scale``,
        ``angle_precision``. Empty where the target is no such product.
    """
    target = np.squeeze(values_of(earlier.target)).astype(np.float64)
    if target.ndim != 2 or min(target.shape) < FEWEST_ANGLES or not np.isfinite(target).all():
        return []
    whole = target.shape[1]
    # Some store every angle twice, for both halves.
    if whole % 2 == 0 and whole >= 2 * FEWEST_ANGLES:
        halves = np.array_equal(target[:, : whole // 2], target[:, whole // 2 :])
        target = target[:, : whole // 2] if halves else target
    pairs = target.shape[1]
    column = target[:, 0]
    steps = np.unique(np.diff(column))
    step = float(column[-1] - column[0]) / (len(column) - 1)
    if step <= 0 or steps[0] < 0:
        return []
    rates = (target[-1] - target[0]) / (len(column) - 1)
    if (rates <= 0).any() or (np.diff(rates) >= 0).any():
        return []
    slope = float(np.polyfit(np.arange(pairs), np.log(rates / rates[0]), 1)[0])
    theta = math.exp(-slope * pairs)
    offset = round(float(column[0]) / step)
    scale = 1.0 if abs(step - 1.0) < 2e-2 else float(f"{step:.5g}")
    fits = []
    for value in dict.fromkeys([_round(theta), float(f"{theta:.7g}")]):
        for shift in {offset, offset + 1, offset - 1}:
            positions = np.arange(len(target), dtype=np.float64) + shift
            for precision in _FORMATS:
                formula = angles(positions, scale * frequencies(value, 2 * pairs), precision)
                known = {
                    "formula": "angles",
                    "theta": value,
                    "frequency_scale": scale,
                    "position_offset": shift,
                    "angle_precision": precision,
                }
                fits.append(Fit(known, misfit(target, formula, earlier.roundoff)))
    fits = [fit for fit in fits if fit.residual <= max(16.0 * earlier.floor, 2e-6)]
    return sorted(fits, key=lambda fit: fit.residual)


def _round(theta: float) -> float:
    """The roundest number near a fitted base."""
    for digits in range(1, 6):
        rounder = float(f"{theta:.{digits}g}")
        if abs(rounder - theta) <= 2e-5 * theta:
            return rounder
    return theta
