"""Which softmax one side computed: axis, scale in front, logarithm, precision inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.ranking import ranked, residual_of
from troubleshooter_nb.analysis.causes.layers.trials import energies, places
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import FLOAT32, half_format
from troubleshooter_nb.metrics.operators.softmaxes import (
    Path,
    narrow_softmax,
    softmax,
    softmax_backward,
)
from troubleshooter_nb.naming.evidence import evidence_word
from troubleshooter_nb.thresholds import (
    FEWEST_TO_FIT,
    LAST_AXES,
    LAYER_SAMPLE,
    NARROW_PATH_EXPLAINS,
    SOFTMAX_SUM,
)

_PATHS: tuple[Path, ...] = ("output", "input", "input and output", "inside")


def fit_softmax(operands: Operands, *, log: bool = False) -> list[Fit]:
    """Softmaxes by how well they make the output of the first input.

    Parameters
    ----------
    operands : Operands
        One input of the output's shape; -inf is a masked place.
    log : bool
        Whether the layer is called log-softmax. The other is tried, too.

    Returns
    -------
    list of Fit
        Settings ``axis`` (counted from the last), ``log``, ``precision`` ("full", or
        "bfloat16 output", "float16 inside" ...: passing through that format reproduces the
        output), ``scale`` of the input, fitted.
    """
    x = operands.inputs[0] if operands.inputs else None
    if x is None or not _usable(x, operands.output):
        return []
    fits = []
    for axis in _axes(operands.output):
        sample = _rows(operands, axis, x)
        if sample is None:
            continue
        for logged in (log, not log):
            fits.append(_forward(sample, axis, logged, operands.roundoff))
    best = min(fits, key=lambda fit: fit.residual, default=None)
    if best is not None and math.isfinite(best.residual):
        fits += list(_narrow(best, x, operands))
    return ranked(fits, operands.output.size, operands.roundoff)


def fit_softmax_backward(operands: Operands, *, log: bool = False) -> list[Fit]:
    """As `fit_softmax`, for ``inputs = [grad_output, input]``, with a scale of the input of 1.

    ``scale`` is that of the gradient.
    """
    given = list(operands.inputs[:2])
    if len(given) < 2:
        return []
    gradient, x = given
    if gradient is None or x is None or not _usable(x, operands.output):
        return []
    if gradient.shape != x.shape:
        return []
    fits = []
    for axis in _axes(operands.output):
        sample = _rows(operands, axis, x, gradient)
        if sample is None:
            continue
        for logged in (log, not log):
            formula = softmax_backward(sample[2], softmax(sample[0], log=logged), log=logged)
            fits.append(_scaled(sample[1], formula, axis, logged, operands.roundoff))
    return ranked(fits, operands.output.size, operands.roundoff)


def _usable(x: np.ndarray, output: np.ndarray) -> bool:
    return x.shape == output.shape and output.size >= FEWEST_TO_FIT and bool(np.any(output))


def _axes(output: np.ndarray) -> Iterator[int]:
    for axis in range(-1, -min(output.ndim, LAST_AXES) - 1, -1):
        if output.shape[axis] > 1:
            yield axis


def _rows(
    operands: Operands, axis: int, x: np.ndarray, *more: np.ndarray
) -> list[np.ndarray] | None:
    """Rows along the axis of x, the output and more in float64, finite (or masked) in all."""
    arrays = [x, operands.output, *more]
    length = x.shape[axis]
    moved = [np.moveaxis(array, axis, -1) for array in arrays]
    count = x.size // length
    apart = operands.apart if operands.apart is None else np.moveaxis(operands.apart, axis, -1)
    picked = places(count, max(LAYER_SAMPLE // length, 4), energies(apart, (count, length)))
    index = np.unravel_index(picked, moved[0].shape[:-1]) if moved[0].ndim > 1 else None
    rows = [
        (array[index] if index is not None else array[None]).astype(np.float64) for array in moved
    ]
    # -inf is a masked place of the input, and what a log-softmax makes of it.
    good = np.logical_and.reduce([~np.isnan(row).any(-1) & (row < np.inf).all(-1) for row in rows])
    good &= np.isfinite(rows[0]).any(-1)
    rows = [row[good] for row in rows]
    return rows if rows[0].size >= FEWEST_TO_FIT else None


def _forward(sample: list[np.ndarray], axis: int, log: bool, roundoff: float) -> Fit:
    x, y = sample
    settings: dict[str, Any] = {"axis": axis, "log": log, "precision": "full"}
    scale, width = _scale(x, y, log, roundoff)
    if not math.isfinite(scale):
        return Fit(settings, math.nan)
    if abs(scale - 1.0) <= width:
        scale = 1.0
    residual = residual_of(y, softmax(x, scale=scale, log=log), roundoff)
    return Fit({**settings, "scale": scale}, residual, {"scale": width})


def _scale(x: np.ndarray, y: np.ndarray, log: bool, roundoff: float) -> tuple[float, float]:
    """The factor of the input, from the slope of the logarithms, and its half width.

    Weighted by the probability: a rounded small one says as much about its logarithm, but less
    about the output.
    """
    seen = np.isfinite(x) & (np.isfinite(y) if log else y > 0)
    if not log and abs(float(np.median(y.sum(-1))) - 1.0) > SOFTMAX_SUM:
        return math.nan, math.inf
    logs = np.where(seen, y, 0.0) if log else np.log(np.where(seen, y, 1.0))
    weight = np.where(seen, np.exp(np.minimum(logs, 0.0)), 0.0)
    total = np.maximum(weight.sum(-1, keepdims=True), 1e-300)
    known = np.where(seen, x, 0.0)
    known = known - (weight * known).sum(-1, keepdims=True) / total
    logs = logs - (weight * logs).sum(-1, keepdims=True) / total
    energy = float((weight * known**2).sum())
    if not energy > 1e-12 * float((weight * np.where(seen, x, 0.0) ** 2).sum()):
        return math.nan, math.inf
    value = float((weight * known * logs).sum()) / energy
    whole = float(weight.sum())
    error = math.sqrt(float((weight * (logs - value * known) ** 2).sum()) / whole)
    # Log-probabilities are rounded as they are, probabilities relative to themselves.
    size = math.sqrt(float((weight * np.where(seen, y, 0.0) ** 2).sum()) / whole) if log else 1.0
    each = error + roundoff * size
    # Not averaged over the elements: the exponential of some kernels errs with the argument.
    spread = math.sqrt(energy / whole)
    return value, 3.0 * each / spread + roundoff


def _scaled(y: np.ndarray, formula: np.ndarray, axis: int, log: bool, roundoff: float) -> Fit:
    """The fit of a gradient up to a factor, 1 where the rounding allows it."""
    settings: dict[str, Any] = {"axis": axis, "log": log, "precision": "full"}
    energy = float((formula * formula).sum())
    if not energy or not math.isfinite(energy):
        return Fit(settings, math.nan)
    scale = float((formula * y).sum()) / energy
    error = math.sqrt(float(((y - scale * formula) ** 2).sum()) / energy / y.size)
    width = 3.0 * error + 4.0 * roundoff
    scale = 1.0 if abs(scale - 1.0) <= width else scale
    residual = residual_of(y, scale * formula, roundoff)
    return Fit({**settings, "scale": scale}, residual, {"scale": width})


def _narrow(best: Fit, x: np.ndarray, operands: Operands) -> Iterator[Fit]:
    """The best softmax with its values passed through the 16-bit formats, where that explains.

    Of an output stored in 16 bits only the computation inside in that format is asked: the
    rounding of the output is then no finding.
    """
    axis, log = int(best.settings["axis"]), bool(best.settings["log"])
    rows = _rows(operands, axis, x)
    if rows is None:
        return
    stored = half_format(operands.roundoff)
    names = (stored,) if stored else ("bfloat16", "float16")
    own = best.residual
    if stored:
        own = residual_of(rows[1], _recomputed(rows[0], best, stored, "output"), 0.0)
    for name in names:
        for path in _PATHS[3:] if stored else _PATHS:
            for scale in (float(best.settings["scale"]), 1.0):
                trial = replace(best, settings={**best.settings, "scale": scale})
                residual = residual_of(rows[1], _recomputed(rows[0], trial, name, path), 0.0)
                if residual <= NARROW_PATH_EXPLAINS * own and own > 4.0 * FLOAT32.unit_roundoff:
                    said = Message("evidence.format_at", format=name, place=evidence_word(path))
                    settings = {"axis": axis, "log": log, "precision": said}
                    yield Fit({**settings, "scale": scale}, residual, best.uncertainty)


def _recomputed(x: np.ndarray, fit: Fit, name: str, path: Path) -> np.ndarray:
    scale, log = float(fit.settings["scale"]), bool(fit.settings["log"])
    return narrow_softmax(x, -1, scale, name, path, log=log)


def _for_log(fitter: Callable[..., list[Fit]]) -> Fitter:
    return partial(fitter, log=True)


FITTERS: dict[str, Fitter] = {
    "softmax": fit_softmax,
    "softmin": fit_softmax,
    "logsoftmax": _for_log(fit_softmax),
}
BACKWARD_FITTERS: dict[str, Fitter] = {
    "softmax": fit_softmax_backward,
    "logsoftmax": _for_log(fit_softmax_backward),
}
CAUSES: dict[tuple[str, str], str] = {
    ("", "axis"): "softmax_axis",
    ("", "precision"): "softmax_precision_path",
    ("", "scale"): "attention_scale",
    ("", "log"): "activation_changed",
}
