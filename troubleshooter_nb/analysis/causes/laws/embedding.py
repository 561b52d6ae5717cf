"""Embeddings: factor, shift of the ids, rows that stay zero; and the gradients of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.analysis.causes.law import Cause, Choice, Factor, Law
from troubleshooter_nb.analysis.causes.sampling import Sample, vectors, whole
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.operators.embedding import gathered_gradient, look_up
from troubleshooter_nb.thresholds import EMBEDDING_IDS, FEWEST_OUTPUTS

LARGEST_SHIFT = 3
# What is known of a side of whose table some rows were read: their numbers in the whole table.
ROW_NUMBERS = "row_numbers"
_CAUSES: dict[str, Cause] = {
    "padding_row": "padding_idx_row",
    "padding_gradient": "padding_idx_row",
    "index_shift": "position_offset",
    "embedding_scale": "embedding_scale",
}


def _ids(operands: Operands) -> Iterator[Sample]:
    """Some ids (n,), the table (rows, columns), and their output (n, columns)."""
    arrays = [values for values in operands.inputs if values is not None]
    table = operands.parameters.get("weight")
    whole = [values for values in arrays if values.dtype.kind in "iu"]
    if table is None:
        table = next((v for v in arrays if v.dtype.kind == "f" and v.ndim == 2), None)
    if table is None or table.ndim != 2 or not whole:
        return
    output = operands.output
    ids = next((v for v in whole if output.shape == (*v.shape, table.shape[1])), None)
    if ids is None or output.size < FEWEST_OUTPUTS or len(np.unique(ids)) < 2:
        return
    if ids.min() >= 0 and ids.max() < len(table):
        some, rows = vectors(operands, ids, EMBEDDING_IDS)
        yield Sample.of(operands, (some, table), rows)


def _padded(sample: Sample) -> Iterator[tuple[Mapping[str, Any], int | None]]:
    """All rows used, or the only id silent whose output is zero although its row is not."""
    yield {"padding_row": "used"}, None
    (ids, table), output = sample.given, sample.output
    zero = np.unique(ids[~np.any(output != 0, axis=1)]).tolist()
    silent = [number for number in zero if np.any(table[number] != 0)]
    if len(silent) == 1 and len(np.unique(ids)) > 2:
        number = sample.known.get(ROW_NUMBERS, range(len(table)))[silent[0]]
        yield {"padding_row": Message("evidence.zero_for_id", row=int(number))}, silent[0]


def _looked_up(sample: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    (ids, table), silent = sample.given, chosen["padding_row"]
    rows = look_up(table, ids, shift=chosen["index_shift"])
    return rows if silent is None else np.where((ids == silent)[:, None], 0.0, rows)


def _sums(operands: Operands) -> Iterator[Sample]:
    """The gradient of a table as the sums over its ids: inputs grad_output and ids."""
    taken = whole(operands, operands.inputs[:2])
    if taken is None or len(taken) < 3 or taken[2].ndim != 2:
        return
    gradient, ids, output = taken
    rows = len(output)
    if gradient.shape[:-1] != ids.shape or not ids.size or ids.min() < 0 or ids.max() >= rows:
        return
    sums = gathered_gradient(gradient.reshape(ids.size, -1), ids.ravel(), rows)
    if sums.shape == output.shape:
        yield Sample.of(operands, (sums,), output)


def _rows_kept(sample: Sample) -> Iterator[tuple[Mapping[str, Any], int | None]]:
    yield {"padding_gradient": "kept"}, None
    (sums,), output = sample.given, sample.output
    empty = np.flatnonzero(np.any(sums != 0, axis=1) & ~np.any(output != 0, axis=1))
    if empty.size == 1:
        yield {"padding_gradient": Message("evidence.none_for_id", row=empty[0])}, int(empty[0])


def _gathered(sample: Sample, chosen: Mapping[str, Any]) -> np.ndarray:
    (sums,), silent = sample.given, chosen["padding_gradient"]
    return sums if silent is None else np.where(np.arange(len(sums))[:, None] == silent, 0.0, sums)


EMBEDDING = Law(
    words=("embedding", "gather"),
    samples=_ids,
    causes=_CAUSES,
    choices=(
        Choice("padding_row", _padded),
        Choice("index_shift", (0, *(n for m in range(1, LARGEST_SHIFT + 1) for n in (m, -m)))),
    ),
    formula=_looked_up,
    factor=Factor("embedding_scale", size=lambda sample: sample.given[1].shape[1]),
)
TABLE_GRADIENT = Law(
    words=("embedding",),
    direction="weight",
    samples=_sums,
    causes=_CAUSES,
    choices=(Choice("padding_gradient", _rows_kept),),
    formula=_gathered,
    factor=Factor("gradient_factor"),
    axes=(Axes.of("*tokens features, *tokens -> ids features", features=0),),
)
LAWS = (EMBEDDING, TABLE_GRADIENT)
