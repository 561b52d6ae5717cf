"""Text of files in characters that UTF-8 has, and that no spreadsheet computes with."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that can be written out and sent: half of a character comes escaped.

    Names of files and of json hold such halves, of which UTF-8 has no bytes.
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


# What spreadsheets take for the start of a formula, or strip to get there.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def without_formula(text: str) -> str:
    """Text that a spreadsheet does not run: with an apostrophe in front, unless it is a number."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
