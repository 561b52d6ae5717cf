"""Two short training runs of one small network, one per framework, with a planted fault."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np

from example_nets.gradients import import_step_torch
from troubleshooter_nb import Dump, RunCard, open_dump, save_dump
from troubleshooter_nb.analysis.causes.training.history import History, Track

UPDATE_FAULTS = {
    "none": "both sides use the same optimizer with the same settings",
    "momentum": "MindSpore's momentum is 0.8 instead of 0.9",
    "rate": "MindSpore's learning rate is half as large",
    "decay": "MindSpore has a weight decay of 0.01",
    "schedule": "MindSpore's first learning rate is 0",
}
RATE, MOMENTUM, DECAY = 0.05, 0.9, 0.01


def make_runs(
    folder: str | Path, fault: str = "momentum", steps: int = 12, seed: int = 0
) -> tuple[Path, Path]:
    """Train the small GPT with SGD in both frameworks; write logs, weights and gradients.

    Parameters
    ----------
    folder : path
        Gets ``mindspore`` and ``torch``, each with ``loss.log`` and, for the first steps, folders
        ``values_<step>`` and ``gradients_<step>`` of npy files, named as torch does.
    fault : str
        A key of `UPDATE_FAULTS`.
    steps : int
    seed : int

    Returns
    -------
    mindspore_folder, torch_folder : Path
    """
    if fault not in UPDATE_FAULTS:
        msg = f"fault must be one of {', '.join(UPDATE_FAULTS)}; got {fault!r}"
        raise ValueError(msg)
    from example_nets import step_mindspore

    folders = Path(folder) / "mindspore", Path(folder) / "torch"
    _train_mindspore(step_mindspore, folders[0], fault, steps, seed)
    _train_torch(import_step_torch(), folders[1], steps, seed)
    return folders


def _train_torch(half: ModuleType, folder: Path, steps: int, seed: int) -> None:
    import torch

    model = half.build("gpt", seed)
    optimizer = torch.optim.SGD(model.parameters(), RATE, momentum=MOMENTUM)
    losses = []
    for step in range(steps):
        values = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
        loss, gradients = half.run_step(model, "gpt", seed + step)
        _keep(folder, "torch", step, values, gradients)
        optimizer.step()
        losses.append(loss)
    _write(folder, losses)


def _train_mindspore(half: ModuleType, folder: Path, fault: str, steps: int, seed: int) -> None:
    import mindspore as ms

    model = half.build("gpt", "none", seed)
    rate = RATE / 2 if fault == "rate" else RATE
    rates = [0.0 if fault == "schedule" and step == 0 else rate for step in range(steps + 1)]
    optimizer = ms.nn.SGD(
        model.trainable_params(),
        rates,
        momentum=0.8 if fault == "momentum" else MOMENTUM,
        weight_decay=DECAY if fault == "decay" else 0.0,
    )
    losses = []
    for step in range(steps):
        values = {half.torch_name(p.name): p.asnumpy().copy() for p in model.trainable_params()}
        loss, gradients = half.run_step(model, "gpt", seed + step)
        named = {half.torch_name(name): one for name, one in gradients.items()}
        _keep(folder, "mindspore", step, values, named)
        optimizer(tuple(ms.Tensor(one) for one in gradients.values()))
        losses.append(loss)
    _write(folder, losses)


def _keep(
    folder: Path,
    framework: str,
    step: int,
    values: dict[str, np.ndarray],
    gradients: dict[str, np.ndarray],
) -> None:
    if step < 5:
        card = RunCard.current(framework)
        save_dump(values, folder / f"values_{step}", card=card)
        save_dump(gradients, folder / f"gradients_{step}", card=card)


def _write(folder: Path, losses: list[float]) -> None:
    lines = [f"step {step} loss {loss:.9g}" for step, loss in enumerate(losses)]
    (folder / "loss.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def history_of(left: str | Path, right: str | Path) -> History:
    """Values and gradients of successive steps that `make_runs` wrote, paired by name."""
    values, gradients = (
        [_stored(folder, kind) for folder in (left, right)] for kind in ("values", "gradients")
    )
    first = values[1][0]
    tracks = []
    for path in (str(path) for path in first.index["path"].values):
        of_values, of_gradients = (
            tuple(tuple(dump.sources[dump.position(path)] for dump in side) for side in sides)
            for sides in (values, gradients)
        )
        tracks.append(Track(path, values=of_values, gradients=of_gradients))
    return History(tuple(tracks))


def _stored(folder: str | Path, kind: str) -> list[Dump]:
    """Dumps of one kind, by step."""
    paths = sorted(Path(folder).glob(f"{kind}_*"), key=lambda path: int(path.name.split("_")[1]))
    return [open_dump(path) for path in paths]
