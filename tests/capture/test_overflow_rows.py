"""At which calls of a made-up stream values stop being finite, or come near to it."""

from __future__ import annotations

import math

import pytest

from troubleshooter_nb.capture.overflow import classify
from troubleshooter_nb.metrics.float_formats import FORMATS

INF = math.inf


def value(low=-1.0, high=1.0, *, nan=0, inf=0, size=64, dtype="float32", slot="0", number=None):
    return {
        **{"slot": slot, "dtype": dtype, "min": low, "max": high},
        **{"nan_count": nan, "inf_count": inf, "size": size, "value": number},
    }


class Stream:
    """Calls as they began, numbered from 0."""

    def __init__(self):
        self.calls = []

    def call(self, path, inputs, outputs, *, parent=None, **more):
        number = len(self.calls)
        self.calls.append(
            {
                **{"step": 0, "call": number, "path": path, "layer": "", "direction": "forward"},
                **{"parent": parent, "inputs": inputs, "outputs": outputs},
                **more,
            }
        )
        return number

    def kinds(self):
        return [(row["path"], row["kind"]) for row in classify(self.calls)]


@pytest.fixture
def stream():
    return Stream()


SICK = value(nan=3)
MASKED = value(-5.0, 5.0, inf=30)
SCORES = value(-5.0, 5.0)


def test_a_stream_of_finite_values_has_no_rows(stream):
    stream.call("fc", [value()], [value()])
    stream.call("argmax", [value()], [value(0, 63, dtype="int64", nan=None, inf=None)])
    assert classify(stream.calls) == []
    assert classify([]) == []


def test_what_starts_is_passed_on_and_recovers_is_told_in_order(stream):
    stream.call("a", [value()], [value()])
    stream.call("b", [value()], [value(inf=2)], stack="line 3")
    stream.call("c", [value(inf=2)], [SICK])
    stream.call("d", [SICK], [value()])
    stream.call("e", [value()], [value()])
    assert stream.kinds() == [("b", "starts"), ("c", "passed_on"), ("d", "recovered")]
    first, second, third = classify(stream.calls)
    assert (first["inf_count"], first["nan_count"], first["slot"]) == (2, 0, "0")
    assert (first["stack"], first["source"], first["unmeasured"]) == ("line 3", "", 0)
    assert (second["nan_count"], second["source"]) == (3, "0")
    # Of what recovered, that which came in is told.
    assert (third["nan_count"], third["size"]) == (3, 64)


def test_a_call_that_asks_where_nan_lies_has_not_recovered_from_it(stream):
    stream.call("isnan", [SICK], [value(0, 1, dtype="bool")])
    assert classify(stream.calls) == []


def test_a_parameter_that_is_not_finite_is_where_it_comes_from(stream):
    stream.call("fc", [value()], [SICK], parameters=[value(nan=1, slot="weight")])
    (row,) = classify(stream.calls)
    assert (row["kind"], row["source"]) == ("passed_on", "parameters.weight")


def test_inputs_of_which_nothing_is_known_are_counted(stream):
    unknown = value(None, None, nan=None, inf=None)
    stream.call("fc", [unknown, value(slot="1")], [SICK])
    (row,) = classify(stream.calls)
    assert (row["kind"], row["unmeasured"]) == ("starts", 1)


def test_the_innermost_call_is_told_and_the_module_around_it(stream):
    net = stream.call("", [value()], [SICK])
    block = stream.call("blocks.0", [value()], [SICK], parent=net)
    stream.call("blocks.0.ln", [value()], [value()], parent=block)
    fc = stream.call("blocks.0.fc", [value()], [SICK], parent=block)
    stream.call("Functional.linear", [value()], [SICK], parent=fc, kind="api")
    stream.call("blocks.1", [SICK], [SICK], parent=net)
    assert stream.kinds() == [("Functional.linear", "starts"), ("blocks.1", "passed_on")]
    assert [row["inside"] for row in classify(stream.calls)] == ["blocks.0.fc", ""]


def test_a_container_is_told_where_no_call_in_it_made_what_one_of_them_got(stream):
    """Python between the calls made it: the inner call only passes it on."""
    block = stream.call("block", [value()], [SICK])
    stream.call("block.a", [value()], [value()], parent=block)
    stream.call("block.b", [SICK], [SICK], parent=block)
    assert stream.kinds() == [("block", "starts"), ("block.b", "passed_on")]


def test_a_container_of_what_was_passed_on_and_recovered_is_left_out(stream):
    block = stream.call("block", [SICK], [value()])
    stream.call("block.a", [SICK], [SICK], parent=block)
    stream.call("block.b", [SICK], [value()], parent=block)
    assert stream.kinds() == [("block.a", "passed_on"), ("block.b", "recovered")]


def test_backward_calls_lie_in_their_own_containers(stream):
    for direction, outer, inner in (("forward", value(), value()), ("backward", SICK, SICK)):
        calls = [("block", outer, None), ("block.a", inner, 7)]
        for number, (path, output, parent) in zip((7, 8), calls, strict=True):
            stream.call(path, [value()], [output], parent=parent, direction=direction, call=number)
    (row,) = classify(stream.calls)
    assert (row["path"], row["kind"], row["direction"]) == ("block.a", "starts", "backward")


# Infinities that are meant


@pytest.mark.parametrize("number", [None, 1])
@pytest.mark.parametrize("low", [-5.0, -INF])
def test_minus_infinity_that_is_filled_in_is_silent_until_it_is_finite_again(stream, number, low):
    masked = value(low, 5.0, inf=30, number=number)
    stream.call("masked_fill", [SCORES, value(dtype="bool")], [masked], plain=[-INF])
    stream.call("softmax", [masked], [value(0.0, 1.0)])
    assert classify(stream.calls) == []


def test_nan_that_a_row_masked_whole_becomes_starts_at_the_softmax(stream):
    stream.call("masked_fill", [SCORES], [MASKED], plain=[-INF])
    stream.call("softmax", [MASKED], [value(0.0, 1.0, nan=8)])
    stream.call("matmul", [value(0.0, 1.0, nan=8), value()], [value(nan=8)])
    assert stream.kinds() == [("softmax", "starts"), ("matmul", "passed_on")]


@pytest.mark.parametrize(
    "mask",
    [
        value(0.0, 0.0, inf=30),  # of the finite values: the signs are not known, zeros are
        value(-INF, 0.0, inf=30),  # of all values
        value(None, None, inf=1, size=1),  # a constant as a tensor
    ],
)
def test_a_mask_from_outside_is_silent(stream, mask):
    stream.call("add", [SCORES, mask | {"slot": "1"}], [MASKED])
    stream.call("softmax", [MASKED], [value(0.0, 1.0)])
    assert classify(stream.calls) == []


@pytest.mark.parametrize(
    "given",
    [
        value(-3.0, 5.0, inf=4),  # signs not known, values of all sizes
        value(-3.0, INF, inf=4),  # plus infinity masks nothing
        value(-INF, 6e4, inf=4, dtype="float16"),  # beside values that nearly overflowed
        value(0.0, 0.0, inf=4, nan=1),
    ],
)
def test_infinities_from_outside_that_are_no_mask_are_told(stream, given):
    stream.call("fc", [given], [SICK])
    assert stream.kinds() == [("fc", "passed_on")]


def test_a_fill_that_gives_nothing_back_is_remembered(stream):
    """``x[mask] = -inf``: the value that was written to is met by the next call only."""
    stream.call("Tensor.__setitem__", [SCORES | {"value": 1}], [], plain=[-INF])
    stream.call("softmax", [MASKED | {"value": 2}], [value(0.0, 1.0)])
    assert classify(stream.calls) == []


def test_a_container_knows_what_was_filled_in_inside_it(stream):
    mask = stream.call("mask", [SCORES], [MASKED])
    stream.call("masked_fill", [SCORES], [MASKED], parent=mask, plain=[-INF], kind="api")
    assert classify(stream.calls) == []


def test_log_of_zero_is_no_mask(stream):
    log = value(-INF, 0.0, inf=4, number=1)
    stream.call("log", [value(0.0, 1.0)], [log])
    stream.call("mul", [log], [log | {"value": 2}])
    assert stream.kinds() == [("log", "starts"), ("mul", "passed_on")]


def test_plus_infinity_beside_a_mask_overflowed(stream):
    stream.call("add", [SCORES, value(-INF, 0.0, inf=30)], [value(-INF, INF, inf=31)])
    assert stream.kinds() == [("add", "starts")]


def test_a_loss_that_is_infinite_as_a_whole_starts_there(stream):
    stream.call("masked_fill", [SCORES], [MASKED], plain=[-INF])
    stream.call("log_softmax", [MASKED], [MASKED])
    stream.call("nll_loss", [MASKED], [value(None, None, inf=1, size=1)])
    assert stream.kinds() == [("nll_loss", "starts")]


def test_a_mask_that_is_filled_as_a_whole_may_be_passed_on(stream):
    whole = value(None, None, inf=64)
    stream.call("full", [], [whole], plain=[8, 8, -INF])
    stream.call("Tensor.to", [whole], [whole])
    stream.call("triu", [whole], [value(0.0, 0.0, inf=28)], plain=[1])
    assert classify(stream.calls) == []


def test_memory_as_it_was_found_is_no_alarm(stream):
    found = value(-3.0, 3.0, nan=5, inf=2, number=1)
    stream.call("torch.empty", [], [found])
    stream.call("Tensor.normal_", [found], [value(number=2)])
    assert classify(stream.calls) == []


def test_a_mask_after_a_start_of_the_same_step_is_not_excused(stream):
    mask = value(-INF, 0.0, inf=30)
    stream.call("fc", [value()], [SICK])
    stream.call("softmax", [mask], [value()])
    stream.call("softmax", [mask], [value()], step=1)
    assert [(row["path"], row["step"]) for row in classify(stream.calls)] == [
        ("fc", 0),
        ("softmax", 0),
    ]


# Near the limit


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("share", "kind"),
    [(1.0, "saturated"), (0.99, "near_limit"), (0.2, "near_limit"), (0.1, None)],
)
def test_values_near_the_largest_finite_one_are_told(stream, dtype, share, kind):
    largest = FORMATS[dtype].largest
    stream.call("fc", [value(dtype=dtype)], [value(-share * largest, 0.0, dtype=dtype)])
    assert stream.kinds() == ([("fc", kind)] if kind else [])
    for row in classify(stream.calls):
        assert row["share_of_limit"] == pytest.approx(share, rel=1e-12)
        assert row["max_abs"] == share * largest


def test_formats_that_values_are_scaled_to_fill_are_not_watched(stream):
    stream.call("quantize", [value()], [value(-448.0, 448.0, dtype="float8_e4m3fn")])
    stream.call("round", [value()], [value(-128, 127, dtype="int8")])
    assert classify(stream.calls) == []


def test_only_the_first_call_near_the_limit_is_told(stream):
    near = value(-4e4, 4e4, dtype="float16")
    outer = stream.call("block", [value(dtype="float16")], [near])
    stream.call("block.fc", [value(dtype="float16")], [near], parent=outer)
    stream.call("view", [near], [near])
    stream.call("clamp", [near], [value(-4e4, 65504.0, dtype="float16")])
    assert stream.kinds() == [("block.fc", "near_limit"), ("clamp", "saturated")]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_mask_of_the_smallest_finite_number_is_no_alarm(stream, dtype):
    lowest = -FORMATS[dtype].largest
    masked = value(lowest, 5.0, dtype=dtype)
    stream.call("masked_fill", [value(dtype=dtype)], [masked], plain=[lowest])
    stream.call("add", [value(dtype=dtype), value(lowest, 0.0, dtype=dtype)], [masked])
    stream.call("softmax", [masked], [value(0.0, 1.0, dtype=dtype)])
    assert classify(stream.calls) == []


def test_a_cast_to_a_shorter_format_comes_near_the_limit_of_that_one(stream):
    wide = value(-4e4, 4e4)
    stream.call("Tensor.to", [wide], [value(-4e4, 4e4, dtype="float16")])
    stream.call("Tensor.to", [value(-1e6, 1e6)], [value(None, None, inf=9, dtype="float16")])
    assert [kind for _, kind in stream.kinds()] == ["near_limit", "starts"]
