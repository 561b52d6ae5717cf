"""``tnb verify PATH``: whether what is stored is what was saved."""

from __future__ import annotations

import argparse

from troubleshooter_nb.cli import options
from troubleshooter_nb.cli.grammar import Grammar
from troubleshooter_nb.messages import Message


def grammar() -> Grammar:
    """The words of the verb."""
    examples = ("tnb verify net.safetensors", "tnb verify dump -o verified.csv")
    words = Grammar("verify", Message("command.verify_does"), examples)
    words.operand("PATH", Message("command.verified_path"))
    options.add_outputs(words)
    return words


def run(asked: argparse.Namespace) -> int:
    """Print what is damaged or cannot be told; the exit code of the verification."""
    from troubleshooter_nb.analysis.progress import watched
    from troubleshooter_nb.cli.answer import give
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.formats.verifying import verify
    from troubleshooter_nb.verification import Verification

    outputs = planned(asked.output, Verification, force=asked.force, inputs=(asked.path,))
    with watched(None) as watch:
        watch.begin(Message("command.reading"))
        found = verify(asked.path)
    give(asked, found, outputs)
    return found.exit_code
