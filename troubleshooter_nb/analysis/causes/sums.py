"""Sums of products, with a bias or without: formats of the operands, and how often it was added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit
from troubleshooter_nb.analysis.causes.fits import coefficient, misfit, tells_apart
from troubleshooter_nb.metrics.float_formats import FORMATS, HALF_FORMATS, UNIT_FORMATS

_FLOAT16 = FORMATS["float16"].unit_roundoff
_NO_BIAS = {"bias": False, "bias_times": 1.0}


@dataclass(frozen=True)
class Sums:
    """The outputs of a layer that sums products and adds a bias, at sampled places.

    `products` gives them for a format of the operands; `bias` and `output` have their shape. Where
    not `thorough`, the operands are tried as they are stored.
    """

    products: Callable[[str], np.ndarray]
    output: np.ndarray
    bias: np.ndarray | None
    roundoff: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    thorough: bool = True


def sum_fits(sums: Sums) -> Iterator[Fit]:
    """Every format of the operands, and the bias as often as the output holds it."""
    exact = sums.products("exact")
    yield from _bias_fits(sums, exact, {"product_format": "exact", "operand_dtype": "as stored"})
    tried = [exact]
    for name in formats_for(sums.roundoff) if sums.thorough else ():
        rounded = sums.products(name)
        if not all(tells_apart(rounded, other, sums.roundoff) for other in tried):
            continue
        tried.append(rounded)
        unit = name in UNIT_FORMATS
        known = {"product_format": name.partition(" ")[0] if unit else "exact"}
        known |= {"operand_dtype": "as stored" if unit else name}
        yield from _bias_fits(sums, rounded, known)


def formats_for(roundoff: float) -> tuple[str, ...]:
    """Formats of operands, the likelier first: in range, float16 rounds as TF32 does.

    An output stored in float16 comes of float16 operands, one in float32 or bfloat16 of TF32.
    """
    half, stored = roundoff == _FLOAT16, HALF_FORMATS.values()
    return (*stored, *UNIT_FORMATS) if half else (*UNIT_FORMATS, *stored)


def whole_times(times: float) -> float | None:
    """How often something was added: a whole number or the inverse of one; None for no such."""
    if not 1e-3 < times < 5000:
        return None
    whole = float(round(times)) if times > 1 else 1 / round(1 / times)
    return whole if abs(times - whole) < 0.02 * whole else None


def _bias_fits(sums: Sums, product: np.ndarray, settings: Mapping[str, Any]) -> Iterator[Fit]:
    settings = {**sums.settings, **settings}

    def fit(held: Mapping[str, Any], formula: np.ndarray) -> Fit:
        return Fit({**held, **settings}, misfit(sums.output, formula, sums.roundoff))

    if sums.bias is None:
        yield fit(_NO_BIAS, product)
        return
    bias = np.broadcast_to(np.asarray(sums.bias, np.float64), product.shape)
    if not tells_apart(product + bias, product, sums.roundoff):
        # Both, as equal explanations: nobody can say whether it was added.
        yield fit({"bias": True, "bias_times": 1.0}, product + bias)
        yield fit(_NO_BIAS, product + bias)
        return
    found = coefficient(sums.output - product, bias)
    more = whole_times(found) if math.isfinite(found) else None
    for times in {0.0, 1.0} if more is None else {0.0, 1.0, more}:
        held = {"bias": times != 0, "bias_times": times if times else 1.0}
        yield fit(held, product + times * bias)


def without_bias(fit: Fit) -> Fit:
    """The fit of a sum that has no bias: that of a gradient."""
    settings = {k: v for k, v in fit.settings.items() if k not in _NO_BIAS}
    return Fit(settings, fit.residual, fit.uncertainty)
