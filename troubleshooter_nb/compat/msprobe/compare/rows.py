"""The measured rows of a comparison: what the table shows and the verdicts are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from troubleshooter_nb.analysis.measuring import threads
from troubleshooter_nb.compat.msprobe.compare.differences import difference_cells
from troubleshooter_nb.compat.msprobe.compare.metrics import (
    METRICS,
    UNSUPPORTED,
    Cell,
    Measured,
    measure,
)
from troubleshooter_nb.compat.msprobe.compare.pairs import Pair
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.values import Side, Value
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.msprobe_tensors import open_tensor
from troubleshooter_nb.messages import Message, message_of

Mode = Literal["tensor", "statistics", "md5"]


@dataclass
class Row:
    """One row of a table.

    Attributes
    ----------
    pair : Pair
    metrics : tuple
        The cells of `METRICS`.
    differences : list
        The cells of `DIFFERENCES`.
    verdict : str
    color : {"", "red", "yellow"}
    notes : list of str
        What the column of messages says, messages.
    problem : str
        Why a tensor could not be read.
    """

    pair: Pair
    metrics: tuple[Cell, ...] = ()
    trouble: str = ""
    differences: list[Cell] = field(default_factory=list)
    verdict: str = ""
    color: Literal["", "red", "yellow"] = ""
    notes: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def is_matched(self) -> bool:
        """Whether both sides have it."""
        return self.pair.target is not None and self.pair.golden is not None

    @property
    def sides(self) -> tuple[Value | None, Value | None]:
        """Target and golden."""
        return self.pair.target, self.pair.golden

    def metric(self, name: str) -> Cell:
        """The cell of one of `METRICS`."""
        return self.metrics[METRICS.index(name)]

    def number(self, name: str) -> float | None:
        """The same as a number; None where it is a text."""
        cell = self.metric(name)
        return None if isinstance(cell, str) else float(cell)


def mode_of(target: Side, golden: Side) -> Mode:
    """What two dumps can be compared by: the most that both have.

    Raises
    ------
    FormatError
        If they have nothing in common.
    """
    sides = target, golden
    if all(side.has_tensors for side in sides):
        return "tensor"
    of_digests = all(side.has_digests and not side.has_tensors for side in sides)
    if not of_digests and all(side.has_figures for side in sides):
        return "statistics"
    if all(side.has_digests for side in sides):
        return "md5"
    raise FormatError(Message("msprobe_compare.nothing_common"))


def measured_rows(
    pairs: Sequence[Pair],
    target: Side,
    golden: Side,
    release: Release,
    mode: Mode,
) -> list[Row]:
    """The rows with their figures, in the order of the pairs.

    Parameters
    ----------
    pairs : sequence of Pair
    target, golden : Side
    release : Release
    mode : {"tensor", "statistics", "md5"}
    """
    is_classic = release.verdicts == "classic"
    rows = []
    for row in _rows(pairs, target, golden, release, mode):
        if mode == "statistics":
            row.differences = difference_cells(
                *row.sides, is_classic=is_classic, is_torch=target.has_torch_names
            )
        if row.pair.is_fuzzy:
            row.notes.append(Message("msprobe_compare.fuzzy"))
        rows.append(row)
    return rows


def _rows(
    pairs: Sequence[Pair], target: Side, golden: Side, release: Release, mode: Mode
) -> Iterable[Row]:
    if mode != "tensor":
        return [Row(pair) for pair in pairs]

    def measured(pair: Pair) -> Row:
        found, problem = _measured(pair, target, golden, release)
        return Row(pair, found.cells, found.trouble, problem=problem)

    with ThreadPoolExecutor(threads()) as workers:
        return list(workers.map(measured, pairs))


def _measured(pair: Pair, target: Side, golden: Side, release: Release) -> tuple[Measured, str]:
    nothing = Measured((UNSUPPORTED,) * len(METRICS))
    empty = Measured(((0.0 if release.whole_calls else UNSUPPORTED),) * len(METRICS), "empty")
    mine, theirs = pair.target, pair.golden
    if mine is None or theirs is None or not (mine.is_tensor and theirs.is_tensor):
        return nothing, ""
    if not (mine.file and theirs.file):
        return (empty if _is_empty(mine, theirs) else nothing), ""
    try:
        sources = [
            open_tensor(side.tensors / value.file)
            for side, value in ((target, mine), (golden, theirs))
        ]
        old = release.has_old_zeros
        found = measure(sources[0], sources[1], squeezes=not old, own_step=not old)
        return (empty if found.trouble == "empty" else found), ""
    except (FormatError, ReadError) as error:
        return nothing, message_of(error)
    except OSError as error:
        return nothing, Message("msprobe_compare.not_read", problem=error)


def _is_empty(*values: Value) -> bool:
    return any("0" in value.shape.strip("[]").replace(" ", "").split(",") for value in values)
