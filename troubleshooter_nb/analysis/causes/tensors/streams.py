"""All elements of tensors of any size, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import Budget
from troubleshooter_nb.dump import ArraySource, read_in, reading
from troubleshooter_nb.metrics.floats import computable


def streamed(
    sources: Sequence[ArraySource],
    budget: Budget | None,
    *,
    width: int = 1,
    start: int = 0,
    size: int | None = None,
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Flat stored values of several tensors, block by block, with the place of the first.

    Parameters
    ----------
    sources : sequence of ArraySource
        Of as many elements, or of `size` at least.
    budget : Budget or None
        All of it must fit when the first block is asked for; a block counts when it is read.
    width : int
        Blocks hold whole rows of so many elements.
    start, size : int
        Where they begin, and how many elements are read of each; default all.

    Yields
    ------
    int, list of ndarray
        In dtypes numpy computes with; in memory that the next block overwrites.
    """
    stop = math.prod(sources[0].shape) if size is None else start + size
    if budget is not None:
        budget.require(len(sources) * (stop - start))
    step = max(thresholds.LARGE_BLOCK // width, 1) * width
    memory = [np.empty(min(step, max(stop - start, 0)), source.dtype) for source in sources]
    with ExitStack() as stack:
        opened = [stack.enter_context(reading(source)) for source in sources]
        for first in range(start, stop, step):
            parts = [one[: min(step, stop - first)] for one in memory]
            if budget is not None:
                budget.charge(sum(map(len, parts)))
            for part, source in zip(parts, opened, strict=True):
                read_in(part, source, first)
            yield first, [computable(part) for part in parts]
