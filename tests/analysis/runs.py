"""Small runs with known dataflow, made of arrays: a chain of layers with all tensors recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.naming import Site
from troubleshooter_nb.ranges import Starts

Layer = Callable[..., np.ndarray]


class Recorder:
    """Collects entries as a module hook of msprobe would."""

    def __init__(self, *, rounding: int = 0) -> None:
        self.entries: list[Entry] = []
        self.random = np.random.default_rng(rounding) if rounding else None

    def call(
        self,
        path: str,
        layer: str,
        function: Layer,
        *inputs: np.ndarray,
        direction: str = "forward",
        **parameters: np.ndarray,
    ) -> np.ndarray:
        """Run a layer and record its inputs, parameters and output."""
        output = function(*inputs, **parameters).astype(np.float32)
        if self.random is not None:
            output = output * (1 + 2.0**-25 * self.random.standard_normal(output.shape))
            output = output.astype(np.float32)
        base = f"Module.{path}.{layer}.{direction}.0"
        for number, values in enumerate(inputs):
            self.add(f"{base}.input.{number}", path, direction, "input", str(number), values, layer)
        for name, values in parameters.items():
            slot = f"{base}.parameters.{name}"
            self.add(slot, path, "forward", "parameter", name, values, layer)
        self.add(f"{base}.output.0", path, direction, "output", "0", output, layer)
        return output

    def add(
        self,
        name: str,
        path: str,
        direction: str,
        role: str,
        slot: str,
        values: np.ndarray,
        layer: str = "",
        step: int = 0,
    ) -> None:
        """Record one tensor."""
        site = Site("module", path, 0, direction, role, slot)  # type: ignore[arg-type]
        source = ArrayInMemory(np.array(values))
        order = len(self.entries)
        self.entries.append(Entry(name, site, source, step=step, order=order, layer=layer))

    def dump(self, label: str = "") -> Dump:
        """What was recorded."""
        return Dump.from_entries(self.entries, label=label)


class Counted(ArrayInMemory):
    """An array that counts the elements that were read of it."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(np.array(values))
        self.counts: list[int]
        object.__setattr__(self, "counts", [])

    @property
    def elements(self) -> int:
        """How many were read so far."""
        return sum(self.counts)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """As `ArrayInMemory`."""
        self.counts.append(stop - start)
        return super().read(start, stop, into)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """As `ArrayInMemory`."""
        self.counts.append(len(starts) * length)
        return super().read_rows(starts, length)


def draws(seed: int, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Normal values in float32 by name."""
    random = np.random.default_rng(seed)
    return {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Torch's dense layer."""
    return x @ weight.T + bias


def relu(x: np.ndarray) -> np.ndarray:
    """Half-wave."""
    return np.maximum(x, 0)


def chain(
    seed: int = 0,
    *,
    layers: int = 4,
    rounding: int = 0,
    changed: Mapping[str, Layer] | None = None,
    weights: Mapping[str, Callable[[np.ndarray], np.ndarray]] | None = None,
    inputs: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    label: str = "",
) -> Dump:
    """A chain ``fc0 act0 fc1 act1 ...`` of dense layers of width 16 on 32 rows.

    Parameters
    ----------
    seed : int
        Of the values.
    layers : int
        How many dense layers.
    rounding : int
        Seed of errors as rounding leaves them; 0 for none.
    changed : mapping of str to function, optional
        Layers, by path, that compute something else.
    weights : mapping of str to function, optional
        Weights, by path, that are changed.
    inputs : function
        Changes the input of the network.
    label : str
        Of the dump.
    """
    recorder = Recorder(rounding=rounding)
    x = inputs(draws(seed, x=(32, 16))["x"])
    for number in range(layers):
        values = draws(seed + 1 + number, weight=(16, 16), bias=(16,))
        path = f"fc{number}"
        values["weight"] = (values["weight"] / 4).astype(np.float32)
        if weights and path in weights:
            values["weight"] = weights[path](values["weight"])
        function = (changed or {}).get(path, linear)
        x = recorder.call(path, "Linear", function, x, **values)
        function = (changed or {}).get(f"act{number}", relu)
        x = recorder.call(f"act{number}", "ReLU", function, x)
    return recorder.dump(label)
