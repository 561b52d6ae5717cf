"""The template that records two networks of one's own, and the mistakes in its port."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from example_nets.faults import PORT_FAULTS

TEMPLATE = Path(__file__).parents[2] / "notebooks" / "record_and_compare.ipynb"
# fault -> where it begins; in MindSpore, the gradient of fc2 is one of zeros.
FIRST = {"norm_eps": "norm output 0", "gelu": "act output 0", "padding": "conv output 0"}
FIRST_DETACHED = {"torch": "norm input 0 (grad)", "mindspore": "fc2.weight (grad)"}
PAIRS = {"torch": 57, "mindspore": 50}
RARELY = [pytest.mark.torch, pytest.mark.long]
MINDSPORE = pytest.param("mindspore", marks=[pytest.mark.torch, pytest.mark.mindspore])
RARE = [
    pytest.param(framework, fault, marks=[*marks, pytest.mark.long])
    for framework, marks in (("torch", []), ("mindspore", [pytest.mark.mindspore]))
    for fault in ("norm_eps", "padding")
]
MANY = [
    pytest.param("torch", "gelu"),
    pytest.param("torch", "detached"),
    pytest.param("mindspore", "gelu", marks=[pytest.mark.mindspore, pytest.mark.long]),
    pytest.param("mindspore", "detached", marks=[pytest.mark.mindspore, pytest.mark.long]),
]


def printed(notebook):
    """Everything printed, in order."""
    outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
    return "".join(o["text"] for o in outputs if o["output_type"] == "stream")


def texts(notebook):
    """The text form of everything displayed, in order."""
    outputs = [o for c in notebook.cells for o in c.get("outputs", []) if "data" in o]
    return [o["data"]["text/plain"] for o in outputs]


@pytest.mark.few(1)
@pytest.mark.notebook
@pytest.mark.torch
@pytest.mark.parametrize(("framework", "fault"), MANY + RARE)
def test_the_cause_is_found_and_gone_once_it_is_mended(run_demo, framework, fault):
    notebook = run_demo.execute(TEMPLATE, {"framework": framework, "fault": fault})
    planted, found, cause, after = run_demo.verdict(notebook).splitlines()
    text, expected = PORT_FAULTS[fault]
    first = FIRST_DETACHED[framework] if fault == "detached" else FIRST[fault]
    assert planted == f"planted was {fault!r}: {text}"
    assert f"first at {first} (" in found
    assert cause.startswith(f"{expected} (")
    assert after == f"after the repair: ✓ {PAIRS[framework]} of {PAIRS[framework]} pairs agree"
    # Two loops over the same batches; and statistics alone show the same place.
    assert "✓ 114 of 114 pairs agree\n" in printed(notebook)
    *_, statistics = re.findall(r"begins at .*|first at .*", printed(notebook)[: -len(found)])
    assert f"{first} (" in statistics


@pytest.mark.notebook
@pytest.mark.parametrize("framework", [pytest.param("torch", marks=RARELY), MINDSPORE])
def test_a_faithful_port_agrees_and_nothing_is_missing(run_demo, framework, tmp_path):
    page = tmp_path / "page.html"
    notebook = run_demo.execute(
        TEMPLATE, {"framework": framework, "fault": "none", "page": str(page)}
    )
    assert run_demo.verdict(notebook).splitlines() == [
        "planted was 'none': a faithful port",
        f"✓ {PAIRS[framework]} of {PAIRS[framework]} pairs agree",
        "no cause",
        "after the repair: not tried",
    ]
    shown = texts(notebook)
    recordings = [text for text in shown if text.startswith("Recording ")]
    assert len(recordings) == 5
    # All but the one that has just begun say that they lack nothing.
    assert sum("✓ nothing is missing" in text for text in recordings) == 4
    assert "2 steps (0, 2)" in recordings[2]
    assert "nothing recorded yet" in recordings[3]
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
