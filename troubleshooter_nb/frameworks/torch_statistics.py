"""Statistics of torch tensors, where they are: on the host at once, elsewhere read together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch

from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.frameworks.torch_ import to_numpy
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.metrics.sketches import (
    COLUMNS,
    PATTERNS,
    STATISTICS,
    column_signs,
    row_signs,
    statistics_at,
    statistics_from,
    statistics_of,
)
from troubleshooter_nb.thresholds import DEVICE_BLOCK

# Other tensors than these may have no memory of their own, or lie on several devices.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Their matrix units know no float64; float32 agrees with the host to some 6e-7 only.
_WITHOUT_FLOAT64 = ("mps", "npu")


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Statistics that a device computes, to be read later.

    `numbers` are what `statistics_from` takes, and the count of positive infinities.
    """

    numbers: torch.Tensor
    count: int


Measured = dict[str, Any] | OnDevice


def measured(tensor: torch.Tensor, fingerprint: bool) -> Measured:
    """Statistics of a tensor, for `read_measured`; see `frameworks.recording.Recording`.

    To be called where no function mode, no autocast and no gradients are on (`Recording.quiet`).
    On the host nothing is copied unless the values are strided or in a layout of their own.
    Nothing of the tensor is kept.

    Raises
    ------
    ValueError
        If the tensor has no values (meta, vmap), or numpy has nothing for its dtype.
    """
    if tensor.device.type != "cpu" and _is_plain(tensor) and not tensor.is_meta:
        return measured_on_device(tensor, fingerprint)
    dtype = _dtype(tensor.dtype)
    if dtype is not None and _is_plain(tensor) and not tensor.is_meta:
        values = tensor.contiguous()
        found = statistics_at(_address(values), dtype, values.numel(), fingerprint)
        if found is not None:
            if found["inf_count"]:
                found["posinf_count"] = int(_positive(values))
            return found
    return statistics_of(to_numpy(tensor, copy=False), fingerprint)


def extremes_and_mean(array: np.ndarray) -> tuple[float, float, float]:
    """Largest, smallest and mean value as torch computes them: in the array's own dtype and order.

    Raises
    ------
    RuntimeError
        If it is empty.
    """
    if array.dtype.name == "bfloat16":  # of which torch takes no array
        bits = torch.from_numpy(array.view(np.uint16).view(np.int16))
        tensor = bits.view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return float(tensor.max()), float(tensor.min()), float(tensor.mean())


def read_measured(found: Sequence[Measured]) -> list[Mapping[str, Any]]:
    """The statistics, waiting once for each device."""
    by_device: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    results: list[Any] = list(found)
    for row, one in enumerate(found):
        if isinstance(one, OnDevice):
            by_device.setdefault((one.numbers.device, one.numbers.dtype), []).append(row)
    for rows in by_device.values():
        of_device = [results[row] for row in rows]
        numbers = iter(torch.cat([one.numbers for one in of_device]).tolist())
        for row, one in zip(rows, of_device, strict=True):
            *measured, positive = islice(numbers, len(one.numbers))
            results[row] = statistics_from(measured, one.count)
            if results[row]["inf_count"]:
                results[row]["posinf_count"] = int(positive)
    return results


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its numbers lie in memory one by one, as its strides say."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout == torch.strided
        and not tensor.is_complex()
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor.is_neg()
    )


@cache
def _dtype(dtype: torch.dtype) -> np.dtype | None:
    """What numpy or ml_dtypes call a dtype; None where they have none."""
    try:
        return dtype_from_token(str(dtype).removeprefix("torch."))
    except ValueError:
        return None


def _address(values: torch.Tensor) -> int:
    try:
        address = values.data_ptr()
    except RuntimeError as error:  # vmap and torch.func have tensors without memory
        no_array = Message("frameworks.no_array", dtype=values.dtype, why=error)
        raise ArgumentError(no_array) from error
    if not address and values.numel():  # to read there would end the process
        raise ArgumentError(Message("frameworks.no_memory", dtype=values.dtype))
    return address


def measured_on_device(tensor: torch.Tensor, fingerprint: bool) -> OnDevice:
    """`measured` by operations of torch on any device, without waiting for them.

    Parameters
    ----------
    tensor : Tensor
        Strided, of any real dtype.
    fingerprint : bool
    """
    double = tensor.device.type not in _WITHOUT_FLOAT64
    wide = torch.float64 if double else torch.float32
    values = tensor.detach().reshape(-1)
    made: dict[str, Any] = {"dtype": wide, "device": values.device}
    lows, highs = [torch.full((), math.inf, **made)], [torch.full((), -math.inf, **made)]
    sums, positive = torch.zeros(STATISTICS - 2, **made), torch.zeros((), **made)
    folded = torch.zeros(PATTERNS, COLUMNS, **made)
    for start in range(0, values.numel(), DEVICE_BLOCK):
        chunk = values[start : start + DEVICE_BLOCK].to(wide)
        clean, low, high, nan, inf = _finite(chunk)
        sums += torch.stack((clean.sum(), clean.dot(clean), nan, inf))
        positive += _positive(chunk)
        lows.append(low)
        highs.append(high)
        if fingerprint:
            _fold(clean, start // COLUMNS, folded)
    low, high = torch.stack(lows).amin(), torch.stack(highs).amax()
    numbers = [torch.stack((low, high)), sums]
    if fingerprint:
        columns = _column_signs(values.device, wide)
        numbers.append((columns * folded[:, None]).sum(-1).reshape(-1))
    numbers.append(positive.reshape(1))
    return OnDevice(torch.cat(numbers), values.numel())


def _positive(values: torch.Tensor) -> torch.Tensor:
    """How many values are positive infinities."""
    wide = values if values.element_size() > 1 else values.float()  # float8 has no comparison
    return (wide == math.inf).sum()


def _finite(chunk: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Values with 0 for what is not finite, their extremes, and counts of NaN and infinities.

    The counts are always taken: when the device is read, the tensor may be gone or overwritten.
    """
    inf = math.inf
    clean = chunk.nan_to_num(0.0, 0.0, 0.0)
    low = chunk.nan_to_num(inf, inf, inf).amin()
    high = chunk.nan_to_num(-inf, -inf, -inf).amax()
    counts = (chunk.isnan().sum(), chunk.isinf().sum())
    return clean, low, high, *(count.to(chunk.dtype) for count in counts)


def _fold(clean: torch.Tensor, first_row: int, folded: torch.Tensor) -> None:
    """Add the sums of each column, for each pattern of row signs."""
    rows, rest = divmod(clean.numel(), COLUMNS)
    signs = _row_signs(clean.device, clean.dtype, first_row + rows + 1)[:, first_row:]
    folded += signs[:, :rows] @ clean[: rows * COLUMNS].view(rows, COLUMNS)
    if rest:
        folded[:, :rest] += torch.outer(signs[:, rows], clean[rows * COLUMNS :])


_known_signs: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}


def _row_signs(device: torch.device, dtype: torch.dtype, count: int) -> torch.Tensor:
    """The signs of at least the first rows, kept on the device."""
    known = _known_signs.get((device, dtype))
    if known is None or known.shape[1] < count:
        signs = row_signs(1 << max(count - 1, 1023).bit_length())
        known = torch.from_numpy(signs).to(device, dtype)
        _known_signs[device, dtype] = known
    return known


@cache
def _column_signs(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    signs = torch.from_numpy(np.array(column_signs())).to(device, dtype)
    return signs.view(PATTERNS, -1, COLUMNS)
