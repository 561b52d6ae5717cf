"""Parts of tensors and calls: places along some of their axes, of which only these are read."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Call, TensorPair
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.dump import ArraySource, SizedByShape
from troubleshooter_nb.messages import Message
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.thresholds import ODD_PLACES, READ_THROUGH_BYTES

Places = Sequence[np.ndarray | None]


_SAID = {
    "rows": "evidence.some_rows",
    "columns": "evidence.some_columns",
    "items": "evidence.some_items",
    "lines": "evidence.some_lines",
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
    is_telling : bool
        Whether the place of the largest error is in it: else that both sides computed the same
        there says nothing.
    """

    call: Call
    cut: tuple[tuple[str, int, int], ...]
    is_telling: bool = True

    @property
    def said(self) -> Message:
        """How many rows of how many, or channels, or heads."""
        said = [Message(_SAID[name], count=count, n=n) for name, count, n in self.cut]
        return functools.reduce(lambda one, more: Message("evidence.and", one=one, more=more), said)


@dataclass(frozen=True, eq=False)
class PartOf(SizedByShape):
    """An `ArraySource` of some places along the axes of another one.

    Attributes
    ----------
    source : ArraySource
    form : tuple of int
        Shape in which the source is looked at, of as many elements.
    chosen : tuple of (ndarray of int or None)
        Ascending places along each axis of it; None for all.
    shape : tuple of int
        Of the part: as `form` with what is chosen, or of as many elements.
    """

    source: ArraySource
    form: tuple[int, ...]
    chosen: tuple[np.ndarray | None, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls,
        source: ArraySource,
        chosen: Places,
        form: tuple[int, ...] | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> PartOf:
        """The places along the axes of a source, by default in its own shape."""
        seen = source.shape if form is None else form
        sizes = (n if some is None else len(some) for n, some in zip(seen, chosen, strict=True))
        made = tuple(sizes) if shape is None else shape
        return cls(source, seen, tuple(chosen), made)

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """That of the source."""
        return self.source.dtype

    def files(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.files()

    @property
    def cost(self) -> int:
        """Elements that are read for it: what lies between near places is read through."""
        starts, width = self._runs
        if not len(starts):
            return 0
        gaps, through = np.diff(starts) - width, READ_THROUGH_BYTES // self.dtype.itemsize
        return len(starts) * width + int(gaps[(gaps > 0) & (gaps <= through)].sum())

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat range; the whole part is read for it."""
        return read_rows(self.source, *self._runs).reshape(-1)[start:stop]

    @functools.cached_property
    def _runs(self) -> tuple[np.ndarray, int]:
        """Where ranges of one length begin in the source, ascending, and this length."""
        picked = [axis for axis, some in enumerate(self.chosen) if some is not None]
        last = picked[-1] if picked else -1
        starts, width = np.zeros(1, np.int64), math.prod(self.form[last + 1 :])
        for axis in range(last + 1):
            some = self.chosen[axis]
            places = np.arange(self.form[axis]) if some is None else np.asarray(some, np.int64)
            starts = (starts[:, None] * self.form[axis] + places).reshape(-1)
        return starts * width, width


def part_of(
    tensor: TensorPair,
    chosen: Places,
    form: tuple[int, ...] | None = None,
    shape: tuple[int, ...] | None = None,
) -> TensorPair:
    """Both sides of a pair at the same places, see `PartOf.of`; a side without values stays so."""
    left, right = (
        None if source is None else PartOf.of(source, chosen, form, shape)
        for source in tensor.sources
    )
    return replace(tensor, sources=(left, right))


def thinned_along(call: Call, axes: Iterable[int]) -> Call:
    """A large call at some places of these axes, which its first input and output share.

    Cut axis by axis until no more elements are left than a part may have; what is small, or whose
    shapes differ, stays as it is.
    """
    shape, tensors = call.outputs[0].shapes[1], (call.inputs[0], call.outputs[0])
    if not shape or any(one.shapes != (shape, shape) for one in tensors):
        return call
    places: list[np.ndarray | None] = [None] * len(shape)
    left = math.prod(shape)
    for axis in axes:
        count = max(shape[axis] * thresholds.PART_ELEMENTS // max(left, 1), 1)
        if count < shape[axis]:
            places[axis] = spread(shape[axis], count)
            left = left // shape[axis] * count
    if left == math.prod(shape):
        return call
    given, made = (part_of(one, places, shape) for one in tensors)
    return replace(call, inputs=(given, *call.inputs[1:]), outputs=(made, *call.outputs[1:]))


def elements_read(source: ArraySource) -> int:
    """Elements that reading all of a source costs."""
    return source.cost if isinstance(source, PartOf) else math.prod(source.shape)


def odd_places(tensor: TensorPair, most: int) -> list[int]:
    """Flat places of some NaN and Inf of either side, evenly spread among the first of each block.

    They are looked for once, however often a pair is asked.
    """
    known: dict[int, list[int]] = tensor.__dict__.setdefault("_odd_places", {})
    if most not in known:
        found: list[int] = []
        for start, arrays in streamed([*filter(None, tensor.sources)], tensor.budget):
            floats = [~np.isfinite(one) for one in arrays if one.dtype.kind == "f"]
            places = np.flatnonzero(np.logical_or.reduce(floats)) if floats else np.zeros(0, int)
            found += (start + places[:: max(len(places) // most, 1)][: 2 * most]).tolist()
        known[most] = [found[n] for n in spread(len(found), most)] if found else []
    return known[most]


def is_odd(tensor: TensorPair) -> bool:
    """Whether figures of either side count NaN or Inf."""
    counts = (f"{side}_{kind}_count" for side in ("left", "right") for kind in ("nan", "inf"))
    return any(tensor.figures.get(count, 0) > 0 for count in counts)


def outstanding(tensor: TensorPair) -> np.ndarray:
    """Flat places of the largest finite error and of some NaN and Inf."""
    flat = [max(int(tensor.figures.get("max_abs_index", 0)), 0)]
    if is_odd(tensor):
        flat += odd_places(tensor, ODD_PLACES)
    return np.array(flat)
