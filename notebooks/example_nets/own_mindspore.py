"""A port of `own_torch.Net` to MindSpore, written as one writes one's own."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import os
from pathlib import Path

# MindSpore reads its log level once, at import: 4 keeps its C++ log out of the notebook.
os.environ.setdefault("GLOG_v", "4")

import mindspore as ms
import numpy as np
from mindspore import nn, ops

# Before the first operation: what is recorded then is complete when it is read.
ms.runtime.launch_blocking()


class Port(nn.Cell):
    """Images (batch, 3, 16, 16) to logits (batch, 10)."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        # Three of the mistakes are what MindSpore does when nothing is said.
        pad = {} if fault == "padding" else {"pad_mode": "pad", "padding": 1}
        self.conv = nn.Conv2d(3, 16, 3, stride=2, **pad)
        self.bn = nn.BatchNorm2d(16)
        self.fc1 = nn.Dense(16 * 8 * 8, 64)
        self.norm = nn.LayerNorm([64], **({} if fault == "norm_eps" else {"epsilon": 1e-5}))
        self.act = nn.GELU(**({} if fault == "gelu" else {"approximate": False}))
        self.fc2 = nn.Dense(64, 64)
        self.head = nn.Dense(64, 10)
        self.set_train()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Logits of every image."""
        x = ops.relu(self.bn(self.conv(x)))
        x = self.norm(self.fc1(x.flatten(start_dim=1)))
        y = self.fc2(self.act(x))
        return self.head(x + (ops.stop_gradient(y) if self.fault == "detached" else y))


def load(net: nn.Cell, checkpoint: Path) -> None:
    """Take over all weights.

    Raises
    ------
    ValueError
        If the checkpoint does not fill the network.
    """
    missing, left = ms.load_param_into_net(net, ms.load_checkpoint(str(checkpoint)))
    if missing or left:
        msg = f"not loaded: {missing}; not in the network: {left}"
        raise ValueError(msg)


def train_step(net: nn.Cell, images: np.ndarray, labels: np.ndarray) -> float:
    """Forward and backward pass on one batch; the loss."""

    def loss_of(images: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        return ops.cross_entropy(net(images), labels)

    step = ms.value_and_grad(loss_of, None, net.trainable_params())
    loss, _ = step(ms.Tensor(images), ms.Tensor(labels))
    return float(loss.asnumpy())
