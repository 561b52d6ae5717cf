"""Checkpoints of one training run, made in both frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from example_nets.gradients import check_setting, import_step_torch


class Checkpoints(NamedTuple):
    """Files of one run in both frameworks: after training, and torch's from before it."""

    mindspore: Path
    torch: Path
    torch_before: Path


def make_checkpoints(
    folder: str | Path,
    net: str = "resnet",
    fault: str = "bn_momentum",
    seed: int = 0,
    steps: int = 2,
) -> Checkpoints:
    """Train a network for some steps in both frameworks and save what each framework saves.

    Both start from the same float32 weights, see the same batch and use SGD with momentum. The
    MindSpore checkpoint holds parameters and the optimizer's, the torch files hold ``model``,
    ``optimizer`` and ``epoch``.

    Parameters
    ----------
    folder : path
        Gets ``after.ckpt``, ``after.pth`` and ``before.pth``; created where missing.
    net : {"gpt", "resnet"}
        Network to train.
    fault : str
        A key of ``FAULTS[net]``: what is wrong on the MindSpore side; ``"none"`` for nothing.
    seed : int
        Seed of the weights and of the batch, not negative.
    steps : int
        Optimizer steps.

    Raises
    ------
    ValueError
        If the network or the fault is not known.
    ImportError
        If one of the frameworks is missing.
    """
    check_setting(net, fault)
    step_torch = import_step_torch()
    try:
        from example_nets import step_mindspore
    except ImportError as error:
        msg = (
            f"the example trains in both frameworks, and MindSpore cannot be imported ({error}); "
            "fill in two checkpoints of your own"
        )
        raise ImportError(msg, name="mindspore") from error
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = Checkpoints(folder / "after.ckpt", folder / "after.pth", folder / "before.pth")
    step_mindspore.train(step_mindspore.build(net, fault, seed), net, seed, steps, made.mindspore)
    step_torch.train(step_torch.build(net, seed), net, seed, steps, made.torch_before, made.torch)
    return made
