"""Attention scores between recorded calls: products of query and key, their scale and mask."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues
from troubleshooter_nb.analysis.causes.between.layouts_of_heads import views
from troubleshooter_nb.analysis.causes.case import Fit
from troubleshooter_nb.analysis.causes.fits import likely_factor, misfit, ranked
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.metrics.line_search import least_along
from troubleshooter_nb.metrics.operators.attention import window_of

LAST_TOKEN = "causal, and more for the last token"


def score_fits(earlier: EarlierValues) -> list[Fit]:
    """How scores (items, heads, rows, keys) came of a query and a key, or of earlier scores.

    Returns
    -------
    list of Fit
        Settings: ``formula`` "scores", ``sources``, ``orders``, ``scale`` with ``scale_name``,
        ``causal``, ``window`` (as of `fit_attention`), ``mask`` ("none", "causal", `LAST_TOKEN`,
        "other") and ``mask_value`` ("-inf" or a number).
        The residual is over the scores that nothing masks.
    """
    target = earlier.target
    if target.ndim != 4 or min(target.shape[2:]) < 4 or target.size < thresholds.FEWEST_SCORES:
        return []
    hidden = ~np.isfinite(target) | (target < thresholds.MASKED_SCORE)
    if hidden.all() or np.isnan(target).any() or np.isposinf(target).any():
        return []
    said = _mask(target, hidden)
    if said is None:
        return []
    fits = [*_earlier(earlier, hidden, said), *_products(earlier, hidden, said)]
    return ranked(fits, limit=max(12.0 * earlier.floor, 1e-6))


def _mask(target: np.ndarray, hidden: np.ndarray) -> dict[str, Any] | None:
    if not hidden.any():
        return {"mask": "none", "causal": False, "window": "all"}
    values = np.unique(target[hidden])
    # Added masks leave the score on top of the value.
    spread_ = float(np.ptp(values)) if np.isfinite(values).all() else math.inf
    value = float(values[0])
    if values.size > 1 and not spread_ <= 1e-2 * abs(value):
        return None
    rows, keys = target.shape[2:]
    later = np.triu(np.ones((rows, keys), bool), 1)
    is_causal = bool(hidden[..., later].all())
    rest = hidden & ~later
    window = window_of(hidden, is_causal=is_causal)
    kind = "other" if rest.any() or not is_causal else "causal"
    if window:
        kind = "causal" if is_causal else "none"
    elif kind == "other" and is_causal and not rest[..., :-1, :].any():
        kind = LAST_TOKEN
    form = "written" if values.size == 1 else "added"
    number = f"{value:.4g}" if np.isfinite(value) else "-inf"
    said = {"mask": kind, "causal": is_causal, "window": window or "all"}
    return {**said, "mask_form": form, "mask_value": number}


def _scaled(
    earlier: EarlierValues, formula: np.ndarray, wanted: np.ndarray, size: int, said: dict[str, Any]
) -> Iterator[Fit]:
    found = likely_factor(wanted, formula, earlier.roundoff, size, floor=earlier.floor)
    if found is None:
        return
    value, name, width = found
    left = misfit(wanted, value * formula, earlier.roundoff)
    if left > thresholds.BENT_SCORES:
        return
    known = {"formula": "scores", "scale": value, "scale_name": name, "softcap": "none", **said}
    yield Fit(known, left, {"scale": width})
    if left > 12.0 * earlier.floor:
        for scale in {1.0, 1 / math.sqrt(size)}:
            cap, bent = _capped(scale * formula, wanted)
            done = {**known, "scale": scale, "scale_name": "", "softcap": cap}
            yield Fit(done, misfit(wanted, bent, earlier.roundoff))


def _capped(scores: np.ndarray, wanted: np.ndarray) -> tuple[float, np.ndarray]:
    """The soft cap that brings scores nearest to the wanted ones, and what it makes of them."""

    def left(cap: float) -> float:
        return float(np.linalg.norm(cap * np.tanh(scores / cap) - wanted))

    ends, steps = (thresholds.LEAST_CAP, thresholds.LARGEST_CAP), thresholds.CAP_STEPS
    fitted = least_along(left, *ends, steps=steps, rounds=steps)
    # The roundest one that does as well.
    enough = 2.0 * left(fitted)
    rounder = [float(f"{fitted:.{digits}g}") for digits in (1, 2, 3, 4)]
    cap = next((value for value in rounder if left(value) <= enough), fitted)
    return cap, cap * np.tanh(scores / cap)


def _earlier(earlier: EarlierValues, hidden: np.ndarray, said: dict[str, Any]) -> Iterator[Fit]:
    """Scores that were recorded before, scaled or masked since."""
    places = _places(hidden)
    wanted = earlier.target[places].astype(np.float64)
    size = 1
    for source in earlier.sources:
        if source.values.shape != earlier.shape:
            continue
        values = source.values[places].astype(np.float64)
        if np.isfinite(values).all() and (values > thresholds.MASKED_SCORE).all():
            more = {"sources": (source.name,), "orders": ("as it is",), **said}
            yield from _scaled(earlier, values, wanted, size, more)


def _places(hidden: np.ndarray) -> tuple[np.ndarray, ...]:
    free = np.flatnonzero(~hidden)
    chosen = free[spread(len(free), 1 << 13)]
    return np.unravel_index(chosen, hidden.shape)


def _products(earlier: EarlierValues, hidden: np.ndarray, said: dict[str, Any]) -> Iterator[Fit]:
    """Every query and key in heads, at some items and heads."""
    items, heads, rows, keys = earlier.shape
    item, head = items - 1, heads - 1
    free = ~hidden[item, head]
    wanted = earlier.target[item, head][free].astype(np.float64)
    laid = []
    for source in earlier.sources:
        if source.values.ndim == 4 and source.values.shape[:2] == (items, heads):
            laid.append((source.name, "heads", source.values[item, head]))
        elif source.values.ndim == 3 and source.values.shape[:2] == (items, rows):
            width = source.values.shape[2]
            for count in (1, 3):
                if width % (count * heads) == 0 and width // (count * heads) >= 4:
                    shape = (items, heads, rows, width // (count * heads))
                    for order, view in views(source.values.shape, shape):
                        laid.append((source.name, order, view(source.values)[item, head]))
    for (one, order, query), (other, its, key) in itertools.permutations(laid[:12], 2):
        if query.shape[-1] != key.shape[-1] or len(query) != rows or len(key) != keys:
            continue
        # Earlier values that are not finite are no query and no key.
        with np.errstate(over="ignore", invalid="ignore"):
            products = (query.astype(np.float64) @ key.astype(np.float64).T)[free]
        more = {"sources": (one, other), "orders": (order, its), **said}
        yield from _scaled(earlier, products, wanted, query.shape[-1], more)
