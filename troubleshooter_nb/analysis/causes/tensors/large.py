"""Pairs that are too large to be read whole: some rows recognise, one pass over all proves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.budget import Budget
from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.sampling import spread
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Block,
    Error,
    Sides,
    Undone,
    is_even,
    sides_of,
)
from troubleshooter_nb.analysis.causes.tensors.streams import Charged, Reversed, streamed
from troubleshooter_nb.analysis.causes.tensors.surveys import Survey, surveyed
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.partial import merge_tree
from troubleshooter_nb.metrics.ranges import held
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.metrics.streamed import Streamed
from troubleshooter_nb.metrics.summary import SUMMARY_FIGURES, summary_figures, summary_partial
from troubleshooter_nb.ranges import read_copy, read_rows
from troubleshooter_nb.thresholds import LARGEST_HELD, MOST_IMAGE_CHANNELS

_SIDES = ("left", "right")


def sides_of_any_size(tensor: TensorPair) -> Sides | None:
    """As `measure.sides_of`; of a large pair some rows, with the means to go through all of it."""
    if not tensor.is_large:
        return sides_of(tensor)
    for source in tensor.sources:
        if source is None or arithmetic_of(source.dtype) not in ("float", "integer"):
            return None
        if not math.prod(source.shape):
            return None
    return LargeSides.of(tensor)


@dataclass(frozen=True)
class Places:
    """Some places of tensors of one shape: ranges of one length, in flat order.

    Attributes
    ----------
    starts : ndarray of int
    length : int
    shape : tuple of int
        Of what is there, with all axes of the tensor.
    """

    starts: np.ndarray
    length: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many elements they are."""
        return math.prod(self.shape)

    @classmethod
    def of(cls, shape: tuple[int, ...], worst: int, *, images: bool) -> Places:
        """Evenly spread ones and that of the largest error, of every channel of an image.

        Along the axis that is cut last places come in runs. Of images it is a window.
        """
        at = np.unravel_index(min(max(worst, 0), math.prod(shape) - 1), shape)
        chosen: list[np.ndarray] = []
        count, cut, run = 1, -1, 1
        channels = shape[-1] if shape[-1] <= MOST_IMAGE_CHANNELS else 1
        for axis, size in enumerate(shape):
            rest = math.prod(shape[axis + 1 :])
            room = max(thresholds.LARGE_SAMPLE // (count * rest), 1)
            is_window = images and axis > 0
            if is_window:
                room = max(room, math.isqrt(thresholds.LARGE_SAMPLE // (count * channels)))
            if room >= size or (images and size <= MOST_IMAGE_CHANNELS):
                chosen.append(np.arange(size))
            else:
                run = room if is_window else min(max(thresholds.LARGE_RUN // rest, 1), room)
                runs = 1 if is_window else max(room // run, 2)
                chosen.append(_runs(size, run, runs, int(at[axis])))
                cut = axis
            count *= len(chosen[-1])
        if cut < 0:
            return cls(np.zeros(1, np.int64), count, shape)
        starts = np.zeros(1, np.int64)
        for axis in range(cut + 1):
            # Of runs their first places; what follows the last axis that is cut is whole.
            places = chosen[axis] if axis < cut else chosen[axis][::run]
            starts = (starts[:, None] * shape[axis] + places).reshape(-1)
        rest = math.prod(shape[cut + 1 :])
        return cls(starts * rest, run * rest, tuple(map(len, chosen)))

    def read(self, source: ArraySource, budget: Budget | None) -> np.ndarray:
        """Stored values there, of a source of that shape."""
        if budget is not None:
            budget.charge(self.size)
        return read_rows(source, self.starts.tolist(), self.length).reshape(self.shape)


def _runs(size: int, run: int, count: int, worst: int) -> np.ndarray:
    """Places of evenly spread runs, and of that which holds the worst place."""
    firsts = spread(size // run, count - 1) * run if count > 1 else np.zeros(0, np.intp)
    own = min(worst // run * run, size - run)
    if own % run:
        # What is left at the end overlaps the run before.
        firsts = firsts[firsts + run <= own]
    places: np.ndarray = (np.union1d(firsts, own)[:, None] + np.arange(run)).reshape(-1)
    return places


@dataclass(frozen=True)
class _Few(Sides):
    """Some rows of a large pair: what they prove says how many they are."""

    said: Message = field(default_factory=lambda: Message("evidence.some_rows", count=0, n=0))

    @property
    def sampled(self) -> Mapping[str, Any]:
        """How many rows of how many."""
        return {"sampled": self.said}

    def suspicion(
        self,
        cause: str,
        residual: float,
        evidence: Mapping[str, Any],
        *,
        rival: float = math.inf,
        fitted: int = 0,
    ) -> Suspicion:
        """As `Sides.suspicion`."""
        said = {**evidence, **self.sampled}
        return super().suspicion(cause, residual, said, rival=rival, fitted=fitted)


@dataclass(frozen=True)
class LargeSides(Sides):
    """Both sides of a pair that is too large to be read whole.

    `left` and `right` are some rows of each, the same ones where the tensors have as many; all
    other figures are of all elements.
    """

    is_large: ClassVar[bool] = True

    places: tuple[Places, Places]

    @classmethod
    def of(cls, tensor: TensorPair) -> LargeSides:
        """The rows that stand for a pair, both sides of which have numbers as values."""
        shapes, sources = [s or () for s in tensor.shapes], [s for s in tensor.sources if s]
        worst = int(tensor.figures.get("max_abs_index", 0))
        fewest = min(shapes, key=math.prod)
        rows = [
            # Tables of other lengths are held against each other in the rows of the shorter one.
            fewest if shape[1:] == fewest[1:] and len(shape) == len(fewest) else shape
            for shape in shapes
        ]
        images = tensor.role == "input"
        places = [Places.of(shape, worst, images=images and len(shape) > 2) for shape in rows]
        values = [
            values_of(one.read(source, tensor.budget))
            for one, source in zip(places, sources, strict=True)
        ]
        return cls(tensor, values[0], values[1], (places[0], places[1]))

    @cached_property
    def few(self) -> Sides:
        """The rows."""
        count, shape = self.left.size, self.shapes[0]
        total, kind = math.prod(shape), "evidence.some_elements"
        if len(shape) > 1 and self.left.shape[-1] == shape[-1]:
            count, total, kind = count // shape[-1], total // shape[-1], "evidence.some_rows"
        return _Few(self.tensor, self.left, self.right, Message(kind, count=count, n=total))

    @property
    def sampled(self) -> Mapping[str, Any]:
        """How many rows of how many `few` has."""
        return self.few.sampled

    def head(self, side: int) -> np.ndarray:
        """The first rows of a side, along all of its axes; of a long one the beginning."""
        source, (rows, *rest) = self.tensor.sources[side], self.shapes[side] or (1,)
        row, most = math.prod(rest), thresholds.LARGE_SAMPLE
        size = min(max(most // row, 1), rows) * row if row <= LARGEST_HELD else most
        if source is None:
            return np.zeros(0)
        if self.tensor.budget is not None:
            self.tensor.budget.charge(size)
        values = values_of(read_copy(source, 0, size))
        return values.reshape(-1, *rest) if size % row == 0 else values

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of the tensors."""
        left, right = self.tensor.shapes
        return left or (), right or ()

    @property
    def size(self) -> int:
        """Elements of the smaller tensor."""
        return min(map(math.prod, self.shapes))

    @cached_property
    def before(self) -> float:
        """Error of left as it is; inf where the shapes or the sets of NaN and inf differ."""
        if not self.same_shape:
            return math.inf
        known = self.tensor.rel_l2
        odd = any(self.figure(s, f"{n}_count") for s in (0, 1) for n in ("nan", "inf"))
        return known if math.isfinite(known) and not odd else self.error(lambda x, y: (x, y))

    @property
    def spread(self) -> float:
        """Error of left as it is over the spread of right about its mean."""
        about = self.centred(1)
        return self.before / about if about else math.inf

    @cached_property
    def streams(self) -> tuple[Streamed, Streamed]:
        """Both sides as searches for relations see them."""
        left, right = (
            Streamed(held(Charged(source, self.tensor.budget)))
            for source in self.tensor.sources
            if source is not None
        )
        return left, right

    def centred(self, side: int) -> float:
        """Norm of a side about its mean, over its norm."""
        if not self._is_measured(side):
            spread = self.streams[side].spread
            return spread.centred / spread.norm if spread.norm else 0.0
        norm, mean = self.figure(side, "l2"), self.figure(side, "mean")
        square = norm**2 - math.prod(self.shapes[side]) * mean**2
        return math.sqrt(max(square, 0.0)) / norm if norm else 0.0

    @cached_property
    def cosine(self) -> float:
        """Cosine of the angle between the sides; 0 where one is zero."""
        known = self.tensor.figures.get("cosine")
        if known is None:
            dot = sum(float(np.vdot(_wide(b.left), _wide(b.right))) for b in self.blocks())
            norms = self.figure(0, "l2") * self.figure(1, "l2")
            known = dot / norms if norms else math.nan
        return float(known) if math.isfinite(known) else 0.0

    def figure(self, side: int, name: str) -> float:
        """One of `metrics.summary.SUMMARY_FIGURES` of all elements of a side."""
        if self._is_measured(side):
            return float(self.tensor.figures[f"{_SIDES[side]}_{name}"])
        return float(self._summaries[side][name])

    def _is_measured(self, side: int) -> bool:
        """Whether comparing measured a side."""
        return math.isfinite(self.tensor.figures.get(f"{_SIDES[side]}_l2", math.nan))

    @cached_property
    def _summaries(self) -> list[Mapping[str, float]]:
        """Of both sides, where comparing measured none."""
        return [
            summary_figures(
                merge_tree(summary_partial(one) for _, (one,) in self._streamed(source))
            )
            for source in self.tensor.sources
            if source is not None
        ]

    def _streamed(
        self, *sources: ArraySource | None, size: int | None = None
    ) -> Iterator[tuple[int, list[np.ndarray]]]:
        known = [source for source in sources if source is not None]
        return streamed(known, self.tensor.budget, size=size)

    def blocks(self) -> Iterator[Block]:
        """All elements of both sides, of one shape, in order: whole rows where these are short."""
        for start, raw in self.stored():
            yield Block(start, *map(values_of, raw))

    def stored(self) -> Iterator[tuple[int, list[np.ndarray]]]:
        """As `blocks`, in a dtype numpy computes with that holds what is stored."""
        shape, budget = self.shapes[0], self.tensor.budget
        width = shape[-1] if len(shape) > 1 and shape[-1] <= thresholds.LARGE_BLOCK else 1
        sources = [source for source in self.tensor.sources if source is not None]
        for start, raw in streamed(sources, budget, width=width):
            yield start, [one.reshape(-1, width) if width > 1 else one for one in raw]

    def error(self, undone: Undone) -> float:
        """Error over all elements once something is undone in every block: actual, benchmark."""
        total = Error(is_quick=True)
        for block in self.blocks():
            total.add(*undone(block.left, block.right))
        return total.value

    def is_constant(self, side: int) -> bool:
        """As of a small tensor, from the figures of this one."""
        low, high = self.ends(side)
        odd = self.figure(side, "nan_count") or self.figure(side, "inf_count")
        return bool(odd) or is_even(low, high)

    def ends(self, side: int) -> tuple[float, float]:
        """Smallest and largest finite value of a side."""
        return self.figure(side, "min"), self.figure(side, "max")

    @property
    def reversed(self) -> LargeSides:
        """The sides exchanged; `before` of the two differs in its norm alone."""
        left, right = self.tensor.sources
        known = self.figure(0, "l2")
        error = self.before * self.figure(1, "l2") / known if known else math.nan
        other = dict(zip(_SIDES, reversed(_SIDES), strict=True))
        figures = {
            f"{other[side]}_{name}": self.figure(_SIDES.index(side), name)
            for side in _SIDES
            for name in SUMMARY_FIGURES
        }
        tensor = replace(self.tensor, sources=(right, left), rel_l2=error, figures=figures)
        return LargeSides(tensor, self.right, self.left, (self.places[1], self.places[0]))

    @property
    def norm(self) -> float:
        """Norm of the finite values of the right side."""
        return self.figure(1, "l2")

    def with_left_reversed(self, axis: int) -> LargeSides:
        """The same with left reversed along an axis."""
        left, right = self.tensor.sources
        turned = None if left is None else Reversed(left, axis)
        # What one side holds is the same in another order.
        known = {
            name: value for name, value in self.tensor.figures.items() if name.startswith(_SIDES)
        }
        tensor = replace(self.tensor, sources=(turned, right), rel_l2=math.nan, figures=known)
        return LargeSides(tensor, np.flip(self.left, axis), self.right, self.places)

    def slabs(self, axis: int | None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """All elements by their index along an axis, None for one index.

        Yields
        ------
        index : ndarray of int, shape (n,), each once
        left, right : ndarray, shape (m, n, k)
        """
        shape = self.shapes[0]
        size = 1 if axis is None else shape[axis]
        after = self.size if axis is None else math.prod(shape[axis + 1 :])
        sources = [source for source in self.tensor.sources if source is not None]
        most, budget = thresholds.LARGE_BLOCK, self.tensor.budget
        if after * size <= most:
            for _, raw in streamed(sources, budget, width=after * size):
                left, right = (values_of(one).reshape(-1, size, after) for one in raw)
                yield np.arange(size), left, right
            return
        if budget is not None:
            budget.require(2 * self.size)
        # Whole slabs, of as many indices as fit; of long ones a part.
        together = min(max(most // after, 1), size)
        for start in range(0, self.size, size * after):
            for index in range(0, size, together):
                count = min(together, size - index)
                first = start + index * after
                for _, raw in streamed(sources, budget, start=first, size=count * after):
                    left, right = (values_of(one).reshape(1, count, -1) for one in raw)
                    yield np.arange(index, index + count), left, right

    def may_hold(self, side: int, name: str, least: int = 1) -> bool:
        """Whether a side has so many more of a count of `SUMMARY_FIGURES` than the other."""
        return self.figure(side, name) - self.figure(1 - side, name) >= least

    def like(self, other: TensorPair, side: int) -> np.ndarray | None:
        """The elements of another tensor of this shape at the places of `few`; None without."""
        source = other.sources[side]
        if source is None or source.shape != self.shapes[side]:
            return None
        return values_of(self.places[side].read(source, self.tensor.budget))

    @cached_property
    def survey(self) -> Survey:
        """Where the sides differ by more than rounding leaves, from one pass."""
        limit = 8.0 * self.floor * self.figure(1, "l2") / math.sqrt(self.size)
        return surveyed(self.tensor, limit)

    def apart(
        self, actual: ArraySource | None, benchmark: ArraySource | None, size: int | None = None
    ) -> float:
        """Error of one tensor, held against another one; of the first elements where told."""
        total = Error(is_quick=True)
        for _, pair in self._streamed(actual, benchmark, size=size):
            total.add(*map(values_of, pair))
        return total.value


def _wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64)
