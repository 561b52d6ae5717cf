"""Axis orders, flips, blocks and interleaves: equal values that lie elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from troubleshooter_nb.analysis.causes.case import Suspicion
from troubleshooter_nb.analysis.causes.tensors.large import LargeSides
from troubleshooter_nb.analysis.causes.tensors.measure import Sides, error_of, transform
from troubleshooter_nb.metrics.derivations import derivation_between
from troubleshooter_nb.metrics.ranges import InMemory
from troubleshooter_nb.metrics.relations import Relation, find_relation, relation_of
from troubleshooter_nb.metrics.signatures import spread_of
from troubleshooter_nb.naming.roles import (
    is_expert,
    is_gate,
    is_gated,
    is_packed_attention,
    is_query_or_key,
    is_recurrent,
)
from troubleshooter_nb.thresholds import FEWEST_ORDERED, IN_ORDER

_GATES = {3: ("r", "z", "n"), 4: ("i", "f", "g", "o")}

_ORDERS = ("transpose", "permute", "flip", "blocks", "row_permutation", "repeat")

Found = tuple[str, dict[str, Any]]


def detect_layout(sides: Sides) -> list[Suspicion]:
    """The cause of an order in which the values of left lie on the right, if one order fits."""
    if sides.size < FEWEST_ORDERED or _is_in_order(sides):
        return []
    relation, side = None, "left"
    left, right = map(math.prod, sides.shapes)
    if left > right:
        # "repeat" is found from the fewer rows to the more, among which the fewer may lie in a row.
        relation, side = _relation(sides, "right"), "right"
        relation = relation if relation and relation.kind == "repeat" else None
    if relation is None:
        relation, side = _relation(sides), "left"
    if relation is None:
        return []
    found = _cause_of(sides, relation)
    return [_suspicion(sides, relation, side, *found)] if found else []


def observed_relation(sides: Sides) -> dict[str, Any]:
    """The order of left's values in which they lie on the right, {} for none."""
    if _is_in_order(sides):
        return {}
    relation = _relation(sides)
    if relation is None:
        return observed_derivation(sides)
    if relation.kind not in _ORDERS:
        return {}
    return {"text": relation.text, "residual": _left_over(sides, relation)[0]}


def observed_derivation(sides: Sides) -> dict[str, Any]:
    """The steps, two at most, that turn a weight of left into that of right, {} for none."""
    if isinstance(sides, LargeSides) or not _is_weight(sides):
        return {}
    found = derivation_between(InMemory(sides.left), InMemory(sides.right))
    return {} if found is None else {"text": found.said(), "residual": found.residual}


def _is_in_order(sides: Sides) -> bool:
    """Whether the values of a large pair lie where they belong, as far as figures tell.

    Of a matrix that is nearly symmetric they do not.
    """
    if not isinstance(sides, LargeSides) or not sides.same_shape:
        return False
    shape = sides.shapes[0]
    return sides.spread <= IN_ORDER and not (len(shape) == 2 and shape[0] == shape[1])


def _relation(sides: Sides, side: str = "left") -> Relation | None:
    """What turns one side into the other."""
    if isinstance(sides, LargeSides):
        return relation_of(*(sides.streams if side == "left" else sides.streams[::-1]))
    whole = sides if side == "left" else sides.reversed
    return find_relation(whole.left, whole.right)


def _left_over(sides: Sides, relation: Relation, side: str = "left") -> tuple[float, float]:
    """What a relation leaves, and its rival, about zero: it measures about the mean of right."""
    if isinstance(sides, LargeSides):
        about = sides.centred(1 if side == "left" else 0)
        return relation.residual * about, relation.rival * about
    whole = sides if side == "left" else sides.reversed
    spread = spread_of(whole.right)
    rival = relation.rival * spread.centred / (spread.norm or 1.0)
    return error_of(relation.apply(whole.left), whole.right), rival


def detect_reordered(sides: Sides) -> list[Suspicion]:
    """flatten_order, rope_interleave: features that lie in the order of another layout."""
    causes = ("flatten_order", "rope_interleave")
    return [one for one in detect_layout(sides) if one.cause in causes]


def _suspicion(
    sides: Sides, relation: Relation, side: str, cause: str, more: Mapping[str, Any]
) -> Suspicion:
    residual, rival = _left_over(sides, relation, side)
    given = {key: value for key, value in relation.arguments.items() if key != "order"}
    order = relation.arguments.get("order", ())
    if len(order) and len(order) <= 64:
        given["order"] = order
    evidence = {"kind": relation.kind, "text": relation.text, **given, **more}
    return sides.suspicion(cause, residual, evidence, rival=rival)


def _cause_of(sides: Sides, relation: Relation) -> Found | None:
    namers = {
        "reshape": _of_reshape,
        "transpose": _of_axes,
        "permute": _of_axes,
        "flip": _of_flip,
        "blocks": _of_blocks,
        "row_permutation": _of_rows,
        "repeat": _of_repeat,
        "slice": _of_slice,
    }
    namer = namers.get(relation.kind)
    return namer(sides, relation.arguments) if namer else None


def _is_weight(sides: Sides) -> bool:
    return sides.tensor.role in ("parameter", "buffer")


def _of_reshape(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    shapes = sides.shapes
    few, many = sorted(shapes, key=len)
    if not _is_weight(sides) or len(many) != len(few) + 1 or len(few) < 2:
        return None
    axes = [k for k, size in enumerate(many) if size == 1 and many[:k] + many[k + 1 :] == few]
    if not axes:
        return None
    # Of several axes of size 1 the one that MindSpore's 2-D kernel of a Conv1d has.
    axis = 2 if 2 in axes else axes[-1]
    step = transform("squeeze" if shapes[0] == many else "expand_dims", axis)
    return "conv1d_extra_axis", {"axis": axis, "transform": step}


def _of_axes(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    axes = tuple(given["axes"])
    # A reshape on top has no name among the causes.
    if not _is_weight(sides) or "from_shape" in given or "shape" in given:
        return None
    if "flip" in given:
        return ("conv_axes_permuted", {"axes": axes}) if len(axes) > 2 else None
    if len(axes) == 2:
        return "linear_transposed", {"axes": axes, "transform": transform("transpose")}
    step = transform("permute", *axes)
    if len(axes) == 3 and axes == (0, 2, 1) and is_expert(sides.tensor.name):
        return "linear_transposed", {"axes": axes, "transform": step}
    return "conv_axes_permuted", {"axes": axes, "transform": step}


def _of_flip(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    axes, shape = tuple(given["axes"]), sides.shapes[1]
    channels = (1,) if _is_weight(sides) else (1, len(shape) - 1, len(shape) - 3)
    if len(axes) == 1 and axes[0] in channels and shape[axes[0]] in (3, 4) and len(shape) >= 3:
        return "channel_order_bgr", {"axis": axes[0], "channels": shape[axes[0]]}
    if _is_weight(sides) and len(shape) >= 3 and min(axes) >= 2:
        return "conv_axes_permuted", {"flipped": axes}
    if _is_weight(sides) and len(shape) == 4 and axes == (2,) and shape[2] == 3:
        return "channel_order_bgr", {"axis": 2, "channels": 3}
    return None


def _of_blocks(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    count, name = given["blocks"], sides.tensor.name
    if not _is_weight(sides):
        return None
    rows = sides.shapes[1][given["axis"]]
    more = {"rows": rows // count}
    if is_recurrent(name) and count in _GATES:
        gates = _GATES[count]
        return "lstm_gate_order", {**more, "gates": [gates[i] for i in given["order"]]}
    if is_packed_attention(name):
        return "qkv_packing", more
    if count == 2 and is_gated(name):
        return "gate_up_order", more
    # The name says nothing: three blocks are packed nowhere else. Two or four may be heads.
    return ("qkv_packing", more) if count == 3 and given["axis"] == 0 else None


def _of_rows(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    if "order" in given:
        return _of_order(sides, given)
    axis, factors, inner = given["axis"], tuple(given["factors"]), given["inner"]
    shape, name = sides.shapes[1], sides.tensor.name
    if not _is_weight(sides):
        full = given["period"] == shape[axis] and axis == len(shape) - 1 and axis > 0
        if not full or inner > 1:
            return None
        if 2 in factors:
            # Pairs that became halves: no image is two wide.
            return "rope_interleave", {"heads": 1, "head_size": shape[axis]}
        return "flatten_order", _flatten(factors, inner)
    if is_recurrent(name) and 4 in factors:
        return "lstm_gate_order", {"rows": inner}
    if inner == 1 and 2 in factors and axis == 0 and is_gated(name):
        return "gate_up_order", {"rows": inner}
    heads = shape[axis] // given["period"]
    if inner == 1 and 2 in factors and axis == 0 and (heads > 1 or is_query_or_key(name)):
        return "rope_interleave", {"heads": heads, "head_size": given["period"]}
    if inner > 1 and axis == 0 and (3 in factors or is_packed_attention(name)):
        return "qkv_packing", {"heads": max(factors), "rows": inner}
    if len(shape) == 2 and given["period"] == shape[axis] and axis == 1:
        return "flatten_order", _flatten(factors, inner)
    return None


def _flatten(factors: tuple[int, ...], inner: int) -> dict[str, Any]:
    # (C, H*W) became (H*W, C): the larger of the two is not always the area.
    return {"first": factors[0], "second": factors[1] * inner}


def _of_order(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    order, axis = np.asarray(given["order"]), given["axis"]
    if not _is_weight(sides):
        if axis or len(order) < 2:
            return None
        moved = int((order != np.arange(len(order))).sum())
        return "data_order", {"moved": moved, "rows": len(order), "what": "rows permuted"}
    if axis == 0 and is_packed_attention(sides.tensor.name):
        jumps = np.flatnonzero(np.diff(order) != 1) + 1
        piece = int(np.gcd.reduce(jumps)) if len(jumps) else 1
        # Heads move whole.
        if piece > 1 and len(order) % piece == 0:
            return "qkv_packing", {"rows": piece}
    return None


def _of_repeat(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    if not _is_weight(sides) or given["axis"] != 0:
        return None
    return "grouped_heads", {"heads": min(shape[0] for shape in sides.shapes) // given["block"]}


def _of_slice(sides: Sides, given: Mapping[str, Any]) -> Found | None:
    """Right is one of the parts that left holds packed."""
    left, right = sides.shapes
    if not _is_weight(sides) or len(left) != len(right) or left[1:] != right[1:]:
        return None
    start, size, whole = given["starts"][0], right[0], left[0]
    sizes = [n for n in (start, size, whole - start - size) if n]
    more = {"rows": size, "start": start, "transform": transform("split", 0, *sizes)}
    if is_packed_attention(sides.tensor.name):
        return "qkv_packing", more
    if whole == 2 * size and start % size == 0 and is_gate(sides.tensor.name):
        return "gate_up_order", more
    return None
