"""JSON as ``json.dumps(content, indent=1)`` writes it, some times faster.

The standard encoder takes as long for the json of a step as all statistics in it.
"""

from __future__ import annotations

import json
import math
from typing import Any

_WORDS = {None: "null", True: "true", False: "false"}
_text = json.JSONEncoder(ensure_ascii=False).encode


def indented(content: Any, pad: str = "\n") -> str:
    """Tables with texts as keys, lists, texts, numbers and None; NaN and infinities are bare."""
    kind = type(content)
    if kind is float:
        return repr(content) if math.isfinite(content) else _text(content)
    if kind is int:
        return repr(content)
    if content is None or kind is bool:
        return _WORDS[content]
    if kind is not dict and kind is not list:
        return _text(content)
    if not content:
        return "{}" if kind is dict else "[]"
    inner = f"{pad} "
    if kind is list:
        return f"[{inner}{f',{inner}'.join([indented(part, inner) for part in content])}{pad}]"
    parts = [f"{_text(key)}: {indented(part, inner)}" for key, part in content.items()]
    return f"{{{inner}{f',{inner}'.join(parts)}{pad}}}"
