"""Progress of long work: silent when it is short, one line that leaves no trace when it is not."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.render.lines import width

Progress = Callable[[int], None]

_SHOW_AFTER = 1.0
_EVERY = 0.2


class Watch(Protocol):
    """Who is told how far work has come."""

    def begin(self, stage: str) -> None:
        """What is done from now on, a message."""

    def count(self, total: int) -> None:
        """From now on so many bytes are read."""

    def advance(self, amount: int) -> None:
        """So many more bytes are done."""


@contextmanager
def watched(wanted: bool | Callable[[int, int], None] | None) -> Iterator[Watch]:
    """Somebody to be told how far work has come.

    Parameters
    ----------
    wanted : bool or callable, optional
        Called as ``wanted(done, total)`` with the bytes that were read; True shows at once; None
        shows after a second, and only on a terminal or in a live notebook.
    """
    if callable(wanted):
        yield _Called(wanted)
        return
    line: _Line | None = None if wanted is False else _line()
    if line is None and wanted:
        line = _Plain()
    if line is None:
        yield _Silent()
        return
    shown = _Shown(line, 0.0 if wanted else _SHOW_AFTER)
    try:
        yield shown
    finally:
        shown.close()


@contextmanager
def reporter(wanted: bool | Callable[[int, int], None] | None, total: int) -> Iterator[Progress]:
    """A function that takes the bytes just finished, of so many in all; see `watched`."""
    with watched(wanted) as watch:
        watch.count(total)
        yield watch.advance


class _Called:
    """A function of the user's own, which hears of bytes only."""

    def __init__(self, wanted: Callable[[int, int], None]) -> None:
        self.wanted, self.done, self.total = wanted, 0, 0

    def begin(self, stage: str) -> None:
        pass

    def count(self, total: int) -> None:
        self.done, self.total = 0, total

    def advance(self, amount: int) -> None:
        self.done += amount
        self.wanted(self.done, self.total)


class _Silent:
    def begin(self, stage: str) -> None:
        pass

    def count(self, total: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


class _Line(Protocol):
    def show(self, text: str, share: float | None) -> None: ...

    def clear(self) -> None: ...


class _Shown:
    """A line that says what is done; a clock of its own shows it while nothing advances."""

    def __init__(self, line: _Line, after: float) -> None:
        self.line = line
        self.next = time.monotonic() + after
        self.stage, self.said = "", ""
        self.done = self.total = 0
        self.lock, self.closed = threading.Lock(), threading.Event()
        # With the context of the cell that is run: what it shows belongs under that cell.
        run = contextvars.copy_context().run
        self.clock = threading.Thread(target=run, args=(self._watch,), daemon=True)
        self.clock.start()

    def begin(self, stage: str) -> None:
        self.stage = stage

    def count(self, total: int) -> None:
        self.stage, self.done, self.total = "", 0, total

    def advance(self, amount: int) -> None:
        self.done += amount
        self._show()

    def close(self) -> None:
        self.closed.set()
        self.clock.join()
        if self.said:
            self.line.clear()

    def _watch(self) -> None:
        while not self.closed.wait(_EVERY):
            self._show()

    def _show(self) -> None:
        with self.lock:
            now = time.monotonic()
            text, share = self._text()
            if text and now >= self.next and text != self.said:
                self.line.show(text, share)
                self.next, self.said = now + _EVERY, text

    def _text(self) -> tuple[str, float | None]:
        if self.stage:
            return told(self.stage), None
        if not self.total:
            return "", None
        share = self.done / self.total
        done, total = self.done / 1e9, self.total / 1e9
        return told(Message("comparisons.progress", share=share, done=done, total=total)), share


class _Terminal:
    def show(self, text: str, share: float | None) -> None:
        # A line that wraps could not be written over.
        sys.stderr.write(f"\r{_cut(text, _columns() - 1)}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _Plain:
    """Where nothing can be erased, one line per stage, or per tenth of the bytes."""

    def __init__(self) -> None:
        self.last = -1

    def show(self, text: str, share: float | None) -> None:
        tenth = -1 if share is None else round(100 * share) // 10
        if tenth != self.last or share is None:
            sys.stderr.write(text + "\n")
            self.last = tenth

    def clear(self) -> None:
        pass


class _Notebook:
    """A display that is updated in place and ends empty, so that a record stays the same."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str, share: float | None) -> None:
        if self.handle is None:
            display: Any = sys.modules["IPython.display"].display
            self.handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.handle.update({"text/plain": text}, raw=True)

    def clear(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _cut(text: str, columns: int) -> str:
    """The beginning of a text that takes no more columns."""
    while width(text) > columns:
        text = text[:-1]
    return text


def _line() -> _Line | None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        return _Notebook()
    if sys.stderr is None or not sys.stderr.isatty():  # None: was closed before the start
        return None
    return _Plain() if os.environ.get("TERM") == "dumb" else _Terminal()
