"""A large call in some of its rows: where a row is computed from a row, they stand for all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.layers import ROWWISE
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.dump import ArraySource, SizedByShape, read_in, reading
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


def thinned(call: Call) -> Call | None:
    """The call in evenly spread rows and the one with the largest error; None where it is whole.

    Parameters
    ----------
    call : Call

    Returns
    -------
    Call or None
        Tensors of the output's rows have the shape (rows, columns), others are as they were. None
        for small calls, layers that mix rows, and operands of other shapes.
    """
    output = call.outputs[0] if call.outputs else None
    shape = output.shapes[1] if output is not None else None
    if output is None or shape is None or call.word not in ROWWISE or len(shape) < 2:
        return None
    if output.shapes[0] != shape or output.size <= thresholds.THINNED_FROM or _is_odd(output):
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
    return replace(call, inputs=inputs, outputs=outputs, forward=forward)


def _is_odd(output: TensorPair) -> bool:
    """Whether other rows tell than those of the largest finite error, or all are asked for."""
    counts = (f"{side}_{kind}_count" for side in ("left", "right") for kind in ("nan", "inf"))
    is_endless = output.budget is not None and output.budget.is_endless
    return is_endless or any(output.figures.get(count, 0) > 0 for count in counts)


def rows_said(few: Call, whole: Call) -> Message:
    """How many rows of how many a thinned call has."""
    count, columns = few.outputs[0].shapes[1] or (0, 1)
    return Message("evidence.some_rows", count=count, n=whole.outputs[0].size // columns)


def _is_of_rows(tensor: TensorPair, shape: tuple[int, ...]) -> bool:
    return all(one is not None and one[:-1] == shape[:-1] for one in tensor.shapes)


def _fits(tensor: TensorPair, shape: tuple[int, ...]) -> bool:
    """Whether an operand has the rows of the output, or none at all."""
    return _is_of_rows(tensor, shape) or all(one is None or len(one) < 2 for one in tensor.shapes)


def _rows(output: TensorPair, columns: int) -> list[int]:
    rows, run = output.size // columns, thresholds.ROWS_IN_A_RUN
    count = max(thresholds.LAYER_SAMPLE // (columns * run), 1)
    firsts = spread(rows // run, count) * run
    places = np.unique(firsts[:, None] + np.arange(run))
    worst = max(int(output.figures.get("max_abs_index", 0)), 0) // columns
    found: list[int] = np.union1d(places[places < rows], min(worst, rows - 1)).tolist()
    return found


def _of_rows(tensor: TensorPair, rows: Sequence[int], shape: tuple[int, ...]) -> TensorPair:
    if not _is_of_rows(tensor, shape):
        return tensor
    left, right = (
        source and RowsOf(source, tuple(row * source.shape[-1] for row in rows), source.shape[-1])
        for source in tensor.sources
    )
    return replace(tensor, sources=(left, right))
