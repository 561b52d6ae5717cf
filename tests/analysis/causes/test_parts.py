"""Calls too large to be read whole, in the parts that stand for them: what no axis alone cuts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.causes.decided import TYPICAL, tensor_of
from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import TooLargeError
from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call
from troubleshooter_nb.analysis.causes.layers import layer_of
from troubleshooter_nb.analysis.causes.recomputed import recompute
from troubleshooter_nb.analysis.causes.thinned import parts

pytestmark = pytest.mark.torch
Made = tuple[np.ndarray, np.ndarray]


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "LARGEST_READ", 1 << 15)
    monkeypatch.setattr(thresholds, "PART_ELEMENTS", 1 << 13)


def call_of(word: str, given: list[np.ndarray], known: dict[str, np.ndarray], made: Made) -> Call:
    """A call of equal operands on both sides."""
    inputs = tuple(tensor_of(one, one) for one in given)
    parameters = {name: tensor_of(one, one) for name, one in known.items()}
    return Call(word, "a", "forward", inputs, (tensor_of(*made),), parameters)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal, float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def told(call: Call) -> tuple[str, str]:
    """The cause, and of what part."""
    found = recompute(call, TYPICAL).suspicion
    assert found is not None
    return found.cause, str(found.evidence["sampled"])


def convolved(**how: object) -> np.ndarray:
    """One image that is too large, convolved."""
    import torch
    from torch.nn import functional as F

    x, weight, bias = map(torch.from_numpy, IMAGE)
    padding = how.pop("pad", None)
    if padding is not None:
        mode = str(how.pop("mode", "constant"))
        x = F.pad(x, padding, mode=mode)  # type: ignore[arg-type]
    with_bias = how.pop("adds", True)
    made: np.ndarray = F.conv2d(x, weight, bias if with_bias else None, **how).numpy()  # type: ignore[arg-type]
    return made


IMAGE = normal(1, 8, 120, 110), normal(12, 8, 3, 3, seed=1) / 8, normal(12, seed=2)
CORNERS: dict[str, tuple[dict, dict]] = {
    "bias_missing": ({"padding": 1, "adds": False}, {"padding": 1}),
    "pad_mode": ({"pad": (1, 1, 1, 1), "mode": "reflect"}, {"padding": 1}),
    "same_padding_side": (
        {"pad": (0, 1, 0, 1), "stride": 2},
        {"pad": (1, 0, 1, 0), "stride": 2},
    ),
    "argument_order": ({"padding": 2, "dilation": 2}, {"padding": 1}),
}


@pytest.mark.parametrize("cause", CORNERS)
def test_of_one_large_image_a_corner_tells_how_it_was_convolved(cause: str) -> None:
    wrong, right = (convolved(**how) for how in CORNERS[cause])
    x, weight, bias = IMAGE
    found, part = told(call_of("conv2d", [x], {"weight": weight, "bias": bias}, (wrong, right)))
    assert found == cause
    assert "lines, and " in part


def test_a_corner_without_the_largest_error_acquits_nobody() -> None:
    right = convolved(padding=1)
    left = right.copy()
    left[0, 3, 100:104, 90:94] += 3.0
    x, weight, bias = IMAGE
    call = call_of("conv2d", [x], {"weight": weight, "bias": bias}, (left, right))
    assert recompute(call, TYPICAL).outcome == "unknown"
    # What is as large everywhere is in the corner as well.
    left = right * (1 + np.float32(2.0**-24) * normal(*right.shape, seed=9))
    call = call_of("conv2d", [x], {"weight": weight, "bias": bias}, (left, right))
    assert recompute(call, TYPICAL).outcome == "same"


def test_convolutions_of_several_groups_are_cut_by_whole_ones() -> None:
    import torch
    from torch.nn import functional as F

    x, weight, bias = normal(2, 64, 24, 24), normal(64, 4, 3, 3, seed=1), normal(64, seed=2)
    given = [torch.from_numpy(one) for one in (x, weight)]
    left = F.conv2d(*given, padding=1, groups=16).numpy()
    call = call_of(
        "conv2d", [x], {"weight": weight, "bias": bias}, (left, left + bias[:, None, None])
    )
    cause, part = told(call)
    assert cause == "bias_missing"
    assert part.endswith(" of 16 groups")


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_large_recurrent_layers_are_told_by_some_units(kind: str) -> None:
    import torch

    torch.manual_seed(0)
    layer, x = getattr(torch.nn, kind)(40, 128), normal(7, 5, 40)
    made = layer(torch.from_numpy(x))[0].detach().numpy()
    known = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    blocks = 4 if kind == "LSTM" else 3
    order = [*range(1, blocks), 0][::-1] if kind == "LSTM" else [1, 0, 2]
    turned = {
        name: np.concatenate([np.split(value, blocks)[n] for n in order])
        for name, value in known.items()
    }
    call = call_of(kind.lower(), [x], {}, (made, made * np.float32(1 + 1e-7)))
    sides = {name: tensor_of(turned[name], known[name]) for name in known}
    call = Call(call.word, "a", "forward", call.inputs, call.outputs, sides)
    cause, part = told(call)
    assert cause == ("lstm_gate_order" if kind == "LSTM" else "gru_reset_order")
    assert part.endswith(" of 128 hidden units")


def attended(query: np.ndarray, key: np.ndarray, value: np.ndarray, scale: float) -> np.ndarray:
    """Causal attention of heads that come first; keys of several heads may be shared."""
    each = query.shape[1] // key.shape[1]
    k, v = (np.repeat(one.astype(np.float64), each, 1) for one in (key, value))
    scores = scale * query @ k.swapaxes(-1, -2)
    seen = np.tri(*scores.shape[-2:], dtype=bool)
    weights = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
    made: np.ndarray = (weights / weights.sum(-1, keepdims=True)) @ v
    return made.astype(np.float32)


@pytest.mark.parametrize(
    ("shared", "rows", "named"), [(16, 128, "heads"), (2, 128, "queries"), (2, 40, "queries")]
)
def test_of_attention_some_heads_or_queries_are_computed_again(
    shared: int, rows: int, named: str
) -> None:
    query = normal(1, 16, rows, 64)
    key, value = normal(1, shared, rows, 64, seed=1), normal(1, shared, rows, 64, seed=2)
    both = [attended(query, key, value, scale) for scale in (0.5, 0.125)]
    call = call_of("scaleddotproductattention", [query, key, value], {}, (both[0], both[1]))
    cause, part = told(call)
    assert cause == "attention_scale"
    assert named in part


def test_elements_of_spread_operands_are_cut_along_their_own_axes() -> None:
    x, y = normal(8, 60, 128), normal(60, 128, seed=1)
    call = call_of("add", [x, y], {}, (x + np.float32(0.5) * y, x + y))
    layer = layer_of("add", "forward")
    assert layer is not None
    part = next(iter(parts(call, layer)))
    assert part.call.inputs[1].shapes[1] == part.call.outputs[0].shapes[1][1:]  # type: ignore[index]
    assert recompute(call, TYPICAL).outcome == "different"


def test_what_no_part_stands_for_is_too_large() -> None:
    x = normal(300, 300)
    total = np.array([x.sum()])
    with pytest.raises(TooLargeError):
        recompute(call_of("sum", [x], {}, (total, total + 1)), TYPICAL)


def test_axes_are_bound_to_shapes_that_fit() -> None:
    axes = Axes.of("*rows in, weight: out in -> *rows out", rows=0)
    x, weight, made = normal(2, 3, 5), normal(7, 5), normal(2, 3, 7)
    bound = axes.bound(call_of("linear", [x], {"weight": weight}, (made, made)))
    assert bound is not None
    assert (bound.size("rows"), bound.size("out")) == (6, 7)
    assert bound.output.shape({"rows": 4}) == (4, 7)
    assert axes.bound(call_of("linear", [x], {"weight": weight.T}, (made, made))) is None
    assert axes.bound(call_of("linear", [normal(6, 4)], {}, (made, made))) is None


def test_items_that_are_nearly_too_large_are_read_one_at_a_time() -> None:
    import torch

    x, weight, bias = normal(4, 8, 60, 60), normal(8, seed=1), normal(8, seed=2)
    given = [torch.from_numpy(one) for one in (x, weight, bias)]
    both = [
        torch.nn.functional.group_norm(given[0], 4, *given[1:], eps).numpy() for eps in (1e-2, 1e-5)
    ]
    call = call_of("groupnorm", [x], {"weight": weight, "bias": bias}, (both[0], both[1]))
    layer = layer_of("groupnorm", "forward")
    assert layer is not None
    (part, *_) = parts(call, layer)
    assert part.call.outputs[0].size <= thresholds.LARGEST_READ
    assert told(call) == ("norm_eps", "1 of 4 items")


@pytest.mark.parametrize("word", ["conv2d", "linear", "add", "scaleddotproductattention", "sum"])
def test_a_large_output_without_inputs_says_nothing(word: str) -> None:
    made = normal(4, 8, 60, 60)
    assert recompute(call_of(word, [], {}, (made, made + 1)), TYPICAL).outcome == "unknown"
