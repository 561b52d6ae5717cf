"""Calls whose work is not done here: they say so once, and the script runs on."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from troubleshooter_nb.compat.troubleshooter.log import user_warning
from troubleshooter_nb.messages import Message

__all__ = ["precision_tracker", "proposal", "tracking"]

_said: set[str] = set()


def _say_once(call: str, instead: str) -> None:
    if call not in _said:
        _said.add(call)
        user_warning(Message("compat.passed_over", call=call, instead=instead))


class tracking:
    """Decorator and ``with`` block that once traced every line; here the code only runs.

    Parameters
    ----------
    *args, **kwargs
        Ignored.

    Warns
    -----
    Through logging, once in a process, with what to use.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        _say_once("tracking", Message("compat.instead_of_tracking"))

    def __call__(self, func: Any) -> Any:
        """The function itself, which MindSpore may compile."""
        return func

    def __enter__(self) -> tracking:
        """Nothing begins."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Nothing ends; errors pass."""


class proposal:
    """Decorator and ``with`` block that print an error of their code and let the script go on.

    Parameters
    ----------
    *args, **kwargs
        Ignored.

    Warns
    -----
    Through logging, once in a process, with what to use: the old tool's advice on errors of
    MindSpore 1 is not here.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        _say_once("proposal", Message("compat.instead_of_proposal"))

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which returns None where it raised."""

        @functools.wraps(func)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return guarded

    def __enter__(self) -> proposal:
        """Nothing begins."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> bool:
        """Print an error and keep it; leave what ends the program."""
        if not isinstance(error, Exception):
            return False
        traceback.print_exception(kind, error, where)
        return True


def precision_tracker(*args: object, **kwargs: object) -> None:
    """Once wrote a csv of the dtypes in a compiled graph; here nothing is written.

    Warns
    -----
    Through logging, once in a process, with what to use.
    """
    _say_once("widget.precision_tracker", Message("compat.instead_of_tracker"))
