"""The place along a line where a loss is least."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def least_along(
    loss: Callable[[float], float], low: float, high: float, *, steps: int, rounds: int
) -> float:
    """The number between two positive ones that has the least loss.

    Parameters
    ----------
    loss : callable
        Of a number, with one valley between two steps of the grid; nan counts as inf.
    low, high : float, > 0
        Searched in powers: a grid of `steps` numbers with even ratios.
    steps, rounds : int
        `rounds` golden sections narrow the neighbourhood of the best number of the grid: each to
        0.62 of its width, on a logarithmic scale.

    Returns
    -------
    float
        In the middle of the last section.
    """

    def at(power: float) -> float:
        value = loss(math.exp(power))
        return value if not math.isnan(value) else math.inf

    grid = np.linspace(math.log(low), math.log(high), steps).tolist()
    best = min(range(steps), key=lambda place: at(grid[place]))
    left, right = grid[max(best - 1, 0)], grid[min(best + 1, steps - 1)]
    inner = [right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)]
    losses = [at(power) for power in inner]
    for _ in range(rounds):
        # Of the two inner places one stays, so that each round asks once.
        if losses[0] < losses[1]:
            right = inner[1]
            inner = [right - _GOLDEN * (right - left), inner[0]]
            losses = [at(inner[0]), losses[0]]
        else:
            left = inner[0]
            inner = [inner[1], left + _GOLDEN * (right - left)]
            losses = [losses[1], at(inner[1])]
    return math.exp((left + right) / 2.0)
