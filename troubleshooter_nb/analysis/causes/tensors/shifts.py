"""Values that lie a few places further along an axis, and statistics that agree all the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import Error, Sides, error_of
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.thresholds import LAG_STRETCH, LAG_TRIED, MOMENTS_FROM, SAME_VALUES


def observed_shift(sides: Sides) -> dict[str, Any]:
    """The lag along one axis at which the sides agree, {} for none."""
    if not sides.same_shape or sides.size < 64:
        return {}
    for axis, size in enumerate(sides.shapes[0]):
        if isinstance(sides, LargeSides):
            both, along = _stretch(sides, axis), 1
        else:
            both, along = (sides.left, sides.right), axis
        for lag in range(-LAG_TRIED, LAG_TRIED + 1):
            if not lag or abs(lag) * 2 >= size:
                continue
            left, right, unmoved = _moved(*both, along, lag)
            # A few first: most lags fail there.
            step = -(-left.size // 4096)
            if error_of(left.reshape(-1)[::step], right.reshape(-1)[::step]) > 0.1:
                continue
            residual = error_of(left, right)
            if sides.holds(residual) and isinstance(sides, LargeSides):
                residual = _moved_error(sides, axis, lag)
            if (
                sides.holds(residual)
                and np.ptp(right) > 0
                and not _holds_unmoved(sides, unmoved, right)
            ):
                return {"axis": axis, "lag": lag, "residual": residual}
    return {}


def _holds_unmoved(sides: Sides, left: np.ndarray, right: np.ndarray) -> bool:
    """Whether what both have that is finite agrees as it stands: rows alike agree at any lag."""
    finite = np.isfinite(left) & np.isfinite(right)
    return sides.holds(error_of(left[finite], right[finite]))


def _moved(
    left: np.ndarray, right: np.ndarray, axis: int, lag: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What corresponds where right lags behind, and left where it does not."""
    size, lead = left.shape[axis], (slice(None),) * axis
    ours = slice(max(-lag, 0), size - max(lag, 0))
    theirs = slice(max(lag, 0), size - max(-lag, 0))
    return left[(*lead, ours)], right[(*lead, theirs)], left[(*lead, theirs)]


def _stretch(sides: LargeSides, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours along an axis at some places of the others: of both sides (n, neighbours, m)."""
    shape = sides.shapes[0]
    size, after = shape[axis], math.prod(shape[axis + 1 :])
    length = min(size, LAG_STRETCH)
    width = min(after, thresholds.LARGE_SAMPLE // length, thresholds.LARGE_RUN)
    count = max(thresholds.LARGE_SAMPLE // (length * width), 1)
    first = (size - length) // 2 * after + (after - width) // 2
    slabs = spread(sides.size // (size * after), count) * size * after
    starts = (slabs[:, None] + first + np.arange(length) * after).reshape(-1)
    budget, found = sides.tensor.budget, []
    for source in sides.tensor.sources:
        if source is None:
            continue
        if budget is not None:
            budget.charge(len(starts) * width)
        if width == after:
            rows = read_rows(source, starts[::length], length * after)
        else:
            rows = read_rows(source, starts, width)
        found.append(values_of(rows).reshape(len(slabs), length, width))
    return found[0], found[1]


def _moved_error(sides: LargeSides, axis: int, lag: int) -> float:
    """Error of all elements whose neighbour at a lag is there."""
    shape, budget = sides.shapes[0], sides.tensor.budget
    size, after = shape[axis], math.prod(shape[axis + 1 :])
    # The neighbour's distance in flat order, and the first places that have one.
    apart = lag * after
    first, count = max(-apart, 0), sides.size - abs(apart)
    ours, theirs = (
        streamed([source], budget, start=start, size=count)
        for source, start in zip(sides.tensor.sources, (first, first + apart), strict=True)
        if source is not None
    )
    total = Error(is_quick=True)
    for (start, (left,)), (_, (right,)) in zip(ours, theirs, strict=True):
        index = np.arange(start, start + len(left)) // after % size + lag
        good = (index >= 0) & (index < size)
        total.add(values_of(left)[good], values_of(right)[good])
    return total.value


@np.errstate(over="ignore", invalid="ignore")
def observed_order(sides: Sides) -> dict[str, Any]:
    """What is left over where both sides are sorted, {} where other values stand on either."""
    if isinstance(sides, LargeSides) or not _is_far(sides) or sides.is_constant(1):
        return {}
    (low, high), theirs = sides.ends(0), sides.ends(1)
    if not np.allclose((low, high), theirs, rtol=0.0, atol=SAME_VALUES * max(map(abs, theirs))):
        return {}
    left, right = (np.sort(one.reshape(-1).astype(np.float64)) for one in (sides.left, sides.right))
    residual = error_of(left, right)
    limit = min(max(SAME_VALUES, 4.0 * sides.floor), sides.before / 100.0)
    return {"residual": residual} if residual <= limit else {}


def observed_moments(sides: Sides) -> dict[str, Any]:
    """Statistics that agree while the values of a large pair do not, {} where they differ."""
    if not isinstance(sides, LargeSides) or not _is_far(sides):
        return {}
    ours, theirs = (_moments_of(sides, side) for side in (0, 1))
    scale = theirs["deviation"]
    if not all(map(math.isfinite, (*ours.values(), *theirs.values()))) or not scale > 0:
        return {}
    apart = max(abs(ours[key] - other) for key, other in theirs.items())
    return theirs if apart <= max(SAME_VALUES, 4.0 * sides.floor) * scale else {}


def _is_far(sides: Sides) -> bool:
    """Whether equal statistics are news."""
    return math.isfinite(sides.before) and sides.before >= MOMENTS_FROM


def _moments_of(sides: LargeSides, side: int) -> dict[str, float]:
    """Of all elements, from their figures."""
    mean, (low, high) = sides.figure(side, "mean"), sides.ends(side)
    deviation = sides.centred(side) * sides.figure(side, "l2") / math.sqrt(sides.size)
    return {"mean": mean, "deviation": deviation, "smallest": low, "largest": high}
