"""A script for MSAdapter, as msprobe's document has it."""

import sys

import torch  # MSAdapter, which has to be imported first
import mindspore
from msprobe.mindspore import PrecisionDebugger


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.nn.functional.relu(self.fc(x)).sum()


net = Net()
debugger = PrecisionDebugger(task="tensor", level="mix", dump_path=sys.argv[1])
grad = mindspore.value_and_grad(net, None, net.trainable_params())
for step in range(2):
    debugger.start(model=net)
    grad(torch.tensor([[1.0, -2.0, float(step)]]))
    debugger.stop()
    debugger.step()
