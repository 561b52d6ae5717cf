"""What the product decides of two sides of a call, for tests of what it decides by."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Call, Fit, Fitter, Operands, TensorPair
from troubleshooter_nb.analysis.causes.recomputed import Recomputation, recompute
from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.metrics.float_formats import FORMATS, stored_as
from troubleshooter_nb.metrics.floats import dtype_from_token

# Relative error that is usual between two right implementations in float32.
TYPICAL = 16.0 * 2.0**-24
# Tensors of more elements are asked about in part as well.
LARGE = 1 << 12


class Tried(list[Fit]):
    """The fits of one side, the best first, with the operands they were fitted to."""

    def __init__(self, fitters: Mapping[str, Fitter], word: str, operands: Operands) -> None:
        super().__init__(fitters[word](operands))
        self.word, self.operands = word, operands


def decided(left: Tried, right: Tried, *, backward: bool = False) -> Recomputation:
    """Whether both sides did the same, and the cause if not, of dumps that hold these operands.

    Asked in a part, as large calls are, it is the same.
    """
    sides = left.operands, right.operands
    outputs = [stored_as(np.asarray(one.output), _dtype(one.roundoff)) for one in sides]
    inputs = tuple(tensor_of(*pair) for pair in zip(*(one.inputs for one in sides), strict=True))
    names = [name for name in sides[0].parameters if name in sides[1].parameters]
    parameters = {name: tensor_of(*(one.parameters[name] for one in sides)) for name in names}
    settings = sides[0].known, sides[1].known
    output, more = (tensor_of(outputs[0], outputs[1]),), (parameters, settings)
    call = Call(left.word, "a", "forward", inputs, output, *more)
    if backward:
        forward = Call(left.word, "a", "forward", inputs[1:], (), *more)
        call = Call(left.word, "a", "backward", inputs[:1], output, *more, forward)
    found = recompute(call, TYPICAL)
    in_part = _in_part(call)
    assert (in_part.outcome, _named(in_part)) == (found.outcome, _named(found))
    return found


def _in_part(call: Call) -> Recomputation:
    """The same call as if it were too large to be read whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "LARGEST_READ", LARGE)
        patch.setattr(thresholds, "PART_ELEMENTS", LARGE // 2)
        return recompute(call, TYPICAL)


def _named(found: Recomputation) -> str | None:
    return found.suspicion.cause if found.suspicion is not None else None


def cause(left: Tried, right: Tried, *, backward: bool = False) -> str | None:
    """The cause that the product names; None only where it finds that both sides did the same."""
    found = decided(left, right, backward=backward)
    if found.suspicion is not None:
        return found.suspicion.cause
    return None if found.outcome == "same" else f"none, {found.outcome}"


def _dtype(roundoff: float) -> np.dtype:
    stored = ("float64", "float32", "bfloat16", "float16")
    name = next(name for name in stored if FORMATS[name].unit_roundoff == roundoff)
    return dtype_from_token(name)


def tensor_of(left: np.ndarray | None, right: np.ndarray | None) -> TensorPair:
    """A pair as comparing measures it."""
    sources = tuple(None if one is None else ArrayInMemory(one) for one in (left, right))
    error, figures = math.inf, dict[str, float]()
    if left is not None and right is not None and left.shape == right.shape:
        pair = left.astype(np.float64), right.astype(np.float64)
        known = np.isfinite(pair[0]) & np.isfinite(pair[1])
        gap, size = (np.linalg.norm(one[known]) for one in (pair[0] - pair[1], pair[1]))
        error = float(gap / size) if size else math.inf
        apart = np.where(known, np.abs(pair[0] - pair[1]), -1.0)
        figures["max_abs_index"] = int(apart.argmax()) if apart.size else -1
        figures["max_abs_error"] = float(apart.max(initial=0.0))
        figures["rmse"] = float(np.sqrt(np.square(apart[known]).mean())) if known.any() else 0.0
        for side, values in zip(("left", "right"), pair, strict=True):
            figures[f"{side}_nan_count"] = int(np.isnan(values).sum())
            figures[f"{side}_inf_count"] = int(np.isinf(values).sum())
    return TensorPair(0, "a", sources=sources, rel_l2=error, figures=figures)
