"""Inputs and outputs saved by forward hooks of one's own are told from their names."""

from __future__ import annotations

import pytest

from troubleshooter_nb.naming import saved_calls


@pytest.mark.parametrize(
    ("names", "slots"),
    [
        (["act.input", "act.output"], ["0", "0"]),
        (["act.inputs", "act.outputs"], ["0", "0"]),
        (["act.in", "act.out"], ["0", "0"]),
        (["act.input_0", "act.input_1", "act.output"], ["0", "1", "0"]),
        (["act.input.0", "act.input.1", "act.output.0.1"], ["0", "1", "0.1"]),
        (["act/input", "act/output"], ["0", "0"]),
    ],
)
def test_what_was_saved_of_a_module_is_its_call(names, slots):
    found = saved_calls([*names, "fc.weight", "act_input", "loss"])
    roles = ["input" if "in" in name[4:] else "output" for name in names]
    assert found == {
        name: ("act", role, slot) for name, role, slot in zip(names, roles, slots, strict=True)
    }


@pytest.mark.parametrize(
    "names",
    [
        ["act.input", "fc.input"],  # of nothing an output
        ["act.output", "fc.output"],
        ["act.input", "fc.output"],
        ["input", "output"],  # of the network
        ["act.input", "act"],
        ["act_input", "act_output"],
        ["mlp.fc_in", "mlp.fc_out"],  # layers
        ["act.input", "act.output.logits"],
        ["attn.in", "attn.out", "attn.out.weight"],  # a layer
        ["attn.in.bias", "attn.in", "attn.out"],
    ],
)
def test_half_of_a_call_and_modules_are_none(names):
    assert saved_calls(names) == {}


def test_a_module_called_output_has_calls_of_its_own():
    """As in BERT."""
    names = [f"layer.0{part}.{word}" for part in ("", ".output") for word in ("input", "output")]
    found = saved_calls([*names, "layer.0.output.dense.weight"])
    assert found == {
        "layer.0.input": ("layer.0", "input", "0"),
        "layer.0.output": ("layer.0", "output", "0"),
        "layer.0.output.input": ("layer.0.output", "input", "0"),
        "layer.0.output.output": ("layer.0.output", "output", "0"),
    }
