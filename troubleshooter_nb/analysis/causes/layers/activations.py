"""Which activation function one side applied, from its input and output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.ranking import ranked, residual_of
from troubleshooter_nb.analysis.causes.layers.trials import places
from troubleshooter_nb.metrics.operators import activations as formulas
from troubleshooter_nb.thresholds import (
    ACTIVATION_SAMPLE,
    BEYOND_ROUNDING,
    FEWEST_SLOPES,
    FEWEST_TO_FIT,
    RANDOM_SLOPES_ROUNDOFFS,
    UNIFORM_SLOPES,
)

# A fitted number this close to one in use is that one, if the fit allows it.
_USUAL = (0.0, 0.01, 0.02, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0, 2.0, 11.0 / 48.0)
_BETAS = np.geomspace(0.05, 20.0, 60)

# Functions with a number that is fitted.
_WITH_NUMBER = ("leaky_relu", "elu", "softplus")
# Names of the words that are not those of the formulas.
_FUNCTION_OF = {
    "swish": "silu", "leakyrelu": "leaky_relu", "rrelu": "leaky_relu", "prelu": "leaky_relu",
    "fastgelu": "gelu", "hswish": "hardswish", "hsigmoid": "hardsigmoid",
}  # fmt: skip


def fit_activation_backward(operands: Operands, word: str = "") -> list[Fit]:
    """As `fit_activation`, for ``inputs = [grad_output, input]`` and the gradient of the input.

    The setting ``derivative`` is "at the output" where a kernel took f' of f(x) for that of x.
    """
    sample = _backward_sample(operands)
    if sample is None:
        return []
    gradient, x, y = sample
    plain = "" if operands.thorough else _FUNCTION_OF.get(word, word)
    fits = [
        Fit(settings, residual_of(y, gradient * formulas.slope_of(function, x), operands.roundoff))
        for settings, function in _fixed(plain)
        if _reached(str(settings["function"]), word, x)
    ]
    if operands.thorough or plain in _WITH_NUMBER:
        fits += list(_fitted_backward(gradient, x, y, operands.roundoff))
    fits = [replace(fit, settings={**fit.settings, "derivative": "at the input"}) for fit in fits]
    if operands.thorough:
        fits += list(_faulty_backward(gradient, x, y, operands.roundoff))
    return ranked(_preferred(fits, word), y.size, operands.roundoff)


def fit_activation(operands: Operands, word: str = "") -> list[Fit]:
    """The functions of the catalogue by how well they make the output of the input.

    Parameters
    ----------
    operands : Operands
        One input of the output's shape.
    word : str
        What the layer is called: of functions that explain the output equally this one is first.

    Returns
    -------
    list of Fit
        Settings are ``random`` (slopes below zero drawn at random), ``function``, ``times`` (2:
        applied twice) and, where it has one, ``form`` ("erf", "tanh", "sigmoid" of GELU),
        ``slope``, ``alpha`` or ``beta``; where the input has NaN, first ``of_nan``: "nan", or the
        number that all became. Empty for fewer than eight different inputs, and for
        outputs that are zero.
    """
    sample = _forward_sample(operands)
    if sample is None:
        return []
    x, y = sample
    plain = "" if operands.thorough else _FUNCTION_OF.get(word, word)
    fits = [
        Fit(settings, residual_of(y, function(x), operands.roundoff))
        for settings, function in _fixed(plain)
        if _reached(str(settings["function"]), word, x)
    ]
    if operands.thorough or plain in _WITH_NUMBER:
        fits += list(_fitted(x, y, operands.roundoff))
    if operands.thorough:
        fits += list(_random_slopes(operands))
    kept = _of_nan(operands)
    fits = [replace(fit, settings={**kept, **fit.settings}) for fit in fits]
    return ranked(_preferred(fits, word), y.size, operands.roundoff)


def _of_nan(operands: Operands) -> dict[str, object]:
    """What NaN of the input became; {} where there is none, or not one thing of all."""
    x = operands.inputs[0]
    if x is None or not np.isnan(x).any():
        return {}
    made = operands.output[np.isnan(x)].astype(np.float64)
    if np.isnan(made).all():
        return {"of_nan": "nan"}
    return {"of_nan": float(made[0])} if (made == made[0]).all() else {}


def _reached(name: str, word: str, x: np.ndarray) -> bool:
    """Whether a function that is cut off is told from the same one without a limit."""
    limit = {"relu6": 6.0, "hardtanh": 1.0}.get(name)
    if word == "relu6" and name == "relu":
        return float(x.max()) > 6.0
    return limit is None or name == word or float(np.abs(x).max()) > limit


def _preferred(fits: list[Fit], word: str) -> list[Fit]:
    wanted = _FUNCTION_OF.get(word, word)
    return sorted(
        fits, key=lambda fit: (fit.settings["function"] != wanted, fit.settings.get("times", 1))
    )


def _taken(arrays: list[np.ndarray], apart: np.ndarray | None) -> list[np.ndarray] | None:
    """The arrays flat, at places finite in all, at most a sample; None where too few differ."""
    flat = [np.ravel(array) for array in arrays]
    chosen = places(flat[0].size, ACTIVATION_SAMPLE, None if apart is None else apart.ravel())
    taken = [values[chosen].astype(np.float64) for values in flat]
    finite = np.logical_and.reduce([np.isfinite(values) for values in taken])
    taken = [values[finite] for values in taken]
    if taken[0].size < FEWEST_TO_FIT or not np.any(taken[-1]):
        return None
    return taken


def _forward_sample(operands: Operands) -> tuple[np.ndarray, np.ndarray] | None:
    x = operands.inputs[0] if operands.inputs else None
    if x is None or x.shape != operands.output.shape:
        return None
    taken = _taken([x, operands.output], operands.apart)
    if taken is None or np.unique(taken[0][:4096]).size < FEWEST_TO_FIT:
        return None
    return taken[0], taken[1]


def _backward_sample(
    operands: Operands,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    given = list(operands.inputs[:2])
    if len(given) < 2 or any(v is None or v.shape != operands.output.shape for v in given):
        return None
    arrays = [v for v in given if v is not None] + [operands.output]
    taken = _taken(arrays, operands.apart)
    if taken is None or np.unique(taken[1][:4096]).size < FEWEST_TO_FIT:
        return None
    return taken[0], taken[1], taken[2]


def _fixed(only: str = "") -> Iterator[tuple[dict[str, object], formulas.Function]]:
    """Settings and formula of what has no free number, once and twice; of all or one function."""
    for (name, form), function in formulas.CATALOGUE.items():
        if only not in ("", name):
            continue
        settings: dict[str, object] = {"random": False, "function": name, "times": 1}
        if form:
            settings["form"] = form
        yield settings, function
        if name not in formulas.ONCE_ONLY:
            yield settings | {"times": 2}, _twice(function)


def _twice(function: formulas.Function) -> formulas.Function:
    return lambda x: function(function(x))


def _number(value: float, width: float) -> float:
    """The usual number inside the width, the value itself where there is none."""
    near = min(_USUAL, key=lambda usual: abs(usual - value))
    return near if abs(near - value) <= width else value


def _factor(y: np.ndarray, basis: np.ndarray, roundoff: float) -> tuple[float, float]:
    """The factor of the basis that makes y, and three standard errors of it."""
    energy = float(basis @ basis)
    if not energy:
        return math.nan, math.inf
    value = float(basis @ y) / energy
    error = y - value * basis
    spread = math.sqrt(float(error @ error) / y.size) if y.size else 0.0
    rounding = roundoff * math.sqrt(float(y @ y) / y.size)
    width = 3.0 * max(spread, rounding) / math.sqrt(energy) + roundoff * abs(value)
    if (
        rounding and spread > BEYOND_ROUNDING * rounding
    ):  # an inexact kernel: its errors do not average out
        width += spread / rounding * roundoff * abs(value)
    return value, width


def _fitted(x: np.ndarray, y: np.ndarray, roundoff: float) -> Iterator[Fit]:
    """Functions with one free number, unless it makes them one of the fixed ones."""
    below = x < 0
    slope, width = _factor(y[below], x[below], roundoff)
    value = _number(slope, width)
    if math.isfinite(value) and value not in (0.0, 1.0):
        settings = {"random": False, "function": "leaky_relu", "times": 1, "slope": value}
        residual = residual_of(y, formulas.leaky_relu(x, value), roundoff)
        yield Fit(settings, residual, {"slope": width})
    alpha, width = _factor(y[below], np.expm1(x[below]), roundoff)
    value = _number(alpha, width)
    if math.isfinite(value) and value > 0.0:
        settings = {"random": False, "function": "elu", "times": 1, "alpha": value}
        yield Fit(settings, residual_of(y, formulas.elu(x, value), roundoff), {"alpha": width})
    yield _softplus(x, y, roundoff)


def _fitted_backward(
    gradient: np.ndarray, x: np.ndarray, y: np.ndarray, roundoff: float
) -> Iterator[Fit]:
    below = x < 0
    slope, width = _factor(y[below], gradient[below], roundoff)
    value = _number(slope, width)
    above = np.where(below, 0.0, gradient)
    if math.isfinite(value) and value not in (0.0, 1.0):
        settings = {"random": False, "function": "leaky_relu", "times": 1, "slope": value}
        residual = residual_of(y, above + np.where(below, value * gradient, 0.0), roundoff)
        yield Fit(settings, residual, {"slope": width})
    basis = np.where(below, gradient * np.exp(np.minimum(x, 0.0)), 0.0)
    alpha, width = _factor(y[below], basis[below], roundoff)
    value = _number(alpha, width)
    if math.isfinite(value) and value > 0.0:
        settings = {"random": False, "function": "elu", "times": 1, "alpha": value}
        yield Fit(settings, residual_of(y, above + value * basis, roundoff), {"alpha": width})
    yield _softplus(x, y, roundoff, gradient)


def _faulty_backward(
    gradient: np.ndarray, x: np.ndarray, y: np.ndarray, roundoff: float
) -> Iterator[Fit]:
    """Derivatives taken at the output instead of the input."""
    for (name, form), function in formulas.CATALOGUE.items():
        if name in formulas.ONCE_ONLY:
            continue
        settings: dict[str, object] = {"random": False, "function": name, "times": 1}
        if form:
            settings["form"] = form
        wrong = gradient * formulas.slope_of(function, function(x))
        yield Fit(settings | {"derivative": "at the output"}, residual_of(y, wrong, roundoff))
    # f' of an ELU is f + alpha below zero. SeLU of MindSpore 2.10 on CPU takes 1 for alpha.
    scale = formulas.SELU_SCALE
    wrong = gradient * scale * np.where(x < 0, formulas.selu(x) + 1.0, 1.0)
    settings = {"random": False, "function": "selu", "times": 1}
    yield Fit(settings | {"derivative": "with alpha 1"}, residual_of(y, wrong, roundoff))


def _softplus(
    x: np.ndarray, y: np.ndarray, roundoff: float, gradient: np.ndarray | None = None
) -> Fit:
    """The best beta, searched over its logarithm on a part of the elements."""

    def formula(beta: float, part: slice = slice(None)) -> np.ndarray:
        if gradient is None:
            return formulas.softplus(x[part], beta)
        return np.asarray(gradient[part] * formulas.sigmoid(beta * x[part]))

    few = slice(None, None, -(-x.size // 4096))
    betas = _BETAS
    for _ in range(6):
        errors = np.array([residual_of(y[few], formula(float(beta), few), 0.0) for beta in betas])
        best = int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))
        low, high = betas[max(best - 1, 0)], betas[min(best + 1, betas.size - 1)]
        betas = np.geomspace(low, high, 9)
    value = float(betas[4])
    slope = float(np.linalg.norm(formula(value * 1.0001) - formula(value))) / (1e-4 * value)
    spread = max(residual_of(y, formula(value), 0.0), roundoff) * float(np.linalg.norm(y))
    width = 3.0 * spread / (slope * math.sqrt(x.size)) + 1e-4 * value if slope else math.inf
    value = _number(value, width) or value
    settings = {"random": False, "function": "softplus", "times": 1, "beta": value}
    return Fit(settings, residual_of(y, formula(value), roundoff), {"beta": width})


def _random_slopes(operands: Operands) -> Iterator[Fit]:
    """Slopes below zero that are uniform in a range and have nothing to do with the input.

    The residual is that of the part above zero: below, every element has a slope of its own, so
    nothing is left over. What proves it is the distribution of the slopes.
    """
    # Of an even sample: where the sides are furthest apart, slopes are not those of most places.
    sample = _forward_sample(replace(operands, apart=None))
    if sample is None:
        return
    (x, y), roundoff = sample, operands.roundoff
    below = (x < 0) & (np.abs(x) > 1e-3 * np.abs(x).max())
    slopes = np.divide(y[below], x[below])
    if slopes.size < FEWEST_SLOPES or slopes.min() < 0.0 or slopes.max() > 1.0:
        return
    low, high = float(slopes.min()), float(slopes.max())
    # Of one slope for all, rounding makes a range of two roundoffs of it.
    if high - low < max(0.01, RANDOM_SLOPES_ROUNDOFFS * roundoff * high):
        return
    above = x >= 0
    if np.any(above) and residual_of(y[above], x[above], roundoff) > 4.0 * roundoff:
        return
    count = slopes.size
    places = (np.sort(slopes) - low) / (high - low)
    distance = float(np.abs(places - (np.arange(count) + 0.5) / count).max())
    order = np.argsort(np.argsort(x[below]))
    link = float(np.corrcoef(order, np.argsort(np.argsort(slopes)))[0, 1])
    # Slopes of a smooth function of x are in its order.
    if distance * math.sqrt(count) > UNIFORM_SLOPES or abs(link) * math.sqrt(count) > 4.0:
        return
    settings = {"random": True, "function": "rrelu", "times": 1, "low": low, "high": high}
    width = 10.0 * (high - low) / count
    residual = residual_of(y[above], x[above], roundoff) if np.any(y[above]) else 0.0
    yield Fit(settings, residual, {"low": width, "high": width})


_WORDS = (
    *("relu", "relu6", "gelu", "fastgelu", "silu", "swish", "sigmoid", "logsigmoid", "tanh", "elu"),
    *("selu", "leakyrelu", "rrelu", "prelu", "hardtanh", "hardswish", "hswish", "hardsigmoid"),
    *("hsigmoid", "softplus", "softsign", "mish", "identity"),
)
FITTERS: dict[str, Fitter] = {word: partial(fit_activation, word=word) for word in _WORDS}
BACKWARD_FITTERS: dict[str, Fitter] = {
    word: partial(fit_activation_backward, word=word) for word in _WORDS
}
CAUSES: dict[tuple[str, str], str] = {
    ("", "of_nan"): "nan_swallowed",
    ("", "random"): "random_in_eval",
    ("gelu", "form"): "gelu_variant",
    ("", "function"): "activation_changed",
    ("", "times"): "activation_changed",
    ("", "slope"): "activation_changed",
    ("", "alpha"): "activation_changed",
    ("", "beta"): "activation_changed",
    ("", "form"): "activation_changed",
    ("", "derivative"): "kernel_fault",
}
