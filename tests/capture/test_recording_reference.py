"""Every record of torch networks equals what hooks written by hand read, bit for bit."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from tests.capture.recorded import bits, same  # noqa: E402

pytestmark = pytest.mark.torch


def tensors_of(value):
    """Slots and tensors of positional arguments or of a result, without nesting deeper than one."""
    if isinstance(value, torch.Tensor):
        return [("0", value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [(str(slot), part) for slot, part in items if isinstance(part, torch.Tensor)]


class ByHand:
    """Hooks that clone: no identity, no versions, no sharing."""

    def __init__(self, net):
        self.values, self.outputs, self.inputs = {}, {}, {}
        self.counts, self.owned = Counter(), {}
        self.open = defaultdict(list)
        for path, module in net.named_modules():
            self.watch(path, module)

    def watch(self, path, module):
        layer = type(module).__name__
        base = f"Module.{path}.{layer}" if path else f"Module.{layer}"

        def before(module, args, kwargs):
            number = self.counts[path]
            self.counts[path] += 1
            self.open[path].append(number)
            name = f"{base}.forward.{number}"
            for slot, tensor in tensors_of(args):
                self.values[f"{name}.input.{slot}"] = bits(tensor)
                self.inputs[f"{base}.backward.{number}", slot] = tensor
            for word, tensor in tensors_of(kwargs):
                self.values[f"{name}.kwargs.{word}"] = bits(tensor)
                self.inputs[f"{base}.backward.{number}", word] = tensor
            inside = isinstance(module, nn.MultiheadAttention)  # reads what it never calls
            own = [*module.named_parameters(recurse=inside), *module.named_buffers(recurse=inside)]
            for leaf, tensor in own:
                # Once a step, and again where a call has changed it.
                if self.owned.get((path, leaf)) != bits(tensor):
                    self.owned[path, leaf] = self.values[f"{name}.parameters.{leaf}"] = bits(tensor)

        def after(module, args, output):
            number = self.open[path].pop()
            for slot, tensor in tensors_of(output):
                self.values[f"{base}.forward.{number}.output.{slot}"] = bits(tensor)
                self.outputs[f"{base}.backward.{number}.input.{slot}"] = tensor

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after)


def totals_by_hand(net, loss_of):
    """Whole gradients of all outputs, and of inputs that nothing made, by `torch.autograd.grad`."""
    net = copy.deepcopy(net)
    hand = ByHand(net)
    loss = loss_of(net)
    made = {id(tensor) for tensor in hand.outputs.values()}
    wanted = {name: t for name, t in hand.outputs.items() if t.requires_grad}
    for (name, slot), tensor in hand.inputs.items():
        if tensor.requires_grad and id(tensor) not in made:
            wanted[f"{name}.total.{slot}"] = tensor
    found = torch.autograd.grad(loss, [*wanted.values()], allow_unused=True)
    return {name: bits(g) for name, g in zip(wanted, found, strict=True) if g is not None}


def own_parts_by_hand(net, loss_of):
    """What each call adds to the gradients of its inputs, by full backward hooks."""
    net = copy.deepcopy(net)
    found, counts = {}, Counter()
    for path, module in net.named_modules():
        layer = type(module).__name__
        base = f"Module.{path}.{layer}" if path else f"Module.{layer}"

        def hook(module, to_inputs, of_outputs, base=base):
            number = counts[base]
            counts[base] += 1
            for slot, gradient in enumerate(to_inputs):
                if gradient is not None:
                    found.setdefault((base, slot), []).append((number, bits(gradient)))

        module.register_full_backward_hook(hook)
    loss_of(net).backward()
    # Backward runs through the calls of one module from the last to the first.
    return {
        f"{base}.backward.{counts[base] - 1 - number}.output.{slot}": value
        for (base, slot), parts in found.items()
        for number, value in parts
    }


def number_of(value):
    """The tensor that has these bits."""
    _, shape, data = value
    return torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape)


def parameter_gradients(net, loss_of):
    net = copy.deepcopy(net)
    loss_of(net).backward()
    found = {}
    for path, module in net.named_modules():
        layer = type(module).__name__
        base = f"Module.{path}.{layer}" if path else f"Module.{layer}"
        inside = isinstance(module, nn.MultiheadAttention)
        if path.rpartition(".")[2] == "out_proj":
            continue
        for leaf, parameter in module.named_parameters(recurse=inside):
            if parameter.grad is not None:
                found[f"{base}.parameters_grad.0.{leaf}"] = bits(parameter.grad)
    return found


def reference(net, loss_of):
    """All tensors of a step by name; networks without operators in place."""
    watched = copy.deepcopy(net)
    hand = ByHand(watched)
    loss_of(watched)
    return {
        **hand.values,
        **totals_by_hand(net, loss_of),
        **own_parts_by_hand(net, loss_of),
        **parameter_gradients(net, loss_of),
    }


def recorded(net, loss_of, **options):
    net = copy.deepcopy(net)
    with tnb.record(net, **options) as rec:
        loss_of(net).backward()
    dump = rec.dump
    index = dump.index
    with_values = [
        name
        for name, dtype in zip(index["name"].values, index["dtype"].values, strict=True)
        if dtype not in ("bool", "int", "float", "str", "NoneType")
    ]
    return {name: bits(dump.array(name)) for name in with_values}


def assert_equal(found, wanted):
    assert sorted(set(wanted) - set(found)) == [], "not recorded"
    assert sorted(set(found) - set(wanted)) == [], "recorded without a reference"
    assert [name for name in wanted if found[name] != wanted[name]] == [], "other values"


@pytest.fixture(autouse=True)
def _example_nets(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "notebooks"))


def example(name):
    from example_nets import step_torch
    from example_nets.draws import draw_batch

    net = step_torch.build(name, 0)
    x, target = (torch.from_numpy(array) for array in draw_batch(name, 0))

    def loss_of(net):
        logits = net(x)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long())

    return net, loss_of


@pytest.mark.parametrize("name", ["resnet", "gpt"])
def test_example_networks(name):
    net, loss_of = example(name)
    assert_equal(recorded(net, loss_of), reference(net, loss_of))


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, size))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x, y=None):
        self.count += 1
        return (x * self.gain if y is None else x * self.gain + y.sin()), x.mean(-1)


class Attending(nn.Module):
    """Attention, keywords, dicts, one module that is called three times, own parameters."""

    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.scale = Scale(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x, *, shift):
        h = torch.cat([self.start.expand(len(x), -1, -1), x], 1)
        h, mean = self.scale(self.norm(h), shift)
        h = h + self.attention(h, h + 0.5, h * 2)[0]
        h, _ = self.scale(self.norm(h))
        h, last = self.scale(h, y=h.tanh())
        return {"logits": self.head(h.mean(1)), "means": mean + last}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_a_network_of_own_layers_and_attention():
    net = Attending()
    x = torch.randn(4, 5, 8, requires_grad=True)
    shift = torch.randn(4, 6, 8, requires_grad=True)

    def loss_of(net):
        out = net(x, shift=shift)
        return out["logits"].pow(2).sum() + out["means"].sin().sum()

    found, wanted = recorded(net, loss_of), reference(net, loss_of)
    # The keyword y is no positional input, of which alone full backward hooks tell.
    keyword = "Module.scale.Scale.backward.2.output.y"
    assert keyword in found
    own = found.pop(keyword)
    y = number_of(wanted["Module.scale.Scale.forward.2.kwargs.y"])
    upstream = number_of(wanted["Module.scale.Scale.backward.2.input.0"])
    assert own == bits(upstream * y.cos())
    # Nor do they tell of a network that returns a dict; what reaches its inputs is all there is.
    for slot in ("0", "shift"):
        base = "Module.Attending.backward.0"
        assert found.pop(f"{base}.output.{slot}") == wanted[f"{base}.total.{slot}"]
    assert_equal(found, wanted)


def _convolutions(inplace):
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(4, 4, 3, padding=1)
            self.norm = nn.GroupNorm(2, 4)
            self.relu = nn.ReLU(inplace=inplace)

        def forward(self, x):
            y = self.norm(self.relu(self.conv(x)))
            if inplace:
                y += x
            else:
                y = y + x
            return y

    return nn.Sequential(
        nn.Conv2d(3, 4, 1),
        nn.Hardtanh(inplace=inplace),
        Residual(),
        nn.Sequential(nn.LeakyReLU(0.1, inplace=inplace), nn.Flatten(1), nn.Unflatten(1, (4, 25))),
        nn.Linear(25, 2),
    )


def test_a_network_that_works_in_place_and_with_views():
    net, plain = (_convolutions(inplace) for inplace in (True, False))
    plain.load_state_dict(net.state_dict())
    x = torch.randn(2, 3, 5, 5)

    def loss_of(net):
        return net(x).sigmoid().sum()

    found, wanted = recorded(net, loss_of), reference(plain, loss_of)
    # Written in place, the input of a layer is another value than the result of the one before.
    assert_equal(found, wanted)


def test_operators_equal_what_they_give_by_hand():
    w, b = torch.randn(3, 4, requires_grad=True), torch.randn(3, requires_grad=True)
    x = torch.randn(2, 4)
    with tnb.record(None, level="api", framework="torch") as rec:
        h = F.linear(x, w, b)
        h.mul_(2)
        h[0] = 1.0
        y = torch.softmax(h, -1)
        z = (y @ y.T).sum()
        z.backward()
    h0 = F.linear(x, w, b).detach()
    h1 = h0 * 2
    h2 = h1.clone()
    h2[0] = 1.0
    leaf = h2.clone().requires_grad_()
    y2 = torch.softmax(leaf, -1)
    y2.retain_grad()
    m = y2 @ y2.T
    m.retain_grad()
    m.sum().backward()
    g1 = leaf.grad.clone()
    g1[0] = 0
    wanted = {
        "Functional.linear.0.forward.output.0": h0,
        "Tensor.mul_.0.forward.input.0": h0,
        "Tensor.mul_.0.forward.output.0": h1,
        "Tensor.__setitem__.0.forward.input.0": h1,
        "Tensor.__setitem__.0.forward.output.0": h2,
        "Torch.softmax.0.forward.output.0": y2,
        "Tensor.matmul.0.forward.output.0": m,
        "Tensor.matmul.0.backward.input.0": m.grad,
        "Torch.softmax.0.backward.input.0": y2.grad,
        "Tensor.__setitem__.0.backward.input.0": leaf.grad,
        "Tensor.mul_.0.backward.input.0": g1,
        "Functional.linear.0.backward.input.0": 2 * g1,
    }
    assert [n for n, v in wanted.items() if not same(rec.dump.array(n), v)] == []


def test_own_parts_of_results_of_which_one_is_not_used():
    net = nn.LSTM(3, 4)
    x = torch.randn(5, 2, 3, requires_grad=True)
    with tnb.record(net) as rec:
        _, (hidden, _) = net(x)
        hidden.sum().backward()
    assert same(rec.dump.array("Module.LSTM.backward.0.output.0"), x.grad)


@pytest.mark.parametrize("name", ["a", "b"])
def test_own_parts_of_one_input_that_two_calls_share(name):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            h = x * 2
            return self.a(h) + self.b(h).sin()

    net = Two()
    x = torch.randn(2, 3, requires_grad=True)

    def loss_of(net):
        return net(x).pow(2).sum()

    found, wanted = recorded(net, loss_of), own_parts_by_hand(net, loss_of)
    assert (
        found[f"Module.{name}.Linear.backward.0.output.0"]
        == (wanted[f"Module.{name}.Linear.backward.0.output.0"])
    )


def test_own_parts_of_two_backward_passes_and_of_partial_ones():
    class Both(nn.Module):
        def forward(self, x):
            return x * 2 + x.sin(), x.exp()

    net = Both()
    x = torch.randn(3, requires_grad=True)
    with tnb.record(net) as rec:
        first, second = net(x)
        first.sum().backward(retain_graph=True)
        second.sum().backward(retain_graph=True)
        (first.sum() + second.sum()).backward()
    name = "Module.Both.backward.0.output.0"
    one, two = (2 + x.cos()).detach(), x.exp().detach()
    for turn, wanted in (("", one), (".pass1", two), (".pass2", one + two)):
        found = torch.from_numpy(rec.dump.array(name + turn).copy())
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)
