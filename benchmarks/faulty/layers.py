"""Faults of single layers: norms, activations, dropout, products, pooling, resizing."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from faulty.parts import GRU, RMSNorm
from faulty.registry import Truth, fault, pick
from faulty.side import Side, patched

NORMED = ("gpt", "llama", "recurrent")
IMAGES = ("resnet", "autoencoder")


@fault("norm_eps", NORMED, has_small=True)
def norm_eps(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.LayerNorm, RMSNorm))
    module: Any = left.module(path)
    module.eps = module.eps * 0.01 if small else float(rng.choice([1e-3, 1e-2]))
    return Truth({path}, {"norm_eps"})


@fault("bn_eps", IMAGES, has_small=True)
def bn_eps(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.BatchNorm2d))
    module: Any = left.module(path)
    module.eps = 3e-5 if small else float(rng.choice([1e-3, 1e-2]))
    return Truth({path}, {"bn_eps"})


@fault("bn_gamma_ignored", IMAGES)
def bn_gamma_ignored(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.BatchNorm2d))
    m: Any = left.module(path)

    def forward(x: torch.Tensor) -> torch.Tensor:
        ones = torch.ones_like(m.weight)
        return F.batch_norm(
            x, m.running_mean, m.running_var, ones, m.bias, m.training, m.momentum, m.eps
        )

    patched(m, forward)
    return Truth({path}, {"bn_gamma_ignored"})


@fault("eval_train_mode", IMAGES)
def bn_mode(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    first = left.find(nn.BatchNorm2d)[0]
    # The whole net is in the other mode; the first layer that minds is the origin.
    for path in left.find(nn.BatchNorm2d):
        m: Any = left.module(path)
        patched(m, lambda x, m=m: _batch_norm(x, m, True))
    return Truth({first}, {"eval_train_mode"})


def _batch_norm(x: torch.Tensor, m: Any, training: bool) -> torch.Tensor:
    return F.batch_norm(
        x, m.running_mean, m.running_var, m.weight, m.bias, training, m.momentum, m.eps
    )


@fault("eval_train_mode", ("gpt", "recurrent"))
def dropout_mode(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.Dropout)
    for path in paths:
        m: Any = left.module(path)
        patched(m, lambda x, m=m: F.dropout(x, m.p, True))
    return Truth({paths[0]}, {"eval_train_mode"})


@fault("dropout_keep_prob", ("gpt", "recurrent", "resnet"), is_training=True)
def dropout_keep_prob(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = left.find(nn.Dropout)[0]
    m: Any = left.module(path)
    m.p = 1 - m.p
    return Truth({path}, {"dropout_keep_prob"})


@fault("norm_weight_plus_one", "llama")
def weight_plus_one(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(RMSNorm))
    m: Any = left.module(path)
    m.plus = 1.0
    return Truth({path}, {"norm_weight_plus_one"})


@fault("norm_weight_plus_one", "llama", "loading")
def weight_minus_one(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(RMSNorm)
    for path in paths:
        left.module(path).weight.data -= 1.0  # type: ignore[operator,union-attr]
    return Truth({paths[0]}, {"norm_weight_plus_one"})


@fault("norm_weight_cast_order", "llama", dtype="bfloat16")
def weight_cast_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(RMSNorm))
    m: Any = left.module(path)
    m.cast_first = False
    return Truth({path}, {"norm_weight_cast_order"})


@fault("gelu_variant", ("gpt", "autoencoder"), has_small=True)
def gelu_variant(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.GELU))
    m: Any = left.module(path)
    if small or rng.random() < 0.6:
        m.approximate = "tanh"
    else:
        patched(m, lambda x: x * torch.sigmoid(1.702 * x))
    return Truth({path}, {"gelu_variant"})


@fault("activation_changed", "every")
def activation_changed(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.GELU, nn.ReLU, nn.SiLU, nn.Tanh, nn.LeakyReLU))
    m: Any = left.module(path)
    own = type(m)
    others = {
        nn.GELU: [F.relu, F.silu],
        nn.ReLU: [F.gelu, lambda x: x, F.relu6, lambda x: F.leaky_relu(x, 0.1)],
        nn.SiLU: [F.gelu, F.relu, lambda x: x],
        nn.Tanh: [torch.sigmoid, lambda x: x, lambda x: torch.tanh(torch.tanh(x))],
        nn.LeakyReLU: [F.relu, lambda x: F.leaky_relu(x, 0.2), lambda x: x],
    }[own]
    patched(m, others[int(rng.integers(len(others)))])
    return Truth({path}, {"activation_changed"})


@fault("random_in_eval", "autoencoder")
def rrelu_random(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.RReLU)
    for path in paths:
        m: Any = left.module(path)
        patched(m, lambda x, m=m: F.rrelu(x, m.lower, m.upper, training=True))
    return Truth({paths[0]}, {"random_in_eval"})


@fault("bias_missing", ("gpt", "resnet", "autoencoder", "recurrent"), "loading")
def bias_missing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [p for p in left.find(nn.Linear, nn.Conv2d, nn.Conv1d) if has_bias(left, p)]
    if not paths:
        return Truth(set())
    path = pick(rng, paths)
    if rng.random() < 0.5:
        left.module(path).bias = None  # type: ignore[assignment]
    else:
        m: Any = left.module(path)
        rest = m.bias
        m._parameters["bias"] = rest
        patched(m, lambda x, m=m: product(m, x) - shaped(m, x))
    return Truth({path}, {"bias_missing"})


def has_bias(side: Side, path: str) -> bool:
    """Whether the layer has a bias."""
    return getattr(side.module(path), "bias", None) is not None


def product(m: Any, x: torch.Tensor) -> torch.Tensor:
    """What the layer computes of itself."""
    return type(m).forward(m, x)


def shaped(m: Any, x: torch.Tensor) -> torch.Tensor:
    """The bias to be added to the output."""
    if isinstance(m, nn.Linear):
        return m.bias
    return m.bias.reshape(-1, *[1] * (x.dim() - 2))


@fault("bias_added_per_rank", ("gpt", "autoencoder", "recurrent"))
def bias_per_rank(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, [p for p in left.find(nn.Linear, nn.Conv2d) if has_bias(left, p)])
    m: Any = left.module(path)
    ranks = int(rng.choice([2, 4, 8]))
    patched(m, lambda x: product(m, x) + (ranks - 1) * shaped(m, x))
    return Truth({path}, {"bias_added_per_rank"})


@fault("reduce_missing_or_double", ("gpt", "llama", "recurrent"))
def reduce_missing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.Linear))
    m: Any = left.module(path)
    ranks = int(rng.choice([2, 4]))
    share = m.in_features // ranks
    kind = rng.random()

    def forward(x: torch.Tensor) -> torch.Tensor:
        if kind < 0.6:
            return F.linear(x[..., :share], m.weight[:, :share], m.bias)
        return 2 * F.linear(x, m.weight) + (0 if m.bias is None else m.bias)

    patched(m, forward)
    return Truth({path}, {"reduce_missing_or_double"})


@fault("pad_mode", IMAGES)
def pad_mode(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [p for p in left.find(nn.Conv2d) if tuple(left.module(p).kernel_size) == (3, 3)]
    path = pick(rng, paths)
    m: Any = left.module(path)
    mode = str(rng.choice(["reflect", "replicate", "circular"]))
    patched(
        m,
        lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode=mode), m.weight, m.bias, m.stride),
    )
    return Truth({path}, {"pad_mode"})


@fault("same_padding_side", IMAGES)
def same_padding_side(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [
        p
        for p in left.find(nn.Conv2d)
        if tuple(left.module(p).stride) == (2, 2) and tuple(left.module(p).kernel_size) == (3, 3)
    ]
    path = pick(rng, paths)
    m: Any = left.module(path)
    patched(m, lambda x: F.conv2d(F.pad(x, (0, 1, 0, 1)), m.weight, m.bias, m.stride))
    return Truth({path}, {"same_padding_side"})


@fault("pool_rounding", IMAGES)
def pool_rounding(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("pool")
    m.count_include_pad = False
    return Truth({"pool"}, {"pool_rounding"})


@fault("resize_convention", "autoencoder")
def resize_convention(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("up")
    if rng.random() < 0.6:
        m.align_corners = True
    else:
        m.mode, m.align_corners = "nearest", None
    return Truth({"up"}, {"resize_convention"})


@fault("tf32", ("gpt", "llama"), has_small=False)
def tf32(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.Linear)
    for path in paths:
        m: Any = left.module(path)
        patched(m, lambda x, m=m: F.linear(ten_bits(x), ten_bits(m.weight), m.bias))
    first = next(p for p in paths if p != "head")
    first = f"{first.rpartition('.')[0]}.q" if left.family == "llama" else first
    return Truth({first}, {"tf32"})


def ten_bits(x: torch.Tensor) -> torch.Tensor:
    """Rounded to TF32's significand, straight-through."""
    if x.dtype != torch.float32:
        return x
    bits = x.detach().view(torch.int32)
    rounded = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return x + (rounded - x).detach()


@fault("low_precision_cast", "every")
def low_precision_cast(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [p for p in left.find(nn.Linear, nn.Conv2d, nn.LayerNorm) if p != "head"]
    path = pick(rng, paths)
    m: Any = left.module(path)
    dtype = [torch.float16, torch.bfloat16][int(rng.integers(2))]

    def forward(x: torch.Tensor) -> torch.Tensor:
        kept = {name: p.data for name, p in m.named_parameters(recurse=False)}
        y = torch.func.functional_call(
            Plain(m), {f"of.{k}": v.to(dtype) for k, v in m.named_parameters()}, (x.to(dtype),)
        )
        del kept
        return y.to(x.dtype)

    patched(m, forward)
    return Truth({path}, {"low_precision_cast", "softmax_precision_path"})


class Plain(nn.Module):
    """Calls the class's forward of a layer, without its hooks."""

    def __init__(self, of: nn.Module) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its output."""
        return type(self.of).forward(self.of, x)


@fault("normalised_axes", ("gpt", "llama", "recurrent"))
def normalised_axes(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.LayerNorm, RMSNorm))
    m: Any = left.module(path)
    if isinstance(m, RMSNorm):
        m.axes = (-2, -1)
        return Truth({path}, {"normalised_axes"})

    def forward(x: torch.Tensor) -> torch.Tensor:
        mean = x.mean((-2, -1), keepdim=True)
        variance = (x - mean).square().mean((-2, -1), keepdim=True)
        return (x - mean) / torch.sqrt(variance + m.eps) * m.weight + m.bias

    patched(m, forward)
    return Truth({path}, {"normalised_axes"})


@fault("normalised_axes", "autoencoder")
def normalised_groups(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("norm")
    patched(m, lambda x: F.group_norm(x, 1, m.weight, m.bias, m.eps))
    return Truth({"norm"}, {"normalised_axes"})


@fault("kernel_fault", ("autoencoder", "recurrent"))
def kernel_fault(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = left.find(nn.Tanh)[0]
    patched(left.module(path), lambda x: rational_tanh(x))
    return Truth({path}, {"kernel_fault"})


def rational_tanh(x: torch.Tensor) -> torch.Tensor:
    """A continued fraction with an error near 1e-4, as approximations in kernels have."""
    y = x.clamp(-4.9, 4.9)
    square = y * y
    top = y * (135135 + square * (17325 + square * (378 + square)))
    return top / (135135 + square * (62370 + square * (3150 + 28 * square)))


@fault("gru_reset_order", "recurrent")
def gru_reset_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(GRU)
    if not paths:
        return Truth(set())
    path = pick(rng, paths)
    m: Any = left.module(path)
    m.reset_after = False
    return Truth({path}, {"gru_reset_order"})


@fault("embedding_scale", ("gpt", "llama"))
def embedding_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    net: Any = left.net
    net.embedding_scale = math.sqrt(net.tok.weight.shape[1])
    first = "blocks.0" if left.family == "gpt" else "layers.0"
    consumers = {"drop", "tok"} if left.family == "gpt" else {"tok", first, f"{first}.norm1"}
    return Truth(consumers, {"embedding_scale"})
