"""Inputs: the order of data, positions, padding, and the library that resized an image."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Sides,
    correlation,
    error_of,
    is_constant,
)
from troubleshooter_nb.thresholds import COUNTED_PER_LEVEL, FILTER_LEFT, LEAST_IMAGE, NOISE_LEFT

_EDGE = 2  # pixels that a filter which turns one resize into another reaches to each side


def detect_data_order(sides: Sides) -> list[Suspicion]:
    """data_order: the same rows in another order, a flip, or another padding value."""
    if not sides.same_shape or sides.left.ndim < 1 or sides.tensor.role not in ("", "input"):
        return []
    found = _permuted_rows(sides) or _flipped(sides)
    return found or (_padding_value(sides) if sides.integers else [])


def detect_positions(sides: Sides) -> list[Suspicion]:
    """position_offset: positions that differ by one whole number, or that start elsewhere."""
    left, right = sides.left, sides.right
    if not sides.same_shape or not sides.integers or left.size < 4 or not left.ndim:
        return []
    if not (_counts_up(left) and _counts_up(right)):
        return []
    error = left - right
    offsets = np.unique(error)
    rows = error.reshape(-1, error.shape[-1])
    # Left padding moves each sample by its own number, and holds what comes before at a bound.
    within = [len(np.unique(row)) for row in rows]
    if len(offsets) == 1:
        evidence: dict[str, Any] = {"offset": float(offsets[0]), "kind": "constant"}
        # A sequence that counts up on both sides is more than so many values of any kind.
        found = sides.suspicion("position_offset", 0.0, evidence)
        return [replace(found, independent=COUNTED_PER_LEVEL * (left.size - 1))]
    if max(within) == 1:
        per_sample = [float(row[0]) for row in rows[:8]]
        largest = float(np.abs(offsets).max())
        evidence = {"offset": largest, "kind": "per sample", "offsets": per_sample}
        return [sides.suspicion("position_offset", 0.0, evidence, fitted=len(rows))]
    return []


def detect_resize(sides: Sides) -> list[Suspicion]:
    """image_resize_library: images equal but for a small symmetric filter of sum one.

    Two resizes of one image are blurred by different kernels, more at one pixel and less at the
    next, so that a fixed filter explains most and not all; one that explains all is a filter that
    was applied to the image itself. Noise is explained from neither side, a shift, another
    brightness or another compression by no symmetric filter. The confidence stays low.
    """
    shape = sides.right.shape
    if not sides.same_shape or len(shape) < 3 or sides.tensor.role not in ("", "input"):
        return []
    left, right = (_planes(one) for one in (sides.left, sides.right))
    if min(left.shape[1:]) < LEAST_IMAGE or is_constant(sides.right):
        return []
    smooth = correlation(right[:, :, 1:], right[:, :, :-1])
    if not (1e-3 < sides.before < 0.5 and smooth > 0.5 and correlation(left, right) > 0.9):
        return []
    fits = _filter(left, right), _filter(right, left)
    if max(fit[1] for fit in fits) > NOISE_LEFT * sides.before:
        return []
    kernel, residual = min(fits, key=lambda fit: fit[1])
    total = float(kernel.sum())
    if residual > 0.5 * sides.before or abs(total - 1.0) > 2e-2:
        return []
    edges = np.abs(np.diff(right, 2, axis=2)), np.abs(left - right)[:, :, 1:-1]
    at_edges = correlation(*edges)
    if at_edges < 0.2:
        return []
    evidence = {"filter_sum": total, "edges": at_edges, "centre": float(kernel[0])}
    rival = residual if residual < FILTER_LEFT * sides.before else math.inf
    found = sides.suspicion(
        "image_resize_library", residual, evidence, rival=rival, fitted=len(kernel)
    )
    # What a fixed filter leaves of a resize is no rounding, in any format.
    return [replace(found, floor=0.0)]


def _permuted_rows(sides: Sides) -> list[Suspicion]:
    left, right = (np.ascontiguousarray(one) for one in (sides.left, sides.right))
    rows = len(left)
    # -0 and 0 are one value of a row, but not the same bytes.
    keys = [[row.tobytes() for row in one + 0.0] for one in (left, right)]
    if rows < 2 or sorted(keys[0]) != sorted(keys[1]) or keys[0] == keys[1]:
        return []
    if left.ndim == 1 and (rows < 8 or len(set(keys[0])) < 4):
        return []
    places: dict[bytes, list[int]] = {}
    for place, key in enumerate(keys[0]):
        places.setdefault(key, []).append(place)
    order = [places[key].pop(0) for key in keys[1]]
    residual = error_of(left[order], right)
    moved = sum(place != index for index, place in enumerate(order))
    evidence = {"what": "rows permuted", "moved": moved, "rows": rows, "order": order[:64]}
    return [sides.suspicion("data_order", residual, evidence, fitted=min(rows, 64))]


def _flipped(sides: Sides) -> list[Suspicion]:
    """Images of the batch, or all of them, that were flipped as augmentation flips them."""
    left, right = sides.left, sides.right
    if left.ndim < 3 or is_constant(right):
        return []
    # Channels come last, or before height and width.
    last = left.ndim - 1 - (left.shape[-1] in (1, 3, 4) and left.ndim > 3)
    for axis, what in ((last, "flipped left to right"), (last - 1, "flipped upside down")):
        turned = np.flip(left, axis)
        if left.ndim > 3:
            # Each image was flipped or not.
            errors = [
                [error_of(a, r) for a in (o, t)]
                for o, t, r in zip(left, turned, right, strict=True)
            ]
            moved = np.array([own > other for own, other in errors])
            turned = np.where(moved.reshape(-1, *[1] * (left.ndim - 1)), turned, left)
        else:
            moved = np.ones(1, bool)
        residual = error_of(turned, right)
        if moved.any() and sides.holds(residual):
            evidence = {"what": what, "axis": axis, "moved": int(moved.sum()), "rows": len(moved)}
            return [sides.suspicion("data_order", residual, evidence, fitted=len(moved))]
    return []


def _padding_value(sides: Sides) -> list[Suspicion]:
    unequal = sides.left != sides.right
    ours, theirs = np.unique(sides.left[unequal]), np.unique(sides.right[unequal])
    if unequal.sum() < 4 or len(ours) != 1 or len(theirs) != 1 or unequal.mean() > 0.95:
        return []
    # All of it changed, not a token here and there: what is padded ends each row, or begins it.
    if (sides.left[~unequal] == ours[0]).any() and (sides.right[~unequal] == theirs[0]).any():
        return []
    grid = unequal.reshape(-1, unequal.shape[-1]) if unequal.ndim else unequal.reshape(1, 1)
    changes = np.abs(np.diff(grid.astype(np.int8), axis=1)).sum(1)
    if changes.max(initial=0) > 1:
        return []
    evidence = {
        "what": "padding value",
        "left_value": float(ours[0]),
        "right_value": float(theirs[0]),
        "changed": int(unequal.sum()),
    }
    return [sides.suspicion("data_order", 0.0, evidence, fitted=2)]


def _counts_up(values: np.ndarray) -> bool:
    """Whether most elements are one more than the one before."""
    steps = np.diff(values.reshape(-1, values.shape[-1]), axis=1)
    return steps.size > 0 and bool((steps == 1.0).mean() >= 0.5)


def _planes(values: np.ndarray) -> np.ndarray:
    """Images as (n, height, width); channels that come last are moved to the front."""
    wide = values.astype(np.float64)
    if wide.shape[-1] in (1, 3, 4) and wide.shape[-2] > 4:
        wide = np.moveaxis(wide, -1, -3)
    planes = wide.reshape(-1, *wide.shape[-2:])
    most = max(1, (1 << 18) // math.prod(planes.shape[1:]))
    return planes[:most]


def _filter(source: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, float]:
    """The symmetric filter that turns one into the other, and the error that it leaves.

    The first of its weights is that of the pixel itself, each other one that of the pixels as far
    away, taken together.
    """
    wide, high = source.shape[2] - _EDGE, source.shape[1] - _EDGE

    def moved(down: int, along: int) -> np.ndarray:
        return source[:, _EDGE + down : high + down, _EDGE + along : wide + along]

    far = range(_EDGE + 1)
    table = np.stack(
        [
            (moved(i, j) + moved(-i, j) + moved(i, -j) + moved(-i, -j)).reshape(-1) / 4.0
            for i in far
            for j in far
        ],
        axis=1,
    )
    inner = wanted[:, _EDGE:high, _EDGE:wide].reshape(-1)
    step = max(1, len(inner) >> 16)
    weights = np.linalg.lstsq(table[::step], inner[::step], rcond=None)[0]
    return weights, error_of(table @ weights, inner)
