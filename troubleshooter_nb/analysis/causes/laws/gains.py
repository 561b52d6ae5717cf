"""Layers that multiply each feature or channel by a weight and add a bias, and do nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.law import Cause, Choice, Law
from troubleshooter_nb.analysis.causes.sampling import Sample, elements
from troubleshooter_nb.thresholds import ELEMENTWISE_SAMPLE, FEWEST_OUTPUTS

_CAUSES: dict[str, Cause] = {
    "weight": "bn_gamma_ignored",
    "weight_offset": "norm_weight_plus_one",
    "bias": "bias_missing",
}


def _elements(operands: Operands) -> Iterator[Sample]:
    """Some elements of the input, and of weight and bias along the last axis or the channels."""
    x, output = next(iter(operands.inputs), None), operands.output
    known = {name: operands.parameters.get(name) for name in ("weight", "bias")}
    given = {name: values for name, values in known.items() if values is not None}
    if x is None or x.shape != output.shape or output.size < FEWEST_OUTPUTS or not given:
        return
    axis = next((axis for axis in (x.ndim - 1, 1) if _fits(x.shape, axis, given)), None)
    if axis is None:
        return
    form = [x.shape[axis] if one == axis else 1 for one in range(x.ndim)]
    wide = [values.reshape(form) for values in given.values()]
    taken = elements(operands, [x, *wide], ELEMENTWISE_SAMPLE)
    if taken is not None:
        yield Sample.of(operands, *taken, names=tuple(given))


def _fits(shape: tuple[int, ...], axis: int, given: Mapping[str, np.ndarray]) -> bool:
    return axis < len(shape) and all(one.size == shape[axis] for one in given.values())


def _uses(sample: Sample, *, name: str) -> list[tuple[dict[str, Any], Any]]:
    """Ways of using a parameter, the usual first."""
    if name not in sample.facts["names"]:
        return [({}, None)]
    ways: list[tuple[dict[str, Any], Any]] = [({name: "applied"}, 0.0), ({name: "ignored"}, None)]
    if name == "weight":
        return [
            ({name: "applied", "weight_offset": 0.0}, 0.0),
            ({name: "applied", "weight_offset": 1.0}, 1.0),
            ({name: "ignored", "weight_offset": 0.0}, None),
        ]
    return ways


def _formula(sample: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    made = sample.given[0]
    for name, values in zip(sample.facts["names"], sample.given[1:], strict=True):
        if chosen[name] is not None:
            made = made * (values + chosen[name]) if name == "weight" else made + values
    return np.asarray(made)


GAIN = Law(
    words=("gain",),
    samples=_elements,
    causes=_CAUSES,
    choices=tuple(Choice(name, partial(_uses, name=name)) for name in ("weight", "bias")),
    formula=_formula,
)
LAWS = (GAIN,)
