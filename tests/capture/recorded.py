"""What tests of a recorder ask of a recording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.optim import optimizer

import troubleshooter_nb as tnb


def missing(rec: tnb.Recording) -> set[tuple[str, str]]:
    """What could not be recorded: kind and place."""
    return {(row.kind, name) for row in rec.missing for name in row.where}


def calls(rec: tnb.Recording) -> list[dict[str, Any]]:
    """The calls of a recording in memory that are no recomputation."""
    events = rec._kept.events
    return [e for e in events if "call" in e and "path" in e and not e.get("recompute")]


def stored(rec: tnb.Recording) -> list[np.ndarray]:
    """All arrays in memory."""
    return list(rec._kept.arrays.values())


def same(actual: Any, wanted: Any) -> bool:
    """Whether two arrays or tensors agree in dtype, shape and every bit."""
    left, right = bits(actual), bits(wanted)
    return left[:2] == right[:2] and left[2] == right[2]


def bits(value: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Dtype, shape and the bits of an array or tensor."""
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        name, shape = str(value.dtype).removeprefix("torch."), tuple(value.shape)
        return name, shape, value.view(-1).view(torch.uint8).numpy().tobytes()
    array = np.ascontiguousarray(value)
    return str(array.dtype), tuple(np.shape(value)), array.tobytes()


def assert_same(dump: tnb.Dump, wanted: dict[str, Any]) -> None:
    """Fail unless each entry named holds exactly these values."""
    wrong = [name for name, value in wanted.items() if not same(dump.array(name), value)]
    assert wrong == []


def registered(net: torch.nn.Module, *tensors: torch.Tensor) -> Iterator[tuple[str, int]]:
    """Where anything is registered, and how much of it."""
    for name, module in net.named_modules():
        for kind, hooks in vars(module).items():
            if kind.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")) and hooks:
                yield f"{name}.{kind}", len(hooks)
        if "forward" in vars(module):
            yield f"{name}.forward", 1
    for name, tensor in [*net.named_parameters(), *zip("abcdef", tensors, strict=False)]:
        if tensor._backward_hooks:
            yield f"{name} backward hooks", len(tensor._backward_hooks)
        if getattr(tensor, "_post_accumulate_grad_hooks", None):
            yield f"{name} accumulate hooks", 1
    yield "function modes", torch._C._len_torch_function_stack()
    yield "optimizer hooks", len(optimizer._global_optimizer_pre_hooks)
    yield "optimizer post hooks", len(optimizer._global_optimizer_post_hooks)
    yield "gradients", int(torch.is_grad_enabled())
    yield "autocast", int(torch.is_autocast_enabled("cpu"))
