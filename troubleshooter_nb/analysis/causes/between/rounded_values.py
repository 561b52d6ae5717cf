"""Earlier values that one side rounded to a shorter format on their way into a call."""

from __future__ import annotations

import numpy as np

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues
from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.metrics.float_formats import HALF_FORMATS, in_format
from troubleshooter_nb.thresholds import FEWEST_BETWEEN

_AS_IT_IS = "as it was"


def rounded_suspicions(
    tensor: TensorPair, left: EarlierValues, right: EarlierValues
) -> list[Suspicion]:
    """Values that are an earlier one on one side, and the same one rounded on the other.

    Returns
    -------
    list of Suspicion
        Of softmax_precision_path before a softmax, else of low_precision_cast.
    """
    targets = left.target, right.target
    for sources in zip(left.sources, right.sources, strict=True):
        forms = [_form(s.values, target) for s, target in zip(sources, targets, strict=True)]
        if None in forms or forms[0] == forms[1] or _AS_IT_IS not in forms:
            continue
        narrow = forms.index(next(form for form in forms if form != _AS_IT_IS))
        name, whole = str(forms[narrow]), targets[1 - narrow]
        finite = whole[np.isfinite(whole)]
        evidence = {
            "setting": "precision",
            "layer": left.word,
            "side": ("left", "right")[narrow],
            "format": name,
            "left": forms[0],
            "right": forms[1],
            "held": 1.0,
            "held_other": float(np.mean(in_format(finite, name) == finite)),
        }
        cause = "softmax_precision_path" if left.word == "softmax" else "low_precision_cast"
        # The rounded values are reproduced exactly.
        return [
            Suspicion(
                *(cause, tensor.rel_l2, 0.0, tensor.rel_l2, 2.0**-24, evidence, tensor.pair),
                independent=finite.size,
            )
        ]
    return []


def _form(source: np.ndarray, target: np.ndarray) -> str | None:
    """How a target holds a source: as it was, or all of it in a format; else None."""
    if source.shape != target.shape or source.size < FEWEST_BETWEEN:
        return None
    if np.array_equal(source, target, equal_nan=True):
        return _AS_IT_IS
    rounded = (
        name
        for name in HALF_FORMATS.values()
        if np.array_equal(in_format(source, name), target.astype(np.float64), equal_nan=True)
    )
    return next(rounded, None)
