"""Who made a value of a recorded run, and who reads it."""

from __future__ import annotations

import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.torch


def dump_of(net, *given, **options):
    with tnb.record(net, **options) as recording:
        net(*given)
    return recording.dump


class Parts(nn.Module):
    """A tuple's parts, a layer used twice, a value handed around a block, one handed on."""

    def __init__(self):
        super().__init__()
        self.late = nn.Linear(4, 4)  # registered first, run last
        self.norm = nn.LayerNorm(4)
        self.rnn = nn.GRU(4, 4, batch_first=True)
        self.act = nn.ReLU(inplace=True)
        self.drop = nn.Dropout(0.5)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Identity())

    def forward(self, x):
        seen, last = self.rnn(self.drop(x))
        seen = self.act(self.norm(seen))
        return self.late(self.block(seen)) + self.late(seen), self.norm(last)


@pytest.fixture(scope="module")
def parts():
    torch.manual_seed(0)
    return dump_of(Parts().eval(), torch.randn(2, 3, 4))


def test_parts_of_a_tuple_are_told_apart(parts):
    assert parts.producer_of("Module.norm.LayerNorm.forward.0.input.0") == (
        "Module.rnn.GRU.forward.0.output.0"
    )
    assert parts.producer_of("Module.norm.LayerNorm.forward.1.input.0") == (
        "Module.rnn.GRU.forward.0.output.1"
    )
    assert parts.consumers_of("Module.rnn.GRU.forward.0.output.1") == [
        "Module.norm.LayerNorm.forward.1.input.0"
    ]


def test_what_a_layer_wrote_in_place_is_another_value(parts):
    assert parts.producer_of("Module.act.ReLU.forward.0.input.0") == (
        "Module.norm.LayerNorm.forward.0.output.0"
    )
    assert parts.consumers_of("Module.norm.LayerNorm.forward.0.output.0") == [
        "Module.act.ReLU.forward.0.input.0"
    ]


def test_readers_are_the_innermost_layers_in_the_order_of_their_calls(parts):
    assert parts.consumers_of("Module.act.ReLU.forward.0.output.0") == [
        "Module.block.0.Linear.forward.0.input.0",
        "Module.late.Linear.forward.1.input.0",
    ]


def test_what_a_container_gives_is_of_the_layer_inside(parts):
    made = "Module.block.0.Linear.forward.0.output.0"
    assert parts.producer_of("Module.late.Linear.forward.0.input.0") == made
    assert parts.producer_of("Module.block.Sequential.forward.0.output.0") == made
    assert parts.producer_of("Module.block.1.Identity.forward.0.output.0") == made
    assert parts.producer_of(made) == ""


def test_nobody_made_an_input_that_a_layer_hands_on(parts):
    """Dropout in eval returns what it was given: the values of the run are not its own."""
    for name in ("drop.Dropout.forward.0.output.0", "rnn.GRU.forward.0.input.0"):
        assert parts.producer_of(f"Module.{name}") == ""
    assert parts.consumers_of("Module.late.Linear.forward.0.parameters.weight") == []


def test_an_earlier_reader_is_not_fed_by_who_hands_the_value_on_later():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.same = nn.Linear(4, 4), nn.Identity()

        def forward(self, x):
            return self.fc(x), self.same(x)

    dump = dump_of(Late(), torch.randn(2, 4))
    assert dump.producer_of("Module.fc.Linear.forward.0.input.0") == ""


def test_views_are_values_of_their_own_and_recomputation_changes_nothing():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

        def inside(self, x):
            return self.b(self.a(x))

        def forward(self, x):
            y = checkpoint(self.inside, x, use_reentrant=False)
            return self.c(y.view(-1, 4))

    net = Kept()
    with tnb.record(net) as recording:
        net(torch.randn(2, 4)).sum().backward()
    dump = recording.dump
    assert dump.consumers_of("Module.a.Linear.forward.0.output.0") == [
        "Module.b.Linear.forward.0.input.0"
    ]
    assert dump.producer_of("Module.c.Linear.forward.0.input.0") == ""
    assert dump.consumers_of("Module.b.Linear.forward.0.output.0") == []


def test_operators_inside_a_layer_are_left_out(parts):
    torch.manual_seed(0)
    dump = dump_of(Parts().eval(), torch.randn(2, 3, 4), level="both")
    assert dump.producer_of("Module.act.ReLU.forward.0.input.0") == (
        "Module.norm.LayerNorm.forward.0.output.0"
    )
    assert dump.consumers_of("Module.norm.LayerNorm.forward.0.output.0") == [
        "Module.act.ReLU.forward.0.input.0"
    ]
    # The sum of both is made between the layers, by an operator of its own.
    assert dump.consumers_of("Module.late.Linear.forward.1.output.0") == [
        "Tensor.add.0.forward.input.1"
    ]


def test_each_step_has_its_own():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(2, 4)
    with tnb.record(net) as recording:
        net(x)
        recording.step()
        net(x)
    dump = recording.dump
    for step in (0, 1):
        one = dump.select(step=step)
        assert one.consumers_of("Module.0.Linear.forward.0.output.0") == [
            "Module.1.Tanh.forward.0.input.0"
        ]
    rows = [dump.edges.made(row) for row in range(len(dump))]
    steps = dump.columns["step"]
    assert all(steps[made] == steps[row] for row, made in enumerate(rows) if made >= 0)
    assert len({*rows} - {-1}) == 4


def test_a_folder_says_the_same_as_memory(tmp_path, parts):
    torch.manual_seed(0)
    net = Parts().eval()
    with tnb.record(net, to=tmp_path / "run"):
        net(torch.randn(2, 3, 4))
    dump = tnb.open_dump(tmp_path / "run")
    assert dump.columns["producer"].tolist() == parts.columns["producer"].tolist()


def test_other_formats_say_nothing():
    dump = tnb.Dump.from_arrays({"a": [1.0], "b": [1.0]})
    assert (dump.producer_of("a"), dump.consumers_of("a")) == ("", [])


def test_an_operator_beside_a_layer_reads_what_the_layer_around_both_hands_on():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return x + self.fc(x)

    net = nn.Sequential(nn.Linear(4, 4), Residual())
    dump = dump_of(net, torch.ones(2, 4), level="both")
    assert dump.consumers_of("Module.0.Linear.forward.0.output.0") == [
        "Module.1.fc.Linear.forward.0.input.0",
        "Tensor.add.0.forward.input.0",
    ]
