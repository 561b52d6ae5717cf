"""Weights of an example network, and what both frameworks make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from example_nets.gradients import check_setting, import_step_torch


def make_networks(folder: str | Path, net: str = "resnet", seed: int = 0) -> tuple[Path, Any, Any]:
    """A torch network saved as ``net.pth``, itself, and the MindSpore network for its weights.

    The MindSpore network starts from other weights, so that what is not loaded shows.

    Raises
    ------
    ValueError
        If the network is not known.
    ImportError
        If one of the frameworks is missing.
    """
    check_setting(net, "none")
    step_torch = import_step_torch()
    import torch

    from example_nets import step_mindspore

    model = step_torch.build(net, seed)
    step_torch.run_step(model, net, seed)  # running statistics that are not zeros and ones
    path = Path(folder) / "net.pth"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), path)
    return path, model, step_mindspore.build(net, "none", seed + 1)


def outputs_of_both(
    checkpoint: str | Path, model: Any, cell: Any, net: str = "resnet", seed: int = 0
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Outputs of every layer in evaluation mode, MindSpore's after loading a checkpoint.

    Raises
    ------
    ValueError
        If the checkpoint does not fill the network.
    """
    import mindspore

    from example_nets import step_mindspore, step_torch

    loaded = mindspore.load_checkpoint(str(checkpoint))
    missing, left = mindspore.load_param_into_net(cell, loaded)
    if missing or left:
        msg = f"not loaded: {missing}; not in the network: {left}"
        raise ValueError(msg)
    return step_mindspore.outputs(cell, net, seed), step_torch.outputs(model, net, seed)
