"""What the package needs from torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

NAME = "torch"

# torch hands numpy no bfloat16 or float8: their bits travel as integers.
_BITS: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16)
}
for _name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
    if hasattr(torch, _name):
        _BITS[getattr(torch, _name)] = (torch.uint8, getattr(ml_dtypes, _name))


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor, parameters included."""
    return isinstance(value, torch.Tensor)


def to_numpy(value: torch.Tensor) -> np.ndarray:
    """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit."""
    tensor = value.detach().cpu().resolve_conj().resolve_neg()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.dtype in _BITS:
        carrier, dtype = _BITS[tensor.dtype]
        return np.array(tensor.contiguous().view(carrier).numpy().view(dtype))
    return np.array(tensor.numpy())


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
