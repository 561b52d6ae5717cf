"""Nets in other styles: leaf modules of own classes, numbers for names, torch's own attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

STYLED = ("modular", "vision", "encoder")
# The last layer of each, where the backward pass begins.
LAST = {"modular": "head", "vision": "9", "encoder": "head"}


class Scale(nn.Module):
    """Root-mean-square norm under a name of its own, with `g` for a weight."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.empty(dim).uniform_(0.7, 1.3))
        self.eps = 1e-6
        self.plus = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return normed.to(x.dtype) * (self.g + self.plus)


class Heads(nn.Module):
    """(batch, length, heads * size) to (batch, heads, length, size)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Split the last axis."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Angles(nn.Module):
    """Tables of cos and sin, (length, size) each, for positions."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.theta = 1e4
        self.offset = 0
        self.dtype = torch.float32

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of integers (length,)."""
        steps = torch.arange(0, self.size, 2).float() / self.size
        at = (positions + self.offset).to(self.dtype).float()
        angle = torch.outer(at, self.theta**-steps)
        angle = torch.cat([angle, angle], -1)
        return angle.cos(), angle.sin()


class Rotate(nn.Module):
    """Rotary positions by given tables."""

    def __init__(self) -> None:
        super().__init__()
        self.is_interleaved = False
        self.damping = 1.0

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """(batch, heads, length, size), same shape."""
        cos, sin = cos.to(x.dtype), self.damping * sin.to(x.dtype)
        if self.is_interleaved:
            half = x.shape[-1] // 2
            cos, sin = (t[:, :half].repeat_interleave(2, -1) for t in (cos, sin))
            turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        else:
            a, b = x.chunk(2, -1)
            turned = torch.cat([-b, a], -1)
        return x * cos + turned * sin


class Expand(nn.Module):
    """Repeats the heads of key or value for the queries of their group."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.tiles = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, groups, length, size) to (batch, heads, length, size)."""
        if self.tiles:
            return x.repeat(1, self.times, 1, 1)
        return x.repeat_interleave(self.times, 1)


class Scores(nn.Module):
    """Products of queries and keys."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.factor = 1 / math.sqrt(size)
        self.cap = 0.0

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        """(batch, heads, length, length)."""
        scores = query @ key.transpose(-1, -2) * self.factor
        return self.cap * torch.tanh(scores / self.cap) if self.cap else scores


class Mask(nn.Module):
    """Hides later positions."""

    def __init__(self) -> None:
        super().__init__()
        self.diagonal = 1
        self.window = 0
        self.is_on = True

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(self.diagonal)
        if self.window:
            later |= torch.ones_like(later).tril(-self.window)
        return scores.masked_fill(later, -1e4) if self.is_on else scores


class Weights(nn.Module):
    """Softmax of scores."""

    def __init__(self) -> None:
        super().__init__()
        self.axis = -1

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        return torch.softmax(scores, self.axis)


class Mix(nn.Module):
    """Values mixed by weights, heads joined again."""

    def forward(self, weights: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """(batch, length, heads * size)."""
        return (weights @ value).transpose(1, 2).flatten(2)


class SwiGLU(nn.Module):
    """Gated product of two halves."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_first = True
        self.function = F.silu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., 2 n) to (..., n)."""
        gate, up = x.chunk(2, -1)
        return self.function(gate) * up if self.gate_first else self.function(up) * gate


class Sum(nn.Module):
    """A residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        return self.factor * x + y


class ModularBlock(nn.Module):
    """A decoder block every piece of which is a module."""

    def __init__(self, dim: int, heads: int, groups: int) -> None:
        super().__init__()
        size = dim // heads
        self.n1 = Scale(dim)
        self.wq, self.wk, self.wv = (nn.Linear(dim, n * size) for n in (heads, groups, groups))
        self.split_q, self.split_k, self.split_v = (Heads(n) for n in (heads, groups, groups))
        self.rot_q, self.rot_k = Rotate(), Rotate()
        self.expand_k, self.expand_v = (Expand(heads // groups) for _ in range(2))
        self.scores, self.mask, self.weights, self.mix = Scores(size), Mask(), Weights(), Mix()
        self.wo = nn.Linear(dim, dim, bias=False)
        self.add1 = Sum()
        self.n2 = Scale(dim)
        self.w13 = nn.Linear(dim, 4 * dim, bias=False)
        self.glu = SwiGLU()
        self.w2 = nn.Linear(2 * dim, dim, bias=False)
        self.add2 = Sum()

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        y = self.n1(x)
        query = self.rot_q(self.split_q(self.wq(y)), cos, sin)
        key = self.expand_k(self.rot_k(self.split_k(self.wk(y)), cos, sin))
        value = self.expand_v(self.split_v(self.wv(y)))
        mixed = self.mix(self.weights(self.mask(self.scores(query, key))), value)
        x = self.add1(x, self.wo(mixed))
        return self.add2(x, self.w2(self.glu(self.w13(self.n2(x)))))


class Modular(nn.Module):
    """Tokens (batch, length) to logits."""

    def __init__(self, vocab: int, dim: int, heads: int, groups: int, layers: int) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.angles = Angles(dim // heads)
        self.h = nn.ModuleList([ModularBlock(dim, heads, groups) for _ in range(layers)])
        self.nf = Scale(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token."""
        x = self.tok(tokens)
        cos, sin = self.angles(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x, cos, sin)
        return self.head(self.nf(x))


class Preprocess(nn.Module):
    """Bytes of pictures to normalised values."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        self.full = 255.0
        self.is_bgr = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, h, w), same shape."""
        x = x.flip(1) if self.is_bgr else x
        mean, std = (x.new_tensor(t)[:, None, None] for t in (self.mean, self.std))
        return (x / self.full - mean) / std


class Resize(nn.Module):
    """Pictures in another size."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.options: dict[str, Any] = {"mode": "bilinear", "align_corners": False}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, size, size)."""
        # Not every way has a kernel for halves on the CPU.
        wide = F.interpolate(x.float(), size=(self.size, self.size), **self.options)
        return wide.to(x.dtype)


class Flat(nn.Module):
    """All features of a picture in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.channels_last = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, features)."""
        return (x.permute(0, 2, 3, 1) if self.channels_last else x).flatten(1)


def stage(channels_in: int, channels: int, stride: int) -> nn.Sequential:
    """Convolution, norm, activation."""
    conv = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=stride == 1)
    return nn.Sequential(conv, nn.BatchNorm2d(channels), nn.ReLU(inplace=False))


def vision(width: int, size: int) -> nn.Sequential:
    """Bytes of pictures (batch, 3, h, w) to logits; every name is a number."""
    return nn.Sequential(
        Preprocess(),
        Resize(size),
        stage(3, width, 1),
        stage(width, width, 1),
        nn.AvgPool2d(3, 2, 1),
        stage(width, 2 * width, 2),
        Flat(),
        nn.Linear(2 * width * (size // 4) ** 2, 4 * width),
        nn.GELU(),
        nn.Linear(4 * width, 10),
    )


class Positions(nn.Module):
    """Adds a learned vector to each position."""

    def __init__(self, length: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(0.3 * torch.randn(length, dim))
        self.offset = 0
        self.factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        return self.factor * x + self.table[self.offset : self.offset + x.shape[1]]


class EncoderBlock(nn.Module):
    """Attention of torch and a feed-forward part, each behind it normed."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.is_masked = True
        self.window = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        length = x.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1) if self.is_masked else None
        if later is not None and self.window:
            later |= torch.ones_like(later).tril(-self.window)
        x = self.norm1(x + self.self_attn(x, x, x, attn_mask=later, need_weights=False)[0])
        return self.norm2(x + self.ff(x))


class Encoder(nn.Module):
    """Tokens (batch, length) to logits."""

    def __init__(self, vocab: int, dim: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.positions = Positions(length + 4, dim)
        self.layers = nn.ModuleList([EncoderBlock(dim, heads) for _ in range(layers)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.positions(self.tok(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def draw_modular(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    """A small one and what makes its batches."""
    groups = int(rng.choice([2, 3]))
    dim = 2 * groups * int(rng.choice([8, 16]))
    net = Modular(67, dim, 2 * groups, groups, int(rng.integers(2, 4)))
    return net, _texts(net, 67, rng)


def draw_encoder(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    """A small one and what makes its batches."""
    heads = int(rng.choice([2, 4]))
    net = Encoder(67, heads * int(rng.choice([8, 12])), heads, int(rng.integers(2, 4)), 16)
    return net, _texts(net, 67, rng)


def _texts(net: Any, vocab: int, rng: np.random.Generator) -> Any:
    nn.init.normal_(net.tok.weight, std=0.5)
    batch, length = int(rng.integers(2, 5)), int(rng.integers(8, 17))

    def make() -> tuple[tuple[Any, ...], torch.Tensor]:
        text = torch.randint(0, vocab, (batch, length + 1))
        return (text[:, :-1].contiguous(),), text[:, 1:].contiguous()

    return make


def draw_vision(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    """A small one and what makes its batches."""
    size, batch = int(rng.choice([16, 24])), int(rng.integers(3, 7))

    def make() -> tuple[tuple[Any, ...], torch.Tensor]:
        rough = torch.rand(batch, 3, 7, 7)
        pictures = F.interpolate(rough, size=(28, 28), mode="bicubic")
        bytes_ = (255 * (pictures + 0.05 * torch.rand(batch, 3, 28, 28))).round().clamp(0, 255)
        return (bytes_,), torch.randint(0, 10, (batch,))

    return vision(int(rng.choice([8, 12])), size), make


DRAWS = {"modular": draw_modular, "vision": draw_vision, "encoder": draw_encoder}
