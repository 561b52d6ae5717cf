"""A small CIFAR-style ResNet in PyTorch."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import torch
from torch import nn

from example_nets.sizes import ResNetSizes


class Block(nn.Module):
    """Two 3x3 convolutions added to their input, which is projected where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU()
        self.down = None
        if stride != 1 or channels_in != channels:
            self.down = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        skip = x if self.down is None else self.down(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + skip)


class ResNet(nn.Module):
    """Three stages of blocks: images (batch, 3, h, w) to logits (batch, classes)."""

    def __init__(self, sizes: ResNetSizes) -> None:
        super().__init__()
        width = sizes.width
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.layer1 = stage(width, width, sizes.blocks, 1)
        self.layer2 = stage(width, 2 * width, sizes.blocks, 2)
        self.layer3 = stage(2 * width, 4 * width, sizes.blocks, 2)
        self.fc = nn.Linear(4 * width, sizes.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of the classes."""
        x = self.relu(self.bn1(self.conv1(images)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def stage(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
    """Blocks of one width; the first one changes the shape."""
    first = Block(channels_in, channels, stride)
    return nn.Sequential(first, *[Block(channels, channels, 1) for _ in range(blocks - 1)])
