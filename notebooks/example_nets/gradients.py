"""Gradient dumps of one training step, run in both frameworks."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from types import ModuleType

from example_nets.faults import FAULTS
from troubleshooter_nb import RunCard, save_dump

BUNDLED_SETTING = ("gpt", "detached_norm", 0)
BUNDLE = Path(__file__).with_name("bundled") / "gpt_detached_norm"


def make_gradients(
    folder: str | Path, net: str = "gpt", fault: str = "detached_norm", seed: int = 0
) -> tuple[Path, Path]:
    """Run one training step in both frameworks and save the gradient of every parameter.

    Both start from the same float32 weights and see the same batch. Each framework's gradients
    are saved under its own parameter names, in its own parameter order.

    Parameters
    ----------
    folder : path
        Gets the subfolders ``mindspore_gradients`` and ``torch_gradients``, one npy file per
        parameter; an earlier dump there is replaced.
    net : {"gpt", "resnet"}
        Network to run.
    fault : str
        A key of ``FAULTS[net]``: what is wrong on the MindSpore side; ``"none"`` for nothing.
    seed : int
        Seed of the weights and of the batch, not negative.

    Returns
    -------
    mindspore_folder, torch_folder : Path
        The two dumps.

    Raises
    ------
    ValueError
        If the network or the fault is not known.
    ImportError
        If PyTorch is missing, or if MindSpore is and the setting is not the bundled one.

    Notes
    -----
    Where MindSpore cannot be imported, the default setting is served from gradients that a real
    MindSpore made and that lie beside this file; a warning names its version.
    """
    check_setting(net, fault)
    step_torch = import_step_torch()
    mindspore_folder = emptied(Path(folder) / "mindspore_gradients")
    torch_folder = emptied(Path(folder) / "torch_gradients")
    try:
        from example_nets import step_mindspore
    except ImportError as error:
        copy_bundle(net, fault, seed, mindspore_folder, error)
    else:
        model = step_mindspore.build(net, fault, seed)
        gradients = step_mindspore.run_step(model, net, seed)[1]
        card = RunCard.current("mindspore", seed=seed)
        save_dump(gradients, mindspore_folder, card=card)
    gradients = step_torch.run_step(step_torch.build(net, seed), net, seed)[1]
    save_dump(gradients, torch_folder, card=RunCard.current("torch", seed=seed))
    return mindspore_folder, torch_folder


def check_setting(net: str, fault: str) -> None:
    """Raise ValueError unless this network has this fault."""
    if net not in FAULTS:
        msg = f"net must be one of {', '.join(FAULTS)}; got {net!r}"
        raise ValueError(msg)
    if fault not in FAULTS[net]:
        msg = f"fault of {net!r} must be one of {', '.join(FAULTS[net])}; got {fault!r}"
        raise ValueError(msg)


def import_step_torch() -> ModuleType:
    """Import the PyTorch half, or raise ImportError that says what to install."""
    try:
        from example_nets import step_torch
    except ImportError as error:
        msg = (
            f"make_gradients needs PyTorch, which cannot be imported ({error}); install it with "
            "`pip install torch` (the CPU build is enough)"
        )
        raise ImportError(msg, name="torch") from error
    return step_torch


def emptied(folder: Path) -> Path:
    """Folder that exists and holds nothing of an earlier dump."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in [*folder.glob("*.npy"), *folder.glob("run_card.json")]:
        path.unlink()
    return folder


def copy_bundle(net: str, fault: str, seed: int, folder: Path, error: ImportError) -> None:
    """Copy the bundled MindSpore gradients, with a warning, or raise for another setting."""
    if (net, fault, seed) != BUNDLED_SETTING:
        msg = (
            f"MindSpore cannot be imported ({error}), and without it only the bundled gradients "
            "of net='gpt', fault='detached_norm', seed=0 are there; "
            f"got net={net!r}, fault={fault!r}, seed={seed}"
        )
        raise ImportError(msg, name="mindspore") from error
    for path in BUNDLE.iterdir():
        shutil.copyfile(path, folder / path.name)
    version = json.loads((BUNDLE / "run_card.json").read_text(encoding="utf-8"))["version"]
    warnings.warn(
        f"MindSpore cannot be imported ({error}): the MindSpore gradients were copied from "
        f"{BUNDLE.name}, made earlier by MindSpore {version} on CPU",
        stacklevel=3,
    )
