"""Samples of a call's operands: the only place where laws of layers look into arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Operands
from troubleshooter_nb.thresholds import FEW_PLACES, FEWEST_OUTPUTS, SHARE_SEEN


@dataclass(frozen=True)
class Sample:
    """Some places of one side of a call, in float64.

    Attributes
    ----------
    given : tuple of ndarray
        What the formula takes.
    output : ndarray
        What came of it.
    roundoff : float
        Unit roundoff of the stored output.
    settings : mapping
        What this way of looking at the operands says of the layer, such as its axis.
    facts : mapping
        What else the formula needs to know.
    known : mapping
        Recorded settings of the layer.
    thorough : bool
        Whether more than the plainest ways are asked for.
    """

    given: tuple[np.ndarray, ...]
    output: np.ndarray
    roundoff: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    known: Mapping[str, Any] = field(default_factory=dict)
    thorough: bool = True

    @classmethod
    def of(
        cls,
        operands: Operands,
        given: Sequence[np.ndarray],
        output: np.ndarray,
        settings: Mapping[str, Any] | None = None,
        **facts: Any,
    ) -> Sample:
        """A sample of these operands."""
        return cls(
            tuple(np.asarray(one) for one in given),
            np.asarray(output, np.float64),
            operands.roundoff,
            settings or {},
            facts,
            operands.known,
            operands.thorough,
        )


def spread(size: int, count: int) -> np.ndarray:
    """At most `count` places out of `size`, evenly spread, both ends among them."""
    count = min(size, count)
    return _few_spread(size, count).copy() if count <= FEW_PLACES else _spread(size, count)


def _spread(size: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, count).round().astype(np.intp))


# The same ones are asked for in every trial of a search.
_few_spread = lru_cache(maxsize=256)(_spread)


def places(size: int, count: int, energy: np.ndarray | None = None) -> np.ndarray:
    """At most `count` places out of `size`: those of most energy, the others evenly spread.

    Parameters
    ----------
    size, count : int
    energy : ndarray, shape (size,), optional
        Of the difference of the two sides, as `energies` gives it. None or zero: evenly spread.

    Returns
    -------
    ndarray of intp
        Sorted, each once. A third are chosen by their energy.
    """
    if energy is None or size <= count or not energy.any():
        return spread(size, count)
    most = max(count // 3, 1)
    chosen = np.argpartition(energy, size - most)[size - most :]
    return np.union1d(chosen[energy[chosen] > 0], spread(size, count - most))


def energies(
    distance4: np.ndarray | None, shape: Sequence[int], axis: int = 0
) -> np.ndarray | None:
    """Energy of the difference at each place along an axis of the output in this shape.

    Parameters
    ----------
    distance4 : ndarray or None
        As of `Operands`.
    shape : sequence of int
        To which the output is reshaped.
    axis : int

    Returns
    -------
    ndarray of float64, shape (shape[axis],), or None
        Sums over the other axes; None without `distance4`.
    """
    if distance4 is None:
        return None
    whole = distance4.reshape(shape)
    others = tuple(other for other in range(whole.ndim) if other != axis % whole.ndim)
    return np.asarray(whole.sum(axis=others, dtype=np.float64))


def is_seen(distance4: np.ndarray | None, part: tuple[slice, ...]) -> bool:
    """Whether a part of the output stands for all of it: the sides are no further apart elsewhere.

    For layers of which only the first places can be computed again.
    """
    if distance4 is None:
        return True
    seen = float(distance4[part].mean(dtype=np.float64)) if distance4[part].size else 0.0
    return seen >= SHARE_SEEN * float(distance4.mean(dtype=np.float64))


def inputs_like(operands: Operands, count: int) -> list[np.ndarray]:
    """The first inputs, all of the output's shape; empty where one is missing or of another."""
    given = [value for value in operands.inputs[:count] if value is not None]
    fits = len(given) == count and all(value.shape == operands.output.shape for value in given)
    return given if fits else []


def whole(operands: Operands, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray] | None:
    """All of the arrays, and the output last; None where one is missing or not of real numbers."""
    every = [array for array in (*arrays, operands.output) if array is not None]
    real = all(array.dtype.kind in "fiub" for array in every)
    return every if real and len(every) == len(arrays) + 1 else None


def items(
    operands: Operands, arrays: Sequence[np.ndarray], axis: int, count: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Some places along an axis, with all of the other axes.

    Parameters
    ----------
    operands : Operands
    arrays : sequence of ndarray
        As long as the output along the axis.
    axis, count : int

    Returns
    -------
    arrays : list of ndarray
        Of the arrays and, last, of the output, as stored.
    chosen : ndarray of intp
        Which places.
    """
    energy = energies(operands.distance4, operands.output.shape, axis)
    chosen = places(operands.output.shape[axis], count, energy)
    return [np.take(one, chosen, axis) for one in (*arrays, operands.output)], chosen


def vectors(operands: Operands, array: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Some vectors along the output's last axis (count, length), and what an array has for them.

    The array has the shape of the output without that axis.
    """
    shape = (array.size, operands.output.shape[-1])
    chosen = places(array.size, count, energies(operands.distance4, shape))
    return array.ravel()[chosen], operands.output.reshape(shape)[chosen]


def elements(
    operands: Operands, arrays: Sequence[np.ndarray], count: int
) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Some elements of arrays that broadcast to the output, and of the output; flat, float64.

    None where they do not broadcast, or hold no real numbers.
    """
    output = operands.output
    if not output.ndim or any(values.dtype.kind not in "fiub" for values in (*arrays, output)):
        return None
    try:
        wide = [np.broadcast_to(values, output.shape) for values in arrays]
    except ValueError:
        return None
    energy = None if operands.distance4 is None else operands.distance4.ravel()
    chosen = np.unravel_index(places(output.size, count, energy), output.shape)
    taken = [np.asarray(values[chosen], np.float64) for values in wide]
    return taken, np.asarray(output[chosen], np.float64)


def rows(
    operands: Operands, arrays: Sequence[np.ndarray], axis: int, most: int
) -> list[np.ndarray]:
    """Some rows along an axis of arrays of the output's shape, and of the output, last; float64.

    Of `most` elements, but four rows at least.
    """
    shape = operands.output.shape
    length = shape[axis]
    count = operands.output.size // length
    moved = [np.moveaxis(array, axis, -1) for array in (*arrays, operands.output)]
    distance4 = None if operands.distance4 is None else np.moveaxis(operands.distance4, axis, -1)
    picked = places(count, max(most // length, 4), energies(distance4, (count, length)))
    index = np.unravel_index(picked, moved[0].shape[:-1]) if len(shape) > 1 else None
    return [
        np.asarray(array[None] if index is None else array[index], np.float64) for array in moved
    ]


def planes(
    operands: Operands, arrays: Sequence[np.ndarray | None], count: int, cells: float = math.inf
) -> list[np.ndarray] | None:
    """Some planes (planes, height, width) of arrays with one or two axes of space, and the output.

    Parameters
    ----------
    operands : Operands
        Output (items, channels, [height,] width).
    arrays : sequence of ndarray
        As many axes; items and channels those of the output.
    count : int
        Planes at most.
    cells : float
        Cells of all planes at most, of the arrays and the output; two planes are always taken.

    Returns
    -------
    list of ndarray of float64, or None
        The arrays' and the output's; one axis of space is a height of 1. None for other shapes.
    """
    output = operands.output
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays) or output.ndim not in (3, 4):
        return None
    every = [*known, output]
    if any(one.ndim != output.ndim or one.shape[:2] != output.shape[:2] for one in every):
        return None
    if output.ndim == 3:
        every = [one[:, :, None] for one in every]
    if not all(one.size for one in every):
        return None
    size = sum(one.shape[-1] * one.shape[-2] for one in every)
    total = output.shape[0] * output.shape[1]
    most = max(int(min(count, cells // size)), 2)
    chosen = places(total, most, energies(operands.distance4, (total, -1)))
    return [np.asarray(one.reshape(total, *one.shape[2:])[chosen], np.float64) for one in every]


def product(
    operands: Operands, first: np.ndarray, second: np.ndarray, counts: tuple[int, int, int]
) -> tuple[list[np.ndarray], tuple[np.ndarray, np.ndarray]] | None:
    """Some rows and columns of a product (..., m, k) @ (..., k, n); float64.

    Parameters
    ----------
    operands : Operands
        Output (..., m, n).
    first, second : ndarray
        Axes in front broadcast.
    counts : tuple of int
        Items, rows and columns at most.

    Returns
    -------
    arrays : list of ndarray
        Of the first (items, rows, k), the second (items, k, columns), the output.
    chosen : tuple of ndarray
        Which rows and columns.
    None where shapes do not fit, and for too few outputs.
    """
    output, distance4 = operands.output, operands.distance4
    if first.shape[-1] != second.shape[-2] or output.ndim < 2 or not first.shape[-1]:
        return None
    try:
        lead = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except ValueError:
        return None
    if output.shape != (*lead, first.shape[-2], second.shape[-1]):
        return None
    total = math.prod(lead)
    in_front = places(total, counts[0], energies(distance4, (total, *output.shape[-2:])))
    chosen = tuple(
        places(output.shape[axis], most, energies(distance4, output.shape, axis))
        for axis, most in ((-2, counts[1]), (-1, counts[2]))
    )
    if in_front.size * chosen[0].size * chosen[1].size < FEWEST_OUTPUTS:
        return None
    at = np.unravel_index(in_front, lead) if lead else ()
    taken = [
        np.broadcast_to(first, (*lead, *first.shape[-2:]))[at][..., chosen[0], :],
        np.broadcast_to(second, (*lead, *second.shape[-2:]))[at][..., :, chosen[1]],
        output[at][..., chosen[0], :][..., chosen[1]],
    ]
    return [np.asarray(one, np.float64) for one in taken], (chosen[0], chosen[1])
