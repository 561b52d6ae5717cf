"""The columns and cells of msprobe's tables, per release and mode."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from troubleshooter_nb.compat.msprobe.compare.differences import DIFFERENCES, STATISTICS
from troubleshooter_nb.compat.msprobe.compare.metrics import METRICS
from troubleshooter_nb.compat.msprobe.compare.releases import Release, Verdicts
from troubleshooter_nb.compat.msprobe.compare.rows import Mode, Row
from troubleshooter_nb.compat.msprobe.compare.values import NOTHING, Value
from troubleshooter_nb.formats.msprobe_json import Stacks
from troubleshooter_nb.formats.msprobe_records import frames_of
from troubleshooter_nb.messages import told

_SIDES = ("NPU", "Bench")
NAMES = tuple(f"{side} Name" for side in _SIDES)
BASICS = tuple(f"{side} {what}" for what in ("Name", "Dtype", "Tensor Shape") for side in _SIDES)
_FLAGS = tuple(f"{side} Requires_grad" for side in _SIDES)
FIGURES = tuple(f"{side} {name}" for side in _SIDES for name in STATISTICS)
_CONSISTENT, STACK, DATA = "Requires_grad Consistent", "NPU_Stack_Info", "Data_name"
_DIGESTS = ("NPU MD5", "BENCH MD5")
_DISTANCE = "EucDist"
REACHED, RESULT = "Accuracy Reached or Not", "Result"
MESSAGE = "Err_message"
_NO_FILE = "-1"


@dataclass(frozen=True)
class Layout:
    """What decides the columns and the wording of the cells of a table.

    Attributes
    ----------
    release : Release
    mode : {"tensor", "statistics", "md5"}
    with_stack : bool
    is_torch : bool
        Whether the target has torch's names.
    is_joined : bool
        Whether the two sides were joined as tables, as for MindSpore before 8.3: there nothing is
        ``N/A``.
    """

    release: Release
    mode: Mode
    with_stack: bool
    is_torch: bool = True
    is_joined: bool = False

    @property
    def verdict(self) -> str:
        """Heading of the verdicts."""
        is_first = self.mode == "tensor" and self.release.verdicts == "classic"
        return REACHED if is_first else RESULT

    @property
    def headings(self) -> list[str]:
        """The headings of the table."""
        figures: tuple[str, ...] = (*DIFFERENCES, *FIGURES)
        if self.mode == "tensor":
            figures = (*metric_names(self.release), *FIGURES)
        elif self.mode == "md5":
            figures = _DIGESTS
        has_flags = self.release.has_gradient_flags
        has_messages = self.mode != "md5" or self.release.verdicts == "current"
        return [
            *BASICS,
            *(_FLAGS if has_flags else ()),
            *figures,
            *([_CONSISTENT] if has_flags else ()),
            self.verdict,
            *([MESSAGE] if has_messages else ()),
            *([STACK] if self.with_stack else ()),
            *([DATA] if self.mode == "tensor" else ()),
        ]


@dataclass(frozen=True)
class Table:
    """A finished table.

    Attributes
    ----------
    headings : list of str
    rows : list of dict
        Cells by heading.
    colors : list of str
        ``red``, ``yellow`` or nothing, per row.
    names : list of tuple of str
        What the entries of each row are called in a `Dump`.
    golden_only : list of dict
        Rows of what only the golden dump has.
    verdict : str
        Heading of the verdicts.
    rule : {"classic", "current"}
        Which kind of verdicts they are.
    """

    headings: list[str]
    rows: list[dict[str, Any]]
    colors: Sequence[str]
    names: Sequence[tuple[str, ...]]
    golden_only: list[dict[str, Any]] = field(default_factory=list)
    verdict: str = RESULT
    rule: Verdicts = "classic"


def metric_names(release: Release) -> tuple[str, ...]:
    """The figures of tensors that a release has."""
    return tuple(name for name in METRICS if release.has_gradient_flags or name != _DISTANCE)


def table_of(
    rows: Sequence[Row], golden_only: Sequence[Row], layout: Layout, stacks: Stacks | None
) -> Table:
    """The table of measured and judged rows.

    Parameters
    ----------
    rows, golden_only : sequence of Row
    layout : Layout
    stacks : Stacks or None
        Of the target; None where the column says nothing.
    """
    told_stacks = _stacks(rows, layout, stacks)
    return Table(
        layout.headings,
        [cells(row, layout, stack) for row, stack in zip(rows, told_stacks, strict=True)],
        [row.color for row in rows],
        [tuple(one.entry_name for one in row.sides if one is not None) for row in rows],
        [cells(row, layout, _no_stack(layout)) for row in golden_only],
        layout.verdict,
        layout.release.verdicts,
    )


def cells(row: Row, layout: Layout, stack: str | None) -> dict[str, Any]:
    """The cells of a row, by heading; `stack` is what its column says."""
    named: dict[str, Any] = {}
    for side, value in zip(_SIDES, row.sides, strict=True):
        named |= _of_side(side, value, layout)
    named |= dict(zip(METRICS, row.metrics, strict=False))
    named |= dict(zip(DIFFERENCES, row.differences, strict=False))
    named |= dict(zip(_DIGESTS, (_checksum(one, layout) for one in row.sides), strict=True))
    flags = [named[name] for name in _FLAGS]
    named[_CONSISTENT] = str(flags[0] == flags[1])
    named[layout.verdict] = row.verdict
    named[MESSAGE] = _message(row, layout.release)
    named[STACK] = stack
    named[DATA] = _files(row, layout)
    return {name: shown(named[name]) for name in layout.headings}


def _of_side(side: str, value: Value | None, layout: Layout) -> Mapping[str, Any]:
    names = ("Name", "Dtype", "Tensor Shape", "Requires_grad", *STATISTICS)
    if value is None:
        return {f"{side} {name}": NOTHING for name in names}
    figures = value.figures
    if layout.is_joined and value.dtype == "None":
        figures = (NOTHING,) * len(figures)
    said = (value.name, value.dtype, value.shape, value.requires_grad, *figures)
    return {f"{side} {name}": one for name, one in zip(names, said, strict=True)}


def _checksum(value: Value | None, layout: Layout) -> str:
    if value is None:
        return NOTHING
    return value.checksum or (NOTHING if layout.release.has_gradient_flags else "None")


def _message(row: Row, release: Release) -> str:
    notes = [told(note) for note in [*row.notes, *([row.problem] if row.problem else [])]]
    if release.verdicts == "current":
        return json.dumps(notes, ensure_ascii=False)
    return "\n".join(notes)


def _files(row: Row, layout: Layout) -> str:
    files = [NOTHING if one is None else one.file or _NO_FILE for one in row.sides]
    if layout.release.has_gradient_flags:
        return str(files)
    # Whole calls of torch that meet nothing are not looked at at all.
    return files[0] if row.is_matched or not layout.is_torch else _NO_FILE


def _no_stack(layout: Layout) -> str:
    return NOTHING if layout.release.has_wide_stack or layout.is_joined else "None"


def _stacks(rows: Sequence[Row], layout: Layout, stacks: Stacks | None) -> list[str | None]:
    """What the column of stacks says: at the first row of a call, with MindSpore at all."""
    nothing = _no_stack(layout)
    if stacks is None or not layout.with_stack:
        return [nothing] * len(rows)
    everywhere = layout.release.whole_calls and not layout.is_torch
    found: list[str | None] = []
    before = ""
    for row in rows:
        entry = row.pair.value.entry
        text = stacks.texts.get(entry, "")
        is_told = text and (everywhere or entry != before)
        found.append(str(frames_of(text)) if is_told else nothing)
        before = entry
    return found


def shown(value: Any) -> Any:
    """A cell as the old tables have it: what is not finite comes as text."""
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        # With a tab, or a spreadsheet takes it for a name; of NaN there is one spelling.
        return "Nan" if math.isnan(value) else f"{value}\t"
    if isinstance(value, int | float | str):
        return value
    return str(value)
