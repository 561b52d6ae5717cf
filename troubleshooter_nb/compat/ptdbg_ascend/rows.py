"""The rows of the tool's csv, one per tensor of the left side."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from troubleshooter_nb.compat.ptdbg_ascend.calls import CallLines, pairs_of_calls
from troubleshooter_nb.compat.ptdbg_ascend.figures import (
    FIGURES,
    CsvFigures,
    figures_of,
    not_measured,
)
from troubleshooter_nb.compat.ptdbg_ascend.releases import Release
from troubleshooter_nb.compat.ptdbg_ascend.verdicts import NAN, verdict
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.hooks_lines import Line
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Message, joined, message_of, told

_NO_STACK = "None"


class CsvRow(NamedTuple):
    """A line of the csv; `verdict` is empty where statistics alone are compared."""

    name: str
    verdict: str
    cells: list[str]


class Arrays:
    """The ``.npy`` files of one side, by the names of their lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = {file for file in os.listdir(folder) if file.endswith(".npy")}

    def source(self, name: str) -> ArraySource:
        """The array of a line; FormatError or OSError where it cannot be read."""
        file = f"{name}.npy"
        if file not in self._files:
            missing = {"file": file, "folder": self.folder.name}
            raise FormatError(Message("ptdbg_ascend.no_array", **missing))
        return open_npy(self.folder / file)


def rows_of(
    left: Sequence[CallLines],
    right: Sequence[CallLines],
    arrays: tuple[Arrays, Arrays] | None,
    release: Release,
    *,
    with_stacks: bool,
) -> Iterator[CsvRow]:
    """The rows in the order of the left side.

    Parameters
    ----------
    left, right : sequence of Call
        The right side is the reference.
    arrays : (Arrays, Arrays) or None
        Of both sides; None where statistics alone are compared.
    release : Release
    with_stacks : bool
        Have the call stack of the left side in the first row of each call.
    """
    for call, partner in pairs_of_calls(left, right, release):
        partners = partner.lines if partner else repeat(None)
        for place, (line, other) in enumerate(zip(call.lines, partners, strict=False)):
            row = _row(line, other, arrays, release)
            if with_stacks:
                row.cells.append(call.stack if call.stack and not place else _NO_STACK)
            yield row


def _row(
    line: Line, other: Line | None, arrays: tuple[Arrays, Arrays] | None, release: Release
) -> CsvRow:
    names, dtypes, shapes = _heads(line, other)
    head = [*names, *dtypes, *shapes]
    count = len(release.statistics)
    sides = [
        cell
        for one in (line, other)
        for cell in ([_shown(v, one) for v in _statistics(one, count)] if one else [NAN] * count)
    ]
    if arrays is None:
        return CsvRow(line.name, "", [*head, *_diffs(line, other, count), *sides])
    if other is None:
        figures = not_measured(Message("ptdbg_ascend.no_partner"))
    else:
        figures = _measured(line, other, arrays, release)
    found = dict(zip(FIGURES, figures.cells, strict=True))
    judged = verdict(found["Cosine"], found["MaxAbsErr"], release.rule)
    shown = [str(found[heading]) for heading in release.figures]
    return CsvRow(line.name, judged, [*head, *shown, *sides, judged, told(figures.problem)])


def _heads(line: Line, other: Line | None) -> tuple[list[str], list[str], list[str]]:
    both = (line, other)
    return (
        [one.name if one else NAN for one in both],
        [one.dtype if one else NAN for one in both],
        [str([*(one.shape or ())]) if one else NAN for one in both],
    )


def _measured(
    left: Line, right: Line, arrays: tuple[Arrays, Arrays], release: Release
) -> CsvFigures:
    """The figures; where an array cannot be read, why."""
    found = [_opened(*one) for one in zip(("NPU", "Bench"), (left, right), arrays, strict=True)]
    sources = [one for one in found if not isinstance(one, str)]
    if len(sources) < len(found):
        return not_measured(joined([one for one in found if isinstance(one, str)]))
    try:
        return figures_of(sources[0], sources[1], release)
    except OSError as error:
        return not_measured(message_of(error))


def _opened(side: str, line: Line, arrays: Arrays) -> ArraySource | str:
    """The array of a line, or why it cannot be read."""
    try:
        return arrays.source(line.name)
    except (FormatError, OSError) as error:
        return Message("ptdbg_ascend.not_read", side=side, problem=message_of(error))


def _statistics(line: Line, count: int) -> list[float]:
    """So many statistics, nan for those that the line lacks."""
    return [*line.statistics, *[math.nan] * count][:count]


def _diffs(line: Line, other: Line | None, count: int) -> list[str]:
    if other is None:
        return [NAN] * count
    pairs = zip(_statistics(line, count), _statistics(other, count), strict=True)
    return [_shown(left - right, line) for left, right in pairs]


def _shown(value: float, line: Line) -> str:
    """As Python shows it, integers of Python without a point; ``Nan`` for what is no number."""
    if math.isnan(value):
        return NAN
    is_whole = line.dtype in ("<class 'int'>", "<class 'bool'>") and value.is_integer()
    return str(int(value) if is_whole else value)
