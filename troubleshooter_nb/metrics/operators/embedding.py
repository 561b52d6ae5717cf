"""Look-up of rows in float64."""

from __future__ import annotations

import numpy as np


def look_up(table: np.ndarray, ids: np.ndarray, *, shift: int = 0) -> np.ndarray:
    """Rows of the table, shape (*ids.shape, columns), float64.

    Parameters
    ----------
    table : ndarray, shape (rows, columns)
    ids : ndarray of whole numbers
    shift : int
        Added to every id; behind the last row comes the first one.
    """
    places = (ids.astype(np.int64) + shift) % len(table)
    return np.asarray(table[places], np.float64)


def gathered_gradient(gradient: np.ndarray, ids: np.ndarray, rows: int) -> np.ndarray:
    """Gradient of the table: sums of `gradient` (n, columns) over equal ids (n,), float64."""
    sums = np.zeros((rows, gradient.shape[-1]))
    np.add.at(sums, ids.astype(np.int64), gradient.astype(np.float64))
    return sums
