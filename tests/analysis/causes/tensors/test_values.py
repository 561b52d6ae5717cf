"""Causes that the values of any pair give away."""

from __future__ import annotations

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.analysis.causes.tensors.kit import causes, output, tensor, weights
from troubleshooter_nb.analysis.causes.tensors import (
    detect_root,
    detect_values,
    observations,
)
from troubleshooter_nb.analysis.causes.tensors.places import KnownAxes
from troubleshooter_nb.metrics.floats import dtype_from_token

SEEDS = pytest.mark.parametrize("seed", [0, 1])


def normal(seed, *shape, scale=1.0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def only(found, cause):
    assert causes(found) == [cause]
    json.dumps(found[0].evidence, allow_nan=False)
    return found[0]


@SEEDS
@pytest.mark.parametrize("side", ["left", "right"])
def test_overflow_is_where_the_other_side_is_beyond_the_limit(seed, side):
    wide = normal(seed, 64, 64, scale=4e4)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float16)
    sides = (narrow, wide) if side == "left" else (wide, narrow)
    found = only(detect_values(output(*sides)), "fp16_overflow")
    assert found.evidence["count"] == (np.abs(wide) >= 65520).sum()
    assert found.evidence["side"] == side
    # Infinities elsewhere are no overflow of that format.
    wide[3, 3] = 1.0
    narrow[3, 3] = np.inf
    assert detect_values(output(narrow, wide)) == []


@SEEDS
def test_overflow_is_said_before_the_rounding_that_comes_with_it(seed):
    wide = normal(seed, 64, 64, scale=4e4)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float16).astype(np.float32)
    only(detect_values(output(narrow, wide)), "fp16_overflow")
    only(detect_root(tensor(narrow, wide)), "fp16_overflow")


@SEEDS
@pytest.mark.parametrize(("limit", "name"), [(65504.0, "float16"), (448.0, "float8_e4m3fn")])
def test_saturation_is_exactly_the_limit(seed, limit, name):
    wide = normal(seed, 64, 64, scale=0.6 * limit)
    found = only(detect_values(output(np.clip(wide, -limit, limit), wide)), "saturation")
    assert found.evidence["format"] == name
    assert found.residual == 0.0
    other = detect_values(output(np.clip(wide, -0.9 * limit, 0.9 * limit), wide))
    assert "saturation" not in causes(other)


@SEEDS
@pytest.mark.parametrize("format_", ["float16", "float8_e5m2"])
def test_underflow_is_zero_below_the_smallest_value(seed, format_):
    least = {"float16": -25, "float8_e5m2": -17}[format_]
    random = np.random.default_rng(seed)
    wide = (normal(seed, 64, 64) * 2.0 ** random.uniform(least - 5, least + 8, (64, 64))).astype(
        "f4"
    )
    narrow = wide.astype(dtype_from_token(format_)).astype(np.float32)
    found = only(detect_values(output(narrow, wide)), "underflow")
    assert found.evidence["format"] == format_
    # A rectifier makes zeros, too.
    assert "underflow" not in causes(detect_values(output(np.maximum(wide, 0), wide)))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_nan_that_became_a_bound(side):
    wide = normal(0, 64, 64)
    wide[3, :5] = np.nan
    with_nan, without = np.maximum(wide, 0), np.maximum(np.nan_to_num(wide), 0)
    sides = (without, with_nan) if side == "left" else (with_nan, without)
    found = only(detect_values(output(*sides)), "nan_swallowed")
    assert (found.evidence["count"], found.evidence["side"]) == (5, side)
    other = np.where(np.isnan(with_nan), normal(1, 64, 64), with_nan)
    assert detect_values(output(other, with_nan)) == []


@SEEDS
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_outputs_rounded_behind_other_rounding_noise(seed, name):
    right = normal(seed, 64, 64)
    left = right * (1 + 1e-7 * normal(seed + 9, 64, 64))
    left = left.astype(dtype_from_token(name)).astype(np.float32)
    found = only(detect_values(output(left, right, 1e-5)), "low_precision_cast")
    assert found.evidence["format"] == name
    assert found.residual < 0.2 * found.before


@pytest.mark.parametrize("truncated", [False, True])
def test_the_operands_of_tf32(truncated):
    right = normal(0, 64, 64, scale=1e-4)
    bits = right.view(np.uint32)
    left = ((bits + np.uint32(0 if truncated else 0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    found = only(detect_values(output(left, right, 1e-5)), "low_precision_cast")
    assert (found.evidence["format"], found.evidence["truncated"]) == ("tf32", truncated)


@pytest.mark.torch
def test_what_autocast_leaves():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    x = torch.randn(32, 64)
    with torch.no_grad():
        right = net(x).numpy()
        with torch.autocast("cpu", torch.bfloat16):
            left = net(x).float().numpy()
    found = only(detect_values(output(left, right, 1e-5)), "low_precision_cast")
    assert found.evidence["format"] == "bfloat16"
    assert not found.evidence["exact"]


@SEEDS
def test_rounding_of_random_signs_is_told_for_informing(seed):
    right = normal(seed, 64, 300)
    left = (
        right * (1 + 6e-8 * np.random.default_rng(seed + 5).standard_normal(right.shape))
    ).astype(np.float32)
    found = only(detect_values(output(left, right, 1e-5)), "reduction_order")
    assert found.residual <= found.floor
    assert detect_values(output(np.nextafter(right, np.float32(9)), right, 1e-5)) == []
    assert detect_values(output(right, right)) == []


@pytest.mark.torch
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("form", "function"),
    [("relu", "relu"), ("silu", "silu"), ("gelu", "gelu"), ("tanh", "tanh"), ("elu", "elu")],
)
def test_a_value_that_an_activation_overwrote(side, form, function):
    torch = pytest.importorskip("torch")
    before = normal(0, 32, 64, scale=3)
    after = getattr(torch.nn.functional, function)(torch.from_numpy(before)).numpy()
    sides = (after, before) if side == "left" else (before, after)
    found = only(detect_values(output(*sides)), "recorder_inplace")
    assert form in found.evidence["forms"]
    assert found.evidence["side"] == side
    # A missing activation leaves the same: only consumers tell.
    assert found.share == 0.5
    assert found.rival == found.before


@pytest.mark.mindspore
@pytest.mark.parametrize("name", ["tanh", "silu", "sigmoid"])
def test_inexact_activations_of_mindspore_are_recognised(name):
    mindspore = pytest.importorskip("mindspore")
    before = normal(0, 32, 64, scale=2)
    after = getattr(mindspore.ops, name)(mindspore.Tensor(before)).asnumpy()
    assert name in only(detect_values(output(after, before)), "recorder_inplace").evidence["forms"]


def test_a_value_that_was_clipped_in_place():
    before = normal(0, 32, 64)
    found = only(detect_values(output(np.clip(before, -1.5, 1.2), before)), "recorder_inplace")
    assert found.evidence["form"] == "clip to [-1.5, 1.2]"


@SEEDS
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("content", ["zeros", "other", "stale"])
def test_an_aligned_block_of_memory(seed, dtype, content):
    right = normal(seed, 8, 16, 60).astype(dtype)
    left = right.copy().reshape(-1)
    start, length = 1024 + 32 * seed, 512
    stale = left[4000 : 4000 + length].copy()
    filled = {"zeros": 0, "other": normal(7, length), "stale": stale}[content]
    left[start : start + length] = filled
    found = only(detect_values(output(left.reshape(right.shape), right)), "memory_corruption")
    assert (found.evidence["start"], found.evidence["stop"]) == (start, start + length)
    if content == "stale":
        assert "4000" in found.evidence["content"]


def test_rows_channels_and_ends_are_not_memory():
    right = normal(0, 8, 16, 64)
    for place in [(3,), (slice(None), 2), (3, 2), (slice(None), slice(None), slice(32, None))]:
        left = right.copy()
        left[place] = 0.5
        assert detect_values(output(left, right)) == []


@SEEDS
@pytest.mark.parametrize("noise", [0.0, 4e-3])
def test_a_block_of_memory_across_rows_or_in_one_of_many(seed, noise):
    random = np.random.default_rng(seed)
    right = normal(seed, 4, 16, 24)
    # From the begin of a row to the middle of another one, and the end of one row alone.
    for start, stop, fill in [(192, 256, 0.0), (40, 48, 900.0)]:
        left = right * (1 + noise * random.standard_normal(right.shape).astype(np.float32))
        left.reshape(-1)[start:stop] = fill * random.standard_normal(stop - start)
        found = only(detect_values(output(left, right, 2 * noise)), "memory_corruption")
        assert (found.evidence["start"], found.evidence["stop"]) == (start, stop)


def test_whole_rows_are_memory_where_their_values_are_far_from_all_others():
    right = normal(0, 4, 16, 32)
    left = right.copy()
    left[1, 3:5] = 1000 * normal(1, 2, 32)
    only(detect_values(output(left, right)), "memory_corruption")
    # A multiple of what belongs there is a scale.
    left[1, 3:5] = 1000 * right[1, 3:5]
    assert detect_values(output(left, right)) == []


def test_zeros_amid_one_sample_may_be_memory():
    right = normal(0, 4, 16, 32)
    left = right.copy()
    left[1, 3:5] = 0
    for sides in ((left, right), (right, left)):
        found = only(detect_values(output(*sides)), "memory_corruption")
        assert found.share == 0.5
        assert found.evidence["start"] == 608
    # The end of a sample is padding; all samples, or the only one, are a rule over channels.
    padded, channel = right.copy(), right.copy()
    padded[1, 12:] = 0
    channel[:, 3:5] = 0
    alone = np.where(np.arange(512).reshape(1, 16, 32) // 64 == 3, np.float32(0), right[:1])
    for sides in ((padded, right), (channel, right), (alone, right[:1])):
        assert "memory_corruption" not in causes(detect_values(output(*sides)))


@SEEDS
def test_a_block_is_memory_whatever_the_two_precisions(seed):
    right = normal(seed, 8, 16, 60)
    left = right.astype(np.float16)
    left.reshape(-1)[1024:1536] = 0
    for sides in ((left, right), (right, left)):
        found = only(detect_values(output(*sides, 1e-3)), "memory_corruption")
        assert (found.evidence["start"], found.evidence["bytes"]) == (1024, 1024)


def test_one_bit_of_one_element():
    right = normal(0, 16, 32)
    left = right.copy()
    left.view(np.uint32)[3, 5] ^= np.uint32(1 << 28)
    found = only(detect_values(output(left, right)), "memory_corruption")
    assert found.evidence["offset_bytes"] == 4 * (3 * 32 + 5)
    for other in (-right[3, 5], 2 * right[3, 5], 1.7 * right.max(), right[3, 5] * (1 + 2**-20)):
        left[3, 5] = other
        assert "memory_corruption" not in causes(detect_values(output(left, right)))


@pytest.mark.parametrize("twice", [False, True])
def test_angles_of_an_uninitialised_buffer(twice):
    steps, frequencies = np.arange(10)[:, None], 1 / 10000 ** (np.arange(8) / 8)
    memory = np.random.default_rng(0).uniform(0, 1e-38, 8)
    left, right = (np.tile(steps * one, 1 + twice).astype("f4") for one in (memory, frequencies))
    only(detect_values(output(left, right)), "buffer_uninitialised")
    # Small values beside others than angles are no memory.
    assert "buffer_uninitialised" not in causes(detect_values(output(left, 1 + right)))


def test_features_that_were_flattened_in_another_layout():
    right = normal(0, 4, 8 * 25)
    left = right.reshape(4, 8, 25).swapaxes(1, 2).reshape(4, -1)
    assert causes(detect_values(output(left, right))) == ["flatten_order"]


@SEEDS
def test_other_differences_have_no_cause(seed):
    random = np.random.default_rng(seed)
    right = normal(seed, 64, 64)
    lefts = [
        normal(seed + 9, 64, 64),
        1.5 * right,
        right + 1e-3 * normal(seed + 9, 64, 64),
        np.maximum(right, 0) + 0.01,
        np.zeros_like(right),
        right.T,
        right + weights(random, 64),
        (1.01 * right).astype(ml_dtypes.bfloat16),
    ]
    for left in lefts:
        assert detect_values(output(left, right)) == []
        assert detect_values(output(right, left)) == []
    assert detect_values(output(right[:32], right)) == []
    assert detect_values(output(None, right)) == []


@pytest.mark.parametrize("value", [0.0, 2.0, np.nan, np.inf])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,)])
def test_degenerate_pairs(value, shape):
    constant, other = np.full(shape, value, np.float32), normal(0, *shape)
    for pair in [(constant, other), (other, constant), (constant, constant)]:
        assert {*causes(detect_values(output(*pair)))} <= {"nan_swallowed"}


def test_observations_name_scales_places_shifts_and_other_orders():
    right = normal(0, 4, 8, 64)
    scale = observations(output(right * 8, right), {"world size": 8})["scale"]
    assert scale["factor_name"] == "1/world size (8)"
    gain = np.linspace(0.5, 2, 8, dtype=np.float32)[:, None]
    channels = observations(output(right * gain, right))["scale"]
    assert channels["axis"] == 1
    np.testing.assert_allclose(channels["scale"], 1 / gain[:, 0], rtol=1e-5)
    left = right.copy()
    left[:, :, 60:] += 1
    place = observations(output(left, right))["place"]
    assert only_part(place, 2)["form"] == "last"
    assert only_part(place, 2)["start"] == 60
    mixed = np.random.default_rng(5).permutation(right.ravel()).reshape(right.shape)
    assert {"order", "moments"} & {*observations(output(mixed, right))}
    padded = np.concatenate([right[:, :, 2:], right[:, :, :2] * 0], 2)
    assert "scale" not in observations(output(padded, right))
    assert observations(output(right, right)) == {}


@pytest.mark.parametrize("kind", ["another draw", "nearly equal", "infinite", "constant", "nan"])
def test_another_order_is_not_said_of_other_values(kind):
    right = normal(0, 16, 64)
    left = {
        "another draw": normal(1, 16, 64),
        "nearly equal": right + 0.02 * normal(2, 16, 64),
        "infinite": np.where(right > 1, np.inf, right)[::-1],
        "constant": np.ones_like(right),
        "nan": np.where(right > 1, np.nan, right)[::-1],
    }[kind]
    if kind == "another draw":  # with the same ends
        left.flat[left.argmin()], left.flat[left.argmax()] = right.min(), right.max()
    assert not {"order", "moments"} & {*observations(output(left, right))}


def only_part(place, axis):
    (part,) = place["parts"]
    assert (place["kind"], part["axis"]) == ("indices", axis)
    return part


def changed(right, at, by=1.0):
    left = right.copy()
    left[at] += by
    return observations(output(left, right)).get("place", {})


@pytest.mark.parametrize(
    ("axis", "indices", "form"),
    [
        (0, [3], "one"),
        (0, [3, 7], "some"),
        (0, [0, 1, 2], "first"),
        (1, [5, 6, 7], "last"),
        (1, [0, 2, 4, 6], "every"),
        (1, [2, 5], "some"),
        (2, [4, 5, 6], "run"),
        (2, [*range(0, 32, 4)], "every"),
    ],
)
def test_any_indices_of_one_axis_are_a_place(axis, indices, form):
    part = only_part(changed(normal(0, 16, 8, 32), (slice(None),) * axis + (indices,)), axis)
    assert (part["form"], part["indices"][: len(indices)]) == (form, indices)
    assert part["count"] == len(indices)


def test_indices_of_several_axes_are_one_place():
    place = changed(normal(0, 16, 8, 32), np.ix_([3, 7], [0, 2, 4, 6], range(32)))
    assert [(one["axis"], one["form"]) for one in place["parts"]] == [(0, "some"), (1, "every")]


def test_what_says_nothing_is_no_place():
    right = normal(0, 4, 8, 24, 24)
    # A border 10 wide of 24 x 24; all heads but one; elements here and there.
    inside = np.ones((4, 8, 24, 24), bool)
    inside[:, :, 10:14, 10:14] = False
    assert not changed(right, inside)
    assert not changed(right, (slice(None), range(1, 8)))
    assert not changed(right, np.random.default_rng(0).random(right.shape) < 0.003)
    assert not changed(normal(0, 400, 400), np.random.default_rng(0).random((400, 400)) < 1e-3)


def test_tokens_are_a_place_whichever_they_are(manner):
    right = normal(0, 4, 10, 24)
    padded = np.arange(10) >= np.array([10, 7, 4, 9])[:, None]
    left = right + padded[..., None]
    known = KnownAxes(("sample", "token", ""))
    place = observations(output(left, right), known=known)["place"]
    assert (place["kind"], place["count"], place["samples"]) == ("tokens", 10, 3)
    assert [(row, one["form"], one["start"]) for row, one in place["lists"]] == [
        (1, "last", 7),
        (2, "last", 4),
        (3, "one", 9),
    ]
    if manner == "whole":  # of large ones nothing is said of valid tokens alone
        left[0, 3, 5] += 1
        known = replace(known, valid=~padded[..., None])
        place = observations(output(left, right), known=known)["place"]
        assert [one["start"] for one in place["parts"]] == [0, 3, 5]
        assert place["valid"]


def test_a_border_is_a_place():
    right = normal(0, 2, 4, 12, 12)
    left = right + 1
    left[:, :, 1:-1, 1:-1] = right[:, :, 1:-1, 1:-1]
    place = observations(output(left, right))["place"]
    assert (place["kind"], place["width"]) == ("border", 1)


@pytest.mark.parametrize("value", [-3.4028234663852886e38, -1e9, -65504.0])
def test_masks_are_neither_overflow_nor_saturation(value):
    mask = np.triu(np.ones((16, 16), bool), 1)
    right = np.where(mask, value, 0.0).astype(np.float32)
    right[0, 0] = 0.5
    for other in (-np.inf, -65504.0, -1e30):
        left = np.where(mask, other, right).astype(np.float32)
        assert not {"fp16_overflow", "saturation"} & {*causes(detect_values(output(left, right)))}


def test_inf_of_one_device_is_the_limit_on_another():
    wide = normal(0, 64, 64, scale=4e4)
    with np.errstate(over="ignore"):
        right = wide.astype(np.float16)
    left = np.clip(wide, -65504, 65504).astype(np.float16)
    assert only(detect_values(output(left, right)), "saturation").residual == 0.0


def test_rows_that_are_masked_altogether_may_be_nan_for_another_reason():
    right = np.abs(normal(0, 16, 16))
    right[3] = np.nan
    found = only(detect_values(output(np.nan_to_num(right), right)), "nan_swallowed")
    assert found.evidence["whole_rows"]
    assert found.rival == found.residual


def test_nan_on_one_side_alone_may_be_what_that_side_made():
    from troubleshooter_nb.analysis.causes.confidence import confidence

    left = np.maximum(normal(0, 64, 64), 0)
    right = np.where(left == 0, np.nan, left)
    found = only(detect_values(output(left, right)), "nan_swallowed")
    assert confidence(found) < 0.5


def test_blocks_that_changed_places_are_no_corruption():
    right = normal(3, 512)
    left = np.concatenate([right[:128], right[256:384], right[128:256], right[384:]])
    assert "memory_corruption" not in causes(detect_values(output(left, right)))
