"""What dense layers and matrix products did: bias, precision, part of the sum, scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import (
    Sums,
    coefficient,
    energies,
    half_width,
    misfit,
    named_factor,
    noise,
    places,
    ranked,
    spread,
    sum_fits,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.operators.products import block_products, product
from troubleshooter_nb.thresholds import (
    FEWEST_OUTPUTS,
    LONG_SUM,
    PRODUCT_COLUMNS,
    PRODUCT_ITEMS,
    PRODUCT_ROWS,
)

_RANKS = (2, 3, 4, 6, 8, 16, 32)
_STANDARD = {"product_format": "exact", "operand_dtype": "as stored"}


def fit_linear(operands: Operands) -> list[Fit]:
    """How a dense layer computed its output.

    Parameters
    ----------
    operands : Operands
        Inputs: x (..., features) and, without parameters, weight (out, features) and bias (out).

    Returns
    -------
    list of Fit
        Settings: ``bias`` (added at all), ``bias_times``, ``weight`` ("as stored",
        "transposed"), ``product_format``, ``operand_dtype``, ``reduced`` (which part of the sum,
        or how often). What makes no difference to these values is there in every way.
    """
    x, weight = _operand(operands, 0, ""), _operand(operands, 1, "weight")
    bias = _operand(operands, 2, "bias")
    if x is None or weight is None or weight.ndim != 2 or x.ndim < 1:
        return []
    return _fit_dense(operands, x, weight, bias)


def fit_addmm(operands: Operands) -> list[Fit]:
    """As `fit_linear`, of inputs bias, x and the weight as (features, out)."""
    if len(operands.inputs) < 3:
        return []
    bias, x, weight = operands.inputs[:3]
    if x is None or weight is None or weight.ndim != 2:
        return []
    return _fit_dense(operands, x, weight.T, bias)


def fit_matmul(operands: Operands) -> list[Fit]:
    """How a matrix product was computed.

    Parameters
    ----------
    operands : Operands
        Inputs (..., m, k) and (..., k, n); axes in front broadcast.

    Returns
    -------
    list of Fit
        Settings: ``scale``, ``second`` ("as stored", "transposed"), ``product_format``,
        ``operand_dtype``.
    """
    sides = [_operand(operands, 0, ""), _operand(operands, 1, "weight")]
    if any(side is None or side.ndim < 2 for side in sides):
        return []
    fits: list[Fit] = []
    for word, second in _arrangements(sides[1]):
        sample = _sample_batched(sides[0], second, operands)
        if sample is not None:
            fits += _scaled_fits(*sample, operands, {"second": word})
        if not operands.thorough:
            break
    return ranked(fits)


def fit_linear_backward(operands: Operands) -> list[Fit]:
    """How the gradient of a dense layer's input came from that of its output.

    Parameters
    ----------
    operands : Operands
        Inputs: grad_output (..., out), x; parameter weight (out, features); output grad_input.

    Returns
    -------
    list of Fit
        Settings: ``gradient_factor``, ``weight``, ``reduced``, formats.
    """
    gradient, weight = _operand(operands, 0, ""), _operand(operands, 2, "weight")
    if gradient is None or weight is None or weight.ndim != 2:
        return []
    turned = replace(operands, inputs=[gradient], parameters={})
    return _backward_names(_fit_dense(turned, gradient, weight.T, None))


def fit_weight_gradient(operands: Operands) -> list[Fit]:
    """How the gradient of a dense weight (out, features) came from grad_output and x."""
    if len(operands.inputs) < 2 or operands.output.ndim != 2:
        return []
    gradient, x = operands.inputs[:2]
    if gradient is None or x is None or gradient.shape[:-1] != x.shape[:-1]:
        return []
    flat = gradient.reshape(-1, gradient.shape[-1]).T
    return _backward_names(
        _fit_dense(operands, flat, x.reshape(-1, x.shape[-1]).T, None, turn=False)
    )


def fit_matmul_backward(operands: Operands) -> list[Fit]:
    """How the gradient of one factor came: inputs grad_output and both factors."""
    if len(operands.inputs) < 3:
        return []
    gradient, first, second = operands.inputs[:3]
    sides = [side for side in (gradient, first, second) if side is not None and side.ndim >= 2]
    if len(sides) < 3:
        return []
    fits: list[Fit] = []
    pairs = [(sides[0], sides[2].swapaxes(-1, -2)), (sides[1].swapaxes(-1, -2), sides[0])]
    for a, b in pairs:
        sample = _sample_batched(a, b, operands)
        if sample is not None:
            fits += _scaled_fits(*sample, operands, {})
    return ranked(_backward_names(fits))


def _operand(operands: Operands, position: int, name: str) -> np.ndarray | None:
    if name and name in operands.parameters:
        return operands.parameters[name]
    return operands.inputs[position] if len(operands.inputs) > position else None


def _arrangements(weight: np.ndarray | None) -> Iterator[tuple[str, np.ndarray]]:
    if weight is None:
        return
    yield "as stored", weight
    if weight.shape[-1] == weight.shape[-2]:
        turned = weight.swapaxes(-1, -2)
        few = spread(len(weight), 64) if weight.ndim == 2 else slice(None)
        if not np.array_equal(turned[few], weight[few]):
            yield "transposed", turned


def _fit_dense(
    operands: Operands,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    *,
    turn: bool = True,
) -> list[Fit]:
    output = operands.output
    if not x.ndim:
        return []
    features = x.shape[-1]
    if weight.shape[-1] != features or output.shape != (*x.shape[:-1], weight.shape[0]):
        return []
    if bias is not None and bias.shape != (weight.shape[0],):
        bias = None
    fewer = 2 if features > LONG_SUM else 1
    flat = (output.size // len(weight), len(weight))
    rows = places(flat[0], PRODUCT_ROWS // fewer, energies(operands.apart, flat, 0))
    columns = places(flat[1], PRODUCT_COLUMNS // fewer, energies(operands.apart, flat, 1))
    if rows.size * columns.size < FEWEST_OUTPUTS or not features:
        return []
    taken = np.asarray(x.reshape(-1, features)[rows], np.float64)
    target = np.asarray(output.reshape(flat)[rows][:, columns], np.float64)
    picked = None if bias is None else np.asarray(bias[columns], np.float64)
    fits: list[Fit] = []
    turn = turn and operands.thorough
    for word, arranged in list(_arrangements(weight))[: 2 if turn else 1]:
        kernel = np.asarray(arranged[columns], np.float64).T
        sums = _dense_sums(taken, kernel, target, picked, operands)
        settings = {"weight": word, "reduced": "all"}
        found = list(sum_fits(replace(sums, settings=settings)))
        explained = min(fit.residual for fit in found) <= noise(operands, features)
        if word == "as stored" and operands.thorough and not explained:
            found += _partial_fits(taken, kernel, sums)
        fits += found
    return ranked(fits)


def _dense_sums(
    x: np.ndarray, kernel: np.ndarray, y: np.ndarray, bias: np.ndarray | None, given: Operands
) -> Sums:
    def products(name: str) -> np.ndarray:
        return product(x, kernel, operands=name)

    return Sums(products, y, bias, given.roundoff, x.shape[1], thorough=given.thorough)


def _partial_fits(x: np.ndarray, kernel: np.ndarray, sums: Sums) -> Iterator[Fit]:
    """The sum over one rank's part of the features, and the whole sum several times."""
    for ranks in _RANKS:
        if x.shape[1] % ranks or x.shape[1] // ranks < 2:
            continue
        parts = block_products(x, kernel, ranks)
        errors = [misfit(sums.output, part, sums.roundoff) for part in parts]
        if sums.bias is not None:
            with_bias = [misfit(sums.output, part + sums.bias, sums.roundoff) for part in parts]
            errors = [min(pair) for pair in zip(errors, with_bias, strict=True)]
        best = int(np.argmin(errors))
        if errors[best] < 0.5:
            reduced = Message("evidence.part_of", part=best + 1, count=ranks)
            yield from _reduced_fits(sums, parts[best], reduced)
    whole = sums.products("exact")
    for times in _sum_times(whole, sums):
        yield from _reduced_fits(sums, times * whole, Message("evidence.times", times=times))


def _reduced_fits(sums: Sums, sum_: np.ndarray, reduced: str) -> Iterator[Fit]:
    settings = {"weight": "as stored", "reduced": reduced, **_STANDARD}
    if sums.bias is None:
        none = {"bias": False, "bias_times": 1.0, **settings}
        yield Fit(none, misfit(sums.output, sum_, sums.roundoff))
        return
    for held in (False, True):
        residual = misfit(sums.output, sum_ + held * sums.bias, sums.roundoff)
        yield Fit({"bias": held, "bias_times": 1.0, **settings}, residual)


def _sum_times(whole: np.ndarray, sums: Sums) -> list[float]:
    """Whole numbers, or their inverses, of sums that the output holds beside the bias."""
    columns = [whole.ravel()]
    if sums.bias is not None:
        columns.append(np.broadcast_to(sums.bias, whole.shape).ravel())
    matrix = np.stack(columns, axis=1)
    if not (np.isfinite(matrix).all() and np.isfinite(sums.output).all()):
        return []
    times = float(np.linalg.lstsq(matrix, sums.output.ravel(), rcond=None)[0][0])
    if not 1e-3 < times < 5000:
        return []
    likely = float(round(times)) if times > 1 else 1 / round(1 / times)
    return [likely] if likely != 1 and abs(times - likely) < 0.02 * likely else []


def _sample_batched(
    a: np.ndarray | None, b: np.ndarray, operands: Operands
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Some rows, columns and batch items of both factors and the output; float64."""
    output, apart = operands.output, operands.apart
    if a is None or a.shape[-1] != b.shape[-2] or output.ndim < 2:
        return None
    try:
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return None
    if output.shape != (*lead, a.shape[-2], b.shape[-1]):
        return None
    rows = places(a.shape[-2], PRODUCT_ROWS // 2, energies(apart, output.shape, -2))
    columns = places(b.shape[-1], PRODUCT_COLUMNS // 2, energies(apart, output.shape, -1))
    count = int(np.prod(lead, dtype=np.int64))
    items = places(count, PRODUCT_ITEMS, energies(apart, (count, *output.shape[-2:])))
    if items.size * rows.size * columns.size < FEWEST_OUTPUTS or not a.shape[-1]:
        return None
    chosen = np.unravel_index(items, lead) if lead else ()
    first = np.broadcast_to(a, (*lead, *a.shape[-2:]))[chosen][..., rows, :]
    second = np.broadcast_to(b, (*lead, *b.shape[-2:]))[chosen][..., :, columns]
    target = output[chosen][..., rows, :][..., columns]
    return tuple(np.asarray(part, np.float64) for part in (first, second, target))  # type: ignore[return-value]


def _scaled_fits(
    a: np.ndarray, b: np.ndarray, y: np.ndarray, given: Operands, settings: dict[str, Any]
) -> Iterator[Fit]:
    def products(name: str) -> np.ndarray:
        return product(a, b, operands=name)

    size, roundoff = a.shape[-1], given.roundoff
    whole = products("exact")
    fitted = coefficient(y, whole)
    scales = {"1": (1.0, 0.0)}
    if np.isfinite(fitted) and fitted != 0:
        residual = misfit(y, fitted * whole, roundoff)
        width = half_width(fitted, residual, roundoff)
        value, name = named_factor(fitted, size, max(width / abs(fitted), 1e-3))
        scales[name] = (value, width)
    for name, (value, width) in scales.items():
        scaled = _times(value, products)
        sums = Sums(scaled, y, None, roundoff, size, thorough=given.thorough)
        known = {"scale": value, "scale_name": name, **settings}
        for fit in sum_fits(replace(sums, settings=known)):
            kept = {k: v for k, v in fit.settings.items() if not k.startswith("bias")}
            yield Fit(kept, fit.residual, {"scale": width} if width else {})


def _times(factor: float, products: Callable[[str], np.ndarray]) -> Callable[[str], np.ndarray]:
    return lambda name: factor * products(name)


def _backward_names(fits: list[Fit]) -> list[Fit]:
    """Fits of a gradient: how often it is there is a factor, and it has no bias."""
    named = []
    for fit in fits:
        settings = {k: v for k, v in fit.settings.items() if not k.startswith("bias")}
        factor = settings.pop("scale", None)
        name = settings.pop("scale_name", None)
        reduced = settings.get("reduced", "")
        if isinstance(reduced, Message) and reduced.id == "evidence.times":
            name = f"{reduced.values['times']:g}"
            factor, settings["reduced"] = float(name), "all"
        settings = {"gradient_factor": 1.0 if factor is None else factor, **settings}
        named.append(Fit(settings, fit.residual, fit.uncertainty if name else {}))
    return named


FITTERS: dict[str, Fitter] = {
    "linear": fit_linear,
    "dense": fit_linear,
    "addmm": fit_addmm,
    **dict.fromkeys(("matmul", "bmm", "mm", "batchmatmul"), fit_matmul),
}
BACKWARD_FITTERS: dict[str, Fitter] = {
    "linear": fit_linear_backward,
    "dense": fit_linear_backward,
    **dict.fromkeys(("matmul", "bmm", "mm", "batchmatmul"), fit_matmul_backward),
}
# Of the parameter instead of the input: output is the gradient of the weight.
WEIGHT_FITTERS: dict[str, Fitter] = {"linear": fit_weight_gradient, "dense": fit_weight_gradient}
CAUSES: dict[tuple[str, str], str] = {
    ("", "bias"): "bias_missing",
    ("", "bias_times"): "bias_added_per_rank",
    ("", "reduced"): "reduce_missing_or_double",
    ("", "product_format"): "tf32",
    ("", "operand_dtype"): "low_precision_cast",
    ("", "weight"): "linear_transposed",
    ("", "second"): "linear_transposed",
    ("", "scale"): "attention_scale",
}
__all__ = [
    "BACKWARD_FITTERS",
    "CAUSES",
    "FITTERS",
    "WEIGHT_FITTERS",
    "fit_addmm",
    "fit_linear",
    "fit_linear_backward",
    "fit_matmul",
    "fit_matmul_backward",
    "fit_weight_gradient",
]
