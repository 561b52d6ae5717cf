"""The three frameworks that msprobe records, and what its files call them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from troubleshooter_nb.compat.msprobe.generations import Generation
from troubleshooter_nb.compat.msprobe.operators import operators_of
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.frameworks import adapter_of_network, recording_of, require
from troubleshooter_nb.frameworks.named_operators import NamedOperator
from troubleshooter_nb.frameworks.recording import Recording
from troubleshooter_nb.messages import Message

_PREFIXES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # they are asked for at every step


@dataclass(frozen=True)
class Recorded:
    """A framework as msprobe records it.

    Attributes
    ----------
    name : {"pytorch", "mindspore", "mindtorch"}
        Its word in the json. ``mindtorch`` is MSAdapter: the names of torch, the tensors of
        MindSpore.
    adapter : str
        Whose tensors and layers these are: ``torch`` or ``mindspore``.
    operators : {"pytorch", "mindspore"}
        Whose names operators have.
    module_word : {"Module", "Cell"}
    generation : str
        The layout where nothing else is asked for.
    """

    name: str
    adapter: str
    operators: str
    module_word: str
    generation: str

    @property
    def recording(self) -> Recording:
        """What a recorder needs of it."""
        return recording_of(require(self.adapter))

    def watched(self, generation: Generation, networks: list[Any]) -> list[NamedOperator]:
        """The operators that are seen: those of the lists, and the primitives of cells."""
        of_cells: list[NamedOperator] = []
        if self.operators == "mindspore":
            recording: Any = self.recording
            of_cells = recording.operators_of_cells(networks)
        return [*operators_of(self.operators, generation), *of_cells]

    def networks_of(self, model: Any) -> dict[str, Any]:
        """The networks of ``start(model=...)`` by what stands in front of their paths.

        Raises
        ------
        ArgumentError
            For what is no network of the framework, or a list without one.
        """
        listed = [*model] if isinstance(model, list | tuple) else [model]
        fits = listed and all(self._is_network(one) for one in listed)
        if not fits:
            kind = Message(f"debugger.{self.adapter}_model")
            given = type(model).__name__
            raise ArgumentError(Message("debugger.no_model", kind=kind, given=given))
        if not isinstance(model, list | tuple):
            return {self._prefix(model): model}
        prefixes = [(str(number), self._prefix(one)) for number, one in enumerate(listed)]
        return {".".join(filter(None, p)): one for p, one in zip(prefixes, listed, strict=True)}

    def _is_network(self, model: Any) -> bool:
        adapter = adapter_of_network(model)
        return adapter is not None and self.adapter == adapter.NAME

    def _prefix(self, network: Any) -> str:
        """Path of the network inside what wraps it, such as ``module``; "" for one by itself."""
        if network not in _PREFIXES:
            _PREFIXES[network] = self._found_prefix(network)
        return _PREFIXES[network]

    def _found_prefix(self, network: Any) -> str:
        layers, _ = self.recording.layers(network, "eager")
        inner, parts = layers[0].module if layers else network, []
        while network is not inner and len(getattr(network, "_modules", None) or ()) == 1:
            ((name, network),) = network._modules.items()
            parts.append(name)
        return ".".join(parts) if network is inner else ""


TORCH = Recorded("pytorch", "torch", "pytorch", "Module", "8.3")
MINDSPORE = Recorded("mindspore", "mindspore", "mindspore", "Cell", "1.2")
MSADAPTER = Recorded("mindtorch", "mindspore", "pytorch", "Module", "8.3")


def is_of_torch(model: Any) -> bool:
    """Whether a network, or the first of a list of them, is one of torch."""
    first = next(iter(model), None) if isinstance(model, list | tuple) else model
    adapter = adapter_of_network(first)
    return adapter is not None and adapter.NAME == "torch"


def is_msadapter() -> bool:
    """Whether what is imported as ``torch`` is MSAdapter, whose tensors are MindSpore's."""
    torch, mindspore = sys.modules.get("torch"), sys.modules.get("mindspore")
    if torch is None or mindspore is None or not hasattr(torch, "tensor"):
        return False
    try:
        return isinstance(torch.tensor(0), mindspore.Tensor)
    except (TypeError, ValueError, RuntimeError):
        return False
