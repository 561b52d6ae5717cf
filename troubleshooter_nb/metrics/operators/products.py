"""Matrix products in float64, of operands rounded as matrix units round them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

# Significand bits, hidden bit included, that a matrix unit keeps of float32 operands, and whether
# it cuts the rest off: cuBLAS rounds, the tensor core itself ignores the low bits.
_UNIT_FORMATS = {
    "tf32": (11, False),
    "tf32 truncated": (11, True),
    "hf32": (12, False),
    "hf32 truncated": (12, True),
}
_STORED_FORMATS = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
UNIT_FORMATS = tuple(_UNIT_FORMATS)
STORED_FORMATS = tuple(_STORED_FORMATS)


def to_bits(values: np.ndarray, bits: int, *, truncate: bool = False) -> np.ndarray:
    """Values with `bits` bits of significand, to nearest even or towards zero; float64.

    Fewer than 53 bits. The range of exponents stays that of float64; inf and the usual nan pass
    through.
    """
    pattern = np.array(values, np.float64).view(np.uint64)
    drop = np.uint64(53 - bits)
    one = np.uint64(1)
    if not truncate:
        # Half a unit of the last bit kept; a tie goes up where that bit is set.
        pattern = pattern + ((one << (drop - one)) - one + ((pattern >> drop) & one))
    return (pattern & ~((one << drop) - one)).view(np.float64)


def in_format(values: np.ndarray, name: str) -> np.ndarray:
    """Values as they are in a format: "exact", one of `UNIT_FORMATS` or of `STORED_FORMATS`.

    Returns float64. A float16 beyond its range becomes inf, below it zero.
    """
    values = np.asarray(values, np.float64)
    if name in _UNIT_FORMATS:
        bits, truncate = _UNIT_FORMATS[name]
        return to_bits(values, bits, truncate=truncate)
    if name in _STORED_FORMATS:
        with np.errstate(over="ignore"):
            return values.astype(np.float32).astype(_STORED_FORMATS[name]).astype(np.float64)
    return values


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
