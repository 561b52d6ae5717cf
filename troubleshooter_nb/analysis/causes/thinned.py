"""A large call in some of its rows: where a row is computed from a row, they stand for all.

Of a dense layer with a large weight some columns of the output stand for all as well: each is made
of the whole row of the input and of one row of the weight. Of an embedding with a large table the
rows of some ids are read, and those beside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.laws.embedding import (
    EMBEDDING,
    LARGEST_SHIFT,
    ROW_NUMBERS,
)
from troubleshooter_nb.analysis.causes.laws.products import LINEAR
from troubleshooter_nb.analysis.causes.layers import ROWWISE
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.dump import ArrayInMemory, ArraySource, SizedByShape, read_in, reading
from troubleshooter_nb.messages import Message


@dataclass(frozen=True)
class RowsOf(SizedByShape):
    """An `ArraySource` of some rows of another one, shape (rows, columns)."""

    source: ArraySource
    starts: tuple[int, ...]
    columns: int

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Rows and columns."""
        return len(self.starts), self.columns

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """That of the source."""
        return self.source.dtype

    def files(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.files()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat range; all rows are read for it."""
        values = np.empty(self.shape, self.dtype)
        with reading(self.source) as opened:
            for first, last in self._runs():
                read_in(values[first:last].reshape(-1), opened, self.starts[first])
        return values.reshape(-1)[start:stop]

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Half-open ranges of rows that lie side by side."""
        breaks = np.flatnonzero(np.diff(self.starts) != self.columns) + 1
        return itertools.pairwise([0, *breaks.tolist(), len(self.starts)])


@dataclass(frozen=True)
class ColumnsOf(SizedByShape):
    """An `ArraySource` of some places along the last axis of another one."""

    source: ArraySource
    chosen: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """That of the source, with another last axis."""
        return (*self.source.shape[:-1], len(self.chosen))

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """That of the source."""
        return self.source.dtype

    def files(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.files()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat range; the whole source is read for it."""
        shape = self.source.shape
        whole = self.source.read(0, math.prod(shape)).reshape(shape)
        return whole[..., list(self.chosen)].reshape(-1)[start:stop]


def thinned(call: Call) -> Call | None:
    """The call in evenly spread rows and the one with the largest error; None where it is whole.

    Parameters
    ----------
    call : Call

    Returns
    -------
    Call or None
        Tensors of the output's rows have the shape (rows, columns), others are as they were; of a
        dense layer whose weight is large, columns of the output, rows of the weight and values of
        the bias are some, too; of an embedding whose table is large, ids, counted in the rows of
        the table that are read. None for small calls, layers that mix rows, and operands of other
        shapes.
    """
    output = call.outputs[0] if call.outputs else None
    shape = output.shapes[1] if output is not None else None
    if output is None or shape is None or output.shapes[0] != shape or len(shape) < 2:
        return None
    if _is_odd(call, output):
        return None
    if call.word in EMBEDDING.words and call.direction == "forward":
        return _looked_up(call, output, shape)
    columns = _columns(call, output, shape)
    is_small = output.size <= thresholds.THINNED_FROM and not columns
    if call.word not in ROWWISE or is_small:
        return None
    given = call.forward.inputs if call.forward is not None else ()
    if not all(_fits(one, shape) for one in (*call.inputs, *given)):
        return None
    rows = _rows(output, shape[-1])
    inputs = tuple(_of_rows(one, rows, shape) for one in call.inputs)
    forward = call.forward and replace(
        call.forward, inputs=tuple(_of_rows(one, rows, shape) for one in given)
    )
    outputs = (_of_rows(output, rows, shape), *call.outputs[1:])
    few = replace(call, inputs=inputs, outputs=outputs, forward=forward)
    return _in_columns(few, columns) if columns else few


def _looked_up(call: Call, output: TensorPair, shape: tuple[int, ...]) -> Call | None:
    """An embedding at some ids; None where its table is read whole, or is no table of these ids."""
    table = call.parameters.get("weight")
    if table is None or table.size <= thresholds.LARGEST_READ:
        return None
    if any(one is None or len(one) != 2 or one[1:] != shape[-1:] for one in table.shapes):
        return None
    given = call.inputs[0] if call.inputs else None
    ids = (given.left, given.right) if given is not None else (None, None)
    if any(one is None or one.dtype.kind not in "iu" or one.shape != shape[:-1] for one in ids):
        return None
    most = thresholds.LARGEST_READ // ((2 * LARGEST_SHIFT + 1) * shape[-1])
    rows = output.size // shape[-1]
    count = max(min(most, thresholds.LOOKED_UP_IDS), 2) - 1
    places = sorted({*spread(rows, count).tolist(), _worst(output) // shape[-1]})
    sides = []
    for numbers, source in zip(ids, table.sources, strict=True):
        if numbers is None or source is None:
            return None
        found = _beside(numbers.ravel()[places], source)
        if found is None:
            return None
        sides.append(found)
    numbers, tables, kept = zip(*sides, strict=True)
    known = [{**one, ROW_NUMBERS: rows} for one, rows in zip(call.settings, kept, strict=True)]
    return replace(
        call,
        inputs=(replace(call.inputs[0], sources=numbers), *call.inputs[1:]),
        outputs=(_of_rows(output, places, shape), *call.outputs[1:]),
        parameters={**call.parameters, "weight": replace(table, sources=tables)},
        settings=(known[0], known[1]),
    )


def _beside(ids: np.ndarray, table: ArraySource) -> tuple[ArrayInMemory, RowsOf, np.ndarray] | None:
    """Ids counted in the rows that are read, these rows, and their numbers in the whole table."""
    count = table.shape[0]
    if not ids.size or ids.min() < 0 or ids.max() >= count:
        return None
    near = ids.astype(np.int64)[:, None] + np.arange(-LARGEST_SHIFT, LARGEST_SHIFT + 1)
    rows = np.unique(near[(near >= 0) & (near < count)])
    return ArrayInMemory(np.searchsorted(rows, ids)), _rows_of(table, rows.tolist()), rows


def _columns(call: Call, output: TensorPair, shape: tuple[int, ...]) -> list[int]:
    """Columns of a dense layer's output that stand for all: none where its weight is read whole."""
    weight = call.parameters.get("weight")
    if call.word not in LINEAR.words or call.direction != "forward" or weight is None:
        return []
    is_its = all(
        one is not None and one[:1] == shape[-1:] and len(one) == 2 for one in weight.shapes
    )
    if not is_its or weight.size <= thresholds.LARGEST_READ:
        return []
    most = min(thresholds.DENSE_COLUMNS, thresholds.LARGEST_READ // (weight.size // shape[-1]))
    found: list[int] = spread(shape[-1], max(most - 1, 1)).tolist()
    return sorted({*found, _worst(output) % shape[-1]})


def _in_columns(call: Call, columns: Sequence[int]) -> Call:
    """A dense call in some columns of its output, which its rows are chosen of already."""
    output, parameters = call.outputs[0], dict(call.parameters)
    for name in ("weight", "bias"):
        if (given := parameters.get(name)) is not None:
            of = _rows_of if len(given.shapes[1] or ()) == 2 else ColumnsOf
            left, right = (source and of(source, tuple(columns)) for source in given.sources)
            parameters[name] = replace(given, sources=(left, right))
    left, right = (source and ColumnsOf(source, tuple(columns)) for source in output.sources)
    outputs = (replace(output, sources=(left, right)), *call.outputs[1:])
    return replace(call, outputs=outputs, parameters=parameters)


def _rows_of(source: ArraySource, rows: Sequence[int]) -> RowsOf:
    length = source.shape[-1]
    return RowsOf(source, tuple(row * length for row in rows), length)


def _is_odd(call: Call, output: TensorPair) -> bool:
    """Whether other rows tell than those of the largest finite error, or all are asked for.

    All can be asked only where all operands are read whole.
    """
    counts = (f"{side}_{kind}_count" for side in ("left", "right") for kind in ("nan", "inf"))
    is_endless = output.budget is not None and output.budget.is_endless
    operands = (output, *call.inputs, *call.parameters.values())
    is_readable = all(one.size <= thresholds.LARGEST_READ for one in operands)
    is_whole = is_endless and is_readable
    return is_whole or any(output.figures.get(count, 0) > 0 for count in counts)


def _worst(output: TensorPair) -> int:
    """The flat place of the largest finite error."""
    return max(int(output.figures.get("max_abs_index", 0)), 0)


def rows_said(few: Call, whole: Call) -> Message:
    """How many rows of how many a thinned call has."""
    count, columns = few.outputs[0].shapes[1] or (0, 1)
    every = (whole.outputs[0].shapes[1] or (1,))[-1]
    rows = Message("evidence.some_rows", count=count, n=whole.outputs[0].size // every)
    if columns == every:
        return rows
    return Message("evidence.some_columns", rows=rows, count=columns, n=every)


def _is_of_rows(tensor: TensorPair, shape: tuple[int, ...]) -> bool:
    return all(one is not None and one[:-1] == shape[:-1] for one in tensor.shapes)


def _fits(tensor: TensorPair, shape: tuple[int, ...]) -> bool:
    """Whether an operand has the rows of the output, or none at all."""
    return _is_of_rows(tensor, shape) or all(one is None or len(one) < 2 for one in tensor.shapes)


def _rows(output: TensorPair, columns: int) -> list[int]:
    rows, run = output.size // columns, thresholds.ROWS_IN_A_RUN
    if output.size <= thresholds.THINNED_FROM:
        return [*range(rows)]
    count = max(thresholds.LAYER_SAMPLE // (columns * run), 1)
    firsts = spread(rows // run, count) * run
    places = np.unique(firsts[:, None] + np.arange(run))
    worst = min(_worst(output) // columns, rows - 1)
    found: list[int] = np.union1d(places[places < rows], worst).tolist()
    return found


def _of_rows(tensor: TensorPair, rows: Sequence[int], shape: tuple[int, ...]) -> TensorPair:
    if not _is_of_rows(tensor, shape):
        return tensor
    left, right = (source and _rows_of(source, rows) for source in tensor.sources)
    return replace(tensor, sources=(left, right))
