"""How far the two sides of each row are apart, and how far rounding alone takes them."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.metrics.float_formats import FORMATS
from troubleshooter_nb.metrics.floats import (
    are_exact,
    arithmetic_of,
    dtype_from_token,
    unit_roundoff,
)
from troubleshooter_nb.metrics.noise import ROUNDED_TWICE, NoiseModel, noise_bound
from troubleshooter_nb.render.words import DIFFERING
from troubleshooter_nb.table import Table

_SIDES = ("left", "right")


def errors_of(flow: Flow) -> np.ndarray:
    """Relative L2 error of each row, shape (n,).

    Of fingerprints an estimate, of other statistics one from below; inf where NaN, infinities or
    shapes differ; nan where nothing was compared.
    """
    result = flow.result
    errors = measured_errors(flow).astype(np.float64)
    errors[result["identical"]] = 0.0
    verdicts = result["verdict"]
    unknown = np.isnan(errors) & np.isin(verdicts, (*DIFFERING, "undecidable", "pass", "rounding"))
    rows = np.flatnonzero(unknown)
    errors[rows] = _of_statistics(result, rows)
    _weigh_cancelled(flow, errors)
    _weigh_filled(flow, errors)
    mismatched = (result["nan_mismatch_count"] > 0) | (result["inf_mismatch_count"] > 0)
    errors[mismatched | (verdicts == "shape")] = np.inf
    # Other bits of unknown size; where nothing else was recorded, all that is known is that.
    errors[(result["reason_id"] == "digest_differs") & (verdicts == "differs")] = np.inf
    # Gradients that the frameworks define differently say nothing.
    silent = (
        "defined_differently",
        "nothing_shared",
        "digest_kinds",
        "digest_differs",
        "groups_of_processes",
    )
    errors[np.isin(result["reason_id"], silent) & (verdicts != "differs")] = np.nan
    return errors


def measured_errors(flow: Flow) -> np.ndarray:
    """Relative L2 error of each row, by fingerprints where a side has no values; nan elsewhere."""
    measured, told = (flow.result[name] for name in ("rel_l2_error", "estimated_rel_l2"))
    return np.asarray(np.where(np.isnan(measured), told, measured))


def _weigh_cancelled(flow: Flow, errors: np.ndarray) -> None:
    """Hold the gradient of a bias against that of its weight.

    A sum over what cancels, such as the gradient of a key's bias in attention, is rounding and
    nothing else; its own norm is no measure.
    """
    norms = flow.result["right_l2"]
    weights = {
        (flow.place(row), module): norms[row]
        for row, (module, leaf) in flow.gradient_rows.items()
        if leaf == "weight"
    }
    for row, (module, leaf) in flow.gradient_rows.items():
        if leaf == "bias":
            norm = weights.get((flow.place(row), module), 0.0)
            if norms[row] < norm:
                errors[row] *= norms[row] / norm


def _weigh_filled(flow: Flow, errors: np.ndarray) -> None:
    """Hold what was filled with a number for hidden places against what it was made from.

    The norm of scores of which some are -1e9 is that of these; the others may be anything. Of those
    that are known to differ it is told how much, on average.
    """
    result = flow.result
    for row in np.flatnonzero(result["reason_id"] == "differs_beside_fill"):
        share = result["unequal_count"][row] / math.prod(result["right_shape"][row])
        errors[row] = np.fmax(errors[row], min(result["mean_rel_error"][row] / share, 1.0))
    lows = np.maximum(flow.result["left_min"], flow.result["right_min"])
    sizes = np.fmax(np.abs(flow.result["right_min"]), np.abs(flow.result["right_max"]))
    filled: dict[int, float] = {}
    for node in flow.nodes:
        inputs = [row for row in node.inputs if not flow.is_value[row]]
        for row in inputs:
            if flow.producer.get(row) in filled:
                filled[row] = filled[flow.producer[row]]
        for output in node.outputs if node.direction == "forward" else ():
            if not lows[output] <= thresholds.HIDDEN_SCORE:
                continue
            small = [r for r in inputs if sizes[r] * thresholds.FILLED_BY < -lows[output]]
            sources = [r for r in inputs if r in filled] or small
            known = [filled.get(r, errors[r]) for r in sources if not np.isnan(errors[r])]
            if known:
                filled[output] = max(known)
    for row, error in filled.items():
        errors[row] = np.fmax(errors[row], error)


def _of_statistics(result: Table, rows: np.ndarray) -> np.ndarray:
    """An estimate of the error of rows from below, by how far statistics are apart."""
    left, right = (
        {name: result[f"{side}_{name}"][rows] for name in ("min", "max", "l2")} for side in _SIDES
    )
    low, high = np.abs(right["min"]), np.abs(right["max"])
    largest = np.where(high > low, high, low)
    apart = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        for name, size in (("min", largest), ("max", largest), ("l2", right["l2"])):
            share = np.abs(left[name] - right[name]) / size
            apart = np.fmax(apart, np.where(size > 0, share, np.nan))
    for name in ("nan_count", "inf_count"):
        apart[result[f"left_{name}"][rows] != result[f"right_{name}"][rows]] = np.inf
    return apart


def noise_of(flow: Flow, model: NoiseModel) -> tuple[np.ndarray, np.ndarray]:
    """What rounding explains at most of each row, and what is usual of its operator, shape (n,)."""
    coarse = max(precision_of(flow, side, flow.node_of) for side in _SIDES)
    turning = rows_turning_coarse(flow)
    dtypes = [*flow.result.rows("left_dtype", "right_dtype")]
    known: dict[tuple[Any, ...], tuple[float, float]] = {}

    def bounds(row: int, *kind: Any) -> tuple[float, float]:
        left, right = dtypes[row]
        # Where one side turns coarse, that is the difference; behind it, it is the precision.
        run = 0.0 if row in turning and left == right else coarse
        key = (left, right, *kind, run)
        if key not in known:
            known[key] = _bounds(model, key)
        return known[key]

    found = [(0.0, 0.0)] * flow.count
    # Most are alike.
    of_roots: dict[tuple[Any, bool], tuple[float, float]] = {}
    for row in flow.roots:
        kind_of_root = dtypes[row], row in turning
        if kind_of_root not in of_roots:
            of_roots[kind_of_root] = bounds(row, "", 1, False, True)
        found[row] = of_roots[kind_of_root]
    for node in flow.nodes:
        word = "" if node.children else node.word
        kind = (word, flow.length(node) if word else 1, node.direction == "backward", False)
        for row in node.rows:
            found[row] = bounds(row, *kind)
    bound, typical = np.array(found, np.float64).reshape(-1, 2).T.copy()
    if model.self_noise:
        names = flow.result["right"].tolist()
        floors = np.array([model.self_noise.get(str(name), 0.0) for name in names], np.float64)
        bound, typical = np.maximum(bound, 4.0 * floors), np.maximum(typical, floors)
    steps = _subnormal_steps(flow)
    return bound + 4.0 * steps, typical + steps


def scaled_rows(flow: Flow) -> np.ndarray:
    """Which rows differ by a factor, as rounding leaves none, shape (n,) of bool.

    Rounding has no direction: of many elements the norm changes by much less than each of them.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.abs(flow.result["left_l2"] / flow.result["right_l2"] - 1.0)
    error = flow.result["rel_l2_error"]
    found: np.ndarray = (apart > thresholds.SHARED_FACTOR * error) & (error > 0)
    for row in np.flatnonzero(found).tolist():
        found[row] = math.prod(flow.shape(row)) >= thresholds.FEWEST_OF_FACTOR
    return found


def _subnormal_steps(flow: Flow) -> np.ndarray:
    """Relative error that the smallest step of float16 leaves of small values, shape (n,)."""
    found = np.zeros(flow.count)
    is_float16 = [flow.result[f"{side}_dtype"] == "float16" for side in _SIDES]
    for row in np.flatnonzero(np.logical_or(*is_float16)).tolist():
        norm, size = float(flow.result["right_l2"][row]), math.prod(flow.shape(row))
        if norm > 0 and size:
            found[row] = FORMATS["float16"].smallest / math.sqrt(12.0) * math.sqrt(size) / norm
    return found


def rows_turning_coarse(flow: Flow) -> set[int]:
    """Rows that use the bits of a half format on one side alone, but nothing they came from."""
    bits = [flow.result[f"{side}_significand_bits"] for side in _SIDES]
    found = set()
    for own, other in (bits, bits[::-1]):
        is_half = (own > 1) & (own <= thresholds.HALF_BITS) & (other >= thresholds.FULL_BITS)
        for row in np.flatnonzero(is_half).tolist():
            known = [int(own[source]) for source in _sources(flow, row) if own[source] > 1]
            if known and min(known) >= thresholds.FULL_BITS:
                found.add(row)
    return found


def _sources(flow: Flow, row: int) -> list[int]:
    """Rows that a row was made from, as far as is known."""
    node = flow.node_of.get(row)
    if node is None:
        return []
    if row in node.inputs:
        return [flow.producer[row]] if row in flow.producer else []
    return [*node.inputs, *node.parameters]


def precision_of(flow: Flow, side: str, rows: Collection[int]) -> float:
    """Unit roundoff of the format in which most of these rows were computed on a side.

    Whatever it is stored in: values that passed through bfloat16 and were stored as float32 use 8
    bits of precision.
    """
    bits = flow.result[f"{side}_significand_bits"]
    floats = (bits > 1) & np.isfinite(measured_errors(flow))
    among = np.zeros(flow.count, bool)
    among[list(rows)] = True
    chosen = bits[floats & among]
    if len(chosen) < thresholds.FEWEST_ROWS_OF_PRECISION:
        return _stored_precision(flow.result[f"{side}_dtype"][floats & among])
    return float(2.0 ** -int(np.quantile(chosen, thresholds.ROWS_OF_PRECISION)))


def _stored_precision(dtypes: np.ndarray) -> float:
    """Unit roundoff of the half format that most of a few rows are stored in; else 0.

    What the values use says little of so few; what they are stored in was somebody's choice.
    """
    roundoffs = [unit_roundoff(dtype_from_token(name)) for name in dtypes.tolist()]
    half = [one for one in roundoffs if one >= 2.0**-thresholds.HALF_BITS]
    is_usual = len(half) >= thresholds.ROWS_OF_PRECISION * len(roundoffs)
    return min(half) if half and is_usual else 0.0


def _bounds(model: NoiseModel, key: tuple[Any, ...]) -> tuple[float, float]:
    """What rounding explains at most, and what is usual, of rows alike."""
    left, right, word, length, backward, is_root, coarse = key
    try:
        dtypes = [dtype_from_token(left or right), dtype_from_token(right or left)]
    except (ValueError, TypeError):
        dtypes = [np.dtype(np.float32), np.dtype(np.float32)]
    if are_exact(*dtypes):
        return 0.0, 0.0
    if dtypes[0] != dtypes[1]:
        # A place where one side alone is coarse is a difference, not the precision of the run.
        dtypes = [dtype for dtype in dtypes if unit_roundoff(dtype) <= coarse] or dtypes
        finest = min(dtypes, key=unit_roundoff)
        dtypes = [dtype if unit_roundoff(dtype) <= coarse else finest for dtype in dtypes]
    typical = model.typical(dtypes[0], dtypes[-1], word, length=length, backward=backward)
    if arithmetic_of(dtypes[0]) == "float":
        typical = max(typical, ROUNDED_TWICE * coarse if coarse > 2.0**-23 else 0.0)
    if is_root:
        # Copied, not computed.
        return 4.0 * typical, typical
    return max(noise_bound(dtypes[0], dtypes[-1]).rel_l2, 4.0 * typical), typical
