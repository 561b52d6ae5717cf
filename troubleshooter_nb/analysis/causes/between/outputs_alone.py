"""Calls of which only the output was saved: what else was saved is tried as their input."""

from __future__ import annotations

from collections.abc import Iterator

from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.operands import Operators
from troubleshooter_nb.analysis.flow import Node
from troubleshooter_nb.naming import CALL_KINDS, layers_of_output, readings_of_parameter
from troubleshooter_nb.thresholds import OUTPUTS_BEFORE, PART_ELEMENTS


def calls_of_output(operators: Operators, node: Node) -> Iterator[Call]:
    """What a saved output may have been computed from, the value saved just before it first.

    Its parameters are those that are called after it. Where it has some, values that stand behind
    it are tried as well: without numbers the order of names is no order of events. Large values
    without parameters are left alone: nothing says that they are of one network.
    """
    if node.direction == "backward" or not node.outputs or node.kind in _OPERATORS:
        return
    parameters = _parameters(operators, node)
    output = operators.tensor(node.outputs[0])
    if not parameters and output.size > PART_ELEMENTS:
        return
    for row in _others(operators, node, behind=bool(parameters)):
        given = operators.tensor(row)
        if None in given.sources or given.is_large != output.is_large:
            continue
        yield Call(node.word, node.path, "forward", (given,), (output,), parameters, forward=None)


_OPERATORS = CALL_KINDS - {"module"}


def _others(operators: Operators, node: Node, *, behind: bool) -> Iterator[int]:
    """Rows of other outputs of the same pass, the nearest before it first."""
    nodes = [
        other
        for other in operators.flow.nodes
        if other.place == node.place
        and other.direction == node.direction
        and other is not node
        and not other.children
        and other.outputs
        and not _is_parameter(operators, other)
    ]
    before = [other for other in nodes if other.position < node.position]
    after = [other for other in nodes if other.position > node.position] if behind else []
    for other in [*before[: -OUTPUTS_BEFORE - 1 : -1], *after[:OUTPUTS_BEFORE]]:
        yield other.outputs[0]


def _is_parameter(operators: Operators, node: Node) -> bool:
    """Whether a saved tensor is a parameter of a layer, as far as its name and shape tell."""
    shape = operators.flow.shape(node.outputs[0])
    return len(shape) < 2 and any(True for _ in readings_of_parameter(node.path))


def _parameters(operators: Operators, node: Node) -> dict[str, TensorPair]:
    """Parameters that are called after a layer, by torch's names."""
    flow = operators.flow
    layers = layers_of_output(node.path)
    found: dict[str, TensorPair] = {}
    rows = [
        *flow.roots,
        *(row for other in flow.nodes if other.kind not in CALL_KINDS for row in other.outputs),
    ]
    for row in rows:
        if flow.place(row) != node.place or flow.is_backward[row]:
            continue
        for layer, leaf in _named(operators, row):
            if layer in layers:
                found.setdefault(leaf, operators.tensor(row, leaf))
    return found


def _named(operators: Operators, row: int) -> Iterator[tuple[str, str]]:
    flow = operators.flow
    path = str(flow.site["path"][row])
    slot = str(flow.site["slot"][row])
    if slot and flow.site["kind"][row] in CALL_KINDS:
        path = f"{path}.{slot}"
    return readings_of_parameter(path)
