"""What a verb gives when its work is done: lines for a person, or JSON, and the files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from troubleshooter_nb.cli.outputs import Outputs
from troubleshooter_nb.cli.terminal import complain, rewrapped, say
from troubleshooter_nb.render.calls import for_the_command_line


def give(
    asked: argparse.Namespace,
    found: Any,
    outputs: Outputs,
    lines: Callable[[Any], Iterable[str]] | None = None,
) -> None:
    """Print what was found, then write it: what cannot be written is known nevertheless.

    Parameters
    ----------
    asked : Namespace
        With ``json``, whether standard output is for a machine.
    found : Comparison, Dump, ...
        Anything that `report.export` takes.
    outputs : Outputs
    lines : callable, optional
        What a person reads of it; default its text repr.
    """
    if asked.json:
        from troubleshooter_nb.report import json_text

        say(json_text(found))
    else:
        with for_the_command_line():
            say(rewrapped(repr(found)) if lines is None else lines(found))
    tell = complain if asked.json else say
    tell(outputs.write(found))
