"""A tensor of any size as searches for relations see it: figures, some elements, and blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.arrangements import layout_of, row_at
from troubleshooter_nb.metrics.ranges import (
    InMemory,
    Layout,
    boxes,
    in_c_order,
    passing,
    read_box,
    read_slabs_at,
    size_of,
    slabs,
)
from troubleshooter_nb.metrics.signatures import (
    Spread,
    projection,
    searchable,
    spread_and_largest,
    values_of,
)
from troubleshooter_nb.ranges import Readable, reading
from troubleshooter_nb.thresholds import (
    READ_BLOCK,
    READ_BOX,
    SHORT_ROW,
    SIGNATURE_FIGURES,
    SIGNATURES_BLOCK,
    THINNED,
)


class KeptSignatures:
    """Signatures of several tensors, the latest of them, 32 MiB in all."""

    def __init__(self) -> None:
        self._found: dict[Hashable, np.ndarray] = {}

    def get(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """What was kept under this key, or what is made now."""
        found = self._found.pop(key, None)
        found = make() if found is None else found
        self._found[key] = found
        figures = sum(one.size for one in self._found.values())
        while figures > SIGNATURE_FIGURES:
            figures -= self._found.pop(next(iter(self._found))).size
        return found


class Streamed:
    """A stored tensor in the values of `values_of`, of which blocks alone are in memory.

    Parameters
    ----------
    source : Readable
        With a dtype that holds numbers.
    exponent : int
        Values are divided by this power of two, for sums and projections not to overflow.
    kept : KeptSignatures, optional
        Where its signatures are kept for the next question.
    """

    def __init__(
        self, source: Readable, exponent: int = 0, kept: KeptSignatures | None = None
    ) -> None:
        self.source = source
        self.shape = source.shape
        self.size = size_of(source)
        self._exponent = exponent
        self.dtype = self._values(np.empty(0, source.dtype)).dtype
        self._kept = kept

    def divided(self, exponent: int) -> Streamed:
        """The same with values divided by a power of two."""
        return Streamed(self.source, exponent) if exponent else self

    def _values(self, stored: np.ndarray) -> np.ndarray:
        values = values_of(stored)
        return _shifted(values, -self._exponent) if self._exponent else values

    def blocks(self) -> Iterator[np.ndarray]:
        """All values in flat order."""
        with reading(self.source) as opened:
            for start in range(0, self.size, SIGNATURES_BLOCK):
                stop = min(start + SIGNATURES_BLOCK, self.size)
                yield self._values(opened.read(start, stop))

    def box(self, box: Layout) -> np.ndarray:
        """The values of a box, in its shape and as they lie in the tensor: of any strides."""
        found = read_box(self.source, box)
        # `values_of` lays what it gets one after the other.
        order = sorted(range(found.ndim), key=lambda axis: -abs(found.strides[axis]))
        return self._values(found.transpose(order)).transpose(np.argsort(order))

    def rows_at(self, rows: np.ndarray, width: int, *, base: int = 0) -> np.ndarray:
        """The values of rows of an array (n, width) that begins at flat place `base`."""
        return self._values(read_slabs_at(self.source, rows, width, base=base))

    def at(self, places: np.ndarray) -> np.ndarray:
        """Finite stand-ins of the values at flat places, float64."""
        values = searchable(self.rows_at(places, 1)).reshape(-1)
        return values.astype(np.float64)

    @cached_property
    def figures(self) -> tuple[float, Spread, np.ndarray]:
        """The largest finite magnitude, the spread, and some values; from one pass over all."""
        place, step = 0, max(1, self.size // THINNED)
        thinned: list[np.ndarray] = []

        def measured() -> Iterator[np.ndarray]:
            nonlocal place
            for block in self._passing():
                thinned.append(searchable(block[-place % step :: step]).astype(np.float64))
                place += len(block)
                yield block

        with np.errstate(all="ignore"):
            spread, largest = spread_and_largest(measured())
        return largest, spread, np.concatenate(thinned or [np.zeros(0)])

    def _passing(self) -> Iterator[np.ndarray]:
        """All values in flat order, in memory that the next block overwrites."""
        most = READ_BLOCK // 4  # of usual values they stay in the cache
        memory = np.empty(min(most, self.size), self.source.dtype)
        with reading(self.source) as opened:
            for start in range(0, self.size, most):
                stop = min(start + most, self.size)
                yield self._values(opened.read(start, stop, memory[: stop - start]))

    @property
    def largest(self) -> float:
        """The largest magnitude of `searchable` values."""
        return self.figures[0]

    @property
    def spread(self) -> Spread:
        """Mean, norm and norm about the mean."""
        return self.figures[1]

    @property
    def thinned(self) -> np.ndarray:
        """Evenly spread elements, finite stand-ins as float64: so many as `THINNED`, or twice."""
        return self.figures[2]

    def row_signatures(
        self, axis: int, length: int, shape: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """As `troubleshooter_nb.metrics.signatures.row_signatures`, of the values in a shape."""
        shape = self.shape if shape is None else shape
        if self._kept is None:
            return self._projected(shape, axis, length)
        key = self, shape, axis, length
        return self._kept.get(key, lambda: self._projected(shape, axis, length))

    def signature(self, length: int, *, turned: bool = False) -> np.ndarray:
        """That of all values as one row, shape (1, ...); of the transposed matrix if `turned`."""
        if self._kept is not None:
            return self._kept.get((self, turned, length), lambda: self._as_row(length, turned))
        return self._as_row(length, turned)

    def _as_row(self, length: int, turned: bool) -> np.ndarray:
        columns, weights = projection(self.size, length)
        layout = in_c_order(self.shape)
        if turned:
            layout = Layout(0, self.shape[::-1], layout.strides[::-1])
        values = self.at(layout.at(columns))[None]
        return values if self.size <= length else values @ weights

    def _projected(self, shape: tuple[int, ...], axis: int, length: int) -> np.ndarray:
        before, rows, after = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
        width = before * after
        own = width <= length
        columns, weights = projection(width, length)
        found = np.zeros((rows, width if own else length))
        weights = weights.astype(self.real)
        with reading(self.source) as opened:
            for a, i, c in slabs(before, rows, after, READ_BLOCK):
                low = a.start * after + c.start
                high = (a.stop - 1) * after + c.stop
                chosen = slice(*np.searchsorted(columns, (low, high)).tolist())
                if chosen.start == chosen.stop:
                    continue
                start = (a.start * rows + i.start) * after + c.start
                shaped = (a.stop - a.start, i.stop - i.start, c.stop - c.start)
                values = opened.read(start, start + math.prod(shaped))
                block = searchable(self._values(values)).reshape(shaped)
                slab, column = np.divmod(columns[chosen] - a.start * after, after)
                if own:
                    found[i, chosen] = block[slab, :, column - c.start].T
                elif len(block) > 1:
                    found[i] += (weights[chosen].T @ block[slab, :, column]).T
                else:
                    whole = len(column) == block.shape[2]
                    taken = block[0] if whole else block[0][:, column - c.start]
                    found[i] += taken @ weights[chosen]
        return found

    @property
    def real(self) -> np.dtype:
        """Dtype of the finite stand-ins."""
        return np.empty(0, self.dtype).real.dtype


def streamed(array: np.ndarray) -> Streamed:
    """An array in memory, to be asked as one that is not."""
    return Streamed(InMemory(array))


def _shifted(values: np.ndarray, exponent: int) -> np.ndarray:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if wide.dtype.kind == "c":
        return np.asarray(np.ldexp(wide.real, exponent) + 1j * np.ldexp(wide.imag, exponent))
    return np.asarray(np.ldexp(wide, exponent))


def side_by_side(
    left: Streamed, there: Layout, right: Streamed, here: Layout
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The values of two layouts of one shape, in parts of equal shape and of any strides.

    What is gathered of left is held while right passes by: whoever keeps no part until the next one
    comes has one box in memory.
    """
    most = READ_BOX // -(-left.dtype.itemsize // np.dtype(np.float32).itemsize)
    for ours, theirs in boxes(there, here, most):
        box = left.box(ours)
        for part in passing(theirs):
            yield box[part], right.box(theirs.part(part))
        del box


def in_order(
    kind: str, arguments: Mapping[str, Any], left: Streamed, right: Streamed
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What a relation without arithmetic makes of left, and right, in boxes of equal shape."""
    layout = layout_of(kind, arguments, left.shape)
    if layout is not None:
        yield from side_by_side(left, layout, right, in_c_order(layout.shape))
        return
    # Plain tuples become arrays once.
    arguments = {**arguments, "order": np.array(arguments["order"])}
    axis = arguments["axis"]
    before, rows, after = (
        math.prod(right.shape[:axis]),
        right.shape[axis],
        math.prod(right.shape[axis + 1 :]),
    )
    # Numbers of rows take more memory than short rows themselves.
    most = READ_BLOCK if after >= SHORT_ROW else READ_BLOCK // 4
    for a, i, c in slabs(before, rows, after, most):
        shape = (a.stop - a.start, i.stop - i.start, c.stop - c.start)
        base = a.start * rows * after
        start = base + i.start * after + c.start
        wanted = right.box(in_c_order(shape, start))
        order = row_at(kind, arguments, rows, np.arange(i.start, i.stop))
        if shape[1:] == (rows, after):
            made = left.box(in_c_order(shape, base))[:, order]
        elif shape[2] == after:
            made = left.rows_at(order, after, base=base)
        else:
            first = base + int(order[0]) * after + c.start
            made = left.box(in_c_order(shape, first))
        yield made.reshape(shape), wanted
