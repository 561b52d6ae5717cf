"""Values of one side that are those of the other, rounded or narrowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
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
    if not sides.same_shape or sides.size < thresholds.FEWEST_OF_FORMAT:
        return []
    few = sides.few
    for side, narrow, wide in _both(few):
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
    errors = [error_of(_rounded(wide, *way), narrow) for way in ways]
    residual = min(errors)
    best, truncated = ways[errors.index(residual)]
    if sides.is_large:
        residual = sides.error(partial(_cast_blocks, side, best, truncated))
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


def _cast_blocks(
    side: str, name: str, truncated: bool, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    narrow, wide = (left, right) if side == "left" else (right, left)
    # Values of these formats are exact in float32.
    return _rounded(wide, name, truncated).astype(narrow.dtype), narrow


def _rounded(values: np.ndarray, name: str, truncated: bool) -> np.ndarray:
    return in_format(values, f"{name} truncated" if truncated else name)


def detect_narrowing(sides: Sides) -> list[Suspicion]:
    """int_narrowing: integers wrapped or clipped to fewer bits, or rounded by a float."""
    if not sides.same_shape or not sides.few.integers:
        return []
    small: list[np.ndarray] = []
    if not isinstance(sides, LargeSides):
        left, right = sides.tensor.left, sides.tensor.right
        if left is None or right is None:
            return []
        small = [left, right]
    for side, own in (("left", 0), ("right", 1)):
        if isinstance(sides, LargeSides):
            low, high = sides.ends(1 - own)
            largest, blocks = max(-low, high), (raw for _, raw in sides.stored())
        else:
            largest = float(np.abs(small[1 - own].astype(np.float64)).max())
            blocks = (raw for raw in [small])
        # What holds in the first blocks is asked for in the next ones.
        hows: list[Message] | None = None
        changed, size = 0, 0
        for raw in blocks:
            ours, theirs = raw[own], raw[1 - own]
            held = [
                how
                for how, made in _narrowings(theirs, largest)
                if (hows is None or how in hows) and np.array_equal(made(), ours)
            ]
            hows = held
            if not held:
                break
            changed += int((ours != theirs).sum())
            size += ours.size
        if hows and changed:
            evidence = {"how": hows[0], "side": side, "changed": changed, "size": size}
            return [sides.suspicion("int_narrowing", 0.0, {**evidence, "largest": largest})]
    return []


def _narrowings(
    values: np.ndarray, largest: float
) -> Iterator[tuple[Message, Callable[[], np.ndarray]]]:
    """What a narrower type makes of integers, where it makes something else of the largest."""
    if values.dtype.kind == "u":
        values = values.astype(np.uint64).view(np.int64)
    exact = values.dtype.kind in "bi"
    whole = values.astype(np.int64) if exact or largest < 2.0**62 else None
    for bits in (32, 16, 8):
        if whole is None or largest < 2.0 ** (bits - 1):
            continue
        for kind in (f"int{bits}", f"uint{bits}"):
            info = np.iinfo(kind)
            yield Message("evidence.wrapped", dtype=kind), partial(_wrapped, whole, kind)
            clipped = partial(np.clip, whole, info.min, info.max)
            yield Message("evidence.clipped", dtype=kind), clipped
    for form in (FORMATS[name] for name in ("bfloat16", "float16", "float32")):
        if 2.0**form.bits < largest < form.largest:
            yield (
                Message("evidence.rounded", dtype=form.name),
                partial(in_format, values, form.name),
            )


def _wrapped(values: np.ndarray, kind: str) -> np.ndarray:
    return values.astype(kind).astype(np.int64)


def detect_reduction(sides: Sides) -> list[Suspicion]:
    """reduction_order: errors of the size of rounding, of random signs, in no place of their own.

    For informing only: it explains what is left where nothing else does.
    """
    if not sides.same_shape or sides.size < 64 or not 0.0 < sides.before < math.inf:
        return []
    if sides.before > max(sides.floor, 32.0 * FLOAT32.unit_roundoff):
        return []
    few = sides.few
    left, right = (
        one.reshape(-1)[: thresholds.TENSOR_SAMPLE].astype(np.float64)
        for one in (few.left, few.right)
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
    return [few.suspicion("reduction_order", few.before, evidence)]


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
