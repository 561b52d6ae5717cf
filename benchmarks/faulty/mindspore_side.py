"""The faultless side in MindSpore: the example nets with the torch side's sizes and weights."""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np

import troubleshooter_nb as tnb
from faulty.capture import Record, array_of, records_of_dump
from faulty.nets import GPT, ResBlock
from faulty.side import Side

FAMILIES = ("gpt", "resnet")
# MindSpore's names of what torch calls otherwise, by the kind of cell.
NAMES = {
    "LayerNorm": {"gamma": "weight", "beta": "bias"},
    "Embedding": {"embedding_table": "weight"},
    "BatchNorm2d": {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
    },
}


def as_in_mindspore(side: Side) -> None:
    """Leave out of the torch net what the example net does not have."""
    net: Any = side.net
    if isinstance(net, GPT):
        net.drop = None
    for block in net.modules():
        if isinstance(block, ResBlock):
            shared = block.relu
            del block.relu1
            # Not registered again: the layer is one, called twice.
            object.__setattr__(block, "relu1", shared)


def twin(net: Any) -> Any:
    """A MindSpore cell with the sizes and values of a torch net."""
    os.environ.setdefault("GLOG_v", "3")
    logging.getLogger().setLevel(logging.WARNING)
    import mindspore as ms
    from example_nets.sizes import GPTSizes, ResNetSizes

    ms.set_context(mode=ms.PYNATIVE_MODE)
    if isinstance(net, GPT):
        from example_nets.gpt_mindspore import GPT as Cell

        vocab, dim = net.tok.weight.shape
        heads, context = net.blocks[0].attn.heads, len(net.pos.weight)
        cell = Cell(GPTSizes(vocab, dim, heads, len(net.blocks), context), "none")
    else:
        from example_nets.resnet_mindspore import ResNet as Cell

        width, classes = net.conv1.out_channels, net.fc.out_features
        cell = Cell(ResNetSizes(len(net.layer1), width, classes, 16), "none")
    values = {name: array_of(tensor) for name, tensor in net.state_dict().items()}
    for path, module in cell.cells_and_names():
        names = NAMES.get(type(module).__name__, {})
        for name, parameter in module._params.items():
            value = values[f"{path}.{names.get(name, name)}"]
            parameter.set_data(ms.Tensor(value))
    return cell.set_train(False)


def records_of(side: Side, level: str, has_gradients: bool) -> list[Record]:
    """What is recorded of the step: forward values and gradients."""
    import mindspore as ms
    from mindspore import ops

    cell = twin(side.net)
    leaves = {path for path, each in cell.cells_and_names() if not [*each.cells()]}
    inputs = ms.Tensor(side.batches[0][0][0].numpy())
    target = ms.Tensor(side.batches[0][1].reshape(-1).numpy().astype(np.int32))

    def loss(inputs: Any, target: Any) -> Any:
        output = cell(inputs)
        return ops.cross_entropy(output.reshape(-1, output.shape[-1]), target)

    names = None if level == "module" else lambda site: site.path in leaves
    with tnb.record(cell, names=names, gradients=has_gradients) as recording:
        if has_gradients:
            ms.value_and_grad(loss, None, cell.trainable_params())(inputs, target)
        else:
            cell(inputs)
    return records_of_dump(recording.dump, 0)
