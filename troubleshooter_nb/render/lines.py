"""Lines of text: at most 25 of at most 100 columns, Chinese characters two columns wide."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from troubleshooter_nb.messages import Message

COLUMNS, LINES = 100, 25
_WITHOUT_END = 1 << 40
_is_whole: ContextVar[bool] = ContextVar("is_whole", default=False)
_BETWEEN, _WIDEST = "  ", 48  # between columns of a table, and of one that is padded
_ASCII = str.maketrans(
    {
        **{"−": "-", "≤": "<=", "–": "-", "◇": "N", "▲": "^", "×": "x", "∞": "inf", "→": "->"},
        **{"✓": "ok", "✗": "x", "○": "-", "➤": ">", "↳": ">", "…": "...", "Δ": "d"},
    }
)
_WIDE = "\u2e80-\u9fff\uff00-\uffef"
_CLOSING = "\uff0c\u3002\uff1a\uff1b\u3001\uff09"  # comma, full stop, colon, semicolon, ...


@contextmanager
def whole_texts() -> Iterator[None]:
    """Within it texts have all their lines, and lines all their columns: for a file, no screen."""
    token = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(token)


def is_whole() -> bool:
    """Whether a text is for a file, see `whole_texts`."""
    return _is_whole.get()


def most_lines(on_screen: int = LINES) -> int:
    """Lines of a text, or of a part that has so many on a screen."""
    return _WITHOUT_END if is_whole() else on_screen


def most_columns() -> int:
    """Columns of a line that cannot be wrapped."""
    return _WITHOUT_END if is_whole() else COLUMNS


def width(text: str) -> int:
    """Columns that the text takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def padded(text: str, columns: int) -> str:
    """The text with spaces up to this many columns."""
    return text + " " * max(0, columns - width(text))


def gap(text: str) -> str:
    """What stands between a text and the next one: a space, which Chinese marks bring along."""
    return "" if text.endswith((*_CLOSING,)) else " "


def spaced(*parts: str) -> str:
    """Texts one after the other with a `gap` between; empty ones are left out."""
    text = ""
    for part in filter(None, parts):
        text += (gap(text) if text else "") + part
    return text


def wrapped(
    text: str, facts: Mapping[str, Any], *, indent: int = 0, columns: int = COLUMNS
) -> list[str]:
    """The text cut at spaces, or between Chinese characters, into lines of at most `columns`."""
    # A Chinese character or a word with what may not be cut from it, and spaces behind a word.
    pieces = re.findall(
        f"\uff08*(?:(?!\uff08)[{_WIDE}]|[^\\s{_WIDE}]+)[{_CLOSING}]*\\s*|\uff08+|\\s+",
        _plain(text, facts),
    )
    lines, line = [], ""
    for piece in pieces:
        if line and width(line + piece.rstrip()) > columns - indent:
            lines.append(line)
            line = ""
        line += piece
    return [f"{' ' * indent}{line.rstrip()}" for line in (*lines, line)]


def fitted(lines: list[str], facts: Mapping[str, Any]) -> str:
    """The lines as one text of at most `most_lines()`, each of at most `most_columns()`.

    Control characters of names are made visible.
    """
    most = most_lines()
    shown = lines[:most]
    if len(lines) > most:
        rest = Message("pages.more_lines", count=len(lines) - most + 1)
        shown[-1] = f"  ... {rest.told(facts['language'])}"
    return "\n".join(fitted_line(line, facts) for line in shown)


def fitted_line(line: str, facts: Mapping[str, Any]) -> str:
    """A line of at most `most_columns()`, with control characters made visible."""
    return _cut(_plain(line, facts), most_columns(), facts)


def _plain(line: str, facts: Mapping[str, Any]) -> str:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return _ascii(shown) if facts["ascii"] else shown


def _ascii(line: str) -> str:
    """The line without the marks that ASCII lacks; the middle dot by what it stands for."""
    # A separator like the bars of an absolute value would be read as one of them.
    separator = "; " if "|" in line else " | "
    line = re.sub(r"^(\s*)· ", r"\1- ", line).replace(" · ", separator)
    return line.replace("·", "*").translate(_ASCII)


def _cut(line: str, columns: int, facts: Mapping[str, Any]) -> str:
    if width(line) <= columns:
        return line
    end = "..." if facts["ascii"] else "…"
    kept, used = [], 0
    for character in line:
        used += width(character)
        if used > columns - len(end):
            break
        kept.append(character)
    return "".join(kept) + end


def aligned(
    rows: Sequence[Sequence[str]],
    is_left: Sequence[bool],
    facts: Mapping[str, Any],
    spans: Sequence[tuple[int, int, str]] = (),
) -> list[str]:
    """The rows of a table as lines whose columns stand under each other.

    Parameters
    ----------
    rows : sequence of sequence of str
        Titles, if any, are the first.
    is_left : sequence of bool, one per column
    facts : mapping
    spans : sequence of (first, after, text), one per row, optional
        A text that is not empty stands in place of these columns, cut where it has no room.
    """
    plain = [[_plain(cell, facts) for cell in cells] for cells in rows]
    widths = [min(max(map(width, column)), _WIDEST) for column in zip(*plain, strict=True)]
    lines = []
    for at, cells in enumerate(plain):
        shown = [
            padded(cell, wide) if left else " " * (wide - width(cell)) + cell
            for cell, wide, left in zip(cells, widths, is_left, strict=True)
        ]
        first, after, text = spans[at] if spans else (0, 0, "")
        if text:
            room = width(_BETWEEN.join(shown[first:after]))
            shown[first:after] = [padded(_cut(_plain(text, facts), room, facts), room)]
        lines.append(_BETWEEN.join(shown).rstrip())
    return lines
