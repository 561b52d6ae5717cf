"""Measure the rows of a comparison: cut into tasks for any executor, merged the same way by all."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.analysis.progress import Progress
from troubleshooter_nb.analysis.rows import Rows
from troubleshooter_nb.dump import ArrayInMemory, ArraySource
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.messages import message_of
from troubleshooter_nb.metrics import compiled
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.pairwise import measure_many, pair_run
from troubleshooter_nb.metrics.partial import Partial, Partials, merge_tree
from troubleshooter_nb.metrics.sketches import summarise_with_sketch
from troubleshooter_nb.metrics.summary import magnitudes, summarise
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.pairing import Side
from troubleshooter_nb.ranges import Reading, Scratch, read_in, reading
from troubleshooter_nb.thresholds import (
    BATCH_ELEMENTS,
    BATCH_PAIRS,
    FIGURES_BLOCK,
    LARGEST_QUICK,
    SLICE_BLOCKS,
)

SLICE = SLICE_BLOCKS * FIGURES_BLOCK
# What is read and measured in one go of a large pair: 4 MiB of float32 on each side.
_RUN = 8 * FIGURES_BLOCK
_ALIGNED = 64  # bytes of a cache line
_SIDES: tuple[Side, Side] = ("left", "right")
_scratch = {side: Scratch() for side in _SIDES}

# The statistics of a tensor whose partner has no values, with its fingerprint where that has one,
# or what a read error says.
Other = dict[str, Any] | str


class Piece(NamedTuple):
    """Work on one row, or on a slice of it: handles and a flat range; one handle is summarised.

    `sketched` says that its fingerprint is asked for as well.
    """

    pair: int
    left: ArraySource | None
    right: ArraySource | None
    start: int
    stop: int
    sketched: bool = False

    @property
    def is_small(self) -> bool:
        """Whether it is a whole pair of one block of figures at most; slices are longer."""
        return (
            self.left is not None
            and self.right is not None
            and self.start == 0
            and self.stop <= FIGURES_BLOCK
        )


class Found(NamedTuple):
    """What one task found out; nothing but figures travels.

    `partials` has the figures of the small pairs of the rows `pairs`, one each; `slices` what came
    of all other pieces, by row and start.
    """

    pairs: list[int]
    partials: Partials
    slices: list[tuple[int, int, Partial | Other]]


class Measurements:
    """What was measured of rows, as the tasks come back in any order.

    Attributes
    ----------
    asked : ndarray of bool, shape (n,)
        Which rows were to be measured.
    is_done : ndarray of bool, shape (n,)
        Which of them are.
    place : ndarray of int64, shape (n,)
        Where the figures of a row that has values on both sides stand in `partials`; else -1.
    partials : Partials
    others : dict of int to dict or str
        Rows of which there are no figures: the statistics of their one side, or a read error.
    taken_over : int
        Tasks that this thread did because a worker of the executor died.
    """

    def __init__(self, pieces: Sequence[Piece], rows: Rows) -> None:
        self._slices = Counter(piece.pair for piece in pieces)
        self._parts: dict[int, dict[int, Partial | Other]] = {}
        self.asked, self.is_done = (np.zeros(len(rows), bool) for _ in range(2))
        self.asked[list(self._slices)] = True
        both = self.asked & rows.has_values
        count = int(np.count_nonzero(both))
        self.place = np.full(len(rows), -1, np.int64)
        self.place[both] = np.arange(count)
        self.partials = Partials.empty(count)
        self.others: dict[int, Other] = {}
        self.taken_over = 0

    def take(self, found: Found) -> None:
        """Enter what a task found; a row is done when all its slices are there."""
        rows = np.array(found.pairs, np.int64)
        self.partials.put_rows(self.place[rows], found.partials)
        self.is_done[rows] = True
        for row, start, part in found.slices:
            parts = self._parts.setdefault(row, {})
            parts[start] = part
            if len(parts) == self._slices[row]:
                self._finish(row, self._parts.pop(row))

    def _finish(self, row: int, parts: Mapping[int, Partial | Other]) -> None:
        in_order = [parts[start] for start in sorted(parts)]
        partials = [part for part in in_order if isinstance(part, Partial)]
        others = [part for part in in_order if not isinstance(part, Partial)]
        if others:
            self.others[row] = others[0]
        else:
            self.partials.put(int(self.place[row]), merge_tree(partials))
        self.is_done[row] = True

    @property
    def unfinished(self) -> int:
        """Rows that were to be measured and were not."""
        return int(np.count_nonzero(self.asked & ~self.is_done))

    @property
    def with_figures(self) -> np.ndarray:
        """Numbers of the rows whose figures are in `partials`."""
        have = self.is_done & (self.place >= 0)
        have[[*self.others]] = False
        return np.flatnonzero(have)


def pieces_of(rows: Rows) -> list[Piece]:
    """The work that rows are, in their order."""
    free = rows.obstacles.name == ""
    found: list[Piece] = []
    sizes, both = rows.sizes.tolist(), rows.has_values.tolist()
    lefts, rights = rows.left.sources, rows.right.sources
    for row in np.flatnonzero(free & (rows.has_values | rows.is_summarised)).tolist():
        left, right, size = lefts[row], rights[row], sizes[row]
        if not both[row]:
            partner = rows.right if right is None else rows.left
            found.append(Piece(row, left, right, 0, size, bool(partner.fingerprint(row))))
            continue
        if size <= SLICE:
            found.append(Piece(row, left, right, 0, size))
            continue
        for start in range(0, size, SLICE):
            found.append(Piece(row, left, right, start, min(start + SLICE, size)))
    return found


@dataclass(frozen=True)
class Batch:
    """The pieces of one task, and how many bytes are read for them."""

    pieces: list[Piece]
    size_bytes: int


def batches_of(pieces: Iterable[Piece]) -> list[Batch]:
    """Small pieces together, until a task is worth its overhead."""
    found: list[Batch] = []
    batch: list[Piece] = []
    elements = size_bytes = 0
    for piece in pieces:
        batch.append(piece)
        count = piece.stop - piece.start
        elements += count
        for source in (piece.left, piece.right):
            size_bytes += count * source.dtype.itemsize if source is not None else 0
        if elements >= BATCH_ELEMENTS or len(batch) >= BATCH_PAIRS:
            found.append(Batch(batch, size_bytes))
            batch, elements, size_bytes = [], 0, 0
    return [*found, Batch(batch, size_bytes)] if batch else found


def measure(
    batches: Sequence[Batch],
    tolerance: Tolerance,
    executor: Executor | None,
    report: Progress,
    measurements: Measurements,
) -> bool:
    """Enter what comes of all tasks; False if an interrupt came before the end.

    Without an executor the calling thread does them.
    """
    left: list[Batch] = [] if executor is not None else [*batches]
    try:
        if executor is not None:
            with closing(_by(executor, batches, tolerance, left)) as finished:
                _take(finished, measurements, report)
            measurements.taken_over = len(left)
        _take(_here(left, tolerance), measurements, report)
    except KeyboardInterrupt:
        return False
    return True


def _take(
    finished: Iterable[tuple[Found, int]], measurements: Measurements, report: Progress
) -> None:
    for found, size_bytes in finished:
        measurements.take(found)
        report(size_bytes)


def are_quick(batches: Sequence[Batch]) -> bool:
    """Whether tasks are no work for threads, which would only wait for each other's Python."""
    return all(
        piece.stop <= LARGEST_QUICK
        and isinstance(piece.left, ArrayInMemory)
        and isinstance(piece.right, ArrayInMemory)
        for batch in batches
        for piece in batch.pieces
    )


def _here(batches: Sequence[Batch], asked: Tolerance) -> Generator[tuple[Found, int], None, None]:
    for batch in batches:
        yield measure_batch(batch.pieces, asked), batch.size_bytes


def _by(
    executor: Executor, batches: Sequence[Batch], asked: Tolerance, left: list[Batch]
) -> Generator[tuple[Found, int], None, None]:
    """What the executor's workers find; tasks that go down with one of them are `left`."""
    given: dict[Future[Found], Batch] = {}
    try:
        for batch in batches:
            try:
                given[executor.submit(measure_batch, batch.pieces, asked)] = batch
            except BrokenExecutor:
                left.append(batch)
        for future in as_completed(given):
            try:
                yield future.result(), given[future].size_bytes
            except BrokenExecutor:
                left.append(given[future])
    finally:
        for future in given:
            future.cancel()


def measure_batch(pieces: Sequence[Piece], asked: Tolerance) -> Found:
    """What one task does. Runs in any thread or process; nothing but handles and figures travels.

    Small pairs are read one by one and measured together.
    """
    small = [piece for piece in pieces if piece.is_small]
    rooms = [_Room(side, small) for side in _SIDES]
    pairs: list[int] = []
    values: list[tuple[np.ndarray, np.ndarray]] = []
    slices: list[tuple[int, int, Partial | Other]] = []
    for piece in small:
        try:
            values.append((rooms[0].read(piece), rooms[1].read(piece)))
            pairs.append(piece.pair)
        except ReadError as error:
            slices.append((piece.pair, 0, message_of(error)))
    # Before the slices, which use the same memory.
    partials = _measured_together(values, asked)
    slices += [(p.pair, p.start, _measured(p, asked)) for p in pieces if not p.is_small]
    return Found(pairs, partials, slices)


def _measured_together(
    values: Sequence[tuple[np.ndarray, np.ndarray]], asked: Tolerance
) -> Partials:
    """The figures of many small pairs: those of one tolerance together."""
    kinds: dict[tuple[float, float], list[int]] = defaultdict(list)
    for row, (left, right) in enumerate(values):
        kinds[asked.of(left.dtype, right.dtype)].append(row)
    found = Partials.empty(len(values))
    for (rtol, atol), rows in kinds.items():
        lefts, rights = zip(*(values[row] for row in rows), strict=True)
        own: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": asked.equal_nan}
        partials = measure_many(lefts, rights, compiled.kernel(), **own)
        if len(kinds) == 1:
            return partials
        found.put_rows(np.array(rows), partials)
    return found


class _Room:
    """Memory for the values of a side of small pairs, which the next task uses again."""

    def __init__(self, side: Side, pieces: Iterable[Piece]) -> None:
        self.side = side
        sources = [(getattr(piece, side), piece.stop) for piece in pieces]
        sizes = [count * one.dtype.itemsize for one, count in sources if not _lies_in_memory(one)]
        self.free = _scratch[side].of(sum(map(_padded, sizes)), np.dtype(np.uint8))

    def read(self, piece: Piece) -> np.ndarray:
        """All values of a pair on this side, where they lie if they are in memory."""
        source: ArraySource = getattr(piece, self.side)
        if _lies_in_memory(source):
            return source.read(0, piece.stop)
        size = piece.stop * source.dtype.itemsize
        room, self.free = self.free[:size], self.free[_padded(size) :]
        values = room.view(source.dtype)
        # Other pairs are read before this one is measured: memory of the source's own may not last.
        read_in(values, source, 0)
        return values


def _lies_in_memory(source: ArraySource) -> bool:
    """Whether the values can be measured where they are, without a copy."""
    return isinstance(source, ArrayInMemory) and source.array.flags.c_contiguous


def _padded(size: int) -> int:
    """So many bytes, up to the next cache line."""
    return -(-size // _ALIGNED) * _ALIGNED


def _measured(piece: Piece, asked: Tolerance) -> Partial | Other:
    """The figures of a slice, the statistics of a tensor alone, or what a read error says."""
    left, right = piece.left, piece.right
    starts = range(piece.start, max(piece.stop, piece.start + 1), _RUN)
    spans = [(start, min(start + _RUN, piece.stop)) for start in starts]
    try:
        if left is None or right is None:
            source = left if left is not None else right
            if source is None:
                return {}
            return _summary(source, piece.stop, sketched=piece.sketched)
        rtol, atol = asked.of(left.dtype, right.dtype)
        with reading(left) as one, reading(right) as other:
            return merge_tree(
                pair_run(
                    _read(one, left, start, stop, "left"),
                    _read(other, right, start, stop, "right"),
                    start,
                    compiled.kernel(),
                    rtol=rtol,
                    atol=atol,
                    equal_nan=asked.equal_nan,
                )
                for start, stop in spans
            )
    except ReadError as error:
        return message_of(error)


def _summary(source: ArraySource, size: int, *, sketched: bool) -> dict[str, Any]:
    """The statistics of a tensor; with infinities also how many are below zero."""
    figures: dict[str, Any]
    if sketched:
        summary, _, numbers = summarise_with_sketch(source.read, size)
        figures = {**summary, "fingerprint": tuple(numbers.tolist())}
    else:
        summary, _ = summarise(source.read, size)
        figures = dict(summary)
    if not figures["inf_count"]:
        return figures
    below = 0
    for start in range(0, size, FIGURES_BLOCK):
        values = magnitudes(computable(source.read(start, min(start + FIGURES_BLOCK, size))))
        below += int(np.count_nonzero(values == -np.inf))
    return figures | {"negative_inf_count": below}


def _read(opened: Reading, source: ArraySource, start: int, stop: int, side: Side) -> np.ndarray:
    """Stored values: where they lie, or in memory that the next call for this side uses again."""
    if _lies_in_memory(source):
        return opened.read(start, stop)
    return opened.read(start, stop, _scratch[side].of(stop - start, source.dtype))


def threads() -> int:
    """How many threads compare, where nobody said."""
    return max(1, min(8, os.cpu_count() or 1))
