"""A small network in PyTorch, written as one writes one's own, and a port of it."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from example_nets.planted_torch import set_layers

_MISTAKES: dict[str, dict[str, Any]] = {
    "norm_eps": {"norm_eps": 1e-7},
    "gelu": {"gelu": "tanh"},
    "padding": {"padding": "same"},
}


class Net(nn.Module):
    """Images (batch, 3, 16, 16) to logits (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.fc1 = nn.Linear(16 * 8 * 8, 64)
        self.norm = nn.LayerNorm(64)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(64, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of every image."""
        x = torch.relu(self.bn(self.conv(x)))
        x = self.norm(self.fc1(x.flatten(1)))
        x = x + self.fc2(self.act(x))
        return self.head(x)


class Port(Net):
    """Stands for the port where MindSpore is missing: the same network with the same mistakes."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        set_layers(self, **_MISTAKES.get(fault, {}))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of every image."""
        x = torch.relu(self.bn(self.conv(x)))
        x = self.norm(self.fc1(x.flatten(1)))
        y = self.fc2(self.act(x))
        return self.head(x + (y.detach() if self.fault == "detached" else y))


def load(net: nn.Module, checkpoint: Path) -> None:
    """Take over all weights."""
    net.load_state_dict(torch.load(checkpoint))


def train_step(net: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Forward and backward pass on one batch; the loss."""
    logits = net(torch.from_numpy(images))
    loss = functional.cross_entropy(logits, torch.from_numpy(labels).long())
    loss.backward()
    return loss.item()
