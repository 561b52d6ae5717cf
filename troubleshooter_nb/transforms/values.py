"""Transforms of one tensor that change its values, or take them nowhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from troubleshooter_nb.errors import WeightMapError
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.float_formats import stored_as
from troubleshooter_nb.metrics.floats import arithmetic_of, computable, dtype_from_token
from troubleshooter_nb.transforms.kind import (
    Argument,
    Kind,
    MisfitError,
    as_weights,
    dtype_name,
    real_number,
)
from troubleshooter_nb.transforms.spec import Spec


def _loss(sources: Sequence[Spec], dtype: str) -> str:
    given, made = sources[0].dtype, dtype_from_token(dtype)
    if np.can_cast(given, made, "safe"):
        return ""
    return Message("transforms.lossy_cast", given=given.name, made=made.name)


def _rounded(arrays: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Values in another dtype; raises WeightMapError where one would become infinite."""
    made = stored_as(arrays[0], dtype_from_token(dtype))
    given, rounded = (np.asarray(computable(side)) for side in (arrays[0], made))
    if given.dtype.kind == rounded.dtype.kind == "f":
        lost = int(np.count_nonzero(np.isfinite(given) & np.isinf(rounded)))
        if lost:
            facts = {"given": arrays[0].dtype.name, "made": dtype}
            raise WeightMapError(Message("transforms.overflows", count=lost, **facts))
    return [made]


CAST = Kind(
    name="cast",
    gradients=as_weights,
    words=lambda dtype: Message("transforms.cast", dtype=dtype),
    examples={"cast(float16)": [(2, 3)], "cast(bfloat16)": [(2,)]},
    arguments=(Argument("dtype", dtype_name),),
    specs=lambda sources, dtype: [Spec(sources[0].shape, dtype_from_token(dtype))],
    gives="values",
    forward=_rounded,
    loss=_loss,
)


def _computed(
    arrays: Sequence[np.ndarray], *, factor: float = 1.0, shift: float = 0.0
) -> np.ndarray:
    """Values times a number and plus one, in float64 and rounded once."""
    with np.errstate(all="ignore"):
        made = np.asarray(computable(arrays[0])).astype(np.float64) * factor + shift
        return stored_as(made, arrays[0].dtype)


def _of_floats(sources: Sequence[Spec], _: float) -> Sequence[Spec]:
    if arithmetic_of(sources[0].dtype) != "float":
        raise MisfitError(Message("transforms.only_floats", dtype=sources[0].dtype.name))
    return sources


def _rounds(_: Sequence[Spec], number: float) -> str:
    return Message("transforms.rounds", number=number)


SCALE = Kind(
    name="scale",
    gradients=lambda arguments: (1.0 / float(arguments[0]),) if arguments[0] else None,
    words=lambda factor: Message("transforms.scale", factor=factor),
    examples={"scale(0.125)": [(2, 3)], "scale(-3.7)": [(2,)]},
    arguments=(Argument("factor", real_number),),
    specs=_of_floats,
    gives="values",
    forward=lambda arrays, factor: [_computed(arrays, factor=factor)],
    loss=_rounds,
)


OFFSET = Kind(
    name="offset",
    gradients=lambda _: (0.0,),
    words=lambda shift: Message("transforms.offset", shift=shift),
    examples={"offset(1.0)": [(2, 3)], "offset(-0.5)": [(2,)]},
    arguments=(Argument("shift", real_number),),
    specs=_of_floats,
    gives="values",
    forward=lambda arrays, shift: [_computed(arrays, shift=shift)],
    loss=_rounds,
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
