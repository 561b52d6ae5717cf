"""Arguments that one side took for others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands, Suspicion
from troubleshooter_nb.analysis.causes.layers.ranking import (
    NUMBERS,
    ranked,
    residual_of,
    settings_apart,
)
from troubleshooter_nb.analysis.causes.layers.trials import places
from troubleshooter_nb.thresholds import FEWEST_TO_FIT, LAYER_SAMPLE, SAME_NUMBER

_COMMON = (0.0, 1.0)  # found in too many places to prove that two were exchanged

_Operation = Callable[[np.ndarray, np.ndarray], np.ndarray]
# Of sub and div factors are asked as well, see `elementwise`.
_OPERATIONS: dict[str, _Operation] = {
    "subtract": np.subtract,
    "divide": np.divide,
    "truedivide": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
}


def fit_order(operands: Operands, operation: _Operation) -> list[Fit]:
    """An operator of two tensors with its arguments ``in order`` or ``swapped``.

    The only setting is ``arguments``. Empty unless both inputs broadcast to the output.
    """
    given = [value for value in operands.inputs if value is not None][:2]
    shape = operands.output.shape
    if len(given) < 2 or operands.output.size < FEWEST_TO_FIT:
        return []
    try:
        whole = [np.broadcast_to(value, shape).ravel() for value in given]
    except ValueError:
        return []
    energy = None if operands.apart is None else operands.apart.ravel()
    chosen = places(operands.output.size, LAYER_SAMPLE, energy)
    first, second = (value[chosen].astype(np.float64) for value in whole)
    output = operands.output.ravel()[chosen].astype(np.float64)
    fits = []
    for name, pair in (("in order", (first, second)), ("swapped", (second, first))):
        with np.errstate(all="ignore"):
            formula = operation(*pair)
        fits.append(Fit({"arguments": name}, residual_of(output, formula, operands.roundoff)))
    return ranked(fits, output.size, operands.roundoff)


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


FITTERS: dict[str, Fitter] = {
    word: partial(fit_order, operation=operation) for word, operation in _OPERATIONS.items()
}
CAUSES: dict[tuple[str, str], str] = {("", "arguments"): "argument_order"}
