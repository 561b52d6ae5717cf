"""Statistics of the shards of one tensor: whether they are equal, and those of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence

from troubleshooter_nb.dump import Entry

_COUNTS = ("nan_count", "inf_count", "zero_count")


def same_statistics(group: Sequence[Entry]) -> bool:
    """Whether tensors without values are the same, as far as digests and statistics tell.

    Never where none of either is known.
    """
    first = group[0]
    if not first.statistics and not first.digest:
        return bool(first.shape and not math.prod(first.shape)) and _alike(group)
    return _alike(group)


def _alike(group: Sequence[Entry]) -> bool:
    facts = [
        (one.shape, one.dtype, one.digest, dict(one.statistics), one.fingerprint) for one in group
    ]
    return all(fact == facts[0] for fact in facts[1:])


def combined(group: Sequence[Entry]) -> dict[str, float]:
    """Statistics of the tensor that these are laid side by side to; of what all of them know.

    Extremes and mean of a tensor without elements, or without a finite one, are none and do not
    count.
    """
    sizes = [math.prod(one.shape or ()) for one in group]
    statistics = {
        name: sum(one.statistics[name] for one in group)
        for name in _COUNTS
        if all(name in one.statistics for one in group)
    }
    finite = [
        size - sum(max(one.statistics.get(name, 0), 0) for name in _COUNTS[:2])
        for size, one in zip(sizes, group, strict=True)
    ]
    counted = [(one, count) for one, count in zip(group, finite, strict=True) if count > 0]
    known = {
        name
        for name in ("min", "max", "mean")
        if counted and all(name in one.statistics for one, _ in counted)
    }
    if "min" in known:
        statistics["min"] = min(one.statistics["min"] for one, _ in counted)
    if "max" in known:
        statistics["max"] = max(one.statistics["max"] for one, _ in counted)
    if "mean" in known:
        total = math.fsum(count for _, count in counted)
        # Weights first: the sum of large means overflows.
        statistics["mean"] = math.fsum(
            one.statistics["mean"] * (count / total) for one, count in counted
        )
    if all("l2" in one.statistics for one in group):
        statistics["l2"] = math.hypot(*(one.statistics["l2"] for one in group))
    return statistics
