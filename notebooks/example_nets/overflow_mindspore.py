"""The training that overflows, in MindSpore."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

from collections.abc import Callable

import mindspore
from mindspore import Tensor, nn, ops

from example_nets.overflow import SIZE, draw_batch, draw_weight


class HalfDense(nn.Dense):
    """A linear layer that keeps float32 weights and computes in float16."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.matmul(x.astype(mindspore.float16), self.weight.astype(mindspore.float16).T)


class SquaredReLU(nn.Cell):
    """The square of a ReLU, in the dtype of its input or in float32."""

    def __init__(self, repaired: bool) -> None:
        super().__init__()
        self.repaired = repaired

    def construct(self, x: Tensor) -> Tensor:
        if self.repaired:
            x = x.astype(mindspore.float32)
        x = ops.relu(x)
        return x * x  # 65,504 is the end of float16: 256 squared is too much


class Block(nn.Cell):
    """Two layers with a squared ReLU between, scaled back."""

    def __init__(self, number: int, repaired: bool) -> None:
        super().__init__()
        self.up = HalfDense(SIZE, SIZE, has_bias=False)
        self.act = SquaredReLU(repaired)
        self.down = HalfDense(SIZE, SIZE, has_bias=False)
        for i, layer in enumerate((self.up, self.down)):
            layer.weight.set_data(Tensor(draw_weight(2 * number + i)))

    def construct(self, x: Tensor) -> Tensor:
        h = self.act(self.up(x)) / 64
        return x + self.down(h).astype(mindspore.float32)


class Net(nn.Cell):
    """Three blocks."""

    def __init__(self, repaired: bool) -> None:
        super().__init__()
        self.blocks = nn.CellList([Block(number, repaired) for number in range(3)])

    def construct(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def make_training(repaired: bool) -> tuple[nn.Cell, Callable[[int], float]]:
    """The network and its step."""
    net = Net(repaired)
    optimizer = nn.SGD(net.trainable_params(), 1e-3)

    def forward(inputs: Tensor, targets: Tensor) -> Tensor:
        return ops.smooth_l1_loss(net(inputs), targets, reduction="mean")

    step_of = mindspore.value_and_grad(forward, None, net.trainable_params())

    def train(step: int) -> float:
        loss, gradients = step_of(*map(Tensor, draw_batch(step)))
        optimizer(gradients)
        return float(loss)

    return net, train
