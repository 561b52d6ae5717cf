"""Numbers that one side took for another setting than they were given for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.analysis.causes.case import Fit, Suspicion
from troubleshooter_nb.analysis.causes.fits import NUMBERS, settings_apart
from troubleshooter_nb.thresholds import SAME_NUMBER

_COMMON = (0.0, 1.0)  # found in too many places to prove that two were exchanged


def argument_order(
    fits: tuple[Fit, Fit],
    known: tuple[Mapping[str, Any], Mapping[str, Any]],
    before: float,
    floor: float,
    *,
    pair: int = -1,
) -> Suspicion | None:
    """A number that one side uses as one setting and the other has recorded as another.

    Parameters
    ----------
    fits : tuple of Fit
        Best of the left and of the right side.
    known : tuple of mapping
        What each side recorded of its settings.
    before, floor : float
        Relative difference of the outputs, and what rounding leaves.
    pair : int
        Number of the pair of the outputs.

    Returns
    -------
    Suspicion or None
        Evidence: ``setting`` that was fitted, ``meant`` (what the other side calls the number),
        ``left`` and ``right`` (the fitted values), ``side`` that took it wrongly.
    """
    for setting in settings_apart(*fits):
        if setting not in NUMBERS:
            continue
        values = [float(fit.settings[setting]) for fit in fits]
        for side in (0, 1):
            meant = _called(values[side], known[1 - side], setting)
            # The other side must use the setting as it recorded it.
            if meant is None or not _same(values[1 - side], known[1 - side].get(setting)):
                continue
            # Who has the number under both names has given one setting a value that another has.
            if _same(values[side], known[side].get(meant)):
                continue
            evidence = {
                "setting": setting,
                "meant": meant,
                "left": f"{values[0]:.4g}",
                "right": f"{values[1]:.4g}",
                "side": ("left", "right")[side],
            }
            residual = max(fit.residual for fit in fits)
            return Suspicion("argument_order", before, residual, before, floor, evidence, pair)
    return None


def _called(value: float, known: Mapping[str, Any], setting: str) -> str | None:
    """The only recorded setting of another name that has the value."""
    if value in _COMMON:
        return None
    names = [name for name, said in known.items() if name != setting and _same(value, said)]
    return names[0] if len(names) == 1 else None


def _same(value: float, said: object) -> bool:
    if isinstance(said, bool) or not isinstance(said, (int, float)):
        return False
    return abs(value - said) <= SAME_NUMBER * abs(said)
