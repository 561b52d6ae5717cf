"""``tnb open PATH``: what a path holds, its health and its notes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from troubleshooter_nb.cli import exit_codes, options
from troubleshooter_nb.cli.grammar import Grammar
from troubleshooter_nb.messages import Message

if TYPE_CHECKING:
    from troubleshooter_nb.dump import Dump


def grammar() -> Grammar:
    """The words of the verb."""
    examples = ("tnb open torch_run", "tnb open net.ckpt --values -o tensors.csv")
    words = Grammar("open", Message("command.open_does"), examples)
    words.operand("PATH", Message("command.path"))
    words.switch("--values", meaning=Message("command.values"))
    options.add_outputs(words)
    return words


def run(asked: argparse.Namespace) -> int:
    """Print what is there; undecided where some of it cannot be read."""
    from troubleshooter_nb.cli.answer import give
    from troubleshooter_nb.cli.inputs import opened
    from troubleshooter_nb.cli.outputs import planned
    from troubleshooter_nb.dump import Dump

    outputs = planned(asked.output, Dump, force=asked.force, inputs=(asked.path,))
    found = opened(asked.path)
    if asked.values and isinstance(found, Dump):
        found = _summarised(found)
    give(asked, found, outputs)
    is_whole = not isinstance(found, Dump) or (found.columns["status"] == "ok").all()
    return exit_codes.PASSED if is_whole else exit_codes.UNDECIDED


def _summarised(dump: Dump) -> Dump:
    """The dump with the statistics of all values, told as they are read."""
    from troubleshooter_nb.analysis.progress import watched

    with watched(None) as watch:
        watch.begin(Message("command.reading"))
        return dump.summarise()
