"""Statistics and checksums of a tensor as msprobe says them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from troubleshooter_nb.capture.values import crc32_of
from troubleshooter_nb.compat.msprobe.generations import Generation
from troubleshooter_nb.metrics.floats import computable, dtype_from_token

_NONE = {"max": None, "min": None, "mean": None, "l2": None}


def figures_of(
    statistics: Mapping[str, Any], dtype: str, count: int, is_torch: bool, generation: Generation
) -> dict[str, Any]:
    """``max, min, mean, l2`` of a tensor; None where msprobe says nothing.

    Parameters
    ----------
    statistics : mapping
        As `metrics.sketches.statistics_of` gives them.
    dtype : str
        Such as ``float16``; results have its precision.
    count : int
        Elements.
    is_torch : bool
        MindSpore's integers are measured as float32.
    generation : Generation
    """
    if not count or not statistics:
        return dict(_NONE)
    if statistics["nan_count"]:
        return dict.fromkeys(_NONE, math.nan)
    found = {name: statistics[name] for name in _NONE}
    if statistics["inf_count"]:
        found = _with_infinities(found, statistics)
    if count == 1 and math.isfinite(found["max"]):
        found["mean"] = found["l2"] = found["max"]
    return _spelled(found, dtype, is_torch, generation, is_alone=count == 1)


def _with_infinities(found: dict[str, float], statistics: Mapping[str, Any]) -> dict[str, float]:
    positive = statistics.get("posinf_count", statistics["inf_count"])
    negative = statistics["inf_count"] - positive
    highest = math.inf if positive else found["max"]
    lowest = -math.inf if negative else found["min"]
    largest = highest if not math.isnan(highest) else -math.inf
    smallest = lowest if not math.isnan(lowest) else math.inf
    mean = math.nan if positive and negative else math.inf if positive else -math.inf
    return {"max": largest, "min": smallest, "mean": mean, "l2": math.inf}


def _spelled(
    found: dict[str, float], dtype: str, is_torch: bool, generation: Generation, *, is_alone: bool
) -> dict[str, Any]:
    kind = _kind(dtype)
    extremes: dict[str, Any] = {name: found[name] for name in ("max", "min")}
    if kind == "b":
        return {name: bool(value) for name, value in extremes.items()} | {"mean": None, "l2": None}
    if is_torch and (kind in "iu" or dtype == "float64") and not generation.has_wide_means:
        if kind in "iu":
            extremes = {name: int(value) for name, value in extremes.items()}
        alone = extremes["max"] if is_alone else None
        return extremes | {"mean": alone, "l2": alone}
    if kind == "c":
        return {name: float(np.float32(v)) for name, v in found.items()} | {"l2": None}
    precision = dtype if kind == "f" else "float32"
    return {name: _rounded(value, precision) for name, value in found.items()}


def _kind(dtype: str) -> str:
    try:
        found = dtype_from_token(dtype)
    except ValueError:
        return "?"
    return "f" if found.kind == "V" else found.kind


def _rounded(value: float, dtype: str) -> float:
    if dtype == "float32":
        return ctypes.c_float(value).value
    if dtype == "float64":
        return value
    with np.errstate(over="ignore"):
        return float(np.array(value).astype(dtype_from_token(dtype)))


def checksum_of(array: np.ndarray, widens_bfloat16: bool) -> str:
    """The CRC-32 that msprobe calls md5, eight hexadecimal digits."""
    if widens_bfloat16 and array.dtype.name == "bfloat16":
        array = computable(array)
    return f"{crc32_of(array):08x}"
