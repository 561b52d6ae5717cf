"""What recurrent layers did: order of gates, place of the reset, biases."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.case import Fit, Fitter, Operands
from troubleshooter_nb.analysis.causes.layers.trials import (
    energies,
    misfit,
    places,
    ranked,
    tells_apart,
)
from troubleshooter_nb.metrics.operators.recurrent import Gates, gru, lstm
from troubleshooter_nb.thresholds import (
    FEWEST_OUTPUTS,
    RECURRENT_ITEMS,
    RECURRENT_MOST_STEPS,
    RECURRENT_STEPS,
)

_BIASES = {
    "both": (1, 1),
    "input only": (1, 0),
    "hidden only": (0, 1),
    "none": (0, 0),
}
_RESETS = ("after the product", "before the product")
_UPDATES = ("share of the old state", "share of the new state")


class _Start(NamedTuple):
    """States (items, hidden) before the first step."""

    hidden: np.ndarray
    cell: np.ndarray


def fit_gru(operands: Operands) -> list[Fit]:
    """How one layer of gated recurrent units, in one direction, computed its output.

    Parameters
    ----------
    operands : Operands
        Inputs: x (steps, items, features) or with the items first, start (1, items, hidden) or
        none; parameters ``weight_ih_l0``, ``weight_hh_l0``, ``bias_ih_l0``, ``bias_hh_l0``.

    Returns
    -------
    list of Fit
        Settings: ``reset`` ("after the product", "before the product"), ``gates``, ``update``,
        ``biases``, ``axes`` ("steps first", "items first"). Empty for several layers or two
        directions.
    """
    settings = [
        {"reset": reset, "gates": order, "update": update}
        for order, reset, update in itertools.product(("rzn", "zrn"), _RESETS, _UPDATES)
    ]

    def run(x: np.ndarray, start: _Start, gates: Gates, said: dict[str, Any]) -> np.ndarray:
        return gru(
            x,
            start.hidden,
            gates,
            reset_after=said["reset"] == _RESETS[0],
            order=said["gates"],
            keeps=said["update"] == _UPDATES[0],
        )

    return _fit(operands, 3, settings, run)


def fit_lstm(operands: Operands) -> list[Fit]:
    """As `fit_gru`, of long short-term memory: settings ``gates``, ``biases``, ``axes``.

    A third input is the cell's start.
    """
    orders = ["".join(order) for order in itertools.permutations("ifgo")]
    # torch's order first, then Keras's and that of cuDNN-like exports.
    orders.sort(key=lambda order: (order != "ifgo", order))

    def run(x: np.ndarray, start: _Start, gates: Gates, said: dict[str, Any]) -> np.ndarray:
        return lstm(x, start.hidden, start.cell, gates, order=said["gates"])

    return _fit(operands, 4, [{"gates": order} for order in orders], run)


def _fit(
    operands: Operands, blocks: int, settings: list[dict[str, Any]], run: Callable[..., np.ndarray]
) -> list[Fit]:
    x = operands.inputs[0] if operands.inputs else None
    gates = _gates(operands, blocks)
    if x is None or gates is None or x.ndim != 3 or operands.output.ndim != 3:
        return []
    hidden = gates.hidden.shape[1]
    if x.shape[-1] != gates.input.shape[1] or operands.output.shape != (*x.shape[:2], hidden):
        return []
    fits: list[Fit] = []
    for axes, steps_first in (("steps first", True), ("items first", False)):
        fits += _axis_fits(operands, x, gates, settings, run, axes, steps_first)
    return ranked(fits)


def _axis_fits(
    operands: Operands,
    x: np.ndarray,
    gates: Gates,
    settings: list[dict[str, Any]],
    run: Callable[..., np.ndarray],
    axes: str,
    steps_first: bool,
) -> list[Fit]:
    """Fits for one meaning of the first two axes: of the first steps, the best of all steps."""
    given, wanted = (a if steps_first else a.swapaxes(0, 1) for a in (x, operands.output))
    energy = energies(operands.apart, (*x.shape[:2], -1), int(steps_first))
    items = places(given.shape[1], RECURRENT_ITEMS, energy)
    given, wanted = (a[:RECURRENT_MOST_STEPS, items].astype(np.float64) for a in (given, wanted))
    if wanted[:RECURRENT_STEPS].size < FEWEST_OUTPUTS or len(wanted) < 2:
        return []
    shape = (len(items), gates.hidden.shape[1])
    start = _Start(*(_start(operands, place, items, shape) for place in (1, 2)))

    def tried(said: dict[str, Any], gates: Gates, biases: str, steps: int) -> Fit:
        formula = run(given[:steps], start, gates, said)
        residual = misfit(wanted[:steps], formula, operands.roundoff)
        return Fit({**said, "biases": biases, "axes": axes}, residual)

    fits = [tried(said, gates, "both", RECURRENT_STEPS) for said in settings]
    number = min(range(len(fits)), key=lambda n: fits[n].residual)
    best = settings[number]
    used = {"both": gates}
    plain = run(given[:RECURRENT_STEPS], start, gates, best)
    for word, (first, second) in list(_BIASES.items())[1:]:
        less = gates._replace(
            input_bias=first * gates.input_bias, hidden_bias=second * gates.hidden_bias
        )
        if tells_apart(run(given[:RECURRENT_STEPS], start, less, best), plain, operands.roundoff):
            used[word] = less
            fits.append(tried(best, less, word, RECURRENT_STEPS))
    if len(given) > RECURRENT_STEPS:
        number = min(range(len(fits)), key=lambda n: fits[n].residual)
        said = {key: fits[number].settings[key] for key in best}
        biases = str(fits[number].settings["biases"])
        fits[number] = tried(said, used[biases], biases, len(given))
    return fits


def _gates(operands: Operands, blocks: int) -> Gates | None:
    """Parameters of the only layer; None for several layers or two directions."""
    known = operands.parameters
    if any(name.endswith(("_l1", "_reverse")) for name in known):
        return None
    names = [_first(known, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    given, seen, *biases = names
    if given is None or seen is None or given.ndim != 2 or seen.ndim != 2:
        return None
    rows = blocks * seen.shape[1]
    if len(given) != rows or len(seen) != rows:
        return None
    filled = [np.zeros(rows) if bias is None else np.asarray(bias, np.float64) for bias in biases]
    if any(bias.shape != (rows,) for bias in filled):
        return None
    return Gates(np.asarray(given, np.float64), np.asarray(seen, np.float64), *filled)


def _first(known: Any, name: str) -> np.ndarray | None:
    value = known.get(f"{name}_l0", known.get(name))
    return None if value is None else np.asarray(value)


def _start(operands: Operands, place: int, items: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The state that the input at a place gives these items; zeros without one that fits."""
    start = operands.inputs[place] if len(operands.inputs) > place else None
    if start is None or start.ndim != 3 or start.shape[-1] != shape[1]:
        return np.zeros(shape)
    return (
        np.asarray(start[0][items], np.float64) if start.shape[1] > max(items) else np.zeros(shape)
    )


FITTERS: dict[str, Fitter] = {"gru": fit_gru, "lstm": fit_lstm}
BACKWARD_FITTERS: dict[str, Fitter] = {}
CAUSES: dict[tuple[str, str], str] = {
    ("gru", "reset"): "gru_reset_order",
    ("gru", "gates"): "gru_reset_order",
    ("gru", "update"): "gru_reset_order",
    ("lstm", "gates"): "lstm_gate_order",
    ("", "biases"): "bias_missing",
    ("", "axes"): "argument_order",
}
__all__ = ["BACKWARD_FITTERS", "CAUSES", "FITTERS", "fit_gru", "fit_lstm"]
