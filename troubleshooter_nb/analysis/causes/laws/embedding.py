"""Embeddings and added positions: factors, shifts, rows that stay zero; gradients of tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import Axes
from troubleshooter_nb.analysis.causes.case import Call, Fit, Operands
from troubleshooter_nb.analysis.causes.fits import factor_fits
from troubleshooter_nb.analysis.causes.law import Cause, Choice, Factor, Law
from troubleshooter_nb.analysis.causes.parts import Part, PartOf, outstanding, part_of
from troubleshooter_nb.analysis.causes.sampling import Sample, spread, vectors, whole
from troubleshooter_nb.dump import ArrayInMemory, ArraySource
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


def _added(operands: Operands) -> Iterator[Sample]:
    """What positions are added to (..., length, columns), their table (rows, columns), the sum."""
    output, tables = operands.output, [*operands.parameters.values()]
    given = [values for values in operands.inputs if values is not None]
    if len(tables) != 1 or len(given) != 1 or given[0].shape != output.shape or output.ndim < 2:
        return
    table = tables[0].reshape(-1, tables[0].shape[-1]) if tables[0].ndim else tables[0]
    length, columns = output.shape[-2:]
    if table.ndim == 2 and table.shape[1] == columns and len(table) >= length > 1:
        yield Sample.of(operands, (given[0], table), output)


def _moved_rows(sample: Sample) -> Iterator[Fit]:
    """The table from its first rows on, or from a later one, below the values times a factor."""
    (given, table), output = sample.given, sample.output
    length, size = given.shape[-2:]
    norm = float(np.linalg.norm(output))
    for shift in range(min(len(table) - length, LARGEST_SHIFT) + 1):
        rest = output - table[shift : shift + length]
        share = float(np.linalg.norm(rest)) / norm if norm > 0 else math.inf
        said = {"index_shift": shift}
        for fit in factor_fits(rest, given, said, "embedding_scale", sample.roundoff, size):
            yield replace(fit, residual=fit.residual * share)


def _columns_of_positions(call: Call) -> Iterator[Axes]:
    """Some columns, whatever the table is called."""
    for name, table in call.parameters.items():
        rows = " ".join("1" for _ in (table.shapes[1] or ())[2:])
        values = "*items length columns"
        yield Axes.of(f"{values}, {name}: {rows} rows columns -> {values}", columns=0)


def _some_ids(call: Call) -> Iterator[Part]:
    """The rows of some ids, and those beside them; nothing where they are no ids of this table."""
    output, shape = call.outputs[0], call.outputs[0].shapes[1] or ()
    table = call.parameters.get("weight")
    if table is None or any(
        one is None or len(one) != 2 or one[1:] != shape[-1:] for one in table.shapes
    ):
        return
    given = call.inputs[0] if call.inputs else None
    if given is None or given.size > thresholds.LARGEST_READ:
        return
    ids = given.left, given.right
    if any(one is None or one.dtype.kind not in "iu" or one.shape != shape[:-1] for one in ids):
        return
    most = thresholds.LARGEST_READ // ((2 * LARGEST_SHIFT + 1) * shape[-1])
    rows = output.size // shape[-1]
    count = max(min(most, thresholds.LOOKED_UP_IDS), 2) - 1
    places = np.union1d(spread(rows, count), outstanding(output) // shape[-1])
    sides = []
    for numbers, source in zip(ids, table.sources, strict=True):
        if numbers is None or source is None:
            return
        found = _beside(numbers.ravel()[places], source)
        if found is None:
            return
        sides.append(found)
    numbers, tables, kept = zip(*sides, strict=True)
    known = [{**one, ROW_NUMBERS: rows} for one, rows in zip(call.settings, kept, strict=True)]
    few = replace(
        call,
        inputs=(replace(given, sources=numbers), *call.inputs[1:]),
        outputs=(part_of(output, [places, None], (rows, shape[-1])), *call.outputs[1:]),
        parameters={**call.parameters, "weight": replace(table, sources=tables)},
        settings=(known[0], known[1]),
    )
    yield Part(few, (("rows", len(places), rows),))


def _beside(ids: np.ndarray, table: ArraySource) -> tuple[ArrayInMemory, PartOf, np.ndarray] | None:
    """Ids counted in the rows that are read, these rows, and their numbers in the whole table."""
    count = table.shape[0]
    if not ids.size or ids.min() < 0 or ids.max() >= count:
        return None
    near = ids.astype(np.int64)[:, None] + np.arange(-LARGEST_SHIFT, LARGEST_SHIFT + 1)
    rows = np.unique(near % count)
    return ArrayInMemory(np.searchsorted(rows, ids)), PartOf.of(table, [rows, None]), rows


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
    parts=_some_ids,
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
POSITIONS = Law(
    words=("positionadd",),
    samples=_added,
    causes=_CAUSES,
    ways=_moved_rows,
    axes=(_columns_of_positions,),
)
LAWS = (EMBEDDING, POSITIONS, TABLE_GRADIENT)
