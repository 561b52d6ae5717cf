"""What was recorded of a layer's settings, where its values say nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.messages import joined


def setting_suspicion(settings: Sequence[str]) -> Suspicion:
    """That a layer which creates a difference is set otherwise on the two sides.

    Parameters
    ----------
    settings : sequence of str
        Messages, one for each setting that differs.
    """
    # Nothing is undone: there is nothing to undo it with.
    evidence = {"settings": joined(sorted(settings))}
    return Suspicion("set_otherwise", math.inf, 0.0, math.inf, 0.0, evidence)
