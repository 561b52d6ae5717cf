"""Progress of long work: silent when it is short, one line that leaves no trace when it is not."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from troubleshooter_nb.messages import Message, told

Progress = Callable[[int], None]

_SHOW_AFTER = 2.0
_EVERY = 0.2


@contextmanager
def reporter(wanted: bool | Callable[[int, int], None] | None, total: int) -> Iterator[Progress]:
    """A function that takes the bytes just finished.

    Parameters
    ----------
    wanted : bool or callable, optional
        Called as ``wanted(done, total)``; True shows at once; None shows after 2 seconds, and only
        on a terminal or in a live notebook.
    total : int, bytes
    """
    if callable(wanted):
        done = 0

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            wanted(done, total)

        yield advance
        return
    line: _Line | None = None if wanted is False else _line()
    if line is None and wanted:
        line = _Plain()
    if line is None:
        yield lambda amount: None
        return
    shown = _Shown(line, total, 0.0 if wanted else _SHOW_AFTER)
    try:
        yield shown.advance
    finally:
        shown.close()


class _Line(Protocol):
    def show(self, text: str, share: float) -> None: ...

    def clear(self) -> None: ...


class _Shown:
    def __init__(self, line: _Line, total: int, after: float) -> None:
        self.line, self.total = line, total
        self.next = time.monotonic() + after
        self.done = 0
        self.visible = False

    def advance(self, amount: int) -> None:
        self.done += amount
        now = time.monotonic()
        if now >= self.next:
            share = self.done / self.total if self.total else 1.0
            done, total = self.done / 1e9, self.total / 1e9
            text = Message("comparisons.progress", share=share, done=done, total=total)
            self.line.show(told(text), share)
            self.next, self.visible = now + _EVERY, True

    def close(self) -> None:
        if self.visible:
            self.line.clear()


class _Terminal:
    def show(self, text: str, share: float) -> None:
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Plain:
    """Where nothing can be erased, one line per tenth."""

    def __init__(self) -> None:
        self.last = -1

    def show(self, text: str, share: float) -> None:
        tenth = round(100 * share) // 10
        if tenth != self.last:
            sys.stderr.write(text + "\n")
            self.last = tenth

    def clear(self) -> None:
        pass


class _Notebook:
    """A display that is updated in place and ends empty, so that a record stays the same."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str, share: float) -> None:
        if self.handle is None:
            display: Any = sys.modules["IPython.display"].display
            self.handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.handle.update({"text/plain": text}, raw=True)

    def clear(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)


def _line() -> _Terminal | _Notebook | None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        return _Notebook()
    return _Terminal() if sys.stderr.isatty() else None
