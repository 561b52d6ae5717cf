"""Convolutions in float64 at some of their output places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Geometry(NamedTuple):
    """Of both axes, rows first: how far windows move, how far taps are apart, zeros in front."""

    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)


class Places(NamedTuple):
    """Output places, three arrays of one length."""

    item: np.ndarray
    row: np.ndarray
    column: np.ndarray


def bordered(images: np.ndarray, margin: tuple[int, int], mode: str = "zeros") -> np.ndarray:
    """Images with a margin on both ends of the last two axes.

    Parameters
    ----------
    images : ndarray, shape (..., height, width)
    margin : tuple of int
        Rows and columns added at each end.
    mode : {"zeros", "reflect", "replicate", "circular"}
        What stands in the margin, in torch's words.
    """
    names = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    widths = [(0, 0)] * (images.ndim - 2) + [(margin[0], margin[0]), (margin[1], margin[1])]
    return np.asarray(np.pad(images, widths, mode=names[mode]))  # type: ignore[call-overload]


def windows_at(
    images: np.ndarray,
    places: Places,
    kernel: tuple[int, int],
    geometry: Geometry,
    margin: tuple[int, int],
) -> np.ndarray:
    """What the kernel sees at each place.

    Parameters
    ----------
    images : ndarray, shape (items, channels, height, width)
        With a margin of at least `geometry.before` in front and enough behind.
    margin : tuple of int
        Rows and columns in front.

    Returns
    -------
    ndarray, shape (places, channels, kernel rows, kernel columns)
    """
    axes = []
    for axis, start in ((0, places.row), (1, places.column)):
        first = start * geometry.stride[axis] - geometry.before[axis] + margin[axis]
        axes.append(first[:, None] + geometry.dilation[axis] * np.arange(kernel[axis]))
    rows, columns = axes
    # Advanced indices on both sides of the channels' slice: the indexed axes come first.
    seen = images[places.item[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return np.asarray(seen).transpose(0, 3, 1, 2)


def convolve_windows(windows: np.ndarray, kernels: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Cross-correlation of windows with kernels, as layers called convolution compute it.

    Parameters
    ----------
    windows : ndarray, shape (places, channels, rows, columns)
    kernels : ndarray, shape (outputs, channels of a group, rows, columns)
    group : ndarray of int, shape (outputs,)
        Group of each output channel.

    Returns
    -------
    ndarray, shape (places, outputs), float64
    """
    size = kernels.shape[1]
    sums = np.empty((len(windows), len(kernels)))
    if windows.size and kernels.size and size == windows.shape[1] and not group.any():
        part, flat = (np.asarray(one, np.float64) for one in (windows, kernels))
        return np.matmul(part.reshape(len(part), -1), flat.reshape(len(flat), -1).T, out=sums)
    for number in np.unique(group):
        chosen = group == number
        part = np.asarray(windows[:, number * size : (number + 1) * size], np.float64)
        flat = np.asarray(kernels[chosen], np.float64).reshape(int(chosen.sum()), -1)
        sums[:, chosen] = part.reshape(len(part), -1) @ flat.T
    return sums


def stuffed(images: np.ndarray, stride: tuple[int, int]) -> np.ndarray:
    """Images with ``stride - 1`` zeros between neighbours of the last two axes.

    A transposed convolution is a convolution of these with the flipped kernel.
    """
    height, width = images.shape[-2:]
    shape = ((height - 1) * stride[0] + 1, (width - 1) * stride[1] + 1)
    spaced = np.zeros((*images.shape[:-2], *shape), images.dtype)
    spaced[..., :: stride[0], :: stride[1]] = images
    return spaced


def transposed_kernel(weight: np.ndarray, groups: int) -> np.ndarray:
    """Kernels (out, in of a group, ...) of the convolution that a transposed one is.

    Parameters
    ----------
    weight : ndarray, shape (in, out of a group, rows, columns)
    """
    inputs, outputs, *taps = weight.shape
    grouped = weight.reshape(groups, inputs // groups, outputs, *taps).swapaxes(1, 2)
    return np.asarray(grouped.reshape(groups * outputs, inputs // groups, *taps)[..., ::-1, ::-1])
