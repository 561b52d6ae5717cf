"""Faults that no cause of the catalogue describes: their origin counts, a sure cause is wrong."""

# ruff: noqa: D103 a planting function is described by its name and the id of its cause
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from faulty.layers import product
from faulty.parts import RMSNorm
from faulty.registry import Truth, fault, pick
from faulty.side import Side, patched

Change = Callable[[torch.Tensor], torch.Tensor]
LEAVES = (nn.Linear, nn.Conv2d, nn.LayerNorm, nn.BatchNorm2d, RMSNorm, nn.GELU, nn.ReLU, nn.SiLU)


def after_a_layer(left: Side, rng: np.random.Generator, change: Change) -> Truth:
    """Plant a change of the output of some layer."""
    path = pick(rng, left.find(*LEAVES))
    m: Any = left.module(path)
    patched(m, lambda x: change(product(m, x)))
    return Truth({path})


@fault("outside.constant", "every", has_small=True)
def constant(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    factor = 1.00003 if small else float(rng.uniform(1.03, 1.3))
    shift = float(rng.uniform(0.01, 0.1)) * (1e-3 if small else 1.0)
    return after_a_layer(left, rng, lambda y: y * factor + shift * y.square())


@fault("outside.swapped_channels", "every")
def swapped_channels(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    def change(y: torch.Tensor) -> torch.Tensor:
        order = list(range(y.shape[1]))
        order[0], order[1] = 1, 0
        return y[:, order]

    return after_a_layer(left, rng, change)


@fault("outside.element", "every")
def element(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    seed = int(rng.integers(1 << 30))

    def change(y: torch.Tensor) -> torch.Tensor:
        place = torch.zeros(y.numel(), dtype=torch.bool)
        place[seed % y.numel()] = True
        return torch.where(place.view(y.shape), y.detach().abs().max() * 1.7 + 0.3, y)

    return after_a_layer(left, rng, change)


@fault("outside.sine", "every")
def sine(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    def change(y: torch.Tensor) -> torch.Tensor:
        half = y.shape[-1] // 2
        return torch.cat([torch.sin(y[..., :half]), y[..., half:]], -1)

    return after_a_layer(left, rng, change)


@fault("outside.last_step_dropped", "every")
def last_step_dropped(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    def change(y: torch.Tensor) -> torch.Tensor:
        return torch.cat([y[:, :-1], 0.4 * y[:, -1:]], 1)

    return after_a_layer(left, rng, change)


@fault("outside.clamp", "every")
def clamp(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    return after_a_layer(left, rng, lambda y: y.clamp(float(y.min()) * 0.37, float(y.max()) * 0.61))


@fault("outside.reshape", "every")
def reshape(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    def change(y: torch.Tensor) -> torch.Tensor:
        return (0.7 * y + 0.3 * y.reshape(-1).roll(3).reshape(y.shape)).contiguous()

    return after_a_layer(left, rng, change)


@fault("outside.noise", "every", has_small=True)
def noise(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    size = 2e-5 if small else 0.05
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 30)))

    def change(y: torch.Tensor) -> torch.Tensor:
        drawn = torch.randn(y.shape, generator=generator).to(y.dtype)
        return y + size * y.detach().std() * drawn

    return after_a_layer(left, rng, change)


@fault("outside.cubic", "every", has_small=True)
def cubic(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    size = 2e-5 if small else 0.06
    return after_a_layer(left, rng, lambda y: y - size * y**3)


@fault("outside.double_residual", ("gpt", "resnet", "llama"))
def double_residual(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    names = ("Block", "ResBlock", "LlamaBlock")
    blocks = [p for p, m in left.net.named_modules() if type(m).__name__ in names]
    path = pick(rng, blocks)
    m: Any = left.module(path)
    m.residual = 2.0
    return Truth({path, f"{path}.ln2", f"{path}.norm2", f"{path}.relu"}, is_glue=True)


@fault("outside.gradient", "every", "backward")
def gradient(left: Side, rng: np.random.Generator, small: bool) -> Truth:
    path = pick(rng, left.find(*LEAVES)[1:])
    m: Any = left.module(path)

    def bent(grad: torch.Tensor) -> torch.Tensor:
        return grad + 0.3 * grad.roll(1, -1)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x.view_as(x)
        if y.requires_grad:
            y.register_hook(bent)
        return product(m, y)

    patched(m, forward)
    return Truth({path, *before(left, path)}, direction="backward")


def before(left: Side, path: str) -> set[str]:
    """The modules around it, which see the gradient that leaves it."""
    parts = path.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}
