"""What transforms make of stored tensors, read in part where a part tells it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from troubleshooter_nb.dump import ArraySource, SizedByShape, files_of
from troubleshooter_nb.formats.joined_source import joined
from troubleshooter_nb.ranges import (
    PIECE,
    Pieces,
    Rows,
    Starts,
    Strided,
    gathered,
    read_rows,
    whole,
)
from troubleshooter_nb.transforms import Spec, Transform

# The one array that each thread made last: a tensor is written and compared in blocks.
_pieces = Pieces()


def forget_pieces() -> None:
    """Let go of the array that this thread made last."""
    _pieces.clear()


@dataclass(frozen=True)
class TransformedSource(SizedByShape):
    """One result of a transform of stored tensors, as an `ArraySource`.

    Attributes
    ----------
    sources : tuple of ArraySource
    transform : Transform
        Of one step.
    number : int
        Which of the results.
    shape, dtype
        Of the result.
    """

    sources: tuple[ArraySource, ...]
    transform: Transform
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype

    def files(self) -> tuple[str, ...]:
        """The files of all sources."""
        return files_of(self.sources)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of the flat C-order range; see `ArraySource.read`."""
        step, stored = self.transform, partial(read_rows, self.sources[0])
        if step.keeps_order:
            return self.sources[0].read(start, stop, into)
        gives = step.entry.gives
        if (whole := self._joined) is not None:
            return whole.read(start, stop, into)
        if gives == "rows":
            return self._rows.range(stored, self.dtype, start, stop)
        if gives == "values":
            return self._computed([one.read(start, stop) for one in self.sources])
        size = math.prod(self.shape)
        most = PIECE if gives == "views" else size
        return _pieces.read(self, size, self._made, start, stop, most=most)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Values of flat ranges; see `troubleshooter_nb.dump.read_rows`.

        No more of the sources is read for them than they are made of, where a part tells that.
        """
        step, stored = self.transform, partial(read_rows, self.sources[0])
        if step.keeps_order:
            return stored(starts, length)
        gives = step.entry.gives
        if gives == "views":
            return self._view.rows(stored, self.dtype, starts, length)
        if (whole := self._joined) is not None:
            return read_rows(whole, starts, length)
        if gives == "rows":
            return self._rows.rows(stored, self.dtype, starts, length)
        if gives == "values":
            return self._computed([read_rows(one, starts, length) for one in self.sources])
        return gathered(self.read, self.dtype, starts, length)

    @property
    def is_read_in_part(self) -> bool:
        """Whether a part of it is made of a part of what is stored."""
        gives = self.transform.entry.gives
        if gives in ("joined", "stacked"):
            mine = self._joined is not None
        else:
            mine = self.transform.keeps_order or gives != "whole"
        return mine and all(map(is_read_in_part, self.sources))

    def _made(self, start: int, stop: int) -> np.ndarray:
        """Values of a part that is kept."""
        if self.transform.entry.gives == "views":
            stored = partial(read_rows, self.sources[0])
            return self._view.range(stored, self.dtype, start, stop)
        made = self.transform.apply([whole(source) for source in self.sources])[self.number]
        return np.ascontiguousarray(made, self.dtype).reshape(-1)[start:stop]

    @cached_property
    def _view(self) -> Strided:
        source = self.sources[0]
        return self.transform.views(Spec(source.shape, source.dtype))[self.number]

    @cached_property
    def _rows(self) -> Rows:
        source = self.sources[0]
        return self.transform.rows(Spec(source.shape, source.dtype))

    @cached_property
    def _joined(self) -> ArraySource | None:
        """The sources side by side, if they lie so; not where numpy makes another dtype of them."""
        gives = self.transform.entry.gives
        if gives not in ("joined", "stacked"):
            return None
        axis, parts = int(self.transform.arguments[0]), list(self.sources)
        if gives == "stacked":
            axis %= len(self.shape)
            parts = [one for part in parts for one in transformed([part], _axis_put_in(axis))]
        whole = joined(parts, axis)
        return whole if whole.dtype == self.dtype else None

    def _computed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Values of the same places of all sources, each at its place."""
        return np.ascontiguousarray(self.transform.apply(parts)[self.number], self.dtype)


def is_read_in_part(source: ArraySource) -> bool:
    """Whether a part of a tensor is read without the whole of it."""
    return not isinstance(source, TransformedSource) or source.is_read_in_part


def _axis_put_in(axis: int) -> Transform:
    return Transform("expand_dims", (axis,))


def transformed(sources: Sequence[ArraySource], transform: Transform) -> list[ArraySource]:
    """The results of a transform as handles; nothing is read yet."""
    transform.specs([Spec(source.shape, source.dtype) for source in sources])
    return transform.run(sources, _step_made)


def _step_made(step: Transform, sources: Sequence[ArraySource]) -> Sequence[ArraySource]:
    specs = [Spec(source.shape, source.dtype) for source in sources]
    made = step.specs(specs)
    if step.keeps_order and made == specs:
        return sources
    return [
        TransformedSource(tuple(sources), step, number, spec.shape, spec.dtype)
        for number, spec in enumerate(made)
    ]


def in_dtype(source: ArraySource, dtype: np.dtype) -> ArraySource:
    """The values in another dtype; the same handle where they are in it."""
    if source.dtype == dtype:
        return source
    return transformed([source], Transform("cast", (dtype.name,)))[0]
