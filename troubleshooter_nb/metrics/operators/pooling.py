"""Pooling in float64 over one or two axes, with every rule for borders."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# What a sum is divided by: all cells of the window, those inside the padded image, or those
# inside the image.
DIVISORS = ("window", "padded image", "image")


def _windows(planes: np.ndarray, kernel: tuple[int, int], stride: tuple[int, int]) -> np.ndarray:
    seen = sliding_window_view(planes, kernel, axis=(-2, -1))  # type: ignore[call-overload]
    return np.asarray(seen[..., :: stride[0], :: stride[1], :, :])


def _framed(
    planes: np.ndarray,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
    output: tuple[int, int],
    fill: float,
) -> np.ndarray:
    """Planes with `before` cells in front, and as many behind as the output's windows reach."""
    widths = [(0, 0)] * (planes.ndim - 2)
    sizes = zip(planes.shape[-2:], kernel, stride, before, output, strict=True)
    ends = []
    for size, taps, step, front, count in sizes:
        needed = (count - 1) * step + taps
        widths.append((front, max(needed - size - front, 0)))
        ends.append(needed)
    padded = np.pad(np.asarray(planes, np.float64), widths, constant_values=fill)
    return np.asarray(padded[..., : ends[0], : ends[1]])


def max_pool(
    planes: np.ndarray,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
    output: tuple[int, int],
) -> np.ndarray:
    """Largest value of each window, shape (..., *output); padding never wins."""
    framed = _framed(planes, kernel, stride, before, output, -np.inf)
    return np.asarray(_windows(framed, kernel, stride).max(axis=(-2, -1)))


def average_pool(
    planes: np.ndarray,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
    output: tuple[int, int],
    divisor: str = "window",
) -> np.ndarray:
    """Mean of each window, shape (..., *output).

    Parameters
    ----------
    divisor : {"window", "padded image", "image"}
        Which cells count where a window passes the border: all, those that are the image or its
        symmetric padding (``count_include_pad``), or the image's alone.
    """
    framed = _framed(planes, kernel, stride, before, output, 0.0)
    sums = _windows(framed, kernel, stride).sum(axis=(-2, -1))
    if divisor == "window":
        return np.asarray(sums / (kernel[0] * kernel[1]))
    counts = []
    sizes = zip(planes.shape[-2:], kernel, stride, before, output, strict=True)
    for size, taps, step, front, count in sizes:
        first = np.arange(count) * step - front
        low, high = (-front, size + front) if divisor == "padded image" else (0, size)
        counts.append(np.minimum(first + taps, high) - np.maximum(first, low))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums / (counts[0][:, None] * counts[1]))


def adaptive_average_pool(planes: np.ndarray, output: tuple[int, int]) -> np.ndarray:
    """Means of windows that share out each axis as evenly as whole cells allow."""
    rows, columns = (
        _shares(size, count) for size, count in zip(planes.shape[-2:], output, strict=True)
    )
    return np.asarray(rows @ np.asarray(planes, np.float64) @ columns.T)


def _shares(size: int, count: int) -> np.ndarray:
    """Weights (count, size) of the adaptive windows of one axis."""
    weights = np.zeros((count, size))
    for place in range(count):
        first, last = place * size // count, -(-(place + 1) * size // count)
        weights[place, first:last] = 1 / (last - first)
    return weights


def max_pool_gradient(
    gradient: np.ndarray,
    planes: np.ndarray,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
    ties: str = "first",
) -> np.ndarray:
    """Gradient of the input of a max pooling.

    Parameters
    ----------
    gradient : ndarray, shape (planes, rows, columns)
    planes : ndarray, shape (planes, height, width)
        The input.
    ties : {"first", "last", "all"}
        Which of equal largest cells get the gradient: one, or every one in full.
    """
    output = (gradient.shape[-2], gradient.shape[-1])
    framed = _framed(planes, kernel, stride, before, output, -np.inf)
    seen = _windows(framed, kernel, stride)
    flat = seen.reshape(*seen.shape[:-2], -1)
    order = flat[..., ::-1] if ties == "last" else flat
    chosen = order.argmax(axis=-1)
    spot = flat.shape[-1] - 1 - chosen if ties == "last" else chosen
    hit = np.zeros(flat.shape)
    np.put_along_axis(hit, spot[..., None], 1.0, axis=-1)
    if ties == "all":
        hit = (flat == flat.max(axis=-1, keepdims=True)).astype(np.float64)
    whole = np.zeros(framed.shape)
    for tap in range(kernel[0] * kernel[1]):
        row, column = divmod(tap, kernel[1])
        rows = slice(row, row + (output[0] - 1) * stride[0] + 1, stride[0])
        columns = slice(column, column + (output[1] - 1) * stride[1] + 1, stride[1])
        whole[..., rows, columns] += hit[..., tap] * gradient
    return _unframed(whole, before, (planes.shape[-2], planes.shape[-1]))


def average_pool_gradient(
    gradient: np.ndarray,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    before: tuple[int, int],
    divisor: str = "window",
) -> np.ndarray:
    """Gradient of the input of an average pooling, shape (..., *size)."""
    output = (gradient.shape[-2], gradient.shape[-1])
    blank = np.ones((1, *size))
    counted = average_pool(blank, kernel, stride, before, output, divisor)
    cells = average_pool(blank, kernel, stride, before, output, "window") * kernel[0] * kernel[1]
    # Each cell of the image gets gradient / divisor; counted = cells of the image / divisor.
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = np.where(cells > 0, counted / cells, 0.0)
    framed = _framed(np.zeros((*gradient.shape[:-2], *size)), kernel, stride, before, output, 0.0)
    for tap in range(kernel[0] * kernel[1]):
        row, column = divmod(tap, kernel[1])
        rows = slice(row, row + (output[0] - 1) * stride[0] + 1, stride[0])
        columns = slice(column, column + (output[1] - 1) * stride[1] + 1, stride[1])
        framed[..., rows, columns] += weight * gradient
    return _unframed(framed, before, size)


def _unframed(whole: np.ndarray, before: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    inner = whole[..., before[0] : before[0] + size[0], before[1] : before[1] + size[1]]
    missing = [(0, 0)] * (inner.ndim - 2)
    missing += [(0, want - have) for want, have in zip(size, inner.shape[-2:], strict=True)]
    return np.asarray(np.pad(inner, missing))
