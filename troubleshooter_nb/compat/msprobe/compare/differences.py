"""The eight cells that tell how statistics of two values differ."""

from __future__ import annotations

import math
from typing import Any

from troubleshooter_nb.compat.msprobe.compare.metrics import Cell
from troubleshooter_nb.compat.msprobe.compare.values import NOTHING, Value, is_number

STATISTICS = ("max", "min", "mean", "l2norm")
DIFFERENCES = (
    *("Max diff", "Min diff", "Mean diff", "L2norm diff"),
    *("MaxRelativeErr", "MinRelativeErr", "MeanRelativeErr", "NormRelativeErr"),
)
_NAN, _INFINITE, _OTHER = "Nan", "inf", "Diff"


def difference_cells(
    target: Value | None, golden: Value | None, *, is_classic: bool, is_torch: bool = True
) -> list[Cell]:
    """Four differences, target minus golden in the tensor's unit, and four percentages of golden.

    Parameters
    ----------
    target, golden : Value or None
        ``N/A`` in all cells where one is missing.
    is_classic : bool
        Of what is no number a classic release says ``N/A``, a current one 0 where it is the same
        and ``Diff`` where not.
    is_torch : bool
        Of a golden 0 a classic release makes no percentage, ``N/A`` with torch, and with MindSpore
        what dividing gives; a current one says ``inf``.
    """
    if target is None or golden is None:
        return [NOTHING] * len(DIFFERENCES)
    cells = _current
    if is_classic:
        cells = _classic if is_torch else _divided
    pairs = [cells(*both) for both in zip(target.figures, golden.figures, strict=True)]
    return [first for first, _ in pairs] + [second for _, second in pairs]


def _classic(target: Any, golden: Any) -> tuple[Cell, Cell]:
    if not (is_number(target) and is_number(golden)):
        return NOTHING, NOTHING
    difference = target - golden
    if math.isnan(difference):
        return _NAN, _NAN
    if golden == 0:
        return difference, NOTHING
    return difference, _percent(difference, golden)


def _divided(target: Any, golden: Any) -> tuple[Cell, Cell]:
    if is_number(target) and is_number(golden) and golden == 0 and not math.isnan(target):
        return target, _INFINITE if target else _NAN
    return _classic(target, golden)


def _current(target: Any, golden: Any) -> tuple[Cell, Cell]:
    if not (is_number(target) and is_number(golden)):
        return (0, 0) if target == golden else (_OTHER, _OTHER)
    if target == golden or (target != target and golden != golden):
        return 0, 0
    difference = target - golden
    if math.isnan(difference):
        return _NAN, _NAN
    if golden == 0 or math.isinf(difference):
        return difference, _INFINITE
    return difference, _percent(difference, golden)


def _percent(difference: float, golden: float) -> str:
    return f"{abs(difference / golden) * 100}%"


def percentage(cell: Cell) -> float:
    """The share that a percentage says; nan for any other text."""
    if isinstance(cell, str):
        if cell == _INFINITE:
            return math.inf
        return float(cell[:-1]) / 100 if cell.endswith("%") else math.nan
    return float(cell) / 100
