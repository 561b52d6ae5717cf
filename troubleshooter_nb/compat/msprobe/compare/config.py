"""``compare.json``: which dumps msprobe's comparison is to compare."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troubleshooter_nb.errors import FormatError, PathNotFoundError
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.messages import Foreign, Message

_KNOWN = (
    *("npu_path", "bench_path", "stack_path"),
    *("is_print_compare_log", "rank_id", "step_id"),
)
_LARGEST = 1 << 20  # characters


@dataclass(frozen=True)
class Config:
    """What a ``compare.json`` says.

    Attributes
    ----------
    target, golden : Path
        Jsons, folders of ranks, or folders of kernel dumps.
    stack : Path or None
    prints_rows : bool
        A line on the screen for each row.
    ranks, steps : tuple of int
        Of kernel dumps; all where empty.
    is_of_kernels : bool
        Whether it speaks of ranks or steps, as only that of kernel dumps does.
    unknown : tuple of str
        Keys that say nothing here.
    """

    target: Path
    golden: Path
    stack: Path | None = None
    prints_rows: bool = True
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    is_of_kernels: bool = False
    unknown: tuple[str, ...] = ()


def read_config(path: Path) -> Config:
    """Read a ``compare.json``; from ``#`` to the end of a line is a comment, as documented.

    Raises
    ------
    FileNotFoundError
        If it does not exist.
    FormatError
        If it is no such file; the message says what it needs.
    """
    if not path.is_file():
        raise PathNotFoundError(Message("msprobe_compare.no_config", why=not_there(path)))
    text = path.read_text(encoding="utf-8-sig", errors="replace")[:_LARGEST]
    try:
        content = json.loads(without_comments(text))
    except json.JSONDecodeError as error:
        said = {"file": path.name, "line": error.lineno, "problem": Foreign(error.msg)}
        raise FormatError(Message("msprobe_compare.config_no_json", **said)) from None
    except RecursionError:
        content = None
    if not isinstance(content, dict):
        raise FormatError(Message("msprobe_compare.config_no_table", file=path.name))
    return _checked(content, path.name)


def without_comments(text: str) -> str:
    """Json without what stands behind a ``#`` that is in no text."""
    kept: list[str] = []
    for line in text.split("\n"):
        inside = escaped = False
        for at, character in enumerate(line):
            if escaped:
                escaped = False
            elif inside and character == "\\":
                escaped = True
            elif character == '"':
                inside = not inside
            elif character == "#" and not inside:
                line = line[:at]
                break
        kept.append(line)
    return "\n".join(kept)


def _checked(content: dict[str, Any], file: str) -> Config:
    paths = []
    for key in ("npu_path", "bench_path"):
        if not isinstance(content.get(key), str) or not content[key]:
            raise FormatError(Message("msprobe_compare.config_path", file=file, key=key))
        paths.append(Path(content[key]))
    stack = content.get("stack_path")
    if stack is not None and not isinstance(stack, str):
        raise FormatError(Message("msprobe_compare.config_path", file=file, key="stack_path"))
    prints = content.get("is_print_compare_log", True)
    if not isinstance(prints, bool):
        said = {"file": file, "key": "is_print_compare_log", "given": repr(prints)}
        raise FormatError(Message("msprobe_compare.config_bool", **said))
    return Config(
        paths[0],
        paths[1],
        Path(stack) if stack else None,
        prints,
        _numbers(content, "rank_id", file),
        _numbers(content, "step_id", file),
        "rank_id" in content or "step_id" in content,
        tuple(str(key) for key in content if key not in _KNOWN),
    )


def _numbers(content: dict[str, Any], key: str, file: str) -> tuple[int, ...]:
    given = content.get(key, [])
    if not isinstance(given, list) or any(type(one) is not int or one < 0 for one in given):
        said = {"file": file, "key": key, "given": repr(given)}
        raise FormatError(Message("msprobe_compare.config_numbers", **said))
    return tuple(given)
