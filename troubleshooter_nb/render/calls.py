"""What gives a reader more than is shown: a call in Python, or words on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from troubleshooter_nb.messages import Message

_WORDS: Mapping[str, str] = {
    "dump.summarise()": "--values",
    "dump.to_dataframe()": "-o all.csv",
    "diff.to_dataframe()": "-o all.csv",
    "diff.blocks()": "-o all.csv",
    "pairing.to_dataframe()": "-o all.csv",
    "weight_map.to_dataframe()": "--save-map map.yaml",
    "compare(..., diagnose=True)": Message("command.with_diagnosis"),
    "diff_checkpoints(..., diagnose=True)": Message("command.with_diagnosis"),
}
_is_shell = ContextVar("troubleshooter_nb.is_shell", default=False)


@contextmanager
def for_the_command_line() -> Iterator[None]:
    """Let what is rendered name words of the command line in place of calls."""
    token = _is_shell.set(True)
    try:
        yield
    finally:
        _is_shell.reset(token)


def call_text(call: str) -> str:
    """A call as the reader has it to write, such as ``dump.summarise()`` or ``--values``."""
    return _WORDS.get(call, call) if _is_shell.get() else call
