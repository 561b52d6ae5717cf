"""Two records of a network in two frameworks: what they agree in, and the faults between them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import troubleshooter_nb as tnb

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# fault -> cause, where the error shows first, layers whose settings differ, and those settings.
FOUND = {
    "ln_eps": ("norm_eps", "blocks.0.ln1 output 0", 9, "blocks.0.ln1.eps 1e-07 / 1e-05"),
    "gelu_tanh": ("gelu_variant", "blocks.0.act output 0", 4, "blocks.0.act.approximate tanh"),
    "attention_scale": ("attention_scale", "blocks.2.attn.proj input 0", 0, ""),
    "linear_transposed": ("linear_transposed", "blocks.1.attn.proj.weight", 0, ""),
    "half_block": ("low_precision_cast", "blocks.3.fc output 0", 0, ""),
    "bn_eps": ("bn_eps", "bn1 output 0", 9, "bn1.eps 0.001 / 1e-05"),
    "pad_mode": ("same_padding_side", "layer2.0.conv1 output 0", 0, ""),
    "relu_order": ("residual_order", "layer3.0.relu #1 input 0", 0, ""),
}


@pytest.fixture(scope="session")
def nets():
    """The networks of the notebooks, in both frameworks."""
    pytest.importorskip("torch")
    pytest.importorskip("mindspore")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(NOTEBOOKS)
        from example_nets import planted, planted_mindspore, step_mindspore, step_torch
    return SimpleNamespace(
        planted=planted.PLANTED,
        set_layers=planted_mindspore.set_layers,
        mindspore=step_mindspore,
        torch=step_torch,
    )


def recorded(half, model, net):
    with tnb.record(model) as rec:
        half.run_step(model, net, 0)
    return rec


@pytest.fixture(scope="session")
def references(nets):
    """The torch side of both networks."""
    return {net: recorded(nets.torch, nets.torch.build(net, 0), net) for net in ("gpt", "resnet")}


@pytest.fixture(scope="session")
def faithful(nets):
    """The MindSpore side of both networks."""
    return {net: left_of(nets, net) for net in ("gpt", "resnet")}


def left_of(nets, net, **wrong):
    model = nets.mindspore.build(net, "none", 0)
    nets.set_layers(model, **wrong)
    return recorded(nets.mindspore, model, net)


def checks_of(cmp):
    return {check.what: check for check in cmp.preflight}


def test_every_fault_has_a_cause_that_is_asked_for(nets):
    assert nets.planted.keys() - FOUND.keys() == {"none"}


@pytest.mark.parametrize(("net", "count"), [("gpt", 243), ("resnet", 185)])
def test_a_faithful_pair_agrees_in_everything_and_nothing_is_noted(
    faithful, references, net, count
):
    left, right = faithful[net], references[net]
    assert not left.missing
    assert not right.missing
    cmp = tnb.compare(left.dump, right.dump)
    assert cmp.passed
    assert str(cmp).splitlines()[0] == f"✓ {count} of {count} pairs agree"
    assert cmp.findings == ()
    assert {check.what: check.status for check in cmp.preflight} == {
        "inputs": "ok",
        "parameters": "ok",
        "buffers": "ok",
        "settings": "ok",
        "cards": "ok",
        "coverage": "ok",
    }
    assert left.dump.notes == right.dump.notes == ()


def test_alone_are_only_what_torch_tells_and_mindspore_does_not(faithful, references):
    for net, reference in references.items():
        cmp = tnb.compare(faithful[net].dump, reference.dump)
        assert cmp.pairing.unmatched_left == []
        assert all(
            name.endswith(".num_batches_tracked") or ".backward." in name
            for name in cmp.pairing.unmatched_right
        )


@pytest.mark.few(3)
@pytest.mark.parametrize("fault", FOUND)
def test_the_planted_cause_is_found_at_its_place(nets, references, fault):
    net, wrong, _ = nets.planted[fault]
    cmp = tnb.compare(left_of(nets, net, **wrong).dump, references[net].dump)
    cause, place, apart, name = FOUND[fault]
    assert not cmp.passed
    first = cmp.findings[0]
    assert (first.cause, cmp[first.pair].row["right_display"].item()) == (cause, place)
    settings = checks_of(cmp)["settings"]
    assert settings.status == ("bad" if apart else "ok")
    assert settings.values["apart"] == apart
    assert name in str(settings.values["names"])
