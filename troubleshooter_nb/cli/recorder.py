"""``tnb recorder``: the recorder as one file, for the machine that has the problem."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from troubleshooter_nb.cli import exit_codes
from troubleshooter_nb.cli.grammar import Grammar
from troubleshooter_nb.messages import Message


def grammar() -> Grammar:
    """The words of the verb."""
    examples = ("tnb recorder > tnb_record.py", "tnb recorder -o tnb_record.py")
    words = Grammar("recorder", Message("command.recorder_does"), examples)
    words.option("-o", "--output", value="FILE", meaning=Message("command.recorder_output"))
    words.switch("--force", meaning=Message("command.force"))
    return words


def run(asked: argparse.Namespace) -> int:
    """Print the file, or write it."""
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.cli.terminal import say
    from troubleshooter_nb.recorder_file.bundle import recorder_file

    if asked.output is None:
        # As bytes: whatever the terminal can show, a file that it is sent to is one of Python.
        sys.stdout.flush()
        sys.stdout.buffer.write(recorder_file().encode())
        return exit_codes.PASSED
    outputs = planned([asked.output], str, force=asked.force, writers={".py": _write})
    say(outputs.write(recorder_file()))
    return exit_codes.PASSED


def _write(text: str, path: Path) -> None:
    from troubleshooter_nb.cli.outputs import write_whole

    write_whole(path, text.encode())
