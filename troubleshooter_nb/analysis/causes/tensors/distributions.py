"""Tensors that hold a draw, a constant or memory instead of what was trained or loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.tensors.draws import (
    is_start,
    is_untrained,
    normal_weights,
    stored_in,
)
from troubleshooter_nb.analysis.causes.tensors.frequencies import is_angles, is_computed
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Error,
    Range,
    Sides,
    correlation,
    is_constant,
)
from troubleshooter_nb.analysis.causes.tensors.streams import mixed_bits
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.initialisers import initialiser_of
from troubleshooter_nb.thresholds import (
    CHANCE_SIGMAS,
    DIGITS_OF_DRAW,
    DRAWN_SIGMAS,
    DRAWS_SAMPLE,
    FARTHEST_DRAWN,
    FEWEST_DRAWN,
    FEWEST_OF_STATISTICS,
    FEWEST_TO_REFUSE,
    HUGE_BESIDE,
    HUGE_VALUE,
    LARGEST_WHOLE,
    NO_OTHER_DRAW,
    OPEN_DRAW,
    TINY_VALUE,
    TWO_DRAWS_APART,
)

_CONSTANTS = ("zeros", "ones", "constant")


def detect_initial(
    sides: Sides, others: Sequence[TensorPair] = (), weights: Sequence[TensorPair] = ()
) -> list[Suspicion]:
    """tensor_not_loaded, initialiser_differs or rng_differs, of parameters and buffers.

    A side is untouched where its values are an initialiser's draw or constant and have nothing in
    common with the other side. `weights` are those of the network, where `others` are buffers.
    """
    if not sides.same_shape or sides.size < FEWEST_OF_STATISTICS or sides.tensor.role == "input":
        return []
    common = abs(_cosine(sides))
    chance = CHANCE_SIGMAS / math.sqrt(sides.size)
    # What has a direction in common was not drawn; one of all equal values has it with anything
    # whose mean is not zero. Asked first: the rest costs fifty times as much.
    if common > chance and not any(low == high for low, high in map(sides.ends, (0, 1))):
        return []
    drawn = _drawn(sides, others)
    if drawn == [None, None] or _hold_the_same(sides):
        return []
    constant = [one in _CONSTANTS for one in drawn]
    if not any(constant) and common > chance:
        return []
    # Ones times a factor are no initialiser's.
    if constant == [True, True] and (drawn[0] == drawn[1] or "constant" in drawn):
        return []
    cause = _cause(drawn, constant)
    evidence: dict[str, Any] = {"left": drawn[0] or "", "right": drawn[1] or ""}
    evidence |= {"correlation": common, "chance": chance}
    if cause == "tensor_not_loaded":
        if is_start(sides.tensor, weights or others, 0 if drawn[0] else 1):
            return []
        evidence["side"] = "left" if drawn[0] else "right"
        evidence["drawn"] = drawn[0] or drawn[1] or ""
    if not all(constant):
        evidence |= sides.sampled
    if any(constant):
        return [sides.suspicion(cause, 0.0, evidence)]
    found = _by_chance(sides, cause, common, 1.0 / math.sqrt(sides.size), evidence)
    # Of so few values a draw of an initialiser without a name is no less likely.
    is_open = cause == "tensor_not_loaded" and sides.size < FEWEST_TO_REFUSE
    return [replace(found, share=OPEN_DRAW) if is_open else found]


def _drawn(sides: Sides, others: Sequence[TensorPair]) -> list[str | None]:
    """What each side was drawn by, told by itself or, for want of values, by all weights."""
    fan_in = _fan_in(sides.tensor, others)
    few, shape = sides.few, sides.shapes[0]
    both = zip((few.left, few.right), sides.tensor.bits, strict=True)
    drawn = [initialiser_of(stored_in(one, bits), fan_in=fan_in, shape=shape) for one, bits in both]
    if isinstance(sides, LargeSides):
        drawn = [one if _fits_all(sides, side, one) else None for side, one in enumerate(drawn)]
    if None not in drawn or any(one in _CONSTANTS for one in drawn):
        # Trained values that an untouched constant is set beside are trained away from it.
        return drawn
    whole = [normal_weights(sides.tensor, others, side) for side in (0, 1)]
    drawn = [one or other for one, other in zip(drawn, whole, strict=True)]
    if drawn.count(None) == 1 and is_untrained(others, side := drawn.index(None)):
        # Nothing of that side was trained: this is a draw of an initialiser without a name.
        drawn[side] = _form((few.left, few.right)[side].reshape(-1).astype(np.float64))
    return drawn


def _fits_all(sides: LargeSides, side: int, drawn: str | None) -> bool:
    """Whether the figures of all elements are those of the rows that look like a draw."""
    low, high = sides.ends(side)
    if any(sides.figure(side, f"{name}_count") for name in ("nan", "inf")):
        return False
    if drawn in _CONSTANTS:
        return low == high
    few = (sides.left, sides.right)[side]
    rms = sides.figure(side, "l2") / math.sqrt(math.prod(sides.shapes[side]))
    some = float(np.sqrt(np.square(few, dtype=np.float64).mean()))
    # Of so many values none lies further out by chance, of normal ones either.
    apart = abs(some / rms - 1.0) if rms else math.inf
    return apart <= DRAWN_SIGMAS / math.sqrt(few.size) and max(-low, high) <= FARTHEST_DRAWN * rms


def _cause(drawn: Sequence[str | None], constant: Sequence[bool]) -> str:
    if None in drawn:
        return "tensor_not_loaded"
    if any(constant) or drawn[0] != drawn[1]:
        return "initialiser_differs"
    return "rng_differs"


def detect_random(sides: Sides) -> list[Suspicion]:
    """rng_differs: inputs drawn from one distribution that have nothing in common."""
    if not sides.same_shape or sides.size < FEWEST_DRAWN or sides.tensor.role == "parameter":
        return []
    few = sides.few
    flat = [one.reshape(-1)[:DRAWS_SAMPLE].astype(np.float64) for one in (few.left, few.right)]
    if not all(np.isfinite(one).all() for one in flat) or any(map(is_constant, flat)):
        return []
    count = len(flat[0])
    chance = CHANCE_SIGMAS / math.sqrt(count)
    common = abs(correlation(*flat))
    # Data that was not drawn is alike from one element to the next; a shift of it has no
    # correlation either, but its neighbours have.
    along = [abs(correlation(one[1:], one[:-1])) for one in flat]
    # Tokens of other samples have no more in common than draws.
    if sides.integers or max(common, *along) > chance:
        return []
    apart = _apart(*flat)
    if apart > TWO_DRAWS_APART * math.sqrt(2.0 / count):
        return []
    if _hold_the_same(sides) if sides.is_large else _same_values(*flat):
        return []
    evidence = {"correlation": common, "chance": chance, "apart": apart, "form": _form(flat[1])}
    return [_by_chance(few, "rng_differs", common, chance, evidence)]


def detect_uninitialised(sides: Sides) -> list[Suspicion]:
    """buffer_uninitialised: memory contents on one side: subnormal, huge, NaN or inf.

    Zeros as well where the other side holds what is computed and never loaded: frequencies,
    waves, numbers that count up. Whatever has such values beside the contents of memory is a
    buffer, though its name may not say so. Of an input or output: angles made of such frequencies.
    """
    if not sides.same_shape:
        return []
    is_of_call = sides.tensor.role in ("input", "output", "gradient")
    for own, side in enumerate(("left", "right")):
        if not _may_be_odd(sides, own):
            continue
        other = _head(sides, 1 - own)
        computed = is_computed(other)
        beyond = HUGE_BESIDE * _largest(sides, 1 - own) if computed else math.inf
        contents = _Contents(is_quick=sides.is_large, beyond=beyond)
        for _, left, right in sides.blocks():
            contents.take(*((right, left) if own else (left, right)), sides.integers)
        odd, ordinary = contents.odd.count, contents.ordinary
        if contents.is_mask or contents.is_odd_elsewhere:
            continue
        if sides.tensor.role == "buffer":
            found = odd or (not contents.is_filled and computed)
        elif is_of_call:
            found = odd and not ordinary and is_angles(other)
        else:
            angles = not ordinary and sides.tensor.role != "parameter" and is_angles(other)
            found = odd and (angles or computed)
        if not found:
            continue
        evidence = {
            "side": side,
            "odd": odd,
            "size": sides.size,
            "not_finite": contents.not_finite,
            "largest": contents.largest,
            "largest_other": contents.largest_other,
        }
        residual = contents.rest.value if ordinary else 0.0
        suspicion = sides.suspicion("buffer_uninitialised", residual, evidence)
        if not ordinary:
            # No element is of the size of any on the other side, in any of its digits.
            suspicion = replace(suspicion, independent=DIGITS_OF_DRAW * sides.size)
        return [suspicion]
    return []


class _Contents:
    """What one side holds that memory may hold by chance, added up over blocks."""

    def __init__(self, *, is_quick: bool, beyond: float) -> None:
        self.odd, self.rest = Range(), Error(is_quick=is_quick)
        self._beyond = beyond  # larger values are odd beside such that are
        self.ordinary = self.not_finite = 0
        self.largest = self.largest_other = 0.0
        self.is_filled = False
        self._elsewhere = Range()

    def take(self, one: np.ndarray, other: np.ndarray, integers: bool) -> None:
        """Take in a block of the side, and of the other one."""
        finite, size = np.isfinite(one), np.abs(other)
        odd = _odd(one, integers) | (np.abs(one) > self._beyond)
        ordinary = ~odd & (one != 0.0)
        self.odd.add(one[odd])
        self._elsewhere.add(other[_odd(other, integers)])
        self.ordinary += int(ordinary.sum())
        self.not_finite += int((~finite).sum())
        self.largest = max(self.largest, float(np.abs(one[finite]).max(initial=0.0)))
        self.largest_other = float(np.maximum(self.largest_other, size.max(initial=0.0)))
        self.is_filled |= bool(one.any())
        if ordinary.any():
            self.rest.add(one[ordinary], other[ordinary])

    @property
    def is_mask(self) -> bool:
        """Whether what is odd is one negative value."""
        return _is_mask(self.odd)

    @property
    def is_odd_elsewhere(self) -> bool:
        """Whether the other side holds such values as well, other than a mask."""
        return self._elsewhere.count > 0 and not _is_mask(self._elsewhere)


def _may_be_odd(sides: Sides, side: int) -> bool:
    """Whether a side may hold what memory does; of a large one some rows and its figures tell."""
    few = (sides.few.left, sides.few.right)[side]
    if _odd(few, sides.integers).any() or not few.any():
        return True
    if not isinstance(sides, LargeSides):
        return False
    low, high = sides.ends(side)
    huge = LARGEST_WHOLE if sides.integers else HUGE_VALUE
    odd = any(sides.figure(side, f"{name}_count") for name in ("nan", "inf"))
    return odd or max(-low, high) > huge


def _largest(sides: Sides, side: int) -> float:
    """The largest magnitude of a side."""
    if not isinstance(sides, LargeSides):
        return float(np.abs((sides.left, sides.right)[side]).max())
    low, high = sides.ends(side)
    return max(-low, high)


def _head(sides: Sides, side: int) -> np.ndarray:
    """A side, or as much of its beginning as may be looked at."""
    if not isinstance(sides, LargeSides):
        return (sides.left, sides.right)[side]
    return sides.head(side)


def _odd(values: np.ndarray, integers: bool) -> np.ndarray:
    """Elements that memory holds by chance."""
    size = np.abs(values)
    if integers:
        return np.asarray(size > LARGEST_WHOLE)
    return np.asarray(
        ~np.isfinite(values) | (size > HUGE_VALUE) | ((size > 0.0) & (size < TINY_VALUE))
    )


def _is_mask(odd: Range) -> bool:
    """Whether values are one negative value, as of a mask."""
    return odd.count > 1 and odd.low == odd.high and odd.low < 0.0


def _by_chance(
    sides: Sides, cause: str, residual: float, chance: float, evidence: dict[str, Any]
) -> Suspicion:
    """What is left is what both sides have in common; the floor is what chance gives them."""
    found = sides.suspicion(cause, residual, evidence)
    return Suspicion(
        found.cause,
        found.before,
        found.residual,
        found.rival,
        max(found.floor, chance),
        found.evidence,
        found.pair,
        found.independent,
    )


def _fan_in(tensor: TensorPair, others: Sequence[TensorPair]) -> int | None:
    """Inputs of the layer of a bias, from its weight."""
    if not tensor.name.endswith("bias"):
        return None
    wanted = tensor.name[: -len("bias")] + "weight"
    for other in others:
        source = other.sources[0] or other.sources[1]
        if other.name == wanted and source is not None and len(source.shape) > 1:
            return math.prod(source.shape[1:])
    return None


def _cosine(sides: Sides) -> float:
    if isinstance(sides, LargeSides):
        return sides.cosine
    first, second = (one.reshape(-1).astype(np.float64) for one in (sides.left, sides.right))
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms and math.isfinite(norms) else 0.0


def _apart(left: np.ndarray, right: np.ndarray) -> float:
    """Kolmogorov's distance of two samples of equal size."""
    both = np.concatenate([left, right])
    places = [np.searchsorted(np.sort(one), both, side="right") for one in (left, right)]
    return float(np.abs(places[0] - places[1]).max()) / len(left)


def _hold_the_same(sides: Sides) -> bool:
    """Whether one side is the other in another order; of a large pair also but for noise."""
    if not isinstance(sides, LargeSides):
        return _same_values(sides.left, sides.right)
    if sides.ends(0) == sides.ends(1):
        sums = [np.uint64(0), np.uint64(0)]
        with np.errstate(over="ignore"):
            for _, *both in sides.blocks():
                wide = np.result_type(*both)
                sums = [
                    total + mixed_bits(one.astype(wide, copy=False)).sum(dtype=np.uint64)
                    for total, one in zip(sums, both, strict=True)
                ]
        if sums[0] == sums[1]:
            return True
    # Two draws have sums and squares as far apart as chance puts them.
    size = sides.size
    squares = [sides.figure(side, "l2") ** 2 / size for side in (0, 1)]
    means = [sides.figure(side, "mean") for side in (0, 1)]
    near = NO_OTHER_DRAW / math.sqrt(size)
    apart = abs(means[0] - means[1]), abs(squares[0] - squares[1])
    return apart[0] <= near * math.sqrt(squares[1]) and apart[1] <= near * squares[1]


def _same_values(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether one is the other in another order."""
    # Sorting costs more than all else; the ends tell of most that they are not.
    if left.min() != right.min() or left.max() != right.max():
        return False
    return bool(np.array_equal(np.sort(left, axis=None), np.sort(right, axis=None)))


def _form(values: np.ndarray) -> str:
    centred = values - values.mean()
    square = float(np.square(centred).mean())
    kurtosis = float(np.square(np.square(centred)).mean()) / square**2
    error = 10.0 / math.sqrt(len(values))
    if abs(kurtosis - 3.0) < 2.0 * error:
        return Message("evidence.normal_mean", mean=values.mean(), std=math.sqrt(square))
    if abs(kurtosis - 1.8) < error:
        return Message("evidence.uniform_between", low=values.min(), high=values.max())
    return "of no known form"
