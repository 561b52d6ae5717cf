"""Weighted sums, products and quotients of two tensors in float64."""

from __future__ import annotations

import numpy as np


def combined(operator: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """``add``, ``sub``, ``mul`` or ``div`` of two tensors that broadcast."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    with np.errstate(all="ignore"):
        if operator == "add":
            return np.asarray(first + second)
        if operator == "sub":
            return np.asarray(first - second)
        return np.asarray(first * second if operator == "mul" else first / second)


def weights_of(parts: list[np.ndarray], output: np.ndarray) -> np.ndarray:
    """Factors of the parts in the output by least squares; nan where they cannot be told.

    Parameters
    ----------
    parts : list of ndarray
        All of the output's shape. Places where anything is not finite are left out.
    """
    matrix = np.stack([part.ravel() for part in parts], axis=1).astype(np.float64)
    target = output.ravel().astype(np.float64)
    finite = np.isfinite(matrix).all(axis=1) & np.isfinite(target)
    if finite.sum() <= 2 * len(parts):
        return np.full(len(parts), np.nan)
    weights, _, rank, sizes = np.linalg.lstsq(matrix[finite], target[finite], rcond=None)
    if rank < len(parts) or sizes[-1] < 1e-3 * sizes[0]:
        return np.full(len(parts), np.nan)
    return np.asarray(weights)
