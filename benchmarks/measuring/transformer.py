"""Steps of training of a small transformer, alike in every environment that has torch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, LENGTH, VOCABULARY = 6, 8, 64, 256
LEARNING_RATE = 0.01


class Block(nn.Module):
    """Attention over what came before, then a layer of four times the width, each added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.act = nn.Linear(width, 4 * width), nn.GELU()
        self.out = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same shape."""
        batch, length, width = x.shape
        parts = self.qkv(self.ln1(x)).view(batch, length, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.out(self.act(self.fc(self.ln2(x))))


class Transformer(nn.Module):
    """Tokens (batch, length) to logits: 51 modules below the root, each called once."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tok = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits (batch, length, vocabulary)."""
        x = self.tok(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Size(NamedTuple):
    """Width of the network and sequences in a batch."""

    width: int
    batch: int


class Training:
    """A network, one batch and SGD."""

    def __init__(self, size: Size) -> None:
        torch.manual_seed(0)
        self.net = Transformer(size.width)
        self.optimizer = torch.optim.SGD(self.net.parameters(), LEARNING_RATE)
        self.tokens, self.targets = torch.randint(VOCABULARY, (2, size.batch, LENGTH))

    def learn(self) -> None:
        """Forward and backward."""
        self.optimizer.zero_grad()
        logits = self.net(self.tokens)
        functional.cross_entropy(logits.flatten(0, 1), self.targets.flatten()).backward()

    def update(self) -> None:
        """The optimizer's step."""
        self.optimizer.step()
