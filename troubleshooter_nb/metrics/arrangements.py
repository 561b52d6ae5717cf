"""Orders in which the elements of one tensor can lie in another, as plain arguments.

Arguments are those of `troubleshooter_nb.metrics.relations.Relation`, and hold numbers and tuples
only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import combinations, permutations
from operator import mul
from typing import Any

import numpy as np

from troubleshooter_nb.metrics.ranges import Layout, c_strides
from troubleshooter_nb.thresholds import (
    AGREEING_ROWS,
    ARRANGEMENT_SAMPLE,
    FEW_BLOCKS,
    MOST_BLOCKS,
    MOST_FLIPPED_AXES,
    MOST_ORDERED_AXES,
)

Arguments = dict[str, Any]


def arranged(kind: str, arguments: Mapping[str, Any], left: np.ndarray) -> np.ndarray:
    """The elements of `left` in the order that a relation without arithmetic gives them."""
    if "axis" in arguments:
        axis = arguments["axis"]
        return np.take(left, row_order(kind, arguments, left.shape[axis]), axis)
    if kind == "slice":
        part = left[_slices(arguments["starts"], arguments["sizes"])]
        return part.reshape(arguments.get("shape", part.shape))
    if kind == "pad":
        padded = np.zeros(arguments["sizes"], left.dtype)
        padded[_slices(arguments["starts"], left.shape)] = left
        return padded
    view = np.flip(left, arguments["axes"]) if kind == "flip" else axis_view(arguments, left)
    return view.reshape(arguments.get("shape", view.shape))


def axis_view(arguments: Mapping[str, Any], left: np.ndarray) -> np.ndarray:
    """A view of C-contiguous `left` with axes ordered and flipped, but not yet reshaped."""
    view = left.reshape(arguments.get("from_shape", left.shape))
    view = view.transpose(arguments.get("axes", range(view.ndim)))
    return np.flip(view, arguments.get("flip", ()))


def layout_of(kind: str, arguments: Mapping[str, Any], left: tuple[int, ...]) -> Layout | None:
    """Where the elements of right lie in `left`; None where rows are named one by one.

    "pad" is no order of left's elements: it is the "slice" of the other side.
    """
    if "axis" in arguments:
        return _row_layout(kind, arguments, left)
    strides = c_strides(left)
    if kind == "slice":
        offset = sum(map(mul, arguments["starts"], strides))
        return Layout(offset, tuple(arguments["sizes"]), strides)
    if kind == "flip":
        arguments = {"flip": arguments["axes"]}
    shape = tuple(arguments.get("from_shape", left))
    axes = arguments.get("axes", range(len(shape)))
    strides = c_strides(shape)
    turned = [(shape[axis], strides[axis]) for axis in axes]
    flipped = {axis % len(shape) for axis in arguments.get("flip", ())}
    offset = sum((n - 1) * step for i, (n, step) in enumerate(turned) if i in flipped)
    steps = (-step if i in flipped else step for i, (_, step) in enumerate(turned))
    return Layout(offset, tuple(n for n, _ in turned), tuple(steps))


def _row_layout(kind: str, arguments: Mapping[str, Any], left: tuple[int, ...]) -> Layout | None:
    axis = arguments["axis"]
    before, rows, after = math.prod(left[:axis]), left[axis], math.prod(left[axis + 1 :])
    if kind == "repeat":
        block, times = arguments["block"], arguments["times"]
        lengths = (before, rows // block, times, block * after)
        return Layout(0, lengths, (rows * after, block * after, 0, 1))
    if "factors" not in arguments:
        return None
    (first, second), inner = arguments["factors"], arguments["inner"] * after
    groups = rows * after // (first * second * inner)
    shape = (before, groups, second, first, inner)
    period = first * second * inner
    return Layout(0, shape, (rows * after, period, inner, second * inner, 1))


def axis_orders(left: tuple[int, ...], right: tuple[int, ...]) -> Iterator[Arguments]:
    """Arguments of every axis order and flip that gives shape `right`, simple ones first.

    Several may mean the same order of elements; see `Layout.merged`.
    """
    orders: list[Arguments] = []
    if len(left) <= MOST_ORDERED_AXES:
        for axes in permutations(range(len(left))):
            shape = tuple(left[axis] for axis in axes)
            orders.append({"axes": axes} | ({} if shape == right else {"shape": right}))
    else:
        orders.append(
            {"axes": tuple(range(len(left)))} | ({"shape": right} if left != right else {})
        )
    if len(right) <= MOST_ORDERED_AXES:
        for axes in permutations(range(len(right))):
            before = tuple(int(right[axes.index(axis)]) for axis in range(len(right)))
            orders.append({"from_shape": before, "axes": axes})
    yield from orders
    if len(right) > MOST_FLIPPED_AXES:
        return
    long = [axis for axis, size in enumerate(right) if size > 1]
    flips = [flip for count in range(1, len(long) + 1) for flip in combinations(long, count)]
    for order in orders:
        if "shape" not in order and not ("from_shape" in order and left == right):
            for flip in flips:
                yield order | {"flip": flip}


def element_key(view: np.ndarray) -> object:
    """Equal for two views of one array exactly when they hold its elements in the same order."""
    merged: list[list[int]] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == stride * size:
            merged[-1] = [merged[-1][0] * size, stride]
        else:
            merged.append([size, stride])
    return view.__array_interface__["data"][0], tuple(map(tuple, merged))


def named_order(
    arguments: Arguments, left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[str, Arguments]:
    """Kind and arguments under which an axis order is reported."""
    axes = arguments["axes"]
    if axes == tuple(range(len(axes))) and arguments.get("from_shape", left) == left:
        if "flip" not in arguments:
            return "reshape", {"shape": right}
        if left == right:
            return "flip", {"axes": arguments["flip"]}
    plain = set(arguments) == {"axes"} and len(axes) == 2
    return ("transpose" if plain else "permute"), arguments


def row_order(kind: str, arguments: Mapping[str, Any], rows: int) -> np.ndarray:
    """Which row of left each row of right is, for kinds with an axis; `rows` is left's count."""
    if "order" in arguments and kind != "blocks":
        return np.array(arguments["order"])
    times = arguments["times"] if kind == "repeat" else 1
    return row_at(kind, arguments, rows, np.arange(rows * times))


def row_at(kind: str, arguments: Mapping[str, Any], rows: int, index: np.ndarray) -> np.ndarray:
    """As `row_order`, for some rows of right."""
    if kind == "repeat":
        block = arguments["block"]
        return np.asarray(index // (block * arguments["times"]) * block + index % block)
    if kind == "blocks":
        length = rows // arguments["blocks"]
        return np.asarray(np.array(arguments["order"])[index // length] * length + index % length)
    if "order" in arguments:
        return np.asarray(np.array(arguments["order"])[index])
    (first, second), inner = arguments["factors"], arguments["inner"]
    group, within = np.divmod(index, first * second * inner)
    row, rest = np.divmod(within, first * inner)
    column, place = np.divmod(rest, inner)
    return np.asarray(((group * first + column) * second + row) * inner + place)


def places_in_left(
    kind: str, arguments: Mapping[str, Any], left: tuple[int, ...], places: np.ndarray
) -> np.ndarray:
    """Where in left the elements of right lie that are at these flat places."""
    layout = layout_of(kind, arguments, left)
    if layout is not None:
        return layout.at(places)
    axis = arguments["axis"]
    rows, after = left[axis], math.prod(left[axis + 1 :])
    before, rest = np.divmod(places, rows * after)
    row, within = np.divmod(rest, after)
    return np.asarray((before * rows + row_at(kind, arguments, rows, row)) * after + within)


def described_order(order: np.ndarray, axis: int) -> Iterator[tuple[str, Arguments]]:
    """The regular orders that `order`, shape (n,), follows in most rows, then the order itself."""
    rows = len(order)
    sample = np.unique(np.linspace(0, rows - 1, ARRANGEMENT_SAMPLE).astype(int))
    blocks = _blocks_of(order, sample)
    if blocks is not None and len(blocks) <= FEW_BLOCKS:
        yield "blocks", {"axis": axis, "blocks": len(blocks), "order": blocks}
    for first, second, inner in _factors(rows):
        arguments = interleave(axis, first, second, inner)
        expected = row_at("row_permutation", arguments, rows, sample)
        if np.mean(order[sample] == expected) >= AGREEING_ROWS:
            yield "row_permutation", arguments
    if blocks is not None and len(blocks) > FEW_BLOCKS:
        yield "blocks", {"axis": axis, "blocks": len(blocks), "order": blocks}
    yield "row_permutation", {"axis": axis, "order": tuple(order.tolist())}


def structured_orders(rows: int, axis: int) -> Iterator[tuple[str, Arguments]]:
    """Orders of two to four equal blocks, and interleaves of so many parts, in any grouping."""
    for count in range(2, FEW_BLOCKS + 1):
        if rows % count == 0 and rows > count:
            for order in list(permutations(range(count)))[1:]:
                yield "blocks", {"axis": axis, "blocks": count, "order": order}
    for inner in divisors(rows):
        rest = rows // inner
        for first in divisors(rest)[1:]:
            for second in divisors(rest // first)[1:]:
                if min(first, second) > FEW_BLOCKS:
                    break
                yield "row_permutation", interleave(axis, first, second, inner)


def interleave(axis: int, first: int, second: int, inner: int) -> Arguments:
    """Arguments of groups of rows (first, second, inner) that become (second, first, inner)."""
    period = first * second * inner
    return {"axis": axis, "period": period, "factors": (first, second), "inner": inner}


@lru_cache(maxsize=1 << 14)
def divisors(number: int) -> tuple[int, ...]:
    """Of a positive number, ascending."""
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return tuple(sorted({*small, *(number // i for i in small)}))


def _blocks_of(order: np.ndarray, sample: np.ndarray) -> tuple[int, ...] | None:
    """The order of the fewest equal blocks of at least two rows, or None."""
    rows = len(order)
    for count in divisors(rows):
        if not 2 <= count <= min(rows // 2, MOST_BLOCKS):
            continue
        length = rows // count
        middle = order[np.arange(count) * length + length // 2] // length
        if len(np.unique(middle)) < count:
            continue
        expected = middle[sample // length] * length + sample % length
        if np.mean(order[sample] == expected) >= AGREEING_ROWS:
            return tuple(middle.tolist())
    return None


def _factors(rows: int) -> Iterator[tuple[int, int, int]]:
    """All (first, second, inner) with two factors above 1 whose product divides `rows`."""
    for inner in divisors(rows):
        for first in divisors(rows // inner)[1:]:
            for second in divisors(rows // inner // first)[1:]:
                yield first, second, inner


def _slices(starts: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(i, i + size) for i, size in zip(starts, sizes, strict=True))
