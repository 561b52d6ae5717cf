"""Transforms of one tensor that change its values, or take them nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.transforms.kind import Argument, Kind, dtype_name
from troubleshooter_nb.transforms.spec import Spec


def is_rounded(given: Mapping[str, Any], source: Spec) -> bool:
    """Whether a relation "cast" says that the target is the source in another dtype."""
    return bool(given["side"] == "right" and given["dtype"] != source.dtype.name)


def _loss(sources: Sequence[Spec], dtype: str) -> str:
    given, made = sources[0].dtype, dtype_from_token(dtype)
    if np.can_cast(given, made, "safe"):
        return ""
    return Message("transforms.lossy_cast", given=given.name, made=made.name)


CAST = Kind(
    name="cast",
    words=lambda dtype: Message("transforms.cast", dtype=dtype),
    examples={"cast(float16)": [(2, 3)], "cast(bfloat16)": [(2,)]},
    arguments=(Argument("dtype", dtype_name),),
    specs=lambda sources, dtype: [Spec(sources[0].shape, dtype_from_token(dtype))],
    gives="values",
    forward=lambda arrays, dtype: [stored_as(arrays[0], dtype_from_token(dtype))],
    relations={
        "cast": lambda given, source: (given["dtype"],) if is_rounded(given, source) else None
    },
    loss=_loss,
)


DROP = Kind(
    name="drop",
    words=lambda: Message("transforms.drop"),
    examples={"drop": [(2, 3)]},
    targets=0,
    specs=lambda _: [],
    forward=lambda _: [],
    proposals=lambda sources, targets: [()],
    takes_parts=True,
)
