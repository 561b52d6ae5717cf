"""Weight decay that one side has added to its gradients, told by the parameters beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.training.rules import GROUPS
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.naming.evidence import evidence_word
from troubleshooter_nb.thresholds import DECAY_LEFT, FEWEST_GRADIENTS, FEWEST_TRAINED

_SIDES = ("left", "right")


@dataclass(frozen=True)
class Beside:
    """Some elements of a parameter and of its gradients, float64, shape (n,) each.

    `noise` is the norm of what rounding may leave of the gradients, over that of the right one.
    """

    pair: int
    ndim: int
    values: np.ndarray
    left: np.ndarray
    right: np.ndarray
    noise: float


def detect_decay(tensors: Sequence[Beside]) -> list[Suspicion]:
    """Whether the gradients of a step differ by a multiple of the parameters, all or some of them.

    Returns
    -------
    list of Suspicion
        Of weight_decay_coupling or weight_decay_selection; at most one.
    """
    parts = [[t for t in tensors if (t.ndim <= 1) == (name == GROUPS[0])] for name in GROUPS]
    decays, kept = [0.0, 0.0], list[Beside]()
    squares, alone, whole, noise = 0.0, 0.0, 0.0, 0.0
    for place, members in enumerate(parts):
        if not members:
            continue
        apart, values = (
            np.concatenate([getattr(t, name) for t in members]) for name in ("left", "values")
        )
        right = np.concatenate([t.right for t in members])
        apart = apart - right
        square = float(values @ values)
        share = float(apart @ values) / square if square > 0 else 0.0
        rest = float(((apart - share * values) ** 2).sum())
        # Five standard errors make a decay.
        if abs(share) > 5 * math.sqrt(rest / len(apart) / square if square > 0 else math.inf):
            decays[place] = share
            kept += members
        else:
            rest = float(apart @ apart)
        squares += rest
        alone += float(apart @ apart)
        whole += float(right @ right)
        noise += sum((t.noise**2) * float(t.right @ t.right) for t in members)
    size = sum(len(t.values) for t in kept)
    if len(kept) < FEWEST_GRADIENTS or size < FEWEST_TRAINED or not whole > 0:
        return []
    before, residual, floor = (math.sqrt(one / whole) for one in (alone, squares, noise))
    floor = max(floor, 1e-7)
    signs = {decay > 0 for decay in decays if decay}
    if len(signs) > 1 or residual > DECAY_LEFT * max(floor, 0.0) or before < 10 * residual:
        return []
    is_selected = decays[1] == 0 and bool(parts[1])
    cause = "weight_decay_selection" if is_selected else "weight_decay_coupling"
    side = 0 if signs == {True} else 1
    said: list[str] = [Message("evidence.undecayed")] * 2
    said[side] = _said([abs(one) for one in decays], [bool(one) for one in parts])
    evidence: dict[str, Any] = {
        **dict(zip(_SIDES, said, strict=True)),
        **{"form": "gradients", "side": _SIDES[side]},
        **{"decay": [abs(one) for one in decays], "tensors": len(kept)},
    }
    return [
        Suspicion(
            *(cause, before, residual, before, floor, evidence, kept[0].pair, size - 2),
        )
    ]


def _said(decays: Sequence[float], there: Sequence[bool]) -> str:
    """Decays of both groups in words; one number where it is that of all."""
    flat, other = (f"{one:.4g}" for one in decays)
    coupling = evidence_word("in the gradient")
    if all(there) and flat != other:
        return joined(
            [Message("evidence.decay_by_ndim", decay=other, other=flat, coupling=coupling)], by=","
        )
    decay = other if there[1] else flat
    return joined([Message("evidence.decay", decay=decay, coupling=coupling)], by=",")
