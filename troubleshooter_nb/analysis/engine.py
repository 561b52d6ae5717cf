"""Compare two dumps: walk the pairs in blocks on any executor, judge them, build the result."""

from __future__ import annotations

import math
import os
import re
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

from troubleshooter_nb.analysis.align import MappingLike, PairingMethod, check_fuzzy, pair_dumps
from troubleshooter_nb.analysis.progress import Progress, reporter
from troubleshooter_nb.analysis.recorded import Recorded, judge_recorded, over_all_values
from troubleshooter_nb.analysis.samples import without_views
from troubleshooter_nb.analysis.shards.ranks import missing_places
from troubleshooter_nb.comparison import (
    RESULT_COLUMNS,
    SCHEMA,
    Comparison,
    evidence_dataset,
    first_difference,
    histogram_variable,
    value_range,
)
from troubleshooter_nb.dump import ArraySource, Dump, described, object_array
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    IncompleteWarning,
    PairingError,
    ReadError,
    check_kind,
)
from troubleshooter_nb.formats import DumpLike, as_dumps
from troubleshooter_nb.messages import Message, ids_of, message_of, of_one_class, told
from troubleshooter_nb.metrics import compiled
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.locate import Location, locate
from troubleshooter_nb.metrics.noise import NoiseModel
from troubleshooter_nb.metrics.pairwise import pair_figures, pair_run
from troubleshooter_nb.metrics.partial import Partial, merge_tree
from troubleshooter_nb.metrics.summary import (
    SUMMARY_FIGURES,
    histogram_exponents,
    magnitudes,
    summarise,
)
from troubleshooter_nb.metrics.verdict import (
    Tolerance,
    Verdict,
    expected_missing,
    judge,
    verdict,
)
from troubleshooter_nb.naming import CALL_KINDS
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.rows import Pairs, display_names
from troubleshooter_nb.render.words import DIFFERING, reason_of
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.table import Table
from troubleshooter_nb.thresholds import BATCH_ELEMENTS, BATCH_PAIRS, FIGURES_BLOCK, SLICE_BLOCKS

_SLICE = SLICE_BLOCKS * FIGURES_BLOCK
# What is read and measured in one go: 4 MiB of float32 on each side.
_RUN = 8 * FIGURES_BLOCK
_SIDES = ("left", "right")
_NUMBER = re.compile(r"\d+")
# New pages for every tensor cost more than comparing it.
_memory = threading.local()
Walk = Literal["auto", "forward", "backward"]
_KINDS: Mapping[str, Any] = {
    "str": object,
    "tuple": object,
    "int64": np.int64,
    "float64": np.float64,
    "bool": bool,
}
_NOT_MEASURED = {"str": "", "tuple": None, "int64": -1, "float64": np.nan, "bool": False}


# What a task finds out: figures that merge, the statistics of a tensor whose partner has no values,
# or what a read error says.
Measured = Partial | dict[str, float] | str


@dataclass(frozen=True)
class Piece:
    """Work on one pair, or on a slice of it: handles and a flat range; one handle is summarised."""

    pair: int
    left: ArraySource | None
    right: ArraySource | None
    start: int
    stop: int

    @property
    def size_bytes(self) -> int:
        """What is to be read."""
        sources = [source for source in (self.left, self.right) if source is not None]
        return (self.stop - self.start) * sum(source.dtype.itemsize for source in sources)


def compare(
    left: DumpLike,
    right: DumpLike,
    *,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    pairing: Pairing | PairingMethod | None = None,
    mapping: MappingLike | None = None,
    fuzzy: bool = False,
    walk: Walk = "auto",
    executor: Executor | None = None,
    diagnose: bool = True,
    noise: NoiseModel | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
) -> Comparison:
    """Pair two dumps, measure every pair, judge it, and find where and why they part.

    Parameters
    ----------
    left, right : Dump, path, or mapping of str to array
        The right side is the reference of every relative figure.
    rtol, atol : float, >= 0
        ``|left - right| <= atol + rtol * |right|`` must hold for every element; `atol` is in the
        tensor's unit.
    equal_nan : bool
        Two NaN at the same place are equal.
    pairing : Pairing or {"auto", "name", "order", "shape"}, optional
        A finished pairing, or the method that makes one, see `pair_dumps`; default "auto".
    mapping : dict, list of pairs or path, optional
        Known pairs ``{left name: right name}``, or a mapping file, see `pair_dumps`; the method
        pairs the rest.
    fuzzy : bool
        Ignore the numbers of calls of operators and keep their order, see `pair_dumps`.
    walk : {"auto", "forward", "backward"}
        Order in which parameters are listed. Their gradients are saved in parameter order but
        computed from the loss backwards; "auto" walks back where a name or folder says ``grad``.
    executor : concurrent.futures.Executor, optional
        Runs the blocks: default threads of this process. A process pool started with ``spawn``,
        ``dask.distributed.Client(...).get_executor()`` and ``mpi4py.futures`` work as well; the
        result is the same to the byte.
    diagnose : bool
        Find the rows that created a difference and look for its cause. The tensors around them
        are read again, in this process.
    noise : NoiseModel, optional
        What rounding leaves, see `measure_noise`; default the fitted one.
    progress : bool or callable, optional
        ``progress(done, total)`` in bytes of both sides; True and False switch the built-in
        display on and off; default: shown when the work takes longer than 2 seconds.

    Returns
    -------
    Comparison
        Every entry of both dumps is in exactly one row. An entry that cannot be read, compared
        or paired is a row with a reason. After an interrupt (Ctrl-C, the stop button) the pairs
        measured so far are kept, the others are ``unreadable``, and an `IncompleteWarning` says
        how many.

    Raises
    ------
    ValueError
        For a negative tolerance.
    TypeError
        If `fuzzy` is neither True nor False.
    PairingError, MappingFileError
        If `pairing` or `mapping` does not fit the dumps.
    UnknownFormatError, FileNotFoundError
        If a path cannot be opened.
    """
    tolerance = Tolerance(rtol, atol, equal_nan)
    check_fuzzy(fuzzy)
    _check_options(walk, executor, progress)
    if noise is not None:
        check_kind("noise", noise, NoiseModel)
    left, right = as_dumps(left, right)
    if isinstance(pairing, Pairing):
        _check_pairing(pairing, left, right, mapping)
    else:
        method = pairing or "auto"
        pairing = pair_dumps(left, right, method=method, mapping=mapping, fuzzy=fuzzy)
    measured = compare_pairing(pairing, tolerance, walk=walk, executor=executor, progress=progress)
    # What was interrupted has no order of events to be read from.
    interrupted = (measured.result["reason_id"].values == "interrupted").any()
    if interrupted or not diagnose:
        return measured
    # A fifth of the time of importing the package, for which not every call asks.
    from troubleshooter_nb.analysis.diagnosis import diagnosed

    return _with_first_inside(diagnosed(measured, noise))


def _with_first_inside(comparison: Comparison) -> Comparison:
    """The comparison with what is inside the first difference, if that is not among the worst."""
    first = comparison.first_divergence
    if first is None or first.evidence is not None or first.verdict not in DIFFERING:
        return comparison
    try:
        inside = first.located().evidence
    except ReadError:
        return comparison
    if inside is None:
        return comparison
    number = int(first.row["order"].values)
    return replace(comparison, evidence={**comparison.evidence, number: inside})


def compare_pairing(
    pairing: Pairing,
    tolerance: Tolerance,
    *,
    walk: Walk = "auto",
    executor: Executor | None = None,
    progress: bool | Callable[[int, int], None] | None = None,
    drill_downs: int = 8,
) -> Comparison:
    """What `compare` does with a finished pairing; `drill_downs` tensors are read a second time."""
    rows = _rows(pairing, walk)
    pieces = [piece for i, row in enumerate(rows) for piece in row.pieces(i)]
    with ExitStack() as stack:
        if executor is None:
            executor = stack.enter_context(ThreadPoolExecutor(_threads()))
        report = stack.enter_context(reporter(progress, _bytes(pieces)))
        table = _Table(rows, tolerance)
        _measure(pieces, tolerance, executor, report, table.fill)
        unfinished = len({piece.pair for piece in pieces} - table.filled)
        result = table.dataset()
        notes = _notes(rows, unfinished)
        evidence = {} if unfinished else _evidence(rows, result, executor, drill_downs)
    return Comparison(result, pairing, tolerance, evidence=evidence, notes=notes)


class _Row:
    """One row of the pairing with its handles and what is known before measuring."""

    def __init__(self, table: Table, sides: tuple[_Side, _Side], row: int, walk: Walk) -> None:
        self.sides = sides
        self.walk = walk
        self.entries = tuple(int(table[f"{side}_entry"][row]) for side in _SIDES)
        self.expected = bool(table["expected"][row])
        self.note: str = table["note"][row]
        # The order of a neighbour, and whether it stands before (-1) or behind (1) that one.
        self.beside: tuple[int, int] | None = None
        self.known = {name: table[name][row] for name in ("left", "right", "step", "rank")}
        left, right = (
            side.dump.sources[entry] if entry >= 0 else None
            for side, entry in zip(sides, self.entries, strict=True)
        )
        self.left: ArraySource | None = left
        self.right: ArraySource | None = right

    def text(self, side: int, column: str) -> str:
        entry = self.entries[side]
        return str(self.sides[side].columns[column][entry]) if entry >= 0 else ""

    def shape(self, side: int) -> Shape | None:
        """The shape on a side; None for none."""
        entry = self.entries[side]
        return self.sides[side].columns["shape"][entry] if entry >= 0 else None

    def display(self, side: int) -> str:
        """What is shown of a side; empty for none."""
        entry = self.entries[side]
        return self.sides[side].display[entry] if entry >= 0 else ""

    def digest(self, side: int) -> str:
        """The checksum that a side's dump recorded, with its kind in front; empty for none."""
        if self.entries[side] < 0:
            return ""
        crc = int(self.sides[side].columns["crc32"][self.entries[side]])
        return self.text(side, "digest") or (f"crc32:{crc:08x}" if crc >= 0 else "")

    def either(self, column: str) -> str:
        return self.text(0, column) or self.text(1, column)

    @property
    def size(self) -> int:
        source = self.left if self.left is not None else self.right
        return math.prod(source.shape) if source is not None else 0

    @property
    def has_values(self) -> bool:
        """Whether both sides have values to read."""
        return self.left is not None and self.right is not None

    def recorded(self, side: int, computed: Mapping[str, float] | None = None) -> Recorded:
        """What is known of a side without reading it, or from its values as `computed`."""
        columns, entry = self.sides[side].columns, self.entries[side]
        if computed is None:
            known = {name: columns[name][entry].item() for name in (*SUMMARY_FIGURES, "crc32")}
        else:
            known = over_all_values(computed)
        return Recorded(
            value=self.text(side, "value"),
            dtype=self.text(side, "dtype"),
            shape=self.shape(side),
            size=int(columns["size"][entry]),
            crc32=int(known.pop("crc32")),
            digest=self.text(side, "digest"),
            statistics=known,
        )

    @property
    def is_walked_backward(self) -> bool:
        """Whether the row is listed from the loss backwards."""
        if self.walk == "forward":
            return False
        wanted = ("backward", "") if self.walk == "backward" else ("backward",)
        if self.walk == "auto" and self._leading.saves_gradients_as_computed:
            return False
        return any(
            self.text(side, "role") == "parameter" and self.text(side, "direction") in wanted
            for side in (0, 1)
            if self.entries[side] >= 0
        )

    @property
    def _leading(self) -> _Side:
        """The side whose order the rows have."""
        return self.sides[0] if self.sides[0].leads else self.sides[1]

    @property
    def order(self) -> int:
        """Position in the order of saving of the side that leads, or of the other; -1 unknown."""
        for side in (0, 1) if self.sides[0].leads else (1, 0):
            entry = self.entries[side]
            if entry >= 0 and (order := int(self.sides[side].columns["order"][entry])) >= 0:
                return order
        return -1

    def order_of(self, side: int) -> int:
        """Position in the order of saving of one side; -1 for none."""
        entry = self.entries[side]
        return int(self.sides[side].columns["order"][entry]) if entry >= 0 else -1

    def execution_key(self) -> tuple[int, ...]:
        """Sorts rows in the order their values came to be.

        Gradients of parameters are saved in parameter order but computed from the loss backwards,
        so they are walked in reverse, after everything of the forward pass.
        """
        side = 0 if self.entries[0] >= 0 else 1
        own = self.order
        known = own >= 0
        own = own if known else self.entries[side]
        order, where = self.beside or (own, 0)
        backward = self.is_walked_backward
        sign = -1 if backward else 1
        return (
            int(self.known["step"]),
            int(self.known["rank"]),
            int(backward),
            int(not known),
            sign * order,
            sign * where,
            sign * own if where else side,
            self.entries[side],
        )

    def obstacle(self) -> Verdict | None:
        """Why the values of this row cannot be compared, or None."""
        for number, entry in enumerate(self.entries):
            if entry >= 0 and self._is_lost(number):
                reason = f"unreadable_{_SIDES[number]}"
                why = self.sides[number].columns["reason"][entry]
                return verdict("unreadable", reason, why)
        if self.expected:
            reason = "missing_noted" if self.note else "missing_expected"
            return replace(expected_missing(), reason=reason, detail=self.note)
        for side, entry in zip(_SIDES, self.entries, strict=True):
            if entry < 0:
                return verdict("missing", f"missing_{side}")
        if not self.has_values:
            return None
        left, right = self.both()
        return verdict("shape", "shape") if left.shape != right.shape else None

    def _is_lost(self, side: int) -> bool:
        """Whether a side's values cannot be read, and nothing was recorded about them besides."""
        columns, entry = self.sides[side].columns, self.entries[side]
        recorded = columns["crc32"][entry] >= 0 or not np.isnan(columns["max"][entry])
        return columns["status"][entry] == "unreadable" and not recorded

    def both(self) -> tuple[ArraySource, ArraySource]:
        """Both handles of a row without `obstacle`."""
        if self.left is None or self.right is None:
            raise ArgumentError(Message("comparisons.no_values"))
        return self.left, self.right

    @property
    def is_summarised(self) -> bool:
        """Whether one side has values, to be compared with what was recorded of the other.

        What is no tensor, or of another shape, is judged without its partner's values.
        """
        if self.has_values or self.left is self.right is None:
            return False
        if any(self.text(side, "value") for side in (0, 1)):
            return self.size == 1
        shapes = {self.shape(side) for side in (0, 1)} - {None}
        return len(shapes) < 2

    def pieces(self, number: int) -> list[Piece]:
        if self.obstacle() is not None:
            return []
        if not self.has_values:
            whole = Piece(number, self.left, self.right, 0, self.size)
            return [whole] if self.is_summarised else []
        starts = range(0, max(self.size, 1), _SLICE)
        return [
            Piece(number, self.left, self.right, start, min(start + _SLICE, self.size))
            for start in starts
        ]


class _Side:
    """One dump with its table, and how its entries are shown and ordered."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.columns = dump.columns
        self.display = display_names(dump.columns)
        # A side of unnumbered files has no order of its own to offer.
        self.leads = bool((self.columns["order"] >= 0).any())
        self.saves_gradients_as_computed = _gradients_run_backward(self.columns)


def _gradients_run_backward(columns: Table) -> bool:
    """Whether gradients of parameters stand in the order of their computation, last layer first.

    Told from the calls of the same modules, where those were recorded as well.
    """
    is_gradient = (columns["role"] == "parameter") & (columns["direction"] == "backward")
    is_call = np.isin(columns["kind"], list(CALL_KINDS)) & (columns["role"] == "output")
    place: dict[tuple[int, int, str], int] = {}
    where = list(zip(columns["step"], columns["rank"], columns["path"], strict=True))
    for row in np.flatnonzero(is_call & (columns["direction"] == "forward")):
        place.setdefault(where[row], int(row))
    rows = [place[where[row]] for row in np.flatnonzero(is_gradient) if where[row] in place]
    if not rows:
        # Without calls the numbers of layers tell.
        found = [_NUMBER.search(columns["path"][row]) for row in np.flatnonzero(is_gradient)]
        in_calls = columns["kind"][is_gradient]
        rows = [
            int(match[0])
            for match, kind in zip(found, in_calls, strict=True)
            if match and kind in CALL_KINDS
        ]
    falling = int(np.count_nonzero(np.diff(rows) < 0))
    rising = int(np.count_nonzero(np.diff(rows) > 0))
    return falling > rising


def _rows(pairing: Pairing, walk: Walk) -> list[_Row]:
    """The rows of a pairing in execution order."""
    table = pairing.columns
    sides = _Side(pairing.left), _Side(pairing.right)
    rows = [_Row(table, sides, i, walk) for i in range(len(pairing))]
    _set_beside(rows, 0 if sides[0].leads else 1)
    return sorted(rows, key=_Row.execution_key)


def _set_beside(rows: Sequence[_Row], lead: int) -> None:
    """Put the rows of one side only beside their neighbours, where the other side's order leads.

    The numbers of the two sides are not the same: what is the 30th on the right may belong to the
    20th on the left. A row follows the one before it in the order of its own side that has a
    partner and the same direction, or else stands before the one behind it. Where the direction
    has none, a backward row comes last.
    """
    groups: dict[tuple[Any, ...], list[_Row]] = defaultdict(list)
    last: dict[tuple[Any, Any], int] = {}
    for row in rows:
        place = row.known["step"], row.known["rank"]
        if row.order_of(lead) >= 0:
            last[place] = max(last.get(place, -1), row.order_of(lead))
        if row.order_of(1 - lead) >= 0:
            groups[(*place, row.either("direction"), row.is_walked_backward)].append(row)
    for (step, rank, direction, _), group in groups.items():
        group.sort(key=lambda row: row.order_of(1 - lead))
        with_partner = [row.order_of(lead) for row in group if row.order_of(lead) >= 0]
        if not with_partner and direction != "backward":
            continue
        before = with_partner[0] if with_partner else last.get((step, rank), -1)
        beside = (before, -1 if with_partner else 1)
        for row in group:
            if row.order_of(lead) >= 0:
                beside = (row.order_of(lead), 1)
            elif row.entries[lead] < 0 and before >= 0:
                row.beside = beside


def measure_batch(
    pieces: Sequence[Piece], rtol: float, atol: float, equal_nan: bool
) -> list[tuple[int, int, Measured]]:
    """What one task does: ``(pair, start, partial)`` of each piece, or what a read error says.

    Runs in any thread or process; nothing but handles and figures travels.
    """
    return [(p.pair, p.start, _measure_piece(p, rtol, atol, equal_nan)) for p in pieces]


def _measure_piece(piece: Piece, rtol: float, atol: float, equal_nan: bool) -> Measured:
    starts = range(piece.start, max(piece.stop, piece.start + 1), _RUN)
    spans = [(start, min(start + _RUN, piece.stop)) for start in starts]
    left, right = piece.left, piece.right
    try:
        if left is None or right is None:
            source = left if left is not None else right
            return _summary(source, piece.stop) if source is not None else {}
        return merge_tree(
            pair_run(
                _read(left, start, stop, "left"),
                _read(right, start, stop, "right"),
                start,
                compiled.kernel(),
                rtol=rtol,
                atol=atol,
                equal_nan=equal_nan,
            )
            for start, stop in spans
        )
    except ReadError as error:
        return message_of(error)


def _summary(source: ArraySource, size: int) -> dict[str, float]:
    """The statistics of a tensor; with infinities also how many are below zero."""
    figures, _ = summarise(source.read, size)
    if not figures["inf_count"]:
        return figures
    below = 0
    for start in range(0, size, FIGURES_BLOCK):
        values = magnitudes(computable(source.read(start, min(start + FIGURES_BLOCK, size))))
        below += int(np.count_nonzero(values == -np.inf))
    return figures | {"negative_inf_count": below}


def _read(source: ArraySource, start: int, stop: int, side: str) -> np.ndarray:
    """Stored values, in memory that the next call for this side and thread uses again."""
    size = (stop - start) * source.dtype.itemsize
    memory: np.ndarray | None = getattr(_memory, side, None)
    if memory is None or len(memory) < size:
        memory = np.empty(size, np.uint8)
        setattr(_memory, side, memory)
    return source.read(start, stop, memory[:size].view(source.dtype))


def _measure(
    pieces: Sequence[Piece],
    tolerance: Tolerance,
    executor: Executor,
    report: Progress,
    finish: Callable[[int, Measured], None],
) -> None:
    """Hand over the merged figures of a pair, or what an error says, as soon as it is finished."""
    parts: dict[int, dict[int, Measured]] = {}
    expected = Counter(piece.pair for piece in pieces)
    futures: dict[Future[list[tuple[int, int, Measured]]], int] = {}
    asked = tolerance.rtol, tolerance.atol, tolerance.equal_nan
    try:
        for batch in _batches(pieces):
            future = executor.submit(measure_batch, batch, *asked)
            futures[future] = _bytes(batch)
        for future in as_completed(futures):
            for pair, start, partial in future.result():
                parts.setdefault(pair, {})[start] = partial
                if len(parts[pair]) == expected[pair]:
                    finish(pair, _merged(parts.pop(pair)))
            report(futures[future])
    except KeyboardInterrupt:
        for future in futures:
            future.cancel()


def _merged(parts: Mapping[int, Measured]) -> Measured:
    in_order = [parts[start] for start in sorted(parts)]
    partials = [part for part in in_order if isinstance(part, Partial)]
    if len(partials) < len(in_order):
        return next(part for part in in_order if not isinstance(part, Partial))
    return merge_tree(partials)


def _batches(pieces: Sequence[Piece]) -> Iterable[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += piece.stop - piece.start
        if size >= BATCH_ELEMENTS or len(batch) >= BATCH_PAIRS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Table:
    """The result, filled row by row as pairs are finished."""

    def __init__(self, rows: Sequence[_Row], tolerance: Tolerance) -> None:
        self.rows, self.tolerance = rows, tolerance
        self.exponents = histogram_exponents()
        self.columns = {
            name: np.full(len(rows), _NOT_MEASURED[dtype], _KINDS[dtype])
            for name, (dtype, _, _, _) in RESULT_COLUMNS.items()
        }
        self.histogram = np.zeros((len(rows), len(self.exponents)), np.int64)
        self.filled: set[int] = set()

    def fill(self, i: int, measured: Measured | None = None) -> None:
        """Enter a row: with its figures, what a read error says, or as not measured."""
        row = self.rows[i]
        found: dict[str, Any] = dict(row.known) | {"order": i}
        for side, name in enumerate(_SIDES):
            found[f"{name}_display"], found[f"{name}_shape"] = row.display(side), row.shape(side)
            found[f"{name}_dtype"] = row.text(side, "dtype")
            found[f"{name}_digest"] = row.digest(side)
        found |= {column: row.either(column) for column in ("role", "direction")}
        found |= {"order_known": row.order >= 0, "walked_backward": row.is_walked_backward}
        judged = row.obstacle()
        if judged is None:
            judged, figures = _judge(row, measured, self.tolerance)
            found |= figures
            if isinstance(measured, Partial):
                self.histogram[i] = measured.histogram
        if "calls.defined_differently" in ids_of(row.note) and judged.name in DIFFERING:
            judged = verdict("undecidable", "defined_differently", row.note)
        found |= {
            "verdict": judged.name,
            "passed": judged.passed,
            "reason_id": judged.reason,
            "detail": judged.detail,
        }
        found["reason"] = reason_of(found)
        for name, value in found.items():
            self.columns[name][i] = value
        self.filled.add(i)

    def dataset(self) -> xr.Dataset:
        """All rows; those that were not filled are not measured."""
        for i in range(len(self.rows)):
            if i not in self.filled:
                self.fill(i)
        for name in ("reason", "detail"):
            self.columns[name] = object_array(of_one_class(self.columns[name].tolist()))
        variables: dict[str, Any] = dict(described("pair", RESULT_COLUMNS, self.columns))
        for side, name in enumerate(_SIDES):
            attrs = {"description": "row in the dump; -1 for none"}
            entries = np.array([row.entries[side] for row in self.rows], np.int64)
            variables[f"{name}_entry"] = ("pair", entries, attrs)
        variables |= histogram_variable(self.histogram, self.exponents)
        settings: dict[str, Any] = {
            "schema": SCHEMA,
            "rtol": self.tolerance.rtol,
            "atol": self.tolerance.atol,
            "equal_nan": int(self.tolerance.equal_nan),
            "first_divergence": first_difference(Table(self.columns)),
        }
        return xr.Dataset(variables, attrs=settings)


def _judge(
    row: _Row, measured: Measured | None, tolerance: Tolerance
) -> tuple[Verdict, dict[str, float]]:
    if isinstance(measured, str):
        return verdict("unreadable", "unreadable", measured), {}
    if measured is None and (row.has_values or row.is_summarised):
        return verdict("unreadable", "interrupted"), {}
    if not isinstance(measured, Partial):
        return _judge_recorded(row, measured, tolerance)
    dtypes = [source.dtype for source in row.both()]
    figures = pair_figures(measured, *dtypes)
    return judge(figures, tolerance, *dtypes, size=row.size), figures


def _judge_recorded(
    row: _Row, computed: Mapping[str, float] | None, tolerance: Tolerance
) -> tuple[Verdict, dict[str, float]]:
    """Verdict of a row that lacks the values of a side, and the statistics of both."""
    sides = [
        row.recorded(side, None if source is None else computed)
        for side, source in enumerate((row.left, row.right))
    ]
    judged = judge_recorded(sides[0], sides[1], tolerance)
    figures: dict[str, float] = {"identical": judged.name == "identical"}
    for name, side, source in zip(_SIDES, sides, (row.left, row.right), strict=True):
        # Those of a tensor that is there are over its finite values, as everywhere.
        known = side.statistics if source is None or computed is None else computed
        figures |= {f"{name}_{figure}": known[figure] for figure in SUMMARY_FIGURES}
    return judged, figures


def locate_pair(left: ArraySource, right: ArraySource, low: float, high: float) -> Location | str:
    """What one drill-down task does; the text of a read error instead of raising it."""
    try:
        return locate(left.read, right.read, left.shape, (low, high))
    except ReadError as error:
        return message_of(error)


def _evidence(
    rows: Sequence[_Row], result: xr.Dataset, executor: Executor, most: int
) -> dict[int, xr.Dataset]:
    """Drill-down data of the first divergence and the worst pairs that differ."""
    verdicts = result["verdict"].values
    # A pair that only rounds differently has something to show as well, once the real ones had.
    interesting = [v for v in (*DIFFERING, "rounding") if v != "shape"]
    candidates = [int(i) for i in Pairs.of(result).worst_order() if verdicts[i] in interesting]
    first = [i for i in range(len(rows)) if verdicts[i] in DIFFERING and verdicts[i] != "shape"][:1]
    named = result.attrs["first_divergence"]
    first = [named, *first] if named >= 0 and verdicts[named] != "shape" else first
    chosen = list(dict.fromkeys([*first, *candidates]))[:most]
    futures = {
        i: executor.submit(locate_pair, *rows[i].both(), *value_range(result.isel(pair=i)))
        for i in chosen
        if rows[i].size and rows[i].has_values
    }
    found = {i: future.result() for i, future in futures.items()}
    return {
        i: evidence_dataset(location, rows[i].both()[0].shape)
        for i, location in found.items()
        if isinstance(location, Location)
    }


def _check_options(walk: object, executor: object, progress: object) -> None:
    if walk not in get_args(Walk):
        raise ArgumentError(
            Message("arguments.choice", name="walk", known=get_args(Walk), value=repr(walk))
        )
    if executor is not None and not hasattr(executor, "submit"):
        raise ArgumentTypeError(Message("arguments.executor", value=repr(executor)))
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ArgumentTypeError(Message("arguments.progress", value=repr(progress)))


def _check_pairing(pairing: Pairing, left: Dump, right: Dump, mapping: object) -> None:
    """Raise unless the pairing was made for these two dumps."""
    if mapping is not None:
        raise PairingError(Message("comparisons.pairing_and_mapping"))
    for side, given, paired in (("left", left, pairing.left), ("right", right, pairing.right)):
        if not without_views(given).is_same_as(without_views(paired)):
            label = repr(paired.label)
            raise PairingError(Message(f"comparisons.other_dump_{side}", label=label))


def _notes(rows: Sequence[_Row], unfinished: int) -> tuple[str, ...]:
    dumps = [side.dump for side in rows[0].sides] if rows else []
    notes = [note for dump in dumps for note in dump.notes]
    if dumps:
        notes += missing_places(*dumps)
    if unfinished:
        notes.append(Message("comparisons.interrupted", count=unfinished, total=len(rows)))
        warnings.warn(told(notes[-1]), IncompleteWarning, stacklevel=3)
    return tuple(notes)


def _bytes(pieces: Iterable[Piece]) -> int:
    return sum(piece.size_bytes for piece in pieces)


def _threads() -> int:
    return max(1, min(8, os.cpu_count() or 1))
