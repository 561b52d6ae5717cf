"""Transforms that compute the weights of one layer from those of several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.transforms.kind import (
    Argument,
    Kind,
    MisfitError,
    Proposals,
    Sources,
    Targets,
    real_number,
)
from troubleshooter_nb.transforms.spec import Spec

_USUAL_EPS = 1e-5  # of BatchNorm, in both frameworks


def in_float64(array: np.ndarray) -> np.ndarray:
    """Values of any dtype of numbers as float64, the same shape."""
    return np.asarray(computable(array)).astype(np.float64)


def merged_low_rank(weight: np.ndarray, down: np.ndarray, up: np.ndarray) -> np.ndarray:
    """``up @ down`` in the shape of `weight`, float64.

    Factors of convolutions are multiplied along their channels: down (rank, in, ...) and
    up (out, rank, 1, ...).
    """
    product = in_float64(up).reshape(up.shape[0], -1) @ in_float64(down).reshape(down.shape[0], -1)
    return np.asarray(product.reshape(weight.shape))


def _low_rank(sources: Sequence[Spec], _: float) -> list[Spec]:
    weight, down, up = (source.shape for source in sources)
    fits = min(map(len, (weight, down, up))) >= 2 and down[1:] == weight[1:]
    if not fits or up[0] != weight[0] or sources[2].size != up[0] * down[0]:
        raise MisfitError(Message("transforms.no_low_rank"))
    return [sources[0]]


def _with_low_rank(arrays: Sequence[np.ndarray], factor: float) -> list[np.ndarray]:
    weight, down, up = arrays
    made = in_float64(weight) + factor * merged_low_rank(weight, down, up)
    return [stored_as(made, weight.dtype)]


LORA = Kind(
    name="lora",
    words=lambda factor: Message("transforms.lora", factor=factor),
    examples={
        "lora(0.5)": [(4, 6), (2, 6), (4, 2)],
        "lora(2.0)": [(4, 3, 3, 3), (2, 3, 3, 3), (4, 2, 1, 1)],
    },
    arguments=(Argument("factor", real_number),),
    sources=Sources(3, 3, ("weight", "A", "B")),
    specs=_low_rank,
    forward=_with_low_rank,
    proposals=lambda sources, targets: [(1.0,)],
)


def _folded(sources: Sequence[Spec], eps: float, axis: int | None) -> list[Spec]:
    weight, *channels = sources
    at = axis or 0
    fits = 0 <= at < len(weight.shape)
    if not fits or any(one.shape != (weight.shape[at],) for one in channels):
        raise MisfitError(Message("transforms.no_batch_norm", axis=at))
    return [weight, Spec(channels[0].shape, weight.dtype)]


def batch_norm_factors(gamma: np.ndarray, variance: np.ndarray, eps: float) -> np.ndarray:
    """What BatchNorm of stored statistics multiplies each channel by, float64, shape (n,)."""
    with np.errstate(all="ignore"):
        return np.asarray(in_float64(gamma) / np.sqrt(in_float64(variance) + eps))


def _fold(arrays: Sequence[np.ndarray], eps: float, axis: int | None) -> list[np.ndarray]:
    weight, gamma, beta, mean, variance, *bias = arrays
    factors = batch_norm_factors(gamma, variance, eps)
    along = [1] * weight.ndim
    along[axis or 0] = -1
    start = in_float64(bias[0]) if bias else 0.0
    with np.errstate(all="ignore"):
        made = in_float64(weight) * factors.reshape(along)
        shift = in_float64(beta) + (start - in_float64(mean)) * factors
    return [stored_as(made, weight.dtype), stored_as(shift, weight.dtype)]


def _usual_eps(sources: Sequence[Spec], _: Targets) -> Proposals:
    yield (_USUAL_EPS,)


FOLD_BATCH_NORM = Kind(
    name="fold_batch_norm",
    words=lambda eps, axis: Message("transforms.fold_batch_norm", eps=eps, axis=axis or 0),
    examples={
        "fold_batch_norm(1e-05)": [(4, 3, 2), (4,), (4,), (4,), (4,)],
        "fold_batch_norm(0.001, 1)": [(3, 4, 2), (4,), (4,), (4,), (4,), (4,)],
    },
    arguments=(Argument("eps", real_number), Argument("axis", optional=True)),
    sources=Sources(5, 6, ("weight", "gamma", "beta", "mean", "variance", "bias")),
    targets=2,
    specs=_folded,
    forward=_fold,
    proposals=_usual_eps,
)
