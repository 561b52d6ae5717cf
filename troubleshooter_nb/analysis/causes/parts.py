"""Parts of tensors: some places along some of their axes, of which only these are read."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.dump import ArraySource, SizedByShape, read_rows
from troubleshooter_nb.thresholds import READ_THROUGH

Places = Sequence[np.ndarray | None]


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
        gaps = np.diff(starts) - width
        return len(starts) * width + int(gaps[(gaps > 0) & (gaps <= READ_THROUGH)].sum())

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


def elements_read(source: ArraySource) -> int:
    """Elements that reading all of a source costs."""
    return source.cost if isinstance(source, PartOf) else math.prod(source.shape)
