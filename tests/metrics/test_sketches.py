"""Fingerprints and statistics, against sums in whole numbers and the figures of metrics.summary."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from troubleshooter_nb.metrics import sketches
from troubleshooter_nb.metrics.floats import computable, dtype_from_token
from troubleshooter_nb.metrics.sketches import (
    BlockSketch,
    column_signs,
    estimated_l2,
    row_signs,
    sketch,
    statistics_at,
    statistics_of,
)
from troubleshooter_nb.metrics.summary import summarise

NAN, INF = np.nan, np.inf
FLOATS = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
# Around a row of 512, a group of 16 rows and a block of numpy's.
SIZES = [1, 2, 31, 64, 511, 512, 513, 8191, 8192, 8193, 70_001]
# float64 sums of up to 70,001 values in another order, relative to the norm of the values.
ROUNDING = 1e-12
STATISTICS = ("min", "max", "mean", "l2", "nan_count", "inf_count")
WAYS = {
    "numpy": lambda x: sketches._by_numpy(x, True),
    "numpy in small blocks": lambda x: sketches._by_numpy(x, True, block=1024),
    "compiled": lambda x: statistics_at(x.ctypes.data, x.dtype, x.size, True),
    "portable": lambda x: statistics_at(x.ctypes.data, x.dtype, x.size, True, portable=True),
}
needs_loop = pytest.mark.skipif(
    sketches._loop()[0] is None, reason="installed without a C compiler: no compiled loop"
)
EACH_WAY = [
    pytest.param(way, marks=needs_loop if way in ("compiled", "portable") else ()) for way in WAYS
]


def values_of(token, size, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=size) * 50.0
    if token == "bool":
        values = values > 0
    elif token.startswith("u"):
        values = np.abs(values)
    return values.astype(np.float32).astype(dtype_from_token(token))


def summary_of(values):
    flat = values.reshape(-1)
    return summarise(lambda start, stop: flat[start:stop], flat.size)[0]


def bits(seed, number):
    """Splitmix64 in Python's own whole numbers."""
    most = 2**64 - 1
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & most
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & most
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & most
    return z ^ (z >> 31)


def sums_by_definition(values):
    """The 17 numbers of whole numbers, one value at a time."""
    sums = [sum(values)] + [0] * 16
    for place, value in enumerate(values):
        row, column = divmod(place, 512)
        for k in range(16):
            minus = bits(1, column) >> k & 1
            minus ^= bits(2, row) >> (k // 2) & 1 if k > 1 else 0
            sums[1 + k] += -value if minus else value
    return sums


def same(found, expected, norm):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name in ("min", "max", "nan_count", "inf_count"):
            np.testing.assert_equal(found[name], value, err_msg=name)
        else:
            np.testing.assert_allclose(found[name], value, rtol=ROUNDING, atol=ROUNDING * norm)


def test_the_signs_are_those_that_files_were_written_with():
    # The first output for seed 0 is that of the authors' own program.
    assert bits(0, 0) == 0xE220A8397B1DCDAF
    assert [hex(bits(1, k)) for k in (0, 1)] == ["0x910a2dec89025cc1", "0xbeeb8da1658eec67"]
    assert [hex(bits(2, k)) for k in (0, 1)] == ["0x975835de1c9756ce", "0xbfc846100bfc1e42"]
    columns = [[1 - 2 * (bits(1, c) >> k & 1) for c in range(512)] for k in range(16)]
    np.testing.assert_array_equal(column_signs(), columns)
    rows = [[1 - 2 * (bits(2, r) >> p & 1 if p else 0) for r in range(50)] for p in range(8)]
    np.testing.assert_array_equal(row_signs(50), rows)
    np.testing.assert_array_equal(row_signs(20, first=30), row_signs(50)[:, 30:])


@pytest.mark.parametrize("way", EACH_WAY)
def test_the_fingerprint_is_the_one_that_files_were_written_with(way):
    # Worked out from the definition in whole numbers, once.
    golden = [3298, -62, 138, -8, -26, -64, -46, 74, 12, -186, -48, -246, -6, -104, 52, 70, -42]
    values = np.arange(1, 1101) % 7
    assert WAYS[way](values)["fingerprint"] == golden
    assert WAYS[way](values.astype(np.float32))["fingerprint"] == golden


@settings(max_examples=15)
@given(size=st.integers(0, 1500), seed=st.integers(0, 99))
def test_whole_numbers_are_summed_as_defined(size, seed):
    values = np.random.default_rng(seed).integers(-99, 99, size)
    assert sketch(values).tolist() == sums_by_definition(values.tolist())


@pytest.mark.few(18)
@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("token", [*FLOATS, *INTEGERS])
def test_statistics_are_those_of_a_summary(way, token):
    for size in SIZES:
        values = values_of(token, size)
        summary = summary_of(values)
        found = WAYS[way](values)
        wide = computable(values).astype(np.float64)
        expected = {name: summary[name] for name in STATISTICS}
        rows = np.zeros(-(-size // 512) * 512)
        rows[:size] = wide
        rows = rows.reshape(-1, 512)
        signs = row_signs(len(rows))
        numbers = [
            np.einsum("r,rc,c", signs[k // 2], rows, column_signs()[k], optimize=True)
            for k in range(16)
        ]
        same(found, expected | {"fingerprint": [wide.sum(), *numbers]}, summary["l2"])


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("token", ["float32", "float64", "bfloat16", "float16"])
def test_nan_and_infinities_are_counted_and_are_zeros_of_the_fingerprint(way, token):
    for size in (3, 64, 8195, 20_000):
        values = values_of(token, size)
        bad = np.random.default_rng(1).permutation(size)[: size // 2 + 1]
        values[bad] = NAN
        values[bad[::3]] = INF
        values[bad[1::3]] = -INF
        summary = summary_of(values)
        clean = values.copy()
        clean[bad] = 0
        found = WAYS[way](values)
        expected = {name: summary[name] for name in STATISTICS}
        expected["fingerprint"] = WAYS["numpy"](clean)["fingerprint"]
        same(found, expected, summary["l2"])
        assert found["nan_count"] + found["inf_count"] == len(bad)


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("bad", [[NAN], [INF, -INF, NAN], [NAN] * 9000])
def test_without_a_finite_value_there_are_no_extremes_and_no_mean(way, bad):
    found = WAYS[way](np.array(bad))
    assert np.isnan([found["min"], found["max"], found["mean"]]).all()
    assert found["l2"] == 0.0
    assert found["fingerprint"] == [0.0] * 17


@needs_loop
@pytest.mark.parametrize("token", ["float32", "float64", "bfloat16", "int16"])
def test_signed_sums_have_the_same_bits_on_every_processor(token):
    values = values_of(token, 70_001)
    assert (
        WAYS["compiled"](values)["fingerprint"][1:] == WAYS["portable"](values)["fingerprint"][1:]
    )


def test_an_empty_tensor_has_sums_of_zero():
    for dtype in ("float32", "int8", "complex64"):
        found = statistics_of(np.empty((3, 0), dtype), True)
        assert np.isnan([found["min"], found["max"], found["mean"]]).all()
        assert (found["l2"], found["nan_count"], found["inf_count"]) == (0.0, 0, 0)
        assert found["fingerprint"] == [0.0] * 17


@pytest.mark.parametrize("value", [1e200, 1e-200, 5e-324])
def test_squares_outside_the_range_of_float64_do_not_harm_the_norm(value):
    found = statistics_of(np.full(4, value), True)
    np.testing.assert_allclose(found["l2"], 2 * value, rtol=1e-15)
    assert (found["min"], found["max"], found["mean"]) == (value, value, value)
    assert found["fingerprint"][0] == 4 * value


def test_values_at_the_end_of_float32_keep_their_norm():
    # By hand: the squares of both are no float32.
    values = np.array([3e-40, 4e-40], np.float32)
    np.testing.assert_allclose(statistics_of(values, False)["l2"], 5e-40, rtol=1e-5)
    values = np.array([3e38, 0.5e38], np.float32)
    expected = np.linalg.norm(values.astype(np.float64))
    np.testing.assert_allclose(statistics_of(values, False)["l2"], expected, rtol=1e-15)


def test_minus_zero_is_a_plain_zero():
    found = statistics_of(np.array([-0.0], np.float32), False)
    assert not np.signbit([found["min"], found["max"]]).any()


def test_statistics_are_pythons_own_numbers():
    for values in (np.ones(3, np.float32), np.ones(3, np.complex64), np.array([NAN, 1e300])):
        found = statistics_of(values, True)
        assert [type(found[name]) for name in STATISTICS] == [float] * 4 + [int] * 2
        assert {type(number) for number in found["fingerprint"]} == {float}


def test_the_fingerprint_is_left_out_unless_it_is_asked_for():
    with_it, without = (statistics_of(values_of("float32", 9000), wanted) for wanted in (1, 0))
    assert with_it.pop("fingerprint")
    assert with_it == without


@pytest.mark.parametrize("block", [512, 1024, 8192, 70_144])
@pytest.mark.parametrize("token", ["float32", "bfloat16", "int64", "float64", "complex64"])
def test_blocks_give_the_fingerprint_of_the_whole(block, token):
    values = np.arange(1, 20_001) % 17 - 5
    values = values.astype(dtype_from_token(token))
    running = BlockSketch()
    for start in range(0, len(values), block):
        running.add(start, values[start : start + block])
    # Whole numbers are summed exactly in any order.
    np.testing.assert_array_equal(running.numbers, sketch(values))


def test_blocks_that_numpy_sums_fit_together_as_well():
    values = np.arange(20_000.0) % 17
    numbers = sum(
        sketches._sums(values[start : start + 1536], 512, start // 512)
        for start in range(0, len(values), 1536)
    )
    np.testing.assert_array_equal(numbers, sketch(values))


def test_strides_and_byte_order_make_no_difference():
    values = values_of("float32", 6000).reshape(60, 100)
    expected = sketch(np.ascontiguousarray(values.T))
    np.testing.assert_array_equal(sketch(values.T), expected)
    np.testing.assert_array_equal(sketch(values.T.astype(">f4")), expected)
    np.testing.assert_array_equal(sketch(values.T.reshape(-1)), expected)


def test_complex_numbers_are_their_parts_and_measured_by_modulus():
    values = np.array([3 + 4j, -1 + 0j], np.complex64)
    found = statistics_of(values, True)
    assert (found["min"], found["max"], found["mean"]) == (1.0, 5.0, 3.0)
    np.testing.assert_array_equal(found["fingerprint"], sketch(np.array([3.0, 4.0, -1.0, 0.0])))


def test_what_holds_no_numbers_is_refused():
    with pytest.raises(ValueError, match="object"):
        statistics_of(np.array([None]), True)


@needs_loop
def test_several_threads_measure_at_once():
    tensors = [values_of("float32", 200_000, seed) for seed in range(4)]
    expected = [statistics_of(one, True) for one in tensors]
    found = [None] * 4

    def work(place):
        for _ in range(5):
            found[place] = statistics_of(tensors[place], True)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def changed(name, x, rng):
    flat = x.reshape(-1)
    if name == "rows permuted":
        return x[rng.permutation(256)]
    if name == "all elements permuted":
        return rng.permutation(flat).reshape(x.shape)
    if name == "two rows swapped":
        return x[[1, 0, *range(2, 256)]]
    if name == "transposed and reshaped":
        return x.T.reshape(256, 1024)
    if name == "heads interleaved":
        return x.reshape(256, 8, 128).transpose(1, 0, 2).reshape(256, 1024)
    if name == "two elements swapped":
        return np.concatenate([flat[1::-1], flat[2:]]).reshape(x.shape)
    if name == "rolled by one":
        return np.roll(flat, 1).reshape(x.shape)
    if name == "sign of one row":
        return x * np.where(np.arange(256) == 5, -1, 1)[:, None].astype(np.float32)
    if name == "noise 1e-6":
        return x + np.float32(1e-6) * rng.normal(size=x.shape).astype(np.float32)
    if name == "through bfloat16":
        return x.astype(dtype_from_token("bfloat16")).astype(np.float32)
    return x * np.float32(1 + 1e-4)


@pytest.mark.parametrize(
    "name",
    [
        *("rows permuted", "all elements permuted", "two rows swapped", "transposed and reshaped"),
        *("heads interleaved", "two elements swapped", "rolled by one", "sign of one row"),
        *("noise 1e-6", "through bfloat16", "scaled"),
    ],
)
def test_the_distance_is_estimated_where_extremes_and_norm_may_be_equal(name):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 1024)).astype(np.float32)
    y = changed(name, x, rng)
    truth = np.linalg.norm((y - x).astype(np.float64))
    # Nine of ten random differences lie within; these do for this x.
    assert 0.43 < estimated_l2(sketch(x), sketch(y)) / truth < 1.63


def test_nine_estimates_of_ten_lie_in_the_band():
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(100):
        wave = np.sin(np.arange(32_768) * rng.random() * 0.1)
        one = np.zeros(32_768)
        one[rng.integers(32_768)] = 1.0
        outer = np.outer(rng.normal(size=64), rng.normal(size=512))
        for difference in (wave, one, outer, rng.normal(size=32_768)):
            estimate = estimated_l2(sketch(difference), np.zeros(17))
            ratios.append(estimate / np.linalg.norm(difference))
    ratios = np.array(ratios)
    assert np.mean((ratios > 0.43) & (ratios < 1.63)) >= 0.9
    # What is expected of the square is the square of the truth.
    assert 0.85 < np.mean(ratios**2) < 1.15


def test_equal_fingerprints_are_no_distance_apart():
    numbers = sketch(values_of("float32", 5000))
    assert estimated_l2(numbers, numbers) == 0.0


def test_the_distance_to_an_unknown_fingerprint_is_unknown():
    assert np.isnan(estimated_l2(np.full(17, NAN), np.ones(17)))


def test_the_estimate_does_not_leave_the_range_of_float64():
    numbers = sketch(values_of("float64", 5000))
    expected = estimated_l2(numbers, np.zeros(17))
    for scale in (1e-250, 1e250):
        estimate = estimated_l2(numbers * scale, np.zeros(17))
        np.testing.assert_allclose(estimate, expected * scale, rtol=1e-12)


def test_positive_infinities_are_counted_where_there_are_any():
    assert "posinf_count" not in statistics_of(np.ones(3, np.float32), fingerprint=False)
    for dtype in (np.float16, np.float32, np.float64):
        values = np.array([1, np.inf, -np.inf, np.inf, np.nan], dtype)
        for shaped in (values, values[:, None], np.broadcast_to(values, (1, 5))):
            found = statistics_of(shaped, fingerprint=False)
            assert (found["inf_count"], found["posinf_count"]) == (3, 2)
        found = statistics_of(np.array(np.inf, dtype), fingerprint=False)
        assert (found["inf_count"], found["posinf_count"]) == (1, 1)
