"""Which indices of an axis, or which tokens of which samples, in as few numbers as they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.thresholds import FEWEST_STEPS_OF_SET, MOST_INDICES_TOLD, NEARLY_A_RUN


def described(indices: np.ndarray, size: int) -> dict[str, Any]:
    """A set of indices of an axis.

    Parameters
    ----------
    indices : ndarray of int, shape (n,)
        In ascending order, one at least.
    size : int
        Of the axis.

    Returns
    -------
    dict
        ``form``: "one", "first", "last" or "run" (nearly all from ``start`` to before ``stop``),
        "every" (from ``start`` on, ``step`` apart, to the end) or "some"; ``count``, ``size``,
        and as ``indices`` the first few of them.
    """
    start, stop, count = int(indices[0]), int(indices[-1]) + 1, len(indices)
    steps = np.unique(np.diff(indices))
    form, step = "some", 1
    if count == 1:
        form = "one"
    elif count >= NEARLY_A_RUN * (stop - start):
        form = "first" if start == 0 else "last" if stop == size else "run"
        count = stop - start
    elif len(steps) == 1 and count >= FEWEST_STEPS_OF_SET:
        step = int(steps[0])
        if start < step and stop + step > size:
            form = "every"
    return {
        "form": form,
        "size": size,
        "count": count,
        "start": start,
        "stop": stop,
        "step": step,
        "indices": indices[:MOST_INDICES_TOLD].tolist(),
    }


def by_sample(places: np.ndarray) -> dict[str, Any]:
    """Tokens of samples, each with its own.

    Parameters
    ----------
    places : ndarray of bool, shape (samples, tokens)

    Returns
    -------
    dict
        ``count`` of all tokens, ``samples`` that have one, and of the first few of these the number
        and what `described` says of its tokens, as ``lists``.
    """
    rows = np.flatnonzero(places.any(1))
    few: Sequence[int] = rows[: MOST_INDICES_TOLD // 2].tolist()
    lists = [[row, described(np.flatnonzero(places[row]), places.shape[1])] for row in few]
    sizes = [int(size) for size in places.shape]
    return {"count": int(places.sum()), "samples": len(rows), "sizes": sizes, "lists": lists}
