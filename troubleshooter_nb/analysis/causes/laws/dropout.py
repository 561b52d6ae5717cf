"""Dropouts: what share one side dropped, and by what it scaled the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import Axes, elements_of
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.fits import coefficient, misfit
from troubleshooter_nb.analysis.causes.law import Cause, Law, Way
from troubleshooter_nb.analysis.causes.sampling import Sample, inputs_like, items
from troubleshooter_nb.metrics.float_formats import as_stored

_USUAL = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_CAUSES: dict[str, Cause] = {
    "random": "random_in_eval",
    "active": "eval_train_mode",
    "p": "dropout_keep_prob",
    "scale": "dropout_keep_prob",
}


def _live(operands: Operands) -> Iterator[Sample]:
    """Elements that are not zero in the input; in `facts`, which are zero in the output.

    Some of the first axis; channels stay whole, as they may be dropped as a whole.
    """
    given = inputs_like(operands, 1)
    if not given or not operands.output.ndim or not operands.output.size:
        return
    shape = operands.output.shape
    count = max(2, shape[0] * thresholds.DROPOUT_SAMPLE // operands.output.size)
    x, y = (one.astype(np.float64) for one in items(operands, given, 0, count)[0])
    live = np.isfinite(x) & (x != 0) & np.isfinite(y)
    if np.count_nonzero(live) >= thresholds.FEWEST_UNITS:
        share, units = _share(live & (y == 0), live)
        yield Sample.of(operands, (x[live],), y[live], share=share, units=units)


def _share(dropped: np.ndarray, live: np.ndarray) -> tuple[float, int]:
    """Share of zeros, and how many units were drawn: channels where they go as a whole."""
    if dropped.ndim > 2:
        flat = dropped.reshape(*dropped.shape[:2], -1)
        alive = live.reshape(flat.shape)
        whole = (flat | ~alive).all(-1)
        if np.array_equal(whole & alive.any(-1), flat.any(-1)):
            units = int(alive.any(-1).sum())
            return float(flat.any(-1).sum()) / max(units, 1), units
    units = int(np.count_nonzero(live))
    return float(np.count_nonzero(dropped)) / units, units


def _ways(sample: Sample) -> Iterator[Way]:
    """Without dropping, then with the share and the scale that the zeros and the rest show."""
    x = sample.given[0]
    yield Way({**_chance(sample, False), "active": False, "p": 0.0, "scale": 1.0}, x)
    dropped, share, units = sample.output == 0, sample.facts["share"], sample.facts["units"]
    if not 0.0 < share < 1.0 or units < thresholds.FEWEST_UNITS or _follows_sign(x, dropped):
        return
    scale, width = _scale(sample, dropped)
    scale = 1.0 if abs(scale - 1.0) <= width else scale
    p, doubt = _probability(share, units, scale, width)
    # Of a short output a factor that is off by little rounds many elements to another number:
    # the likely one, as it is and as it may have been stored.
    usual = 1.0 / (1.0 - p) if p < 1.0 else scale
    stored = float(as_stored(np.array(usual), sample.roundoff))
    for one in dict.fromkeys((usual, stored, scale)):
        if abs(one - scale) <= width:
            said = {**_chance(sample, True), "active": True, "p": p, "scale": one}
            yield Way(said, np.where(dropped, 0.0, one * x), {"p": doubt, "scale": width})


def _chance(sample: Sample, active: bool) -> dict[str, Any]:
    """Whether it drops at random though evaluation was recorded."""
    return {"random": active} if sample.known.get("training") is False else {}


def _scale(sample: Sample, dropped: np.ndarray) -> tuple[float, float]:
    """The factor of what is kept, and its half width."""
    x, y, roundoff = sample.given[0], sample.output, sample.roundoff
    scale = coefficient(y[~dropped], x[~dropped])
    residual = misfit(y, np.where(dropped, 0.0, scale * x), roundoff)
    width = 3.0 * max(residual, roundoff) / math.sqrt(np.count_nonzero(~dropped))
    return scale, (width + roundoff) * abs(scale)


def _probability(share: float, units: int, scale: float, width: float) -> tuple[float, float]:
    """The probability to drop, by the scale where that fits the zeros, and its half width."""
    chance = thresholds.CHANCE_SIGMAS * math.sqrt(share * (1.0 - share) / units)
    implied = 1.0 - 1.0 / scale if scale > 1.0 else math.nan
    p, doubt = (implied, width / scale**2) if abs(implied - share) <= chance else (share, chance)
    near = min(_USUAL, key=lambda usual: abs(usual - p))
    return (near if abs(near - p) <= doubt else p), doubt


def _follows_sign(x: np.ndarray, dropped: np.ndarray) -> bool:
    """Whether the zeros lie where the input has one sign and the rest where it has the other."""
    zeros, rest = x[dropped] < 0, x[~dropped] < 0
    return abs(float(zeros.mean()) - float(rest.mean())) > thresholds.SIGN_OF_RECTIFIER


_WORDS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
# Channels may be dropped as a whole.
_AXES = (
    Axes.of("items channels *rest -> items channels *rest", items=0, channels=0),
    elements_of,
)
DROPOUT = Law(_WORDS, _live, _CAUSES, ways=_ways, limit=math.inf, axes=_AXES)
# Backward the input is the gradient of the output.
DROPOUT_GRADIENT = replace(DROPOUT, direction="backward")
LAWS = (DROPOUT, DROPOUT_GRADIENT)
