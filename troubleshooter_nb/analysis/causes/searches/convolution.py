"""What convolutions did: padding, stride, dilation, bias, precision, order of the kernel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call, Fit, Operands, TensorPair
from troubleshooter_nb.analysis.causes.fits import coefficient, misfit, ranked
from troubleshooter_nb.analysis.causes.law import Cause, Search
from troubleshooter_nb.analysis.causes.parts import Part, part_of
from troubleshooter_nb.analysis.causes.sampling import energies, places, spread
from troubleshooter_nb.analysis.causes.sums import Sums, sum_fits, without_bias
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import in_format
from troubleshooter_nb.metrics.operators.convolution import (
    Geometry,
    Places,
    bordered,
    convolve_windows,
    stuffed,
    transposed_kernel,
    windows_at,
)
from troubleshooter_nb.thresholds import (
    CONVOLUTION_BORDERED,
    CONVOLUTION_CHANNELS,
    CONVOLUTION_GEOMETRIES,
    CONVOLUTION_ITEMS,
    CONVOLUTION_LINES,
    FEWEST_LINES,
    FEWEST_OUTPUTS,
    LONG_WINDOW,
    OTHER_KERNEL,
    SAME_SUM,
    UNLIKE,
)

# What is known of both sides whose images are cut off: the whole sizes of the image and the output.
WHOLE_SIZES = "whole_sizes"
_STRIDES = (1, 2, 3, 4)
_DILATIONS = (1, 2, 3, 4)
_SIDES = {"before": "more in front", "after": "more at the end", "even": "even"}
_MODES = ("zeros", "reflect", "replicate", "circular")


@dataclass(frozen=True)
class _Case:
    """A convolution at sampled places.

    Images (items, channels, height, width), kernels (outputs, channels of a group, rows,
    columns), target (places, outputs).
    """

    images: np.ndarray
    margin: tuple[int, int]
    places: Places
    kernels: np.ndarray
    group: np.ndarray
    target: np.ndarray
    bias: np.ndarray | None
    roundoff: float
    thorough: bool

    def windows(self, geometry: Geometry) -> np.ndarray:
        taps = (self.kernels.shape[2], self.kernels.shape[3])
        return windows_at(self.images, self.places, taps, geometry, self.margin)


_Rated = tuple[_Case, Geometry, dict[str, Any], float]


@dataclass(frozen=True)
class _Arrays:
    """A call with two axes of space: x and output (items, channels, height, width).

    `distance4` as in `Operands`, in the shape of the output.
    """

    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    output: np.ndarray
    distance4: np.ndarray | None
    roundoff: float
    thorough: bool

    def places(self, axis: int, count: int) -> np.ndarray:
        """Some places of an axis of the output, those furthest apart among them."""
        energy = energies(self.distance4, self.output.shape, axis)
        return places(self.output.shape[axis], count, energy)


def fit_convolution(operands: Operands) -> list[Fit]:
    """How a convolution of one or two axes computed its output.

    Parameters
    ----------
    operands : Operands
        Inputs: x (items, channels, [height,] width); weight and bias as parameters or the
        inputs behind. MindSpore's one-dimensional kernel may have its extra axis.

    Returns
    -------
    list of Fit
        Settings: ``padding`` (rows and columns in all), ``padding_side`` (which end has more),
        ``stride``, ``dilation``, ``padding_mode``, ``kernel`` ("as stored", "flipped", ...),
        ``bias``, ``bias_times``, ``product_format``, ``operand_dtype``.
    """
    arrays = _arrays(operands)
    if arrays is None:
        return []
    weight = arrays.weight
    image, output = operands.known.get(WHOLE_SIZES, (arrays.x.shape[2:], arrays.output.shape[2:]))
    groups, odd = divmod(arrays.x.shape[1], weight.shape[1])
    if odd or not groups or weight.shape[0] % groups or arrays.output.shape[1] != weight.shape[0]:
        return []
    trials: list[_Rated] = []
    for word, kernels in _kernel_orders(weight):
        case = _sampled(arrays, kernels, groups)
        if case is None:
            return []
        ways = _geometries(image, kernels.shape[2:], output, operands.known)
        trials += _search(case, ways, {"kernel": word})
        if not arrays.thorough or min((trial[3] for trial in trials), default=1.0) < OTHER_KERNEL:
            break
    trials.sort(key=lambda trial: trial[3])
    if arrays.thorough and trials and trials[0][3] >= UNLIKE:
        # In small images another border is most of the sum: any geometry may be the layer's.
        trials = sorted([*_bordered(_to_border(trials)), *trials], key=lambda t: t[3])
    return _finished(trials[:3], image, output)


def fit_transposed_convolution(operands: Operands) -> list[Fit]:
    """As `fit_convolution`, of a transposed one; weight (in, out of a group, rows, columns)."""
    arrays = _arrays(operands)
    if arrays is None:
        return []
    weight = arrays.weight
    groups, odd = divmod(arrays.output.shape[1], weight.shape[1])
    if odd or not groups or arrays.x.shape[1] != weight.shape[0] or weight.shape[0] % groups:
        return []
    found: list[_Rated] = []
    flipped = weight[..., ::-1, ::-1]
    for word, kernel in (("as stored", weight), ("flipped", flipped)):
        found += _transposed_trials(replace(arrays, weight=kernel), groups, word)
        if not arrays.thorough or min((trial[3] for trial in found), default=1.0) < UNLIKE:
            break
    found.sort(key=lambda trial: trial[3])
    return _finished(found[:3], None, None)


def fit_convolution_backward(operands: Operands) -> list[Fit]:
    """How the gradient of a convolution's input came from that of its output.

    Parameters
    ----------
    operands : Operands
        Inputs: grad_output, x, [weight]; the output is grad_input.
    """
    weight = operands.parameters.get("weight")
    inputs = list(operands.inputs)
    if weight is None and len(inputs) > 2:
        weight = inputs[2]
    if weight is None or not inputs or inputs[0] is None:
        return []
    turned = replace(operands, inputs=[inputs[0]], parameters={"weight": weight})
    fits = fit_transposed_convolution(turned)
    return [without_bias(fit) for fit in fits]


def _arrays(operands: Operands) -> _Arrays | None:
    """What the call was given and gave, with two axes of space each."""
    inputs = [*operands.inputs, None, None, None]
    x = inputs[0]
    weight = operands.parameters.get("weight", inputs[1])
    bias = operands.parameters.get("bias", inputs[2])
    output = operands.output
    if x is None or weight is None or x.ndim not in (3, 4) or output.ndim != x.ndim:
        return None
    if x.ndim == 3:
        x, output = x[:, :, None], output[:, :, None]
        weight = weight[:, :, None] if weight.ndim == 3 else weight
    if weight.ndim != 4 or not (x.size and output.size and weight.size):
        return None
    bias = bias if bias is None or bias.ndim == 1 else None
    return _Arrays(
        x, weight, bias, output, operands.distance4, operands.roundoff, operands.thorough
    )


def _kernel_orders(weight: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "as stored", weight
    if weight.shape[2:] == (1, 1):
        if weight.shape[0] == weight.shape[1]:
            yield "in and out swapped", weight.swapaxes(0, 1)
        return
    yield "flipped", weight[..., ::-1, ::-1]
    if weight.shape[2] == weight.shape[3]:
        yield "rows and columns swapped", weight.swapaxes(2, 3)
    if weight.shape[0] == weight.shape[1]:
        yield "in and out swapped", weight.swapaxes(0, 1)


def _sampled(
    arrays: _Arrays, kernels: np.ndarray, groups: int, reach: tuple[int, int] | None = None
) -> _Case | None:
    """Some lines, columns, channels and items; borders are always among them."""
    outputs, _, height, width = kernels.shape
    output, bias = arrays.output, arrays.bias
    # Of long sums fewer prove as much, and rounding them in every format is what costs.
    long = kernels[0].size > LONG_WINDOW
    items = arrays.places(0, 1 if long else CONVOLUTION_ITEMS)
    lines = CONVOLUTION_LINES // 2 if long else CONVOLUTION_LINES
    rows, columns = (_with_ends(arrays.places(axis, lines), output.shape[axis]) for axis in (2, 3))
    channels = arrays.places(1, CONVOLUTION_CHANNELS)
    grid = np.meshgrid(np.arange(len(items)), rows, columns, indexing="ij")
    seen = Places(*(axis.ravel() for axis in grid))
    if len(seen.row) * len(channels) < FEWEST_OUTPUTS:
        return None
    item, row, column = items[seen.item], seen.row, seen.column
    taken = output[item[:, None], channels, row[:, None], column[:, None]]
    margin = reach or (max(_DILATIONS) * (height - 1), max(_DILATIONS) * (width - 1))
    # Windows of the last places may end behind the image by a stride more than it is padded.
    margin = (margin[0] + max(*_STRIDES, height), margin[1] + max(*_STRIDES, width))
    return _Case(
        bordered(arrays.x[items], margin),
        margin,
        seen,
        np.asarray(kernels[channels], np.float64),
        channels // (outputs // groups),
        np.asarray(taken, np.float64),
        None if bias is None else np.asarray(bias[channels], np.float64),
        arrays.roundoff,
        arrays.thorough,
    )


def _with_ends(chosen: np.ndarray, size: int) -> np.ndarray:
    """Places of an axis and those at its ends, where padding shows."""
    ends = (spread(min(size, 2), 2), np.array([size - 1]))
    return np.asarray(np.unique(np.concatenate([chosen, *ends])))


def _geometries(
    image: tuple[int, ...], taps: tuple[int, ...], output: tuple[int, ...], known: Any
) -> list[Geometry]:
    """Ways to slide a kernel that give the output's size."""
    axes = [list(_axis_ways(*sizes)) for sizes in zip(image, taps, output, strict=True)]
    ways = []
    for first, second in itertools.product(*axes):
        # Equal strides and dilations along both axes, but for kernels and images one thick.
        thick = [axis for axis in (0, 1) if taps[axis] > 1]
        if len(thick) == 2 and (first[:2] != second[:2]):
            continue
        moving = min(image) > 1 and min(output) > 1
        if moving and first[0] != second[0]:
            continue
        ways.append(Geometry(*zip(first, second, strict=True)))
    ways.sort(key=lambda way: (way.dilation, way.stride, abs(way.before[0] - way.before[1])))
    stride = _pair(known.get("stride")) if known else None
    likely = [way for way in ways if stride is None or way.stride == stride]
    return likely or ways


def _axis_ways(image: int, taps: int, output: int) -> Iterator[tuple[int, int, int]]:
    """Stride, dilation, zeros in front that give `output` windows."""
    for dilation in _DILATIONS if taps > 1 else (1,):
        reach = dilation * (taps - 1)
        # Of a single window, the stride cannot be told.
        for stride in sorted({*_STRIDES, taps}) if output > 1 else (1,):
            for before in range(reach + 1):
                after = (output - 1) * stride + reach + 1 - image - before
                if -stride < after <= reach:
                    yield stride, dilation, before


def _pair(value: Any) -> tuple[int, int] | None:
    if isinstance(value, int):
        return value, value
    if isinstance(value, (tuple, list)) and value and all(isinstance(n, int) for n in value):
        return value[-2] if len(value) > 1 else value[0], value[-1]
    return None


def _search(case: _Case, ways: list[Geometry], said: dict[str, Any]) -> list[_Rated]:
    """Rough residuals, by growing dilation until one is the layer's."""
    rated: list[_Rated] = []
    for _, group in itertools.groupby(ways, key=lambda way: way.dilation):
        rated += [
            (case, way, said, _rough(case, way)) for way in list(group)[:CONVOLUTION_GEOMETRIES]
        ]
        if min(trial[3] for trial in rated) < UNLIKE:
            break
    return rated


def _best_geometries(
    trials: Iterable[tuple[_Case, Geometry, dict[str, Any]]], count: int = 3
) -> list[_Rated]:
    """The likeliest geometries by a rough residual that leaves the bias open."""
    rated = [(*trial, _rough(trial[0], trial[1])) for trial in trials]
    rated.sort(key=lambda trial: trial[3])
    return rated[:count]


def _rough(case: _Case, geometry: Geometry) -> float:
    few = spread(len(case.kernels), 4)
    narrow = replace(case, kernels=case.kernels[few], group=case.group[few])
    sums = convolve_windows(narrow.windows(geometry), narrow.kernels, narrow.group)
    target = case.target[:, few]
    if case.bias is not None:
        bias = np.broadcast_to(case.bias[few], sums.shape)
        times = coefficient(target - sums, bias)
        sums = sums + (times if np.isfinite(times) else 0.0) * bias
    return misfit(target, sums, case.roundoff)


def _finished(
    best: list[_Rated],
    image: tuple[int, ...] | None,
    output: tuple[int, ...] | None,
) -> list[Fit]:
    """The likeliest geometries in full, the first with every format and border."""
    fits: list[Fit] = []
    for number, (case, geometry, settings, _) in enumerate(best):
        taps = case.kernels.shape[2:]
        sizes = None if image is None or output is None else (image, taps, output)
        said = {**_padding_settings(geometry, sizes), **settings}
        windows = case.windows(geometry)
        found = list(sum_fits(replace(_sums(case, windows), settings=said)))
        fits += found if number == 0 else [min(found, key=lambda fit: fit.residual)]
        known_border = "padding_mode" in settings or not max(geometry.before)
        if number == 0 and sizes is not None and case.thorough and not known_border:
            fits += _other_borders(case, geometry, said)
    return _plainest_first(ranked(fits))


def _plainest_first(fits: list[Fit]) -> list[Fit]:
    """Fits by residual; of those that are one and the same sum, the plainest geometry first.

    In a small image with a circular border the kernel turned round and spread is the kernel as it
    is, up to the order of a sum.
    """
    same = fits[0].residual * SAME_SUM if fits else 0.0

    def effort(fit: Fit) -> tuple[bool, bool, int]:
        if fit.residual > same:
            return True, False, 0  # sorted stably: the order of residuals stays
        spread = str(fit.settings.get("dilation", "1")).split(", ")
        return False, fit.settings.get("kernel") != "as stored", sum(map(int, spread))

    return sorted(fits, key=effort)


def _sums(case: _Case, windows: np.ndarray) -> Sums:
    def products(name: str) -> np.ndarray:
        seen, kernels = in_format(windows, name), in_format(case.kernels, name)
        return convolve_windows(seen, kernels, case.group)

    return Sums(products, case.target, case.bias, case.roundoff, thorough=case.thorough)


def _other_borders(case: _Case, geometry: Geometry, said: dict[str, Any]) -> Iterator[Fit]:
    """The same with another content of the padding than zeros."""
    for mode, other in _borders(case):
        sums = _sums(other, other.windows(geometry))
        yield min(
            (_with_setting(fit, "padding_mode", mode) for fit in _exact_fits(sums, said)),
            key=lambda fit: fit.residual,
        )


def _borders(case: _Case) -> Iterator[tuple[str, _Case]]:
    """The case with every content of the padding but zeros."""
    (up, left), (height, width) = case.margin, case.images.shape[2:]
    inner = case.images[:, :, up : height - up, left : width - left]
    for mode in _MODES[1:]:
        if mode == "reflect" and min(inner.shape[2:]) < 2:
            continue
        yield mode, replace(case, images=bordered(inner, case.margin, mode))


def _to_border(trials: list[_Rated]) -> list[_Rated]:
    """The likeliest with a border of zeros, and the plainest: zeros may be far from the border."""
    plain = [trial for trial in trials[CONVOLUTION_BORDERED:] if _is_plain(trial)]
    return trials[:CONVOLUTION_BORDERED] + plain[:CONVOLUTION_BORDERED]


def _is_plain(trial: _Rated) -> bool:
    """Whether the kernel is as stored, and padded by half its reach."""
    case, geometry, said, _ = trial
    reach = [size - 1 for size in case.kernels.shape[2:]]
    steps = zip(geometry.before, reach, geometry.dilation, strict=True)
    return said["kernel"] == "as stored" and all(2 * b == r * d for b, r, d in steps)


def _bordered(trials: list[_Rated]) -> Iterator[_Rated]:
    """Trials again, with other contents of their padding."""
    cases: dict[int, list[tuple[str, _Case]]] = {}
    for case, geometry, said, _ in trials:
        if max(geometry.before):
            for mode, other in cases.setdefault(id(case), list(_borders(case))):
                yield other, geometry, {**said, "padding_mode": mode}, _rough(other, geometry)


def _exact_fits(sums: Sums, said: dict[str, Any]) -> list[Fit]:
    """Fits of the sums as they are, with settings said in front."""
    product = sums.products("exact")
    exact = replace(sums, products=lambda name: product, settings=said)
    return list(sum_fits(exact))


def _with_setting(fit: Fit, name: str, value: Any) -> Fit:
    """The fit with one setting changed."""
    return replace(fit, settings={**fit.settings, name: value})


def _padding_settings(
    geometry: Geometry, sizes: tuple[tuple[int, ...], ...] | None
) -> dict[str, Any]:
    if sizes is None:
        return _plain_settings(geometry)
    totals, sides = [], []
    for axis, (image, taps, output) in enumerate(zip(*sizes, strict=True)):
        stride, before = geometry.stride[axis], geometry.before[axis]
        reach = geometry.dilation[axis] * (taps - 1)
        after = max((output - 1) * stride + reach + 1 - image - before, 0)
        totals.append(before + after)
        sides.append((before > after) - (before < after))
    side = "after" if min(sides) < 0 else "before" if max(sides) > 0 else "even"
    # Windows that are further apart need another padding, not the other way round.
    return {
        **_plain_settings(geometry),
        "padding": Message("evidence.rows_columns", rows=totals[0], columns=totals[1]),
        "padding_side": _SIDES[side],
        "padding_before": f"{geometry.before[0]}, {geometry.before[1]}",
        "padding_mode": "zeros",
    }


def _plain_settings(geometry: Geometry) -> dict[str, Any]:
    return {
        "stride": f"{geometry.stride[0]}, {geometry.stride[1]}",
        "dilation": f"{geometry.dilation[0]}, {geometry.dilation[1]}",
    }


def _transposed_trials(arrays: _Arrays, groups: int, word: str) -> list[_Rated]:
    """Strides, and what is cut off in front, of a transposed convolution."""
    kernels = transposed_kernel(arrays.weight, groups)
    few = _few_items(arrays)
    x, output = few.x, few.output
    trials = []
    for stride in _transposed_strides(x.shape[2:], arrays.weight.shape[2:], output.shape[2:]):
        spaced = stuffed(x, stride)
        reach = (kernels.shape[2] - 1, kernels.shape[3] - 1)
        sizes = list(zip(output.shape[2:], spaced.shape[2:], reach, strict=True))
        extra = [max(out - given, 0) + more for out, given, more in sizes]
        case = _sampled(replace(few, x=spaced), kernels, groups, (extra[0], extra[1]))
        if case is None:
            return []
        for cut in itertools.product(*(range(size) for size in kernels.shape[2:])):
            geometry = Geometry(before=(reach[0] - cut[0], reach[1] - cut[1]))
            # Less than nothing is cut off where the output is padded itself.
            behind = [
                given + more - off - out for (out, given, more), off in zip(sizes, cut, strict=True)
            ]
            said = {
                "stride": f"{stride[0]}, {stride[1]}",
                "padding": Message("evidence.cut_in_front", rows=cut[0], columns=cut[1]),
                "padding_behind": Message("evidence.cut_behind", rows=behind[0], columns=behind[1]),
                "kernel": word,
            }
            trials.append((case, geometry, said))
    return _best_geometries(trials)


def _few_items(arrays: _Arrays) -> _Arrays:
    items = arrays.places(0, CONVOLUTION_ITEMS)
    distance4 = arrays.distance4
    if distance4 is not None:
        distance4 = distance4.reshape(arrays.output.shape)[items]
    return replace(arrays, x=arrays.x[items], output=arrays.output[items], distance4=distance4)


def _transposed_strides(
    image: tuple[int, ...], taps: tuple[int, ...], output: tuple[int, ...]
) -> list[tuple[int, int]]:
    axes = []
    for size, tap, out in zip(image, taps, output, strict=True):
        ways = []
        for stride in (1, *_STRIDES[1:], 8):
            full = (size - 1) * stride + tap
            if size == 1 or full - 2 * (tap - 1) <= out < full + stride:
                ways.append(stride)
        axes.append(ways[:1] if size == 1 else ways)
    pairs = [pair for pair in itertools.product(*axes) if pair[0] == pair[1] or min(image) == 1]
    return [(int(rows), int(columns)) for rows, columns in pairs]


_CAUSES: dict[str, Cause] = {
    "bias": "bias_missing",
    "bias_times": "bias_added_per_rank",
    "stride": "argument_order",
    "dilation": "argument_order",
    "padding": "pad_mode",
    "padding_side": "same_padding_side",
    "padding_behind": "pad_mode",
    "padding_mode": "pad_mode",
    "kernel": "conv_axes_permuted",
    "product_format": "tf32",
    "operand_dtype": "low_precision_cast",
}


def _planes(call: Call) -> Iterator[Axes]:
    """Items, and channels of the output with their kernels; of several groups whole ones."""
    inputs, parameters = call.taken
    weight = parameters.get("weight", inputs[1] if len(inputs) > 1 else None)
    shapes = [None if one is None else one.shapes[1] for one in (inputs[0], weight)]
    if not shapes[0] or not shapes[1] or len(shapes[0]) < 3 or len(shapes[1]) < 3:
        return
    groups = max(shapes[0][1] // shapes[1][1], 1)
    if groups == 1:
        text = "items inner *space, weight: channels inner *taps, bias: channels"
        yield Axes.of(f"{text} -> items channels *made", items=0, channels=0)
        return
    text = "items (groups inner) *space, weight: (groups each) inner *taps, bias: (groups each)"
    axes = Axes.of(f"{text} -> items (groups each) *made", items=0, groups=0)
    yield replace(axes, sizes={"groups": groups})


def _corner(call: Call) -> Iterator[Part]:
    """The first lines and columns of an item of an image that is too large, and some channels.

    All windows of these lie inside what is read, however they slide; how the other end is padded
    follows from the whole sizes.
    """
    inputs, parameters = call.taken
    x, output, weight = inputs[0], call.outputs[0], parameters.get("weight")
    shapes = [() if one is None else one.shapes[1] or () for one in (x, weight, output)]
    if weight is None or weight.is_large or {*map(len, shapes)} != {4}:
        return
    (_, inner, *image), (channels, _, *taps), (items, _, *made) = shapes
    side = math.isqrt(thresholds.LARGEST_READ // (2 * max(inner, channels)))
    cuts = [_cut_off(*sizes, side) for sizes in zip(image, taps, made, strict=True)]
    if x.shapes[0] != x.shapes[1] or not items or min(count for _, count in cuts) < FEWEST_LINES:
        return
    worst = np.unravel_index(max(int(output.figures.get("max_abs_index", 0)), 0), shapes[2])
    item = np.array([worst[0]])
    seen, kept = ([np.arange(cut[n]) for cut in cuts] for n in (0, 1))
    few = call.taking(
        part_of(output, [item, None, *kept]),
        [part_of(x, [item, None, *seen]), *inputs[1:]],
        parameters,
    )
    known = {WHOLE_SIZES: (tuple(image), tuple(made))}
    settings = tuple({**one, **known} for one in call.settings)
    is_telling = all(at < count for at, (_, count) in zip(worst[2:], cuts, strict=True))
    cut = [
        (name, count, n)
        for name, count, n in (
            ("items", 1, items),
            ("lines", cuts[0][1], made[0]),
            ("columns", cuts[1][1], made[1]),
        )
        if count < n
    ]
    yield Part(
        replace(few, settings=(settings[0], settings[1])),
        tuple(cut),
        is_telling or _is_even(output),
    )


def _is_even(output: TensorPair) -> bool:
    """Whether the error is as large at most places."""
    largest, size = (output.figures.get(name, math.nan) for name in ("max_abs_error", "rmse"))
    return bool(largest <= thresholds.SPREAD_PEAK * size)


def _cut_off(image: int, taps: int, made: int, most: int) -> tuple[int, int]:
    """Of one axis: places of the image that are read, and of the output that they make."""
    reach = max(_DILATIONS) * (taps - 1)
    seen = min(image, most)
    # The image ends at most this far before or behind the last window.
    stride = -(-(image + 2 * reach) // max(made - 1, 1))
    return (image, made) if seen == image else (seen, max((seen - reach - 1) // stride + 1, 0))


_PLAIN = ("conv1d", "conv2d")
CONVOLUTION = Search(
    words=_PLAIN,
    fit=fit_convolution,
    causes=_CAUSES,
    plain_first=True,
    axes=(_planes,),
    parts=_corner,
)
CONVOLUTION_GRADIENT = Search(
    words=_PLAIN,
    fit=fit_convolution_backward,
    causes=_CAUSES,
    direction="backward",
    plain_first=True,
    axes=(
        Axes.of(
            "items outer *made, items channels *space, weight: outer channels *taps"
            " -> items channels *space",
            items=0,
            channels=0,
        ),
    ),
)
TRANSPOSED_CONVOLUTION = Search(
    words=("convtranspose1d", "convtranspose2d", "conv1dtranspose", "conv2dtranspose"),
    fit=fit_transposed_convolution,
    causes=_CAUSES,
    plain_first=True,
    axes=(
        Axes.of(
            "items inner *space, weight: inner channels *taps, bias: channels"
            " -> items channels *made",
            items=0,
            channels=0,
        ),
    ),
)
SEARCHES = (CONVOLUTION, CONVOLUTION_GRADIENT, TRANSPOSED_CONVOLUTION)
