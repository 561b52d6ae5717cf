"""One training step of an example network in MindSpore."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

import os
from pathlib import Path

# MindSpore reads its log level once, at import: 4 keeps its C++ log out of the notebook.
os.environ.setdefault("GLOG_v", "4")

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from example_nets.draws import draw_batch, draw_parameter, keep
from example_nets.gpt_mindspore import GPT
from example_nets.resnet_mindspore import ResNet
from example_nets.sizes import GPT_SIZES, RESNET_SIZES
from example_nets.training import LEARNING_RATE, MOMENTUM

# Errors then come from the operator that made them, and small nets run faster.
ms.runtime.launch_blocking()

TORCH_LEAVES = {"gamma": "weight", "beta": "bias", "embedding_table": "weight"}


def torch_name(name: str) -> str:
    """PyTorch's name of a MindSpore parameter: ``ln1.gamma`` becomes ``ln1.weight``."""
    owner, _, leaf = name.rpartition(".")
    return f"{owner}.{TORCH_LEAVES.get(leaf, leaf)}"


def build(net: str, fault: str, seed: int) -> nn.Cell:
    """Network in training mode, with the weights of this seed and one planted fault."""
    model = GPT(GPT_SIZES, fault) if net == "gpt" else ResNet(RESNET_SIZES, fault)
    for parameter in model.trainable_params():
        values = draw_parameter(torch_name(parameter.name), tuple(parameter.shape), seed)
        parameter.set_data(ms.Tensor(values))
    return model.set_train()


def run_step(model: nn.Cell, net: str, seed: int) -> tuple[float, dict[str, np.ndarray]]:
    """Mean cross entropy on the batch of this seed, and the gradient of every parameter."""

    def loss_of(inputs: ms.Tensor, labels: ms.Tensor) -> ms.Tensor:
        logits = model(inputs)
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    parameters = model.trainable_params()
    loss, gradients = ms.value_and_grad(loss_of, None, parameters)(
        *(ms.Tensor(array) for array in draw_batch(net, seed))
    )
    # asnumpy() may be a view of memory that MindSpore uses again, hence the copy.
    arrays = {p.name: g.asnumpy().copy() for p, g in zip(parameters, gradients, strict=True)}
    return float(loss.asnumpy()), arrays


def train(model: nn.Cell, net: str, seed: int, steps: int, after: Path) -> None:
    """Take optimizer steps; save the parameters of model and optimizer after them."""
    optimizer = nn.Momentum(model.trainable_params(), LEARNING_RATE, MOMENTUM)
    for _ in range(steps):
        gradients = run_step(model, net, seed)[1]
        optimizer(tuple(ms.Tensor(gradient) for gradient in gradients.values()))
    parameters = {p.name: p for p in [*model.get_parameters(), *optimizer.get_parameters()]}
    saved = [{"name": name, "data": parameter} for name, parameter in parameters.items()]
    ms.save_checkpoint(saved, str(after))


def outputs(model: nn.Cell, net: str, seed: int) -> dict[str, np.ndarray]:
    """Output of every cell on the batch of this seed in evaluation mode, by name and call."""
    found: dict[str, np.ndarray] = {}
    hooks = [
        cell.register_forward_hook(
            lambda _cell, _inputs, output, name=name: keep(found, name, output.asnumpy())
        )
        for name, cell in model.cells_and_names()
    ]
    model.set_train(False)(ms.Tensor(draw_batch(net, seed)[0]))
    for hook in hooks:
        hook.remove()
    return found
