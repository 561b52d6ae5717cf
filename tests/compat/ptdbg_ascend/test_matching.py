"""Which calls of two dumps belong together, beside a plain reading of the rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import troubleshooter_nb as tnb
from tests.compat.ptdbg_ascend.dumps import line, param, run, table, written
from tests.compat.search_by_rounds import searched
from troubleshooter_nb.compat.ptdbg_ascend import compare
from troubleshooter_nb.compat.ptdbg_ascend.calls import CallLines, calls_of_file, pairs_of_calls
from troubleshooter_nb.compat.ptdbg_ascend.releases import RELEASES
from troubleshooter_nb.formats.hooks_lines import Line

ONES = np.ones((2, 3), np.float32)


def outputs(*ops: str) -> dict[str, np.ndarray]:
    return {f"Torch_{op}_forward_output": ONES for op in ops}


def names(rows: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Left and right, without category and direction."""
    return [(short(row["NPU Name"]), short(row["Bench Name"])) for row in rows]


def short(name: str) -> str:
    return name.removeprefix("Torch_").partition("_forward")[0]


def groups(tmp_path, *ops: str) -> list[list[str]]:
    rank = written(tmp_path, [line(op) for op in ops])
    calls = calls_of_file(rank / "dump.pkl", fuzzy=False)
    return [[one.name for one in call.lines] for call in calls]


# Groups


def test_a_call_has_all_outputs_that_follow_one_another(tmp_path):
    ops = ["a_0_forward_input.0", "a_0_forward_output.0", "a_0_forward_output.1"]
    assert groups(tmp_path, *ops, "b_0_forward_input.0", "b_0_forward_output") == [
        ops,
        ["b_0_forward_input.0", "b_0_forward_output"],
    ]


def test_a_call_stack_ends_a_call(tmp_path):
    ops = ["a_0_forward_output", "a_0_forward_stack_info", "b_0_forward_output"]
    assert groups(tmp_path, *ops) == [ops[:1], ops[2:]]
    assert groups(tmp_path, ops[0], ops[2]) == [[ops[0], ops[2]]]


def test_what_has_no_output_belongs_to_the_next_call(tmp_path):
    ops = ["a_0_forward_input.0", "b_0_forward_input.0", "b_0_forward_output"]
    assert groups(tmp_path, *ops, "c_0_forward_input.0") == [ops]


def test_an_op_may_be_called_after_its_output(tmp_path):
    ops = ["Torch_output_0_forward_input.0", "Torch_output_0_forward_output"]
    assert groups(tmp_path, *ops) == [ops]


# Partners


def dump_of_calls(folder: Path, *ops: str) -> Path:
    """A rank with an output and a call stack of each op, so that each is a call of its own."""
    lines = [
        line(f"Torch_{op}_0_forward_{io}", ONES if io == "output" else None)
        for op in ops
        for io in ("output", "stack_info")
    ]
    return written(folder, lines, outputs(*(f"{op}_0" for op in ops)))


def test_what_has_no_partner_is_a_row_on_the_left_and_none_on_the_right(tmp_path):
    left, right = (dump_of_calls(tmp_path / ops, *ops) for ops in ("axb", "abz"))
    rows = table(compare(param(left, right), tmp_path / "out"))
    assert names(rows) == [("a_0", "a_0"), ("x_0", "Nan"), ("b_0", "b_0")]
    alone = rows[1]
    assert alone["Accuracy Reached or Not"] == alone["Cosine"] == alone["Bench max"] == "Nan"
    assert alone["Bench Tensor Shape"] == alone["Bench Tensor Dtype"] == "Nan"
    assert (alone["NPU Tensor Shape"], alone["NPU max"]) == ("[2, 3]", "1.0")
    assert alone["Err_message"] == "no partner in the reference"
    plain = table(compare(param(left, right, arrays=False), tmp_path / "out"))
    assert names(plain) == names(rows)
    assert plain[1]["Max diff"] == plain[1]["Bench max"] == "Nan"
    # Which our own comparison tells of.
    both = tnb.compare(left, right).to_dataframe()
    assert {*both[both["left"] == ""]["right"]} == {"Torch_z_0_forward_output"}


def test_call_numbers_count_unless_the_match_is_fuzzy(tmp_path):
    left = run(tmp_path / "left", outputs("relu_0"))
    right = run(tmp_path / "right", outputs("relu_3"))
    given = param(left, right)
    assert names(table(compare(given, tmp_path / "out"))) == [("relu_0", "Nan")]
    fuzzy = table(compare(given, tmp_path / "out", fuzzy_match=True))
    assert names(fuzzy) == [("relu_0", "relu_3")]
    assert fuzzy[0]["Accuracy Reached or Not"] == "Yes"


@pytest.mark.parametrize(
    ("left", "right", "fitting"),
    [
        ("float32", "float32", ("1.0", "2.0", "3.0", "4.0")),
        ("float16", "float32", ("1.0", "2.0", "3.0", "4.0")),
        ("float16", "bfloat16", ("1.0", "4.0")),
        ("bfloat16", "float32", ("1.0",)),
        ("float64", "float32", ("1.0",)),
        ("int64", "int32", ("1.0",)),
    ],
)
def test_which_dtypes_pair_in_which_release(tmp_path, left, right, fitting):
    for first, second in ((left, right), (right, left)):
        sides = [
            written(
                tmp_path / side,
                [line("Torch_a_0_forward_output", ONES, f"torch.{dtype}")],
                outputs("a_0"),
            )
            for side, dtype in (("left", first), ("right", second))
        ]
        for release in RELEASES:
            rows = table(compare(param(*sides), tmp_path / "out", release=release))
            partner = "a_0" if release in fitting else "Nan"
            assert names(rows) == [("a_0", partner)], (first, second, release)


def test_other_shapes_are_no_partners(tmp_path):
    left = run(tmp_path / "left", outputs("a_0"))
    right = run(tmp_path / "right", {"Torch_a_0_forward_output": ONES.T})
    assert names(table(compare(param(left, right), tmp_path / "out"))) == [("a_0", "Nan")]


# The search


def call(op: str) -> CallLines:
    """`a`, `b`, `c` are float16, bfloat16, float32 of one name; others of another name."""
    dtypes = {"a": "torch.float16", "b": "torch.bfloat16", "c": "torch.float32"}
    name = "x" if op in dtypes else op
    return CallLines((Line(1, name, 0, dtype=dtypes.get(op, "torch.int64"), shape=(2,)),), (name,))


def reference(left: list[CallLines], right: list[CallLines]) -> list[tuple[int, int]]:
    def fit(p, q):
        one, other = (side[place].lines[0] for side, place in ((left, p), (right, q)))
        dtypes = {one.dtype, other.dtype}
        alike = len(dtypes) == 1 or dtypes in (
            {"torch.float16", "torch.float32"},
            {"torch.float16", "torch.bfloat16"},
        )
        return one.name == other.name and alike

    return searched(left, right, fit)


@given(left=st.text("abcxy", max_size=14), right=st.text("abcxy", max_size=14))
def test_the_search_finds_what_trying_everything_finds(left, right):
    sides = [call(op) for op in left], [call(op) for op in right]
    wanted = dict(reference(*sides))
    found = [*pairs_of_calls(*sides, RELEASES["4.0"])]
    assert [id(one) for one, _ in found] == [id(one) for one in sides[0]]
    for place, (_, partner) in enumerate(found):
        other = sides[1][wanted[place]] if place in wanted else None
        assert partner is other


def test_a_long_search_without_a_partner_is_no_square():
    sides = [call("x") for _ in range(50_000)], [call("y") for _ in range(50_000)]
    assert all(other is None for _, other in pairs_of_calls(*sides, RELEASES["4.0"]))
