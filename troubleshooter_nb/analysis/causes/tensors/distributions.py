"""Tensors that hold a draw, a constant or memory instead of what was trained or loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.tensors.draws import is_untrained, normal_weights, stored_in
from troubleshooter_nb.analysis.causes.tensors.frequencies import is_angles, is_computed
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Sides,
    correlation,
    error_of,
    is_constant,
)
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.initialisers import initialiser_of
from troubleshooter_nb.thresholds import (
    CHANCE_SIGMAS,
    DIGITS_OF_DRAW,
    DRAWS_SAMPLE,
    FEWEST_DRAWN,
    FEWEST_OF_STATISTICS,
    HUGE_BESIDE,
    HUGE_VALUE,
    TINY_VALUE,
    TWO_DRAWS_APART,
)

_CONSTANTS = ("zeros", "ones", "constant")


def detect_initial(sides: Sides, others: Sequence[TensorPair] = ()) -> list[Suspicion]:
    """tensor_not_loaded, initialiser_differs or rng_differs, of parameters and buffers.

    A side is untouched where its values are an initialiser's draw or constant and have nothing in
    common with the other side.
    """
    if (
        not sides.same_shape
        or sides.left.size < FEWEST_OF_STATISTICS
        or sides.tensor.role == "input"
    ):
        return []
    common = abs(_cosine(sides.left, sides.right))
    chance = CHANCE_SIGMAS / math.sqrt(sides.left.size)
    # What has a direction in common was not drawn; one of all equal values has it with anything
    # whose mean is not zero. Asked first: the rest costs fifty times as much.
    if common > chance and not any(one.min() == one.max() for one in (sides.left, sides.right)):
        return []
    drawn = _drawn(sides, others)
    if drawn == [None, None] or _same_values(sides.left, sides.right):
        return []
    constant = [one in _CONSTANTS for one in drawn]
    if not any(constant) and common > chance:
        return []
    if constant == [True, True] and drawn[0] == drawn[1]:
        return []
    cause = _cause(drawn, constant)
    evidence: dict[str, Any] = {"left": drawn[0] or "", "right": drawn[1] or ""}
    evidence |= {"correlation": common, "chance": chance}
    if cause == "tensor_not_loaded":
        evidence["side"] = "left" if drawn[0] else "right"
        evidence["drawn"] = drawn[0] or drawn[1] or ""
    if any(constant):
        return [sides.suspicion(cause, 0.0, evidence)]
    return [_by_chance(sides, cause, common, 1.0 / math.sqrt(sides.left.size), evidence)]


def _drawn(sides: Sides, others: Sequence[TensorPair]) -> list[str | None]:
    """What each side was drawn by, told by itself or, for want of values, by all weights."""
    fan_in = _fan_in(sides.tensor, others)
    both = zip((sides.left, sides.right), sides.tensor.bits, strict=True)
    drawn = [initialiser_of(stored_in(one, bits), fan_in=fan_in) for one, bits in both]
    if None not in drawn or any(one in _CONSTANTS for one in drawn):
        # Trained values that an untouched constant is set beside are trained away from it.
        return drawn
    whole = [normal_weights(sides.tensor, others, side) for side in (0, 1)]
    drawn = [one or other for one, other in zip(drawn, whole, strict=True)]
    if drawn.count(None) == 1 and is_untrained(others, side := drawn.index(None)):
        # Nothing of that side was trained: this is a draw of an initialiser without a name.
        drawn[side] = _form((sides.left, sides.right)[side].reshape(-1).astype(np.float64))
    return drawn


def _cause(drawn: Sequence[str | None], constant: Sequence[bool]) -> str:
    if None in drawn:
        return "tensor_not_loaded"
    if any(constant) or drawn[0] != drawn[1]:
        return "initialiser_differs"
    return "rng_differs"


def detect_random(sides: Sides) -> list[Suspicion]:
    """rng_differs: inputs drawn from one distribution that have nothing in common."""
    if not sides.same_shape or sides.left.size < FEWEST_DRAWN or sides.tensor.role == "parameter":
        return []
    flat = [one.reshape(-1)[:DRAWS_SAMPLE].astype(np.float64) for one in (sides.left, sides.right)]
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
    if apart > TWO_DRAWS_APART * math.sqrt(2.0 / count) or _same_values(*flat):
        return []
    evidence = {"correlation": common, "chance": chance, "apart": apart, "form": _form(flat[1])}
    return [_by_chance(sides, "rng_differs", common, chance, evidence)]


def detect_uninitialised(sides: Sides) -> list[Suspicion]:
    """buffer_uninitialised: memory contents on one side: subnormal, huge, NaN or inf.

    Zeros as well where the other side holds what is computed and never loaded: frequencies,
    waves, numbers that count up. Whatever has such values beside the contents of memory is a
    buffer, though its name may not say so. Of an input or output: angles made of such frequencies.
    """
    if not sides.same_shape:
        return []
    is_of_call = sides.tensor.role in ("input", "output", "gradient")
    for side, one, other in (
        ("left", sides.left, sides.right),
        ("right", sides.right, sides.left),
    ):
        odd = _odd(one, sides.integers)
        if _odd(other, sides.integers).any():
            continue
        if odd.any() and is_computed(other):
            odd |= np.abs(one) > HUGE_BESIDE * np.abs(other).max()
        ordinary = ~odd & (one != 0.0)
        if sides.tensor.role == "buffer":
            found = odd.any() or (not one.any() and is_computed(other))
        elif is_of_call:
            found = odd.any() and not ordinary.any() and is_angles(other)
        else:
            angles = not ordinary.any() and sides.tensor.role != "parameter" and is_angles(other)
            found = odd.any() and (angles or is_computed(other))
        if not found:
            continue
        residual = error_of(one[ordinary], other[ordinary]) if ordinary.any() else 0.0
        evidence = {
            "side": side,
            "odd": int(odd.sum()),
            "size": one.size,
            "not_finite": int((~np.isfinite(one)).sum()),
            "largest": float(np.abs(one[np.isfinite(one)]).max(initial=0.0)),
            "largest_other": float(np.abs(other).max()),
        }
        suspicion = sides.suspicion("buffer_uninitialised", residual, evidence)
        if not ordinary.any():
            # No element is of the size of any on the other side, in any of its digits.
            suspicion = replace(suspicion, independent=DIGITS_OF_DRAW * one.size)
        return [suspicion]
    return []


def _odd(values: np.ndarray, integers: bool) -> np.ndarray:
    """Elements that memory holds by chance; none where all are one negative value, as of a mask."""
    size = np.abs(values)
    odd = np.asarray(size > 2.0**40)
    if not integers:
        odd = np.asarray(
            ~np.isfinite(values) | (size > HUGE_VALUE) | ((size > 0.0) & (size < TINY_VALUE))
        )
    found = values[odd]
    is_mask = len(found) > 1 and bool((found == found[0]).all() and found[0] < 0.0)
    return np.zeros_like(odd) if is_mask else odd


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


def _cosine(left: np.ndarray, right: np.ndarray) -> float:
    first, second = (one.reshape(-1).astype(np.float64) for one in (left, right))
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / norms if norms and math.isfinite(norms) else 0.0


def _apart(left: np.ndarray, right: np.ndarray) -> float:
    """Kolmogorov's distance of two samples of equal size."""
    both = np.concatenate([left, right])
    places = [np.searchsorted(np.sort(one), both, side="right") for one in (left, right)]
    return float(np.abs(places[0] - places[1]).max()) / len(left)


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
