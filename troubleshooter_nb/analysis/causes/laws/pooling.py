"""Poolings: windows, padding, and what a sum is divided by at the border."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.axes import PLANE_GRADIENTS, PLANES
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import factor_fits, tells_apart
from troubleshooter_nb.analysis.causes.law import Cause, Choice, Factor, Law
from troubleshooter_nb.analysis.causes.sampling import Sample, planes
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
_CAUSES: dict[str, Cause] = {
    "kernel_size": "pool_rounding",
    "stride": "pool_rounding",
    "pool_padding": "pad_mode",
    "last_window": "pool_rounding",
    "divisor": "pool_rounding",
    "windows": "pool_rounding",
    "ties": "pool_rounding",
}


class _Axis(NamedTuple):
    kernel: int
    stride: int
    before: int
    rounding: str


class _Windows(NamedTuple):
    """Sizes, strides and cells in front along both axes, as the formulas take them."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    before: tuple[int, int]


_Said = tuple[dict[str, Any], _Windows]


def _planes(operands: Operands) -> Iterator[Sample]:
    """Some planes of input and output, shapes (planes, height, width)."""
    given = operands.inputs[:1]
    if operands.output.size < FEWEST_OUTPUTS or not given:
        return
    taken = planes(operands, given, POOLING_PLANES, POOLING_CELLS)
    # A constant image pools to itself in every way.
    if taken is not None and np.ptp(taken[0]) > 0:
        yield Sample.of(operands, taken[:1], taken[1], image=taken[0].shape, pooled=taken[1].shape)


def _gradients(operands: Operands) -> Iterator[Sample]:
    """Some planes of grad_output, x and grad_input."""
    if len(operands.inputs) < 2:
        return
    taken = planes(operands, operands.inputs[:2], POOLING_PLANES)
    if taken is not None and taken[1].shape == taken[2].shape:
        gradient, x, made = taken
        yield Sample.of(operands, (gradient, x), made, image=x.shape, pooled=gradient.shape)


def _windows(sample: Sample) -> Iterator[_Said]:
    """Windows that give the output's size, alike along both axes where both move."""
    image, output = sample.facts["image"][1:], sample.facts["pooled"][1:]
    axes = [_axis_ways(*sizes) for sizes in zip(image, output, strict=True)]
    for first, second in itertools.product(*axes):
        thin = image[0] == 1 or max(output) == 1
        even = first.kernel == second.kernel and first.stride == second.stride
        same = (first.rounding == "same") == (second.rounding == "same")
        padded = first.before == second.before or first.rounding == "same"
        if thin or (even and same and padded):
            yield _said(first, second)


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


def _said(first: _Axis, second: _Axis) -> _Said:
    sizes = (first.kernel, second.kernel), (first.stride, second.stride)
    windows = _Windows(*sizes, (first.before, second.before))
    words = {first.rounding, second.rounding}
    kernel, stride, before = (f"{one[0]}, {one[1]}" for one in windows)
    return {
        "kernel_size": kernel,
        "stride": stride,
        "pool_padding": before + (", same" if "same" in words else ""),
        "last_window": "beyond the end" if words != {"inside"} else "inside",
    }, windows


def _max_pooled(sample: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    windows: _Windows = chosen["windows"]
    return max_pool(sample.given[0], *windows, _plane(sample.output))


def _plane(values: np.ndarray) -> tuple[int, int]:
    return values.shape[1], values.shape[2]


def _averages(sample: Sample) -> Iterator[tuple[dict[str, Any], Any]]:
    """Windows of one size with every divisor, then adaptive ones, where those are others."""
    is_other = True
    for said, windows in _windows(sample):
        is_other &= not _is_adaptive(sample, windows)
        for divisor in DIVISORS:
            yield {**said, "divisor": divisor, "windows": "of one size"}, (windows, divisor)
    if is_other:
        yield {"windows": "adaptive"}, None


def _is_adaptive(sample: Sample, windows: _Windows) -> bool:
    """Whether windows of one size, cut off at the border, are those of adaptive pooling."""
    sizes = sample.facts["image"][1:], sample.facts["pooled"][1:]
    for image, output, kernel, stride, before in zip(*sizes, *windows, strict=True):
        at = np.arange(output)
        start = at * stride - before
        own = np.maximum(start, 0), np.minimum(start + kernel, image)
        adaptive = at * image // output, -(-(at + 1) * image // output)
        if not all(np.array_equal(*ends) for ends in zip(own, adaptive, strict=True)):
            return False
    return True


def _averaged(sample: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    size = _plane(sample.output)
    if chosen["windows"] is None:
        return adaptive_average_pool(sample.given[0], size)
    windows: _Windows = chosen["windows"][0]
    divisor = chosen["windows"][1]
    return average_pool(sample.given[0], *windows, size, divisor)


def _max_gradient(sample: Sample, chosen: Mapping[str, Any], ties: str = "first") -> np.ndarray:
    (gradient, x), windows = sample.given, chosen["windows"]
    return max_pool_gradient(gradient, x, windows.kernel, windows.stride, windows.before, ties)


def _first_of_ties(sample: Sample) -> Iterator[_Said]:
    return (({**said, "ties": "first"}, windows) for said, windows in _windows(sample))


def _other_ties(best: Fit, sample: Sample) -> Iterator[Fit]:
    """Which of equal largest cells got the gradient, where that makes a difference."""
    if best.residual > 0.9:
        return
    windows = next(w for said, w in _windows(sample) if said.items() <= best.settings.items())
    first = _max_gradient(sample, {"windows": windows})
    for ties in ("last", "all"):
        other = _max_gradient(sample, {"windows": windows}, ties)
        if tells_apart(other, first, 0.0):
            said = {**best.settings, "ties": ties}
            yield from factor_fits(sample.output, other, said, "gradient_factor", sample.roundoff)


def _average_gradients(sample: Sample) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Gradients of all windows and divisors that are not those of an earlier divisor."""
    size = _plane(sample.given[1])
    for said, windows in _windows(sample):
        tried: list[np.ndarray] = []
        for divisor in DIVISORS:
            formula = average_pool_gradient(sample.given[0], size, *windows, divisor)
            if all(tells_apart(formula, other, 0.0) for other in tried):
                tried.append(formula)
                yield {**said, "divisor": divisor}, formula


def _average_gradient(_: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    return np.asarray(chosen["gradient"])


_MAX = ("maxpool1d", "maxpool2d", "maxpool")
_AVERAGE = ("avgpool1d", "avgpool2d", "avgpool")
MAX_POOL = Law(
    words=_MAX,
    samples=_planes,
    causes=_CAUSES,
    choices=(Choice("windows", _windows),),
    formula=_max_pooled,
    axes=(PLANES,),
)
AVERAGE_POOL = Law(
    words=(*_AVERAGE, "adaptiveavgpool1d", "adaptiveavgpool2d"),
    samples=_planes,
    causes=_CAUSES,
    choices=(Choice("windows", _averages),),
    formula=_averaged,
    axes=(PLANES,),
)
MAX_POOL_GRADIENT = Law(
    words=_MAX,
    direction="backward",
    samples=_gradients,
    causes=_CAUSES,
    choices=(Choice("windows", _first_of_ties),),
    formula=_max_gradient,
    factor=Factor("gradient_factor"),
    refine=_other_ties,
    axes=(PLANE_GRADIENTS,),
)
AVERAGE_POOL_GRADIENT = Law(
    words=_AVERAGE,
    direction="backward",
    samples=_gradients,
    causes=_CAUSES,
    choices=(Choice("gradient", _average_gradients),),
    formula=_average_gradient,
    factor=Factor("gradient_factor"),
    axes=(PLANE_GRADIENTS,),
)
LAWS = (MAX_POOL, AVERAGE_POOL, MAX_POOL_GRADIENT, AVERAGE_POOL_GRADIENT)
