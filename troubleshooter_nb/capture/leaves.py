"""What a nested argument or result consists of, each part with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

_DEEPEST = (
    12  # levels; what lies deeper, such as an object that holds itself, is named by its class
)
_PLAIN = (type(None), bool, int, float, str)


def leaves_of(
    args: tuple[Any, ...], keywords: Mapping[str, Any], is_value: Callable[[Any], bool]
) -> list[tuple[str, Any]]:
    """Slot and value of every leaf of a call's arguments: ``0``, ``1.mask``, ``scale``.

    Lists, tuples, mappings and dataclasses are entered. `is_value` says what is a leaf although it
    might be one of these.
    """
    found: list[tuple[str, Any]] = []
    for number, value in enumerate(args):
        if is_value(value):
            found.append((str(number), value))
        else:
            _enter(value, str(number), found, is_value, _DEEPEST)
    for name, value in keywords.items():
        _enter(value, name, found, is_value, _DEEPEST)
    return found


def leaves_of_output(output: Any, is_value: Callable[[Any], bool]) -> list[tuple[str, Any]]:
    """Slot and value of every leaf of a result; one that is no tuple, list or dict has slot 0."""
    if is_value(output):
        return [("0", output)]
    found: list[tuple[str, Any]] = []
    if output is None:
        return found
    is_nested = isinstance(output, list | tuple | Mapping) or _is_record(output)
    _enter(output, "" if is_nested else "0", found, is_value, _DEEPEST)
    return found


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _enter(
    value: Any,
    slot: str,
    found: list[tuple[str, Any]],
    is_value: Callable[[Any], bool],
    levels: int,
) -> None:
    if is_value(value) or type(value) in _PLAIN or not levels:
        found.append((slot, value))
        return
    if isinstance(value, Mapping):
        parts = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(str(number), part) for number, part in enumerate(value)]
    elif _is_record(value):
        # Not asdict(), which would copy every tensor.
        parts = [(each.name, getattr(value, each.name, None)) for each in fields(value)]
    else:
        found.append((slot, value))
        return
    for name, part in parts:
        _enter(part, f"{slot}.{name}" if slot else name, found, is_value, levels - 1)
