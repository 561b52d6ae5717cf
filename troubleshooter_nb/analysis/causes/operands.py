"""Calls of a dataflow as detectors see them: operands by torch's names, read when asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.budget import Budget
from troubleshooter_nb.analysis.causes.case import (
    Call,
    Operands,
    Suspicion,
    Twin,
)
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.analysis.origin import Origins
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import HALF_FORMATS
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.naming import parameter_leaf
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import FEWEST_OF_FORMAT, LOST_BITS, LOST_FORMAT_ROUNDOFFS


class Operators:
    """Makes `Call` and `Twin` of rows; keeps no values but in what it hands out."""

    def __init__(
        self,
        comparison: Comparison,
        flow: Flow,
        origins: Origins,
        budget: Budget | None = None,
    ) -> None:
        self.flow, self.origins, self.budget = flow, origins, budget
        self._dumps = comparison.pairing.left, comparison.pairing.right
        self._numbers = flow.result["order"]

    def twin(self, row: int, slot: str | None = None) -> Twin:
        """The pair of tensors of a row."""
        site, result = self.flow.site, self.flow.result
        entries = [int(result[f"{side}_entry"][row]) for side in ("left", "right")]
        left, right = (
            dump.sources[entry] if entry >= 0 else None
            for dump, entry in zip(self._dumps, entries, strict=True)
        )
        return Twin(
            pair=int(self._numbers[row]),
            name=str(result["right_display"][row] or result["left_display"][row]),
            role=str(site["role"][row]),
            direction=str(site["direction"][row]),
            slot=str(site["slot"][row]) if slot is None else slot,
            sources=(left, right),
            bits=(
                int(result["left_significand_bits"][row]),
                int(result["right_significand_bits"][row]),
            ),
            rel_l2=float(self.origins.error[row]),
            noise=float(self.origins.noise[row]),
            figures=_Figures(result, row),
            budget=self.budget,
        )

    def root(self, row: int) -> Twin:
        """A parameter, buffer or input; a parameter given as an argument is one as well."""
        flow = self.flow
        if row not in flow.node_of:
            return self.twin(row, flow.module_of(row)[1])
        name = flow.argument_of(flow.node_of[row], row)
        twin = self.twin(row, name or None)
        return replace(twin, role="parameter") if name else twin

    def arguments(self) -> list[int]:
        """Rows of parameters that operators were given, of the first step."""
        return [
            row
            for node in self.flow.nodes
            if node.place[0] == self.flow.first_step
            for row in node.inputs
            if self.flow.argument_of(node, row)
        ]

    def layers(self) -> list[tuple[str, dict[str, Twin]]]:
        """Parameters and buffers of the first step by torch's names, layer by layer, in order."""
        found: dict[Any, tuple[str, dict[str, Twin]]] = {}
        for row in [*self.flow.roots, *self.arguments()]:
            node, place = self.flow.node_of.get(row), self.flow.place(row)
            path = node.path if node is not None else self.flow.module_of(row)[0]
            if place[0] == self.flow.first_step:
                twin = self.root(row)
                name = parameter_leaf(twin.slot) or twin.slot
                found.setdefault(node or (place, path), (path, {}))[1].setdefault(name, twin)
        return list(found.values())

    def cast(self, node: Node) -> Suspicion | None:
        """A call that gave values of a shorter format on one side, from operands of the longer."""
        result, row = self.flow.result, node.outputs[0]
        bits = [int(result[f"{side}_significand_bits"][row]) for side in ("left", "right")]
        error, size = float(self.origins.error[row]), math.prod(self.flow.shape(row))
        if (
            min(bits) not in HALF_FORMATS
            or max(bits) < min(bits) + LOST_BITS
            or size < FEWEST_OF_FORMAT
        ):
            return None
        side = ("left", "right")[bits[1] < bits[0]]
        given = [int(result[f"{side}_significand_bits"][r]) for r in node.inputs]
        roundoff = 2.0 ** -min(bits)
        if not given or max(given) < max(bits) or not self.origins.differs(row):
            return None
        if not LOST_FORMAT_ROUNDOFFS[0] * roundoff < error < LOST_FORMAT_ROUNDOFFS[1] * roundoff:
            return None
        number = int(self._numbers[row])
        evidence = {
            "side": side,
            "format": HALF_FORMATS[min(bits)],
            "left": Message("evidence.bits", bits=bits[0]),
            "right": Message("evidence.bits", bits=bits[1]),
            "roundoff": roundoff,
        }
        floor = float(self.origins.typical[row])
        return Suspicion("low_precision_cast", error, floor, error, floor, evidence, number, size)

    def call(self, node: Node) -> Call:
        """A call with its operands; parameters that came as arguments among the parameters."""
        inputs: list[Twin] = []
        parameters: dict[str, Twin] = {}
        for row in node.inputs:
            name = self.flow.argument_of(node, row)
            if name:
                parameters[name] = self.twin(row, name)
            elif self._has_values(row):
                inputs.append(self.twin(row))
        for row in node.parameters:
            leaf = self.flow.module_of(row)[1]
            name = parameter_leaf(leaf) or leaf
            parameters.setdefault(name, self.twin(row, name))
        outputs = tuple(self.twin(row) for row in node.outputs)
        return Call(
            word=node.word,
            path=node.path,
            direction=node.direction,
            inputs=tuple(inputs),
            outputs=outputs,
            parameters=parameters,
            settings=(self._settings(node, 0), self._settings(node, 1)),
            forward=self.call(node.forward) if node.forward is not None else None,
        )

    def weight_gradient(self, node: Node, row: int) -> Call | None:
        """A backward call as what made the gradient of its weight; None for another parameter."""
        _, leaf = self.flow.parameter_of(row)
        if leaf != "weight" or not node.inputs or node.forward is None:
            return None
        call, twin = self.call(node), self.twin(row, leaf)
        return replace(call, inputs=call.inputs[:1], outputs=(twin,))

    def _has_values(self, row: int) -> bool:
        entries = [int(self.flow.result[f"{side}_entry"][row]) for side in ("left", "right")]
        return all(
            entry >= 0 and dump.sources[entry] is not None
            for dump, entry in zip(self._dumps, entries, strict=True)
        )

    def _settings(self, node: Node, side: int) -> dict[str, Any]:
        """Recorded settings: of the module, and arguments that are plain values."""
        dump = self._dumps[side]
        found: dict[str, Any] = dict(dump.settings.get(node.path, {}))
        values = dump.index["value"].values
        for row in node.inputs:
            entry = int(self.flow.result[("left_entry", "right_entry")[side]][row])
            text = str(values[entry]) if entry >= 0 else ""
            if text:
                found[str(self.flow.site["slot"][row])] = json.loads(text)
        return found


class _Figures(Mapping[str, Any]):
    """One row of the result, looked up when it is asked for."""

    __slots__ = ("_result", "_row")

    def __init__(self, result: Table, row: int) -> None:
        self._result, self._row = result, row

    def __getitem__(self, name: str) -> Any:
        return self._result[name][self._row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._result.columns)

    def __len__(self) -> int:
        return len(self._result.columns)


def operands(call: Call) -> tuple[Operands, Operands] | None:
    """Both sides of a call; None where values of one are not there.

    Of a backward call the inputs are the gradient that arrives, then the inputs of the forward
    call, and the output is the gradient that leaves.
    """
    left, right = (_one_side(call, side) for side in (0, 1))
    if left is None or right is None:
        return None
    apart = _apart(left.output, right.output)
    return replace(left, apart=apart), replace(right, apart=apart)


def _apart(left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Fourth power of the distance over the largest one: single elements stand out in sums of it.

    0 where one side is not finite, None where nothing differs or shapes do.
    """
    if left.shape != right.shape:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.result_type(left, right, np.float64)
        gap = np.array(np.abs(np.subtract(left, right, dtype=wide)))
    gap[~np.isfinite(gap)] = 0.0
    largest = float(gap.max(initial=0.0))
    return np.asarray(np.square(np.square(gap / largest)), np.float32) if largest else None


def _one_side(call: Call, side: int) -> Operands | None:
    outputs = [_side(twin, side) for twin in call.outputs]
    if not outputs or outputs[0] is None or not outputs[0].size:
        return None
    inputs = [_side(twin, side) for twin in call.inputs]
    parameters = dict(call.parameters)
    if call.direction == "backward":
        if call.forward is None:
            return None
        inputs = inputs[:1] + [_side(twin, side) for twin in call.forward.inputs]
        parameters = {**call.forward.parameters, **parameters}
    if not inputs or inputs[0] is None:
        return None
    known = {name: _side(twin, side) for name, twin in parameters.items()}
    dtype, bits = call.outputs[0].dtypes[side], call.outputs[0].bits[side]
    roundoff = unit_roundoff(dtype) if dtype is not None else 0.0
    # Values may have passed through a shorter format than the one they are stored in.
    if bits in HALF_FORMATS and outputs[0].size >= FEWEST_OF_FORMAT:
        roundoff = max(roundoff, 2.0**-bits)
    return Operands(
        inputs=inputs,
        parameters={name: values for name, values in known.items() if values is not None},
        output=outputs[0],
        roundoff=roundoff,
        known=call.settings[side],
    )


def _side(twin: Twin, side: int) -> np.ndarray | None:
    return twin.right if side else twin.left
