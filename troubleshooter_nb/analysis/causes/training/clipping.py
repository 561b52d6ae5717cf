"""Clipping of one side's gradients, told by the updates that were made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.training.fitting import (
    best_of,
    fit,
    fit_all,
    held_against,
    is_good,
    is_worse,
    without_idle_decay,
)
from troubleshooter_nb.analysis.causes.training.rules import Material, Rule, spread
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.line_search import least_along

_SIDES = ("left", "right")
_USUAL = (Rule("sgd", 0.9), Rule("adam", 0.9, decoupled=True))


@dataclass(frozen=True)
class Clip:
    """How gradients were clipped.

    Attributes
    ----------
    form : {"global", "element"}
        The norm of all gradients of a step together, or each of their elements.
    limit : float
    """

    form: str
    limit: float

    @property
    def text(self) -> Message:
        """What was done, in words."""
        name = "evidence.clipped_norm" if self.form == "global" else "evidence.clipped_values"
        return Message(name, limit=float(f"{self.limit:.4g}"))

    def of(self, material: Material) -> Material:
        """The same side with the gradients that its optimizer was given."""
        factors = np.ones(len(material.groups[0][0]))
        if self.form == "global" and material.norms is not None:
            factors = np.minimum(1.0, self.limit / material.norms)
        bound = self.limit if self.form == "element" else math.inf
        groups = tuple(
            (np.clip(gradients, -bound, bound) * factors[:, None], values, updates)
            for gradients, values, updates in material.groups
        )
        return replace(material, groups=groups)


def clips_between(rule: Rule, material: Material) -> Iterator[tuple[Clip, Rule]]:
    """Clippings by which the other side's rule, constants and all, may have made these updates.

    Each with that rule, and what it leaves of the updates of `material`. The limit alone is fitted.
    """
    for form, largest in _largest(material).items():

        def left(limit: float, form: str = form) -> float:
            return held_against(rule, Clip(form, limit).of(material)).residual

        lowest = largest * thresholds.LEAST_CLIPPED
        limit = least_along(left, lowest, largest, steps=24, rounds=thresholds.CLIP_ROUNDS)
        clip = Clip(form, limit)
        yield clip, held_against(rule, clip.of(material))


def _largest(material: Material) -> dict[str, float]:
    """Of each form the limit from which on it changes nothing."""
    largest = [np.abs(gradients).max(initial=0.0) for gradients, _, _ in material.groups]
    found = {"element": float(max(largest))}
    if material.norms is not None:
        found["global"] = float(material.norms.max())
    return {form: size for form, size in found.items() if size > 0}


def clip_of_one(clip: Clip, mine: int) -> dict[str, Any]:
    """Evidence of a clipping of the left side (0) or the right one (1) alone."""
    said = [Message("evidence.unclipped")] * 2
    said[mine] = clip.text
    return {**dict(zip(_SIDES, said, strict=True)), "clipped": _SIDES[mine], "limit": clip.limit}


@dataclass(frozen=True)
class Throughout:
    """A side, with its rule, and whether its gradients were cut to one norm at every step.

    Then `material` has them of the norm `limit`, whatever theirs was: only its product with the
    rate is known.
    """

    rule: Rule
    material: Material
    is_clipped: bool
    limit: float

    @property
    def text(self) -> Message:
        """What was done, in words."""
        if not self.is_clipped:
            return Message("evidence.unclipped")
        product = self.limit * float(np.median(self.rule.rates))
        return Message("evidence.clipped_throughout", product=f"{product:.4g}")


def clipped_throughout(rule: Rule, side: Material, limit: float) -> Throughout:
    """Whether one rate is enough for all steps, or a rule fits, where all norms are cut to one.

    Parameters
    ----------
    rule : Rule
        The best one of gradients as they are.
    limit : float
        At most the least norm of a step; 0 where one is not known.
    """
    as_it_is = Throughout(rule, side, False, limit)
    varies = spread(np.array(rule.rates)) > thresholds.SAME_RATE
    is_explained = rule.residual <= thresholds.AS_GOOD_UNFITTED * side.floor
    if side.norms is None or not limit > 0 or len(rule.rates) < 2 or (is_explained and not varies):
        return as_it_is
    cut = Clip("global", limit).of(side)
    # All forms are only worth trying where one of the usual ones comes near.
    usual = [replace(rule, decay=(0.0, 0.0))] if is_explained else _USUAL
    own = min((fit(form, cut) for form in usual), key=lambda one: one.residual)
    if not is_explained and own.residual < rule.residual / thresholds.AS_GOOD_UNFITTED:
        own = best_of(fit_all(cut), cut)
    own = without_idle_decay(own, cut)
    is_simpler = varies and not is_worse(own.residual, rule.residual, side)
    is_better = own.residual < rule.residual / thresholds.AS_GOOD_UNFITTED
    has_one_rate = spread(np.array(own.rates)) < thresholds.SAME_RATE
    if (is_simpler or is_better) and is_good(own, cut) and has_one_rate:
        return Throughout(own, cut, True, limit)
    return as_it_is
