"""What only one side has: where nothing else differs, that is where the two part."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.derivations import derivation_between
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.naming import parameter_leaf
from troubleshooter_nb.thresholds import FEWEST_RELATED, LARGEST_HELD, MOST_PAIRS_TRIED

_SIDES = ("left", "right")


def lone_rows(flow: Flow) -> list[tuple[int, list[int]]]:
    """What one side has and the other lacks, though it lacks nothing of that kind itself.

    Where both sides have something left over, the two may be the same under other names.

    Parameters
    ----------
    flow : Flow

    Returns
    -------
    list of (int, list of int)
        The row that stands for it, of a call its first result, and all rows: of a call that
        contains others theirs as well.
    """
    alone = (flow.result["verdict"] == "missing") & ~flow.result["passed"].astype(bool)
    if not alone.any():
        return []
    sides: dict[Any, set[bool]] = defaultdict(set)
    has_left = flow.result["left_entry"] >= 0
    for row in np.flatnonzero(alone).tolist():
        sides[_kind(flow, row)].add(bool(has_left[row]))
    rows = [r for r in np.flatnonzero(alone).tolist() if len(sides[_kind(flow, r)]) == 1]
    lone = set(rows)
    paired = {_module(flow, row) for row in flow.roots if not alone[row]}
    first_of: dict[Any, int] = {}
    found: dict[int, list[int]] = {}
    for row in rows:
        node = flow.node_of.get(row)
        if node is None:
            # Of a layer that the other side lacks altogether all parameters are one thing.
            whole = row if _module(flow, row) in paired else _module(flow, row)
            users = flow.users.get(row, ())
            if not (users and all(lone.issuperset(user.rows) for user in users)):
                found.setdefault(first_of.setdefault(whole, row), []).append(row)
            continue
        while node.parent is not None and lone.issuperset(node.parent.rows):
            node = node.parent
        some = [r for r in _rows_in(node) if r in lone]
        first = next((r for r in (*node.outputs, *node.gradients, *node.inputs) if r in lone), row)
        found.setdefault(first, some)
    return [*found.items()]


def _module(flow: Flow, row: int) -> tuple[Any, ...]:
    """The module of a parameter or buffer, with its step and rank."""
    return flow.place(row), flow.module_of(row)[0]


def _kind(flow: Flow, row: int) -> tuple[Any, ...]:
    """What could stand for each other: values of one direction, or parameters of one name."""
    node, place = flow.node_of.get(row), flow.place(row)
    if node is None or row in node.gradients:
        return place, "root", flow.site["direction"][row], flow.module_of(row)[1]
    return place, "value", node.direction


def _rows_in(node: Node) -> list[int]:
    return [*node.rows, *(row for child in node.children for row in _rows_in(child))]


def possible_names(flow: Flow, row: int) -> list[int]:
    """Rows of the other side's own that may be what a row is, in its step and rank.

    One of the two is a parameter or buffer; the other may be called like none.
    """
    alone = (flow.result["verdict"] == "missing") & ~flow.result["passed"].astype(bool)
    has_left = flow.result["left_entry"] >= 0
    place, roots = flow.place(row), set(flow.roots)
    return [
        one
        for one in np.flatnonzero(alone & (has_left != has_left[row])).tolist()
        if flow.place(one) == place and (row in roots or one in roots)
    ]


def lone_suspicion(
    flow: Flow,
    row: int,
    rows: Sequence[int],
    tensor: TensorPair,
    others: Sequence[TensorPair] = (),
) -> Suspicion | None:
    """The cause that only one side has this; None where it changes nothing.

    Parameters
    ----------
    flow : Flow
    row : int
        The row that stands for it.
    rows : sequence of int
        All its rows.
    tensor : TensorPair
        Of `row`, to be read.
    others : sequence of TensorPair
        What the other side has alone, which may be the same under another name.
    """
    side = _SIDES[int(flow.result["left_entry"][row] < 0)]
    evidence = {"side": side, "count": len(rows)}
    node = flow.node_of.get(row)
    is_gradient = flow.site["direction"][row] == "backward"
    # That it is missing is a fact: all of it is undone where both sides have it.
    facts = (1.0, 0.0, 1.0, 2.0**-24)
    if is_gradient:
        # What arrives at a call, another one or the loss made: not recording it is no fault.
        has_arrived = node is not None and row in node.inputs
        return None if has_arrived else Suspicion("gradient_missing", *facts, evidence)
    if (named := _under_another_name(tensor, others, side)) is not None:
        return named
    if node is not None:
        return Suspicion("call_missing", *facts, evidence)
    if len(rows) > 1 or parameter_leaf(flow.module_of(row)[1]) != "bias":
        return Suspicion("tensor_missing", *facts, evidence)
    if _is_zero(tensor):
        return None
    applied = {name: "applied" if name == side else "absent" for name in _SIDES}
    return Suspicion("bias_missing", *facts, {**evidence, **applied})


def _under_another_name(
    tensor: TensorPair, others: Sequence[TensorPair], side: str
) -> Suspicion | None:
    """That the values of a tensor stand on the other side, as they are or turned into others."""
    mine = _held(tensor)
    if mine is None:
        return None
    held = [(other, theirs) for other in others if (theirs := _held(other)) is not None]
    held.sort(key=lambda one: one[1].shape != mine.shape)
    for other, theirs in held[:MOST_PAIRS_TRIED]:
        pair = (mine, theirs) if side == "left" else (theirs, mine)
        said = {name: Message(f"values.{name}") for name in _SIDES}
        if math.prod(pair[0].shape) < math.prod(pair[1].shape):  # a part is found in its whole
            pair, said = pair[::-1], dict(zip(_SIDES, [*said.values()][::-1], strict=True))
        try:
            found = derivation_between(*pair)
        except ReadError:
            continue
        if found is None:
            continue
        evidence = {"side": side, "other": other.name, "text": found.said(**said)}
        return Suspicion("tensor_renamed", 1.0, found.residual, found.rival, 2.0**-24, evidence)
    return None


def _held(tensor: TensorPair) -> ArraySource | None:
    """The values of the side that has it, of what holds numbers and is worth relating."""
    source = next((one for one in tensor.sources if one is not None), None)
    if source is None or arithmetic_of(source.dtype) == "unsupported":
        return None
    size = math.prod(source.shape)
    return source if FEWEST_RELATED <= size <= LARGEST_HELD else None


def _is_zero(tensor: TensorPair) -> bool:
    """Whether a bias adds nothing: without it the layer gives the same."""
    try:
        values = tensor.left if tensor.sources[0] is not None else tensor.right
    except ReadError:
        return False
    return values is not None and not values.any()
