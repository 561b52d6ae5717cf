"""A batch norm that is part of the weights of the layer before it on one side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb import thresholds
from troubleshooter_nb.analysis.causes.case import Call, Suspicion, TensorPair
from troubleshooter_nb.analysis.causes.operands import operands
from troubleshooter_nb.analysis.causes.parts import thinned_along
from troubleshooter_nb.analysis.causes.searches.stored_statistics import ChannelMap, channel_map
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides, sides_of_any_size
from troubleshooter_nb.analysis.causes.tensors.measure import Error, Sides, error_of, norm_of
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.signatures import values_of
from troubleshooter_nb.ranges import read_copy

Parts = Mapping[str, TensorPair]  # by torch's names


# Among others, as torch counts the batches that a norm has seen.
_OF_NORM = ("weight", "bias", "running_mean", "running_var")


@dataclass(frozen=True)
class _Norm:
    """Parameters and statistics of a norm on one side, shape (channels,), float64."""

    gamma: np.ndarray
    beta: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def factor(self, eps: float) -> np.ndarray:
        """What the norm multiplies each channel by."""
        return np.asarray(self.gamma / np.sqrt(np.maximum(self.variance + eps, 1e-30)))


def detect_folding(layer: Parts, norms: Sequence[tuple[str, Parts]]) -> Suspicion | None:
    """bn_folded: a weight that is the other side's, times gamma / sqrt(var + eps) per channel.

    Parameters
    ----------
    layer : mapping of str to TensorPair
        Parameters of a convolution or dense layer: ``weight``, and ``bias`` where a side has one.
    norms : sequence of (str, mapping of str to TensorPair)
        Paths and ``running_mean``, ``running_var``, ``weight`` and ``bias`` of the norms that may
        follow it, the likeliest first; other layers among them are passed over. The side with
        plain weights is read, or the only one there.

    Returns
    -------
    Suspicion or None
        About the weight's pair. Evidence: ``norm``, ``side`` (the one with folded weights),
        ``eps`` as fitted and its ``eps_uncertainty``, ``channels``, ``smallest_ratio``,
        ``largest_ratio``, and ``bias``: "folded" where it is ``beta + (b - mean) * factor``,
        "other" where it is not, "missing" where that is not zero and the side has none, "" where
        that is zero.

    Notes
    -----
    The rival is one factor for all channels: a norm that multiplies all alike proves nothing.
    """
    if (sides := _weights(layer)) is None:
        return None
    for axis in (0, 1):
        channels = sides.shapes[0][axis]
        if channels < thresholds.FEWEST_CHANNELS or sides.size < 4 * channels:
            continue
        probed = _ratios(sides.few, axis, thresholds.FOLDING_PROBE)[1]
        if probed > thresholds.NO_MULTIPLE or not sides.holds(_ratios(sides, axis)[1]):
            continue
        for name, norm in norms:
            for side in ("left", "right"):
                if found := _folded(sides, axis, side, name, norm, layer.get("bias")):
                    return found
    return None


def detect_folding_by_calls(layer: Parts, calls: Sequence[tuple[str, Call]]) -> Suspicion | None:
    """As `detect_folding`, of norms whose statistics nobody saved: their calls tell the factors.

    A norm that is in use multiplies each channel by what it is folded into; one that was folded
    multiplies nothing.

    Parameters
    ----------
    layer : mapping of str to TensorPair
        As `detect_folding` takes it.
    calls : sequence of (str, Call)
        Calls that may be the norm, by their paths, the likeliest first.
    """
    if (sides := _weights(layer)) is None:
        return None
    channels = sides.shapes[0][0]
    if channels < thresholds.FEWEST_CHANNELS or sides.size < 4 * channels:
        return None
    ratio, rest = _ratios(sides, 0)
    if not sides.holds(rest) or not np.all(ratio):
        return None
    for name, call in calls:
        rank = len(call.outputs[0].shapes[1] or ())
        both = operands(thinned_along(call, (0, *range(2, rank))))
        left, right = (None, None) if both is None else map(channel_map, both)
        if left is None or right is None or len(left.slope) != channels:
            continue
        # A folded norm does nothing; the other one is what the weights hold.
        factor = right.slope / left.slope
        residual = _scaled_error(sides, factor, 0)
        is_folded = [bool(np.ptp(one.slope) <= thresholds.SAME_DEVIATION) for one in (left, right)]
        if is_folded[0] == is_folded[1] or not sides.holds(residual):
            continue
        evidence: dict[str, Any] = {
            "norm": name,
            "side": "left" if is_folded[0] else "right",
            "eps": Message("evidence.some_eps"),
            "channels": channels,
            "smallest_ratio": float(ratio.min()),
            "largest_ratio": float(ratio.max()),
            "bias": _bias_by_call(
                layer.get("bias"), (left, right), 0 if is_folded[0] else 1, sides.floor
            ),
        }
        return sides.suspicion("bn_folded", residual, evidence, rival=_one_factor(sides))
    return None


def _weights(layer: Parts) -> Sides | None:
    """Both sides' weight where it may be that of a convolution or dense layer."""
    weight = layer.get("weight")
    sides = sides_of_any_size(weight) if weight is not None else None
    is_one = sides is not None and sides.same_shape and len(sides.shapes[0]) > 1
    return sides if is_one else None


def _ratios(sides: Sides, axis: int, columns: int | None = None) -> tuple[np.ndarray, float]:
    """Left over right per channel, and the error that is left once they are applied."""
    if isinstance(sides, LargeSides):
        return _ratios_of_all(sides, axis)
    left, right = (
        np.moveaxis(one, axis, 0).reshape(one.shape[axis], -1)[:, :columns].astype(np.float64)
        for one in (sides.left, sides.right)
    )
    square = np.einsum("ij,ij->i", right, right)
    ratio = np.einsum("ij,ij->i", left, right) / np.where(square, square, 1.0)
    return ratio, error_of(ratio[:, None] * right, left)


def _ratios_of_all(sides: LargeSides, axis: int) -> tuple[np.ndarray, float]:
    """As `_ratios`, of all elements of a large pair, from sums per channel."""
    sums = np.zeros((3, sides.shapes[0][axis]))
    for index, *both in sides.slabs(axis):
        x, y = (np.where(np.isfinite(one), one, 0.0).astype(np.float64) for one in both)
        for number, two in enumerate(((x, x), (x, y), (y, y))):
            sums[number, index] += np.einsum("ijk,ijk->j", *two)
    left, product, right = sums
    ratio = product / np.where(right, right, 1.0)
    rest = float(np.maximum(left - ratio * product, 0.0).sum())
    return ratio, math.sqrt(rest / float(left.sum() or 1.0))


def _scaled_error(sides: Sides, factor: np.ndarray, axis: int) -> float:
    """Error of left, held against right times a factor per channel."""
    if not isinstance(sides, LargeSides):
        shape = [1] * sides.left.ndim
        shape[axis] = len(factor)
        return error_of(sides.left, sides.right * factor.reshape(shape))
    total = Error(is_quick=True)
    for index, left, right in sides.slabs(axis):
        total.add(left, right * factor[index][:, None])
    return total.value


def _folded(
    sides: Sides, axis: int, side: str, name: str, parts: Parts, bias: TensorPair | None
) -> Suspicion | None:
    """What the weights say of one norm, `side` being the one that holds it."""
    plain = 1 if side == "left" else 0
    norm = _norm(parts, plain, sides.shapes[0][axis])
    if norm is None:
        return None
    whole = sides if side == "left" else sides.reversed
    ratio, _ = _ratios(whole, axis)
    good = (ratio != 0.0) & (norm.gamma != 0.0)
    if good.sum() < thresholds.FEWEST_CHANNELS:
        return None
    # Channels of small variance tell eps best: the error of the ratio counts relative to it.
    wanted = np.square(norm.gamma[good] / ratio[good])
    information = 1.0 / np.square(np.maximum(wanted, 1e-30))
    eps = float((information * (wanted - norm.variance[good])).sum() / information.sum())
    # Rounding of the weights moves what was fitted.
    precision = 2.0 * sides.floor / float(np.sqrt(information.sum()))
    if not -1e-6 - 4.0 * precision <= eps <= thresholds.LARGEST_FOLDED_EPS:
        return None
    eps = max(eps, 0.0)
    factor = norm.factor(eps)
    residual = _scaled_error(whole, factor, axis)
    if not whole.holds(residual, fitted=1):
        return None
    evidence: dict[str, Any] = {
        "norm": name,
        "side": side,
        "eps": eps,
        "eps_uncertainty": precision,
        "channels": len(ratio),
        "smallest_ratio": float(ratio[good].min()),
        "largest_ratio": float(ratio[good].max()),
        "bias": _bias(bias, norm, plain, factor, sides.floor),
    }
    return whole.suspicion("bn_folded", residual, evidence, rival=_one_factor(whole), fitted=1)


def _one_factor(sides: Sides) -> float:
    """What the best factor for all channels leaves."""
    if isinstance(sides, LargeSides):
        cosine = sides.cosine
        return math.sqrt(max(1.0 - cosine**2, 0.0)) / abs(cosine) if cosine else math.inf
    left, right = sides.left.astype(np.float64), sides.right.astype(np.float64)
    return error_of(left, right * float(np.vdot(right, left) / np.vdot(right, right)))


def _norm(parts: Parts, side: int, channels: int) -> _Norm | None:
    """The norm as the side with plain weights has it, else the other; None of another size."""
    sources = {name: _source(parts[name], side) for name in _OF_NORM if name in parts}
    shapes = {source.shape for source in sources.values() if source is not None}
    # Of most layers shapes tell that they are no norm of these channels: nothing is read.
    if sources.get("running_var") is None or shapes != {(channels,)}:
        return None
    known = {name: _values(source) for name, source in sources.items() if source is not None}
    zeros = np.zeros(channels)
    gamma, beta = known.get("weight", zeros + 1.0), known.get("bias", zeros)
    mean, variance = known.get("running_mean", zeros), known["running_var"]
    return _Norm(gamma, beta, mean, variance) if (variance >= 0).all() else None


def _source(tensor: TensorPair, side: int) -> ArraySource | None:
    """One side of a pair, the other where that has none."""
    both = [source for source in tensor.sources[:: -1 if side else 1] if source is not None]
    return both[0] if both else None


def _values(source: ArraySource) -> np.ndarray:
    values = computable(read_copy(source, 0, math.prod(source.shape)))
    return values_of(values).astype(np.float64)


def _bias_by_call(
    bias: TensorPair | None, maps: tuple[ChannelMap, ChannelMap], side: int, floor: float
) -> str:
    """Whether the bias of the side with folded weights is what the other side's norm adds."""
    both = (bias.left, bias.right) if bias is not None else (None, None)
    own, plain = (
        None if one is None else values_of(one).astype(np.float64)
        for one in both[:: -1 if side else 1]
    )
    if own is None:
        return ""
    other = maps[1 - side]
    wanted = other.offset + (0.0 if plain is None else other.slope * plain)
    limit = max(thresholds.SAME_DEVIATION, thresholds.FOLDED_BIAS_ROUNDINGS * floor)
    is_near = own.shape == wanted.shape and error_of(own, wanted) <= limit
    return "folded" if is_near else "other"


def _bias(
    bias: TensorPair | None, norm: _Norm, plain: int, factor: np.ndarray, floor: float
) -> str:
    """Whether the bias of the side that holds the norm is what folding makes of it."""
    values = (bias.left, bias.right) if bias is not None else (None, None)
    own, folded = (
        np.zeros(0) if one is None else values_of(one).astype(np.float64)
        for one in (values[plain], values[1 - plain])
    )
    terms = norm.beta, ((own if own.size else 0.0) - norm.mean) * factor
    limit = thresholds.FOLDED_BIAS_ROUNDINGS * floor * sum(norm_of(term) for term in terms)
    wanted = terms[0] + terms[1]
    if not folded.size:
        return "missing" if norm_of(wanted) > limit else ""
    near = folded.shape == wanted.shape and norm_of(folded - wanted) <= limit
    return "folded" if near else "other"
