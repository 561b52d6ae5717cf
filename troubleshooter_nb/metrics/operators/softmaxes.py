"""Softmax in float64, forward and backward, and as kernels of a narrower format compute it."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from troubleshooter_nb.metrics.float_formats import in_format

Path = Literal["input", "output", "input and output", "inside"]


def softmax(x: np.ndarray, axis: int = -1, scale: float = 1.0, *, log: bool = False) -> np.ndarray:
    """exp(scale x) over its sum along the axis, or the logarithm of that.

    -inf counts as probability zero; rows of -inf alone give nan.
    """
    x = np.asarray(x, np.float64) * scale
    with np.errstate(invalid="ignore"):
        shifted = x - x.max(axis=axis, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(total) if log else powers / total)


def softmax_backward(
    gradient: np.ndarray, output: np.ndarray, axis: int = -1, *, log: bool = False
) -> np.ndarray:
    """Gradient of the input for a scale of 1, from the gradient and the value of the output."""
    gradient, output = np.asarray(gradient, np.float64), np.asarray(output, np.float64)
    if log:
        return np.asarray(gradient - np.exp(output) * gradient.sum(axis=axis, keepdims=True))
    inner = (gradient * output).sum(axis=axis, keepdims=True)
    return np.asarray(output * (gradient - inner))


def narrow_softmax(
    x: np.ndarray, axis: int, scale: float, name: str, path: Path, *, log: bool = False
) -> np.ndarray:
    """Softmax that passes through a 16-bit format.

    Parameters
    ----------
    x, axis, scale, log
        As for `softmax`.
    name : {"float16", "bfloat16"}
        The format.
    path : {"input", "output", "input and output", "inside"}
        Scaled input rounded; output rounded; both; or the difference from the maximum, the
        power, their sum and the quotient rounded, each.
    """
    rounded = partial(in_format, name=name, overflow=False)
    if path == "output":
        return rounded(softmax(x, axis, scale, log=log))
    scaled = rounded(np.asarray(x, np.float64) * scale)
    if path == "input":
        return softmax(scaled, axis, log=log)
    if path == "input and output":
        return rounded(softmax(scaled, axis, log=log))
    with np.errstate(invalid="ignore"):
        shifted = rounded(scaled - scaled.max(axis=axis, keepdims=True))
    powers = rounded(np.exp(shifted))
    total = rounded(powers.sum(axis=axis, keepdims=True))
    return rounded(shifted - rounded(np.log(total)) if log else powers / total)
