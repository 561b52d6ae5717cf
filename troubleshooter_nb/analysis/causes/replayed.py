"""Whether a call computed the same on both sides, by fitting each side to its own operands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from troubleshooter_nb.analysis.causes.case import (
    Call,
    Fit,
    Fitter,
    Operands,
    Suspicion,
    evidence_of,
)
from troubleshooter_nb.analysis.causes.layers.argument_order import argument_order
from troubleshooter_nb.analysis.causes.layers.kernel_fault import kernel_fault
from troubleshooter_nb.analysis.causes.layers.table import BACKWARD_FITTERS, FITTERS, cause_of
from troubleshooter_nb.analysis.causes.operands import operands

Outcome = Literal["same", "different", "one_side", "unknown"]
# A fit within this many times the rounding of its output is the formula.
_ROUNDING = 8.0
# A fit this many times worse than another one is not an equal explanation.
_CLEARLY = 3.0
_FARTHEST = 0.3
_SAME_NUMBER = 1e-3
# From this uncertainty on the values do not decide a choice, see `layers.ranking`.
_OPEN = 0.25
# Settings that say another one in words.
_ONLY_SAID = frozenset(("scale_name", "padding_before"))
_ALIKE = 10.0
# Of formats this coarse the formula is rounded as the output was: few elements round otherwise.
_HALF = 2.0**-20
_LEFT_OF_HALF = 0.05


@dataclass(frozen=True)
class Replay:
    """What fitting both sides of a call showed.

    Attributes
    ----------
    outcome : {"same", "different", "one_side", "unknown"}
        One formula with the same settings explains both sides; settings differ; only one side is
        explained at all; neither is.
    suspicion : Suspicion or None
        The cause, where the differing settings have one.
    """

    outcome: Outcome
    suspicion: Suspicion | None = None


def replay(call: Call, typical: float) -> Replay:
    """Fit both sides of a call.

    Parameters
    ----------
    call : Call
    typical : float
        Relative L2 error that is usual of the operator between two right implementations.
    """
    fitter = (BACKWARD_FITTERS if call.direction == "backward" else FITTERS).get(call.word)
    if fitter is None:
        return Replay("unknown")
    fits: list[list[Fit]] = []
    floors: list[float] = []
    for side in (0, 1):
        one = operands(call, side)
        if one is None:
            return Replay("unknown")
        fits.append(_fits(fitter, one))
        floors.append(_floor(one.roundoff, typical))
    if not fits[0] or not fits[1]:
        return Replay("unknown")
    return _compared(call, fits, floors)


def _floor(roundoff: float, typical: float) -> float:
    """Residual that the right formula may leave; formulas are rounded to 16-bit formats first."""
    # Formulas are float64, so that even integers are not reproduced more exactly than that.
    return _LEFT_OF_HALF * roundoff if roundoff > _HALF else max(roundoff, typical, 2.0**-53)


def _fits(fitter: Fitter, one: Operands) -> list[Fit]:
    found = [fit for fit in fitter(one) if not math.isnan(fit.residual)]
    return sorted(found, key=lambda fit: fit.residual)


def _compared(call: Call, fits: Sequence[Sequence[Fit]], floors: Sequence[float]) -> Replay:
    best = fits[0][0], fits[1][0]
    units = [fit.residual / floor for fit, floor in zip(best, floors, strict=True)]
    own, together = max(units), _common(fits, floors)
    explained = [residual <= _ROUNDING for residual in units]
    differing = settings_apart(best[0], best[1])
    # Rounding may make one side look better with other settings: only a clear lead counts.
    if together <= _CLEARLY * max(own, 1.0):
        if call.word.startswith("dropout") and all(explained) and _is_random(call, floors):
            return Replay("different", _random(call, best, max(floors)))
        # Arithmetic that is badly conditioned leaves both sides equally far from the formula.
        if all(explained) or own <= _ALIKE * max(min(units), 1.0):
            return Replay("same" if max(f.residual for f in best) < _FARTHEST else "unknown")
    if differing and together > _CLEARLY * own and max(f.residual for f in best) < _FARTHEST:
        floor = max(floors)
        given = argument_order(best, call.settings, call.outputs[0].rel_l2, floor)
        found = given or _suspicion(call, best, differing, together * floor, floor)
        return Replay("different", found)
    if explained[0] != explained[1]:
        found = None
        if not differing:
            found = kernel_fault(fits[0], fits[1], (floors[0], floors[1]), call.outputs[0].rel_l2)
        return Replay("one_side", found)
    return Replay("unknown")


def _is_random(call: Call, floors: Sequence[float]) -> bool:
    """Whether outputs differ although the inputs agree and both sides do the same."""
    given = max((twin.rel_l2 for twin in call.inputs), default=math.inf)
    return given <= _ROUNDING * max(floors) and call.outputs[0].differs


def _random(call: Call, best: tuple[Fit, Fit], floor: float) -> Suspicion:
    """Masks that were drawn apart: the same rule, other elements."""
    output = call.outputs[0]
    evidence = evidence_of(best, "p", call.word)
    size = output.right.size if output.right is not None else 0
    return Suspicion(
        "rng_differs", output.rel_l2, floor, output.rel_l2, floor, evidence, output.pair, size
    )


def _common(fits: Sequence[Sequence[Fit]], floors: Sequence[float]) -> float:
    """The worse residual, in floors, of the best settings that both sides share."""
    return min(
        (
            max(left.residual / floors[0], right.residual / floors[1])
            for left in fits[0]
            for right in fits[1]
            if not settings_apart(left, right)
        ),
        default=math.inf,
    )


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
        return bool(abs(a - b) <= max(sum(doubts), _SAME_NUMBER * max(abs(a), abs(b))))
    return max(doubts) >= _OPEN


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _suspicion(
    call: Call, best: tuple[Fit, Fit], differing: Sequence[str], rival: float, floor: float
) -> Suspicion | None:
    found = cause_of(call.word, differing)
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
        independent=output.right.size if output.right is not None else 0,
    )
