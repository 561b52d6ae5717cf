"""Writes a net in every layout people keep torch checkpoints in; needs PyTorch.

Run as a script it makes the files of ``tests/data/torch``, with which tests run without torch.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import tarfile
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 3, 3)
        self.bn1 = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, 2)
        self.register_buffer("passing", torch.ones(2), persistent=False)

    def forward(self, x):
        return self.fc(self.bn1(self.conv1(x)).mean((2, 3)))


def trained(steps=3):
    """A net and its optimizer after some steps."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(2, 2, 5, 5)).square().mean().backward()
        optimizer.step()
    return net, optimizer


def prefixed(state, prefix):
    return OrderedDict((prefix + name, value) for name, value in state.items())


def save_legacy(value, path):
    torch.save(value, path, _use_new_zipfile_serialization=False)


def save_tar(state, path):
    """The layout of torch before 0.1.11, which torch 2.13 still reads."""
    storages, tensors, object_ = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pickle.dump(len(state), storages, 2)
    pickle.dump(len(state), tensors, 2)
    keys = {}
    for number, tensor in enumerate(state.values()):
        storage_key, tensor_key = 1000 + number, 2000 + number
        storage = tensor.contiguous().untyped_storage()
        kind = type(torch.empty(0, dtype=tensor.dtype).storage())
        legacy = {torch.float32: torch.FloatStorage, torch.int64: torch.LongStorage}
        kind = legacy.get(tensor.dtype, kind)
        pickle.dump((storage_key, "cpu", kind), storages, 2)
        storages.write(struct.pack("<q", tensor.numel()))
        storages.write(bytes(storage))
        pickle.dump((tensor_key, storage_key, torch.FloatTensor), tensors, 2)
        stride = tensor.contiguous().stride()
        tensors.write(struct.pack("<ii", tensor.dim(), 0))
        numbers = (*tensor.shape, *stride, 0)
        tensors.write(struct.pack(f"<{len(numbers)}q", *numbers))
        keys[id(tensor)] = tensor_key
    pickle.dump([], storages, 2)
    pickler = pickle.Pickler(object_, 2)
    pickler.persistent_id = lambda value: str(keys[id(value)]) if id(value) in keys else None
    pickler.dump(state)
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as tar:
        parts = {"sys_info": io.BytesIO(pickle.dumps({}, 2)), "pickle": object_}
        for name, stream in {**parts, "storages": storages, "tensors": tensors}.items():
            info = tarfile.TarInfo(name)
            info.size = len(stream.getvalue())
            tar.addfile(info, io.BytesIO(stream.getvalue()))


def save_distributed(state, folder):
    dcp.save(state, checkpoint_id=str(folder), no_dist=True)


def layouts(folder):
    """File of each layout that names the weights as ``state_dict()`` does."""
    net, optimizer = trained()
    state = net.state_dict()
    training = {"model": state, "optimizer": optimizer.state_dict(), "epoch": 7}
    values = {
        "plain.pth": dict(state),
        "ordered.pth": state,
        "state_dict.pth": {"state_dict": state},
        "training.pth": {**training, "args": Namespace(lr=0.01, name="x")},
        "ema_only.pth": {"model_ema": state},
        "ema.pth": {"state_dict": state, "state_dict_ema": prefixed(state, "module.")},
        "module.pth": prefixed(state, "module."),
        "compiled.pth": {"model": prefixed(state, "_orig_mod.")},
        "whole.pth": net,
        "whole_in_dict.pth": {"model": net, "epoch": 3},
        "parallel.pth": nn.DataParallel(net),
        "nested.pth": {"model": {"language_model": {"encoder": state}}, "iteration": 5},
    }
    for name, value in values.items():
        torch.save(value, folder / name)
    torch.jit.script(net).save(str(folder / "scripted.pth"))
    save_legacy({"state_dict": state}, folder / "legacy.pth")
    save_legacy(net, folder / "legacy_whole.pth")
    save_tar(OrderedDict((name, value) for name, value in state.items()), folder / "tar.pth")
    mp = folder / "iter_0000005" / "mp_rank_00"
    mp.mkdir(parents=True)
    rng = [{"torch_rng_state": torch.get_rng_state(), "random_rng_state": (3, (1, 2), None)}]
    torch.save({**training, "iteration": 5, "rng_state": rng}, mp / "model_optim_rng.pt")
    save_distributed(training, folder / "distributed")
    return net


if __name__ == "__main__":
    target = Path(sys.argv[1])
    made = trained(1)[0].state_dict()
    save_legacy(made, target / "legacy.pth")
    save_tar(made, target / "tar.pth")
    torch.jit.script(trained(1)[0]).save(str(target / "scripted.pth"))
    save_distributed({"model": made, "epoch": 7}, target / "distributed")
