"""Weights of several layers of the source that the target holds as one: LoRA, folded BatchNorm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import unit_roundoff
from troubleshooter_nb.ranges import whole
from troubleshooter_nb.thresholds import LARGEST_HELD, MOST_MERGED_TRIED
from troubleshooter_nb.transforms import Spec, Transform, simplest
from troubleshooter_nb.transforms.merges import batch_norm_factors, in_float64, merged_low_rank
from troubleshooter_nb.weight_map import WeightRow

# How each framework ends the names of a BatchNorm's tensors, in the order of the transform.
_ENDS = (
    ("weight", "gamma"),
    ("bias", "beta"),
    ("running_mean", "moving_mean"),
    ("running_var", "moving_variance"),
)
_MOST_EPS = 0.1
_MOST_LEFT = 0.1  # of what was added to a weight, that its factors do not explain
_ROUNDINGS = 16.0  # of the coarsest format, that a computed weight may be away
Sources = Mapping[str, ArraySource]


class BatchNorm(NamedTuple):
    """Names of the tensors of one BatchNorm."""

    gamma: str
    beta: str
    mean: str
    variance: str


def merged_row(
    source: str, target: str, ours: Sources, theirs: Sources, free: Iterable[str]
) -> tuple[WeightRow, float] | None:
    """The row that makes a target of a weight and tensors beside it, and its residual.

    Parameters
    ----------
    source, target : str
        Of a row whose values differ.
    ours, theirs : mapping of str to ArraySource
        All tensors of both sides.
    free : iterable of str
        Tensors of the source that nothing else explains.

    Raises
    ------
    ReadError
        If a tensor cannot be read.
    """
    weight, wanted = _held(ours[source]), _held(theirs[target])
    if weight is None or wanted is None or weight.shape != wanted.shape or weight.ndim < 2:
        return None
    coarse = max(unit_roundoff(side.dtype) for side in (ours[source], theirs[target]))
    near = sorted(set(free) - {source}, key=lambda name: (-_shared(name, source), name))
    found = _low_rank(weight, wanted, ours, near, coarse)
    if found is not None:
        factors, transform, residual = found
        return _row((source, *factors), (target,), transform, residual)
    return _folded(source, target, (weight, wanted), (ours, theirs), near, coarse)


def _shared(name: str, other: str) -> int:
    """How many characters two names begin with alike."""
    return next(
        (at for at, pair in enumerate(zip(name, other, strict=False)) if pair[0] != pair[1]),
        len(name),
    )


def computed_said(transform: Transform) -> Message:
    """That a target is computed from several sources."""
    return Message("values.computed", how=transform.words)


def _row(
    sources: Sequence[str], targets: Sequence[str], transform: Transform, residual: float
) -> tuple[WeightRow, float]:
    said = computed_said(transform)
    note = Message("weight_maps.by_values", relation=said, residual=residual)
    return WeightRow(tuple(sources), tuple(targets), transform, note=note), residual


def _held(source: ArraySource) -> np.ndarray | None:
    """The values in float64, of what is small enough to be looked at whole."""
    return None if math.prod(source.shape) > LARGEST_HELD else in_float64(whole(source))


def _low_rank(
    weight: np.ndarray,
    wanted: np.ndarray,
    ours: Sources,
    names: Sequence[str],
    coarse: float,
) -> tuple[list[str], Transform, float] | None:
    """Factors A and B, and the number times which their product was added."""
    added = (wanted - weight).reshape(len(weight), -1)
    norm = float(np.linalg.norm(added))
    error = coarse * float(np.linalg.norm(wanted))
    if not math.isfinite(norm) or norm <= _ROUNDINGS * error:
        return None
    specs = {name: Spec(ours[name].shape, ours[name].dtype) for name in names}
    tried = 0
    for down, one in specs.items():
        if len(one.shape) != weight.ndim or one.shape[1:] != weight.shape[1:]:
            continue
        rank = one.shape[0]
        for up, other in specs.items():
            fits = other.shape[:2] == (len(weight), rank) and other.size == len(weight) * rank
            if up == down or not fits or 2 * rank > min(added.shape):
                continue
            tried += 1
            if tried > MOST_MERGED_TRIED:
                return None
            a, b = _held(ours[down]), _held(ours[up])
            if a is None or b is None:
                continue
            product = merged_low_rank(weight, a, b).reshape(added.shape)
            square = float(np.vdot(product, product))
            factor = float(np.vdot(product, added)) / square if square else 0.0
            left = float(np.linalg.norm(added - factor * product))
            # What is left is rounding, and most of what was added is explained.
            if factor and left <= min(max(_ROUNDINGS * error, 1e-6 * norm), _MOST_LEFT * norm):
                short = simplest(factor, left / norm + 1e-6)
                if np.linalg.norm(added - short * product) <= 1.1 * left + 1e-6 * norm:
                    factor = short
                return [down, up], Transform("lora", (factor,)), left / norm
    return None


def batch_norms(names: Iterable[str]) -> Iterator[BatchNorm]:
    """The BatchNorms whose four tensors are among these names."""
    known = dict.fromkeys(names)
    fronts = dict.fromkeys(name.rpartition(".")[0] for name in known)
    for front in fronts:
        found = []
        for ends in _ENDS:
            found += [n for end in ends if (n := f"{front}.{end}".removeprefix(".")) in known][:1]
        if len(found) == len(_ENDS):
            yield BatchNorm(*found)


def _folded(
    source: str,
    target: str,
    weights: tuple[np.ndarray, np.ndarray],
    sides: tuple[Sources, Sources],
    names: Sequence[str],
    coarse: float,
) -> tuple[WeightRow, float] | None:
    """A BatchNorm whose factors the target's channels have, and whose shift its bias is."""
    (ours, theirs), (front, _, end) = sides, source.rpartition(".")
    bias = f"{target.rpartition('.')[0]}.bias".removeprefix(".")
    shift = _held(theirs[bias]) if bias in theirs else None
    if end != "weight" or shift is None:
        return None
    own = f"{front}.bias".removeprefix(".")
    start = _held(ours[own]) if own in ours else None
    norms = list(batch_norms(names))
    for axis in (0, 1):
        factors = _of_channels(*weights, axis, coarse)
        if factors is None or shift.shape != factors.shape:
            continue
        for norm in norms[:MOST_MERGED_TRIED]:
            if any(ours[name].shape != factors.shape for name in norm):
                continue
            gamma, beta, mean, variance = (in_float64(whole(ours[name])) for name in norm)
            eps = _eps_of(factors, gamma, variance)
            if eps is None:
                continue
            made = batch_norm_factors(gamma, variance, eps)
            moved = beta + ((0.0 if start is None else start) - mean) * made
            errors = [_apart(made, factors), _apart(moved, shift)]
            if max(errors) <= _ROUNDINGS * max(coarse, 1e-6):
                arguments = (eps, axis) if axis else (eps,)
                taken = (source, *norm, *([] if start is None else [own]))
                transform = Transform("fold_batch_norm", arguments)
                return _row(taken, (target, bias), transform, max(errors))
    return None


def _of_channels(
    weight: np.ndarray, wanted: np.ndarray, axis: int, coarse: float
) -> np.ndarray | None:
    """The number that each channel was multiplied by, if that is all that was done."""
    mine, theirs = (
        np.moveaxis(side, axis, 0).reshape(side.shape[axis], -1) for side in (weight, wanted)
    )
    squares = np.square(mine).sum(1)
    if np.count_nonzero(squares) < len(squares) / 2:
        return None
    with np.errstate(all="ignore"):  # a dead channel tells no factor
        factors = (mine * theirs).sum(1) / squares
    left = np.linalg.norm(theirs - np.nan_to_num(factors)[:, None] * mine)
    return factors if left <= _ROUNDINGS * coarse * np.linalg.norm(theirs) else None


def _eps_of(factors: np.ndarray, gamma: np.ndarray, variance: np.ndarray) -> float | None:
    """The eps with which the norm has these factors, or None where there is none."""
    with np.errstate(all="ignore"):
        each = np.square(gamma / factors) - variance
    eps = float(np.median(each[np.isfinite(each)])) if np.isfinite(each).any() else -1.0
    small = float(np.median(np.abs(variance)))
    if not -1e-6 * small <= eps <= _MOST_EPS:
        return None
    return simplest(max(eps, 0.0), 1e-6 * small / eps if eps > 0.0 else 0.0)


def _apart(made: np.ndarray, wanted: np.ndarray) -> float:
    known = np.isfinite(wanted)
    made, wanted = made[known], wanted[known]
    size = float(np.linalg.norm(wanted))
    return float(np.linalg.norm(made - wanted)) / size if size else math.inf
