"""Decay that one side has added to its gradients, with the parameters beside them."""

from __future__ import annotations

import numpy as np
import pytest

from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.training.decay import Beside, detect_decay
from troubleshooter_nb.messages import told

SHAPES = [(24, 12), (24,), (8, 24), (8,)]


def tensors(flat=0.0, other=0.0, swapped=False, factor=1.0, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    found = []
    for pair, shape in enumerate(SHAPES):
        size = int(np.prod(shape))
        values, right = rng.normal(size=size), 0.01 * rng.normal(size=size)
        decay = flat if len(shape) == 1 else other
        left = (factor * right + decay * values) * (1 + noise * rng.normal(size=size))
        left, right = left.astype(np.float32), right.astype(np.float32)
        left, right = (right, left) if swapped else (left, right)
        found.append(Beside(pair, len(shape), values, left, right, 1e-7))
    return found


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("flat", "other", "cause", "words"),
    [
        (0.1, 0.1, "weight_decay_coupling", "decay 0.1 in the gradient"),
        (0.0, 0.01, "weight_decay_coupling", "decay 0.01 (one-dimensional 0) in the gradient"),
        (0.01, 0.0, "weight_decay_selection", "decay 0 (one-dimensional 0.01) in the gradient"),
    ],
)
def test_decay_in_gradients_is_told_with_its_number(flat, other, cause, words, swapped):
    (found,) = detect_decay(tensors(flat, other, swapped))
    side = "right" if swapped else "left"
    assert (found.cause, found.evidence["side"]) == (cause, side)
    assert told(found.evidence[side], "en") == words
    assert confidence(found) > 0.6


def test_what_is_no_decay_is_none():
    assert detect_decay(tensors()) == []
    assert detect_decay(tensors(factor=1.1)) == []
    assert detect_decay(tensors(0.1, 0.1, noise=0.1)) == []
    # Towards the values in some, away from them in others.
    assert detect_decay(tensors(0.1, -0.1)) == []
    assert detect_decay([]) == []
