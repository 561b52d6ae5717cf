"""Both sides of a case as files, filled block by block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from troubleshooter_nb.formats.checkpoint_save import save_checkpoint

# Relative: what two frameworks leave between them, a rounding or two of float32 in every value.
NOISE = 2.0**-23
# Elements that are drawn or computed at once.
BLOCK = 1 << 21
# Noise is drawn once and repeated; a prime, so that rows do not meet the same part of it.
_NOISE_PERIOD = (1 << 20) - 3

Sides = tuple[np.ndarray, np.ndarray]
# Of some rows, shape (rows, ...): their values.
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
Layer = Callable[..., torch.Tensor]
_KEYS = {"input": "input_args", "output": "output"}


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal values, float32."""
    return random.standard_normal(shape, np.float32)


def trained(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Values as of a trained layer, which no initialiser draws: scales of rows differ."""
    values = random.standard_normal(shape, np.float32)
    rows = np.exp(0.3 * random.standard_normal((shape[0], *[1] * (len(shape) - 1))))
    values *= (0.02 * rows).astype(np.float32)
    return values


def blocks(rows: int, elements: int) -> Iterator[slice]:
    """Slices of the first axis, about `BLOCK` of `elements` each."""
    step = max(BLOCK * rows // max(elements, 1), 1)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


@dataclass
class Noise:
    """Rounding of one side: every value anew, and unlike that of the other side."""

    random: np.random.Generator
    size: float = NOISE

    def __post_init__(self) -> None:
        drawn = self.random.standard_normal(_NOISE_PERIOD, np.float32)
        self._factors = np.float32(1) + np.float32(self.size) * drawn

    def on(self, values: np.ndarray) -> np.ndarray:
        """The values with noise relative to each, float32; integers and bool as they are."""
        if values.dtype.kind in "iub":
            return values
        start = int(self.random.integers(_NOISE_PERIOD))
        factors = np.resize(np.roll(self._factors, start), values.shape)
        return (values * factors).astype(np.float32)


class Call:
    """What a recorder of msprobe keeps of one call, on both sides."""

    def __init__(self, pair: Pair, name: str, is_backward: bool = False) -> None:
        self.pair, self.name = pair, name
        self.keys = {"input": "input", "output": "output"} if is_backward else _KEYS

    def value(
        self, section: str, slot: str, shape: tuple[int, ...], dtype: Any = np.float32
    ) -> Sides:
        """Files of an input, output or parameter, to be filled."""
        return self.pair.files(
            self.name, self.keys.get(section, section), section, slot, shape, dtype
        )

    def row(self, section: str = "output", slot: str = "0") -> str:
        """What the result calls the row of a value."""
        return f"{self.name}.{section}.{slot}"


class Pair:
    """Both sides of a case in a folder of their own, as msprobe dumps or as checkpoints.

    Parameters
    ----------
    folder : Path
        Gets ``left`` and ``right``.
    elements : int
        About what the tensor that the fault touches has.
    seed : int
    hints : bool
        Whether layers are called as in a language model, or by numbers alone.
    """

    def __init__(self, folder: Path, elements: int, seed: int, *, hints: bool = True) -> None:
        self.folder, self.elements, self.hints = folder, elements, hints
        self.random = np.random.default_rng(seed)
        self.noises = [Noise(np.random.default_rng([seed, side])) for side in (1, 2)]
        self.paths = folder / "left", folder / "right"
        self._data: list[dict[str, dict[str, Any]]] = [{}, {}]
        self._written: list[tuple[dict[str, Any], np.memmap]] = []

    def path(self, hinted: str, number: int) -> str:
        """A layer's place in the network."""
        return hinted if self.hints else f"net.{number}"

    def call(self, path: str, layer: str, direction: str = "forward") -> Call:
        """A call of a module; its rows stand in the order in which they are asked for."""
        return Call(self, f"Module.{path}.{layer}.{direction}.0", direction == "backward")

    def operator(self, name: str) -> Call:
        """A call of an operator: ``Functional.add``."""
        return Call(self, f"{name}.0.forward")

    def gradient(self, path: str, layer: str, leaf: str, shape: tuple[int, ...]) -> Sides:
        """Files of the gradient of a parameter."""
        return self.files(f"Module.{path}.{layer}.parameters_grad.0", leaf, "", leaf, shape)

    def files(
        self,
        call: str,
        key: str,
        section: str,
        slot: str,
        shape: tuple[int, ...],
        dtype: Any = np.float32,
    ) -> Sides:
        """A file on each side, mapped into memory, and what ``dump.json`` says of it."""
        name = ".".join(part for part in (call, section, slot) if part)
        made = []
        for data, path in zip(self._data, self.paths, strict=True):
            folder = path / "step0" / "rank0" / "dump_tensor_data"
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / f"{name}.npy"
            values = np.lib.format.open_memmap(file, "w+", np.dtype(dtype), shape)
            said = {"type": "torch.Tensor", "dtype": f"torch.{np.dtype(dtype)}"}
            said |= {"shape": [*shape], "requires_grad": False, "data_name": file.name}
            entry = data.setdefault(call, {})
            if key == "parameters":
                entry.setdefault(key, {})[slot] = said
            else:
                entry.setdefault(key, []).append(said)
            self._written.append((said, values))
            made.append(values)
        return made[0], made[1]

    def write(self) -> tuple[Path, Path]:
        """The json files of both sides; the tensors are on disk then."""
        while self._written:
            said, values = self._written.pop()
            parts = [values[rows] for rows in blocks(len(values), values.size)]
            with np.errstate(all="ignore"):
                wide = [(p.max(), p.min(), p.sum(dtype=np.float64), _square(p)) for p in parts]
            most, least, sums, squares = (list(column) for column in zip(*wide, strict=True))
            said |= {"Max": float(max(most)), "Min": float(min(least))}
            said |= {"Mean": float(sum(sums) / values.size), "Norm": float(sum(squares) ** 0.5)}
            values.flush()
        for data, path in zip(self._data, self.paths, strict=True):
            rank = path / "step0" / "rank0"
            head = {"task": "tensor", "level": "mix", "framework": "pytorch"}
            head |= {"dump_data_dir": str(rank / "dump_tensor_data"), "data": data}
            calls = [call for call in data if ".parameters_grad." not in call]
            stack = ["File net.py, line 1, in forward, \n return layer(x)"]
            for file, content in (
                ("dump.json", head),
                ("construct.json", dict.fromkeys(calls)),
                ("stack.json", {"0": [[c for c in calls if "forward" in c], stack]}),
            ):
                (rank / file).write_text(json.dumps(content))
        return self.paths

    def checkpoints(
        self, left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]
    ) -> tuple[Path, Path]:
        """Both sides as safetensors instead."""
        self.paths = self.folder / "left.safetensors", self.folder / "right.safetensors"
        for path, arrays in zip(self.paths, (left, right), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            save_checkpoint(arrays, path, "safetensors")
        return self.paths


def _square(values: np.ndarray) -> float:
    wide = np.asarray(values, np.float64).ravel()
    return float(wide @ wide)


@dataclass
class Computed:
    """One call whose sides were computed in their own way.

    Attributes
    ----------
    path, layer : str
        Of an operator `path` is empty and `layer` its name with the prefix, ``Functional.add``.
    wrong, right : callable
        ``layer(*inputs, **parameters)`` in torch: what the left and the right side computed.
    given : sequence of (shape, draw) or Sides
        Inputs, rows along the first axis; values of an earlier call as its files.
    parameters : mapping of str to ndarray
        The same on both sides.
    whole : bool
        Whether rows depend on each other: computed at once then.
    exact : bool
        Whether the layer copies values, which no framework rounds.
    carried : float
        Relative error of the left side's inputs that stems from before.
    """

    path: str
    layer: str
    wrong: Layer
    right: Layer
    given: Sequence[tuple[tuple[int, ...], Draw] | Sides]
    parameters: Mapping[str, np.ndarray] = field(default_factory=dict)
    whole: bool = False
    exact: bool = False
    carried: float = 0.0

    def on(self, pair: Pair) -> tuple[Call, Sides]:
        """Draw the inputs, compute and write all."""
        call = pair.call(self.path, self.layer) if self.path else pair.operator(self.layer)
        inputs = [
            self._drawn(pair, call, str(place), *one)
            if callable(one[1])
            else _copied(call, place, one)  # type: ignore[arg-type]
            for place, one in enumerate(self.given)
        ]
        for name, values in self.parameters.items():
            for file in call.value("parameters", name, values.shape, values.dtype):
                file[...] = values
        return call, self._outputs(pair, call, inputs)

    def _drawn(
        self, pair: Pair, call: Call, slot: str, shape: tuple[int, ...], draw: Draw
    ) -> Sides:
        files: Sides | None = None
        for rows in blocks(shape[0], int(np.prod(shape))):
            values = draw(pair.random, (rows.stop - rows.start, *shape[1:]))
            files = files or call.value("input", slot, shape, values.dtype)
            for side, (file, noise) in enumerate(zip(files, pair.noises, strict=True)):
                moved = values
                if self.carried and side == 0:
                    moved = values * (1 + self.carried * normal(pair.random, values.shape))
                file[rows] = moved if self.exact else noise.on(moved)
        assert files is not None
        return files

    def _outputs(self, pair: Pair, call: Call, inputs: Sequence[Sides]) -> Sides:
        parameters = {k.replace(".", "_"): torch.from_numpy(v) for k, v in self.parameters.items()}
        rows = len(inputs[0][0])
        size = max(one[0].size for one in inputs)
        files: Sides | None = None
        for part in [slice(0, rows)] if self.whole else blocks(rows, size):
            for side, (layer, noise) in enumerate(
                zip((self.wrong, self.right), pair.noises, strict=True)
            ):
                taken = slice(None) if self.whole else part
                given = [torch.from_numpy(np.array(one[side][taken])) for one in inputs]
                with torch.no_grad():
                    values = layer(*given, **parameters).contiguous().numpy()
                if files is None:
                    first = values.shape[0] if self.whole else rows
                    files = call.value("output", "0", (first, *values.shape[1:]), values.dtype)
                files[side][taken] = values if self.exact else noise.on(values)
        assert files is not None
        return files


def _copied(call: Call, place: int, sides: Sides) -> Sides:
    """Values of an earlier call as an input of this one."""
    files = call.value("input", str(place), sides[0].shape, sides[0].dtype)
    for file, values in zip(files, sides, strict=True):
        for rows in blocks(len(values), values.size):
            file[rows] = values[rows]
    return files


def bystander(pair: Pair, number: int) -> None:
    """A small right layer, so that a place can be wrong."""
    weight = trained(pair.random, (96, 64))

    def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x @ weight.T

    given, parameters = [((40, 64), normal)], {"weight": weight}
    Computed(f"net.{number}", "Linear", layer, layer, given, parameters).on(pair)
