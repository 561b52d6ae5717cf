"""The tensors of a network in memory as a dump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, ArraySource, Dump, Entry, SizedByShape
from troubleshooter_nb.frameworks import Adapter, LayerFacts
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.naming import Site
from troubleshooter_nb.ranges import Starts
from troubleshooter_nb.weight_map import Spec


@dataclass(frozen=True, eq=False)
class _TensorSource(SizedByShape):
    """A tensor of a network, turned into an array when it is read."""

    adapter: Adapter
    tensor: Any
    shape: tuple[int, ...]
    dtype: np.dtype

    def files(self) -> tuple[str, ...]:
        return ()

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        array = self.adapter.to_numpy(self.tensor)
        return np.ascontiguousarray(array).reshape(-1)[start:stop]

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        return ArrayInMemory(self.adapter.to_numpy(self.tensor)).read_rows(starts, length)


def specs_of(layers: Sequence[LayerFacts]) -> dict[str, Spec]:
    """Shape and dtype of every tensor of a network, by each name it is saved under."""
    return {
        name: Spec(entry.shape, dtype_from_token(entry.dtype))
        for layer in layers
        for entry in layer.entries
        for name in (entry.name, *entry.other_names)
    }


def dump_of_network(adapter: Adapter, net: Any, layers: Sequence[LayerFacts]) -> Dump | None:
    """The tensors of a network as they are when they are read.

    Parameters
    ----------
    adapter, net
        The network and whose it is.
    layers : sequence of LayerFacts
        Its layers, from the adapter.

    Returns
    -------
    Dump or None
        Tied tensors share one source. None where there are no tensors, or one has no values, as on
        the meta device.
    """
    tensors = adapter.tensors(net)
    roles = {
        name: entry.role
        for layer in layers
        for entry in layer.entries
        for name in (entry.name, *entry.other_names)
    }
    entries: list[Entry] = []
    sources: dict[int, ArraySource] = {}
    for order, (name, spec) in enumerate(specs_of(layers).items()):
        if name not in tensors:
            return None
        tensor = tensors[name]
        made = _TensorSource(adapter, tensor, spec.shape, spec.dtype)
        source = sources.setdefault(id(tensor), made)
        try:
            source.read(0, 1)
        except ValueError:  # on the meta device
            return None
        entries.append(Entry(name, Site("checkpoint", name, role=roles[name]), source, order=order))
    if not entries:
        return None
    return Dump.from_entries(entries, label=type(net).__name__, format="checkpoint")
