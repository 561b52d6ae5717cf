"""Text of files in characters that UTF-8 has, and that no spreadsheet computes with."""

from __future__ import annotations

import re

from troubleshooter_nb.messages import ACTING, visible

# What spreadsheets take for the start of a formula, or strip to get there.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Characters that no cell of a sheet may hold, and how long one may be.
_NOT_IN_SHEETS = re.compile("[\ufffe\uffff]")
# What means something in Markdown, or is HTML in it.
_IN_MARKDOWN = re.compile(r"[\\|`*\[\]<>&~]")
_LONGEST_CELL = 32_767


def printable(text: str) -> str:
    """Text that can be written out and sent: half of a character comes escaped.

    Names of files and of json hold such halves, of which UTF-8 has no bytes.
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def for_sheet(text: str) -> str:
    """Text that a cell of an ``.xlsx`` can hold: other characters come escaped, the rest is cut."""
    found = _NOT_IN_SHEETS.sub(lambda one: f"\\u{ord(one[0]):04x}", visible(text))
    return found if len(found) <= _LONGEST_CELL else f"{found[: _LONGEST_CELL - 1]}…"


def in_markdown(text: str) -> str:
    """Text on one line that Markdown shows as it is."""
    return _IN_MARKDOWN.sub(r"\\\g<0>", visible(text.replace("\r", " ").replace("\n", " ")))


def in_json(text: str) -> str:
    """JSON in which characters that a terminal acts on are escaped; it says the same."""
    return ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def without_formula(text: str) -> str:
    """Text that a spreadsheet does not run: with an apostrophe in front, unless it is a number."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
