"""What the package needs from MindSpore."""

from __future__ import annotations

from typing import Any

import mindspore
import ml_dtypes
import numpy as np

NAME = "mindspore"

# MindSpore's name of a dtype -> integers of its size, and what the same bits mean to ml_dtypes.
_BITS: dict[str, tuple[Any, Any]] = {
    "BFloat16": (np.uint16, ml_dtypes.bfloat16),
    "Float8E4M3FN": (np.uint8, ml_dtypes.float8_e4m3fn),
    "Float8E5M2": (np.uint8, ml_dtypes.float8_e5m2),
}


def is_tensor(value: Any) -> bool:
    """Whether the value is a MindSpore tensor, parameters included."""
    return isinstance(value, mindspore.Tensor)


def to_numpy(value: Any) -> np.ndarray:
    """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit.

    Raises
    ------
    ValueError
        If numpy has nothing for its dtype (hifloat8).
    """
    array = value.asnumpy()
    # asnumpy gives bfloat16 and float8 dtypes of MindSpore's own, which nothing else knows.
    if str(value.dtype) in _BITS:
        carrier, dtype = _BITS[str(value.dtype)]
        return np.array(array.view(carrier).view(dtype))
    if array.dtype.kind == "V":
        msg = f"numpy has no dtype for MindSpore's {value.dtype}; cast it to float32 first"
        raise ValueError(msg)
    return np.array(array)


def describe() -> dict[str, Any]:
    """Device, mode and the flags that change numbers."""
    graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
    return {
        "device": str(mindspore.get_context("device_target")).lower(),
        "mode": "graph" if graph else "pynative",
        "deterministic": str(mindspore.get_context("deterministic")),
    }
