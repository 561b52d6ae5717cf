"""What MSAdapter is to those who look at it: the names of torch over MindSpore."""

import mindspore

from . import nn

__all__ = ["Tensor", "nn", "matmul", "tensor"]

Tensor = mindspore.Tensor
matmul = mindspore.ops.matmul


def tensor(data):
    return mindspore.Tensor(data)
