"""What the file of the recorder offers: `record`, and what it says of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from os import PathLike
from typing import Any

from troubleshooter_nb.capture.arguments import (
    check_rank,
    check_words,
    framework_of,
    networks_of,
)
from troubleshooter_nb.capture.plan import Level, Plan
from troubleshooter_nb.capture.run import Run
from troubleshooter_nb.capture.schedule import Schedule, Steps, is_recorded
from troubleshooter_nb.capture.selection import Keep, Names, choice_of, keep_of
from troubleshooter_nb.errors import FrameworkMissingError, path_of
from troubleshooter_nb.frameworks import NAMES, recording_of, require
from troubleshooter_nb.frameworks.recording import Compiled
from troubleshooter_nb.messages import Message, joined, message_of, told
from troubleshooter_nb.naming import Site
from troubleshooter_nb.render.missing_words import missing_rows, note_of
from troubleshooter_nb.version import VERSION

__all__ = ["Recording", "Schedule", "main", "record"]


class Recording(Run):
    """What a network does, on its way into a folder; see `record`."""

    def __repr__(self) -> str:
        """Where it is, how far it came, and what could not be recorded."""
        assert self.folder is not None
        calls = 0 if self._tally is None else sum(self._tally.calls_of_steps().values())
        facts = {"folder": self.folder, "state": self.state, "calls": calls}
        said: list[str] = [Message("single_file.recording", **facts)]
        said += [f"- {note_of(row)}" for row in missing_rows(self.missing_counts)]
        if not self.is_running and calls:
            said.append(Message("single_file.open", folder=self.folder.name))
        return "\n".join(map(told, said))


def record(
    net: Any = None,
    *,
    to: str | PathLike[str],
    level: Level = "module",
    inputs: bool = True,
    outputs: bool = True,
    gradients: bool = True,
    parameters: bool = True,
    names: Names = None,
    steps: Steps = None,
    keep: Keep | Callable[[Site], Keep | None] = "tensor",
    compiled: Compiled = "boundary",
    replayable: bool = False,
    rank: int | None = None,
    label: str | None = None,
    framework: str | None = None,
) -> Recording:
    """Record the calls of a network into a folder: what each layer reads, holds, gives, gradients.

    No number changes by it, and nothing stays registered behind the block::

        import tnb_record
        with tnb_record.record(net, to="run") as rec:
            net(x).sum().backward()
        print(rec)

    Copy the folder to where troubleshooter_nb is, and open it: ``tnb.open_dump("run")``.

    Parameters
    ----------
    net : module or cell, list, or dict by name, optional
        Of torch or of MindSpore in PyNative mode. None: operators of the whole block, with
        ``level="api"``.
    to : path
        The folder, one folder ``rank<k>`` in it per process; it can be opened at any time, also
        after a crash. An earlier recording there is replaced.
    level, inputs, outputs, gradients, parameters, names, steps, keep, compiled, replayable, ...
        As `troubleshooter_nb.record` takes them.

    Returns
    -------
    Recording
        A context, with ``start(), stop(), step(), pause(), mark(), flush()``.

    Raises
    ------
    TypeError, ValueError, NotImplementedError, OSError
        As `troubleshooter_nb.record`.
    """
    check_words(level=level, compiled=compiled)
    check_rank(rank)
    plan = Plan(
        level,
        inputs,
        outputs,
        gradients,
        parameters,
        choice_of(names),
        keep_of(keep),
        compiled,
        replayable,
    )
    folder = path_of(to)
    networks = networks_of(net, level)
    adapter = framework_of(networks, framework)
    return Recording(networks, adapter, plan, is_recorded(steps), names, folder, rank, label)


def main() -> int:
    """Say what this file is and what it can do here; the exit code."""
    python = ".".join(map(str, sys.version_info[:3]))
    said: list[str] = [Message("single_file.what", version=VERSION, python=python)]
    errors: list[str] = []
    for name in NAMES:
        try:
            adapter = require(name)
        except FrameworkMissingError as error:
            errors.append(message_of(error.__cause__ or error))
            continue
        lacks = recording_of(adapter).lacks()
        what = joined(lacks) if lacks else Message("single_file.whole")
        version = sys.modules[name].__version__
        said.append(Message("single_file.framework", name=name, version=version, said=what))
    if len(errors) == len(NAMES):
        said.append(Message("single_file.no_framework", errors=errors))
    sys.stdout.write("".join(f"{told(one)}\n" for one in said))
    return int(len(errors) == len(NAMES))
