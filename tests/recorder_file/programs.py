"""Programs that record with the single file, in a process that has nothing but it."""

from __future__ import annotations

# The process of the machine that has the problem: what is blocked is not installed there.
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCK:
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)

BLOCK = {"troubleshooter_nb", "pandas", "xarray", "ml_dtypes", "IPython"}
sys.meta_path.insert(0, Blocked())
"""
TORCH = """
import torch

torch.set_num_threads(1)  # sums in one order

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(6, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x, scale=1.0):
        return {"logits": self.head(torch.relu(self.norm(self.fc(x) * scale)))}

def run(record, to, level, keep):
    net, x = Net(), torch.linspace(-2, 2, 24).reshape(4, 6).requires_grad_()
    with record(net, to=to, level=level, keep=keep, replayable=True) as rec:
        net(x, scale=0.5)["logits"].pow(2).sum().backward()
        rec.step()
        with torch.autocast("cpu", torch.bfloat16):
            net(x)["logits"].sum().backward()
        rec.mark("small", [x.to(torch.float8_e5m2), x.to(torch.float8_e4m3fn)])
    return rec
"""
MINDSPORE = """
import mindspore as ms
import numpy as np
from mindspore import nn

def run(record, to, level, keep):
    ms.set_seed(0)
    net = nn.SequentialCell(nn.Dense(6, 8), nn.LayerNorm((8,)), nn.ReLU(), nn.Dense(8, 3))
    for k, parameter in enumerate(net.get_parameters()):
        values = np.cos(k + np.arange(parameter.size)).reshape(parameter.shape)
        parameter.set_data(ms.Tensor(values.astype(np.float32)))
    x = ms.Tensor(np.linspace(-2, 2, 24).reshape(4, 6).astype(np.float32))
    ms.runtime.launch_blocking()
    with record(net, to=to, level=level, keep=keep, replayable=True) as rec:
        ms.value_and_grad(lambda x: net(x).sum(), 0, net.trainable_params())(x)
        rec.step()
        rec.mark("small", x.astype(ms.bfloat16))
    return rec
"""
BY_FILE = """
import tnb_record

if __name__ == "__main__":
    for level, keep in zip(sys.argv[2:-1:2], sys.argv[3::2]):
        print(run(tnb_record.record, f"{sys.argv[1]}_{keep}", level, keep))
    assert "pandas" not in sys.modules
"""
