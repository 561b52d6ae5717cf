"""What every layer of a small network reads, holds and gives, as a dump in msprobe's layout.

A dump is two kinds of files in one folder per step: ``dump.json`` lists the calls in the order in
which they ran, and ``dump_tensor_data`` holds one npy file per tensor. `troubleshooter_nb` opens
the folder above the steps. For a network of your own use msprobe, or hooks like these.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Recorder:
    """Writes one step after another; hooks of the network call it while the step runs.

    Gradients inside the network are not recorded, those of the parameters are.

    Parameters
    ----------
    model : torch.nn.Module or mindspore.nn.Cell
    folder : path
        Gets ``step<n>/rank0``; an earlier dump there is replaced.
    """

    def __init__(self, model: Any, folder: str | Path) -> None:
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.framework = "pytorch" if hasattr(model, "named_modules") else "mindspore"
        self._start()
        self.names: dict[str, str] = {}
        self.hooks: list[Any] = []
        named = model.named_modules() if self._is_torch() else model.cells_and_names()
        for path, module in named:
            if path:
                word = "Module" if self._is_torch() else "Cell"
                self.names[path] = f"{word}.{path}.{type(module).__name__}"
                self.hooks.append(module.register_forward_pre_hook(self._before(path)))
                self.hooks.append(module.register_forward_hook(self._after(path)))

    def _is_torch(self) -> bool:
        return self.framework == "pytorch"

    def _start(self) -> None:
        """Forget the last step."""
        self.calls: dict[str, dict[str, Any]] = {}
        self.parents: dict[str, str | None] = {}
        self.tensors: dict[str, np.ndarray] = {}
        self.count: Counter[str] = Counter()
        self.running: list[str] = []

    def _before(self, path: str) -> Any:
        def hook(module: Any, inputs: Any) -> None:
            call = f"{self.names[path]}.forward.{self.count[path]}"
            self.parents[call] = self.running[-1] if self.running else None
            # An entry made now keeps the place where the call began; inputs may change in place.
            self.calls[call] = {
                "input_args": self._kept(f"{call}.input", inputs),
                "input_kwargs": {},
                "parameters": {
                    name: self._keep(f"{call}.parameters.{name}", values)
                    for name, values in self._own_parameters(module)
                },
            }
            self.running.append(call)

        return hook

    def _after(self, path: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            call = self.running.pop()
            self.count[path] += 1
            record = self.calls.pop(call)
            self.calls[call] = record  # listed when it ends, as msprobe lists it
            record["output"] = self._kept(f"{call}.output", output)

        return hook

    def _own_parameters(self, module: Any) -> Iterator[tuple[str, Any]]:
        """Trained parameters of a module itself, those of its children left out."""
        if self._is_torch():
            yield from module.named_parameters(recurse=False)
        else:
            for parameter in module.get_parameters(expand=False):
                if parameter.requires_grad:
                    yield parameter.name.rpartition(".")[2], parameter

    def _kept(self, name: str, values: Any) -> list[dict[str, Any]]:
        values = values if isinstance(values, tuple | list) else [values]
        return [self._keep(f"{name}.{number}", value) for number, value in enumerate(values)]

    def _keep(self, name: str, values: Any) -> dict[str, Any]:
        """Copy a tensor; what dump.json says of it."""
        if not isinstance(values, np.ndarray):
            values = values.detach().numpy() if self._is_torch() else values.asnumpy()
        array = self.tensors[name] = np.array(values)
        kind = "torch" if self._is_torch() else "mindspore"
        dtype = f"torch.{array.dtype}" if self._is_torch() else str(array.dtype).capitalize()
        said = {"type": f"{kind}.Tensor", "dtype": dtype, "shape": list(array.shape)}
        return said | {"data_name": f"{name}.npy"}

    def close(self) -> None:
        """Take the hooks off the network; later steps run as without them."""
        for hook in self.hooks:
            hook.remove()

    def write(self, step: int, gradients: Mapping[str, np.ndarray]) -> None:
        """Write the step that ran, with the gradients of its parameters; then forget it.

        Parameters
        ----------
        step : int
        gradients : mapping of str to ndarray
            By parameter names of the framework, in the order of the network.
        """
        for parameter in reversed(gradients):
            path, _, leaf = parameter.rpartition(".")
            name = f"{self.names[path]}.parameters_grad.0"
            kept = self._keep(f"{name}.{leaf}", gradients[parameter])
            self.calls.setdefault(name, {})[leaf] = [kept]
        folder = self.folder / f"step{step}" / "rank0"
        values = folder / "dump_tensor_data"
        values.mkdir(parents=True)
        for name, array in self.tensors.items():
            np.save(values / f"{name}.npy", array)
        head = {"task": "tensor", "level": "L0", "framework": self.framework}
        document = head | {"dump_data_dir": "./dump_tensor_data", "data": self.calls}
        (folder / "dump.json").write_text(json.dumps(document), encoding="utf-8")
        (folder / "construct.json").write_text(json.dumps(self.parents), encoding="utf-8")
        self._start()
