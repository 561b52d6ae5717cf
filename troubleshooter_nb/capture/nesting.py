"""How the arguments of a call are nested, as a text of JSON.

``{"args": [node, ...], "keywords": {name: node}}``. A node is None for a leaf, which has a slot of
its own; ``["list", [node, ...]]``; ``["tuple", [node, ...]]``; ``["dict", [[key, node], ...]]``;
or ``["lost", class]`` for what cannot be made again from its leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

_DEEPEST = 12  # levels, as those of `leaves`
_KINDS = {"list": "list", "tuple": "tuple", "Size": "tuple", "dict": "dict", "OrderedDict": "dict"}
_KEYS = (str, int, bool, type(None))


def nesting_of(
    args: tuple[Any, ...], keywords: Mapping[str, Any], is_value: Callable[[Any], bool]
) -> str:
    """The nesting of what a call is given; `is_value` says what is a leaf."""
    given = [_node(value, is_value, _DEEPEST) for value in args]
    named = {name: _node(value, is_value, _DEEPEST) for name, value in keywords.items()}
    return json.dumps({"args": given, "keywords": named}, separators=(",", ":"))


def _node(value: Any, is_value: Callable[[Any], bool], levels: int) -> Any:
    if is_value(value):
        return None
    name = type(value).__name__
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return ["lost", name]
    if not isinstance(value, list | tuple | Mapping):
        return None
    if not levels or name not in _KINDS:
        return ["lost", name]
    if isinstance(value, list | tuple):
        return [_KINDS[name], [_node(part, is_value, levels - 1) for part in value]]
    if not all(type(key) in _KEYS for key in value):
        return ["lost", name]
    parts = value.items()
    return ["dict", [[key, _node(part, is_value, levels - 1)] for key, part in parts]]
