"""Whether a large pair may be judged from its figures and a sample, without reading it whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.tensors.limits import is_at_a_limit
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of, is_whole
from troubleshooter_nb.metrics.floats import arithmetic_of, computable
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.thresholds import EXPLAINED, FEWEST_ZEROS

_SIDES = ("left", "right")


def sample_of(tensor: TensorPair) -> Sides | None:
    """The same rows of both sides of a large pair, where what is not in them is ordinary.

    Parameters
    ----------
    tensor : TensorPair

    Returns
    -------
    Sides or None
        Shape (runs, ...): evenly spread slabs of the last axes, and the one with the largest error.
        None where the pair has to be read whole: small, of other shapes or integers, images, or
        when its figures show more than an error that is spread over values that lie where they
        belong. A sample of the same rows cannot see another order of the rows, nor what a few
        elements hold.
    """
    left, right = tensor.sources
    if left is None or right is None or left.shape != right.shape:
        return None
    if tensor.budget is not None and tensor.budget.is_endless:
        return None
    size = math.prod(left.shape)
    if not size > thresholds.SCREENED_FROM or not _is_ordinary(tensor, size):
        return None
    axis, slab = _slab(left.shape)
    starts = _starts(size, slab, int(tensor.figures["max_abs_index"]))
    if tensor.budget is not None:
        tensor.budget.charge(2 * len(starts) * slab)
    shape = (len(starts), *left.shape[axis:]) if axis < len(left.shape) else (-1,)
    rows = [read_rows(source, starts.tolist(), slab) for source in (left, right)]
    sides = Sides(tensor, *(values_of(computable(one)).reshape(shape) for one in rows))
    # Whole numbers have causes of their own, whatever their dtype.
    if is_whole(sides.left) or is_whole(sides.right) or _is_turned(sides, starts // slab):
        return None
    return sides


def _is_turned(sides: Sides, places: np.ndarray) -> bool:
    """Whether a square matrix may be transposed, by the columns of the rows that are there.

    One that is nearly symmetric differs little from itself transposed.
    """
    left, right = sides.left, sides.right
    source = sides.tensor.shapes[1] or ()
    if len(source) != 2 or source[0] != source[1] or left.shape[1:] != source[1:]:
        return False
    ours, theirs = left[:, places], right[:, places]
    return error_of(ours, theirs.T) <= EXPLAINED * error_of(ours, theirs)


def _is_ordinary(tensor: TensorPair, size: int) -> bool:
    """Whether the figures show small errors everywhere, and nothing else."""
    figures, images = tensor.figures, tensor.role == "input" and len(tensor.shapes[0] or ()) > 2
    kinds = [arithmetic_of(dtype) for dtype in tensor.dtypes if dtype is not None]
    if not figures or images or kinds != ["float", "float"]:
        return False
    if any(figures[f"{side}_{name}"] for side in _SIDES for name in ("nan_count", "inf_count")):
        return False
    # Zeros of one side alone vanished, or were put there; one or another is chance.
    if abs(int(figures["left_zero_count"]) - int(figures["right_zero_count"])) >= FEWEST_ZEROS:
        return False
    ends = [float(figures[f"{side}_{end}"]) for side in _SIDES for end in ("min", "max")]
    is_constant = ends[0] == ends[1] or ends[2] == ends[3]
    if is_constant or any(map(is_at_a_limit, ends)):
        return False
    rms, largest = float(figures["rmse"]), float(figures["max_abs_error"])
    spread = min(_spread(figures, side, size) for side in _SIDES)
    return (
        0.0 < rms <= thresholds.IN_PLACE * spread
        and figures["unequal_count"] >= size / 2
        and largest <= thresholds.SPREAD_PEAK * rms
        and figures["mean_abs_error"] >= thresholds.SPREAD_MEAN * rms
    )


def _spread(figures: Mapping[str, Any], side: str, size: int) -> float:
    """Root mean square of a side about its mean: far from zero, values in any order are alike."""
    square = float(figures[f"{side}_l2"]) ** 2 / size - float(figures[f"{side}_mean"]) ** 2
    return math.sqrt(max(square, 0.0))


def _slab(shape: tuple[int, ...]) -> tuple[int, int]:
    """First of the last axes that fit a run, and their elements; single elements in runs else."""
    axis, slab = len(shape), 1
    while axis > 1 and slab * shape[axis - 1] <= thresholds.SCREEN_RUN:
        axis -= 1
        slab *= shape[axis]
    # Rows that are longer than a run, or a tensor of one axis.
    return (axis, slab) if axis < len(shape) else (axis, thresholds.SCREEN_RUN)


def _starts(size: int, slab: int, worst: int) -> np.ndarray:
    """Where the runs begin: evenly spread, with that of the largest error, in order."""
    count = max(thresholds.SCREEN_SAMPLE // slab, 1)
    slabs = size // slab
    farthest = min(max(worst, 0) // slab, slabs - 1)
    starts: np.ndarray = np.union1d(spread(slabs, count), farthest) * slab
    return starts
