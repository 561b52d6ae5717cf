"""The planted faults in nets of other styles."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from faulty.registry import FAULTS, Plant, Truth, fault, pick
from faulty.side import Side, patched
from faulty.styles import (
    Angles,
    Expand,
    Mask,
    Positions,
    Rotate,
    Scale,
    Scores,
    SwiGLU,
    Weights,
)

# Faults of other modules that need nothing but a class of torch.
_SHARED = {
    "modular": (
        "linear_transposed wrong_layer_loaded tensor_not_loaded initialiser_differs "
        "rng_differs bias_missing bias_per_rank reduce_missing low_precision_cast data_order"
    ),
    "encoder": (
        "norm_eps gelu_variant activation_changed bias_missing bias_per_rank linear_transposed "
        "normalised_axes tensor_not_loaded rng_differs low_precision_cast wrong_layer_loaded "
        "data_order initialiser_differs reduce_missing"
    ),
    "vision": (
        "bn_eps bn_gamma_ignored bn_mode activation_changed gelu_variant bias_missing pad_mode "
        "same_padding_side conv_axes_permuted wrong_layer_loaded tensor_not_loaded "
        "low_precision_cast bias_per_rank bn_momentum_convention bn_momentum_zero bn_variance_bias"
    ),
}
# Of all, whatever they are made of.
_ANYWHERE = (
    "loss_reduction loss_scale_left world_size_scale gradient_clipping frozen_layer learning_rate "
    "weight_decay_coupling weight_decay_selection adam_epsilon_place optimizer_start_state "
    "momentum_convention schedule_off_by_one low_precision_master ema_weights frozen_by_rule "
    "constant swapped_channels element sine last_step_dropped clamp noise cubic reshape gradient"
)


def share() -> None:
    """Register the faults of other modules for these nets as well."""
    for known in list(FAULTS):
        fit = [f for f, names in _SHARED.items() if known.name in f"{names} {_ANYWHERE}".split()]
        if fit and not set(fit) & set(known.families):
            FAULTS.append(replace(known, families=tuple(fit), plant=told(known.plant)))


def told(plant: Plant) -> Plant:
    """The same fault; torch's attention computes its last product itself, not by a call."""

    def planted(left: Side, rng: np.random.Generator, small: bool) -> Truth:
        truth = plant(left, rng, small)
        truth.origins |= {p.removesuffix(".out_proj") for p in truth.origins}
        return truth

    return planted


share()


def changed(left: Side, rng: np.random.Generator, kind: type, cause: str, **values: Any) -> Truth:
    """Set attributes of one module of a class."""
    path = pick(rng, left.find(kind))
    for name, value in values.items():
        setattr(left.module(path), name, value)
    return Truth({path}, {cause})


@fault("norm_eps", "modular", has_small=True)
def own_norm_eps(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    eps = 1e-5 if small else float(rng.choice([1e-3, 1e-2]))
    return changed(left, rng, Scale, "norm_eps", eps=eps)


@fault("norm_weight_plus_one", "modular")
def own_norm_plus_one(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Scale, "norm_weight_plus_one", plus=1.0)


@fault("rope_theta", "modular", has_small=True)
def table_theta(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    theta = 1e4 * (1.001 if small else float(rng.choice([50.0, 0.1])))
    return changed(left, rng, Angles, "rope_theta", theta=theta)


@fault("position_offset", "modular")
def table_offset(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Angles, "position_offset", offset=int(rng.integers(1, 4)))


def far_tables(side: Side, rng: np.random.Generator) -> None:
    """Positions beyond what bfloat16 counts exactly."""
    for path in side.find(Angles):
        side.module(path).offset = 250  # type: ignore[assignment]


@fault("position_low_precision", "modular", prepare=far_tables)
def table_precision(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Angles, "position_low_precision", dtype=torch.bfloat16)


@fault("rope_interleave", "modular")
def own_rope_interleave(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Rotate, "rope_interleave", is_interleaved=True)


@fault("rope_kernel_fault", "modular")
def own_rope_kernel(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Rotate, "rope_kernel_fault", damping=0.5)


@fault("grouped_heads", "modular")
def own_grouped_heads(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Expand, "grouped_heads", tiles=True)


@fault("attention_scale", "modular")
def own_attention_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    draw = rng.random()
    if draw < 0.6:
        return changed(left, rng, Scores, "attention_scale", factor=1.0)
    return changed(left, rng, Scores, "attention_scale", cap=2.0)


@fault("softmax_scale_twice", "modular")
def own_scale_twice(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module(left.find(Scores)[0])
    truth = changed(left, rng, Scores, "softmax_scale_twice", factor=m.factor**2)
    truth.also.add("attention_scale")
    return truth


@fault("mask_missing", "modular")
def own_mask_missing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Mask, "mask_missing", is_on=False)


@fault("attention_window", "modular")
def own_window(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Mask, "attention_window", window=int(rng.integers(3, 6)))


@fault("softmax_axis", "modular")
def own_softmax_axis(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Weights, "softmax_axis", axis=-2)


@fault("softmax_precision_path", "modular")
def own_softmax_precision(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(Weights))
    m: Any = left.module(path)
    patched(m, lambda x: torch.softmax(x.to(torch.bfloat16), -1).to(x.dtype))
    return Truth({path}, {"softmax_precision_path", "low_precision_cast"})


@fault("gate_up_order", "modular")
def own_gate_up_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, SwiGLU, "gate_up_order", gate_first=False)


@fault("activation_changed", "modular")
def own_gate_activation(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    function = (F.gelu, F.relu, torch.sigmoid)[int(rng.integers(3))]
    return changed(left, rng, SwiGLU, "activation_changed", function=function)


@fault("input_scale_or_normalisation", "vision")
def preprocess_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("0")
    if rng.random() < 0.5:
        m.full = 1.0
    else:
        m.mean, m.std = (0.0,) * 3, (1.0,) * 3
    return Truth({"0"}, {"input_scale_or_normalisation"})


@fault("channel_order_bgr", "vision")
def preprocess_bgr(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.module("0").is_bgr = True  # type: ignore[assignment]
    return Truth({"0"}, {"channel_order_bgr"})


@fault("resize_convention", "vision")
def own_resize(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("1")
    options: list[dict[str, Any]] = [
        {"mode": "bilinear", "align_corners": True},
        {"mode": "nearest"},
    ]
    m.options = options[int(rng.integers(2))]
    return Truth({"1"}, {"resize_convention"})


@fault("image_resize_library", "vision")
def own_resize_antialiased(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("1")
    m.options = {"mode": "bilinear", "align_corners": False, "antialias": True}
    # Recomputed from its input the layer says which setting it is.
    return Truth({"1"}, {"image_resize_library", "resize_convention"})


@fault("pool_rounding", "vision")
def numbered_pool(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, nn.AvgPool2d, "pool_rounding", count_include_pad=False)


@fault("flatten_order", "vision")
def own_flatten_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.module("6").channels_last = True  # type: ignore[assignment]
    return Truth({"6"}, {"flatten_order"})


@fault("data_order", "vision", "loading")
def picture_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.batches = [((i[0].roll(1, 0),), t.roll(1, 0)) for i, t in left.batches]
    return Truth({"0"}, {"data_order"})


@fault("position_offset", "encoder")
def learned_offset(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return changed(left, rng, Positions, "position_offset", offset=int(rng.integers(1, 4)))


@fault("embedding_scale", "encoder")
def scale_before_positions(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    m: Any = left.module("positions")
    m.factor = math.sqrt(m.table.shape[1])
    return Truth({"positions"}, {"embedding_scale"})


@fault("mask_missing", "encoder")
def torch_mask_missing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.MultiheadAttention))
    left.module(path.rpartition(".")[0]).is_masked = False  # type: ignore[assignment]
    return Truth({path, path.rpartition(".")[0]}, {"mask_missing"})


@fault("attention_window", "encoder")
def torch_window(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.MultiheadAttention))
    left.module(path.rpartition(".")[0]).window = int(rng.integers(3, 6))  # type: ignore[assignment]
    return Truth({path, path.rpartition(".")[0]}, {"attention_window"})


@fault("attention_scale", "encoder")
def torch_attention_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.MultiheadAttention))
    m: Any = left.module(path)
    scale = float(rng.choice([1.0, 1 / math.sqrt(m.embed_dim)]))
    patched(m, lambda x, *_, attn_mask=None, **__: (attended(m, x, attn_mask, scale), None))
    return Truth({path}, {"attention_scale"})


def attended(m: Any, x: torch.Tensor, hidden: torch.Tensor | None, scale: float) -> torch.Tensor:
    """Attention over itself with this scale."""
    parts = F.linear(x, m.in_proj_weight, m.in_proj_bias).chunk(3, -1)
    query, key, value = (p.unflatten(-1, (m.num_heads, -1)).transpose(1, 2) for p in parts)
    seen = None if hidden is None else ~hidden
    mixed = F.scaled_dot_product_attention(query, key, value, seen, scale=scale)
    # Called as a layer it would be recorded, which torch's own attention does not do.
    out = m.out_proj
    return F.linear(mixed.transpose(1, 2).flatten(2), out.weight, out.bias)


@fault("qkv_packing", "encoder", "loading")
def torch_packing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.MultiheadAttention))
    m: Any = left.module(path)
    with torch.no_grad():
        for p in (m.in_proj_weight, m.in_proj_bias):
            query, key, value = p.clone().chunk(3)
            p.copy_(torch.cat([key, value, query]))
    return Truth({path}, {"qkv_packing"})
