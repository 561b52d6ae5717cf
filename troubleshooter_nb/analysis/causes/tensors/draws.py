"""What the weights of one side, taken together, say of a tensor: whether they are all draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from troubleshooter_nb.analysis.causes.case import TensorPair
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import HALF_FORMATS
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.initialisers import initialiser_of
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.thresholds import (
    CHANCE_SIGMAS,
    DRAW_TENSORS,
    DRAW_VALUES,
    DRAWN_SIGMAS,
    FEWEST_DRAWN,
    FEWEST_DRAWN_TENSORS,
    FEWEST_DRAWN_TOGETHER,
    LARGEST_HELD,
    UNRELATED_WEIGHTS,
)


def stored_in(values: np.ndarray, bits: int) -> np.ndarray:
    """The values in the dtype whose precision they use, where that is a shorter one."""
    name = HALF_FORMATS.get(bits)
    return values.astype(dtype_from_token(name)) if name else values


def normal_weights(tensor: TensorPair, others: Sequence[TensorPair], side: int) -> str | None:
    """The normal distribution that drew a weight and most others of a side, None for none.

    One small tensor fits many distributions. A rule that holds in all of them does not: one
    deviation whatever the shape, or one that falls with the root of the inputs. Training keeps
    neither to within the error of a sample. Asked only where most weights have nothing in common
    with the other side's, so that a whole side was drawn.
    """
    weights = [one for one in others if _is_weight(one)]
    drawn = [one for one in weights if one.rel_l2 > UNRELATED_WEIGHTS]
    if not _is_weight(tensor) or 2 * len(drawn) <= len(weights):
        return None
    read = list(_read([tensor, *drawn], side))
    if (
        len(read) <= FEWEST_DRAWN_TENSORS
        or sum(len(one) for one, _ in read) < FEWEST_DRAWN_TOGETHER
    ):
        return None
    for rule, power in (("{:.3g}", 0.0), ("{:.3g}/sqrt(fan_in)", 0.5)):
        scaled = [values * fan_in**power for values, fan_in in read]
        if std := _common_deviation(scaled):
            form = Message("evidence.std", std=rule.format(std))
            return Message("evidence.normal_together", form=form, count=len(read))
    return None


def is_start(tensor: TensorPair, others: Sequence[TensorPair], side: int) -> bool:
    """Whether a side holds what the other was trained from, so that nothing failed to load.

    The weight of the same layer, or most weights of an untrained side, differ from the other
    side's and have more in common with them than draws have. A side is untrained where its weights
    are draws of known initialisers, or its biases and norms that differ are as they are made.
    """
    weights = [one for one in others if _is_weight(one) and _size(one) >= FEWEST_DRAWN]
    # What one side only rounds was not trained.
    moved = [w for w in weights if w.differs and w.bits[0] == w.bits[1] and _is_kin(w)]
    layer = tensor.name.rpartition(".")[0]
    own = [one for one in moved if layer and one.name.rpartition(".")[0] == layer]
    if own or 2 * len(moved) <= len(weights):
        return bool(own)
    return _are_as_made(others, side) or is_untrained(others, side)


def _are_as_made(others: Sequence[TensorPair], side: int) -> bool:
    """Whether most biases and weights of norms of a side that differ are of one value each."""
    which = ("left", "right")[side]
    vectors = [
        one.figures
        for one in others
        if one.role == "parameter" and one.differs and not _is_weight(one)
    ]
    # nan, of what was not measured, equals nothing.
    equal = [one for one in vectors if one.get(f"{which}_min") == one.get(f"{which}_max", math.nan)]
    return 2 * len(equal) > len(vectors)


def _is_kin(tensor: TensorPair) -> bool:
    cosine = abs(float(tensor.figures.get("cosine", math.nan)))
    return cosine > CHANCE_SIGMAS / math.sqrt(_size(tensor))


def _size(tensor: TensorPair) -> int:
    return min(math.prod(shape) for shape in tensor.shapes if shape is not None)


def is_untrained(others: Sequence[TensorPair], side: int) -> bool:
    """Whether most weights of a side, of those that tell, are still what initialisers draw."""
    found = []
    for other in others:
        source = other.sources[side]
        if source is None or not _is_weight(other) or math.prod(source.shape) < FEWEST_DRAWN:
            continue
        # Whole rows, so that the number of inputs is the shape's.
        inputs = math.prod(source.shape[1:])
        if inputs > LARGEST_HELD:
            continue
        rows = min(source.shape[0], max(1, DRAW_VALUES // inputs))
        values = values_of(source.read(0, rows * inputs)).reshape(rows, *source.shape[1:])
        found.append(initialiser_of(stored_in(values, other.bits[side])) is not None)
        if len(found) == DRAW_TENSORS:
            break
    return len(found) >= FEWEST_DRAWN_TENSORS and sum(found) > len(found) / 2


def _is_weight(tensor: TensorPair) -> bool:
    source = tensor.sources[0]
    return tensor.role == "parameter" and source is not None and len(source.shape) > 1


def _read(tensors: Sequence[TensorPair], side: int) -> Iterator[tuple[np.ndarray, int]]:
    """First values of each tensor that is large enough, and its number of inputs."""
    step = max(1, len(tensors) // DRAW_TENSORS)
    for tensor in [tensors[0], *tensors[1::step]]:
        source = tensor.sources[side]
        if source is None or source.dtype.kind == "c" or math.prod(source.shape) < FEWEST_DRAWN:
            continue
        values = values_of(source.read(0, min(math.prod(source.shape), DRAW_VALUES)))
        yield values.astype(np.float64), math.prod(source.shape[1:])


def _common_deviation(tensors: Sequence[np.ndarray]) -> float | None:
    """The deviation, where all are normal draws of one, mean 0, as far as samples tell."""
    counts = np.array([len(one) for one in tensors])
    squares = np.array([float(np.square(one).mean()) for one in tensors])
    variance = float((counts * squares).sum() / counts.sum())
    if not 0.0 < variance < math.inf:
        return None
    # Of so many sums of squares the spread is chi-square's.
    apart = float((counts / 2.0 * np.square(squares / variance - 1.0)).sum())
    freedom = len(tensors) - 1
    if apart > freedom + DRAWN_SIGMAS * math.sqrt(2.0 * freedom):
        return None
    pooled = np.concatenate(tensors) / math.sqrt(variance)
    error = DRAWN_SIGMAS / math.sqrt(len(pooled))
    kurtosis = float((pooled**4).mean())
    normal = abs(kurtosis - 3.0) < math.sqrt(24.0) * error and abs(pooled.mean()) < error
    return math.sqrt(variance) if normal else None
