"""What is known to go wrong when a torch network is watched, one test for each."""

from __future__ import annotations

import copy
import dataclasses
import io
import threading
from collections import namedtuple

import numpy as np
import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")

import torch.autograd.forward_ad as fwAD  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tests.capture.recorded import (  # noqa: E402
    assert_same,
    calls,
    missing,
    registered,
    same,
    stored,
)

pytestmark = pytest.mark.torch
LEVELS = ("module", "api", "both")


class Calls(nn.Module):
    """A module that is a function of its children."""

    def __init__(self, function, **children):
        super().__init__()
        self.function = function
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def paths(rec):
    return [call["path"] for call in calls(rec)]


def ended(rec):
    """Status of each call by its path."""
    numbers = {e["call"]: e["path"] for e in calls(rec)}
    return [
        (numbers[e["ended"]], e["status"]) for e in rec._kept.events if e.get("ended") in numbers
    ]


def names_of(rec, direction):
    return [name for name in rec.dump if f".{direction}." in name]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


# Identity and versions


def test_tensors_that_get_the_id_of_a_dead_one_are_other_values():
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(20)])
    x = wanted = torch.randn(2, 4)
    with torch.no_grad(), tnb.record(net) as rec:
        net(x)
    for number, layer in enumerate(net):
        with torch.no_grad():
            wanted = layer(wanted)
        assert same(rec.dump.array(f"Module.{number}.Linear.forward.0.output.0"), wanted)


def test_a_value_written_in_place_is_another_value():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    x = torch.randn(3, 4)
    with tnb.record(net) as rec:
        net(x).sum().backward()
    before = F.linear(x, net[0].weight, net[0].bias)
    assert_same(
        rec.dump,
        {
            "Module.0.Linear.forward.0.output.0": before,
            "Module.1.ReLU.forward.0.input.0": before,
            "Module.1.ReLU.forward.0.output.0": before.relu(),
            "Module.1.ReLU.backward.0.input.0": torch.ones(3, 4),
            "Module.0.Linear.backward.0.input.0": (before > 0).float(),
        },
    )


def test_a_view_that_is_written_later_is_named_among_what_is_missing():
    views = []

    def forward(self, x):
        a = self.a(x)
        view = self.b(a)
        view.mul_(2)
        views.append(view)
        return a.sum()

    view = Calls(lambda self, x: x[:, :2])
    net = Calls(forward, a=nn.Linear(4, 4), b=view)
    with tnb.record(net) as rec:
        net(torch.randn(3, 4)).backward()
    assert ("gradient_lost_in_place", "b.0") in missing(rec)
    assert "Module.b.Calls.backward.0.input.0" not in rec.dump


@pytest.mark.parametrize("grad", [True, False])
def test_views_that_can_have_no_gradient_break_nothing(grad):
    weight, net = torch.ones(3, requires_grad=True), nn.Identity()
    copied, plain = (weight * 1).clone(), torch.ones(2, 3)
    part = copied.unbind()[0]
    with torch.no_grad():
        row = plain[0]
    copied.mul_(2)
    plain.mul_(weight)
    for view in (part, row):
        with torch.set_grad_enabled(grad), tnb.record(net, level="both") as rec:
            assert net(view) is view
        assert same(rec.dump.array("Module.Identity.forward.0.output.0"), view)


def test_a_gradient_that_never_comes_is_missing():
    net = Calls(
        lambda self, x: self.a(x) + self.b(x).detach(), a=nn.Linear(2, 2), b=nn.Linear(2, 2)
    )
    with tnb.record(net) as rec:
        net(torch.randn(1, 2)).sum().backward()
    assert ("gradient_not_arrived", "b.0") in missing(rec)


def test_an_expanded_tensor_is_stored_once():
    net = Calls(lambda self, x: x.expand(50, 1000, 5))
    x = torch.randn(5)
    with tnb.record(net) as rec:
        net(x)
    assert max(array.nbytes for array in stored(rec)) <= 20
    output = rec.dump.array("Module.Calls.forward.0.output.0")
    assert output.shape == (50, 1000, 5)
    assert same(output, x.expand(50, 1000, 5))


def test_channels_last_is_stored_in_c_order_with_the_strides_it_had():
    net = nn.Conv2d(3, 4, 1)
    x = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)
    with tnb.record(net) as rec:
        y = net(x)
    assert_same(
        rec.dump, {"Module.Conv2d.forward.0.input.0": x, "Module.Conv2d.forward.0.output.0": y}
    )
    strides = [e["strides"] for e in rec._kept.events if e.get("shape") == (2, 3, 5, 5)]
    assert strides == [x.stride()]


def test_the_same_tensor_twice_is_one_value_in_two_slots():
    net = Calls(lambda self, a, b: a * b)
    x = torch.randn(3, requires_grad=True)
    with tnb.record(net) as rec:
        net(x, x).sum().backward()
    slots = calls(rec)[0]["args"]
    assert slots[0][1] == slots[1][1]
    assert_same(
        rec.dump,
        {
            "Module.Calls.forward.0.input.0": x,
            "Module.Calls.forward.0.input.1": x,
            "Module.Calls.backward.0.output.0": 2 * x,
        },
    )


def test_a_module_that_returns_its_input_gives_the_same_value():
    net = nn.Sequential(nn.Linear(2, 2), nn.Identity())
    x = torch.randn(1, 2)
    with tnb.record(net) as rec:
        y = net(x)
        assert net[1](y) is y
        y.sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.1.Identity.forward.0.output.0": y,
            "Module.1.Identity.backward.0.input.0": torch.ones(1, 2),
            "Module.0.Linear.backward.0.input.0": torch.ones(1, 2),
        },
    )


def test_data_that_is_written_between_steps_is_read_anew():
    net = nn.Linear(2, 2)
    with tnb.record(net) as rec:
        net(torch.ones(1, 2))
        rec.step()
        net.weight.data.fill_(7.0)
        net(torch.ones(1, 2))
    second = rec.dump.select(step=1)
    assert same(second.array("Module.Linear.forward.0.parameters.weight"), torch.full((2, 2), 7.0))


# The recorder's own operations


@pytest.mark.parametrize("level", LEVELS)
def test_own_operations_are_not_seen_and_not_under_autocast(level):
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.randn(3, 4)
    with torch.autocast("cpu", torch.bfloat16), tnb.record(net, level=level) as rec:
        y = net(x)
        y.float().sum().backward()
        assert torch.is_autocast_enabled("cpu")
    seen = {call["path"] for call in calls(rec) if call["kind"] == "api"}
    assert seen <= {"Functional.linear", "Functional.relu", "Tensor.float", "Tensor.sum"}
    name = "Module.0.Linear.forward.0.input.0"
    name = name if level != "api" else "Functional.linear.0.forward.input.0"
    assert same(rec.dump.array(name), x)
    assert {call["autocast"] for call in calls(rec)} == {"bfloat16"}


def test_a_function_mode_of_the_user_sees_none_of_our_operations():
    from torch.overrides import TorchFunctionMode

    class Counts(TorchFunctionMode):
        seen = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Counts.seen += 1
            return func(*args, **(kwargs or {}))

    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    x = torch.randn(3, 4, requires_grad=True)
    with Counts():
        net(x).sum().backward()
    alone, Counts.seen = Counts.seen, 0
    for level in LEVELS:
        with Counts(), tnb.record(net, level=level):
            net(x).sum().backward()
        assert alone == Counts.seen, level
        Counts.seen = 0
        with tnb.record(net, level=level), Counts():
            net(x).sum().backward()
        assert alone == Counts.seen, level
        Counts.seen = 0


@pytest.mark.parametrize("keep", ["tensor", "statistics", "sample", "digest"])
def test_a_dispatch_mode_of_the_user_sees_none_of_our_operations(keep):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counts(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Counts.seen += 1
            return func(*args, **(kwargs or {}))

    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    x = torch.randn(3, 4, requires_grad=True)
    with Counts():
        net(x).sum().backward()
    alone, Counts.seen = Counts.seen, 0
    with tnb.record(net, level="both", keep=keep), Counts():
        net(x).sum().backward()
    assert alone == Counts.seen


def test_create_graph_keeps_no_graph_alive_and_gives_both_gradients():
    net = nn.Linear(3, 1, bias=False)
    x = torch.randn(2, 3, requires_grad=True)
    with tnb.record(net) as rec:
        y = net(x).pow(2).sum()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        first.pow(2).sum().backward()
    assert same(net.weight.grad, _double_backward(net, x)[1])
    assert same(rec.dump.array("Module.Linear.backward.0.output.0"), first)
    assert all(isinstance(array, np.ndarray) for array in stored(rec))


def _double_backward(net, x):
    weight = net.weight.detach().clone().requires_grad_()
    y = F.linear(x, weight).pow(2).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    first.pow(2).sum().backward(inputs=[weight])
    return first, weight.grad


@pytest.mark.parametrize("level", ["api", "both"])
def test_operators_of_an_optimizer_are_not_recorded(level):
    net = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.randn(1, 2)
    with tnb.record(net, level=level) as rec:
        for _ in range(2):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
    assert {call["path"] for call in calls(rec)} <= {"", "Functional.linear", "Tensor.sum"}


def test_reading_shapes_and_gradients_is_no_call():
    net, x = nn.Linear(2, 2), torch.randn(1, 2)
    with tnb.record(net, level="api") as rec:
        y = net(x)
        assert all((y.shape, y.T is not None, y.dtype, y.device, y.grad_fn, y.ndim))
        y.sum().backward()
        net.weight.grad = None
        y.data_ptr()
    assert paths(rec) == ["", "Functional.linear", "Tensor.sum"]


def test_operators_have_their_public_names_and_only_the_outermost_are_seen():
    from torch.nn.functional import multi_head_attention_forward, scaled_dot_product_attention

    x, p, q, r, s = (torch.randn(n) for n in ((2, 2, 4), (12, 4), (12,), (4, 4), (4,)))
    with tnb.record(None, level="api", framework="torch") as rec:
        scaled_dot_product_attention(x, x, x)
        y = x @ x.mT
        y.mul_(2)
        y += 1
        y[0] = 1
        y[1:, None].permute(1, 0, 2, 3)
        multi_head_attention_forward(x, x, x, 4, 2, p, q, None, None, False, 0.0, r, s)
        torch.add(input=x, other=1)
    assert paths(rec) == [
        "Functional.scaled_dot_product_attention",
        "Tensor.matmul",
        "Tensor.mul_",
        "Tensor.add_",
        "Tensor.__setitem__",
        "Tensor.__getitem__",
        "Tensor.permute",
        "Functional.multi_head_attention_forward",
        "Torch.add",
    ]
    assert "Torch.add.0.forward.kwargs.input" in rec.dump


def test_a_gradient_belongs_to_the_version_that_was_met():
    def forward(self, x):
        h = self.a(x)
        h.mul_(5)
        return self.b(h)

    net = Calls(forward, a=nn.Linear(2, 2), b=nn.Identity())
    with tnb.record(net) as rec:
        net(torch.randn(3, 2)).sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.a.Linear.backward.0.input.0": torch.full((3, 2), 5.0),
            "Module.b.Identity.backward.0.input.0": torch.ones(3, 2),
        },
    )


# Recomputation


def _segments(reentrant):
    layer = nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.block, x, use_reentrant=reentrant)
        return x

    block = nn.Sequential(layer, nn.Tanh(), layer, nn.Dropout(0.5))
    return Calls(forward, block=block)


def _run_by_hand(net, x):
    """Values of both segments with gradients, without checkpoints."""
    values, layer = [x], net.block[0]
    for _ in range(2):
        a = layer(values[-1])
        t = torch.tanh(a)
        b = layer(t)
        values += [a, t, b, F.dropout(b, 0.5, True)]
    for value in values[1:]:
        value.retain_grad()
    return values


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_calls_are_counted_once_and_have_their_own_gradients(reentrant):
    net = _segments(reentrant)
    x = torch.randn(3, 4, requires_grad=True)
    torch.manual_seed(1)
    values = _run_by_hand(net, x)
    values[-1].pow(2).sum().backward()
    torch.manual_seed(1)
    with tnb.record(net) as rec:
        net(x).pow(2).sum().backward()
    linear, tanh, drop = "Module.block.0.Linear", "Module.block.1.Tanh", "Module.block.3.Dropout"
    assert missing(rec) == set()
    assert paths(rec).count("block.0") == 4
    assert paths(rec).count("block") == 2
    wanted = {}
    for turn in range(2):
        a, t, b, d = values[1 + 4 * turn : 5 + 4 * turn]
        for way, part in (("forward", "output"), ("backward", "input")):
            for name, value, call in (
                (linear, a, 2 * turn),
                (tanh, t, turn),
                (linear, b, 2 * turn + 1),
                (drop, d, turn),
            ):
                values_of = value if way == "forward" else value.grad
                wanted[f"{name}.{way}.{call}.{part}.0"] = values_of
    assert_same(rec.dump, wanted)


@pytest.mark.parametrize("reentrant", [True, False])
def test_one_function_called_twice_in_a_checkpointed_function(reentrant):
    layer = nn.Linear(4, 4)

    def inner(x):
        return layer(torch.sin(layer(x)))

    def forward(self, x):
        return checkpoint(
            inner, checkpoint(inner, x, use_reentrant=reentrant), use_reentrant=reentrant
        )

    net = Calls(forward, layer=layer)
    x = torch.randn(3, 4, requires_grad=True)
    outputs = []
    value = x
    for _ in range(4):
        value = layer(value if len(outputs) in (0, 2) else torch.sin(value))
        value.retain_grad()
        outputs.append(value)
    value.pow(2).sum().backward()
    with tnb.record(net) as rec:
        net(x).pow(2).sum().backward()
    name = "Module.layer.Linear"
    assert_same(
        rec.dump,
        {f"{name}.forward.{n}.output.0": outputs[n] for n in range(4)}
        | {f"{name}.backward.{n}.input.0": outputs[n].grad for n in range(4)},
    )


@pytest.mark.parametrize("reentrant", [True, False])
def test_segments_inside_segments(reentrant):
    def forward(self, x):
        def outer(x):
            x = self.a(x)
            x = checkpoint(self.b, x, use_reentrant=reentrant)
            return self.a(torch.sin(x))

        return checkpoint(outer, x, use_reentrant=reentrant)

    net = Calls(forward, a=nn.Linear(3, 3), b=nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    x = torch.randn(2, 3, requires_grad=True)
    first = net.a(x)
    inner = net.b[0](first)
    after = torch.tanh(inner)
    last = net.a(torch.sin(after))
    for value in (first, inner, after, last):
        value.retain_grad()
    last.pow(2).sum().backward()
    with tnb.record(net) as rec:
        net(x).pow(2).sum().backward()
    assert paths(rec) == ["", "a", "b", "b.0", "b.1", "a"]
    gradients = {
        "Module.a.Linear.backward.0.input.0": first.grad,
        "Module.b.0.Linear.backward.0.input.0": inner.grad,
        "Module.b.1.Tanh.backward.0.input.0": after.grad,
        "Module.a.Linear.backward.1.input.0": last.grad,
    }
    assert_same(rec.dump, gradients)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_network_that_is_checkpointed_as_a_whole_is_called_once(reentrant):
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(3, 4, requires_grad=True)
    with tnb.record(net) as rec:
        checkpoint(net, x, use_reentrant=reentrant).sum().backward()
    assert paths(rec) == ["", "0", "1"]
    assert "Module.0.Linear.backward.0.input.0" in rec.dump


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("level", ["api", "both"])
def test_operators_of_a_recomputation_are_not_counted(level, reentrant):
    net = _segments(reentrant)
    with tnb.record(net, level=level) as rec:
        net(torch.randn(3, 4, requires_grad=True)).sum().backward()
    assert paths(rec).count("Functional.linear") == 4
    assert paths(rec).count("Functional.dropout") == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_two_backward_passes_of_a_checkpoint_give_two_gradients(reentrant):
    net = Calls(lambda s, x: checkpoint(s.a, x, use_reentrant=reentrant), a=nn.Linear(2, 2))
    x = torch.randn(1, 2, requires_grad=True)
    with tnb.record(net) as rec:
        y = net(x)
        y.sum().backward(retain_graph=True)
        (3 * y).sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.a.Linear.backward.0.input.0": torch.ones(1, 2),
            "Module.a.Linear.backward.0.input.0.pass1": torch.full((1, 2), 3.0),
            "Module.a.Linear.backward.0.output.0": torch.ones(1, 2) @ net.a.weight,
            "Module.a.Linear.backward.0.output.0.pass1": torch.full((1, 2), 3.0) @ net.a.weight,
        },
    )


# Arguments and results


@dataclasses.dataclass
class Output:
    hidden: torch.Tensor
    rest: dict


Pair = namedtuple("Pair", "first second")


def test_dataclasses_dicts_and_named_tuples_are_entered():
    def forward(self, batch, *, scale, mask=None):
        y = self.a(batch["x"][0].first) * scale
        return Output(y, {"twice": [y * 2, None], "pair": Pair(y + 1, "word")})

    net = Calls(forward, a=nn.Linear(2, 2))
    x = torch.randn(1, 2)
    with tnb.record(net) as rec:
        out = net({"x": [Pair(x, 3)], "n": 2}, scale=2.0, mask=Output(x, {}))
    assert_same(
        rec.dump,
        {
            "Module.Calls.forward.0.input.0.x.0.0": x,
            "Module.Calls.forward.0.kwargs.mask.hidden": x,
            "Module.Calls.forward.0.output.hidden": out.hidden,
            "Module.Calls.forward.0.output.rest.twice.0": out.rest["twice"][0],
            "Module.Calls.forward.0.output.rest.pair.0": out.rest["pair"].first,
        },
    )
    plain = {name for name in rec.dump if "kwargs" in name or ".n" in name}
    assert "Module.Calls.forward.0.kwargs.scale" in plain
    assert "Module.Calls.forward.0.input.0.n" in plain


def test_keyword_only_arguments_have_gradients():
    net = Calls(lambda self, *, a, b: a * b)
    a, b = (torch.randn(3, requires_grad=True) for _ in range(2))
    with tnb.record(net) as rec:
        net(b=b, a=a).sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.Calls.forward.0.kwargs.a": a,
            "Module.Calls.forward.0.kwargs.b": b,
            "Module.Calls.backward.0.output.a": b,
            "Module.Calls.backward.0.output.b": a,
        },
    )


def test_a_generator_is_told_and_not_consumed():
    def forward(self, x):
        yield self.a(x)

    net = Calls(lambda self, x: forward(self, x), a=nn.Linear(2, 2))
    with tnb.record(net) as rec:
        (y,) = list(net(torch.randn(1, 2)))
    assert ("generator", "") in missing(rec)
    assert ("", "generator") in ended(rec)
    assert same(rec.dump.array("Module.a.Linear.forward.0.output.0"), y)


def test_arguments_that_hold_themselves_end_somewhere():
    nested = [1]
    nested.append(nested)
    net = Calls(lambda self, x, rest: x)
    with tnb.record(net) as rec:
        net(torch.ones(1), nested)
    assert "Module.Calls.forward.0.input.0" in rec.dump


def test_packed_sequences_are_entered():
    net = nn.LSTM(3, 4, batch_first=True)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(2, 5, 3), [5, 3], batch_first=True)
    with tnb.record(net) as rec:
        output, (hidden, cell) = net(packed)
        output.data.sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.LSTM.forward.0.input.0.0": packed.data,
            "Module.LSTM.forward.0.output.0.0": output.data,
            "Module.LSTM.forward.0.output.1.0": hidden,
            "Module.LSTM.forward.0.output.1.1": cell,
            "Module.LSTM.backward.0.input.0.0": torch.ones_like(output.data),
            "Module.LSTM.parameters_grad.0.weight_ih_l0": net.weight_ih_l0.grad,
        },
    )


# Structure


def test_a_shared_module_has_one_path_and_its_aliases():
    shared = nn.Linear(2, 2)
    net = nn.Sequential(shared, nn.ReLU(), shared)
    with tnb.record(net) as rec:
        net(torch.randn(1, 2)).sum().backward()
        (layer,) = [each for each in rec._recorder.layers if each.path == "0"]
    assert layer.aliases == ("2",)
    assert paths(rec) == ["", "0", "1", "0"]
    assert missing(rec) == set()
    assert "Module.0.Linear.forward.1.output.0" in rec.dump


def test_a_module_without_calls_is_missing():
    net = Calls(lambda self, x: self.a(x), a=nn.Linear(2, 2), b=nn.Linear(2, 2), c=nn.ModuleList())
    with tnb.record(net) as rec:
        net(torch.randn(1, 2)).sum().backward()
    assert missing(rec) == {("not_called", "b")}


def test_a_recording_without_a_backward_pass_says_so():
    net, x = nn.Linear(2, 2), torch.randn(1, 2)
    with tnb.record(net) as rec:
        loss = net(x).sum()
    loss.backward()
    assert missing(rec) == {("no_backward", "")}
    assert any("no backward pass ran" in note for note in rec.dump.notes)
    with tnb.record(net, gradients=False) as rec:
        net(x)
    assert not rec.missing
    with tnb.record(net) as rec, torch.no_grad():
        net(x)
    assert not rec.missing


def test_a_recording_without_calls_says_so():
    with tnb.record(nn.Linear(2, 2), steps=5) as rec:
        rec.step()
    assert missing(rec) == {("no_calls", ""), ("not_called", "")}


def test_names_that_mean_no_operator_are_missing():
    net, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.randn(1, 2)
    with tnb.record(net, level="both", names=["0", "Functional.gelu"], gradients=False) as rec:
        net(x)
    assert missing(rec) == {("names_unmatched", "Functional.gelu")}


def test_averages_that_batch_norm_writes_are_read_at_every_call():
    net = nn.BatchNorm1d(2)
    wanted = []
    with tnb.record(net, level="both") as rec:
        for _ in range(3):
            wanted.append(net.running_mean.clone())
            net(torch.randn(4, 2)).sum().backward()
    for number, mean in enumerate(wanted):
        base = f"forward.{number}.parameters.running_mean"
        assert same(rec.dump.array(f"Module.BatchNorm1d.{base}"), mean)
        assert same(rec.dump.array(f"Functional.batch_norm.{number}.forward.input.1"), mean)


@pytest.mark.parametrize("way", ["data", "fused"])
def test_weights_that_are_written_without_a_version_are_read_anew(way):
    net, x = nn.Linear(2, 1), torch.randn(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, fused=way == "fused")
    with tnb.record(net) as rec:
        net(x).sum().backward()
        if way == "data":
            net.weight.data.mul_(2)
        else:
            optimizer.step()
        changed = net.weight.detach().clone()
        net(x)
    assert same(rec.dump.array("Module.Linear.forward.1.parameters.weight"), changed)


def test_weights_that_attention_reads_without_a_call_are_recorded():
    net = nn.MultiheadAttention(4, 2)
    x = torch.randn(3, 1, 4)
    with tnb.record(net) as rec:
        net(x, x, x)[0].sum().backward()
    name = "Module.MultiheadAttention.forward.0.parameters.out_proj.weight"
    assert same(rec.dump.array(name), net.out_proj.weight)
    # Its second result, the weights of the values, is not used.
    assert missing(rec) == {("gradient_not_arrived", "MultiheadAttention.1")}


def test_operators_are_seen_again_after_an_optimizer_that_failed_and_in_its_closure():
    net, x = nn.Linear(2, 1), torch.randn(3, 2)

    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ArithmeticError

    with tnb.record(net, level="both") as rec:
        with pytest.raises(ArithmeticError):
            Failing(net.parameters(), 0.1).step()
        net(x).sum().backward()
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1)

        def closure():
            optimizer.zero_grad()
            loss = net(x).pow(2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
    assert "Functional.linear.0.forward.output.0" in rec.dump
    assert "Functional.linear.1.forward.output.0" in rec.dump


def test_a_module_of_two_networks_is_one_layer():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with tnb.record({"net": net, "head": net[0]}) as rec:
        net(torch.randn(1, 2)).sum().backward()
    assert paths(rec) == ["net", "net.0", "net.1"]
    assert not rec.missing


def test_a_schedule_that_has_ended_still_tells_what_was_not_called():
    net = Calls(lambda self, x: self.a(x), a=nn.Linear(2, 2), b=nn.Linear(2, 2))
    with tnb.record(net, steps=0) as rec:
        net(torch.randn(1, 2)).sum().backward()
        rec.step()
    assert missing(rec) == {("not_called", "b")}


def test_forward_called_directly_is_missing_but_its_operators_are_not():
    net = Calls(lambda self, x: self.a.forward(x), a=nn.Linear(2, 2))
    x = torch.randn(1, 2)
    with tnb.record(net, level="both") as rec:
        net(x)
    assert ("not_called", "a") in missing(rec)
    assert paths(rec) == ["", "Functional.linear"]


def test_distributed_wrappers_leave_no_trace_in_paths(tmp_path):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net = nn.parallel.DistributedDataParallel(inner)
        x = torch.randn(1, 2)
        with tnb.record(net) as rec:
            net(x).sum().backward()
    finally:
        dist.destroy_process_group()
    assert paths(rec) == ["", "0", "1"]
    assert missing(rec) == set()
    grad = rec.dump.array("Module.0.Linear.parameters_grad.0.weight")
    assert same(grad, inner[0].weight.grad)


def test_data_parallel_leaves_no_trace_in_paths():
    net = nn.DataParallel(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with tnb.record(net) as rec:
        net(torch.randn(1, 2)).sum().backward()
    assert paths(rec) == ["", "0", "1"]
    assert missing(rec) == set()


def test_weight_norm_and_parametrizations():
    net = nn.Sequential(
        torch.nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
        torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).eval(),
    )
    x = torch.randn(2, 3)
    plain = net(x)
    plain.sum().backward()
    gradients = {n: p.grad.clone() for n, p in net.named_parameters()}
    net.zero_grad()
    with tnb.record(net) as rec:
        assert same(net(x), plain)
        net(x).sum().backward()
    found = {n: p.grad for n, p in net.named_parameters()}
    assert all(same(found[name], gradients[name]) for name in gradients)
    assert any("parametrizations.weight" in name and "original" in name for name in rec.dump)


def test_lazy_modules_are_recorded_from_their_first_call_on():
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    x = torch.randn(2, 5)
    with tnb.record(net) as rec:
        y = net(x)
        y.sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.1.ReLU.forward.0.output.0": y,
            "Module.0.LazyLinear.forward.0.input.0": x,
            "Module.0.LazyLinear.forward.0.parameters.weight": net[0].weight,
            "Module.0.LazyLinear.parameters_grad.0.weight": net[0].weight.grad,
        },
    )


def test_parts_of_torchscript_are_recorded_from_outside_or_told():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    traced = torch.jit.trace(nn.Linear(2, 2), torch.randn(1, 2))
    net = nn.Sequential(nn.Linear(2, 2), scripted, traced, nn.Linear(2, 2))
    x = torch.randn(1, 2)
    plain = net(x)
    for level in ("module", "both"):
        with tnb.record(net, level=level) as rec:
            assert same(net(x), plain)
        assert {("scripted", "1"), ("traced", "2")} <= missing(rec)
        assert ("not_called", "1") not in missing(rec)
        assert "Module.3.Linear.forward.0.output.0" in rec.dump
        assert "Module.2.Linear.forward.0.output.0" in rec.dump


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_traced_while_recorded_has_none_of_our_operations(level):
    net, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.randn(1, 2)

    def operators():
        return [node.kind() for node in torch.jit.trace(net, x).inlined_graph.nodes()]

    plain = operators()
    with tnb.record(net, level=level):
        assert operators() == plain
    graph = str(torch.fx.symbolic_trace(net).graph)
    with tnb.record(net, level=level):
        assert str(torch.fx.symbolic_trace(net).graph) == graph


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("keep", ["tensor", "digest"])
def test_derivatives_of_every_kind_stay_as_they_are(level, keep):
    net, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1)), torch.randn(2, 3)

    def derivatives():
        hessian = torch.func.hessian(lambda row: net(row).sum())(x[0])
        forward = torch.func.jvp(net, (x,), (x,))[1]
        with fwAD.dual_level():
            dual = fwAD.unpack_dual(net(fwAD.make_dual(x, x))).tangent
        with torch.autograd.graph.save_on_cpu(), torch.autograd.set_detect_anomaly(True):
            (gradient,) = torch.autograd.grad(net(x).sum(), net[0].weight)
        return hessian, forward, dual, gradient

    plain = derivatives()
    with tnb.record(net, level=level, keep=keep):
        found = derivatives()
    assert all(same(left, right) for left, right in zip(found, plain, strict=True))


# Compiled parts


@pytest.fixture(name="compiled")
def _compiled():
    torch._dynamo.reset()
    yield lambda net: torch.compile(net, backend="eager")
    torch._dynamo.reset()


def _small():
    return nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU()))


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_compiled_network_is_recorded_from_outside(compiled, is_warm):
    plain = _small()
    net = compiled(plain)
    x = torch.randn(2, 3)
    wanted = plain(x)
    if is_warm:
        net(x)
    with tnb.record(net) as rec:
        y = net(x)
        y.sum().backward()
    assert same(y, wanted)
    assert ("compiled", "") in missing(rec)
    assert_same(
        rec.dump,
        {
            "Module.Sequential.forward.0.output.0": wanted,
            "Module.Sequential.forward.0.input.0": x,
            "Module.Sequential.parameters_grad.0.0.weight": plain[0].weight.grad,
        },
    )
    assert {call["path"] for call in calls(rec)} == {""}


@pytest.mark.parametrize("is_warm", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_a_compiled_network_run_eagerly_is_recorded_inside(compiled, is_warm, level):
    plain = _small()
    net = compiled(plain)
    x = torch.randn(2, 3)
    if is_warm:
        net(x)
    counted = torch._dynamo.utils.counters["frames"]["total"]
    with tnb.record(net, compiled="eager", level=level) as rec:
        net(x).sum().backward()
    assert torch._dynamo.utils.counters["frames"]["total"] == counted
    if level != "api":
        assert_same(rec.dump, {"Module.1.1.ReLU.forward.0.output.0": plain(x)})
    if level != "module":
        assert paths(rec).count("Functional.linear") == 2
    net(x)
    assert missing(rec) == set()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_is_compiled_is_so_again_after_two_recordings_ended_in_any_order(compiled, order):
    net, x = compiled(_small()), torch.randn(2, 3)
    frames = torch._dynamo.utils.counters["frames"]
    recs = [tnb.record(net, compiled="eager").start() for _ in range(2)]
    first, last = (recs[i] for i in order)
    first.stop()
    counted = frames["total"]
    net(x)
    assert frames["total"] == counted
    assert "1.1" in paths(last)
    last.stop()
    net(x)
    assert frames["total"] > counted


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_part_compiled_in_place_is_recorded_from_outside(compiled, is_warm):
    net = _small()
    x = torch.randn(2, 3)
    wanted = net(x)
    net[1].compile(backend="eager")
    if is_warm:
        net(x)
    with tnb.record(net) as rec:
        y = net(x)
        y.sum().backward()
    assert same(y, wanted)
    assert ("compiled", "1") in missing(rec)
    assert "1.0" not in paths(rec)
    assert_same(
        rec.dump,
        {
            "Module.1.Sequential.forward.0.output.0": wanted,
            "Module.1.Sequential.backward.0.input.0": torch.ones(2, 3),
            "Module.0.Linear.parameters_grad.0.weight": net[0].weight.grad,
        },
    )
    assert same(net(x), wanted)


@pytest.mark.parametrize("level", ["api", "both"])
def test_operators_of_compiled_parts_are_refused(compiled, level):
    net = nn.Sequential(compiled(nn.Linear(2, 2)))
    with pytest.raises(tnb.TroubleshooterError, match="compiled='eager'"):
        tnb.record(net, level=level).__enter__()
    assert dict(registered(net))["function modes"] == 0


# Exceptions


class Fails(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.fails = kind, "no"

    def forward(self, x):
        if self.fails:
            raise self.kind(self.fails)
        return x + 1


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("level", LEVELS)
def test_the_call_after_an_exception_is_right(kind, level):
    inner = Fails(kind)
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(inner, nn.ReLU()))
    x = torch.randn(1, 2)
    with tnb.record(net, level=level) as rec:
        with pytest.raises(kind):
            net(x)
        inner.fails = ""
        y = net(x)
        y.sum().backward()
    if level != "api":
        modules = [e for e in calls(rec) if e["kind"] == "module"]
        assert [e["path"] for e in modules] == ["", "0", "1", "1.0", "", "0", "1", "1.0", "1.1"]
        parents = {e["call"]: e["path"] for e in modules}
        assert [parents.get(e["parent"]) for e in modules[4:]] == [None, "", "", "1", "1"]
        assert {e["status"] for e in rec._kept.events if "ended" in e} >= {"raised", "ok"}
        assert [s for p, s in ended(rec) if p == "1.0"] == ["raised", "ok"]
        assert_same(rec.dump, {"Module.1.Sequential.forward.1.output.0": y})
    assert torch._C._len_torch_function_stack() == 0


def test_an_exception_that_is_being_handled_is_no_exception_of_a_call():
    net = nn.Linear(2, 2)
    with tnb.record(net) as rec:
        try:
            raise ValueError
        except ValueError:
            net(torch.randn(1, 2))
    assert ended(rec) == [("", "ok")]
    assert "Module.Linear.forward.0.output.0" in rec.dump


def test_an_exception_caught_inside_a_call_is_none_of_the_outer_call():
    def forward(self, x):
        try:
            self.bad(x)
        except ValueError:
            return self.good(x)

    net = Calls(forward, bad=Fails(ValueError), good=nn.Linear(2, 2))
    with tnb.record(net) as rec:
        net(torch.randn(1, 2))
    assert ended(rec) == [("bad", "raised"), ("good", "ok"), ("", "ok")]


def test_an_always_called_hook_of_the_user_still_gets_its_turn():
    net, told = Fails(ValueError), []
    net.register_forward_hook(lambda *_: told.append("always"), always_call=True)
    with tnb.record(net), pytest.raises(ValueError, match="no"):
        net(torch.ones(1))
    assert told == ["always"]


# Hooks of the user


def test_hooks_of_the_user_stay_in_their_order_and_see_what_they_saw():
    net = nn.Linear(2, 2)
    order = []
    net.register_forward_pre_hook(lambda *_: order.append("pre"))
    net.register_forward_hook(lambda m, a, y: order.append("post") or y * 2)
    net.weight.register_hook(lambda g: order.append("grad") or g * 3)
    net.register_full_backward_hook(lambda *_: order.append("back"))
    x = torch.randn(1, 2)
    with tnb.record(net) as rec:
        late = net.register_forward_hook(lambda *_: order.append("late"))
        y = net(x)
        y.sum().backward()
    assert order == ["pre", "post", "late", "back", "grad"] or order == [
        "pre", "post", "late", "grad", "back",
    ]  # fmt: skip
    assert list(net._forward_hooks)[-1] == late.id
    assert len(net._forward_hooks) == 2
    assert len(net._forward_pre_hooks) == 1
    assert same(y, 2 * F.linear(x, net.weight, net.bias))
    assert same(rec.dump.array("Module.Linear.forward.0.output.0"), y)


def test_two_recordings_of_one_network_do_not_disturb_each_other():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    x = torch.randn(1, 2)
    with tnb.record(net, level="both") as outer, tnb.record(net, level="both") as inner:
        net(x).sum().backward()
    with tnb.record(net, level="both") as alone:
        net(x).sum().backward()
    for rec in (outer, inner):
        assert list(rec.dump) == list(alone.dump)
        assert_same(rec.dump, {n: alone.dump.array(n) for n in alone.dump if _has_values(alone, n)})
    assert torch._C._len_torch_function_stack() == 0


def _has_values(rec, name):
    row = rec.dump.position(name)
    return str(rec.dump.index["dtype"].values[row]) not in ("bool", "NoneType", "int", "float")


def test_recordings_that_end_in_the_order_they_began_leave_nothing():
    net, x = nn.Linear(2, 2), torch.ones(1, 2)
    first, second = (tnb.record(net, level="both") for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    net(x)
    second.__exit__(None, None, None)
    assert len(calls(first)) == 0
    assert len(calls(second)) == 2
    assert not net._forward_hooks
    assert torch._C._len_torch_function_stack() == 0


# Threads, transforms, tensors without values


def test_calls_of_threads_do_not_mix():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Tanh()))
    gate = threading.Barrier(3)

    def run():
        gate.wait()
        for _ in range(5):
            net(torch.randn(1, 2)).sum().backward()

    threads = [threading.Thread(target=run) for _ in range(3)]
    with tnb.record(net) as rec:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = {e["call"]: e for e in calls(rec)}
    assert len(found) == 75
    assert len({e["thread"] for e in found.values()}) == 3
    parents = {"": None, "0": "", "1": "", "1.0": "1", "1.1": "1"}
    for event in found.values():
        above = found.get(event["parent"])
        assert (above and above["path"]) == parents[event["path"]]
        assert above is None or above["thread"] == event["thread"]
    assert all(status == "ok" for _, status in ended(rec))


def test_operators_of_other_threads_are_missing():
    net, x = nn.Linear(2, 2), torch.randn(1, 2)
    with tnb.record(net, level="both", gradients=False) as rec:
        net(x)
        thread = threading.Thread(target=net, args=(x,))
        thread.start()
        thread.join()
    assert missing(rec) == {("other_thread", "")}
    assert paths(rec) == ["", "Functional.linear", ""]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("keep", ["tensor", "statistics", "digest", "sample"])
def test_vmap_and_functional_gradients_give_shapes_without_values(level, keep):
    net = nn.Linear(3, 3)
    x = torch.randn(4, 3)
    parameters = dict(net.named_parameters())

    def loss(parameters, row):
        return torch.func.functional_call(net, parameters, (row,)).sum()

    plain = torch.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    with tnb.record(net, level=level, keep=keep) as rec:
        found = torch.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
        assert same(torch.vmap(net)(x), torch.vmap(net)(x))
    assert all(same(found[name], plain[name]) for name in plain)
    assert any(kind == "no_values" for kind, _ in missing(rec))
    if level != "api":
        row = rec.dump.position("Module.Linear.forward.0.input.0")
        assert "vmap" in rec.dump.index["reason"].values[row]


@pytest.mark.parametrize("keep", ["tensor", "statistics", "digest", "sample"])
def test_meta_tensors_have_shapes_and_a_reason(keep):
    net = nn.Linear(3, 2, device="meta")
    with tnb.record(net, level="both", keep=keep) as rec:
        net(torch.randn(4, 3, device="meta"))
    row = rec.dump.position("Module.Linear.forward.0.output.0")
    assert rec.dump.index["shape"].values[row] == (4, 2)
    assert "meta" in rec.dump.index["reason"].values[row]


def test_fake_tensors_have_shapes_and_a_reason():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        net = nn.Linear(3, 2)
        x = torch.randn(4, 3)
        with tnb.record(net, level="both") as rec:
            net(x)
    row = rec.dump.position("Module.Linear.forward.0.output.0")
    assert rec.dump.index["shape"].values[row] == (4, 2)
    assert rec.dump.index["reason"].values[row]


@pytest.mark.parametrize("keep", ["tensor", "statistics", "digest", "sample"])
def test_inference_mode_has_no_versions_and_is_read_at_every_meeting(keep):
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    x = torch.randn(2, 3)
    with torch.inference_mode(), tnb.record(net, level="both", keep=keep) as rec:
        net(x)
        before = F.linear(x, net[0].weight, net[0].bias)
        assert torch.is_inference_mode_enabled()
    if keep == "tensor":
        assert_same(
            rec.dump,
            {
                "Module.0.Linear.forward.0.output.0": before,
                "Module.1.ReLU.forward.0.input.0": before,
                "Module.1.ReLU.forward.0.output.0": before.relu(),
            },
        )


def test_own_functions_of_autograd_are_seen_from_outside():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 20

    net = nn.Sequential(nn.Linear(2, 2), Calls(lambda self, x: Twice.apply(x)))
    with tnb.record(net, level="both") as rec:
        y = net(torch.randn(1, 2))
        y.sum().backward()
    assert_same(
        rec.dump,
        {
            "Module.1.Calls.forward.0.output.0": y,
            "Module.1.Calls.backward.0.input.0": torch.ones(1, 2),
            "Module.1.Calls.backward.0.output.0": torch.full((1, 2), 20.0),
            "Module.0.Linear.backward.0.input.0": torch.full((1, 2), 20.0),
        },
    )


# Fast paths


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_padded", [True, False])
def test_the_fast_path_of_transformers_stays_on(level, is_padded):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    net = Calls(
        lambda s, x, m: s.head(s.body(x, src_key_padding_mask=m)),
        body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=is_padded),
        head=nn.Linear(16, 2),
    ).eval()
    x = torch.randn(3, 7, 16)
    mask = (torch.arange(7) >= torch.tensor([7, 5, 6])[:, None]) if is_padded else None
    with torch.no_grad():
        plain = net(x, mask)
        with tnb.record(net, level=level) as rec:
            assert same(net(x, mask), plain)
        assert same(net(x, mask), plain)
    assert ("fast_path", "body.layers.0") in missing(rec)
    if level != "api":
        assert {"body", "head"} <= set(paths(rec))
    assert dict(registered(net)).keys() == dict(registered(nn.Linear(1, 1))).keys()


@pytest.mark.parametrize("level", LEVELS)
def test_the_fast_path_of_attention_stays_on(level):
    net = Calls(
        lambda s, x: s.a(x, x, x, need_weights=False),
        a=nn.MultiheadAttention(16, 2, batch_first=True),
    ).eval()
    x = torch.randn(3, 7, 16)
    with torch.no_grad():
        plain = net(x)[0]
        with tnb.record(net, level=level):
            assert same(net(x)[0], plain)
    torch.manual_seed(3)
    net.train()
    with tnb.record(net, level=level) as rec:
        out = net(x)[0]
        out.sum().backward()
    assert not any(kind == "fast_path" for kind, _ in missing(rec))


# Kinds of numbers


def test_bfloat16_networks_keep_their_bits():
    import ml_dtypes

    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).bfloat16()
    x = torch.randn(2, 4).bfloat16()
    with tnb.record(net) as rec:
        y = net(x)
        y.sum().backward()
    array = rec.dump.array("Module.1.ReLU.forward.0.output.0")
    assert array.dtype == ml_dtypes.bfloat16
    assert same(array, y)
    assert same(rec.dump.array("Module.0.Linear.parameters_grad.0.weight"), net[0].weight.grad)


@pytest.mark.parametrize("keep", ["tensor", "digest"])
def test_complex_numbers_are_recorded(keep):
    net = Calls(lambda self, x: torch.fft.fft(x))
    x = torch.randn(4, requires_grad=True)
    with tnb.record(net, keep=keep, level="both") as rec:
        y = net(x)
        y.abs().sum().backward()
    if keep == "tensor":
        assert_same(rec.dump, {"Module.Calls.forward.0.output.0": y})
        assert rec.dump.array("Module.Calls.backward.0.input.0").dtype == np.complex64


@pytest.mark.parametrize("keep", ["tensor", "statistics", "digest", "sample"])
def test_sparse_values_and_gradients_are_recorded_or_have_a_reason(keep):
    net = nn.Embedding(5, 3, sparse=True)
    tokens = torch.tensor([1, 1, 4])
    with tnb.record(net, keep=keep, level="both") as rec:
        net(tokens).sum().backward()
        torch.sparse.mm(torch.eye(3).to_sparse(), torch.randn(3, 3))
    assert net.weight.grad.is_sparse
    name = "Module.Embedding.parameters_grad.0.weight"
    row = rec.dump.position(name)
    if keep == "tensor" and not rec.dump.index["reason"].values[row]:
        assert same(rec.dump.array(name), net.weight.grad.to_dense())
    else:
        assert rec.dump.index["reason"].values[row] or keep != "tensor"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keep", ["tensor", "statistics", "digest", "sample"])
def test_quantized_networks_keep_running(keep):
    if "onednn" not in torch.backends.quantized.supported_engines and (
        "fbgemm" not in torch.backends.quantized.supported_engines
    ):
        pytest.fail("this torch has no quantized engine")
    net = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear})
    x = torch.randn(2, 4)
    plain = net(x)
    quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    with tnb.record(nn.ModuleList([net, mirror := nn.Identity()]), level="both", keep=keep) as rec:
        assert same(net(x), plain)
        mirror(quantized)
    row = rec.dump.position("Module.1.Identity.forward.0.input.0")
    assert rec.dump.index["shape"].values[row] == (2, 4)


def test_networks_that_are_saved_and_copied_while_recorded_are_networks_of_their_own():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    net = nn.Sequential(nn.Linear(4, 4), layer).eval()
    x = torch.randn(2, 3, 4)
    with torch.no_grad(), tnb.record(net) as rec:
        buffer = io.BytesIO()
        torch.save(net, buffer)
        buffer.seek(0)
        copies = [copy.deepcopy(net), torch.load(buffer, weights_only=False)]
        for copied in copies:
            for parameter in copied.parameters():
                parameter.mul_(2)
            copied(x)
        assert calls(rec) == []
        net(x)
    for copied in copies:
        twice = nn.Sequential(
            nn.Linear(4, 4), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        )
        twice.load_state_dict({name: 2 * value for name, value in net.state_dict().items()})
        with torch.no_grad():
            torch.testing.assert_close(copied(x), twice.eval()(x))
    assert paths(rec) == ["", "0", "1"]


def test_fast_paths_of_two_recordings_end_in_any_order():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    x = torch.randn(2, 3, 4)
    first, second = tnb.record(layer), tnb.record(layer)
    with torch.no_grad():
        plain = layer(x)
        first.__enter__()
        second.__enter__()
        assert same(layer(x), plain)
        first.__exit__(None, None, None)
        assert same(layer(x), plain)
        second.__exit__(None, None, None)
    assert "forward" not in vars(layer)
    assert (len(calls(first)), len(calls(second))) == (1, 2)
    assert first._recorder.missing["fast_path", ""] == 1


def test_tensors_of_other_kinds_that_give_no_values_have_a_reason():
    class Without(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise RuntimeError(func)

    net = nn.Identity()
    for keep in ("tensor", "statistics", "digest", "sample"):
        with tnb.record(net, keep=keep) as rec:
            net(Without(torch.ones(2)))
        assert ("no_values", "Identity.0") in missing(rec)
        assert "aten" in rec.dump.index["reason"].values[0]
