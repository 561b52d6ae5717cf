"""Calls of a dataflow as detectors see them: operands by torch's names, read when asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.budget import Budget
from troubleshooter_nb.analysis.causes.case import (
    Call,
    Operands,
    Suspicion,
    TensorPair,
)
from troubleshooter_nb.analysis.causes.parts import elements_read
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.analysis.origin import Origins
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import HALF_FORMATS
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.naming import parameter_leaf
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import (
    FEWEST_OF_FORMAT,
    LOST_BITS,
    LOST_FORMAT_ROUNDOFFS,
)

_OF_PAIR = (
    *("order", "left_entry", "right_entry", "left_display", "right_display"),
    *("left_significand_bits", "right_significand_bits"),
)


class Operators:
    """Makes `Call` and `TensorPair` of rows; keeps no values but in what it hands out."""

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
        self._roots: dict[int, TensorPair] = {}

    @cached_property
    def _cells(self) -> dict[str, list[Any]]:
        """What pairs of tensors are made of, as lists: those are read in a fifth of the time."""
        site, origins = self.flow.site, self.origins
        return {
            **self.flow.result.lists(*_OF_PAIR),
            **{name: site[name].tolist() for name in ("role", "direction", "slot")},
            "error": origins.error.tolist(),
            "noise": origins.noise.tolist(),
        }

    def sources(self, row: int) -> tuple[ArraySource | None, ArraySource | None]:
        """Where the values of a row are on both sides; None where a side has none."""
        left, right = self._cells["left_entry"][row], self._cells["right_entry"][row]
        return (
            self._dumps[0].sources[left] if left >= 0 else None,
            self._dumps[1].sources[right] if right >= 0 else None,
        )

    def tensor(self, row: int, slot: str | None = None) -> TensorPair:
        """The pair of tensors of a row."""
        cells = self._cells
        return TensorPair(
            pair=cells["order"][row],
            name=str(cells["right_display"][row] or cells["left_display"][row]),
            role=cells["role"][row],
            direction=cells["direction"][row],
            slot=cells["slot"][row] if slot is None else slot,
            sources=self.sources(row),
            bits=(cells["left_significand_bits"][row], cells["right_significand_bits"][row]),
            rel_l2=cells["error"][row],
            noise=cells["noise"][row],
            figures=_RowFigures(self.flow.result, row),
            budget=self.budget,
        )

    def root(self, row: int) -> TensorPair:
        """A parameter, buffer or input, made once; so is a parameter given as an argument."""
        if row not in self._roots:
            flow, node = self.flow, self.flow.node_of.get(row)
            name = flow.module_of(row)[1] if node is None else flow.argument_of(node, row) or None
            tensor = self.tensor(row, name)
            self._roots[row] = replace(tensor, role="parameter") if node and name else tensor
        return self._roots[row]

    def arguments(self) -> list[int]:
        """Rows of parameters that operators were given, of the first step."""
        return [
            row
            for node in self.flow.nodes
            if node.place[0] == self.flow.first_step
            for row in node.inputs
            if self.flow.argument_of(node, row)
        ]

    def layers(self) -> list[tuple[str, Mapping[str, TensorPair]]]:
        """Parameters and buffers of the first step by torch's names, layer by layer, in order.

        A `TensorPair` is made where it is asked for: that a layer has none of a name costs nothing.
        """
        flow = self.flow
        found: dict[Any, tuple[str, dict[str, int]]] = {}
        leaves: dict[str, str] = {}
        for row in flow.roots:
            place = flow.places[row]
            if place[0] == flow.first_step:
                path, slot = flow.module_of(row)
                name = leaves.get(slot) or leaves.setdefault(slot, parameter_leaf(slot) or slot)
                found.setdefault((place, path), (path, {}))[1].setdefault(name, row)
        for row in self.arguments():
            node = flow.node_of[row]
            name = flow.argument_of(node, row)
            name = parameter_leaf(name) or name
            found.setdefault(node, (node.path, {}))[1].setdefault(name, row)
        return [(path, _Parts(rows, self)) for path, rows in found.values()]

    def narrowed(self, node: Node) -> Suspicion | None:
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
        inputs: list[TensorPair] = []
        parameters: dict[str, TensorPair] = {}
        for row in node.inputs:
            name = self.flow.argument_of(node, row)
            if name:
                parameters[name] = self.tensor(row, name)
            elif self._has_values(row):
                inputs.append(self.tensor(row))
        for row in node.parameters:
            leaf = self.flow.module_of(row)[1]
            # That of a layer inside keeps the name of that one: out_proj.weight.
            name = leaf if "." in leaf else parameter_leaf(leaf) or leaf
            parameters.setdefault(name, self.tensor(row, name))
        outputs = tuple(self.tensor(row) for row in node.outputs)
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
        call, tensor = self.call(node), self.tensor(row, leaf)
        # What the layer holds has no part in it.
        forward = call.forward and replace(call.forward, parameters={})
        given = call.inputs[:1]
        return replace(call, inputs=given, outputs=(tensor,), parameters={}, forward=forward)

    def _has_values(self, row: int) -> bool:
        return all(source is not None for source in self.sources(row))

    def _settings(self, node: Node, side: int) -> dict[str, Any]:
        """Recorded settings: of the module, and arguments that are plain values."""
        dump = self._dumps[side]
        found: dict[str, Any] = dict(self.flow.known.settings(node.path, side))
        found |= dump.settings.get(node.path, {})
        values = dump.index["value"].values
        for row in node.inputs:
            entry = int(self.flow.result[("left_entry", "right_entry")[side]][row])
            text = str(values[entry]) if entry >= 0 else ""
            if text:
                found[str(self.flow.site["slot"][row])] = json.loads(text)
        return found


class _RowFigures(Mapping[str, Any]):
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

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._result.row(self._row),)


class _Parts(Mapping[str, TensorPair]):
    """Parameters and buffers of one layer by torch's names."""

    def __init__(self, rows: Mapping[str, int], operators: Operators) -> None:
        self._rows, self._operators = rows, operators

    def __getitem__(self, name: str) -> TensorPair:
        return self._operators.root(self._rows[name])

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def operands(call: Call) -> tuple[Operands, Operands] | None:
    """Both sides of a call; None where values of one are not there.

    Of a backward call the inputs are the gradient that arrives, then the inputs of the forward
    call, and the output is the gradient that leaves.
    """
    left, right = (_one_side(call, side) for side in (0, 1))
    if left is None or right is None:
        return None
    distance4 = _distance4(left.output, right.output)
    return replace(left, distance4=distance4), replace(right, distance4=distance4)


def _distance4(left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
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


def elements_of(call: Call) -> int:
    """Elements that `operands` reads, of both sides, by the shapes alone."""
    parts = _parts(call)
    if parts is None:
        return 0
    output, inputs, parameters = parts
    sources = [
        source for tensor in (output, *inputs, *parameters.values()) for source in tensor.sources
    ]
    return sum(elements_read(source) for source in sources if source is not None)


def _parts(call: Call) -> tuple[TensorPair, list[TensorPair], dict[str, TensorPair]] | None:
    """The output, inputs and parameters that a call is computed again from."""
    if call.direction == "backward" and call.forward is None:
        return None
    inputs, parameters = call.taken
    return (call.outputs[0], inputs, parameters) if call.outputs and inputs else None


def _one_side(call: Call, side: int) -> Operands | None:
    parts = _parts(call)
    if parts is None:
        return None
    result, given, parameters = parts
    output = _side(result, side)
    if output is None or not output.size:
        return None
    inputs = [_side(tensor, side) for tensor in given]
    if inputs[0] is None:
        return None
    known = {name: _side(tensor, side) for name, tensor in parameters.items()}
    dtype, bits = result.dtypes[side], result.bits[side]
    roundoff = unit_roundoff(dtype) if dtype is not None else 0.0
    # Values may have passed through a shorter format than the one they are stored in.
    if bits in HALF_FORMATS and output.size >= FEWEST_OF_FORMAT:
        roundoff = max(roundoff, 2.0**-bits)
    return Operands(
        inputs=inputs,
        parameters={name: values for name, values in known.items() if values is not None},
        output=output,
        roundoff=roundoff,
        known=call.settings[side],
    )


def _side(tensor: TensorPair, side: int) -> np.ndarray | None:
    return tensor.right if side else tensor.left
