"""A small training in half precision that overflows in a layer which is known."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE, BATCH = 32, 16
# The batch of this step has one row that nobody scaled; what it does, three blocks on, is squared.
BAD_STEP, OUTLIER = 5, 60.0
LAYER = "blocks.2.act"  # where float16 ends

Training = tuple[Any, Callable[[int], float]]


def make_training(framework: str, *, repaired: bool = False) -> Training:
    """A network and the function that takes one training step with it and gives the loss.

    Parameters
    ----------
    framework : {"torch", "mindspore"}
    repaired : bool
        The layer that overflows computes in float32.
    """
    if framework not in ("torch", "mindspore"):
        msg = f"framework is 'torch' or 'mindspore', got {framework!r}"
        raise ValueError(msg)
    half = importlib.import_module(f"example_nets.overflow_{framework}")
    training: Training = half.make_training(repaired)
    return training


def draw_weight(number: int, seed: int = 7) -> np.ndarray:
    """Weights of one layer, float32 (SIZE, SIZE)."""
    random = np.random.default_rng([seed, number])
    return (random.standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)).astype(np.float32)


def draw_batch(step: int, seed: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of a step, float32 (BATCH, SIZE)."""
    random = np.random.default_rng([seed, step])
    inputs, targets = random.standard_normal((2, BATCH, SIZE)).astype(np.float32)
    if step == BAD_STEP:
        inputs[3] *= OUTLIER
    return inputs, targets
