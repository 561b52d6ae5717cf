"""Settings of the example networks in PyTorch that can be wrong: to plant a fault, to repair it."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

from types import MethodType

import torch
from torch import nn
from torch.nn import functional


def set_layers(
    model: nn.Module,
    *,
    norm_eps: float | None = None,
    bn_eps: float | None = None,
    gelu: str = "",
    attention_scale: float | None = None,
    transposed: bool | None = None,
    half: bool | None = None,
    padding: str = "",
    relu_first: bool | None = None,
) -> None:
    """Set what is given and leave the rest alone.

    `norm_eps`, `bn_eps` are of every LayerNorm and BatchNorm, `gelu` is "erf" or "tanh" everywhere;
    `attention_scale` is what block 2 multiplies its scores by, `transposed` of the weight of block
    1's attn.proj, `half` of the MLP of block 3; `padding` is "same" or "1, 1" before the first row
    and column of strided 3x3 convolutions, `relu_first` of the last block.
    """
    for layer in model.modules():
        if isinstance(layer, nn.LayerNorm) and norm_eps is not None:
            layer.eps = norm_eps
        elif isinstance(layer, nn.BatchNorm2d) and bn_eps is not None:
            layer.eps = bn_eps
        elif isinstance(layer, nn.GELU) and gelu:
            layer.approximate = "tanh" if gelu == "tanh" else "none"
        elif isinstance(layer, nn.Conv2d) and padding and _is_strided(layer):
            layer.forward = MethodType(_pads_behind if padding == "same" else _pads_1, layer)
    if attention_scale is not None:
        attention = model.blocks[2].attn
        attention.scale = attention_scale
        attention.forward = MethodType(_attend, attention)
    if transposed is not None:
        layer = model.blocks[1].attn.proj
        if transposed != getattr(layer, "is_transposed", False):
            layer.weight.data = layer.weight.data.T.contiguous()
        layer.is_transposed = transposed
    if half is not None:
        for layer in (model.blocks[3].fc, model.blocks[3].out):
            layer.forward = MethodType(_linear_in_half if half else nn.Linear.forward, layer)
    if relu_first is not None:
        block = model.layer3[-1]
        block.forward = MethodType(_relu_before_sum if relu_first else type(block).forward, block)


def _is_strided(layer: nn.Conv2d) -> bool:
    return layer.stride != (1, 1) and layer.kernel_size != (1, 1)


def _pads_behind(self: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
    return functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.weight, stride=self.stride)


def _pads_1(self: nn.Conv2d, x: torch.Tensor) -> torch.Tensor:
    return functional.conv2d(x, self.weight, stride=self.stride, padding=1)


def _attend(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """As `gpt_torch.Attention.forward` with a scale of its own."""
    batch, length, dim = x.shape
    qkv = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads)
    query, key, value = qkv.permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(-1, -2) * self.scale
    mixed = torch.softmax(scores + self.mask[:length, :length], -1) @ value
    return self.proj(mixed.transpose(1, 2).reshape(batch, length, dim))


def _linear_in_half(self: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x.half(), self.weight.half(), self.bias.half())


def _relu_before_sum(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
    skip = x if self.down is None else self.down(x)
    y = self.relu(self.bn1(self.conv1(x)))
    return self.relu(self.bn2(self.conv2(y))) + skip
