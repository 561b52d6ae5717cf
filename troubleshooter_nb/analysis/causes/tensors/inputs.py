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

_TAPS = 5  # of the filter that turns one resize into another, along each axis
_LEAST_IMAGE = 16
_COUNTED = 4


def detect_data_order(sides: Sides) -> list[Suspicion]:
    """data_order: the same rows in another order, or another padding value."""
    if not sides.same_shape or sides.left.ndim < 1 or sides.twin.role not in ("", "input"):
        return []
    return _permuted_rows(sides) or (_padding_value(sides) if sides.integers else [])


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
        return [replace(found, independent=_COUNTED * (left.size - 1))]
    if max(within) == 1:
        per_sample = [float(row[0]) for row in rows[:8]]
        largest = float(np.abs(offsets).max())
        evidence = {"offset": largest, "kind": "per sample", "offsets": per_sample}
        return [sides.suspicion("position_offset", 0.0, evidence, fitted=len(rows))]
    return []


def detect_resize(sides: Sides) -> list[Suspicion]:
    """image_resize_library: images equal but for a small symmetric filter of sum one.

    Two resizes of one image are blurred by different kernels; no filter of so few taps turns
    unrelated images into each other, but other filters do as much: the confidence is low.
    """
    shape = sides.right.shape
    if not sides.same_shape or len(shape) < 3 or sides.twin.role not in ("", "input"):
        return []
    pairs = [_planes(one) for one in (sides.left, sides.right)]
    if min(pairs[0].shape[1:]) < _LEAST_IMAGE or is_constant(sides.right):
        return []
    left, right = pairs
    smooth = correlation(right[:, :, 1:], right[:, :, :-1])
    if not (1e-3 < sides.before < 0.5 and smooth > 0.5 and correlation(left, right) > 0.9):
        return []
    kernel, residual = _filter(left, right)
    total = float(kernel.sum())
    if residual > 0.5 * sides.before or abs(total - 1.0) > 2e-2:
        return []
    edges = np.abs(np.diff(right, 2, axis=2)), np.abs(left - right)[:, :, 1:-1]
    at_edges = correlation(*edges)
    if at_edges < 0.2:
        return []
    evidence = {"filter_sum": total, "edges": at_edges, "centre": float(kernel[2, 2])}
    return [
        sides.suspicion("image_resize_library", residual, evidence, rival=residual, fitted=_TAPS**2)
    ]


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


def _filter(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """The filter that turns left into right, and the error that it leaves."""
    edge = _TAPS // 2
    windows = np.lib.stride_tricks.sliding_window_view(left, (1, _TAPS, _TAPS))
    table = windows.reshape(-1, _TAPS * _TAPS)
    wanted = right[:, edge:-edge, edge:-edge].reshape(-1)
    step = max(1, len(wanted) >> 16)
    table, wanted = table[::step], wanted[::step]
    taps = np.linalg.lstsq(table, wanted, rcond=None)[0]
    residual = float(np.linalg.norm(table @ taps - wanted) / np.linalg.norm(wanted))
    return taps.reshape(_TAPS, _TAPS), residual
