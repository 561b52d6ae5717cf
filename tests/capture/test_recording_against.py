"""A recording that is compared with a reference while it runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.capture.recorded import bits, missing, registered  # noqa: E402

pytestmark = pytest.mark.torch

X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.GELU()

    def forward(self, x):
        return x + self.act(self.fc(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block(), Block()])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.fixture(name="net")
def _net():
    torch.manual_seed(0)
    return Net()


def step(net, x=X):
    loss = net(x).pow(2).sum()
    loss.backward()
    return loss


def recorded(net, **options):
    net.zero_grad()
    with tnb.record(net, **options) as rec:
        step(net)
    return rec


def with_other_activation(net):
    net.blocks[1].act = nn.SiLU()
    return net


def test_the_same_run_differs_nowhere_and_everything_was_compared(net):
    found = recorded(net, against=recorded(net).dump).differences
    assert found.passed
    assert (found.compared, found.gradients, found.undecided) == (11, 18, 0)
    assert (found.rows, found.alone, found.unmet) == ((), (), ())
    assert "nothing differs from 'torch'" in repr(found)
    assert found._repr_html_() == found._repr_html_()


@pytest.mark.parametrize(
    ("theirs", "keep"),
    [
        ("tensor", "tensor"),
        ("tensor", "digest"),
        ("statistics", "statistics"),
        ("sample", "sample"),
    ],
)
def test_the_call_that_makes_a_difference_is_told_from_those_that_pass_it_on(net, theirs, keep):
    reference = recorded(net, keep=theirs).dump
    rec = recorded(with_other_activation(net), against=reference, keep=keep)
    found = rec.differences
    forward = {row.path: row.origin for row in found if row.direction == "forward"}
    assert forward == {
        "blocks.1.act": "created",
        "blocks.1": "contains",
        **dict.fromkeys(("blocks.2.fc", "blocks.2.act", "blocks.2", "head"), "carried"),
        "": "contains",
    }
    first = found.first
    assert (first.path, first.layer, first.slot, first.step) == (
        "blocks.1.act",
        "SiLU",
        "output 0",
        0,
    )
    assert first.partner == "Module.blocks.1.act.GELU.forward.0.output.0"
    assert "in forward" in first.stack_line
    assert "self.act(self.fc(x))" in first.stack_line
    assert not found.passed
    held = rec.dump.select(path="blocks.1.act", direction="forward")
    assert all(source is not None for source in held.sources)


def test_errors_are_those_of_compare(net):
    reference = recorded(net).dump
    rec = recorded(with_other_activation(net), against=reference)
    result = tnb.compare(rec.dump, reference).result.set_index(pair="left")
    name = "Module.blocks.1.act.SiLU.forward.0.output.0"
    for figure in ("rel_l2_error", "max_abs_error"):
        got = getattr(rec.differences.first, figure)
        assert got == pytest.approx(float(result[figure].sel(pair=name)), rel=1e-12)


def test_a_fingerprint_estimates_how_far_a_statistic_cannot_tell(net):
    reference = recorded(net, keep="statistics").dump
    with torch.no_grad():
        # Rows in another order: the same minimum, maximum, mean and norm.
        net.head.weight.copy_(net.head.weight.flip(0))
    found = recorded(net, against=reference).differences
    first = found.first
    assert (first.path, first.origin, first.parameters) == ("head", "created", ("weight",))
    assert "unlike its weight" in repr(found)
    weight = next(row for row in found if row.path == "head")
    assert weight.basis in ("fingerprint", "statistics")


def test_it_stops_at_the_first_call_that_differs_and_keeps_it(net):
    reference = recorded(net).dump
    other = with_other_activation(net)
    before = [*registered(other)]
    reached = []
    with tnb.record(other, against=reference, keep="statistics", stop_after=1) as rec:
        try:
            step(other)
        except Exception:
            reached.append("except")
        reached.append("behind")
    assert reached == []
    assert [*registered(other)] == before
    found = rec.differences
    assert [row.path for row in found] == ["blocks.1.act"]
    assert found.is_stopped
    assert rec.state == "stopped"
    assert missing(rec) == set()
    has = {name for name, source in zip(rec.dump.names, rec.dump.sources, strict=True) if source}
    assert has >= {
        "Module.blocks.1.act.SiLU.forward.0.input.0",
        "Module.blocks.1.act.SiLU.forward.0.output.0",
    }
    assert "Module.blocks.0.fc.Linear.forward.0.output.0" not in has
    step(other)  # as ever


def test_it_stops_within_a_backward_pass(net):
    reference = recorded(net).dump
    with tnb.record(net, against=reference, stop_after=1) as rec:
        (3 * net(X).pow(2).sum()).backward()
        pytest.fail("not reached")
    (row,) = rec.differences
    assert (row.path, row.direction) == ("head", "backward") or row.path == ""
    assert row.origin == "unknown"  # it came from the loss
    assert row.rel_l2_error == pytest.approx(2.0, rel=1e-5)


def test_between_start_and_stop_the_network_runs_on(net):
    reference, other = recorded(net).dump, with_other_activation(net)
    rec = tnb.record(other, against=reference, stop_after=1).start()
    step(other)
    dump = rec.stop()
    assert rec.differences.is_stopped
    assert len(rec.differences) == 1
    assert len(dump) < len(reference)
    assert rec.state == "stopped"
    step(other)  # and nothing is left on it
    assert len(rec.differences) == 1


def test_a_stop_ends_the_recording_that_asked_for_it_and_no_other(net):
    reference = recorded(net).dump
    other = with_other_activation(net)
    with tnb.record(other) as outer:
        with tnb.record(other, against=reference, stop_after=1) as inner:
            step(other)
        assert outer.state == "running"
    assert inner.differences.is_stopped
    assert outer.state == "stopped"


def test_no_number_of_the_run_changes(net):
    reference = recorded(net).dump
    net.zero_grad()
    loss = step(net)
    wanted = [bits(loss), *(bits(p.grad) for p in net.parameters())]
    net.zero_grad()
    state = torch.get_rng_state()
    with tnb.record(net, against=reference):
        loss = step(net)
    assert [bits(loss), *(bits(p.grad) for p in net.parameters())] == wanted
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_recorded_is_what_is_recorded_without(net):
    alone = recorded(net, keep="statistics").dump
    beside = recorded(net, keep="statistics", against=recorded(net).dump).dump
    assert beside.names == alone.names
    for name in ("l2", "mean", "crc32"):
        np.testing.assert_array_equal(beside.index[name].values, alone.index[name].values)


def test_calls_without_a_partner_are_counted_on_both_sides(net):
    reference = recorded(net).dump
    net.blocks.append(Block())
    more = recorded(net, against=reference).differences
    assert {name.split(".")[2] for name in more.alone} == {"3"}
    assert len(more.alone) == 3
    assert "3 calls have no partner in the reference" in repr(more)
    whole = recorded(net).dump
    net.blocks = net.blocks[:3]
    fewer = recorded(net, against=whole).differences
    assert len(fewer.unmet) == 3
    assert "3 calls of the reference were not met" in repr(fewer)
    assert not fewer.passed


def test_steps_that_never_came_are_counted_and_steps_too_many_as_well(net):
    def steps(count, **options):
        with tnb.record(net, gradients=False, **options) as rec:
            for number in range(count):
                net(X + number)
                rec.step()
        return rec

    three, calls = steps(3).dump, steps(1, against=steps(1).dump).differences.compared
    fewer = steps(2, against=three)
    assert len(fewer.differences.unmet) == calls
    assert fewer.differences.unmet[0].endswith(", step 2")
    assert not fewer.differences.passed
    assert steps(2, against=three, steps=[0, 1]).differences.passed  # the third was not asked for
    more = steps(3, against=steps(1).dump).differences
    assert len(more.alone) == 2 * calls
    with tnb.record(net, gradients=False, against=three) as rec:
        net(X)
        assert rec.differences.unmet == ()  # it still runs


def test_gradients_without_a_partner_are_counted_on_both_sides(net):
    whole, without = recorded(net).dump, recorded(net, gradients=False).dump
    found = recorded(net, against=without).differences
    assert "Module.head.Linear.backward.0" in found.alone
    assert (found.compared, found.gradients) == (11, 0)
    assert recorded(net, gradients=False, against=whole).differences.passed
    with tnb.record(net, against=whole) as rec:
        net(X)  # and no backward
    assert "Module.head.Linear.backward.0" in rec.differences.unmet
    assert not rec.differences.passed


def test_a_cell_that_runs_again_replaces_what_it_found(net):
    reference = recorded(net).dump
    rec = tnb.record(net, against=reference).start()
    rec._begin_run(1, 0, None)
    net(X * 2)
    assert len(rec.differences) > 0
    rec._begin_run(2, 0, 1)
    step(net)
    rec.stop()
    assert rec.differences.passed, rec.differences


def test_names_choose_what_of_the_reference_is_expected(net):
    found = recorded(net, names="head", against=recorded(net).dump).differences
    assert (found.compared, found.unmet) == (1, ())


def test_inputs_that_are_written_in_place_are_compared_as_they_were():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    with tnb.record(net) as rec:
        net(X)
    net[1] = nn.Hardtanh(0.0, 0.2, inplace=True)
    with tnb.record(net, against=rec.dump, keep="statistics") as other:
        net(X)
    first = other.differences.first
    assert (first.path, first.origin) == ("1", "created")
    assert other.dump.array("Module.1.Hardtanh.forward.0.input.0").min() < 0


def test_steps_are_compared_each_with_its_own_and_a_lone_one_with_the_first(net):
    def run(net, count, **options):
        with tnb.record(net, **options) as rec:
            for number in range(count):
                net(X + number)
                rec.step()
        return rec

    every = run(net, 3).dump
    assert run(net, 3, against=every).differences.compared == 33
    late = run(net, 3, against=every.select(step=1), steps=1).differences
    assert (late.compared, late.passed) == (11, True)
    alone = run(net, 2, against=every.select(step=0)).differences
    assert len(alone.alone) == 11


def test_operators_belong_to_those_of_their_name_and_number(net):
    reference = recorded(net, level="both").dump
    assert recorded(net, level="both", against=reference).differences.passed
    found = recorded(with_other_activation(net), level="api", against=reference).differences
    assert found.alone == ("Functional.silu.0.forward",)
    assert "Functional.gelu.2.forward" in found.unmet


def test_a_mapping_names_layers_that_are_called_otherwise(net):
    reference = recorded(net).dump

    class Renamed(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.out = net.blocks, net.head

        def forward(self, x):
            for block in self.trunk:
                x = block(x)
            return self.out(x)

    mapping = {"Module.out.Linear.forward.0.output.0": "Module.head.Linear.forward.0.output.0"}
    found = recorded(Renamed(), against=reference, mapping=mapping).differences
    assert found.passed, found
    with pytest.raises(tnb.PairingError, match="nothing"):
        recorded(net, against=reference, mapping={"nothing": "Module.head"})


def test_a_reference_in_a_folder_is_read_and_never_overwritten(net, tmp_path):
    recorded(net, to=tmp_path / "run")
    found = recorded(net, to=tmp_path / "other", against=tmp_path / "run").differences
    assert found.reference == "run"
    assert found.passed
    other = with_other_activation(net)
    options = {"to": tmp_path / "short", "keep": "statistics", "stop_after": 1}
    with tnb.record(other, against=tmp_path / "run", **options):
        step(other)
    held = tnb.open_dump(tmp_path / "short").select(path="blocks.1.act")
    assert [source is not None for source in held.sources] == [True, True]
    np.testing.assert_array_equal(
        held.array("Module.blocks.1.act.SiLU.forward.0.output.0"),
        nn.functional.silu(torch.from_numpy(held.array(held.names[0]))).numpy(),
    )
    with pytest.raises(ValueError, match="would overwrite"):
        tnb.record(net, to=tmp_path / "run", against=tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"stop_after": 1}, ValueError, "stop_after goes with a reference"),
        ({"mapping": {}}, ValueError, "mapping goes with a reference"),
        ({"against": {"x": np.zeros(3)}}, ValueError, "holds no calls"),
        ({"against": "dump", "stop_after": 0}, ValueError, "a number from 1"),
        ({"against": "dump", "stop_after": True}, TypeError, "a number of calls"),
        ({"against": "dump", "rtol": -1}, ValueError, "rtol"),
        ({"against": "missing"}, FileNotFoundError, "missing"),
    ],
)
def test_what_cannot_be_compared_is_refused(net, options, error, says):
    if options.get("against") == "dump":
        options = {**options, "against": recorded(net).dump}
    with pytest.raises(error, match=says):
        tnb.record(net, **options)


def test_a_recording_without_a_reference_has_no_differences(net):
    with pytest.raises(ValueError, match="nothing is compared"):
        _ = recorded(net).differences


def test_a_weight_map_is_for_compare(net):
    weights = {name: p.detach().numpy() for name, p in net.named_parameters()}
    mapping = tnb.draft_weight_map(weights, weights)
    with pytest.raises(NotImplementedError, match="weight map is not applied"):
        tnb.record(net, against=recorded(net).dump, mapping=mapping)


def test_texts_are_in_the_language_asked_for(net):
    reference = recorded(net).dump
    found = recorded(with_other_activation(net), against=reference).differences
    with tnb.option_context(language="zh"):
        assert "产生于此" in repr(found)
        assert "不一致的调用" in found._repr_html_()
    table = found.to_dataframe()
    assert list(table["origin"])[:2] == ["created", "contains"]
    assert math.isfinite(table["rel_l2_error"][0])


def test_a_shape_that_differs_and_values_that_hide_below_atol_are_not_passed(net):
    reference = recorded(net).dump
    net.head = nn.Linear(4, 3)
    shapes = {row.verdict for row in recorded(net, against=reference).differences}
    assert "shape" in shapes
    small = nn.Linear(4, 4)
    with torch.no_grad():
        for p in small.parameters():
            p.mul_(1e-6)
    tiny = recorded(small).dump
    with torch.no_grad():
        small.weight.mul_(-1)
    found = recorded(small, against=tiny, gradients=False).differences
    assert (found.rows, found.undecided) == ((), 1)
    assert not found.passed
