"""Whether an attention that nothing recorded hides some tokens from all queries, by its values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.between.attention_between import Structure, structures
from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues
from troubleshooter_nb.analysis.causes.fits import misfit
from troubleshooter_nb.metrics.operators.attention import causal, probabilities


def hides_keys(earlier: EarlierValues, hidden: np.ndarray) -> bool:
    """Whether the target is an attention in which no query sees these tokens, not even its own.

    What sees its own key is a token of a text, though another text beside it may not see it.

    Parameters
    ----------
    earlier : EarlierValues
        Its target has shape (samples, tokens, features).
    hidden : ndarray of bool, shape (samples, tokens)
        None of them may be visible; all of them have to show if they were.

    Returns
    -------
    bool
        False as well where the attention is not the plain one, or too large to be computed whole.
    """
    if earlier.sampled is not None or earlier.shape[:2] != hidden.shape or earlier.target.ndim != 3:
        return False
    limit = thresholds.ATTENTION_FLOORS * earlier.floor
    for structure in itertools.islice(structures(earlier), thresholds.STRUCTURES):
        items, heads, rows, size = structure.query.shape
        if items * heads * rows * rows > thresholds.PART_ELEMENTS:
            return False
        target = earlier.target.reshape(items, rows, heads, size).swapaxes(1, 2)
        for scores, value, seen in _ways(structure, hidden):
            if _left(target[:, :1], scores[:, :1], value[:, :1], seen) > limit:
                continue
            if _left(target, scores, value, seen) > limit:
                continue
            clear = thresholds.CLEARLY_WORSE * limit
            return _see_nothing(target, value, seen, limit) and all(
                _left(target, scores, value, one) > clear for one in _each_shown(seen, hidden)
            )
    return False


def _ways(
    structure: Structure, hidden: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Scores and values of all heads, and what each query sees, by scale, groups and direction."""
    heads, shared = structure.query.shape[1], structure.key.shape[1]
    rows, size = structure.query.shape[2:]
    groups = {tuple(np.arange(heads) * shared // heads), tuple(np.arange(heads) % shared)}
    later = np.asarray(causal(np.arange(rows), rows, rows, "top left"))
    for group in sorted(groups):
        key, value = (
            one[:, list(group)].astype(np.float64) for one in (structure.key, structure.value)
        )
        raw = structure.query.astype(np.float64) @ key.swapaxes(-1, -2)
        for scale in (1 / math.sqrt(size), 1.0, 1 / size):
            for allowed in (later, np.ones_like(later)):
                yield scale * raw, value, allowed & ~hidden[:, None, None, :]


def _each_shown(seen: np.ndarray, hidden: np.ndarray) -> Iterator[np.ndarray]:
    """What queries would see if one of the tokens, whose query sees others, saw itself."""
    for item, token in np.argwhere(hidden & seen.any(-1)[:, 0]):
        shown = seen.copy()
        shown[item, 0, token, token] = True
        yield shown


def _see_nothing(target: np.ndarray, value: np.ndarray, seen: np.ndarray, limit: float) -> bool:
    """Whether queries from which all is hidden gave what a softmax makes of that.

    NaN, zeros, or the mean of all values: what they would see among themselves is another one.
    """
    blind = np.broadcast_to(~seen.any(-1), target.shape[:-1])
    made = target[blind].astype(np.float64)
    if np.isnan(made).all() or not made.any():
        return True
    mean = np.broadcast_to(value.mean(2, keepdims=True), target.shape)[blind]
    return bool(np.isfinite(made).all()) and misfit(made, mean) <= limit


def _left(target: np.ndarray, scores: np.ndarray, value: np.ndarray, seen: np.ndarray) -> float:
    """Relative error of the attention, at the queries that see anything."""
    sees = np.broadcast_to(seen.any(-1), target.shape[:-1])
    formula = probabilities(scores, seen) @ value
    return misfit(target[sees].astype(np.float64), formula[sees])
