"""Transforms of one tensor whose rows along one axis come in another order, or some of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.transforms.kind import (
    Argument,
    Arguments,
    Kind,
    MisfitError,
    Proposals,
    Runs,
    Targets,
    as_weights,
    axis_of,
    range_word,
    row_range,
    without,
)
from troubleshooter_nb.transforms.spec import Spec

# Orders of equal blocks that are asked for: halves, gates of a GRU, gates of an LSTM.
_KNOWN_ORDERS = ((1, 0), (1, 0, 2), (0, 2, 1, 3))
_MOST_RANGES_SAID = 6
_ORDERS_KEPT = 1 << 6
_MOST_RUNS = 1 << 26  # that rows are repeated in

RowsOf = Callable[..., tuple[int, Runs]]


def runs_of(order: np.ndarray) -> Runs:
    """The runs of neighbouring rows in an order, shape (n,) of ints."""
    if not len(order):
        return np.empty((0, 2), np.int64)
    begins = np.flatnonzero(np.diff(order, prepend=order[0] - 2) != 1)
    runs = np.stack([order[begins], np.diff(begins, append=len(order))], 1)
    return np.asarray(runs, np.int64)


def order_of(runs: Runs) -> np.ndarray:
    """Which row each row is made of, shape (rows,)."""
    lengths = runs[:, 1]
    begins = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(int(lengths.sum())) + np.repeat(runs[:, 0] - begins, lengths))


def ranges_of(runs: Runs) -> tuple[str, ...]:
    """The words of runs, as the arguments of ``take`` hold them."""
    firsts, lengths = runs[:, 0], runs[:, 1]
    words = [*map(str, firsts.tolist())]
    for at in np.flatnonzero(lengths > 1).tolist():
        words[at] = range_word(int(firsts[at]), int(firsts[at] + lengths[at]))
    return tuple(words)


def _made(rows: RowsOf) -> Callable[..., list[Spec]]:
    """The shape of what `rows` says is taken."""

    def specs(sources: Sequence[Spec], *arguments: Any) -> list[Spec]:
        axis, runs = rows(sources[0], *arguments)
        return [Spec(without(sources[0].shape, axis, int(runs[:, 1].sum())), sources[0].dtype)]

    return specs


def _taken(rows: RowsOf) -> Callable[..., list[np.ndarray]]:
    """The rows that `rows` says are taken."""

    def forward(arrays: Sequence[np.ndarray], *arguments: Any) -> list[np.ndarray]:
        axis, runs = rows(Spec(arrays[0].shape, arrays[0].dtype), *arguments)
        return [np.take(arrays[0], order_of(runs), axis)]

    return forward


def _one_length(sources: Sequence[Spec], axis: int) -> int | None:
    """How many rows all sources have along an axis; None where they differ."""
    lengths = {source.shape[axis] for source in sources}
    return lengths.pop() if len(lengths) == 1 else None


def _block_rows(source: Spec, axis: int, order: tuple[int, ...]) -> tuple[int, Runs]:
    at = axis_of(axis, len(source.shape))
    length, rest = divmod(source.shape[at], len(order)) if order else (0, 1)
    if sorted(order) != [*range(len(order))] or rest:
        said = {"count": len(order), "axis": axis, "length": source.shape[at]}
        raise MisfitError(Message("transforms.no_blocks", **said))
    return at, np.array([(block * length, length) for block in order], np.int64)


def _known_blocks(sources: Sequence[Spec], targets: Targets) -> Proposals:
    shape = sources[0].shape
    if targets[0] != shape:
        return
    for axis, order in itertools.product(range(len(shape)), _KNOWN_ORDERS):
        if shape[axis] > len(order) and shape[axis] % len(order) == 0:
            yield (axis, *order)


BLOCKS = Kind(
    name="blocks",
    gradients=as_weights,
    words=lambda axis, order: Message("transforms.blocks", axis=axis, order=[*order]),
    examples={"blocks(0, 1, 0)": [(6, 2)], "blocks(-1, 0, 2, 1, 3)": [(2, 8)]},
    arguments=(Argument("axis"), Argument("order", several=True)),
    specs=_made(_block_rows),
    gives="rows",
    rows=_block_rows,
    forward=_taken(_block_rows),
    inverse=lambda _, axis, order: ("blocks", (axis, *np.argsort(order).tolist())),
    proposals=_known_blocks,
    is_asked_for=True,
)


def _taken_rows(source: Spec, axis: int, ranges: tuple[str, ...]) -> tuple[int, Runs]:
    at = axis_of(axis, len(source.shape))
    runs = _runs_said(ranges)
    if not len(runs) or int((runs[:, 0] + runs[:, 1]).max()) > source.shape[at]:
        said = {"axis": axis, "length": source.shape[at]}
        raise MisfitError(Message("transforms.no_such_rows", **said))
    return at, runs


# A map asks the same of a row several times, and of many rows.
@lru_cache(maxsize=_ORDERS_KEPT)
def _runs_said(ranges: tuple[str, ...]) -> Runs:
    ends = [word.partition(":") for word in ranges]
    firsts = np.array([int(first) for first, _, _ in ends], np.int64)
    stops = np.array([int(stop) if stop else 0 for _, _, stop in ends], np.int64)
    runs: Runs = np.stack([firsts, np.where(stops > 0, stops - firsts, 1)], 1)
    runs.flags.writeable = False
    return runs


def _put_back(
    sources: Sequence[Spec], axis: int, ranges: tuple[str, ...]
) -> tuple[str, Arguments] | None:
    """The rows where they were; None where one is missing."""
    length = _one_length(sources, axis)
    if length is None:
        return None
    _taken_rows(sources[0], axis, ranges)  # that there are such rows
    back = _ranges_back(length, ranges)
    return ("take", (axis, *back)) if back else None


@lru_cache(maxsize=_ORDERS_KEPT)
def _ranges_back(length: int, ranges: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the rows taken each of `length` is; empty where one is missing."""
    kept, places = np.unique(order_of(_runs_said(ranges)), return_index=True)
    return ranges_of(runs_of(places)) if len(kept) == length else ()


def _lost_rows(sources: Sequence[Spec], axis: int, ranges: tuple[str, ...]) -> str:
    at, runs = _taken_rows(sources[0], axis, ranges)
    lost = sources[0].shape[at] - len(np.unique(order_of(runs)))
    said = {"count": lost, "length": sources[0].shape[at], "axis": axis}
    return Message("transforms.rows_lost", **said) if lost else ""


def _either_end(sources: Sequence[Spec], targets: Targets) -> Proposals:
    shape, target = sources[0].shape, targets[0]
    if target is None or len(target) != len(shape):
        return
    unequal = [axis for axis, rows in enumerate(shape) if rows != target[axis]]
    if len(unequal) != 1 or not 0 < target[unequal[0]] < shape[unequal[0]]:
        return
    axis, rows = unequal[0], target[unequal[0]]
    yield axis, f"0:{rows}"
    yield axis, f"{shape[axis] - rows}:{shape[axis]}"


def _range_words(axis: int, ranges: tuple[str, ...]) -> Message:
    if len(ranges) > _MOST_RANGES_SAID:
        said = {"axis": axis, "count": len(ranges), "some": [*ranges[:_MOST_RANGES_SAID]]}
        return Message("transforms.take_many", **said)
    return Message("transforms.take", axis=axis, ranges=[*ranges])


TAKE = Kind(
    name="take",
    gradients=as_weights,
    words=_range_words,
    examples={
        "take(0, 4:6, 0:4)": [(6, 2)],
        "take(1, 0:3)": [(2, 4)],
        "take(-1, 2, 0, 1)": [(2, 3)],
    },
    arguments=(Argument("axis"), Argument("ranges", row_range, several=True)),
    specs=_made(_taken_rows),
    gives="rows",
    rows=_taken_rows,
    forward=_taken(_taken_rows),
    inverse=_put_back,
    proposals=_either_end,
    is_asked_for=True,
    loss=_lost_rows,
)


def _repeated_rows(source: Spec, axis: int, times: int, block: int) -> tuple[int, Runs]:
    at = axis_of(axis, len(source.shape))
    rows = source.shape[at]
    if times < 1 or block < 1 or rows % block:
        said = {"block": block, "axis": axis, "length": rows}
        raise MisfitError(Message("transforms.not_repeated", **said))
    if rows // block * times > _MOST_RUNS:
        raise MisfitError(Message("transforms.too_many_rows", most=_MOST_RUNS))
    firsts = np.repeat(np.arange(0, rows, block), times)
    return at, np.stack([firsts, np.full_like(firsts, block)], 1)


def _first_ones(
    sources: Sequence[Spec], axis: int, times: int, block: int
) -> tuple[str, Arguments] | None:
    length = _one_length(sources, axis)
    if not length:
        return None
    firsts = np.arange(0, length * times, block * times)
    runs = runs_of(np.add.outer(firsts, np.arange(block)).reshape(-1))
    return "take", (axis, *ranges_of(runs))


def _multiples(sources: Sequence[Spec], targets: Targets) -> Proposals:
    shape, target = sources[0].shape, targets[0]
    if target is None or len(target) != len(shape):
        return
    unequal = [axis for axis, rows in enumerate(shape) if rows != target[axis]]
    if len(unequal) == 1 and shape[unequal[0]] and target[unequal[0]] % shape[unequal[0]] == 0:
        axis = unequal[0]
        times = target[axis] // shape[axis]
        yield axis, times, 1
        yield axis, times, shape[axis]


REPEAT = Kind(
    name="repeat",
    words=lambda axis, times, block: Message(
        "transforms.repeat", axis=axis, times=times, block=block
    ),
    examples={"repeat(0, 3, 2)": [(4, 2)], "repeat(1, 2, 1)": [(2, 3)]},
    arguments=(Argument("axis"), Argument("times"), Argument("block")),
    specs=_made(_repeated_rows),
    gives="rows",
    rows=_repeated_rows,
    forward=_taken(_repeated_rows),
    inverse=_first_ones,
    proposals=_multiples,
    is_asked_for=True,
)


def _reversed_rows(source: Spec, axis: int) -> tuple[int, Runs]:
    at = axis_of(axis, len(source.shape))
    rows = np.arange(source.shape[at])[::-1]
    return at, np.stack([rows, np.ones_like(rows)], 1)


def _long_axes(sources: Sequence[Spec], targets: Targets) -> Proposals:
    if targets[0] == sources[0].shape:
        for axis, length in enumerate(sources[0].shape):
            if length > 1:
                yield (axis,)


FLIP = Kind(
    name="flip",
    gradients=as_weights,
    words=lambda axis: Message("transforms.flip", axis=axis),
    examples={"flip(0)": [(3, 2)], "flip(-1)": [(2, 3)]},
    arguments=(Argument("axis"),),
    specs=_made(_reversed_rows),
    gives="rows",
    rows=_reversed_rows,
    forward=_taken(_reversed_rows),
    inverse=lambda _, axis: ("flip", (axis,)),
    proposals=_long_axes,
    is_asked_for=True,
)
