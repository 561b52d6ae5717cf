"""Entry names of torch_npu.hooks, ptdbg_ascend, TroubleShooter's api dump and kernel dumps."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from troubleshooter_nb.naming.api_dump import parse_api_name, site_of_api
from troubleshooter_nb.naming.hooks import (
    CATEGORIES,
    HookName,
    calls_of,
    format_hook_name,
    is_in_place,
    parse_async_name,
    parse_hook_name,
    site_of_hook,
    steps_of,
)
from troubleshooter_nb.naming.kernel import parse_kernel_name, site_of_kernel

pytestmark = pytest.mark.once

DATA = Path(__file__).parent / "data" / "torch_npu_hooks"
NAMES = json.loads((DATA / "names.json").read_text())


@pytest.mark.parametrize("case", NAMES, ids=[case["name"] for case in NAMES])
def test_the_eighteen_names_have_the_given_parts(case):
    got = parse_hook_name(case["name"])
    assert got == HookName(
        case["op"],
        case["direction"],
        case["io"],
        category=case["category"],
        number=case["index"],
        call=case["call"],
        position=tuple(case["position"]),
    )
    assert format_hook_name(got) == case["name"]


ops = st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True).filter(
    # An op cannot look like what follows it.
    lambda op: (
        not any(part in f"{op}_" for part in ("_forward_", "_backward_"))
        and not op.rpartition("_")[2].isdigit()
        and not op.startswith(("forward_", "backward_"))
    )
)


@given(
    op=ops,
    category=st.sampled_from(CATEGORIES),
    number=st.none() | st.integers(0, 10**6),
    call=st.none() | st.integers(0, 10**6),
    direction=st.sampled_from(["forward", "backward"]),
    io=st.sampled_from(["input", "output", "stack_info"]),
    position=st.lists(st.integers(0, 99), max_size=3).map(tuple),
)
def test_names_survive_writing_and_parsing(op, category, number, call, direction, io, position):
    parts = HookName(op, direction, io, category, number, call, position)
    assert parse_hook_name(format_hook_name(parts)) == parts


def test_a_name_with_a_prefix_of_the_users_own_has_no_category():
    got = parse_hook_name("my_block_3_forward_output.0")
    assert got == HookName("my_block", "forward", "output", call=3, position=(0,))
    assert site_of_hook(got, 3, arriving_is_output=False).path == "my_block"


@pytest.mark.parametrize(
    "name", ["", "x", "0_input", "Functional_relu_forward", "x_forward_middle"]
)
def test_other_names_are_none_of_ours(name):
    assert parse_hook_name(name) is None


def test_the_longest_names_are_parsed_in_no_time():
    started = time.process_time()
    for name in ("_forward_" * 20_000, "0_" * 20_000, "Tensor_" * 5_000 + "_1" * 5_000):
        assert parse_hook_name(name) is None
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("relu_", True),
        ("__iadd__", True),
        ("__imul__", True),
        ("relu", False),
        ("__add__", False),
        ("__invert__", False),
        ("__index__", False),
    ],
)
def test_ops_that_work_in_place_are_known_by_their_names(op, expected):
    assert is_in_place(op) is expected


def test_the_arriving_gradient_is_the_input_of_the_way_back_for_both_tools():
    old = parse_hook_name("43_Torch_relu_backward_output.0")
    new = parse_hook_name("Torch_relu_0_backward_input.0")
    a = site_of_hook(old, 0, arriving_is_output=True)
    b = site_of_hook(new, 0, arriving_is_output=False)
    assert a == b
    assert (a.kind, a.path, a.direction, a.role, a.slot) == (
        *("api", "Torch.relu", "backward"),
        *("input", "0"),
    )


def names(*texts):
    return [parse_hook_name(f"Torch_{text}") for text in texts]


def test_calls_are_counted_by_their_first_line():
    sequence = names(
        *("a_forward_input.0", "a_forward_input.1", "a_forward_output"),
        *("a_forward_input.0", "a_forward_output"),
        *("b_forward_input.0", "a_forward_output"),
    )
    assert calls_of(sequence) == ([0, 0, 0, 1, 1, 0, 2], [])


def test_backward_calls_are_counted_from_the_last_forward_call():
    sequence = names(
        *("a_forward_output", "b_forward_output", "a_forward_output"),
        *("a_backward_output.0", "b_backward_output.0", "a_backward_output.0"),
    )
    assert calls_of(sequence) == ([0, 0, 1, 1, 0, 0], [])


def test_backward_calls_without_a_partner_each_are_counted_as_written():
    sequence = names("a_forward_output", "b_forward_output", "a_forward_output")
    sequence += names("a_backward_output.0")
    assert calls_of(sequence) == ([0, 0, 1, 0], ["Torch.a"])


STEP = ("a_forward_input.0", "a_forward_output", "a_backward_input.0", "a_backward_output.0")


def test_steps_are_seen_where_names_repeat_from_backward_to_forward():
    assert steps_of(names(*STEP, *STEP, *STEP)) == ([0] * 4 + [1] * 4 + [2] * 4, 4)


def test_a_last_step_may_be_cut_short():
    assert steps_of(names(*STEP, *STEP, *STEP[:1])) == ([0] * 4 + [1] * 4 + [2], 4)


def test_calls_that_repeat_within_forward_are_no_steps():
    assert steps_of(names(*STEP[:2] * 6)) == ([0] * 12, None)
    assert steps_of(names(*STEP[:2] * 3, *STEP[2:] * 3)) == ([0] * 12, None)


def test_one_step_of_many_lines_costs_linear_time():
    sequence = names(*(f"a{k}_forward_output" for k in range(50_000)))
    started = time.process_time()
    assert steps_of(sequence)[1] is None
    assert steps_of(names("a_forward_output") * 50_000)[1] is None
    assert time.process_time() - started < 5


def test_the_name_of_an_asynchronous_file_says_the_view():
    got = parse_async_name(
        "16_Functional_relu_backward_input0_shape[2,1]_stride[1,1]_offset[0]_format[2]"
    )
    assert (got.shape, got.stride, got.offset, got.format) == ((2, 1), (1, 1), 0, 2)
    assert got.name.position == (0,)
    assert got.name.number == 16
    scalar = parse_async_name("3_Torch_sum_forward_output0_shape[]_stride[]_offset[4]_format[-1]")
    assert (scalar.shape, scalar.stride, scalar.offset, scalar.format) == ((), (), 4, -1)


@pytest.mark.parametrize(
    "name",
    [
        "16_Functional_relu_backward_input0_shape[2,,1]_stride[1,1]_offset[0]_format[2]",
        "16_Functional_relu_backward_input0_shape[2]_stride[1]_offset[-1]_format[2]",
        f"1_Torch_a_forward_input0_shape[{'9' * 30}]_stride[1]_offset[0]_format[2]",
        "16_Functional_relu_backward_input.0",
    ],
)
def test_names_that_say_no_view_are_not_asynchronous(name):
    assert parse_async_name(name) is None


def test_names_of_the_api_dump():
    got = parse_api_name("Functional_conv_transpose2d_3_forward_input.0.1")
    assert (got.category, got.op, got.call, got.slot) == (
        *("Functional", "conv_transpose2d"),
        *(3, "0.1"),
    )
    assert site_of_api(got, 3).path == "Functional.conv_transpose2d"
    marker = parse_api_name("LAYER_layers_0_conv_forward_input")
    assert marker.is_marker
    assert (marker.op, site_of_api(marker, 0).role) == ("layers_0_conv", "")
    assert parse_api_name("Functional_relu_forward_input.0") is None


def test_names_of_kernel_dumps_are_split_from_both_ends():
    got = parse_kernel_name(
        "MatMul.Default_MatMul-op0.0.10.1795815294059694.output.0.DefaultFormat.Float32.npy"
    )
    assert (got.type, got.op, got.task, got.stream, got.time) == (
        *("MatMul", "Default_MatMul-op0", 0, 10),
        1795815294059694,
    )
    assert (got.layout, got.dtype) == ("DefaultFormat", "Float32")
    assert got.stable == "MatMul.Default_MatMul-op0.output.0"
    dotted = parse_kernel_name("ReLU.net.fc1.x_ReLU-op0.0.0.17.input.2.ND.npy")
    assert (dotted.op, dotted.slot, dotted.dtype) == ("net.fc1.x_ReLU-op0", 2, "")
    assert parse_kernel_name("x_float32_0.npy") is None


@pytest.mark.parametrize(
    ("name", "direction", "role"),
    [
        ("ReLU.Default_ReLU-op0.0.0.1.input.0.ND", "forward", "input"),
        ("Mul.Gradients_Default_Mul-op1.0.0.1.output.0.ND", "backward", "output"),
        ("Parameter.fc1_weight.0.0.1.output.0.ND", "", "parameter"),
    ],
)
def test_kernels_run_forward_or_backward_by_their_scope(name, direction, role):
    site = site_of_kernel(parse_kernel_name(name), 0)
    assert (site.kind, site.direction, site.role) == ("kernel", direction, role)
