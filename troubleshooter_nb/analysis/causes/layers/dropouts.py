"""What share one side dropped, and by what it scaled the rest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.ranking import ranked, residual_of
from troubleshooter_nb.analysis.causes.layers.trials import energies, places
from troubleshooter_nb.metrics.float_formats import as_stored

_USUAL = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


def fit_dropout(operands: Operands) -> list[Fit]:
    """A dropout in training or evaluation, by the zeros and the scale of the rest.

    Parameters
    ----------
    operands : Operands
        One input of the output's shape (backward: the gradient of the output). A recorded
        ``training`` of False makes an active dropout ``random``.

    Returns
    -------
    list of Fit
        Settings ``random`` (only where evaluation was recorded), ``active``, ``p`` (probability
        to drop; by the scale where that fits the zeros), ``scale`` of the rest. ``p`` has the
        uncertainty of the counted share where the scale does not give it. Empty where zeros
        follow the sign of the input, and for fewer than 16 inputs that are not zero.
    """
    x = operands.inputs[0] if operands.inputs else None
    if x is None or x.shape != operands.output.shape:
        return []
    x, y = _sample(x, operands)
    live = np.isfinite(x) & (x != 0) & np.isfinite(y)
    if np.count_nonzero(live) < thresholds.FEWEST_UNITS:
        return []
    fits = [Fit({**_chance(operands, False), "active": False, "p": 0.0, "scale": 1.0},
                residual_of(y[live], x[live], operands.roundoff))]  # fmt: skip
    active = _active(x, y, live, operands)
    if active is not None:
        fits.append(active)
    return ranked(fits, int(np.count_nonzero(live)), operands.roundoff)


def _sample(x: np.ndarray, operands: Operands) -> tuple[np.ndarray, np.ndarray]:
    """Input and output in float64, some of the first axis; channels stay whole."""
    y = operands.output
    if x.size > thresholds.DROPOUT_SAMPLE and x.ndim:
        count = max(2, x.shape[0] * thresholds.DROPOUT_SAMPLE // x.size)
        rows = places(x.shape[0], count, energies(operands.apart, x.shape))
        x, y = x[rows], y[rows]
    return x.astype(np.float64), y.astype(np.float64)


def _chance(operands: Operands, active: bool) -> dict[str, Any]:
    return {"random": active} if operands.known.get("training") is False else {}


def _active(x: np.ndarray, y: np.ndarray, live: np.ndarray, operands: Operands) -> Fit | None:
    dropped = live & (y == 0)
    kept = live & ~dropped
    share, units = _share(dropped, live)
    if not 0.0 < share < 1.0 or units < thresholds.FEWEST_UNITS or _follows_sign(x, dropped, kept):
        return None
    scale = float(x[kept] @ y[kept]) / float(x[kept] @ x[kept])
    residual = _left_over(y, x, live, dropped, scale, operands.roundoff)
    width = 3.0 * max(residual, operands.roundoff) / math.sqrt(np.count_nonzero(kept))
    width = (width + operands.roundoff) * abs(scale)
    if abs(scale - 1.0) <= width:
        scale = 1.0
    chance = thresholds.CHANCE_SIGMAS * math.sqrt(share * (1.0 - share) / units)
    implied = 1.0 - 1.0 / scale if scale > 1.0 else math.nan
    if abs(implied - share) <= chance:
        p, doubt = implied, width / scale**2
    else:
        p, doubt = share, chance
    near = min(_USUAL, key=lambda usual: abs(usual - p))
    p = near if abs(near - p) <= doubt else p
    # Of a short output a factor that is off by little rounds many elements to another number:
    # the likely one, as it is and as it may have been stored.
    usual = 1.0 / (1.0 - p) if p < 1.0 else scale
    stored = float(as_stored(np.array(usual), operands.roundoff))
    trials = {one: _left_over(y, x, live, dropped, one, operands.roundoff)
              for one in (usual, stored, scale) if abs(one - scale) <= width}  # fmt: skip
    scale = min(trials, key=lambda one: trials[one])
    settings = {**_chance(operands, True), "active": True, "p": p, "scale": scale}
    return Fit(settings, trials[scale], {"p": doubt, "scale": width})


def _left_over(
    y: np.ndarray,
    x: np.ndarray,
    live: np.ndarray,
    dropped: np.ndarray,
    scale: float,
    roundoff: float,
) -> float:
    formula = np.where(dropped, 0.0, scale * x)
    return residual_of(y[live], formula[live], roundoff)


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


def _follows_sign(x: np.ndarray, dropped: np.ndarray, kept: np.ndarray) -> bool:
    """Whether the zeros lie where the input has one sign and the rest where it has the other."""
    zeros, rest = x[dropped] < 0, x[kept] < 0
    return abs(float(zeros.mean()) - float(rest.mean())) > thresholds.SIGN_OF_RECTIFIER


_WORDS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
FITTERS: dict[str, Fitter] = dict.fromkeys(_WORDS, fit_dropout)
BACKWARD_FITTERS: dict[str, Fitter] = dict.fromkeys(_WORDS, fit_dropout)
CAUSES: dict[tuple[str, str], str] = {
    ("", "random"): "random_in_eval",
    ("", "active"): "eval_train_mode",
    ("", "p"): "dropout_keep_prob",
    ("", "scale"): "dropout_keep_prob",
}
