"""Interrupts (Ctrl-C, the stop button) that end a part of a work and not what was done before."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")

# Presses that wait until they are heard; one more is somebody who will not wait.
_PATIENCE = 2


class Interrupts:
    """Has an interrupt raised inside the parts that may end early, and wait between them.

    In the main thread, where nobody else handles interrupts; elsewhere they come when they come.
    Until the first part they are raised as ever. To be used in a ``with`` statement.
    """

    def __init__(self) -> None:
        self._is_heard = True
        self._is_ours = False
        self._waiting = 0

    def __enter__(self) -> Interrupts:
        """Begin to listen."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._hear)
            self._is_ours = True
        return self

    def __exit__(self, *_: object) -> None:
        """Leave interrupts to Python again."""
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _hear(self, _: int, frame: FrameType | None) -> None:
        self._waiting += 1
        if self._is_heard or self._waiting > _PATIENCE:
            self._is_heard = False
            raise KeyboardInterrupt

    def part(
        self, step: Callable[_Asked, _Answer], *asked: _Asked.args, **options: _Asked.kwargs
    ) -> tuple[_Answer | None, bool]:
        """What a step gives, and whether it came to its end.

        An interrupt before it, which waited, is one within it. None where it did not come to its
        end.
        """
        try:
            self._is_heard = True
            if self._waiting:
                return None, False
            answer = step(*asked, **options)
            self._is_heard = False
            return answer, True
        except KeyboardInterrupt:
            return None, False
        finally:
            self._is_heard = False
