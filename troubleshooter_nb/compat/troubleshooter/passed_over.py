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


def _say_once(call: str, said: str) -> None:
    if call not in _said:
        _said.add(call)
        user_warning(said)


def _does_nothing(call: str, instead: str) -> str:
    return Message("compat.passed_over", call=call, instead=instead)


def _is_bare(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a decorator stands without brackets, so that it is called with what it decorates."""
    return len(args) == 1 and not kwargs and (callable(args[0]) or hasattr(args[0], "__get__"))


class tracking:
    """Decorator and ``with`` block that once traced every line; here the code only runs.

    Parameters
    ----------
    *args, **kwargs
        Ignored; a function alone is what is decorated, and comes back.

    Warns
    -----
    Through logging, once in a process, with what to use.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The tracking, or the function that it stands over without brackets."""
        said = _does_nothing("tracking", Message("compat.instead_of_tracking"))
        _say_once("tracking", said)
        made = super().__new__(cls)
        return made(args[0]) if _is_bare(args, kwargs) else made

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
        Ignored; a function alone is what is decorated.

    Warns
    -----
    Through logging, once in a process, with what it does and what to use: the old tool's advice on
    errors of MindSpore 1 is not here.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The proposal, or the guarded function that it stands over without brackets."""
        _say_once("proposal", Message("compat.proposal"))
        made = super().__new__(cls)
        return made(args[0]) if _is_bare(args, kwargs) else made

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
    call = "widget.precision_tracker"
    _say_once(call, _does_nothing(call, Message("compat.instead_of_tracker")))
