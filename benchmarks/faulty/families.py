"""Draws a network of a family with sizes, weights and batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from faulty.nets import GPT, ResNet
from faulty.nets_more import Autoencoder, Llama, Recurrent
from faulty.parts import RMSNorm
from faulty.side import Side
from faulty.styles import DRAWS, vision

DrawNet = Callable[[np.random.Generator], tuple[nn.Module, Any]]
FAMILIES = ("gpt", "resnet", "llama", "autoencoder", "recurrent")


def draw_side(
    family: str,
    rng: np.random.Generator,
    steps: int,
    is_training: bool,
    is_averaged: bool = False,
    draw: DrawNet | None = None,
) -> Side:
    """A faultless side in float32; `is_averaged`: a ResNet that ends as the MindSpore one.

    `draw` makes the net and its batches in place of the family's own.
    """
    torch.manual_seed(int(rng.integers(1 << 31)))
    make = partial(_resnet, is_averaged=True) if is_averaged and family == "resnet" else None
    net, make_batch = (draw or make or _DRAWS[family])(rng)
    _spread(net)
    batches = [make_batch() for _ in range(steps)]
    return Side(net, family, batches, is_training)


def _spread(net: nn.Module) -> None:
    """Norm weights, biases and running statistics as after training, not ones and zeros."""
    for module in net.modules():
        if isinstance(module, (nn.LayerNorm, nn.BatchNorm2d, nn.GroupNorm, RMSNorm)):
            nn.init.uniform_(module.weight, 0.7, 1.3)
            if getattr(module, "bias", None) is not None:
                nn.init.uniform_(module.bias, -0.2, 0.2)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)


def _gpt(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    heads = int(rng.choice([2, 4]))
    dim = heads * int(rng.choice([8, 12, 16]))
    layers, length = int(rng.integers(2, 6)), int(rng.integers(8, 17))
    vocab, batch = int(rng.choice([40, 67])), int(rng.integers(2, 5))
    net = GPT(vocab, dim, heads, layers, length + 4)
    nn.init.normal_(net.tok.weight, std=0.5)
    nn.init.normal_(net.pos.weight, std=0.3)
    return net, lambda: _tokens(vocab, batch, length)


def _llama(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    groups = int(rng.choice([2, 3]))
    heads = 2 * groups
    dim = heads * int(rng.choice([8, 16]))
    layers, length = int(rng.integers(2, 5)), int(rng.integers(8, 17))
    vocab, batch = int(rng.choice([40, 67])), int(rng.integers(2, 4))
    net = Llama(vocab, dim, heads, groups, layers, tied=bool(rng.random() < 0.5))
    nn.init.normal_(net.tok.weight, std=0.5)
    return net, lambda: _tokens(vocab, batch, length)


def _recurrent(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    dim, layers = int(rng.choice([16, 24])), int(rng.integers(1, 4))
    length, batch = int(rng.integers(6, 11)), int(rng.integers(4, 9))
    net = Recurrent(50, dim, layers, str(rng.choice(["gru", "lstm"])))

    def make() -> tuple[tuple[Any, ...], torch.Tensor]:
        tokens = torch.randint(0, 50, (batch, length))
        tokens[:, -2:] = 0
        return (tokens,), torch.randint(0, 7, (batch,))

    return net, make


def _resnet(rng: np.random.Generator, is_averaged: bool = False) -> tuple[nn.Module, Any]:
    width, blocks = int(rng.choice([8, 12, 16])), int(rng.integers(1, 3))
    size, batch = int(rng.choice([16, 24])), int(rng.integers(3, 7))
    net = ResNet(width, blocks, 10, pool=not is_averaged)
    return net, lambda: ((torch.randn(batch, 3, size, size) * 0.6 + 0.3,), _classes(batch))


def _autoencoder(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    width, depth = int(rng.choice([6, 8, 12])), int(rng.integers(1, 4))
    size, batch = int(rng.choice([16, 24])), int(rng.integers(2, 5))

    def make() -> tuple[tuple[Any, ...], torch.Tensor]:
        images = torch.randn(batch, 3, size, size) * 0.6 + 0.3
        return (images,), images

    return Autoencoder(width, depth), make


def _tokens(vocab: int, batch: int, length: int) -> tuple[tuple[Any, ...], torch.Tensor]:
    text = torch.randint(0, vocab, (batch, length + 1))
    return (text[:, :-1].contiguous(),), text[:, 1:].contiguous()


def _classes(batch: int) -> torch.Tensor:
    return torch.randint(0, 10, (batch,))


_DRAWS = {
    "gpt": _gpt,
    "llama": _llama,
    "recurrent": _recurrent,
    "resnet": _resnet,
    "autoencoder": _autoencoder,
    **DRAWS,
}


def _wide_gpt(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    net = GPT(67, 1152, 16, 1, 324)
    nn.init.normal_(net.tok.weight, std=0.5)
    nn.init.normal_(net.pos.weight, std=0.3)
    return net, lambda: _tokens(67, 4, 320)


def _wide_resnet(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    net = ResNet(64, 1, 10)
    return net, lambda: ((torch.randn(8, 3, 96, 96) * 0.6 + 0.3,), _classes(8))


def _wide_vision(rng: np.random.Generator) -> tuple[nn.Module, Any]:
    def make() -> tuple[tuple[Any, ...], torch.Tensor]:
        return (torch.randint(0, 256, (12, 3, 112, 112)).float(),), _classes(12)

    return vision(48, 96), make


# Activations and weights of more than four million elements.
WIDE: dict[str, DrawNet] = {"gpt": _wide_gpt, "resnet": _wide_resnet, "vision": _wide_vision}
