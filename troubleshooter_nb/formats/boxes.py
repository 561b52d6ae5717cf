"""Rows of a tensor that is made of boxes of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.ranges import Starts, cut, read_rows, unsigned

# Of pieces of more lengths than this a box would be read too often.
_MOST_LENGTHS = 8
_MOST_PIECES = 1 << 20  # whose places lie in memory at once


class Box(NamedTuple):
    """Where a box begins in the tensor, its shape, and where it begins in the source it is of."""

    corner: tuple[int, ...]
    shape: tuple[int, ...]
    source: ArraySource
    inside: tuple[int, ...]


def rows_of_boxes(
    shape: tuple[int, ...],
    dtype: np.dtype,
    boxes: Sequence[Box],
    starts: Starts,
    length: int,
) -> np.ndarray | None:
    """Values of flat ranges of one length, each source read once for many of them.

    None where the ranges would have to be cut into too many pieces, or pieces of many lengths.
    """
    firsts = np.asarray(starts, np.int64)
    rows = np.empty((len(firsts), length), dtype)
    if not rows.size or not shape:
        return rows if shape else None
    most = max(_MOST_PIECES // (length // shape[-1] + 2), 1)
    if length > shape[-1] * _MOST_PIECES:
        return None
    for at in range(0, len(firsts), most):
        if not _fill(rows[at : at + most], shape, boxes, firsts[at : at + most]):
            return None
    return rows


def _fill(
    rows: np.ndarray, shape: tuple[int, ...], boxes: Sequence[Box], firsts: np.ndarray
) -> bool:
    raw = unsigned(rows).reshape(-1)
    of, place, line, column, count = cut(firsts, rows.shape[1], shape[-1])
    place = of * rows.shape[1] + place
    outer = np.unravel_index(line, shape[:-1]) if len(shape) > 1 else ()
    for box in boxes:
        *corner, first = box.corner
        held = np.ones(len(of), bool)
        for index, low, high in zip(outer, corner, box.shape, strict=False):
            held &= (index >= low) & (index < low + high)
        begin = np.maximum(column, first)
        size = np.minimum(column + count, first + box.shape[-1]) - begin
        held &= size > 0
        lengths = np.unique(size[held])
        if len(lengths) > _MOST_LENGTHS:
            return False
        at = np.zeros(len(of), np.int64)
        for axis, index in enumerate((*outer, begin)):
            step = math.prod(box.source.shape[axis + 1 :])
            at += (index - box.corner[axis] + box.inside[axis]) * step
        for wanted in lengths.tolist():
            chosen = np.flatnonzero(held & (size == wanted))
            found = read_rows(box.source, at[chosen], wanted)
            if found.dtype != rows.dtype:  # in another byte order
                found = found.astype(rows.dtype)
            to = (place + begin - column)[chosen]
            sliding_window_view(raw, wanted, writeable=True)[to] = unsigned(found)
    return True
