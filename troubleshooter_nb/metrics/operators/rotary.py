"""Rotary position encoding in float64, and the angles that were applied."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.metrics.float_formats import in_format

LAYOUTS = ("halves", "interleaved")


def as_pairs(values: np.ndarray, layout: str) -> np.ndarray:
    """The last axis as complex numbers: pairs (i, i + half), or of neighbours."""
    size = values.shape[-1]
    values = np.asarray(values, np.float64)
    if layout == "halves":
        return np.asarray(values[..., : size // 2] + 1j * values[..., size // 2 :])
    return np.asarray(values[..., 0::2] + 1j * values[..., 1::2])


def frequencies(theta: float, size: int) -> np.ndarray:
    """Angle per position of each pair of `size` rotated dimensions."""
    return np.asarray(theta ** (-np.arange(0, size, 2) / size))


def angles(positions: np.ndarray, steps: np.ndarray, precision: str = "float64") -> np.ndarray:
    """Angles (positions, pairs), computed in a precision.

    Parameters
    ----------
    precision : str
        "float64"; "float32"; or a 16-bit format followed by what is kept in it: "bfloat16
        positions", "bfloat16 frequencies", "bfloat16 angles".
    """
    name, _, what = precision.partition(" ")
    if precision == "float64":
        return np.asarray(positions[:, None] * steps)
    places, rates = positions.astype(np.float32), steps.astype(np.float32)
    if what == "positions":
        places = in_format(places, name).astype(np.float32)
    if what == "frequencies":
        rates = in_format(rates, name).astype(np.float32)
    turned = (places[:, None] * rates).astype(np.float64)
    return in_format(turned, name) if what == "angles" else np.asarray(turned)


def pair_factors(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The complex factor of each position and pair, by least squares over the rest.

    Parameters
    ----------
    before, after : ndarray, shape (positions, rest, pairs), complex

    Returns
    -------
    ndarray, shape (positions, pairs)
        nan where a pair is zero throughout.
    """
    power = np.sum(np.abs(before) ** 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sum(after * before.conj(), axis=1) / power)


def turning_rates(factors: np.ndarray) -> np.ndarray:
    """Angle per position of each pair, signed, from factors (positions, pairs).

    The lag between positions that are compared doubles, so that slow pairs are measured over
    the whole length and fast ones do not lose count of their turns.
    """
    rates = np.angle(np.nansum(factors[1:] * factors[:-1].conj(), axis=0))
    lag = 2
    while lag < len(factors):
        turned = np.nansum(factors[lag:] * factors[:-lag].conj(), axis=0)
        rates = rates + np.angle(turned * np.exp(-1j * rates * lag)) / lag
        lag *= 2
    return np.asarray(rates)
