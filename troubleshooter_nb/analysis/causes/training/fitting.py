"""Fits of an optimizer's rule to one side, in every form, and with constants held."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.training.history import History, Sampled
from troubleshooter_nb.analysis.causes.training.rules import (
    GROUPS,
    Material,
    Rule,
    forms,
    simulate,
    solved,
)


def material_of(samples: Sequence[Sampled], side: int, history: History) -> Material | None:
    """What a side's rule is fitted to; None without gradients or without updates.

    A tensor without gradients on a side is left out: one that is tied to another, or not trained.
    """
    chosen = [one for one in samples if all(known is not None for known in one.gradients)]
    if sum(one.values[side].shape[1] for one in chosen) < thresholds.FEWEST_TRAINED:
        return None
    most = max(thresholds.TRAINED_FITTED // len(chosen), 64)
    thin = [one.thinned(most) for one in chosen]
    groups, rounding, total = [], 0.0, 0.0
    for name in GROUPS:
        members = [one for one in thin if (one.ndim <= 1) == (name == GROUPS[0])]
        steps = len(thin[0].values[side]) - 1
        made = [known for known in (one.gradients[side] for one in thin) if known is not None]
        unseen = min(len(known) for known in made) - steps
        gradients, values, updates = (np.empty((n, 0)) for n in (*[steps + unseen] * 2, steps))
        for one in members:
            known = one.gradients[side]
            if known is None:
                continue
            gradients = np.hstack([gradients, known[len(known) - steps - unseen :]])
            # What the values were before the first that are known, their decay hardly depends on.
            before = one.values[side][[0] * unseen + [*range(steps)]]
            values = np.hstack([values, before])
            updates = np.hstack([updates, one.updates[side]])
            # An error spread evenly over a unit of the last place, which is one to two roundoffs.
            stored = 0.42 * one.roundoff[side] * one.values[side][1:]
            computed = 3.0 * 2.0**-24 * one.updates[side]
            rounding += float((stored**2).sum() + (computed**2).sum())
        total += float((updates**2).sum())
        groups.append((gradients, values, updates))
    if not total > 0:
        return None
    numbers = history.led(len(groups[0][0]))
    return Material(tuple(groups), math.sqrt(rounding / total), history.norms[side], numbers)


def fit_all(material: Material) -> list[Rule]:
    """The fitted rule of every form worth trying, in the order of `forms`: the simplest first."""
    found: list[Rule] = []
    for form in forms():
        best = min((rule.residual for rule in found), default=math.inf)
        # Nothing is left to explain; or no sgd comes near, and its other forms will not.
        if best <= thresholds.RULE_EXPLAINED * material.floor:
            break
        if form.family == "sgd" and len(found) >= 3 and best > thresholds.RULE_HOPELESS:
            continue
        found.append(fit(form, material))
    return found


def best_of(rules: Sequence[Rule], material: Material) -> Rule:
    """The simplest rule that is not significantly worse than another."""
    least = min(rules, key=lambda rule: rule.residual)
    return next(rule for rule in rules if not is_worse(rule.residual, least.residual, material))


def is_worse(residual: float, best: float, material: Material) -> bool:
    """Whether a residual is larger than another by more than chance and rounding."""
    counted = min(material.size, thresholds.RULE_COUNTED)
    allowed = (best**2 + material.floor**2) * thresholds.FORM_GIVEN_UP / counted
    return residual**2 - best**2 > allowed


def is_good(rule: Rule, side: Material) -> bool:
    """Whether a rule leaves so little of a side that it is that of its optimizer."""
    return rule.residual < min(thresholds.RULE_RECOGNISED, max(1e3 * side.floor, 1e-3))


def without_idle_decay(rule: Rule, side: Material) -> Rule:
    """Decays that explain nothing set to 0."""
    for place in range(len(rule.decay)):
        if rule.decay[place] == 0.0:
            continue
        held = {f"decay_{i}": 0.0 for i, one in enumerate(rule.decay) if one == 0.0}
        tried = fit(rule, side, held | {f"decay_{place}": 0.0})
        if not clearly_worse(tried.residual, rule.residual, side):
            rule = tried
    return rule


def clearly_worse(residual: float, best: float, side: Material) -> bool:
    """Whether a residual is larger by more than chance, and by more than a little."""
    excess = residual**2 - best**2
    return is_worse(residual, best, side) and excess > thresholds.SWAPPED_MARGIN * (
        best**2 + side.floor**2
    )


def held_against(rule: Rule, material: Material) -> Rule:
    """The rule as it is, nothing fitted, with what it leaves of these updates."""
    return replace(rule, residual=float(np.linalg.norm(_remainder(rule, material))))


def at_other_rate(rule: Rule, material: Material) -> tuple[Rule, float]:
    """The rule with all its rates times one factor, the best, and this factor."""
    rest = _remainder(rule, material)
    made = _remainder(replace(rule, rates=(0.0,) * len(rule.rates)), material) - rest
    square = float(made @ made)
    factor = 1.0 + (float(rest @ made) / square if square > 0 else 0.0)
    rates = tuple(factor * rate for rate in rule.rates)
    return held_against(replace(rule, rates=rates), material), factor


def fit(form: Rule, material: Material, held: Mapping[str, float] | None = None) -> Rule:
    """The constants of a form by least squares; those in `held` stay at their values.

    `held` takes ``momentum``, ``dampening``, ``beta``, ``eps``, ``decay_0`` and ``decay_1``.
    """
    held = held or {}
    rule = _with(form, held)
    free = [name for name in _constants(form) if name not in held]
    fixed = [int(name[-1]) for name in held if name.startswith("decay")]
    if "eps" in free:
        rule = _best_start(rule, material, fixed, "beta" in free)
    return _refined(rule, material, free, fixed)


def _constants(form: Rule) -> list[str]:
    """What has to be searched for; rates and linear decay follow from it."""
    names = ["momentum"] if form.momentum else []
    if form.family == "sgd":
        return [*names, "dampening"] if form.dampening else names
    names += ["beta", "eps"]
    return names if form.decoupled else [*names, "decay_0", "decay_1"]


def _with(rule: Rule, values: Mapping[str, float]) -> Rule:
    plain = {name: value for name, value in values.items() if not name.startswith("decay")}
    decay = tuple(values.get(f"decay_{place}", one) for place, one in enumerate(rule.decay))
    return replace(rule, decay=decay, **plain)  # type: ignore[arg-type]


def _best_start(rule: Rule, material: Material, fixed: list[int], any_beta: bool) -> Rule:
    def least(tried: Sequence[Rule]) -> Rule:
        return min((solved(one, material, fixed) for one in tried), key=lambda one: one.residual)

    if any_beta:
        rule = least([replace(rule, beta=beta) for beta in (0.999, 0.99, 0.95, 0.9)])
    if not fixed and not rule.decoupled:
        # Where the decay outweighs the gradient the direction turns: slopes at 0 do not see it.
        one, other = (0.0, *(10.0**power for power in (-4, -3, -2, -1))), (0.0, 1.0)
        rule = least([replace(rule, decay=(k * factor, k)) for k in one for factor in other])
    return least([replace(rule, eps=10.0**power) for power in (-8, -12, -6, -5, -4, -3, -2)])


# Constants are searched for on axes on which they are unbounded.
def _to_axis(name: str, value: float) -> float:
    if name == "eps":
        return math.log(value)
    if name.startswith("decay"):
        return value
    value = min(max(value, 1e-6), 1 - 1e-6)
    return math.log(value / (1 - value))


def _from_axis(name: str, value: float) -> float:
    if name == "eps":
        return math.exp(min(max(value, -40.0), 3.0))
    if name.startswith("decay"):
        return value
    return 1.0 / (1.0 + math.exp(-min(max(value, -14.0), 14.0)))


def _refined(rule: Rule, material: Material, free: list[str], fixed: list[int]) -> Rule:
    """Levenberg-Marquardt over the free constants."""
    best = solved(rule, material, fixed)
    if not free:
        return best
    at = np.array([_to_axis(name, _value(best, name)) for name in free])
    damping = 1e-3
    for _ in range(thresholds.CONSTANT_ROUNDS):
        base = _remainder(best, material)
        slopes = np.stack(
            [
                (_remainder(_moved(best, material, free, at, place, fixed), material) - base)
                / _width(name)
                for place, name in enumerate(free)
            ],
            1,
        )
        normal, toward = slopes.T @ slopes, -slopes.T @ base
        before = best.residual
        for _ in range(4):
            lifted = normal + damping * np.diag(np.diag(normal)) + 1e-300 * np.eye(len(free))
            step = np.linalg.lstsq(lifted, toward, rcond=None)[0]
            there = at + np.clip(step, -3.0, 3.0)
            tried = solved(_at(best, free, there), material, fixed)
            if tried.residual < best.residual:
                best, at, damping = tried, there, damping / 10
                break
            damping *= 10
        if not best.residual < before * (1 - 1e-4):
            break
    return best


def _value(rule: Rule, name: str) -> float:
    if name.startswith("decay"):
        return rule.decay[int(name[-1])]
    return float(getattr(rule, name))


def _width(name: str) -> float:
    return 1e-5 if name.startswith("decay") else 1e-4


def _at(rule: Rule, free: list[str], at: np.ndarray) -> Rule:
    return _with(rule, {name: _from_axis(name, float(x)) for name, x in zip(free, at, strict=True)})


def _moved(
    rule: Rule, material: Material, free: list[str], at: np.ndarray, place: int, fixed: list[int]
) -> Rule:
    there = at.copy()
    there[place] += _width(free[place])
    return solved(_at(rule, free, there), material, fixed)


def _remainder(rule: Rule, material: Material) -> np.ndarray:
    """What the rule leaves of every update, flat, over the norm of all."""
    pieces = []
    for group, decay in zip(material.groups, rule.decay, strict=True):
        direction, decayed = simulate(rule, group, decay)
        rates = np.array(rule.rates)[:, None]
        pieces.append((group[2] + rates * (direction + decay * decayed)).ravel())
    flat: np.ndarray = np.concatenate(pieces) / material.norm
    return flat
