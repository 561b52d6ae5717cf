"""Cells of a notebook: which one runs, which one runs again, which one was interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


class Runs(Protocol):
    """A recording, as far as cells matter to it."""

    @property
    def current_step(self) -> int:
        """The step that runs."""

    def begin_run(self, run: int, step: int, replaced: int | None) -> None:
        """What comes belongs to this run of a cell; what the replaced run gave is void."""

    def begin_again(self) -> None:
        """The cell that started the recording is about to run again."""

    def end_run(self, error: BaseException | None) -> None:
        """A cell has ended, or could not be run to its end."""


@dataclass
class _Run:
    """A run of a cell, and the step it ended in."""

    number: int
    last_step: int


class Cells:
    """Tells a recording of the cells that run while it does; outside notebooks nothing.

    Cells have an order, that of their first runs: one that is run again begins in the step in
    which those before it ended.
    """

    def __init__(self, shell: Any, recording: Runs) -> None:
        self._shell, self._recording = shell, recording
        self._started_by = _key_of_running(shell)
        self._runs = {self._started_by: _Run(0, recording.current_step)}
        self._now, self._count = self._runs[self._started_by], 0
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    @classmethod
    def watch(cls, recording: Runs) -> Cells | None:
        """The cells of this notebook; None outside of one."""
        shell = _shell()
        return None if shell is None else cls(shell, recording)

    @staticmethod
    def at_end(callback: Callable[[], None]) -> None:
        """Call back once, when the cell that runs has ended; outside notebooks never."""
        shell = _shell()
        if shell is None:
            return

        def once(result: Any) -> None:
            shell.events.unregister("post_run_cell", once)
            callback()

        shell.events.register("post_run_cell", once)

    def close(self) -> None:
        """Hear of no more cells."""
        for event, callback in (("pre_run_cell", self._before), ("post_run_cell", self._after)):
            if callback in self._shell.events.callbacks.get(event, ()):
                self._shell.events.unregister(event, callback)

    def _before(self, info: Any) -> None:
        recording = self._recording
        key = _key(self._shell, getattr(info, "cell_id", None), getattr(info, "raw_cell", None))
        if key == self._started_by:
            recording.begin_again()
            return
        self._now.last_step = recording.current_step
        earlier = self._runs.get(key)
        steps = [0]
        for known, run in self._runs.items():
            if known == key:
                break
            steps.append(run.last_step)
        self._count += 1
        self._now = self._runs[key] = _Run(self._count, max(steps))
        replaced = None if earlier is None else earlier.number
        recording.begin_run(self._count, max(steps), replaced)

    def _after(self, result: Any) -> None:
        self._recording.end_run(getattr(result, "error_in_exec", None))


def _shell() -> Any:
    """The shell of the notebook or console this runs in; None elsewhere."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def _key_of_running(shell: Any) -> Any:
    """What the cell that runs now is known by."""
    kernel: Any = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if hasattr(kernel, "get_parent") else {}
    found = (parent or {}).get("metadata", {}).get("cellId")
    return _key(shell, found, (shell.history_manager.input_hist_raw or [""])[-1])


def _key(shell: Any, cell_id: str | None, text: str | None) -> Any:
    """What a cell is known by: its id, else its text; what is typed in a terminal is always new."""
    if cell_id:
        return cell_id
    if not hasattr(shell, "kernel"):
        return object()
    return "text", (text or "").rstrip("\n")
