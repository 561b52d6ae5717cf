"""The dataflow of a comparison: what each input is, and when the values of a row mattered."""

from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.runs import Counted, Recorder, chain, draws
from troubleshooter_nb import compare
from troubleshooter_nb.analysis.flow import Flow
from troubleshooter_nb.dump import Dump


def flow_of(left: Dump, right: Dump) -> Flow:
    return Flow(compare(left, right, diagnose=False))


def names(flow: Flow, rows: list[int]) -> list[str]:
    return [str(flow.result["right_display"][row]) for row in rows]


def test_rows_follow_each_other_as_their_values_mattered():
    flow = flow_of(chain(layers=2), chain(layers=2))
    assert sorted(flow.times) == list(range(flow.count))
    in_time = names(flow, np.argsort(flow.times).tolist())
    # Parameters just before the inputs of the call that uses them.
    assert [name for name in in_time if "fc" in name] == [
        *("fc0.weight", "fc0.bias", "fc0 input 0", "fc0 output 0"),
        *("fc1.weight", "fc1.bias", "fc1 input 0", "fc1 output 0"),
    ]


def test_gradients_come_after_all_that_ran_forward_though_they_are_listed_first():
    recorder = Recorder()
    values = draws(1, x=(4, 4), g=(4, 4))
    for direction, array in (("backward", values["g"]), ("forward", values["x"])):
        recorder.call("act", "Tanh", np.tanh, array, direction=direction)
    flow = flow_of(recorder.dump(), recorder.dump())
    is_backward = flow.is_backward[np.argsort(flow.times)].tolist()
    assert is_backward == [False, False, True, True]


def test_among_equal_outputs_the_last_one_before_a_call_is_its_input():
    recorder = Recorder()
    x = np.abs(draws(2, x=(6, 5))["x"])
    for number in range(4):
        recorder.call(f"act{number}", "ReLU", lambda x: np.maximum(x, 0), x)
    flow = flow_of(recorder.dump(), recorder.dump())
    made = {flow.node_of[row].path: flow.node_of[by].path for row, by in flow.producer.items()}
    assert made == {"act1": "act0", "act2": "act1", "act3": "act2"}


def test_calls_that_take_one_input_share_the_list_of_them():
    recorder = Recorder()
    values = draws(3, mask=(4, 4), x=(4, 4))
    x = values["x"]
    for number in range(3):
        x = recorder.call(f"a{number}", "Attention", lambda x, m: np.tanh(x + m), x, values["mask"])
    flow = flow_of(recorder.dump(), recorder.dump())
    masks = [node.inputs[1] for node in flow.nodes]
    assert flow.same_input[masks[0]] == masks
    assert all(flow.same_input[row] is flow.same_input[masks[0]] for row in masks)
    assert masks[0] in flow.first_inputs
    assert not flow.first_inputs & set(masks[1:])


@pytest.mark.parametrize("turned", [False, True])
def test_a_value_of_another_shape_is_known_again_by_what_it_holds(turned):
    def run(is_wide: bool) -> Dump:
        recorder = Recorder()
        x = draws(4, x=(6, 8 if is_wide else 5))["x"]
        y = recorder.call("a", "Tanh", np.tanh, x)
        recorder.call("b", "Tanh", np.tanh, y + 1 if turned else y)
        return recorder.dump()

    flow = flow_of(run(True), run(False))
    by_path = {node.path: node for node in flow.nodes}
    given = by_path["b"].inputs[0]
    assert flow.producer.get(given) == (None if turned else by_path["a"].outputs[0])


def test_a_large_value_of_another_shape_is_known_again_by_some_of_its_elements():
    counted: list[Counted] = []

    def recorded(batch: int) -> Dump:
        recorder = Recorder()
        x = draws(6, x=(batch, 1024))["x"]
        for number in range(3):
            x = recorder.call(f"act{number}", "Tanh", np.tanh, x)
        counted.extend(Counted(entry.source.array) for entry in recorder.entries)
        entries = zip(recorder.entries, counted[-len(recorder.entries) :], strict=True)
        return Dump.from_entries([entry._replace(source=source) for entry, source in entries])

    flow = flow_of(recorded(256), recorded(384))
    made = {flow.node_of[row].path: flow.node_of[by].path for row, by in flow.producer.items()}
    assert made == {"act1": "act0", "act2": "act1"}
    assert max(one.elements for one in counted) == 1 << 12
