"""Cells of a notebook: which one runs, which one runs again, which one was interrupted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol


class Runs(Protocol):
    """A recorder, as far as cells matter to it."""

    step: int
    run: int

    def begin_run(self, replaced: int | None) -> None:
        """What comes belongs to the next run of a cell, and what an earlier run gave is void."""


@dataclass(frozen=True)
class Origin:
    """Where a recording was started: a cell and its execution, or a line of a file."""

    place: Any
    execution: int

    def replaces(self, earlier: Origin | None, is_same_net: bool) -> bool:
        """Whether this is the same cell or line, that came here again."""
        if earlier is None or not is_same_net or earlier.place != self.place:
            return False
        return self.execution < 0 or earlier.execution != self.execution


class Cells:
    """Tells a recorder of the cells that run while it does; outside notebooks nothing."""

    def __init__(self, shell: Any, recorder: Runs, interrupted: Callable[[], None]) -> None:
        self._shell, self._recorder, self._interrupted = shell, recorder, interrupted
        self._runs: dict[Any, tuple[int, int]] = {_key_of_running(shell): (0, recorder.step)}
        self._count = 0
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    @classmethod
    def watch(cls, recorder: Runs, interrupted: Callable[[], None]) -> Cells | None:
        """The cells of this notebook; None outside of one."""
        shell = _shell()
        return None if shell is None else cls(shell, recorder, interrupted)

    @staticmethod
    def origin(frame: FrameType) -> Origin:
        """Where the code of a frame stands."""
        shell = _shell()
        if shell is None:
            return Origin((frame.f_code.co_filename, frame.f_lineno), -1)
        return Origin(_key_of_running(shell), int(shell.execution_count))

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
        key = getattr(info, "cell_id", None) or getattr(info, "raw_cell", None)
        earlier = self._runs.get(key)
        self._count += 1
        if earlier is not None:
            self._recorder.step = earlier[1]
        self._runs[key] = self._count, self._recorder.step
        self._recorder.run = self._count
        self._recorder.begin_run(None if earlier is None else earlier[0])

    def _after(self, result: Any) -> None:
        if isinstance(getattr(result, "error_in_exec", None), KeyboardInterrupt):
            self._interrupted()


def _shell() -> Any:
    """The shell of the notebook or console this runs in; None elsewhere."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


def _key_of_running(shell: Any) -> Any:
    """What the cell that runs now is known by: its id, or else its text."""
    kernel: Any = getattr(shell, "kernel", None)
    parent = kernel.get_parent() if hasattr(kernel, "get_parent") else {}
    found = (parent or {}).get("metadata", {}).get("cellId")
    cells = shell.user_ns.get("In") or [""]
    return found or cells[-1]
