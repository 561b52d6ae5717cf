"""Calls of a dataflow as detectors see them: operands by torch's names, read when asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Call, Operands, Twin
from troubleshooter_nb.analysis.flow import Flow, Node
from troubleshooter_nb.analysis.origin import Origins
from troubleshooter_nb.comparison import Comparison
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.naming import parameter_leaf

# Where operators take their parameters as arguments: torch's positions and keywords.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "linear": ("", "weight", "bias"),
    "conv1d": ("", "weight", "bias"),
    "conv2d": ("", "weight", "bias"),
    "conv3d": ("", "weight", "bias"),
    "layernorm": ("", "", "weight", "bias"),
    "rmsnorm": ("", "", "weight"),
    "groupnorm": ("", "", "weight", "bias"),
    "batchnorm": ("", "running_mean", "running_var", "weight", "bias"),
    "embedding": ("", "weight"),
}
# Other names of arguments that are parameters.
_KEYWORDS = frozenset(("weight", "bias", "running_mean", "running_var"))


class Operators:
    """Makes `Call` and `Twin` of rows; keeps no values but in what it hands out."""

    def __init__(self, comparison: Comparison, flow: Flow, origins: Origins) -> None:
        self.flow, self.origins = flow, origins
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
            rel_l2=float(self.origins.error[row]),
            noise=float(self.origins.noise[row]),
        )

    def call(self, node: Node) -> Call:
        """A call with its operands; parameters that came as arguments among the parameters."""
        inputs: list[Twin] = []
        parameters: dict[str, Twin] = {}
        for row in node.inputs:
            name = self._parameter_of(node, str(self.flow.site["slot"][row]))
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

    def _parameter_of(self, node: Node, slot: str) -> str:
        if node.kind == "module" or node.direction == "backward":
            return ""
        if slot in _KEYWORDS:
            return slot
        positions = _ARGUMENTS.get(node.word, ())
        return positions[int(slot)] if slot.isdigit() and int(slot) < len(positions) else ""

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


def operands(call: Call, side: int) -> Operands | None:
    """One side of a call; None where its values are not there.

    Of a backward call the inputs are the gradient that arrives, then the inputs of the forward
    call, and the output is the gradient that leaves.
    """
    outputs = [_side(twin, side) for twin in call.outputs]
    if not outputs or outputs[0] is None:
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
    dtype = call.outputs[0].dtypes[side]
    return Operands(
        inputs=inputs,
        parameters={name: values for name, values in known.items() if values is not None},
        output=outputs[0],
        roundoff=unit_roundoff(dtype) if dtype is not None else 0.0,
        known=call.settings[side],
    )


def _side(twin: Twin, side: int) -> np.ndarray | None:
    return twin.right if side else twin.left
