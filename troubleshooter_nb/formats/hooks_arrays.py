"""The ``.npy`` files that ``ptdbg_ascend`` keeps beside its text file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Message, message_of


class Arrays:
    """The ``.npy`` files that belong to a record file."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        names = os.listdir(folder) if folder is not None else []
        self._left = {name.removesuffix(".npy") for name in names if name.endswith(".npy")}
        self._missing = 0

    @classmethod
    def beside(cls, file: Path) -> Arrays:
        """Those in the folder of the file's name; some releases put a time behind it."""
        folder = file.with_suffix("")
        if not folder.is_dir():
            timed = re.compile(re.escape(folder.name) + r"_[0-9_-]+")
            others = [f for f in file.parent.iterdir() if f.is_dir() and timed.fullmatch(f.name)]
            if len(others) != 1:
                return cls(None)
            folder = others[0]
        return cls(folder)

    def take(self, name: str) -> tuple[ArraySource | None, str]:
        """The array of a name, or None and why it cannot be read."""
        if self.folder is None or name not in self._left:
            self._missing += 1
            return None, ""
        self._left.remove(name)
        try:
            return open_npy(self.folder / f"{name}.npy"), ""
        except (FormatError, OSError) as error:
            return None, message_of(error)

    @property
    def left(self) -> list[str]:
        """Names that were not taken."""
        return sorted(self._left)

    def note(self, count: int) -> str:
        """How many of so many tensors have an array."""
        if self.folder is None:
            return Message("hooks.no_arrays")
        folder, missing = self.folder.name, self._missing
        if missing:
            return Message("hooks.arrays_missing", folder=folder, missing=missing, count=count)
        return Message("hooks.arrays", folder=folder)
