"""What poolings did: windows, padding, and what a sum is divided by at the border."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import (
    coefficient,
    energies,
    misfit,
    places,
    ranked,
    tells_apart,
)
from troubleshooter_nb.metrics.operators.pooling import (
    DIVISORS,
    adaptive_average_pool,
    average_pool,
    average_pool_gradient,
    max_pool,
    max_pool_gradient,
)
from troubleshooter_nb.thresholds import FEWEST_OUTPUTS, POOLING_CELLS, POOLING_PLANES

_KERNELS = range(1, 9)


class _Axis(NamedTuple):
    kernel: int
    stride: int
    before: int
    rounding: str


def fit_max_pool(operands: Operands) -> list[Fit]:
    """How a max pooling of one or two axes computed its output.

    Returns
    -------
    list of Fit
        Settings: ``kernel_size``, ``stride``, ``pool_padding`` (cells in front),
        ``last_window`` ("inside", "beyond the end").
    """
    case = _planes(operands)
    if case is None:
        return []

    def pooled(planes: np.ndarray, axes: tuple[_Axis, _Axis], output: tuple[int, int]) -> Any:
        return max_pool(planes, *_sizes(axes), output)

    return ranked(_max_fits(*case, operands, pooled))


def fit_average_pool(operands: Operands) -> list[Fit]:
    """How an average pooling of one or two axes computed its output.

    Returns
    -------
    list of Fit
        As `fit_max_pool`, with ``divisor`` ("window", "padded image", "image") and ``windows``
        ("of one size", "adaptive").
    """
    case = _planes(operands)
    if case is None:
        return []
    planes, target = case
    output = (target.shape[-2], target.shape[-1])
    fits = list(_average_fits(planes, target, output, operands))
    adaptive = adaptive_average_pool(planes, output)
    residual = misfit(target, adaptive, operands.roundoff)
    # Behind: where windows of one size share the image out evenly, the two are one.
    return ranked([*fits, Fit({"windows": "adaptive"}, residual)])


def fit_max_pool_backward(operands: Operands) -> list[Fit]:
    """How the gradient of a max pooling's input came: inputs grad_output and x.

    Returns
    -------
    list of Fit
        Settings: ``ties`` (which of equal largest cells got it), ``gradient_factor``, windows.
    """
    case = _gradient_case(operands)
    if case is None:
        return []
    gradient, planes, target = case
    fits: list[Fit] = []
    for axes in _ways(planes.shape[-2:], gradient.shape[-2:], operands):
        base = max_pool_gradient(gradient, planes, *_sizes(axes))
        settings = {**_said(axes), "ties": "first"}
        fits += _factored(target, base, settings, operands.roundoff)
    best = ranked(fits, 0.9)
    if not best:
        return []
    chosen = _chosen(best[0], planes, gradient, operands)
    for ties in ("last", "all"):
        other = max_pool_gradient(gradient, planes, *_sizes(chosen), ties)
        if tells_apart(other, max_pool_gradient(gradient, planes, *_sizes(chosen)), 0.0):
            settings = {**_said(chosen), "ties": ties}
            fits += _factored(target, other, settings, operands.roundoff)
    return ranked(fits)


def fit_average_pool_backward(operands: Operands) -> list[Fit]:
    """How the gradient of an average pooling's input came: inputs grad_output and x."""
    case = _gradient_case(operands)
    if case is None:
        return []
    gradient, planes, target = case
    size = (planes.shape[-2], planes.shape[-1])
    fits: list[Fit] = []
    for axes in _ways(planes.shape[-2:], gradient.shape[-2:], operands):
        tried: list[np.ndarray] = []
        for divisor in DIVISORS:
            formula = average_pool_gradient(gradient, size, *_sizes(axes), divisor)
            if all(tells_apart(formula, other, 0.0) for other in tried):
                tried.append(formula)
                settings = {**_said(axes), "divisor": divisor}
                fits += _factored(target, formula, settings, operands.roundoff)
    return ranked(fits)


def _planes(operands: Operands) -> tuple[np.ndarray, np.ndarray] | None:
    """Some planes of input and output, shapes (planes, height, width); None where unusable."""
    x, output = (operands.inputs[0] if operands.inputs else None), operands.output
    if x is None or x.ndim not in (3, 4) or output.ndim != x.ndim:
        return None
    if x.shape[:-1] == output.shape[:-1] and x.ndim == 3:
        # One axis of space: (items, channels, length).
        x, output = x[:, :, None], output[:, :, None]
    lead = x.shape[:-2]
    if output.shape[:-2] != lead or not x.size or output.size < FEWEST_OUTPUTS:
        return None
    few = max(1, min(POOLING_PLANES, POOLING_CELLS // max(x.shape[-1] * x.shape[-2], 1)))
    count = int(np.prod(lead, dtype=np.int64))
    chosen = places(count, max(few, 2), energies(operands.apart, (count, -1)))
    planes = x.reshape(-1, *x.shape[-2:])[chosen].astype(np.float64)
    target = output.reshape(-1, *output.shape[-2:])[chosen].astype(np.float64)
    # A constant image pools to itself in every way.
    return None if np.ptp(planes) == 0 else (planes, target)


def _gradient_case(operands: Operands) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    if len(operands.inputs) < 2:
        return None
    gradient, x = operands.inputs[:2]
    if gradient is None or x is None or x.shape != operands.output.shape or x.ndim not in (3, 4):
        return None
    if gradient.ndim != x.ndim:
        return None
    arrays = [gradient, x, operands.output]
    if x.ndim == 3 and gradient.shape[:2] == x.shape[:2]:
        arrays = [values[:, :, None] for values in arrays]
    if arrays[0].shape[:-2] != arrays[1].shape[:-2]:
        return None
    count = int(np.prod(arrays[1].shape[:-2], dtype=np.int64))
    chosen = places(count, POOLING_PLANES, energies(operands.apart, (count, -1)))
    taken = [a.reshape(-1, *a.shape[-2:])[chosen].astype(np.float64) for a in arrays]
    return taken[0], taken[1], taken[2]


def _max_fits(
    planes: np.ndarray,
    target: np.ndarray,
    operands: Operands,
    pooled: Callable[[np.ndarray, tuple[_Axis, _Axis], tuple[int, int]], np.ndarray],
) -> Iterator[Fit]:
    output = (target.shape[-2], target.shape[-1])
    for axes in _ways(planes.shape[-2:], output, operands):
        formula = pooled(planes, axes, output)
        yield Fit(_said(axes), misfit(target, formula, operands.roundoff))


def _average_fits(
    planes: np.ndarray, target: np.ndarray, output: tuple[int, int], operands: Operands
) -> Iterator[Fit]:
    for axes in _ways(planes.shape[-2:], output, operands):
        for divisor in DIVISORS:
            formula = average_pool(planes, *_sizes(axes), output, divisor)
            said = {**_said(axes), "divisor": divisor, "windows": "of one size"}
            yield Fit(said, misfit(target, formula, operands.roundoff))


def _ways(
    image: tuple[int, ...], output: tuple[int, ...], operands: Operands
) -> Iterable[tuple[_Axis, _Axis]]:
    """Windows that give the output's size, alike along both axes where both move."""
    axes = [_axis_ways(*sizes) for sizes in zip(image, output, strict=True)]
    for first, second in itertools.product(*axes):
        thin = image[0] == 1 or max(output) == 1
        even = first.kernel == second.kernel and first.stride == second.stride
        same = (first.rounding == "same") == (second.rounding == "same")
        padded = first.before == second.before or first.rounding == "same"
        if thin or (even and same and padded):
            yield first, second


def _axis_ways(image: int, output: int) -> list[_Axis]:
    """Symmetrical padding first: "same" comes last, and only where it is something else."""
    if image == 1:
        return [_Axis(1, 1, 0, "inside")]
    ways = []
    kernels = [*_KERNELS, *([image] if image not in _KERNELS and output == 1 else [])]
    for kernel in kernels:
        if kernel > image:
            continue
        for stride in range(1, kernel + 1) if output > 1 else (kernel,):
            for before in range(kernel // 2 + 1 if kernel < image else 1):
                room = image + 2 * before - kernel
                if room < 0:
                    continue
                if room // stride + 1 == output:
                    ways.append(_Axis(kernel, stride, before, "inside"))
                elif -(-room // stride) + 1 == output and (output - 1) * stride < image + before:
                    ways.append(_Axis(kernel, stride, before, "beyond the end"))
            total = max((output - 1) * stride + kernel - image, 0)
            if -(-image // stride) == output and total:
                # MindSpore's "same": padding as needed, the odd cell at the end.
                ways.append(_Axis(kernel, stride, total // 2, "same"))
    return ways


def _sizes(axes: tuple[_Axis, _Axis]) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    first, second = axes
    return (
        (first.kernel, second.kernel),
        (first.stride, second.stride),
        (first.before, second.before),
    )


def _said(axes: tuple[_Axis, _Axis]) -> dict[str, Any]:
    kernel, stride, before = _sizes(axes)
    words = {axis.rounding for axis in axes}
    return {
        "kernel_size": f"{kernel[0]}, {kernel[1]}",
        "stride": f"{stride[0]}, {stride[1]}",
        "pool_padding": f"{before[0]}, {before[1]}" + (", same" if "same" in words else ""),
        "last_window": "beyond the end" if words != {"inside"} else "inside",
    }


def _chosen(
    fit: Fit, planes: np.ndarray, gradient: np.ndarray, operands: Operands
) -> tuple[_Axis, _Axis]:
    ways = _ways(planes.shape[-2:], gradient.shape[-2:], operands)
    return next(axes for axes in ways if _said(axes).items() <= fit.settings.items())


def _factored(
    target: np.ndarray, formula: np.ndarray, settings: dict[str, Any], roundoff: float
) -> list[Fit]:
    """The formula as it is and times the factor that suits best."""
    fits = [Fit({**settings, "gradient_factor": 1.0}, misfit(target, formula, roundoff))]
    factor = coefficient(target, formula)
    if np.isfinite(factor) and abs(factor - 1) > 1e-3 and factor != 0:
        residual = misfit(target, factor * formula, roundoff)
        fits.append(Fit({**settings, "gradient_factor": float(f"{factor:.6g}")}, residual))
    return fits


FITTERS: dict[str, Fitter] = {
    **dict.fromkeys(("maxpool1d", "maxpool2d", "maxpool"), fit_max_pool),
    **dict.fromkeys(
        ("avgpool1d", "avgpool2d", "avgpool", "adaptiveavgpool1d", "adaptiveavgpool2d"),
        fit_average_pool,
    ),
}
BACKWARD_FITTERS: dict[str, Fitter] = {
    **dict.fromkeys(("maxpool1d", "maxpool2d", "maxpool"), fit_max_pool_backward),
    **dict.fromkeys(("avgpool1d", "avgpool2d", "avgpool"), fit_average_pool_backward),
}
CAUSES: dict[tuple[str, str], str] = {
    ("", "kernel_size"): "pool_rounding",
    ("", "stride"): "pool_rounding",
    ("", "pool_padding"): "pad_mode",
    ("", "last_window"): "pool_rounding",
    ("", "divisor"): "pool_rounding",
    ("", "windows"): "pool_rounding",
    ("", "ties"): "pool_rounding",
}
