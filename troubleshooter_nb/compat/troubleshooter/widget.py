"""``ts.widget``: small helpers of TroubleShooter."""

from __future__ import annotations

import contextlib
import json
import sys
from os import PathLike
from typing import Any

from troubleshooter_nb import frameworks
from troubleshooter_nb.capture.determinism import seed_all
from troubleshooter_nb.compat.troubleshooter.losses import loss_compare
from troubleshooter_nb.compat.troubleshooter.passed_over import precision_tracker
from troubleshooter_nb.compat.troubleshooter.print_file import save_convert
from troubleshooter_nb.compat.troubleshooter.weights import load_ms_weight2net
from troubleshooter_nb.errors import FrameworkMissingError

__all__ = [
    "fix_random",
    "get_pt_grads",
    "load_ms_weight2net",
    "loss_compare",
    "object_dump",
    "object_load",
    "precision_tracker",
    "save_convert",
]


def get_pt_grads(model: Any) -> dict[str, Any]:
    """Gradients of a torch module's parameters, by ``{name}_{position}``.

    Parameters
    ----------
    model : torch.nn.Module

    Returns
    -------
    dict of str to tensor or None
        In the order of ``named_parameters()``; None where there is no gradient, which `save`
        skips.
    """
    return {
        f"{name}_{position}": parameter.grad
        for position, (name, parameter) in enumerate(model.named_parameters())
    }


def object_dump(obj: object, file: str | PathLike[str]) -> None:
    """Write a value as json.

    Raises
    ------
    TypeError
        If json has nothing for it; an existing file stays as it was.
    """
    # The old tool opened the file first, and so emptied it for a value that cannot be written.
    text = json.dumps(obj)
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(text)


def object_load(file: str | PathLike[str]) -> Any:
    """The value in a json file; json.JSONDecodeError (a ValueError) for anything else."""
    with open(file, encoding="utf-8") as stream:
        return json.load(stream)


def fix_random(seed: int = 16) -> None:
    """Seed every source of random numbers: Python, numpy and the installed frameworks.

    Parameters
    ----------
    seed : int, 0 to 2**32 - 1

    Notes
    -----
    torch: CPU and all devices; cuDNN deterministic, without benchmark, and switched off.
    MindSpore: `mindspore.set_seed`. A framework that is installed is imported for it.
    ``PYTHONHASHSEED`` is set for processes started from here; the hashes of this one were fixed
    when it started. The old tool set ``PYTHONSEED`` instead, which nothing reads.
    """
    for name in frameworks.NAMES:
        with contextlib.suppress(FrameworkMissingError):
            frameworks.require(name)
    seed_all(seed)
    if "torch" in frameworks.loaded():
        cudnn = sys.modules["torch"].backends.cudnn
        cudnn.deterministic, cudnn.benchmark, cudnn.enabled = True, False, False
