"""What was recorded of who feeds whom decides before equal values do."""

from __future__ import annotations

import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.analysis.flow import Flow

torch = pytest.importorskip("torch")
nn = torch.nn
pytestmark = pytest.mark.torch


def without_edges(dump):
    """The dump as a format has it that knows no edges."""
    blank = dump.index["producer"].copy(data=[""] * len(dump))
    return tnb.Dump(dump.index.assign(producer=blank), dump.sources, dump.label, dump.format)


def recorded(net, x, **options):
    with tnb.record(net, **options) as recording:
        net(x)
    return recording.dump


def origins(left, right):
    """Display name to origin and basis of the rows that are said to create or carry."""
    table = tnb.compare(left, right).columns
    names = table["left_display"].tolist()
    found = zip(names, table["origin"].tolist(), table["origin_basis"].tolist(), strict=True)
    return {name: (origin, basis) for name, origin, basis in found if origin}


class Branches(nn.Module):
    """Two branches of equal weights, so that their values are equal by accident."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 4)
        self.other.load_state_dict(self.one.state_dict())
        self.extra = 0.0

    def forward(self, x):
        one = self.one(x)
        self.other(x)
        return self.head(one)


@pytest.fixture
def branches():
    """The one branch, which is read, differs on the left."""
    torch.manual_seed(0)
    right = Branches()
    left = Branches()
    left.load_state_dict(right.state_dict())
    handle = left.one.register_forward_hook(lambda *said: said[-1] + 0.5)
    x = torch.randn(3, 4)
    yield recorded(left, x), recorded(right, x)
    handle.remove()


def test_branches_of_equal_values_are_told_apart(branches):
    left, right = branches
    guessed = origins(without_edges(left), without_edges(right))
    assert guessed["head input 0"] == ("created", "between")  # held against the other branch
    followed = origins(left, right)
    assert followed["head input 0"] == ("carried", "between")
    assert [name for name, (origin, _) in followed.items() if origin == "created"] == [
        "one output 0"
    ]


@pytest.mark.parametrize("blank", ["left", "right"])
def test_one_side_that_knows_is_followed(branches, blank):
    left, right = branches
    if blank == "left":
        left = without_edges(left)
    else:
        right = without_edges(right)
    assert origins(left, right)["head input 0"] == ("carried", "between")


class Gate(nn.Module):
    """A single number goes around a block: no figures tell it from others."""

    def __init__(self):
        super().__init__()
        self.late = nn.Bilinear(4, 1, 4)  # registered first, run last
        self.gate, self.body = nn.Linear(4, 1), nn.Linear(4, 4)
        self.again = nn.Identity()

    def forward(self, x):
        gate = self.gate(x)
        return self.late(self.again(self.body(x)), self.again(gate))


def test_a_value_without_figures_is_carried_around_a_block():
    torch.manual_seed(0)
    right, left = Gate(), Gate()
    left.load_state_dict(right.state_dict())
    left.gate.register_forward_hook(lambda *said: said[-1] * 3)
    x = torch.randn(1, 4)
    dumps = recorded(left, x), recorded(right, x)
    comparison = tnb.compare(*dumps)
    flow = Flow(comparison)
    row = comparison.columns["left_display"].tolist().index("late input 1")
    assert flow.node_of[flow.producer[row]].path == "again"
    assert flow.node_of[flow.producer[row]].call == 1
    guessed = Flow(tnb.compare(*map(without_edges, dumps)))
    assert row not in guessed.producer
    followed = origins(*dumps)
    created = [name for name, (origin, _) in followed.items() if origin == "created"]
    assert created == ["gate output 0"]
    assert followed["late input 1"] == ("carried", "between")


def test_an_accident_makes_no_edge_that_the_record_denies():
    """A block that returns what it was given is not fed by an inner layer of equal values."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.copy = nn.Linear(4, 4, bias=False)
            nn.init.eye_(self.copy.weight)

        def forward(self, x):
            self.copy(x)
            return x

    net = nn.Sequential(nn.Linear(4, 4), Block(), nn.Linear(4, 4))
    dump = recorded(net, torch.randn(2, 4))
    comparison = tnb.compare(dump, dump)
    rows = {name: row for row, name in enumerate(comparison.columns["left_display"])}
    flow = Flow(comparison)
    assert rows["1 output 0"] not in flow.passed_on
    assert flow.node_of[flow.producer[rows["2 input 0"]]].path == "0"
    guessed = Flow(tnb.compare(without_edges(dump), without_edges(dump)))
    assert rows["1 output 0"] in guessed.passed_on


class Wired(nn.Module):
    def __init__(self, fed="one"):
        super().__init__()
        self.one, self.other, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.norms = nn.ModuleList([nn.Identity()])
        self.fed = fed

    def forward(self, x):
        made = {"one": self.one(x), "other": self.other(x)}
        return self.head(self.norms[0](made[self.fed]))


def wired(fed):
    torch.manual_seed(0)
    net = Wired(fed)
    return recorded(net, torch.ones(2, 4).cumsum(1))


def test_a_layer_that_other_layers_feed_is_said_to_be_wired_otherwise():
    comparison = tnb.compare(wired("other"), wired("one"))
    first = comparison.first_divergence
    assert str(first.row["left_display"].values) == "norms.0 input 0"
    sentence = "Wired otherwise: on the left it is what other made, on the right what one made."
    assert sentence in repr(first)
    said = str(comparison.explain())
    assert sentence in " ".join(said.split())
    assert "not recorded" not in said
    assert "Compare what the code of both networks gives to this call." in said
    with tnb.option_context(language="zh"):
        assert "左侧为 other 的结果，右侧为 one 的结果" in str(comparison.explain())


def test_layers_that_are_wired_alike_are_not():
    """A layer in another mode hands on its input on one side and makes a value on the other."""

    def net(mode):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)).train(mode)

    x = torch.randn(3, 4)
    comparison = tnb.compare(recorded(net(True), x), recorded(net(False), x))
    assert all(not pair.neighbours.get("fed") for pair in comparison)
    assert str(comparison.first_divergence.row["left_display"].values) == "1 output 0"


@pytest.mark.mindspore
@pytest.mark.parametrize("gradients", [False, True])
def test_cells_of_mindspore_are_followed(gradients):
    """Values keep their identity through cells, also while gradients are computed."""
    mindspore = pytest.importorskip("mindspore")

    class Net(mindspore.nn.Cell):
        def __init__(self):
            super().__init__()
            self.one, self.other = (mindspore.nn.Dense(4, 4) for _ in range(2))
            self.head = mindspore.nn.SequentialCell(mindspore.nn.Dense(4, 1))
            self.last = mindspore.nn.Dense(1, 4)

        def construct(self, x):
            one = self.one(x)
            self.other(x)
            return self.last(self.head(one))

    net = Net()
    x = mindspore.Tensor([[1.0, 2.0, 3.0, 4.0]])
    with tnb.record(net, gradients=gradients) as recording:
        if gradients:
            mindspore.value_and_grad(net, None, net.trainable_params())(x)
        else:
            net(x)
    dump = recording.dump
    readers = {
        name.split(".")[1]: [other.split(".")[1:3] for other in dump.consumers_of(name)]
        for name in dump.select(direction="forward", role="output").names
    }
    assert readers["one"] == [["head", "0"]]
    assert readers["other"] == []
    last = dump.select(path="last", role="input", direction="forward").names
    assert ".head.0." in dump.producer_of(last[0])


class Ordered(nn.Module):
    """A norm before or behind an activation."""

    def __init__(self, norm_first):
        super().__init__()
        torch.manual_seed(0)
        self.norm_first = norm_first
        self.a, self.n, self.c = nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4)
        self.r = nn.ReLU()

    def forward(self, x):
        h = self.a(x)
        return self.c(self.r(self.n(h)) if self.norm_first else self.n(self.r(h)))


@pytest.mark.parametrize("level", ["module", "both"])
@pytest.mark.parametrize("left_first", [False, True])
def test_layers_in_another_order_begin_where_the_first_is_wired_otherwise(level, left_first):
    x = torch.linspace(-2, 2, 8).reshape(2, 4)
    sides = [recorded(Ordered(first), x, level=level) for first in (left_first, not left_first)]
    cmp = tnb.compare(*sides)
    created = cmp.select(origin="created")
    assert created.result["left_display"].values.tolist() == [
        "n input 0" if left_first else "r input 0"
    ]
    said = "Wired otherwise: on the left it is what a made"
    assert said in str(cmp.explain())
    for shown in (repr(cmp), cmp._repr_html_()):
        assert said in shown
        assert "not recorded" not in shown
