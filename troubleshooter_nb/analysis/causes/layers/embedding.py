"""What embeddings did: factor, shift of the ids, rows that stay zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import (
    coefficient,
    energies,
    half_width,
    misfit,
    named_factor,
    places,
    ranked,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.operators.embedding import gathered_gradient, look_up
from troubleshooter_nb.thresholds import EMBEDDING_IDS, FEWEST_OUTPUTS

_SHIFTS = (0, 1, -1, 2, -2, 3, -3)


def fit_embedding(operands: Operands) -> list[Fit]:
    """How an embedding made its output.

    Parameters
    ----------
    operands : Operands
        Input: ids; the table (rows, columns) as parameter ``weight`` or as another input.

    Returns
    -------
    list of Fit
        Settings: ``index_shift``, ``embedding_scale`` with ``scale_name`` (``sqrt(768)``),
        ``padding_row`` ("used", or the id whose row is zero in the output and not in the
        table).
    """
    case = _case(operands)
    if case is None:
        return []
    ids, table, output = case
    fits: list[Fit] = []
    zero = _zero_row(ids, table, output)
    for shift in _SHIFTS:
        rows = look_up(table, ids, shift=shift)
        if np.isnan(rows).any():
            continue
        for word, formula in _padded(rows, ids, zero):
            known = {"padding_row": word, "index_shift": shift}
            fits += _scaled(output, formula, known, table.shape[1], operands.roundoff)
    return ranked(fits)


def fit_embedding_gradient(operands: Operands) -> list[Fit]:
    """How the gradient of a table came: inputs grad_output and ids, output grad_weight.

    Returns
    -------
    list of Fit
        Settings: ``padding_gradient`` ("kept", or the id whose row has none),
        ``gradient_factor``.
    """
    if len(operands.inputs) < 2 or operands.output.ndim != 2:
        return []
    gradient, ids = operands.inputs[:2]
    if gradient is None or ids is None or gradient.shape[:-1] != ids.shape:
        return []
    flat, rows = ids.ravel(), len(operands.output)
    if not flat.size or flat.min() < 0 or flat.max() >= rows:
        return []
    sums = gathered_gradient(gradient.reshape(flat.size, -1), flat, rows)
    if sums.shape != operands.output.shape:
        return []
    output = operands.output.astype(np.float64)
    empty = np.flatnonzero(np.any(sums != 0, axis=1) & ~np.any(output != 0, axis=1))
    trials: list[tuple[str, np.ndarray]] = [("kept", sums)]
    if empty.size == 1:
        without = sums.copy()
        without[empty[0]] = 0
        trials.append((Message("evidence.none_for_id", row=empty[0]), without))
    fits: list[Fit] = []
    for word, formula in trials:
        for fit in _scaled(output, formula, {}, 1, operands.roundoff):
            factor = fit.settings["embedding_scale"]
            said = {"padding_gradient": word, "gradient_factor": factor}
            fits.append(Fit(said, fit.residual))
    return ranked(fits)


def _case(operands: Operands) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Some ids (n,), the table, and their output (n, columns)."""
    arrays = [values for values in operands.inputs if values is not None]
    table = operands.parameters.get("weight")
    whole = [values for values in arrays if values.dtype.kind in "iu"]
    if table is None:
        table = next((v for v in arrays if v.dtype.kind == "f" and v.ndim == 2), None)
    if table is None or table.ndim != 2 or not whole:
        return None
    output = operands.output
    ids = next((v for v in whole if output.shape == (*v.shape, table.shape[1])), None)
    if ids is None or output.size < FEWEST_OUTPUTS or len(np.unique(ids)) < 2:
        return None
    flat = ids.ravel()
    if flat.min() < 0 or flat.max() >= len(table):
        return None
    chosen = places(flat.size, EMBEDDING_IDS, energies(operands.apart, (flat.size, -1)))
    rows = output.reshape(flat.size, -1)[chosen].astype(np.float64)
    return flat[chosen], table, rows


def _zero_row(ids: np.ndarray, table: np.ndarray, output: np.ndarray) -> int | None:
    """The only id whose output is zero although its row is not; None where there is none."""
    silent = np.unique(ids[~np.any(output != 0, axis=1)])
    silent = [int(number) for number in silent if np.any(table[int(number)] != 0)]
    heard = len(np.unique(ids)) - len(silent)
    return silent[0] if len(silent) == 1 and heard >= 2 else None


def _padded(rows: np.ndarray, ids: np.ndarray, zero: int | None) -> list[tuple[str, np.ndarray]]:
    ways = [("used", rows)]
    if zero is not None:
        without = rows.copy()
        without[ids == zero] = 0
        ways.append((Message("evidence.zero_for_id", row=zero), without))
    return ways


def _scaled(
    output: np.ndarray, formula: np.ndarray, known: dict[str, Any], size: int, roundoff: float
) -> list[Fit]:
    """The formula as it is, and times the factor that suits best."""
    one = {"embedding_scale": 1.0, "scale_name": "1"}
    fits = [Fit({**known, **one}, misfit(output, formula, roundoff))]
    fitted = coefficient(output, formula)
    if not np.isfinite(fitted) or fitted == 0:
        return fits
    residual = misfit(output, fitted * formula, roundoff)
    width = half_width(fitted, residual, roundoff)
    likely, name = named_factor(fitted, size, max(2 * width / abs(fitted), 1e-5))
    # A factor that leaves most of the output over is none.
    if likely != 1.0 and residual < 0.5:
        named = misfit(output, likely * formula, roundoff)
        said = {"embedding_scale": likely, "scale_name": name}
        fits.append(Fit({**known, **said}, named, {"embedding_scale": width}))
    return fits


FITTERS: dict[str, Fitter] = dict.fromkeys(("embedding", "gather"), fit_embedding)
BACKWARD_FITTERS: dict[str, Fitter] = {}
# Of the parameter instead of the input: output is the gradient of the table.
WEIGHT_FITTERS: dict[str, Fitter] = {"embedding": fit_embedding_gradient}
CAUSES: dict[tuple[str, str], str] = {
    ("", "embedding_scale"): "embedding_scale",
    ("", "padding_row"): "padding_idx_row",
    ("", "padding_gradient"): "padding_idx_row",
    ("", "index_shift"): "position_offset",
}
