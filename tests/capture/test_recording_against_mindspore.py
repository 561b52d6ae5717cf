"""A MindSpore network that is compared with a torch one while it runs."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb

pytestmark = [pytest.mark.torch, pytest.mark.mindspore]

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
RENAMED = {"norm.gamma": "ln.weight", "norm.beta": "ln.bias"}


@pytest.fixture(scope="module", name="reference")
def _reference():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)
    parts = {"fc1": nn.Linear(8, 16), "ln": nn.LayerNorm(16), "act": nn.ReLU()}
    net = nn.Sequential()
    for name, part in {**parts, "fc2": nn.Linear(16, 4)}.items():
        net.add_module(name, part)
    with tnb.record(net) as rec:
        net(torch.from_numpy(X)).sum().backward()
    return rec.dump, {name: p.detach().numpy() for name, p in net.named_parameters()}


def port(weights, epsilon):
    ms = pytest.importorskip("mindspore")

    class Port(ms.nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = ms.nn.Dense(8, 16), ms.nn.Dense(16, 4)
            self.norm, self.act = ms.nn.LayerNorm((16,), epsilon=epsilon), ms.nn.ReLU()

        def construct(self, x):
            return self.fc2(self.act(self.norm(self.fc1(x))))

    net = Port()
    for name, parameter in net.parameters_and_names():
        parameter.set_data(ms.Tensor(weights[RENAMED.get(name, name)].copy()))
    return net


def step(net):
    ms = pytest.importorskip("mindspore")
    forward = lambda x: net(x).sum()  # noqa: E731
    loss, gradients = ms.value_and_grad(forward, None, net.trainable_params())(ms.Tensor(X))
    return [loss.asnumpy(), *(gradient.asnumpy() for gradient in gradients)]


def test_a_faithful_port_differs_nowhere(reference):
    dump, weights = reference
    net = port(weights, 1e-5)
    with tnb.record(net, against=dump) as rec:
        step(net)
    found = rec.differences
    assert (found.passed, found.alone, found.unmet) == (True, (), ())
    assert (found.compared, found.gradients) == (5, 10)


@pytest.mark.parametrize("stop_after", [1, 5])
def test_it_stops_in_forward_or_backward_and_the_next_step_is_as_any_other(reference, stop_after):
    dump, weights = reference
    net = port(weights, 0.1)
    wanted = step(net)
    with tnb.record(net, against=dump, stop_after=stop_after, keep="statistics") as rec:
        try:
            step(net)
        except Exception:
            pytest.fail("the network could catch it")
        pytest.fail("not reached")
    first = rec.differences.first
    assert (first.path, first.layer, first.origin) == ("norm", "LayerNorm", "created")
    assert rec.differences.rows[-1].direction == ("forward" if stop_after == 1 else "backward")
    held = rec.dump.select(path="norm", direction="forward")
    assert all(source is not None for source in held.sources)
    for got, value in zip(step(net), wanted, strict=True):
        np.testing.assert_array_equal(got, value)
