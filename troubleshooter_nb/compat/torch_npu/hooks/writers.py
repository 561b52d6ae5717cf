"""What the hooks of old write of each pass: lines, and arrays of the asynchronous dump."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import count

import ml_dtypes
import numpy as np

from troubleshooter_nb.compat.torch_npu.hooks.calls import Leaf, Passed
from troubleshooter_nb.compat.torch_npu.hooks.dump_file import dump_file
from troubleshooter_nb.compat.torch_npu.hooks.tensors import SeenTensor

_FORMAT = 2  # "ND": the layout of memory on a device that has only one


class LineWriter:
    """Writes the lines of each pass to the file of `set_dump_path`.

    Parameters
    ----------
    sample : bool
        Ten values and three statistics of each tensor instead of all values.
    """

    def __init__(self, *, sample: bool) -> None:
        self._sample = sample

    def write(self, passed: Passed) -> None:
        """Write one line of each tensor that is listed, inputs before outputs.

        Raises
        ------
        AssertionError
            If there is no file to write to.
        """
        dump_file().append(named_tensors(passed), sample=self._sample)


class ArrayWriter:
    """Writes each tensor to a ``.npy`` file, whose name says how to read it.

    Parameters
    ----------
    folder : str
        Must exist.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._packets = count()

    def write(self, passed: Passed) -> None:
        """Write inputs and outputs, which are a packet with a number each; none if it is empty."""
        for word, leaves in (("input", passed.inputs), ("output", passed.outputs)):
            tensors = [leaf.value for leaf in leaves if leaf.level < 2 and _is_tensor(leaf)]
            if tensors:
                self._write_packet(f"{next(self._packets)}_{passed.label}_{word}", tensors)

    def _write_packet(self, label: str, tensors: Sequence[SeenTensor]) -> None:
        for position, tensor in enumerate(tensors):
            storage, strides = tensor.stored
            facts = {"shape": tensor.shape, "stride": strides, "offset": (0,), "format": (_FORMAT,)}
            ending = "".join(f"_{name}[{','.join(map(str, of))}]" for name, of in facts.items())
            file = os.path.join(self._folder, f"{label}{position}{ending}.npy")
            np.save(file, _plain(storage))


def named_tensors(passed: Passed) -> Iterator[tuple[str, SeenTensor]]:
    """The tensors of a pass, inputs before outputs, each with its name but the number in front."""
    for word, leaves in (("input", passed.inputs), ("output", passed.outputs)):
        for leaf in leaves:
            if _is_tensor(leaf):
                yield f"{passed.label}_{word}{leaf.position}", leaf.value


def _is_tensor(leaf: Leaf) -> bool:
    return isinstance(leaf.value, SeenTensor)


def _plain(array: np.ndarray) -> np.ndarray:
    """An array that numpy alone can read again: bfloat16 and float8 as float32."""
    is_own = array.dtype.kind in "biufc" and not hasattr(ml_dtypes, array.dtype.name)
    return array if is_own else array.astype(np.float32)
