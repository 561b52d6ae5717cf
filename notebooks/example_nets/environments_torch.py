"""What differs between the environments of `environments`, in PyTorch."""

# A framework's own half of a pair: nothing imports it unless that framework is wanted.

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from example_nets.planted_torch import set_layers


def prepare(model: nn.Module, fault: str) -> None:
    """Make of a network what an environment makes of it before it runs."""
    if fault == "gelu_tanh":
        set_layers(model, gelu="tanh")
    elif fault == "old_weights":
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.startswith("blocks.2.") and parameter.ndim > 1:
                    parameter.mul_(1.01)


@contextmanager
def engine(fault: str) -> Iterator[None]:
    """What runs the network; the reference, ``""``, is as torch comes."""
    with (
        torch.backends.mkldnn.flags(enabled=not fault),
        torch.autocast("cpu", torch.bfloat16, enabled=fault == "autocast"),
    ):
        yield
