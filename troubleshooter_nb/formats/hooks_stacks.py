"""Call stacks in the text files of ``torch_npu.hooks`` and ``ptdbg_ascend``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from troubleshooter_nb.formats.hooks_lines import Line
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.hooks import HookName

_LONGEST_FRAME = 1000  # characters
_FRAME = re.compile(
    r"(?s)filename=(['\"])(?P<file>.*?)\1, lineno=(?P<line>[0-9]+), "
    r"function=(['\"])(?P<function>.*?)\4(?:, code_context=\[(['\"])\s*(?P<code>.*?)(?:\\n)?\6\])?"
)


def stacks_of(
    lines: Sequence[Line], hooks: Mapping[int, HookName | None]
) -> dict[tuple[str, int | None, str], str]:
    """The call stack of each call, one frame a line, innermost first."""
    frames: dict[tuple[str, int | None, str], list[str]] = {}
    for line in lines:
        hook = hooks[line.number]
        if hook is not None and hook.io == "stack_info" and not line.fault:
            key = hook.api, hook.call, hook.direction
            records = line.value if isinstance(line.value, list) else [line.value]
            frames.setdefault(key, []).extend(map(_frame, records))
    return {key: "\n".join(texts) for key, texts in frames.items()}


def _frame(record: Any) -> str:
    """``train.py:41 in forward: y = torch.matmul(a, b)``."""
    if isinstance(record, list) and len(record) >= 3:
        file, line, function, *code = map(str, record)
        text = f"{file}:{line} in {function}" + (f": {code[0].strip()}" if code else "")
    elif match := _FRAME.search(str(record)):
        code_text = f": {match['code']}" if match["code"] else ""
        text = f"{match['file']}:{match['line']} in {match['function']}{code_text}"
    else:
        text = str(record)
    return " ".join(printable(text).split())[:_LONGEST_FRAME]
