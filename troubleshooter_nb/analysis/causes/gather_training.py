"""Gradients of a step and parameters over the steps, gathered from the rows of a comparison."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.analysis.causes.training.decay import Beside
from troubleshooter_nb.analysis.causes.training.gradients import Ratio
from troubleshooter_nb.analysis.causes.training.history import History, Track
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArraySource, StepRank
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.naming import CALL_KINDS, parameter_leaf, parameters_of_gradients
from troubleshooter_nb.ranges import read_copy

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
        for side in _SIDES:
            ends = [float(flow.result[f"{side}_{end}"][row]) for end in ("min", "max")]
            figures[f"{side}_largest"] = max(-ends[0], ends[1])
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
    there = (flow.result["left_entry"] >= 0) & (flow.result["right_entry"] >= 0)
    for row in flow.roots:
        step, own = flow.place(row)
        # A run that goes on from a checkpoint has only some of the steps.
        if own == rank and there[row]:
            values[flow.module_of(row)].setdefault(step, row)
    gradients = _gradients_of(flow, rank, values)
    steps = sorted({step for rows in values.values() for step in rows})
    is_after = _lead_to_values(operators, values, gradients, steps)
    led = steps[1:] if is_after else steps[:-1]
    # What led to the first values of all is no update, and is remembered by those that follow.
    complete = [rows for one in gradients for rows in one.values() if all(s in rows for s in led)]
    has_led_to_first = is_after and bool(steps) and bool(complete)
    if has_led_to_first and all(steps[0] in rows for rows in complete):
        led = steps
    tracks = [
        _track(
            operators,
            name,
            [rows[s] for s in steps],
            [one.get(name, {}) for one in gradients],
            led,
        )
        for name, rows in values.items()
        if all(step in rows for step in steps)
    ]
    tracks += _computed(operators, rank, computed)
    fresh = _is_fresh(operators, values, steps, is_after=is_after)
    norms = tuple(_norms(operators, rows, led, side) for side, rows in enumerate(gradients))
    return History(tracks, tuple(steps), fresh, is_after, (norms[0], norms[1]))


def _norms(
    operators: Operators,
    gradients: Mapping[tuple[str, str], Mapping[int, int]],
    steps: Sequence[int],
    side: int,
) -> np.ndarray | None:
    """Norm of all gradients of one side at each of the steps; None where one is not known."""
    result, squares = operators.flow.result, np.zeros(len(steps))
    key = f"{_SIDES[side]}_l2"
    for rows in gradients.values():
        for place, step in enumerate(steps):
            if step in rows:
                norm = float(result[key][rows[step]])
                alone = {} if math.isfinite(norm) else _norm_alone(operators, rows[step])
                squares[place] += alone.get(key, norm) ** 2
    known = bool(squares.size) and bool(np.isfinite(squares).all() and (squares > 0).all())
    return np.sqrt(squares) if known else None


def parameters_beside(operators: Operators, place: StepRank) -> list[Beside]:
    """Gradients of a step and rank with the values of their parameters, some elements of each."""
    flow = operators.flow
    values = {flow.module_of(row): row for row in flow.roots if flow.place(row) == place}
    left, right = (
        {name: rows[place[0]] for name, rows in found.items() if place[0] in rows}
        for found in _gradients_of(flow, place[1], values)
    )
    found = []
    both = [name for name in left if right.get(name) == left[name]]
    for name in both[: thresholds.TRAINED_TENSORS]:
        row, own = left[name], values[name]
        kept = _beginning(operators, own)
        left_made, right_made = (_beginning(operators, row, side) for side in (0, 1))
        if not kept.size == left_made.size == right_made.size:
            continue
        if np.isfinite([kept, left_made, right_made]).all():
            number, noise = int(flow.result["order"][row]), float(operators.origins.typical[row])
            found.append(Beside(number, len(flow.shape(own)), kept, left_made, right_made, noise))
    return found


def _is_fresh(
    operators: Operators,
    values: Mapping[tuple[str, str], Mapping[int, int]],
    steps: Sequence[int],
    *,
    is_after: bool,
) -> bool:
    """Whether the first values are those before the first step of the optimizer.

    Runs that count from 1 may save before each step: what is the same on both sides then has not
    been trained by two optimizers. Where they save after it, only rules without a memory can
    explain the steps that follow the first, which is as good as none for these.
    """
    if not steps or steps[0] != 1 or is_after:
        return bool(steps) and steps[0] <= int(is_after)
    first = [rows[1] for rows in values.values() if 1 in rows]
    return bool(operators.flow.result["identical"][first].all())


def _lead_to_values(
    operators: Operators,
    values: Mapping[tuple[str, str], Mapping[int, int]],
    gradients: Sequence[Mapping[tuple[str, str], Mapping[int, int]]],
    steps: Sequence[int],
) -> bool:
    """Whether the gradients of a step led to the values of that step, and not away from them.

    A loop may save its weights before or after the step: where it leaves that open, the updates
    tell, which go against the gradients that made them. Momentum remembers those before as well,
    but none can be made of gradients to come.
    """
    away = against = 0
    alike, elements = np.zeros(2), 0
    for name, rows in values.items():
        found = gradients[1].get(name)
        if not found or any(step not in rows for step in steps):
            continue
        away += all(step in found for step in steps[:-1])
        against += all(step in found for step in steps[1:])
        if not all(step in found for step in steps):
            continue
        kept = [_beginning(operators, rows[step]) for step in steps]
        made = [_beginning(operators, found[step]) for step in steps]
        for at in range(len(steps) - 1):
            if kept[at].size != kept[at + 1].size:
                continue
            update, size = kept[at] - kept[at + 1], kept[at].size
            both = made[at : at + 2]
            if any(one.size != size or not np.isfinite(one).all() for one in (*both, update)):
                continue
            alike += size * np.array([_own_share(update, *both), _own_share(update, *both[::-1])])
            elements += size
    if not (away and against and elements):
        return bool(against and not away)
    before, after = alike / elements
    return bool(after > max(thresholds.GRADIENT_LED, before / 2))


def _own_share(update: np.ndarray, gradient: np.ndarray, other: np.ndarray) -> float:
    """Cosine of an update with what a gradient has that another one does not have."""
    square = float(other @ other)
    rest = gradient - (float(gradient @ other) / square * other if square > 0 else 0.0)
    norms = float(np.linalg.norm(rest) * np.linalg.norm(update))
    return float(rest @ update) / norms if norms > 0 else 0.0


def _beginning(operators: Operators, row: int, side: int = 1) -> np.ndarray:
    """Some values of a side, by default the reference, float64; none where it has none."""
    source = operators.sources(row)[side]
    if source is None:
        return np.zeros(0)
    count = min(math.prod(source.shape), thresholds.MAP_PIECE)
    values: np.ndarray = computable(read_copy(source, 0, count)).astype(np.float64)
    return values


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
            track = _track(operators, ("", name), [steps[s] for s in sorted(steps)], [], [])
            tracks.append(replace(track, role="output"))
    return tracks


def _track(
    operators: Operators,
    name: tuple[str, str],
    rows: Sequence[int],
    gradients: Sequence[Mapping[int, int]],
    led: Sequence[int],
) -> Track:
    flow, origins = operators.flow, operators.origins
    sources = [operators.sources(row) for row in rows]
    known = [
        [operators.sources(rows[step])[side] for step in led if step in rows]
        for side, rows in enumerate(gradients)
    ]
    known = [one if len(one) == len(led) else [] for one in known] or [[], []]
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
