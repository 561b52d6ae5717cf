"""Values at the ends of a format: overflow, saturation, underflow, and NaN that vanished."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import Error, Range, Sides
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
    for side, own in _both(sides):
        if not sides.may_hold(own, "inf_count"):
            continue
        lost, beyond, inside, rest = Range(), Range(), Range(), Error(is_quick=sides.is_large)
        has_signs = True
        for one, other in _blocks(sides, own):
            gone, size = np.isinf(one) & np.isfinite(other), np.abs(other)
            kept = np.isfinite(one) & np.isfinite(other)
            has_signs &= bool((np.sign(one[gone]) == np.sign(other[gone])).all())
            lost.add(other[gone])
            beyond.add(size[gone])
            if not lost.count and not sides.is_large:
                break
            inside.add(size[kept])
            rest.add(one[kept], other[kept])
        # Masks hold one value: -inf on one side and the least finite one on the other.
        if not lost.count or not has_signs or (lost.count > 1 and lost.low == lost.high):
            continue
        largest_kept = inside.high if inside.count else 0.0
        for name, limit in _OVERFLOWS.items():
            near = 1e-3 + sides.floor
            # Exactly the limit: the other side saturates.
            if beyond.low == beyond.high == limit:
                continue
            fits = beyond.low >= limit * (1.0 - near) and largest_kept <= limit * (1.0 + near)
            if fits and rest.value <= OTHER_ELEMENTS_ERROR:
                evidence = {
                    "format": name,
                    "side": side,
                    "count": lost.count,
                    "smallest_lost": beyond.low,
                    "largest_kept": largest_kept,
                    "limit": limit,
                }
                return [sides.suspicion("fp16_overflow", rest.value, evidence)]
    return []


def detect_saturation(sides: Sides) -> list[Suspicion]:
    """saturation: exactly a format's limit wherever the other side is beyond it."""
    for side, own in _both(sides):
        largest = _largest(sides, own)
        for name, limit in _LIMITS.items():
            # -128 is as far as int8 goes below.
            low = 0.0 if name == "uint8" else -limit - (name == "int8")
            if largest != limit and not (name == "int8" and largest == limit + 1):
                continue
            cut, rest = Range(), Error(is_quick=sides.is_large)
            is_clipped = True
            for one, other in _blocks(sides, own):
                clipped = np.clip(other, low, limit)
                changed = (clipped != other) & ~np.isnan(other)
                cut.add(other[changed])
                rest.add(one, clipped)
                is_clipped &= bool((one[changed] == clipped[changed]).all())
            if (
                cut.count
                and rest.value <= OTHER_ELEMENTS_ERROR
                and rest.value <= 0.5 * sides.before
            ):
                is_mask = cut.count > 1 and cut.high < 0.0 and cut.low == cut.high
                if not is_clipped or is_mask:
                    continue
                evidence = {"format": name, "side": side, "count": cut.count}
                return [sides.suspicion("saturation", rest.value, {**evidence, "limit": limit})]
    return []


def detect_underflow(sides: Sides) -> list[Suspicion]:
    """underflow: zero exactly where the other side is below what a format can hold."""
    for side, own in _both(sides):
        if not sides.may_hold(own, "zero_count", FEWEST_ZEROS):
            continue
        lost, kept, rest = Range(), Range(), Error(is_quick=sides.is_large)
        is_positive = True
        for one, other in _blocks(sides, own):
            gone = (one == 0.0) & (other != 0.0) & np.isfinite(other)
            size = np.abs(other)
            lost.add(size[gone])
            if lost.count < FEWEST_ZEROS and not sides.is_large:
                break
            kept.add(size[(one != 0.0) & (other != 0.0)])
            is_positive &= bool((other[gone] > 0).all())
            rest.add(one[~gone], other[~gone])
        if lost.count < FEWEST_ZEROS or not kept.count:
            continue
        for name, least in _SMALLEST.items():
            if lost.high > least * 1.01 or kept.low < least * 0.99:
                continue
            # The values that vanish must reach up to the limit, or another limit does as well.
            if lost.high < 0.25 * least:
                continue
            # One-sided zeros are those of a rectifier.
            if rest.value <= OTHER_ELEMENTS_ERROR or not is_positive:
                evidence = {
                    "format": name,
                    "side": side,
                    "count": lost.count,
                    "share": lost.count / sides.size,
                    "largest_lost": lost.high,
                    "smallest_kept": kept.low,
                    "limit": least,
                }
                # The elements that are left show how much of the error is rounding.
                floor = min(sides.floor, max(rest.value, FLOAT32.unit_roundoff))
                return [replace(sides.suspicion("underflow", rest.value, evidence), floor=floor)]
    return []


def detect_swallowed(sides: Sides) -> list[Suspicion]:
    """nan_swallowed: NaN on one side where the other has one and the same bound.

    Without the inputs of the call it is no more likely than a NaN that the other side made, 0/0:
    the rival leaves as much.
    """
    for side, own in _both(sides):
        if not sides.may_hold(1 - own, "nan_count"):
            continue
        lost, finite, rest = Range(), Range(), Error(is_quick=sides.is_large)
        has_kept, is_made, masked = False, False, True
        for one, other in _blocks(sides, own):
            gone = np.isnan(other) & np.isfinite(one)
            is_made |= bool((np.isnan(one) & np.isfinite(other)).any())
            lost.add(one[gone])
            if is_made or (not lost.count and not sides.is_large):
                break
            finite.add(one[np.isfinite(one)])
            rest.add(one[~gone], other[~gone])
            has_kept |= not gone.all()
            # A softmax over a row that is masked altogether is NaN or 0, too.
            rows = gone.reshape(-1, gone.shape[-1]) if gone.ndim > 1 else gone.reshape(-1, 1)
            masked &= gone.ndim > 1 and bool((rows.all(1) == rows.any(1)).all())
        if not lost.count or is_made:
            continue
        bound = lost.low == 0.0 or lost.low in (finite.low, finite.high)
        if lost.low == lost.high and bound and rest.value <= OTHER_ELEMENTS_ERROR and has_kept:
            evidence = {
                "side": side,
                "count": lost.count,
                "value": lost.low,
                "whole_rows": masked,
            }
            return [sides.suspicion("nan_swallowed", rest.value, evidence, rival=rest.value)]
    return []


def _both(sides: Sides) -> Iterator[tuple[str, int]]:
    """The name and the number of each side, where elements correspond."""
    return iter((("left", 0), ("right", 1)) if sides.same_shape else ())


def _blocks(sides: Sides, own: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All elements of one side, with those of the other."""
    for _, left, right in sides.blocks():
        yield (right, left) if own else (left, right)


def _largest(sides: Sides, own: int) -> float:
    """The largest finite size of a side; 0 for none."""
    if sides.is_large:
        low, high = sides.ends(own)
        return max(-low, high) if math.isfinite(low + high) else 0.0
    size = np.abs((sides.left, sides.right)[own])
    return float(size.max(initial=0.0, where=np.isfinite(size)))
