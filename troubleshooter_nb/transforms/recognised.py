"""The transforms that do what a relation of values says.

Relations are those of `troubleshooter_nb.metrics.relations` and `metrics.compositions`, and "part"
and "unstack", which are a "concat" or "interleave" and a "stack" seen from the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.shapes import Shape
from troubleshooter_nb.transforms.orders import ranges_of, runs_of
from troubleshooter_nb.transforms.spec import Spec
from troubleshooter_nb.transforms.transform import Transform, chained

Given = Mapping[str, Any]
Steps = list[Transform]
_FITTED = 4.0  # unit roundoffs of the values that a fitted number may be away


def of_relation(kind: str, given: Given, sources: Sequence[Spec]) -> Transform | None:
    """The transform that does what a relation of values says; None where there is none.

    Parameters
    ----------
    kind, given
        Kind and arguments of a relation.
    sources : sequence of Spec
        Of the first one alone where not all are known.
    """
    read = _STEPS.get(kind)
    steps = None if read is None else read(given, sources[0])
    if steps is None:
        return None
    transform = chained(steps)
    try:
        transform.specs(sources)
    except WeightMapError:
        return None
    return transform


def _step(kind: str, *arguments: Any) -> Transform:
    return Transform(kind, arguments)


def _fitted(number: float, source: Spec) -> float:
    """A number as short as the precision of the values lets it be."""
    return simplest(number, _FITTED * unit_roundoff(source.dtype))


def simplest(number: float, error: float) -> float:
    """The shortest number within a relative error of a fitted one: 0.125 for 0.12499999."""
    for digits in range(1, 16):
        short = float(f"{number:.{digits}g}")
        if abs(short - number) <= error * abs(number):
            return short
    return number


def _cast(given: Given, source: Spec) -> Steps:
    # Values that were rounded and stored wide again need two steps, but loading needs neither.
    rounded = given["side"] == "right" and given["dtype"] != source.dtype.name
    return [_step("cast", given["dtype"])] if rounded else []


def _of_axes(given: Given, source: Spec) -> Steps:
    """Axes in another order, with a shape before and after, and axes that are turned around."""
    shape = tuple(given.get("from_shape", source.shape))
    axes = tuple(given.get("axes", range(len(shape))))
    steps = [_step("reshape", *shape)] if shape != source.shape else []
    if axes == tuple(range(len(axes)))[::-1] and len(axes) > 1:
        steps.append(_step("transpose"))
    elif axes != tuple(range(len(axes))):
        steps.append(_step("permute", *axes))
    steps += [_step("flip", axis) for axis in given.get("flip", ())]
    turned = tuple(shape[axis] for axis in axes)
    after = tuple(given.get("shape", turned))
    return [*steps, *([_step("reshape", *after)] if after != turned else [])]


def _of_rows(given: Given, source: Spec) -> Steps:
    """Rows in the order that is given, or factors of groups of rows that change places."""
    axis = int(given["axis"])
    if "order" in given:
        return [_step("take", axis, *ranges_of(runs_of(np.asarray(given["order"]))))]
    (first, second), inner, shape = given["factors"], given["inner"], source.shape
    split = (*shape[:axis], -1, first, second, inner, *shape[axis + 1 :])
    order = [*range(len(split))]
    order[axis + 1], order[axis + 2] = axis + 2, axis + 1
    if inner == 1:
        split = (*split[: axis + 3], *split[axis + 4 :])
        order = [place for place in order if place < len(split)]
    return [_step("reshape", *split), _step("permute", *order), _step("reshape", *shape)]


def _of_part(given: Given, source: Spec) -> Steps:
    cuts = zip(given["starts"], given["sizes"], source.shape, strict=True)
    steps = [
        _step("take", axis, f"{start}:{start + size}")
        for axis, (start, size, length) in enumerate(cuts)
        if size != length
    ]
    shape: Shape = tuple(given["sizes"])
    wanted = tuple(given.get("shape", shape))
    return [*steps, *([_step("reshape", *wanted)] if wanted != shape else [])]


def _turned(given: Given) -> Steps:
    return [_step("transpose")] if given.get("transposed") else []


def _joined(given: Given, source: Spec) -> Steps | None:
    """Parts side by side; in turns, each of which has a share of every part."""
    axis, groups = int(given["axis"]), int(given.get("groups", 1))
    turned = _turned(given)
    if groups == 1:
        return [*turned, _step("concat", axis)]
    shape = source.shape[::-1] if turned else source.shape
    split, whole = _in_turns(shape, axis, groups)
    return [*turned, _step("reshape", *split), _step("concat", axis + 1), _step("reshape", *whole)]


def _in_turns(shape: Shape, axis: int, groups: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape with its axis cut in turns, and as it is when they are one axis again."""
    before, after = shape[:axis], shape[axis + 1 :]
    return (*before, groups, -1, *after), (*before, -1, *after)


def _parted(given: Given, source: Spec) -> Steps | None:
    axis, groups = int(given["axis"]), int(given.get("groups", 1))
    sizes = [int(size) for size in given["sizes"]]
    if groups == 1:
        return [_step("split", axis, *sizes), *_turned(given)]
    split, whole = _in_turns(source.shape, axis, groups)
    cut = _step("split", axis + 1, *(size // groups for size in sizes))
    return [_step("reshape", *split), cut, _step("reshape", *whole), *_turned(given)]


def _unstacked(given: Given, source: Spec) -> Steps:
    axis = int(given["axis"])
    return [_step("unstack", axis, source.shape[axis]), *_turned(given)]


_STEPS: Mapping[str, Callable[[Given, Spec], Steps | None]] = {
    "identical": lambda given, source: [],
    "close": lambda given, source: [],
    "cast": _cast,
    "scale": lambda given, source: [_step("scale", _fitted(given["scale"], source))],
    "offset": lambda given, source: [_step("offset", _fitted(given["offset"], source))],
    "reshape": lambda given, source: [_step("reshape", *given["shape"])],
    "transpose": _of_axes,
    "permute": _of_axes,
    "flip": lambda given, source: [_step("flip", axis) for axis in given["axes"]],
    "blocks": lambda given, source: [_step("blocks", given["axis"], *given["order"])],
    "row_permutation": _of_rows,
    "rows": _of_rows,
    "repeat": lambda given, source: [
        _step("repeat", *(given[key] for key in ("axis", "times", "block")))
    ],
    "slice": _of_part,
    "concat": _joined,
    "interleave": _joined,
    "stack": lambda given, source: [*_turned(given), _step("stack", given["axis"])],
    "sum": lambda given, source: [_step("add")],
    "part": _parted,
    "unstack": _unstacked,
}
# The kinds of relations between values that some transform is.
RELATIONS = frozenset(_STEPS)
