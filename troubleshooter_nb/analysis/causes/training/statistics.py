"""Running statistics of batch normalisation, and values that ought to change with the input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.fits import relative_norm
from troubleshooter_nb.analysis.causes.training.history import RUNNING, Sampled
from troubleshooter_nb.thresholds import FEWEST_RUNNING


def detect_statistics(samples: Sequence[Sampled]) -> list[Suspicion]:
    """Causes in buffers and in outputs over the steps."""
    means, variances = (
        [one for one in samples if one.track.role == "buffer" and one.track.slot == slot]
        for slot in RUNNING
    )
    running = means + variances
    found = _never_moved(running)
    if running and not found:
        found = _rate(running)
    if variances and not found:
        found = _variance_bias(means, variances)
    return found + _baked([one for one in samples if one.track.role == "output"])


def _never_moved(running: Sequence[Sampled]) -> list[Suspicion]:
    """Statistics of one side that stay at their first values while the other's move."""
    for side, word in enumerate(("left", "right")):
        moves = [[bool(one.updates[place].any()) for place in (0, 1)] for one in running]
        if not running or any(each[side] for each in moves):
            continue
        if not all(each[1 - side] for each in moves) or _size(running) < FEWEST_RUNNING:
            continue
        start = _flat(running, side, 0)
        initial = all(
            bool((one.values[side][0] == (0.0 if one.track.slot == RUNNING[0] else 1.0)).all())
            for one in running
        )
        before = relative_norm(
            np.concatenate([(one.updates[0] - one.updates[1]).ravel() for one in running]),
            np.concatenate([one.updates[1 - side].ravel() for one in running]),
        )
        evidence = {"side": word, "initial": initial, "tensors": len(running)}
        pair = running[0].track.pair
        return [Suspicion("bn_momentum_zero", before, 0.0, before, 0.0, evidence, pair, len(start))]
    return []


def _rate(running: Sequence[Sampled]) -> list[Suspicion]:
    """Statistics of both sides that move by other shares towards the same batch statistics."""
    if not _same_start(running) or _size(running) < FEWEST_RUNNING:
        return []
    left, right = (np.concatenate([one.updates[side][0] for one in running]) for side in (0, 1))
    if not left.any() or not right.any():
        return []
    ratio = float(left @ right / (right @ right))
    floor = _floor(running)
    before = relative_norm(left - right, right)
    residual = relative_norm(left - ratio * right, right)
    if ratio <= 0 or residual > 10 * floor * max(ratio, 1.0) or before < 10 * max(residual, floor):
        return []
    momenta = _momenta(running, ratio)
    convention = False
    if momenta is not None:
        convention = abs(sum(momenta) - 1) < 1e-2
    elif min(abs(ratio / 9 - 1), abs(ratio * 9 - 1)) < 1e-3:
        # The two defaults, 0.9 and 0.1; any other ratio of one step proves no convention.
        momenta, convention = (ratio / (1 + ratio), 1 / (1 + ratio)), True
    evidence: dict[str, Any] = {
        "ratio": ratio,
        "convention": convention,
        "left_momentum": momenta[0] if momenta else math.nan,
        "right_momentum": momenta[1] if momenta else math.nan,
        "tensors": len(running),
    }
    pair = running[0].track.pair
    return [
        Suspicion(
            *("bn_momentum_convention", before, residual, before, floor),
            *(evidence, pair, len(left) - 1),
        )
    ]


def _momenta(running: Sequence[Sampled], ratio: float) -> tuple[float, float] | None:
    """Shares of the new statistics on both sides, from a second step; None without.

    With s the batch statistics, which both sides share, the second step moves left by
    a (s - l) and right by b (s - r), a = ratio * b. Without s: dl - ratio * dr = a (r - l).
    """
    if len(running[0].values[0]) < 3:
        return None
    moved = [np.concatenate([one.updates[side][1] for one in running]) for side in (0, 1)]
    apart = _flat(running, 1, 1) - _flat(running, 0, 1)
    target = moved[0] - ratio * moved[1]
    if not apart.any():
        return None
    share = float(target @ apart / (apart @ apart))
    # Later batches need not agree: the weights may have parted by then.
    if not 0 < share <= 1.001 or relative_norm(target - share * apart, apart) > 1e-2:
        return None
    return share, share / ratio


def _variance_bias(means: Sequence[Sampled], variances: Sequence[Sampled]) -> list[Suspicion]:
    """Batch variances of one side that are those of the other times n / (n - 1)."""
    found = []
    by_path = {one.track.name.rpartition(".")[0]: one for one in means}
    for one in variances:
        mean = by_path.get(one.track.name.rpartition(".")[0])
        if mean is None or one.values[0].shape[1] < 4 or not _same_start([mean, one]):
            continue
        left, right, start = one.updates[0][0], one.updates[1][0], one.values[1][0]
        floor = _floor([one])
        of_means = relative_norm(mean.updates[0][0] - mean.updates[1][0], mean.updates[1][0])
        fitted = _excess(left - right, right, start)
        if fitted is None or of_means > 10 * max(_floor([mean]), 1e-6):
            continue
        excess, momentum, rest = fitted
        scale = float(np.linalg.norm(right))
        before, residual = relative_norm(left - right, right), rest / scale
        count = 1 + 1 / excess if excess > 0 else -1 / excess
        whole = abs(count - round(count)) < max(0.02, 1e-3 * count)
        if before < 10 * max(floor, residual) or not (count > 1.5 and whole and momentum <= 1.01):
            continue
        rival = _best_single(left - right, right) / scale
        evidence = {
            "n": round(count),
            "unbiased": "left" if excess > 0 else "right",
            "momentum": momentum,
            "ratio": 1 + excess,
            "layer": one.track.name.rpartition(".")[0],
        }
        found.append(
            Suspicion(
                *("bn_variance_bias", before, residual, rival, floor),
                *(evidence, one.track.pair, len(left) - 2),
            )
        )
    return found


def _excess(
    apart: np.ndarray, moved: np.ndarray, start: np.ndarray
) -> tuple[float, float, float] | None:
    """Excess k - 1, momentum m and the rest of apart = (k - 1) (moved + m * start)."""
    matrix = np.stack([moved, start], 1)
    norms = np.linalg.norm(matrix, axis=0)
    if not apart.any() or not norms.all() or not np.isfinite(norms).all():
        return None
    if np.linalg.cond(matrix / norms) > 1e6:
        return None
    solved = np.linalg.lstsq(matrix, apart, rcond=None)[0]
    excess = float(solved[0])
    if excess == 0 or solved[1] / excess <= 0:
        return None
    return excess, float(solved[1] / excess), float(np.linalg.norm(apart - matrix @ solved))


def _best_single(apart: np.ndarray, moved: np.ndarray) -> float:
    share = float(apart @ moved / (moved @ moved))
    return float(np.linalg.norm(apart - share * moved))


def _baked(outputs: Sequence[Sampled]) -> list[Suspicion]:
    """Values that agree at first and then stay what they were, on one side only."""
    found = []
    for one in outputs:
        for side, word in enumerate(("left", "right")):
            still, other = one.values[side], one.values[1 - side]
            changes = np.abs(np.diff(other, axis=0)).max(axis=1, initial=0.0) > 0
            if len(still) < 3 or np.diff(still, axis=0).any() or not changes.all():
                continue
            scale = float(np.linalg.norm(other[0]))
            if not scale > 0 or one.values[0].shape[1] < FEWEST_RUNNING:
                continue
            first = float(np.linalg.norm(still[0] - other[0])) / scale
            later = relative_norm(still[1:] - other[1:], other[1:])
            floor = 8 * max(one.roundoff)
            if first > 10 * floor or later < 10 * max(first, floor):
                continue
            evidence = {"side": word, "first": first, "later": later, "values": len(still)}
            size = still[1:].size
            found.append(
                Suspicion(
                    *("constant_baked", later, first, later, floor),
                    *(evidence, one.track.pair, size),
                )
            )
    return found


def _same_start(running: Sequence[Sampled]) -> bool:
    left, right = _flat(running, 0, 0), _flat(running, 1, 0)
    return bool(np.linalg.norm(left - right) <= 1e-6 * max(float(np.linalg.norm(right)), 1e-30))


def _flat(running: Sequence[Sampled], side: int, step: int) -> np.ndarray:
    return np.concatenate([one.values[side][step] for one in running])


def _size(running: Sequence[Sampled]) -> int:
    return sum(one.values[0].shape[1] for one in running)


def _floor(running: Sequence[Sampled]) -> float:
    """Rounding of the stored statistics over the smaller of both first updates."""
    levels = [1e-7]
    for side in (0, 1):
        stored = sum(
            float(((one.roundoff[side] * one.values[side][1]) ** 2).sum()) for one in running
        )
        moved = sum(float((one.updates[side][0] ** 2).sum()) for one in running)
        levels.append(math.sqrt(stored / moved) if moved > 0 else 0.0)
    return max(levels)
