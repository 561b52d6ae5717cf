"""Calls that do nothing here: said once, and the script runs on."""

from __future__ import annotations

import pytest

import troubleshooter_nb.compat.troubleshooter as ts
from troubleshooter_nb.compat.troubleshooter import passed_over


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    monkeypatch.setattr(passed_over, "_said", set())


NOTHING = "does nothing here, the script goes on; "
CALLS = {
    "tracking": (ts.tracking, NOTHING, "save() the tensors along the net"),
    "proposal": (
        ts.proposal,
        "does nothing here but print an error of its code and ",
        "troubleshooter_nb.compare",
    ),
    "widget.precision_tracker": (ts.widget.precision_tracker, NOTHING, "the column dtype"),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_to_use_is_said_once(name, caplog):
    call, does, instead = CALLS[name]
    for _ in range(3):
        call("x", level=2)
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"{name} {does}" in record.getMessage()
    assert instead in record.getMessage()


def test_a_tracked_function_is_the_function_itself():
    def construct(x):
        return x

    # MindSpore compiles what it can read the source of.
    assert ts.tracking(level=3)(construct) is construct


@pytest.mark.parametrize("decorator", [ts.tracking, ts.proposal])
@pytest.mark.parametrize("bare", [True, False])
def test_a_decorator_may_stand_without_brackets(decorator, bare, caplog):
    def third(x):
        """Doc."""
        return x / 3

    def decorated(what):
        return decorator(what) if bare else decorator()(what)

    assert decorated(third)(9) == 3
    assert decorated(third).__doc__ == "Doc."
    assert decorated(type("Net", (), {"__call__": lambda self, x: x}))()(7) == 7
    assert len(caplog.records) == 1
    assert (decorated(third) is third) == (decorator is ts.tracking)


def test_a_bare_proposal_guards(capsys):
    @ts.proposal
    def divide(by):
        return 1 / by

    assert divide(by=0) is None
    assert "ZeroDivisionError" in capsys.readouterr().err


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
