"""Recurrent layers in float64, step by step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Gates(NamedTuple):
    """Parameters of one layer in one direction; rows are the gates', one block after another.

    `input` (gates * hidden, features), `hidden` (gates * hidden, hidden), biases (gates *
    hidden,) of both.
    """

    input: np.ndarray
    hidden: np.ndarray
    input_bias: np.ndarray
    hidden_bias: np.ndarray


def sigmoid(values: np.ndarray) -> np.ndarray:
    """Logistic function, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)))


def gru(
    x: np.ndarray,
    start: np.ndarray,
    gates: Gates,
    *,
    reset_after: bool = True,
    order: str = "rzn",
    keeps: bool = True,
    states: np.ndarray | None = None,
) -> np.ndarray:
    """Hidden states of every step, shape (steps, items, hidden).

    Parameters
    ----------
    x : ndarray, shape (steps, items, features)
    start : ndarray, shape (items, hidden)
    reset_after : bool
        Whether the reset gate multiplies the product with the hidden state (and its bias), or
        the hidden state before the product.
    order : str
        Blocks of the parameters: r reset, z update, n new.
    keeps : bool
        Whether the update gate is the share of the old state, or that of the new one.
    states : ndarray, shape (steps, items, hidden), optional
        What all units held before each step, where the gates are those of some units alone, and
        `start` has these; the reset is then after the product.
    """
    size = start.shape[-1]
    blocks = [slice(size * order.index(gate), size * (order.index(gate) + 1)) for gate in "rzn"]
    reset, update, new = blocks
    given = x @ gates.input.T + gates.input_bias
    state, made = start, np.empty((*x.shape[:2], size))
    for step, now in enumerate(given):
        before = state if states is None else states[step]
        seen = before @ gates.hidden.T + gates.hidden_bias
        r = sigmoid(now[:, reset] + seen[:, reset])
        z = sigmoid(now[:, update] + seen[:, update])
        if reset_after:
            inner = r * seen[:, new]
        else:
            inner = (r * state) @ gates.hidden[new].T + gates.hidden_bias[new]
        n = np.tanh(now[:, new] + inner)
        state = z * state + (1 - z) * n if keeps else (1 - z) * state + z * n
        made[step] = state
    return made


def lstm(
    x: np.ndarray,
    start: np.ndarray,
    cell: np.ndarray,
    gates: Gates,
    *,
    order: str = "ifgo",
    states: np.ndarray | None = None,
) -> np.ndarray:
    """Hidden states of every step, shape (steps, items, hidden).

    Parameters
    ----------
    order : str
        Blocks of the parameters: i input, f forget, g new, o output.
    states : ndarray, optional
        As of `gru`.
    """
    size = start.shape[-1]
    blocks = [slice(size * order.index(gate), size * (order.index(gate) + 1)) for gate in "ifgo"]
    given = x @ gates.input.T + gates.input_bias + gates.hidden_bias
    state, made = start, np.empty((*x.shape[:2], size))
    for step, now in enumerate(given):
        before = state if states is None else states[step]
        sums = now + before @ gates.hidden.T
        i, f, g, o = (sums[:, block] for block in blocks)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        made[step] = state
    return made
