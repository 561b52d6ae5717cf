import mindspore
import numpy as np

from . import functional


class Module(mindspore.nn.Cell):
    def construct(self, *inputs):
        return self.forward(*inputs)


class Linear(Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        weight = np.linspace(-1, 2, outputs * inputs, dtype=np.float32).reshape(outputs, inputs)
        self.weight = mindspore.Parameter(mindspore.Tensor(weight))
        self.bias = mindspore.Parameter(mindspore.Tensor(np.ones(outputs, np.float32)))

    def forward(self, x):
        return functional.linear(x, self.weight, self.bias)
