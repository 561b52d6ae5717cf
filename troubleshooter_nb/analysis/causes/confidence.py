"""How sure a proposed cause is: from what its proof leaves over, and from its best rival."""

from __future__ import annotations

import math

from troubleshooter_nb.analysis.causes.case import Suspicion

# Residuals within this many floors are rounding.
_ROUNDING = 4.0
_MOST = 0.98
# Values that a coincidence would have to hit: with fewer, a fit proves little.
_FEW = 12.0


def confidence(suspicion: Suspicion) -> float:
    """How sure a cause is, from 0 to 1.

    Notes
    -----
    The product of three shares: how much of the way from the difference to rounding the residual
    has gone, on a logarithmic scale; how far the best rival stays behind; and how many independent
    values the explanation was held against. Calibrated with ``benchmarks/faults.py``.
    """
    floor = max(_ROUNDING * suspicion.floor, 1e-300)
    residual = max(suspicion.residual, floor)
    way = _share(suspicion.before, residual, floor)
    lead = 1.0 - min(1.0, residual / max(suspicion.rival, 1e-300)) ** 0.75
    enough = suspicion.independent / (suspicion.independent + _FEW)
    return float(_MOST * way * lead * enough)


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
