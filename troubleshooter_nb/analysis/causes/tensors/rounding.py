"""Values of one side that are those of the other, rounded or narrowed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Sides,
    error_of,
    is_constant,
    is_whole,
    norm_of,
    transform,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import FLOAT32, FORMATS, SHORT_FORMATS, in_format
from troubleshooter_nb.metrics.floats import significand_bits


def detect_cast(sides: Sides) -> list[Suspicion]:
    """low_precision_cast: one side holds only what fp8, fp16, bf16 or TF32 can hold.

    Where more happened than one rounding, as behind several operators in that format, what is
    left is as much as there was; a stored dtype that says the format itself is no news then.
    """
    if not sides.same_shape or sides.left.size < thresholds.FEWEST_OF_FORMAT:
        return []
    for side, narrow, wide in _both(sides):
        if is_constant(narrow) or is_whole(narrow):
            continue
        for name in (*SHORT_FORMATS, "tf32"):
            if (
                _share_held(narrow, name) >= thresholds.HELD_SHARE
                and _share_held(wide, name) <= thresholds.NOT_HELD_SHARE
            ):
                return _cast(sides, side, name, narrow, wide)
    return []


def _cast(
    sides: Sides, side: str, name: str, narrow: np.ndarray, wide: np.ndarray
) -> list[Suspicion]:
    bits = FORMATS[name].bits
    # Without subnormals, the values of TF32 look the same.
    names = [name, "tf32"] if name == "float16" and not _has_subnormal(narrow) else [name]
    ways = [(one, False) for one in names]
    ways += [(one, True) for one in names if one in ("tf32", "bfloat16")]
    errors = [
        error_of(in_format(wide, f"{one} truncated" if cut else one), narrow) for one, cut in ways
    ]
    residual = min(errors)
    best, truncated = ways[errors.index(residual)]
    exact = residual <= thresholds.CAST_UNDONE * sides.before and residual <= 2.0**-bits
    known = sides.tensor.dtypes[0 if side == "left" else 1]
    stored = known is not None and 0 < significand_bits(known) <= bits
    if not exact and (stored or not sides.before <= thresholds.ROUNDED_BEFORE * 2.0**-bits):
        return []
    held = _share_held(narrow, name), _share_held(wide, name)
    evidence: dict[str, Any] = {"format": best, "formats": names, "side": side}
    evidence |= {"truncated": truncated, "held": held[0], "held_other": held[1], "exact": exact}
    if sides.tensor.role in ("parameter", "buffer") and side == "right" and best != "tf32":
        evidence["transform"] = transform("cast", best)
    return [sides.suspicion("low_precision_cast", residual, evidence)]


def detect_narrowing(sides: Sides) -> list[Suspicion]:
    """int_narrowing: integers wrapped or clipped to fewer bits, or rounded by a float."""
    tensor = sides.tensor
    if not sides.same_shape or not sides.integers or tensor.left is None or tensor.right is None:
        return []
    raw = {"left": tensor.left, "right": tensor.right}
    for side, other in (("left", "right"), ("right", "left")):
        for how, values in _narrowings(raw[other]):
            if np.array_equal(values, raw[side]) and not np.array_equal(raw[side], raw[other]):
                changed = int((raw[side] != raw[other]).sum())
                evidence = {"how": how, "side": side, "changed": changed, "size": raw[side].size}
                largest = float(np.abs(raw[other].astype(np.float64)).max())
                return [sides.suspicion("int_narrowing", 0.0, {**evidence, "largest": largest})]
    return []


def _narrowings(values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """What a narrower type makes of the integers, where it makes something else of them."""
    if values.dtype.kind == "u":
        values = values.astype(np.uint64).view(np.int64)
    exact = values.dtype.kind in "bi"
    largest = float(np.abs(values.astype(np.float64)).max())
    whole = values.astype(np.int64) if exact or largest < 2.0**62 else None
    for bits in (32, 16, 8):
        if whole is None or largest < 2.0 ** (bits - 1):
            continue
        for kind in (f"int{bits}", f"uint{bits}"):
            info = np.iinfo(kind)
            yield Message("evidence.wrapped", dtype=kind), whole.astype(kind).astype(np.int64)
            yield Message("evidence.clipped", dtype=kind), np.clip(whole, info.min, info.max)
    for form in (FORMATS[name] for name in ("bfloat16", "float16", "float32")):
        if 2.0**form.bits < largest < form.largest:
            yield Message("evidence.rounded", dtype=form.name), in_format(values, form.name)


def detect_reduction(sides: Sides) -> list[Suspicion]:
    """reduction_order: errors of the size of rounding, of random signs, in no place of their own.

    For informing only: it explains what is left where nothing else does.
    """
    if not sides.same_shape or sides.left.size < 64 or not 0.0 < sides.before < math.inf:
        return []
    if sides.before > max(sides.floor, 32.0 * FLOAT32.unit_roundoff):
        return []
    left, right = (
        one.reshape(-1)[: thresholds.TENSOR_SAMPLE].astype(np.float64)
        for one in (sides.left, sides.right)
    )
    error = (left - right)[np.isfinite(left) & (left != right)]
    if len(error) < 32:
        return []
    balance = float(np.sign(error).mean())
    if abs(balance) > 4.0 / math.sqrt(len(error)):
        return []
    scale = norm_of(right) / math.sqrt(len(right))
    evidence = {
        "balance": balance,
        "changed": len(error) / len(left),
        "largest_in_scale": float(np.abs(error).max()) / scale,
    }
    return [sides.suspicion("reduction_order", sides.before, evidence)]


def _both(sides: Sides) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield "left", sides.left, sides.right
    yield "right", sides.right, sides.left


def _share_held(values: np.ndarray, name: str) -> float:
    """Share of the finite non-zero elements that a format holds exactly; 0 for too few."""
    flat = values.reshape(-1)
    flat = flat[:: -(-flat.size // thresholds.BITS_SAMPLE)]
    flat = flat[np.isfinite(flat) & (flat != 0.0)]
    if len(flat) < thresholds.FEWEST_OF_FORMAT:
        return 0.0
    return float((in_format(flat, name) == flat).mean())


def _has_subnormal(values: np.ndarray) -> bool:
    """Whether small values have as few bits as float16 leaves below 2^-14."""
    form = FORMATS["float16"]
    small = values[(values != 0.0) & (np.abs(values) < form.smallest_normal)] / form.smallest
    return len(small) > 0 and bool((small == np.rint(small)).all())
