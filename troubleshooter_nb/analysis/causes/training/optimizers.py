"""Where the fitted update rules of both sides differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.clipping import (
    Throughout,
    clip_of_one,
    clipped_throughout,
    clips_between,
)
from troubleshooter_nb.analysis.causes.training.factors import usual_number
from troubleshooter_nb.analysis.causes.training.fitting import (
    at_other_rate,
    best_of,
    clearly_worse,
    fit,
    fit_all,
    held_against,
    is_good,
    is_worse,
    without_idle_decay,
)
from troubleshooter_nb.analysis.causes.training.rule_words import about, rule_text
from troubleshooter_nb.analysis.causes.training.rules import (
    Material,
    Rule,
    as_meant,
    spread,
    switched,
)
from troubleshooter_nb.thresholds import AS_GOOD_UNFITTED, SAME_RATE, USUAL_CLOSE

_MOST_RATES = 8  # named in the evidence
# What an optimizer of each family has.
_SETTINGS = {
    "sgd": ("momentum", "dampening", "nesterov", "decoupled"),
    "adam": ("momentum", "beta", "eps", "place", "correction", "start", "decoupled"),
}

Sides = tuple[Material, Material]
Rules = tuple[Rule, Rule]


def detect_rules(sides: Sides) -> list[Suspicion]:
    """Suspicions from the update rules of left and right, each fitted to its own gradients."""
    left, right = (without_idle_decay(best_of(fit_all(side), side), side) for side in sides)
    chosen = _one_choice_apart((left, right), sides)
    if chosen:
        return chosen
    limit = min(0.0 if side.norms is None else float(side.norms.min()) for side in sides)
    before = left, right
    through = [
        clipped_throughout(rule, side, limit) for rule, side in zip(before, sides, strict=True)
    ]
    sides = through[0].material, through[1].material
    rules = _same_form((through[0].rule, through[1].rule), sides)
    good = all(is_good(rule, side) for rule, side in zip(rules, sides, strict=True))
    if not good or rules[0].family != rules[1].family:
        return []
    found = [*_constants(rules, sides), *_decays(rules, sides)]
    clips = [one.is_clipped for one in through]
    rates = _rates(rules, sides) if clips[0] == clips[1] else []
    if any(clips) and (rates or not all(clips)):
        clip = _clip_throughout(through, before, rules, sides, rates)
        # Of norms that are all cut to one limit the rate is known times that limit.
        found += [replace(one, share=0.5 if rates else 1.0) for one in (clip, *rates)]
    else:
        found += rates
    # Of two signs of one cause that which is worth more: a missing correction also moves eps.
    strongest = {one.cause: one for one in sorted(found, key=lambda one: one.rival)}
    return [one for one in found if one is strongest[one.cause]]


def _one_choice_apart(best: Rules, sides: Sides) -> list[Suspicion]:
    """What one side's rule becomes the other's by, where a single choice is all that it takes.

    Over few steps other rules, with numbers of their own, explain as much. This one is fitted to
    nothing: it says the updates of a side from the constants of the other.
    """
    found = []
    for mine, other in ((0, 1), (1, 0)):
        if not is_good(best[other], sides[other]):
            continue
        # The other side's constants are known as well as rounding lets them.
        most = AS_GOOD_UNFITTED * max(sides[mine].floor, best[other].residual)
        alike = held_against(best[other], sides[mine]).residual
        if alike <= most:
            return []
        tried = [
            (cause, form, held_against(rule, sides[mine]), dict[str, Any]())
            for cause, form, rule in switched(best[other])
        ]
        tried += [
            ("gradient_clipping", clip.form, own, clip_of_one(clip, mine))
            for clip, own in clips_between(best[other], sides[mine])
        ]
        for one in tried:
            own = one[2]
            if own.residual <= min(most, alike / AS_GOOD_UNFITTED):
                found.append((own.residual / most, mine, alike, one))
    if not found:
        return []
    units, mine, alike, (cause, form, own, facts) = min(found, key=lambda one: one[0])
    others = [one[0] for one in found if one[3][0] != cause]
    rival = min(alike, _apart(sides), *(own.residual * one / units for one in others))
    rules = (own, best[1]) if mine == 0 else (best[0], own)
    chosen = _suspicion(cause, form, rules, sides, (mine, rival), facts)
    if cause != "gradient_clipping":
        return [chosen]
    return _unless_a_rate(chosen, best, sides, mine)


def _unless_a_rate(clip: Suspicion, best: Rules, sides: Sides, mine: int) -> list[Suspicion]:
    """A clipping; or a rate that leaves as little, where the norms of the steps do not decide.

    Then the round one of the two numbers does, or nobody can tell.
    """
    rate, factor = at_other_rate(best[1 - mine], sides[mine])
    if rate.residual > AS_GOOD_UNFITTED * max(clip.residual, clip.floor):
        return [replace(clip, rival=min(clip.rival, rate.residual))]
    limit = usual_number(float(clip.evidence["limit"]), USUAL_CLOSE) is not None
    ratio = usual_number(max(factor, 1 / factor) if factor > 0 else 0.0, USUAL_CLOSE) is not None
    if limit and not ratio:
        return [clip]
    rates = _rates(best, sides)
    return rates if ratio and not limit else [replace(one, share=0.5) for one in (clip, *rates)]


def _clip_throughout(
    through: Sequence[Throughout],
    before: Rules,
    rules: Rules,
    sides: Sides,
    rates: Sequence[Suspicion],
) -> Suspicion:
    """A clipping at every step, of one side or with another product of limit and rate."""
    clips = [one.is_clipped for one in through]
    left_over = [
        math.hypot(rule.residual, spread(np.array(rule.rates)))
        for rule, is_clipped in zip(before, clips, strict=True)
        if is_clipped
    ]
    rival = max(*left_over, *(one.rival for one in rates), 0.0)
    evidence = {word: one.text for word, one in zip(("left", "right"), through, strict=True)}
    mine = clips.index(True)
    return _suspicion("gradient_clipping", "global", rules, sides, (mine, rival), evidence)


def _same_form(best: Rules, sides: Sides) -> Rules:
    """One form for both sides where neither loses by it."""
    if _form(best[0]) == _form(best[1]) or best[0].family != best[1].family:
        return best
    for mine, other in ((0, 1), (1, 0)):
        swapped = fit(replace(best[other], decay=(0.0, 0.0)), sides[mine])
        if not is_worse(swapped.residual, best[mine].residual, sides[mine]):
            swapped = without_idle_decay(swapped, sides[mine])
            return (swapped, best[1]) if mine == 0 else (best[0], swapped)
    return best


def _form(rule: Rule) -> tuple[Any, ...]:
    return (
        *(rule.family, rule.momentum != 0, rule.dampening != 0, rule.nesterov, rule.place),
        *(rule.correction, rule.start, rule.decoupled),
    )


def _constants(rules: Rules, sides: Sides) -> list[Suspicion]:
    """Differences in momentum, betas, epsilon and the start of the averages."""
    found = []
    for cause, form, names in _aspects(rules):
        tested = _swap(rules, sides, names)
        if tested is not None:
            found.append(_suspicion(cause, form, rules, sides, tested))
    return found


def _aspects(rules: Rules) -> list[tuple[str, str, tuple[str, ...]]]:
    if rules[0].family == "sgd":
        return [("momentum_convention", "momentum", ("momentum", "dampening", "nesterov"))]
    aspects: list[tuple[str, str, tuple[str, ...]]] = [
        ("momentum_convention", "betas", ("momentum", "beta")),
        ("adam_epsilon_place", "epsilon", ("eps", "place")),
        ("optimizer_start_state", "start", ("start", "correction")),
    ]
    if rules[0].start != rules[1].start:
        # Then averages of squares start elsewhere; the other constants follow from the rest.
        aspects = [aspects[2], aspects[0]]
    return aspects


def _swap(rules: Rules, sides: Sides, names: tuple[str, ...]) -> tuple[int, float] | None:
    """The side that loses least when it takes these settings from the other, and its residual.

    None where one side can do without its own: then nothing shows that they differ.
    """
    outcomes = []
    for mine, other in ((0, 1), (1, 0)):
        values = {name: getattr(rules[other], name) for name in names}
        form = replace(rules[mine], **values)
        held = {
            name: float(value)
            for name, value in values.items()
            if isinstance(value, float) and name != "start"
        }
        tried = fit(form, sides[mine], held).residual
        if not clearly_worse(tried, rules[mine].residual, sides[mine]):
            return None
        outcomes.append((tried, mine))
    rival, side = min(outcomes)
    return side, rival


def _decays(rules: Rules, sides: Sides) -> list[Suspicion]:
    left, right = rules
    found = []
    if left.decoupled != right.decoupled and any(left.decay) and any(right.decay):
        tested = _swap(rules, sides, ("decoupled",))
        if tested is not None:
            found.append(_suspicion("weight_decay_coupling", "coupling", rules, sides, tested))
    differing = {}
    for place in range(len(left.decay)):
        tested = _swap_decay(rules, sides, place)
        if tested is not None:
            differing[place] = tested
    if list(differing) == [0] and any(rule.decay[1] for rule in rules):
        cause, form = "weight_decay_selection", "selection"
    else:
        cause, form = "weight_decay_coupling", "value"
    if differing and not found:
        tested = differing[max(differing)]
        found.append(_suspicion(cause, form, rules, sides, tested))
    return found


def _swap_decay(rules: Rules, sides: Sides, place: int) -> tuple[int, float] | None:
    if abs(rules[0].decay[place] - rules[1].decay[place]) <= 1e-9:
        return None
    outcomes = []
    for mine, other in ((0, 1), (1, 0)):
        held = {f"decay_{i}": one for i, one in enumerate(rules[mine].decay)}
        held[f"decay_{place}"] = rules[other].decay[place]
        tried = fit(rules[mine], sides[mine], held).residual
        if not clearly_worse(tried, rules[mine].residual, sides[mine]):
            return None
        outcomes.append((tried, mine))
    rival, side = min(outcomes)
    return side, rival


def _rates(rules: Rules, sides: Sides) -> list[Suspicion]:
    """Differences in learning rate, schedule and bias correction."""
    meant = (as_meant(rules[0]), as_meant(rules[1]))
    found = []
    if meant[0].correction != meant[1].correction and not any(rule.start for rule in rules):
        side = 0 if not meant[0].correction else 1
        rival = math.hypot(rules[side].residual, spread(np.array(rules[side].rates)))
        found.append(_suspicion("adam_epsilon_place", "correction", meant, sides, (side, rival)))
    left, right = (np.array(rule.rates) for rule in meant)
    tolerance = max(
        SAME_RATE,
        *(
            20 * rule.residual * math.sqrt(len(rule.rates) / side.size)
            for rule, side in zip(rules, sides, strict=True)
        ),
    )
    compared = compare_rates(left, right, tolerance)
    if compared is not None:
        cause, distance, facts = compared
        if cause == "learning_rate" and len(left) == 1 and _is_correction(facts["ratio"], rules):
            cause, facts = "adam_epsilon_place", facts | {"form": "correction"}
        rival = math.hypot(max(rule.residual for rule in rules), distance)
        form = facts.pop("form")
        found.append(_suspicion(cause, form, meant, sides, (0, rival), facts))
    return found


def _is_correction(ratio: float, rules: Rules) -> bool:
    """Whether one step's ratio is what the missing bias correction of Adam makes of it."""
    if rules[0].family != "adam" or not rules[0].momentum:
        return False
    expected = math.sqrt(1 - 0.999) / (1 - 0.9)
    return any(abs(one / expected - 1) < 1e-2 for one in (ratio, 1 / ratio))


def compare_rates(
    left: np.ndarray, right: np.ndarray, tolerance: float
) -> tuple[str, float, dict[str, Any]] | None:
    """How two sequences of learning rates differ: cause, relative distance, facts; or None."""
    scale = float(np.abs(right).max(initial=0.0))
    if not scale > 0 or not np.abs(left).max(initial=0.0) > 0:
        return None
    distance = float(np.linalg.norm(left - right) / np.linalg.norm(right))
    if np.abs(left - right).max() <= tolerance * scale:
        return None
    facts: dict[str, Any] = {"ratio": math.nan, "form": "schedule", "late": ""}
    for late, slow, fast in (("left", left, right), ("right", right, left)):
        shifted = np.abs(slow[1:] - fast[:-1]).max(initial=0.0) <= tolerance * scale
        if len(slow) > 1 and shifted and abs(slow[0]) < (1 - tolerance) * np.abs(fast[0]):
            zero = bool(abs(slow[0]) <= tolerance * scale)
            # Rates that always rise by the same amount are late in the same way: a shift it is.
            return "schedule_off_by_one", distance, facts | {"late": late, "first_zero": zero}
    usable = np.abs(right) > tolerance * scale
    ratios = left[usable] / right[usable]
    ratio = float(np.median(ratios))
    facts["ratio"] = ratio
    if np.abs(left - ratio * right).max() <= tolerance * scale * max(abs(ratio), 1.0):
        return "learning_rate", distance, facts | {"form": "ratio"}
    # No one ratio says it: the rates of the steps do.
    rates = {"left": left[:_MOST_RATES].tolist(), "right": right[:_MOST_RATES].tolist()}
    return "learning_rate", distance, facts | {"ratio": math.nan, **rates}


def _suspicion(
    cause: str,
    form: str,
    rules: Rules,
    sides: Sides,
    tested: tuple[int, float],
    facts: Mapping[str, Any] | None = None,
) -> Suspicion:
    side, rival = tested
    evidence: dict[str, Any] = {"form": form, "family": rules[0].family, "gradients": "recorded"}
    said = about(form, rules, sides[0].numbers)
    for word, rule, text in zip(("left", "right"), rules, said, strict=True):
        evidence[word] = text
        evidence |= {f"{word}_{name}": getattr(rule, name) for name in _SETTINGS[rule.family]}
        evidence[f"{word}_rates"] = list(rule.rates[:16])
        evidence[f"{word}_rate"] = float(np.median(rule.rates))
        evidence[f"{word}_decay"] = list(rule.decay)
        evidence[f"{word}_rule"] = rule_text(rule)
    evidence |= facts or {}
    return Suspicion(
        cause,
        _apart(sides),
        rules[side].residual,
        rival,
        sides[side].floor,
        evidence,
        independent=sides[side].size - len(rules[side].rates) - 4,
    )


def _apart(sides: Sides) -> float:
    """Norm of the difference of all updates over the norm of those on the right."""
    squares = sum(
        float(((one[2] - other[2]) ** 2).sum())
        for one, other in zip(sides[0].groups, sides[1].groups, strict=True)
    )
    return math.sqrt(squares) / sides[1].norm
