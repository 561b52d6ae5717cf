"""Numbers that rows of equal values share, so that what was passed on is known again."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.summary import magnitudes
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import MARK_RUNS, MARK_SAMPLE, TIES_SAMPLE

_SIDES = ("left", "right")
_VALUE = ("min", "max", "l2")
# Of the left and the right side; None for constants and for values that nothing is known of.
Mark = tuple[int | None, int | None]


class Marks:
    """Tells rows of a comparison whose values are equal on a side, by figures or a digest.

    Parameters
    ----------
    result : Table
        The columns of the comparison.
    dumps : sequence of Dump
        Left, right. What was not compared, as its partner has another shape, has no figures: each
        side is read for them, once, where `of` is asked; of large ones `MARK_SAMPLE` elements.
    """

    def __init__(self, result: Table, dumps: Sequence[Dump]) -> None:
        self._result, self._dumps = result, dumps
        self._numbers: dict[Any, int] = {}
        columns = [[f"{side}_{name}" for name in _VALUE] for side in _SIDES]
        self._figures = [[*result.rows(*names)] for names in columns]

    def of(self, row: int, among: tuple[Any, ...]) -> Mark:
        """The number of the values of each side, equal for equal values of a side `among` alike.

        Parameters
        ----------
        row : int
        among : tuple
            What must be equal besides: step, rank, direction.
        """
        left, right = self._number(row, 0, among), self._number(row, 1, among)
        return left, right

    def _number(self, row: int, side: int, among: tuple[Any, ...]) -> int | None:
        key = self._key(row, side)
        return key and self._numbers.setdefault((side, among, key), len(self._numbers))

    def _key(self, row: int, side: int) -> Any:
        """What is equal for equal values; None for constants and unknowns."""
        low, high, norm = self._figures[side][row]
        if math.isnan(low) and self._result["verdict"][row] == "shape":
            low, high, norm = self._summary(row, side)
        if math.isnan(low):
            return str(self._result[f"{_SIDES[side]}_digest"][row]) or None
        # Sums of the same values in another layout differ in the last bits.
        return (low, high, f"{norm:.9e}") if low < high else None

    def _summary(self, row: int, side: int) -> tuple[float, float, float]:
        """Ends and norm of the finite values, as they would stand in the result."""
        source = self._dumps[side].sources[int(self._result[f"{_SIDES[side]}_entry"][row])]
        if source is not None:
            with contextlib.suppress(ReadError):
                values = magnitudes(computable(_some(source)))
                values = values[np.isfinite(values)]
                if len(values):
                    return float(values.min()), float(values.max()), float(np.linalg.norm(values))
        return math.nan, math.nan, math.nan


def _some(source: ArraySource) -> np.ndarray:
    """All values of a small tensor, of a large one runs that are spread over it; shape (n,)."""
    size, run = math.prod(source.shape), MARK_SAMPLE // MARK_RUNS
    if size <= TIES_SAMPLE:
        return source.read(0, size)
    starts = spread(size - run + 1, MARK_RUNS).tolist()
    return read_rows(source, starts, run).reshape(-1)
