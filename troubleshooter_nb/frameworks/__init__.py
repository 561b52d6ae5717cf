"""The door to torch and MindSpore: which are installed, which are loaded, whose tensor this is.

Both are optional. Code above asks for an adapter and never branches on a framework's name.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol, cast

import numpy as np

from troubleshooter_nb.errors import ArgumentError, FrameworkMissingError
from troubleshooter_nb.frameworks.recording import Recording
from troubleshooter_nb.frameworks.replaying import Replaying
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import small_float
from troubleshooter_nb.naming import Role

NAMES = ("torch", "mindspore")
_ADAPTERS = {"torch": "torch_", "mindspore": "mindspore_"}
# What a framework beside the wrong protobuf, numpy or driver has been seen to raise on import.
_IMPORT_ERRORS = (ImportError, OSError, TypeError, AttributeError, RuntimeError, ValueError)


@dataclass(frozen=True)
class LayerEntry:
    """One tensor a layer owns itself, as a checkpoint of the whole network holds it.

    `leaf` is the attribute of the layer, `name` the name in the checkpoint and `other_names` what
    the same tensor of a shared layer is saved as besides. `shape` is in elements, `dtype` a name
    such as ``float32``; the role is ``parameter`` or ``buffer``.
    """

    leaf: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerFacts:
    """What a layer of a network is, without its values.

    `path` is dotted, "" for the root; `aliases` are the other paths of a shared layer. `kind` is
    the first class among the layer's class and its bases that the framework offers, as
    ``tables/layer_parameters.csv`` spells it (``Conv1d``; ``nn.Conv1d`` or ``mint.nn.Conv1d``),
    else the name of the user's class (with its module where torch has a layer of that name).
    `settings` are the plain values among the attributes: numbers, texts, None and tuples of these,
    with the names and the meaning they have in the constructor, as far as the layer remembers them.
    """

    path: str
    kind: str
    entries: tuple[LayerEntry, ...]
    settings: Mapping[str, Any]
    aliases: tuple[str, ...] = ()


Named = tuple[str, np.ndarray]


class Adapter(Protocol):
    """What every framework adapter module offers, under the same names."""

    NAME: str

    def is_tensor(self, value: Any) -> bool:
        """Whether the value is a tensor (parameters included) of this framework."""

    def to_numpy(self, value: Any, *, copy: bool = True) -> np.ndarray:
        """Host copy with the same values; bfloat16 and float8 as ml_dtypes, bit for bit.

        Without `copy` it shares the memory of the tensor where that can be.

        Raises
        ------
        ValueError
            If the tensor has no values or no numpy dtype.
        """

    def is_network(self, value: Any) -> bool:
        """Whether the value is a network or layer of this framework."""

    def layers(self, net: Any) -> list[LayerFacts]:
        """Every layer of a network, containers and the network itself included, parents first.

        The names of all entries are those of a checkpoint of this network: ``state_dict()`` in
        torch, ``save_checkpoint`` in MindSpore. A shared layer is listed once, under its first
        path; a shared tensor once per layer that owns it.

        Raises
        ------
        ValueError
            If a parameter has no shape yet (lazy layers of torch).
        """

    def load_checkpoint(self, net: Any, file: str | PathLike[str]) -> tuple[list[str], list[str]]:
        """Load a checkpoint of this framework into a network, by equal names.

        Returns
        -------
        list of str, list of str
            Tensors of the network that got no value, and names in the file it does not have.

        Raises
        ------
        RuntimeError
            If a shape does not fit.
        """

    def save_checkpoint(self, net: Any, file: str | PathLike[str]) -> None:
        """Write a network's tensors as a checkpoint of this framework."""

    def tensors(self, net: Any) -> dict[str, Any]:
        """The parameters and saved buffers themselves, by the names of `layers`.

        Tied ones are one object under each of their names.
        """

    def write(self, tensor: Any, array: np.ndarray) -> None:
        """Put values into a tensor of a network, in its own dtype and on its own device.

        `array` has its shape, and a dtype that its dtype can take in. The tensor stays the object
        it is, and no gradient is kept of the change.
        """

    def is_training(self, net: Any) -> bool:
        """Whether a network, at its root, is set to train."""

    def outputs(self, net: Any, *args: np.ndarray, **kwargs: np.ndarray) -> list[Named]:
        """Names and values of what a network gives for inputs, evaluating and without gradients.

        Floating-point inputs are given in the dtype of the network's first floating-point tensor,
        which also says on which device. A single output is called ``output``, parts of a nested one
        ``output.0`` and ``output.logits``. Every layer is left in the mode it was in.
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

    def shown(self, array: np.ndarray) -> str:
        """A tensor of these values as this framework prints it, with the digits it shows."""

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
    """Where the tensors of one call of `save` or `save_grad` in compiled code go.

    Attributes
    ----------
    joint : str
        Stands in front of each index or key of a nested value.
    """

    joint: str

    def reserve(self, keys: str) -> int:
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
        raise ArgumentError(Message("frameworks.unknown", name=name, known=[*_ADAPTERS]))
    try:
        module = importlib.import_module(f"{__name__}.{_ADAPTERS[name]}")
    except _IMPORT_ERRORS as error:
        facts = {"name": name, "error": error, "install": Message(f"frameworks.install_{name}")}
        raise FrameworkMissingError(Message("frameworks.missing", **facts)) from error
    return cast("Adapter", module)


def recording_of(adapter: Adapter) -> Recording:
    """What a recorder needs from a framework that is loaded."""
    name = f"{__name__}.{adapter.NAME}_recording"
    return cast("Recording", importlib.import_module(name))


def replaying_of(adapter: Adapter) -> Replaying:
    """What a replay needs from a framework that is loaded."""
    name = f"{__name__}.{adapter.NAME}_replaying"
    return cast("Replaying", importlib.import_module(name))


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
    if type(value) is np.ndarray:
        return None
    for adapter in loaded().values():
        if adapter.is_tensor(value):
            return adapter
    return None


def adapter_of_network(value: Any) -> Adapter | None:
    """The adapter whose framework this network or layer belongs to, or None for anything else."""
    for adapter in loaded().values():
        if adapter.is_network(value):
            return adapter
    return None


def parts_of(
    value: Any, is_tensor: Callable[[Any], bool], name: str = "output"
) -> Iterator[tuple[str, Any]]:
    """The tensors of a nested value with their places: ``output.0``, ``output.logits``."""
    if is_tensor(value):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from parts_of(part, is_tensor, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from parts_of(part, is_tensor, f"{name}.{index}")


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, None, or a tuple of such: what settings consist of."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


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
        return array.view(np.uint16).view(small_float("bfloat16"))
    return array
