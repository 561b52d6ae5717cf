"""What one does without us: plain numpy, TroubleShooter's arithmetic, and reading alone."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

Pairs = Iterable[tuple[np.ndarray, np.ndarray]]
_RTOL = _ATOL = 1e-4
_DTYPES = {"F32": np.dtype(np.float32), "BF16": np.dtype(ml_dtypes.bfloat16)}


def npy_pairs(left: Path, right: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Files of the same name, whole, one pair after the other."""
    for file in sorted(left.iterdir()):
        yield np.load(file), np.load(right / file.name)


def safetensors_pairs(left: Path, right: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tensors of the same name; those of a half precision are widened, as numpy needs it."""
    for sides in zip(_tensors(left), _tensors(right), strict=True):
        actual, benchmark = (side.astype(np.float32, copy=False) for side in sides)
        yield actual, benchmark


def _tensors(path: Path) -> Iterator[np.ndarray]:
    with path.open("rb") as file:
        for said in _stored(file):
            count = math.prod(said["shape"])
            yield np.fromfile(file, _DTYPES[said["dtype"]], count).reshape(said["shape"])


def _stored(file: BinaryIO) -> list[dict[str, Any]]:
    """What the header of a safetensors file says of its tensors, as they lie behind it."""
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    return sorted(header.values(), key=lambda said: said["data_offsets"])


def plain_numpy(pairs: Pairs) -> None:
    """What a notebook does by hand: allclose, the share of close elements, the cosine."""
    for actual, benchmark in pairs:
        np.allclose(actual, benchmark, rtol=_RTOL, atol=_ATOL)
        np.isclose(actual, benchmark, rtol=_RTOL, atol=_ATOL).mean()
        wide, reference = actual.astype(np.float64).ravel(), benchmark.astype(np.float64).ravel()
        lengths = np.linalg.norm(wide) * np.linalg.norm(reference)
        # The gradient of a bias that no layer adds is zero.
        wide @ reference / lengths if lengths else math.nan


def troubleshooter(pairs: Pairs) -> None:
    """`troubleshooter_figures` of every pair."""
    for actual, benchmark in pairs:
        troubleshooter_figures(actual, benchmark)


def troubleshooter_figures(
    actual: np.ndarray, benchmark: np.ndarray
) -> tuple[bool, float, float, float, float]:
    """Whether all is close, the share that is, cosine, mean and maximum of the differences.

    Written from what runs of TroubleShooter 1.0.19 gave: the mean is over the unequal elements,
    and the cosine is taken in the arrays' own dtype.
    """
    unequal = actual != benchmark
    if not unequal.any():
        return True, 1.0, 1.0, 0.0, 0.0
    difference = np.abs(actual[unequal] - benchmark[unequal])
    close = np.isclose(actual, benchmark, rtol=_RTOL, atol=_ATOL)
    flat, reference = actual.reshape(-1), benchmark.reshape(-1)
    lengths = np.linalg.norm(flat) * np.linalg.norm(reference)
    cosine = float(np.clip(np.dot(flat, reference) / lengths, -1, 1)) if lengths else math.nan
    share = float(np.count_nonzero(close) / close.size)
    return share == 1.0, share, cosine, float(difference.mean()), float(difference.max())


def only_read(*places: Path) -> None:
    """The bytes of files, or of all files in folders, into one buffer that stays in the cache."""
    buffer = bytearray(1 << 20)
    for place in places:
        for file in _files(place):
            descriptor = os.open(file, os.O_RDONLY)
            while os.readv(descriptor, [buffer]):
                pass
            os.close(descriptor)


def read_tensors(*places: Path) -> None:
    """Every tensor of `.npy` and `.safetensors` files in memory of its own, as one loads them."""
    for place in places:
        for file in map(Path, _files(place)):
            if file.suffix == ".npy":
                np.load(file)
            elif file.suffix == ".safetensors":
                with file.open("rb") as opened:
                    for said in _stored(opened):
                        begin, end = said["data_offsets"]
                        np.fromfile(opened, np.uint8, end - begin)


def _files(place: Path) -> Iterator[str]:
    if place.is_file():
        yield str(place)
        return
    for folder, _, names in os.walk(place):
        yield from (f"{folder}/{name}" for name in names)
