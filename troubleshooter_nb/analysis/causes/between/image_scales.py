"""Calls that scale images: a factor and an offset of every channel, as data is normalised."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.case import Call, Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.parts import thinned_along
from troubleshooter_nb.analysis.causes.tensors.measure import sides_of
from troubleshooter_nb.analysis.causes.tensors.scales import detect_input_scale, fit_affine
from troubleshooter_nb.thresholds import (
    FEWEST_TO_FIT,
    FORMULA_FLOORS,
    MOST_IMAGE_CHANNELS,
)

# Axes of images: of channels, first or last, and one of pixels in both.
_CHANNELS, _ROWS = (1, 3), 2


def image_scales(call: Call) -> list[Suspicion]:
    """input_scale_or_normalisation: each side gives an affine map of every channel of its input.

    The outputs are then as far apart as the two normalisations are, which published constants name.
    channel_order_bgr where one side maps the channels in the other order.
    """
    if len(call.inputs) != 1 or call.parameters or not _is_of_images(call.outputs[0]):
        return []
    call = thinned_along(call, (_ROWS,))
    output = call.outputs[0]
    given = call.inputs[0].left, call.inputs[0].right
    ways = [_scaled(x, y) for x, y in zip(given, (output.left, output.right), strict=True)]
    sides = sides_of(replace(output, role="input"))
    if sides is None or ways[0] is None or ways[1] is None:
        return []
    if ways[0].is_reversed != ways[1].is_reversed:
        axis = ways[0].axis
        evidence = {"axis": axis, "channels": sides.shapes[0][axis]}
        residual = max(way.residual for way in ways if way is not None)
        return [sides.suspicion("channel_order_bgr", residual, evidence)]
    found = detect_input_scale(sides)
    # One factor of no range in use may be any number of a network.
    return [one for one in found if one.evidence.get("recipes") or one.evidence.get("axis")]


def _is_of_images(tensor: TensorPair) -> bool:
    """Whether shapes may be those of images."""
    shape = tensor.shapes[0]
    if shape is None or shape != tensor.shapes[1] or len(shape) != 4:
        return False
    return min(shape[axis] for axis in _CHANNELS) <= MOST_IMAGE_CHANNELS


class _Scaled(NamedTuple):
    """That images were scaled and shifted channel by channel, these perhaps in the other order."""

    axis: int
    is_reversed: bool
    residual: float


def _scaled(x: np.ndarray | None, y: np.ndarray | None) -> _Scaled | None:
    """How images were scaled; None where they were not."""
    if x is None or y is None or x.shape != y.shape or x.ndim != 4 or y.dtype.kind != "f":
        return None
    limit = FORMULA_FLOORS * float(np.finfo(y.dtype).eps)
    for axis in _CHANNELS:
        few = x.shape[axis] <= MOST_IMAGE_CHANNELS
        if few and x.size >= FEWEST_TO_FIT * x.shape[axis] and np.ptp(x) > 0:
            for is_reversed in (False, True):
                residual = fit_affine(np.flip(x, axis) if is_reversed else x, y, axis).residual
                if residual <= limit:
                    return _Scaled(axis, is_reversed, residual)
    return None
