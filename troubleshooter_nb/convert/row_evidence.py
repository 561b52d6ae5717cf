"""What the values of both sides say about one row, or about one transform that is thought of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.convert.apply import transformed
from troubleshooter_nb.convert.samples import Likeness, has_numbers, likeness
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import EntryNotFoundError, ReadError, WeightMapError
from troubleshooter_nb.thresholds import FEWEST_OF_ROW, LARGEST_LOOK
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
        A sentence that begins with ``values``; why there is none where they cannot be compared.

    Notes
    -----
    A few values are read where they already differ, all of them where they agree, up to 64 MiB.
    """
    if not row.targets:
        return ""
    try:
        ours = [source.sources[source.position(name)] for name in row.sources]
        theirs = [target.sources[target.position(name)] for name in row.targets]
    except EntryNotFoundError as error:
        return f"no values to compare: {error}"
    if any(one is None for one in (*ours, *theirs)):
        return "no values to compare: they are not in the files"
    read = [one for one in (*ours, *theirs) if one is not None]
    if sum(one.size_bytes for one in read) > LARGEST_LOOK:
        return "no values compared: the tensors are larger than 64 MiB"
    try:
        made = transformed(read[: len(ours)], row.transform)
        return values_said(made, read[len(ours) :])
    except (WeightMapError, ReadError) as error:
        return f"no values to compare: {error}"


def values_said(left: Sequence[ArraySource], right: Sequence[ArraySource]) -> str:
    """What the values of tensors that should be equal say, the worst of several."""
    said = [_said(*pair) for pair in zip(left, right, strict=False)]
    return max(said)[1] if said else ""


def _said(left: ArraySource, right: ArraySource) -> tuple[float, str]:
    sizes = math.prod(left.shape), math.prod(right.shape)
    if sizes[0] != sizes[1]:
        return math.inf, f"values not comparable: {sizes[0]:,} and {sizes[1]:,} of them"
    if not (has_numbers(left) and has_numbers(right)) or not sizes[0]:
        return 0.0, "values not comparable: they are no numbers"
    with np.errstate(all="ignore"):
        like = likeness(left, right)
    few = f" (only {sizes[0]:,} values)" if sizes[0] < FEWEST_OF_ROW else ""
    rank = ("equal", "rounded", "near", "similar", "constant", "other").index(like.kind)
    return float(rank), _sentence(like) + few


def _sentence(like: Likeness) -> str:
    match like.kind:
        case "equal":
            return "values are equal, every one"
        case "rounded":
            return f"values are equal once both are {like.dtype}"
        case "near":
            return f"values are nearly equal, residual {like.residual:.1e}"
        case "similar":
            return f"values are correlated but not equal, cosine {like.cosine:.2f}"
        case "constant":
            return "values differ: one side is constant"
        case _:
            return f"values are no more alike than chance, cosine {like.cosine:.2f}"
