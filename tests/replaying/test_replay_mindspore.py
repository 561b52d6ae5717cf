"""Cells replay as modules do, and each framework replays what the other one recorded."""

from __future__ import annotations

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.messages import ids_of

mindspore = pytest.importorskip("mindspore")

from mindspore import Tensor, nn  # noqa: E402

pytestmark = pytest.mark.mindspore


class Pair(nn.Cell):
    def construct(self, d, scale=1.0):
        return {"a": d["x"] * scale, "b": [d["x"] + 1]}


class Net(nn.Cell):
    """The network of the recipe for recording MindSpore, with statistics that move."""

    def __init__(self):
        super().__init__()
        self.inp, self.pair, self.act, self.head = nn.Dense(4, 4), Pair(), nn.ReLU(), nn.Dense(4, 2)
        self.norm = nn.BatchNorm1d(4)

    def construct(self, x):
        d = self.pair({"x": self.norm(self.inp(x))}, scale=2.0)
        return self.head(self.act(self.act(d["a"] + d["b"][0])))


class Words(nn.Cell):
    def __init__(self, names):
        super().__init__()
        conv = nn.Conv1d(6, 6, 3, pad_mode="pad", padding=1, has_bias=True)
        layers = nn.Embedding(9, 6), conv, nn.LayerNorm((6,), epsilon=1e-5), nn.GELU(False)
        self.names = names
        for name, layer in zip(names, (*layers, nn.Dense(6, 3)), strict=True):
            setattr(self, name, layer)

    def construct(self, ids):
        word, conv, norm, act, head = (getattr(self, name) for name in self.names)
        h = conv(word(ids).transpose(0, 2, 1)).transpose(0, 2, 1)
        return head(act(norm(h)))


NAMES = ("word", "conv", "norm", "act", "head")


def recorded(net, *data):
    """What one pass of a network gives to replay."""
    net.set_train(True)
    with tnb.record(net, replayable=True, gradients=False) as rec:
        net(*data)
    return rec.dump


def values(net):
    return {name: one.asnumpy().copy() for name, one in net.parameters_dict().items()}


def data():
    return Tensor(np.random.RandomState(0).randn(5, 4).astype(np.float32))


def ids():
    return np.random.RandomState(1).randint(0, 9, (2, 5)).astype(np.int32)


def test_every_call_of_a_cell_gives_its_recorded_bits_and_leaves_it_alone():
    net = Net()
    dump = recorded(net, data())
    net.head.weight.set_data(net.head.weight + 1)
    net.set_train(False)
    before, objects = values(net), {name: id(p) for name, p in net.parameters_dict().items()}
    state = mindspore.get_rng_state().asnumpy()
    cmp = tnb.replay(net, dump)
    assert set(cmp.result["verdict"].values) == {"identical"}
    assert len(cmp.select(role="output")) == 8
    after = values(net)
    assert all((after[name] == value).all() for name, value in before.items())
    assert {name: id(p) for name, p in net.parameters_dict().items()} == objects
    assert not any(cell.training for _, cell in net.cells_and_names())
    assert (mindspore.get_rng_state().asnumpy() == state).all()


def test_float64_judges_cells_as_far_as_there_are_kernels():
    net = Net()
    dump = recorded(net, data())
    before = values(net)
    cmp = tnb.replay(net, dump, dtype="float64", names=["inp", "norm"])
    nearest = cmp.select(role="output").result["left_float64_error"].values
    assert nearest[0] < 1e-6
    assert np.isnan(nearest[1])
    notes = [id for note in cmp.pairing.table["note"].values for id in ids_of(note)]
    assert "replays.no_referee" in notes
    after = values(net)
    assert all(after[name].dtype == value.dtype for name, value in before.items())
    assert all((after[name] == value).all() for name, value in before.items())


def test_dropout_whose_state_nobody_can_read_is_named():
    net = nn.SequentialCell(nn.Dense(4, 64), nn.Dropout(p=0.5))
    cmp = tnb.replay(net, recorded(net, data()))
    (note,) = (one for one in cmp.notes if ids_of(one) == ["replays.unsteady_of"])
    assert "1" in note.values["names"]


@pytest.mark.torch
@pytest.mark.parametrize("names", [NAMES, ("table", "c", "ln", "gelu", "out")])
def test_torch_replays_what_mindspore_recorded(names):
    torch = pytest.importorskip("torch")

    class Twin(torch.nn.Module):
        def __init__(self, eps):
            super().__init__()
            self.word = torch.nn.Embedding(9, 6)
            self.conv = torch.nn.Conv1d(6, 6, 3, padding=1)
            self.norm, self.act = torch.nn.LayerNorm(6, eps=eps), torch.nn.GELU()
            self.head = torch.nn.Linear(6, 3)

        def forward(self, ids):
            h = self.conv(self.word(ids).transpose(1, 2)).transpose(1, 2)
            return self.head(self.act(self.norm(h)))

    dump = recorded(Words(names), Tensor(ids()))
    twin = Twin(1e-5)
    cmp = tnb.replay(twin, dump)
    assert cmp.passed
    assert len(cmp.select(role="output")) == 6
    planted = tnb.replay(Twin(1e-1), dump, dtype="float64")
    verdicts, paths = planted.result["verdict"].values, planted.result["left"].values
    assert [str(path) for path in paths[verdicts == "differs"]] == [
        "Module.norm.LayerNorm.forward.0.output.0",
        "Module.Twin.forward.0.output.0",
    ]
    with tnb.record(twin.eval(), replayable=True, gradients=False) as rec:
        twin(torch.tensor(ids()))
    assert tnb.replay(Words(names), rec.dump).passed
