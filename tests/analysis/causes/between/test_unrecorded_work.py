"""From what calls left unrecorded to its cause, on attention between two projections."""

import numpy as np
import pytest

from tests.analysis.runs import Recorder, draws, linear
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.causes.between.earlier_values import earlier_values
from troubleshooter_nb.analysis.causes.between.unrecorded_work import between_suspicions
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.origin import find_origins
from troubleshooter_nb.metrics.noise import NoiseModel

ITEMS, ROWS, HEADS, SIZE = 2, 9, 4, 8
WIDTH = HEADS * SIZE


def mixed(packed, axis=-1, causal=True, scale=SIZE**-0.5, parts=(0, 1, 2)):
    laid = packed.reshape(ITEMS, ROWS, 3, HEADS, SIZE).transpose(2, 0, 3, 1, 4).astype(np.float64)
    q, k, v = (laid[part] for part in parts)
    scores = scale * (q @ k.swapaxes(-1, -2))
    if causal:
        scores = np.where(np.tril(np.ones((ROWS, ROWS), bool)), scores, -1e4)
    powers = np.exp(scores - scores.max(axis=axis, keepdims=True))
    shares = powers / powers.sum(axis=axis, keepdims=True)
    return (shares @ v).swapaxes(1, 2).reshape(ITEMS, ROWS, WIDTH).astype(np.float32)


def run(between=mixed, times=1.0, **settings):
    """A projection, unrecorded attention, a projection, a residual that nobody recorded."""
    recorder = Recorder()
    shapes = {"x": (ITEMS, ROWS, WIDTH), "w": (3 * WIDTH, WIDTH), "b": (3 * WIDTH,)}
    values = draws(1, **shapes, o=(WIDTH, WIDTH), c=(WIDTH,), h=(WIDTH, WIDTH))
    x = values["x"]
    packed = recorder.call("qkv", "Linear", linear, x, weight=values["w"] / 6, bias=values["b"])
    inner = between(packed, **settings)
    y = recorder.call("proj", "Linear", linear, inner, weight=values["o"] / 6, bias=values["c"])
    summed = (x + np.float32(times) * y).astype(np.float32)
    recorder.call("head", "Linear", linear, summed, weight=values["h"], bias=values["c"])
    return recorder.dump()


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"axis": -2}, "softmax_axis"),
        ({"axis": -3}, "softmax_axis"),
        ({"causal": False}, "mask_missing"),
        ({"scale": 1.0}, "attention_scale"),
        ({"parts": (1, 0, 2)}, "qkv_packing"),
    ],
)
def test_a_choice_of_attention_is_the_cause_of_what_its_projection_is_given(settings, cause):
    comparison = compare(run(**settings), run())
    finding = comparison.findings[0]
    assert finding.cause == cause
    assert finding.confidence > 0.9
    assert comparison.first_divergence.row["left_display"].item() == "proj input 0"


def test_work_of_an_unknown_kind_has_no_cause():
    def other(packed):
        return np.sort(mixed(packed), axis=-1)

    comparison = compare(run(other), run())
    assert comparison.first_divergence.row["left_display"].item() == "proj input 0"
    assert not [f for f in comparison.findings if f.confidence > 0.5]


def asked(left, right, name):
    comparison = compare(left, right)
    flow = Flow(comparison)
    operators = Operators(comparison, flow, find_origins(flow, NoiseModel()))
    row = list(comparison.result["right_display"].values).index(name)
    return operators, row


def test_one_formula_for_both_sides_says_that_the_difference_was_carried():
    operators, row = asked(run(times=1.0), run(axis=-2), "head input 0")
    assert between_suspicions(operators, row).outcome == "same"


def test_a_scene_holds_what_was_there_before_the_latest_first():
    operators, row = asked(run(), run(axis=-2), "head input 0")
    tensor, left, right = earlier_values(operators, row)
    assert tensor.name == "head input 0"
    names = [source.name for source in left.sources]
    assert names == [source.name for source in right.sources]
    # What comes later, and the parameters, are no sources.
    assert names == ["proj output 0", "proj input 0", "qkv output 0", "qkv input 0"]
    assert [source.word for source in left.sources] == ["linear", "", "linear", ""]
    assert not np.array_equal(left.sources[0].values, right.sources[0].values)


def test_a_soft_cap_is_told_from_scores_that_the_other_side_copies():
    def scores(function):
        recorder = Recorder()
        q, k = draws(5, q=(2, 2, 8, 4), k=(2, 2, 8, 4)).values()
        made = recorder.call("mm", "MatMul", lambda a, b: a @ b.swapaxes(-1, -2), q, k)
        recorder.call("more", "Own", np.cos, function(made).astype(np.float32))
        return recorder.dump()

    operators, row = asked(
        scores(lambda x: 4 * np.tanh(x / 4)), scores(lambda x: x), "more input 0"
    )
    outcome, (found,), *_ = between_suspicions(operators, row)
    assert (outcome, found.cause, found.evidence["left"]) == ("different", "attention_scale", 4.0)


def test_a_row_of_whole_numbers_has_no_scene():
    def dump():
        recorder = Recorder()
        rows = np.arange(12).reshape(3, 4)
        recorder.call("a", "Own", lambda n: n * 0.5, rows)
        return recorder.dump()

    operators, row = asked(dump(), dump(), "a input 0")
    assert earlier_values(operators, row) is None
