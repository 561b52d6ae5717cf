"""Calls whose output is large and was computed in another way on the left."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch.nn import functional as F

from at_size.dumps import Computed, Layer, Pair, bystander, normal, trained
from at_size.registry import case, heads, matrix, planes, rows


def planted(pair: Pair, computed: Computed) -> str:
    """The call behind two right ones; the row of its output."""
    bystander(pair, 0)
    bystander(pair, 1)
    call, _ = computed.on(pair)
    pair.write()
    return call.row()


def uneven(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal values of another mean and scale in each row, as residual streams have them."""
    ends = (*shape[:1], *[1] * (len(shape) - 1))
    scale = np.exp(0.5 * normal(random, ends)) * np.float32(0.1)
    return scale * (normal(random, shape) + np.float32(0.3) * normal(random, ends))


def gain(pair: Pair, count: int, about: float = 1.0) -> np.ndarray:
    return (about + 0.1 * pair.random.standard_normal(count)).astype(np.float32)


@case("norm_eps")
def layer_norm_eps(pair: Pair) -> str:
    shape = rows(pair.elements)
    parameters = {"weight": gain(pair, shape[1]), "bias": gain(pair, shape[1], 0.0)}

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
        return F.layer_norm(x, weight.shape, weight, bias, eps)

    ways = (partial(norm, eps=eps) for eps in (1e-3, 1e-5))
    path = pair.path("layers.7.input_layernorm", 3)
    return planted(pair, Computed(path, "LayerNorm", *ways, [(shape, uneven)], parameters))


@case("norm_eps", hints=False)
def rms_norm_eps(pair: Pair) -> str:
    shape = rows(pair.elements)

    def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

    ways = (partial(norm, eps=eps) for eps in (1e-5, 1e-6))
    parameters = {"weight": gain(pair, shape[1])}
    path = pair.path("layers.7.input_layernorm", 3)
    return planted(pair, Computed(path, "RMSNorm", *ways, [(shape, uneven)], parameters))


@case("normalised_axes")
def group_norm_groups(pair: Pair) -> str:
    shape = planes(pair.elements)
    parameters = {"weight": gain(pair, shape[1]), "bias": gain(pair, shape[1], 0.0)}

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, of: int) -> torch.Tensor:
        return F.group_norm(x, of, weight, bias, 1e-5)

    ways = (partial(norm, of=of) for of in (1, 4))
    path = pair.path("encoder.block1.norm", 3)
    return planted(pair, Computed(path, "GroupNorm", *ways, [(shape, shifted)], parameters))


def shifted(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Planes of another mean in each channel."""
    means = np.linspace(-1.0, 1.0, shape[1], dtype=np.float32)
    values = normal(random, shape)
    values += means.reshape(1, -1, *[1] * (len(shape) - 2))
    return values


def _batch_norm(pair: Pair, wrong: Layer, right: Layer) -> str:
    shape = planes(pair.elements)
    names = ("weight", "bias", "running_mean", "running_var")
    about = (gain(pair, shape[1], mean) for mean in (1.0, 0.0, 0.0, 1.0))
    parameters = dict(zip(names, about, strict=True))
    path = pair.path("layer3.0.bn2", 3)
    given = [(shape, shifted)]
    return planted(pair, Computed(path, "BatchNorm2d", wrong, right, given, parameters, whole=True))


def _normed(
    x: torch.Tensor, *, is_training: bool = False, eps: float = 1e-5, **of: torch.Tensor
) -> torch.Tensor:
    mean, variance = of["running_mean"].clone(), of["running_var"].clone()
    return F.batch_norm(x, mean, variance, of["weight"], of["bias"], is_training, 0.0, eps)


@case("eval_train_mode")
def batch_norm_mode(pair: Pair) -> str:
    return _batch_norm(pair, partial(_normed, is_training=True), _normed)


@case("bn_eps", hints=False)
def batch_norm_eps(pair: Pair) -> str:
    return _batch_norm(pair, partial(_normed, eps=1e-3), _normed)


@case("gelu_variant")
def gelu_variant(pair: Pair) -> str:
    path = pair.path("layers.7.mlp.act", 3)
    ways = (partial(F.gelu, approximate=how) for how in ("tanh", "none"))
    return planted(pair, Computed(path, "GELU", *ways, [(rows(pair.elements), normal)]))


def _dense(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight, bias)


@case("bias_missing")
def linear_bias(pair: Pair) -> str:
    """A weight of 14336x4096 where there is room for it."""
    shape = matrix(pair.elements, 3.5)
    parameters = {"weight": trained(pair.random, shape), "bias": gain(pair, shape[0], 0.0)}

    def without(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight)

    path = pair.path("layers.7.mlp.up_proj", 3)
    given = [((48, shape[1]), normal)]
    return planted(pair, Computed(path, "Linear", without, _dense, given, parameters))


@case("linear_transposed", hints=False)
def matmul_transposed(pair: Pair) -> str:
    size = matrix(pair.elements)[1]
    shapes = (64, size), (size, size)

    def turned(x: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return x @ second.T

    given = [(shapes[0], normal), (shapes[1], normal)]
    computed = Computed("", "Torch.matmul", turned, torch.matmul, given, whole=True)
    return planted(pair, computed)


def attention(pair: Pair, wrong: Layer, right: Layer, groups: int = 1) -> str:
    shape = heads(pair.elements)
    keys = (shape[0], shape[1] // groups, *shape[2:])
    given = [(shape, normal), (keys, normal), (keys, normal)]
    name = "Functional.scaled_dot_product_attention"
    return planted(pair, Computed("", name, wrong, right, given))


@case("attention_scale")
def attention_scale(pair: Pair) -> str:
    wrong = partial(F.scaled_dot_product_attention, scale=1.0)
    return attention(pair, wrong, F.scaled_dot_product_attention)


@case("mask_missing")
def causal_mask_missing(pair: Pair) -> str:
    right = partial(F.scaled_dot_product_attention, is_causal=True)
    return attention(pair, F.scaled_dot_product_attention, right)


@case("grouped_heads", hints=False)
def grouped_heads_order(pair: Pair) -> str:
    def grouped(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, in_turn: bool
    ) -> torch.Tensor:
        times = q.shape[1] // k.shape[1]
        k, v = (
            one.repeat(1, times, 1, 1) if in_turn else one.repeat_interleave(times, 1)
            for one in (k, v)
        )
        return F.scaled_dot_product_attention(q, k, v)

    ways = (partial(grouped, in_turn=in_turn) for in_turn in (True, False))
    return attention(pair, *ways, groups=2)


def convolution(pair: Pair, wrong: Layer, right: Layer, *, stride: int = 1) -> str:
    shape = planes(pair.elements * stride * stride)
    out = shape[1]
    weight = trained(pair.random, (out, shape[1] // 2, 3, 3))
    given = ((shape[0], shape[1] // 2, *shape[2:]), normal)
    parameters = {"weight": weight, "bias": gain(pair, out, 0.0)}
    path = pair.path("backbone.layer2.conv1", 3)
    return planted(pair, Computed(path, "Conv2d", wrong, right, [given], parameters))


def convolved(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    *,
    ends: tuple[int, int] = (1, 1),
    mode: str = "constant",
    stride: int = 1,
) -> torch.Tensor:
    return F.conv2d(F.pad(x, ends + ends, mode), weight, bias, stride)


@case("same_padding_side", "pad_mode")
def convolution_padding_side(pair: Pair) -> str:
    ways = (partial(convolved, ends=ends, stride=2) for ends in ((0, 1), (1, 0)))
    return convolution(pair, *ways, stride=2)


@case("pad_mode", hints=False)
def convolution_padding_mode(pair: Pair) -> str:
    return convolution(pair, partial(convolved, mode="circular"), convolved)


@case("conv_axes_permuted")
def convolution_kernel_flipped(pair: Pair) -> str:
    def flipped(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return convolved(x, weight.flip(2, 3), bias)

    return convolution(pair, flipped, convolved)


@case("bias_missing", hints=False)
def convolution_bias(pair: Pair) -> str:
    def without(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return convolved(x, weight, None)

    return convolution(pair, without, convolved)


@case("pool_rounding", "pad_mode")
def max_pool_ceil(pair: Pair) -> str:
    """The input has the elements; both ways give a plane of one size."""
    ways = (
        partial(F.max_pool2d, kernel_size=3, stride=2, ceil_mode=True),
        partial(F.max_pool2d, kernel_size=3, stride=2, padding=1),
    )
    path = pair.path("stem.pool", 3)
    return planted(
        pair, Computed(path, "MaxPool2d", *ways, [(planes(pair.elements), normal)], exact=True)
    )


@case("pool_rounding", "pad_mode", hints=False)
def average_pool_divisor(pair: Pair) -> str:
    ways = (
        partial(F.avg_pool2d, kernel_size=3, stride=2, padding=1, count_include_pad=c)
        for c in (True, False)
    )
    path = pair.path("stem.pool", 3)
    given = [(planes(pair.elements), shifted)]
    return planted(pair, Computed(path, "AvgPool2d", *ways, given))


@case("resize_convention")
def resize_corners(pair: Pair) -> str:
    shape = planes(pair.elements // 4)
    ways = (
        partial(F.interpolate, scale_factor=2, mode="bilinear", align_corners=corners)
        for corners in (True, False)
    )
    path = pair.path("decoder.up1", 3)
    return planted(pair, Computed(path, "Upsample", *ways, [(shape, normal)]))


def _softmax(pair: Pair, wrong: Layer, right: Layer) -> str:
    many, positions = heads(pair.elements)[1:3]
    shape = (max(pair.elements // (many * positions * positions), 1), many, positions, positions)
    path = pair.path("layers.7.attn.softmax", 3)
    return planted(pair, Computed(path, "Softmax", wrong, right, [(shape, normal)]))


@case("softmax_axis")
def softmax_axis(pair: Pair) -> str:
    return _softmax(pair, partial(torch.softmax, dim=-2), partial(torch.softmax, dim=-1))


@case("attention_scale", "softmax_scale_twice", hints=False)
def softmax_scale(pair: Pair) -> str:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 0.125, dim=-1)

    return _softmax(pair, scaled, partial(torch.softmax, dim=-1))


def _looked_up(pair: Pair, wrong: Layer, special: int = -1) -> str:
    """Table and output have half of the elements each."""
    shape = rows(pair.elements, 1024)
    table = trained(pair.random, (max(shape[0] // 2, 16), shape[1]))

    def ids(random: np.random.Generator, given: tuple[int, ...]) -> np.ndarray:
        drawn = random.integers(8, len(table) - 8, given)
        drawn[:, ::9] = special if special >= 0 else drawn[:, ::9]
        return drawn

    tokens = (4, max(shape[0] // 4, 16))
    path = pair.path("embed_tokens", 3)
    right = lambda ids, weight: F.embedding(ids, weight)  # noqa: E731 beside what is passed
    computed = Computed(
        path, "Embedding", wrong, right, [(tokens, ids)], {"weight": table}, exact=True
    )
    return planted(pair, computed)


@case("position_offset", hints=False)
def embedding_ids_shifted(pair: Pair) -> str:
    return _looked_up(pair, lambda ids, weight: F.embedding(ids + 1, weight))


@case("padding_idx_row")
def embedding_padding_row(pair: Pair) -> str:
    return _looked_up(pair, lambda ids, weight: F.embedding(ids, weight) * (ids != 7)[..., None], 7)


def _turned(x: torch.Tensor, *, theta: float = 1e4, beside: bool = False) -> torch.Tensor:
    positions, size = x.shape[-2:]
    rates = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates
    cos, sin = (one.to(torch.float32) for one in (angles.cos(), angles.sin()))
    if beside:
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def _rotary(pair: Pair, wrong: Layer) -> str:
    path = pair.path("layers.7.attn.rotary_emb", 3)
    given = [(heads(pair.elements), normal)]
    return planted(pair, Computed(path, "RotaryEmbedding", wrong, _turned, given))


@case("rope_theta")
def rotary_theta(pair: Pair) -> str:
    return _rotary(pair, partial(_turned, theta=5e5))


@case("rope_interleave", hints=False)
def rotary_interleaved(pair: Pair) -> str:
    return _rotary(pair, partial(_turned, beside=True))


@case("dropout_keep_prob")
def dropout_rate(pair: Pair) -> str:
    """Both sides train, each with its own mask."""
    ways = (partial(F.dropout, p=p) for p in (0.2, 0.1))
    path = pair.path("layers.7.drop", 3)
    return planted(
        pair, Computed(path, "Dropout", *ways, [(rows(pair.elements), normal)], exact=True)
    )


@case("constant_differs")
def residual_scaled(pair: Pair) -> str:
    shape = rows(pair.elements)
    ways = (lambda x, y: x + 0.5 * y, torch.add)
    return planted(pair, Computed("", "Torch.add", *ways, [(shape, normal), (shape, normal)]))


@case("softmax_axis", "normalised_axes", hints=False)
def mean_axis(pair: Pair) -> str:
    size = 1 << max((pair.elements.bit_length() - 1) // 3, 2)
    shape = (max(pair.elements // (size * size), 1), size, size)
    ways = (partial(torch.mean, dim=dim) for dim in (1, 2))
    return planted(pair, Computed("", "Torch.mean", *ways, [(shape, shifted)]))


@case(outside=True, observed="scale")
def sum_for_mean(pair: Pair) -> str:
    shape = rows(pair.elements)
    ways = (partial(how, dim=1) for how in (torch.sum, torch.mean))
    return planted(pair, Computed("", "Torch.mean", *ways, [(shape, shifted)]))


def _recurrent(pair: Pair, kind: str, gates: int, wrong: Layer, right: Layer) -> str:
    """The weight of the hidden state has the elements."""
    hidden = max(round(math.sqrt(pair.elements / gates) / 8) * 8, 16)
    shapes = {"weight_ih_l0": 64, "weight_hh_l0": hidden}
    parameters = {
        name: (normal(pair.random, (gates * hidden, size)) / math.sqrt(size)).astype(np.float32)
        for name, size in shapes.items()
    }
    parameters |= {name: gain(pair, gates * hidden, 0.0) for name in ("bias_ih_l0", "bias_hh_l0")}
    given = [((12, 4, 64), normal)]
    path = pair.path("decoder.rnn", 3)
    return planted(pair, Computed(path, kind, wrong, right, given, parameters, whole=True))


def _gru(x: torch.Tensor, *, reset_after: bool, **of: torch.Tensor) -> torch.Tensor:
    into, back = of["weight_ih_l0"], of["weight_hh_l0"]
    state = x.new_zeros(x.shape[1], back.shape[1])
    made = []
    for step in x:
        r, z, n = F.linear(step, into, of["bias_ih_l0"]).chunk(3, -1)
        rh, zh, nh = F.linear(state, back, of["bias_hh_l0"]).chunk(3, -1)
        reset, update = torch.sigmoid(r + rh), torch.sigmoid(z + zh)
        if not reset_after:
            last = len(back) // 3
            nh = F.linear(reset * state, back[-last:], of["bias_hh_l0"][-last:])
        new = torch.tanh(n + (reset * nh if reset_after else nh))
        state = (1 - update) * new + update * state
        made.append(state)
    return torch.stack(made)


@case("gru_reset_order")
def gru_reset(pair: Pair) -> str:
    return _recurrent(
        pair, "GRU", 3, *(partial(_gru, reset_after=after) for after in (False, True))
    )


def _lstm(x: torch.Tensor, *, order: str, **of: torch.Tensor) -> torch.Tensor:
    into, back = of["weight_ih_l0"], of["weight_hh_l0"]
    state = cell = x.new_zeros(x.shape[1], back.shape[1])
    made = []
    for step in x:
        sums = F.linear(step, into, of["bias_ih_l0"]) + F.linear(state, back, of["bias_hh_l0"])
        part = dict(zip(order, sums.chunk(4, -1), strict=True))
        kept = torch.sigmoid(part["f"]) * cell
        cell = kept + torch.sigmoid(part["i"]) * torch.tanh(part["g"])
        state = torch.sigmoid(part["o"]) * torch.tanh(cell)
        made.append(state)
    return torch.stack(made)


@case("lstm_gate_order", hints=False)
def lstm_gates(pair: Pair) -> str:
    return _recurrent(pair, "LSTM", 4, *(partial(_lstm, order=order) for order in ("igfo", "ifgo")))
