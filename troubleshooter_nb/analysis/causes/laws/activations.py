"""Activation functions: which one, its form and its number, and how its derivative was taken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import elements_of
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import best_factor, misfit
from troubleshooter_nb.analysis.causes.law import Cause, Law, Way
from troubleshooter_nb.analysis.causes.sampling import Sample, elements, inputs_like
from troubleshooter_nb.metrics.line_search import least_along
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
# Functions with a number that is fitted.
_WITH_NUMBER = ("leaky_relu", "elu", "softplus")
# Names of the words that are not those of the formulas.
_FUNCTION_OF = {
    "swish": "silu", "leakyrelu": "leaky_relu", "rrelu": "leaky_relu", "prelu": "leaky_relu",
    "fastgelu": "gelu", "hswish": "hardswish", "hsigmoid": "hardsigmoid",
}  # fmt: skip
_CAUSES: dict[str, Cause] = {
    "of_nan": "nan_swallowed",
    "random": "random_in_eval",
    **dict.fromkeys(("function", "times", "form", "slope", "alpha", "beta"), "activation_changed"),
    "derivative": "kernel_fault",
}


def _elements(operands: Operands, count: int) -> Iterator[Sample]:
    """Input and output at some places finite in all; backward: gradient, input and its gradient.

    In `facts`, forward, the same at places that are evenly spread, wherever the sides are apart.
    """
    given = inputs_like(operands, count)
    taken = _finite(operands, given) if given else None
    if taken is None:
        return
    facts, is_forward = dict[str, Any](), count == 1
    if is_forward and operands.thorough:
        facts["even"] = _finite(replace(operands, distance4=None), given)
    said = _of_nan(given[0], operands.output) if is_forward else {"derivative": "at the input"}
    yield Sample.of(operands, *taken, said, **facts)


def _finite(
    operands: Operands, given: list[np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Elements finite in all; None where too few differ."""
    taken = elements(operands, given, ACTIVATION_SAMPLE)
    if taken is None:
        return None
    arrays, output = taken
    finite = np.logical_and.reduce([np.isfinite(values) for values in (*arrays, output)])
    arrays, output = [values[finite] for values in arrays], output[finite]
    if output.size < FEWEST_TO_FIT or not np.any(output):
        return None
    return (arrays, output) if np.unique(arrays[-1][:4096]).size >= FEWEST_TO_FIT else None


def _of_nan(x: np.ndarray, output: np.ndarray) -> dict[str, Any]:
    """What NaN of the input became; {} where there is none, or not one thing of all."""
    if x.dtype.kind != "f" or not np.isnan(x).any():
        return {}
    made = output[np.isnan(x)].astype(np.float64)
    if np.isnan(made).all():
        return {"of_nan": "nan"}
    return {"of_nan": float(made[0])} if (made == made[0]).all() else {}


def _ways(sample: Sample, word: str) -> Iterator[Way | Fit]:
    """All functions, that of the word first; not thorough: that one alone."""
    own = _FUNCTION_OF.get(word, word)
    ways = list(_catalogue(sample, word, "" if sample.thorough else own))
    if sample.thorough or own in _WITH_NUMBER:
        ways += _with_number(sample)
    if sample.thorough:
        ways += _faulty_derivatives(sample)
    ways.sort(key=lambda way: (way.settings["function"] != own, way.settings["times"]))
    yield from ways
    if "even" in sample.facts:
        yield from _random_slopes(sample)


def _catalogue(sample: Sample, word: str, only: str) -> Iterator[Way]:
    """What has no free number, once and twice; of all or one function."""
    x = sample.given[-1]
    for (name, form), function in formulas.CATALOGUE.items():
        if only not in ("", name) or not _reached(name, word, x):
            continue
        said = {"random": False, "function": name, **({"form": form} if form else {})}
        yield Way({**said, "times": 1}, _applied(sample, function))
        if name not in formulas.ONCE_ONLY:
            yield Way({**said, "times": 2}, _applied(sample, _twice(function)))


def _applied(sample: Sample, function: formulas.Function) -> np.ndarray:
    """The output of a function; backward: the gradient of its input."""
    x = sample.given[-1]
    if len(sample.given) == 1:
        return function(x)
    return np.asarray(sample.given[0] * formulas.slope_of(function, x))


def _twice(function: formulas.Function) -> formulas.Function:
    return lambda x: function(function(x))


def _reached(name: str, word: str, x: np.ndarray) -> bool:
    """Whether a function that is cut off is told from the same one without a limit."""
    limit = {"relu6": 6.0, "hardtanh": 1.0}.get(name)
    if word == "relu6" and name == "relu":
        return float(x.max()) > 6.0
    return limit is None or name == word or float(np.abs(x).max()) > limit


def _with_number(sample: Sample) -> Iterator[Way]:
    """Functions with one free number, unless it makes them one of the fixed ones."""
    x, backward = sample.given[-1], len(sample.given) == 2
    below = np.minimum(x, 0.0)
    gradient = sample.given[0] if backward else np.ones_like(x)
    above = np.where(x < 0, 0.0, gradient if backward else x)
    leaky = np.where(x < 0, gradient if backward else x, 0.0)
    exponential = gradient * np.exp(below) if backward else np.expm1(below)
    for function, name, basis in (
        ("leaky_relu", "slope", leaky),
        ("elu", "alpha", np.where(x < 0, exponential, 0.0)),
    ):
        value, width = _number(sample.output[x < 0], basis[x < 0], sample.roundoff)
        # Nothing or all of what lies below zero is another function, as is what rises there.
        if math.isfinite(value) and (value not in (0.0, 1.0) if name == "slope" else value > 0.0):
            said = {"random": False, "function": function, "times": 1, name: value}
            yield Way(said, above + value * basis, {name: width})
    yield _softplus(sample)


def _number(y: np.ndarray, basis: np.ndarray, roundoff: float) -> tuple[float, float]:
    """The factor of the basis that makes y, or the usual number beside it; and its half width."""
    found = best_factor(y, basis, roundoff)
    if found is None:
        return math.nan, math.inf
    value, width, residual = found
    if residual > BEYOND_ROUNDING * roundoff:
        # An inexact kernel: its errors do not average out.
        width += residual * abs(value)
    near = min(_USUAL, key=lambda usual: abs(usual - value))
    return (near if abs(near - value) <= width else value), width


def _softplus(sample: Sample) -> Way:
    """The best beta, searched on a part of the elements."""
    x, y, roundoff = sample.given[-1], sample.output, sample.roundoff

    def formula(beta: float, part: slice = slice(None)) -> np.ndarray:
        if len(sample.given) == 1:
            return formulas.softplus(x[part], beta)
        return np.asarray(sample.given[0][part] * formulas.sigmoid(beta * x[part]))

    few = slice(None, None, -(-x.size // 4096))
    value = least_along(
        lambda beta: misfit(y[few], formula(beta, few)), 0.05, 20.0, steps=60, rounds=20
    )
    slope = float(np.linalg.norm(formula(value * 1.0001) - formula(value))) / (1e-4 * value)
    spread = max(misfit(y, formula(value)), roundoff) * float(np.linalg.norm(y))
    width = 3.0 * spread / (slope * math.sqrt(x.size)) + 1e-4 * value if slope else math.inf
    near = min(_USUAL, key=lambda usual: abs(usual - value))
    value = near if near and abs(near - value) <= width else value
    said = {"random": False, "function": "softplus", "times": 1, "beta": value}
    return Way(said, formula(value), {"beta": width})


def _faulty_derivatives(sample: Sample) -> Iterator[Way]:
    """Derivatives taken at the output instead of the input."""
    if len(sample.given) < 2:
        return
    gradient, x = sample.given
    for (name, form), function in formulas.CATALOGUE.items():
        if name not in formulas.ONCE_ONLY:
            said = {"random": False, "function": name, "times": 1, "derivative": "at the output"}
            wrong = gradient * formulas.slope_of(function, function(x))
            yield Way({**said, **({"form": form} if form else {})}, wrong)
    # f' of an ELU is f + alpha below zero. SeLU of MindSpore 2.10 on CPU takes 1 for alpha.
    wrong = gradient * formulas.SELU_SCALE * np.where(x < 0, formulas.selu(x) + 1.0, 1.0)
    said = {"random": False, "function": "selu", "times": 1, "derivative": "with alpha 1"}
    yield Way(said, wrong)


def _random_slopes(sample: Sample) -> Iterator[Fit]:
    """Slopes below zero that are uniform in a range and have nothing to do with the input.

    The residual is that of the part above zero: below, every element has a slope of its own, so
    nothing is left over. What proves it is the distribution of the slopes. Of an even sample:
    where the sides are furthest apart, slopes are not those of most places.
    """
    if sample.facts["even"] is None:
        return
    ((x,), y), roundoff = sample.facts["even"], sample.roundoff
    below = (x < 0) & (np.abs(x) > 1e-3 * np.abs(x).max())
    slopes = np.divide(y[below], x[below])
    if slopes.size < FEWEST_SLOPES or slopes.min() < 0.0 or slopes.max() > 1.0:
        return
    low, high = float(slopes.min()), float(slopes.max())
    # Of one slope for all, rounding makes a range of two roundoffs of it.
    if high - low < max(0.01, RANDOM_SLOPES_ROUNDOFFS * roundoff * high):
        return
    above = x >= 0
    residual = misfit(y[above], x[above], roundoff) if np.any(y[above]) else 0.0
    if residual > 4.0 * roundoff:
        return
    count = slopes.size
    ranks = (np.sort(slopes) - low) / (high - low)
    distance = float(np.abs(ranks - (np.arange(count) + 0.5) / count).max())
    order = np.argsort(np.argsort(x[below]))
    link = float(np.corrcoef(order, np.argsort(np.argsort(slopes)))[0, 1])
    # Slopes of a smooth function of x are in its order.
    if distance * math.sqrt(count) > UNIFORM_SLOPES or abs(link) * math.sqrt(count) > 4.0:
        return
    said = {"random": True, "function": "rrelu", "times": 1, "low": low, "high": high}
    width = 10.0 * (high - low) / count
    yield Fit({**sample.settings, **said}, residual, {"low": width, "high": width})


def _laws(word: str) -> Iterator[Law]:
    causes: Mapping[str, Cause] = _CAUSES
    if word == "gelu":
        causes = {**_CAUSES, "form": "gelu_variant"}
    for direction, count in (("forward", 1), ("backward", 2)):
        yield Law(
            words=(word,),
            direction=direction,  # type: ignore[arg-type]
            samples=partial(_elements, count=count),
            causes=causes,
            ways=partial(_ways, word=word),
            limit=math.inf,
            is_rowwise=True,
            plain_first=True,
            axes=(elements_of,),
        )


_WORDS = (
    *("relu", "relu6", "gelu", "fastgelu", "silu", "swish", "sigmoid", "logsigmoid", "tanh", "elu"),
    *("selu", "leakyrelu", "rrelu", "prelu", "hardtanh", "hardswish", "hswish", "hardsigmoid"),
    *("hsigmoid", "softplus", "softsign", "mish", "identity"),
)
LAWS = tuple(law for word in _WORDS for law in _laws(word))
