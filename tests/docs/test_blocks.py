"""Every block of code in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import sys

import pytest

import troubleshooter_nb as tnb
from tests.docs.pages import PAGES, ROOT, hold, needs_of, plain, run_command, run_page, steps_of
from troubleshooter_nb.compat.msprobe.debugger import PrecisionDebugger
from troubleshooter_nb.compat.torch_npu.hooks import dump_file, registration
from troubleshooter_nb.compat.troubleshooter import saving
from troubleshooter_nb.frameworks import seeding


def cases():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if any(step.kind != "text" and not step.reason for step in steps_of(text)):
            marks = [getattr(pytest.mark, name) for name in needs_of(text)]
            if "zh" in page.parts:  # the blocks of the English page, with other comments
                marks.append(pytest.mark.long)
            yield pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=marks)


@pytest.fixture
def no_trace(page):
    """Take back what a page leaves, as a reader may: options, modules, seeds, hooks, no dropout."""
    for name in ("torch", "mindspore"):
        if name in needs_of(page.read_text(encoding="utf-8")):
            pytest.importorskip(name)
    modules = set(sys.modules)
    saving._PER_PROCESS.reset()
    with tnb.option_context(), tnb.seed_all(99):
        yield
    for framework in seeding.loaded().values():
        framework.dropout().write(False)
    if registration._hooks is not None:
        registration._hooks.remove()
    registration._hooks = dump_file._file = None
    if PrecisionDebugger._instance is not None:
        PrecisionDebugger._instance._session.close()
    PrecisionDebugger._instance = None
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").endswith("/tnb_record.py"):
            del sys.modules[name]


@pytest.mark.parametrize("page", [*cases()])
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch, no_trace):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run_page(page, tmp_path)


def test_a_page_that_says_what_was_not_printed_is_found():
    hold("a 0.5\n...\nd\n", "a 0.25\nb\nc\nd\n")
    hold("a  12% · ▁▂\n", "a 13% · ▃\n\n")
    for wanted in ("a 0.5\n", "b\n...\n", "a 0.25\nc\n", "a 0.25\n...\ne\n"):
        with pytest.raises(AssertionError, match="page"):
            hold(wanted, "a 0.25\nb\nc\nd\n")
    assert plain("3 of 14 pairs, 1.5e-3") == "3 of 14 pairs, #"


def test_a_command_that_ends_otherwise_than_the_page_says_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tnb.save_dump({"w": [1.0]}, "a.npz")
    assert "w" in run_command("tnb open a.npz  # 0: what is in it")
    with pytest.raises(AssertionError, match="ended with 0"):
        run_command("tnb open a.npz  # 1: something")
    with pytest.raises(AssertionError, match="ended with 2"):
        run_command("tnb open b.npz")
    with pytest.raises(AssertionError, match="say why it is not run"):
        run_command("make demo")


def test_a_block_of_which_nothing_is_known_needs_a_reason():
    text = "<!-- not run: needs make -->\n```sh\nmake demo\n```\n\n```python\n1\n```\n"
    assert [(one.kind, one.reason, one.line) for one in steps_of(text)] == [
        ("sh", "needs make", 3),
        ("python", "", 7),
    ]
    with pytest.raises(AssertionError, match="without a block"):
        steps_of("<!-- not run: nothing follows -->\n")


@pytest.mark.torch
def test_no_page_left_a_trace():
    """Runs behind the pages, in the same process where the file is not shared out."""
    torch = pytest.importorskip("torch")
    assert torch.nn.functional.dropout.__module__ == "torch.nn.functional"
    assert torch.nn.functional.relu.__module__ == "torch.nn.functional"
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.mindspore
def test_no_page_left_a_trace_in_mindspore():
    nn = pytest.importorskip("mindspore").nn
    tensor = pytest.importorskip("mindspore").Tensor([1.0] * 64)
    assert (nn.Dropout(p=0.5).set_train()(tensor).asnumpy() == 0).any()
