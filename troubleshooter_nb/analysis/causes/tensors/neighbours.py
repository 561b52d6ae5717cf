"""Values of one tensor that are those of another: wrong layers, ties, folded norms, sums."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion, Twin
from troubleshooter_nb.analysis.causes.tensors.measure import (
    Sides,
    error_of,
    is_constant,
    sides_of,
    transform,
)
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.metrics.signatures import values_of

_FEWEST = 16
_FEWEST_VALUES = 8
_PROBE = 256
_EQUAL = 1e-3  # of a match; two layers of one network are further apart
_HEAD = re.compile(r"lm_head|head|output|decoder|classifier|predictions|logits", re.IGNORECASE)
_EMBEDDING = re.compile(r"emb|wte|tok|shared", re.IGNORECASE)
_NUMBERED = re.compile(r"(^|[._/])\d+([._/]|$)")
_VARIANCE = re.compile(r"(running_var|moving_variance|variance|\bvar)$")
_BN_PARTS = {
    "mean": ("running_mean", "moving_mean", "mean"),
    "gamma": ("weight", "gamma"),
    "beta": ("bias", "beta"),
}
_LARGEST_EPS = 0.1


def detect_tied(sides: Sides, others: Sequence[Twin]) -> list[Suspicion]:
    """tied_weights_broken: a head that equals the embedding on one side only."""
    name = sides.twin.name
    if sides.left.ndim != 2 or sides.left.size < _FEWEST or not sides.same_shape:
        return []
    for other in others:
        if other is sides.twin or not (
            _are_tied_names(name, other.name) or _may_be_tied(sides.left.shape, name, other.name)
        ):
            continue
        partner = sides_of(other)
        if partner is None or partner.left.shape != sides.left.shape or not partner.same_shape:
            continue
        tied = (
            error_of(sides.left, partner.left) <= sides.floor,
            error_of(sides.right, partner.right) <= sides.floor,
        )
        if tied[0] != tied[1] and not is_constant(sides.left) and not is_constant(sides.right):
            residual = (
                error_of(sides.left, partner.right)
                if tied[0]
                else error_of(partner.left, sides.right)
            )
            evidence = {"other": other.name, "tied": "left" if tied[0] else "right"}
            return [sides.suspicion("tied_weights_broken", residual, evidence)]
    return []


def detect_wrong_layer(sides: Sides, others: Sequence[Twin]) -> list[Suspicion]:
    """wrong_layer_loaded: left holds what another name holds on the right.

    Of an input: data_order, as it is that of another call.
    """
    if not sides.same_shape or sides.left.size < _FEWEST or is_constant(sides.left):
        return []
    # Masks and flags are alike by chance.
    if sides.integers and len(np.unique(sides.left)) < _FEWEST_VALUES:
        return []
    matches = []
    for other in others:
        if other is sides.twin:
            continue
        for side, values, source in (
            ("left", sides.left, other.sources[1]),
            ("right", sides.right, other.sources[0]),
        ):
            if source is not None and _likely(values, source):
                theirs = other.right if side == "left" else other.left
                if theirs is not None:
                    matches.append((error_of(values, values_of(theirs)), side, other.name))
    matches.sort()
    limit = max(4.0 * sides.floor, _EQUAL)
    if not matches or matches[0][0] > limit or matches[0][0] > 0.1 * sides.before:
        return []
    residual, side, name = matches[0]
    held = {one[2] for one in matches if one[0] <= limit}
    cause = "data_order" if sides.twin.role == "input" else "wrong_layer_loaded"
    evidence = {
        "other": name,
        "side": side,
        "equal": sorted(held),
        "duplicates": _duplicates(sides, others),
        "what": "values of another call",
    }
    return [sides.suspicion(cause, residual, evidence)]


def detect_folded(sides: Sides, others: Sequence[Twin]) -> list[Suspicion]:
    """bn_folded: a convolution's weight that is the other's, times gamma / sqrt(var + eps).

    eps is fitted; the parameters of the norm are looked for in `others`, on either side.
    """
    if not sides.same_shape or sides.left.ndim < 2 or sides.twin.role not in ("", "parameter"):
        return []
    for axis in (0, 1):
        channels = sides.left.shape[axis]
        if channels < 4 or sides.left.size < 4 * channels:
            continue
        # Only a row that is a multiple of the other can be folded; most fail in a few columns.
        if _ratios(sides, axis, _PROBE)[1] > 0.1:
            continue
        ratio, spread = _ratios(sides, axis)
        if spread > max(8.0 * sides.floor, 1e-3) or np.ptp(ratio) <= 1e-3 * np.abs(ratio).max():
            continue
        for norm in _norms(others, channels):
            if found := _folded(sides, axis, ratio, norm):
                return found
    return []


def detect_summed_bias(sides: Sides, others: Sequence[Twin]) -> list[Suspicion]:
    """lstm_gate_order: one bias on one side that is the sum of two on the other."""
    if not sides.same_shape or "bias_ih" not in sides.twin.name or sides.left.size < _FEWEST:
        return []
    wanted = sides.twin.name.replace("bias_ih", "bias_hh")
    for other in others:
        if other.name != wanted:
            continue
        # Of the side that has one bias the second is absent, or zero.
        for side, one, ours, theirs in (
            ("left", sides.left, sides.right, other.right),
            ("right", sides.right, sides.left, other.left),
        ):
            if theirs is None or theirs.shape != ours.shape:
                continue
            residual = error_of(one, ours + values_of(theirs))
            if sides.holds(residual):
                evidence: dict[str, Any] = {"other": wanted, "side": side, "kind": "sum"}
                evidence["text"] = f"{side} is the sum of the two biases of the other side"
                if side == "right":
                    evidence["transform"] = transform("add")
                return [sides.suspicion("lstm_gate_order", residual, evidence)]
    return []


def _are_tied_names(name: str, other: str) -> bool:
    pairs = ((name, other), (other, name))
    return any(_HEAD.search(head) and _EMBEDDING.search(table) for head, table in pairs)


def _may_be_tied(shape: tuple[int, ...], name: str, other: str) -> bool:
    """Whether one is a head and the other, of whatever name, outside all numbered layers.

    Square matrices are those of layers, and seldom a vocabulary's.
    """
    heads = [bool(_HEAD.search(one)) for one in (name, other)]
    numbered = any(_NUMBERED.search(one) for one in (name, other))
    return heads[0] != heads[1] and not numbered and shape[0] > shape[1]


def _likely(values: np.ndarray, source: ArraySource) -> bool:
    """Whether the first values, and as many in the middle, are near."""
    if source.shape != values.shape or arithmetic_of(source.dtype) not in ("float", "integer"):
        return False
    flat = values.reshape(-1)
    for start in (0, flat.size // 2):
        stop = min(start + _PROBE, flat.size)
        theirs = values_of(source.read(start, stop))
        if error_of(flat[start:stop], theirs) > 1e-2:
            return False
    return True


def _duplicates(sides: Sides, others: Sequence[Twin]) -> list[str]:
    """Names that hold the same values on the left: two were filled from one."""
    found = []
    for other in others:
        source = other.sources[0]
        if other is not sides.twin and source is not None and _likely(sides.left, source):
            found.append(other.name)
    return found[:8]


def _ratios(sides: Sides, axis: int, columns: int | None = None) -> tuple[np.ndarray, float]:
    """Left over right per channel, and the error that is left once they are applied."""
    left, right = (
        np.moveaxis(one, axis, 0).reshape(one.shape[axis], -1)[:, :columns].astype(np.float64)
        for one in (sides.left, sides.right)
    )
    square = np.einsum("ij,ij->i", right, right)
    ratio = np.einsum("ij,ij->i", left, right) / np.where(square, square, 1.0)
    norm = float(np.linalg.norm(left))
    return ratio, float(np.linalg.norm(left - ratio[:, None] * right)) / (norm or 1.0)


def _norms(others: Sequence[Twin], channels: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Gamma and variance of every batch norm of so many channels, from the side that has it."""
    names = {other.name: other for other in others}
    for name, other in names.items():
        match = _VARIANCE.search(name)
        if match is None:
            continue
        for side in (0, 1):
            parts = {"var": _one_side(other, side)}
            for part, words in _BN_PARTS.items():
                for word in words:
                    sibling = names.get(name[: match.start()] + word)
                    if part not in parts and sibling is not None:
                        parts[part] = _one_side(sibling, side)
            known = {part: values for part, values in parts.items() if values is not None}
            fits = all(known.get(part, np.zeros(0)).shape == (channels,) for part in ("var",))
            if fits:
                yield name[: match.start()].rstrip("."), known


def _one_side(twin: Twin, side: int) -> np.ndarray | None:
    values = (twin.left, twin.right)[side]
    return None if values is None else values_of(values).astype(np.float64)


def _folded(
    sides: Sides, axis: int, ratio: np.ndarray, norm: tuple[str, dict[str, np.ndarray]]
) -> list[Suspicion]:
    name, parts = norm
    variance = parts["var"]
    gamma = parts.get("gamma", np.ones_like(variance))
    if gamma.shape != variance.shape or not (variance >= 0).all():
        return []
    for side, factor in (("left", ratio), ("right", 1.0 / np.where(ratio, ratio, np.inf))):
        good = (factor != 0.0) & (gamma != 0.0)
        if good.sum() < 4:
            continue
        # Channels of small variance tell eps best: the error of the ratio counts relative to it.
        wanted = np.square(gamma[good] / factor[good])
        weight = 1.0 / np.square(np.maximum(wanted, 1e-30))
        eps = float((weight * (wanted - variance[good])).sum() / weight.sum())
        # Rounding of the weights moves what was fitted.
        precision = 2.0 * sides.floor / float(np.sqrt(weight.sum()))
        if not -1e-6 - 4.0 * precision <= eps <= _LARGEST_EPS:
            continue
        model = gamma / np.sqrt(np.maximum(variance + max(eps, 0.0), 1e-30))
        applied = model if side == "left" else 1.0 / np.where(model, model, np.inf)
        shape = [1] * sides.left.ndim
        shape[axis] = len(applied)
        residual = error_of(sides.left, (sides.right * applied.reshape(shape)))
        if sides.holds(residual, fitted=1):
            evidence = {"norm": name, "side": side, "eps": max(eps, 0.0), "channels": len(ratio)}
            evidence |= {"eps_uncertainty": precision}
            evidence |= {"smallest_ratio": float(factor[good].min())}
            evidence |= {"largest_ratio": float(factor[good].max())}
            return [sides.suspicion("bn_folded", residual, evidence, fitted=1)]
    return []
