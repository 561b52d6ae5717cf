"""One factor for every parameter gradient of a step, and gradients that one side does not have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.factors import UNNAMED, Name, names_of, usual_number
from troubleshooter_nb.messages import Message
from troubleshooter_nb.thresholds import (
    FEWEST_GRADIENTS,
    FEWEST_SATURATED,
    GRADIENT_RESIDUE,
    GRADIENT_UNDONE,
    STRAY_GRADIENTS,
)


@dataclass(frozen=True)
class Ratio:
    """What figures say of one parameter's gradient on both sides.

    Attributes
    ----------
    pair : int
        Number of the pair in the comparison.
    name : str
        Of the parameter.
    factor : float
        <left, right> / <right, right>, which is cosine * left_l2 / right_l2; nan where a side is
        zero or absent.
    misfit : float
        sqrt(1 - cosine**2): what no factor removes, over the norm of the left side.
    size : int
        Elements.
    noise : float
        Norm of what rounding may leave, over the norm of the right side.
    left_l2, right_l2 : float
        Norms; 0 for a gradient of zeros, nan where that side has none or it was not measured.
    left_largest, right_largest : float
        Largest absolute values; nan as norms.
    """

    pair: int
    name: str
    factor: float
    misfit: float
    size: int
    noise: float
    left_l2: float = math.nan
    right_l2: float = math.nan
    left_largest: float = math.nan
    right_largest: float = math.nan

    @classmethod
    def of_figures(
        cls,
        pair: int,
        name: str,
        *,
        cosine: float,
        left_l2: float,
        right_l2: float,
        size: int,
        noise: float,
        left_largest: float = math.nan,
        right_largest: float = math.nan,
    ) -> Ratio:
        """From the figures of a comparison."""
        proper = left_l2 > 0 and right_l2 > 0
        factor = cosine * left_l2 / right_l2 if proper else math.nan
        misfit = math.sqrt(max(1.0 - cosine * cosine, 0.0)) if proper else math.nan
        largest = left_largest, right_largest
        return cls(pair, name, factor, misfit, size, noise, left_l2, right_l2, *largest)


def detect_gradients(gradients: Sequence[Ratio], context: Mapping[str, Any]) -> list[Suspicion]:
    """Causes that act on the parameter gradients of a step as a whole, from figures alone.

    Parameters
    ----------
    gradients : sequence of Ratio
        Every parameter-gradient pair of one step.
    context : mapping
        What is known of the runs; each value a number or a sequence of numbers (say one per
        side): ``world_size``, ``accumulation``, ``batch``, ``sequence``, ``tokens``,
        ``loss_scale``, ``clip``. Everything may be missing.

    Returns
    -------
    list of Suspicion
        Of loss_reduction, world_size_scale, loss_scale_left, gradient_clipping, frozen_part.
    """
    found = []
    common = common_factor(gradients, context)
    if common is not None:
        found.append(common)
    else:
        found += _clipped_each(gradients) or _clipped_values(gradients)
    return found + _frozen(gradients)


def common_factor(gradients: Sequence[Ratio], context: Mapping[str, Any]) -> Suspicion | None:
    """What one factor on all gradients of a step is likely to be; None where there is none."""
    usable = [one for one in gradients if math.isfinite(one.factor) and one.size > 0]
    if len(usable) < FEWEST_GRADIENTS:
        return None
    weights = _weights(usable)
    factors = np.array([one.factor for one in usable])
    misfits = np.array([min(one.misfit, 1.0) for one in usable])
    noises = np.array([one.noise for one in usable])
    factor = _weighted_median(factors, weights)
    if not factor > 0:
        return None  # no count, scale or clip turns a gradient round
    left = _distances(factors, misfits, factor) / abs(factor)
    one = _distances(factors, misfits, 1.0)
    residual, before, floor = (
        math.sqrt(float((weights * values**2).sum())) for values in (left, one, noises)
    )
    # Each tensor by itself obeys, or is too small to say.
    obeys = left <= np.maximum(4.0 * np.maximum(noises, floor), GRADIENT_UNDONE * one) + 1e-12
    if float(weights[~obeys].sum()) > STRAY_GRADIENTS or obeys.sum() < FEWEST_GRADIENTS:
        return None
    if before <= 4.0 * max(floor, residual):
        return None
    # The factor is known better than any one element, whatever rounding may do to those.
    precision = max(residual / 2, floor / 64, 1e-9)
    clip = _global_clip(usable, factor, precision, context)
    named = names_of(factor, precision, context)
    names = [clip, *named] if clip else named
    return _factor_finding(names, factor, (before, residual, floor), usable, int(obeys.sum()))


def _factor_finding(
    names: list[Name],
    factor: float,
    figures: tuple[float, float, float],
    usable: list[Ratio],
    obeying: int,
) -> Suspicion:
    before, residual, floor = figures
    first = names[0]
    evidence = {
        "factor": factor,
        "inverse": 1.0 / factor,
        "name": first.name,
        "side": "left" if abs(factor) > 1 else "right",
        "names": [name.name for name in names],
        "tensors": obeying,
        "of": len(usable),
        **first.facts,
    }
    independent = sum(one.size for one in usable) - 1
    # A factor that no number explains may be a clipping, whose limit need not be round.
    share = 0.5 if first.name == UNNAMED else 1.0
    return Suspicion(
        *(first.cause, before, residual, before, floor, evidence, usable[0].pair, independent),
        share=share,
    )


def _weights(usable: Sequence[Ratio]) -> np.ndarray:
    """Share of each tensor in the squared norm of the right side; equal where unknown."""
    squares = np.array([one.right_l2**2 for one in usable])
    if not np.isfinite(squares).all() or not squares.sum() > 0:
        squares = np.ones(len(usable))
    shares: np.ndarray = squares / squares.sum()
    return shares


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    reached = np.searchsorted(np.cumsum(weights[order]), 0.5)
    return float(values[order][min(int(reached), len(values) - 1)])


def _distances(factors: np.ndarray, misfits: np.ndarray, factor: float) -> np.ndarray:
    """Norm of left - factor * right over the norm of the right side, of each tensor."""
    cosines: np.ndarray = np.sqrt(np.maximum(1.0 - misfits**2, 1e-30))
    apart: np.ndarray = np.hypot(factors - factor, factors * misfits / cosines)
    return apart


def _global_clip(
    usable: Sequence[Ratio], factor: float, precision: float, context: Mapping[str, Any]
) -> Name | None:
    """The name of a factor that brings the norm of all gradients of one side to a limit."""
    left, right = (
        math.sqrt(sum(getattr(one, f"{side}_l2") ** 2 for one in usable))
        for side in ("left", "right")
    )
    if not (math.isfinite(left) and math.isfinite(right)) or factor <= 0:
        return None
    side, norm, whole = ("left", left, right) if factor < 1 else ("right", right, left)
    limit = _limit(norm, precision, context)
    if limit is None or whole <= limit:
        return None
    facts = {"limit": limit, "norm": norm, "other_norm": whole, "clipped": side, "form": "global"}
    return Name("gradient_clipping", Message("evidence.clipped_norm", limit=limit), facts)


def _limit(norm: float, precision: float, context: Mapping[str, Any]) -> float | None:
    """A limit that a norm sits at: one that was recorded, or one of the usual round numbers."""
    # Both frameworks divide by norm + 1e-6, and sum the squares in float32.
    tolerance = max(4.0 * precision, 2e-5)
    given = context.get("clip")
    for limit in [] if given is None else np.atleast_1d(np.asarray(given, float)).tolist():
        if limit > 0 and abs(norm - limit) <= tolerance * limit:
            return float(f"{limit:.6g}")
    # In low precision a norm is near one of these numbers by accident too often.
    return usual_number(norm, tolerance) if tolerance <= 1e-3 else None


def _clipped_each(gradients: Sequence[Ratio]) -> list[Suspicion]:
    """Every gradient clipped by itself: those that shrank all have one norm, the others agree."""
    usable = [
        one
        for one in gradients
        if one.size > 1 and one.left_l2 > 0 and one.right_l2 > 0 and one.factor > 0
    ]
    found = []
    for side in ("left", "right"):
        shrunk, rest = list[Ratio](), list[Ratio]()
        for one in usable:
            is_less = (one.factor < 1) == (side == "left")
            is_shrunk = is_less and abs(one.factor - 1) > 4 * one.noise + 1e-6
            (shrunk if is_shrunk else rest).append(one)
        norms = np.array([one.left_l2 if side == "left" else one.right_l2 for one in shrunk])
        if len(shrunk) < 3:
            continue
        limit = float(np.median(norms))
        spread = float(np.abs(norms / limit - 1).max())
        misfit = math.sqrt(float(np.mean([one.misfit**2 for one in shrunk])))
        floor = math.sqrt(float(np.mean([one.noise**2 for one in shrunk])))
        agree = all(_distance_to_one(one) <= 4 * one.noise + 1e-6 for one in rest)
        below = all((one.left_l2 if side == "left" else one.right_l2) <= limit for one in rest)
        if spread > max(4 * floor, 2e-5) or misfit > 4 * floor + 1e-6 or not (agree and below):
            continue
        before = math.sqrt(float(np.mean([_distance_to_one(one) ** 2 for one in shrunk])))
        said = Message("evidence.clipped_each", limit=limit)
        evidence = {
            "limit": float(f"{limit:.4g}"),
            "norm": limit,
            "clipped": side,
            "form": "each",
            "name": said,
            "names": [said],
            "factor": float(np.median([one.factor for one in shrunk])),
            "tensors": len(shrunk),
            "of": len(usable),
            "side": side,
        }
        residual = math.hypot(spread, misfit)
        size = sum(one.size for one in shrunk) - 1
        found.append(
            Suspicion(
                *("gradient_clipping", before, residual, before, max(floor, 1e-7)),
                *(evidence, shrunk[0].pair, size),
            )
        )
    return found


def _clipped_values(gradients: Sequence[Ratio]) -> list[Suspicion]:
    """Each value clipped: those that shrank all have one largest value, the others agree."""
    for side, other in (("left", "right"), ("right", "left")):
        largest = np.array([getattr(one, f"{side}_largest") for one in gradients])
        theirs = np.array([getattr(one, f"{other}_largest") for one in gradients])
        shrunk = [
            one
            for one, own, larger in zip(gradients, largest, theirs, strict=True)
            if own < larger * (1 - 4 * one.noise - 1e-6)
        ]
        if len(shrunk) < FEWEST_SATURATED:
            continue
        limit = float(np.median([getattr(one, f"{side}_largest") for one in shrunk]))
        off = [abs(getattr(one, f"{side}_largest") / limit - 1) for one in shrunk]
        chosen = {one.pair for one in shrunk}
        rest = [one for one in gradients if one.pair not in chosen and math.isfinite(one.factor)]
        agree = all(_distance_to_one(one) <= 4 * one.noise + 1e-6 for one in rest)
        # A bound is a number of its own: stored, it is the same everywhere.
        if max(off) > 1e-6 or not agree or not all(largest <= limit * (1 + 1e-6)):
            continue
        limit = float(f"{limit:.6g}")
        said = [Message("evidence.unclipped")] * 2
        said[side == "right"] = Message("evidence.clipped_values", limit=limit)
        evidence = {
            **dict(zip(("left", "right"), said, strict=True)),
            **{"limit": limit, "clipped": side, "form": "element"},
            **{"tensors": len(shrunk), "of": len(gradients)},
        }
        before = math.sqrt(float(np.mean([_distance_to_one(one) ** 2 for one in shrunk])))
        floor = max(max(one.noise for one in shrunk), 1e-7)
        return [
            Suspicion(
                *("gradient_clipping", before, max(off), before, floor),
                *(evidence, shrunk[0].pair, sum(one.size for one in shrunk) - 1),
            )
        ]
    return []


def _distance_to_one(one: Ratio) -> float:
    return float(_distances(np.array([one.factor]), np.array([min(one.misfit, 1.0)]), 1.0)[0])


def _frozen(gradients: Sequence[Ratio]) -> list[Suspicion]:
    """Parts of the network without gradient on one side."""
    found = []
    for side, other in (("left", "right"), ("right", "left")):
        norms = [getattr(one, f"{other}_l2") for one in gradients]
        rms = [
            norm / math.sqrt(max(one.size, 1)) for norm, one in zip(norms, gradients, strict=True)
        ]
        largest = max((value for value in rms if math.isfinite(value)), default=0.0)
        none = [
            one
            for one, value in zip(gradients, rms, strict=True)
            if not getattr(one, f"{side}_l2") > 0 and value > GRADIENT_RESIDUE * largest
        ]
        some = [one for one in gradients if getattr(one, f"{side}_l2") > 0]
        part = connected_part([one.name for one in none], [one.name for one in gradients])
        # All of them: the loss is not connected, which a part of the network cannot explain.
        if not none or not some or part is None:
            continue
        evidence = {
            "side": side,
            "part": part,
            "tensors": len(none),
            "of": len(gradients),
            "elements": sum(one.size for one in none),
            "zero": sum(getattr(one, f"{side}_l2") == 0 for one in none),
            "names": [one.name for one in none[:8]],
        }
        before = 1.0 if side == "left" else math.inf
        independent = sum(one.size for one in none)
        found.append(
            Suspicion("frozen_part", before, 0.0, before, 0.0, evidence, none[0].pair, independent)
        )
    return found


def connected_part(names: Sequence[str], everything: Sequence[str]) -> str | None:
    """What some of the parameters have in common that no other has; None for nothing.

    A dotted prefix (``encoder.*``), all but one (``all but head.*``), a last part (``*.bias``), or
    that they follow each other.
    """
    if not names:
        return None
    chosen = set(names)
    others = [name for name in everything if name not in chosen]
    if len(names) == 1:
        return names[0]
    parts = [name.split(".") for name in names]
    prefix = _prefix(parts)
    start = ".".join(prefix) + "."
    if prefix and not any(name.startswith(start) for name in others):
        return f"{start}*"
    trained = [name.split(".") for name in others]
    if others and len(names) > 1 and (rest := _prefix(trained)):
        start = ".".join(rest) + "."
        if not any(name.startswith(start) for name in names):
            return Message("evidence.all_but", part=f"{start}*")
    last = {part[-1] for part in parts}
    if len(last) == 1 and not any(name.split(".")[-1] in last for name in others):
        return f"*.{last.pop()}"
    places = [place for place, name in enumerate(everything) if name in chosen]
    if places[-1] - places[0] + 1 == len(places):
        return f"{names[0]} ... {names[-1]}"
    return None


def _prefix(names: Sequence[Sequence[str]]) -> list[str]:
    """The first parts that names have in common, but for their last ones."""
    prefix: list[str] = []
    for column in zip(*(name[:-1] for name in names), strict=False):
        if len(set(column)) > 1:
            break
        prefix.append(column[0])
    return prefix
