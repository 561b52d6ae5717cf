"""Inputs and outputs saved by forward hooks of one's own are told from their names."""

from __future__ import annotations

import pytest

from troubleshooter_nb.naming import saved_calls

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("names", "slots"),
    [
        (["act.input", "act.output"], ["0", "0"]),
        (["act.inputs", "act.outputs"], ["0", "0"]),
        (["act.in", "act.out"], ["0", "0"]),
        (["act.input_0", "act.input_1", "act.output"], ["0", "1", "0"]),
        (["act.input.0", "act.input.1", "act.output.0.1"], ["0", "1", "0.1"]),
        (["act/input", "act/output"], ["0", "0"]),
        (["act.in", "act.in1", "act.out"], ["0", "1", "0"]),
    ],
)
def test_what_was_saved_of_a_module_is_its_call(names, slots):
    found = saved_calls([*names, "fc.weight", "act_input", "loss"])
    roles = ["input" if "in" in name[4:] else "output" for name in names]
    assert found == {
        name: ("act", role, slot, 0) for name, role, slot in zip(names, roles, slots, strict=True)
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
        "layer.0.input": ("layer.0", "input", "0", 0),
        "layer.0.output": ("layer.0", "output", "0", 0),
        "layer.0.output.input": ("layer.0.output", "input", "0", 0),
        "layer.0.output.output": ("layer.0.output", "output", "0", 0),
    }


def calls_of(path, **names):
    """Roles by torch's names: what the parameters are called among them."""
    kinds = {"running_mean": "buffer", "running_var": "buffer"}
    slots = {"input": ("input", "0"), "output": ("output", "0")}
    return {
        name: (path, *slots.get(word, (kinds.get(word, "parameter"), word)), 0)
        for word, name in names.items()
    }


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("conv1", {"input": "conv1_in", "output": "conv1_out"}),
        ("conv1", {"input": "conv1_input", "output": "conv1_output", "weight": "conv1_w"}),
        ("conv1", {"input": "inputs/conv1", "output": "outputs/conv1"}),
        (
            "ln",
            {
                "input": "inputs/ln",
                "output": "outputs/ln",
                "weight": "params/ln.weight",
                "bias": "params/ln.bias",
            },
        ),
        ("h.0/ln", {"input": "inputs/h.0/ln", "output": "outputs/h.0/ln"}),
        ("h.0.out", {"input": "inputs/h.0.out", "output": "outputs/h.0.out"}),
        ("net.0", {"input": "inputs/net.0", "output": "outputs/net.0"}),
        ("fc1", {"input": "x_fc1", "output": "y_fc1", "weight": "w_fc1", "bias": "b_fc1"}),
        ("ln", {"input": "ln_in", "output": "ln_out", "weight": "ln.gain"}),
        (
            "attn",
            {
                "input": "attn.in",
                "output": "attn.out",
                "in_proj_weight": "attn.in_proj_weight",
                "out_proj.bias": "attn.out_proj.bias",
            },
        ),
        ("rnn", {"input": "x_rnn", "output": "y_rnn", "weight_ih_l0": "w_rnn.weight_ih_l0"}),
        (
            "layer1.0.bn1",
            {
                "input": "x_layer1.0.bn1",
                "output": "y_layer1.0.bn1",
                "weight": "w_layer1.0.bn1.weight",
                "bias": "w_layer1.0.bn1.bias",
            },
        ),
        ("blk/bn", {"input": "blk/bn/x", "output": "blk/bn/y", "weight": "blk/bn/g"}),
        (
            "bn1",
            {
                "input": "bn1.input",
                "output": "bn1.output",
                "weight": "bn1.scale",
                "bias": "bn1.beta",
                "running_mean": "bn1.mean",
                "running_var": "bn1.var",
            },
        ),
    ],
)
def test_calls_saved_by_hand_are_told_with_their_parameters(path, names):
    assert saved_calls([*names.values(), "loss", "head.weight"]) == calls_of(path, **names)


def test_where_the_words_surely_say_it_once_they_say_it_of_all():
    names = ["x_relu", "y_relu", "x_conv1", "y_conv1", "x0_add", "x1_add", "y_add"]
    assert saved_calls(["x_relu", "y_relu"]) == {}
    assert {name: one[0] + one[2] for name, one in saved_calls(names).items()} == {
        **{"x_relu": "relu0", "y_relu": "relu0", "x_conv1": "conv10", "y_conv1": "conv10"},
        **{"x0_add": "add0", "x1_add": "add1", "y_add": "add0"},
    }


@pytest.mark.parametrize("names", ["relu{}_in{}", "relu{}_out{}", "relu{}.input{}"])
def test_numbers_behind_inputs_and_outputs_alike_are_those_of_calls(names):
    other = names.replace("in", "out") if "out" not in names else names.replace("out", "in")
    both = [one.format(n, k) for one in (names, other.replace("output", "output")) for n in (1, 2)
            for k in ("", "_1")]  # fmt: skip
    found = saved_calls([*both, "add1_in", "add1_in_1", "add1_out"])
    assert [found[name][2:] for name in both] == [("0", 0), ("0", 1)] * 4
    assert [found[name][2:] for name in ("add1_in", "add1_in_1")] == [("0", 0), ("1", 0)]


@pytest.mark.parametrize(
    "names",
    [
        ["conv_in", "conv_out", "mid.weight"],  # layers
        ["attn.in_proj", "attn.out_proj"],
        ["proj_in", "proj_out", "proj_in.weight", "proj_out.weight"],
        ["mlp.fc_in", "mlp.fc_out", "mlp.fc_in.weight"],
    ],
)
def test_layers_called_after_where_they_stand_are_no_calls(names):
    assert saved_calls(names) == {}


def test_a_mean_that_a_layer_computed_is_no_running_mean():
    found = saved_calls(["ln1.input", "ln1.output", "ln1.mean", "ln1.g"])
    assert {name: slot for name, (_, _, slot, _) in found.items()} == {
        "ln1.input": "0",
        "ln1.output": "0",
        "ln1.g": "weight",
    }


def test_a_second_input_in_a_folder_is_of_the_call_that_has_the_first():
    found = saved_calls(
        ["inputs/add", "inputs/add.1", "outputs/add", "inputs/fc.1", "outputs/fc.1"]
    )
    assert {name: (one.path, one.slot) for name, one in found.items()} == {
        **{"inputs/add": ("add", "0"), "inputs/add.1": ("add", "1"), "outputs/add": ("add", "0")},
        **{"inputs/fc.1": ("fc.1", "0"), "outputs/fc.1": ("fc.1", "0")},
    }
