"""Faults at the limits of number formats."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from faulty.layers import product
from faulty.parts import RMSNorm
from faulty.registry import Truth, fault, pick
from faulty.side import Side, patched


def one_nan(side: Side, rng: np.random.Generator) -> None:
    """A NaN in the input or in the embedding of the last token."""
    for number, (inputs, target) in enumerate(side.batches):
        first = inputs[0].clone()
        if first.is_floating_point():
            first[0, 0, 2, 2] = torch.nan
        else:
            first[0, -1] = 7
            embedding: Any = side.module("emb" if side.family == "recurrent" else "tok")
            first[first == 7] = 8
            first[0, -1] = 7
            embedding.weight.data[7, 1] = torch.nan
        side.batches[number] = ((first, *inputs[1:]), target)


@fault("nan_swallowed", ("gpt", "resnet", "llama", "autoencoder", "recurrent"), prepare=one_nan)
def nan_swallowed(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.GELU, nn.ReLU, nn.SiLU, nn.LeakyReLU))
    m: Any = left.module(path)
    patched(m, lambda x: product(m, torch.nan_to_num(x, nan=0.0)))
    return Truth({path}, {"nan_swallowed"})


def large_middle(side: Side, rng: np.random.Generator) -> None:
    """Some hidden values beyond 1e5, so that the largest are beyond float16 in every draw."""
    m: Any = side.module(_middle(side))
    with torch.no_grad():
        m.weight[:3] *= 2e5
    side.state["large"] = True


def _middle(side: Side) -> str:
    return {
        "gpt": "blocks.1.fc",
        "llama": "layers.1.mlp.gate_up",
        "resnet": "layer1.0.conv1",
        "autoencoder": "reduce",
    }[side.family]


@fault("fp16_overflow", ("gpt", "llama", "autoencoder"), prepare=large_middle)
def fp16_overflow(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = _middle(left)
    m: Any = left.module(path)
    patched(m, lambda x: product(m, x).to(torch.float16).to(x.dtype))
    return Truth({path}, {"fp16_overflow"}, also={"low_precision_cast"})


@fault("saturation", ("gpt", "llama", "autoencoder"), prepare=large_middle)
def saturation(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = _middle(left)
    m: Any = left.module(path)
    limit = torch.finfo(torch.float16).max
    patched(m, lambda x: product(m, x).clamp(-limit, limit))
    return Truth({path}, {"saturation"})


def tiny_middle(side: Side, rng: np.random.Generator) -> None:
    """Some hidden values below the smallest normal number of float16."""
    m: Any = side.module(_middle(side))
    with torch.no_grad():
        m.weight[::2] *= 3e-5
        if m.bias is not None:
            m.bias[::2] *= 3e-5


@fault("underflow", ("gpt", "autoencoder"), prepare=tiny_middle)
def underflow(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = _middle(left)
    m: Any = left.module(path)
    least = torch.finfo(torch.float16).smallest_normal
    patched(m, lambda x: (y := product(m, x)) * (y.abs() >= least))
    return Truth({path}, {"underflow"})


def zero_rows(side: Side, rng: np.random.Generator) -> None:
    """Padding tokens with a zero embedding: rows without variance at the first norm."""
    net: Any = side.net
    net.tok.weight.data[3] = 0
    for number, (inputs, target) in enumerate(side.batches):
        first = inputs[0].clone()
        first[0, -2:] = 3
        side.batches[number] = ((first, *inputs[1:]), target)


@fault("eps_underflow", "llama", prepare=zero_rows)
def eps_underflow(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = left.find(RMSNorm)[0]
    m: Any = left.module(path)
    m.eps = 0.0
    return Truth({path}, {"eps_underflow", "norm_eps"})
