"""Matrix products in float64, of operands rounded as matrix units round them."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.metrics.float_formats import in_format


def product(left: np.ndarray, right: np.ndarray, *, operands: str = "exact") -> np.ndarray:
    """Matrix product with both operands in the format, accumulated in float64."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(in_format(left, operands) @ in_format(right, operands))


def block_products(left: np.ndarray, right: np.ndarray, blocks: int) -> np.ndarray:
    """Partial products over each of `blocks` equal runs of the summed axis.

    Parameters
    ----------
    left, right : ndarray, shapes (rows, features) and (features, columns)
        `blocks` divides the number of features.

    Returns
    -------
    ndarray, shape (blocks, rows, columns), float64
        Their sum is the product.
    """
    rows, features = left.shape
    parts = np.asarray(left, np.float64).reshape(rows, blocks, features // blocks)
    others = np.asarray(right, np.float64).reshape(blocks, features // blocks, right.shape[1])
    return np.asarray(np.matmul(parts.transpose(1, 0, 2), others))
