"""Gradients of a step and parameters over the steps, gathered from the rows of a comparison."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.analysis.causes.training.gradients import Ratio
from troubleshooter_nb.analysis.causes.training.history import History, Track
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArraySource, StepRank
from troubleshooter_nb.naming import CALL_KINDS, parameter_leaf, parameters_of_gradients

_SIDES = ("left", "right")
# Facts of a run card that factors are named after, by the detectors' words.
_FACTS = {
    "world_size": "world_size",
    "accumulation": "accumulation_steps",
    "loss_scale": "loss_scale",
    "clip": "max_grad_norm",
}


def gradient_ratios(
    operators: Operators, places: Container[StepRank] | None = None
) -> dict[StepRank, list[Ratio]]:
    """What figures say of every parameter's gradient, step by step and rank by rank.

    Parameters
    ----------
    operators : Operators
    places : container of (int, int), optional
        Steps and ranks to look at, all by default.

    Notes
    -----
    Reads gradients that one side alone has, whole.
    """
    flow, origins = operators.flow, operators.origins
    found: dict[StepRank, list[Ratio]] = defaultdict(list)
    for row, (module, leaf) in flow.gradient_rows.items():
        if not leaf or not (places is None or flow.place(row) in places):
            continue
        figures = {
            name: float(flow.result[name][row]) for name in ("cosine", "left_l2", "right_l2")
        }
        figures |= _norm_alone(operators, row)
        found[flow.place(row)].append(
            Ratio.of_figures(
                pair=int(flow.result["order"][row]),
                name=f"{module}.{leaf}",
                size=math.prod(flow.shape(row)),
                noise=float(origins.typical[row]),
                **figures,
            )
        )
    return found


def _alone(operators: Operators, row: int) -> tuple[int, ArraySource] | None:
    """The only side that has a gradient, and where it is there."""
    left, right = operators.sources(row)
    if left is None and right is not None:
        return 1, right
    return (0, left) if left is not None and right is None else None


def _norm_alone(operators: Operators, row: int) -> dict[str, float]:
    """The norm of a gradient that the other side does not have, which no comparison measures."""
    found = _alone(operators, row)
    if found is None:
        return {}
    tensor, square = operators.tensor(row), 0.0
    for _, (values,) in streamed([found[1]], tensor.budget):
        if values.dtype.kind != "f":
            return {}
        square += float(np.square(values, dtype=np.float64).sum())
    return {f"{_SIDES[found[0]]}_l2": math.sqrt(square)}


def context_of(comparison: Comparison, flow: Flow) -> dict[str, Any]:
    """What is known of the runs that a factor may come from: sizes of the batch, world size."""
    found: dict[str, Any] = {}
    cards = comparison.left_card.facts, comparison.right_card.facts
    for word, fact in _FACTS.items():
        values = [card[fact] for card in cards if isinstance(card.get(fact), int | float)]
        if values:
            found[word] = values
    ranks = len({rank for _, rank in set(flow.places)})
    if ranks > 1:
        found.setdefault("world_size", [ranks])
    shapes = [flow.shape(row) for row in sorted(flow.external)]
    shapes = [shape for shape in shapes if shape]
    if shapes:
        found["batch"] = sorted({shape[0] for shape in shapes})
        long = [shape for shape in shapes if len(shape) > 1]
        found["sequence"] = sorted({shape[1] for shape in long})
        found["tokens"] = sorted({shape[0] * shape[1] for shape in long})
    return {name: values for name, values in found.items() if values}


def history_of(operators: Operators, rank: int, computed: Sequence[int] = ()) -> History:
    """Parameters and buffers of a rank over the steps, with their gradients.

    Parameters
    ----------
    operators : Operators
    rank : int
    computed : sequence of int
        Rows of values that calls computed, to be followed over the steps as well.
    """
    flow = operators.flow
    values: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for row in flow.roots:
        step, own = flow.place(row)
        if own == rank:
            values[flow.module_of(row)].setdefault(step, row)
    gradients = _gradients_of(flow, rank, values)
    steps = sorted({step for rows in values.values() for step in rows})
    tracks = [
        _track(
            operators,
            name,
            [rows[s] for s in steps],
            [one.get(name, {}) for one in gradients],
            steps,
        )
        for name, rows in values.items()
        if all(step in rows for step in steps)
    ]
    tracks += _computed(operators, rank, computed)
    return History(tracks, tuple(steps), fresh=bool(steps) and steps[0] == 0)


def _gradients_of(
    flow: Flow, rank: int, parameters: Iterable[tuple[str, str]]
) -> list[dict[tuple[str, str], dict[int, int]]]:
    """Rows of the gradients of parameters by step, of each side, however they are spelled.

    A gradient that the two sides call by names too far apart is a row on each of them.
    """
    known = {".".join(filter(None, name)): name for name in parameters}
    may_be = _may_be_gradient(flow) & (flow.result["rank"] == rank)
    texts = {
        row: ".".join(filter(None, flow.module_of(row))) for row in np.flatnonzero(may_be).tolist()
    }
    # Most gradients are there on both sides: what the names mean is found out once.
    parameters_of = functools.cache(lambda names: parameters_of_gradients(names, known))
    found = []
    for side in _SIDES:
        there = flow.result[f"{side}_entry"] >= 0
        rows = {row: text for row, text in texts.items() if there[row]}
        meant = parameters_of(tuple(rows.values()))
        gradients: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for row, text in rows.items():
            if text in meant:
                gradients[known[meant[text]]].setdefault(flow.place(row)[0], row)
        found.append(gradients)
    return found


def _may_be_gradient(flow: Flow) -> np.ndarray:
    """Rows that may be gradients of parameters; those of activations of calls are not."""
    is_saved = ~np.isin(flow.site["kind"], [*CALL_KINDS])
    return np.asarray(flow.is_backward & (is_saved | (flow.site["role"] == "parameter")))


def _computed(operators: Operators, rank: int, rows: Sequence[int]) -> list[Track]:
    """Values that calls computed anew at every step, by the name of their entry."""
    flow, tracks = operators.flow, []
    wanted = dict.fromkeys(str(flow.result["right"][row]) for row in rows)
    by_name: dict[str, dict[int, int]] = defaultdict(dict)
    for row, name in enumerate(flow.result["right"].tolist() if wanted else ()):
        step, own = flow.place(row)
        if name in wanted and own == rank and row in flow.node_of:
            by_name[name][step] = row
    for name in wanted:
        steps = by_name[name]
        if name and len(steps) > 1:
            track = _track(operators, ("", name), [steps[s] for s in sorted(steps)], [], [0])
            tracks.append(replace(track, role="output"))
    return tracks


def _track(
    operators: Operators,
    name: tuple[str, str],
    rows: Sequence[int],
    gradients: Sequence[Mapping[int, int]],
    steps: Sequence[int],
) -> Track:
    flow, origins = operators.flow, operators.origins
    sources = [operators.sources(row) for row in rows]
    known = [
        [operators.sources(rows[step])[side] for step in steps[:-1] if step in rows]
        for side, rows in enumerate(gradients)
    ]
    known = [one if len(one) == len(steps) - 1 else [] for one in known] or [[], []]
    # The cause is told at the first step that differs.
    first = next((i for i, row in enumerate(rows) if origins.differs(row)), len(rows) - 1)
    return Track(
        name=".".join(part for part in name if part),
        pair=int(flow.result["order"][rows[first]]),
        role=str(flow.site["role"][rows[0]]),
        slot=parameter_leaf(name[1]) or name[1],
        values=([left for left, _ in sources], [right for _, right in sources]),
        gradients=(known[0], known[1]),
    )
