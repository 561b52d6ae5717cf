"""Tensors laid side by side or added up read like the whole one, in any range."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.dump import ArrayInMemory
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats import joined_source
from troubleshooter_nb.formats.joined_source import joined, summed


def in_memory(arrays):
    return [ArrayInMemory(np.asarray(array, order="C")) for array in arrays]


def whole(source):
    return source.read(0, int(np.prod(source.shape, dtype=int))).reshape(source.shape)


@dataclass(frozen=True)
class Counting:
    """A source of zeros that notes how much is read."""

    shape: tuple
    sizes: list = field(default_factory=list)
    dtype = np.dtype(np.float32)
    size_bytes = 0

    def read(self, start, stop, into=None):
        self.sizes.append(stop - start)
        return np.zeros(stop - start, self.dtype)


@st.composite
def parts_of_one(draw):
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(shape) - 1))
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    arrays, start = [], 0
    for length in lengths:
        shape[axis] = length
        size = int(np.prod(shape))
        arrays.append(np.arange(start, start + size).reshape(shape))
        start += size
    return arrays, axis - draw(st.sampled_from([0, len(shape)]))


@given(made=parts_of_one(), data=st.data())
def test_any_range_is_that_of_the_concatenation(made, data):
    arrays, axis = made
    expected = np.concatenate(arrays, axis)
    source = joined(in_memory(arrays), axis)
    assert (source.shape, source.dtype) == (expected.shape, expected.dtype)
    assert source.size_bytes == expected.nbytes
    start = data.draw(st.integers(0, expected.size))
    stop = data.draw(st.integers(start, expected.size))
    np.testing.assert_array_equal(source.read(start, stop), expected.reshape(-1)[start:stop])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("proportions", [(1, 1, 1), (4, 1, 1), (2, 1)])
def test_interleaved_parts_give_all_firsts_then_all_seconds(axis, proportions):
    shape = [5, 7, 3]
    shape[axis] = 12
    arrays = [np.random.default_rng(rank).integers(0, 99, shape) for rank in range(4)]
    cuts = np.cumsum([12 * share // sum(proportions) for share in proportions])[:-1]
    pieces = [np.split(array, cuts, axis) for array in arrays]
    expected = np.concatenate(
        [pieces[rank][group] for group in range(len(proportions)) for rank in range(4)], axis
    )
    source = joined(in_memory(arrays), axis, proportions)
    np.testing.assert_array_equal(whole(source), expected)
    for start, stop in [(0, 1), (10, 100), (35, 36), (50, expected.size)]:
        np.testing.assert_array_equal(source.read(start, stop), expected.reshape(-1)[start:stop])


def test_a_range_reads_no_more_than_itself():
    parts = [Counting((1000, 400)), Counting((1000, 600))]
    source = joined(parts, 1)
    source.read(250, 900)  # inside the first row
    assert [part.sizes for part in parts] == [[150], [500]]
    for part in parts:
        part.sizes.clear()
    source.read(0, 3000)
    assert [part.sizes for part in parts] == [[1200], [1800]]


def test_bfloat16_keeps_its_bits_and_the_source_can_be_pickled():
    array = np.arange(12).reshape(4, 3).astype(ml_dtypes.bfloat16)
    source = joined(in_memory([array[:, :1], array[:, 1:]]), 1)
    assert whole(source).tobytes() == array.tobytes()
    assert pickle.loads(pickle.dumps(source)).read(3, 7).tobytes() == array.tobytes()[6:14]


def test_parts_in_another_byte_order_are_converted():
    array = np.arange(6.0)
    source = joined(in_memory([array.astype(">f8"), array]), 0)
    assert source.dtype == np.float64
    np.testing.assert_array_equal(whole(source), [*array, *array])


def test_one_part_is_returned_itself():
    (part,) = in_memory([np.arange(6)])
    assert joined([part], 0, (1, 1)) is part
    assert summed([part]) is part


@pytest.mark.parametrize(
    ("shapes", "axis", "proportions", "match"),
    [
        ([(2, 3), (2, 3)], 2, (1,), r"axis 2 does not exist in shape \(2, 3\), .* axes 0 to 1"),
        ([(), ()], 0, (1,), r"which has no axis"),
        ([(2, 3), (2, 4)], 0, (1,), r"\(2, 3\) and \(2, 4\) differ in more than .* axis 0"),
        ([(2, 3), (2,)], 0, (1,), "differ in more"),
        ([(2, 3), (4, 3)], -2, (1, 1, 1), "length of 2 along axis 0 cannot be divided as 1:1:1"),
    ],
)
def test_parts_that_do_not_fit_are_refused(shapes, axis, proportions, match):
    with pytest.raises(FormatError, match=match):
        joined(in_memory([np.zeros(shape) for shape in shapes]), axis, proportions)


def test_other_dtypes_and_shapes_are_refused():
    parts = in_memory([np.zeros(3, np.float32), np.zeros(3, np.float16)])
    for make in (lambda: joined(parts, 0), lambda: summed(parts)):
        with pytest.raises(FormatError, match="tensors of float32 and float16 are not parts"):
            make()
    with pytest.raises(FormatError, match=r"shapes \(3,\) and \(4,\) cannot be added"):
        summed(in_memory([np.zeros(3), np.zeros(4)]))
    with pytest.raises(FormatError, match="bool cannot be added"):
        summed(in_memory([np.zeros(3, bool)] * 2))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_a_sum_is_rounded_once(dtype, mean, monkeypatch):
    monkeypatch.setattr(joined_source, "_BLOCK", 7)
    values = np.random.default_rng(0).normal(size=(8, 5, 9)).astype(np.dtype(dtype))
    source = summed(in_memory(values), mean=mean)
    assert (source.shape, source.dtype) == ((5, 9), np.dtype(dtype))
    assert source.size_bytes == values[0].nbytes
    exact = values.astype(np.float64).sum(0) / (8 if mean else 1)
    got = pickle.loads(pickle.dumps(source)).read(2, 40).astype(np.float64)
    exact = exact.reshape(-1)[2:40]
    # Half a unit in the last place: 24, 11, 8, 4 bits of significand.
    bits = {"float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4}[dtype]
    floor = {"float8_e4m3fn": 2.0**-10}.get(dtype, 0.0)  # half the smallest number
    assert np.all(np.abs(got - exact) <= np.maximum(np.abs(exact) * 2.0**-bits, floor))


def test_sums_of_infinities_are_nan_and_of_complex_numbers_complex():
    source = summed(in_memory([np.array([np.inf, 1.0]), np.array([-np.inf, np.nan])]))
    np.testing.assert_array_equal(whole(source), [np.nan, np.nan])
    source = summed(in_memory([np.array([1 + 2j], np.complex64)] * 2), mean=True)
    assert source.dtype == np.complex64
    assert whole(source)[0] == 1 + 2j


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "int4"])
def test_integers_are_added_exactly_or_not_at_all(dtype):
    dtype = np.dtype(dtype if dtype != "int4" else ml_dtypes.int4)
    info = ml_dtypes.iinfo(dtype)
    half = np.array([int(info.max) // 2, 1, 0]).astype(dtype)
    source = summed(in_memory([half, half]))
    assert source.dtype == dtype
    assert [int(value) for value in whole(source)] == [int(info.max) // 2 * 2, 2, 0]
    full = np.array([int(info.max), 0, 0], object).astype(dtype)
    with pytest.raises(ReadError, match=rf"sum of 2 tensors of {dtype} lies outside {dtype}"):
        whole(summed(in_memory([full, full])))


def test_the_mean_of_integers_is_float64():
    source = summed(in_memory([np.array([1, 2**62]), np.array([2, 2**62])]), mean=True)
    assert source.dtype == np.float64
    assert whole(source).tolist() == [1.5, 2.0**62]
