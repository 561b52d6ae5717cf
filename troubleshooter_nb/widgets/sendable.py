"""Texts that can be sent: half a pair of surrogates has no UTF-8 and comes escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from troubleshooter_nb.naming.characters import printable


def sendable(message: Any) -> Any:
    """A message with all its texts in a form that JSON in UTF-8 holds.

    Parameters
    ----------
    message : str, mapping, list, tuple or anything else
        Names of files may hold whatever their writer put there.

    Returns
    -------
    Any
        The same, such a half as a backslash and its number; tuples become lists.
    """
    if isinstance(message, str):
        return printable(message)
    if isinstance(message, (list, tuple)):  # thousands of rows of numbers and short texts
        return [one if type(one) is int else sendable(one) for one in message]
    if isinstance(message, Mapping):
        return {key: sendable(value) for key, value in message.items()}
    return message
