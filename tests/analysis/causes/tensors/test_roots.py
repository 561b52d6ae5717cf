"""Causes of root tensors: each is planted, undone, and not seen where something else happened."""

from __future__ import annotations

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.analysis.causes.tensors.kit import causes, data, image, tensor, weights
from troubleshooter_nb.analysis.causes.confidence import confidence
from troubleshooter_nb.analysis.causes.tensors import detect_root
from troubleshooter_nb.analysis.causes.tensors.scales import fit_affine
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
    found = only(detect_root(tensor(left, right)), "linear_transposed")
    np.testing.assert_array_equal(applied(found, left), right.astype(dtype))
    assert found.rival > 0.5


@SEEDS
@pytest.mark.parametrize("axes", [(2, 3, 1, 0), (1, 0, 2, 3)])
def test_kernel_axes_in_another_order_come_with_the_permute(seed, axes):
    right = weights(np.random.default_rng(seed), 8, 8, 3, 3)
    left = right.transpose(np.argsort(axes))
    found = only(detect_root(tensor(left, right, "conv.weight")), "conv_axes_permuted")
    np.testing.assert_array_equal(applied(found, left), right)


def test_a_flipped_kernel_is_a_kernel_and_reversed_channels_are_channels():
    random = np.random.default_rng(0)
    stem = weights(random, 32, 3, 7, 7)
    flipped = detect_root(tensor(stem[:, :, ::-1, ::-1], stem, "conv1.weight"))
    assert only(flipped, "conv_axes_permuted").evidence["flipped"] == [2, 3]
    reversed_ = detect_root(tensor(stem[:, ::-1], stem, "conv1.weight"))
    assert only(reversed_, "channel_order_bgr").evidence["axis"] == 1


@pytest.mark.parametrize("axis", [1, 3])
def test_an_image_with_reversed_channels(axis):
    right = image(np.random.default_rng(0), 2, 3, 24, 24)
    right = right if axis == 1 else right.transpose(0, 2, 3, 1)
    found = only(detect_root(data(np.flip(right, axis), right)), "channel_order_bgr")
    assert found.evidence["axis"] == axis


@pytest.mark.parametrize(("axis", "what"), [(3, "left to right"), (2, "upside down")])
def test_images_that_are_mirrored_have_no_reversed_channels(axis, what):
    right = image(np.random.default_rng(0), 4, 3, 24, 24)
    left = right.copy()
    left[[0, 2]] = np.flip(right[[0, 2]], axis)
    found = only(detect_root(data(left, right)), "data_order")
    assert (found.evidence["what"], found.evidence["moved"]) == (f"flipped {what}", 2)


@pytest.mark.parametrize("two_dimensional", ["left", "right"])
def test_the_extra_axis_of_a_conv1d(two_dimensional):
    right = weights(np.random.default_rng(0), 16, 8, 5)
    left = right[:, :, None]
    if two_dimensional == "right":
        left, right = right, left
    found = only(detect_root(tensor(left, right, "conv.weight")), "conv1d_extra_axis")
    np.testing.assert_array_equal(applied(found, left), right)


@SEEDS
def test_columns_of_a_dense_layer_behind_another_flatten(seed):
    right = weights(np.random.default_rng(seed), 10, 8 * 25)
    left = right.reshape(10, 8, 25).transpose(0, 2, 1).reshape(10, -1)
    found = only(detect_root(tensor(left, right, "fc1.weight")), "flatten_order")
    assert {found.evidence["first"], found.evidence["second"]} == {8, 25}


@SEEDS
@pytest.mark.parametrize(("heads", "size"), [(4, 16), (2, 64), (1, 32)])
@pytest.mark.parametrize("shape", [(), (48,)])
def test_rotary_rows_interleaved_inside_each_head(seed, heads, size, shape):
    right = weights(np.random.default_rng(seed), heads * size, *shape)
    left = right.reshape(heads, 2, size // 2, -1).swapaxes(1, 2).reshape(right.shape)
    name = "layers.0.attn.q_proj." + ("weight" if shape else "bias")
    found = only(detect_root(tensor(left, right, name)), "rope_interleave")
    assert (found.evidence["heads"], found.evidence["head_size"]) == (heads, size)
    assert causes(detect_root(tensor(right, left, name))) == ["rope_interleave"]


@SEEDS
def test_query_key_and_value_packed_in_other_ways(seed):
    random = np.random.default_rng(seed)
    right = weights(random, 96, 32)
    q, k, v = np.split(right, 3)
    per_head = right.reshape(3, 4, 8, 32).swapaxes(0, 1).reshape(96, 32)
    for left in (np.concatenate([k, q, v]), per_head):
        only(detect_root(tensor(left, right, "attn.qkv.weight")), "qkv_packing")
    q, k, v = (weights(random, rows, 32) for rows in (64, 16, 16))
    grouped = np.concatenate([np.split(part, 2)[group] for group in range(2) for part in (q, k, v)])
    joined = np.concatenate([q, k, v])
    only(detect_root(tensor(grouped, joined, "attn.qkv_proj.weight")), "qkv_packing")


@pytest.mark.parametrize("expanded", ["left", "right"])
def test_grouped_heads_expanded_on_one_side(expanded):
    few = weights(np.random.default_rng(0), 16, 32)
    many = few.reshape(2, 1, 8, 32).repeat(4, 1).reshape(64, 32)
    sides = (many, few) if expanded == "left" else (few, many)
    found = only(detect_root(tensor(*sides, "attn.k_proj.weight")), "grouped_heads")
    assert [found.evidence[key] for key in ("heads", "block", "times")] == [2, 8, 4]


def test_gate_and_up_swapped_or_interleaved():
    right = weights(np.random.default_rng(0), 64, 32)
    name = "mlp.gate_up_proj.weight"
    swapped = np.concatenate([right[32:], right[:32]])
    interleaved = right.reshape(2, 32, 32).swapaxes(0, 1).reshape(64, 32)
    for left in (swapped, interleaved):
        only(detect_root(tensor(left, right, name)), "gate_up_order")


@SEEDS
@pytest.mark.parametrize(("gates", "order"), [("ifgo", (0, 3, 1, 2)), ("rzn", (1, 0, 2))])
def test_gates_of_recurrent_layers(seed, gates, order):
    right = weights(np.random.default_rng(seed), len(gates) * 16, 24)
    blocks = np.split(right, len(gates))
    left = np.concatenate([blocks[order.index(place)] for place in range(len(gates))])
    found = only(detect_root(tensor(left, right, "rnn.weight_ih_l0")), "lstm_gate_order")
    assert found.evidence["gates"] == [gates[place] for place in order]


@pytest.mark.parametrize("one", ["left", "right"])
def test_one_bias_that_is_the_sum_of_two(one):
    random = np.random.default_rng(0)
    first, second = weights(random, 64), weights(random, 64)
    sides = [(first + second, first), (np.zeros(64, np.float32), second)]
    if one == "right":
        sides = [pair[::-1] for pair in sides]
    other = tensor(*sides[1], "lstm.bias_hh_l0", slot="bias_hh_l0")
    found = detect_root(tensor(*sides[0], "lstm.bias_ih_l0", slot="bias_ih_l0"), [other])
    assert only(found, "lstm_gate_order").evidence["side"] == one


@SEEDS
def test_the_values_of_another_layer(seed):
    random = np.random.default_rng(seed)
    others = [tensor(*(weights(random, 2, 64, 64)), f"layers.{n}.weight") for n in range(5)]
    pair = tensor(others[2].right, weights(random, 64, 64), "layers.7.weight")
    found = only(detect_root(pair, [*others, pair]), "wrong_layer_loaded")
    assert found.evidence["other"] == "layers.2.weight"
    assert detect_root(tensor(weights(random, 64, 64), pair.right), others) == []


@pytest.mark.parametrize("tied", ["left", "right"])
def test_a_head_that_equals_the_embedding_on_one_side_only(tied):
    random = np.random.default_rng(0)
    table, head = weights(random, 100, 32), weights(random, 100, 32)
    sides = (table, head) if tied == "left" else (head, table)
    other = tensor(table, table, "model.embed_tokens.weight")
    found = only(detect_root(tensor(*sides, "lm_head.weight"), [other]), "tied_weights_broken")
    assert found.evidence["tied"] == tied
    # Of operators no name says which layer they are.
    other = tensor(table, table, "Functional.embedding.0.forward.input.1")
    call = tensor(*sides, "Functional.linear.12.forward.input.1")
    assert only(detect_root(call, [other]), "tied_weights_broken").evidence["tied"] == tied
    # Both sides of a pair may be apart from the embedding without any tie.
    apart = tensor(head, weights(random, 100, 32), "lm_head.weight")
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
        found = only(detect_root(tensor(*sides, name)), "tensor_not_loaded")
        assert found.evidence["side"] == side


@SEEDS
def test_two_draws_are_told_by_their_distributions(seed):
    random = np.random.default_rng(seed)
    first, second = uniform(random, 200, 200), uniform(random, 200, 200)
    normal = (0.01 * random.standard_normal((200, 200))).astype(np.float32)
    only(detect_root(tensor(first, second)), "rng_differs")
    found = only(detect_root(tensor(normal, second)), "initialiser_differs")
    assert found.evidence["left"].startswith("normal")
    # Training moves values a little: the same draw is no other draw.
    assert detect_root(tensor(first + 0.01 * weights(random, 200, 200), first)) == []


SHAPES = [(40, 32), (96, 32), (32, 64), (16, 8, 3, 3), (32, 32)]


def drawn_alike(random, rights, std=0.01):
    """Twins whose left is one normal distribution's in all shapes."""
    lefts = [(std * random.standard_normal(one.shape)).astype(np.float32) for one in rights]
    pairs = zip(lefts, rights, strict=True)
    return [tensor(*pair, f"fc{n}.weight", rel_l2=1.0) for n, pair in enumerate(pairs)]


@SEEDS
def test_small_weights_of_one_deviation_are_an_initialiser_together(seed):
    random = np.random.default_rng(seed)
    first, *others = drawn_alike(random, [uniform(random, *shape) for shape in SHAPES])
    found = only(detect_root(first, others), "initialiser_differs")
    assert "as in 5 tensors together" in found.evidence["left"]
    assert found.evidence["right"].startswith("uniform")
    # Alone it may have been trained, and so may others of deviations of their own.
    only(detect_root(first), "tensor_not_loaded")
    for number, other in enumerate(others):
        own = other.left * (1 + 0.3 * number)
        others[number] = tensor(own, other.right, other.name, rel_l2=1.0)
    only(detect_root(first, others), "tensor_not_loaded")


@SEEDS
def test_a_draw_without_a_name_is_one_where_the_rest_of_its_side_is_untrained(seed):
    random = np.random.default_rng(seed)
    rest = [uniform(random, *shape) for shape in SHAPES]
    same = [tensor(one, one, f"fc{n}.weight", rel_l2=0.0) for n, one in enumerate(rest)]
    pair = tensor(0.3 * weights(random, 64, 32), uniform(random, 64, 32), "mid.weight", rel_l2=1.0)
    only(detect_root(pair, same), "initialiser_differs")
    trained = [weights(random, *shape) for shape in SHAPES]
    same = [tensor(one, one, f"fc{n}.weight", rel_l2=0.0) for n, one in enumerate(trained)]
    only(detect_root(pair, same), "tensor_not_loaded")


def test_a_norm_of_few_channels_that_was_never_loaded():
    trained = np.random.default_rng(0).uniform(0.7, 1.3, 16).astype(np.float32)
    found = only(
        detect_root(tensor(np.ones(16, "f4"), trained, "norm.weight")), "tensor_not_loaded"
    )
    assert confidence(found) > 0.5


def moved(one, other, name, role="parameter"):
    """A pair with the figures of a comparison that the start of a training is told by."""
    flat = [side.reshape(-1).astype(np.float64) for side in (one, other)]
    norms = [np.linalg.norm(side) for side in flat]
    figures = {"cosine": float(flat[0] @ flat[1]) / float(norms[0] * norms[1])}
    rel_l2 = float(np.linalg.norm(flat[0] - flat[1]) / norms[1])
    return replace(tensor(one, other, name, role, rel_l2=rel_l2), figures=figures)


@SEEDS
def test_the_start_of_a_training_was_not_left_unloaded(seed):
    random = np.random.default_rng(seed)
    start = [uniform(random, *shape) for shape in SHAPES]
    trained = [one + 0.5 * one.std() * weights(random, *one.shape) for one in start]
    rest = [
        moved(*pair, f"fc{n}.weight") for n, pair in enumerate(zip(trained, start, strict=True))
    ]
    learnt = (0.1 * random.standard_normal(96)).astype(np.float32)
    bias = tensor(learnt, np.zeros(96, "f4"), "other.bias", slot="bias")
    mean = tensor(learnt, np.zeros(96, "f4"), "bn.running_mean", "buffer")
    assert detect_root(bias, rest) == []
    assert detect_root(mean, [], weights=rest) == []
    # Of an initialiser without a name the biases tell.
    unknown = [moved(one.left, 0.9 * one.left, one.name) for one in rest]
    vectors = [
        replace(
            tensor(learnt, np.full(96, at, "f4"), f"norm.{at}", rel_l2=1.0),
            figures={"right_min": at, "right_max": high},
        )
        for at, high in ((0.0, 0.0), (1.0, 1.0), (0.0, 0.5))
    ]
    assert detect_root(bias, [*unknown, *vectors]) == []
    only(detect_root(bias, [*unknown, vectors[0], *[vectors[2]] * 2]), "tensor_not_loaded")
    # A side whose weights are trained as well, as averages are, does not begin a training.
    flipped = [moved(one.left, 0.9 * one.left, one.name) for one in rest]
    only(detect_root(mean, [], weights=flipped), "tensor_not_loaded")
    only(detect_root(bias, flipped), "tensor_not_loaded")
    # But a bias whose own weight was trained from this one was there with it.
    assert detect_root(replace(bias, name="fc1.bias"), flipped) == []
    # Weights of a network that was never loaded have nothing in common with those that were.
    others = [moved(one.left, uniform(random, *one.left.shape), one.name) for one in rest]
    only(detect_root(bias, others), "tensor_not_loaded")
    # Where all else is equal, or rounded, nothing was trained.
    rounded = [replace(one, bits=(11, 24)) for one in rest]
    only(detect_root(bias, rounded), "tensor_not_loaded")
    same = [moved(one.right, one.right, one.name) for one in rest]
    only(detect_root(bias, same), "tensor_not_loaded")


@pytest.mark.torch
@pytest.mark.mindspore
def test_default_initialisers_of_both_frameworks():
    mindspore = pytest.importorskip("mindspore")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    mindspore.set_seed(1)
    ours = torch.nn.Linear(200, 300)
    theirs = mindspore.nn.Dense(200, 300)
    weight = tensor(theirs.weight.asnumpy(), ours.weight.detach().numpy())
    only(detect_root(weight), "rng_differs")
    bias = tensor(theirs.bias.asnumpy(), ours.bias.detach().numpy(), "fc.bias", slot="bias")
    only(detect_root(bias, [weight]), "rng_differs")
    table = tensor(
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
    pair = tensor(left, right, "rotary.inv_freq", "buffer", "inv_freq")
    assert only(detect_root(pair), "buffer_uninitialised").evidence["side"] == "left"
    ordinary = tensor(2 * right, right, "rotary.inv_freq", "buffer", "inv_freq")
    assert detect_root(ordinary) == []


FREQUENCIES = (1 / 10000 ** (np.arange(8) / 8)).astype(np.float32)
WAVES = np.cos(np.arange(32)[:, None] * FREQUENCIES).astype(np.float32)


@pytest.mark.parametrize("computed", [FREQUENCIES, WAVES, np.arange(8)])
def test_a_buffer_of_zeros_that_should_have_been_computed(computed):
    pair = tensor(0 * computed, computed, "rope.table", "buffer", "table")
    only(detect_root(pair), "buffer_uninitialised")
    # A buffer that is loaded may begin at zero.
    loaded = weights(np.random.default_rng(0), *computed.shape)
    found = detect_root(tensor(0 * loaded, loaded, "gate.correction", "buffer", "correction"))
    assert "buffer_uninitialised" not in causes(found)


def test_a_mask_of_minus_infinity_is_no_memory():
    mask = np.triu(np.full((8, 8), -np.inf, "f4"), 1)
    pair = tensor(mask, np.triu(np.full((8, 8), -1e4, "f4"), 1), "mask", "buffer", "mask")
    assert "buffer_uninitialised" not in causes(detect_root(pair))


@pytest.mark.parametrize("longer", ["left", "right"])
@pytest.mark.parametrize("filler", [0.0, 0.01])
def test_a_padded_vocabulary(longer, filler):
    table = weights(np.random.default_rng(0), 100, 32)
    padded = np.concatenate([table, np.full((28, 32), filler, np.float32)])
    sides = (padded, table) if longer == "left" else (table, padded)
    found = only(detect_root(tensor(*sides, "wte.weight")), "vocab_padding")
    assert (found.evidence["longer"], found.evidence["multiple"]) == (longer, 128)
    if longer == "left":
        np.testing.assert_array_equal(applied(found, padded)[0], table)
    other = weights(np.random.default_rng(1), *sides[0].shape)
    assert detect_root(tensor(other, sides[1], "wte.weight")) == []


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_weights_rounded_to_a_shorter_format(name, side):
    wide = weights(np.random.default_rng(0), 64, 64)
    narrow = wide.astype(dtype_from_token(name)).astype(np.float32)
    sides = (narrow, wide) if side == "left" else (wide, narrow)
    found = only(detect_root(tensor(*sides)), "low_precision_cast")
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


@pytest.mark.parametrize("axis", [None, 0])
def test_squares_beyond_float64_fit_nothing_and_warn_of_nothing(axis):
    left, right = np.random.default_rng(0).uniform(-1, 1, (2, 16, 8)) * 1e308
    assert np.isnan(fit_affine(left, right, axis).residual)


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


@pytest.mark.parametrize("shift", [1, -1, 7])
def test_ids_that_are_shifted_with_a_wrap_and_without(shift):
    right = np.random.default_rng(0).integers(0, 50, (4, 24))
    right[0, 0], right[1, 1] = 0, 49
    found = only(detect_root(data((right + shift) % 50, right)), "ids_shifted")
    assert found.evidence["offset"] == shift
    assert "modulo 50" in found.evidence["left"]
    assert only(detect_root(data(right + shift, right)), "ids_shifted").evidence["left"] == (shift)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("lag", [1, -2])
def test_labels_that_are_rolled(axis, lag, manner):
    right = np.random.default_rng(0).integers(0, 50, (12, 24))
    (found,) = detect_root(data(np.roll(right, lag, axis), right))
    # Along the first axis they are samples in another order.
    assert found.cause == ("ids_shifted" if axis else "data_order")
    if axis:
        assert found.evidence["offset"] == lag
        assert ("with a wrap" in found.evidence["left"]) == (manner == "whole")
    filled = np.full_like(right, -100)
    filled[:, :-1] = right[:, 1:]
    moved = only(detect_root(data(filled, right)), "ids_shifted")
    assert (moved.evidence["offset"], moved.evidence["axis"]) == (-1, 1)


def test_other_ids_are_not_shifted():
    random = np.random.default_rng(0)
    right = random.integers(0, 50, (4, 24))
    mask = (right < 25).astype(np.int64)
    for left, reference in (
        (random.integers(0, 50, (4, 24)), right),
        (np.where(right < 10, right + 1, right), right),  # some only
        (np.where(right < 25, right + 1, right - 3), right),  # 4 is no modulus of these
        (np.roll(mask, 1, 1), mask),
        (1 - mask, mask),
    ):
        assert not any(one.cause == "ids_shifted" for one in detect_root(data(left, reference)))


def adapted(rank, times, dtype=np.float32, shape=(96, 160), seed=0):
    """A weight, the same with an adapter merged, and the factors of it."""
    random = np.random.default_rng(seed)
    weight = weights(random, *shape)
    down, up = random.normal(size=(rank, shape[1])), random.normal(size=(shape[0], rank))
    down, up = 0.1 * down.astype(np.float32), 0.05 * up.astype(np.float32)
    merged = weight + np.float32(times) * (up @ down)
    return [one.astype(dtype) for one in (weight, merged, down, up)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("rank", "times"), [(1, 1.0), (4, 2.0), (8, 0.5)])
@pytest.mark.parametrize("on_left", [True, False])
def test_a_merged_adapter_says_its_rank_and_beside_its_factors_its_scale(
    rank, times, dtype, on_left
):
    weight, merged, down, up = adapted(rank, times, dtype)
    name = "h.0.q_proj"
    both = (merged, weight) if on_left else (weight, merged)
    pair = tensor(*both, f"{name}.weight")
    alone = only(detect_root(pair), "low_rank_difference")
    assert (alone.evidence["rank"], alone.share) == (rank, 0.5)
    factors = [
        tensor(*((None, one) if on_left else (one, None)), f"{name}.lora_{word}.default.weight")
        for word, one in (("A", down), ("B", up))
    ]
    strange = tensor(None, weights(np.random.default_rng(9), rank, 160), "h.1.q_proj.lora_A.weight")
    found = only(detect_root(pair, [strange, *factors]), "low_rank_difference")
    said = str(found.evidence["adapter"])
    assert f"{times * rank:g}/{rank} = {times:g} times" in said
    assert said.endswith("on the left" if on_left else "on the right")
    assert found.share == 1.0


def test_what_is_no_sum_of_few_rows_is_no_adapter():
    random = np.random.default_rng(0)
    weight = weights(random, 96, 160)
    some = weight.copy()
    some[3:6] += weights(random, 3, 160)
    for left in (
        weight + 0.01 * weights(random, 96, 160),
        weight * np.linspace(0.9, 1.1, 96, dtype=np.float32)[:, None],
        some,
        adapted(60, 1.0)[1],
    ):
        assert "low_rank_difference" not in causes(detect_root(tensor(left, weight)))


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


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_norms_weight_that_is_one_more(dtype):
    weight = weights(np.random.default_rng(0), 64).astype(dtype)
    left = weight.astype(np.float32)
    more = (left + 1).astype(dtype)
    assert causes(detect_root(tensor(weight, more, "norm.weight"))) == ["norm_weight_plus_one"]
    assert causes(detect_root(tensor(more, weight, "norm.weight"))) == ["norm_weight_plus_one"]
    assert detect_root(tensor(left + 0.9, left, "norm.weight")) == []


def photographs(random, *shape):
    """Fields whose amplitudes fall with frequency."""
    slow = np.hypot(*np.meshgrid(*(np.fft.fftfreq(size) for size in shape[-2:]), indexing="ij"))
    slow[0, 0] = 1.0
    return np.fft.ifft2(np.fft.fft2(random.standard_normal(shape)) / slow).real.astype(np.float32)


@pytest.mark.torch
@pytest.mark.parametrize("sizes", [(36, 24), (100, 64)])
def test_another_resize_of_one_image_is_a_low_suspicion(sizes):
    torch = pytest.importorskip("torch")
    picture = torch.from_numpy(photographs(np.random.default_rng(0), 2, 3, sizes[0], sizes[0]))
    left, right = (
        torch.nn.functional.interpolate(picture, size=sizes[1:] * 2, mode=mode, antialias=True)
        for mode in ("bicubic", "bilinear")
    )
    found = only(detect_root(data(left.numpy(), right.numpy())), "image_resize_library")
    assert 0.1 < confidence(found) < 0.5


def test_what_is_no_other_resize():
    random = np.random.default_rng(1)
    right = photographs(random, 2, 3, 24, 24)
    kernel = np.array([0.1, 0.8, 0.1], np.float32)
    blurred = right
    for axis in (2, 3):
        blurred = sum(k * np.roll(blurred, n - 1, axis) for n, k in enumerate(kernel))
    # A filter at this size is no resize; it leaves no more than any resize does.
    assert all(confidence(one) == 0 for one in detect_root(data(blurred, right)))
    noise = right.std() * random.standard_normal(right.shape).astype(np.float32)
    for size in (0.05, 0.3):
        assert detect_root(data(right + size * noise, right)) == []
        assert detect_root(data(right, right + size * noise)) == []
    assert detect_root(data(np.roll(right, 1, 3), right)) == []
    assert detect_root(data(right + 0.02 * right**2, right)) == []


@SEEDS
def test_unrelated_and_slightly_different_weights_have_no_cause(seed):
    random = np.random.default_rng(seed)
    for shape in [(64, 64), (8, 8, 3, 3), (64,), (8,), (16, 8, 5)]:
        left, right = weights(random, *shape), weights(random, *shape)
        assert detect_root(tensor(left, right)) == []
        assert detect_root(tensor(right * (1 + 0.01 * left), right)) == []
        assert detect_root(tensor(right, right)) == []
    assert (
        detect_root(tensor(1 + weights(random, 64), 1 + weights(random, 64), "norm.weight")) == []
    )
    assert detect_root(tensor(None, right)) == []


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (0, 3), (3, 0)])
def test_degenerate_tensors_have_no_cause_but_a_name(value, shape):
    constant = np.full(shape, value, np.float32)
    other = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for pair in [(constant, other), (other, constant), (constant, constant)]:
        for one in (tensor(*pair), data(*pair)):
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
    other = tensor(values, values, table)
    only(detect_root(tensor(values, head, "head.weight"), [other]), "tied_weights_broken")
    # Layers of one list are filled twice by a wrong map.
    layer = tensor(values, values, "layers.2.weight")
    found = detect_root(tensor(values, head, "layers.7.weight"), [layer])
    assert only(found, "wrong_layer_loaded").evidence["duplicates"] == ["layers.2.weight"]


def test_the_same_values_in_another_order_were_not_drawn_anew():
    random = np.random.default_rng(0)
    right = uniform(random, 64, 32)
    left = right[:, random.permutation(32)]
    assert "rng_differs" not in causes(detect_root(tensor(left, right)))
    assert causes(detect_root(tensor(uniform(random, 64, 32), right))) == ["rng_differs"]


def test_blocks_of_heads_are_no_gates():
    right = weights(np.random.default_rng(0), 32, 24)
    left = right.reshape(4, 8, 24)[::-1].reshape(32, 24)
    assert "lstm_gate_order" not in causes(detect_root(tensor(left, right, "cross.k.weight")))
