"""Whether two decoders agree until the first token that is decoded from the cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.layers.trials import misfit

# Errors of decoded tokens stand out this much over those of the prompt.
_JUMP = 30.0


def detect_cache_fault(
    calls: Sequence[tuple[np.ndarray, np.ndarray]], axis: int = 1, floor: float = 1e-6
) -> Suspicion | None:
    """The cause ``kv_cache_path`` where the prompt agrees and all decoded tokens differ.

    Parameters
    ----------
    calls : sequence of (left, right)
        Outputs of one layer, call after call: first the prompt, then one token each.
    axis : int
        That of the tokens.
    floor : float
        Relative error that rounding leaves.

    Returns
    -------
    Suspicion or None
        None for fewer than two decoded tokens, where the prompt differs, or one decoded token
        agrees. Evidence: ``left`` and ``right``, how many tokens agree and how many differ.
    """
    if len(calls) < 3 or any(a.shape != b.shape or a.ndim <= axis for a, b in calls):
        return None
    (prompt, same), decoded = calls[0], calls[1:]
    if prompt.shape[axis] < 2 or any(a.shape[axis] != 1 for a, _ in decoded):
        return None
    start = misfit(same.astype(np.float64), prompt.astype(np.float64))
    errors = [misfit(b.astype(np.float64), a.astype(np.float64)) for a, b in decoded]
    if not start <= floor or not min(errors) > _JUMP * max(start, floor / 10):
        return None
    evidence = {
        "left": f"{prompt.shape[axis]} prompt tokens agree",
        "right": f"{len(decoded)} decoded tokens differ",
        "first_error": errors[0],
    }
    # The prompt's error is what the same layer leaves without the cache.
    before, rest = max(errors), [error for error in errors if np.isfinite(error)]
    independent = sum(a.size for a, _ in decoded) if rest else 0
    return Suspicion("kv_cache_path", before, start, before, floor, evidence, -1, independent)
