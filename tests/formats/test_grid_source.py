"""A tensor cut into boxes reads like the whole one, in any range."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats import grid_source
from troubleshooter_nb.formats.grid_source import GridSource, checked_grid


def cut(array, edges):
    """Boxes between the edges of each axis."""
    ends = [
        list(itertools.pairwise([0, *sorted(axis_edges), length]))
        for axis_edges, length in zip(edges, array.shape, strict=True)
    ]
    return [
        (
            tuple(low for low, _ in box),
            ArrayInMemory(array[tuple(slice(low, high) for low, high in box)].copy()),
        )
        for box in itertools.product(*ends)
    ]


@st.composite
def cut_arrays(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    edges = [draw(st.sets(st.integers(1, n), max_size=3)) - {n} for n in shape]
    return np.arange(np.prod(shape, dtype=int)).reshape(shape), edges


@given(made=cut_arrays(), block=st.sampled_from([1, 3, 1 << 20]), data=st.data())
def test_any_range_of_any_cut_is_that_of_the_array(made, block, data):
    array, edges = made
    parts = data.draw(st.permutations(cut(array, edges)))
    source = checked_grid(array.shape, array.dtype, parts)
    start = data.draw(st.integers(0, array.size))
    stop = data.draw(st.integers(start, array.size))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_source, "_BLOCK", block)
        got = source.read(start, stop)
    np.testing.assert_array_equal(got, array.reshape(-1)[start:stop])


def test_bfloat16_keeps_its_bits_and_the_source_its_facts():
    array = np.arange(12).reshape(4, 3).astype(ml_dtypes.bfloat16)
    source = checked_grid(array.shape, array.dtype, cut(array, [{1}, {2}]))
    assert (source.shape, source.dtype, source.size_bytes) == (array.shape, array.dtype, 24)
    assert source.read(0, 12).tobytes() == array.tobytes()
    assert pickle.loads(pickle.dumps(source)).read(3, 7).tobytes() == array.tobytes()[6:14]


@dataclass(frozen=True)
class Counting:
    """A source of zeros that notes how much is read at once."""

    shape: tuple
    read_sizes: list
    dtype = np.dtype(np.float32)
    size_bytes = 0

    def read(self, start, stop, into=None):
        self.read_sizes.append(stop - start)
        return np.zeros(stop - start, self.dtype)


def test_a_short_range_reads_no_more_than_the_runs_it_touches():
    left, right = [], []
    parts = [((0, 0), Counting((1000, 400), left)), ((0, 400), Counting((1000, 600), right))]
    source = checked_grid((1000, 1000), np.dtype(np.float32), parts)
    source.read(500_350, 500_450)
    assert (sum(left), sum(right)) == (50, 50)


def test_a_long_range_is_read_in_blocks():
    sizes = []
    parts = [((0, 0), Counting((3000, 1000), sizes)), ((0, 1000), Counting((3000, 1000), []))]
    source = checked_grid((3000, 2000), np.dtype(np.float32), parts)
    source.read(0, 6_000_000)
    assert sum(sizes) == 3_000_000
    assert max(sizes) <= 1 << 20


def test_an_uncut_tensor_is_its_own_source():
    part = ArrayInMemory(np.ones((2, 3)))
    assert checked_grid((2, 3), part.dtype, [((0, 0), part)]) is part
    assert isinstance(
        checked_grid((4, 3), part.dtype, [((0, 0), part), ((2, 0), part)]), GridSource
    )


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        ([(0, 0)], "6 of 12 values are missing"),
        ([(0, 0), (2, 0), (2, 0)], "6 of 12 values are there twice"),
        ([(0, 0), (0, 0)], "a second part"),
        ([(0, 0), (1, 0)], "a second part"),
        ([(0, 0), (3, 0)], "does not fit"),
        ([(0, 0), (-1, 0)], "does not fit"),
        ([(0, 0), (2,)], "does not fit"),
    ],
)
def test_parts_that_do_not_fill_the_tensor_are_refused(places, reason):
    part = ArrayInMemory(np.ones((2, 3)))
    with pytest.raises(FormatError, match=reason):
        checked_grid((4, 3), part.dtype, [(place, part) for place in places])


def test_parts_of_another_dtype_are_refused():
    part = ArrayInMemory(np.ones((2, 3)))
    with pytest.raises(FormatError, match="does not fit"):
        checked_grid((2, 3), np.dtype(np.float32), [((0, 0), part)])
