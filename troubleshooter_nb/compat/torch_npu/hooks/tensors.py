"""A tensor as a recording tells it, in the forms in which the files of old hold one."""

from __future__ import annotations

import importlib
import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from troubleshooter_nb.frameworks import require

FIRST = 10  # values of each tensor in a sampled file
# Of these torch computes largest, smallest and mean value; of others as of float32.
_COMPUTED = ("float16", "bfloat16", "float32", "float64")


class SeenTensor:
    """One tensor, and what is written of it, computed once.

    Parameters
    ----------
    array : ndarray
        The values in C order; bfloat16 and float8 of ml_dtypes. An axis along which they repeat
        may have length 1.
    dtype : str
        As torch spells it without its ``torch.``.
    shape : tuple of int, optional
        Of the tensor, where the array is not of that shape.
    strides : tuple of int
        In elements, where the tensor did not lie in C order.
    """

    def __init__(
        self,
        array: np.ndarray,
        dtype: str,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] = (),
    ) -> None:
        self.dtype, self.strides = dtype, strides
        self.shape = array.shape if shape is None else tuple(shape)
        self._array = array

    @property
    def is_listed(self) -> bool:
        """Whether a file of lines has it: floating numbers, with at least one axis."""
        return bool(self.shape) and self.dtype.startswith(("float", "bfloat"))

    @property
    def array(self) -> np.ndarray:
        """The values, of the tensor's shape."""
        whole = self._array.shape == self.shape  # else nothing can be written into what comes of it
        return self._array if whole else np.broadcast_to(self._array, self.shape)

    @cached_property
    def stored(self) -> tuple[np.ndarray, tuple[int, ...]]:
        """The values as they lay in memory, and the strides, in elements, by which to read them.

        Of one axis, without what lies before the first value. A view that leaves gaps is given
        without them, in C order: what lies in a gap is not the tensor's.
        """
        array, strides = self.array, self.strides
        size = 1 + sum((n - 1) * step for n, step in zip(self.shape, strides, strict=False))
        if not strides or array.size < size:
            return np.ascontiguousarray(array).reshape(-1), _c_strides(self.shape)
        storage = np.zeros(size, array.dtype)
        _view(storage, self.shape, strides)[...] = array
        return storage, strides

    @cached_property
    def all_values(self) -> list[float]:
        """Every value as float32."""
        return _float32(self.array)

    @cached_property
    def sample(self) -> list[float]:
        """The first ten values, then the largest, the smallest and the mean of all.

        The three are computed in the tensor's own dtype; NaN where there are no values.
        """
        return [*_float32(self.array.flat[:FIRST]), *self._extremes_and_mean()]

    def _extremes_and_mean(self) -> list[float]:
        if not self.array.size:
            return [math.nan] * 3
        storage, strides = self.stored
        values = _view(storage, self.shape, strides)
        if self.dtype not in _COMPUTED:
            values = values.astype(np.float32)
        require("torch")
        torch_: Any = importlib.import_module("troubleshooter_nb.frameworks.torch_statistics")
        return _float32(np.array(torch_.extremes_and_mean(values)))


def _c_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _view(storage: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    return as_strided(storage, shape, [step * storage.itemsize for step in strides])


def _float32(values: np.ndarray) -> list[float]:
    """The values of an array as float32, in C order."""
    plain = values.real if values.dtype.kind == "c" else values
    # What is too large for float32 becomes an infinity, as in torch.
    with np.errstate(over="ignore"):
        numbers: list[float] = plain.astype(np.float32).reshape(-1).tolist()
    return numbers
