"""Scales and offsets: one for all elements, or one per channel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.factors import named_factor
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import Sides
from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import (
    BITS_SAMPLE,
    EXPLAINED,
    IMAGE_TOLERANCE,
    MOST_IMAGE_CHANNELS,
)

# Mean and deviation per channel of images from 0 to 1, as published with the data sets.
_RECIPES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "0..1": ((0.0,), (1.0,)),
    "0..255": ((0.0,), (1 / 255,)),
    "-1..1": ((0.5,), (0.5,)),
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "ImageNet, constants in BGR order": ((0.406, 0.456, 0.485), (0.225, 0.224, 0.229)),
    "ImageNet mean alone": ((0.485, 0.456, 0.406), (1.0,)),
    "ImageNet mean alone, 0..255": ((0.485, 0.456, 0.406), (1 / 255,)),
    "ImageNet constants on 0..255": (
        (0.485 / 255, 0.456 / 255, 0.406 / 255),
        (0.229 / 255, 0.224 / 255, 0.225 / 255),
    ),
    "ImageNet, mean and deviation exchanged": ((0.229, 0.224, 0.225), (0.485, 0.456, 0.406)),
    "CLIP": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "CIFAR-10, other deviations": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "MNIST": ((0.1307,), (0.3081,)),
}


@dataclass(frozen=True)
class Affine:
    """``right = scale * left + offset``, per index of `axis`, or for all elements.

    `residual` is the error that is left over the norm of right.
    """

    axis: int | None
    scale: np.ndarray
    offset: np.ndarray
    residual: float

    @property
    def fitted(self) -> int:
        """How many numbers were fitted."""
        return int(self.scale.size + np.count_nonzero(self.offset))


# Squares near the end of float64 are infinite: then nothing fits.
@np.errstate(over="ignore", invalid="ignore")
def fit_affine(
    left: np.ndarray, right: np.ndarray, axis: int | None = None, *, offset: bool = True
) -> Affine:
    """Least squares over the elements finite on both sides, per index of `axis`.

    Parameters
    ----------
    left, right : ndarray of the same shape, real floats
    axis : int or None
        None: one scale for all elements.
    offset : bool
        Whether an offset is fitted, too; else it is 0.
    """
    rows = [_rows(one, axis) for one in (left, right)]
    good = np.isfinite(rows[0]) & np.isfinite(rows[1])
    x, y = (np.where(good, one, 0.0) for one in rows)
    count = np.maximum(good.sum(1), 1)
    mean_x, mean_y = (one.sum(1) / count * offset for one in (x, y))
    dx, dy = (np.where(good, o - m[:, None], 0.0) for o, m in ((x, mean_x), (y, mean_y)))
    square = np.einsum("ij,ij->i", dx, dx)
    scale = np.einsum("ij,ij->i", dx, dy) / np.where(square, square, 1.0)
    shift = mean_y - scale * mean_x
    error = float(np.linalg.norm(dy - scale[:, None] * dx))
    norm = float(np.linalg.norm(y))
    residual = error / norm if norm else (math.inf if error else 0.0)
    return Affine(axis, scale, shift, residual)


def detect_input_scale(sides: Sides) -> list[Suspicion]:
    """input_scale_or_normalisation: an input times one factor, or an affine map per channel."""
    if not sides.same_shape or sides.is_constant(0) or sides.is_constant(1):
        return []
    if sides.tensor.role not in ("", "input") or sides.size < 16:
        return []
    return _scaled(sides) or _scaled_and_reversed(sides)


def _scaled(sides: Sides) -> list[Suspicion]:
    simple: list[Affine] = []
    for fit in _fits(sides):
        if sides.holds(fit.residual, fitted=fit.fitted, tolerance=IMAGE_TOLERANCE):
            evidence = _described(fit, extent=_extent(sides))
            if fit.axis is None or evidence["recipes"] or fit.residual <= 0.1 * simple[-1].residual:
                rival = min((one.residual for one in simple), default=math.inf)
                cause, fitted = "input_scale_or_normalisation", fit.fitted
                return [sides.suspicion(cause, fit.residual, evidence, rival=rival, fitted=fitted)]
        simple.append(fit)
    return []


def _scaled_and_reversed(sides: Sides) -> list[Suspicion]:
    """Both causes where channels in the other order are scaled, too."""
    shape = sides.shapes[0]
    for axis in {1, len(shape) - 1, len(shape) - 3} if len(shape) >= 3 else ():
        if shape[axis] != 3:
            continue
        for one in _scaled(sides.with_left_reversed(axis)):
            evidence = {"axis": axis, "channels": 3, "scaled": True}
            both = sides.suspicion("channel_order_bgr", one.residual, evidence, rival=one.before)
            return [both, replace(one, before=sides.before)]
    return []


def detect_plus_one(sides: Sides) -> list[Suspicion]:
    """norm_weight_plus_one: a norm's weight that differs by exactly one everywhere."""
    if not sides.same_shape or len(sides.shapes[0]) != 1 or sides.size < 8:
        return []
    if sides.is_constant(0) or sides.tensor.slot not in ("", "weight"):
        return []
    norm = sides.norm
    low, high = sides.ends(1)
    for step in (1.0, -1.0):
        residual = _stepped(sides.few, step)
        if sides.is_large and residual <= EXPLAINED:
            residual = sides.error(partial(_moved, step))
        # Of a weight near 0 that was stored as 1 + w the rounding is that of 1.
        largest = math.sqrt(sides.size) * (1.0 + max(-low, high))
        allowed = 4.0 * sides.floor * max(largest / norm if norm else 1.0, 1.0)
        if residual <= max(allowed, 1e-6) and residual <= 0.1 * sides.before:
            evidence = {"step": step, "side": "left" if step < 0 else "right"}
            return [sides.suspicion("norm_weight_plus_one", residual, evidence)]
    return []


def _moved(step: float, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return left + step, right


def _stepped(sides: Sides, step: float) -> float:
    error = (sides.left + step - sides.right).astype(np.float64)
    norm = float(np.linalg.norm(sides.right.astype(np.float64)))
    return float(np.linalg.norm(error)) / norm if norm else math.inf


def observed_scale(sides: Sides, hints: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The simplest scale, offset or affine map that turns left into right, {} for none.

    For inputs of any kind; without a cause of its own: a factor has many.
    """
    if not sides.same_shape or sides.is_constant(0) or sides.is_constant(1):
        return {}
    for fit in _fits(sides, channels=True):
        if sides.holds(fit.residual, fitted=fit.fitted):
            return {**_described(fit, hints), "residual": fit.residual}
    return {}


def _fits(sides: Sides, *, channels: bool = False) -> Iterator[Affine]:
    """Simple explanations first."""
    left, right = (one.reshape(-1) for one in (sides.few.left, sides.few.right))
    some = slice(None, None, -(-left.size // BITS_SAMPLE))
    for offset in (False, True):
        fit = fit_affine(left[some], right[some], offset=offset)
        # Most fail in a sample; what is left there is what others are held against.
        yield fit if fit.residual > 0.1 else _fit(sides, None, offset=offset)
    shape = sides.shapes[0]
    for axis, size in enumerate(shape):
        # Channels are few in an image; the number of images is not a number of channels.
        image = size <= MOST_IMAGE_CHANNELS and len(shape) >= 3 and (axis or len(shape) == 3)
        if size > 1 and (image or channels) and sides.size >= 8 * size:
            if channels:
                yield _fit(sides, axis, offset=False)
            yield _fit(sides, axis)


def _fit(sides: Sides, axis: int | None, *, offset: bool = True) -> Affine:
    """The map of all elements; of a large pair that of some rows where it does not hold there."""
    few = fit_affine(sides.few.left, sides.few.right, axis, offset=offset)
    if not isinstance(sides, LargeSides):
        return few
    holds = any(
        one.holds(few.residual, fitted=few.fitted, tolerance=IMAGE_TOLERANCE)
        for one in (sides.few, sides)
    )
    return _fit_all(sides, axis, offset=offset) if holds else few


@np.errstate(over="ignore", invalid="ignore")
def _fit_all(sides: LargeSides, axis: int | None, *, offset: bool) -> Affine:
    """As `fit_affine`, from sums over all elements, about the means of some rows."""
    shape = sides.shapes[0] if axis is not None else (1, sides.size)
    size = shape[axis or 0]
    about = [float(one[np.isfinite(one)].mean()) for one in (sides.left, sides.right)]
    # Per index: elements, sums, squares, products, and squares of right about zero.
    sums = np.zeros((7, size))
    for index, left, right in sides.slabs(axis):
        good = np.isfinite(left) & np.isfinite(right)
        x, y = (
            np.where(good, one.astype(np.float64) - mean * offset, 0.0)
            for one, mean in zip((left, right), about, strict=True)
        )
        whole = np.where(good, right, 0.0).astype(np.float64)
        found = [
            *(one.sum((0, 2)) for one in (good, x, y)),
            *(np.einsum("ijk,ijk->j", *two) for two in ((x, x), (x, y), (y, y), (whole, whole))),
        ]
        sums[:, index] += np.stack(found)
    count, x, y, xx, xy, yy, square = sums
    count = np.maximum(count, 1.0)
    xx, xy, yy = (
        one - offset * a * b / count for one, a, b in ((xx, x, x), (xy, x, y), (yy, y, y))
    )
    scale = xy / np.where(xx > 0.0, xx, 1.0)
    shift = offset * (y / count + about[1] - scale * (x / count + about[0]))
    left_over = float(np.maximum(yy - scale * xy, 0.0).sum())
    norm = float(square.sum())
    residual = math.sqrt(left_over / norm) if norm else (math.inf if left_over else 0.0)
    return Affine(axis, scale, shift, residual)


def _described(
    fit: Affine,
    hints: Mapping[str, float] | None = None,
    extent: tuple[float, float] = (0.0, 0.0),
) -> dict[str, Any]:
    some = slice(0, 8)
    evidence: dict[str, Any] = {
        "axis": fit.axis,
        "scale": fit.scale[some],
        "offset": fit.offset[some],
        "recipes": _recipes_of(fit, extent),
        "factor_name": "",
    }
    if fit.axis is None and not fit.offset.any():
        near = max(1e-4, 2.0 * fit.residual)
        evidence["factor_name"] = named_factor(float(fit.scale[0]), hints, near=near)
        evidence["form"] = f"x * {float(fit.scale[0]):.6g}"
    else:
        whole = fit.axis is None
        evidence["form"] = "scale and offset" if whole else "scale and offset per channel"
    return evidence | {"what": _said(evidence)}


def _said(evidence: Mapping[str, Any]) -> Message:
    """What turns left into right, in a sentence."""
    if evidence["recipes"]:
        left, right = evidence["recipes"]
        return Message("evidence.normalised_as", left=left, right=right)
    if name := evidence["factor_name"]:
        return Message("evidence.right_times", factor=name)
    if evidence["axis"] is None and not evidence["offset"].any():
        return Message("evidence.right_times", factor=f"{float(evidence['scale'][0]):.6g}")
    return Message(f"evidence.right_{'scaled' if evidence['axis'] is None else 'scaled_each'}")


def _recipes_of(fit: Affine, extent: tuple[float, float]) -> list[str]:
    """Left's and right's normalisation, where both are published ones; else empty.

    Without its normalisation left is an image from 0 to 1, which tells what the map of left to
    right alone does not.
    """
    best: float = 0.02
    found: list[str] = []
    for first, (mean_left, deviation_left) in _RECIPES.items():
        for second, (mean_right, deviation_right) in _RECIPES.items():
            means = np.asarray(mean_left), np.asarray(mean_right)
            deviations = np.asarray(deviation_left), np.asarray(deviation_right)
            scale = deviations[0] / deviations[1]
            offset = (means[0] - means[1]) / deviations[1]
            width = max(scale.size, offset.size)
            if first == second or width not in (1, fit.scale.size):
                continue
            raw = np.outer(extent, deviations[0]) + means[0]
            if raw.min() < -1.0 or not 0.02 < raw.max() < 3.0:
                continue
            apart = np.abs(fit.scale / scale - 1.0).max()
            # An offset counts in the units of right, of which one is the width of its values.
            unit = np.maximum(np.abs(offset), 0.1 / deviations[1])
            apart = max(apart, (np.abs(fit.offset - offset) / unit).max())
            if apart < 0.5 * best:
                # Nearer than a few decimals of the constants, the first is as good.
                best, found = max(float(apart), 1e-3), [first, second]
    return found


def _extent(sides: Sides) -> tuple[float, float]:
    if sides.is_large:
        return sides.ends(0)
    values = sides.left
    finite = values[np.isfinite(values)]
    return float(finite.min()), float(finite.max())


def _rows(values: np.ndarray, axis: int | None) -> np.ndarray:
    wide = values.astype(np.float64)
    if axis is None:
        return wide.reshape(1, -1)
    return np.moveaxis(wide, axis, 0).reshape(values.shape[axis], -1)
