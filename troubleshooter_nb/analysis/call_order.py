"""Which calls of two runs belong together by what they are and the order in which they ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import permutations

import numpy as np

from troubleshooter_nb.analysis.calls_of_run import RunCall
from troubleshooter_nb.analysis.sequence import NEVER, align, longest_increasing
from troubleshooter_nb.naming.closeness import Likeness
from troubleshooter_nb.thresholds import CHANGES_PLACES, MOST_IN_A_RUN, TABLE_CELLS

_EQUAL, _LOOSE, _VALUES, _NAMES = 1000, 400, 300, 200
_Pairs = list[tuple[int, int]]


def in_order(
    left: Sequence[RunCall], right: Sequence[RunCall], *, loose: bool = False
) -> list[tuple[int, int, bool]]:
    """Positions of calls that belong together, rising on both sides.

    Calls that occur once on both sides come first; between two of them the alignment with the
    most equal signatures decides, and among those likeness of names and equal values.

    Parameters
    ----------
    left, right : sequence of RunCall
    loose : bool
        Also pair calls of which only kind and size of the first output are the same.

    Returns
    -------
    list of (int, int, bool)
        The positions, and whether the same pair comes out from the end of the run backwards: where
        it does not, one of several equal calls is additional, and which one is anybody's guess.
    """
    forth = _aligned(left, right, loose)
    size = len(left) - 1, len(right) - 1
    back = {(size[0] - i, size[1] - j) for i, j in _aligned(left[::-1], right[::-1], loose)}
    return settled(left, right, [(i, j, (i, j) in back) for i, j in forth])


def _aligned(left: Sequence[RunCall], right: Sequence[RunCall], loose: bool) -> _Pairs:
    keys = [[run_call.signature for run_call in side] for side in (left, right)]
    found: _Pairs = []
    gaps = [(0, len(left), 0, len(right))]
    while gaps:
        i, i_end, j, j_end = gaps.pop()
        if i == i_end or j == j_end:
            continue
        if keys[0][i:i_end] == keys[1][j:j_end]:
            found += [(i + k, j + k) for k in range(i_end - i)]
            continue
        anchors = _anchors(keys[0][i:i_end], keys[1][j:j_end])
        if not anchors:
            found += _in_gap(left[i:i_end], right[j:j_end], loose, (i, j))
            continue
        start = i, j
        for a, b in anchors:
            found.append((start[0] + a, start[1] + b))
            gaps.append((i, start[0] + a, j, start[1] + b))
            i, j = start[0] + a + 1, start[1] + b + 1
        gaps.append((i, i_end, j, j_end))
    return sorted(found)


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable]) -> _Pairs:
    """Keys that occur once on both sides, as many as stand in one order."""
    counts = Counter(left), Counter(right)
    where = {key: j for j, key in enumerate(right) if counts[1][key] == 1}
    pairs = [(i, where[key]) for i, key in enumerate(left) if counts[0][key] == 1 and key in where]
    return [pairs[k] for k in longest_increasing([j for _, j in pairs])]


def _in_gap(
    left: Sequence[RunCall], right: Sequence[RunCall], loose: bool, start: tuple[int, int]
) -> _Pairs:
    """The best alignment of a stretch in which no call is unique."""
    if len(left) * len(right) > TABLE_CELLS:
        return _heads_and_tails(left, right, loose, start)
    equal = _codes(left, right, lambda run_call: run_call.signature)
    kinds = _codes(left, right, lambda run_call: (run_call.kind, run_call.word, run_call.size))
    values = _codes(left, right, lambda run_call: run_call.fingerprint)
    is_known = np.array([bool(run_call.fingerprint) for run_call in right])
    likeness = Likeness([run_call.path for run_call in left], [run_call.path for run_call in right])

    def gain(i: int) -> np.ndarray:
        gains = np.where(equal[1] == equal[0][i], _EQUAL, NEVER)
        if loose and left[i].size:
            gains = np.maximum(gains, np.where(kinds[1] == kinds[0][i], _LOOSE, NEVER))
        alike = np.round(_NAMES * likeness.row(i)).astype(np.int64)
        same_values = np.where((values[1] == values[0][i]) & is_known, _VALUES, 0)
        return np.where(gains > 0, gains + alike + same_values, NEVER)

    return [(start[0] + i, start[1] + j) for i, j in align(gain, len(left), len(right))]


def _heads_and_tails(
    left: Sequence[RunCall], right: Sequence[RunCall], loose: bool, start: tuple[int, int]
) -> _Pairs:
    """What two long stretches begin and end with alike, and the rest if that is short enough."""
    shorter = min(len(left), len(right))
    head = 0
    while head < shorter and left[head].signature == right[head].signature:
        head += 1
    tail = 0
    while tail < shorter - head and left[-1 - tail].signature == right[-1 - tail].signature:
        tail += 1
    rest = left[head : len(left) - tail], right[head : len(right) - tail]
    found = [(start[0] + k, start[1] + k) for k in range(head)]
    if rest[0] and rest[1] and len(rest[0]) * len(rest[1]) <= TABLE_CELLS:
        found += _in_gap(*rest, loose, (start[0] + head, start[1] + head))
    ends = start[0] + len(left) - tail, start[1] + len(right) - tail
    return found + [(ends[0] + k, ends[1] + k) for k in range(tail)]


def _codes(
    left: Sequence[RunCall], right: Sequence[RunCall], key: Callable[[RunCall], Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    codes: dict[Hashable, int] = {}
    mine, theirs = (
        np.array([codes.setdefault(key(run_call), len(codes)) for run_call in side], np.int64)
        for side in (left, right)
    )
    return mine, theirs


def settled(
    left: Sequence[RunCall], right: Sequence[RunCall], pairs: Sequence[tuple[int, int, bool]]
) -> list[tuple[int, int, bool]]:
    """The pairs, those of neighbours that could change places by their values or names.

    Three layers of one size in a row, such as query, key and value, need not run in the same
    order on both sides.
    """
    found: list[tuple[int, int, bool]] = []
    start = 0
    while start < len(pairs):
        stop = start + 1
        while stop < len(pairs) and _are_neighbours(left, right, pairs[stop - 1], pairs[stop]):
            stop += 1
        run = list(pairs[start:stop])
        if 1 < len(run) <= MOST_IN_A_RUN:
            run = _best_of_run(left, right, run)
        found += run
        start = stop
    return found


def _are_neighbours(
    left: Sequence[RunCall],
    right: Sequence[RunCall],
    one: tuple[int, int, bool],
    other: tuple[int, int, bool],
) -> bool:
    in_a_row = other[0] == one[0] + 1 and other[1] == one[1] + 1
    return in_a_row and left[one[0]].signature == left[other[0]].signature


def _best_of_run(
    left: Sequence[RunCall], right: Sequence[RunCall], run: list[tuple[int, int, bool]]
) -> list[tuple[int, int, bool]]:
    """The same calls in the order in which their values, else their names, agree clearly best."""
    mine, theirs = [left[i] for i, _, _ in run], [right[j] for _, j, _ in run]
    size = range(len(run))
    names = [[run_call.path.rpartition(".")[2] for run_call in side] for side in (mine, theirs)]
    alike = np.array([Likeness(*names).row(i) for i in size], np.float64)
    same = [[bool(a.fingerprint) and a.fingerprint == b.fingerprint for b in theirs] for a in mine]
    worth = alike + 2.0 * np.array(same)
    best = max(permutations(size), key=lambda order: float(worth[size, order].sum()))
    if worth[size, best].sum() < worth[size, size].sum() + CHANGES_PLACES:
        return run
    return [(run[i][0], run[best[i]][1], run[i][2]) for i in size]


def interchangeable(run_calls: Sequence[RunCall]) -> list[bool]:
    """For each call whether a neighbour has the same signature, so that order tells little."""
    keys = [run_call.signature for run_call in run_calls]
    return [
        (k > 0 and keys[k - 1] == key) or (k + 1 < len(keys) and keys[k + 1] == key)
        for k, key in enumerate(keys)
    ]
