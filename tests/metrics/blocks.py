"""Partials of every block of two arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.pairwise import pair_partial
from troubleshooter_nb.metrics.partial import Partial


def pair_blocks(
    actual: np.ndarray, benchmark: np.ndarray, *, block: int, **tolerance: Any
) -> Iterator[Partial]:
    """`pair_partial` of every block of two arrays in memory, at least one."""
    actual, benchmark = actual.reshape(-1), benchmark.reshape(-1)
    for start in range(0, max(len(actual), 1), block):
        stop = start + block
        yield pair_partial(actual[start:stop], benchmark[start:stop], start, **tolerance)
