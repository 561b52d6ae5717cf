"""A large call in a part of it: some places along its axes, of which only these are read.

What each output is computed from is told by the axes of its layer (`axes.Axes`): where a row is
computed from a row, some rows stand for all, of a dense layer with a large weight some columns of
the output as well, of a batch norm some channels, of attention some heads. What is cut in another
way, its layer cuts itself (`Law.parts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.axes import TURNED, Bound, Form, items_of, plans_of
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.law import Law, Search
from troubleshooter_nb.analysis.causes.parts import (
    Part,
    elements_read,
    is_odd,
    outstanding,
    part_of,
)
from troubleshooter_nb.analysis.causes.sampling import spread

# Neighbours that are taken together: they are read at once.
_RUNS = {"rows": thresholds.ROWS_IN_A_RUN, "elements": thresholds.SCREEN_RUN}


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
        if not is_many or is_odd(output) or _is_endless(output):
            return
        plans = plans[:1]
    tried: list[Mapping[str, int]] = []
    for axes in plans_of(call, (*plans, items_of) if large else plans):
        bound = axes.bound(call)
        counts = _counts(bound, of_rows=layer.is_rowwise) if bound is not None else None
        if bound is not None and counts and counts not in tried:
            tried.append(counts)
            yield _part(bound, counts)
    if large and layer.parts is not None:
        yield from layer.parts(call)


def is_large(call: Call) -> bool:
    """Whether a tensor of the call is too large to be read whole."""
    inputs, parameters = call.taken
    tensors = [*call.outputs[:1], *inputs, *parameters.values()]
    sources = (source for tensor in tensors for source in tensor.sources if source is not None)
    return any(elements_read(source) > thresholds.LARGEST_READ for source in sources)


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
    size = bound.output.count({})
    if of_rows and rows and (counts or size > thresholds.THINNED_FROM):
        columns = bound.output.count(counts) // rows
        counts["rows"] = min(max(thresholds.LAYER_SAMPLE // columns, 1), rows)
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
        name: _places(name, bound.size(name), count, telling.get(name), _room(bound, counts, name))
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
    if (turned := _turned(bound, places)) is not None:
        call = replace(call, parameters={**call.parameters, TURNED: turned})
    told = {
        setting: (places[name], bound.size(name))
        for name, setting in bound.axes.tells.items()
        if name in places
    }
    left, right = ({**one, **told} for one in call.settings)
    said = ((name, len(some), bound.size(name)) for name, some in places.items())
    return Part(replace(call, settings=(left, right)), tuple(said))


def _turned(bound: Bound, places: Mapping[str, np.ndarray]) -> TensorPair | None:
    """Of a square matrix of which stripes are left, those of the same places the other way."""
    name = bound.axes.turned
    if name not in places:
        return None
    inputs, parameters = bound.call.taken
    for key, form in bound.operands.items():
        tensor = parameters[key] if isinstance(key, str) else inputs[key]
        sizes = {one: n for one, n in zip(form.names, form.sizes, strict=True) if n > 1}
        is_square = len(sizes) == len(tensor.shapes[1] or ()) == 2 and len({*sizes.values()}) == 1
        if name in sizes and is_square:
            chosen = [None if one == name else places[name] for one in sizes]
            return part_of(tensor, chosen) if len({*sizes} & {*places}) == 1 else None
    return None


def _telling(bound: Bound, output: TensorPair) -> dict[str, np.ndarray]:
    """Where along the axes of the output the largest error is, and what is not finite."""
    places = np.unravel_index(outstanding(output), bound.output.sizes)
    return dict(zip(bound.output.names, places, strict=True))


def _room(bound: Bound, counts: Mapping[str, int], name: str) -> int:
    """How many places of an axis may be read, the others being as they are."""
    forms = [form for form in (bound.output, *bound.operands.values()) if name in form.names]
    each = max(form.count(counts) // counts[name] for form in forms)
    return max(thresholds.LARGEST_READ // (2 * max(each, 1)), 1)


def _places(name: str, size: int, count: int, telling: np.ndarray | None, most: int) -> np.ndarray:
    """Evenly spread places in runs, and those that tell: the first of them in any case."""
    told = np.zeros(0, np.intp) if telling is None else telling[: max(most - count, 1)]
    run = min(_RUNS.get(name, 1), size)
    firsts = spread(size // run, max(min(count, most - len(told)), 0) // run) * run
    if not len(firsts) and not len(told):
        firsts = spread(size // run, 1) * run
    found: np.ndarray = np.unique(np.append((firsts[:, None] + np.arange(run)).ravel(), told))
    return found
