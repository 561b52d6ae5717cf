"""What resizing did: kind of interpolation, coordinates, rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import energies, misfit, places, ranked
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


def fit_resize(operands: Operands) -> list[Fit]:
    """How planes were resized.

    Parameters
    ----------
    operands : Operands
        Input and output (items, channels, [height,] width).

    Returns
    -------
    list of Fit
        Settings: ``resize`` ("nearest", "linear", "cubic"), ``coordinates`` ("half_pixel",
        "align_corners", "asymmetric"), ``rounding`` of nearest cells, ``antialias``,
        ``cubic_constant``. Ways that give these sizes the same matrix are one, the first.
    """
    x, output = (operands.inputs[0] if operands.inputs else None), operands.output
    if x is None or x.ndim not in (3, 4) or output.ndim != x.ndim or x.size == 0:
        return []
    if x.ndim == 3:
        x, output = x[:, :, None], output[:, :, None]
    if x.shape[:2] != output.shape[:2] or output.size < FEWEST_OUTPUTS or x.shape == output.shape:
        return []
    cells = x.shape[-1] * x.shape[-2] + output.shape[-1] * output.shape[-2]
    count = x.shape[0] * x.shape[1]
    energy = energies(operands.apart, (count, -1))
    chosen = places(count, max(2, min(RESIZING_PLANES, RESIZING_CELLS // cells)), energy)
    planes = x.reshape(-1, *x.shape[2:])[chosen].astype(np.float64)
    target = output.reshape(-1, *output.shape[2:])[chosen].astype(np.float64)
    if np.ptp(planes) == 0:
        return []
    sizes = (x.shape[2:], output.shape[2:])
    fits = [
        Fit(settings, misfit(target, resized(planes, rows, columns), operands.roundoff))
        for settings, rows, columns in _distinct(*sizes)
    ]
    return ranked(fits)


def _distinct(
    image: tuple[int, ...], output: tuple[int, ...]
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    tried: list[tuple[np.ndarray, np.ndarray]] = []
    for settings in _ways():
        rows, columns = (
            _matrix(size, count, settings) for size, count in zip(image, output, strict=True)
        )
        known = any(np.allclose(rows, r) and np.allclose(columns, c) for r, c in tried)
        if not known:
            tried.append((rows, columns))
            yield settings, rows, columns


def _ways() -> Iterator[dict[str, Any]]:
    """Every convention, the usual one of two that may agree first."""
    yield {"resize": "nearest", "coordinates": "asymmetric", "rounding": "floor"}
    for coordinates in COORDINATES:
        for rounding in ("half up", "half down", "half even", "floor"):
            if rounding in ROUNDINGS:
                yield {"resize": "nearest", "coordinates": coordinates, "rounding": rounding}
    for coordinates in COORDINATES:
        yield {"resize": "linear", "coordinates": coordinates, "antialias": False}
    yield {"resize": "linear", "coordinates": "half_pixel", "antialias": True}
    for coordinates in COORDINATES:
        for constant in CUBIC_CONSTANTS:
            yield {"resize": "cubic", "coordinates": coordinates, "cubic_constant": constant}


def _matrix(size: int, output: int, settings: dict[str, Any]) -> np.ndarray:
    coordinates = settings["coordinates"]
    if settings["resize"] == "nearest":
        return nearest_matrix(size, output, coordinates, settings["rounding"])
    if settings["resize"] == "cubic":
        return cubic_matrix(size, output, coordinates, settings["cubic_constant"])
    return linear_matrix(size, output, coordinates, antialias=settings["antialias"])


FITTERS: dict[str, Fitter] = dict.fromkeys(
    (
        *("interpolate", "upsample", "upsamplenearest2d", "upsamplingnearest2d"),
        *("upsamplingbilinear2d", "resizebilinear", "resizenearestneighbor", "resizebicubic"),
        *("resizebilinearv2", "resizelinear1d", "upsamplebilinear2d"),
    ),
    fit_resize,
)
BACKWARD_FITTERS: dict[str, Fitter] = {}
CAUSES: dict[tuple[str, str], str] = {
    ("", "resize"): "resize_convention",
    ("", "coordinates"): "resize_convention",
    ("", "rounding"): "resize_convention",
    ("", "antialias"): "resize_convention",
    ("", "cubic_constant"): "resize_convention",
}
