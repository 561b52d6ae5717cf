"""Rotary positions that a function between recorded calls applied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from troubleshooter_nb.analysis.causes.between.earlier_values import EarlierValues
from troubleshooter_nb.analysis.causes.between.layouts_of_heads import views
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.searches.rotary import fit_rotary
from troubleshooter_nb.thresholds import TURNED_TRIES


def rotary_fits(earlier: EarlierValues) -> list[Fit]:
    """How a rotation of an earlier value made the target.

    Returns
    -------
    list of Fit
        Settings of `fit_rotary`, with ``formula`` "rotary", ``sources`` and ``orders``.
    """
    if earlier.target.ndim != 4 or not np.isfinite(earlier.target).all():
        return []
    fits: list[Fit] = []
    tried = 0
    for source in earlier.sources:
        for order, view in views(source.values.shape, earlier.shape):
            laid = view(source.values)
            if laid.shape != earlier.shape or tried >= TURNED_TRIES:
                continue
            # A rotation keeps the norm of every vector, or nearly.
            norms = [float(np.linalg.norm(v.astype(np.float64))) for v in (laid, earlier.target)]
            if not 0.5 < norms[0] / max(norms[1], 1e-300) < 2.0:
                continue
            tried += 1
            given = {"formula": "rotary", "sources": (source.name,), "orders": (order,)}
            for fit in fit_rotary(Operands([laid], {}, earlier.target, earlier.roundoff)):
                fits.append(replace(fit, settings={**given, **fit.settings}))
    return sorted(fits, key=lambda fit: fit.residual)[:12]
