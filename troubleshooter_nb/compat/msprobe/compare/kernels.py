"""The comparison of kernel dumps: a table per rank and step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from troubleshooter_nb.analysis.measuring import threads
from troubleshooter_nb.compat.msprobe.compare.differences import (
    DIFFERENCES,
    STATISTICS,
    difference_cells,
)
from troubleshooter_nb.compat.msprobe.compare.metrics import METRICS, UNSUPPORTED, measure
from troubleshooter_nb.compat.msprobe.compare.releases import Release
from troubleshooter_nb.compat.msprobe.compare.tables import (
    BASICS,
    FIGURES,
    MESSAGE,
    REACHED,
    Table,
    metric_names,
    shown,
)
from troubleshooter_nb.compat.msprobe.compare.values import NOTHING, Value, is_number
from troubleshooter_nb.compat.msprobe.compare.verdicts import NO, YES, tensor_verdict
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import FormatError, PathNotFoundError, ReadError
from troubleshooter_nb.formats.kernel_dir import KernelTensor, kernel_tensors
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Message, message_of, told
from troubleshooter_nb.metrics.summary import summarise

_FILES = ("NPU CSV File", "Bench CSV File")
_STATISTICS_FILE = "statistic.csv"
_PROBLEM = "problem"  # no column: why a tensor could not be read
_ROW_FIGURES = ("Max Value", "Min Value", "Avg Value", "L2Norm Value")
_RELATIVE = 0.5  # of the largest value, where only statistics are known
_RankStep = tuple[int, int]  # rank, step


@dataclass(frozen=True)
class KernelTable:
    """The table of one rank and step."""

    rank: int
    step: int
    table: Table
    unread: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class KernelTables:
    """The tables, and the ranks and steps of either side that have no counterpart."""

    tables: list[KernelTable]
    alone: dict[str, list[str]]


@dataclass(frozen=True)
class _KernelTensor:
    """What is known of one tensor."""

    value: Value
    source: ArraySource | None
    file: str
    problem: str = ""


def kernel_tables(
    target: Path, golden: Path, ranks: Sequence[int], steps: Sequence[int], release: Release
) -> KernelTables:
    """Compare two folders of kernel dumps.

    Parameters
    ----------
    target, golden : Path
        Folders that hold ``rank_<r>``.
    ranks, steps : sequence of int
        Those to compare; all for none.
    release : Release

    Returns
    -------
    KernelTables
        In the order of ranks and steps. Tensors meet by their names without task, stream and time.

    Raises
    ------
    FileNotFoundError, FormatError
        If there is no dump, or a side lacks a rank or step.

    Notes
    -----
    1.2.2 has differences of statistics without their sign, and 0 % where the golden value is
    negative; here they are as in 26.2.
    """
    sides = [_by_place(path) for path in (target, golden)]
    chosen = _chosen(sides, ranks, steps)
    tables = [_table(place, sides[0][place], sides[1][place], release) for place in chosen]
    alone = {}
    for name, at in (("npu_path", 0), ("bench_path", 1)):
        only = sorted(sides[at].keys() - sides[1 - at].keys())
        asked = [p for p in only if (not ranks or p[0] in ranks) and (not steps or p[1] in steps)]
        alone[name] = [f"rank_{rank}/{step}" for rank, step in asked]
    return KernelTables(tables, alone)


def _by_place(path: Path) -> dict[_RankStep, list[KernelTensor]]:
    if not path.exists():
        raise PathNotFoundError(Message("msprobe_compare.no_json", why=not_there(path)))
    found: dict[_RankStep, list[KernelTensor]] = {}
    for one in kernel_tensors(path, []):
        found.setdefault((one.place.rank, one.place.step), []).append(one)
    if not found:
        raise FormatError(Message("msprobe_compare.no_kernels", folder=str(path)))
    return found


def _chosen(
    sides: Sequence[dict[_RankStep, list[KernelTensor]]], ranks: Sequence[int], steps: Sequence[int]
) -> list[_RankStep]:
    """The places that both sides have, of those asked for."""
    for name, asked, at in (("rank_id", ranks, 0), ("step_id", steps, 1)):
        for side, which in zip(sides, ("npu_path", "bench_path"), strict=True):
            known = sorted({place[at] for place in side})
            if missing := [one for one in asked if one not in known]:
                said = {"name": name, "missing": missing, "known": known, "side": which}
                raise FormatError(Message("msprobe_compare.not_dumped", **said))
    both = [place for place in sorted(sides[0]) if place in sides[1]]
    chosen = [p for p in both if (not ranks or p[0] in ranks) and (not steps or p[1] in steps)]
    if not chosen:
        raise FormatError(Message("msprobe_compare.no_common_place"))
    return chosen


def _table(
    place: _RankStep,
    target: Sequence[KernelTensor],
    golden: Sequence[KernelTensor],
    release: Release,
) -> KernelTable:
    has_files = all(any(one.file for one in side) for side in (target, golden))
    sides = [
        # What was stored beside others that were only summed up is compared where both are stored.
        [one for one in _numbered(side) if one[1].file is not None or not has_files]
        for side in (target, golden)
    ]
    there = dict(sides[1])
    headings = [*BASICS, *FIGURES, REACHED, MESSAGE]
    if has_files:
        headings += metric_names(release)
    else:
        headings += [*DIFFERENCES, *(_FILES if release.verdicts == "current" else ())]

    def row(pair: tuple[KernelTensor | None, KernelTensor | None]) -> dict[str, Any]:
        found = _row(*pair, release, has_files=has_files)
        return {name: shown(found[name]) for name in [*headings, _PROBLEM]}

    pairs = [(one, there.pop(name, None)) for name, one in sides[0]]
    with ThreadPoolExecutor(threads()) as workers:
        rows = list(workers.map(row, pairs))
        alone = list(workers.map(row, [(None, one) for one in there.values()]))
    names = [tuple(one.parts.stable for one in pair if one is not None) for pair in pairs]
    unread = [(one[BASICS[0]], one[_PROBLEM]) for one in rows if one[_PROBLEM]]
    table = Table(headings, rows, [""] * len(rows), names, alone, REACHED)
    return KernelTable(*place, table, unread)


def _numbered(side: Iterable[KernelTensor]) -> list[tuple[tuple[str, str, int], KernelTensor]]:
    """The tensors in the order of time; one that was written again has a number."""
    counts: Counter[tuple[str, str]] = Counter()
    found = []
    for one in sorted(side, key=lambda one: (one.parts.time, one.parts.stable)):
        name = one.place.graph, one.parts.stable
        found.append(((*name, counts[name]), one))
        counts[name] += 1
    return found


def _row(
    target: KernelTensor | None,
    golden: KernelTensor | None,
    release: Release,
    *,
    has_files: bool,
) -> dict[str, Any]:
    sides = [_read(one, release) if one is not None else None for one in (target, golden)]
    cells: dict[str, Any] = dict.fromkeys([*BASICS, *FIGURES, *_FILES], NOTHING)
    cells |= dict.fromkeys([*METRICS, *DIFFERENCES, REACHED, MESSAGE, _PROBLEM], "")
    for name, side in zip(("NPU", "Bench"), sides, strict=True):
        if side is not None:
            value = side.value
            said = (value.name, value.dtype, value.shape, *value.figures)
            names = ("Name", "Dtype", "Tensor Shape", *STATISTICS)
            cells |= {f"{name} {one}": cell for one, cell in zip(names, said, strict=True)}
            cells[f"{name} CSV File"] = side.file
            cells[_PROBLEM] = cells[_PROBLEM] or told(side.problem)
    here, there = sides
    if here is None or there is None:
        return cells | dict.fromkeys([*METRICS, *DIFFERENCES], NOTHING)
    if has_files:
        return cells | _measured(here, there, release)
    return cells | _told_by_statistics(here.value, there.value)


def _read(one: KernelTensor, release: Release) -> _KernelTensor:
    if one.file is not None:
        return _of_file(one, one.file, release)
    row, parts = one.row or {}, one.parts
    file = str(one.place.folder / _STATISTICS_FILE)
    name = f"{parts.op}.{parts.task}.{parts.io}.{parts.slot}"
    if release.verdicts == "classic":
        name = f"{parts.op}.{parts.task}.{parts.stream}.{parts.io} {file}"
    figures = tuple(_number(row.get(name, "")) for name in _ROW_FIGURES)
    shape = _shape(row.get("Shape", ""), release)
    value = Value(name, name, None, parts.io, "", row.get("Data Type", ""), shape, figures)
    return _KernelTensor(value, None, file)


def _of_file(one: KernelTensor, file: Path, release: Release) -> _KernelTensor:
    name = str(file)
    try:
        source = open_npy(file)
        size = 1
        for length in source.shape:
            size *= length
        found, _ = summarise(source.read, size)
    except (FormatError, ReadError, OSError) as error:
        value = Value(name, name, None, one.parts.io, "", NOTHING, NOTHING, (NOTHING,) * 4)
        return _KernelTensor(value, None, name, message_of(error))
    figures: tuple[Any, ...] = tuple(found[key] for key in ("max", "min", "mean", "l2"))
    if source.dtype == bool:
        figures = (bool(figures[0]), bool(figures[1]), *figures[2:])
    shape = _shape(str(tuple(source.shape)), release)
    value = Value(name, name, None, one.parts.io, "", str(source.dtype), shape, figures)
    return _KernelTensor(value, source, name)


def _measured(target: _KernelTensor, golden: _KernelTensor, release: Release) -> dict[str, Any]:
    problem = target.problem or golden.problem
    if target.source is None or golden.source is None:
        return {MESSAGE: told(problem)} | dict.fromkeys(METRICS, UNSUPPORTED)
    if not target.source.shape and not golden.source.shape:
        return {MESSAGE: told(Message("msprobe_compare.kernel_scalar"))}
    old = release.has_old_zeros
    try:
        found = measure(target.source, golden.source, squeezes=not old, own_step=not old)
    except ReadError as error:
        why = told(message_of(error))
        return {MESSAGE: why, _PROBLEM: why} | dict.fromkeys(METRICS, UNSUPPORTED)
    verdict = tensor_verdict(found.cells[0], found.cells[2])
    return {REACHED: verdict} | dict(zip(METRICS, found.cells, strict=True))


def _told_by_statistics(target: Value, golden: Value) -> dict[str, Any]:
    cells = difference_cells(target, golden, is_classic=False)
    if not all(map(is_number, (target.figures[0], golden.figures[0]))):
        return dict(zip(DIFFERENCES, cells, strict=True))
    largest = max(target.figures[0], golden.figures[0])
    verdict = (
        YES if abs(target.figures[0] - golden.figures[0]) / (largest + 1e-10) <= _RELATIVE else NO
    )
    return {REACHED: verdict} | dict(zip(DIFFERENCES, cells, strict=True))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _shape(text: str, release: Release) -> str:
    """``(4, 6)`` as the older releases write it, ``[4, 6]`` since 26.2."""
    return text.replace("(", "[").replace(")", "]") if release.verdicts == "current" else text
