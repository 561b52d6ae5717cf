"""What sums and products of two tensors did: factors, masked value, which tensor was added."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import (
    coefficient,
    half_width,
    misfit,
    named_factor,
    places,
    ranked,
)
from troubleshooter_nb.metrics.operators.elementwise import combined, weights_of
from troubleshooter_nb.thresholds import ELEMENTWISE_SAMPLE, FEWEST_OUTPUTS


def fit_weighted_sum(operands: Operands, sign: float = 1.0) -> list[Fit]:
    """The factors of both terms of a sum or, with `sign` -1, of a difference.

    Returns
    -------
    list of Fit
        Settings: ``first_factor``, ``second_factor``, with the likely name of one that is not 1;
        of a difference ``arguments``, too: ``in order`` or ``swapped``. Of whole numbers and a
        number that was not recorded, see `_fit_shift`.
    """
    if sum(values is not None for values in operands.inputs) == 1:
        return _fit_shift(operands)
    case = _sampled(operands, 2)
    if case is None:
        return []
    (first, second), output = case
    fits: list[Fit] = []
    weights = weights_of([first, sign * second], output)
    ways = [(1.0, 1.0)] if sign > 0 else [(1.0, 1.0), (-1.0, -1.0)]
    if np.isfinite(weights).all():
        size = operands.output.shape[-1] if operands.output.ndim else 1
        likely = [_likely(float(weight), size) for weight in weights]
        ways.append((likely[0], likely[1]))
    for one, other in ways:
        formula = combined("add", one * first, sign * other * second)
        known: dict[str, Any] = {"first_factor": one, "second_factor": other}
        if sign < 0:
            known = {"arguments": "in order", **known}
            if one == other == -1.0:
                known = {"arguments": "swapped", "first_factor": 1.0, "second_factor": 1.0}
        fits.append(Fit(known, misfit(output, formula, operands.roundoff)))
    return ranked(fits)


def fit_factor(operands: Operands, operator: str = "mul") -> list[Fit]:
    """The factor beside a product or quotient of two tensors, or of one tensor and a number.

    Returns
    -------
    list of Fit
        Settings: ``scale`` and ``scale_name`` (``1/sqrt(64)``); of a quotient of two tensors
        ``arguments``, ``in order`` or ``swapped``.
    """
    arrays = [values for values in operands.inputs if values is not None and values.size > 1]
    case = _sampled(replace(operands, inputs=arrays), min(len(arrays), 2))
    if case is None:
        return []
    terms, output = case
    size = arrays[0].shape[-1]
    if len(terms) == 1:
        return ranked(_scaled(output, terms[0], {}, size, operands.roundoff))
    fits = []
    for order, (one, other) in {"in order": terms, "swapped": terms[::-1]}.items():
        said = {"arguments": order} if operator == "div" else {}
        if said or order == "in order":
            formula = combined(operator, one, other)
            fits += _scaled(output, formula, said, size, operands.roundoff)
    return ranked(fits)


def _scaled(
    output: np.ndarray, formula: np.ndarray, said: dict[str, Any], size: int, roundoff: float
) -> list[Fit]:
    """A formula times the factor that fits best, and as it is."""
    fitted = coefficient(output, formula)
    if not np.isfinite(fitted) or fitted == 0:
        return []
    residual = misfit(output, fitted * formula, roundoff)
    width = half_width(fitted, residual, roundoff)
    value, name = named_factor(fitted, size, max(2 * width / abs(fitted), 1e-5))
    known = {**said, "scale": value, "scale_name": name}
    fits = [Fit(known, misfit(output, value * formula, roundoff), {"scale": width})]
    if value != 1.0:
        one = {**said, "scale": 1.0, "scale_name": "1"}
        fits.append(Fit(one, misfit(output, formula, roundoff)))
    return fits


def fit_masked_fill(operands: Operands) -> list[Fit]:
    """The value written where a mask is set: inputs x and the mask.

    Returns
    -------
    list of Fit
        Settings: ``mask_value`` (a number or "-inf"), ``masked`` ("where true", "where false").
        The residual is over the places left alone; the value is exact or there is no fit.
    """
    if len(operands.inputs) < 2:
        return []
    x, mask = operands.inputs[:2]
    output = operands.output
    if x is None or mask is None or x.shape != output.shape or output.size < FEWEST_OUTPUTS:
        return []
    try:
        set_ = np.broadcast_to(mask, output.shape).astype(bool)
    except ValueError:
        return []
    fits: list[Fit] = []
    for word, filled in (("where true", set_), ("where false", ~set_)):
        values = np.unique(output[filled])
        if values.size != 1 or filled.all():
            continue
        number = float(values[0])
        said = number if np.isfinite(number) else str(number)
        kept, given = output[~filled].astype(np.float64), x[~filled].astype(np.float64)
        known = {"mask_value": said, "masked": word}
        fits.append(Fit(known, misfit(kept, given, operands.roundoff)))
    return ranked(fits)


def _fit_shift(operands: Operands) -> list[Fit]:
    """The number added to whole numbers: ``position_offset`` where these count on by one."""
    x, output = operands.inputs[0], operands.output
    if x is None or x.shape != output.shape or x.size < 2:
        return []
    if x.dtype.kind not in "iu" or output.dtype.kind not in "iu":
        return []
    counts = np.diff(x.astype(np.int64), axis=-1)
    shift = output.astype(np.int64) - x.astype(np.int64)
    if shift.min() != shift.max():
        return []
    name = "position_offset" if counts.size and (counts == 1).all() else "offset"
    return [Fit({name: int(shift.flat[0])}, 0.0)]


def _likely(weight: float, size: int) -> float:
    value, _ = named_factor(weight, size, 1e-4)
    return value


def _sampled(operands: Operands, count: int) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Some elements of the first inputs, spread to the output's shape, and of the output."""
    arrays: Sequence[Any] = operands.inputs[:count]
    if len(arrays) < count or count == 0 or any(values is None for values in arrays):
        return None
    output = operands.output
    if output.size < FEWEST_OUTPUTS or any(values.dtype.kind not in "fiub" for values in arrays):
        return None
    try:
        wide = [np.broadcast_to(values, output.shape) for values in arrays]
    except ValueError:
        return None
    energy = None if operands.apart is None else operands.apart.ravel()
    chosen = np.unravel_index(places(output.size, ELEMENTWISE_SAMPLE, energy), output.shape)
    taken = [values[chosen].astype(np.float64) for values in wide]
    return taken, output[chosen].astype(np.float64)


FITTERS: dict[str, Fitter] = {
    "add": fit_weighted_sum,
    "sub": functools.partial(fit_weighted_sum, sign=-1.0),
    "mul": functools.partial(fit_factor, operator="mul"),
    "div": functools.partial(fit_factor, operator="div"),
    **dict.fromkeys(("truediv", "realdiv"), functools.partial(fit_factor, operator="div")),
    **dict.fromkeys(("maskedfill",), fit_masked_fill),
}
BACKWARD_FITTERS: dict[str, Fitter] = {}
CAUSES: dict[tuple[str, str], str] = {
    ("", "mask_value"): "mask_value",
    ("", "masked"): "mask_value",
    ("", "addend"): "residual_order",
    ("", "position_offset"): "position_offset",
    ("", "arguments"): "argument_order",
}
