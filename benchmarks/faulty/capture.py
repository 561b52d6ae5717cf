"""Records of one training step of a torch net, as a fault may still change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import torch
from torch import nn

import troubleshooter_nb as tnb
from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.formats.record_entries import TOTAL
from troubleshooter_nb.formats.recorded import with_nonfinite
from troubleshooter_nb.naming import Site, parse_msprobe_call

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


def records_of_dump(dump: Dump, step: int) -> list[Record]:
    """The tensors of a recorded step; what is no tensor and counters of batches are left out."""
    names = ("name", "kind", "path", "call", "direction", "role", "slot", "layer", "parent")
    columns = [dump.columns[name].tolist() for name in names]
    found = []
    for source, (name, *site, layer, parent) in zip(
        dump.sources, zip(*columns, strict=True), strict=True
    ):
        if source is None or site[5] == "num_batches_tracked":
            continue
        array = source.read(0, int(np.prod(source.shape, dtype=int))).reshape(source.shape)
        where = Site(*site)
        around = parse_msprobe_call(parent) if parent else None
        place = where.path if where.kind == "module" else around.path if around else ""
        found.append(Record(name, where, array, step, layer, parent, place))
    return found


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

    @contextmanager
    def during(self, step: int) -> Iterator[None]:
        """Record what runs inside."""
        self.step = step
        level = "both" if self.level == "api" else "module"
        recording = tnb.record(
            self.net, level=level, names=self._is_kept, gradients=self.has_backward
        )
        with recording:
            yield
        found = records_of_dump(recording.dump, step)
        if self.level == "api":
            found = self._operators(found)
        # Those of parameters are taken when the step has done what it does with them.
        self.records += [
            r for r in found if (r.site.direction, r.site.role) != ("backward", "parameter")
        ]

    def _is_kept(self, site: Site) -> bool:
        """Whether a dump of this level holds a call."""
        if site.kind == "api":
            return site.path.rpartition(".")[2].strip("_") in OPERATORS
        module = self.net.get_submodule(site.path)
        # What torch's attention holds is never called.
        is_leaf = isinstance(module, nn.MultiheadAttention) or not [*module.children()]
        return self.level != "leaf" or is_leaf

    def _operators(self, records: list[Record]) -> list[Record]:
        """The records of operators; a layer that computes in its own way is one operator."""
        opaque = {
            name: type(module).__name__
            for name, module in self.net.named_modules()
            if is_opaque(module)
        }
        parents = {call_of(r): r.parent for r in records}
        numbers: dict[str, int] = defaultdict(int)
        known: dict[tuple[str, int], int] = {}
        found = []
        for record in records:
            site = record.site
            if site.kind == "module":
                layer = opaque.get(site.path, "")
                shown = as_operator(record, layer) if layer else None
                if shown is None or is_inside(record.parent, parents, opaque):
                    continue
            elif not record.where or is_inside(record.parent, parents, opaque):
                continue
            else:
                shown = record
            key = (site.path, site.call)
            path = shown.site.path
            if key not in known:
                known[key] = numbers[path]
                numbers[path] += 1
            found.append(renumbered(shown, known[key]))
        return found

    def finish(self) -> None:
        """All steps are done."""

    def keep_gradients(self, in_backward_order: bool) -> None:
        """Gradients of parameters, after the backward pass and what was done with them."""
        found = [
            (path, module, slot, parameter)
            for path, module in self.net.named_modules()
            for slot, parameter in module.named_parameters(recurse=False)
            if parameter.grad is not None
        ]
        for path, module, slot, parameter in reversed(found) if in_backward_order else found:
            layer = type(module).__name__
            site = Site("module", path, 0, "backward", "parameter", slot)
            name = f"Module.{path}.{layer}.parameters_grad.0.{slot}"
            array = array_of(parameter.grad)
            self.records.append(Record(name, site, array, self.step, layer, "", path))


class FolderRecorder(Recorder):
    """Lets `tnb.record` write a folder over all steps; the records are those of the folder."""

    def __init__(self, net: nn.Module, level: str, folder: Path) -> None:
        super().__init__(net, level)
        self.recording = tnb.record(net, to=folder, level="both" if level == "api" else "module")

    @contextmanager
    def during(self, step: int) -> Iterator[None]:
        """Record what runs inside."""
        if step:
            self.recording.step()
        else:
            self.recording.start()
        yield

    def keep_gradients(self, in_backward_order: bool) -> None:
        """They are recorded as they arrive."""

    def finish(self) -> None:
        """Stop, and read what was written."""
        dump = self.recording.stop()
        for step in sorted({int(step) for step in dump.columns["step"]}):
            self.records += records_of_dump(dump.select(step=step), step)


def call_of(record: Record) -> str:
    """The name of the forward call that a record belongs to."""
    site = record.site
    if site.kind == "module":
        path = f"Module.{site.path}." if site.path else "Module."
        return f"{path}{record.layer}.forward.{site.call}"
    return f"{site.path}.{site.call}.forward"


def is_inside(parent: str, parents: Mapping[str, str], paths: Mapping[str, str]) -> bool:
    """Whether a call ran inside a module of one of the paths."""
    while parent:
        call = parse_msprobe_call(parent)
        if call is not None and call.path in paths:
            return True
        parent = parents.get(parent, "")
    return False


def as_operator(record: Record, layer: str) -> Record | None:
    """What a layer read or gave as the one operator that it stands for."""
    kind, name, places = OPERATOR_OF[layer]
    site = record.site
    slot, role, direction = site.slot, site.role, site.direction
    if role in ("parameter", "buffer") and direction == "forward":
        slot, role = str(places.get(slot, "")), "input"
    elif (direction, role) not in (
        ("forward", "input"),
        ("forward", "output"),
        ("backward", "input"),
    ):
        return None
    if not slot:
        return None
    shown = Site("api", f"{kind}.{name}", site.call, direction, role, slot)
    return Record("", shown, record.array, record.step, name, record.parent, site.path)


def renumbered(record: Record, call: int) -> Record:
    """The record of an operator as that of another call."""
    site = replace(record.site, call=call)
    name = f"{site.path}.{call}.{site.direction}.{site.role}.{site.slot}"
    return replace(record, name=name, site=site)


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
    is_gradient = site.role == "parameter" and site.direction == "backward"
    if keep == "outputs":
        return site.role == "output" and site.direction == "forward"
    if keep == "calls":
        return site.role in ("input", "output", "parameter") and site.direction == "forward"
    if keep == "saved":
        is_of_output = ".backward." in record.name and ".input." in record.name and site.slot == "0"
        return is_gradient or is_of_output or is_kept(record, "calls")
    if keep == "no buffers":
        # Nor whole gradients of values that several calls read.
        return site.role != "buffer" and f".{TOTAL}." not in record.name
    if keep == "training":
        # A state dict has no buffers that are not persistent.
        return is_gradient or (is_kept(record, "checkpoint") and site.slot != "inv_freq")
    if keep == "checkpoint":
        return site.role in ("parameter", "buffer") and site.direction == "forward"
    if keep == "gradients":
        return is_gradient
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
