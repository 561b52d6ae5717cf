"""Records one training step of a torch net: hooks on modules, or a mode that sees operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.formats.recorded import with_nonfinite
from troubleshooter_nb.naming import Site

# What operator-level dumps of msprobe hold; views and indexing are not in its list.
OPERATORS = set(
    "linear conv1d conv2d conv_transpose2d embedding layer_norm group_norm batch_norm relu gelu "
    "silu tanh leaky_relu rrelu softmax matmul add mul div sub avg_pool2d adaptive_avg_pool2d "
    "interpolate masked_fill mean square rsqrt cat sigmoid lstm dropout sin cos".split()
)

# The operator of a layer and where its parameters and buffers stand among the arguments. A layer
# with a fault or with other rounding is recorded as the one operator it stands for: what it is
# made of here is of no account, and would shift the numbers of all later calls.
OPERATOR_OF = {
    "Linear": ("Functional", "linear", {"weight": 1, "bias": 2}),
    "Conv1d": ("Functional", "conv1d", {"weight": 1, "bias": 2}),
    "Conv2d": ("Functional", "conv2d", {"weight": 1, "bias": 2}),
    "LayerNorm": ("Functional", "layer_norm", {"weight": 2, "bias": 3}),
    "GroupNorm": ("Functional", "group_norm", {"weight": 2, "bias": 3}),
    "BatchNorm2d": (
        "Functional",
        "batch_norm",
        {"running_mean": 1, "running_var": 2, "weight": 3, "bias": 4},
    ),
    "GELU": ("Functional", "gelu", {}),
    "ReLU": ("Functional", "relu", {}),
    "RReLU": ("Functional", "rrelu", {}),
    "SiLU": ("Functional", "silu", {}),
    "Tanh": ("Torch", "tanh", {}),
    "LeakyReLU": ("Functional", "leaky_relu", {}),
    "Dropout": ("Functional", "dropout", {}),
}


@dataclass
class Record:
    """One value of a dump before it is frozen; a fault may still change it."""

    name: str
    site: Site
    array: np.ndarray
    step: int
    layer: str = ""
    parent: str = ""
    # Module in whose forward this was computed: what the truth speaks of.
    where: str = ""


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """A copy of a tensor in its own dtype, bfloat16 through ml_dtypes."""
    tensor = tensor.detach().clone().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def tensors_in(value: Any) -> list[tuple[str, torch.Tensor]]:
    """Tensors of an argument or output, with msprobe's slots: ``0``, ``1.0``."""
    if isinstance(value, torch.Tensor):
        return [("", value)]
    if isinstance(value, (tuple, list)):
        return [
            (f"{i}.{slot}".rstrip("."), tensor)
            for i, item in enumerate(value)
            for slot, tensor in tensors_in(item)
        ]
    return []


class Recorder:
    """Collects the records of one side over its steps.

    Parameters
    ----------
    level : {"module", "leaf", "api"}
        Containers and leaves, leaves only, or operators.
    """

    def __init__(self, net: nn.Module, level: str, has_backward: bool = True) -> None:
        self.net = net
        self.has_backward = has_backward
        self.level = level
        self.records: list[Record] = []
        self.step = 0
        self.stack: list[tuple[str, str]] = []
        self.calls: dict[str, int] = defaultdict(int)
        self.mode = OperatorMode(self)
        # Layers whose inside is not recorded, and that are running.
        self.opaque = 0

    @contextmanager
    def during(self, step: int) -> Iterator[None]:
        """Record what runs inside."""
        self.step = step
        self.calls.clear()
        handles = [h for name, m in self._modules() for h in self._hook(name, m)]
        try:
            if self.level == "api":
                with self.mode:
                    yield
            else:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _modules(self) -> list[tuple[str, nn.Module]]:
        return [
            (name, module)
            for name, module in self.net.named_modules()
            if name and not isinstance(module, nn.ModuleList)
        ]

    def _hook(self, path: str, module: nn.Module) -> list[Any]:
        layer = getattr(module, "shown", type(module).__name__)
        is_leaf = not list(module.children())
        keeps = self.level == "module" or (self.level == "leaf" and is_leaf)
        visits: list[int] = []

        def before(module: nn.Module, args: tuple[Any, ...]) -> None:
            call = self.calls[path]
            self.calls[path] += 1
            visits.append(call)
            name = f"Module.{path}.{layer}.forward.{call}"
            if keeps:
                self._keep(name, "input", args, path, call, layer)
                if is_leaf or list(module.parameters(recurse=False)):
                    self._keep_parameters(name, module, path, call, layer)
            self.opaque += is_opaque(module)
            self.stack.append((path, name))

        def after(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            if self.level == "api" and is_opaque(module):
                self.opaque -= 1
                self.mode.record_layer(module, layer, args[0], output)
            self.stack.pop()
            if keeps:
                call = visits[-1]
                name = f"Module.{path}.{layer}.forward.{call}"
                value = output if isinstance(output, tuple) else (output,)
                self._keep(name, "output", value, path, call, layer)

        handles = [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        if not keeps or not self.has_backward:
            return handles

        def given(module: nn.Module, gradients: Any) -> None:
            call = visits[-1]
            name = f"Module.{path}.{layer}.backward.{call}"
            self._keep(name, "input", gradients, path, call, layer, "backward")

        def returned(module: nn.Module, inputs: Any, outputs: Any) -> None:
            call = visits.pop()
            name = f"Module.{path}.{layer}.backward.{call}"
            self._keep(name, "output", inputs, path, call, layer, "backward")

        handles.append(module.register_full_backward_pre_hook(given))
        handles.append(module.register_full_backward_hook(returned))
        return handles

    def _keep(
        self,
        name: str,
        role: Any,
        value: Any,
        path: str,
        call: int,
        layer: str,
        direction: Any = "forward",
    ) -> None:
        parent = self.stack[-1][1] if self.stack else ""
        for slot, tensor in tensors_in(value):
            site = Site("module", path, call, direction, role, slot)
            full = f"{name}.{role}.{slot}"
            array = array_of(tensor)
            self.records.append(Record(full, site, array, self.step, layer, parent, path))

    def _keep_parameters(
        self, name: str, module: nn.Module, path: str, call: int, layer: str
    ) -> None:
        parent = self.stack[-1][1] if self.stack else ""
        found: list[tuple[Any, str, torch.Tensor]] = [
            ("parameter", slot, tensor) for slot, tensor in module.named_parameters(recurse=False)
        ]
        found += [("buffer", slot, tensor) for slot, tensor in module.named_buffers(recurse=False)]
        for role, slot, tensor in found:
            if slot == "num_batches_tracked":
                continue
            site = Site("module", path, call, "forward", role, slot)
            array = array_of(tensor)
            full = f"{name}.parameters.{slot}"
            self.records.append(Record(full, site, array, self.step, layer, parent, path))

    def keep_gradients(self, in_backward_order: bool) -> None:
        """Gradients of parameters, after the backward pass."""
        found = [
            (path, module, slot, parameter)
            for path, module in self.net.named_modules()
            for slot, parameter in module.named_parameters(recurse=False)
            if parameter.grad is not None
        ]
        for path, module, slot, parameter in reversed(found) if in_backward_order else found:
            layer = getattr(module, "shown", type(module).__name__)
            site = Site("module", path, 0, "backward", "parameter", slot)
            name = f"Module.{path}.{layer}.parameters_grad.0.{slot}"
            array = array_of(parameter.grad)
            self.records.append(Record(name, site, array, self.step, layer, "", path))


class OperatorMode(TorchFunctionMode):
    """Records the operators that user code and layers call."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.__name__.strip("_")
        output = func(*args, **kwargs)
        if name not in OPERATORS or not self.recorder.stack or self.recorder.opaque:
            return output
        self._record(self._kind(func), name, (*args, *kwargs.values()), output)
        return output

    def _kind(self, func: Callable[..., Any]) -> str:
        full = resolve_name(func) or ""
        if "functional" in full:
            return "Functional"
        return "Tensor" if ".Tensor." in full else "Torch"

    def record_layer(self, module: nn.Module, layer: str, given: Any, output: Any) -> None:
        """Record a layer as the operator it stands for."""
        kind, name, places = OPERATOR_OF[layer]
        args = [given] + [None] * max(places.values(), default=0)
        for slot, place in places.items():
            args[place] = getattr(module, slot)
        with torch.no_grad():
            self._record(kind, name, tuple(args), output)

    def _record(self, kind: str, name: str, args: tuple[Any, ...], output: Any) -> None:
        recorder = self.recorder
        call = recorder.calls[f"{kind}.{name}"]
        recorder.calls[f"{kind}.{name}"] += 1
        where, parent = recorder.stack[-1]
        base = f"{kind}.{name}.{call}"

        def keep(value: torch.Tensor, role: Any, slot: str, direction: Any = "forward") -> None:
            site = Site("api", f"{kind}.{name}", call, direction, role, slot)
            full = f"{base}.{direction}.{role}.{slot}"
            array = array_of(value)
            recorder.records.append(Record(full, site, array, recorder.step, name, parent, where))

        for slot, tensor in tensors_in(args):
            keep(tensor, "input", slot)
        outputs = output if isinstance(output, tuple) else (output,)
        for slot, tensor in tensors_in(outputs):
            keep(tensor, "output", slot)
            if tensor.requires_grad:
                tensor.register_hook(lambda grad, slot=slot: keep(grad, "input", slot, "backward"))


def is_opaque(module: nn.Module) -> bool:
    """Whether a layer computes in another way than its class does."""
    return "forward" in module.__dict__ and type(module).__name__ in OPERATOR_OF


def dump_of(records: list[Record], keep: str, label: str, is_widened: bool) -> Dump:
    """The records as a dump: everything, or the part that users often hold.

    Parameters
    ----------
    keep : {"all", "outputs", "statistics", "checkpoint", "gradients"}
    is_widened : bool
        Store bfloat16 as float32, as npy files do.
    """
    entries = []
    for order, record in enumerate(r for r in records if is_kept(r, keep)):
        array = record.array
        if is_widened and array.dtype == ml_dtypes.bfloat16:
            array = array.astype(np.float32)
        common = {
            "name": record.name,
            "site": record.site,
            "step": record.step,
            "order": order,
            "layer": record.layer,
            "parent": record.parent,
        }
        if keep == "statistics" and array.dtype.kind not in "b":
            entries.append(
                Entry(
                    **common,
                    statistics=statistics_of(array),
                    dtype=str(array.dtype),
                    shape=array.shape,
                )
            )
        else:
            entries.append(Entry(**common, source=ArrayInMemory(array)))
    return Dump.from_entries(entries, label=label, format="msprobe")


def is_kept(record: Record, keep: str) -> bool:
    """Whether this kind of dump holds the record."""
    site = record.site
    if keep == "outputs":
        return site.role == "output" and site.direction == "forward"
    if keep == "checkpoint":
        return site.role in ("parameter", "buffer") and site.direction == "forward"
    if keep == "gradients":
        return site.role == "parameter" and site.direction == "backward"
    return True


def statistics_of(array: np.ndarray) -> dict[str, float]:
    """The four figures that msprobe keeps, as its files are read here."""
    wide = array.astype(np.float64)
    if not wide.size:
        return {}
    with np.errstate(all="ignore"):
        figures = {
            "max": float(wide.max()),
            "min": float(wide.min()),
            "mean": float(np.float32(wide.mean())),
            "l2": float(np.float32(np.sqrt((wide**2).sum()))),
        }
    return with_nonfinite(figures)
