"""Look-up of rows in float64."""

from __future__ import annotations

import numpy as np


def look_up(table: np.ndarray, ids: np.ndarray, *, shift: int = 0) -> np.ndarray:
    """Rows of the table, shape (*ids.shape, columns); nan where the shifted id is no row.

    Parameters
    ----------
    table : ndarray, shape (rows, columns)
    ids : ndarray of whole numbers
    shift : int
        Added to every id.
    """
    places = ids.astype(np.int64) + shift
    inside = (places >= 0) & (places < len(table))
    rows = np.asarray(table[np.where(inside, places, 0)], np.float64)
    rows[~inside] = np.nan
    return rows


def gathered_gradient(gradient: np.ndarray, ids: np.ndarray, rows: int) -> np.ndarray:
    """Gradient of the table: sums of `gradient` (n, columns) over equal ids (n,), float64."""
    sums = np.zeros((rows, gradient.shape[-1]))
    np.add.at(sums, ids.astype(np.int64), gradient.astype(np.float64))
    return sums
