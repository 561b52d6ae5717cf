"""Runs that go on from a checkpoint: whose optimizer remembers what was before, and whose not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.fitting import best_of, fit_all, held_against
from troubleshooter_nb.analysis.causes.training.rules import Material, Rule
from troubleshooter_nb.messages import Message

_SIDES = ("left", "right")


def detect_resumed(sides: tuple[Material, Material], step: int) -> list[Suspicion]:
    """A state that one side lost before the first step that was recorded.

    Parameters
    ----------
    sides : tuple of Material
        From the same values and gradients of the first step on.
    step : int
        Its number.

    Returns
    -------
    list of Suspicion
        Of optimizer_state_lost; at most one.
    """
    sides = _seen(sides[0]), _seen(sides[1])
    rules = [_begun(side) for side in sides]
    for lost, kept in ((0, 1), (1, 0)):
        rule = rules[lost]
        has_memory = rule is not None and bool(rule.momentum or rule.family == "adam")
        if rule is None or not has_memory or rules[kept] is not None or not _begin_alike(sides):
            continue
        remembers = _goes_on(rule, sides[kept])
        if remembers is None and rule.family == "sgd":
            continue
        said = [Message("evidence.remembered")] * 2
        said[lost] = Message("evidence.restarted", step=step)
        evidence: dict[str, Any] = {
            **dict(zip(_SIDES, said, strict=True)),
            **{"form": "restart", "side": _SIDES[lost], "step": step, "family": rule.family},
        }
        before = _apart(sides)
        residual = max(rule.residual, remembers or 0.0)
        # Of Adam it is known that one side begins, and only likely that the other one goes on.
        share = 1.0 if remembers is not None else thresholds.BEGINS_ALONE
        rival = held_against(replace(rule, restart=0), sides[kept]).residual
        size = sides[lost].size - len(rule.rates) - 4
        return [
            Suspicion(
                *("optimizer_state_lost", before, residual, rival, sides[lost].floor, evidence),
                independent=size,
                share=share,
            )
        ]
    return []


def _seen(side: Material) -> Material:
    """A side from its first update on."""
    unseen = side.unseen
    groups = tuple((made[unseen:], values[unseen:], own) for made, values, own in side.groups)
    return replace(side, groups=groups, norms=None)


def _begun(side: Material) -> Rule | None:
    """The rule of an optimizer that begins with the first step; None where none fits."""
    rule = best_of(fit_all(side), side)
    return rule if rule.residual <= thresholds.BEGUN_FLOORS * side.floor else None


def _goes_on(rule: Rule, side: Material) -> float | None:
    """What is left of the later updates of a side whose momentum began before; None for too much.

    With any memory, u_t = momentum * rate_t / rate_(t-1) * u_(t-1) - rate_t * g_t.
    """
    if rule.family != "sgd" or rule.dampening or rule.nesterov or rule.decoupled:
        return None
    rest, whole = 0.0, 0.0
    for (gradients, values, updates), decay in zip(side.groups, rule.decay, strict=True):
        made = (gradients + decay * values)[1:]
        rates = np.array(rule.rates)[:, None]
        carried = rule.momentum * rates[1:] / rates[:-1] * updates[:-1]
        rest += float(((updates[1:] - carried + rates[1:] * made) ** 2).sum())
        whole += float((updates[1:] ** 2).sum())
    left = math.sqrt(rest / whole) if whole > 0 else math.inf
    return left if left <= thresholds.BEGUN_FLOORS * side.floor else None


def _begin_alike(sides: tuple[Material, Material]) -> bool:
    """Whether the first gradients agree, so that it is the memory that the updates differ by."""
    pairs = [
        (one[0][0], other[0][0])
        for one, other in zip(sides[0].groups, sides[1].groups, strict=True)
    ]
    apart = math.sqrt(sum(float(((one - other) ** 2).sum()) for one, other in pairs))
    whole = math.sqrt(sum(float((other**2).sum()) for _, other in pairs))
    return apart <= thresholds.GRADIENTS_ALIKE * whole


def _apart(sides: tuple[Material, Material]) -> float:
    squares = sum(
        float(((one[2] - other[2]) ** 2).sum())
        for one, other in zip(sides[0].groups, sides[1].groups, strict=True)
    )
    return math.sqrt(squares) / sides[1].norm
