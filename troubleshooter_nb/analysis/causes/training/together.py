"""What the gradients of several steps or ranks show together, and those of one alone do not."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.gradients import (
    Ratio,
    common_factor,
    detect_gradients,
)
from troubleshooter_nb.dump import StepRank
from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import CLIPPED_SPREAD, NORMS_VARY, WEIGHTS_MEAN

_SIDES = ("left", "right")
Places = Mapping[StepRank, Sequence[Ratio]]


def detect_together(places: Places, context: Mapping[str, Any]) -> list[Suspicion]:
    """Causes that act on the parameter gradients of every step and rank.

    Parameters
    ----------
    places : mapping of (step, rank) to sequence of Ratio
        Every parameter-gradient pair, of each step and rank.
    context : mapping
        As `detect_gradients` takes it.

    Returns
    -------
    list of Suspicion
        Of each step and rank by itself, but where all of them say more: of gradient_clipping and
        loss_weights.
    """
    norms = {place: _norms(ratios) for place, ratios in places.items()}
    limits = [limit for limit in (_limit(norms, side) for side in (0, 1)) if limit is not None]
    if limits:
        known = np.atleast_1d(np.asarray(context.get("clip", []), float)).tolist()
        context = {**context, "clip": [*known, *limits]}
    steps: dict[int, list[StepRank]] = defaultdict(list)
    for place in sorted(places):
        steps[place[0]].append(place)
    for ranks in steps.values():
        # Parts of one network on ranks, or of one batch.
        found = _clipped_by_rank(ranks, places, norms) or _weighted(ranks, places, context)
        if found := found or _clipped_by_all(ranks, places, context):
            return [found]
    if found := _weighted([ranks[0] for ranks in steps.values()], places, context):
        return [found]
    return [one for ratios in places.values() for one in detect_gradients(ratios, context)]


def _norms(ratios: Sequence[Ratio]) -> tuple[float, float]:
    """Norm of all gradients of a step and rank, left and right; nan where one is not known."""
    left, right = (
        math.sqrt(sum(getattr(one, f"{side}_l2") ** 2 for one in ratios)) for side in _SIDES
    )
    return left, right


def _limit(norms: Mapping[StepRank, tuple[float, float]], side: int) -> float | None:
    """The one norm that a side has at several places, where the other side has another at each."""
    own, other = (np.array([one[n] for one in norms.values()]) for n in (side, 1 - side))
    if len(own) < 2 or not np.isfinite([own, other]).all() or not (own > 0).all():
        return None
    is_one = np.ptp(own) <= CLIPPED_SPREAD * own.max()
    return float(own.mean()) if is_one and np.ptp(other) > NORMS_VARY * other.max() else None


def _clipped_by_rank(
    ranks: Sequence[StepRank], places: Places, norms: Mapping[StepRank, tuple[float, float]]
) -> Suspicion | None:
    """Ranks that each clip by their own norm on one side, and by that of all on the other.

    That of all is at the limit on the other side; here each rank's is, or its factor is that of
    those which were not clipped.
    """
    found = [common_factor(places[place], {}) for place in ranks]
    proofs = [one for one in found if one is not None]
    if len(ranks) < 2 or len(proofs) < len(ranks):
        return None
    here = np.array([norms[place] for place in ranks])
    factors = np.array([float(one.evidence["factor"]) for one in proofs])
    for side, word in enumerate(_SIDES):
        limit = float(np.linalg.norm(here[:, 1 - side]))
        ours = factors if side == 0 else 1 / factors
        at_limit = np.abs(here[:, side] / limit - 1) <= CLIPPED_SPREAD
        is_whole = np.abs(ours / ours.max() - 1) <= CLIPPED_SPREAD
        if not at_limit.any() or not (at_limit | is_whole).all():
            continue
        off = float(np.abs(here[at_limit, side] / limit - 1).max())
        limit = float(f"{limit:.4g}")
        said = [Message("evidence.clipped_norm", limit=limit)] * 2
        said[side] = Message("evidence.clipped_by_rank", limit=limit)
        evidence = {
            **dict(zip(_SIDES, said, strict=True)),
            **{"clipped": word, "limit": limit, "form": "rank", "ranks": len(ranks)},
            "factors": factors.tolist(),
        }
        return _of_all(proofs, "gradient_clipping", off, evidence)
    return None


def _clipped_by_all(
    ranks: Sequence[StepRank], places: Places, context: Mapping[str, Any]
) -> Suspicion | None:
    """Ranks that hold parts of one network, whose norms together are cut to a limit."""
    if len(ranks) < 2:
        return None
    found = common_factor([one for place in ranks for one in places[place]], context)
    return found if found is not None and found.cause == "gradient_clipping" else None


def _weighted(
    together: Sequence[StepRank], places: Places, context: Mapping[str, Any]
) -> Suspicion | None:
    """Factors that differ and are 1 in the mean: parts of one batch that have other weights.

    With n_i tokens in part i of m, a mean over all tokens gives part i the weight n_i / sum(n), a
    mean of means 1 / m: of the quotients of both the mean is 1, and so it is of no other scales.
    """
    found = [common_factor(places[place], context) for place in together]
    proofs = [one for one in found if one is not None]
    # One part may have the weight that it has anyhow.
    if len(together) < 2 or not proofs or any(one.cause == "gradient_clipping" for one in proofs):
        return None
    factors = np.array([1.0 if one is None else float(one.evidence["factor"]) for one in found])
    precision = max(max(one.residual, one.floor) for one in proofs)
    near = max(WEIGHTS_MEAN, precision)
    if np.ptp(factors) <= 100 * near or len(proofs) + 1 < len(together):
        return None
    for side, weights in (("left", factors), ("right", 1 / factors)):
        # Gradients that are summed over ranks later have the number of parts in them.
        mean = float(weights.mean())
        off = min(abs(mean * parts - 1) for parts in (1, len(together)))
        if off > near:
            continue
        shown = ", ".join(f"{weight / mean:.4g}" for weight in weights[:8])
        said = [Message("evidence.weights_alike")] * 2
        said[_SIDES.index(side)] = Message("evidence.weights_of_tokens", weights=shown)
        evidence = {
            **dict(zip(_SIDES, said, strict=True)),
            **{"weighted": side, "weights": (weights / mean).tolist(), "parts": len(together)},
            "factors": factors.tolist(),
        }
        return _of_all(proofs, "loss_weights", off, evidence, precision / 4)
    return None


def _of_all(
    proofs: Sequence[Suspicion],
    cause: str,
    off: float,
    evidence: Mapping[str, Any],
    floor: float = 0.0,
) -> Suspicion:
    """What is proved of all steps or ranks together, which is `off` from exact."""
    first = max(proofs, key=lambda one: one.before)
    residual = max(off, *(one.residual for one in proofs))
    floor = max(first.floor, floor, 1e-6)
    return replace(first, cause=cause, share=1.0, residual=residual, floor=floor, evidence=evidence)
