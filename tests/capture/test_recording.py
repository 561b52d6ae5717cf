"""What `record` is asked for, and what its dump then holds."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.capture.ids import named
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tests.capture.recorded import assert_same, calls, missing, registered, same  # noqa: E402

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.Tanh()

    def forward(self, x):
        return x + self.act(self.fc(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(name="net")
def _net():
    return Net()


X = torch.linspace(-1, 1, 12).reshape(3, 4)


def run(net, x=X, **options):
    with tnb.record(net, **options) as rec:
        net(x).pow(2).sum().backward()
    return rec


def paths_in(dump):
    return {path for path in dump.index["path"].values}


# Names


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        ("head", {"head"}),
        ("blocks.*.fc", {"blocks.0.fc", "blocks.1.fc"}),
        ("blocks.?", {"blocks.0", "blocks.1"}),
        (["head", "blocks.1.*"], {"head", "blocks.1.fc", "blocks.1.act"}),
        (lambda site: site.path.endswith("act"), {"blocks.0.act", "blocks.1.act"}),
        (("", "head"), {"", "head"}),
    ],
)
def test_names_choose_layers(net, names, wanted):
    rec = run(net, names=names)
    assert paths_in(rec.dump) == wanted
    assert missing(rec) == set()


def test_names_of_a_list_of_networks_begin_with_their_number(net):
    other = nn.Linear(4, 4)
    with tnb.record([net, other]) as rec:
        net(other(X))
    assert {"0", "0.head", "1"} <= paths_in(rec.dump)


def test_names_of_a_dict_of_networks_begin_with_its_keys(net):
    other = nn.Linear(4, 4)
    with tnb.record({"actor": net, "critic": other}, names="critic") as rec:
        net(other(X)).sum().backward()
    assert paths_in(rec.dump) == {"critic"}


def test_names_choose_operators_and_the_operators_of_layers(net):
    rec = run(net, level="api", names="Functional.linear")
    assert {call["path"] for call in calls(rec) if call["kind"] == "api"} == {"Functional.linear"}
    rec = run(net, level="both", names="blocks.0")
    inside = [call["path"] for call in calls(rec) if call["kind"] == "api"]
    assert inside == ["Functional.linear", "Torch.tanh", "Tensor.add"]


@pytest.mark.parametrize(
    "names", ["blocks.*.attn", "hed", ["nothing", "at all"], lambda site: False]
)
def test_names_that_mean_no_layer_are_an_error_with_close_names(net, names):
    with pytest.raises(tnb.EntryNotFoundError, match="no layer is called") as caught:
        run(net, names=names)
    if names == "hed":
        assert "head" in str(caught.value)
    assert dict(registered(net))["function modes"] == 0


@pytest.mark.parametrize("names", [3, [], [3], b"head", {}])
def test_names_of_another_kind_are_refused(net, names):
    with pytest.raises(TypeError, match="names is a path"):
        tnb.record(net, names=names)


# Steps


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        (2, [2]),
        (0, [0]),
        ([1, 4], [1, 4]),
        (range(1, 6, 2), [1, 3, 5]),
        ({5}, [5]),
        (np.array([1, 2]).tolist(), [1, 2]),
        (lambda step: step % 3 == 0, [0, 3]),
        (tnb.Schedule(1, 5, 2), [1, 3, 5]),
        (tnb.Schedule(4), [4, 5]),
        (tnb.Schedule(0, 0), [0]),
    ],
    ids=named,
)
def test_steps_choose_what_is_recorded_and_the_others_have_no_hooks(net, steps, wanted):
    before = [*registered(net)]
    hooked = []
    with tnb.record(net, steps=steps) as rec:
        for step in range(6):
            if [*registered(net)] != before:
                hooked.append(step)
            net(X).sum().backward()
            rec.step()
    assert hooked == wanted
    assert sorted(set(rec.dump.index["step"].values)) == wanted
    assert {e["step"] for e in rec._kept.events if "pass" in e} == set(wanted)


@pytest.mark.parametrize("steps", ["1", True, 1.5, b"1"])
def test_steps_of_another_kind_are_refused(net, steps):
    with pytest.raises(TypeError, match="steps is a number"):
        tnb.record(net, steps=steps)


def test_a_schedule_that_records_nothing_is_refused():
    for wrong in ((-1,), (3, 2), (0, None, 0)):
        with pytest.raises(ValueError, match="no step is recorded"):
            tnb.Schedule(*wrong)
    with pytest.raises(TypeError, match="whole number"):
        tnb.Schedule(1.5)


def test_calls_are_counted_anew_in_each_step_and_values_belong_to_theirs(net):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    weights, outputs, gradients = [], [], []
    with tnb.record(net) as rec:
        for _ in range(3):
            weights.append(net.head.weight.detach().clone())
            optimizer.zero_grad()
            y = net(X)
            outputs.append(y.detach().clone())
            y.pow(2).sum().backward()
            gradients.append(net.head.weight.grad.clone())
            optimizer.step()
            rec.step()
    for step in range(3):
        assert_same(
            rec.dump.select(step=step),
            {
                "Module.head.Linear.forward.0.parameters.weight": weights[step],
                "Module.head.Linear.forward.0.output.0": outputs[step],
                "Module.head.Linear.parameters_grad.0.weight": gradients[step],
            },
        )
    assert set(rec.dump.index["call"].values) == {0}


def test_several_calls_in_a_step_are_numbered_by_layer(net):
    with tnb.record(net) as rec:
        first, second = net(X), net(X * 2)
        (first + second).sum().backward()
    assert_same(
        rec.dump,
        {"Module.Net.forward.0.output.0": first, "Module.Net.forward.1.output.0": second},
    )
    numbers = rec.dump.select(path="head", direction="forward").index["call"].values
    assert set(numbers) == {0, 1}


def test_backward_passes_of_one_step_are_numbered(net):
    by_hand = []
    with tnb.record(net) as rec:
        for factor in (1, 3):
            net.zero_grad()
            (factor * net(X)).sum().backward()
            by_hand.append(net.head.weight.grad.clone())
    first, second = (
        rec.dump.array(f"Module.head.Linear.parameters_grad.{n}.weight") for n in (0, 1)
    )
    assert same(first, by_hand[0])
    assert same(second, by_hand[1])
    assert same(rec.dump.array("Module.head.Linear.backward.1.input.0"), torch.full((3, 2), 3.0))


def test_accumulated_gradients_are_recorded_by_pass_not_as_their_sum(net):
    with tnb.record(net) as rec:
        y = net(X)
        y.sum().backward(retain_graph=True)
        (2 * y.sum()).backward()
    name = "Module.head.Linear.backward.0.input.0"
    assert same(rec.dump.array(name), torch.ones(3, 2))
    assert same(rec.dump.array(f"{name}.pass1"), torch.full((3, 2), 2.0))
    summed = sum(rec.dump.array(f"Module.head.Linear.parameters_grad.{n}.weight") for n in (0, 1))
    np.testing.assert_allclose(summed, net.head.weight.grad.numpy(), rtol=1e-6)


# What is kept


def test_keep_is_a_function_of_the_place(net):
    asked = []

    def keep(site):
        asked.append(site)
        if site.role == "parameter":
            return "digest"
        return "tensor" if site.path == "head" else None

    rec = run(net, keep=keep)
    dump = rec.dump
    assert paths_in(dump.select(role="output")) == {"head"}
    assert paths_in(dump.select(role="parameter", direction="forward")) == {
        "blocks.0.fc", "blocks.1.fc", "head"
    }  # fmt: skip
    assert "Module.head.Linear.forward.0.output.0" in dump
    assert {site.role for site in asked} >= {"input", "output", "parameter", "gradient"}
    row = dump.position("Module.head.Linear.forward.0.parameters.weight")
    assert dump.index["crc32"].values[row] >= 0


def test_an_answer_of_keep_that_is_no_word_is_refused(net):
    with (
        pytest.raises(ValueError, match="keep is one of"),
        tnb.record(net, keep=lambda site: "all"),
    ):
        net(X)
    with pytest.raises(ValueError, match="keep is one of"):
        tnb.record(net, keep="all")
    assert not net.head._forward_hooks


@pytest.mark.parametrize("keep", ["statistics", "digest", "sample"])
def test_other_ways_to_keep_have_the_same_entries_but_own_parts_without_values(net, keep):
    dump = run(net, keep=keep).dump
    has_values = keep == "sample"
    whole = run(net).dump
    own = list(whole.select(direction="backward", role="output"))
    assert own
    wanted = [name for name in whole if has_values or name not in own]
    assert [name for name in dump if not name.endswith(".sample")] == wanted


def test_what_is_over_the_limit_has_statistics_and_is_missing(net):
    rec = run(net, limit=100)
    kept = sum(array.nbytes for array in rec._kept.arrays.values())
    assert 0 < kept <= 100
    over = [where for kind, where in missing(rec) if kind == "over_limit"]
    assert over
    row = rec.dump.position("Module.head.Linear.forward.0.output.0")
    assert np.isfinite(rec.dump.index["l2"].values[row])


@pytest.mark.parametrize("limit", ["4 GB", "1.5 KiB", 0, "17", "3 bytes"])
def test_limits_are_numbers_or_sizes(net, limit):
    tnb.record(net, limit=limit)


@pytest.mark.parametrize("limit", ["much", -1, True, "4 Gb/s", 1.5])
def test_other_limits_are_refused(net, limit):
    with pytest.raises(ValueError, match="limit is a number of bytes"):
        tnb.record(net, limit=limit)


def test_a_limit_that_is_none_is_refused_for_a_folder_too(net, tmp_path):
    with pytest.raises(ValueError, match="limit is a number of bytes"):
        tnb.record(net, to=tmp_path / "rec", limit="much")


@pytest.mark.parametrize("rank", ["a", "1", 1.5, True, [0]])
def test_a_rank_that_is_no_whole_number_is_refused(net, rank):
    with pytest.raises(ArgumentTypeError, match="rank is a whole number, got "):
        tnb.record(net, rank=rank)


@pytest.mark.parametrize("rank", [-1, 10**9])
def test_a_rank_whose_folder_no_reader_would_find_is_refused(net, tmp_path, rank):
    with pytest.raises(ArgumentError, match="rank is a number from 0 to 999999999, got "):
        tnb.record(net, to=tmp_path, rank=rank)


def test_the_largest_rank_is_found(net, tmp_path):
    with tnb.record(net, to=tmp_path, rank=999_999_999) as rec:
        rec.mark("x", torch.ones(2))
    assert tnb.open_dump(tmp_path).columns["rank"].tolist() == [999_999_999]


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ({"inputs": False}, {"output", "parameter", "gradient"}),
        ({"outputs": False}, {"input", "parameter", "gradient"}),
        ({"gradients": False}, {"input", "output", "parameter"}),
        ({"parameters": False, "gradients": False}, {"input", "output"}),
    ],
    ids=named,
)
def test_what_is_not_asked_for_is_not_kept(net, options, roles):
    dump = run(net, **options).dump
    forward = dump.select(direction="forward")
    assert set(forward.index["role"].values) == roles - {"gradient"}
    assert bool(len(dump.select(direction="backward"))) == ("gradient" in roles)


def test_gradients_are_whole_without_inputs_or_outputs(net):
    wanted = run(net).dump
    for options in ({"inputs": False}, {"outputs": False}, {"parameters": False}):
        dump = run(net, **options).dump
        for name in dump.select(direction="backward"):
            if name in wanted:
                assert same(dump.array(name), wanted.array(name))


# Pauses and marks


def test_what_runs_in_a_pause_is_not_recorded(net):
    with tnb.record(net, level="both") as rec:
        net(X).sum().backward()
        before = len(rec._kept.events)
        with rec.pause():
            assert rec.state == "paused"
            with rec.pause():
                net(X).sum().backward()
            net(X * 3).sum().backward()
            rec.mark("not me", X)
        assert rec.state == "running"
        assert len(rec._kept.events) == before
        net(X * 2)
    assert [call["path"] for call in calls(rec)].count("") == 2
    assert_same(rec.dump, {"Module.Net.forward.1.input.0": X * 2})


def test_a_pause_ends_with_an_exception(net):
    with tnb.record(net) as rec:
        with contextlib.suppress(ValueError), rec.pause():
            raise ValueError
        assert rec.state == "running"
        net(X)
    assert "Module.Net.forward.0.output.0" in rec.dump


def test_a_pause_inside_a_call_ends_with_it(net):
    class Pausing(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Tanh(), nn.Sigmoid()

        def forward(self, x):
            with rec.pause():
                x = self.a(x)
            return self.b(x)

    net = Pausing()
    with tnb.record(net) as rec:
        net(X)
    assert [call["path"] for call in calls(rec)] == ["", "b"]
    assert [call["parent"] for call in calls(rec)] == [None, 0]


@pytest.mark.parametrize("level", ["module", "api", "both"])
def test_a_mark_has_its_values_and_its_gradient(net, level):
    with tnb.record(net, level=level) as rec:
        h = X.clone().requires_grad_() * 2
        rec.mark("hidden", h)
        h = h * 3
        rec.mark("hidden", {"twice": [h], "word": "w"})
        net(h).sum().backward()
    marked = [name for name in rec.dump if "hidden" in name]
    forward = [name for name in marked if "hidden_grad" not in name]
    backward = [name for name in marked if "hidden_grad" in name]
    assert same(rec.dump.array(forward[0]), X * 2)
    assert same(rec.dump.array(forward[1]), X * 2 * 3)
    assert "twice" in forward[1]
    assert len(backward) == 2
    gradients = {name: rec.dump.array(name) for name in backward}
    one, two = (gradients[name] for name in sorted(backward))
    assert same(two * 3, one)


@pytest.mark.parametrize("name", ["", 3, None])
def test_a_mark_needs_a_name(net, name):
    with tnb.record(net) as rec, pytest.raises(TypeError, match="takes a name"):
        rec.mark(name, X)


def test_outside_of_the_block_there_is_nothing_to_do(net):
    rec = tnb.record(net)
    assert rec.state == "not started"
    for call in (rec.step, rec.flush, lambda: rec.mark("a", X), lambda: rec.dump):
        with pytest.raises(ValueError, match="not started"):
            call()
    with rec:
        assert rec.state == "running"
    assert rec.state == "stopped"
    with pytest.raises(ValueError, match="stopped"):
        rec.step()


# Levels, parents, producers, stacks, settings


def test_both_levels_have_parents_across_them(net):
    rec = run(net, level="both")
    index = rec.dump.index
    parents = dict(zip(index["name"].values, index["parent"].values, strict=True))
    assert parents["Module.Net.forward.0.input.0"] == ""
    assert parents["Module.blocks.1.Block.forward.0.output.0"] == "Module.Net.forward.0"
    assert parents["Module.blocks.1.fc.Linear.forward.0.output.0"] == (
        "Module.blocks.1.Block.forward.0"
    )
    assert parents["Functional.linear.1.forward.output.0"] == "Module.blocks.1.fc.Linear.forward.0"
    assert parents["Tensor.add.1.forward.output.0"] == "Module.blocks.1.Block.forward.0"
    assert parents["Tensor.sum.0.forward.output.0"] == ""


def test_operators_of_the_block_need_no_network():
    with tnb.record(None, level="api", framework="torch") as rec:
        y = torch.stack([X, X]).mean(0)
        y = y[1:, None].permute(1, 0, 2)
        y = torch.nn.functional.scaled_dot_product_attention(y, y, y)
    assert [call["path"] for call in calls(rec)] == [
        "Torch.stack",
        "Tensor.mean",
        "Tensor.__getitem__",
        "Tensor.permute",
        "Functional.scaled_dot_product_attention",
    ]


def test_producers_are_the_innermost_calls_that_made_a_value(net):
    rec = run(net)
    index = rec.dump.index
    made = dict(zip(index["name"].values, index["producer"].values, strict=True))
    assert made["Module.blocks.0.fc.Linear.forward.0.input.0"] == ""
    assert made["Module.blocks.0.act.Tanh.forward.0.input.0"] == (
        "Module.blocks.0.fc.Linear.forward.0.output.0"
    )
    assert made["Module.blocks.1.fc.Linear.forward.0.input.0"] == (
        "Module.blocks.0.Block.forward.0.output.0"
    )
    both = run(net, level="both").dump.index
    made = dict(zip(both["name"].values, both["producer"].values, strict=True))
    assert made["Module.head.Linear.forward.0.input.0"] == "Tensor.add.1.forward.output.0"


def test_a_value_written_in_place_is_produced_by_what_wrote_it():
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 1))
    rec = run(net)
    index = rec.dump.index
    made = dict(zip(index["name"].values, index["producer"].values, strict=True))
    assert made["Module.1.ReLU.forward.0.input.0"] == "Module.0.Linear.forward.0.output.0"
    assert made["Module.2.Linear.forward.0.input.0"] == "Module.1.ReLU.forward.0.output.0"


def test_stacks_are_the_lines_of_the_user_relative_to_where_one_is(net, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    rec = run(net, level="both")
    index = rec.dump.index
    stacks = dict(zip(index["name"].values, index["stack"].values, strict=True))
    for name in ("Module.head.Linear.forward.0.input.0", "Functional.linear.2.forward.output.0"):
        lines = stacks[name].split("\n")
        assert lines[0].startswith("File tests/capture/test_recording.py, line ")
        assert ", in forward, " in lines[0]
        assert lines[1].strip() == "return self.head(x)"
        assert ", in run, " in lines[2]
    home = os.path.expanduser("~")
    for text in set(stacks.values()):
        places = [line for line in text.split("\n") if line.startswith("File ")]
        assert not any(line.startswith("File /") or home + "/" in line for line in places)
        assert not any("torch/" in line.partition(",")[0] for line in places)


def test_stacks_elsewhere_name_no_folder(net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "away" / "user_model.py"
    source.parent.mkdir()
    source.write_text("def forward(net, x):\n    return net(x)\n", "utf-8")
    monkeypatch.syspath_prepend(str(source.parent))
    import user_model

    away = tmp_path / "cwd"
    away.mkdir()
    monkeypatch.chdir(away)
    with tnb.record(net) as rec:
        user_model.forward(net, X)
    del sys.modules["user_model"]
    stack = rec.dump.index["stack"].values[0]
    assert stack.startswith("File user_model.py, line 2, in forward, \n return net(x)")


def test_settings_are_those_of_the_layers(net):
    net = nn.Sequential(nn.Dropout(0.25), nn.LayerNorm(4, eps=1e-3), nn.Linear(4, 2, bias=False))
    settings = run(net).dump.settings
    assert settings["0"]["p"] == 0.25
    assert settings["1"]["eps"] == 1e-3
    assert settings["2"]["bias"] is False
    assert {values["training"] for values in settings.values()} == {True}


def test_settings_that_change_are_written_again():
    net = nn.Sequential(nn.Dropout(0.25))
    with tnb.record(net) as rec:
        net(X)
        net(X)
        net.eval()
        net(X)
    said = [e["values"]["training"] for e in rec._kept.events if e.get("settings") == "0"]
    assert said == [True, False]


def test_states_of_a_call_are_said(net):
    with tnb.record(net, names="head") as rec:
        net(X)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            net.eval()(X)
    first, second = calls(rec)[:2] if len(calls(rec)) == 2 else ([], [])
    assert (first["grad"], first["autocast"], first["training"]) == (True, "", True)
    assert (second["grad"], second["autocast"], second["training"]) == (False, "bfloat16", False)


def test_replayable_recordings_hold_the_state_of_the_generator():
    net = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    before = torch.get_rng_state()
    with tnb.record(net, replayable=True) as rec:
        y = net(X)
    random = [call["random"] for call in calls(rec)]
    assert random[0] == random[1] != random[2]
    state = torch.from_numpy(rec._kept.arrays[random[0]].copy())
    assert torch.equal(state, before)
    torch.set_rng_state(state)
    assert torch.equal(net(X), y)


def test_words_that_mean_nothing_are_refused(net):
    for options in ({"level": "kernel"}, {"compiled": "no"}):
        with pytest.raises(ValueError, match="is one of"):
            tnb.record(net, **options)
    with pytest.raises(TypeError, match="takes a torch module"):
        tnb.record(3)
    with pytest.raises(ValueError, match="needs the network"):
        tnb.record(None)


def test_a_dump_can_be_looked_at_while_it_is_made(net):
    with tnb.record(net) as rec:
        net(X)
        one = len(rec.dump)
        assert rec.dump is rec.dump
        net(X)
        assert len(rec.dump) > one


def test_a_recording_equals_itself_and_differs_from_another_seed(net):
    first, second = run(net).dump, run(net).dump
    assert tnb.compare(first, second).passed
    other = run(Net()).dump
    assert not same(
        first.array("Module.Net.forward.0.output.0"), other.array("Module.Net.forward.0.output.0")
    )
