"""Dense layers and matrix products: bias, precision, part of the sum, scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import TURNED, Axes
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import likely_factor, misfit, noise
from troubleshooter_nb.analysis.causes.law import Cause, Law
from troubleshooter_nb.analysis.causes.sampling import Sample, product, spread
from troubleshooter_nb.analysis.causes.sums import Sums, sum_fits, whole_times, without_bias
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.operators import products as formulas
from troubleshooter_nb.thresholds import (
    DENSE_COLUMNS,
    LONG_SUM,
    NO_FACTOR,
    PRODUCT_COLUMNS,
    PRODUCT_ITEMS,
    PRODUCT_ROWS,
)

_RANKS = (2, 3, 4, 6, 8, 16, 32)
_CAUSES: dict[str, Cause] = {
    "bias": "bias_missing",
    "bias_times": "bias_added_per_rank",
    "scale": "attention_scale",
    "weight": "linear_transposed",
    "second": "linear_transposed",
    "reduced": "reduce_missing_or_double",
    "product_format": "tf32",
    "operand_dtype": "low_precision_cast",
}


def _operand(operands: Operands, position: int, name: str = "") -> np.ndarray | None:
    if name and name in operands.parameters:
        return operands.parameters[name]
    return operands.inputs[position] if len(operands.inputs) > position else None


def _linear(operands: Operands) -> Iterator[Sample]:
    """X (..., features), weight (out, features) and bias (out), parameters or inputs."""
    x, weight = _operand(operands, 0), _operand(operands, 1, "weight")
    turned = operands.parameters.get(TURNED)
    other = None if turned is None else turned.T
    return _dense(operands, x, weight, _operand(operands, 2, "bias"), other=other)


def _addmm(operands: Operands) -> Iterator[Sample]:
    """bias, x and the weight as (features, out)."""
    bias, x, weight = (_operand(operands, place) for place in range(3))
    return _dense(operands, x, None if weight is None else weight.T, bias)


def _input_gradient(operands: Operands) -> Iterator[Sample]:
    """grad_output (..., out), x and weight (out, features) of grad_input."""
    weight, other = _operand(operands, 2, "weight"), operands.parameters.get(TURNED)
    turned = None if weight is None else weight.T
    return _dense(operands, _operand(operands, 0), turned, None, other=other)


def _weight_gradient(operands: Operands) -> Iterator[Sample]:
    """grad_output (..., out) and x (..., features) of the gradient (out, features)."""
    gradient, x = _operand(operands, 0), _operand(operands, 1)
    if gradient is None or x is None or gradient.shape[:-1] != x.shape[:-1] or not x.ndim:
        return iter(())
    rows, features = (one.reshape(-1, one.shape[-1]).T for one in (gradient, x))
    return _dense(operands, rows, features, None, turns=False)


def _dense(
    operands: Operands,
    x: np.ndarray | None,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    *,
    turns: bool = True,
    other: np.ndarray | None = None,
) -> Iterator[Sample]:
    """Some rows of x (rows, features) and columns of the kernel (features, columns).

    `other`: what the weight is transposed, where stripes of it are there.
    """
    if x is None or weight is None or weight.ndim != 2 or not x.ndim:
        return
    output, distance4, features = operands.output, operands.distance4, x.shape[-1]
    if weight.shape[-1] != features or output.shape != (*x.shape[:-1], weight.shape[0]):
        return
    bias = bias if bias is not None and bias.shape == weight.shape[:1] else None
    fewer = 2 if features > LONG_SUM else 1
    flat = (output.size // len(weight), len(weight)) if len(weight) else (0, 0)
    laid = replace(
        operands,
        output=output.reshape(flat),
        distance4=None if distance4 is None else distance4.reshape(flat),
    )
    counts = (1, PRODUCT_ROWS // fewer, PRODUCT_COLUMNS // fewer)
    for word, arranged in _arrangements(weight, other, turns=turns and operands.thorough):
        taken = product(laid, x.reshape(flat[0], features), arranged.T, counts)
        if taken is None:
            return
        (some, kernel, target), (_, columns) = taken
        picked = None if bias is None else np.asarray(bias[columns], np.float64)
        said = {"weight": word, "reduced": "all"}
        yield Sample.of(operands, (some, kernel), target, said, bias=picked)


def _arrangements(
    weight: np.ndarray, other: np.ndarray | None, *, turns: bool
) -> Iterator[tuple[str, np.ndarray]]:
    yield "as stored", weight
    if turns and other is not None:
        yield "transposed", other
    elif turns and weight.shape[-1] == weight.shape[-2]:
        turned = weight.swapaxes(-1, -2)
        few = spread(len(weight), 64) if weight.ndim == 2 else slice(None)
        if not np.array_equal(turned[few], weight[few]):
            yield "transposed", turned


def _dense_ways(sample: Sample) -> Iterator[Fit]:
    """Formats and bias; where none explains the output, parts of the sum, and several of it."""
    sums = _sums(sample)
    found = list(sum_fits(sums))
    yield from found
    terms = sample.given[0].shape[1]
    explained = min(fit.residual for fit in found) <= noise(sample.roundoff, terms)
    if sample.settings["weight"] == "as stored" and sample.thorough and not explained:
        x, kernel = sample.given
        yield from _partial_fits(x, kernel, sums)


def _sums(sample: Sample, factor: float = 1.0, **settings: Any) -> Sums:
    first, second = sample.given

    def products(name: str) -> np.ndarray:
        return factor * formulas.product(first, second, operands=name)

    return Sums(
        products,
        sample.output,
        sample.facts.get("bias"),
        sample.roundoff,
        {**settings, **sample.settings},
        thorough=sample.thorough,
    )


def _partial_fits(x: np.ndarray, kernel: np.ndarray, sums: Sums) -> Iterator[Fit]:
    """The sum over one rank's part of the features, and the whole sum several times."""
    for ranks in _RANKS:
        if x.shape[1] % ranks or x.shape[1] // ranks < 2:
            continue
        parts = formulas.block_products(x, kernel, ranks)
        errors = [misfit(sums.output, part, sums.roundoff) for part in parts]
        if sums.bias is not None:
            with_bias = [misfit(sums.output, part + sums.bias, sums.roundoff) for part in parts]
            errors = [min(pair) for pair in zip(errors, with_bias, strict=True)]
        best = int(np.argmin(errors))
        if errors[best] < NO_FACTOR:
            reduced = Message("evidence.part_of", part=best + 1, count=ranks)
            yield from _reduced_fits(sums, parts[best], reduced)
    whole = sums.products("exact")
    times = _sum_times(whole, sums)
    if times is not None:
        yield from _reduced_fits(sums, times * whole, Message("evidence.times", times=times))


def _reduced_fits(sums: Sums, made: np.ndarray, reduced: str) -> Iterator[Fit]:
    settings = {**sums.settings, "reduced": reduced}
    one = replace(sums, products=lambda _: made, settings=settings, thorough=False)
    return sum_fits(one)


def _sum_times(whole: np.ndarray, sums: Sums) -> float | None:
    """How often, beside the bias, the output holds the sum, where not once."""
    columns = [whole.ravel()]
    if sums.bias is not None:
        columns.append(np.broadcast_to(sums.bias, whole.shape).ravel())
    matrix = np.stack(columns, axis=1)
    if not (np.isfinite(matrix).all() and np.isfinite(sums.output).all()):
        return None
    found = np.linalg.lstsq(matrix, sums.output.ravel(), rcond=None)[0][0]
    times = whole_times(float(found))
    return None if times == 1 else times


def _matmul(operands: Operands) -> Iterator[Sample]:
    """Both factors (..., m, k) and (..., k, n); axes in front broadcast."""
    first, second = _operand(operands, 0), _operand(operands, 1, "weight")
    if first is None or second is None or first.ndim < 2 or second.ndim < 2:
        return
    turned = operands.parameters.get(TURNED)
    other = None if turned is None else turned.T
    for word, arranged in _arrangements(second, other, turns=operands.thorough):
        yield from _batched(operands, first, arranged, {"second": word})


def _matmul_gradient(operands: Operands) -> Iterator[Sample]:
    """The gradient of one factor: inputs grad_output and both factors."""
    gradient, first, second = (_operand(operands, place) for place in range(3))
    if gradient is None or first is None or second is None:
        return
    if min(gradient.ndim, first.ndim, second.ndim) >= 2:
        yield from _batched(operands, gradient, second.swapaxes(-1, -2), {})
        yield from _batched(operands, first.swapaxes(-1, -2), gradient, {})


def _batched(
    operands: Operands, first: np.ndarray, second: np.ndarray, settings: dict[str, Any]
) -> Iterator[Sample]:
    counts = (PRODUCT_ITEMS, PRODUCT_ROWS // 2, PRODUCT_COLUMNS // 2)
    taken = product(operands, first, second, counts)
    if taken is not None:
        (a, b, target), _ = taken
        yield Sample.of(operands, (a, b), target, settings)


def _scaled_ways(sample: Sample) -> Iterator[Fit]:
    """As it is, and times the factor that suits best, in every format."""
    whole = formulas.product(*sample.given, operands="exact")
    scales: dict[str, tuple[float, float]] = {"1": (1.0, 0.0)}
    size = sample.given[0].shape[-1]
    found = likely_factor(sample.output, whole, sample.roundoff, size, least=1e-3)
    if found is not None:
        scales[found[1]] = found[0], found[2]
    for name, (value, width) in scales.items():
        for fit in sum_fits(_sums(sample, value, scale=value, scale_name=name)):
            yield replace(without_bias(fit), uncertainty={"scale": width} if width else {})


def _of_gradient(
    ways: Callable[[Sample], Iterator[Fit]],
) -> Callable[[Sample], Iterator[Fit]]:
    """Ways of a gradient: how often it is there is a factor, and it has no bias."""

    def named(sample: Sample) -> Iterator[Fit]:
        for fit in map(without_bias, ways(sample)):
            settings = dict(fit.settings)
            factor, _ = settings.pop("scale", 1.0), settings.pop("scale_name", "")
            reduced = settings.get("reduced", "")
            if isinstance(reduced, Message) and reduced.id == "evidence.times":
                factor, settings["reduced"] = float(f"{reduced.values['times']:g}"), "all"
            doubts = dict.fromkeys(("gradient_factor",), fit.uncertainty.get("scale", 0.0))
            yield Fit({"gradient_factor": factor, **settings}, fit.residual, doubts)

    return named


_ROWS = replace(
    Axes.of(
        "*rows features, weight: columns features, bias: columns -> *rows columns",
        columns=DENSE_COLUMNS,
        rows=0,
    ),
    turned="columns",
)
_ADDMM_ROWS = Axes.of(
    "columns, *rows features, features columns -> *rows columns", columns=DENSE_COLUMNS, rows=0
)
_INPUT_GRADIENT = replace(
    Axes.of(
        "*rows columns, *rows features, weight: columns features -> *rows features",
        features=DENSE_COLUMNS,
        rows=0,
    ),
    turned="features",
)
_ENTRIES = Axes.of(
    "*tokens columns, *tokens features -> columns features",
    columns=PRODUCT_COLUMNS,
    features=PRODUCT_COLUMNS,
)
_PRODUCTS = (
    replace(
        Axes.of(
            "*items rows inner, *items inner columns -> *items rows columns",
            items=0,
            rows=0,
            columns=0,
        ),
        turned="columns",
    ),
    replace(
        Axes.of("*rows inner, inner columns -> *rows columns", columns=DENSE_COLUMNS, rows=0),
        turned="columns",
    ),
)
_FACTOR_GRADIENTS = (
    Axes.of(
        "*items rows columns, *items rows features, *items features columns"
        " -> *items rows features",
        items=0,
        rows=0,
        features=0,
    ),
    Axes.of(
        "*items rows columns, *items rows features, *items features columns"
        " -> *items features columns",
        items=0,
        columns=0,
        features=0,
    ),
    Axes.of(
        "*rows columns, *rows features, features columns -> *rows features",
        features=DENSE_COLUMNS,
        rows=0,
    ),
    Axes.of(
        "*tokens columns, *tokens features, features columns -> features columns",
        columns=PRODUCT_COLUMNS,
        features=PRODUCT_COLUMNS,
    ),
)
_DENSE, _MATMULS = ("linear", "dense"), ("matmul", "bmm", "mm", "batchmatmul")
LINEAR = Law(
    words=_DENSE,
    samples=_linear,
    causes=_CAUSES,
    ways=_dense_ways,
    is_rowwise=True,
    plain_first=True,
    axes=(_ROWS,),
)
ADDMM = Law(("addmm",), _addmm, _CAUSES, ways=_dense_ways, plain_first=True, axes=(_ADDMM_ROWS,))
MATMUL = Law(_MATMULS, _matmul, _CAUSES, ways=_scaled_ways, plain_first=True, axes=_PRODUCTS)
LINEAR_GRADIENT = Law(
    words=_DENSE,
    direction="backward",
    samples=_input_gradient,
    causes=_CAUSES,
    ways=_of_gradient(_dense_ways),
    is_rowwise=True,
    plain_first=True,
    axes=(_INPUT_GRADIENT,),
)
MATMUL_GRADIENT = Law(
    words=_MATMULS,
    direction="backward",
    samples=_matmul_gradient,
    causes=_CAUSES,
    ways=_of_gradient(_scaled_ways),
    plain_first=True,
    axes=_FACTOR_GRADIENTS,
)
WEIGHT_GRADIENT = Law(
    words=_DENSE,
    direction="weight",
    samples=_weight_gradient,
    causes=_CAUSES,
    ways=_of_gradient(_dense_ways),
    plain_first=True,
    axes=(_ENTRIES,),
)
LAWS = (LINEAR, ADDMM, MATMUL, LINEAR_GRADIENT, MATMUL_GRADIENT, WEIGHT_GRADIENT)
