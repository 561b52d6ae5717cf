"""The values of one step: measured, and written under each name that a dump has for them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.capture.plan import Event
from troubleshooter_nb.compat.msprobe.figures import checksum_of, figures_of
from troubleshooter_nb.compat.msprobe.generations import Generation
from troubleshooter_nb.errors import WriteError
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.msprobe_records import dtype_text
from troubleshooter_nb.formats.msprobe_tensors import FOLDER
from troubleshooter_nb.formats.npy_dir import safe_name
from troubleshooter_nb.formats.npy_file import write_npy
from troubleshooter_nb.formats.pth_writer import torch_holds, write_pth_tensor
from troubleshooter_nb.formats.record_layout import describes_value
from troubleshooter_nb.formats.record_layout import figures_of as said_figures
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.sketches import statistics_of

_KEYS = {"max": "Max", "min": "Min", "mean": "Mean", "l2": "Norm"}


@dataclass(frozen=True)
class TensorFacts:
    """What is written of every tensor.

    `framework` is msprobe's word (``pytorch``); `slices` are applied before all else.
    """

    framework: str
    generation: Generation
    stores: bool = False
    checksums: bool = False
    slices: tuple[Mapping[str, int], ...] = ()

    @property
    def is_torch(self) -> bool:
        """Whether tensors are torch's, and stored as such."""
        return self.framework == "pytorch"


@dataclass
class _Value:
    dtype: str
    shape: tuple[int, ...]
    array: np.ndarray | None = None
    statistics: Mapping[str, Any] = field(default_factory=dict)
    leaf: dict[str, Any] | None = None  # what is written of it under any name
    checksum: str = ""
    file: Path | None = None
    names: list[str] = field(default_factory=list)  # of files that wait for the array


class StepTensors:
    """The values of one step in one folder.

    Parameters
    ----------
    folder : Path
        Of the step and rank; its folder of tensors is made with the first file.
    facts : TensorFacts
    """

    def __init__(self, folder: Path, facts: TensorFacts) -> None:
        self.folder = folder / FOLDER
        self._facts = facts
        self._values: dict[int, _Value] = {}
        self._files: dict[str, str] = {}  # by the names they were asked for
        self._owners: dict[str, _Value] = {}
        self._has_links: bool | None = None  # not known before the first file

    def take(self, event: Event, array: np.ndarray | None) -> None:
        """Take what an event says of a value, and its values."""
        number = event["value"]
        if describes_value(event):
            self._values[number] = _Value(event["dtype"], tuple(event["shape"]))
        value = self._values.get(number)
        if value is None:
            return
        if "statistics" in event or "figures" in event:
            value.statistics = said_figures(event)["statistics"]
        if array is not None:
            self._take_array(value, np.broadcast_to(array, value.shape))

    def _take_array(self, value: _Value, array: np.ndarray) -> None:
        if self._facts.slices:
            array = _sliced(array, self._facts.slices)
            value.shape = array.shape
        value.array = array
        for name in value.names:
            self._write(value, name)
        value.names = []
        if not self._facts.stores and array.size:
            self._measure(value)
            value.array = None

    def _measure(self, value: _Value) -> None:
        array = value.array
        if array is None or value.statistics:
            return
        value.statistics = statistics_of(array, fingerprint=False)
        if self._facts.checksums:
            widens = not self._facts.is_torch or self._facts.generation.widens_bfloat16
            value.checksum = checksum_of(array, widens)

    def drop_arrays(self) -> None:
        """Keep no values that no file was asked for."""
        for value in self._values.values():
            self._measure(value)
            value.array = None

    def is_finite(self, number: int) -> bool:
        """Whether all values are finite, as far as is known."""
        value = self._values[number]
        self._measure(value)
        counts = (value.statistics.get(name, 0) for name in ("nan_count", "inf_count"))
        return not any(counts)

    # Files

    def store(self, number: int, name: str) -> str:
        """Write a value under a name, now or when its values come; the name of the file."""
        value = self._values.get(number)
        if value is None or not math.prod(value.shape):
            return ""
        file = self._files.setdefault(name, self._new_file(name))
        if value.array is None and value.file is None:
            value.names.append(file)
        else:
            self._write(value, file)
        return file

    def file_of(self, number: int | None, name: str) -> str:
        """The file that `store` wrote of a value under a name; "" where there is none."""
        value = None if number is None else self._values.get(number)
        has_values = value is not None and math.prod(value.shape) > 0
        return self._files.get(name, "") if has_values else ""

    def _new_file(self, name: str) -> str:
        suffix = ".pt" if self._facts.is_torch else ".npy"
        try:
            safe = "/" not in name and not safe_name(name).startswith(".")
        except ValueError:
            safe = False
        return f"{name}{suffix}" if safe else f"entry.{len(self._files)}{suffix}"

    def _write(self, value: _Value, file: str) -> None:
        path = self.folder / file
        earlier = self._owners.get(file)
        if earlier is not None and earlier.file == path:
            # A second backward pass gives a name again: the last one counts, as it did.
            earlier.file = None
        self._owners[file] = value
        try:
            if value.file is not None and value.array is None:
                path.unlink(missing_ok=True)
                os.link(value.file, path)
            elif value.array is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._write_array(value, value.array, path)
        except OSError as error:
            raise WriteError(Message("debugger.not_written", file=file, why=error)) from error

    def _write_array(self, value: _Value, array: np.ndarray, path: Path) -> None:
        self._measure(value)
        if not self._facts.is_torch:
            write_npy(path, computable(array) if array.dtype.name == "bfloat16" else array)
        else:
            stored = array if torch_holds(array.dtype) else computable(array)
            flat = np.ascontiguousarray(stored).reshape(-1)
            item = Item(path.stem, stored.dtype, value.shape, lambda: iter([flat]))
            write_pth_tensor(path, item)
        value.file = path
        if self._has_links is None:
            self._has_links = _can_link(path)
        if self._has_links:
            value.array = None

    # What the json says

    def leaf(self, number: int | None, requires_grad: bool | None, file: str = "") -> Any:
        """The record of a tensor; None where there is none.

        Parameters
        ----------
        number : int or None
            Of the value.
        requires_grad : bool or None
            None where it is not written.
        file : str
            Where it is stored.
        """
        value = None if number is None else self._values.get(number)
        if value is None:
            return None
        if value.leaf is None:
            value.leaf = self._leaf_of(value)
        made = dict(value.leaf)
        if self._facts.is_torch:
            made["requires_grad"] = bool(requires_grad)
        if self._facts.checksums:
            made["md5"] = value.checksum or checksum_of(np.empty(0), False)
        if file:
            made["data_name"] = file
        return made

    def _leaf_of(self, value: _Value) -> dict[str, Any]:
        self._measure(value)
        framework, is_torch = self._facts.framework, self._facts.is_torch
        count, generation = math.prod(value.shape), self._facts.generation
        figures = figures_of(value.statistics, value.dtype, count, is_torch, generation)
        made: dict[str, Any] = {
            "type": "torch.Tensor" if is_torch else "mindspore.Tensor",
            "dtype": dtype_text(value.dtype, framework),
            "shape": [*value.shape],
        }
        return made | {key: figures[name] for name, key in _KEYS.items()}


def _sliced(array: np.ndarray, slices: tuple[Mapping[str, int], ...]) -> np.ndarray:
    """The part of an array that slices leave; those for other numbers of axes do not count."""
    kept = [slice(None)] * array.ndim
    for one in slices:
        axis = one.get("dim", 0)
        if axis < array.ndim and one.get("size", array.shape[axis]) == array.shape[axis]:
            kept[axis] = slice(one.get("begin", 0), one.get("end"))
    return np.ascontiguousarray(array[tuple(kept)])


def _can_link(file: Path) -> bool:
    """Whether the file system of a file has several names for one file."""
    trial = file.with_name(f".link-{os.getpid()}")
    try:
        os.link(file, trial)
        trial.unlink()
    except OSError:
        return False
    return True
