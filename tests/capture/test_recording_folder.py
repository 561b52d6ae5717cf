"""A recording in a folder: as the one in memory, whatever ends it, wherever it is read."""

from __future__ import annotations

import gc
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb
from tests.formats.record_lines import assert_missing_keys_are_noted, opened_notes
from troubleshooter_nb.errors import (
    ArgumentError,
    FormatError,
    UnknownFormatError,
    WriteError,
)

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]


class Block(torch.nn.Module):
    """Reads an expanded tensor, works in place, uses a keyword and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(4, eps=1e-5)
        self.fc = torch.nn.Linear(4, 3000)
        self.register_buffer("shift", torch.tensor(0.5))

    def forward(self, x, scale=1.0):
        wide = self.norm(x)[:, None].expand(2, 5, 4)
        return torch.nn.functional.relu(self.fc(wide) * scale + self.shift)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.block = Block()

    def forward(self, x):
        return self.block(x, scale=2.0).mean(0)


def train(net, rec, steps=2):
    for number in range(steps):
        net(torch.arange(8.0).reshape(2, 4) + number).sum().backward()
        rec.step()


@pytest.fixture
def net():
    return Net()


def hooks_of(net):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())


def listed(dump):
    """All that is known of each entry, without values."""
    columns = [name for name in dump.index.data_vars if "fingerprint" not in dump.index[name].dims]
    table = dump.index[columns].to_dataframe().reset_index(drop=True)
    return table.fillna("nan").to_dict("records")


def assert_equal(one, other):
    assert listed(one) == listed(other)
    assert (one.notes, one.settings) == (other.notes, other.settings)
    assert one.card.facts == other.card.facts
    if "fingerprint" in one.index:
        np.testing.assert_array_equal(one.index.fingerprint, other.index.fingerprint)
    for left, right in zip(one.sources, other.sources, strict=True):
        assert (left is None) == (right is None)
        if left is not None:
            size = int(np.prod(left.shape))
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left.read(0, size), right.read(0, size))


def by_role(site):
    return {"input": "tensor", "output": "sample", "parameter": "digest"}.get(site.role)


@pytest.mark.parametrize("level", ["module", "both"])
@pytest.mark.parametrize("keep", ["tensor", "sample", "statistics", "digest", by_role])
def test_a_folder_holds_what_memory_does(tmp_path, keep, level):
    options = {"keep": keep, "level": level, "replayable": True, "label": "same"}
    recs = []
    for to in (None, tmp_path / "rec"):  # from one line, so that stacks are equal
        net = Net()
        with tnb.record(net, to=to, **options) as rec:
            train(net, rec)
        recs.append(rec)
    first, second = recs
    first_stacks = set(first.dump.columns["stack"].tolist())
    assert len(first.dump) > 20
    assert any("test_recording_folder.py" in stack for stack in first_stacks)
    assert_equal(first.dump, second.dump)
    assert_equal(second.dump, tnb.open_dump(tmp_path / "rec", label="same"))


def test_what_is_expanded_is_written_once(net, tmp_path):
    with tnb.record(net, to=tmp_path / "rec") as rec:
        net(torch.arange(8.0).reshape(2, 4))
    name = "Module.block.fc.Linear.forward.0.input.0"
    assert rec.dump.array(name).shape == (2, 5, 4)
    lines = (tmp_path / "rec/rank0/index.jsonl").read_text().splitlines()
    stored = [e["shape"] for e in map(json.loads, lines) if "at" in e]
    assert [2, 1, 4] in stored
    assert [2, 5, 4] not in stored


def test_a_recording_is_opened_while_it_runs(net, tmp_path):
    rec = tnb.record(net, to=tmp_path / "rec").start()
    train(net, rec, 1)
    rec.flush()
    dump = tnb.open_dump(tmp_path / "rec")
    assert "Module.block.fc.Linear.parameters_grad.0.weight" in dump.names
    assert any("is still recording" in note for note in dump.notes)
    train(net, rec, 1)
    assert set(rec.dump.index.step.values.tolist()) == {0, 1}
    assert len(rec.stop()) == 2 * len(dump)


KILLED = """
import os, signal, sys, torch
import troubleshooter_nb as tnb
class Last(torch.nn.Module):
    def forward(self, x):
        global count
        count += 1
        if count == 2:
            rec.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return x * 2
count = 0
net = torch.nn.Sequential(torch.nn.Linear(3, 4), Last())
rec = tnb.record(net, to=sys.argv[1]).start()
for _ in range(2):
    net(torch.ones(2, 3)).sum().backward()
    rec.step()
"""


def run(code, *arguments, python=sys.executable):
    paths = {"PYTHONPATH": str(ROOT), "GLOG_v": "4"}
    line = [str(python), "-c", code, *map(str, arguments)]
    return subprocess.run(
        line, capture_output=True, env={**os.environ, **paths}, timeout=120, text=True, check=False
    )


def test_a_killed_step_leaves_its_whole_calls_and_says_which_were_open(tmp_path):
    done = run(KILLED, tmp_path / "rec")
    assert done.returncode == -signal.SIGKILL, done.stderr
    dump = tnb.open_dump(tmp_path / "rec")
    second = dump.select(step=1).names
    assert "Module.0.Linear.forward.0.output.0" in second
    assert "Module.1.Last.forward.0.input.0" in second
    assert "Module.1.Last.forward.0.output.0" not in second
    assert "Module.1.Last.forward.0.output.0" in dump.select(step=0).names
    assert any("was killed" in note for note in dump.notes)
    (note,) = [note for note in dump.notes if "had not ended" in note]
    assert note.startswith("(whole net), 1: had not ended")


def test_a_program_that_ends_inside_a_recording_says_so(tmp_path):
    code = KILLED.replace("os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(3)")
    done = run(code, tmp_path / "rec")
    assert (done.returncode, done.stderr) == (3, "")
    dump = tnb.open_dump(tmp_path / "rec")
    assert any("ended before its time" in note for note in dump.notes)
    assert "Module.0.Linear.forward.0.output.0" in dump.select(step=1).names


def test_an_exception_in_the_loop_leaves_what_was_before(net, tmp_path):
    def run():
        with tnb.record(net, to=tmp_path / "rec"):
            net(torch.ones(2, 4)).sum().backward()
            net(torch.ones(2, 7))

    with pytest.raises(RuntimeError, match="normalized_shape"):
        run()
    dump = tnb.open_dump(tmp_path / "rec")
    assert hooks_of(net) == 0
    assert "Module.block.Block.backward.0.input.0" in dump.names
    assert "Module.block.norm.LayerNorm.forward.1.input.0" in dump.names
    assert "Module.block.norm.LayerNorm.forward.1.output.0" not in dump.names
    assert any("block.norm" in note and "ended by an exception" in note for note in dump.notes)
    assert any("was interrupted" in note for note in dump.notes)


@pytest.fixture
def full_disk(monkeypatch):
    """Files may not grow beyond 100 kB, as on a full disk."""
    earlier = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, earlier[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, earlier)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("level", ["module", "both"])
def test_a_full_disk_is_an_error_of_the_step_and_leaves_nothing_hooked(
    net, tmp_path, level, full_disk
):
    rec = tnb.record(net, to=tmp_path / "rec", level=level)
    with pytest.raises(WriteError, match="what was recorded before is readable"), rec:
        train(net, rec, 100)
    assert (hooks_of(net), torch._C._len_torch_function_stack()) == (0, 0)
    assert rec.state == "broken"
    net(torch.ones(2, 4)).sum().backward()
    assert "Module.block.norm.LayerNorm.forward.0.output.0" in rec.dump.names


def test_without_a_block_a_full_disk_ends_the_recording_too(net, tmp_path, full_disk):
    rec = tnb.record(net, to=tmp_path / "rec").start()
    with pytest.raises(WriteError, match="File too large"):
        train(net, rec, 100)
    assert (hooks_of(net), rec.state) == (0, "broken")
    train_again = net(torch.ones(2, 4))
    assert train_again.shape == (5, 3000)
    assert rec.missing.of_kind("interrupted") == ("",)
    with pytest.raises(ArgumentError, match="the recording is broken"):
        rec.step()


@pytest.fixture
def recorded(net, tmp_path):
    with tnb.record(net, to=tmp_path / "rec") as rec:
        train(net, rec)
    return tmp_path / "rec"


def lines_of(folder):
    index = folder / "rank0/index.jsonl"
    return index, index.read_text().splitlines()


def test_events_of_a_later_version_are_passed_over(recorded):
    before = tnb.open_dump(recorded)
    index, lines = lines_of(recorded)
    header = json.loads(lines[0])
    header["header"]["clock"] = {"unit": "ns"}
    later = [{"weather": "fine"}, {"missing": {"kind": "eclipse", "where": ["fc"], "count": 2}}]
    rest = [json.dumps({**json.loads(line), "later": [1]}) for line in lines[1:]]
    dumped = [json.dumps(header, separators=(",", ":")), *map(json.dumps, later), *rest]
    index.write_text("\n".join(dumped) + "\n")
    after = tnb.open_dump(recorded)
    assert listed(after) == listed(before)
    assert [n for n in after.notes if n not in before.notes] == [
        "fc: was not recorded: eclipse; a newer version of this package may say more"
    ]


def test_another_format_is_refused_in_words(recorded):
    index, lines = lines_of(recorded)
    index.write_text("\n".join([lines[0].replace("tnb-record/1", "tnb-record/2"), *lines[1:]]))
    with pytest.raises(
        (FormatError, UnknownFormatError), match="tnb-record/2, this version reads tnb-record/1"
    ):
        tnb.open_dump(recorded)


CORE = """
import sys, json
import troubleshooter_nb as tnb
dump = tnb.open_dump(sys.argv[1])
assert "torch" not in sys.modules
name = "Module.block.fc.Linear.forward.0.output.0"
print(json.dumps([len(dump), float(dump.select(step=1).array(name).sum()), len(dump.settings)]))
"""


def test_a_moved_recording_opens_without_frameworks_and_with_another_numpy(recorded, tmp_path):
    there = tmp_path / "elsewhere" / "moved"
    there.parent.mkdir()
    before = tnb.open_dump(recorded)
    name = "Module.block.fc.Linear.forward.0.output.0"
    total = float(before.select(step=1).array(name).sum())
    facts = [len(before), total, len(before.settings)]
    shutil.move(recorded, there)
    assert len(tnb.open_dump(there)) == facts[0]
    core = ROOT / ".venv-core/bin/python"
    if not core.exists():
        pytest.skip("no environment without frameworks")
    done = run(CORE, there, python=core)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == pytest.approx(facts, rel=1e-6)  # numpy may sum otherwise


def test_recording_again_replaces(net, recorded):
    before = len(tnb.open_dump(recorded))
    with tnb.record(net, to=recorded) as rec:
        train(net, rec, 1)
    assert 2 * len(rec.dump) == before
    assert set(tnb.open_dump(recorded).index.step.values.tolist()) == {0}


def test_a_folder_with_other_files_is_refused_before_anything_is_hooked(net, tmp_path):
    (tmp_path / "rec/rank0").mkdir(parents=True)
    (tmp_path / "rec/rank0/thesis.tex").write_text("mine")
    rec = tnb.record(net, to=tmp_path / "rec")
    with pytest.raises(ArgumentError, match=r"holds other files \(thesis.tex\)"):
        rec.start()
    assert (hooks_of(net), rec.state) == (0, "not started")
    assert (tmp_path / "rec/rank0/thesis.tex").read_text() == "mine"


# As other formats, and in comparisons


def quietly(make):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = make()
    return made, [str(one.message) for one in said]


def test_several_steps_are_exported_as_arrays(recorded, tmp_path):
    dump = tnb.open_dump(recorded)
    path, said = quietly(lambda: tnb.save_dump(dump, tmp_path / "npy"))
    again = tnb.open_dump(path)
    assert set(again.index.step.values.tolist()) == {0, 1}
    name = "Module.block.fc.Linear.forward.0.output.0"
    for step in (0, 1):
        found = again.select(step=step)
        (entry,) = [n for n in found.names if n.startswith(name)]
        np.testing.assert_array_equal(found.array(entry), dump.select(step=step).array(name))
    assert len(said) <= 1


def test_one_step_is_exported_as_safetensors(recorded, tmp_path):
    dump = tnb.open_dump(recorded).select(step=1)
    path, _ = quietly(lambda: tnb.save_dump(dump, tmp_path / "step.safetensors"))
    again = tnb.open_dump(path)
    name = "Module.block.fc.Linear.forward.0.output.0"
    np.testing.assert_array_equal(again.array(name), dump.array(name))


def test_a_recording_is_exported_as_msprobe_writes_and_read_back(recorded, tmp_path):
    dump = tnb.open_dump(recorded)
    path, said = quietly(lambda: tnb.save_dump(dump, tmp_path / "ms", format="msprobe_dir"))
    again = tnb.open_dump(path)
    kept = {n for n in dump.names if ".total." not in n}
    assert set(again.names) == kept
    name = "Module.block.fc.Linear.backward.0.input.0"
    for step in (0, 1):
        one, other = (d.select(step=step) for d in (dump, again))
        np.testing.assert_array_equal(one.array(name), other.array(name))
        call = name.replace("backward", "forward")
        stacks = [d.columns["stack"][d.position(call)] for d in (one, other)]
        assert stacks[0] == stacks[1] != ""
    assert said == []


def test_entries_of_calls_say_their_layer_parent_stack_and_producer(recorded):
    dump = tnb.open_dump(recorded).select(step=0)

    def said(column, name):
        return dump.columns[column][dump.position(name)]

    name = "Module.block.fc.Linear.forward.0.output.0"
    assert (said("layer", name), said("parent", name)) == ("Linear", "Module.block.Block.forward.0")
    assert "in forward" in said("stack", name)
    assert "test_recording_folder.py" in said("stack", name)
    outer = "Module.block.Block.forward.0.input.0"
    assert said("parent", outer) == "Module.Net.forward.0"
    assert dump.settings["block.norm"]["eps"] == 1e-5


def test_what_a_call_reads_is_known_by_who_made_it(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    with tnb.record(net, to=tmp_path / "rec"):
        net(torch.ones(2, 3))
    dump = tnb.open_dump(tmp_path / "rec")
    made = dump.columns["producer"][dump.position("Module.1.ReLU.forward.0.input.0")]
    assert made == "Module.0.Linear.forward.0.output.0"


def test_the_comparison_names_settings_that_differ(net, recorded, tmp_path):
    net = Net()
    net.block.norm.eps = 1e-3
    with tnb.record(net, to=tmp_path / "other") as rec:
        train(net, rec)
    compared = tnb.compare(rec.dump, tnb.open_dump(recorded))
    told = repr(compared.explain())
    assert "eps" in told
    assert "block.norm" in told


# Long runs


def counted():
    """Objects of ours that are alive, and arrays."""
    gc.collect()
    kinds = ("_Call", "_Watched", "_Known", "Stacks", "ndarray", "Tensor", "dict", "list", "tuple")
    found = {}
    for one in gc.get_objects():
        name = type(one).__name__
        if name in kinds:
            found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.long
@pytest.mark.parametrize("keep", ["tensor", pytest.param("statistics", marks=pytest.mark.long)])
def test_memory_does_not_grow_with_the_steps_of_a_folder(tmp_path, keep):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    rec = tnb.record(net, to=tmp_path / "rec", keep=keep, level="both").start()

    def go_on(steps):
        for _ in range(steps):
            net(torch.ones(2, 3)).sum().backward()
            net.zero_grad()
            rec.step()
        rec.flush()
        return counted()

    go_on(5)
    before, after = go_on(5), go_on(100)
    rec.stop()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert max(grown.values()) < 60, grown  # of 100 steps none leaves anything


def test_many_steps_in_memory_stay_below_the_limit():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    with tnb.record(net, limit="20 kB") as rec:
        for _ in range(300):
            net(torch.ones(2, 3)).sum().backward()
            net.zero_grad()
            rec.step()
    kept = sum(s.size_bytes for s in {id(s): s for s in rec.dump.sources if s}.values())
    assert 10_000 < rec._recorder.values.size_bytes <= 20_000
    assert kept > 10_000
    assert rec.steps == [*range(300)]
    (row,) = [row for row in rec.missing if row.kind == "over_limit"]
    assert row.count > 1000
    last = rec.dump.select(step=299)
    assert last.sources[0] is None
    assert last.index["max"].values[0] == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("keep", ["tensor", "sample", "statistics", "digest"])
def test_a_line_without_one_of_its_keys_is_noted(tmp_path, keep):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with tnb.record(net, to=tmp_path, keep=keep, level="both", replayable=True) as rec:
        out = net(torch.arange(6.0).reshape(2, 3))
        rec.mark("out", out)
        out.sum().backward()
        rec.step()
    folder = tmp_path / "rank0"
    assert opened_notes(folder) == []
    assert_missing_keys_are_noted(folder)


def test_a_recording_whose_folder_another_one_took_says_so(tmp_path):
    net = torch.nn.Linear(2, 2)
    with tnb.record(net, to=tmp_path / "rec") as first:
        net(torch.ones(1, 2)).sum().backward()
    assert len(first.dump)
    with tnb.record(net, to=tmp_path / "rec") as second:
        net(torch.zeros(1, 2)).sum().backward()
    with pytest.raises(tnb.ReadError, match="rec holds another recording by now"):
        _ = first.dump
    assert len(second.dump)
