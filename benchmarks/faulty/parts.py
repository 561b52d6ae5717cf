"""What several families are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def stage_of_convs(
    block: Callable[..., nn.Module], channels_in: int, channels: int, blocks: int, stride: int
) -> nn.Sequential:
    """Blocks of one width; the first one changes the shape."""
    rest = [block(channels, channels, 1) for _ in range(blocks - 1)]
    return nn.Sequential(block(channels_in, channels, stride), *rest)


class RMSNorm(nn.Module):
    """Root-mean-square norm with the choices that differ between implementations."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.plus = 0.0
        self.cast_first = True
        self.axes: tuple[int, ...] = (-1,)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise the last axis in float32."""
        wide = x.float()
        normed = wide * torch.rsqrt(wide.square().mean(self.axes, keepdim=True) + self.eps)
        weight = self.weight + self.plus
        if self.cast_first:
            return normed.to(x.dtype) * weight
        return (normed * weight.float()).to(x.dtype)


class GRU(nn.Module):
    """Gated recurrent unit, reset gate applied before or after the product."""

    def __init__(self, dim_in: int, dim: int) -> None:
        super().__init__()
        self.weight_ih_l0 = nn.Parameter(torch.randn(3 * dim, dim_in) / dim_in**0.5)
        self.weight_hh_l0 = nn.Parameter(torch.randn(3 * dim, dim) / dim**0.5)
        self.bias_ih_l0 = nn.Parameter(0.3 * torch.randn(3 * dim))
        self.bias_hh_l0 = nn.Parameter(0.3 * torch.randn(3 * dim))
        self.reset_after = True

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """States (batch, length, dim) and the last one (1, batch, dim)."""
        dim = self.weight_hh_l0.shape[1]
        state = x.new_zeros(len(x), dim)
        states = []
        for step in range(x.shape[1]):
            given = x[:, step] @ self.weight_ih_l0.T + self.bias_ih_l0
            state = self._step(given, state, dim)
            states.append(state)
        return torch.stack(states, 1), state[None]

    def _step(self, given: torch.Tensor, state: torch.Tensor, dim: int) -> torch.Tensor:
        reset_in, update_in, new_in = given.split(dim, -1)
        weights = self.weight_hh_l0.split(dim)
        biases = self.bias_hh_l0.split(dim)
        reset = torch.sigmoid(reset_in + state @ weights[0].T + biases[0])
        update = torch.sigmoid(update_in + state @ weights[1].T + biases[1])
        if self.reset_after:
            new = torch.tanh(new_in + reset * (state @ weights[2].T + biases[2]))
        else:
            new = torch.tanh(new_in + (reset * state) @ weights[2].T + biases[2])
        return (1 - update) * new + update * state
