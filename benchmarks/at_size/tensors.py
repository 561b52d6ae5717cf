"""Weights and data that are large and were loaded, laid out, scaled or damaged on the left."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np

from at_size.dumps import Draw, Pair, blocks, normal, trained
from at_size.registry import case, matrix, planes, rows

# Values of the right side to those of the left one.
Change = Callable[[np.ndarray], np.ndarray]


def weight(
    pair: Pair,
    name: str,
    shape: tuple[int, ...],
    change: Change,
    *,
    others: Mapping[str, np.ndarray] | None = None,
    exact: bool = True,
) -> str:
    """Two checkpoints of which the left one has this tensor changed.

    What was loaded from one file is equal to the bit; unless `exact`, both sides were trained on.
    """
    right = trained(pair.random, shape)
    left = np.ascontiguousarray(change(right))
    if not exact:
        left, right = pair.noises[0].on(left), pair.noises[1].on(right)
    return checkpoints(pair, name, left, right, others or {})


def checkpoints(
    pair: Pair, name: str, left: np.ndarray, right: np.ndarray, others: Mapping[str, np.ndarray]
) -> str:
    """The tensor between small ones that both sides hold."""
    small = {
        pair.path(f"layers.{number}.norm.weight", number): trained(pair.random, (96,)) + 1
        for number in (1, 30)
    }
    first, last = ({k: v} for k, v in small.items())
    sides = ({**first, **others, name: own, **last} for own in (left, right))
    pair.checkpoints(*sides)
    return name


def named(pair: Pair, hinted: str) -> str:
    """A name of a tensor."""
    return f"{pair.path(hinted, 12)}.weight"


@case("linear_transposed")
def weight_transposed(pair: Pair) -> str:
    name = named(pair, "layers.7.mlp.up_proj")
    return weight(pair, name, matrix(pair.elements, 3.5), np.transpose, exact=False)


@case("linear_transposed", hints=False)
def square_weight_transposed(pair: Pair) -> str:
    return weight(pair, named(pair, "layers.7.o"), matrix(pair.elements), np.transpose)


@case("wrong_layer_loaded")
def wrong_layer(pair: Pair) -> str:
    """Half of the elements each: the layer and the one whose values it got."""
    other = trained(pair.random, matrix(pair.elements, 3.5))
    others = {"layers.6.mlp.up_proj.weight": other}
    name = "layers.7.mlp.up_proj.weight"
    return weight(pair, name, other.shape, lambda _: other, others=others)


@case("tied_weights_broken")
def tied_weights(pair: Pair) -> str:
    table = trained(pair.random, rows(pair.elements, 1024))
    others = {"model.embed_tokens.weight": table}
    return weight(pair, "lm_head.weight", table.shape, lambda _: table, others=others)


@case("qkv_packing")
def qkv_order(pair: Pair) -> str:
    def packed(right: np.ndarray) -> np.ndarray:
        q, k, v = np.split(right, 3)
        return np.concatenate([k, q, v])

    name = named(pair, "layers.7.self_attn.qkv_proj")
    return weight(pair, name, matrix(pair.elements, 3, 24), packed, exact=False)


@case("rope_interleave")
def rotary_rows_interleaved(pair: Pair) -> str:
    shape = matrix(pair.elements, multiple=64)

    def interleaved(right: np.ndarray) -> np.ndarray:
        halves = right.reshape(-1, 2, 8, shape[1])
        return halves.swapaxes(1, 2).reshape(shape)

    return weight(pair, named(pair, "layers.7.self_attn.q_proj"), shape, interleaved)


@case("lstm_gate_order")
def gates_of_a_weight(pair: Pair) -> str:
    def ordered(right: np.ndarray) -> np.ndarray:
        i, f, g, o = np.split(right, 4)
        return np.concatenate([i, g, f, o])

    name = f"{pair.path('decoder.rnn', 12)}.weight_hh_l0"
    return weight(pair, name, matrix(pair.elements, 4), ordered)


@case("vocab_padding")
def lost_rows(pair: Pair) -> str:
    table = rows(pair.elements, 4096)
    name = named(pair, "model.embed_tokens")
    return weight(pair, name, (max(table[0], 64) + 7, table[1]), lambda right: right[:-7])


@case("vocab_padding")
def padded_rows(pair: Pair) -> str:
    table = rows(pair.elements, 4096)
    count = max(table[0], 64) // 64 * 64 - 27

    def padded(right: np.ndarray) -> np.ndarray:
        return np.concatenate([right, np.zeros((27, table[1]), np.float32)])

    return weight(pair, named(pair, "lm_head"), (count, table[1]), padded)


@case(outside=True, observed="scale")
def weight_scaled(pair: Pair) -> str:
    shape = matrix(pair.elements, 3.5)
    name = named(pair, "layers.7.mlp.up_proj")
    return weight(pair, name, shape, lambda right: np.float32(1.5) * right, exact=False)


@case(outside=True, observed="place")
def rows_zeroed(pair: Pair) -> str:
    def zeroed(right: np.ndarray) -> np.ndarray:
        left = right.copy()
        first = len(left) // 3
        left[first : first + 5] = 0
        return left

    return weight(pair, named(pair, "layers.7.mlp.up_proj"), matrix(pair.elements, 3.5), zeroed)


@case("memory_corruption", hints=False)
def garbage_block(pair: Pair) -> str:
    def overwritten(right: np.ndarray) -> np.ndarray:
        left = right.copy()
        start = left.size // 3 // 1024 * 1024 + 8  # as memory is moved: 32 bytes at a time
        words = pair.random.integers(0, 1 << 32, 1024, dtype=np.uint32)
        left.reshape(-1)[start : start + 1024] = words.view(np.float32)
        return left

    return weight(
        pair, named(pair, "layers.7.mlp.up_proj"), matrix(pair.elements, 3.5), overwritten
    )


@case("memory_corruption")
def bit_flipped(pair: Pair) -> str:
    def flipped(right: np.ndarray) -> np.ndarray:
        left = right.copy()
        left.reshape(-1).view(np.uint32)[left.size // 3] ^= np.uint32(1 << 29)
        return left

    return weight(pair, named(pair, "layers.7.mlp.up_proj"), matrix(pair.elements, 3.5), flipped)


@case("low_precision_cast")
def cast_to_bfloat16(pair: Pair) -> str:
    def cast(right: np.ndarray) -> np.ndarray:
        return right.astype(ml_dtypes.bfloat16).astype(np.float32)

    return weight(pair, named(pair, "layers.7.mlp.up_proj"), matrix(pair.elements, 3.5), cast)


@case("rng_differs", "tensor_not_loaded", "initialiser_differs")
def other_draw(pair: Pair) -> str:
    shape = matrix(pair.elements, 3.5)
    bound = shape[1] ** -0.5
    left, right = (_uniform(pair, shape, bound) for _ in range(2))
    return checkpoints(pair, named(pair, "layers.7.mlp.up_proj"), left, right, {})


@case("tensor_not_loaded", "initialiser_differs", hints=False)
def never_loaded(pair: Pair) -> str:
    shape = matrix(pair.elements, 3.5)
    left = _uniform(pair, shape, shape[1] ** -0.5)
    return weight(pair, named(pair, "layers.7.mlp.up_proj"), shape, lambda _: left)


def _uniform(pair: Pair, shape: tuple[int, ...], bound: float) -> np.ndarray:
    drawn: np.ndarray = pair.random.random(shape, np.float32)
    drawn *= np.float32(2 * bound)
    drawn -= np.float32(bound)
    return drawn


def _kernel(elements: int) -> tuple[int, int, int, int]:
    out, into = matrix(elements // 9)
    return out, into, 3, 3


@case("conv_axes_permuted", hints=False)
def kernel_axes(pair: Pair) -> str:
    """HWIO against OIHW."""
    name = named(pair, "backbone.layer4.conv1")
    return weight(pair, name, _kernel(pair.elements), lambda right: right.transpose(2, 3, 1, 0))


@case("conv_axes_permuted")
def kernel_flipped(pair: Pair) -> str:
    name = named(pair, "backbone.layer4.conv1")
    return weight(pair, name, _kernel(pair.elements), lambda right: right[:, :, ::-1, ::-1])


@case("saturation", "int_narrowing", hints=False)
def saturated_int8(pair: Pair) -> str:
    """Accumulated in 32 bits on the right, in eight on the left."""
    drawn = normal(pair.random, matrix(pair.elements, 3.5))
    right = np.round(60 * drawn).astype(np.int32)
    del drawn
    left = np.clip(right, -128, 127).astype(np.int8)
    return checkpoints(pair, named(pair, "layers.7.mlp.up_proj"), left, right, {})


def given(pair: Pair, shape: tuple[int, ...], draw: Draw, change: Change) -> str:
    """The input of a network, changed on the left, and what a first layer makes of it."""
    call = pair.call(pair.path("encoder", 0), "Encoder")
    right = draw(pair.random, shape)
    left = np.ascontiguousarray(change(right))
    sides = call.value("input", "0", right.shape, right.dtype)
    projection = normal(pair.random, (right[0].size, 4))
    outputs = call.value("output", "0", (len(right), 4))
    for file, output, values, noise in zip(sides, outputs, (left, right), pair.noises, strict=True):
        for part in blocks(len(right), right.size):
            file[part] = noise.on(values[part])
            flat = file[part].reshape(-1, len(projection)).astype(np.float32)
            output[part] = noise.on(np.tanh(flat @ projection / np.float32(len(projection) ** 0.5)))
    pair.write()
    return call.row("input")


def images(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Smooth images in [0, 1]: a few drawn whole, and others made of two of them."""
    few = random.standard_normal((min(shape[0], 12), *shape[1:]), np.float32)
    for axis in (-1, -2):
        for _ in range(3):
            few = (few + np.roll(few, 1, axis) + np.roll(few, -1, axis)) / 3
    few = (few - few.min()) / np.ptp(few)
    shares = random.random((shape[0], len(few)), np.float32)
    shares /= shares.sum(axis=1, keepdims=True)
    return np.tensordot(shares, few, 1).astype(np.float32)


def tokens(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return random.integers(0, 50257, shape)


MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)


@case("input_scale_or_normalisation")
def input_scaled(pair: Pair) -> str:
    return given(pair, rows(pair.elements), normal, lambda right: np.float32(255) * right)


@case("input_scale_or_normalisation", hints=False)
def images_normalised(pair: Pair) -> str:
    shape = planes(pair.elements, 3)
    return given(pair, shape, images, lambda right: (right - MEAN) / DEVIATION)


@case("channel_order_bgr")
def images_bgr(pair: Pair) -> str:
    return given(pair, planes(pair.elements, 3), images, lambda right: right[:, ::-1])


@case("data_order", hints=False)
def images_flipped(pair: Pair) -> str:
    def flipped(right: np.ndarray) -> np.ndarray:
        left = right.copy()
        left[::2] = left[::2, ..., ::-1]
        return left

    return given(pair, planes(pair.elements, 3), images, flipped)


def _permuted(pair: Pair) -> Change:
    return lambda right: right[pair.random.permutation(len(right))]


@case("data_order")
def input_rows_permuted(pair: Pair) -> str:
    return given(pair, rows(pair.elements), normal, _permuted(pair))


@case("data_order")
def token_rows_permuted(pair: Pair) -> str:
    return given(pair, rows(pair.elements, 1024), tokens, _permuted(pair))
