"""The GPT and ResNet families; modules are named as those of the example nets in MindSpore."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from faulty.parts import stage_of_convs


class Attention(nn.Module):
    """Causal self-attention whose choices are attributes, so that a fault can change one."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1 / math.sqrt(dim // heads)
        self.cap = 0.0
        self.hidden = -1e4
        self.is_causal = True
        self.window = 0
        self.dropped = 0.0
        self.forgets: Callable[[], bool] = lambda: False
        self.packing = "3hd"
        self.softmax_axis = -1
        self.softmax_dtype: torch.dtype | None = None
        # Order of the three parts in the rows of the projection.
        self.parts = (0, 1, 2)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Mix positions: (batch, length, dim) to the same shape; `padding` is True where hidden."""
        batch, length, dim = x.shape
        qkv = self.qkv(x)
        if self.packing == "3hd":
            qkv = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        else:
            qkv = qkv.view(batch, length, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        query, key, value = (qkv[part] for part in self.parts)
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
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, dim))


def forgotten(scores: torch.Tensor, value: float) -> torch.Tensor:
    """Scores in which the last token does not see the one before it."""
    place = torch.zeros(scores.shape[-2:], dtype=torch.bool)
    place[-1, -2] = True
    return scores.masked_fill(place, max(value, torch.finfo(scores.dtype).min))


def hide(
    scores: torch.Tensor,
    value: float,
    is_causal: bool,
    padding: torch.Tensor | None,
    window: int = 0,
) -> torch.Tensor:
    """Scores with those of later positions, of padding and behind a window replaced."""
    length = scores.shape[-1]
    value = max(value, torch.finfo(scores.dtype).min) if value > -math.inf else value
    if is_causal:
        later = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        scores = scores.masked_fill(later, value)
    if window:
        behind = torch.tril(torch.ones(length, length, dtype=torch.bool), -window)
        scores = scores.masked_fill(behind, value)
    if padding is not None:
        scores = scores.masked_fill(padding[:, None, None, :], value)
    return scores


class Block(nn.Module):
    """Pre-norm decoder block."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.out = nn.Linear(4 * dim, dim)
        self.order = "pre"
        self.residual = 1.0

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Keep the shape."""
        normed = self.ln1(x)
        skip = normed if self.order == "post" else x
        x = self.residual * skip + self.attn(normed, padding)
        return x + self.out(self.act(self.fc(self.ln2(x))))


class GPT(nn.Module):
    """Tokens (batch, length) to logits (batch, length, vocab)."""

    def __init__(self, vocab: int, dim: int, heads: int, layers: int, context: int) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.drop = nn.Dropout(0.1)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.offset = 0
        self.embedding_scale = 1.0

    def forward(self, tokens: torch.Tensor, padding: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of the next token."""
        positions = torch.arange(tokens.shape[1]) + self.offset
        x = self.tok(tokens) * self.embedding_scale + self.pos(positions)
        x = x if self.drop is None else self.drop(x)
        for block in self.blocks:
            x = block(x, padding)
        return self.head(self.norm(x))


class ResBlock(nn.Module):
    """Two 3x3 convolutions added to their input."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.down = None
        if stride != 1 or channels_in != channels:
            self.down = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )
        self.order = "add"
        self.cut = False
        self.residual = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        skip = x if self.down is None else self.down(x)
        skip = skip.detach() if self.cut else skip
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        if self.order == "relu":
            return self.relu(y) + skip
        return self.relu(y + self.residual * skip)


class ResNet(nn.Module):
    """Images (batch, 3, h, w) to logits of classes."""

    def __init__(self, width: int, blocks: int, classes: int, pool: bool = True) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.pool = nn.AvgPool2d(3, 2, 1) if pool else None
        self.layer1 = stage_of_convs(ResBlock, width, width, blocks, 1)
        self.layer2 = stage_of_convs(ResBlock, width, 2 * width, blocks, 2)
        self.layer3 = stage_of_convs(ResBlock, 2 * width, 4 * width, blocks, 2)
        self.drop = nn.Dropout(0.2) if pool else None
        self.fc = nn.Linear(4 * width * (4 if pool else 1), classes)
        self.flatten = "nchw"

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits; with `pool` the last features are flattened, without they are averaged."""
        x = self.relu(self.bn1(self.conv1(images)))
        x = x if self.pool is None else self.pool(x)
        x = self.layer3(self.layer2(self.layer1(x)))
        if self.pool is None:
            return self.fc(x.mean((2, 3)))
        x = F.adaptive_avg_pool2d(x, 2)
        x = x.permute(0, 2, 3, 1) if self.flatten == "nhwc" else x
        return self.fc(self.drop(x.reshape(len(x), -1)))
