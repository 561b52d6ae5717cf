"""Values at the ends of a format: overflow, saturation, underflow, and NaN that vanished."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of
from troubleshooter_nb.metrics.float_formats import FLOAT32, FORMATS, SHORT_FORMATS
from troubleshooter_nb.metrics.floats import dtype_from_token, largest_finite
from troubleshooter_nb.thresholds import FEWEST_ZEROS, OTHER_ELEMENTS_ERROR

# Largest finite values, beyond which there is inf, of formats that are reached in practice.
_OVERFLOWS = {name: FORMATS[name].largest for name in ("float16", "float8_e5m2")}
_LIMITS = {
    name: largest_finite(dtype_from_token(name))
    for name in (
        *("float16", "bfloat16", "float32", "float8_e5m2", "float8_e4m3fn"),
        *("int8", "uint8", "int16"),
    )
}
# Below half of its smallest value a format rounds to zero; flushed, below the smallest normal one.
_SMALLEST = {
    f"{name}, subnormals flushed": FORMATS[name].smallest_normal for name in ("float32", "float16")
} | {name: 0.5 * FORMATS[name].smallest for name in reversed(SHORT_FORMATS)}


def is_at_a_limit(value: float) -> bool:
    """Whether a value is the last one of a format that is reached in practice."""
    return abs(value) in _LIMITS.values() or value == -128.0


def detect_overflow(sides: Sides) -> list[Suspicion]:
    """fp16_overflow: inf exactly where the other side is beyond the largest value of the format."""
    for side, one, other in _both(sides):
        lost = np.isinf(one) & np.isfinite(other)
        if not lost.any() or not (np.sign(one[lost]) == np.sign(other[lost])).all():
            continue
        # Masks hold one value: -inf on one side and the least finite one on the other.
        if lost.sum() > 1 and np.ptp(other[lost]) == 0.0:
            continue
        for name, limit in _OVERFLOWS.items():
            size, near = np.abs(other), 1e-3 + sides.floor
            # Exactly the limit: the other side saturates.
            if (size[lost] == limit).all():
                continue
            beyond = size[lost].min() >= limit * (1.0 - near)
            kept = np.isfinite(one) & np.isfinite(other)
            inside = size[kept].max(initial=0.0) <= limit * (1.0 + near)
            rest = error_of(one[kept], other[kept])
            if beyond and inside and rest <= OTHER_ELEMENTS_ERROR:
                evidence = {
                    "format": name,
                    "side": side,
                    "count": int(lost.sum()),
                    "smallest_lost": float(size[lost].min()),
                    "largest_kept": float(size[kept].max(initial=0.0)),
                    "limit": limit,
                }
                return [sides.suspicion("fp16_overflow", rest, evidence)]
    return []


def detect_saturation(sides: Sides) -> list[Suspicion]:
    """saturation: exactly a format's limit wherever the other side is beyond it."""
    for side, one, other in _both(sides):
        size = np.abs(one)
        largest = float(size.max(initial=0.0, where=np.isfinite(size)))
        for name, limit in _LIMITS.items():
            # -128 is as far as int8 goes below.
            if largest != limit and not (name == "int8" and largest == limit + 1):
                continue
            clipped = np.clip(other, -limit - (name == "int8"), limit)
            if name == "uint8":
                clipped = np.clip(other, 0.0, limit)
            changed = (clipped != other) & ~np.isnan(other)
            rest = error_of(one, clipped)
            if changed.any() and rest <= OTHER_ELEMENTS_ERROR and rest <= 0.5 * sides.before:
                if not (one[changed] == clipped[changed]).all() or _is_mask(other[changed]):
                    continue
                evidence = {"format": name, "side": side, "count": int(changed.sum())}
                return [sides.suspicion("saturation", rest, {**evidence, "limit": limit})]
    return []


def detect_underflow(sides: Sides) -> list[Suspicion]:
    """underflow: zero exactly where the other side is below what a format can hold."""
    for side, one, other in _both(sides):
        lost = (one == 0.0) & (other != 0.0) & np.isfinite(other)
        count = int(lost.sum())
        size = np.abs(other)
        kept = (one != 0.0) & (other != 0.0)
        if count < FEWEST_ZEROS or not kept.any():
            continue
        largest_lost, smallest_kept = float(size[lost].max()), float(size[kept].min())
        for name, least in _SMALLEST.items():
            if largest_lost > least * 1.01 or smallest_kept < least * 0.99:
                continue
            # The values that vanish must reach up to the limit, or another limit does as well.
            if largest_lost < 0.25 * least:
                continue
            rest = error_of(one[~lost], other[~lost])
            # One-sided zeros are those of a rectifier.
            if rest <= OTHER_ELEMENTS_ERROR or not (other[lost] > 0).all():
                evidence = {
                    "format": name,
                    "side": side,
                    "count": count,
                    "share": count / one.size,
                    "largest_lost": largest_lost,
                    "smallest_kept": smallest_kept,
                    "limit": least,
                }
                # The elements that are left show how much of the error is rounding.
                floor = min(sides.floor, max(rest, FLOAT32.unit_roundoff))
                return [replace(sides.suspicion("underflow", rest, evidence), floor=floor)]
    return []


def detect_swallowed(sides: Sides) -> list[Suspicion]:
    """nan_swallowed: NaN on one side where the other has one and the same bound.

    Without the inputs of the call it is no more likely than a NaN that the other side made, 0/0:
    the rival leaves as much.
    """
    for side, one, other in _both(sides):
        lost = np.isnan(other) & np.isfinite(one)
        if not lost.any() or (np.isnan(one) & np.isfinite(other)).any():
            continue
        values = one[lost]
        value, finite = float(values[0]), one[np.isfinite(one)]
        bound = value == 0.0 or value in (float(finite.min()), float(finite.max()))
        kept = ~lost
        rest = error_of(one[kept], other[kept])
        if (values == value).all() and bound and rest <= OTHER_ELEMENTS_ERROR and kept.any():
            # A softmax over a row that is masked altogether is NaN or 0, too.
            rows = lost.reshape(-1, lost.shape[-1]) if lost.ndim > 1 else lost.reshape(-1, 1)
            masked = lost.ndim > 1 and bool((rows.all(1) == rows.any(1)).all())
            evidence = {
                "side": side,
                "count": int(lost.sum()),
                "value": value,
                "whole_rows": masked,
            }
            return [sides.suspicion("nan_swallowed", rest, evidence, rival=rest)]
    return []


def _is_mask(values: np.ndarray) -> bool:
    """Whether they are one negative value, as masks hold; overflow is seldom that even."""
    return values.size > 1 and bool(values[0] < 0.0 and (values == values[0]).all())


def _both(sides: Sides) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    if sides.same_shape:
        yield "left", sides.left, sides.right
        yield "right", sides.right, sides.left
