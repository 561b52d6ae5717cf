"""What the values of consecutive steps prove without gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.fits import relative_norm
from troubleshooter_nb.analysis.causes.training.first_updates import detect_first_updates
from troubleshooter_nb.analysis.causes.training.gradients import connected_part
from troubleshooter_nb.analysis.causes.training.history import Sampled
from troubleshooter_nb.analysis.causes.training.optimizers import compare_rates
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import in_format

_GRIDS = ("bfloat16", "float16", "float32")
_SIDES = ("left", "right")


def detect_trajectory(samples: Sequence[Sampled]) -> list[Suspicion]:
    """Values of one side made of the other's: averaged, rounded, late, or not moved in a part."""
    late = _stale(samples)
    averaged = [] if late else _averaged(samples)
    lost = _low_precision(samples)
    # Values that rounding keeps where they are were not frozen by anyone.
    return late + averaged + (_frozen(samples) if not (late or lost) else []) + lost


def detect_without_gradients(samples: Sequence[Sampled]) -> list[Suspicion]:
    """Learning rate, schedule, decay and momentum from updates that began at equal values."""
    values = _joined(samples)
    updates = np.diff(values, axis=1)
    floor = _floor(samples)
    norms = np.linalg.norm(updates, axis=2)
    # Only of equal values are gradients known to be equal.
    gap = np.linalg.norm(values[0, 0] - values[1, 0])
    if values.shape[2] < thresholds.FEWEST_TRAINED or gap > 1e-6 * np.linalg.norm(values[1, 0]):
        return []
    if norms[0, 0] == 0 or norms[1, 0] == 0:
        return _first_zero(norms, updates, floor)
    adam = detect_first_updates(samples)
    if adam:
        return adam
    decay = _decay(samples, floor)
    if decay:
        return decay
    left, right = updates[0, 0], updates[1, 0]
    rate = float(left @ right / (right @ right))
    before = relative_norm(left - right, right)
    residual = relative_norm(left - rate * right, right)
    if before <= 4 * floor:
        return _momentum(updates, floor)
    if residual > 10 * floor or before < 10 * residual:
        return []
    evidence = _evidence("ratio", ratio=rate, left_rate=math.nan, right_rate=math.nan)
    # A factor on the gradients does the same to updates that follow them.
    return [
        Suspicion(
            *("learning_rate", before, residual, residual, floor),
            evidence,
            independent=len(left) - 1,
        )
    ]


def _first_zero(norms: np.ndarray, updates: np.ndarray, floor: float) -> list[Suspicion]:
    late = 0 if norms[0, 0] == 0 else 1
    if norms.shape[1] < 2 or norms[1 - late, 0] == 0 or not norms[late, 1] > 0:
        return []
    compared = compare_rates(norms[0] / norms[1].max(), norms[1] / norms[1].max(), 0.5)
    shifted = compared is not None and compared[0] == "schedule_off_by_one"
    before = relative_norm(updates[0, 0] - updates[1, 0], updates[1 - late, 0])
    evidence = _evidence("schedule", late=_SIDES[late], first_zero=True, shifted=shifted)
    size = updates.shape[2]
    return [
        Suspicion(*("schedule_off_by_one", before, 0.0, before, floor), evidence, independent=size)
    ]


def _decay(samples: Sequence[Sampled], floor: float) -> list[Suspicion]:
    """Whether first updates differ by a multiple of the values, in all or in flat tensors."""
    groups = {
        name: [one for one in samples if (one.ndim <= 1) == (name == "one_dimensional")]
        for name in ("one_dimensional", "other")
    }
    shares: dict[str, float] = {}
    squares, alone, whole, size = 0.0, 0.0, 0.0, 0
    for name, members in groups.items():
        if not members:
            continue
        left, right = (np.concatenate([one.updates[side][0] for one in members]) for side in (0, 1))
        start = np.concatenate([one.values[1][0] for one in members])
        if len(left) < thresholds.FEWEST_TRAINED or not start.any():
            return []
        share, rest, error = _two_terms(left - right, right, start)
        squares += rest
        alone += float(((left - right) ** 2).sum())
        whole += float((right**2).sum())
        size += len(left)
        # Five standard errors make a share of decay.
        shares[name] = -share if abs(share) > 5 * error else 0.0
    if not shares or not any(shares.values()) or whole == 0:
        return []
    before, residual = math.sqrt(alone / whole), math.sqrt(squares / whole)
    if residual > 10 * floor or before < 10 * max(residual, floor):
        return []
    selected = shares.get("other", 0.0) == 0 and shares.get("one_dimensional", 0.0) != 0
    cause = "weight_decay_selection" if selected else "weight_decay_coupling"
    if selected and "other" not in shares:
        cause = "weight_decay_coupling"
    decays = [shares[name] for name in ("one_dimensional", "other") if name in shares]
    said = [Message("evidence.undecayed_values")] * 2
    side = int(max(decays, key=abs) < 0)
    shown = ", ".join(f"{abs(one):.3g}" for one in dict.fromkeys(decays))
    said[side] = Message("evidence.decays_more", decays=shown)
    evidence = _evidence(
        "selection" if cause == "weight_decay_selection" else "value",
        rate_times_decay=[shares.get("one_dimensional", 0.0), shares.get("other", 0.0)],
        left=said[0],
        right=said[1],
    )
    return [Suspicion(cause, before, residual, before, floor, evidence, independent=size - 2)]


def _two_terms(
    target: np.ndarray, one: np.ndarray, other: np.ndarray
) -> tuple[float, float, float]:
    """Coefficient of `other`, squares left by both terms, standard error of the coefficient."""
    matrix = np.stack([one, other], 1)
    normal = matrix.T @ matrix
    if np.linalg.cond(normal / np.outer(*[np.sqrt(np.diag(normal))] * 2)) > 1e8:
        return 0.0, float((target**2).sum()), math.inf
    solved = np.linalg.solve(normal, matrix.T @ target)
    rest = float(((target - matrix @ solved) ** 2).sum())
    error = math.sqrt(rest / len(target) * np.linalg.inv(normal)[1, 1])
    # An honest decay leaves the updates themselves alone.
    return (float(solved[1]) if abs(solved[0]) < 1e-2 else 0.0), rest, error


def _momentum(updates: np.ndarray, floor: float) -> list[Suspicion]:
    """Equal first updates, second ones apart by a part of the first.

    As parameters agree before the second step, so do its gradients: with any momentum and
    dampening both second updates are sums of the first two gradients, and the left one is a sum
    of the right one, whose factor is that of the new gradients, and of the first update.
    """
    if updates.shape[1] < 2:
        return []
    first, left, right = updates[1, 0], updates[0, 1], updates[1, 1]
    apart = left - right
    before = relative_norm(apart, right) if right.any() else 0.0
    if before <= 10 * floor or not first.any():
        return []
    share = float(apart @ first / (first @ first))
    rate = float(apart @ right / (right @ right))
    residual, rival = (relative_norm(apart - x, right) for x in (share * first, rate * right))
    fresh = 1.0
    if residual > 10 * floor:
        both = np.stack([right, first], 1)
        more, share = np.linalg.lstsq(both, apart, rcond=None)[0].tolist()
        residual, fresh = relative_norm(apart - both @ [more, share], right), 1.0 + more
    if residual > 10 * floor or rival < 3 * max(residual, floor):
        return []
    said = Message("evidence.second_update", share=share, new=fresh)
    evidence = _evidence("momentum", share=share, new_gradient=fresh, left=said, right="as it is")
    return [
        Suspicion(
            *("momentum_convention", before, residual, rival, floor),
            evidence,
            independent=len(first) - 2,
        )
    ]


def _stale(samples: Sequence[Sampled]) -> list[Suspicion]:
    """One side's values are those that the other had at an earlier step."""
    values = _joined(samples)
    steps = values.shape[1] - 1
    if values.shape[2] < thresholds.FEWEST_TRAINED or steps < 2:
        return []
    for late, side in enumerate(_SIDES):
        slow, fast = values[late], values[1 - late]
        # Of the side that moves: one that hardly does is near to where it was all the time.
        floor = min(_floor_of(samples, 1 - late), thresholds.COPIED_VALUES)
        moved = np.linalg.norm(np.diff(fast, axis=0), axis=1)
        if not (moved > 0).all():
            continue
        ages, rest = [], 0.0
        for step in range(steps + 1):
            distances = np.linalg.norm(fast[: step + 1] - slow[step], axis=1)
            nearest = int(distances.argmin())
            ages.append(step - nearest)
            rest += float(distances[nearest] ** 2)
        residual = math.sqrt(rest) / float(np.linalg.norm(moved))
        if not any(ages) or residual > 4 * floor or max(ages[1:]) == 0:
            continue
        # A first rate of 0 looks like values that are one step late where all steps have one
        # batch: then an update is nearly that of the step before.
        same = ages == [0, *[1] * steps] and _turned(fast) < thresholds.OTHER_BATCH
        before = float(np.linalg.norm(slow - fast) / np.linalg.norm(moved))
        never = ages == list(range(steps + 1))
        evidence = _evidence("stale", side=side, ages=ages, never=never, most=max(ages))
        rival = residual if same else before
        size = values.shape[2] * steps
        return [
            Suspicion(
                *("stale_weights", before, residual, rival, floor), evidence, independent=size
            )
        ]
    return []


def _turned(values: np.ndarray) -> float:
    """Sine of the angle between the first two updates of one side, shape (steps + 1, n)."""
    first, second = np.diff(values, axis=0)[:2]
    share = float(second @ first / (first @ first))
    return relative_norm(second - share * first, second)


def _averaged(samples: Sequence[Sampled]) -> list[Suspicion]:
    """One side moves by one share towards the other's values at every step."""
    values = _joined(samples)
    steps = values.shape[1] - 1
    if values.shape[2] < thresholds.FEWEST_TRAINED or steps < 2:
        return []
    floor = _floor(samples)
    for side, word in enumerate(_SIDES):
        slow, fast = values[side], values[1 - side]
        if not np.diff(slow, axis=0).any():
            continue
        shares, rest, whole, alone = [], 0.0, 0.0, 0.0
        for step in range(steps):
            moved, way = slow[step + 1] - slow[step], fast[step + 1] - slow[step]
            other = fast[step + 1] - fast[step]
            if not way.any() or not other.any():
                break
            share = float(moved @ way / (way @ way))
            shares.append(share)
            # At the first step the way is the other side's update: no proof.
            if step:
                rest += float(((moved - share * way) ** 2).sum())
                rate = float(moved @ other / (other @ other))
                alone += float(((moved - rate * other) ** 2).sum())
                whole += float((moved**2).sum())
        if len(shares) < steps or not whole > 0 or not all(0 < one < 1 for one in shares):
            continue
        residual, rival = math.sqrt(rest / whole), math.sqrt(alone / whole)
        # Rounding of a small move.
        level = floor * float(np.linalg.norm(np.diff(fast, axis=0))) / math.sqrt(whole)
        if not _are_of_one_average(shares, max(thresholds.SAME_AVERAGE_SHARE, 10 * level)):
            continue
        if residual > max(10 * level, 1e-4) or rival < 3 * max(residual, level):
            continue
        before = float(np.linalg.norm(slow[1:] - fast[1:]) / np.linalg.norm(np.diff(fast, axis=0)))
        evidence = _evidence("average", side=word, decay=1 - shares[-1], shares=shares[:16])
        size = values.shape[2] * (steps - 1)
        return [
            Suspicion(*("ema_weights", before, residual, rival, level), evidence, independent=size)
        ]
    return []


def _are_of_one_average(shares: Sequence[float], near: float) -> bool:
    """Whether shares are one, or those of a decay that warms up as (1 + t) / (10 + t).

    With a share of its own at every step, a smaller learning rate is such a path, too.
    """
    inverse = 1 / np.array(shares)
    last = np.abs(inverse / inverse[-1] - 1) <= near
    if last.all():
        return True
    warm = np.diff(inverse) * 9
    # Once warm, the share is constant.
    constant = last[1:] & last[:-1]
    rising = np.abs(warm - 1) <= 5 * near
    return len(warm) >= thresholds.FEWEST_WARM and bool(
        rising[: thresholds.FEWEST_WARM].all() & (rising | constant).all()
    )


def _frozen(samples: Sequence[Sampled]) -> list[Suspicion]:
    """A connected part that never moves on one side."""
    found = []
    moves = np.array([[bool(one.any()) for one in each.updates] for each in samples])
    shown = _shown_moves(samples)
    # What moves by rounding alone may do so on one side: it is no part of what one asks about.
    names = [
        one.track.name for one, (left, right) in zip(samples, shown, strict=True) if left or right
    ]
    for side, word in enumerate(_SIDES):
        still = ~moves[:, side] & shown[:, 1 - side]
        chosen = [one for one, is_it in zip(samples, still, strict=True) if is_it]
        part = connected_part([one.track.name for one in chosen], names)
        if part is None or not shown[:, side].any():
            continue
        size = sum(one.values[0].shape[1] for one in chosen)
        if size < thresholds.FEWEST_TRAINED:
            continue
        evidence = _evidence("values", side=word, part=part, tensors=len(chosen), of=len(samples))
        evidence |= {"elements": size, "zero": 0, "names": [one.track.name for one in chosen[:8]]}
        pair = chosen[0].track.pair
        found.append(Suspicion("frozen_part", 1.0, 0.0, 1.0, 0.0, evidence, pair, size))
    return found


def _shown_moves(samples: Sequence[Sampled]) -> np.ndarray:
    """Whether gradients move each tensor, on each side, shape (tensors, 2).

    Rounding may move it, and decay: both do so on one side alone without anything being frozen.
    """
    sizes, floors, rests = (np.zeros((len(samples), 2)) for _ in range(3))
    for place, one in enumerate(samples):
        for side, (update, values) in enumerate(zip(one.updates, one.values, strict=True)):
            sizes[place, side] = np.sqrt(np.mean(update**2))
            floors[place, side] = one.roundoff[side] * np.sqrt(np.mean(values**2))
            squares = np.maximum((values[:-1] ** 2).sum(1, keepdims=True), 1e-300)
            decays = (update * values[:-1]).sum(1, keepdims=True) / squares
            rests[place, side] = np.sqrt(np.mean((update - decays * values[:-1]) ** 2))
    least = np.maximum(thresholds.DECAYED_ALONE * sizes, thresholds.ROUNDINGS_MOVED * floors)
    shown: np.ndarray = rests > np.maximum(least, thresholds.GRADIENT_RESIDUE * sizes.max(axis=0))
    return shown


def _low_precision(samples: Sequence[Sampled]) -> list[Suspicion]:
    """Updates of one side lost in the rounding of its values."""
    values = _joined(samples)
    updates = np.diff(values, axis=1)
    for side, word in enumerate(_SIDES):
        name = _grid(values[side])
        if name is None or _grid(values[1 - side]) == name:
            continue
        other = updates[1 - side, 0]
        unchanged = [float((updates[place] == 0).mean()) for place in (0, 1)]
        if not other.any() or unchanged[side] < unchanged[1 - side] + 0.1:
            continue
        predicted = in_format(values[side, 0] + other, name)
        # Against what rounding does, and against the other side's update, the rival.
        residual = relative_norm(values[side, 1] - predicted, other)
        before = relative_norm(updates[side, 0] - other, other)
        agree = float(((predicted == values[side, 0]) == (updates[side, 0] == 0)).mean())
        if residual > 0.5 * before or agree < 0.9:
            continue
        evidence = _evidence("rounding", side=word, format=name, agree=agree)
        evidence |= {"left_unchanged": unchanged[0], "right_unchanged": unchanged[1]}
        return [
            Suspicion(
                *("low_precision_master", before, residual, before, 0.0),
                evidence,
                independent=values.shape[2],
            )
        ]
    return []


def _grid(values: np.ndarray) -> str | None:
    """The narrowest format that holds all values."""
    return next((name for name in _GRIDS if (in_format(values, name) == values).all()), None)


def _joined(samples: Sequence[Sampled]) -> np.ndarray:
    """Values of all tensors, shape (2, steps + 1, elements)."""
    return np.stack([np.hstack([one.values[side] for one in samples]) for side in (0, 1)])


def _floor(samples: Sequence[Sampled]) -> float:
    """What rounding of the stored values leaves of the updates, relative; the worse side's."""
    return max(_floor_of(samples, 0), _floor_of(samples, 1))


def _floor_of(samples: Sequence[Sampled], side: int) -> float:
    stored = sum(
        float(((0.42 * one.roundoff[side] * one.values[side][1:]) ** 2).sum()) for one in samples
    )
    moved = sum(float((one.updates[side] ** 2).sum()) for one in samples)
    return max(math.sqrt(2 * stored / moved) if moved > 0 else 0.0, 1e-7)


def _evidence(form: str, **facts: Any) -> dict[str, Any]:
    return {"form": form, "gradients": "not recorded", **facts}
