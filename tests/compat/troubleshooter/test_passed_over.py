"""Calls that do nothing here: said once, and the script runs on."""

from __future__ import annotations

import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb.compat.troubleshooter import passed_over


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    monkeypatch.setattr(passed_over, "_said", set())


CALLS = {
    "tracking": (ts.tracking, "save() the tensors along the net"),
    "proposal": (ts.proposal, "troubleshooter_nb.compare"),
    "widget.precision_tracker": (ts.widget.precision_tracker, "the column dtype"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_to_use_is_said_once(name, caplog):
    call, instead = CALLS[name]
    for _ in range(3):
        call("x", level=2)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"{name} does nothing here, the script goes on; " in record.getMessage()
    assert instead in record.getMessage()


def test_a_tracked_function_is_the_function_itself():
    def construct(x):
        return x

    # MindSpore compiles what it can read the source of.
    assert ts.tracking(level=3)(construct) is construct


def test_an_error_in_a_tracked_block_passes():
    with pytest.raises(ZeroDivisionError, match="by zero"), ts.tracking():
        _ = 1 / 0


def test_an_error_under_proposal_is_printed_and_the_script_goes_on(capsys):
    @ts.proposal()
    def divide(by):
        """Doc."""
        return 1 / by

    assert divide(by=2) == 0.5
    assert divide(by=0) is None
    assert divide.__doc__ == "Doc."
    error = capsys.readouterr().err
    assert "Traceback (most recent call last)" in error
    assert "ZeroDivisionError: division by zero" in error


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_program_passes_a_proposal(end):
    with pytest.raises(end), ts.proposal():
        raise end
