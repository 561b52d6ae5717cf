"""A large call in a part of it: some places along its axes, of which only these are read.

What each output is computed from is told by the axes of its layer (`axes.Axes`): where a row is
computed from a row, some rows stand for all, of a dense layer with a large weight some columns of
the output as well, of a batch norm some channels, of attention some heads. Of an embedding with a
large table the rows of some ids are read, and those beside them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import Bound, Form, items_of, plans_of
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.law import Law, Search
from troubleshooter_nb.analysis.causes.laws.embedding import EMBEDDING, LARGEST_SHIFT, ROW_NUMBERS
from troubleshooter_nb.analysis.causes.parts import (
    PartOf,
    elements_read,
    odd_places,
    part_of,
)
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.dump import ArrayInMemory, ArraySource
from troubleshooter_nb.messages import Message

# Neighbours that are taken together: they are read at once.
_RUNS = {"rows": thresholds.ROWS_IN_A_RUN, "elements": thresholds.SCREEN_RUN}
_SAID = {
    "rows": "evidence.some_rows",
    "columns": "evidence.some_columns",
    "items": "evidence.some_items",
    "channels": "evidence.some_channels",
    "elements": "evidence.some_elements",
    "features": "evidence.some_features",
    "groups": "evidence.some_groups",
    "heads": "evidence.some_heads",
    "queries": "evidence.some_queries",
    "units": "evidence.some_units",
}


@dataclass(frozen=True)
class Part:
    """A call in a part of its tensors.

    Attributes
    ----------
    call : Call
    cut : tuple of (str, int, int)
        The axes that were cut, with how many places of how many are left.
    """

    call: Call
    cut: tuple[tuple[str, int, int], ...]

    @property
    def said(self) -> Message:
        """How many rows of how many, or channels, or heads."""
        said = [Message(_SAID[name], count=count, n=n) for name, count, n in self.cut]
        return functools.reduce(lambda one, more: Message("evidence.and", one=one, more=more), said)


def parts(call: Call, layer: Law | Search) -> Iterator[Part]:
    """Parts of a large call that stand for all of it, the likeliest first; none of a small one.

    Parameters
    ----------
    call : Call
    layer : Law or Search
        What it is computed again by.

    Yields
    ------
    Part
        Tensors that are cut have the axes that the layer's axes name; places are evenly spread, and
        among them are that of the largest error and some of NaN and Inf.

    Notes
    -----
    What is read whole is cut as well where rows are computed from rows and there are many, unless
    NaN and Inf, or an endless budget, ask for all of it.
    """
    output = call.outputs[0] if call.outputs else None
    if output is None or output.shapes[0] != output.shapes[1] or not output.shapes[1]:
        return
    large, plans = is_large(call), layer.axes
    if not large:
        is_many = layer.is_rowwise and output.size > thresholds.THINNED_FROM
        if not is_many or _is_odd(output) or _is_endless(output):
            return
        plans = plans[:1]
    elif call.word in EMBEDDING.words and call.direction == "forward":
        looked_up = _looked_up(call, output, output.shapes[1])
        if looked_up is not None:
            yield looked_up
        return
    tried: list[Mapping[str, int]] = []
    for axes in plans_of(call, (*plans, items_of) if large else plans):
        bound = axes.bound(call)
        counts = _counts(bound, of_rows=layer.is_rowwise) if bound is not None else None
        if bound is not None and counts and counts not in tried:
            tried.append(counts)
            yield _part(bound, counts)


def is_large(call: Call) -> bool:
    """Whether a tensor of the call is too large to be read whole."""
    inputs, parameters = call.taken
    tensors = [*call.outputs[:1], *inputs, *parameters.values()]
    sources = (source for tensor in tensors for source in tensor.sources if source is not None)
    return any(elements_read(source) > thresholds.LARGEST_READ for source in sources)


def _is_odd(output: TensorPair) -> bool:
    """Whether other rows tell than those of the largest finite error."""
    counts = (f"{side}_{kind}_count" for side in ("left", "right") for kind in ("nan", "inf"))
    return any(output.figures.get(count, 0) > 0 for count in counts)


def _is_endless(output: TensorPair) -> bool:
    return output.budget is not None and output.budget.is_endless


def _counts(bound: Bound, *, of_rows: bool) -> dict[str, int] | None:
    """How many places of each axis; None where some tensor would still be too large."""
    some, counts = bound.axes.some, dict[str, int]()
    forms = [bound.output, *bound.operands.values()]

    def cut(name: str, form: Form) -> None:
        now = counts.get(name, bound.size(name))
        fitting = max(thresholds.PART_ELEMENTS // max(form.count(counts) // now, 1), 1)
        counts[name] = min(now, fitting, some[name] or fitting)

    def too_large() -> Iterator[tuple[Form, list[str]]]:
        for form in forms:
            if form.count(counts) > thresholds.LARGEST_READ:
                yield form, [name for name in some if name in form.names]

    for form, names in [*too_large()]:
        if len(names) == 1:  # nothing else can make it smaller
            cut(names[0], form)
    for name in some:
        for form, names in [*too_large()]:
            if name in names:
                cut(name, form)
    if any(too_large()) or _reads_others(bound):
        return None
    rows = counts.get("rows", bound.size("rows")) if "rows" in some else 0
    if of_rows and rows and bound.output.count(counts) > thresholds.THINNED_FROM:
        columns = bound.output.count(counts) // rows
        counts["rows"] = max(thresholds.LAYER_SAMPLE // columns, 1)
    return {name: n for name, n in counts.items() if n < bound.size(name)}


def _reads_others(bound: Bound) -> bool:
    """Whether a tensor that the axes do not name is too large to be read whole."""
    inputs, parameters = bound.call.taken
    others = [one for place, one in enumerate(inputs) if place not in bound.operands]
    others += [one for name, one in parameters.items() if name not in bound.operands]
    sources = [source for one in others for source in one.sources if source is not None]
    return any(elements_read(source) > thresholds.LARGEST_READ for source in sources)


def _part(bound: Bound, counts: Mapping[str, int]) -> Part:
    output, (inputs, parameters) = bound.call.outputs[0], bound.call.taken
    telling = _telling(bound, output)
    places = {
        name: _places(name, bound.size(name), count, telling.get(name))
        for name, count in counts.items()
    }

    def cut(tensor: TensorPair, form: Form | None) -> TensorPair:
        if form is None or not any(name in places for name in form.names):
            return tensor
        shape = form.shape({name: len(some) for name, some in places.items()})
        return part_of(tensor, [places.get(name) for name in form.names], form.sizes, shape)

    call = bound.call.taking(
        cut(output, bound.output),
        [cut(one, bound.operands.get(place)) for place, one in enumerate(inputs)],
        {name: cut(one, bound.operands.get(name)) for name, one in parameters.items()},
    )
    told = {
        setting: (places[name], bound.size(name))
        for name, setting in bound.axes.tells.items()
        if name in places
    }
    left, right = ({**one, **told} for one in call.settings)
    said = ((name, len(some), bound.size(name)) for name, some in places.items())
    return Part(replace(call, settings=(left, right)), tuple(said))


def _telling(bound: Bound, output: TensorPair) -> dict[str, np.ndarray]:
    """Where along the axes of the output the largest error is, and what is not finite."""
    places = np.unravel_index(_outstanding(output), bound.output.sizes)
    return dict(zip(bound.output.names, places, strict=True))


def _outstanding(output: TensorPair) -> np.ndarray:
    """Flat places of the largest finite error and of some NaN and Inf."""
    flat = [max(int(output.figures.get("max_abs_index", 0)), 0)]
    if _is_odd(output):
        flat += odd_places(output, thresholds.ODD_PLACES)
    return np.array(flat)


def _places(name: str, size: int, count: int, telling: np.ndarray | None) -> np.ndarray:
    run = min(_RUNS.get(name, 1), size)
    firsts = spread(size // run, max(count // run, 1)) * run
    places = (firsts[:, None] + np.arange(run)).ravel()
    found: np.ndarray = np.unique(places if telling is None else np.append(places, telling))
    return found


def _looked_up(call: Call, output: TensorPair, shape: tuple[int, ...]) -> Part | None:
    """An embedding at some ids; None where they are no ids of this table."""
    table = call.parameters.get("weight")
    if table is None or any(
        one is None or len(one) != 2 or one[1:] != shape[-1:] for one in table.shapes
    ):
        return None
    given = call.inputs[0] if call.inputs else None
    if given is None or given.size > thresholds.LARGEST_READ:
        return None
    ids = given.left, given.right
    if any(one is None or one.dtype.kind not in "iu" or one.shape != shape[:-1] for one in ids):
        return None
    most = thresholds.LARGEST_READ // ((2 * LARGEST_SHIFT + 1) * shape[-1])
    rows = output.size // shape[-1]
    count = max(min(most, thresholds.LOOKED_UP_IDS), 2) - 1
    places = np.union1d(spread(rows, count), _outstanding(output) // shape[-1])
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
    few = replace(
        call,
        inputs=(replace(given, sources=numbers), *call.inputs[1:]),
        outputs=(part_of(output, [places, None], (rows, shape[-1])), *call.outputs[1:]),
        parameters={**call.parameters, "weight": replace(table, sources=tables)},
        settings=(known[0], known[1]),
    )
    return Part(few, (("rows", len(places), rows),))


def _beside(ids: np.ndarray, table: ArraySource) -> tuple[ArrayInMemory, PartOf, np.ndarray] | None:
    """Ids counted in the rows that are read, these rows, and their numbers in the whole table."""
    count = table.shape[0]
    if not ids.size or ids.min() < 0 or ids.max() >= count:
        return None
    near = ids.astype(np.int64)[:, None] + np.arange(-LARGEST_SHIFT, LARGEST_SHIFT + 1)
    rows = np.unique(near[(near >= 0) & (near < count)])
    return ArrayInMemory(np.searchsorted(rows, ids)), PartOf.of(table, [rows, None]), rows
