"""Calls that scale images: a factor and an offset of every channel, as data is normalised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from troubleshooter_nb.analysis.causes.case import Call, Suspicion
from troubleshooter_nb.analysis.causes.tensors.measure import sides_of
from troubleshooter_nb.analysis.causes.tensors.scales import detect_input_scale, fit_affine
from troubleshooter_nb.thresholds import FEWEST_TO_FIT, FORMULA_FLOORS, MOST_IMAGE_CHANNELS


def image_scales(call: Call) -> list[Suspicion]:
    """input_scale_or_normalisation: each side gives an affine map of every channel of its input.

    The outputs are then as far apart as the two normalisations are, which published constants name.
    """
    output = call.outputs[0]
    if len(call.inputs) != 1 or call.parameters or output.is_large:
        return []
    given = call.inputs[0].left, call.inputs[0].right
    made = output.left, output.right
    for x, y in zip(given, made, strict=True):
        if x is None or y is None or not _is_scaled(x, y):
            return []
    sides = sides_of(replace(output, role="input"))
    found = detect_input_scale(sides) if sides is not None else []
    # One factor of no range in use may be any number of a network.
    return [one for one in found if one.evidence.get("recipes") or one.evidence.get("axis")]


def _is_scaled(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether images are scaled and shifted, channel by channel."""
    if x.shape != y.shape or x.ndim != 4 or y.dtype.kind != "f":
        return False
    roundoff = float(np.finfo(y.dtype).eps)
    for axis in (1, 3):
        few = x.shape[axis] <= MOST_IMAGE_CHANNELS
        if few and x.size >= FEWEST_TO_FIT * x.shape[axis] and np.ptp(x) > 0:
            found = fit_affine(x, y, axis)
            if found.residual <= FORMULA_FLOORS * roundoff:
                return True
    return False
