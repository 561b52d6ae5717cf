"""Files of pairs that differ by noise alone, of any size, written without holding them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import ml_dtypes
import numpy as np

NOISE = 1e-5
# Of the drawn values that a large file repeats; a prime, so that no two tensors are equal.
BLOCK = (1 << 22) - 3
_WORDS = {"F32": np.dtype(np.float32), "BF16": np.dtype(ml_dtypes.bfloat16)}


def noisy_pair(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal values with noise of 1e-5, and without: float32, shape (count,)."""
    random = np.random.default_rng(seed)
    reference = random.standard_normal(count, np.float32)
    return reference + np.float32(NOISE) * random.standard_normal(count, np.float32), reference


def rounded_pair(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The same in bfloat16, of which most are equal and the others neighbours."""
    left, right = (side.astype(ml_dtypes.bfloat16) for side in noisy_pair(count))
    return left, right


def write_npy(left: Path, right: Path, names: Iterable[str], shape: tuple[int, ...]) -> None:
    """Two folders, each tensor drawn anew."""
    for folder in (left, right):
        folder.mkdir()
    for seed, name in enumerate(names):
        for folder, values in zip(
            (left, right), noisy_pair(int(np.prod(shape)), seed), strict=True
        ):
            np.save(folder / f"{name}.npy", values.reshape(shape))


def renamed(folder: Path, new: Path, rename: Callable[[int], str]) -> Path:
    """The same files, linked under other names."""
    new.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        os.link(file, new / f"{rename(number)}{file.suffix}")
    return new


def write_safetensors(
    path: Path, dtype: str, names: Iterable[str], shape: tuple[int, ...], values: np.ndarray
) -> None:
    """Equal shapes side by side, which cut `values` (1-D, repeated as often as it takes)."""
    size = int(np.prod(shape)) * _WORDS[dtype].itemsize
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [i * size, (i + 1) * size]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    left = len(header) * size
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        content = memoryview(values.view(np.uint8))
        while left:
            left -= file.write(content[:left])
