"""The text file of the lines, and which one it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from os import PathLike

from troubleshooter_nb.compat.torch_npu.hooks.refusals import NoDumpPathError, RefusedError
from troubleshooter_nb.compat.torch_npu.hooks.tensors import SeenTensor
from troubleshooter_nb.errors import PathNotFoundError
from troubleshooter_nb.messages import Message


class DumpFile:
    """A file of lines ``[name, values, dtype, shape]``, numbered from 0.

    Parameters
    ----------
    path : str
        Is created with the first lines, for its owner alone.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._number = 0

    def append(self, tensors: Iterable[tuple[str, SeenTensor]], *, sample: bool) -> None:
        """Write one line of each tensor that a file lists, under its name; they are in the file.

        Raises
        ------
        FileNotFoundError
            If the folder does not exist.
        OSError
            If it cannot be written.
        """
        text = []
        number = self._number
        for name, tensor in tensors:
            if tensor.is_listed:
                values = tensor.sample if sample else tensor.all_values
                text.append(line_text(f"{number}_{name}", values, tensor))
                number += 1
        if text:
            append_text(self.path, "".join(text))
            self._number = number


def line_text(name: str, values: list[float], tensor: SeenTensor) -> str:
    """One line; not finite numbers are bare words, which `json.loads` reads."""
    return json.dumps([name, values, f"torch.{tensor.dtype}", [*tensor.shape]]) + "\n"


def append_text(path: str, text: str) -> None:
    """Write behind what is in a file, which is created for its owner alone.

    It is opened for each piece, so that what is written is there whatever comes.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except FileNotFoundError:
        folder = os.path.dirname(path)
        raise PathNotFoundError(Message("torch_npu_hooks.no_folder", folder=folder)) from None
    with open(handle, "w", encoding="ascii") as file:
        file.write(text)


_file: DumpFile | None = None


def set_dump_path(fpath: str | PathLike[str] | None = None) -> None:
    """Name the file that lines go to from now on; lines are numbered from 0 again.

    Parameters
    ----------
    fpath : str or path-like
        A file that exists is deleted. The folder must exist when the first line is written.

    Raises
    ------
    RuntimeError
        Without a path, and for a folder; a ValueError too.
    OSError
        If an existing file cannot be deleted.
    """
    global _file
    if fpath is None:
        raise RefusedError(Message("torch_npu_hooks.path_missing"))
    path = os.path.abspath(os.fspath(fpath))
    if os.path.isdir(path):
        raise RefusedError(Message("torch_npu_hooks.path_is_folder", path=path))
    if os.path.lexists(path):
        os.remove(path)
    _file = DumpFile(path)


def dump_file() -> DumpFile:
    """The file that `set_dump_path` named.

    Raises
    ------
    AssertionError
        If it was not called.
    """
    if _file is None:
        raise NoDumpPathError(Message("torch_npu_hooks.path_unset"))
    return _file
