"""The ResNet of `resnet_torch` in MindSpore, with the faults of `FAULTS["resnet"]`."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import mindspore as ms
from mindspore import nn, ops

from example_nets.sizes import ResNetSizes


class Block(nn.Cell):
    """Two 3x3 convolutions added to their input, which is projected where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.conv1 = conv(channels_in, channels, 3, stride, fault)
        self.bn1 = batch_norm(channels, fault)
        self.conv2 = conv(channels, channels, 3, 1, fault)
        self.bn2 = batch_norm(channels, fault)
        self.relu = nn.ReLU()
        self.down = None
        if stride != 1 or channels_in != channels:
            self.down = nn.SequentialCell(
                conv(channels_in, channels, 1, stride, fault), batch_norm(channels, fault)
            )

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        """Map (batch, channels_in, h, w) to (batch, channels, h / stride, w / stride)."""
        skip = x if self.down is None else self.down(x)
        if self.fault == "detached_skip":
            skip = ops.stop_gradient(skip)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.fault == "relu_order":
            return self.relu(y) + skip
        return self.relu(y + skip)


class ResNet(nn.Cell):
    """Three stages of blocks: images (batch, 3, h, w) to logits (batch, classes)."""

    def __init__(self, sizes: ResNetSizes, fault: str) -> None:
        super().__init__()
        width = sizes.width
        self.conv1 = conv(3, width, 3, 1, fault)
        self.bn1 = batch_norm(width, everywhere(fault))
        self.relu = nn.ReLU()
        faults = [[everywhere(fault)] * sizes.blocks for _ in range(3)]
        if fault == "bn_eps":
            faults[1] = [fault] * sizes.blocks
        elif fault == "detached_skip":
            faults[1][0] = fault
        elif fault == "relu_order":
            faults[2][-1] = fault
        self.layer1 = stage(width, width, 1, faults[0])
        self.layer2 = stage(width, 2 * width, 2, faults[1])
        self.layer3 = stage(2 * width, 4 * width, 2, faults[2])
        self.fc = nn.Dense(4 * width, sizes.classes)

    def construct(self, images: ms.Tensor) -> ms.Tensor:
        """Logits of the classes."""
        x = self.relu(self.bn1(self.conv1(images)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def everywhere(fault: str) -> str:
    """Return the fault if it is planted in the whole network, else ``"none"``."""
    return fault if fault in ("pad_mode", "bn_momentum") else "none"


def stage(channels_in: int, channels: int, stride: int, faults: list[str]) -> nn.SequentialCell:
    """Blocks of one width, one per fault; the first one changes the shape."""
    first = Block(channels_in, channels, stride, faults[0])
    return nn.SequentialCell(first, *[Block(channels, channels, 1, f) for f in faults[1:]])


def conv(channels_in: int, channels: int, kernel: int, stride: int, fault: str) -> nn.Conv2d:
    """Convolution without bias that keeps the image size up to its stride."""
    if fault == "pad_mode" and stride != 1 and kernel != 1:
        return nn.Conv2d(channels_in, channels, kernel, stride, pad_mode="same", has_bias=False)
    padding = kernel // 2
    return nn.Conv2d(
        channels_in, channels, kernel, stride, pad_mode="pad", padding=padding, has_bias=False
    )


def batch_norm(channels: int, fault: str) -> nn.BatchNorm2d:
    """BatchNorm with torch's settings; MindSpore's momentum is one minus torch's."""
    return nn.BatchNorm2d(
        channels,
        eps=1e-3 if fault == "bn_eps" else 1e-5,
        momentum=0.1 if fault == "bn_momentum" else 0.9,
    )
