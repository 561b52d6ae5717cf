"""Where in a large pair the elements lie that differ, from one pass over it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.analysis.causes.tensors.measure import Error
from troubleshooter_nb.analysis.causes.tensors.streams import streamed
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.thresholds import (
    LARGEST_HELD,
    LARGEST_MASK,
    LARGEST_PLACE,
    LONGEST_PROFILE,
    MOST_DAMAGED_BLOCKS,
    NEARLY_A_RUN,
    SAME_VALUES,
)

_ALIGNED = 32  # bytes: the least that devices move at once


@dataclass
class Run:
    """Aligned pieces of memory that follow each other, in each of which an element differs."""

    first: int
    last: int
    count: int  # elements that differ
    ends: tuple[int, int]  # of them, in the first piece and in the last one


class Along:
    """At which indices of an axis elements differ.

    Parameters
    ----------
    size : int
        Of the axis; of a long one neighbours are taken together.

    Attributes
    ----------
    held : ndarray of bool
    start, stop : int
        The shortest range that holds all; 0 and 0 for none.
    """

    def __init__(self, size: int) -> None:
        self.size, self.start, self.stop = size, 0, 0
        self._step = -(-size // LONGEST_PROFILE)
        self.held = np.zeros(-(-size // self._step), bool)

    def take(self, indices: np.ndarray) -> None:
        """Take in some indices, one at least."""
        low, high = int(indices.min()), int(indices.max()) + 1
        self.start = min(self.start, low) if self.stop else low
        self.stop = max(self.stop, high)
        self.held[indices if self._step == 1 else indices // self._step] = True

    @property
    def is_most(self) -> bool:
        """Whether they are too many to be a place."""
        return bool(np.count_nonzero(self.held) > LARGEST_PLACE * len(self.held))

    @property
    def is_run(self) -> bool:
        """Whether nearly all of that range differ somewhere."""
        places = np.flatnonzero(self.held)
        return len(places) > 0 and len(places) >= NEARLY_A_RUN * (places[-1] + 1 - places[0])


@dataclass
class Survey:
    """Where the sides differ by more than rounding of the largest elements leaves.

    Attributes
    ----------
    unequal, place : int
        Elements that differ at all, and the place of the last one.
    count : int
        Elements that differ by more.
    along : list of Along
        Per axis, at which indices one does.
    image, front : ndarray of bool, optional
        At which places of the last two axes, and of the first two, one does.
    runs : list of Run
        One more than memory is damaged in where there are more.
    rest : Error
        Of whole pieces without one.
    largest : float
        Largest finite size there, on the right.
    is_spread : bool
        Whether they are all over the tensor; then the pass ended early.
    """

    along: list[Along]
    image: np.ndarray | None = None
    front: np.ndarray | None = None
    unequal: int = 0
    place: int = -1
    count: int = 0
    runs: list[Run] = field(default_factory=list)
    rest: Error = field(default_factory=lambda: Error(is_quick=True))
    largest: float = 0.0
    sums: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    is_spread: bool = False

    @property
    def has_same_values(self) -> bool:
        """Whether those of both sides that differ have the same sum and length."""
        apart = np.abs(self.sums[0] - self.sums[1])
        return bool(
            (apart <= SAME_VALUES * np.array([math.sqrt(self.sums[1, 1]), self.sums[1, 1]])).all()
        )

    def take(
        self, start: int, left: np.ndarray, right: np.ndarray, limit: float, piece: int
    ) -> None:
        """Take in a block that begins with a whole piece."""
        with np.errstate(invalid="ignore", over="ignore"):
            unequal = left != right
            if not (known := np.isfinite(left) & np.isfinite(right)).all():
                unequal &= ~(np.isnan(left) & np.isnan(right))
            mask = unequal & ~(np.abs(left - right) <= limit)
        if count := int(np.count_nonzero(unequal)):
            self.unequal += count
            self.place = start + int(np.flatnonzero(unequal)[-1])
        places = np.flatnonzero(mask)
        calm: slice | np.ndarray = slice(None)
        if len(places):
            self.count += len(places)
            self.sums += [_sums(one[places]) for one in (left, right)]
            self._note(places + start)
            loud = np.zeros(-(-len(left) // piece), bool)
            loud[places // piece] = True
            calm = ~np.repeat(loud, piece)[: len(left)]
            if len(self.runs) <= MOST_DAMAGED_BLOCKS:
                self._run_on((places + start) // piece)
        self.rest.add(left[calm], right[calm])
        sizes = np.abs(right[calm] if known.all() else right[calm][np.isfinite(right[calm])])
        self.largest = max(self.largest, float(sizes.max(initial=0.0)))

    def _note(self, places: np.ndarray) -> None:
        stride, indices = 1, []
        for axis in reversed(self.along):
            indices.append(places // stride % axis.size)
            axis.take(indices[-1])
            stride *= axis.size
        if self.image is not None:
            self.image[indices[1], indices[0]] = True
        if self.front is not None:
            self.front[indices[-1], indices[-2]] = True

    def _run_on(self, pieces: np.ndarray) -> None:
        """Add pieces, one for every element that differs, to the runs that there are."""
        firsts = np.flatnonzero(np.diff(pieces, prepend=-1))
        counts, pieces = np.diff(firsts, append=len(pieces)), pieces[firsts]
        breaks = np.flatnonzero(np.diff(pieces) != 1) + 1
        for some, many in zip(np.split(pieces, breaks), np.split(counts, breaks), strict=True):
            run = Run(int(some[0]), int(some[-1]), int(many.sum()), (int(many[0]), int(many[-1])))
            last = self.runs[-1] if self.runs else None
            if last is not None and last.last + 1 == run.first:
                last.last, last.count = run.last, last.count + run.count
                last.ends = last.ends[0], run.ends[1]
            else:
                self.runs.append(run)
            if len(self.runs) > MOST_DAMAGED_BLOCKS:
                return

    def is_everywhere(self) -> bool:
        """Whether neither a few blocks nor a place can hold all that differ."""
        if len(self.runs) <= MOST_DAMAGED_BLOCKS:
            return False
        if self.image is not None and not _is_hit(self.image):
            return False
        if (
            self.front is not None
            and np.count_nonzero(self.front) <= LARGEST_PLACE * self.front.size
        ):
            return False
        return all(one.is_most for one in self.along)


def surveyed(tensor: TensorPair, limit: float) -> Survey:
    """One pass over a pair of one shape, of which elements differ that are further apart."""
    shape = tensor.shapes[1] or ()
    is_image = len(shape) > 2 and math.prod(shape[-2:]) <= LARGEST_HELD
    image = np.zeros(shape[-2:], bool) if is_image else None
    is_front = len(shape) > 2 and math.prod(shape[:2]) <= LARGEST_MASK
    front = np.zeros(shape[:2], bool) if is_front else None
    survey = Survey([Along(size) for size in shape], image, front)
    sources = [source for source in tensor.sources if source is not None]
    piece = piece_of(tensor)
    for start, raw in streamed(sources, tensor.budget, width=piece):
        left, right = map(values_of, raw)
        survey.take(start, left, right, limit, piece)
        is_known = survey.unequal > 1 and survey.is_everywhere()
        if is_known or 2 * survey.count > tensor.size:
            survey.is_spread = True
            break
    return survey


def itemsize_of(tensor: TensorPair) -> int:
    """Bytes of an element: of two precisions, pieces of the shorter one are whole in both."""
    return min((dtype.itemsize for dtype in tensor.dtypes if dtype), default=4)


def piece_of(tensor: TensorPair) -> int:
    """Elements of the least that devices move at once."""
    return max(_ALIGNED // itemsize_of(tensor), 1)


def border_of(image: np.ndarray) -> int:
    """Width of a border outside which nothing differs; 0 for none."""
    height, width = image.shape
    if min(image.shape) < 5 or _is_hit(image):
        return 0
    for border in range(1, (min(height, width) - 1) // 2):
        if not image[border : height - border, border : width - border].any():
            return border
    return 0


def _is_hit(image: np.ndarray) -> bool:
    """Whether something differs in the middle, which no border reaches."""
    height, width = image.shape
    widest = max((min(height, width) - 1) // 2 - 1, 0)
    return bool(image[widest : height - widest, widest : width - widest].any())


def _sums(values: np.ndarray) -> Sequence[float]:
    wide = values[np.isfinite(values)].astype(np.float64)
    return float(wide.sum()), float(wide @ wide)
