"""Clipping of one side's gradients, told by the updates that were made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.training.fitting import held_against
from troubleshooter_nb.analysis.causes.training.rules import Material, Rule
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.line_search import least_along


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
