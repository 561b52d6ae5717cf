"""Cutting pairs into tasks and putting together what they found."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis import measuring
from troubleshooter_nb.analysis.measuring import (
    Measurements,
    are_quick,
    batches_of,
    measure,
    measure_batch,
    pieces_of,
)
from troubleshooter_nb.analysis.rows import rows_of
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import ReadError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics import compiled
from troubleshooter_nb.metrics.pairwise import pair_partial, pair_run
from troubleshooter_nb.metrics.partial import Partial
from troubleshooter_nb.metrics.verdict import Tolerance
from troubleshooter_nb.naming import Site
from troubleshooter_nb.thresholds import FIGURES_BLOCK

TOLERANCE = Tolerance()
ASKED = {"rtol": TOLERANCE.rtol, "atol": TOLERANCE.atol, "equal_nan": TOLERANCE.equal_nan}


class Stored:
    """Values that are read into the memory that is given, as from a file."""

    def __init__(self, array):
        self.array = array
        self.shape, self.dtype, self.size_bytes = array.shape, array.dtype, array.nbytes
        self.rooms = []

    def files(self):
        return ("file",)

    def read(self, start, stop, into=None):
        assert into is not None
        assert into.dtype == self.dtype
        assert into.shape == (stop - start,)
        self.rooms.append(into)
        into[:] = self.array.reshape(-1)[start:stop]
        return into


class Lost(Stored):
    def read(self, start, stop, into=None):
        raise ReadError(Message("files.changed", file="lost.npy"))


def side(sources):
    site = Site("file", "x")
    return Dump.from_entries([Entry(str(n), site, one, order=n) for n, one in enumerate(sources)])


def rows_between(lefts, rights):
    return rows_of(tnb.pair_dumps(side(lefts), side(rights), method="order"), "auto")


def measured(rows, tolerance=TOLERANCE):
    pieces = pieces_of(rows)
    found = Measurements(pieces, rows)
    with ThreadPoolExecutor(2) as threads:
        whole = measure(batches_of(pieces), tolerance, threads, lambda amount: None, found)
    assert whole
    return found


def same(one: Partial, other: Partial) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in Partial.__slots__
    )


def noisy(rng, count, dtype="float32"):
    clean = rng.standard_normal(count)
    return clean.astype(dtype), (clean + 1e-3 * rng.standard_normal(count)).astype(dtype)


@pytest.mark.parametrize("kind", [ArrayInMemory, Stored])
def test_small_pairs_and_large_ones_have_the_figures_of_their_values(kind, monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 3)
    monkeypatch.setattr(measuring, "SLICE", 2 * FIGURES_BLOCK)
    rng = np.random.default_rng(0)
    sizes = [5, 0, 64, FIGURES_BLOCK, FIGURES_BLOCK + 1, 5 * FIGURES_BLOCK + 7, 9]
    dtypes = ["float32", "float32", "float64", "float32", "float16", "float32", "int32"]
    pairs = [noisy(rng, size, dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    found = measured(
        rows_between(*([kind(one) for one in side] for side in zip(*pairs, strict=True)))
    )
    assert found.with_figures.tolist() == list(range(len(sizes)))
    assert found.unfinished == 0
    for row, (left, right) in enumerate(pairs):
        rtol, atol = TOLERANCE.of(left.dtype, right.dtype)  # of integers both are 0
        asked = {"rtol": rtol, "atol": atol, "equal_nan": TOLERANCE.equal_nan}
        expected = pair_run(left, right, 0, compiled.kernel(), **asked)
        assert same(found.partials.at(int(found.place[row])), expected), row


def test_arrays_in_memory_are_measured_where_they_lie():
    strided = np.arange(20.0)[::2]
    assert measuring._lies_in_memory(ArrayInMemory(np.ones(3)))
    assert not measuring._lies_in_memory(ArrayInMemory(strided))
    assert not measuring._lies_in_memory(Stored(np.ones(3)))
    found = measured(rows_between([ArrayInMemory(strided)], [ArrayInMemory(strided + 1)]))
    expected = pair_partial(strided.copy(), strided + 1, **ASKED)
    assert same(found.partials.at(0), expected)


def test_the_values_of_a_task_lie_apart_in_memory_that_the_next_one_uses_again():
    stored = [Stored(np.arange(float(count))) for count in (3, 5, 8)]
    pieces = pieces_of(rows_between(stored, [ArrayInMemory(one.array) for one in stored]))
    for _ in range(2):
        measure_batch(pieces, TOLERANCE)
    first, again = zip(*(one.rooms for one in stored), strict=True)
    places = [room.ctypes.data for room in first]
    assert places == [room.ctypes.data for room in again]
    assert [place % 64 for place in np.diff(places)] == [0, 0]
    assert [place for place in np.diff(places)] == [64, 64]


def test_one_pair_of_a_task_that_cannot_be_read_leaves_the_others():
    rng = np.random.default_rng(1)
    pairs = [noisy(rng, 30) for _ in range(3)]
    lefts = [Stored(left) for left, _ in pairs]
    lefts[1] = Lost(pairs[1][0])
    found = measured(rows_between(lefts, [Stored(right) for _, right in pairs]))
    assert found.with_figures.tolist() == [0, 2]
    assert "lost.npy" in found.others[1]
    assert found.unfinished == 0


def test_a_slice_that_cannot_be_read_is_the_whole_pair(monkeypatch):
    monkeypatch.setattr(measuring, "SLICE", 2 * FIGURES_BLOCK)
    values = np.ones(5 * FIGURES_BLOCK, np.float32)

    class HalfLost(Stored):
        def read(self, start, stop, into=None):
            if start:
                raise ReadError(Message("files.changed", file=f"lost_{start}.npy"))
            return super().read(start, stop, into)

    found = measured(rows_between([HalfLost(values)], [Stored(values)]))
    assert found.with_figures.size == 0
    assert f"lost_{2 * FIGURES_BLOCK}.npy" in found.others[0]


def test_only_pairs_that_are_small_and_in_memory_need_no_threads():
    small, large = np.ones(8), np.ones(measuring.LARGEST_QUICK + 1)
    kinds = [ArrayInMemory(small), Stored(small), ArrayInMemory(large)]
    quick = [are_quick(batches_of(pieces_of(rows_between([one], [one])))) for one in kinds]
    assert quick == [True, False, False]


def test_a_task_in_the_calling_thread_finds_the_same():
    rng = np.random.default_rng(2)
    sides = [*zip(*(noisy(rng, 40 + n) for n in range(5)), strict=True)]
    rows = rows_between(*([ArrayInMemory(one) for one in side] for side in sides))
    pieces = pieces_of(rows)
    alone = Measurements(pieces, rows)
    assert measure(batches_of(pieces), TOLERANCE, None, lambda amount: None, alone)
    together = measured(rows)
    assert all(same(alone.partials.at(n), together.partials.at(n)) for n in range(5))


def test_tasks_hold_so_many_pairs_or_elements(monkeypatch):
    monkeypatch.setattr(measuring, "BATCH_PAIRS", 3)
    monkeypatch.setattr(measuring, "BATCH_ELEMENTS", 100)
    arrays = [ArrayInMemory(np.ones(count)) for count in (1, 1, 1, 1, 99, 5)]
    batches = batches_of(pieces_of(rows_between(arrays, arrays)))
    assert [len(batch.pieces) for batch in batches] == [3, 2, 1]
    assert [batch.size_bytes for batch in batches] == [48, 1600, 80]


def test_what_a_task_finds_travels():
    arrays = [ArrayInMemory(np.arange(9.0)), ArrayInMemory(np.arange(FIGURES_BLOCK + 1.0))]
    found = measure_batch(pieces_of(rows_between(arrays, arrays)), TOLERANCE)
    again = pickle.loads(pickle.dumps(found))
    assert again.pairs == found.pairs == [0]
    assert same(again.partials.at(0), found.partials.at(0))
    assert same(again.slices[0][2], found.slices[0][2])


def test_a_source_may_give_the_same_memory_at_every_read():
    class Reused:
        """One buffer for all that is read, as a source of a user's own may have."""

        buffer = np.empty(1200, np.float32)
        shape, dtype, size_bytes = (30, 40), np.dtype("f4"), 4800

        def __init__(self, values):
            self.values = values.reshape(-1)

        def files(self):
            return ()

        def read(self, start, stop, into=None):
            self.buffer[: stop - start] = self.values[start:stop]
            return self.buffer[: stop - start]

    class Other(Reused):
        buffer = np.empty(1200, np.float32)

    values = [np.random.default_rng(i).standard_normal((30, 40)).astype("f") for i in range(6)]
    sides = [
        Dump.from_entries(
            [Entry(f"t{i}", Site("file", f"t{i}"), kind(v)) for i, v in enumerate(some)]
        )
        for kind, some in ((Reused, [v * 1.5 for v in values]), (Other, values))
    ]
    found = tnb.compare(*sides, diagnose=False)
    assert found.result["verdict"].values.tolist() == ["differs"] * 6
