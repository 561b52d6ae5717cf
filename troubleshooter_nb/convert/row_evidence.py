"""What the values of both sides say about one row, or about one transform that is thought of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.convert.likeness import has_numbers, likeness
from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump
from troubleshooter_nb.errors import EntryNotFoundError, ReadError, WeightMapError
from troubleshooter_nb.formats.transformed_source import is_read_in_part, transformed
from troubleshooter_nb.messages import Message
from troubleshooter_nb.ranges import read_rows
from troubleshooter_nb.thresholds import FEWEST_OF_ROW, LARGEST_LOOK, LOOK_RUNS, LOOK_SAMPLE
from troubleshooter_nb.weight_map import WeightRow


def row_evidence(row: WeightRow, source: Dump, target: Dump) -> str:
    """What the values say about a row: whether its targets hold what it makes of its sources.

    Parameters
    ----------
    row : WeightRow
    source, target : Dump
        The values.

    Returns
    -------
    str
        A message; it says why there is nothing to say where values cannot be compared.

    Notes
    -----
    A few values are read where they already differ, all of them where they agree. Of targets of
    more than ``2**23`` elements 262,144 are read on both sides, in even runs, and that is said.
    """
    if not row.targets:
        return ""
    try:
        ours = [source.sources[source.position(name)] for name in row.sources]
        theirs = [target.sources[target.position(name)] for name in row.targets]
    except EntryNotFoundError as error:
        return Message("values.unread", reason=error)
    if any(one is None for one in (*ours, *theirs)):
        return Message("values.not_in_files")
    read = [one for one in (*ours, *theirs) if one is not None]
    try:
        made = transformed(read[: len(ours)], row.transform)
        return values_said(made, read[len(ours) :])
    except (WeightMapError, ReadError) as error:
        return Message("values.unread", reason=error)


def values_said(left: Sequence[ArraySource], right: Sequence[ArraySource]) -> str:
    """What the values of tensors that should be equal say, the worst of several.

    Of large ones a sample of both is judged, and the answer says of how many elements.
    """
    said = [_said(*pair) for pair in zip(left, right, strict=False)]
    return max(said)[1] if said else ""


def _said(left: ArraySource, right: ArraySource) -> tuple[float, str]:
    sizes = math.prod(left.shape), math.prod(right.shape)
    if sizes[0] != sizes[1]:
        return math.inf, Message("values.other_sizes", left=sizes[0], right=sizes[1])
    if not (has_numbers(left) and has_numbers(right)) or not sizes[0]:
        return 0.0, Message("values.no_numbers")
    if sum(sizes) <= LARGEST_LOOK:
        return _likeness_said(left, right)
    places = _places(sizes[0])
    ours, theirs = (_at(side, places) for side in (left, right))
    if ours is None or theirs is None:
        return 0.0, Message("values.too_large", most=LARGEST_LOOK // 2)
    rank, said = _likeness_said(ArrayInMemory(ours), ArrayInMemory(theirs))
    return rank, Message("values.of_some", said=said, some=len(places), count=sizes[0])


def _places(size: int) -> np.ndarray:
    """Even runs of flat places, the first and the last among them."""
    length = LOOK_SAMPLE // LOOK_RUNS
    starts = np.linspace(0, size - length, LOOK_RUNS).astype(np.int64)
    return np.asarray(starts[:, None] + np.arange(length)).reshape(-1)


def _at(source: ArraySource, places: np.ndarray) -> np.ndarray | None:
    if not is_read_in_part(source):
        return None
    return read_rows(source, places, 1).reshape(-1)


def _likeness_said(left: ArraySource, right: ArraySource) -> tuple[float, str]:
    with np.errstate(all="ignore"):
        like = likeness(left, right)
    rank = ("equal", "rounded", "near", "similar", "constant", "other").index(like.kind)
    figures = {"residual": like.residual, "cosine": like.cosine, "dtype": like.dtype}
    said = Message(f"values.{like.kind}", **figures)
    count = math.prod(left.shape)
    if count < FEWEST_OF_ROW:
        said = Message("values.few", said=said, count=count)
    return float(rank), said
