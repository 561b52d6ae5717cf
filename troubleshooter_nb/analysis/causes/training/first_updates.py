"""What first updates of Adam prove without gradients: each is the rate, but for small gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.history import Sampled
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.evidence import evidence_word
from troubleshooter_nb.thresholds import (
    FEWEST_UPDATES,
    ROUNDINGS_OFF_RATE,
    SIGNS_TOWARDS_ZERO,
    UPDATE_FOLLOWS_RATE,
    UPDATES_OF_RATE,
)

_BETAS = tuple(product((0.9, 0.95, 0.8, 0.5), (0.999, 0.99, 0.98, 0.95, 0.9)))
_SIDES = ("left", "right")

# Update over rate as a function of x, the gradient in units of its eps; its slope over log x.
_Law = Callable[[np.ndarray], np.ndarray]
_LAWS: dict[str, tuple[_Law, _Law]] = {
    "outside": (lambda x: x / (1 + x), lambda x: x / (1 + x) ** 2),
    "inside": (lambda x: x / np.hypot(1, x), lambda x: x / np.hypot(1, x) ** 3),
}


@dataclass(frozen=True)
class _First:
    """First updates of one side, where something moved: shape (n,) each."""

    updates: np.ndarray
    start: np.ndarray
    rounding: np.ndarray
    rate: float
    decay: float
    # Share of the updates that are the rate.
    share: float


def detect_first_updates(samples: Sequence[Sampled]) -> list[Suspicion]:
    """Decay in the gradient, place of eps and missing bias correction, where both sides are Adam.

    Parameters
    ----------
    samples : sequence of Sampled
        Whose first values are equal on both sides, and so are the gradients of the first step.

    Returns
    -------
    list of Suspicion
        Of weight_decay_coupling or adam_epsilon_place; at most one.
    """
    left, right = _first(samples, 0), _first(samples, 1)
    if left is None or right is None or max(left.share, right.share) < UPDATES_OF_RATE:
        return []
    sides = left, right
    if min(left.share, right.share) < UPDATES_OF_RATE:
        return _place(sides)
    return _coupling(sides) or _correction(samples, sides) or _place(sides)


def _first(samples: Sequence[Sampled], side: int) -> _First | None:
    updates, start, after = (
        np.concatenate(parts)
        for parts in zip(
            *((s.updates[side][0], s.values[side][0], s.values[side][1]) for s in samples),
            strict=True,
        )
    )
    rounding = np.abs(after) * max(one.roundoff[side] for one in samples)
    sizes = np.abs(updates)
    usual = sizes >= 0.5 * np.quantile(sizes[sizes > 0], 0.9) if sizes.any() else sizes > 0
    if usual.sum() < FEWEST_UPDATES:
        return None
    kept = usual
    # Where gradients are small updates are, too: those are no part of the fit.
    for _ in range(6):
        matrix = np.stack([np.sign(updates[kept]), start[kept]], 1)
        rate, decay = np.linalg.lstsq(matrix, updates[kept], rcond=None)[0].tolist()
        rest = np.abs(updates - rate * np.sign(updates) - decay * start)
        kept = usual & (rest <= 2 * np.median(rest[usual]) + rounding)
    exact = kept & (rounding <= np.quantile(rounding[kept], 0.25))
    # All fall short of the rate by eps over the gradient: the largest do so least.
    rate = float(np.quantile(np.abs(updates - decay * start)[exact], 0.9)) if rate > 0 else 0.0
    obeys = rest <= UPDATE_FOLLOWS_RATE * rate + 4 * rounding
    moved = max(int((sizes > 0).sum()), 1)
    share = float((obeys & (sizes > 0)).sum()) / moved if rate > 0 else 0.0
    return _First(updates, start, rounding, rate, -decay, share)


def _coupling(sides: tuple[_First, _First]) -> list[Suspicion]:
    """Decay that is subtracted on one side, and on the other turns signs of gradients it outweighs.

    Adam keeps of a gradient the sign: decay inside of it shows only where it changes that.
    """
    for coupled, other in ((0, 1), (1, 0)):
        plain, decayed = sides[coupled], sides[other]
        rate = plain.rate
        typical = float(np.sqrt(np.mean(plain.start**2)))
        if (
            abs(decayed.rate / rate - 1) > UPDATE_FOLLOWS_RATE
            or decayed.decay * typical < UPDATE_FOLLOWS_RATE * rate
        ):
            continue
        if abs(plain.decay) > 0.02 * decayed.decay:
            continue
        undecayed = decayed.updates + decayed.decay * decayed.start
        # Of gradients near eps an update is no sign.
        near = UPDATE_FOLLOWS_RATE * rate + 4 * decayed.rounding
        signs = np.abs(np.abs(undecayed) - rate) <= near
        signs |= np.abs(undecayed) <= 4 * decayed.rounding
        apart = np.where(signs, undecayed - plain.updates, 0.0)
        turned = np.rint(apart / rate)
        count = int((turned != 0).sum())
        toward = turned * plain.start > 0
        if count < FEWEST_UPDATES or toward.sum() < SIGNS_TOWARDS_ZERO * count:
            continue
        norm = float(np.linalg.norm(sides[1].updates))
        before = float(np.linalg.norm(sides[0].updates - sides[1].updates)) / norm
        residual = float(np.linalg.norm(apart - rate * turned)) / norm
        floor = float(np.linalg.norm(decayed.rounding)) / norm
        evidence = _evidence("coupling", sides)
        evidence |= {"turned": count, "toward_zero": float(toward.sum() / count)}
        for side, word in ((coupled, "in the gradient"), (other, "decoupled")):
            decay, coupling = f"{decayed.decay / rate:.3g}", evidence_word(word)
            said = Message("evidence.decay", decay=decay, coupling=coupling)
            evidence |= {_SIDES[side]: said, f"{_SIDES[side]}_rule": _adam(rate, said)}
        rival = float(np.linalg.norm(apart)) / norm
        return [
            Suspicion(
                *("weight_decay_coupling", before, residual, rival, floor),
                evidence,
                independent=count,
            )
        ]
    return []


def _correction(samples: Sequence[Sampled], sides: tuple[_First, _First]) -> list[Suspicion]:
    """Ratios of the first two updates that are those of the averages' missing corrections."""
    second = [np.concatenate([s.updates[side][1:2] for s in samples], 1) for side in (0, 1)]
    if not second[0].size:
        return []
    moved = (second[0][0] != 0) & (second[1][0] != 0)
    for one in sides:
        moved &= np.abs(one.updates) > 0.99 * one.rate
    if moved.sum() < FEWEST_UPDATES:
        return []
    ratios = second[0][0][moved] / second[1][0][moved]
    # Gradients of the second step agree as far as the first updates did.
    low, ratio, high = np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
    first = sides[0].rate / sides[1].rate
    tried = []
    for late, (mean, square) in product((0, 1), _BETAS):
        power = 1 if late == 0 else -1
        factors = [((1 - mean**t) / math.sqrt(1 - square**t)) ** power for t in (1, 2)]
        off = math.hypot(first / factors[0] - 1, ratio / factors[1] - 1)
        tried.append((off, late, mean, square, factors))
    tried.sort()
    off, late, mean, square, factors = tried[0]
    width = abs(high - low) / 2 / max(abs(ratio), 1e-30)
    # A rate that differs, at the same ratio in both steps, is what else it could be.
    before = max(abs(factors[0] - 1), abs(factors[1] - 1))
    rival = abs(factors[1] / factors[0] - 1)
    if max(off, width) > 0.03 * rival:
        return []
    evidence = _evidence("correction", sides)
    evidence |= {"ratios": [first, ratio], "betas": [mean, square]}
    for side, word in enumerate(_SIDES):
        missing = Message("evidence_words.no bias correction") if side == late else ""
        betas = f"betas {mean:g}, {square:g}"
        evidence[f"{word}_rule"] = _adam(sides[1 - late].rate, betas, missing)
    floor = width / math.sqrt(int(moved.sum()))
    return [
        Suspicion(
            *("adam_epsilon_place", before, max(off, floor), rival, floor),
            evidence,
            independent=int(moved.sum()),
        )
    ]


def _place(sides: tuple[_First, _First]) -> list[Suspicion]:
    """Small gradients, told by one side's updates, give the other's by eps inside of the root.

    With eps outside of it on both sides, and another number or other gradients, the law is
    another: |g| / (|g| + eps) against |g| / sqrt(g**2 + eps).
    """
    found = []
    for inside, other in ((0, 1), (1, 0)):
        rate = sides[other].rate
        decayed = (
            abs(sides[other].decay) * np.abs(sides[other].start).max() > UPDATE_FOLLOWS_RATE * rate
        )
        known = _informative(sides, rate)
        if sides[other].share < UPDATES_OF_RATE or decayed or known.sum() < FEWEST_UPDATES:
            continue
        # Of the other side gradients may be too small for updates of the full rate.
        given, told = (np.abs(sides[side].updates)[known] / rate for side in (other, inside))
        rounding = (sides[other].rounding / sides[other].rate)[known]
        gradient = given / (1 - given)
        unsure = rounding / (given * (1 - given))
        left = {}
        for name, (law, slope) in _LAWS.items():
            inverse = told / (1 - told) if name == "outside" else told / np.sqrt(1 - told**2)
            scale = float(np.exp(np.median(np.log(inverse / gradient))))
            x = scale * gradient
            floor = np.hypot(slope(x) * unsure, rounding)
            left[name] = (_rms(told - law(x)), _rms(floor), scale)
        residual, floor, scale = left["inside"]
        rival = min(left["outside"][0], _rms(told - given))
        # Equal updates are equal laws.
        if rival > 4 * floor:
            found.append((residual / rival, inside, residual, rival, floor, scale, given, told))
    if not found:
        return []
    share, inside, residual, rival, floor, scale, given, told = min(found, key=lambda one: one[0])
    if share > 0.5 or residual > 10 * floor:
        return []
    evidence = _evidence("epsilon", sides) | {"root_of_eps_over_eps": 1 / scale}
    for side, word in enumerate(_SIDES):
        place = Message("evidence.eps_in_root" if side == inside else "evidence.eps_out_of_root")
        evidence[f"{word}_rule"] = _adam(sides[side].rate, place)
    norm = _rms(given if inside == 0 else told)
    figures = (_rms(told - given) / norm, residual / norm, rival / norm, floor / norm)
    return [Suspicion("adam_epsilon_place", *figures, evidence, independent=len(told) - 1)]


def _informative(sides: tuple[_First, _First], rate: float) -> np.ndarray:
    """Where both updates are off 0 and off the rate by more than rounding, of the same sign."""
    known: np.ndarray = sides[0].updates * sides[1].updates > 0
    for side in sides:
        least, sizes = ROUNDINGS_OFF_RATE * side.rounding, np.abs(side.updates)
        known &= (sizes > least) & (rate - sizes > least)
    return known


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _adam(rate: float, *more: str) -> str:
    return joined(["adam", Message("evidence.rate", rate=f"{rate:.4g}"), *more], by=",")


def _evidence(form: str, sides: tuple[_First, _First]) -> dict[str, Any]:
    rates = {f"{word}_rate": side.rate for word, side in zip(_SIDES, sides, strict=True)}
    return {"form": form, "family": "adam", "gradients": "not recorded", **rates}
