"""Ranges that are read together, and the places of other strides, against whole arrays."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubleshooter_nb import ranges
from troubleshooter_nb.ranges import Pieces, Strided, cut, gathered

VALUES = np.arange(5000, dtype=np.int32)


class Log:
    """A reader of `VALUES` that notes what it is asked for."""

    def __init__(self):
        self.asked = []

    def read(self, start, stop, into=None):
        self.asked.append((start, stop))
        return VALUES[start:stop]


@given(
    starts=st.lists(st.integers(0, 4900), max_size=40),
    length=st.integers(0, 100),
    gap=st.sampled_from([0, 4, 400]),
    block=st.sampled_from([1, 7, 300, 1 << 20]),
)
@settings(deadline=None)
def test_ranges_in_any_order_hold_what_stands_there(starts, length, gap, block):
    log = Log()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "READ_THROUGH_BYTES", gap)
        patch.setattr(ranges, "READ_BLOCK", block)
        rows = gathered(log.read, VALUES.dtype, starts, length)
    expected = [VALUES[at : at + length] for at in starts]
    np.testing.assert_array_equal(rows, np.reshape(expected, (len(starts), length)))
    # From front to back, and never more at once than a block beside what was asked for.
    assert log.asked == sorted(log.asked)
    assert all(high - low <= max(block, length) + length for low, high in log.asked)


def test_a_million_short_ranges_take_few_reads():
    values, asked = np.arange(1 << 22, dtype=np.float32), []

    def read(start, stop, into):
        asked.append(stop - start)
        return values[start:stop]

    starts = np.arange(1_000_000)[::-1] * 4
    np.testing.assert_array_equal(gathered(read, values.dtype, starts, 2)[:, 1], starts + 1)
    assert len(asked) <= 8


def test_what_lies_far_apart_is_not_read_through():
    log = Log()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "READ_THROUGH_BYTES", 40)  # ten elements
        gathered(log.read, VALUES.dtype, [0, 13, 1000, 2000, 2004], 3)
    assert log.asked == [(0, 16), (1000, 1003), (2000, 2007)]


@given(
    starts=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    length=st.integers(1, 40),
    width=st.integers(1, 12),
)
def test_ranges_are_cut_where_rows_end(starts, length, width):
    pieces = [*zip(*(one.tolist() for one in cut(np.array(starts), length, width)), strict=True)]
    covered = []
    for of, place, row, column, count in pieces:
        assert count > 0
        assert column + count <= width
        assert row * width + column == starts[of] + place
        covered += [(of, at) for at in range(place, place + count)]
    assert covered == [(of, at) for of in range(len(starts)) for at in range(length)]


@st.composite
def strided(draw):
    """A view of a stored array by other strides, and both."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    stored = np.arange(math.prod(shape)).reshape(shape)
    view = stored.transpose(draw(st.permutations(range(len(shape)))))
    axis = draw(st.integers(0, view.ndim - 1))
    low = draw(st.integers(0, view.shape[axis] - 1))
    view = view[(slice(None),) * axis + (slice(low, None),)]
    if draw(st.booleans()):
        view = np.broadcast_to(view, (3, *view.shape))
    return stored, view


@given(made=strided(), data=st.data(), block=st.sampled_from([1, 5, 1 << 20]))
@settings(deadline=None)
def test_places_of_other_strides_are_those_of_numpy(made, data, block):
    stored, view = made
    offset = int(view.reshape(-1)[0])
    order = Strided(view.shape, tuple(step // 8 for step in view.strides), offset)
    flat = view.reshape(-1)
    length = data.draw(st.integers(0, flat.size))
    starts = data.draw(st.lists(st.integers(0, flat.size - length), max_size=8))

    def read_rows(places, count):
        return gathered(lambda a, b, _: stored.reshape(-1)[a:b], stored.dtype, places, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "READ_BLOCK", block)
        rows = order.rows(read_rows, stored.dtype, starts, length)
        expected = [flat[at : at + length] for at in starts]
        np.testing.assert_array_equal(rows, np.reshape(expected, (len(starts), length)))
        for start in starts[:2]:
            found = order.range(read_rows, stored.dtype, start, start + length)
            np.testing.assert_array_equal(found, flat[start : start + length])
    np.testing.assert_array_equal(order.places(np.arange(flat.size)), flat)


def test_a_part_that_was_made_is_kept_and_no_larger_than_asked_for():
    made, pieces = [], Pieces()

    def make(start, stop):
        made.append((start, stop))
        return np.arange(start, stop)

    for start in range(0, 100, 10):
        got = pieces.read("x", 100, make, start, start + 10, most=40)
        np.testing.assert_array_equal(got, np.arange(start, start + 10))
    assert made == [(0, 40), (40, 80), (60, 100)]
    pieces.read("y", 100, make, 0, 60, most=40)
    pieces.clear()
    pieces.read("y", 100, make, 0, 60, most=40)
    assert made[3:] == [(0, 60), (0, 60)]


def test_columns_take_little_memory_besides_themselves():
    stored = np.zeros((2048, 2048), np.float32)
    order = Strided((2048, 2048), (1, 2048))
    tracemalloc.start()
    try:
        rows = order.rows(
            lambda places, count: gathered(
                lambda a, b, _: stored.reshape(-1)[a:b], stored.dtype, places, count
            ),
            stored.dtype,
            np.arange(0, 2048) * 2048,
            2048,
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - rows.nbytes < 80 * ranges.READ_BLOCK  # int64 places and masks of a block


def test_what_is_read_while_ranges_are_gathered_does_not_overwrite_them():
    # A source side by side with one that gathers its own: both want memory at the same time.
    values = np.arange(400, dtype=np.float32).reshape(40, 10)

    def turned(start, stop, into):
        rows = np.arange(start // 10, -(-stop // 10))
        return gathered(plain, values.dtype, values.size - 10 * (rows + 1), 10).reshape(-1)

    def plain(start, stop, into):
        into[:] = values.reshape(-1)[start:stop]
        return into

    def both(start, stop, into):
        assert (start, stop) == (0, 800)
        into[:400] = -values.reshape(-1)
        into[400:] = turned(0, 400, None)
        return into

    order = np.concatenate([[0, 79], np.random.default_rng(0).permutation(80)])
    found = gathered(both, values.dtype, 10 * order, 10)
    np.testing.assert_array_equal(found, np.concatenate([-values, values[::-1]])[order])
