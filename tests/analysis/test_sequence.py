"""Alignment of sequences against exhaustive search, and the ties it breaks."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.analysis.sequence import (
    NEVER,
    align,
    longest_increasing,
    shape_edit_distance,
)


def alignments(n, m):
    """Every set of pairs that increases on both sides."""
    for size in range(min(n, m) + 1):
        for left in itertools.combinations(range(n), size):
            for right in itertools.combinations(range(m), size):
                yield list(zip(left, right, strict=True))


def worth(pairs, gains, skip_left, skip_right):
    n, m = gains.shape
    skipped = (n - len(pairs)) * skip_left + (m - len(pairs)) * skip_right
    return sum(int(gains[i, j]) for i, j in pairs) - skipped


@st.composite
def tables(draw):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    values = st.sampled_from([NEVER, -5, 0, 1, 1, 2])
    return np.array(draw(st.lists(values, min_size=n * m, max_size=n * m)), np.int64).reshape(n, m)


@given(gains=tables(), skip_left=st.integers(0, 2), skip_right=st.integers(0, 2))
def test_no_alignment_is_worth_more(gains, skip_left, skip_right):
    pairs = align(gains.__getitem__, *gains.shape, skip_left=skip_left, skip_right=skip_right)
    assert all(a < b and c < d for (a, c), (b, d) in itertools.pairwise(pairs))
    best = max(worth(p, gains, skip_left, skip_right) for p in alignments(*gains.shape))
    assert worth(pairs, gains, skip_left, skip_right) == best


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0)])
def test_nothing_aligns_with_nothing(sizes):
    assert align(lambda i: np.zeros(sizes[1], np.int64), *sizes) == []


def test_each_row_is_asked_for_at_most_twice():
    asked = []

    def gain(i):
        asked.append(i)
        return np.ones(50, np.int64)

    assert align(gain, 100, 50) == [(k, k) for k in range(50)]
    assert max(map(asked.count, set(asked))) <= 2


@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ("AAA", "AA", [(0, 0), (1, 1)]),  # acceptance case 8 and its mirror image
        ("AA", "AAA", [(0, 0), (1, 1)]),
        ("AXB", "AB", [(0, 0), (2, 1)]),
        ("AB", "AXB", [(0, 0), (1, 2)]),
        ("A", "B", []),  # deleting and inserting is cheaper than replacing
        ("", "AB", []),
        ("ABCABC", "BCA", [(1, 0), (2, 1), (3, 2)]),
    ],
)
def test_shapes_by_hand(left, right, pairs):
    assert shape_edit_distance(list(left), list(right)) == pairs


def test_a_cheap_replacement_pairs_different_shapes():
    assert shape_edit_distance(["A"], ["B"], replace=1) == [(0, 0)]


SHAPES = st.lists(st.sampled_from(["2", "3", "2x3", ""]), max_size=7)


@given(left=SHAPES, right=SHAPES, costs=st.tuples(*[st.integers(1, 6)] * 3))
def test_swapping_the_sides_mirrors_the_alignment(left, right, costs):
    delete, insert, replace = costs
    pairs = shape_edit_distance(left, right, delete=delete, insert=insert, replace=replace)
    mirrored = shape_edit_distance(right, left, delete=insert, insert=delete, replace=replace)
    assert [(j, i) for i, j in mirrored] == pairs


@given(shapes=SHAPES)
def test_a_sequence_aligns_with_itself(shapes):
    assert shape_edit_distance(shapes, shapes) == [(k, k) for k in range(len(shapes))]


def levenshtein(left, right, delete, insert, replace):
    """The textbook recursion, without any table."""
    if not left or not right:
        return len(left) * delete + len(right) * insert
    return min(
        levenshtein(left[1:], right, delete, insert, replace) + delete,
        levenshtein(left, right[1:], delete, insert, replace) + insert,
        levenshtein(left[1:], right[1:], delete, insert, replace)
        + (0 if left[0] == right[0] else replace),
    )


@given(
    left=st.lists(st.sampled_from("ab"), max_size=5),
    right=st.lists(st.sampled_from("ab"), max_size=5),
)
def test_no_alignment_of_shapes_is_cheaper(left, right):
    pairs = shape_edit_distance(left, right, delete=1, insert=2, replace=2)
    cost = (len(left) - len(pairs)) + 2 * (len(right) - len(pairs))
    cost += sum(2 for i, j in pairs if left[i] != right[j])
    assert cost == levenshtein(left, right, 1, 2, 2)


def test_three_thousand_shapes_align_in_a_moment():
    left = [("4", "8x4", "8")[k % 3] for k in range(3000)]
    right = [*left[:1500], "9", *left[1500:]]
    started = time.process_time()
    pairs = shape_edit_distance(left, right)
    # Measured 0.3 s; a loop over 9 million cells in Python takes 10 s.
    assert time.process_time() - started < 5.0
    assert len(pairs) == 3000


@given(values=st.lists(st.integers(0, 9), max_size=8))
def test_the_longest_increasing_subsequence(values):
    found = longest_increasing(values)
    assert found == sorted(found)
    chosen = [values[k] for k in found]
    assert all(a < b for a, b in itertools.pairwise(chosen))
    longest = max(
        len(c)
        for size in range(len(values) + 1)
        for c in itertools.combinations(values, size)
        if all(a < b for a, b in itertools.pairwise(c))
    )
    assert len(found) == longest
