"""Faults of weights, inputs and initial values."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from faulty.registry import Truth, fault, pick
from faulty.side import Side, patched


def square_linears(side: Side) -> list[str]:
    """Paths of linear layers as wide as they are long."""
    return [
        p
        for p in side.find(nn.Linear)
        if len({*side.module(p).weight.shape}) == 1  # type: ignore[misc]
    ]


@fault("linear_transposed", ("gpt", "llama", "recurrent"), "loading")
def linear_transposed(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, square_linears(left))
    m: Any = left.module(path)
    m.weight.data = m.weight.data.T.contiguous()
    return Truth({path}, {"linear_transposed"})


@fault("conv_axes_permuted", ("resnet", "autoencoder"), "loading")
def conv_axes_permuted(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = [p for p in left.find(nn.Conv2d) if left.module(p).kernel_size[0] == 3]  # type: ignore[index]
    m: Any = left.module(path := pick(rng, paths))
    w = m.weight.data
    square = w.shape[0] == w.shape[1]
    draw = rng.random()
    if draw < 0.4:
        m.weight.data = w.transpose(2, 3).contiguous()
    elif draw < 0.7 or not square:
        m.weight.data = w.flip(2, 3).contiguous()
    else:
        m.weight.data = w.transpose(0, 1).contiguous()
    return Truth({path}, {"conv_axes_permuted"})


@fault("lstm_gate_order", "recurrent", "loading")
def lstm_gate_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.LSTM)
    if not paths:
        return Truth(set())
    m: Any = left.module(path := pick(rng, paths))
    with torch.no_grad():
        for parameter in m.parameters():
            i, f, g, o = parameter.clone().chunk(4)
            parameter.copy_(torch.cat([i, g, f, o]))
    return Truth({path}, {"lstm_gate_order"})


@fault("low_rank_difference", ("gpt", "llama", "recurrent"), "loading")
def adapter_merged(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """An adapter of rank 2 is merged into a layer."""
    wide = [p for p in left.find(nn.Linear) if min(left.module(p).weight.shape) >= 24]  # type: ignore[type-var,arg-type]
    if not wide:
        return Truth(set())
    m: Any = left.module(path := pick(rng, wide))
    rows, columns = m.weight.shape
    with torch.no_grad():
        m.weight += 0.3 * m.weight.std() * torch.randn(rows, 2) @ torch.randn(2, columns)
    return Truth({path}, {"low_rank_difference"})


@fault("wrong_layer_loaded", ("gpt", "resnet", "llama", "autoencoder"), "loading")
def wrong_layer_loaded(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """Two layers of equal shape have each other's weights."""
    shapes: dict[tuple[int, ...], list[str]] = {}
    for path in left.find(nn.Linear, nn.Conv2d):
        shapes.setdefault(tuple(left.module(path).weight.shape), []).append(path)  # type: ignore[arg-type]
    groups = [paths for paths in shapes.values() if len(paths) > 1]
    if not groups:
        return Truth(set())
    paths = groups[int(rng.integers(len(groups)))]
    a, b = sorted(rng.choice(len(paths), 2, replace=False))
    one, two = left.module(paths[a]), left.module(paths[b])
    one.weight.data, two.weight.data = two.weight.data.clone(), one.weight.data.clone()  # type: ignore[operator,union-attr]
    return Truth({paths[a], paths[b]}, {"wrong_layer_loaded"})


@fault("tensor_not_loaded", "every", "loading")
def tensor_not_loaded(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(nn.Linear, nn.Conv2d, nn.LayerNorm, nn.BatchNorm2d))
    m: Any = left.module(path)
    m.reset_parameters()
    return Truth({path}, {"tensor_not_loaded", "initialiser_differs", "rng_differs"})


@fault("initialiser_differs", "every", "loading")
def initialiser_differs(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """Both sides start untrained, each with its own initialiser."""
    paths = left.find(nn.Linear, nn.Conv2d, nn.Embedding)
    for path in paths:
        m: Any = left.module(path)
        nn.init.normal_(m.weight, std=0.01)
    return Truth(set(paths), {"initialiser_differs"})


@fault("rng_differs", "every", "loading")
def rng_differs(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    paths = left.find(nn.Linear, nn.Conv2d)
    for path in paths:
        left.module(path).reset_parameters()  # type: ignore[operator]
    return Truth({*paths, "tok"}, {"rng_differs", "tensor_not_loaded"})


@fault("tied_weights_broken", "llama", "loading")
def tied_weights_broken(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    net: Any = left.net
    if net.head.weight is not net.tok.weight:
        return Truth(set())
    net.head.weight = nn.Parameter(torch.randn_like(net.tok.weight) * 0.1)
    return Truth({"head"}, {"tied_weights_broken", "tensor_not_loaded"})


@fault("vocab_padding", ("gpt", "llama"), "loading")
def vocab_padding(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    net: Any = left.net
    with torch.no_grad():
        rows = -len(net.tok.weight) % 32 or 32
        padded = nn.Parameter(F.pad(net.tok.weight, (0, 0, 0, rows)))
        is_tied = net.head.weight is net.tok.weight
        net.tok.weight = padded
        if is_tied:
            net.head.weight = padded
    return Truth({"tok", "head"}, {"vocab_padding"})


@fault("padding_idx_row", "recurrent", "loading")
def padding_idx_row(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    with torch.no_grad():
        left.module("emb").weight[0] = torch.randn_like(left.module("emb").weight[0])  # type: ignore[index]
    return Truth({"emb"}, {"padding_idx_row"})


@fault("bn_folded", ("resnet",), "loading")
def bn_folded(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    pairs = [p for p in left.find(nn.Conv2d) if p.rpartition(".")[2] in ("conv1", "conv2")]
    conv_path = pick(rng, pairs)
    norm_path = conv_path.replace("conv", "bn")
    conv: Any = left.module(conv_path)
    norm: Any = left.module(norm_path)
    with torch.no_grad():
        factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        conv.weight.mul_(factor[:, None, None, None])
        conv.bias = nn.Parameter(norm.bias - norm.running_mean * factor)
    patched(norm, lambda x: x * 1.0)
    return Truth({conv_path, norm_path}, {"bn_folded"})


@fault("channel_order_bgr", ("resnet", "autoencoder"), "loading")
def channel_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    first = "conv1" if left.family == "resnet" else "stem"
    m: Any = left.module(first)
    if rng.random() < 0.5:
        m.weight.data = m.weight.data.flip(1).contiguous()
    else:
        left.batches = [((i[0].flip(1).contiguous(),), t) for i, t in left.batches]
    return Truth({first}, {"channel_order_bgr"})


@fault("input_scale_or_normalisation", ("resnet", "autoencoder"), "loading")
def input_scale(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    first = "conv1" if left.family == "resnet" else "stem"
    mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    draw = rng.random()
    for number, (inputs, target) in enumerate(left.batches):
        x = inputs[0]
        x = x * 255 if draw < 0.5 else (x - mean) / std
        left.batches[number] = ((x,), target)
    return Truth({first}, {"input_scale_or_normalisation"})


def pictures(side: Side, rng: np.random.Generator) -> None:
    """Inputs as photographs are: what a resize changes cannot be told of white noise."""
    for number, (inputs, target) in enumerate(side.batches):
        images, _, height, width = (x := inputs[0]).shape
        slow = torch.fft.fftfreq(height)[:, None].hypot(torch.fft.rfftfreq(width)[None])
        slow[0, 0] = 1.0 / max(height, width)
        # Amplitudes fall with frequency, the channels are alike, and objects have edges.
        fields = torch.fft.irfft2(
            torch.fft.rfft2(x + x.mean(1, keepdim=True)) / slow, s=x.shape[-2:]
        )
        down, along = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        for image in range(images):
            for slope in rng.standard_normal((3, 2)):
                line = slope[0] * (down - height / 2) + slope[1] * (along - width / 2)
                object_ = (line > float(rng.normal()) * height / 6).to(x.dtype)
                fields[image] += float(fields.std()) * object_
        x = (fields - fields.mean()) / fields.std() * 0.6 + 0.3
        side.batches[number] = ((x,), target if target.dtype == torch.int64 else x)


@fault("image_resize_library", ("resnet", "autoencoder"), "loading", prepare=pictures)
def image_resize_library(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    first = "conv1" if left.family == "resnet" else "stem"
    for number, (inputs, target) in enumerate(left.batches):
        x = inputs[0]
        half = F.interpolate(x, scale_factor=0.75, mode="bilinear", antialias=True)
        x = F.interpolate(half, size=x.shape[-2:], mode="bilinear", antialias=False)
        left.batches[number] = ((x,), target)
    return Truth({first}, {"image_resize_library", "resize_convention"})


@fault("flatten_order", "resnet")
def flatten_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.net.flatten = "nhwc"  # type: ignore[assignment]
    return Truth({"drop"}, {"flatten_order"})


@fault("data_order", "every", "loading")
def data_order(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    first = {"resnet": "conv1", "autoencoder": "stem", "recurrent": "emb"}.get(left.family, "tok")
    for number, (inputs, target) in enumerate(left.batches):
        order = torch.arange(len(inputs[0])).roll(1)
        left.batches[number] = (tuple(i[order] for i in inputs), target[order])
    return Truth({first}, {"data_order"})


def by_remainder(side: Side) -> None:
    """Look tokens up by their remainder, as hashed embeddings do."""
    m: Any = side.module("tok")
    vocab = len(m.weight)
    patched(m, lambda ids: F.embedding(ids % vocab, m.weight))


def large_numbers(side: Side, rng: np.random.Generator) -> None:
    """Token numbers behind a hash: far above 2^31 for some."""
    for number, (inputs, target) in enumerate(side.batches):
        far = torch.randint(1 << 31, 1 << 40, inputs[0].shape)
        far = torch.where(torch.rand(far.shape) < 0.5, far, inputs[0])
        side.batches[number] = ((far,), target)
    by_remainder(side)


@fault("int_narrowing", ("gpt", "llama"), "loading", prepare=large_numbers)
def int_narrowing(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    left.batches = [
        ((inputs[0].to(torch.int32).to(torch.int64),), target) for inputs, target in left.batches
    ]
    return Truth({"tok"}, {"int_narrowing"})


@fault("conv1d_extra_axis", "recurrent", "loading")
def conv1d_extra_axis(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    """The kernel is stored as MindSpore stores it; nothing is computed otherwise."""

    def change(records: list[Any]) -> None:
        for record in records:
            if record.where == "conv" and record.site.slot == "weight":
                record.array = record.array[:, :, None]

    left.on_records.append(change)
    return Truth({"conv"}, {"conv1d_extra_axis"}, is_absent=True)
