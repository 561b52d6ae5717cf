"""What the package needs from torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import ml_dtypes
import numpy as np
import torch

NAME = "torch"

# torch hands numpy no bfloat16 or float8: their bits travel as integers.
_BITS: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16)
}
for _name in (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    "float8_e8m0fnu",  # torch 2.7 and ml_dtypes 0.5 have it
):
    if hasattr(torch, _name) and hasattr(ml_dtypes, _name):
        _BITS[getattr(torch, _name)] = (torch.uint8, getattr(ml_dtypes, _name))


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor, parameters included."""
    return isinstance(value, torch.Tensor)


def to_numpy(value: torch.Tensor) -> np.ndarray:
    """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit.

    Sparse tensors come dense, quantized ones dequantized, complex32 as complex64.

    Raises
    ------
    ValueError
        If the tensor has no values (meta, fake), is ragged, or numpy has nothing for its dtype.
    """
    if value.is_meta or value.is_nested:
        msg = f"a {'meta tensor has no values' if value.is_meta else 'nested tensor is ragged'}"
        raise ValueError(msg)
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype == torch.complex32:
        tensor = tensor.to(torch.complex64)
    carrier, dtype = _BITS.get(tensor.dtype, (None, None))
    try:
        if carrier is None:
            return np.array(tensor.numpy())
        return np.array(tensor.contiguous().view(carrier).numpy().view(dtype))
    except (TypeError, RuntimeError) as error:
        msg = f"torch makes no array of this {tensor.dtype} tensor: {error}"
        raise ValueError(msg) from error


def describe() -> dict[str, Any]:
    """Version, device and the flags that change numbers."""
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_allow_tf32": bool(torch.backends.cudnn.allow_tf32),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "threads": torch.get_num_threads(),
    }


def rank_and_size() -> tuple[int, int]:
    """Rank of this process and number of processes; (0, 1) in a run that is not distributed."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def watch_gradient(tensor: torch.Tensor, receive: Callable[[np.ndarray], None]) -> None:
    """Have `receive` called with the gradient of a tensor each time one arrives.

    A leaf (an input, a parameter) reports only the next one: its hook would outlive the step.
    Where gradients are switched off, as in ``torch.no_grad()``, nothing is watched.

    Raises
    ------
    RuntimeError
        If the tensor needs no gradient.
    """
    if not torch.is_grad_enabled():
        return
    if not tensor.requires_grad:
        msg = (
            f"no gradient will come for this {tuple(tensor.shape)} {tensor.dtype} tensor: it does "
            "not require one; watch the output of a trained layer or set requires_grad first"
        )
        raise RuntimeError(msg)

    def hook(gradient: torch.Tensor) -> None:
        if tensor_is_leaf:
            handle.remove()
        receive(to_numpy(gradient))

    tensor_is_leaf = tensor.is_leaf
    handle = tensor.register_hook(hook)  # type: ignore[no-untyped-call]


def compiled_save(sink: Any, *, as_text: bool) -> NoReturn:
    """Not in torch: ``torch.compile`` leaves `save` to Python.

    Raises
    ------
    NotImplementedError
        Always.
    """
    msg = "torch.compile runs save() and save_grad() as Python; there is nothing to compile"
    raise NotImplementedError(msg)


compiled_save_grad = compiled_save
