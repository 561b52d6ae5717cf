"""A small GPT-style decoder in PyTorch: learned positions, pre-norm blocks, causal attention."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import math

import torch
from torch import nn

from example_nets.sizes import GPTSizes


class Attention(nn.Module):
    """Causal self-attention with one joint projection for query, key and value."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.heads = sizes.heads
        self.qkv = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.proj = nn.Linear(sizes.dim, sizes.dim)
        mask = torch.triu(torch.full((sizes.context, sizes.context), -1e4), 1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix positions: (batch, length, dim) to the same shape."""
        batch, length, dim = x.shape
        head_dim = dim // self.heads
        qkv = self.qkv(x).view(batch, length, 3, self.heads, head_dim)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(head_dim)
        mixed = torch.softmax(scores + self.mask[:length, :length], -1) @ value
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, dim))


class Block(nn.Module):
    """Pre-norm decoder block: attention, then a GELU MLP, each added to its input."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(sizes.dim)
        self.attn = Attention(sizes)
        self.ln2 = nn.LayerNorm(sizes.dim)
        self.fc = nn.Linear(sizes.dim, 4 * sizes.dim)
        self.act = nn.GELU()
        self.out = nn.Linear(4 * sizes.dim, sizes.dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Keep the shape (batch, length, dim)."""
        x = x + self.attn(self.ln1(x))
        return x + self.out(self.act(self.fc(self.ln2(x))))


class GPT(nn.Module):
    """The decoder: tokens (batch, length) to logits (batch, length, vocab)."""

    def __init__(self, sizes: GPTSizes) -> None:
        super().__init__()
        self.tok = nn.Embedding(sizes.vocab, sizes.dim)
        self.pos = nn.Embedding(sizes.context, sizes.dim)
        self.blocks = nn.ModuleList([Block(sizes) for _ in range(sizes.layers)])
        self.norm = nn.LayerNorm(sizes.dim)
        self.head = nn.Linear(sizes.dim, sizes.vocab, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at every position."""
        x = self.tok(tokens) + self.pos(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
