"""Differences that are no fault: other summation order, other precision, other layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from faulty.nets import Attention
from faulty.nets_more import GatedMLP, GroupedAttention
from faulty.parts import RMSNorm
from faulty.sequences import interleave_rows, repack
from faulty.side import Side, patched


def reorder(side: Side, seed: int) -> None:
    """Sum the products of all layers in another order, in half precision in two parts."""
    generator = torch.Generator().manual_seed(seed)
    for module in side.net.modules():
        is_dense, is_conv = isinstance(module, nn.Linear), isinstance(module, nn.Conv2d)
        if not is_dense and not is_conv:
            continue
        width = module.in_features if is_dense else module.in_channels
        # Drawn for a faulty layer too, so that all others get the same noise without the fault.
        order = torch.randperm(width, generator=generator)
        if "forward" not in module.__dict__:
            compute = _linear if is_dense else _conv
            patched(module, lambda x, m=module, o=order, f=compute: f(m, x, o))


def _linear(m: Any, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    half = len(order) // 2
    a, b = order[:half], order[half:]
    y = F.linear(x[..., a], m.weight[:, a]) + F.linear(x[..., b], m.weight[:, b])
    return y if m.bias is None else y + m.bias


def _conv(m: Any, x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    half = max(1, len(order) // 2)
    parts = [
        F.conv2d(x[:, o], m.weight[:, o], None, m.stride, m.padding)
        for o in (order[:half], order[half:])
        if len(o)
    ]
    y = sum(parts[1:], parts[0])
    return y if m.bias is None else y + m.bias[:, None, None]


def cast(side: Side, dtype: torch.dtype) -> None:
    """Run the whole net in another precision."""
    side.net.to(dtype)
    side.batches = [
        (tuple(i.to(dtype) if i.is_floating_point() else i for i in inputs), target)
        for inputs, target in side.batches
    ]


@torch.no_grad()
def amplify(side: Side, rng: np.random.Generator) -> None:
    """Add a large constant that the next norm takes away: rounding is large in front of it."""
    net: Any = side.net
    size = float(rng.choice([100.0, 300.0, 1000.0]))
    if side.family == "gpt":
        net.blocks[0].out.bias += size
    elif side.family == "llama":
        for block in net.layers[:2]:
            block.attn.q.weight *= 5
            block.attn.k.weight *= 5
            block.mlp.gate_up.weight *= 3
    elif side.family == "resnet":
        net.layer1[0].bn2.bias += size
    elif side.family == "autoencoder":
        net.stem.bias += size
    else:
        net.conv.bias += size / 10
        for layer in net.rnn:
            layer.weight_ih_l0 *= 0.01
    calibrate(side)


@torch.no_grad()
def calibrate(side: Side) -> None:
    """Set running statistics to those of the first batch."""
    norms = [m for m in side.net.modules() if isinstance(m, nn.BatchNorm2d)]
    for module in norms:
        module.momentum = 1.0
    if norms:
        side.net.train()
        side.net(*side.batches[0][0])
    for module in norms:
        module.momentum = 0.1


def harmless(side: Side, rng: np.random.Generator) -> tuple[set[str], set[str]]:
    """Lay something out otherwise near the start; the paths it touches and the ids true of it."""
    choices = _LAYOUTS[side.family]
    return choices[int(rng.integers(len(choices)))](side)


def pad_otherwise(base: Side, left: Side, rng: np.random.Generator) -> None:
    """Other ids where a mask that both sides are given says that tokens are padding."""
    vocab = len(base.module("tok").weight)  # type: ignore[arg-type]
    for number, ((ids, padding), target) in enumerate(base.batches):
        other = torch.where(padding, (ids + int(rng.integers(1, 9))) % vocab, ids)
        left.batches[number] = ((other, padding), target)


def _packing(side: Side) -> tuple[set[str], set[str]]:
    path = side.find(Attention)[0]
    m: Any = side.module(path)
    repack(m.qkv, m.heads)
    m.packing = "h3d"
    return {path, f"{path}.qkv"}, {"qkv_packing"}


@torch.no_grad()
def _parts(side: Side) -> tuple[set[str], set[str]]:
    path = side.find(Attention)[0]
    m: Any = side.module(path)
    for p in (m.qkv.weight, m.qkv.bias):
        query, key, value = p.clone().chunk(3)
        p.copy_(torch.cat([key, value, query]))
    m.parts = (2, 0, 1)
    return {path, f"{path}.qkv"}, {"qkv_packing"}


def _rope(side: Side) -> tuple[set[str], set[str]]:
    path = side.find(GroupedAttention)[0]
    m: Any = side.module(path)
    interleave_rows(m.q, m.heads)
    interleave_rows(m.k, m.groups)
    m.rope.is_interleaved = True
    return {path, f"{path}.q", f"{path}.k", f"{path}.rope"}, {"rope_interleave"}


@torch.no_grad()
def _gate(side: Side) -> tuple[set[str], set[str]]:
    path = side.find(GatedMLP)[0]
    m: Any = side.module(path)
    gate, up = m.gate_up.weight.clone().chunk(2)
    m.gate_up.weight.copy_(torch.cat([up, gate]))
    m.gate_first = False
    return {path, f"{path}.gate_up"}, {"gate_up_order"}


def _plus_one(side: Side) -> tuple[set[str], set[str]]:
    paths = side.find(RMSNorm)[:1]
    for path in paths:
        m: Any = side.module(path)
        m.weight.data -= 1.0
        m.plus = 1.0
    return set(paths), {"norm_weight_plus_one"}


def _stored(
    kinds: tuple[type, ...], axes: tuple[int, ...], cause: str
) -> Callable[[Side], tuple[set[str], set[str]]]:
    def plant(side: Side) -> tuple[set[str], set[str]]:
        path = side.find(*kinds)[0]

        def change(records: list[Any]) -> None:
            for record in records:
                is_weight = record.site.slot == "weight" and record.site.role == "parameter"
                is_weight |= record.site.kind == "api" and record.name.endswith("forward.input.1")
                if record.where == path and is_weight:
                    record.array = np.ascontiguousarray(record.array.transpose(axes))

        side.on_records.append(change)
        return {path}, {cause}

    return plant


def _channels_last(side: Side) -> tuple[set[str], set[str]]:
    path = side.find(nn.Conv2d)[0]

    def change(records: list[Any]) -> None:
        for record in records:
            if record.where == path and record.array.ndim == 4 and record.site.role == "output":
                record.array = np.ascontiguousarray(record.array.transpose(0, 2, 3, 1))

    side.on_records.append(change)
    return {path}, {"conv_axes_permuted", "flatten_order"}


_DENSE = _stored((nn.Linear,), (1, 0), "linear_transposed")
_CONV = _stored((nn.Conv2d,), (2, 3, 1, 0), "conv_axes_permuted")
_LAYOUTS: dict[str, list[Callable[[Side], tuple[set[str], set[str]]]]] = {
    "gpt": [_packing, _parts, _DENSE],
    "llama": [_rope, _gate, _plus_one, _DENSE],
    "resnet": [_CONV, _channels_last],
    "autoencoder": [_CONV, _channels_last],
    "recurrent": [_DENSE],
}
