"""Attention in float64 at some of its rows."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.metrics.float_formats import in_format


def scores(query: np.ndarray, key: np.ndarray, *, operands: str = "exact") -> np.ndarray:
    """Products of queries (..., rows, size) and keys (..., keys, size), float64."""
    return np.asarray(in_format(query, operands) @ in_format(key, operands).swapaxes(-1, -2))


def causal(rows: np.ndarray, queries: int, keys: int, corner: str) -> np.ndarray:
    """Which keys each of the queries `rows` may see, shape (rows, keys).

    Parameters
    ----------
    corner : {"top left", "bottom right"}
        Where the diagonal starts or ends if there are not as many keys as queries: at the first
        of both, or at the last of both.
    """
    shift = keys - queries if corner == "bottom right" else 0
    return np.asarray(np.arange(keys) <= rows[:, None] + shift)


def window_of(hidden: np.ndarray, *, is_causal: bool) -> int:
    """Keys that every query sees up to its own; 0 where they are all, or not as many for each.

    Parameters
    ----------
    hidden : ndarray of bool, shape (..., rows, keys)
        Which keys a query does not see.
    is_causal : bool
        Whether later keys are hidden, and not those as far away as the earlier ones.
    """
    rows, keys = hidden.shape[-2:]
    back = np.arange(rows)[:, None] - np.arange(keys)
    apart = back if is_causal else np.abs(back)
    seen = back[(hidden & (back >= 0)).any(tuple(range(hidden.ndim - 2)))]
    width = int(seen.min(initial=rows))
    # Of one that the last query alone has, another reason is as likely.
    if not 0 < width < rows - 1:
        return 0
    expected = (apart >= width) | (is_causal & (back < 0))
    return width if bool((hidden == expected).all()) else 0


def probabilities(scores_: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Softmax over the last axis of what is seen; nan in rows that see nothing."""
    if seen is not None:
        scores_ = np.where(seen, scores_, -np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        powers = np.exp(scores_ - scores_.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def capped(scores_: np.ndarray, cap: float) -> np.ndarray:
    """Scores bent towards plus and minus `cap` by a hyperbolic tangent; as they are for inf."""
    return scores_ if np.isinf(cap) else np.asarray(cap * np.tanh(scores_ / cap))
