"""Names in characters that UTF-8 has."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that can be written out and sent: half of a character comes escaped.

    Names of files and of json hold such halves, of which UTF-8 has no bytes.
    """
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
