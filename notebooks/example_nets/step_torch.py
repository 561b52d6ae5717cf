"""One training step of an example network in PyTorch."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

from pathlib import Path

import numpy as np
import torch
from torch import nn

from example_nets.draws import draw_batch, draw_parameter, keep
from example_nets.gpt_torch import GPT
from example_nets.resnet_torch import ResNet
from example_nets.sizes import GPT_SIZES, RESNET_SIZES
from example_nets.training import LEARNING_RATE, MOMENTUM


def build(net: str, seed: int) -> nn.Module:
    """Network in training mode, with the weights of this seed."""
    model = GPT(GPT_SIZES) if net == "gpt" else ResNet(RESNET_SIZES)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = draw_parameter(name, tuple(parameter.shape), seed)
            parameter.copy_(torch.from_numpy(values))
    return model.train()


def run_step(model: nn.Module, net: str, seed: int) -> tuple[float, dict[str, np.ndarray]]:
    """Mean cross entropy on the batch of this seed, and the gradient of every parameter."""
    inputs, labels = (torch.from_numpy(array) for array in draw_batch(net, seed))
    logits = model(inputs)
    loss = nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1).long()
    )
    model.zero_grad()
    loss.backward()
    gradients = {name: p.grad.numpy().copy() for name, p in model.named_parameters()}
    return loss.item(), gradients


def train(model: nn.Module, net: str, seed: int, steps: int, before: Path, after: Path) -> None:
    """Take optimizer steps; save model and optimizer before and after them."""
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE, momentum=MOMENTUM)
    _save(model, optimizer, 0, before)
    for _ in range(steps):
        run_step(model, net, seed)
        optimizer.step()
    _save(model, optimizer, steps, after)


def _save(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, path: Path) -> None:
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
    torch.save(states, path)


def outputs(model: nn.Module, net: str, seed: int) -> dict[str, np.ndarray]:
    """Output of every module on the batch of this seed in evaluation mode, by name and call."""
    found: dict[str, np.ndarray] = {}
    hooks = [
        module.register_forward_hook(
            lambda _module, _inputs, output, name=name: keep(found, name, output.numpy())
        )
        for name, module in model.named_modules()
    ]
    with torch.no_grad():
        model.eval()(torch.from_numpy(draw_batch(net, seed)[0]))
    for hook in hooks:
        hook.remove()
    return found
