"""A recorded call run again alone gives the recorded bits; what it would need besides is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from troubleshooter_nb.errors import ArgumentError, ArgumentTypeError, EntryNotFoundError
from troubleshooter_nb.messages import ids_of

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.torch
MSPROBE = Path(__file__).parents[1] / "data" / "msprobe" / "v26_2_0" / "torch" / "t_mlp_L0_tensor"


class Gate(nn.Module):
    def forward(self, a, *, by, scale=1.0):
        return {"y": torch.sigmoid(by) * a * scale}


class Mixed(nn.Module):
    """The network of the note on capturing, part A10."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        self.drop, self.gate, self.fc = nn.Dropout(0.3), Gate(), nn.Linear(8, 4)
        self.frozen = nn.BatchNorm1d(4).eval()

    def forward(self, x):
        h = self.drop(self.act(self.bn(self.conv(x)))).mean((2, 3))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = self.fc(self.gate(h, by=h - 1, scale=2.0)["y"])
        return self.frozen(h.float())


class Residual(nn.Module):
    """Channels last, a layer that is called twice, and batch statistics that move."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(True))
        self.again = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1, groups=2), nn.BatchNorm2d(6))
        self.drop, self.head = nn.Dropout2d(0.2), nn.Linear(6, 5)

    def forward(self, x):
        h = self.first(x.contiguous(memory_format=torch.channels_last))
        h = F.relu(h + self.again(self.again(h)))
        return self.head(self.drop(h).mean((2, 3)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(8), nn.MultiheadAttention(8, 2, 0.1, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))

    def forward(self, x, *, masks, cache=(), scale=None):
        h = self.norm(x)
        x = x + self.attn(h, h, h, attn_mask=masks["causal"], need_weights=False)[0]
        for each in cache:
            x = x + each
        return self.mlp(x).mul_(scale or 1.0), (x, {"kept": h})


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.rnn, self.head = nn.Embedding(11, 8), nn.GRU(8, 8), nn.Linear(8, 11)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, ids):
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        h, cache = self.word(ids), []
        for block in self.blocks:
            h, (_, kept) = block(h, masks={"causal": mask, "no": []}, cache=cache, scale=0.5)
            cache = [kept["kept"].transpose(0, 1).transpose(0, 1)]
        return self.head(self.rnn(h.transpose(0, 1), torch.zeros(1, ids.shape[0], 8))[0])


def images():
    return torch.randn(4, 3, 8, 8)


def words():
    return torch.randint(0, 11, (3, 5))


def recorded(kind, data, **options):
    """A trained network that went on after its record, and the record."""
    torch.manual_seed(0)
    net = kind()
    if hasattr(net, "frozen"):
        net.frozen.running_mean.uniform_()
    with tnb.record(net, **{"replayable": True, **options}) as rec:
        net(data()).float().square().sum().backward()
    with torch.no_grad():
        net(data())
        for tensor in net.parameters():
            tensor.add_(0.01)
    return net, rec.dump


def state_of(net):
    """What must stay: every attribute by identity, every value by its bits, and the generator."""
    attributes = {
        name: {key: id(value) for key, value in vars(module).items()}
        for name, module in net.named_modules()
    }
    places = {name: (id(t), t._version, t.data_ptr(), t.dtype) for name, t in tensors_of(net)}
    values = {name: t.detach().clone() for name, t in tensors_of(net)}
    gradients = {name: None if t.grad is None else t.grad.clone() for name, t in tensors_of(net)}
    return attributes, places, values, gradients, torch.get_rng_state()


def tensors_of(net):
    return [*net.named_parameters(), *net.named_buffers()]


def assert_same_state(net, before):
    after = state_of(net)
    assert after[:2] == before[:2]
    assert all(torch.equal(after[2][name], value) for name, value in before[2].items())
    for name, gradient in before[3].items():
        assert (after[3][name] is None) == (gradient is None)
        assert gradient is None or torch.equal(after[3][name], gradient)
    assert torch.equal(after[4], before[4])


def differing(cmp):
    """Paths of the layers that are not bit-equal."""
    rows = cmp.result["verdict"].values != "identical"
    paths = cmp.pairing.right.columns["path"]
    return {str(paths[entry]) for entry in cmp.columns["right_entry"][rows].tolist()}


def named(cmp, kind):
    """The layers that a note of this kind names."""
    return {name for note in cmp.notes if ids_of(note) == [kind] for name in note.values["names"]}


def told(dump, **changes):
    """The dump that does not tell something of its calls."""
    calls = {name: state._replace(**changes) for name, state in dump.calls.items()}
    return replace(dump, calls=calls, settings={})


@pytest.mark.parametrize(
    ("kind", "data", "calls"),
    [(Mixed, images, 8), (Residual, images, 13), (Transformer, words, 20)],
)
def test_every_call_gives_its_recorded_bits_and_leaves_the_network_alone(kind, data, calls):
    net, dump = recorded(kind, data)
    before = state_of(net)
    cmp = tnb.replay(net, dump)
    assert_same_state(net, before)
    assert differing(cmp) == set()
    names = cmp.select(role="output").result["right"].values
    assert len({str(name).rpartition(".output.")[0] for name in names}) == calls
    assert not [note for note in cmp.notes if ids_of(note)[0].startswith("replays.")]


def test_a_folder_replays_as_what_is_in_memory(tmp_path):
    net, _ = recorded(Transformer, words, to=tmp_path)
    assert differing(tnb.replay(net, tmp_path)) == set()


@pytest.mark.parametrize(
    ("without", "needy"),
    [
        ({"parameters": False}, {"conv", "bn", "fc", "frozen"}),
        ({"replayable": False}, {"drop"}),
    ],
)
def test_what_a_recording_leaves_out_is_named_and_needed(without, needy):
    net, dump = recorded(Mixed, images, **without)
    cmp = tnb.replay(net, dump, names=[*needy, "act", "gate"])
    assert differing(cmp) == needy
    kinds = ("parameter", "random") if "parameters" in without else ("random",)
    assert named(cmp, f"replays.lacks_{kinds[0]}_of") == needy
    buffers = {"bn", "frozen"} if "parameters" in without else set()
    assert named(cmp, "replays.lacks_buffer_of") == buffers


def test_the_mode_that_a_record_lacks_is_named_where_it_decides():
    net, dump = recorded(Mixed, images)
    net.train()
    cmp = tnb.replay(net, told(dump, training=None))
    assert differing(cmp) == {"frozen", ""}
    assert named(cmp, "replays.lacks_training_of") == {"bn", "drop", "frozen"}


def test_autocast_that_a_record_lacks_is_named_where_it_shows():
    net, dump = recorded(Mixed, images)
    cmp = tnb.replay(net, told(dump, autocast=None))
    assert differing(cmp) == {"fc"}
    assert named(cmp, "replays.lacks_autocast_of") == {"fc"}


def test_an_argument_that_a_record_lacks_is_the_reason_of_its_row():
    net, dump = recorded(Mixed, images)
    cmp = tnb.replay(net, dump.select(value=""))
    assert differing(cmp) == {"gate"}
    (row,) = np.flatnonzero(cmp.result["verdict"].values == "unreadable")
    assert "argument scale is not in the record" in str(cmp.result["reason"].values[row])
    assert named(cmp, "replays.not_replayed") == {"gate"}


def test_statistics_alone_are_no_input_and_say_so():
    net, dump = recorded(Mixed, images, keep="statistics")
    cmp = tnb.replay(net, dump)
    assert set(cmp.result["verdict"].values) == {"unreadable"}
    assert cmp.exit_code == 2
    assert "keep='tensor'" in str(cmp.result["reason"].values[0])


@pytest.mark.parametrize(
    "nesting",
    [
        *("{", "[" * 9999, "[]", '{"args":3,"keywords":{}}'),
        *('{"args":[["set",[]]],"keywords":{}}', '{"args":[["list",[null,null]]],"keywords":{}}'),
        '{"args":[],"keywords":{"x":["dict",7]}}',
    ],
)
def test_a_damaged_record_is_a_reason_and_no_error(nesting):
    net, dump = nn.ReLU(), None
    with tnb.record(net, replayable=True, gradients=False) as rec:
        net(torch.ones(2))
    dump = told(rec.dump, nesting=nesting)
    cmp = tnb.replay(net, dump)
    assert set(cmp.result["verdict"].values) == {"unreadable"}


def test_a_dump_of_msprobe_replays_where_it_holds_values():
    net = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    dump = tnb.open_dump(MSPROBE)
    cmp = tnb.replay(net, dump, mapping={"0": "fc1", "1": "act", "2": "fc2"})
    assert cmp.passed
    assert len(cmp.select(role="output")) == 3
    assert "replays.lacks_training_of" not in [id for note in cmp.notes for id in ids_of(note)]


def test_objects_among_the_arguments_are_named_by_their_class():
    class Settings:
        factor = 2.0

    class Takes(nn.Module):
        def forward(self, x, settings):
            return x * settings.factor

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Takes()

        def forward(self, x):
            return self.inner(x, Settings())

    net = Net()
    with tnb.record(net, replayable=True, gradients=False) as rec:
        net(torch.ones(2))
    cmp = tnb.replay(net, rec.dump)
    reasons = [str(reason) for reason in cmp.result["reason"].values if reason]
    assert len(reasons) == 1
    assert "argument 1 is of class Settings" in reasons[0]


class Raising(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fails = nn.BatchNorm1d(3), False

    def forward(self, x):
        self.seen = x
        y = self.norm(x) + torch.rand(3)
        if self.fails:
            raise KeyError(self)
        return y


def test_a_layer_that_raises_is_a_row_and_leaves_the_network_alone():
    net = Raising()
    with tnb.record(net, replayable=True, gradients=False) as rec:
        net(torch.randn(5, 3))
    net.fails = True
    before = state_of(net)
    cmp = tnb.replay(net, rec.dump)
    assert_same_state(net, before)
    assert differing(cmp) == {""}
    assert "KeyError" in " ".join(map(str, cmp.result["reason"].values))


def test_a_backward_pass_that_is_due_still_runs_after_a_replay():
    net, dump = recorded(Residual, images)
    net.eval()
    loss = net(torch.randn(2, 3, 8, 8)).sum()
    tnb.replay(net, dump, names=["first.*", "head"])
    loss.backward()


def test_the_network_is_judged_and_not_its_weights():
    net, dump = recorded(Residual, images)
    net.again[0].padding_mode = "circular"
    net.again[0]._reversed_padding_repeated_twice = [1, 1, 1, 1]
    assert differing(tnb.replay(net, dump, names=["again.0", "head"])) == {"again.0"}


def test_float64_says_which_side_is_nearer_to_the_truth(tmp_path):
    net, dump = recorded(Residual, images)
    net.again[1].eps = 1e-2
    before = state_of(net)
    cmp = tnb.replay(net, dump, names="again.1", dtype="float64")
    assert_same_state(net, before)
    outputs = cmp.select(role="output").result
    assert (outputs["left_float64_error"].values < 1e-6).all()
    assert (outputs["right_float64_error"].values > 1e-4).all()
    assert "left is nearer to the truth at 2, right at 0" in str(cmp.notes[0])
    assert "left is nearer" in " ".join(map(str, cmp.pairing.table["note"].values))
    for suffix in ("html", "md", "csv", "json"):
        tnb.export(cmp, tmp_path / f"replay.{suffix}")
    drawn = tnb.replay(net, dump, names="drop", dtype="float64")
    assert np.isnan(drawn.result["left_float64_error"].values).all()
    assert "random numbers" not in str(drawn.notes)


def test_causes_are_found_at_every_layer_at_once_and_exported(tmp_path):
    net, dump = recorded(Transformer, words)
    net.blocks[0].norm.eps, net.blocks[1].mlp[1].approximate = 1e-2, "tanh"
    cmp = tnb.replay(net, dump)
    assert [finding.cause for finding in cmp.findings] == ["norm_eps", "gelu_variant"]
    found = [str(cmp[finding.pair].row["left_display"].values) for finding in cmp.findings]
    assert [name.partition(" ")[0] for name in found] == ["blocks.0.norm", "blocks.1.mlp.1"]
    folder = tnb.export_reproduction(cmp, "blocks.0.norm", tmp_path / "norm")
    assert "layer_norm_torch" in (folder / "reproduce.py").read_text(encoding="utf-8")


def test_a_mapping_of_paths_replays_a_network_that_calls_its_layers_otherwise():
    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.body = inner

        def forward(self, x):
            return self.body(x)

    net, dump = recorded(Residual, images)
    found = tnb.replay(Outer(net), dump, mapping={"body": ""}, names="body.*")
    assert differing(found) == set()
    assert {name.split(".")[1] for name in found.pairing.left.names} == {"body"}
    assert differing(tnb.replay(Outer(net), dump, names="body.*")) == set()


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"dtype": "float16"}, ArgumentError, "float64"),
        ({"names": "agian"}, EntryNotFoundError, "again"),
        ({"mapping": {"first": "frist"}}, EntryNotFoundError, "frist"),
        ({"mapping": [("first", "first")]}, ArgumentTypeError, "dict"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(options, error, text):
    net, dump = recorded(Residual, images)
    with pytest.raises(error, match=text):
        tnb.replay(net, dump, **options)


def test_what_is_no_network_and_a_record_without_calls_are_refused():
    with pytest.raises(ArgumentTypeError, match="got int"):
        tnb.replay(3, {"a": np.ones(2)})
    with pytest.raises(ArgumentError, match="no calls of layers"):
        tnb.replay(nn.Linear(2, 2), {"a": np.ones(2)})


class Odd(nn.Module):
    """Of no known class, and without a setting that says how it is set."""

    def __init__(self, factor):
        super().__init__()
        self.wave = lambda x: torch.sin(x * factor)

    def forward(self, x):
        return self.wave(x) + x.roll(1, 0)


def test_a_layer_of_no_known_class_is_to_be_replayed_on_what_the_other_run_recorded():
    nets, runs = [], []
    for factor in (1.3, 1.0):
        torch.manual_seed(0)
        nets.append(nn.Sequential(nn.Linear(6, 6), Odd(factor), nn.Linear(6, 3)))
        with tnb.record(nets[-1]) as recording:
            nets[-1](torch.linspace(-1, 1, 96).reshape(16, 6))
        runs.append(recording.dump)
    text = " ".join(str(tnb.compare(*runs, left_net=nets[0]).explain()).split())
    assert "Computed again as GELU: on the left it misses by" in text
    assert "on what the other run recorded: tnb.replay(left_net, right)." in text
