"""Two processes of torch record into one folder, and are one dump."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import troubleshooter_nb as tnb

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch without distributed", allow_module_level=True)

ROOT = Path(__file__).parents[2]
# A net whose forward reduces over ranks; each rank has half of the batch.
NET = """
import os, sys, torch
import torch.distributed as dist
import troubleshooter_nb as tnb

class Centred(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.first = torch.nn.Linear(3, 4)
        self.last = torch.nn.Linear(4, 1)

    def forward(self, x):
        h = self.first(x)
        mean = h.detach().mean(0)
        if dist.is_initialized():
            dist.all_reduce(mean)
            mean = mean / dist.get_world_size()
        return self.last(torch.tanh(h - mean))

def batch(rank):
    return torch.arange(12.0).reshape(4, 3)[2 * rank : 2 * rank + 2] / 10
"""
WORKER = (
    NET
    + """
torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
net = torch.nn.parallel.DistributedDataParallel(Centred())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with tnb.record(net, to=sys.argv[1]) as rec:
    for _ in range(2):
        optimizer.zero_grad()
        net(batch(rank)).square().mean().backward()
        rec.mark("reduced", net.module.first.weight.grad)
        optimizer.step()
        rec.step()
left = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules())
assert left == 0, left
assert [row.kind for row in rec.missing] == ["local_gradients"], rec.missing
dist.destroy_process_group()
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranks")
    started = []
    for rank in (0, 1):
        facts = {"RANK": str(rank), "PYTHONPATH": str(ROOT), "GLOG_v": "4"}
        line = [sys.executable, "-c", WORKER, str(place / "rec"), f"file://{place / 'meeting'}"]
        env = {**os.environ, **facts}
        started.append(subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True))
    for process in started:
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
    return place / "rec"


@pytest.fixture(scope="module")
def dump(folder):
    return tnb.open_dump(folder)


@pytest.fixture(scope="module")
def made():
    """The net of the workers, and what it is given."""
    names = {}
    exec(NET, names)
    return names["Centred"], names["batch"]


@pytest.fixture(scope="module")
def alone(made, tmp_path_factory):
    """The first step in one process, with the whole batch."""
    make, batch = made
    net = make()
    folder = tmp_path_factory.mktemp("alone") / "rec"
    with tnb.record(net, to=folder):
        net(torch.cat([batch(0), batch(1)])).square().mean().backward()
    return tnb.open_dump(folder)


def test_ranks_are_a_coordinate_of_one_dump(folder, dump):
    assert sorted(path.name for path in folder.iterdir()) == ["rank0", "rank1"]
    assert set(dump.columns["rank"].tolist()) == {0, 1}
    assert set(dump.columns["step"].tolist()) == {0, 1}
    assert dump.select(rank=0).names == dump.select(rank=1).names
    (note,) = dump.notes
    assert "gradients are those of this process" in note


def test_paths_are_those_of_the_net_inside_the_wrapper(dump):
    calls = [name for name in dump.names if name.startswith("Module.")]
    assert "Module.first.Linear.forward.0.input.0" in calls
    assert "Module.Centred.forward.0.output.0" in calls
    assert not [name for name in calls if "module." in name or "DistributedData" in name]


def test_one_rank_opens_alone(folder, dump):
    assert tnb.open_dump(folder / "rank1").names == dump.select(rank=1).names
    assert set(tnb.open_dump(folder / "rank1").columns["rank"].tolist()) == {1}


def reference(made, rank):
    """Gradients of one rank's own loss, without any reduction but that of the forward."""
    make, batch = made
    net = make()
    with torch.no_grad():
        mean = torch.stack([net.first(batch(r)).mean(0) for r in (0, 1)]).sum(0) / 2
    h = net.first(batch(rank))
    loss = net.last(torch.tanh(h - mean)).square().mean()
    weight, of_h = torch.autograd.grad(loss, [net.first.weight, h])
    return weight.numpy(), of_h.numpy()


def test_gradients_are_those_of_a_rank_before_ddp_reduces_them(dump, made):
    parts = []
    for rank in (0, 1):
        one = dump.select(step=0, rank=rank)
        weight, of_h = reference(made, rank)
        np.testing.assert_array_equal(
            one.array("Module.first.Linear.parameters_grad.0.weight"), weight
        )
        np.testing.assert_array_equal(one.array("Module.first.Linear.backward.0.input.0"), of_h)
        parts.append(weight)
    assert np.abs(parts[0] - parts[1]).max() > 1e-3
    for rank in (0, 1):
        one = dump.select(step=0, rank=rank)
        (name,) = [name for name in one.names if name.startswith("reduced")]
        np.testing.assert_allclose(one.array(name), sum(parts) / 2, rtol=1e-6)


def test_parameters_stay_the_same_on_both_ranks(dump):
    name = "Module.first.Linear.forward.0.parameters.weight"
    for step in (0, 1):
        left, right = (dump.select(step=step, rank=rank).array(name) for rank in (0, 1))
        np.testing.assert_array_equal(left, right)
    first = dump.select(step=0, rank=0).array(name)
    assert not np.array_equal(first, dump.select(step=1, rank=0).array(name))


def test_the_dump_of_two_ranks_agrees_with_itself(dump):
    compared = tnb.compare(dump, dump)
    assert compared.passed
    assert len(compared) == len(dump)


def test_two_ranks_together_are_the_run_on_one(dump, alone):
    first = dump.select(step=0)
    axes = {"*parameters_grad*": "mean", "*parameters*": "same", "reduced*": "same", "*": 0}
    merged = tnb.merge_ranks(first, axes, like=alone)
    assert set(merged.columns["rank"].tolist()) == {0}
    assert merged.settings == dump.settings
    for name in (
        "Module.Centred.forward.0.input.0",
        "Module.first.Linear.forward.0.output.0",
        "Module.Centred.forward.0.output.0",
        "Module.first.Linear.forward.0.parameters.weight",
        "Module.first.Linear.parameters_grad.0.weight",
        "Module.last.Linear.parameters_grad.0.bias",
    ):
        np.testing.assert_allclose(merged.array(name), alone.array(name), rtol=1e-5, atol=1e-6)


NUMBERED = (
    NET
    + """
net = Centred()
with tnb.record(net, to=sys.argv[1], rank=int(sys.argv[2])):
    net(batch(0)).sum().backward()
"""
)


@pytest.mark.long
def test_processes_that_users_number_are_one_dump(tmp_path):
    for rank in ("0", "1"):
        line = [sys.executable, "-c", NUMBERED, str(tmp_path / "rec"), rank]
        subprocess.run(line, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=120)
    dump = tnb.open_dump(tmp_path / "rec")
    assert set(dump.columns["rank"].tolist()) == {0, 1}
    assert dump.notes == ()


def test_of_a_run_of_one_process_the_ranks_of_an_earlier_one_are_left_out(folder, made, tmp_path):
    make, batch = made
    shutil.copytree(folder, tmp_path / "rec")
    with tnb.record(make(), to=tmp_path / "rec") as rec:
        rec.mark("x", batch(0))
    dump = tnb.open_dump(tmp_path / "rec")
    assert set(dump.columns["rank"].tolist()) == {0}
    assert "records.stale_ranks" in [note.id for note in dump.notes]
    (note,) = [note for note in dump.notes if note.id == "records.stale_ranks"]
    assert note.startswith("rank1 left out: of an earlier recording, as the one in rank0 is of 1 p")
