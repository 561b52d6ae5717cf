"""What torch has under other names, or not at all, before the versions that are told here."""

from __future__ import annotations

import functools
from typing import Any

import torch

_has_devices = hasattr(torch, "get_autocast_dtype")  # 2.4: autocast is asked for any device
can_force_eager = hasattr(torch.compiler, "set_stance")  # 2.6
can_ask_compiling = hasattr(torch.compiler, "is_compiling")  # 2.3


def is_compiling() -> bool:
    """Whether what runs now is read by the compiler; False where torch does not tell."""
    return can_ask_compiling and torch.compiler.is_compiling()


@functools.cache
def devices() -> tuple[str, ...]:
    """The kinds of devices that autocast may be on for."""
    if not hasattr(torch, "accelerator"):  # 2.6
        return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    accelerator = torch.accelerator.current_accelerator()
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)


def has_autocast(device: str) -> bool:
    """Whether autocast is on for a kind of device."""
    if _has_devices:
        return torch.is_autocast_enabled(device)
    on_host, elsewhere = torch.is_autocast_cpu_enabled, torch.is_autocast_enabled
    return bool((on_host if device == "cpu" else elsewhere)())


def set_autocast(device: str, on: bool) -> None:
    """Switch autocast for a kind of device."""
    old: Any = torch
    if _has_devices:
        torch.set_autocast_enabled(device, on)
    elif device == "cpu":
        old.set_autocast_cpu_enabled(on)
    else:
        old.set_autocast_enabled(on)


def autocast_dtype(device: str) -> torch.dtype:
    """What autocast casts to on a kind of device."""
    old: Any = torch
    if _has_devices:
        return torch.get_autocast_dtype(device)
    found = old.get_autocast_cpu_dtype() if device == "cpu" else old.get_autocast_gpu_dtype()
    return torch.float32 if found is None else found


def may_use_fast_paths() -> bool:
    """Whether the fast paths of transformers are allowed, which one can say since 2.2."""
    mha = getattr(torch.backends, "mha", None)
    return mha is None or bool(mha.get_fastpath_enabled())
