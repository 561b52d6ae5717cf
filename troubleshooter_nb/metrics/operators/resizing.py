"""Resizing of one axis as a matrix, by every convention of coordinates and rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Where output cell i looks in an axis of n cells that becomes m cells.
COORDINATES: dict[str, Callable[[np.ndarray, int, int], np.ndarray]] = {
    "half_pixel": lambda i, n, m: (i + 0.5) * n / m - 0.5,
    "align_corners": lambda i, n, m: i * (n - 1) / max(m - 1, 1),
    "asymmetric": lambda i, n, m: i * n / m,
}
# How a coordinate becomes a cell of the nearest kind.
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "half up": lambda place: np.floor(place + 0.5),
    "half down": lambda place: np.ceil(place - 0.5),
    "half even": np.rint,
}
CUBIC_CONSTANTS = (-0.75, -0.5)


def nearest_matrix(
    size: int, output: int, coordinates: str, rounding: str, *, steps: str = "exact"
) -> np.ndarray:
    """Weights (output, size) with a single one per row.

    `steps` "float32": a cell of the output is multiplied by a rounded size / output, so that
    coordinates that are whole in exact arithmetic may fall below; ``asymmetric`` alone.
    """
    if steps == "float32":
        step = np.float32(size) / np.float32(output)
        places = (np.arange(output, dtype=np.float32) * step).astype(np.float64)
    else:
        places = COORDINATES[coordinates](np.arange(output, dtype=np.float64), size, output)
        places = np.round(places, 9)
    cells = ROUNDINGS[rounding](places)
    return np.asarray(np.eye(size)[np.clip(cells, 0, size - 1).astype(np.intp)])


def linear_matrix(
    size: int, output: int, coordinates: str, *, antialias: bool = False
) -> np.ndarray:
    """Weights (output, size) of linear interpolation; places outside take the border's value.

    With `antialias` the triangle is as wide as an output cell where the image shrinks.
    """
    places = COORDINATES[coordinates](np.arange(output, dtype=np.float64), size, output)
    width = max(size / output, 1.0) if antialias else 1.0
    if not antialias:
        places = np.clip(places, 0, size - 1)
    distances = np.abs(np.arange(size) - places[:, None]) / width
    weights = np.maximum(1 - distances, 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def cubic_matrix(size: int, output: int, coordinates: str, constant: float) -> np.ndarray:
    """Weights (output, size) of cubic convolution; cells outside repeat the border."""
    places = COORDINATES[coordinates](np.arange(output, dtype=np.float64), size, output)
    first = np.floor(places).astype(np.intp)
    weights = np.zeros((output, size))
    for tap in range(-1, 3):
        distance = np.abs(places - (first + tap))
        near = (constant + 2) * distance**3 - (constant + 3) * distance**2 + 1
        far = constant * (distance**3 - 5 * distance**2 + 8 * distance - 4)
        value = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
        np.add.at(weights, (np.arange(output), np.clip(first + tap, 0, size - 1)), value)
    return weights


def resized(planes: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Planes (..., height, width) resized by the matrices of both axes, in float64."""
    return np.asarray(rows @ np.asarray(planes, np.float64) @ columns.T)
