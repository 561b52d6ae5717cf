"""How sure a proposed cause is: from what its proof leaves over, and from its best rival."""

from __future__ import annotations

import math

from troubleshooter_nb import catalogue
from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.thresholds import FEW_EXACT_VALUES, FEW_VALUES, MOST_SURE, ROUNDING_FLOORS


def confidence(suspicion: Suspicion) -> float:
    """How sure a cause is, from 0 to 1.

    Notes
    -----
    The product of four shares: how much of the way from the difference to rounding the residual
    has gone, on a logarithmic scale; how far the best rival stays behind; how many independent
    values the explanation was held against; and its part among causes that act together.
    Calibrated with ``benchmarks/faults.py``.
    """
    floor = max(ROUNDING_FLOORS * suspicion.floor, 1e-300)
    residual = max(suspicion.residual, floor)
    way = _share(suspicion.before, residual, floor)
    lead = 1.0 - min(1.0, residual / max(suspicion.rival, 1e-300)) ** 0.75
    # Integers that fit exactly hit each value by chance far more seldom than rounded ones.
    few = FEW_EXACT_VALUES if suspicion.floor == 0 == suspicion.residual else FEW_VALUES
    enough = suspicion.independent / (suspicion.independent + few)
    sure = MOST_SURE * way * lead * enough * min(suspicion.share, 1.0)
    return min(float(sure), catalogue.of(suspicion.cause).at_most)


def _share(before: float, residual: float, floor: float) -> float:
    if residual <= floor:
        return 1.0 if before > floor else 0.0
    if math.isinf(before):
        before = max(1.0, 10.0 * residual)
    if before <= residual:
        return 0.0
    # Nine tenths of a difference undone is much, whatever the floor.
    gone = math.log(before / residual)
    return min(1.0, gone / min(math.log(before / floor), math.log(100.0)))
