"""Weights and batches drawn with NumPy alone, so that every framework starts from the same bits.

Only uniform and integer draws are used: they need no math library, hence give the same values on
every machine.
"""

import math
import zlib

import numpy as np

from example_nets.sizes import GPT_SIZES, RESNET_SIZES

BATCH = 8


def draw_parameter(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Draw the float32 start value of the parameter with this PyTorch name.

    Matrices and kernels have variance 1 / fan-in, norm weights lie in [0.8, 1.2) and biases in
    [-0.1, 0.1). Each parameter has its own stream, so the order of drawing does not matter.
    """
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    values = 2.0 * rng.random(shape) - 1.0
    if len(shape) > 1:
        values *= math.sqrt(3.0 / math.prod(shape[1:]))
    elif name.endswith("weight"):
        values = 1.0 + 0.2 * values
    else:
        values *= 0.1
    return values.astype(np.float32)


def draw_batch(net: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the inputs and int32 labels of one step.

    For ``"gpt"`` tokens and next tokens, both int32 of shape (batch, context); for ``"resnet"``
    float32 images in [-1, 1) of shape (batch, 3, image, image) and one class per image.
    """
    rng = np.random.default_rng(seed)
    if net == "gpt":
        text = rng.integers(0, GPT_SIZES.vocab, (BATCH, GPT_SIZES.context + 1), dtype=np.int32)
        return text[:, :-1].copy(), text[:, 1:].copy()
    images = 2.0 * rng.random((BATCH, 3, RESNET_SIZES.image, RESNET_SIZES.image)) - 1.0
    labels = rng.integers(0, RESNET_SIZES.classes, BATCH, dtype=np.int32)
    return images.astype(np.float32), labels


def keep(outputs: dict[str, np.ndarray], name: str, array: np.ndarray) -> None:
    """Keep a copy of an output under the name of its module and the number of the call."""
    name = name or "network"
    call = sum(seen.partition("#")[0] == name for seen in outputs)
    outputs[f"{name}#{call}" if call else name] = array.copy()
