"""Whether tensors are moving averages of others, or what an optimizer keeps of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.thresholds import FEWEST_RELATED, FOLLOWS, MOMENTS_BOUND

Pairs = Sequence[tuple[np.ndarray, np.ndarray]]


def follow(pairs: Pairs) -> bool:
    """Whether tensors go with others as moving averages with their weights, and are not the same.

    Parameters
    ----------
    pairs : sequence of two ndarrays
        Values of a tensor, and of the one that it may be an average of, in equal shapes. Tensors
        of few values are looked at together; constant ones say nothing.

    Returns
    -------
    bool
        False where all are equal, where anything is not finite, and where nothing can be said.
    """
    telling = [(one, other) for one, other in pairs if np.ptp(other) > 0] if _finite(pairs) else []
    if not telling or all(np.array_equal(one, other) for one, other in telling):
        return False
    large = [pair for pair in telling if pair[0].size >= FEWEST_RELATED]
    if not large:
        one, other = (
            np.concatenate([pair[side].reshape(-1) for pair in telling]) for side in (0, 1)
        )
        large = [(one, other)] if one.size >= FEWEST_RELATED else []
    found = [_correlation(one, other) for one, other in large]
    return bool(found) and float(np.median(found)) >= FOLLOWS


def are_moments(pairs: Pairs) -> bool:
    """Whether tensors can be the first and the second moments of the same gradients.

    Of averages of g and of g * g with the usual decays, the square of the first is nowhere more
    than 53 times the second (Cauchy and Schwarz), which is nowhere negative.

    Parameters
    ----------
    pairs : sequence of two ndarrays
        Values of what may be a first and a second moment, in equal shapes.

    Returns
    -------
    bool
        False where nothing is above zero, or anything is not finite.
    """
    if not _finite(pairs) or not any(np.any(second > 0) for _, second in pairs):
        return False
    return all(
        np.all(second >= 0) and np.all(first * first <= MOMENTS_BOUND * second)
        for first, second in pairs
    ) and any(np.any(first < 0) for first, _ in pairs)


def are_positive(arrays: Sequence[np.ndarray], *, or_zero: bool = False) -> bool:
    """Whether no value is negative or, unless said otherwise, zero; False for none at all."""
    return bool(arrays) and all(
        bool(np.all(one >= 0 if or_zero else one > 0)) and one.size > 0 for one in arrays
    )


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Of Pearson, of finite values; 0 where one of them is constant."""
    mine, theirs = (values.reshape(-1) - values.mean() for values in (one, other))
    scales = np.abs(mine).max(), np.abs(theirs).max()
    if not all(scales):
        return 0.0
    mine, theirs = mine / scales[0], theirs / scales[1]
    return float(mine @ theirs / np.sqrt((mine @ mine) * (theirs @ theirs)))


def _finite(pairs: Pairs) -> bool:
    return all(np.isfinite(one).all() and np.isfinite(other).all() for one, other in pairs)
