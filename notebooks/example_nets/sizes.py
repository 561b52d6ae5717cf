"""Sizes that a network has in both frameworks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GPTSizes:
    """GPT-style decoder: about 54 thousand parameters."""

    vocab: int = 48
    dim: int = 32
    heads: int = 4
    layers: int = 4
    context: int = 16


@dataclass(frozen=True)
class ResNetSizes:
    """CIFAR-style ResNet of 6 * blocks + 2 layers: about 78 thousand parameters."""

    blocks: int = 1
    width: int = 16
    classes: int = 10
    image: int = 16


GPT_SIZES = GPTSizes()
RESNET_SIZES = ResNetSizes()
