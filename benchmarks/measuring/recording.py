"""A network recorded as msprobe records one at its level L0: forward, backward, in its files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Recorder:
    """What every layer without layers inside reads, holds and gives, written as it happens.

    The files, keys and their order are those of dumps of msprobe 26.2.0 (``task`` tensor, ``level``
    L0). One step, one rank, tensors alone as arguments.

    Parameters
    ----------
    net : torch.nn.Module
    folder : path
        Gets ``step0/rank0``; must not exist.
    """

    def __init__(self, net: nn.Module, folder: Path) -> None:
        self.folder = folder / "step0" / "rank0"
        self.tensors = self.folder / "dump_tensor_data"
        self.tensors.mkdir(parents=True)
        self.data: dict[str, dict[str, Any]] = {}
        self.visits: Counter[str] = Counter()
        for path, layer in net.named_modules():
            if path and not [*layer.children()]:
                name = f"Module.{path}.{type(layer).__name__}"
                layer.register_forward_hook(self._forward(name))
                layer.register_full_backward_hook(self._backward(name))
                for leaf, parameter in layer.named_parameters():
                    parameter.register_hook(self._gradient(name, leaf))

    def _forward(self, name: str) -> Any:
        def hook(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            call = f"{name}.forward.{self.visits[name]}"
            self.visits[name] += 1
            self.data[call] = {
                "input_args": self._all(f"{call}.input", inputs),
                "input_kwargs": {},
                "output": self._all(f"{call}.output", (output,)),
                "parameters": {
                    leaf: self._one(f"{call}.parameters.{leaf}", parameter)
                    for leaf, parameter in layer.named_parameters()
                },
            }

        return hook

    def _backward(self, name: str) -> Any:
        def hook(layer: nn.Module, to_inputs: tuple[Any, ...], of_outputs: tuple[Any, ...]) -> None:
            call = f"{name}.backward.0"
            self.data[call] = {
                "input": self._all(f"{call}.input", of_outputs),
                "output": self._all(f"{call}.output", to_inputs),
            }

        return hook

    def _gradient(self, name: str, leaf: str) -> Any:
        def hook(gradient: torch.Tensor) -> None:
            call = f"{name}.parameters_grad.0"
            said = self.data.setdefault(call, {})
            said[leaf] = [self._one(f"{call}.{leaf}", gradient)]

        return hook

    def _all(self, name: str, values: tuple[torch.Tensor | None, ...]) -> list[dict[str, Any]]:
        given = [value for value in values if value is not None]
        return [self._one(f"{name}.{n}", value) for n, value in enumerate(given)]

    def _one(self, name: str, tensor: torch.Tensor) -> dict[str, Any]:
        values = tensor.detach()
        torch.save(values.clone(), self.tensors / f"{name}.pt")
        figures = {"Max": values.max(), "Min": values.min(), "Mean": values.mean()}
        return {
            "type": "torch.Tensor",
            "dtype": str(values.dtype),
            "shape": list(values.shape),
            **{word: figure.item() for word, figure in figures.items()},
            "Norm": values.norm().item(),
            "requires_grad": tensor.requires_grad,
            "data_name": f"{name}.pt",
        }

    def write(self) -> None:
        """The three json files beside the tensors."""
        calls = [call for call in self.data if ".parameters_grad." not in call]
        head = {"task": "tensor", "level": "L0", "framework": "pytorch"}
        head |= {"dump_data_dir": str(self.tensors), "data": self.data}
        forward = [call for call in calls if ".forward." in call]
        stack = ["File net.py, line 1, in forward, \n return layer(x)"]
        for file, content in (
            ("dump.json", head),
            ("construct.json", dict.fromkeys(calls)),
            ("stack.json", {"0": [forward, stack]}),
        ):
            (self.folder / file).write_text(json.dumps(content, indent=1))
