"""Tables in the old tools' look: centred text in a frame, and the same rows as csv."""

from __future__ import annotations

import csv
import os
import unicodedata
from collections.abc import Sequence
from os import PathLike

Row = Sequence[object]


def text_table(title: str, fields: Sequence[str], rows: Sequence[Row]) -> str:
    """A framed table with a title row, centred as prettytable 3.7 centres.

    Parameters
    ----------
    title : str
        A title wider than the columns widens them in proportion.
    fields : sequence of str
        Column headings.
    rows : sequence of sequences
        One value per field; None is printed as ``None``. Control characters come escaped, so
        that a file name cannot break the frame.

    Returns
    -------
    str
        Without a line break at the end.
    """
    cells = [[_visible(str(value)) for value in row] for row in (fields, *rows)]
    title = _visible(title)
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    inner = sum(widths) + 3 * len(widths) - 1
    missing = _width(title) + 2 - inner
    if missing > 0:
        content = sum(widths)
        widths = [width * (content + missing) // content for width in widths]
        widths[-1] += content + missing - sum(widths)
        inner += missing
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    lines = ["+" + "-" * inner + "+", f"|{_centred(f' {title} ', inner)}|", rule]
    for number, row in enumerate(cells):
        padded = (f" {_centred(cell, width)} " for cell, width in zip(row, widths, strict=True))
        lines += ["|".join(["", *padded, ""]), *([rule] if number == 0 else [])]
    return "\n".join([*lines, rule])


def write_csv(path: str | PathLike[str], fields: Sequence[str], rows: Sequence[Row]) -> None:
    """Write the same table as csv: every field quoted, None empty, LF, an empty line at the end.

    The file is created for its owner alone. Bytes of an older file do not survive; the old tool
    left the tail of a longer one below the new rows.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([fields, *rows])
        file.write("\n")


def _centred(text: str, width: int) -> str:
    """Where the space is odd, one more on the right of a text of odd width, else on the left."""
    space = width - _width(text)
    left = space // 2 + (space % 2 if _width(text) % 2 == 0 else 0)
    return " " * left + text + " " * (space - left)


def _width(text: str) -> int:
    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me")
        else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
