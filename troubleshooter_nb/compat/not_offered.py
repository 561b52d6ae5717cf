"""Calls of an old tool that this package does not have: they exist and say what to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from troubleshooter_nb.errors import NotOfferedError
from troubleshooter_nb.messages import Message


def not_offered(name: str, instead: str) -> Callable[..., NoReturn]:
    """A function that takes anything and raises NotOfferedError.

    Parameters
    ----------
    name : str
        The call, as the old tool's documents write it.
    instead : str
        What to use, a message that follows a semicolon.
    """

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise NotOfferedError(Message("compat.not_offered", name=name, instead=instead))

    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    refuse.__doc__ = f"Raises NotOfferedError; {instead}."
    return refuse
