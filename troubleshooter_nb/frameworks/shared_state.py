"""A state of a whole process that several recordings want, each for a while of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class SharedState:
    """A context that may be entered and left in any order, also by several threads.

    Parameters
    ----------
    enter : function
        Called by the first to enter; what it returns is called by the last to leave.
    """

    def __init__(self, enter: Callable[[], Callable[[], Any]]) -> None:
        self._enter, self._count = enter, 0
        # A recording that is dropped ends wherever the collector runs, also within these.
        self._lock = threading.RLock()
        self._restore: Callable[[], Any] = lambda: None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Have the state while this is open."""
        with self._lock:
            if not self._count:
                self._restore = self._enter()
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count:
                    self._restore()
