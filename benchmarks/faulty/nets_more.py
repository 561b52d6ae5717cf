"""Three more families: a convolutional autoencoder, a recurrent net and a llama-like decoder."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from faulty.nets import forgotten, hide
from faulty.parts import GRU, RMSNorm


class Autoencoder(nn.Module):
    """Images (batch, 3, h, w) to images: strided convolutions, pooling, resizing."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        self.encoder = nn.ModuleList()
        for _ in range(depth):
            self.encoder.append(
                nn.Sequential(
                    nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width), nn.RReLU(0.1, 0.3)
                )
            )
        self.reduce = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.act = nn.LeakyReLU(0.1)
        self.pool = nn.AvgPool2d(3, 2, 1)
        self.norm = nn.GroupNorm(2, 2 * width)
        self.squeeze = nn.Tanh()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.widen = nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1)
        self.gelu = nn.GELU()
        self.out = nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Reconstructed images."""
        x = self.stem(images)
        for block in self.encoder:
            x = x + block(x)
        x = self.pool(self.act(self.reduce(x)))
        x = self.up(self.squeeze(self.norm(x)))
        return self.out(self.gelu(self.widen(x)))


class Recurrent(nn.Module):
    """Tokens (batch, length) to classes: embedding, 1-D convolution, GRU or LSTM layers."""

    def __init__(self, vocab: int, dim: int, layers: int, cell: str) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 3, 1, 1)
        self.act = nn.ReLU()
        make = GRU if cell == "gru" else lambda a, b: nn.LSTM(a, b, batch_first=True)
        self.rnn = nn.ModuleList([make(dim, dim) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.mid = nn.Linear(dim, dim)
        self.tanh = nn.Tanh()
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(dim, 7)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of classes."""
        x = self.emb(tokens)
        x = self.act(self.conv(x.transpose(1, 2))).transpose(1, 2)
        for layer in self.rnn:
            x = x + layer(x)[0]
        x = self.tanh(self.mid(self.norm(x)))
        return self.head(self.drop(x.mean(1)))


class Rotary(nn.Module):
    """Rotates query or key by position."""

    def __init__(self, dim: int, theta: float = 1e4) -> None:
        super().__init__()
        self.dim = dim
        self.theta = theta
        self.is_interleaved = False
        self.offset = 0
        self.keep_norm = True
        self.position_dtype = torch.float32
        self.register_buffer("inv_freq", self.frequencies(), persistent=False)

    def frequencies(self) -> torch.Tensor:
        """Of every pair of dimensions."""
        return self.theta ** (-torch.arange(0, self.dim, 2).float() / self.dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, heads, length, dim), same shape."""
        positions = (torch.arange(x.shape[-2]) + self.offset).to(self.position_dtype).float()
        angle = torch.outer(positions, self.inv_freq.float())
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        if not self.keep_norm:
            sin = 0.5 * sin
        if self.is_interleaved:
            a, b = x[..., ::2], x[..., 1::2]
            return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class GroupedAttention(nn.Module):
    """Causal attention with rotary positions and fewer heads for key and value."""

    def __init__(self, dim: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups
        size = dim // heads
        self.scale = 1 / math.sqrt(size)
        self.cap = 0.0
        self.hidden = -math.inf
        self.is_causal = True
        self.window = 0
        self.dropped = 0.0
        self.forgets: Callable[[], bool] = lambda: False
        self.softmax_axis = -1
        self.softmax_dtype: torch.dtype | None = None
        self.expand = "interleave"
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, groups * size, bias=False)
        self.v = nn.Linear(dim, groups * size, bias=False)
        self.rope = Rotary(size)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Keep the shape (batch, length, dim)."""
        batch, length, dim = x.shape
        query = self.rope(self.q(x).view(batch, length, self.heads, -1).transpose(1, 2))
        key = self.rope(self.k(x).view(batch, length, self.groups, -1).transpose(1, 2))
        value = self.v(x).view(batch, length, self.groups, -1).transpose(1, 2)
        key, value = self._expanded(key), self._expanded(value)
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.scale
        if self.cap:
            scores = self.cap * torch.tanh(scores / self.cap)
        scores = hide(scores, self.hidden, self.is_causal, padding, self.window)
        if self.forgets():
            scores = forgotten(scores, self.hidden)
        if self.softmax_dtype is not None:
            weights = F.softmax(scores.to(self.softmax_dtype), self.softmax_axis).to(x.dtype)
        else:
            weights = F.softmax(scores, self.softmax_axis)
        weights = F.dropout(weights, self.dropped) if self.dropped else weights
        mixed = torch.matmul(weights, value)
        return self.o(mixed.transpose(1, 2).reshape(batch, length, dim))

    def _expanded(self, x: torch.Tensor) -> torch.Tensor:
        times = self.heads // self.groups
        if self.expand == "interleave":
            return x.repeat_interleave(times, 1)
        return x.repeat(1, times, 1, 1)


class GatedMLP(nn.Module):
    """SwiGLU with gate and up in one product."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gate_up = nn.Linear(dim, 4 * dim, bias=False)
        self.act = nn.SiLU()
        self.down = nn.Linear(2 * dim, dim, bias=False)
        self.gate_first = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape."""
        gate, up = self.gate_up(x).chunk(2, -1)
        if not self.gate_first:
            gate, up = up, gate
        return self.down(self.act(gate) * up)


class LlamaBlock(nn.Module):
    """Attention, then a gated MLP, each behind a norm and added to its input."""

    def __init__(self, dim: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm1 = RMSNorm(dim)
        self.attn = GroupedAttention(dim, heads, groups)
        self.norm2 = RMSNorm(dim)
        self.mlp = GatedMLP(dim)
        self.order = "pre"
        self.residual = 1.0

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Keep the shape."""
        normed = self.norm1(x)
        skip = normed if self.order == "post" else x
        x = self.residual * skip + self.attn(normed, padding)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    """Tokens (batch, length) to logits; the head may be tied to the embedding."""

    def __init__(
        self, vocab: int, dim: int, heads: int, groups: int, layers: int, tied: bool
    ) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList([LlamaBlock(dim, heads, groups) for _ in range(layers)])
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        if tied:
            self.head.weight = self.tok.weight
        self.embedding_scale = 1.0

    def forward(self, tokens: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of the next token."""
        x = self.tok(tokens) * self.embedding_scale
        for block in self.layers:
            x = block(x, padding)
        return self.head(self.norm(x))
