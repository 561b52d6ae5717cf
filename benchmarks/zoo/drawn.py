"""Values of a tensor as a training leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Random = np.random.Generator
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """Two checkpoints of one network; every target is what the network's own loader makes."""

    source: Arrays
    target: Arrays


def drawn(random: Random, *shape: int) -> np.ndarray:
    """Rows of unequal size; of one axis, values around 1."""
    values = random.standard_normal(shape, np.float32) * np.float32(0.05)
    if len(shape) == 1:
        return values + np.float32(1.0)
    rows = np.exp(0.3 * random.standard_normal(shape[0])).astype(np.float32)
    return values * rows.reshape(-1, *[1] * (len(shape) - 1))


def drawn_all(random: Random, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """A tensor of each name and shape."""
    return {name: drawn(random, *shape) for name, shape in shapes.items()}


def linear(path: str, out: int, into: int, leaf: str = "weight") -> dict[str, tuple[int, ...]]:
    """Shapes of a linear layer with a bias, its weight ``[out, into]``."""
    return {f"{path}.{leaf}": (out, into), f"{path}.bias": (out,)}


def norm(path: str, width: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a normalisation with an offset."""
    return {f"{path}.weight": (width,), f"{path}.bias": (width,)}


def renamed(name: str, words: Mapping[str, str]) -> str:
    """The name with each of these texts replaced, in their order."""
    for old, new in words.items():
        name = name.replace(old, new)
    return name
