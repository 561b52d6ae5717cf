"""Causes of root tensors: each is planted, undone, and not seen where something else happened."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

from tests.analysis.causes.tensors.kit import causes, data, image, twin, weights
from troubleshooter_nb.analysis.causes.tensors import detect_root
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.weight_map import Transform

SEEDS = pytest.mark.parametrize("seed", [0, 1])


def only(found, cause):
    """The one suspicion, which explains nearly all and is JSON-able."""
    assert causes(found) == [cause]
    assert found[0].residual <= max(4 * found[0].floor, 1e-3) or found[0].residual < found[0].before
    assert found[0].pair == 3
    json.dumps(found[0].evidence, allow_nan=False)
    return found[0]


def applied(suspicion, values):
    """What the transform in the evidence makes of left."""
    given = suspicion.evidence["transform"]
    step = Transform(given["kind"], tuple(given["arguments"]))
    if step.kind == "transpose":
        return values.T
    if step.kind == "permute":
        return values.transpose(step.arguments)
    if step.kind == "split":
        ends = np.cumsum(step.arguments[1:])[:-1]
        return np.split(values, ends, step.arguments[0])
    if step.kind == "cast":
        return values.astype(dtype_from_token(step.arguments[0]))
    return {"expand_dims": np.expand_dims, "squeeze": np.squeeze}[step.kind](
        values, step.arguments[0]
    )


@SEEDS
@pytest.mark.parametrize("shape", [(64, 64), (96, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_transposed_weight_is_found_whatever_its_shape_and_dtype(seed, shape, dtype):
    right = weights(np.random.default_rng(seed), *shape)
    left = right.T.astype(dtype)
    found = only(detect_root(twin(left, right)), "linear_transposed")
    np.testing.assert_array_equal(applied(found, left), right.astype(dtype))
    assert found.rival > 0.5


@SEEDS
@pytest.mark.parametrize("axes", [(2, 3, 1, 0), (1, 0, 2, 3)])
def test_kernel_axes_in_another_order_come_with_the_permute(seed, axes):
    right = weights(np.random.default_rng(seed), 8, 8, 3, 3)
    left = right.transpose(np.argsort(axes))
    found = only(detect_root(twin(left, right, "conv.weight")), "conv_axes_permuted")
    np.testing.assert_array_equal(applied(found, left), right)


def test_a_flipped_kernel_is_a_kernel_and_reversed_channels_are_channels():
    random = np.random.default_rng(0)
    stem = weights(random, 32, 3, 7, 7)
    flipped = detect_root(twin(stem[:, :, ::-1, ::-1], stem, "conv1.weight"))
    assert only(flipped, "conv_axes_permuted").evidence["flipped"] == [2, 3]
    reversed_ = detect_root(twin(stem[:, ::-1], stem, "conv1.weight"))
    assert only(reversed_, "channel_order_bgr").evidence["axis"] == 1


@pytest.mark.parametrize("axis", [1, 3])
def test_an_image_with_reversed_channels(axis):
    right = image(np.random.default_rng(0), 2, 3, 24, 24)
    right = right if axis == 1 else right.transpose(0, 2, 3, 1)
    found = only(detect_root(data(np.flip(right, axis), right)), "channel_order_bgr")
    assert found.evidence["axis"] == axis


def test_an_image_that_is_mirrored_is_not_one_of_reversed_channels():
    right = image(np.random.default_rng(0), 2, 3, 24, 24)
    assert detect_root(data(right[..., ::-1], right)) == []


@pytest.mark.parametrize("two_dimensional", ["left", "right"])
def test_the_extra_axis_of_a_conv1d(two_dimensional):
    right = weights(np.random.default_rng(0), 16, 8, 5)
    left = right[:, :, None]
    if two_dimensional == "right":
        left, right = right, left
    found = only(detect_root(twin(left, right, "conv.weight")), "conv1d_extra_axis")
    np.testing.assert_array_equal(applied(found, left), right)


@SEEDS
def test_columns_of_a_dense_layer_behind_another_flatten(seed):
    right = weights(np.random.default_rng(seed), 10, 8 * 25)
    left = right.reshape(10, 8, 25).transpose(0, 2, 1).reshape(10, -1)
    found = only(detect_root(twin(left, right, "fc1.weight")), "flatten_order")
    assert {found.evidence["first"], found.evidence["second"]} == {8, 25}


@SEEDS
@pytest.mark.parametrize(("heads", "size"), [(4, 16), (2, 64), (1, 32)])
@pytest.mark.parametrize("shape", [(), (48,)])
def test_rotary_rows_interleaved_inside_each_head(seed, heads, size, shape):
    right = weights(np.random.default_rng(seed), heads * size, *shape)
    left = right.reshape(heads, 2, size // 2, -1).swapaxes(1, 2).reshape(right.shape)
    name = "layers.0.attn.q_proj." + ("weight" if shape else "bias")
    found = only(detect_root(twin(left, right, name)), "rope_interleave")
    assert (found.evidence["heads"], found.evidence["head_size"]) == (heads, size)
    assert causes(detect_root(twin(right, left, name))) == ["rope_interleave"]


@SEEDS
def test_query_key_and_value_packed_in_other_ways(seed):
    random = np.random.default_rng(seed)
    right = weights(random, 96, 32)
    q, k, v = np.split(right, 3)
    per_head = right.reshape(3, 4, 8, 32).swapaxes(0, 1).reshape(96, 32)
    for left in (np.concatenate([k, q, v]), per_head):
        only(detect_root(twin(left, right, "attn.qkv.weight")), "qkv_packing")
    q, k, v = (weights(random, rows, 32) for rows in (64, 16, 16))
    grouped = np.concatenate([np.split(part, 2)[group] for group in range(2) for part in (q, k, v)])
    joined = np.concatenate([q, k, v])
    only(detect_root(twin(grouped, joined, "attn.qkv_proj.weight")), "qkv_packing")


@pytest.mark.parametrize("expanded", ["left", "right"])
def test_grouped_heads_expanded_on_one_side(expanded):
    few = weights(np.random.default_rng(0), 16, 32)
    many = few.reshape(2, 1, 8, 32).repeat(4, 1).reshape(64, 32)
    sides = (many, few) if expanded == "left" else (few, many)
    found = only(detect_root(twin(*sides, "attn.k_proj.weight")), "grouped_heads")
    assert [found.evidence[key] for key in ("heads", "block", "times")] == [2, 8, 4]


def test_gate_and_up_swapped_or_interleaved():
    right = weights(np.random.default_rng(0), 64, 32)
    name = "mlp.gate_up_proj.weight"
    swapped = np.concatenate([right[32:], right[:32]])
    interleaved = right.reshape(2, 32, 32).swapaxes(0, 1).reshape(64, 32)
    for left in (swapped, interleaved):
        only(detect_root(twin(left, right, name)), "gate_up_order")


@SEEDS
@pytest.mark.parametrize(("gates", "order"), [("ifgo", (0, 3, 1, 2)), ("rzn", (1, 0, 2))])
def test_gates_of_recurrent_layers(seed, gates, order):
    right = weights(np.random.default_rng(seed), len(gates) * 16, 24)
    blocks = np.split(right, len(gates))
    left = np.concatenate([blocks[order.index(place)] for place in range(len(gates))])
    found = only(detect_root(twin(left, right, "rnn.weight_ih_l0")), "lstm_gate_order")
    assert found.evidence["gates"] == [gates[place] for place in order]


@pytest.mark.parametrize("one", ["left", "right"])
def test_one_bias_that_is_the_sum_of_two(one):
    random = np.random.default_rng(0)
    first, second = weights(random, 64), weights(random, 64)
    sides = [(first + second, first), (np.zeros(64, np.float32), second)]
    if one == "right":
        sides = [pair[::-1] for pair in sides]
    other = twin(*sides[1], "lstm.bias_hh_l0", slot="bias_hh_l0")
    found = detect_root(twin(*sides[0], "lstm.bias_ih_l0", slot="bias_ih_l0"), [other])
    assert only(found, "lstm_gate_order").evidence["side"] == one


@SEEDS
def test_the_values_of_another_layer(seed):
    random = np.random.default_rng(seed)
    others = [twin(*(weights(random, 2, 64, 64)), f"layers.{n}.weight") for n in range(5)]
    pair = twin(others[2].right, weights(random, 64, 64), "layers.7.weight")
    found = only(detect_root(pair, [*others, pair]), "wrong_layer_loaded")
    assert found.evidence["other"] == "layers.2.weight"
    assert detect_root(twin(weights(random, 64, 64), pair.right), others) == []


@pytest.mark.parametrize("tied", ["left", "right"])
def test_a_head_that_equals_the_embedding_on_one_side_only(tied):
    random = np.random.default_rng(0)
    table, head = weights(random, 100, 32), weights(random, 100, 32)
    sides = (table, head) if tied == "left" else (head, table)
    other = twin(table, table, "model.embed_tokens.weight")
    found = only(detect_root(twin(*sides, "lm_head.weight"), [other]), "tied_weights_broken")
    assert found.evidence["tied"] == tied
    # Both sides of a pair may be apart from the embedding without any tie.
    apart = twin(head, weights(random, 100, 32), "lm_head.weight")
    assert detect_root(apart, [other]) == []


def uniform(random, *shape):
    bound = np.prod(shape[1:]) ** -0.5
    return random.uniform(-bound, bound, shape).astype(np.float32)


@SEEDS
@pytest.mark.parametrize("side", ["left", "right"])
def test_an_initialisers_draw_beside_trained_values_was_never_loaded(seed, side):
    random = np.random.default_rng(seed)
    pairs = [
        ("fc.weight", uniform(random, 64, 64), weights(random, 64, 64)),
        ("norm.weight", np.ones(64, np.float32), 1 + weights(random, 64)),
        ("fc.bias", np.zeros(64, np.float32), weights(random, 64)),
    ]
    for name, drawn, trained in pairs:
        sides = (drawn, trained) if side == "left" else (trained, drawn)
        found = only(detect_root(twin(*sides, name)), "tensor_not_loaded")
        assert found.evidence["side"] == side


@SEEDS
def test_two_draws_are_told_by_their_distributions(seed):
    random = np.random.default_rng(seed)
    first, second = uniform(random, 200, 200), uniform(random, 200, 200)
    normal = (0.01 * random.standard_normal((200, 200))).astype(np.float32)
    only(detect_root(twin(first, second)), "rng_differs")
    found = only(detect_root(twin(normal, second)), "initialiser_differs")
    assert found.evidence["left"].startswith("normal")
    # Training moves values a little: the same draw is no other draw.
    assert detect_root(twin(first + 0.01 * weights(random, 200, 200), first)) == []


@pytest.mark.torch
@pytest.mark.mindspore
def test_default_initialisers_of_both_frameworks():
    mindspore = pytest.importorskip("mindspore")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    ours = torch.nn.Linear(200, 300)
    theirs = mindspore.nn.Dense(200, 300)
    weight = twin(theirs.weight.asnumpy(), ours.weight.detach().numpy())
    only(detect_root(weight), "rng_differs")
    bias = twin(theirs.bias.asnumpy(), ours.bias.detach().numpy(), "fc.bias", slot="bias")
    only(detect_root(bias, [weight]), "rng_differs")
    table = twin(
        mindspore.nn.Embedding(500, 64).embedding_table.asnumpy(),
        torch.nn.Embedding(500, 64).weight.detach().numpy(),
    )
    only(detect_root(table), "initialiser_differs")


@pytest.mark.parametrize("shape", [(8, 64), (2, 3, 16, 16)])
@pytest.mark.parametrize("kind", ["standard_normal", "random"])
def test_random_inputs_of_one_distribution(shape, kind):
    draw = getattr(np.random.default_rng(0), kind)
    pair = data(draw(shape).astype(np.float32), draw(shape).astype(np.float32))
    only(detect_root(pair), "rng_differs")


def test_other_images_and_other_tokens_are_no_random_numbers():
    random = np.random.default_rng(0)
    pictures = image(random, 2, 2, 3, 24, 24)
    assert detect_root(data(*pictures)) == []
    assert detect_root(data(*random.integers(0, 3000, (2, 16, 32)))) == []


@pytest.mark.parametrize("odd", [np.nan, 1e-41, 3e35, np.inf])
def test_a_buffer_of_memory(odd):
    right = (1 / 10000 ** (np.arange(32) / 32)).astype(np.float32)
    left = np.full(32, odd, np.float32)
    left[::3] = 0.0
    pair = twin(left, right, "rotary.inv_freq", "buffer", "inv_freq")
    assert only(detect_root(pair), "buffer_uninitialised").evidence["side"] == "left"
    ordinary = twin(2 * right, right, "rotary.inv_freq", "buffer", "inv_freq")
    assert detect_root(ordinary) == []


@pytest.mark.parametrize("longer", ["left", "right"])
@pytest.mark.parametrize("filler", [0.0, 0.01])
def test_a_padded_vocabulary(longer, filler):
    table = weights(np.random.default_rng(0), 100, 32)
    padded = np.concatenate([table, np.full((28, 32), filler, np.float32)])
    sides = (padded, table) if longer == "left" else (table, padded)
    found = only(detect_root(twin(*sides, "wte.weight")), "vocab_padding")
    assert (found.evidence["longer"], found.evidence["multiple"]) == (longer, 128)
    if longer == "left":
        np.testing.assert_array_equal(applied(found, padded)[0], table)
    other = weights(np.random.default_rng(1), *sides[0].shape)
    assert detect_root(twin(other, sides[1], "wte.weight")) == []


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_weights_rounded_to_a_shorter_format(name, side):
    wide = weights(np.random.default_rng(0), 64, 64)
    narrow = wide.astype(dtype_from_token(name)).astype(np.float32)
    sides = (narrow, wide) if side == "left" else (wide, narrow)
    found = only(detect_root(twin(*sides)), "low_precision_cast")
    assert (found.evidence["format"], found.evidence["side"]) == (name, side)
    assert found.residual == 0.0


MEAN = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)


@SEEDS
def test_images_of_other_ranges_and_normalisations(seed):
    right = image(np.random.default_rng(seed), 2, 3, 32, 32)
    normal = ((right - MEAN) / DEVIATION).astype(np.float32)
    swapped = ((right - MEAN[::-1]) / DEVIATION[::-1]).astype(np.float32)
    pairs = [
        (np.round(255 * right).astype(np.uint8), right, "1/255", []),
        (right, normal, "", ["0..1", "ImageNet"]),
        (2 * right - 1, normal, "", ["-1..1", "ImageNet"]),
        (swapped, normal, "", ["ImageNet, constants in BGR order", "ImageNet"]),
    ]
    for left, other, factor, recipes in pairs:
        found = only(detect_root(data(left, other)), "input_scale_or_normalisation")
        assert found.evidence["factor_name"] == factor
        assert not recipes or found.evidence["recipes"] == recipes


@pytest.mark.parametrize("shape", [(16, 32), (12, 3, 4, 4)])
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_samples_in_another_order(shape, dtype):
    random = np.random.default_rng(0)
    right = random.integers(0, 3000, shape).astype(dtype)
    order = random.permutation(shape[0])
    found = only(detect_root(data(right[order], right)), "data_order")
    assert found.evidence["moved"] == (order != np.arange(shape[0])).sum()


def test_another_padding_value_and_the_batch_of_another_call():
    random = np.random.default_rng(0)
    left = random.integers(100, 3000, (16, 32))
    right = left.copy()
    for row in range(16):
        left[row, 32 - row :], right[row, 32 - row :] = 0, 50256
    found = only(detect_root(data(left, right)), "data_order")
    assert (found.evidence["left_value"], found.evidence["right_value"]) == (0, 50256)
    other = data(*weights(random, 2, 8, 64), "x.1")
    assert causes(detect_root(data(other.right, weights(random, 8, 64)), [other])) == ["data_order"]


def test_positions_that_start_elsewhere():
    right = np.arange(32)[None].repeat(4, 0)
    found = only(detect_root(data(right + 2, right)), "position_offset")
    assert found.evidence["offset"] == 2
    each = right - np.arange(4)[:, None]
    assert only(detect_root(data(each, right)), "position_offset").evidence["kind"] == "per sample"


def test_integers_that_lost_bits():
    random = np.random.default_rng(0)
    large = random.integers(0, 2**40, (4, 64))
    small = random.integers(0, 50000, (4, 64))
    pairs = [
        (large.astype(np.int32), large, "wrapped to int32"),
        (np.clip(large, -(2**31), 2**31 - 1), large, "clipped to int32"),
        (small.astype(np.float16).astype(np.float32), small, "rounded by float16"),
        (large.astype(np.float32), large, "rounded by float32"),
    ]
    for left, right, how in pairs:
        assert only(detect_root(data(left, right)), "int_narrowing").evidence["how"] == how
    assert "int_narrowing" not in causes(detect_root(data(large + 1, large)))


@pytest.mark.parametrize("eps", [1e-5, 1e-3])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_norm_in_the_convolutions_weight(eps, side):
    random = np.random.default_rng(0)
    weight = weights(random, 32, 16, 3, 3)
    gamma, variance = random.uniform(0.5, 1.5, 32), random.uniform(0.01, 2, 32)
    folded = weight * (gamma / np.sqrt(variance + eps))[:, None, None, None]
    values = {"weight": gamma, "running_var": variance, "bias": weights(random, 32)}
    norm = []
    for slot, one in values.items():
        role = "buffer" if slot == "running_var" else "parameter"
        one = one.astype(np.float32)
        sides = (None, one) if side == "left" else (one, None)
        norm.append(twin(*sides, f"bn1.{slot}", role, slot))
    sides = (folded.astype(np.float32), weight)
    pair = twin(*(sides if side == "left" else sides[::-1]), "conv1.weight")
    found = only(detect_root(pair, norm), "bn_folded")
    assert found.evidence["eps"] == pytest.approx(eps, rel=0.02)
    assert (found.evidence["norm"], found.evidence["side"]) == ("bn1", side)
    # Another norm does not explain it.
    other = [twin(None, weights(random, 32) ** 2, "bn2.running_var", "buffer")]
    assert "bn_folded" not in causes(detect_root(pair, other))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_norms_weight_that_is_one_more(dtype):
    weight = weights(np.random.default_rng(0), 64).astype(dtype)
    left = weight.astype(np.float32)
    more = (left + 1).astype(dtype)
    assert causes(detect_root(twin(weight, more, "norm.weight"))) == ["norm_weight_plus_one"]
    assert causes(detect_root(twin(more, weight, "norm.weight"))) == ["norm_weight_plus_one"]
    assert detect_root(twin(left + 0.9, left, "norm.weight")) == []


@pytest.mark.torch
def test_another_resize_of_one_image_is_a_low_suspicion():
    torch = pytest.importorskip("torch")
    picture = np.random.default_rng(0).uniform(size=(1, 3, 20, 20)).repeat(8, 2).repeat(8, 3)
    tensor = torch.from_numpy(picture.astype(np.float32))
    resize = torch.nn.functional.interpolate
    sizes = {"size": (64, 64), "mode": "bilinear"}
    left = resize(tensor, antialias=True, **sizes).numpy()
    right = resize(tensor, antialias=False, **sizes).numpy()
    found = detect_root(data(left, right))
    assert causes(found) in ([], ["image_resize_library"])
    kernel = np.array([0.1, 0.8, 0.1], np.float32)
    blurred = right
    for axis in (2, 3):
        blurred = sum(k * np.roll(blurred, n - 1, axis) for n, k in enumerate(kernel))
    found = only(detect_root(data(blurred, right)), "image_resize_library")
    # Other filters do as much.
    assert found.rival <= found.residual
    noise = 0.02 * np.random.default_rng(1).standard_normal(right.shape).astype(np.float32)
    assert detect_root(data(right + noise, right)) == []


@SEEDS
def test_unrelated_and_slightly_different_weights_have_no_cause(seed):
    random = np.random.default_rng(seed)
    for shape in [(64, 64), (8, 8, 3, 3), (64,), (8,), (16, 8, 5)]:
        left, right = weights(random, *shape), weights(random, *shape)
        assert detect_root(twin(left, right)) == []
        assert detect_root(twin(right * (1 + 0.01 * left), right)) == []
        assert detect_root(twin(right, right)) == []
    assert detect_root(twin(1 + weights(random, 64), 1 + weights(random, 64), "norm.weight")) == []
    assert detect_root(twin(None, right)) == []


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (0, 3), (3, 0)])
def test_degenerate_tensors_have_no_cause_but_a_name(value, shape):
    constant = np.full(shape, value, np.float32)
    other = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for pair in [(constant, other), (other, constant), (constant, constant)]:
        for one in (twin(*pair), data(*pair)):
            assert {*causes(detect_root(one))} <= {"nan_swallowed"}


def test_reversed_channels_of_another_range_are_two_causes():
    right = image(np.random.default_rng(0), 2, 3, 24, 24)
    right = (right - MEAN) / DEVIATION
    left = np.round(255 * image(np.random.default_rng(0), 2, 3, 24, 24)[:, ::-1]).astype(np.uint8)
    found = detect_root(data(left, right.astype(np.float32)))
    assert causes(found) == ["channel_order_bgr", "input_scale_or_normalisation"]
    assert found[1].evidence["recipes"] == ["0..255", "ImageNet"]
    assert max(one.residual for one in found) < 1e-2


def test_a_mask_that_equals_that_of_another_call_is_a_coincidence():
    left, right = np.eye(8, dtype=np.int64), np.tril(np.ones((8, 8), np.int64))
    other = data(right, left, "mask.1")
    assert detect_root(data(left, right, "mask"), [other]) == []


@pytest.mark.parametrize("table", ["e.weight", "word.table"])
def test_a_tie_is_seen_without_the_usual_name_of_an_embedding(table):
    random = np.random.default_rng(0)
    values, head = weights(random, 100, 32), weights(random, 100, 32)
    other = twin(values, values, table)
    only(detect_root(twin(values, head, "head.weight"), [other]), "tied_weights_broken")
    # Layers of one list are filled twice by a wrong map.
    layer = twin(values, values, "layers.2.weight")
    found = detect_root(twin(values, head, "layers.7.weight"), [layer])
    assert only(found, "wrong_layer_loaded").evidence["duplicates"] == ["layers.2.weight"]
