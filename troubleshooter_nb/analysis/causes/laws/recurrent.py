"""Recurrent layers: order of gates, place of the reset, biases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Fit, Operands
from troubleshooter_nb.analysis.causes.fits import misfit, tells_apart
from troubleshooter_nb.analysis.causes.law import Law
from troubleshooter_nb.analysis.causes.sampling import Sample, items
from troubleshooter_nb.metrics.operators.recurrent import Gates, gru, lstm
from troubleshooter_nb.thresholds import (
    FEWEST_OUTPUTS,
    RECURRENT_ITEMS,
    RECURRENT_MOST_STEPS,
    RECURRENT_STEPS,
)

# How often the bias of the input and that of the hidden state is added.
_BIASES = {"both": (1, 1), "input only": (1, 0), "hidden only": (0, 1), "none": (0, 0)}
_RESETS = ("after the product", "before the product")
_UPDATES = ("share of the old state", "share of the new state")
_OF_GRU = [
    {"reset": reset, "gates": order, "update": update}
    for order, reset, update in itertools.product(("rzn", "zrn"), _RESETS, _UPDATES)
]
# torch's order first, then Keras's and that of cuDNN-like exports.
_ORDERS = sorted(map("".join, itertools.permutations("ifgo")), key=lambda order: order != "ifgo")
_OF_LSTM = [{"gates": order} for order in _ORDERS]


# What is known of both sides of which hidden units are left: their places, and how many there were.
UNIT_PLACES = "unit_places"


class _Start(NamedTuple):
    """States (items, hidden) before the first step.

    `before` are those of all units before each step, where the gates of some are asked about.
    """

    hidden: np.ndarray
    cell: np.ndarray
    before: np.ndarray | None = None

    def until(self, steps: slice) -> np.ndarray | None:
        """What is known of these steps."""
        return None if self.before is None else self.before[steps]


_Run = Callable[[np.ndarray, _Start, Gates, Mapping[str, Any]], np.ndarray]


def _gru(x: np.ndarray, start: _Start, gates: Gates, said: Mapping[str, Any]) -> np.ndarray:
    return gru(
        x,
        start.hidden,
        gates,
        reset_after=said["reset"] == _RESETS[0],
        order=said["gates"],
        keeps=said["update"] == _UPDATES[0],
        states=start.until(slice(len(x))),
    )


def _lstm(x: np.ndarray, start: _Start, gates: Gates, said: Mapping[str, Any]) -> np.ndarray:
    states = start.until(slice(len(x)))
    return lstm(x, start.hidden, start.cell, gates, order=said["gates"], states=states)


def _steps(operands: Operands, blocks: int) -> Iterator[Sample]:
    """X (steps, items, features) and what came of it, with either meaning of the first axes.

    A second and third input are the states before the first step, (1, items, hidden). Only of one
    layer in one direction.
    """
    x, output = (operands.inputs[0] if operands.inputs else None), operands.output
    gates = _gates(operands, blocks)
    if x is None or gates is None or x.ndim != 3 or output.ndim != 3:
        return
    hidden = gates.hidden.shape[1]
    units = operands.known[UNIT_PLACES][0] if UNIT_PLACES in operands.known else None
    if x.shape[-1] != gates.input.shape[1] or output.shape != (*x.shape[:2], hidden):
        return
    for axes, steps_first in (("steps first", True), ("items first", False)):
        taken, chosen = items(operands, [x], int(steps_first), RECURRENT_ITEMS)
        given, wanted = (
            (one if steps_first else one.swapaxes(0, 1))[:RECURRENT_MOST_STEPS].astype(np.float64)
            for one in taken
        )
        if wanted[:RECURRENT_STEPS].size >= FEWEST_OUTPUTS and len(wanted) > 1:
            start = _Start(*(_start(operands, place, chosen, hidden) for place in (1, 2)))
            if units is not None:
                before = np.concatenate([start.hidden[None], wanted[:-1]])
                start = _Start(start.hidden[:, units], start.cell[:, units], before)
                wanted = wanted[..., units]
            facts = {"gates": gates, "start": start}
            yield Sample.of(operands, (given,), wanted, {"axes": axes}, **facts)


def _gates(operands: Operands, blocks: int) -> Gates | None:
    """Parameters of the only layer; None for several layers or two directions."""
    known = operands.parameters
    known_units, _ = operands.known.get(UNIT_PLACES, (None, 0))
    if any(name.endswith(("_l1", "_reverse")) for name in known):
        return None
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    given, seen, *biases = (known.get(f"{name}_l0", known.get(name)) for name in names)
    if given is None or seen is None or given.ndim != 2 or seen.ndim != 2:
        return None
    units = len(known_units) if known_units is not None else seen.shape[1]
    rows = blocks * units
    if len(given) != rows or len(seen) != rows:
        return None
    filled = [np.zeros(rows) if bias is None else np.asarray(bias, np.float64) for bias in biases]
    if any(bias.shape != (rows,) for bias in filled):
        return None
    return Gates(np.asarray(given, np.float64), np.asarray(seen, np.float64), *filled)


def _start(operands: Operands, place: int, chosen: np.ndarray, hidden: int) -> np.ndarray:
    """The state that the input at a place gives these items; zeros without one that fits."""
    start = operands.inputs[place] if len(operands.inputs) > place else None
    fits = start is not None and start.ndim == 3 and start.shape[-1] == hidden
    if start is None or not fits or start.shape[1] <= max(chosen):
        return np.zeros((len(chosen), hidden))
    return np.asarray(start[0][chosen], np.float64)


def _ways(sample: Sample, run: _Run, choices: list[dict[str, str]]) -> Iterator[Fit]:
    """Every order of a few steps, the best without biases, and the best of these in all steps."""
    gates, start = sample.facts["gates"], sample.facts["start"]
    x, few = sample.given[0], slice(RECURRENT_STEPS)

    def tried(said: Mapping[str, str], biases: str, steps: slice = few) -> tuple[Fit, np.ndarray]:
        first, second = _BIASES[biases]
        used = gates._replace(
            input_bias=first * gates.input_bias, hidden_bias=second * gates.hidden_bias
        )
        formula = run(x[steps], start, used, said)
        residual = misfit(sample.output[steps], formula, sample.roundoff)
        return Fit({**said, "biases": biases, **sample.settings}, residual), formula

    # Before the product with the gates of some units, the reset of all is not known.
    asked = [one for one in choices if start.before is None or one.get("reset") != _RESETS[1]]
    found = [(said, "both", *tried(said, "both")) for said in asked]
    said, _, _, plain = min(found, key=lambda one: one[2].residual)
    for biases in list(_BIASES)[1:]:
        fit, formula = tried(said, biases)
        if tells_apart(formula, plain, sample.roundoff):
            found.append((said, biases, fit, formula))
    best = min(found, key=lambda one: one[2].residual)
    yield from (fit for _, _, fit, _ in found if fit is not best[2] or len(x) <= RECURRENT_STEPS)
    if len(x) > RECURRENT_STEPS:
        yield tried(best[0], best[1], slice(None))[0]


def _axes(order: str, gates: int) -> Axes:
    """Items; of large weights also some units, with all that they see of the others."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    rest = (" features", " hidden", "", "")
    weights = [f"{name}: (gates units){axis}" for name, axis in zip(names, rest, strict=True)]
    given = [f"{order} features", "1 items hidden", "1 items hidden"]
    cut = Axes.of(f"{', '.join([*given, *weights])} -> {order} hidden", items=0, units=0)
    return replace(cut, sizes={"gates": gates}, tells={"units": UNIT_PLACES})


_ORDERS_OF_AXES = ("steps items", "items steps")
GRU = Law(
    words=("gru",),
    samples=partial(_steps, blocks=3),
    causes={
        **dict.fromkeys(("reset", "gates", "update"), "gru_reset_order"),
        "biases": "bias_missing",
        "axes": "argument_order",
    },
    ways=partial(_ways, run=_gru, choices=_OF_GRU),
    axes=tuple(_axes(order, 3) for order in _ORDERS_OF_AXES),
)
LSTM = Law(
    words=("lstm",),
    samples=partial(_steps, blocks=4),
    causes={"gates": "lstm_gate_order", "biases": "bias_missing", "axes": "argument_order"},
    ways=partial(_ways, run=_lstm, choices=_OF_LSTM),
    axes=tuple(_axes(order, 4) for order in _ORDERS_OF_AXES),
)
LAWS = (GRU, LSTM)
