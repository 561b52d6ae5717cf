"""Softmax and log-softmax: axis, scale in front, logarithm, precision inside."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import rows_of
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import factor_fits, misfit
from troubleshooter_nb.analysis.causes.law import Cause, Law, Rather, Way
from troubleshooter_nb.analysis.causes.sampling import Sample, inputs_like, rows
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
    HEAD_SIZES,
    LAST_AXES,
    LAYER_SAMPLE,
    NARROW_PATH_EXPLAINS,
    SAME_SQUARE,
    SOFTMAX_SUM,
)

_PATHS: tuple[Path, ...] = ("output", "input", "input and output", "inside")


def _acts_twice(left: Fit, right: Fit) -> bool:
    """Whether one side's scale is the other's, 1/sqrt(head size), applied twice."""
    once, twice = sorted((left, right), key=lambda fit: -float(fit.settings["scale"]))
    scale, square = float(once.settings["scale"]), float(twice.settings["scale"])
    doubt = twice.uncertainty.get("scale", 0.0) + 2.0 * scale * once.uncertainty.get("scale", 0.0)
    if square <= 0 or max(abs(scale**2 - square), doubt) > SAME_SQUARE * square:
        return False
    if "scale_name" in once.settings:
        # The head size is known.
        name = str(once.settings["scale_name"])
        size = name.removeprefix("1/sqrt(").removesuffix(")")
        return size.isdecimal() and str(twice.settings["scale_name"]) == f"1/{size}"
    # Sizes of heads are multiples of eight. A square that is 1/sqrt(head size) itself may as well
    # be right, and the other side have counted heads for their size.
    fitted = 1.0 / square
    is_size = abs(fitted - 8 * round(fitted / 8)) <= SAME_SQUARE * fitted
    return is_size and fitted**2 > HEAD_SIZES[1]


# Of the factor in front of scores, also where an attention applies it.
SCALE = Rather("softmax_scale_twice", when=_acts_twice, usual="attention_scale")
_CAUSES: dict[str, Cause] = {
    "axis": "softmax_axis",
    "log": "activation_changed",
    "precision": "softmax_precision_path",
    "scale": SCALE,
}


def _rows(operands: Operands, count: int) -> Iterator[Sample]:
    """Rows along every axis; backward: of the gradient and the input."""
    given, output = inputs_like(operands, count), operands.output
    if not given or output.size < FEWEST_TO_FIT or not np.any(output):
        return
    for axis in range(-1, -min(output.ndim, LAST_AXES) - 1, -1):
        if output.shape[axis] < 2:
            continue
        taken = rows(operands, given, axis, LAYER_SAMPLE)
        # -inf is a masked place of the input, and what a log-softmax makes of it.
        good = np.logical_and.reduce(
            [~np.isnan(row).any(-1) & (row < np.inf).all(-1) for row in taken]
        )
        good &= np.isfinite(taken[-2]).any(-1)
        *arrays, made = (row[good] for row in taken)
        if made.size >= FEWEST_TO_FIT:
            yield Sample.of(operands, arrays, made, {"axis": axis})


def _ways(sample: Sample, log: bool) -> Iterator[Way]:
    """Both kinds, each with the scale that its values show."""
    for logged in (log, not log):
        scale, width = _scale(sample.given[0], sample.output, logged, sample.roundoff)
        if math.isfinite(scale):
            scale = 1.0 if abs(scale - 1.0) <= width else scale
            said = {"log": logged, "precision": "full", "scale": scale}
            yield Way(said, softmax(sample.given[0], scale=scale, log=logged), {"scale": width})


def _backward_ways(sample: Sample, log: bool) -> Iterator[Fit]:
    """Of a scale of the input of 1; ``scale`` is that of the gradient."""
    gradient, x = sample.given
    for logged in (log, not log):
        formula = softmax_backward(gradient, softmax(x, log=logged), log=logged)
        said = {**sample.settings, "log": logged, "precision": "full"}
        yield from factor_fits(sample.output, formula, said, "scale", sample.roundoff)


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


def _narrow(best: Fit, sample: Sample) -> Iterator[Fit]:
    """The best softmax with its values passed through the 16-bit formats, where that explains.

    Of an output stored in 16 bits only the computation inside in that format is asked: the
    rounding of the output is then no finding.
    """
    (x,), y, said = sample.given, sample.output, dict(best.settings)
    stored = half_format(sample.roundoff)

    def left(name: str, path: Path, scale: float) -> float:
        return misfit(y, narrow_softmax(x, -1, scale, name, path, log=said["log"]))

    own = left(stored, "output", said["scale"]) if stored else best.residual
    if own <= 4.0 * FLOAT32.unit_roundoff:
        return
    for name in (stored,) if stored else ("bfloat16", "float16"):
        for path in _PATHS[3:] if stored else _PATHS:
            for scale in (said["scale"], 1.0):
                residual = left(name, path, scale)
                if residual <= NARROW_PATH_EXPLAINS * own:
                    at = Message("evidence.format_at", format=name, place=evidence_word(path))
                    more: dict[str, Any] = {"precision": at, "scale": scale}
                    yield Fit({**said, **more}, residual, best.uncertainty)


def _law(words: tuple[str, ...], *, log: bool) -> tuple[Law, Law]:
    forward = Law(
        words=words,
        samples=partial(_rows, count=1),
        causes=_CAUSES,
        ways=partial(_ways, log=log),
        refine=_narrow,
        limit=math.inf,
        axes=(rows_of(1),),
    )
    backward = Law(
        words=words,
        direction="backward",
        samples=partial(_rows, count=2),
        causes=_CAUSES,
        ways=partial(_backward_ways, log=log),
        limit=math.inf,
        axes=(rows_of(2),),
    )
    return forward, backward


LAWS = (*_law(("softmax", "softmin"), log=False), *_law(("logsoftmax",), log=True))
