"""What is proved of one pair of tensors fills the sentences of its causes."""

from __future__ import annotations

import string

import numpy as np

from tests.analysis.causes.tensors.kit import data, output, tensor, weights
from troubleshooter_nb.analysis.causes.tensors import detect_root, detect_values
from troubleshooter_nb.catalogue import CAUSES


def gaps(template):
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def found():
    random = np.random.default_rng(0)
    weight, square = weights(random, 64, 32), weights(random, 64, 64)
    swapped = np.concatenate([weight[32:], weight[:32]])
    yield detect_root(tensor(square.T, square))
    yield detect_root(tensor(swapped, weight, "mlp.gate_up.weight"))
    yield detect_root(tensor(swapped, weight, "attn.kv.weight"))
    yield detect_root(tensor(square.astype(np.float16).astype("f4"), square))
    yield detect_root(tensor(np.zeros(64, "f4"), weight[:, 0], "fc.bias"))
    yield detect_root(data(weight[::-1], weight))
    yield detect_root(data(weight * 255, weight))
    yield detect_values(output(np.maximum(square, 0), square))
    yield detect_values(output(np.clip(square, -0.05, 0.05), square))


def test_the_evidence_fills_every_gap():
    seen = set()
    for suspicions in found():
        for one in suspicions:
            seen.add(one.cause)
            values = {**one.evidence, "before": one.before, "residual": one.residual}
            for part in ("proof", "repair"):
                for text in getattr(CAUSES[one.cause], part):
                    assert gaps(text) <= set(values), one.cause
    assert len(seen) == 8
