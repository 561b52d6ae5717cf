"""The training that overflows, in PyTorch."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

from collections.abc import Callable

import torch
from torch import nn

from example_nets.overflow import SIZE, draw_batch, draw_weight


class HalfLinear(nn.Linear):
    """A linear layer that keeps float32 weights and computes in float16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x.half(), self.weight.half())


class SquaredReLU(nn.Module):
    """The square of a ReLU, in the dtype of its input or in float32."""

    def __init__(self, repaired: bool) -> None:
        super().__init__()
        self.repaired = repaired

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.repaired:
            x = x.float()
        x = torch.relu(x)
        return x * x  # 65,504 is the end of float16: 256 squared is too much


class Block(nn.Module):
    """Two layers with a squared ReLU between, scaled back."""

    def __init__(self, number: int, repaired: bool) -> None:
        super().__init__()
        self.up = HalfLinear(SIZE, SIZE, bias=False)
        self.act = SquaredReLU(repaired)
        self.down = HalfLinear(SIZE, SIZE, bias=False)
        with torch.no_grad():
            for i, layer in enumerate((self.up, self.down)):
                layer.weight.copy_(torch.from_numpy(draw_weight(2 * number + i)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.act(self.up(x)) / 64
        return x + self.down(h).float()


class Net(nn.Module):
    """Three blocks."""

    def __init__(self, repaired: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(number, repaired) for number in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def make_training(repaired: bool) -> tuple[nn.Module, Callable[[int], float]]:
    """The network and its step."""
    net = Net(repaired)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)

    def train(step: int) -> float:
        inputs, targets = map(torch.from_numpy, draw_batch(step))
        loss = nn.functional.smooth_l1_loss(net(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return net, train
