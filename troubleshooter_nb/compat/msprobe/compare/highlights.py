"""The colours of rows in the tables of the older releases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from troubleshooter_nb.compat.msprobe.compare.differences import percentage
from troubleshooter_nb.compat.msprobe.compare.metrics import ZERO
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.rows import Mode, Row
from troubleshooter_nb.compat.msprobe.compare.values import is_number
from troubleshooter_nb.compat.msprobe.compare.verdicts import calls_of
from troubleshooter_nb.messages import Message

# Where the numbers come from: tables of msprobe 1.2.2 and 8.3.3.
_HUGE = 1e10
_GOOD_RATIO, _BAD_RATIO, _RATIO_DROP, _COSINE_DROP = 0.9, 0.6, 0.1, 0.1
_LARGE, _ORDER = 1.0, 1
_FAR_MAX, _FAR, _NEAR = 0.5, 0.1, 0.01
_EPS = float(np.finfo(np.float64).eps)


def highlight(rows: Sequence[Row], release: Release, mode: Mode) -> None:
    """Enter the colour of every row, and why.

    Red where a value is not finite or huge, and where the outputs of a call are much worse than
    its inputs; yellow where they are worse. Source: msprobe 1.2.2 and 8.3.3.
    """
    if mode == "md5":
        return
    for call in calls_of(rows):
        for row in call:
            _by_itself(row, mode)
        inputs = [row for row in call if not row.pair.value.is_output]
        for output in (row for row in call if row.pair.value.is_output):
            if mode == "statistics":
                _statistics(inputs, output, skips_zeros=release.has_gradient_flags)
            elif _has_numbers(output, release):
                _tensors(inputs, output)
        if release.has_gradient_flags:
            for row in call:
                _flags(row)


def _by_itself(row: Row, mode: Mode) -> None:
    values = [value for value in row.sides[:1] if value is not None]
    bounds = [one for value in values for one in value.figures[:2]]
    if any(isinstance(one, float) and math.isinf(one) for one in bounds):
        _color(row, "red", "msprobe_compare.red_nonfinite")
    largest = row.number("MaxAbsErr") if mode == "tensor" else _number(row.differences[:1])
    if largest is not None and abs(largest) > _HUGE:
        _color(row, "red", "msprobe_compare.red_huge")


def _tensors(inputs: Sequence[Row], output: Row) -> None:
    ratio = output.number("One Thousandth Err Ratio")
    before = _numbers(inputs, "One Thousandth Err Ratio")
    if ratio is not None and before:
        if ratio < _BAD_RATIO and max(before) > _GOOD_RATIO:
            _color(output, "red", "msprobe_compare.red_ratio")
        elif max(before) - ratio > _RATIO_DROP:
            _color(output, "yellow", "msprobe_compare.yellow_ratio")
    largest, others = output.number("MaxAbsErr"), _numbers(inputs, "MaxAbsErr")
    if largest is not None and others and _is_order_above(largest, max(others)):
        _color(output, "yellow", "msprobe_compare.yellow_error")
    cosine, cosines = output.metric("Cosine"), _numbers(inputs, "Cosine")
    if not isinstance(cosine, str) and cosines and max(cosines) - cosine > _COSINE_DROP:
        _color(output, "yellow", "msprobe_compare.yellow_cosine")


def _is_order_above(largest: float, before: float) -> bool:
    if largest <= _LARGE:
        return False
    return math.log10(largest) - math.log10(max(before, 1e-10)) >= _ORDER


def _has_numbers(row: Row, release: Release) -> bool:
    """Whether the old tools look further: not at what is empty, nor where the largest is NaN."""
    value = row.pair.value
    if row.trouble == "empty" or not value.figures:
        return False
    largest = value.figures[0]
    if isinstance(largest, bool):
        return not release.has_gradient_flags
    return is_number(largest) and not math.isnan(largest)


def _statistics(inputs: Sequence[Row], output: Row, *, skips_zeros: bool) -> None:
    target, golden = output.sides
    if target is None or golden is None:
        return
    difference = _number(output.differences[:1])
    bound = golden.figures[0]
    if difference is not None and is_number(bound) and not (skips_zeros and bound == 0):
        error = abs(difference) / (abs(bound) if skips_zeros else max(_EPS, abs(bound)))
        if error > _FAR_MAX:
            _color(output, "red", "msprobe_compare.red_far")
            return
        before = [_max_error(row) for row in inputs]
        if error > _FAR and any(one < _NEAR for one in before):
            _color(output, "yellow", "msprobe_compare.yellow_far")


def _max_error(row: Row) -> float:
    return percentage(row.differences[len(row.differences) // 2]) if row.differences else math.nan


def _flags(row: Row) -> None:
    flags = [value.requires_grad if value else "N/A" for value in row.sides]
    if flags[0] != flags[1]:
        _color(row, "yellow", "msprobe_compare.yellow_flag")


def _color(row: Row, color: str, id: str) -> None:
    if row.color != "red":
        row.color = "red" if color == "red" else "yellow"
    note = Message(id)
    if note not in row.notes:
        row.notes.append(note)


def _number(cells: Sequence[object]) -> float | None:
    return float(cells[0]) if cells and is_number(cells[0]) else None  # type: ignore[arg-type]


def _numbers(rows: Iterable[Row], name: str) -> list[float]:
    return [
        number
        for row in rows
        if row.metric(name) != ZERO and (number := row.number(name)) is not None
    ]
