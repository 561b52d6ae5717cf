"""Micro-batches of unequal token counts, averaged with and without their counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion


def detect_mixture(
    left: Sequence[np.ndarray],
    right: Sequence[np.ndarray],
    parts: Sequence[Sequence[np.ndarray]],
    *,
    roundoff: float = 2.0**-24,
) -> list[Suspicion]:
    """Whether two gradients are the same micro-batch gradients, weighted differently.

    The mean of means gives every micro-batch one weight; the mean over all tokens weights each
    by its token count. No single factor leads from one to the other.

    Parameters
    ----------
    left, right : sequence of ndarray
        Gradients of the step, one per parameter.
    parts : sequence of sequence of ndarray
        For each micro-batch (at least two) the gradients of the same parameters.
    roundoff : float
        Unit roundoff of the stored gradients.

    Returns
    -------
    list of Suspicion
        One of loss_reduction, whose evidence has the weights of both sides; or none.
    """
    count = len(parts)
    matrix = np.stack([_flat(part) for part in parts], 1)
    sides = _flat(left), _flat(right)
    if count < 2 or matrix.shape[0] < 8 * count or not all(np.any(side) for side in sides):
        return []
    weights, residuals = [], []
    for side in sides:
        solved = np.linalg.lstsq(matrix, side, rcond=None)[0]
        weights.append(solved)
        residuals.append(_norm(side - matrix @ solved) / _norm(side))
    norm = _norm(sides[1])
    before = _norm(sides[0] - sides[1]) / norm
    scale = float(sides[0] @ sides[1]) / float(sides[1] @ sides[1])
    rival = _norm(sides[0] - scale * sides[1]) / norm
    floor = roundoff * math.sqrt(count) * 2
    shares = [solved / solved.sum() for solved in weights]
    uncertain = 1e2 * max(floor, *residuals)
    apart = float(np.abs(shares[0] - shares[1]).max())
    if max(residuals) > 1e2 * floor or rival <= 4 * max(*residuals, floor) or apart <= uncertain:
        return []
    even = [bool(np.abs(share * count - 1).max() < uncertain * count) for share in shares]
    evidence = {
        "factor": scale,
        "inverse": 1.0 / scale,
        "name": "unequal micro-batches",
        "names": ["unequal micro-batches"],
        "side": "left" if even[0] else "right",
        "left_weights": [float(value) for value in shares[0]],
        "right_weights": [float(value) for value in shares[1]],
        "even": even,
        "tensors": len(left),
        "of": len(left),
    }
    independent = len(sides[0]) - count
    return [
        Suspicion(
            *("loss_reduction", before, max(residuals), rival, floor),
            evidence,
            independent=independent,
        )
    ]


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])


def _norm(values: np.ndarray) -> float:
    return float(np.linalg.norm(values))
