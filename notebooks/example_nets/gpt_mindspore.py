"""The GPT of `gpt_torch` in MindSpore, with the faults of `FAULTS["gpt"]`.

Only operators that have MindSpore CPU kernels are used.
"""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import math

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from example_nets.sizes import GPTSizes


class DetachedLayerNorm(nn.Cell):
    """LayerNorm whose backward pass takes mean and variance for constants: the planted mistake.

    The output is that of `nn.LayerNorm` up to rounding, and so are the gradients of gamma and
    beta; the gradient handed upstream lacks the two terms through the statistics.
    """

    def __init__(self, dim: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.gamma = ms.Parameter(np.ones(dim, np.float32), name="gamma")
        self.beta = ms.Parameter(np.zeros(dim, np.float32), name="beta")

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Normalise the last axis."""
        centred = x - ops.stop_gradient(ops.mean(x, -1, keep_dims=True))
        variance = ops.stop_gradient(ops.mean(ops.square(centred), -1, keep_dims=True))
        return centred / ops.sqrt(variance + self.epsilon) * self.gamma + self.beta


class Attention(nn.Cell):
    """Causal self-attention with one joint projection for query, key and value."""

    def __init__(self, sizes: GPTSizes, fault: str, index: int) -> None:
        super().__init__()
        self.heads = sizes.heads
        wrong_scale = fault == "scale" and index == 2
        self.scale = math.sqrt(sizes.dim if wrong_scale else sizes.dim // sizes.heads)
        self.qkv = nn.Dense(sizes.dim, 3 * sizes.dim)
        self.proj = nn.Dense(sizes.dim, sizes.dim)
        hidden = 0.0 if fault == "mask" and index == 1 else -1e4
        full = np.full((sizes.context, sizes.context), hidden, np.float32)
        self.mask = ms.Tensor(np.triu(full, 1))
        self.query_key = ops.BatchMatMul(transpose_b=True)
        self.score_value = ops.BatchMatMul()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Mix positions: (batch, length, dim) to the same shape."""
        batch, length, dim = x.shape
        qkv = ops.reshape(self.qkv(x), (batch, length, 3, self.heads, dim // self.heads))
        query, key, value = ops.transpose(qkv, (2, 0, 3, 1, 4))
        scores = self.query_key(query, key) / self.scale + self.mask[:length, :length]
        mixed = self.score_value(ops.softmax(scores, -1), value)
        return self.proj(ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (batch, length, dim)))


class Block(nn.Cell):
    """Pre-norm decoder block: attention, then a GELU MLP, each added to its input."""

    def __init__(self, sizes: GPTSizes, fault: str, index: int) -> None:
        super().__init__()
        epsilon = norm_epsilon(fault)
        self.ln1 = nn.LayerNorm((sizes.dim,), epsilon=epsilon)
        self.attn = Attention(sizes, fault, index)
        if fault == "detached_norm" and index == 2:
            self.ln2 = DetachedLayerNorm(sizes.dim, epsilon)
        else:
            self.ln2 = nn.LayerNorm((sizes.dim,), epsilon=epsilon)
        self.fc = nn.Dense(sizes.dim, 4 * sizes.dim)
        self.act = nn.GELU(approximate=fault == "gelu_tanh")
        self.out = nn.Dense(4 * sizes.dim, sizes.dim)
        if fault == "half_block" and index == 3:
            self.fc.to_float(ms.float16)
            self.out.to_float(ms.float16)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Keep the shape (batch, length, dim)."""
        x = x + self.attn(self.ln1(x))
        return x + self.out(self.act(self.fc(self.ln2(x))))


class GPT(nn.Cell):
    """The decoder: tokens (batch, length) to logits (batch, length, vocab)."""

    def __init__(self, sizes: GPTSizes, fault: str) -> None:
        super().__init__()
        self.tok = nn.Embedding(sizes.vocab, sizes.dim)
        self.pos = nn.Embedding(sizes.context, sizes.dim)
        self.blocks = nn.CellList([Block(sizes, fault, i) for i in range(sizes.layers)])
        self.norm = nn.LayerNorm((sizes.dim,), epsilon=norm_epsilon(fault))
        self.head = nn.Dense(sizes.dim, sizes.vocab, has_bias=False)

    def construct(self, tokens: ms.Tensor) -> ms.Tensor:
        """Logits of the next token at every position."""
        x = self.tok(tokens) + self.pos(ops.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def norm_epsilon(fault: str) -> float:
    """Epsilon of every LayerNorm: torch's, or MindSpore's default as a fault."""
    return 1e-7 if fault == "ln_eps" else 1e-5
