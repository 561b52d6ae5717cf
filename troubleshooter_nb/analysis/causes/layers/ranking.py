"""How fits of one output are ordered, and how sure the best of them is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit
from troubleshooter_nb.metrics.float_formats import as_stored
from troubleshooter_nb.thresholds import FITS_KEPT, LUCKY_RESIDUAL, OPEN_CHOICE, SAME_NUMBER

# Settings that say another one in words.
_ONLY_SAID = frozenset(("scale_name", "padding_before"))
# Settings that are fitted as real numbers; the others are choices.
NUMBERS = frozenset("eps slope alpha beta low high scale p zero_share".split())


def residual_of(output: np.ndarray, formula: np.ndarray, roundoff: float) -> float:
    """Norm of the error over the norm of the output, over places finite in the output.

    inf where the formula is not finite there, nan where the output is zero or empty. With the
    roundoff of a short format the formula is rounded to it first: what is left is then not drowned
    by the rounding of the output, and formulas closer than that are told apart. Zero leaves the
    formula as it is.
    """
    formula = as_stored(formula, roundoff)
    finite = np.isfinite(output)
    wanted, got = output[finite], formula[finite]
    norm = math.sqrt(float(np.square(wanted).sum()))
    if not norm:
        return math.nan
    error = math.sqrt(float(np.square(wanted - got).sum()))
    return error / norm if math.isfinite(error) else math.inf


def ranked(fits: Iterable[Fit], count: int, roundoff: float) -> list[Fit]:
    """Fits by residual, the best of each choice, the first with how sure its choices are.

    Parameters
    ----------
    fits : iterable of Fit
        Preferred ones first: of equal residuals the earlier is better.
    count : int
        Independent elements of the output.
    roundoff : float
        Unit roundoff of the output.

    Notes
    -----
    The `uncertainty` of a choice is the standard error of the projection of the output on the line
    from the chosen formula (0) to the best one that chooses otherwise (1). Where the chosen one is
    right, its residual r and the rival's R give |difference of the formulas|^2 = R^2 - r^2, and
    independent errors of n elements leave r / sqrt(n (R^2 - r^2)). So a misfit far below the
    rounding of single elements decides, and inf says that nothing does.
    """
    ordered = sorted(
        (fit for fit in fits if math.isfinite(fit.residual)), key=lambda fit: fit.residual
    )
    best: dict[tuple[tuple[str, str], ...], Fit] = {}
    for fit in ordered:
        choice = tuple((k, repr(v)) for k, v in fit.settings.items() if k not in NUMBERS)
        best.setdefault(choice, fit)
    kept = list(best.values())[:FITS_KEPT]
    if kept:
        sure = _certainty(kept, count, roundoff)
        kept[0] = replace(kept[0], uncertainty={**sure, **kept[0].uncertainty})
    return kept


def settings_apart(left: Fit, right: Fit) -> list[str]:
    """Names of the settings in which two fits surely differ, decisive ones first.

    A setting that one of them lacks does not count, nor does a choice that the values leave open.
    """
    return [name for name in left.settings if not _alike(left, right, name)]


def _alike(left: Fit, right: Fit, name: str) -> bool:
    a, b = left.settings[name], right.settings.get(name, left.settings[name])
    doubts = left.uncertainty.get(name, 0.0), right.uncertainty.get(name, 0.0)
    if name in _ONLY_SAID or a == b:
        return True
    if _is_number(a) and _is_number(b):
        return bool(abs(a - b) <= max(sum(doubts), SAME_NUMBER * max(abs(a), abs(b))))
    return max(doubts) >= OPEN_CHOICE


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _projection(first: Fit, rival: Fit, count: int, roundoff: float) -> float:
    own = max(first.residual, LUCKY_RESIDUAL * roundoff)
    gap = rival.residual**2 - first.residual**2
    return own / math.sqrt(count * gap) if gap > 0 else math.inf


def _certainty(fits: list[Fit], count: int, roundoff: float) -> dict[str, float]:
    first = fits[0]
    errors = {}
    for key, value in first.settings.items():
        rival = next((fit for fit in fits if fit.settings.get(key, value) != value), None)
        if key in NUMBERS or rival is None:
            continue
        errors[key] = _projection(first, rival, count, roundoff)
    return errors
