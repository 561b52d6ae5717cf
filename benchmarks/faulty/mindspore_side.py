"""The faultless side in MindSpore: the example nets with the torch side's sizes and weights."""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from typing import Any

import numpy as np

from faulty.capture import Record, array_of
from faulty.nets import GPT, ResBlock
from faulty.side import Side
from troubleshooter_nb.naming import Site

FAMILIES = ("gpt", "resnet")
# MindSpore's names of what torch calls otherwise, by the kind of cell.
_NAMES = {
    "LayerNorm": {"gamma": "weight", "beta": "bias"},
    "Embedding": {"embedding_table": "weight"},
    "BatchNorm2d": {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
    },
}


def as_in_mindspore(side: Side) -> None:
    """Leave out of the torch net what the example net does not have."""
    net: Any = side.net
    if isinstance(net, GPT):
        net.drop = None
    for block in net.modules():
        if isinstance(block, ResBlock):
            shared = block.relu
            del block.relu1
            # Not registered again: the layer is one, called twice.
            object.__setattr__(block, "relu1", shared)


def twin(net: Any) -> Any:
    """A MindSpore cell with the sizes and values of a torch net."""
    os.environ.setdefault("GLOG_v", "3")
    logging.getLogger().setLevel(logging.WARNING)
    import mindspore as ms
    from example_nets.sizes import GPTSizes, ResNetSizes

    ms.set_context(mode=ms.PYNATIVE_MODE)
    if isinstance(net, GPT):
        from example_nets.gpt_mindspore import GPT as Cell

        vocab, dim = net.tok.weight.shape
        heads, context = net.blocks[0].attn.heads, len(net.pos.weight)
        cell = Cell(GPTSizes(vocab, dim, heads, len(net.blocks), context), "none")
    else:
        from example_nets.resnet_mindspore import ResNet as Cell

        width, classes = net.conv1.out_channels, net.fc.out_features
        cell = Cell(ResNetSizes(len(net.layer1), width, classes, 16), "none")
    values = {name: array_of(tensor) for name, tensor in net.state_dict().items()}
    for path, module in cell.cells_and_names():
        names = _NAMES.get(type(module).__name__, {})
        for name, parameter in module._params.items():
            value = values[f"{path}.{names.get(name, name)}"]
            parameter.set_data(ms.Tensor(value))
    return cell.set_train(False)


def records_of(side: Side, level: str, has_gradients: bool) -> list[Record]:
    """What msprobe would record of the step: forward values and gradients of parameters."""
    import mindspore as ms
    from mindspore import ops

    cell = twin(side.net)
    recorder = _Recorder(cell, level)
    inputs = ms.Tensor(side.batches[0][0][0].numpy())
    target = ms.Tensor(side.batches[0][1].reshape(-1).numpy().astype(np.int32))
    handles = recorder.hooks()
    try:
        if not has_gradients:
            cell(inputs)
            return recorder.records

        def loss(inputs: Any, target: Any) -> Any:
            output = cell(inputs)
            return ops.cross_entropy(output.reshape(-1, output.shape[-1]), target)

        weights = cell.trainable_params()
        _, gradients = ms.value_and_grad(loss, None, weights)(inputs, target)
    finally:
        for handle in handles:
            handle.remove()
    by_id = {id(w): g.asnumpy() for w, g in zip(weights, gradients, strict=True)}
    recorder.keep_gradients(by_id)
    return recorder.records


class _Recorder:
    """Records of one step of a cell."""

    def __init__(self, cell: Any, level: str) -> None:
        self.cell = cell
        self.level = level
        self.records: list[Record] = []
        self.calls: dict[str, int] = defaultdict(int)
        self.stack: list[str] = []

    def hooks(self) -> list[Any]:
        """Register on every cell but the root and lists."""
        found = []
        for path, module in self.cell.cells_and_names():
            layer = type(module).__name__
            is_leaf = not list(module.cells())
            if path and layer != "CellList" and (self.level == "module" or is_leaf):
                found += self._hook(path, module, layer)
        return found

    def _hook(self, path: str, module: Any, layer: str) -> list[Any]:
        def before(cell: Any, args: Any) -> None:
            call = self.calls[path]
            self.calls[path] += 1
            name = f"Cell.{path}.{layer}.forward.{call}"
            self._keep(name, "input", args, path, call, layer)
            for slot, parameter in module._params.items():
                role = "buffer" if slot.startswith("moving") else "parameter"
                site = Site("module", path, call, "forward", role, slot)
                self._add(f"{name}.parameters.{slot}", site, parameter.asnumpy(), layer)
            self.stack.append(name)

        def after(cell: Any, args: Any, output: Any) -> None:
            name = self.stack.pop()
            call = int(name.rpartition(".")[2])
            value = output if isinstance(output, tuple) else (output,)
            self._keep(name, "output", value, path, call, layer)

        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]

    def _keep(self, name: str, role: Any, values: Any, path: str, call: int, layer: str) -> None:
        for slot, value in enumerate(values):
            if hasattr(value, "asnumpy"):
                site = Site("module", path, call, "forward", role, str(slot))
                self._add(f"{name}.{role}.{slot}", site, value.asnumpy(), layer)

    def _add(self, name: str, site: Site, array: np.ndarray, layer: str) -> None:
        parent = self.stack[-1] if self.stack else ""
        self.records.append(Record(name, site, array.copy(), 0, layer, parent, site.path))

    def keep_gradients(self, by_id: dict[int, np.ndarray]) -> None:
        """In the order of the parameters."""
        for path, module in self.cell.cells_and_names():
            layer = type(module).__name__
            for slot, parameter in module._params.items():
                if id(parameter) in by_id:
                    site = Site("module", path, 0, "backward", "parameter", slot)
                    name = f"Cell.{path}.{layer}.parameters_grad.0.{slot}"
                    self._add(name, site, by_id[id(parameter)], layer)
