"""The row of an embedding that stands for padding: zero on one side only."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of
from troubleshooter_nb.naming.roles import is_embedding
from troubleshooter_nb.thresholds import FEWEST_TABLE_ROWS


def detect_padding_row(sides: Sides) -> list[Suspicion]:
    """padding_idx_row: one row is zero on one side and not on the other; all others agree."""
    left, right = sides.left, sides.right
    if not sides.same_shape or left.ndim != 2 or len(left) < FEWEST_TABLE_ROWS:
        return []
    if not is_embedding(sides.tensor.name) or sides.tensor.role not in ("", "parameter"):
        return []
    zero = [~np.any(one != 0, axis=1) for one in (left, right)]
    rows = np.flatnonzero(zero[0] != zero[1])
    if len(rows) != 1:
        return []
    row = int(rows[0])
    others = np.arange(len(left)) != row
    residual = error_of(left[others], right[others])
    if not sides.holds(residual, fitted=left.shape[1]):
        return []
    evidence = {"row": row, "side": "left" if zero[0][row] else "right", "rows": len(left)}
    return [sides.suspicion("padding_idx_row", residual, evidence)]
