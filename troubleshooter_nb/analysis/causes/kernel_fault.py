"""One side that computes the same formula as the other, but not as exactly as its dtype allows."""

from __future__ import annotations

from collections.abc import Sequence

from troubleshooter_nb.analysis.causes.case import Fit, Suspicion
from troubleshooter_nb.analysis.causes.fits import NUMBERS, settings_apart
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.evidence import evidence_word
from troubleshooter_nb.thresholds import (
    BETTER_FORMULA,
    FORMULA_FLOORS,
    INEXACT_KERNEL,
    INEXACT_OVER_OTHER,
    UNRELATED_FIT,
)


def kernel_fault(
    left: Sequence[Fit],
    right: Sequence[Fit],
    roundoffs: tuple[float, float],
    before: float,
    *,
    pair: int = -1,
) -> Suspicion | None:
    """The side whose kernel leaves the formula that the other side follows to the last place.

    Parameters
    ----------
    left, right : sequence of Fit
        As the fitters return them, best first.
    roundoffs : tuple of float
        What rounding leaves of a right output, on either side; its unit roundoff at most.
    before : float
        Relative difference of the two outputs.
    pair : int
        Number of the pair of the outputs.

    Returns
    -------
    Suspicion or None
        Evidence: ``side`` ("left", "right") of the fault, ``left`` and ``right`` (residual
        against the formula in float64), ``factor`` between them, ``formula``. None where both are
        exact or both are not, where settings differ, and where another formula explains the side.
    """
    if not left or not right:
        return None
    residuals = [left[0].residual, right[0].residual]
    good = 0 if residuals[0] <= residuals[1] else 1
    fits = (left, right)
    exact, faulty = fits[good], fits[1 - good]
    if exact[0].residual > FORMULA_FLOORS * roundoffs[good]:
        return None
    same = next((fit for fit in faulty if _alike(exact[0], fit)), None)
    roundoff = max(roundoffs)
    if same is None or not INEXACT_KERNEL * roundoff < same.residual < UNRELATED_FIT:
        return None
    others = [fit.residual for fit in faulty if fit is not same]
    rival = min(others, default=before)
    if (
        same.residual < INEXACT_OVER_OTHER * exact[0].residual
        or rival < BETTER_FORMULA * same.residual
    ):
        return None
    values = [same.residual, same.residual]
    values[good] = exact[0].residual
    evidence = {
        "side": ("left", "right")[1 - good],
        "left": f"{values[0]:.1e}",
        "right": f"{values[1]:.1e}",
        # a residual of zero is one below the last place
        "factor": float(same.residual / max(exact[0].residual, 0.1 * roundoff)),
        "formula": _text(exact[0]),
    }
    floor = FORMULA_FLOORS * roundoff
    return Suspicion("kernel_fault", before, exact[0].residual, rival, floor, evidence, pair)


def _alike(exact: Fit, other: Fit) -> bool:
    """Whether two fits make the same choices; numbers of an inexact kernel may be off a little."""
    for key, value in exact.settings.items():
        if key not in NUMBERS and other.settings.get(key, value) != value:
            return False
    return not any(key not in ("scale", *_BLURRED) for key in settings_apart(exact, other))


# An inexact kernel shifts these by more than the rounding of its output explains.
_BLURRED = ("alpha", "beta", "slope", "eps")


def _text(fit: Fit) -> str:
    said = {key: value for key, value in fit.settings.items() if value is not False}
    shown = {key: evidence_word(v) if isinstance(v, str) else str(v) for key, v in said.items()}
    return joined([Message("evidence.setting", name=k, value=v) for k, v in shown.items()], by=",")
