"""The template that goes from a red table to the cause, and what it plants and records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from example_nets.planted import PLANTED, make_left, make_recordings, repair_of

import troubleshooter_nb as tnb

TEMPLATE = Path(__file__).parents[2] / "notebooks" / "why_do_they_differ.ipynb"
# fault -> cause, the first pair that created a difference; both "" where no cause is proven.
FOUND = {
    "ln_eps": ("norm_eps", "blocks.0.ln1 output 0"),
    "gelu_tanh": ("gelu_variant", "blocks.0.act output 0"),
    "linear_transposed": ("linear_transposed", "blocks.1.attn.proj.weight"),
    "half_block": ("low_precision_cast", "blocks.3.fc output 0"),
    "bn_eps": ("bn_eps", "bn1 output 0"),
    "pad_mode": ("same_padding_side", "layer2.0.conv1 output 0"),
}
FRAMEWORKS = [
    pytest.param("torch", marks=pytest.mark.torch),
    pytest.param("mindspore", marks=[pytest.mark.torch, pytest.mark.mindspore]),
]


def shown(notebook):
    """Everything displayed, in order; what is printed may come in any number of pieces."""
    return [o["data"] for c in notebook.cells for o in c.get("outputs", []) if "data" in o]


def printed(notebook):
    """Everything printed, in order."""
    outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
    return "".join(o["text"] for o in outputs if o["output_type"] == "stream")


@pytest.mark.notebook
@pytest.mark.torch
def test_the_template_finds_the_cause_and_repairs_it(run_demo):
    parameters = {"fault": "ln_eps", "framework": "torch"}
    first, second = (run_demo.execute(TEMPLATE, parameters) for _ in range(2))
    planted, found, cause, after = run_demo.verdict(first).splitlines()
    assert "ln_eps" in planted
    assert "first at blocks.0.ln1 output 0" in found
    assert cause.startswith("norm_eps (")
    assert after == "after the repair: ✓ 281 of 281 pairs agree"
    assert shown(first) == shown(second)
    # What the verdict counts is counted alike by the table of origins.
    texts = [data["text/plain"] for data in shown(first)]
    (origins,) = [text for text in texts if text.lstrip().startswith("pairs  passed")]
    for origin in ("created", "carried"):
        (fails,) = re.findall(rf"(\d+) {origin} (?!the error within)", found)
        passes = re.findall(rf"(\d+) {origin} the error within", found) or [r"\d+"]
        assert re.search(rf"^{origin} +\d+ +{passes[0]} +{fails} ", origins, flags=re.M)
    (checks,) = [text for text in texts if text.startswith("✓ inputs equal (")]
    assert "blocks.0.ln1.eps 1e-07 / 1e-05" in checks


@pytest.mark.notebook
@pytest.mark.torch
def test_the_template_says_that_nothing_differs_and_takes_given_dumps(run_demo, tmp_path):
    left, right = make_recordings(tmp_path, "none", "torch")
    notebook = run_demo.execute(TEMPLATE, {"left": str(left), "right": str(right)})
    assert run_demo.verdict(notebook).splitlines() == [
        "✓ 281 of 281 pairs agree",
        "no cause",
        "after the repair: not tried",
    ]


@pytest.mark.notebook
@pytest.mark.torch
def test_work_between_layers_is_named_and_no_repair_is_made_up(run_demo):
    notebook = run_demo.execute(TEMPLATE, {"fault": "relu_order", "framework": "torch"})
    lines = run_demo.verdict(notebook).splitlines()
    assert "first at layer3.0.relu #1 input 0" in lines[-3]
    assert lines[-2].startswith("residual_order")
    assert lines[-1] == "after the repair: not tried"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "framework",
    [pytest.param("torch", marks=[pytest.mark.torch, pytest.mark.long]), FRAMEWORKS[1]],
)
@pytest.mark.parametrize("fault", FOUND)
def test_a_planted_fault_is_found_and_gone_once_the_fitted_setting_is_set(
    fault, framework, tmp_path
):
    left, right = make_recordings(tmp_path, fault, framework)
    cmp = tnb.compare(left, right)
    first = cmp.findings[0]
    assert (first.cause, cmp[first.pair].row["right_display"].item()) == FOUND[fault]
    assert not cmp.passed
    repaired = make_left(tmp_path / "repaired", fault, framework, repair_of(first))
    after = tnb.compare(repaired, right)
    assert after.passed
    assert after.findings == ()


@pytest.mark.few(1)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_faithful_pair_agrees_and_has_no_cause(framework, tmp_path):
    for net in ("gpt", "resnet"):
        fault = "none" if net == "gpt" else "bn_eps"
        left = make_left(tmp_path / "left", fault, framework, {"bn_eps": 1e-5})
        cmp = tnb.compare(left, make_recordings(tmp_path, fault, framework)[1])
        assert cmp.passed
        assert cmp.findings == ()


@pytest.mark.torch
def test_a_recording_lists_what_every_layer_reads_holds_and_gives(tmp_path):
    dump = tnb.open_dump(make_recordings(tmp_path, "none", "torch")[1])
    table = dump.to_dataframe()
    of_layer = table[table["path"] == "blocks.2.fc"]
    assert [*zip(of_layer["direction"], of_layer["role"], of_layer["slot"], strict=True)] == [
        ("forward", "input", "0"),
        ("forward", "parameter", "weight"),
        ("forward", "parameter", "bias"),
        ("forward", "output", "0"),
        ("backward", "input", "0"),
        ("backward", "parameter", "bias"),
        ("backward", "parameter", "weight"),
        ("backward", "output", "0"),
    ]
    assert set(of_layer["parent"]) >= {"Module.blocks.2.Block.forward.0"}
    assert dump.notes == ()


@pytest.mark.torch
@pytest.mark.parametrize(("fault", "left"), [("typo", "torch"), ("none", "jax")])
def test_an_unknown_fault_or_framework_is_refused(fault, left, tmp_path):
    with pytest.raises(ValueError, match=", ".join(PLANTED) if fault == "typo" else "'jax'"):
        make_recordings(tmp_path, fault, left)
