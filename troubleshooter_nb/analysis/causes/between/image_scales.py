"""Calls that scale images: a factor and an offset of every channel, as data is normalised."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from troubleshooter_nb.analysis.causes.case import Call, Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.parts import part_of
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.tensors.measure import sides_of
from troubleshooter_nb.analysis.causes.tensors.scales import detect_input_scale, fit_affine
from troubleshooter_nb.thresholds import (
    FEWEST_TO_FIT,
    FORMULA_FLOORS,
    MOST_IMAGE_CHANNELS,
    PART_ELEMENTS,
)

# The axes of channels, first and last.
_CHANNELS = (1, 3)


def image_scales(call: Call) -> list[Suspicion]:
    """input_scale_or_normalisation: each side gives an affine map of every channel of its input.

    The outputs are then as far apart as the two normalisations are, which published constants name.
    """
    if len(call.inputs) != 1 or call.parameters or not _is_of_images(call.outputs[0]):
        return []
    call = _in_part(call)
    output = call.outputs[0]
    given = call.inputs[0].left, call.inputs[0].right
    made = output.left, output.right
    for x, y in zip(given, made, strict=True):
        if x is None or y is None or not _is_scaled(x, y):
            return []
    sides = sides_of(replace(output, role="input"))
    found = detect_input_scale(sides) if sides is not None else []
    # One factor of no range in use may be any number of a network.
    return [one for one in found if one.evidence.get("recipes") or one.evidence.get("axis")]


def _is_of_images(tensor: TensorPair) -> bool:
    """Whether shapes may be those of images."""
    shape = tensor.shapes[0]
    if shape is None or shape != tensor.shapes[1] or len(shape) != 4:
        return False
    return min(shape[axis] for axis in _CHANNELS) <= MOST_IMAGE_CHANNELS


def _in_part(call: Call) -> Call:
    """The call of some rows of pixels where it is large."""
    shape = call.outputs[0].shapes[1]
    if shape is None or call.inputs[0].shapes != call.outputs[0].shapes:
        return call
    count = max(PART_ELEMENTS * shape[2] // max(math.prod(shape), 1), 1)
    if count >= shape[2]:
        return call
    places = [None, None, spread(shape[2], count), None]
    given, made = (part_of(one, places, shape) for one in (call.inputs[0], call.outputs[0]))
    return replace(call, inputs=(given,), outputs=(made, *call.outputs[1:]))


def _is_scaled(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether images are scaled and shifted, channel by channel."""
    if x.shape != y.shape or x.ndim != 4 or y.dtype.kind != "f":
        return False
    roundoff = float(np.finfo(y.dtype).eps)
    for axis in _CHANNELS:
        few = x.shape[axis] <= MOST_IMAGE_CHANNELS
        if few and x.size >= FEWEST_TO_FIT * x.shape[axis] and np.ptp(x) > 0:
            found = fit_affine(x, y, axis)
            if found.residual <= FORMULA_FLOORS * roundoff:
                return True
    return False
