"""Faults of attention, rotary positions, masks, packing and position ids."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from faulty.nets import Attention
from faulty.nets_more import GroupedAttention, Rotary
from faulty.registry import Truth, attention_glue, fault, pick
from faulty.side import Side

TEXT = ("gpt", "llama")


def attentions(side: Side) -> list[str]:
    """Paths of the attentions."""
    return side.find(Attention, GroupedAttention)


@fault("attention_scale", TEXT, has_small=True)
def attention_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    draw = rng.random()
    if small:
        m.cap = 50.0 * 4
    elif draw < 0.4:
        m.scale = 1.0
    elif draw < 0.7:
        m.scale = m.scale / math.sqrt(m.heads)
    else:
        m.cap = 2.0
    return attention_glue(path, "attention_scale")


@fault("softmax_scale_twice", TEXT)
def softmax_scale_twice(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.scale = m.scale**2
    # Without the size of the heads it is another scale, which is true as well.
    truth = attention_glue(path, "softmax_scale_twice")
    truth.also.add("attention_scale")
    return truth


@fault("mask_missing", TEXT)
def mask_missing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.is_causal = False
    return attention_glue(path, "mask_missing")


def slide(side: Side, rng: np.random.Generator) -> None:
    """Let every attention see a few tokens back only."""
    width = int(rng.integers(3, 6))
    for path in attentions(side):
        side.module(path).window = width  # type: ignore[assignment]


@fault("attention_window", TEXT, prepare=slide)
def window_lost(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.window = 0 if rng.random() < 0.5 else m.window + 1
    return attention_glue(path, "attention_window")


@fault("eval_train_mode", TEXT)
def attention_dropout(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.dropped = 0.2
    return attention_glue(path, "eval_train_mode")


def pad_some(side: Side, rng: np.random.Generator) -> None:
    """Give a padding mask in which one sample is padded on the left."""
    for number, (inputs, target) in enumerate(side.batches):
        padding = torch.zeros_like(inputs[0], dtype=torch.bool)
        padding[0, : int(rng.integers(2, 4))] = True
        side.batches[number] = ((inputs[0], padding), target)


@fault("mask_missing", TEXT, prepare=pad_some)
def padding_missing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    own = type(m).forward
    m.forward = lambda x, padding=None: own(m, x, None)
    return attention_glue(path, "mask_missing")


@fault("mask_value", TEXT, prepare=pad_some)
def mask_value(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    # Rows in which all is hidden: uniform weights on one side, NaN on the other.
    paths = attentions(left)
    path = paths[-1]
    m: Any = left.module(path)
    m.hidden = -math.inf if m.hidden > -math.inf else -1e4
    if left.family == "llama":
        # Its reference is -inf throughout: the NaN begins in the first block on both sides.
        path = paths[0]
        left.module(path).hidden = -1e4  # type: ignore[assignment]
        m.hidden = -math.inf
    return attention_glue(path, "mask_value")


@fault("softmax_axis", TEXT)
def softmax_axis(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.softmax_axis = -2
    m.hidden = -1e4
    return attention_glue(path, "softmax_axis")


@fault("softmax_precision_path", TEXT)
def softmax_precision(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.softmax_dtype = torch.bfloat16
    truth = attention_glue(path, "softmax_precision_path")
    truth.causes.add("low_precision_cast")
    return truth


@fault("qkv_packing", "gpt")
def qkv_packing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.packing = "h3d"
    return attention_glue(path, "qkv_packing")


@fault("qkv_packing", "gpt", "loading")
def qkv_rows(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """The rows are those of the other packing, and nothing takes care of it."""
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    repack(m.qkv, m.heads)
    return Truth({f"{path}.qkv"}, {"qkv_packing"})


@torch.no_grad()
def repack(linear: nn.Linear, heads: int) -> None:
    """Rows (3, heads, size) to (heads, 3, size)."""
    for p in (linear.weight, linear.bias):
        p.copy_(p.reshape(3, heads, -1, *p.shape[1:]).transpose(0, 1).reshape(p.shape))


@fault("grouped_heads", "llama")
def grouped_heads(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    m.expand = "tile"
    return attention_glue(path, "grouped_heads")


@fault("gate_up_order", "llama")
def gate_up_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [p for p, m in left.net.named_modules() if hasattr(m, "gate_first")]
    path = pick(rng, paths)
    m: Any = left.module(path)
    if rng.random() < 0.5:
        m.gate_first = False
        return Truth({path, f"{path}.act"}, {"gate_up_order"})
    with torch.no_grad():
        gate, up = m.gate_up.weight.clone().chunk(2)
        m.gate_up.weight.copy_(torch.cat([up, gate]))
    return Truth({f"{path}.gate_up"}, {"gate_up_order"})


@fault("rope_theta", "llama", has_small=True)
def rope_theta(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(Rotary))
    m: Any = left.module(path)
    m.theta = m.theta * (1.0001 if small else float(rng.choice([50.0, 0.1])))
    m.inv_freq = m.frequencies()
    return Truth({path}, {"rope_theta"})


@fault("rope_interleave", "llama")
def rope_interleave(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(Rotary))
    m: Any = left.module(path)
    m.is_interleaved = True
    return Truth({path}, {"rope_interleave"})


@fault("rope_interleave", "llama", "loading")
def rope_rows(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    interleave_rows(m.q, m.heads)
    interleave_rows(m.k, m.groups)
    return Truth({f"{path}.q", f"{path}.k"}, {"rope_interleave"})


@torch.no_grad()
def interleave_rows(linear: nn.Linear, heads: int) -> None:
    """Rows of each head from halves to pairs."""
    w = linear.weight
    w.copy_(w.reshape(heads, 2, -1, w.shape[1]).transpose(1, 2).reshape(w.shape))


@fault("rope_kernel_fault", "llama")
def rope_kernel_fault(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(Rotary))
    m: Any = left.module(path)
    m.keep_norm = False
    return Truth({path}, {"rope_kernel_fault"})


def far_positions(side: Side, rng: np.random.Generator) -> None:
    """Positions beyond what bfloat16 counts exactly."""
    for path in side.find(Rotary):
        side.module(path).offset = 250  # type: ignore[assignment]


@fault("position_low_precision", "llama", prepare=far_positions)
def position_low_precision(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(Rotary))
    m: Any = left.module(path)
    m.position_dtype = torch.bfloat16
    return Truth({path}, {"position_low_precision"})


@fault("position_offset", TEXT)
def position_offset(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    if left.family == "gpt":
        left.net.offset = int(rng.integers(1, 4))  # type: ignore[assignment]
        return Truth({"pos"}, {"position_offset"})
    path = pick(rng, left.find(Rotary))
    m: Any = left.module(path)
    m.offset = 2
    return Truth({path}, {"position_offset"})


@fault("position_offset", TEXT, "loading")
def ids_wrapped(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    vocab = len(left.module("tok").weight)  # type: ignore[arg-type]
    for number, (inputs, target) in enumerate(left.batches):
        left.batches[number] = (((inputs[0] + 1) % vocab, *inputs[1:]), target)
    return Truth({"tok"}, {"position_offset"})


@fault("residual_order", ("gpt", "resnet", "llama"))
def residual_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    names = ("Block", "ResBlock", "LlamaBlock")
    path = pick(rng, [p for p, m in left.net.named_modules() if type(m).__name__ in names])
    m: Any = left.module(path)
    m.order = "relu" if left.family == "resnet" else "post"
    origins = {path, f"{path}.ln2", f"{path}.norm2", f"{path}.relu"}
    return Truth(origins, {"residual_order"}, is_glue=True)


@fault("buffer_uninitialised", "llama", "loading")
def buffer_uninitialised(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(Rotary))
    m: Any = left.module(path)
    garbage = rng.integers(0, 1 << 31, m.inv_freq.numel(), dtype=np.int64).astype(np.uint32)
    values = np.where(rng.random(len(garbage)) < 0.5, garbage & 0x7FFFFF, 0).astype(np.uint32)
    m.inv_freq = torch.from_numpy(values.view(np.float32).copy())
    return Truth({path}, {"buffer_uninitialised"})


def pad_varied(side: Side, rng: np.random.Generator) -> None:
    """Give every step a padding mask of its own."""
    for number, (inputs, target) in enumerate(side.batches):
        padding = torch.zeros_like(inputs[0], dtype=torch.bool)
        padding[number % len(padding), -3 - number :] = True
        side.batches[number] = ((inputs[0], padding), target)


@fault("constant_baked", TEXT, steps=3, prepare=pad_varied)
def constant_baked(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """The mask of the first call is used in all later ones."""
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    first = left.batches[0][0][1]
    own = type(m).forward
    m.forward = lambda x, padding=None: own(m, x, first)
    return attention_glue(path, "constant_baked", 1)


@fault("kv_cache_path", TEXT, steps=3)
def kv_cache_path(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """From the second call on, the last token does not see the one before it."""
    path = pick(rng, attentions(left))
    m: Any = left.module(path)
    calls = iter(range(1 << 30))
    m.forgets = lambda: next(calls) > 0
    return attention_glue(path, "kv_cache_path", 1)
