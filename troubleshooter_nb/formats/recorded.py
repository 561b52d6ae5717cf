"""What statistics that a tool recorded say about NaN and infinities, which it did not count."""

from __future__ import annotations

import math
from collections.abc import Mapping


def with_nonfinite(statistics: Mapping[str, float]) -> dict[str, float]:
    """Recorded min, max, mean and l2 with the counts they imply.

    A finite norm proves that no value is NaN or infinite. A NaN among the others proves one NaN,
    an infinite extreme one infinity: the count 1 then means at least one. A norm alone proves
    nothing, since that of float16 overflows; nor does the mean of infinities of both signs.
    """
    found = dict(statistics)
    extremes = [found[name] for name in ("min", "max") if name in found]
    both_signs = set(map(float, extremes)) == {-math.inf, math.inf}
    seen = extremes if both_signs else [*extremes, *([found["mean"]] if "mean" in found else [])]
    if math.isfinite(found.get("l2", math.nan)):
        found |= {"nan_count": 0, "inf_count": 0}
    elif any(math.isnan(value) for value in seen):
        found["nan_count"] = 1
    elif any(math.isinf(found.get(name, 0.0)) for name in ("min", "max")):
        found["inf_count"] = 1
    return found
