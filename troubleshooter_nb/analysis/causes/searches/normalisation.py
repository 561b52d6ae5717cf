"""Which normalisation one side computed: axes, centre, statistics, weight, bias and eps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call, Fit, Operands
from troubleshooter_nb.analysis.causes.fits import misfit, ranked
from troubleshooter_nb.analysis.causes.law import Cause, Search
from troubleshooter_nb.analysis.causes.searches.groups import (
    NormOperands,
    Rows,
    Sampling,
    Way,
    brief,
)
from troubleshooter_nb.analysis.causes.searches.stored_statistics import shared_statistics
from troubleshooter_nb.metrics.float_formats import half_format, in_format
from troubleshooter_nb.metrics.operators.normalisation import (
    USUAL_EPS,
    fit_eps,
    normalise,
)


def fit_layernorm(operands: Operands, word: str = "layernorm") -> list[Fit]:
    """Fits of a normalisation along the last axes, with the mean taken off or not.

    Parameters
    ----------
    operands : Operands
        Weight and bias from the parameters, else from the inputs that follow the first.
    word : str
        "layernorm" or "rmsnorm": which of two equal fits is preferred.

    Returns
    -------
    list of Fit
        Settings ``axes`` (counted from the last), ``centred``, ``weight`` and ``bias``
        ("applied", "ignored"; absent where there is none or it does nothing), ``weight_offset``
        (1.0: multiplied by 1 + weight), ``constant_rows`` ("finite", "not finite"; absent where
        no row is constant), ``weight_cast`` ("before", "after" the rounding to 16 bits; absent
        where it makes no difference), ``eps``.
    """
    side = _layer_side(operands, 0)
    return _fits(side, list(_layer_ways(side.x, _trailing(side, operands), word))) if side else []


def fit_layernorm_backward(operands: Operands, word: str = "layernorm") -> list[Fit]:
    """As `fit_layernorm` for the gradient of the input; ``through_statistics`` False: detached."""
    side = _layer_side(operands, 1)
    return _fits(side, list(_layer_ways(side.x, _trailing(side, operands), word))) if side else []


def fit_batchnorm(operands: Operands) -> list[Fit]:
    """Fits of a batch normalisation.

    Beside those of `fit_layernorm`, the setting ``statistics``: "batch" or "running", and ``axes``
    as names: "batch and places", "places", "channels and places". Without running statistics, an
    output that is a multiple of each channel plus a constant has no ``eps``, but ``slopes`` and
    ``offsets``: the root mean square of both over channels. Where the batch explains it as well,
    that comes second: it decides where the other side has the same of both.
    """
    side = _channel_side(operands, 0)
    if side is None:
        return []
    fits = _fits(side, list(_batch_ways(side, "batch")))
    if side.mean is not None and side.variance is not None:
        return fits
    stored = _affine_fits(side)
    by_batch = fits[0].residual if fits else math.inf
    if by_batch <= thresholds.FORMULA_FLOORS * side.roundoff:
        later = [replace(fit, residual=max(fit.residual, by_batch)) for fit in stored]
        return [*fits, *later]
    return [*stored, *fits]


def _affine_fits(side: NormOperands) -> list[Fit]:
    """What stored statistics do, where they are not known; no fit where they do not."""
    x = side.x
    axes = (0, *range(2, x.ndim))
    rows, _ = Sampling(side).rows(Way({}, x.shape, axes), thorough=False)
    if rows is None or rows.x.shape[1] < thresholds.FEWEST_TO_FIT:
        return []
    distance, mean = rows.x - rows.statistics.mean, rows.output.mean(axis=1, keepdims=True)
    spread = np.maximum(np.square(distance).sum(axis=1, keepdims=True), 1e-300)
    scale = (distance * rows.output).sum(axis=1, keepdims=True) / spread
    shift = mean - scale * rows.statistics.mean
    residual = misfit(rows.output, scale * rows.x + shift, side.roundoff)
    # As in every channel of the batch's deviation: something else was done with its statistics.
    near = thresholds.SLOPE_ROUNDOFFS * side.roundoff
    gain = _gain(rows, {})
    ratio = scale * np.sqrt(rows.statistics.variance) / np.where(gain == 0.0, math.inf, gain)
    if not residual <= thresholds.UNLIKE or np.ptp(ratio) <= near * np.abs(ratio).max():
        return []
    sizes = {"slopes": scale, "offsets": shift}
    found = {name: math.sqrt(float(np.square(one).mean())) for name, one in sizes.items()}
    doubted = max(thresholds.AFFINE_DOUBT, 4.0 * side.roundoff)
    height = math.sqrt(float(np.square(rows.output).mean()))
    doubt = {"slopes": doubted * found["slopes"], "offsets": doubted * (found["offsets"] + height)}
    return [Fit({"statistics": "running", "axes": "batch and places", **found}, residual, doubt)]


def fit_batchnorm_backward(operands: Operands) -> list[Fit]:
    """As `fit_batchnorm` for the gradient of the input."""
    side = _channel_side(operands, 1)
    return _fits(side, list(_batch_ways(side, "batch"))) if side else []


def fit_instancenorm(operands: Operands, first: int = 0) -> list[Fit]:
    """As `fit_batchnorm`, statistics of every sample and channel preferred."""
    side = _channel_side(operands, first)
    return _fits(side, list(_batch_ways(side, "places"))) if side else []


def fit_groupnorm(operands: Operands, first: int = 0) -> list[Fit]:
    """Fits of a normalisation over groups of neighbouring channels; setting ``groups``."""
    side = _channel_side(operands, first)
    if side is None:
        return []
    known = operands.known.get("num_groups")
    return _fits(side, list(_group_ways(side.x, known if isinstance(known, int) else 0)))


def cancellation(operands: Operands, word: str) -> float:
    """How many times larger rounding becomes where a norm takes a large mean away; at least 1.

    The root mean square of the first input over that of its distance from the means.
    """
    x = operands.inputs[0]
    if x is None or not x.size or x.ndim < 2 or word == "rmsnorm" or word not in _WORDS:
        return 1.0
    kept = {1} if word in _BATCH else {0, 1} if word != "layernorm" else {*range(x.ndim - 1)}
    axes = tuple(axis for axis in range(x.ndim) if axis not in kept)
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        size = float(np.mean(x**2))
        rest = float(np.mean(x.var(axis=axes)))
        times = math.sqrt(size / rest) if 0 < rest < size else 1.0
    return times if math.isfinite(times) else 1.0


def _parameter(operands: Operands, name: str, position: int, size: int) -> np.ndarray | None:
    """A parameter by name, else the input at its position if it has that many elements."""
    found = operands.parameters.get(name)
    if found is None and 0 < position < len(operands.inputs):
        found = operands.inputs[position]
    return found if found is not None and found.size == size else None


def _recorded_eps(operands: Operands) -> float | None:
    value = operands.known.get("eps", operands.known.get("epsilon"))
    return float(value) if isinstance(value, (int, float)) and value >= 0 else None


def _start(operands: Operands, first: int) -> tuple[np.ndarray, np.ndarray | None] | None:
    """The normalised tensor and, of a backward call, the gradient of its output."""
    given = list(operands.inputs[: first + 1])
    if len(given) <= first or any(
        value is None or value.shape != operands.output.shape for value in given
    ):
        return None
    x = given[first]
    return (x, given[0] if first else None) if x is not None and x.ndim else None


def _layer_side(operands: Operands, first: int) -> NormOperands | None:
    started = _start(operands, first)
    if started is None:
        return None
    x, gradient = started
    sizes = {int(np.prod(x.shape[axis:])) for axis in range(x.ndim)}
    # A functional call: (x, shape, weight, bias), the shape being no tensor or left out.
    rest = [value for value in operands.inputs[first + 1 :] if value is not None]
    rest = [value for value in rest if value.size in sizes and value.shape != x.shape]
    weight = operands.parameters.get("weight", rest[0] if rest else None)
    bias = operands.parameters.get("bias", rest[1] if len(rest) > 1 else None)
    if any(value is not None and value.size not in sizes for value in (weight, bias)):
        return None
    eps, distance4 = _recorded_eps(operands), operands.distance4
    output, roundoff = operands.output, operands.roundoff
    return NormOperands(x, output, gradient, weight, bias, None, None, roundoff, eps, distance4)


def _trailing(side: NormOperands, operands: Operands) -> int:
    """How many of the last axes the layer is said to normalise."""
    for value in (side.weight, side.bias):
        if value is not None and value.shape == side.x.shape[-value.ndim :]:
            return value.ndim
    shape = operands.known.get("normalized_shape")
    return len(shape) if isinstance(shape, (list, tuple)) and len(shape) <= side.x.ndim else 1


def _channel_side(operands: Operands, first: int) -> NormOperands | None:
    started = _start(operands, first)
    if started is None or started[0].ndim < 2:
        return None
    x, gradient = started
    known = [value.size for value in operands.parameters.values() if value.ndim == 1]
    last = bool(known) and x.shape[1] not in known and x.shape[-1] in known
    axis = x.ndim - 1 if last else 1
    form = tuple(x.shape[axis] if i == axis else 1 for i in range(x.ndim))
    order = {"running_mean": 1, "running_var": 2, "weight": 3, "bias": 4}
    if len(operands.inputs) < 5 + first:
        order = {"running_mean": -1, "running_var": -1, "weight": 1, "bias": 2}
    taken = {
        name: _parameter(operands, name, place + first if place > 0 else -1, x.shape[axis])
        for name, place in order.items()
    }
    shaped = {name: v.reshape(form) if v is not None else None for name, v in taken.items()}
    output, distance4 = operands.output, operands.distance4
    if last:  # channels second, as in the other layout
        x, output = np.moveaxis(x, -1, 1), np.moveaxis(output, -1, 1)
        gradient = np.moveaxis(gradient, -1, 1) if gradient is not None else None
        distance4 = np.moveaxis(distance4, -1, 1) if distance4 is not None else None
        shaped = {k: np.moveaxis(v, -1, 1) if v is not None else None for k, v in shaped.items()}
    return NormOperands(
        x=x,
        output=output,
        gradient=gradient,
        weight=shaped["weight"],
        bias=shaped["bias"],
        mean=shaped["running_mean"],
        variance=shaped["running_var"],
        roundoff=operands.roundoff,
        eps=_recorded_eps(operands),
        distance4=distance4,
    )


def _layer_ways(x: np.ndarray, trailing: int, word: str) -> Iterator[Way]:
    """The layer's own axes first, then other last axes, single axes, all but the first."""
    count = x.ndim
    sets = [tuple(range(count - n, count)) for n in (trailing, *range(1, min(count, 4) + 1))]
    sets += [(axis,) for axis in range(min(count, 4))] + [tuple(range(count))[1:]]
    for axes in dict.fromkeys(axes for axes in sets if axes):
        if math.prod(x.shape[axis] for axis in axes) < 2:
            continue
        for centred in (word != "rmsnorm", word == "rmsnorm"):
            settings = {"axes": [axis - count for axis in axes], "centred": centred}
            yield Way(settings, x.shape, axes, centred)


def _batch_ways(side: NormOperands, preferred: str) -> Iterator[Way]:
    x = side.x
    places = tuple(range(2, x.ndim))
    names = {"batch": (0, *places), "places": places, "channels": (1, *places)}
    said = {
        "batch": "batch and places",
        "places": "places",
        "channels": "channels and places",
    }
    for name in sorted(names, key=lambda name: name != preferred):
        if name == "batch" and side.mean is not None and side.variance is not None:
            settings = {"statistics": "running", "axes": said[name]}
            yield Way(settings, x.shape, names[name], stored=True)
        if names[name] and math.prod(x.shape[axis] for axis in names[name]) > 1:
            yield Way({"statistics": "batch", "axes": said[name]}, x.shape, names[name])


def _group_ways(x: np.ndarray, known: int) -> Iterator[Way]:
    channels = x.shape[1]
    numbers = [n for n in range(1, channels + 1) if channels % n == 0]
    usual = [n for n in (known, 32, 16, 8, 4, 2, 1, channels) if n in numbers]
    for groups in list(dict.fromkeys(usual + numbers))[:12]:
        shape = (x.shape[0], groups, channels // groups, *x.shape[2:])
        axes = tuple(range(2, len(shape)))
        if math.prod(shape[2:]) > 1:
            yield Way({"groups": groups}, shape, axes)


def _fits(side: NormOperands, ways: list[Way]) -> list[Fit]:
    """Every way with every use of the parameters: briefly, then the best with many elements."""
    if side.output.size < thresholds.FEWEST_TO_FIT or not np.any(side.output):
        return []
    tried: list[tuple[Fit, Rows, dict[str, Any]]] = []
    sampling = Sampling(side)
    for number, way in enumerate(ways):
        rows, special = sampling.rows(way, thorough=number < thresholds.NORM_OWN_WAYS)
        if rows is None:
            continue
        # The statistics are those of all.
        rows = brief(rows, (thresholds.GROUP_ROWS, thresholds.LAYER_SAMPLE))
        quick = brief(rows, thresholds.GROUPS_FIRST)
        for use in _uses(side, rows, every=number < thresholds.NORM_OWN_WAYS):
            settings = _settings(way, use, special, backward=side.gradient is not None)
            tried.append((_fit(quick, use, settings, side), rows, use))
    tried = [trial for trial in tried if math.isfinite(trial[0].residual)]
    tried.sort(key=lambda trial: trial[0].residual)
    fits = [fit for fit, _, _ in tried]
    for place, (fit, rows, use) in enumerate(tried[: thresholds.NORM_FINALISTS]):
        fits[place] = _fit(rows, use, dict(fit.settings), side)
        if place == 0 and side.gradient is None:
            fits[0] = _cast_order(fits[0], rows, use, side)
    return ranked(fits, side.output.size, side.roundoff, limit=math.inf)


def _settings(
    way: Way, use: dict[str, Any], special: dict[str, str], *, backward: bool
) -> dict[str, Any]:
    said = {key: value for key, value in use.items() if key != "through_statistics" or backward}
    if way.stored:
        said.pop("through_statistics", None)
    return {**way.settings, **special, **said}


def _uses(side: NormOperands, rows: Rows, *, every: bool) -> Iterator[dict[str, Any]]:
    """What may have been done with weight and bias: what a layer should do first."""
    backward = side.gradient is not None
    weights: list[dict[str, Any]] = [{}]
    if rows.weight is not None:
        weights = [{"weight": "applied", "weight_offset": 0.0}]
        weights.append({"weight": "applied", "weight_offset": 1.0})
        if every and not np.all(rows.weight == 1.0):
            weights.append({"weight": "ignored", "weight_offset": 0.0})
    biases: list[dict[str, Any]] = [{}]
    if rows.bias is not None and np.any(rows.bias) and not backward:
        biases = [{"bias": "applied"}, {"bias": "ignored"}][: 2 if every else 1]
    for through in (True, False) if backward else (True,):
        for weight in weights:
            for bias in biases:
                yield {**weight, **bias, "through_statistics": through}


def _gain(rows: Rows, use: dict[str, Any]) -> np.ndarray | float:
    if rows.weight is None or use.get("weight") == "ignored":
        return 1.0
    return rows.weight + float(use.get("weight_offset", 0.0))


def _fit(rows: Rows, use: dict[str, Any], settings: dict[str, Any], side: NormOperands) -> Fit:
    gain = _gain(rows, use)
    size = math.sqrt(float(np.square(rows.output).sum()))
    output, cubic = rows.output, None
    distance = rows.x - rows.statistics.mean
    if rows.gradient is None:
        if rows.bias is not None and use.get("bias", "applied") == "applied":
            output = output - rows.bias
        linear = distance * gain
    else:
        linear = rows.gradient * gain
        if use["through_statistics"] and settings.get("statistics") != "running":
            cubic = -distance * (linear * distance).mean(axis=1, keepdims=True)
            if settings.get("centred", True):
                linear = linear - linear.mean(axis=1, keepdims=True)
    if not size or not np.any(linear):
        return Fit(settings, math.nan)
    found = fit_eps(output, linear, rows.statistics, (1,), side.roundoff, cubic, side.eps)
    if found.eps > max(thresholds.LARGEST_EPS, side.eps or 0.0):
        return Fit(settings, math.nan)
    residual = found.residual * math.sqrt(float(np.square(output).sum())) / size
    return Fit({**settings, "eps": found.eps}, residual, {"eps": found.half_width})


def _cast_order(fit: Fit, rows: Rows, use: dict[str, Any], side: NormOperands) -> Fit:
    """The fit with ``weight_cast``, where rounding before the weight can be told from after."""
    name = half_format(side.roundoff)
    gain = _gain(rows, use)
    if not name or isinstance(gain, float) or not math.isfinite(fit.residual):
        return fit
    bias = rows.bias if rows.bias is not None and use.get("bias") == "applied" else 0.0
    eps = float(fit.settings["eps"])
    trials = [(*_recomputed(rows, gain, bias, near, name), near) for near in _near(fit, eps)]
    late, early = (min(trial[place] for trial in trials) for place in (0, 1))
    best = min(late, early)
    # Where the formula with its roundings is right, few elements are left that differ.
    if best > 0.6 * fit.residual or best > 0.6 * max(late, early):
        return fit
    # "after": the normalised values are cast first and meet the weight afterwards
    order = "before" if late < early else "after"
    eps = min(trials, key=lambda trial: min(trial[:2]))[2]
    settings = {"weight_cast": order, **fit.settings, "eps": eps}
    return replace(fit, settings=settings, residual=best)


def _near(fit: Fit, eps: float) -> list[float]:
    """Values of eps that the fit of a coarse output allows: roundings tell between them."""
    reach = 2.0 * fit.uncertainty["eps"]
    return [eps, *(usual for usual in USUAL_EPS[:6] if abs(usual - eps) <= reach)]


def _recomputed(
    rows: Rows, gain: np.ndarray, bias: np.ndarray | float, eps: float, name: str
) -> tuple[float, float]:
    """Residuals with one rounding at the end, and with one of the values before the weight."""
    rounded = partial(in_format, name=name, overflow=False)
    plain = normalise(rows.x, (1,), eps, statistics=rows.statistics)
    late = misfit(rows.output, rounded(plain * gain + bias))
    product = rounded(rounded(plain) * gain)
    return late, misfit(rows.output, rounded(product + bias))


_BATCH = ("batchnorm", "batchnorm1d", "batchnorm2d", "batchnorm3d", "syncbatchnorm")
_INSTANCE = ("instancenorm", "instancenorm1d", "instancenorm2d", "instancenorm3d")
_WORDS = frozenset(("layernorm", "groupnorm", *_BATCH, *_INSTANCE))
_CAUSES: dict[str, Cause] = {
    "weight_cast": "norm_weight_cast_order",
    "statistics": "eval_train_mode",
    **dict.fromkeys(("axes", "centred", "groups"), "normalised_axes"),
    "constant_rows": "eps_underflow",
    "weight": "bn_gamma_ignored",
    "weight_offset": "norm_weight_plus_one",
    "bias": "bias_missing",
    "through_statistics": "eval_train_mode",
    "eps": "norm_eps",
}
_OF_BATCH: dict[str, Cause] = {**_CAUSES, "eps": "bn_eps"}
_LAYER, _RMS, _GROUP = ("layernorm",), ("rmsnorm",), ("groupnorm",)
_rms, _rms_backward = (
    partial(fit, word="rmsnorm") for fit in (fit_layernorm, fit_layernorm_backward)
)


def _rows(call: Call) -> Iterable[Axes]:
    """Rows of the axes that a layer norm is said to normalise."""
    inputs, parameters = call.taken
    weight = parameters.get("weight", inputs[-1] if len(inputs) > 1 else None)
    shapes = [one.shapes[1] or () for one in (call.outputs[0], *([weight] if weight else []))]
    count = len(shapes[-1]) if shapes[0][-len(shapes[-1]) :] == shapes[-1] != shapes[0] else 1
    own = "columns" if count == 1 else " ".join(f"inner{n}" for n in range(count))
    given = [f"*rows {own}"] * (2 if call.direction == "backward" else 1)
    named = [f"{name}: {own}" for name in ("weight", "bias")]
    yield Axes.of(f"{', '.join([*given, *named])} -> *rows {own}", rows=0)


def _channels(pattern: str, inputs: int = 1, **some: int) -> Axes:
    """Channels of a norm, with what it knows of each."""
    names = ("running_mean", "running_var", "weight", "bias")
    operands = [*[pattern] * inputs, *(f"{name}: channels" for name in names)]
    return Axes.of(f"{', '.join(operands)} -> {pattern}", **some)


_FIRST, _LAST = "items channels *rest", "items *rest channels"
_OF_CHANNELS, _OF_CHANNELS_BACKWARD = (
    tuple(_channels(pattern, count, channels=0) for pattern in (_FIRST, _LAST)) for count in (1, 2)
)
_OF_PLANES, _OF_PLANES_BACKWARD = (
    (_channels(_FIRST, count, items=0, channels=0),) for count in (1, 2)
)
SEARCHES = (
    Search(_LAYER, fit_layernorm, _CAUSES, is_rowwise=True, axes=(_rows,)),
    Search(_LAYER, fit_layernorm_backward, _CAUSES, "backward", is_rowwise=True, axes=(_rows,)),
    Search(_RMS, _rms, _CAUSES, is_rowwise=True, axes=(_rows,)),
    Search(_RMS, _rms_backward, _CAUSES, "backward", is_rowwise=True, axes=(_rows,)),
    Search(_GROUP, fit_groupnorm, _CAUSES),
    Search(_GROUP, partial(fit_groupnorm, first=1), _CAUSES, "backward"),
    Search(_BATCH, fit_batchnorm, _OF_BATCH, axes=_OF_CHANNELS, together=shared_statistics),
    Search(_BATCH, fit_batchnorm_backward, _OF_BATCH, "backward", axes=_OF_CHANNELS_BACKWARD),
    Search(_INSTANCE, fit_instancenorm, _CAUSES, axes=_OF_PLANES),
    Search(
        _INSTANCE,
        partial(fit_instancenorm, first=1),
        _CAUSES,
        "backward",
        axes=_OF_PLANES_BACKWARD,
    ),
)
