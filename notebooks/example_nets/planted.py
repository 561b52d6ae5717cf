"""Recorded steps of two networks that should agree, with one fault planted on the left side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from example_nets.gradients import import_step_torch
from troubleshooter_nb import record

# fault -> network, the setting that is wrong and its wrong value, what that means.
PLANTED: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "none": ("gpt", {}, "nothing: a faithful port"),
    "ln_eps": ("gpt", {"norm_eps": 1e-7}, "every LayerNorm has an epsilon of 1e-7, not 1e-5"),
    "gelu_tanh": ("gpt", {"gelu": "tanh"}, "every GELU is the tanh form, not the erf form"),
    "attention_scale": (
        "gpt",
        {"attention_scale": 32**-0.5},
        "block 2 divides its scores by sqrt(dim), not by sqrt(head dim)",
    ),
    "linear_transposed": (
        "gpt",
        {"transposed": True},
        "block 1's attn.proj got its square weight transposed",
    ),
    "half_block": ("gpt", {"half": True}, "the MLP of block 3 runs in float16"),
    "bn_eps": ("resnet", {"bn_eps": 1e-3}, "every BatchNorm has an epsilon of 1e-3, not 1e-5"),
    "pad_mode": (
        "resnet",
        {"padding": "same"},
        "strided 3x3 convolutions pad right and bottom only, not every side by 1",
    ),
    "relu_order": (
        "resnet",
        {"relu_first": True},
        "the last block applies ReLU before it adds its input, not after",
    ),
}
# cause of a finding -> the setting that undoes it.
_SETTING_OF = {
    "norm_eps": "norm_eps",
    "bn_eps": "bn_eps",
    "gelu_variant": "gelu",
    "same_padding_side": "padding",
    "conv_padding": "padding",
    "attention_scale": "attention_scale",
    "linear_transposed": "transposed",
    "low_precision_cast": "half",
}


def make_recordings(
    folder: str | Path, fault: str = "ln_eps", left: str = "mindspore", seed: int = 0
) -> tuple[Path, Path]:
    """Run one training step on both sides and record what every layer reads, holds and gives.

    Parameters
    ----------
    folder : path
        Gets ``<left>_run`` and ``reference``; earlier dumps there are replaced.
    fault : str
        A key of `PLANTED`: what is wrong on the left side.
    left : {"mindspore", "torch"}
        Framework of the left side; the right side, the reference, is PyTorch.
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
    left_folder = make_left(Path(folder) / f"{left}_run", fault, left, {}, seed)
    step_torch = import_step_torch()
    net = PLANTED[fault][0]
    right = step_torch.build(net, seed)
    return left_folder, _recorded(step_torch, right, net, seed, Path(folder) / "reference")


def make_left(
    folder: str | Path, fault: str, left: str, repair: Mapping[str, Any], seed: int = 0
) -> Path:
    """Record the left side of `make_recordings`, with settings put right after the fault.

    Parameters
    ----------
    folder : path
        Gets the dump itself.
    fault, left : str
        As in `make_recordings`.
    repair : mapping
        Settings by name, see `repair_of`.
    seed : int
    """
    if fault not in PLANTED:
        msg = f"fault must be one of {', '.join(PLANTED)}; got {fault!r}"
        raise ValueError(msg)
    net, wrong, _ = PLANTED[fault]
    half, settings = _half_of(left)
    model = half.build(net, "none", seed) if left == "mindspore" else half.build(net, seed)
    settings.set_layers(model, **wrong)
    settings.set_layers(model, **repair)
    return _recorded(half, model, net, seed, Path(folder))


def repair_of(finding: Any) -> dict[str, Any]:
    """The setting that the left side must get, as fitted to the right side; {} if not known.

    Parameters
    ----------
    finding : troubleshooter_nb.Finding
    """
    setting = _SETTING_OF.get(finding.cause)
    if setting is None:
        return {}
    if setting in ("transposed", "half"):
        return {setting: False}
    if setting == "padding":
        return {setting: finding.evidence["right_settings"]["padding_before"]}
    return {setting: finding.evidence["right"]}


def _half_of(framework: str) -> tuple[ModuleType, ModuleType]:
    """The step of a framework, and how its layers are set."""
    if framework == "torch":
        from example_nets import planted_torch

        return import_step_torch(), planted_torch
    if framework == "mindspore":
        from example_nets import planted_mindspore, step_mindspore

        return step_mindspore, planted_mindspore
    msg = f"left must be 'mindspore' or 'torch'; got {framework!r}"
    raise ValueError(msg)


def _recorded(half: ModuleType, model: Any, net: str, seed: int, folder: Path) -> Path:
    with record(model, to=folder):
        half.run_step(model, net, seed)
    return folder
