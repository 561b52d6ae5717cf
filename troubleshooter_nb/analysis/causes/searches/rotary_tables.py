"""Tables of cosines or sines that a module makes of positions, for rotary encoding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import misfit, ranked
from troubleshooter_nb.analysis.causes.law import Search
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.searches.rotary import COUNTED_OFFSETS, ROTARY
from troubleshooter_nb.metrics.float_formats import as_stored, in_format
from troubleshooter_nb.metrics.operators.rotary import angles, frequencies
from troubleshooter_nb.thresholds import (
    FEWEST_ANGLES,
    FORMULA_FLOORS,
    LEAST_TABLE_RATE,
    LINES_OF_ANGLES,
    MOST_TABLE_OFFSETS,
    NEAR_USUAL,
    ROTARY_COUNTED,
    TABLE_ROWS,
    UNLIKE,
)

_Table = Callable[[np.ndarray], np.ndarray]
_FUNCTIONS: dict[str, tuple[_Table, _Table]] = {
    "cos": (np.cos, lambda value: np.arccos(np.clip(value, -1.0, 1.0))),
    "sin": (np.sin, lambda value: np.arcsin(np.clip(value, -1.0, 1.0))),
}
_FORMATS = ("float32", *(f"{name} {what}" for name in ("bfloat16", "float16")
                         for what in ("positions", "frequencies", "angles")))  # fmt: skip
_USUAL = (1e4, 5e5, 1e6, 1e5)


def fit_table(operands: Operands) -> list[Fit]:
    """How a table of cosines or sines came of positions and a base.

    Parameters
    ----------
    operands : Operands
        Positions as integers, shape (..., rows); output (..., rows, size), each angle once, or
        twice as halves or as neighbours.

    Returns
    -------
    list of Fit
        Settings: ``function`` "cos" or "sin", ``repeated`` ("once", "halves", "neighbours"),
        ``theta``, ``frequency_scale``, ``position_offset``, ``angle_precision``.
    """
    taken = _rows(operands)
    if taken is None:
        return []
    positions, table = taken
    fits: list[Fit] = []
    for repeated, values in _once(table):
        for name, (function, inverse) in _FUNCTIONS.items():
            for offset, scale, theta in _estimates(positions, values, inverse):
                said: dict[str, Any] = {
                    "function": name,
                    "repeated": repeated,
                    "theta": theta,
                    "frequency_scale": scale,
                    "position_offset": offset,
                }
                steps = scale * frequencies(theta, 2 * values.shape[1])
                places = positions + offset
                fits += _by_formats(said, places, steps, values, function, operands.roundoff)
    if min((fit.residual for fit in fits), default=math.inf) > UNLIKE:
        for repeated, values in _once(table):
            fits += _counted(repeated, positions, values, operands.roundoff)
    return ranked(fits, table.size, operands.roundoff)


def _counted(
    repeated: str, positions: np.ndarray, values: np.ndarray, roundoff: float
) -> Iterator[Fit]:
    """Positions that a short format counts: some come twice, so that no column is a line."""
    some = spread(len(positions), ROTARY_COUNTED)
    pairs = spread(values.shape[1], ROTARY_COUNTED)
    few = values[np.ix_(some, pairs)]
    for (name, (function, _)), theta in itertools.product(_FUNCTIONS.items(), _USUAL):
        steps = frequencies(theta, 2 * values.shape[1])
        for short in ("bfloat16", "float16"):
            counted = in_format(positions[some] + COUNTED_OFFSETS[:, None], short)
            error = np.square(function(counted[:, :, None] * steps[pairs]) - few).sum((1, 2))
            offset, precision = int(COUNTED_OFFSETS[np.argmin(error)]), f"{short} positions"
            made = function(angles(positions + offset, steps, precision))
            said = {"function": name, "repeated": repeated, "theta": theta}
            said |= {"frequency_scale": 1.0, "position_offset": offset}
            residual = misfit(values, as_stored(made, roundoff), roundoff)
            yield Fit({**said, "angle_precision": precision}, residual)


def _by_formats(
    said: dict[str, Any],
    places: np.ndarray,
    steps: np.ndarray,
    values: np.ndarray,
    function: _Table,
    roundoff: float,
) -> Iterator[Fit]:
    """The exact angles, and those of short formats where these are as near."""
    for precision in _FORMATS:
        made = as_stored(function(angles(places, steps, precision)), roundoff)
        fit = Fit({**said, "angle_precision": precision}, misfit(values, made, roundoff))
        yield fit
        if precision == "float32" and fit.residual <= FORMULA_FLOORS * roundoff:
            return


def _rows(operands: Operands) -> tuple[np.ndarray, np.ndarray] | None:
    """Positions (rows,) and the table (rows, size) as float64, some of the rows."""
    output = operands.output
    given = [
        one for one in operands.inputs if one is not None and np.array_equal(one, np.rint(one))
    ]
    if output.ndim < 2 or not given:
        return None
    places = given[0]
    table = np.squeeze(output) if output.ndim > places.ndim + 1 else output
    if table.ndim != places.ndim + 1 or table.shape[:-1] != places.shape:
        return None
    flat, first = np.unique(places.reshape(-1), return_index=True)
    rows = np.asarray(table, np.float64).reshape(-1, table.shape[-1])[first]
    picked = spread(len(flat), TABLE_ROWS)
    some = rows[picked]
    is_table = np.isfinite(some).all() and float(np.abs(some).max(initial=0.0)) <= 1.0 + 1e-2
    if not is_table or len(picked) < 2 or some.shape[1] < 2 * FEWEST_ANGLES:
        return None
    return flat[picked].astype(np.float64), some


def _once(table: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The table with each angle once, as it may be stored."""
    half = table.shape[1] // 2
    if table.shape[1] % 2 == 0 and np.array_equal(table[:, :half], table[:, half:]):
        yield "halves", table[:, :half]
    elif table.shape[1] % 2 == 0 and np.array_equal(table[:, 0::2], table[:, 1::2]):
        yield "neighbours", table[:, 0::2]
    else:
        yield "once", table


def _estimates(
    positions: np.ndarray, values: np.ndarray, inverse: _Table
) -> Iterator[tuple[int, float, float]]:
    """Offset of the positions, scale of all rates, and base, as those columns tell that rise.

    A column that makes less than half a turn is a line of the positions: its slope is the rate, and
    where it is zero lies position 0.
    """
    distance = positions - positions.mean()
    arcs = inverse(values)
    rates = distance @ arcs / (distance @ distance)
    lines = arcs.mean(axis=0) + distance[:, None] * rates
    off, rises = np.abs(arcs - lines).max(axis=0), rates > LEAST_TABLE_RATE
    # Positions of a short format leave steps in the lines.
    for limit in LINES_OF_ANGLES:
        told = np.flatnonzero((off <= limit * np.ptp(arcs, axis=0)) & rises)
        if len(told) > 1:
            break
    else:
        return
    # The faster a pair turns the better it is told; whole turns of it, the slower ones tell.
    slope, start = np.polyfit(told, np.log(rates[told]), 1, w=rates[told])
    zeros = np.rint(arcs[:, told].mean(axis=0) / rates[told] - positions.mean()).astype(int)
    offsets = dict.fromkeys(
        zero + near for near in (0, 1, -1) for zero in np.unique(zeros).tolist()
    )
    theta, scale = math.exp(-slope * values.shape[1]), math.exp(start)
    usual = [one for one in _USUAL if abs(math.log(one / theta)) <= NEAR_USUAL]
    near = [float(f"{theta:.{digits}g}") for digits in (1, 2, 3, 4, 5, 7)]
    scales = [1.0] if abs(scale - 1.0) <= NEAR_USUAL else [float(f"{scale:.3g}"), scale]
    for offset, factor in itertools.product([*offsets][:MOST_TABLE_OFFSETS], scales):
        for base in dict.fromkeys([*usual, *near]):
            yield offset, factor, base


ROTARY_TABLE = Search(
    words=("rotarytable",),
    fit=fit_table,
    causes={**ROTARY.causes, "function": "rope_kernel_fault", "repeated": "rope_interleave"},
    axes=(
        Axes.of("*rows -> *rows size", rows=0),
        Axes.of("items *rows -> items *rows size", rows=0),
    ),
)
SEARCHES = (ROTARY_TABLE,)
