"""Two short training runs of one small network that begin alike, with a fault in the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from example_nets.gradients import import_step_torch
from troubleshooter_nb import record

UPDATE_FAULTS = {
    "none": "nothing: both sides use the same optimizer with the same settings",
    "momentum": "the momentum is 0.8 instead of 0.9",
    "rate": "the learning rate is 0.025 instead of 0.05",
    "decay": "there is a weight decay of 0.01",
    "schedule": "the learning rate is 0 in the first step, a warmup that the other side lacks",
}
RATE, MOMENTUM, DECAY = 0.05, 0.9, 0.01
RECORDED = 5


def make_runs(
    folder: str | Path,
    fault: str = "momentum",
    left: str = "mindspore",
    steps: int = 12,
    seed: int = 0,
) -> tuple[Path, Path]:
    """Train the small GPT with SGD on both sides; write the losses and the first steps.

    Parameters
    ----------
    folder : path
        Gets ``<left>_run`` and ``reference``, each with ``loss.log`` and, of the first 5 steps,
        what every layer read, held and gave, in the folder ``dump``.
    fault : str
        A key of `UPDATE_FAULTS`: what is wrong on the left side.
    left : {"mindspore", "torch"}
        Framework of the left side; the right side, the reference, is PyTorch.
    steps : int
    seed : int

    Returns
    -------
    left_folder, right_folder : Path

    Raises
    ------
    ValueError
        If the fault or the framework is not known.
    ImportError
        If a framework is missing.
    """
    if fault not in UPDATE_FAULTS:
        msg = f"fault must be one of {', '.join(UPDATE_FAULTS)}; got {fault!r}"
        raise ValueError(msg)
    if left not in ("mindspore", "torch"):
        msg = f"left must be 'mindspore' or 'torch'; got {left!r}"
        raise ValueError(msg)
    folders = Path(folder) / f"{left}_run", Path(folder) / "reference"
    train = _train_mindspore if left == "mindspore" else _train_torch
    train(folders[0], fault, steps, seed)
    _train_torch(folders[1], "none", steps, seed)
    return folders


def _settings(fault: str, steps: int) -> tuple[list[float], float, float]:
    """Learning rate of every step, momentum and weight decay."""
    rates = [RATE / 2 if fault == "rate" else RATE] * steps
    if fault == "schedule":
        rates[0] = 0.0
    momentum = 0.8 if fault == "momentum" else MOMENTUM
    return rates, momentum, DECAY if fault == "decay" else 0.0


def _train_torch(folder: Path, fault: str, steps: int, seed: int) -> None:
    step_torch = import_step_torch()
    import torch

    rates, momentum, decay = _settings(fault, steps)
    model = step_torch.build("gpt", seed)
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=momentum, weight_decay=decay)

    def update(step: int, gradients: dict[str, np.ndarray]) -> None:
        optimizer.param_groups[0]["lr"] = rates[step]
        optimizer.step()

    _train(
        lambda step: step_torch.run_step(model, "gpt", seed + step), update, model, folder, steps
    )


def _train_mindspore(folder: Path, fault: str, steps: int, seed: int) -> None:
    import mindspore as ms

    from example_nets import step_mindspore

    rates, momentum, decay = _settings(fault, steps)
    model = step_mindspore.build("gpt", "none", seed)
    optimizer = ms.nn.SGD(model.trainable_params(), rates, momentum=momentum, weight_decay=decay)

    def update(step: int, gradients: dict[str, np.ndarray]) -> None:
        optimizer(tuple(ms.Tensor(gradient) for gradient in gradients.values()))

    _train(
        lambda step: step_mindspore.run_step(model, "gpt", seed + step),
        update,
        model,
        folder,
        steps,
    )


def _train(
    run_step: Callable[[int], tuple[float, dict[str, np.ndarray]]],
    update: Callable[[int, dict[str, np.ndarray]], None],
    model: Any,
    folder: Path,
    steps: int,
) -> None:
    """Take the steps; record the first ones and the loss of all."""
    lines = []
    with record(model, to=folder / "dump", steps=range(RECORDED)) as recording:
        for step in range(steps):
            loss, gradients = run_step(step)
            update(step, gradients)
            lines.append(f"step {step} loss {loss:.9g}\n")
            recording.step()
    (folder / "loss.log").write_text("".join(lines), encoding="utf-8")
