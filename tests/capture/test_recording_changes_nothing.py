"""Recording changes no bit of a torch network, and leaves nothing registered."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import weakref
from contextlib import ExitStack

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.capture import ids

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from tests.capture.recorded import bits, registered  # noqa: E402

pytestmark = pytest.mark.torch
LEVELS = ("module", "api", "both")


class Everything(nn.Module):
    """Dropout, batch norm, checkpoints of both kinds, views, in-place operators, dicts."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Dropout(0.3))
        self.norm = nn.BatchNorm1d(8)
        self.again = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2))
        self.gru = nn.GRU(4, 4, batch_first=True, dropout=0.1, num_layers=2)
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)
        self.inplace = nn.Dropout(0.1, inplace=True)
        self.table = nn.Embedding(3, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x, *, tokens):
        x = x.clone()
        x[:, 0] = 1
        h = self.norm(self.first(x))
        h += self.table(tokens)
        h = checkpoint(self.again, h, use_reentrant=True) + h
        h = checkpoint(self.again, h, use_reentrant=False) + h
        h = h.clone()
        left, right = h[:, :4], h[:, 4:]
        left.mul_(2)
        h = torch.cat([right, left], -1).view(-1, 2, 4)
        h, _ = self.gru(h)
        h, weights = self.attention(h, h, h)
        h = F.dropout(self.inplace(h * 1.5), 0.2, self.training)
        return {"logits": self.head(h.reshape(-1, 8)), "weights": weights}


def train(steps=2, around=lambda net: None, after_step=lambda: None):
    """Everything that a short training computes, as bits."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    net = Everything()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    x, tokens = torch.randn(5, 6, requires_grad=True), torch.tensor([0, 1, 2, 0, 1])
    found = []
    context = around(net)
    if context is not None:
        context.__enter__()
    for _ in range(steps):
        optimizer.zero_grad()
        out = net(x, tokens=tokens)
        loss = out["logits"].pow(2).mean() + out["weights"].sum()
        loss.backward()
        found += [bits(value) for value in (out["logits"], out["weights"], loss)]
        found += [bits(p.grad) for p in net.parameters()]
        optimizer.step()
        after_step()
    if context is not None:
        context.__exit__(None, None, None)
    found.append(_one_more(net, optimizer, x, tokens))
    return found


def _one_more(net, optimizer, x, tokens):
    optimizer.zero_grad()
    net(x, tokens=tokens)["logits"].sum().backward()
    optimizer.step()
    values = [*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters()), x.grad]
    return [bits(value) for value in [*values, torch.get_rng_state()]] + [
        random.getstate(),
        np.random.get_state()[1].tobytes(),  # noqa: NPY002
    ]


@pytest.fixture(scope="module", name="alone")
def _alone():
    return train()


OPTIONS = [
    *({"level": level, "keep": keep} for level in LEVELS for keep in (
        "tensor", "sample", "statistics", "digest"
    )),
    *ids.OPTIONS,
    {"names": lambda site: "linear" in site.path, "level": "both"},
    {"steps": tnb.Schedule(0, None, 2)},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=ids.named)
def test_no_bit_changes(options, alone):
    recs = []

    def around(net):
        recs.append(tnb.record(net, **options))
        return recs[0]

    assert train(around=around, after_step=lambda: recs[0].step()) == alone
    assert len(recs[0].dump)


def test_no_bit_changes_when_two_recordings_run_and_one_is_paused(alone):
    recs = []

    def around(net):
        stack = ExitStack()
        for level in ("both", "module"):
            recs.append(stack.enter_context(tnb.record(net, level=level)))
        stack.enter_context(recs[1].pause())
        return stack

    assert train(around=around) == alone


def test_no_bit_changes_under_autocast():
    def run(context=None):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.LayerNorm(4))
        x = torch.randn(3, 4, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            if context is None:
                loss = net(x).pow(2).sum()
                loss.backward()
            else:
                with context(net):
                    loss = net(x).pow(2).sum()
                    loss.backward()
        return [bits(v) for v in (loss, x.grad, *(p.grad for p in net.parameters()))]

    plain = run()
    for level in LEVELS:
        for keep in ("tensor", "statistics"):
            assert run(lambda net, lv=level, k=keep: tnb.record(net, level=lv, keep=k)) == plain


@pytest.mark.parametrize("level", LEVELS)
def test_objects_and_graphs_stay_as_they_are(level):
    net = nn.Sequential(nn.Linear(2, 2), nn.Identity(), nn.ReLU(inplace=True))
    x = torch.randn(1, 2, requires_grad=True)

    def shape_of_graph(tensor):
        nodes, found = [tensor.grad_fn], []
        while nodes:
            node = nodes.pop()
            if node is not None:
                found.append(type(node).__name__)
                nodes += [child for child, _ in node.next_functions]
        return found

    plain = shape_of_graph(net(x))
    with tnb.record(net, level=level):
        y = net[0](x)
        assert net[1](y) is y
        assert net[2](y) is y
        assert shape_of_graph(net(x)) == plain
        assert y._version == 1


# What stays


class _Registered:
    """Looks at everything before, and compares it with what is there now."""

    def __init__(self, net, *tensors):
        self.net, self.tensors = net, tensors
        self.before = self.now()

    def now(self):
        return [*registered(self.net, *self.tensors)]


def _net_with_hooks():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3, 1))
    net[0].register_forward_hook(lambda *_: None)
    net[0].weight.register_hook(lambda gradient: None)
    return net, torch.randn(2, 3, requires_grad=True)


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_stays_registered(level):
    net, x = _net_with_hooks()
    seen = _Registered(net, x)
    with tnb.record(net, level=level) as rec:
        net(x).sum().backward()
        rec.step()
        y = net(x).sum()
    assert seen.now() == seen.before
    y.backward()
    assert len(rec._kept.events) == (count := len(rec._kept.events))
    net(x).sum().backward()
    assert len(rec._kept.events) == count


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_stays_after_an_exception(level, kind):
    net, x = _net_with_hooks()

    def fails(*_):
        raise kind

    handle = net[1].register_forward_hook(fails)
    seen = _Registered(net, x)
    rec = tnb.record(net, level=level)
    with pytest.raises(kind), rec:
        net(x)
    assert seen.now() == seen.before
    assert rec.state == "broken"
    handle.remove()


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_stays_after_an_exception_in_a_backward_pass(level):
    net, x = _net_with_hooks()

    def fails(gradient):
        msg = "in backward"
        raise ValueError(msg)

    x.register_hook(fails)
    seen = _Registered(net, x)
    with pytest.raises(ValueError, match="in backward"), tnb.record(net, level=level):
        net(x).sum().backward()
    assert seen.now() == seen.before


def test_nothing_stays_when_installing_fails(monkeypatch):
    net, x = _net_with_hooks()
    seen = _Registered(net, x)
    monkeypatch.setattr(
        net[3], "register_forward_hook", lambda *_, **__: (_ for _ in ()).throw(ValueError("full"))
    )
    with pytest.raises(ValueError, match="full"):
        tnb.record(net, level="both").__enter__()
    monkeypatch.undo()
    assert seen.now() == seen.before


def test_names_that_mean_nothing_leave_nothing():
    net, x = _net_with_hooks()
    seen = _Registered(net, x)
    with pytest.raises(tnb.EntryNotFoundError, match="no layer is called"):
        tnb.record(net, names="3.wieght").__enter__()
    assert seen.now() == seen.before


@pytest.mark.parametrize("level", LEVELS)
def test_starting_and_stopping_leave_nothing(level):
    net, x = _net_with_hooks()
    seen = _Registered(net, x)
    rec = tnb.record(net, level=level)
    for _ in range(2):
        assert rec.start() is rec
        assert seen.now() != seen.before
        net(x).sum().backward()
        dump = rec.stop()
        assert seen.now() == seen.before
        assert len(dump) == len(rec.dump)
    assert rec.start().start() is rec
    rec.stop()
    assert seen.now() == seen.before


def test_a_network_that_was_recorded_can_be_collected():
    net, x = _net_with_hooks()
    with tnb.record(net, level="both") as rec:
        y = net(x)
        loss = y.sum()
        loss.backward()
    told = [weakref.ref(net), weakref.ref(y), weakref.ref(loss), weakref.ref(rec)]
    dump = rec.dump
    del net, y, loss, rec
    gc.collect()
    assert [each() for each in told] == [None] * 4
    assert len(dump)


def test_tensors_are_not_kept_alive_while_recording():
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])
    told = []
    with tnb.record(net, level="both", keep="digest"):
        net[1].register_forward_hook(lambda m, a, y: told.append(weakref.ref(y)))
        y = net(torch.randn(2, 4))
        y.sum().backward()
        del y
        gc.collect()
        assert [each() for each in told] == [None]


def test_the_steps_that_are_not_recorded_have_no_hooks():
    net, x = _net_with_hooks()
    seen = _Registered(net, x)
    with tnb.record(net, level="both", steps=[1]) as rec:
        assert seen.now() == seen.before
        net(x).sum().backward()
        rec.step()
        assert seen.now() != seen.before
        net(x).sum().backward()
        rec.step()
        assert seen.now() == seen.before
        net(x).sum().backward()
    assert set(rec.dump.index["step"].values) == {1}


def test_a_recording_that_nobody_ends_is_closed_at_exit():
    program = """
import atexit, torch, troubleshooter_nb as tnb
net = torch.nn.Linear(2, 2)
rec = tnb.record(net, level="both")
atexit.register(lambda: print(rec.state, len(net._forward_hooks), len(rec.dump) > 0))
rec.start()
net(torch.ones(1, 2))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["broken", "0", "True"]
    assert done.returncode == 0
