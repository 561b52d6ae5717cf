"""Inputs: the order of data, positions, padding, and the library that resized an image."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Range,
    Sides,
    correlation,
    error_of,
    is_constant,
)
from troubleshooter_nb.analysis.causes.tensors.streams import mixed, mixed_bits, streamed
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.thresholds import (
    COUNTED_PER_LEVEL,
    FILTER_LEFT,
    LARGEST_HELD,
    LEAST_IMAGE,
    MOST_MATCHED_ROWS,
    NOISE_LEFT,
    SAME_ENDS,
)

_EDGE = 2  # pixels that a filter which turns one resize into another reaches to each side


def detect_data_order(sides: Sides) -> list[Suspicion]:
    """data_order: the same rows in another order, a flip, or another padding value."""
    if not sides.same_shape or not sides.shapes[0] or sides.tensor.role not in ("", "input"):
        return []
    found: list[Suspicion] = []
    if not isinstance(sides, LargeSides):
        found = _permuted_rows(sides) or _flipped(sides)
    elif _may_be_reordered(sides):
        found = _large_permuted_rows(sides) or _flipped(sides)
    return found or (_padding_value(sides) if sides.integers else [])


def detect_positions(sides: Sides) -> list[Suspicion]:
    """position_offset: positions that differ by one whole number, or that start elsewhere."""
    few = sides.few
    if not sides.same_shape or not sides.integers or sides.size < 4 or not sides.shapes[0]:
        return []
    if not (_counts_up(few.left) and _counts_up(few.right)):
        return []
    offsets = Range()
    first: list[float] = []
    is_constant_within = True
    width = sides.shapes[0][-1]
    rows = math.prod(sides.shapes[0][:-1])
    for _, left, right in sides.blocks():
        error = left - right
        offsets.add(error)
        if sides.is_large and len(sides.shapes[0]) > 1 and error.ndim == 1:
            is_constant_within = False  # rows too long to be looked at one by one
            continue
        lines = error.reshape(-1, error.shape[-1])
        # Left padding moves each sample by its own number, and holds what comes before at a bound.
        is_constant_within &= bool((lines == lines[:, :1]).all())
        first += [float(line[0]) for line in lines[: 8 - len(first)]]
    if offsets.low == offsets.high:
        evidence: dict[str, Any] = {"offset": offsets.low, "kind": "constant"}
        # A sequence that counts up on both sides is more than so many values of any kind.
        found = sides.suspicion("position_offset", 0.0, evidence)
        return [replace(found, independent=COUNTED_PER_LEVEL * (sides.size - 1))]
    if is_constant_within and width and rows > 1:
        largest = max(abs(offsets.low), abs(offsets.high))
        evidence = {"offset": largest, "kind": "per sample", "offsets": first}
        return [sides.suspicion("position_offset", 0.0, evidence, fitted=rows)]
    return []


def detect_resize(sides: Sides) -> list[Suspicion]:
    """image_resize_library: images equal but for a small symmetric filter of sum one.

    Two resizes of one image are blurred by different kernels, more at one pixel and less at the
    next, so that a fixed filter explains most and not all; one that explains all is a filter that
    was applied to the image itself. Noise is explained from neither side, a shift, another
    brightness or another compression by no symmetric filter. The confidence stays low.
    """
    if not sides.same_shape or len(sides.shapes[0]) < 3 or sides.tensor.role not in ("", "input"):
        return []
    sides = sides.few
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


def _may_be_reordered(sides: LargeSides) -> bool:
    """Whether both sides have the same ends and length but for noise, as orders leave them."""
    figures = [(*sides.ends(side), sides.figure(side, "l2")) for side in (0, 1)]
    (low, high, norm), (other_low, other_high, other_norm) = figures
    near = SAME_ENDS * (other_high - other_low)
    ends = abs(low - other_low) <= near and abs(high - other_high) <= near
    return ends and abs(norm - other_norm) <= SAME_ENDS * other_norm


def _large_permuted_rows(sides: LargeSides) -> list[Suspicion]:
    """As `_permuted_rows`, by a number for each row that is made of its bits."""
    shape = sides.shapes[0]
    rows, width = shape[0], math.prod(shape[1:])
    if sides.ends(0) != sides.ends(1) or rows < 2:
        return []
    if len(shape) == 1 and len(np.unique(sides.left)) < 4:
        return []
    # Of very many rows the order is not kept, but sums that are the same in any order.
    keeps = rows <= MOST_MATCHED_ROWS
    keys = np.zeros((2, rows if keeps else 0), np.uint64)
    sums, moved, before = np.zeros(2, np.uint64), 0, 0
    with np.errstate(over="ignore"):
        for index, *both in sides.slabs(0):
            wide = np.result_type(*both)
            # Rows that are longer than a block come in parts.
            place = np.arange(before, before + both[0].shape[2], dtype=np.uint64)
            before = 0 if place[-1] + 1 == width else int(place[-1]) + 1
            found = [
                (mixed_bits(one[0].astype(wide, copy=False)) * mixed(place)).sum(1, dtype=np.uint64)
                for one in both
            ]
            if keeps:
                keys[:, index] += np.stack(found)
                continue
            moved += int((found[0] != found[1]).sum())
            sums += np.stack([mixed(one).sum(dtype=np.uint64) for one in found])
    evidence: dict[str, Any] = {"what": "rows permuted", "moved": moved, "rows": rows}
    if keeps:
        places = np.argsort(keys, axis=1, kind="stable")
        if not np.array_equal(*np.take_along_axis(keys, places, 1)):
            return []
        order = np.empty(rows, np.int64)
        order[places[1]] = places[0]
        moved = int((order != np.arange(rows)).sum())
        evidence |= {"moved": moved, "order": order[:64]}
    elif sums[0] != sums[1]:
        return []
    if not moved:
        return []
    return [sides.suspicion("data_order", 0.0, evidence, fitted=min(rows, 64))]


def _flipped(sides: Sides) -> list[Suspicion]:
    """Images of the batch, or all of them, that were flipped as augmentation flips them."""
    shape = sides.shapes[0]
    if len(shape) < 3 or sides.is_constant(1):
        return []
    # Channels come last, or before height and width.
    last = len(shape) - 1 - (shape[-1] in (1, 3, 4) and len(shape) > 3)
    turned = _large_turned(sides, last) if isinstance(sides, LargeSides) else _turned(sides, last)
    whats = ("flipped left to right", "flipped upside down")
    for what, (axis, moved, residual) in zip(whats, turned, strict=False):
        if moved.any() and sides.holds(residual):
            evidence = {"what": what, "axis": axis, "moved": int(moved.sum()), "rows": len(moved)}
            return [sides.suspicion("data_order", residual, evidence, fitted=len(moved))]
    return []


_Turned = tuple[int, np.ndarray, float]  # axis, which images, and what is left


def _turned(sides: Sides, last: int) -> Iterator[_Turned]:
    """The last axis of images and the one before, turned where that fits better."""
    left, right = sides.left, sides.right
    for axis in (last, last - 1):
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
        yield axis, moved, error_of(turned, right)


def _large_turned(sides: LargeSides, last: int) -> Iterator[_Turned]:
    """As `_turned`, from one pass plane by plane."""
    shape = sides.shapes[0]
    plane = shape[last - 1 :]
    size = math.prod(plane)
    if size > LARGEST_HELD:
        return
    images = shape[0] if len(shape) > 3 else 1
    each = sides.size // size // images
    # Squares of what each image leaves: as it is, and with either axis turned.
    squares, norm = np.zeros((3, images)), 0.0
    sources = [source for source in sides.tensor.sources if source is not None]
    for start, raw in streamed(sources, sides.tensor.budget, width=size):
        left, right = (values_of(one).reshape(-1, *plane).astype(np.float64) for one in raw)
        axes = tuple(range(1, left.ndim))
        image = (start // size + np.arange(len(left))) // each
        for number, one in enumerate((left, np.flip(left, 2), np.flip(left, 1))):
            np.add.at(squares[number], image, np.square(one - right).sum(axes))
        norm += float(np.square(right).sum())
    for number, axis in ((1, last), (2, last - 1)):
        moved = squares[0] > squares[number] if len(shape) > 3 else np.ones(1, bool)
        rest = float(np.where(moved, squares[number], squares[0]).sum())
        yield axis, moved, math.sqrt(rest / norm) if norm and math.isfinite(rest) else math.inf


def _padding_value(sides: Sides) -> list[Suspicion]:
    if sides.is_large and (
        len(sides.shapes[0]) == 1 or sides.shapes[0][-1] > thresholds.LARGE_BLOCK
    ):
        return []
    ours, theirs = Range(), Range()
    for _, left, right in sides.blocks():
        unequal = left != right
        ours.add(left[unequal])
        theirs.add(right[unequal])
        # All of it changed, not a token here and there: what is padded ends each row, or begins it.
        grid = unequal.reshape(-1, unequal.shape[-1]) if unequal.ndim else unequal.reshape(1, 1)
        changes = np.abs(np.diff(grid.astype(np.int8), axis=1)).sum(1)
        if ours.low < ours.high or theirs.low < theirs.high or changes.max(initial=0) > 1:
            return []
    if ours.count < 4 or ours.count / sides.size > 0.95:
        return []
    kept = [False, False]
    for _, left, right in sides.blocks():
        equal = left == right
        kept[0] |= bool((left[equal] == ours.low).any())
        kept[1] |= bool((right[equal] == theirs.low).any())
    if all(kept):
        return []
    evidence = {
        "what": "padding value",
        "left_value": ours.low,
        "right_value": theirs.low,
        "changed": ours.count,
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
