"""Values that stay on one side what they were at the first step, as constants of a trace do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.between.attention_between import attention_fits
from troubleshooter_nb.analysis.causes.between.earlier_values import at_first_step, earlier_values
from troubleshooter_nb.analysis.causes.case import Fit, Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.thresholds import FROZEN_MASK_FLOORS


def frozen_values(operators: Operators, row: int) -> list[Suspicion]:
    """A value of a later step that is on one side, bit for bit, that of the first step.

    On the other side it has changed since, and both sides agreed at the first step.
    """
    first = at_first_step(operators.flow, row)
    if first is None:
        return []
    before, now = operators.tensor(first), operators.tensor(row)
    pairs = [replace(now, sources=(before.sources[side], now.sources[side])) for side in (0, 1)]
    if before.differs or any(p.shapes[0] is None or p.shapes[0] != p.shapes[1] for p in pairs):
        return []
    changed = [_changed(pair) for pair in pairs]
    if sorted(map(bool, changed)) != [False, True]:
        return []
    evidence = _evidence(("left", "right")[bool(changed[0])], before.rel_l2, now.rel_l2)
    left = before.rel_l2
    return [
        Suspicion(
            *("constant_baked", now.rel_l2, left, now.rel_l2, left, evidence, now.pair),
            independent=max(changed),
        )
    ]


def _changed(pair: TensorPair) -> int:
    """How many elements of a value have changed."""
    blocks = streamed([*filter(None, pair.sources)], pair.budget)
    return sum(int(np.sum(before != now)) for _, (before, now) in blocks)


def frozen_mask(operators: Operators, row: int, best: tuple[Fit, Fit]) -> dict[str, Any]:
    """Evidence that attention of one side hides what it hid at the first step; empty for none.

    Parameters
    ----------
    operators : Operators
    row : int
        What attention made, at a later step.
    best : tuple of Fit
        Of left and right, which hide other places.
    """
    first = at_first_step(operators.flow, row)
    found = earlier_values(operators, first) if first is not None else None
    if found is None:
        return {}
    tensor, *both = found
    fits = [next(iter(attention_fits(earlier)), None) for earlier in both]
    floors = [FROZEN_MASK_FLOORS * earlier.floor for earlier in both]
    if any(fit is None or fit.residual > floor for fit, floor in zip(fits, floors, strict=True)):
        return {}
    hidden = {str(fit.settings.get("hidden")) for fit in fits if fit is not None}
    still = [fit.settings.get("hidden") in hidden for fit in best]
    if len(hidden) > 1 or hidden & {"nothing", "None"} or sum(still) != 1:
        return {}
    return _evidence(("left", "right")[still[1]], tensor.rel_l2, operators.tensor(row).rel_l2)


def _evidence(side: str, first: float, later: float) -> dict[str, Any]:
    return {"side": side, "first": first, "later": later, "values": 2}
