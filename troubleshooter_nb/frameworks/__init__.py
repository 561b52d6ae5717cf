"""The door to torch and MindSpore: which are installed, which are loaded, whose tensor this is.

Both are optional. Code above asks for an adapter and never branches on a framework's name.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any, Protocol, cast

import ml_dtypes
import numpy as np

from troubleshooter_nb.errors import FrameworkMissingError

NAMES = ("torch", "mindspore")
_ADAPTERS = {"torch": "torch_", "mindspore": "mindspore_"}
_INSTALL = {
    "torch": "pip install 'troubleshooter_nb[torch]'",
    "mindspore": "pip install 'troubleshooter_nb[mindspore]' (needs Python < 3.13)",
}
# What a framework beside the wrong protobuf, numpy or driver has been seen to raise on import.
_IMPORT_ERRORS = (ImportError, OSError, TypeError, AttributeError, RuntimeError, ValueError)


class Adapter(Protocol):
    """What every framework adapter module offers, under the same names."""

    NAME: str

    def is_tensor(self, value: Any) -> bool:
        """Whether the value is a tensor (parameters included) of this framework."""

    def to_numpy(self, value: Any) -> np.ndarray:
        """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit.

        Raises
        ------
        ValueError
            If the tensor has no values or no numpy dtype.
        """

    def describe(self) -> dict[str, Any]:
        """Version, device and the flags that change numbers, as plain values."""

    def rank_and_size(self) -> tuple[int, int]:
        """Rank of this process and number of processes; (0, 1) in a run that is not distributed."""

    def watch_gradient(self, tensor: Any, receive: Callable[[np.ndarray], None]) -> None:
        """Have `receive` called with the gradient of a tensor when it arrives.

        A network's input or parameter reports only the first gradient after this call, so that a
        call per step gives one gradient per step.

        Raises
        ------
        RuntimeError
            If no gradient can come, because the tensor is no function of anything trained.
        """

    def compiled_save(self, sink: Sink, *, as_text: bool) -> Callable[[Any], None]:
        """A callable for compiled code, which hands each tensor of a nested value to `sink`.

        Raises
        ------
        NotImplementedError
            In torch, whose compiler leaves functions like `save` to Python.
        """

    def compiled_save_grad(self, sink: Sink, *, as_text: bool) -> Callable[[Any], Any]:
        """A callable for compiled code, an identity that hands the gradient of it to `sink`.

        Raises
        ------
        NotImplementedError
            In torch, as `compiled_save`.
        """


class Sink(Protocol):
    """Where the tensors of one call of `save` or `save_grad` in compiled code go."""

    def reserve(self) -> int:
        """The number of the next tensor, taken while the compiled code runs."""

    def receive(self, number: int, keys: str, array: np.ndarray) -> None:
        """Keep one tensor; `keys` is its place in the nested value, such as ``.x1.0``."""

    def stem(self, keys: str) -> str:
        """Name of one tensor without number."""


def require(name: str) -> Adapter:
    """The adapter of a framework, importing the framework.

    Raises
    ------
    ValueError
        For a name that is no framework.
    FrameworkMissingError
        If it is not installed or fails to import; the message says how to install it.
    """
    if name not in _ADAPTERS:
        msg = f"unknown framework {name!r}; known: {', '.join(_ADAPTERS)}"
        raise ValueError(msg)
    try:
        module = importlib.import_module(f"troubleshooter_nb.frameworks.{_ADAPTERS[name]}")
    except _IMPORT_ERRORS as error:
        msg = f"{name} is needed here and does not import ({error}); {_INSTALL[name]}"
        raise FrameworkMissingError(msg) from error
    return cast("Adapter", module)


def loaded() -> dict[str, Adapter]:
    """Adapters of the frameworks this process has already imported; imports none itself.

    A framework that is only half imported, because it failed on the way, is left out: nobody can
    have a tensor of it.
    """
    found = {}
    for name in _ADAPTERS:
        if sys.modules.get(name) is not None:
            with contextlib.suppress(FrameworkMissingError):
                found[name] = require(name)
    return found


def adapter_of(value: Any) -> Adapter | None:
    """The adapter whose framework this tensor belongs to, or None for anything else."""
    for adapter in loaded().values():
        if adapter.is_tensor(value):
            return adapter
    return None


def to_numpy(value: Any) -> np.ndarray:
    """A numpy array of a tensor of either framework, an array, or Python numbers.

    A tensor is copied, an array is not. What numpy makes of anything else may have dtype object.

    Raises
    ------
    ValueError
        If a tensor has no values or no numpy dtype, or nested lists are ragged.
    """
    adapter = adapter_of(value)
    if adapter is not None:
        return adapter.to_numpy(value)
    array = np.asarray(value)
    # Tensor.asnumpy() of MindSpore gives a bfloat16 dtype of its own, with the same bits.
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16).view(ml_dtypes.bfloat16)
    return array
