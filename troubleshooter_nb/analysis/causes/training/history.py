"""Parameters and buffers over the steps of both sides, and a sample of their elements."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.metrics.floats import computable, unit_roundoff
from troubleshooter_nb.ranges import read_copy
from troubleshooter_nb.thresholds import (
    TRAINED_ELEMENTS,
    TRAINED_PIECES,
    TRAINED_TENSORS,
    TRAINED_TOGETHER,
)

RUNNING = ("running_mean", "running_var")
Sources = Sequence[ArraySource | None]


@dataclass(frozen=True)
class Track:
    """One tensor over the steps.

    Attributes
    ----------
    name : str
    pair : int
        Number of its pair in the comparison, -1 for none.
    role : {"parameter", "buffer", "output"}
        Output: a value that the network computes anew at every step from other inputs.
    slot : str
        In torch's word: ``weight``, ``bias``, ``running_mean``, ``running_var``.
    values : tuple of sequence of ArraySource or None
        Left, right: values before step 0, before step 1, ... and after the last.
    gradients : tuple of sequence of ArraySource or None
        Left, right: gradient of each step, one less than values; empty where not recorded. As
        many as values where that of the step is known which led to the first of them.
    """

    name: str
    pair: int = -1
    role: str = "parameter"
    slot: str = ""
    values: tuple[Sources, Sources] = ((), ())
    gradients: tuple[Sources, Sources] = ((), ())


@dataclass(frozen=True)
class History:
    """What is known of two runs over consecutive steps.

    Attributes
    ----------
    tracks : sequence of Track
    steps : tuple of int
        Number of each value, where known.
    fresh : bool
        Whether the first value is that before the very first step of the optimizer.
    is_after : bool
        Whether each value was saved after the step of its number, whose gradients led to it.
    norms : tuple of ndarray or None
        Left, right: norm of all gradients of a step together, of the steps whose gradients the
        tracks have; None where one was not measured.
    """

    tracks: Sequence[Track] = field(default_factory=tuple)
    steps: tuple[int, ...] = ()
    fresh: bool = True
    is_after: bool = False
    norms: tuple[np.ndarray | None, np.ndarray | None] = (None, None)

    def led(self, count: int) -> tuple[int, ...]:
        """Numbers of the steps of so many gradients."""
        return self.steps[-count:] if self.is_after else self.steps[:count]


@dataclass(frozen=True)
class Sampled:
    """A sample of a track's elements: the same elements of every step and both sides.

    `values` and `gradients` are float64 arrays, shape (steps + 1, n) and (steps, n), of left and
    right; None for gradients that were not recorded, (steps + 1, n) where those of the step before
    the first value are there. `roundoff` is that of the stored values.
    """

    track: Track
    ndim: int
    values: tuple[np.ndarray, np.ndarray]
    gradients: tuple[np.ndarray | None, np.ndarray | None]
    roundoff: tuple[float, float]

    @property
    def updates(self) -> tuple[np.ndarray, np.ndarray]:
        """What each step added, shape (steps, n)."""
        return np.diff(self.values[0], axis=0), np.diff(self.values[1], axis=0)

    def thinned(self, most: int) -> Sampled:
        """The same with at most so many elements, evenly chosen."""
        size = self.values[0].shape[1]
        if size <= most:
            return self
        keep = np.unique(np.linspace(0, size - 1, most).astype(int))
        left, right = (values[:, keep] for values in self.values)
        gradients = (
            None if self.gradients[0] is None else self.gradients[0][:, keep],
            None if self.gradients[1] is None else self.gradients[1][:, keep],
        )
        return Sampled(self.track, self.ndim, (left, right), gradients, self.roundoff)


def sample(history: History, most_elements: int = TRAINED_ELEMENTS) -> list[Sampled]:
    """A bounded sample of a history; tensors that lack a step on one side are left out."""
    chosen = _chosen(history)
    most = min(most_elements, TRAINED_TOGETHER // max(len(chosen), 1))
    read = (_read(track, most) for track in chosen)
    return [one for one in read if one is not None]


def _chosen(history: History) -> list[Track]:
    """The tracks that are sampled: of each kind some, evenly spread over those without gaps.

    Tensors come in turns, weight, bias, mean, variance: every so many of all would leave out kinds.
    """
    usable = [track for track in history.tracks if _is_asked(track) and _complete(track)]
    kinds: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, track in enumerate(usable):
        kinds[_kind(track)].append(place)
    chosen, left = list[int](), TRAINED_TENSORS
    for number, places in enumerate(sorted(kinds.values(), key=len)):
        most = min(left // (len(kinds) - number), len(places))
        chosen += [places[at] for at in np.linspace(0, len(places) - 1, most).astype(int)]
        left -= most
    return [usable[place] for place in sorted(chosen)]


def _is_asked(track: Track) -> bool:
    """Whether any cause is looked for in it: of buffers, running statistics."""
    return track.role != "buffer" or track.slot in RUNNING


def _kind(track: Track) -> tuple[str, ...]:
    """What tensors of a network that come in turns have in common."""
    if track.role == "parameter":
        first = track.values[0][0]
        return track.role, "flat" if first is None or len(first.shape) <= 1 else "other"
    return track.role, track.slot


def _complete(track: Track) -> bool:
    left, right = track.values
    if len(left) < 2 or len(left) != len(right) or any(one is None for one in (*left, *right)):
        return False
    shapes = {one.shape for one in (*left, *right) if one is not None}
    return len(shapes) == 1 and math.prod(shapes.pop()) > 0


def _read(track: Track, most: int) -> Sampled | None:
    first = track.values[0][0]
    shape = first.shape if first is not None else ()
    ranges = _ranges(math.prod(shape), most)
    values = tuple(_stack(side, ranges) for side in track.values)
    if values[0] is None or values[1] is None:
        return None
    steps = len(values[0]) - 1
    gradients = [_gradients(side, steps, shape, ranges) for side in track.gradients]
    good = np.isfinite(values[0]).all(0) & np.isfinite(values[1]).all(0)
    for one in gradients:
        if one is not None:
            good &= np.isfinite(one).all(0)
    if not good.any():
        return None
    kept = [None if one is None else one[:, good] for one in gradients]
    roundoffs = tuple(
        max((unit_roundoff(one.dtype) for one in side if one is not None), default=0.0)
        for side in track.values
    )
    return Sampled(
        track,
        len(shape),
        (values[0][:, good], values[1][:, good]),
        (kept[0], kept[1]),
        (roundoffs[0], roundoffs[1]),
    )


def _gradients(
    side: Sources, steps: int, shape: tuple[int, ...], ranges: list[tuple[int, int]]
) -> np.ndarray | None:
    """The gradients of every step, or None where one is missing or has another shape."""
    if len(side) < steps or any(one is None or one.shape != shape for one in side):
        return None
    return _stack(side[: steps + 1], ranges)


def _stack(side: Sources, ranges: list[tuple[int, int]]) -> np.ndarray | None:
    rows = []
    for source in side:
        if source is None:
            return None
        pieces = [computable(read_copy(source, *piece)) for piece in ranges]
        if pieces[0].dtype.kind not in "fiu":
            return None
        rows.append(np.concatenate(pieces).astype(np.float64))
    stacked: np.ndarray = np.stack(rows)
    return stacked


def _ranges(size: int, most: int) -> list[tuple[int, int]]:
    """Pieces spread evenly over a tensor, together at most so many elements."""
    if size <= most:
        return [(0, size)]
    length = max(most // TRAINED_PIECES, 1)
    starts = np.linspace(0, size - length, TRAINED_PIECES).astype(int)
    return [(int(start), int(start) + length) for start in starts]
