"""What the package needs from MindSpore."""

from __future__ import annotations

from typing import Any

import mindspore
import ml_dtypes
import numpy as np

NAME = "mindspore"


def is_tensor(value: Any) -> bool:
    """Whether the value is a MindSpore tensor, parameters included."""
    return isinstance(value, mindspore.Tensor)


def to_numpy(value: Any) -> np.ndarray:
    """Host copy with the same values; bfloat16 as ml_dtypes.bfloat16, bit for bit."""
    if value.dtype == mindspore.bfloat16:
        # asnumpy gives MindSpore's own bfloat16 dtype, which nothing else knows; the bits agree.
        return np.array(value.asnumpy().view(np.uint16).view(ml_dtypes.bfloat16))
    return np.array(value.asnumpy())


def describe() -> dict[str, Any]:
    """Device, mode and the flags that change numbers."""
    graph = mindspore.get_context("mode") == mindspore.GRAPH_MODE
    return {
        "device": str(mindspore.get_context("device_target")).lower(),
        "mode": "graph" if graph else "pynative",
        "deterministic": str(mindspore.get_context("deterministic")),
    }
