"""What calls and parameters are made of, and how much is read for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.analysis.runs import Counted, Recorder, chain, draws
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.gather_training import gradient_ratios
from troubleshooter_nb.analysis.causes.operands import Operators, elements_of, operands
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.analysis.origin import find_origins
from troubleshooter_nb.dump import Dump


def operators_of(left: Dump, right: Dump) -> Operators:
    comparison = compare(left, right, diagnose=False)
    flow = Flow(comparison)
    return Operators(comparison, flow, find_origins(flow))


def counted(name: str, *shape: int) -> TensorPair:
    values = draws(len(name), x=shape)["x"]
    return TensorPair(0, name, sources=(Counted(values), Counted(values)))


def elements_read(*tensors: TensorPair) -> int:
    return sum(
        source.elements for tensor in tensors for source in tensor.sources if source is not None
    )


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_call_reads_what_its_shapes_say_and_nothing_that_is_not_used(direction):
    x, other, weight, y = (
        counted("x", 8, 6),
        counted("other", 3),
        counted("weight", 5, 6),
        counted("y", 8, 5),
    )
    state = counted("state", 7, 7)
    call = Call("linear", "fc", "forward", (x, other), (y, state), {"weight": weight})
    if direction == "backward":
        arriving = counted("g", 8, 5), counted("unused", 9, 9)
        call = Call(
            "linear", "fc", "backward", arriving, (counted("dx", 8, 6), state), forward=call
        )
    cost = elements_of(call)
    assert elements_read(*call.inputs, *call.outputs, x, other, weight, y) == 0
    assert operands(call) is not None
    used = {*call.inputs[: 1 if call.forward else 2], call.outputs[0], x, other, weight}
    assert elements_read(*used) == cost
    assert elements_read(state, *(call.inputs[1:] if call.forward else ())) == 0


def test_a_call_without_results_costs_nothing():
    call = Call("linear", "fc", "forward", (counted("x", 8, 6),), ())
    assert (elements_of(call), operands(call)) == (0, None)
    assert elements_of(replace(call, direction="backward")) == 0


def test_parameters_of_a_layer_are_made_where_they_are_asked_for():
    operators = operators_of(chain(layers=2), chain(layers=2))
    layers = operators.layers()
    assert [(path, [*parts]) for path, parts in layers] == [
        ("fc0", ["weight", "bias"]),
        ("fc1", ["weight", "bias"]),
    ]
    assert not any("running_var" in parts for _, parts in layers)
    assert operators._roots == {}
    weight = layers[1][1]["weight"]
    assert (weight.slot, weight.name) == ("weight", "fc1.weight")
    assert operators.layers()[1][1]["weight"] is weight


def test_only_gradients_that_a_side_lacks_are_read_and_only_of_the_places_asked_for():
    made: list[Counted] = []

    def run(last: int) -> Dump:
        recorder = Recorder()
        for number in range(last):
            for slot, values in draws(number, weight=(16, 16), bias=(16,)).items():
                name = f"Module.fc{number}.Linear.parameters_grad.{slot}"
                recorder.add(name, f"fc{number}", "backward", "parameter", slot, values, "Linear")
        made.extend(Counted(entry.source.array) for entry in recorder.entries)
        entries = zip(recorder.entries, made[-len(recorder.entries) :], strict=True)
        return Dump.from_entries([entry._replace(source=source) for entry, source in entries])

    operators = operators_of(run(3), run(4))
    before = [one.elements for one in made]
    (ratios,) = gradient_ratios(operators).values()
    read = sum(one.elements for one in made) - sum(before)
    assert read == 16 * 16 + 16
    alone = [one for one in ratios if np.isnan(one.factor)]
    assert {one.name for one in alone} == {"fc3.weight", "fc3.bias"}
    assert all(one.right_l2 > 0 and not one.left_l2 > 0 for one in alone)
    assert gradient_ratios(operators, [(7, 0)]) == {}
