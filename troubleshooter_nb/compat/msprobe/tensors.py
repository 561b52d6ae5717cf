"""The values of one step: measured, and written under each name that a dump has for them."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from troubleshooter_nb.capture.plan import Event
from troubleshooter_nb.compat.msprobe.figures import checksum_of, figures_of
from troubleshooter_nb.compat.msprobe.generations import Generation
from troubleshooter_nb.compat.msprobe.indented import Written, indented, text_of
from troubleshooter_nb.errors import WriteError
from troubleshooter_nb.formats.checkpoint import Item
from troubleshooter_nb.formats.msprobe_records import FIGURE_KEYS, dtype_text, tensor_type
from troubleshooter_nb.formats.msprobe_tensors import FOLDER
from troubleshooter_nb.formats.npy_dir import safe_name
from troubleshooter_nb.formats.npy_file import write_npy_into
from troubleshooter_nb.formats.pth_writer import torch_holds, write_pth_tensor_into
from troubleshooter_nb.formats.record_layout import describes_value
from troubleshooter_nb.formats.record_layout import figures_of as said_figures
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import computable
from troubleshooter_nb.metrics.sketches import statistics_of


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
    statistics: Mapping[str, Any] = field(default_factory=dict)
    leaf: str = ""  # what is written of it under any name
    checksum: str = ""
    file: Path | None = None
    has_name: bool = False  # whether the file is called after an entry
    names: list[str] = field(default_factory=list)  # of files that wait for the values


class StepTensors:
    """The values of one step in one folder.

    What is given is measured and written at once, under a name of its own; the names of entries
    that hold it are further names of that file.

    Parameters
    ----------
    folder : Path
        Of the step and rank; its folder of tensors is made with the first file.
    facts : TensorFacts
    saves : bool
        Whether these are save points alone, which lie beside calls of another run.
    """

    def __init__(self, folder: Path, facts: TensorFacts, *, saves: bool = False) -> None:
        self.folder, self._saves = folder / FOLDER, saves
        self._facts = facts
        self._values: dict[int, _Value] = {}
        self._files: dict[str, str] = {}  # by the names they were asked for
        self._owners: dict[str, _Value] = {}
        self._has_folder = False
        self._said: set[str] = set()  # files that a record names

    def take(self, event: Event, array: np.ndarray | None) -> None:
        """Take what an event says of a value, and its values, which are read before this ends."""
        number = event["value"]
        if describes_value(event):
            self._values[number] = _Value(event["dtype"], tuple(event["shape"]))
        value = self._values.get(number)
        if value is None:
            return
        if "statistics" in event or "figures" in event:
            value.statistics = said_figures(event)["statistics"]
        if array is not None:
            self._take_array(number, value, np.broadcast_to(array, value.shape))

    def _take_array(self, number: int, value: _Value, array: np.ndarray) -> None:
        if self._facts.slices:
            array = _sliced(array, self._facts.slices)
            value.shape = array.shape
        if not array.size:
            return
        value.statistics = statistics_of(array, fingerprint=False)
        if self._facts.checksums:
            widens = not self._facts.is_torch or self._facts.generation.widens_bfloat16
            value.checksum = checksum_of(array, widens)
        if self._facts.stores:
            self._write(value, array, self.folder / f".value-{os.getpid()}-{number}")
            for name in value.names:
                self._name(value, name)
            value.names = []

    def _write(self, value: _Value, array: np.ndarray, file: Path) -> None:
        try:
            if not self._has_folder:
                self.clear()
                self.folder.mkdir(parents=True, exist_ok=True)
                self._has_folder = True
            with file.open("w+b") as stream:
                self._write_into(stream, value, array)
        except OSError as error:
            place = str(self.folder)
            raise WriteError(Message("debugger.not_written", file=place, why=error)) from error
        value.file = file

    def _write_into(self, stream: BinaryIO, value: _Value, array: np.ndarray) -> None:
        if not self._facts.is_torch:
            stored = computable(array) if array.dtype.name == "bfloat16" else array
            write_npy_into(stream, stored)
            return
        stored = array if torch_holds(array.dtype) else computable(array)
        flat = np.ascontiguousarray(stored).reshape(-1)
        item = Item("", stored.dtype, value.shape, lambda: iter([flat]))
        write_pth_tensor_into(stream, item)

    def clear(self) -> None:
        """Take away what an earlier run of this kind left; nothing once this one has written."""
        if self._has_folder:
            return
        for left in self.folder.glob("*"):
            is_save = ".debug." in left.name
            if left.suffix in (".pt", ".npy") and is_save is self._saves:
                left.unlink()

    def drop_unsaid(self) -> None:
        """Take the files away that no record names, such as those of a call that broke off."""
        for name in self._owners.keys() - self._said:
            (self.folder / name).unlink(missing_ok=True)
            del self._owners[name]

    def drop_unnamed(self) -> None:
        """Take the files away that no entry is called after."""
        for value in self._values.values():
            if value.file is not None and not value.has_name:
                value.file.unlink(missing_ok=True)
                value.file = None

    def is_finite(self, number: int) -> bool:
        """Whether all values are finite, as far as is known."""
        statistics = self._values[number].statistics
        return not any(statistics.get(name, 0) for name in ("nan_count", "inf_count"))

    # Files

    def store(self, number: int, name: str) -> str:
        """Have a value in a file of a name, now or when its values come; the name of the file."""
        value = self._values.get(number)
        if value is None or not math.prod(value.shape):
            return ""
        if name not in self._files:
            self._files[name] = self._new_file(name)
        file = self._files[name]
        if value.file is None:
            value.names.append(file)
        else:
            self._name(value, file)
        return file

    def file_of(self, number: int | None, name: str) -> str:
        """The file that `store` wrote of a value under a name; "" where there is none."""
        value = None if number is None else self._values.get(number)
        file = self._files.get(name, "")
        return file if value is not None and self._owners.get(file) is value else ""

    def _new_file(self, name: str) -> str:
        suffix = ".pt" if self._facts.is_torch else ".npy"
        try:
            safe = "/" not in name and not safe_name(name).startswith(".")
        except ValueError:
            safe = False
        return f"{name}{suffix}" if safe else f"entry.{len(self._files)}{suffix}"

    def _name(self, value: _Value, name: str) -> None:
        """Have the file of a value under a name, too."""
        path, earlier = self.folder / name, self._owners.get(name)
        if earlier is value or value.file is None:
            return
        try:
            if earlier is not None:  # of an earlier backward pass: the last one counts, as it did
                self._release(earlier, path)
            if value.has_name:
                _link(value.file, path)
            else:
                value.file.rename(path)
                value.file, value.has_name = path, True
        except OSError as error:
            raise WriteError(Message("debugger.not_written", file=name, why=error)) from error
        self._owners[name] = value

    def _release(self, value: _Value, path: Path) -> None:
        """Take a name from a value; it keeps another one, if it has any."""
        if value.file == path:
            others = (name for name, owner in self._owners.items() if owner is value)
            left = [self.folder / name for name in others if self.folder / name != path]
            value.file = left[0] if left else None
        path.unlink(missing_ok=True)

    # What the json says

    def leaf(self, number: int | None, requires_grad: bool | None, file: str = "") -> Any:
        """The record of a tensor as json, None where there is none.

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
        value.leaf = value.leaf or self._leaf_of(value)
        said = [value.leaf]
        if self._facts.is_torch:
            said.append(f'"requires_grad": {"true" if requires_grad else "false"}')
        if self._facts.checksums:
            said.append(f'"md5": "{value.checksum or "00000000"}"')
        if file:
            self._said.add(file)
            said.append(f'"data_name": {text_of(file)}')
        return Written("{\n " + ",\n ".join(said) + "\n}")

    def _leaf_of(self, value: _Value) -> str:
        """What is written of a value under any name, without the braces around it."""
        framework, is_torch = self._facts.framework, self._facts.is_torch
        count, generation = math.prod(value.shape), self._facts.generation
        figures = figures_of(value.statistics, value.dtype, count, is_torch, generation)
        shape = indented([*value.shape], "\n ")
        said = [
            f'"type": "{tensor_type(framework)}"',
            f'"dtype": {text_of(dtype_text(value.dtype, framework))}',
        ]
        said.append(f'"shape": {shape}')
        said += [f'"{key}": {indented(figures[name])}' for name, key in FIGURE_KEYS.items()]
        return ",\n ".join(said)


def _sliced(array: np.ndarray, slices: tuple[Mapping[str, int], ...]) -> np.ndarray:
    """The part of an array that slices leave; those for other numbers of axes do not count."""
    kept = [slice(None)] * array.ndim
    for one in slices:
        axis = one.get("dim", 0)
        if axis < array.ndim and one.get("size", array.shape[axis]) == array.shape[axis]:
            kept[axis] = slice(one.get("begin", 0), one.get("end"))
    return np.ascontiguousarray(array[tuple(kept)])


def _link(file: Path, path: Path) -> None:
    """Have a file under another name too, copied where the file system has no such names."""
    path.unlink(missing_ok=True)  # to copy into it would write all that it is linked to
    try:
        os.link(file, path)
    except OSError:
        shutil.copyfile(file, path)
