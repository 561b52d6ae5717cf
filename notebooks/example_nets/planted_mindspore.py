"""Settings of the example networks in MindSpore that can be wrong, as in `planted_torch`."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import mindspore as ms
from mindspore import nn, ops


def set_layers(
    model: nn.Cell,
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
    """Set what is given and leave the rest alone; see `planted_torch.set_layers`."""
    for _, cell in model.cells_and_names():
        if isinstance(cell, nn.LayerNorm) and norm_eps is not None:
            cell.layer_norm = ops.LayerNorm(-1, -1, epsilon=norm_eps)
        elif isinstance(cell, nn.BatchNorm2d) and bn_eps is not None:
            cell.bn_train = ops.BatchNorm(is_training=True, epsilon=bn_eps, momentum=0.1)
        elif isinstance(cell, nn.GELU) and gelu:
            cell.approximate = "tanh" if gelu == "tanh" else "none"
        elif isinstance(cell, nn.Conv2d) and padding and _is_strided(cell):
            cell.conv2d = _convolution(cell, padding)
    if attention_scale is not None:
        model.blocks[2].attn.scale = 1 / attention_scale
    if transposed is not None:
        cell = model.blocks[1].attn.proj
        if transposed != getattr(cell, "is_transposed", False):
            cell.weight.set_data(ms.Tensor(cell.weight.asnumpy().T.copy()))
        cell.is_transposed = transposed
    if half is not None:
        for cell in (model.blocks[3].fc, model.blocks[3].out):
            cell.to_float(ms.float16 if half else ms.float32)
    if relu_first is not None:
        model.layer3[-1].fault = "relu_order" if relu_first else "none"


def _is_strided(cell: nn.Conv2d) -> bool:
    return tuple(cell.stride)[-1] != 1 and tuple(cell.kernel_size) != (1, 1)


def _convolution(cell: nn.Conv2d, padding: str) -> ops.Primitive:
    places = {"pad_mode": "same"} if padding == "same" else {"pad_mode": "pad", "pad": 1}
    return ops.Conv2D(cell.out_channels, cell.kernel_size, stride=cell.stride, **places)
