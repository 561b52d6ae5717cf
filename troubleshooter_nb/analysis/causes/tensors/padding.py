"""The row of an embedding that stands for padding: zero on one side only."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Error, Sides
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming.roles import is_embedding
from troubleshooter_nb.thresholds import FEWEST_TABLE_ROWS


def detect_padding_row(sides: Sides) -> list[Suspicion]:
    """padding_idx_row: one row is zero on one side and not on the other; all others agree."""
    shape = sides.shapes[0]
    if not sides.same_shape or len(shape) != 2 or shape[0] < FEWEST_TABLE_ROWS:
        return []
    if not is_embedding(sides.tensor.name) or sides.tensor.role not in ("", "parameter"):
        return []
    if not any(sides.may_hold(side, "zero_count", shape[1]) for side in (0, 1)):
        return []
    found: list[tuple[int, bool]] = []
    rest = Error(is_quick=sides.is_large)
    for start, *both in sides.blocks():
        left, right = (one.reshape(-1, shape[1]) for one in both)
        zero = [~np.any(one != 0, axis=1) for one in (left, right)]
        odd = zero[0] != zero[1]
        found += [(start // shape[1] + int(row), bool(zero[0][row])) for row in np.flatnonzero(odd)]
        if len(found) > 1:
            return []
        rest.add(left[~odd], right[~odd])
    if not found or not sides.holds(rest.value, fitted=shape[1]):
        return []
    row, is_left = found[0]
    said = [Message("evidence.row_of_zeros"), Message("evidence.row_kept")]
    sides_said = dict(zip(("left", "right"), said if is_left else said[::-1], strict=True))
    evidence = {"row": row, **sides_said, "rows": shape[0]}
    return [sides.suspicion("padding_idx_row", rest.value, evidence)]
