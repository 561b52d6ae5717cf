import ml_dtypes
import numpy as np
import pytest

from tests.analysis.causes.tensors.conftest import in_parts
from tests.analysis.runs import Counted
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.searches.folding import (
    detect_folding,
    detect_folding_by_calls,
)
from troubleshooter_nb.dump import ArrayInMemory

EPS = 1e-5


@pytest.fixture(autouse=True, params=["whole", "in parts", "sampled"])
def manner(request, monkeypatch):
    """How the weights are read: whole, or as large ones are."""
    if request.param != "whole":
        in_parts(monkeypatch, 1 << 18 if request.param == "in parts" else 512)
        monkeypatch.setattr("troubleshooter_nb.thresholds.LARGEST_READ", 100)


def tensor(name, left, right):
    sources = [None if one is None else ArrayInMemory(np.asarray(one)) for one in (left, right)]
    return TensorPair(3, f"conv1.{name}", "parameter", "forward", name, tuple(sources))


def norm_of(seed, channels=24, spread=0.5):
    random = np.random.default_rng(seed)
    return {
        "weight": random.uniform(1 - spread, 1 + spread, channels),
        "bias": random.normal(0, 0.2, channels),
        "running_mean": random.normal(0, 0.5, channels),
        "running_var": random.uniform(0.01, 2.0, channels) if spread else np.ones(channels),
    }


def on(side, norm):
    """The norm on the side whose weights are plain; the other side has none."""
    return {k: tensor(k, *((None, v) if side == "left" else (v, None))) for k, v in norm.items()}


def folded(norm, weight, bias=0.0, axis=0):
    factor = norm["weight"] / np.sqrt(norm["running_var"] + EPS)
    shape = [-1 if axis == one else 1 for one in range(weight.ndim)]
    return weight * factor.reshape(shape), norm["bias"] + (bias - norm["running_mean"]) * factor


def layer(side, plain, new, dtype=np.float32):
    parts = {}
    for name, values in zip(("weight", "bias"), zip(new, plain, strict=True), strict=True):
        stored = [None if one is None else one.astype(dtype) for one in values]
        parts[name] = tensor(name, *(stored if side == "left" else stored[::-1]))
    return parts


def weights(*shape, seed=1):
    return (0.05 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("shape", "axis"), [((24, 8, 3, 3), 0), ((8, 24, 3, 3), 1), ((24, 40), 0)])
def test_a_norm_in_the_weights_before_it_is_found_among_others(side, shape, axis):
    norm, weight = norm_of(0), weights(*shape)
    norms = [(f"bn{seed}", on(side, norm_of(seed))) for seed in (5, 0, 6)]
    found = detect_folding(layer(side, (weight, None), folded(norm, weight, axis=axis)), norms)
    assert (found.cause, found.evidence["norm"], found.evidence["side"]) == (
        "bn_folded",
        "bn0",
        side,
    )
    assert found.evidence["eps"] == pytest.approx(EPS, rel=0.05)
    assert found.evidence["bias"] == "folded"
    assert confidence(found) > 0.9


def test_what_else_a_norm_counts_does_not_hide_it():
    norm, weight = norm_of(0), weights(24, 8, 3, 3)
    counted = {**on("left", norm), "num_batches_tracked": tensor("n", None, np.array(3))}
    found = detect_folding(layer("left", (weight, None), folded(norm, weight)), [("bn", counted)])
    assert found.cause == "bn_folded"


def test_the_bias_of_the_layer_itself_is_folded_as_well():
    norm, weight, bias = norm_of(0), weights(24, 8, 3, 3), weights(24, seed=3)
    whole = folded(norm, weight, bias)
    norms = [("bn", on("left", norm))]
    assert detect_folding(layer("left", (weight, bias), whole), norms).evidence["bias"] == "folded"
    forgotten = (whole[0], folded(norm, weight)[1])
    found = detect_folding(layer("left", (weight, bias), forgotten), norms)
    assert found.evidence["bias"] == "other"


def test_a_bias_that_was_not_folded_is_told():
    norm, weight = norm_of(0), weights(24, 8, 3, 3)
    parts = {"weight": layer("left", (weight, None), folded(norm, weight))["weight"]}
    found = detect_folding(parts, [("bn", on("left", norm))])
    assert found.evidence["bias"] == "missing"


def test_weights_in_bfloat16_still_tell_the_norm():
    norm, weight = norm_of(0), weights(24, 8, 3, 3).astype(ml_dtypes.bfloat16).astype(np.float32)
    norms = [(f"bn{seed}", on("left", norm_of(seed))) for seed in (5, 0)]
    parts = layer("left", (weight, None), folded(norm, weight), ml_dtypes.bfloat16)
    found = detect_folding(parts, norms)
    assert (found.evidence["norm"], found.evidence["bias"]) == ("bn0", "folded")
    assert confidence(found) > 0.7


def test_no_other_scale_is_a_folded_norm():
    norm, weight = norm_of(0), weights(24, 8, 3, 3)
    scaled = weight * np.linspace(0.5, 2.0, 24)[:, None, None, None]
    norms = [("bn", on("left", norm))]
    assert detect_folding(layer("left", (weight, None), (scaled, None)), norms) is None
    assert (
        detect_folding(layer("left", (weight, None), (weights(*weight.shape), None)), norms) is None
    )
    # Other layers, and norms of another number of channels, are passed over.
    others = [("fc", on("left", {"weight": weight})), ("bn", on("left", norm_of(0, 16)))]
    assert detect_folding(layer("left", (weight, None), folded(norm, weight)), others) is None


def test_one_factor_for_all_channels_proves_no_norm():
    norm, weight = norm_of(0, spread=0.0), weights(24, 8, 3, 3)
    norm["weight"] = np.full(24, 0.5)
    found = detect_folding(
        layer("left", (weight, None), folded(norm, weight)), [("bn", on("left", norm))]
    )
    assert found is None or confidence(found) < 0.2


def test_layers_that_shapes_tell_to_be_no_norm_of_these_channels_are_not_read():
    norm, weight = norm_of(0), weights(24, 8, 3, 3)
    read = {"other": norm_of(1, channels=20), "conv2": {"weight": weight, "bias": weights(24)}}
    sources = {name: [Counted(one) for one in parts.values()] for name, parts in read.items()}
    norms = [
        (
            name,
            {
                k: TensorPair(3, k, sources=(None, s))
                for k, s in zip(parts, sources[name], strict=True)
            },
        )
        for name, parts in read.items()
    ]
    norms.append(("bn", on("left", norm)))
    found = detect_folding(layer("left", (weight, None), folded(norm, weight)), norms)
    assert found.evidence["norm"] == "bn"
    assert [one.elements for several in sources.values() for one in several] == [0] * 6


def call_of(norm, x, factor=1.0):
    """What a norm in evaluation makes on the right, and one that does nothing on the left."""
    shape = [1, -1, 1, 1]
    slope = norm["weight"] / np.sqrt(norm["running_var"] + EPS)
    made = x * slope.reshape(shape) + (norm["bias"] - norm["running_mean"] * slope).reshape(shape)
    sides = [(made * factor).astype("f4"), x.astype("f4")]
    parameters = {name: tensor(name, norm[name], norm[name]) for name in ("weight", "bias")}
    given, out = tensor("in", sides[0], x.astype("f4")), tensor("out", sides[0], made.astype("f4"))
    return Call("batchnorm2d", "bn", "forward", (given,), (out,), parameters, ({}, {}))


def test_a_norm_of_unknown_statistics_is_told_by_its_calls(monkeypatch):
    for name in ("LARGEST_READ", "PART_ELEMENTS"):  # the calls have 2,400
        monkeypatch.setattr(f"troubleshooter_nb.thresholds.{name}", 2_000)
    norm, weight = norm_of(0), weights(24, 8, 3, 3)
    x = np.random.default_rng(3).standard_normal((4, 24, 5, 5))
    folds = layer("left", (weight, None), folded(norm, weight))
    calls = [(f"bn{seed}", call_of(norm_of(seed), x)) for seed in (5, 0)]
    found = detect_folding_by_calls(folds, calls)
    told = [found.evidence[name] for name in ("norm", "side", "bias")]
    assert (found.cause, told) == ("bn_folded", ["bn0", "left", "folded"])
    assert detect_folding_by_calls(folds, calls[:1]) is None
