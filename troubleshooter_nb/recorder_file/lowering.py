"""Statements written for the Python of this package, as Python 3.9 takes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

# Keywords that only newer Pythons take, and that change nothing that a recording relies on.
_NEWER = {"zip": "strict", "dataclass": "slots"}
_ASKS = ("isinstance", "issubclass")


class _Edit(NamedTuple):
    """Text between two places, in bytes, that is replaced."""

    start: int
    end: int
    text: str


def lowered(text: str) -> str:
    """The same statement for Python 3.9; its comments and lines stay.

    ``zip(strict=)`` and ``dataclass(slots=)`` go, and ``isinstance(x, A | B)`` asks a tuple.
    """
    stored = text.encode()
    starts = [0]
    for line in stored.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(line: int | None, column: int | None) -> int:
        return starts[(line or 1) - 1] + (column or 0)

    def begin(node: ast.expr | ast.keyword) -> int:
        return place(node.lineno, node.col_offset)

    def end(node: ast.expr | ast.keyword) -> int:
        return place(node.end_lineno, node.end_col_offset)

    edits: list[_Edit] = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        given: list[ast.expr | ast.keyword] = [*node.args, *node.keywords]
        newer = [k for k in node.keywords if k.arg and k.arg == _NEWER.get(node.func.id)]
        if newer:
            at = given.index(newer[0])
            if at:  # with the comma in front of it
                edits.append(_Edit(end(given[at - 1]), end(newer[0]), ""))
            elif len(given) > 1:
                edits.append(_Edit(begin(newer[0]), begin(given[1]), ""))
            else:
                edits.append(_Edit(begin(newer[0]), end(newer[0]), ""))
        if node.func.id in _ASKS and isinstance(node.args[-1], ast.BinOp):
            union = node.args[-1]
            edits.append(_Edit(begin(union), end(union), f"({', '.join(_kinds(union))})"))
    for start, stop, instead in sorted(edits, reverse=True):
        stored = stored[:start] + instead.encode() + stored[stop:]
    return stored.decode()


def _kinds(union: ast.expr) -> Iterator[str]:
    if isinstance(union, ast.BinOp):
        yield from _kinds(union.left)
        yield from _kinds(union.right)
    else:
        is_none = isinstance(union, ast.Constant) and union.value is None
        yield "type(None)" if is_none else ast.unparse(union)
