"""JSON as ``json.dumps(content, indent=1)`` writes it, some times faster.

The standard encoder takes as long for the json of a step as all statistics in it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from troubleshooter_nb.compat.msprobe.trees import Plain

_WORDS = {None: "null", True: "true", False: "false"}
text_of = json.JSONEncoder(ensure_ascii=False).encode


class Written(str):
    """A part that is json already, at the left edge."""

    __slots__ = ()


def indented(content: Any, pad: str = "\n") -> str:
    """Tables with texts as keys, lists, texts, numbers, None and what is `Written`; NaN is bare."""
    kind = type(content)
    if kind is Written:
        return str(content).replace("\n", pad)
    if kind is Plain:
        kind = dict
    if kind is float:
        return repr(content) if math.isfinite(content) else text_of(content)
    if kind is int:
        return repr(content)
    if content is None or kind is bool:
        return _WORDS[content]
    if kind is not dict and kind is not list:
        return text_of(content)
    if not content:
        return "{}" if kind is dict else "[]"
    inner = f"{pad} "
    if kind is list:
        return f"[{inner}{f',{inner}'.join([indented(part, inner) for part in content])}{pad}]"
    parts = [f"{text_of(key)}: {indented(part, inner)}" for key, part in content.items()]
    return f"{{{inner}{f',{inner}'.join(parts)}{pad}}}"
