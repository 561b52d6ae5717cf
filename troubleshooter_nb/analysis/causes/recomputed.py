"""Whether a call computed the same on both sides, by fitting each side to its own operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import TooLargeError
from troubleshooter_nb.analysis.causes.argument_order import argument_order
from troubleshooter_nb.analysis.causes.case import (
    Call,
    Fit,
    Operands,
    Suspicion,
    evidence_of,
)
from troubleshooter_nb.analysis.causes.fits import have_common_settings, settings_apart
from troubleshooter_nb.analysis.causes.kernel_fault import kernel_fault
from troubleshooter_nb.analysis.causes.law import Direction, Law, Search
from troubleshooter_nb.analysis.causes.laws.resizing import coordinate_rounding
from troubleshooter_nb.analysis.causes.layers import cause_of, layer_of
from troubleshooter_nb.analysis.causes.operands import elements_of, operands
from troubleshooter_nb.analysis.causes.searches.normalisation import cancellation
from troubleshooter_nb.analysis.causes.thinned import is_large, parts
from troubleshooter_nb.analysis.layer_kinds import has_steps

Outcome = Literal["same", "different", "one_side", "unknown"]


@dataclass(frozen=True)
class Recomputation:
    """What fitting both sides of a call showed.

    Attributes
    ----------
    outcome : {"same", "different", "one_side", "unknown"}
        One formula with the same settings explains both sides; settings differ; only one side is
        explained at all; neither is.
    suspicion : Suspicion or None
        The cause, where the differing settings have one.
    left_over : tuple of float
        Residual of the best fit of each side, in what rounding leaves; inf where none is a fit.
    settings : tuple of mapping
        Of the best fit of each side.
    is_close : bool
        Whether one formula explains both sides about as well as each is explained alone.
    """

    outcome: Outcome
    suspicion: Suspicion | None = None
    left_over: tuple[float, float] = (math.inf, math.inf)
    settings: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})
    is_close: bool = True


def recompute(call: Call, typical: float, direction: Direction | None = None) -> Recomputation:
    """Fit both sides of a call.

    Parameters
    ----------
    call : Call
    typical : float
        Relative L2 error that is usual of the operator between two right implementations.
    direction : {"forward", "backward", "weight"}, optional
        Default that of the call; "weight": its output is the gradient of a weight.

    Raises
    ------
    TooLargeError
        If it is too large to be read whole, and no part of it stands for all.

    Notes
    -----
    A large call is asked about in a part first; only where that is not explained on both sides, the
    whole is, unless it is too large.
    """
    layer = layer_of(call.word, direction or call.direction)
    if layer is None or not call.outputs or not call.taken[0]:
        return Recomputation("unknown")
    found: Recomputation | None = None
    for part in parts(call, layer):
        one = _recomputed(part.call, typical, layer)
        if one.outcome == "same" and part.is_telling:
            return one
        if one.suspicion is not None:
            evidence = {**one.suspicion.evidence, "sampled": part.said}
            one = replace(one, suspicion=replace(one.suspicion, evidence=evidence))
            if one.outcome == "different":
                return one
        if found is None or found.outcome == "unknown":
            found = one if part.is_telling else Recomputation("unknown")
    if not is_large(call):
        return _recomputed(call, typical, layer)
    if found is None:
        raise TooLargeError
    return found


def _recomputed(call: Call, typical: float, layer: Law | Search) -> Recomputation:
    if (budget := call.outputs[0].budget) is not None:
        budget.require(elements_of(call))
    sides = operands(call)
    if sides is None:
        return Recomputation("unknown")
    floors = [floor_of(one.roundoff, typical) for one in sides]
    if call.direction == "forward":
        for grown in (cancellation, coordinate_rounding):
            floors = [f * grown(one, call.word) for f, one in zip(floors, sides, strict=True)]
    found = _fitted(call, layer, sides, floors)
    if found.suspicion is None and (shared := _shared(call, layer, sides, floors)) is not None:
        return shared
    worse, better = max(found.left_over), max(min(found.left_over), 1.0)
    if worse > thresholds.CLEARLY_WORSE * better and _is_local(call, layer, sides, floors, worse):
        found = replace(found, outcome="one_side", suspicion=None)
    if found.outcome == "one_side" and _may_be_at_a_step(call, sides):
        return replace(found, outcome="unknown", suspicion=None)
    return found


def _may_be_at_a_step(call: Call, sides: Sequence[Operands]) -> bool:
    """Whether single elements may be let through or not by rounding alone."""
    is_short = any(one.roundoff > thresholds.SHORT_ROUNDOFF for one in sides)
    return call.direction == "backward" and is_short and has_steps(call.word)


def _shared(
    call: Call, layer: Law | Search, sides: Sequence[Operands], floors: Sequence[float]
) -> Recomputation | None:
    """What differs where the sides have in common what neither recorded."""
    together = layer.together if isinstance(layer, Search) else None
    if together is None or not call.outputs[0].differs:
        return None
    with np.errstate(all="ignore"):
        found = together(sides[0], sides[1])
    if found is None:
        return None
    residual, floor = max(fit.residual for fit in found.fits), max(floors)
    is_proved = residual <= thresholds.FORMULA_FLOORS * floor
    if not is_proved or found.rival <= thresholds.CLEARLY_WORSE * max(residual, floor):
        return None
    floor = _reached(found.fits, floors, sides)
    suspicion = _suspicion(call, found.fits, [found.setting], found.rival, floor)
    left, right = (fit.residual / least for fit, least in zip(found.fits, floors, strict=True))
    return Recomputation("different", suspicion, (left, right))


def _fitted(
    call: Call, layer: Law | Search, sides: Sequence[Operands], floors: Sequence[float]
) -> Recomputation:
    """Both sides by their fits: the plainest ways first, which most calls went."""
    if layer.plain_first:
        plain = [_fits(layer, replace(one, thorough=False)) for one in sides]
        # As good as any other way can make it: trying them would change nothing.
        if all(plain) and _common(plain, floors) <= thresholds.CLEARLY_WORSE:
            return _compared(call, sides, plain, floors)
    fits = [_fits(layer, one) for one in sides]
    return _compared(call, sides, fits, floors)


def _is_local(
    call: Call,
    layer: Law | Search,
    sides: Sequence[Operands],
    floors: Sequence[float],
    worse: float,
) -> bool:
    """Whether one formula explains both sides but for few elements, where they are far apart.

    `worse` is what all elements leave over on the side that is explained worse.
    """
    outliers = _outliers(sides[0].distance4)
    if outliers is None:
        return False
    rest = [_without(one, outliers) for one in sides]
    found = _fitted(call, layer, rest, floors)
    return found.outcome == "same" and max(found.left_over) <= worse / thresholds.CLEARLY_WORSE


def _outliers(distance4: np.ndarray | None) -> np.ndarray | None:
    """Mask of the elements that are much further apart than most; None where many are or none."""
    if distance4 is None or distance4.size < thresholds.FEWEST_TO_BE_LOCAL:
        return None
    usual = float(
        np.quantile(
            distance4.ravel()[:: -(-distance4.size // thresholds.LAYER_SAMPLE)],
            1.0 - thresholds.LOCAL_SHARE,
        )
    )
    mask = distance4 > max(thresholds.LOCAL_TIMES**4 * usual, np.finfo(np.float32).tiny)
    if not mask.any():
        return None
    # All of a block, a row or a channel, with the elements in it that happen to be alike.
    touched = [
        mask.any(tuple(other for other in range(mask.ndim) if other != axis))
        for axis in range(mask.ndim)
    ]
    if math.prod(float(one.mean()) for one in touched) <= thresholds.LOCAL_SHARE:
        mask[np.ix_(*touched)] = True
    return mask if mask.mean() <= thresholds.LOCAL_SHARE else None


def _without(one: Operands, outliers: np.ndarray) -> Operands:
    """The side without some elements of its output: fitters pass over what is not finite."""
    output = np.where(outliers, np.nan, one.output.astype(np.result_type(one.output, np.float32)))
    distance4 = None if one.distance4 is None else np.where(outliers, np.float32(0), one.distance4)
    return replace(one, output=output, distance4=distance4)


def floor_of(roundoff: float, typical: float = 0.0) -> float:
    """Residual that the right formula may leave; formulas are rounded to 16-bit formats first."""
    # Formulas are float64, so that even integers are not reproduced more exactly than that.
    return (
        thresholds.LEFT_OF_SHORT * roundoff
        if roundoff > thresholds.SHORT_ROUNDOFF
        else max(roundoff, typical, 2.0**-53)
    )


def _fits(layer: Law | Search, one: Operands) -> list[Fit]:
    found = [fit for fit in layer.fit(one) if not math.isnan(fit.residual)]
    return sorted(found, key=lambda fit: fit.residual)


def _compared(
    call: Call,
    sides: Sequence[Operands],
    fits: Sequence[Sequence[Fit]],
    floors: Sequence[float],
) -> Recomputation:
    left, right = (
        found[0].residual / floor if found else math.inf
        for found, floor in zip(fits, floors, strict=True)
    )
    units = left, right
    said = _settings_of(fits[0]), _settings_of(fits[1])
    if not all(fits):
        return Recomputation("unknown", None, units, said)
    best = fits[0][0], fits[1][0]
    own, together = max(units), _common(fits, floors)
    explained = [residual <= thresholds.FORMULA_FLOORS for residual in units]
    differing = settings_apart(best[0], best[1])
    # Rounding may make one side look better with other settings: only a clear lead counts.
    if together <= thresholds.CLEARLY_WORSE * max(own, 1.0):
        rate = rate_drawn_with(best)
        if rate and all(explained) and _is_random(call, floors):
            return Recomputation("different", _random(call, best, rate, max(floors)), units, said)
        # Arithmetic that is badly conditioned leaves both sides equally far from the formula; one
        # that leaves as much as the sides are apart says nothing of what keeps them apart.
        if all(explained) or own <= thresholds.BADLY_CONDITIONED * max(min(units), 1.0):
            limit = thresholds.UNRELATED_FIT
            if not all(explained):
                apart = call.outputs[0].rel_l2 / thresholds.CLEARLY_WORSE
                limit = min(limit, max(apart, thresholds.BADLY_CONDITIONED_FIT))
            related = max(f.residual for f in best) < limit
            alone = max(own, thresholds.LEFT_BY_CHANCE)
            is_close = together <= thresholds.CLOSELY_ALIKE * alone
            return Recomputation("same" if related else "unknown", None, units, said, is_close)
    if (
        differing
        and together > thresholds.CLEARLY_WORSE * own
        and max(f.residual for f in best) < thresholds.UNRELATED_FIT
    ):
        floor = _reached(best, floors, sides)
        given = argument_order(best, call.settings, call.outputs[0].rel_l2, floor)
        found = given or _suspicion(call, best, differing, together * max(floors), floor)
        return Recomputation("different", found, units, said)
    if explained[0] != explained[1]:
        found = None
        if not differing:
            found = kernel_fault(fits[0], fits[1], (floors[0], floors[1]), call.outputs[0].rel_l2)
        return Recomputation("one_side", found, units, said)
    return Recomputation("unknown", None, units, said)


def _settings_of(fits: Sequence[Fit]) -> Mapping[str, Any]:
    return fits[0].settings if fits else {}


def _reached(best: tuple[Fit, Fit], floors: Sequence[float], sides: Sequence[Operands]) -> float:
    """What rounding leaves on either side: no more than the right formula is seen to leave."""
    reached = []
    for fit, floor, one in zip(best, floors, sides, strict=True):
        # Whole numbers are not rounded at all.
        least = floor_of(one.roundoff) if one.roundoff else 0.0
        reached.append(min(floor, max(fit.residual, least)))
    return max(reached)


def _is_random(call: Call, floors: Sequence[float]) -> bool:
    """Whether outputs differ although the inputs agree and both sides do the same."""
    given = max((tensor.rel_l2 for tensor in call.inputs), default=math.inf)
    return given <= thresholds.FORMULA_FLOORS * max(floors) and call.outputs[0].differs


def rate_drawn_with(best: tuple[Fit, Fit]) -> str:
    """The setting that says what share both sides dropped at random; empty where they did not."""
    for name, drawn in (("active", "p"), ("drops", "drop_share")):
        if all(fit.settings.get(name) in (True, "dropout") for fit in best):
            return drawn
    return ""


def _random(call: Call, best: tuple[Fit, Fit], rate: str, floor: float) -> Suspicion:
    """Masks that were drawn apart: the same rule, other elements."""
    output = call.outputs[0]
    evidence = evidence_of(best, rate, call.word)
    return Suspicion(
        "rng_differs",
        output.rel_l2,
        floor,
        output.rel_l2,
        floor,
        evidence,
        output.pair,
        output.size,
    )


def _common(fits: Sequence[Sequence[Fit]], floors: Sequence[float]) -> float:
    """The worse residual, in floors, of the best settings that both sides share."""
    least = math.inf
    for left in fits[0]:
        for right in fits[1]:
            worse = max(left.residual / floors[0], right.residual / floors[1])
            # Settings take longer to be held against each other.
            if worse < least and have_common_settings(left, right):
                least = worse
    return least


def _suspicion(
    call: Call, best: tuple[Fit, Fit], differing: Sequence[str], rival: float, floor: float
) -> Suspicion | None:
    found = cause_of(call.word, differing, best)
    if found is None:
        return None
    cause, setting = found
    evidence = evidence_of(best, setting, call.word)
    output = call.outputs[0]
    if cause == "nan_swallowed":
        side = "left" if best[1].settings[setting] == "nan" else "right"
        other = output.right if side == "left" else output.left
        count = int(np.isnan(other).sum()) if other is not None else 0
        evidence |= {"side": side, "value": evidence[side], "count": count}
    return Suspicion(
        cause=cause,
        before=output.rel_l2,
        residual=max(fit.residual for fit in best),
        rival=min(rival, output.rel_l2),
        floor=floor,
        evidence=evidence,
        pair=output.pair,
        independent=output.size,
    )
