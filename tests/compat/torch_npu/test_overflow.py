"""`wrap_checkoverflow_hook`: the first operator whose result is not finite stops the run."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.compat.torch_npu.hooks import (
    overflow,
    register_hook,
    schedule,
    wrap_checkoverflow_hook,
)

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.compat.torch_npu.nets import Mixed, images  # noqa: E402

pytestmark = pytest.mark.torch
LARGE = torch.tensor([6e4, 1.0], dtype=torch.float16)
SAID = r"\[check overflow\]: module name :'{}' is overflow and dump file is saved in '(.*)'\."


@pytest.fixture(autouse=True)
def working(tmp_path, monkeypatch):
    """The working directory, into which the file goes."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def stopped(label: str, run, **keywords) -> list[list]:
    """The lines of the file, without those of the stack, that a function leaves when it stops."""
    said = SAID.format(label)
    with (
        register_hook(nn.Module(), wrap_checkoverflow_hook, **keywords),
        pytest.raises(ValueError, match=said) as caught,
    ):
        run()
    file = Path(re.search(said, str(caught.value))[1])
    assert re.fullmatch(r"Overflow_info_[0-9]{8}_[0-9]{6}\.pkl", file.name)
    assert file.parent == Path.cwd()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return [line for line in lines if "_stack_info." not in line[0]]


def test_the_call_is_written_with_all_that_it_was_given():
    def run() -> None:
        torch.neg(LARGE)
        torch.mul(LARGE, 2)
        torch.neg(LARGE)

    assert stopped("Torch_mul_forward", run) == [
        ["Torch_mul_forward_input.0", [6e4, 1.0], "torch.float16", [2]],
        ["Torch_mul_forward_input.1", 2],
        ["Torch_mul_forward_output", [math.inf, 2.0], "torch.float16", [2]],
    ]


def test_every_dtype_is_written():
    x, y, flag = torch.tensor([[1.0, 0.0]]), torch.tensor([[0, 0]]), torch.tensor(True)

    def run() -> None:
        torch.where(flag, x, y)
        torch.sum(x / y, (0, 1), False)

    assert stopped("Tensor___truediv___forward", run) == [
        ["Tensor___truediv___forward_input.0", [1.0, 0.0], "torch.float32", [1, 2]],
        ["Tensor___truediv___forward_input.1", [0.0, 0.0], "torch.int64", [1, 2]],
        [
            "Tensor___truediv___forward_output",
            [math.inf, pytest.approx(math.nan, nan_ok=True)],
            "torch.float32",
            [1, 2],
        ],
    ]


def test_words_stand_for_what_json_lacks():
    """The old tool raised TypeError at the dtype, and nothing of the finding was left."""
    hot = torch.tensor([math.inf])
    lines = stopped("Torch_softmax_forward", lambda: torch.softmax(hot, 0, torch.float64))
    assert [line[1] for line in lines[1:3]] == [0, "torch.float64"]


def test_the_inner_operator_is_named():
    hot = torch.tensor([[-math.inf, math.inf]])
    stopped("Torch_relu_forward", lambda: F.relu(hot))


def test_a_gradient_that_overflows_stops_the_backward_pass():
    tiny = torch.tensor([0.0], requires_grad=True)
    lines = stopped("Torch_sqrt_backward", lambda: torch.sqrt(tiny).sum().backward())
    assert lines == [
        ["Torch_sqrt_backward_input.0", [math.inf], "torch.float32", [1]],
        ["Torch_sqrt_backward_output.0", [1.0], "torch.float32", [1]],
    ]


def test_a_mixed_net_in_half_precision_stops_where_it_overflows():
    """The overflow script of the document, on the net with attention, whose mask is no overflow."""
    net = Mixed(torch.float16)
    batch = images(dtype=torch.float16)
    with register_hook(net, wrap_checkoverflow_hook):
        net(batch).sum().backward()
    net.value.weight.data.fill_(6e4)
    net.value.bias.data.fill_(0.0)
    lines = stopped("Functional_linear_forward", lambda: net(batch))
    names = [line[0].removeprefix("Functional_linear_forward_") for line in lines]
    assert names == ["input.0", "input.1", "input.2", "output"]
    given = torch.tensor(lines[0][1]).reshape(lines[0][3])
    assert torch.isfinite(given).all()
    found = torch.tensor(lines[3][1]).reshape(lines[3][3])
    # Row for row what the layer gives, computed in float64.
    exact = F.linear(given.double(), net.value.weight.double(), net.value.bias.double())
    assert torch.equal(torch.isinf(found), exact.abs() > 65519)
    assert torch.isinf(found).any()


@pytest.mark.parametrize(
    "mask",
    [
        lambda x: x + torch.full((2, 2), -math.inf).triu(1),
        lambda x: x.masked_fill(torch.eye(2).bool(), -math.inf),
        lambda x: x + torch.full((2, 2), torch.finfo(x.dtype).min).triu(1),
        lambda x: x + torch.full((2, 2), fill_value=-math.inf).triu(diagonal=1),
        lambda x: torch.where(torch.eye(2).bool(), torch.tensor(-math.inf), x),
    ],
)
def test_masks_are_no_overflow(working, mask):
    """Case 25."""
    x = torch.zeros(2, 2)
    with register_hook(nn.Module(), wrap_checkoverflow_hook):
        torch.softmax(mask(x), -1)
    assert [*working.iterdir()] == []


@pytest.mark.parametrize(
    ("run", "label"),
    [
        (lambda: torch.log(torch.zeros(1)), "Torch_log_forward"),  # -inf of nothing
        (lambda: torch.sub(torch.tensor([-math.inf]), -math.inf), "Torch_sub_forward"),
        (lambda: torch.neg(torch.tensor([math.nan])), "Torch_neg_forward"),
        (lambda: torch.abs(torch.tensor([-math.inf])), "Torch_abs_forward"),
        (lambda: torch.neg(torch.tensor([complex(0, math.inf)])), "Torch_neg_forward"),
        (lambda: torch.mul(torch.tensor([3e38], dtype=torch.bfloat16), 2), "Torch_mul_forward"),
    ],
)
def test_all_else_that_is_not_finite_is_one(run, label):
    stopped(label, run)


def test_the_schedule_does_not_matter():
    stopped("Torch_mul_forward", lambda: torch.mul(LARGE, 2), schedule=schedule(5, 6))


def test_two_findings_within_a_second_are_two_files(working, monkeypatch):
    class Clock(overflow.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 59, tzinfo=tz)

    monkeypatch.setattr(overflow, "datetime", Clock)
    for _ in range(2):
        stopped("Torch_mul_forward", lambda: torch.mul(LARGE, 2))
    assert sorted(file.name for file in working.iterdir()) == [
        "Overflow_info_20260102_030459.pkl",
        "Overflow_info_20260102_030500.pkl",
    ]


def test_our_own_reader_tells_of_the_call_and_its_stack(working):
    """Case 24 on our own file."""

    def inner() -> None:
        torch.mul(LARGE, 2)

    stopped("Torch_mul_forward", inner)
    (file,) = working.iterdir()
    dump = tnb.open_dump(file)
    assert any("Torch.mul" in note for note in dump.notes)
    frame = dump.to_dataframe()
    stack = frame["stack"].iloc[0].splitlines()
    assert stack[0].endswith("in inner: torch.mul(LARGE, 2)")
    assert "test_overflow.py" in stack[0]
    output = frame[frame["role"] == "output"]
    assert output["path"].to_list() == ["Torch.mul"]


def test_after_a_finding_the_hooks_go_on_and_can_be_taken_off():
    with register_hook(nn.Module(), wrap_checkoverflow_hook):
        for _ in range(2):
            with pytest.raises(ValueError, match="check overflow"):
                torch.mul(LARGE, 2)
        torch.neg(LARGE)
    torch.mul(LARGE, 2)
