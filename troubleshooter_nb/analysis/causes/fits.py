"""How the ways a layer may have computed an output are held against it, ordered and compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit
from troubleshooter_nb.analysis.causes.factors import named_size
from troubleshooter_nb.metrics.float_formats import FLOAT32, as_stored
from troubleshooter_nb.thresholds import (
    LUCKY_RESIDUAL,
    NO_FACTOR,
    OPEN_CHOICE,
    SAME_NUMBER,
    SHORT_ROUNDOFF,
    UNLIKE,
)

_FLOAT32 = FLOAT32.unit_roundoff
# Settings that say another one in words.
_ONLY_SAID = frozenset(("scale_name", "padding_before"))
# Numbers measured over all of a tensor: what is further apart than their doubts is not the same.
_MEASURED = frozenset(("slopes", "offsets"))
# Settings that are fitted as real numbers; the others are choices.
NUMBERS = frozenset("eps slope alpha beta low high scale p zero_share".split())


def misfit(output: np.ndarray, formula: np.ndarray, roundoff: float = 0.0) -> float:
    """The residual: norm of the error over the norm of the output, over its finite elements.

    inf where nothing is finite, the output is zero, or the formula is not finite there. Of an
    output stored in 16 bits the formula is rounded likewise: where it is the right one, nearly all
    elements become equal, and much smaller faults than the rounding stand out.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        target, guess = _where(np.isfinite(output), output, formula)
        scale = math.sqrt(float(np.square(target).sum()))
        if not scale or not np.isfinite(guess).all():
            return math.inf
        left = math.sqrt(float(np.square(target - guess).sum())) / scale
        if roundoff > SHORT_ROUNDOFF:
            error = target - as_stored(guess, roundoff)
            left = min(left, math.sqrt(float(np.square(error).sum())) / scale)
    return left if math.isfinite(left) else math.inf


def _where(mask: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
    """The elements of arrays where a mask of their shape is True, flat."""
    is_all = bool(mask.all())
    return [one.reshape(-1) if is_all else one[mask] for one in arrays]


def relative_norm(error: np.ndarray, reference: np.ndarray) -> float:
    """Norm of an error over that of what it is an error of; inf where that is zero."""
    norm = float(np.linalg.norm(reference))
    return float(np.linalg.norm(error)) / norm if norm > 0 else math.inf


def tells_apart(first: np.ndarray, second: np.ndarray, roundoff: float) -> bool:
    """Whether two formulas differ by more than the output's rounding could hide."""
    with np.errstate(invalid="ignore"):
        gap, scale = np.linalg.norm(first - second), np.linalg.norm(second)
    # Systematic differences show far below the rounding of a single element.
    return not gap <= scale * max(roundoff / 32, 2 * _FLOAT32)


def noise(roundoff: float, terms: int) -> float:
    """Residual that a correct layer may leave which sums so many products in float32."""
    return 2 * roundoff + 4 * _FLOAT32 * (1 + 0.3 * math.sqrt(max(terms, 1)))


# Factors ------------------------------------------------------------------------------------------
def coefficient(values: np.ndarray, direction: np.ndarray) -> float:
    """The factor of `direction` in `values` by least squares; nan where there is none."""
    finite = np.isfinite(values) & np.isfinite(direction)
    values, direction = _where(finite, values, direction)
    power = float(np.vdot(direction, direction))
    return float(np.vdot(direction, values)) / power if power > 0 else math.nan


def half_width(value: float, residual: float, roundoff: float) -> float:
    """How far a factor may move before the residual grows by the output's rounding."""
    small = max(roundoff, _FLOAT32)
    return abs(value) * math.sqrt(2 * residual * small + small * small)


def best_factor(
    output: np.ndarray, formula: np.ndarray, roundoff: float, floor: float = 0.0
) -> tuple[float, float, float] | None:
    """The factor that brings a formula nearest to an output.

    Parameters
    ----------
    output, formula : ndarray
    roundoff : float
        Unit roundoff of the output.
    floor : float
        Residual that the right formula may leave, where that is more than the roundoff says.

    Returns
    -------
    value, width, residual : float, or None
        Half the width within which the value is known, and what is left with it; None where the
        output holds nothing of the formula.
    """
    value = coefficient(output, formula)
    if not math.isfinite(value) or value == 0:
        return None
    residual = misfit(output, value * formula, roundoff)
    width = max(half_width(value, residual, roundoff), 0.1 * floor * abs(value))
    return value, width, residual


def likely_factor(
    output: np.ndarray,
    formula: np.ndarray,
    roundoff: float,
    *sizes: int,
    least: float = 1e-5,
    floor: float = 0.0,
) -> tuple[float, str, float] | None:
    """The `best_factor`, or the number with a name that it may be.

    Parameters
    ----------
    output, formula, roundoff, floor
        As of `best_factor`.
    *sizes : int
        Features or head sizes that factors come from, the likelier first.
    least : float
        Relative distance of a name that is always allowed.

    Returns
    -------
    value, name, width : or None
        The name is "" where none is near.
    """
    found = best_factor(output, formula, roundoff, floor)
    if found is None:
        return None
    value, width, _ = found
    near = max(2 * width / abs(value), least)
    names = [named_size(value, size, near) for size in sizes or (0,)]
    return *next((named for named in names if named[1]), names[0]), width


def factor_fits(
    output: np.ndarray,
    formula: np.ndarray,
    settings: Mapping[str, Any],
    name: str,
    roundoff: float,
    size: int = 0,
) -> Iterator[Fit]:
    """The formula as it is, and times the factor that suits best.

    Parameters
    ----------
    output, formula : ndarray
    settings : mapping
        What the formula stands for.
    name : str
        Setting that the factor is said as; with a `size`, ``scale_name`` has what it is called.
    roundoff : float
    size : int
        Of `likely_factor`; 0 for factors that are no power of a size.
    """
    said = {"scale_name": "1"} if size else {}
    yield Fit({**settings, name: 1.0, **said}, misfit(output, formula, roundoff))
    found = likely_factor(output, formula, roundoff, size)
    if found is None or found[0] == 1.0:
        return
    value, called, width = found
    residual = misfit(output, value * formula, roundoff)
    # A factor that leaves most of the output over is none.
    if residual < NO_FACTOR:
        said = {"scale_name": called} if size else {}
        yield Fit({**settings, name: value, **said}, residual, {name: width})


# Order --------------------------------------------------------------------------------------------
def ranked(
    fits: Iterable[Fit], count: int = 0, roundoff: float = 0.0, *, limit: float = UNLIKE
) -> list[Fit]:
    """Fits by residual, one of each settings, the first with how sure its choices are.

    Parameters
    ----------
    fits : iterable of Fit
        Preferred ones first: of equal residuals the earlier is better.
    count : int
        Independent elements of the output; 0 where that is not known.
    roundoff : float
        Unit roundoff of the output.
    limit : float
        Residual of the best above which nothing is said.

    Notes
    -----
    The `uncertainty` of a choice is the standard error of the projection of the output on the line
    from the chosen formula (0) to the best one that chooses otherwise (1). Where the chosen one is
    right, its residual r and the rival's R give |difference of the formulas|^2 = R^2 - r^2, and
    independent errors of n elements leave r / sqrt(n (R^2 - r^2)). So a misfit far below the
    rounding of single elements decides, and inf says that nothing does.
    """
    best: dict[str, Fit] = {}
    usable = (fit for fit in fits if math.isfinite(fit.residual))
    for fit in sorted(usable, key=lambda fit: fit.residual):
        best.setdefault(repr(sorted(fit.settings.items(), key=lambda item: item[0])), fit)
    kept = list(best.values())
    if not kept or kept[0].residual > limit:
        return []
    if count:
        kept[0] = _with_certainty(kept, count, roundoff)
    return kept


def _with_certainty(fits: list[Fit], count: int, roundoff: float) -> Fit:
    first = fits[0]
    doubts, left_open = {}, {}
    for name, value in first.settings.items():
        rivals = [fit for fit in fits if fit.settings.get(name, value) != value]
        if name in NUMBERS or not rivals:
            continue
        errors = [_projection(first, rival, count, roundoff) for rival in rivals]
        doubts[name] = errors[0]
        near = (rival for rival, error in zip(rivals, errors, strict=True) if error >= OPEN_CHOICE)
        left_open[name] = tuple(rival.settings[name] for rival in near)
    return replace(first, uncertainty={**doubts, **first.uncertainty}, open=left_open)


def _projection(first: Fit, rival: Fit, count: int, roundoff: float) -> float:
    own = max(first.residual, LUCKY_RESIDUAL * roundoff)
    gap = rival.residual**2 - first.residual**2
    return own / math.sqrt(count * gap) if gap > 0 else math.inf


# Two sides ----------------------------------------------------------------------------------------
def settings_apart(left: Fit, right: Fit) -> list[str]:
    """Names of the settings in which two fits surely differ, decisive ones first.

    A setting that one of them lacks does not count, nor do choices between values that neither
    side's output tells from one that it shares with the other.
    """
    return [name for name in left.settings if not _alike(left, right, name)]


def have_common_settings(left: Fit, right: Fit) -> bool:
    """Whether two fits surely differ in no setting; see `settings_apart`."""
    return all(_alike(left, right, name) for name in left.settings)


def _alike(left: Fit, right: Fit, name: str) -> bool:
    a, b = left.settings[name], right.settings.get(name, left.settings[name])
    if name in _ONLY_SAID or a == b:
        return True
    if _is_number(a) and _is_number(b):
        doubt = left.uncertainty.get(name, 0.0) + right.uncertainty.get(name, 0.0)
        near = 0.0 if name in _MEASURED else SAME_NUMBER * max(abs(a), abs(b))
        return bool(abs(a - b) <= max(doubt, near))
    ways = (a, *left.open.get(name, ())), (b, *right.open.get(name, ()))
    return any(one == other for one in ways[0] for other in ways[1])


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
