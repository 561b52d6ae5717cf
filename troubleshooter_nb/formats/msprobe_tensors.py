"""Tensors that msprobe stored in a file each, opened when they are first read."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from troubleshooter_nb.dump import ArraySource, SizedByShape
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.formats.pth_containers import contents_of
from troubleshooter_nb.formats.pth_tensors import Ready, Tensors
from troubleshooter_nb.messages import Message
from troubleshooter_nb.metrics.floats import same_dtype
from troubleshooter_nb.ranges import Reading, reading

FOLDER = "dump_tensor_data"
SUFFIXES = (".pt", ".npy")


@dataclass(frozen=True)
class DumpedTensor(SizedByShape):
    """One tensor in a file of its own; an `ArraySource` whose file opens at the first read.

    Opening a dump must not open its 50,000 files: shape and dtype are what ``dump.json`` says,
    and the file is held against them when it is read.

    Attributes
    ----------
    folder, file : str
    shape : tuple of int
    dtype : dtype
    """

    folder: str
    file: str
    shape: tuple[int, ...]
    dtype: np.dtype

    def files(self) -> tuple[str, ...]:
        """The one file that holds the values."""
        return (os.path.join(self.folder, self.file),)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values; as `ArraySource.read`, also for another tensor than ``dump.json`` says."""
        return self._stored.read(start, stop, into)

    def opened(self) -> AbstractContextManager[Reading]:
        """Its file opened once for several reads, see `troubleshooter_nb.dump.reading`."""
        return reading(self._stored)

    @cached_property
    def _stored(self) -> ArraySource:
        try:
            source = open_tensor(Path(self.folder, self.file))
        except (FormatError, OSError) as error:
            problem = Message("files.in_file", file=self.file, what=error)
            raise ReadError(problem) from None
        if source.shape != self.shape or not same_dtype(source.dtype, self.dtype):
            held = {"held": source.dtype, "held_shape": source.shape}
            said = {"said": self.dtype, "said_shape": self.shape}
            raise ReadError(Message("msprobe.other_tensor", file=self.file, **held, **said))
        return source


def open_tensor(path: Path) -> ArraySource:
    """Handle to the tensor in one file, ``.npy`` or of torch; nothing of it is run.

    Raises
    ------
    FormatError
        If it is damaged, or holds something else than one plain tensor.
    OSError
        If it cannot be opened.
    """
    if path.suffix == ".npy":
        return open_npy(path)
    with opened(path) as (file, stamp):
        contents = contents_of(file, 0, stamp[0])
        found = Tensors(path, contents, stamp).found(contents.root)
    if not isinstance(found, Ready):
        if contents.globals:
            raise FormatError(Message("msprobe.no_tensor_asks", what=contents.globals[0][:80]))
        raise FormatError(Message("msprobe.no_tensor"))
    if found.source is None:
        raise FormatError(found.reason)
    return found.source


def tensor_files(folder: Path) -> set[str] | None:
    """Names of the tensor files in the folder beside the json; None where there is no folder.

    Raises
    ------
    OSError
        If it cannot be searched.
    """
    try:
        with os.scandir(folder / FOLDER) as children:
            # macOS leaves a ._x.pt beside an x.pt on foreign disks; it is no tensor.
            names = (child.name for child in children)
            return {name for name in names if name.endswith(SUFFIXES) and name[:2] != "._"}
    except (FileNotFoundError, NotADirectoryError):
        return None
