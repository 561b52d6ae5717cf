"""Resizing: kind of interpolation, coordinates, rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import PLANES
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.law import Choice, Law
from troubleshooter_nb.analysis.causes.sampling import Sample, planes
from troubleshooter_nb.metrics.operators.resizing import (
    COORDINATES,
    CUBIC_CONSTANTS,
    ROUNDINGS,
    cubic_matrix,
    linear_matrix,
    nearest_matrix,
    resized,
)
from troubleshooter_nb.thresholds import FEWEST_OUTPUTS, RESIZING_CELLS, RESIZING_PLANES

_NEAREST = {"resize": "nearest", "coordinate_steps": "exact"}
_FLOOR = {"coordinates": "asymmetric", "rounding": "floor"}
# Every convention, the usual one of two that may agree first.
_WAYS: list[dict[str, Any]] = [
    {**_NEAREST, **_FLOOR},
    {**_NEAREST, **_FLOOR, "coordinate_steps": "float32"},
    *(
        {**_NEAREST, "coordinates": coordinates, "rounding": rounding}
        for coordinates in COORDINATES
        for rounding in ("half up", "half down", "half even", "floor")
        if rounding in ROUNDINGS
    ),
    *({"resize": "linear", "coordinates": one, "antialias": False} for one in COORDINATES),
    {"resize": "linear", "coordinates": "half_pixel", "antialias": True},
    *(
        {"resize": "cubic", "coordinates": coordinates, "cubic_constant": constant}
        for coordinates in COORDINATES
        for constant in CUBIC_CONSTANTS
    ),
]
_Matrices = tuple[np.ndarray, np.ndarray]


def coordinate_rounding(operands: Operands, word: str) -> float:
    """How many times larger rounding becomes by that of coordinates; at least 1.

    A coordinate in the format of the values is off by its own size times their roundoff: by so much
    of the difference to the next element.
    """
    x = operands.inputs[0] if operands.inputs else None
    if word not in RESIZING.words or x is None or x.ndim < 3 or not x.size:
        return 1.0
    taken = planes(operands, operands.inputs[:1], RESIZING_PLANES, RESIZING_CELLS)
    if taken is None:
        return 1.0
    some = np.asarray(taken[0], np.float64)
    with np.errstate(all="ignore"):
        height = float(np.sqrt(np.mean(some**2)))
        steps = [
            size * float(np.sqrt(np.mean(np.diff(some, axis=axis) ** 2)))
            for axis, size in ((1, some.shape[1]), (2, some.shape[2]))
            if size > 1
        ]
    times = max(steps, default=0.0) / math.sqrt(3.0) / height if height else 1.0
    return max(times, 1.0) if math.isfinite(times) else 1.0


def _planes(operands: Operands) -> Iterator[Sample]:
    taken = planes(operands, operands.inputs[:1], RESIZING_PLANES, RESIZING_CELLS)
    if taken is None or len(taken) < 2 or operands.output.size < FEWEST_OUTPUTS:
        return
    x, output = taken
    if x.shape != output.shape and np.ptp(x) > 0:
        yield Sample.of(operands, (x,), output)


def _conventions(sample: Sample) -> Iterator[tuple[dict[str, Any], _Matrices]]:
    """Those that give these sizes other matrices than the ones before."""
    tried: list[_Matrices] = []
    sizes = list(zip(sample.given[0].shape[1:], sample.output.shape[1:], strict=True))
    for settings in _WAYS:
        rows, columns = (_matrix(size, count, settings) for size, count in sizes)
        if not any(np.allclose(rows, r) and np.allclose(columns, c) for r, c in tried):
            tried.append((rows, columns))
            yield settings, (rows, columns)


def _matrix(size: int, output: int, settings: dict[str, Any]) -> np.ndarray:
    coordinates = settings["coordinates"]
    if settings["resize"] == "nearest":
        steps = settings["coordinate_steps"]
        return nearest_matrix(size, output, coordinates, settings["rounding"], steps=steps)
    if settings["resize"] == "cubic":
        return cubic_matrix(size, output, coordinates, settings["cubic_constant"])
    return linear_matrix(size, output, coordinates, antialias=settings["antialias"])


def _formula(sample: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    return resized(sample.given[0], *chosen["resize"])


RESIZING = Law(
    words=(
        *("interpolate", "upsample", "upsamplenearest2d", "upsamplingnearest2d"),
        *("upsamplingbilinear2d", "resizebilinear", "resizenearestneighbor", "resizebicubic"),
        *("resizebilinearv2", "resizelinear1d", "upsamplebilinear2d"),
    ),
    samples=_planes,
    causes=dict.fromkeys(
        (
            *("resize", "coordinates", "rounding", "coordinate_steps", "antialias"),
            "cubic_constant",
        ),
        "resize_convention",
    ),
    choices=(Choice("resize", _conventions),),
    formula=_formula,
    axes=(PLANES,),
)
LAWS = (RESIZING,)
