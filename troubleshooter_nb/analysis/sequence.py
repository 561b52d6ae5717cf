"""The best in-order alignment of two sequences, exactly and in little memory."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence

import numpy as np

# Added to a gain it means "never"; far from overflowing any sum of gains.
NEVER = -(1 << 40)

_TAKE, _SKIP_LEFT, _SKIP_RIGHT = range(3)


def align(
    gain: Callable[[int], np.ndarray],
    size_left: int,
    size_right: int,
    *,
    skip_left: int = 0,
    skip_right: int = 0,
) -> list[tuple[int, int]]:
    """Pairs of positions, increasing on both sides, with the largest sum of gains.

    Parameters
    ----------
    gain : callable
        ``gain(i)`` is an int64 array, shape (size_right,): what pairing left `i` with each
        position on the right is worth. Called at most twice per row.
    size_left, size_right : int
        Lengths of the sequences.
    skip_left, skip_right : int, >= 0
        What it costs to leave a position of that side without a partner.

    Returns
    -------
    list of (int, int)
        Among equally good alignments the one that pairs at the head.

    Notes
    -----
    The table of size_left * size_right moves is never held: every sqrt(size_left)-th row of sums
    is kept, and the rows between two of them are made again while the path is followed.
    """
    if not size_left or not size_right:
        return []
    columns = np.arange(size_right + 1, dtype=np.int64)
    stride = math.isqrt(size_left - 1) + 1

    def row_above(below: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Best sums from left `i` on, given those of `i + 1`, and the moves that begin them."""
        take, skip = below[1:] + gain(i), below - skip_left
        best = skip.copy()
        np.maximum(best[:-1], take, out=best[:-1])
        # Skipping on the right any number of times first: a running maximum from the end.
        running = np.maximum.accumulate((best - columns * skip_right)[::-1])[::-1]
        sums = running + columns * skip_right
        moves = np.full(size_right, _SKIP_RIGHT, np.uint8)
        moves[skip[:-1] == sums[:-1]] = _SKIP_LEFT
        moves[take == sums[:-1]] = _TAKE
        return sums, moves

    kept = {size_left: (columns[::-1] * -skip_right)}
    sums = kept[size_left]
    for i in range(size_left - 1, -1, -1):
        sums, _ = row_above(sums, i)
        if i % stride == 0:
            kept[i] = sums
    pairs, i, j = [], 0, 0
    for start in range(0, size_left, stride):
        stop = min(start + stride, size_left)
        sums, moves = kept[stop], {}
        for row in range(stop - 1, start - 1, -1):
            sums, moves[row] = row_above(sums, row)
        while i < stop and j < size_right:
            move = moves[i][j]
            if move == _TAKE:
                pairs.append((i, j))
            i += move != _SKIP_RIGHT
            j += move != _SKIP_LEFT
    return pairs


def shape_edit_distance(
    left: Sequence[str], right: Sequence[str], *, delete: int = 1, insert: int = 1, replace: int = 5
) -> list[tuple[int, int]]:
    """Pairs of positions that align two sequences of shapes at the least cost.

    Equal shapes cost nothing, a pair of different ones `replace`. Among equally cheap alignments
    runs of equal shapes bind to the head on both sides, and swapping the sides (and the costs)
    mirrors the result.

    Notes
    -----
    TroubleShooter itself binds to the
    tail when its first side is the shorter one.
    """
    if list(right) < list(left):
        # One of the two equally good answers, whichever side comes first.
        mirrored = shape_edit_distance(right, left, delete=insert, insert=delete, replace=replace)
        return [(i, j) for j, i in mirrored]
    numbers = {shape: k for k, shape in enumerate(dict.fromkeys([*left, *right]))}
    theirs = np.array([numbers[shape] for shape in right], np.int64)

    def gain(i: int) -> np.ndarray:
        return np.where(theirs == numbers[left[i]], 0, -replace)

    return align(gain, len(left), len(right), skip_left=delete, skip_right=insert)


def longest_increasing(values: Sequence[int]) -> list[int]:
    """Positions of a longest strictly increasing subsequence."""
    ends: list[int] = []  # position of the smallest last value of each length found so far
    smallest: list[int] = []  # those values, for the search
    before = [-1] * len(values)
    for i, value in enumerate(values):
        length = bisect.bisect_left(smallest, value)
        before[i] = ends[length - 1] if length else -1
        ends[length : length + 1] = [i]
        smallest[length : length + 1] = [value]
    found = []
    i = ends[-1] if ends else -1
    while i >= 0:
        found.append(i)
        i = before[i]
    return found[::-1]
