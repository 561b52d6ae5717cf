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
