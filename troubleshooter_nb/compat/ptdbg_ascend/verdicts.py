"""``Accuracy Reached or Not``: what the tool made of cosine and largest error."""

from __future__ import annotations

import math
from typing import Literal

from troubleshooter_nb.compat.msprobe.compare.metrics import UNKNOWN, UNMATCHED, ZERO
from troubleshooter_nb.compat.msprobe.compare.verdicts import COSINE, NO, SMALL, YES, tensor_verdict

Rule = Literal["1.0", "2.0"]
Figure = float | str

NAN = ZERO  # not computable


def verdict(cosine: Figure, max_abs_error: Figure, rule: Rule = "2.0") -> str:
    """``Yes``, ``No``, ``Unmatched`` or ``Nan``, which is not computable.

    Parameters
    ----------
    cosine : float or str
        In [-1, 1], or a word that stands in its place.
    max_abs_error : float or str
        At least 0.
    rule : {"1.0", "2.0"}
        That of release 1.0: No for a cosine below 0.99 with an error above 0.001. From 2.0 on also
        for a cosine below 0.9 or an error above 1 alone.

    Notes
    -----
    Source: documents and runs of ptdbg_ascend. The rule of 2.0 is that of msprobe, its successor,
    which however judges a cosine of one side of zeros by the error alone, and has ``None`` for
    other words, where this says ``Nan``.
    """
    if cosine not in (UNMATCHED, UNKNOWN):
        figures = cosine, max_abs_error
        if any(isinstance(one, str) or math.isnan(one) for one in figures):
            return NAN
    if rule == "2.0" or isinstance(cosine, str) or isinstance(max_abs_error, str):
        return tensor_verdict(cosine, max_abs_error)
    return NO if cosine < COSINE and max_abs_error > SMALL else YES
