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
