"""A watch over a MindSpore network: the same questions, where a framework tells less."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb

ms = pytest.importorskip("mindspore")
from mindspore import nn, ops  # noqa: E402
from mindspore._c_expression import _DispatchGuardStack as dispatched  # noqa: E402

pytestmark = pytest.mark.mindspore


class Net(nn.Cell):
    """Two layers with something between them."""

    def __init__(self, between):
        super().__init__()
        self.up, self.act, self.down = nn.Dense(4, 4), nn.Tanh(), nn.Dense(4, 4)
        self.between = between

    def construct(self, x):
        return self.down(self.between(self.act(self.up(x))))


class Steep(nn.Cell):
    """A root whose slope at zero is infinite."""

    def construct(self, x):
        return ops.sqrt(ops.abs(x) * 0)


class Divided(nn.Cell):
    """Divides zero by zero."""

    def construct(self, x):
        return x * 0 / (x * 0)


def step(net):
    x = ms.Tensor(np.linspace(-1, 1, 12).reshape(3, 4), ms.float32)
    return ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(x)


def watched(net, **more):
    with tnb.watch_overflow(net, **more) as watch:
        step(net)
    return watch.overflow


def hooks(net):
    return [len(cell._forward_hook) + len(cell._forward_pre_hook) for _, cell in _cells(net)]


def _cells(net):
    return net.cells_and_names()


def test_a_start_is_told_of_the_layer_the_container_and_the_operator():
    first = watched(Net(Divided())).first
    assert (first["path"], first["kind"], first["nan_count"]) == ("between", "starts", 12)
    assert watched(Net(lambda x: x * 0 / (x * 0))).first["path"] == ""
    found = watched(Net(Divided()), level="both").first
    assert found["inside"] == "between"
    assert found["path"].lower().endswith("div")
    assert "x * 0 / (x * 0)" in found["stack"]


def test_a_gradient_is_told_though_the_framework_knows_no_own_parts():
    found = watched(Net(Steep()))
    first = found.first
    assert (first["path"], first["direction"], first["kind"]) == ("between", "backward", "starts")
    assert all(row["direction"] == "backward" for row in found)


@pytest.mark.parametrize("level", ["module", "both"])
def test_forward_raises_our_own_error_and_leaves_nothing(level):
    net = Net(Divided())
    before = hooks(net)
    with (
        pytest.raises(tnb.OverflowFoundError, match=r"NaN starts in .* \(output\.0, 12 NaN"),
        tnb.watch_overflow(net, action="raise", level=level),
    ):
        step(net)
    assert hooks(net) == before
    step(net)


def test_a_watch_of_operators_that_raised_is_broken_and_gone_without_a_stop():
    net = Net(Divided())
    before = hooks(net)
    watch = tnb.watch_overflow(net, action="raise", level="both").start()
    with pytest.raises(tnb.OverflowFoundError):
        step(net)
    assert watch.state == "broken"
    assert hooks(net) == before
    assert dispatched.depth() == 0
    assert watch.stop().first["kind"] == "starts"
    step(net)
    assert dispatched.depth() == 0


def test_a_watch_of_operators_that_raised_leaves_other_recordings_as_they_were():
    net = Net(Divided())
    first = tnb.record(net, level="api").start()
    watch = tnb.watch_overflow(net, action="raise", level="both").start()
    last = tnb.record(net, level="api").start()
    with pytest.raises(tnb.OverflowFoundError):
        step(net)
    assert watch.state == "broken"
    assert dispatched.depth() == 2
    ops.sin(ms.Tensor([1.0]))
    for rec in (first, last):
        assert "Primitive.sin" in rec.stop().index["path"].values
    assert dispatched.depth() == 0


def test_backward_raises_our_own_error_and_leaves_nothing():
    net = Net(Steep())
    with (
        pytest.raises(tnb.OverflowFoundError, match="starts in the backward of between"),
        tnb.watch_overflow(net, action="raise"),
    ):
        step(net)
    assert set(hooks(net)) == {0}
    loss, _ = step(net)
    assert np.isfinite(loss.asnumpy())


def test_a_sound_network_has_no_rows_and_the_same_numbers():
    net = Net(nn.ReLU())
    plain = step(net)
    with tnb.watch_overflow(net) as watch:
        seen = step(net)
    assert not watch.overflow
    assert watch.overflow.calls == 5
    for one, other in zip((plain[0], *plain[1]), (seen[0], *seen[1]), strict=True):
        assert np.array_equal(one.asnumpy(), other.asnumpy())
