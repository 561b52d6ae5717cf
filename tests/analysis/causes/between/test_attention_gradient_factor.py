"""Gradients that leave every attention with a factor."""

import numpy as np
import pytest

from tests.analysis.runs import Recorder, draws
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.causes.between.attention_gradient_factor import leaving_suspicions
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.origin import find_origins
from troubleshooter_nb.metrics.noise import NoiseModel

LAYERS, ROWS, WIDTH = 3, 12, 8


def run(factor_of, mixer="attn"):
    """Backward calls of the projection and the norm of every layer, the last layer first."""
    recorder = Recorder()
    gradient = draws(1, g=(ROWS, WIDTH))["g"]
    for number in reversed(range(LAYERS)):
        weight = draws(2 + number, w=(WIDTH, WIDTH))["w"] / np.float32(3)
        before = gradient
        gradient = recorder.call(
            f"layers.{number}.{mixer}.qkv",
            "Linear",
            lambda g, w=weight: g @ w,
            gradient,
            direction="backward",
        )
        gradient = (np.float32(factor_of(number)) * gradient).astype(np.float32)
        gradient = recorder.call(
            f"layers.{number}.norm",
            "LayerNorm",
            lambda g: g - g.mean(-1, keepdims=True),
            gradient,
            direction="backward",
        )
        gradient = gradient + before
    return recorder.dump()


def asked(left, right, name=f"layers.{LAYERS - 1}.norm"):
    comparison = compare(left, right)
    flow = Flow(comparison)
    operators = Operators(comparison, flow, find_origins(flow, NoiseModel()))
    node = next(n for n in flow.nodes if n.path == name)
    return leaving_suspicions(operators, node.inputs[0])


def test_one_factor_in_every_attention_is_the_mask_of_its_backward_pass():
    (found,) = asked(run(lambda number: 1.5), run(lambda number: 1.0))
    assert found.cause == "mask_shape"
    assert found.evidence["gradient_factor"] == pytest.approx(1.5)
    assert found.evidence["layer"] == "3 attentions, backward"
    assert found.residual < 1e-6 < found.before


@pytest.mark.parametrize(
    ("factor_of", "mixer"),
    [
        (lambda number: 1.5 + number, "attn"),
        (lambda number: 1.5 if number == LAYERS - 1 else 1.0, "attn"),
        (lambda number: 1.5, "conv"),
    ],
)
def test_other_factors_have_no_such_cause(factor_of, mixer):
    assert asked(run(factor_of, mixer), run(lambda number: 1.0, mixer)) == []
