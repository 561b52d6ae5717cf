"""Text of files in characters that UTF-8 has, and that no spreadsheet computes with."""

from __future__ import annotations

import re

# What spreadsheets take for the start of a formula, or strip to get there.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Characters that no cell of a sheet may hold, and how long one may be.
_NOT_IN_SHEETS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LONGEST_CELL = 32_767


def printable(text: str) -> str:
    """Text that can be written out and sent: half of a character comes escaped.

    Names of files and of json hold such halves, of which UTF-8 has no bytes.
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def for_sheet(text: str) -> str:
    """Text that a cell of an ``.xlsx`` can hold: other characters come escaped, the rest is cut."""
    found = _NOT_IN_SHEETS.sub(_escaped, text)
    return found if len(found) <= _LONGEST_CELL else f"{found[: _LONGEST_CELL - 1]}…"


def _escaped(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def without_formula(text: str) -> str:
    """Text that a spreadsheet does not run: with an apostrophe in front, unless it is a number."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
