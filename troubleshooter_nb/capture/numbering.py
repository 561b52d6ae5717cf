"""The numbers in the names of saved files."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import Literal

from troubleshooter_nb.errors import TroubleshooterWarning
from troubleshooter_nb.messages import Message, told


class Numbering:
    """Counts saved tensors from 0, each number once; safe to use from several threads.

    Parameters
    ----------
    per : {"folder", "framework"}
        ``folder`` counts in each folder by itself, and from 0 again in a folder that was removed:
        a new folder gets the same names in every run. ``framework`` counts over all folders of
        this process, torch and MindSpore apart, as TroubleShooter did.
    """

    def __init__(self, per: Literal["folder", "framework"] = "folder") -> None:
        self.per = per
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()

    def take(self, folder: Path, framework: str) -> int:
        """The next number for a file in a folder, which is created where missing.

        Warns
        -----
        TroubleshooterWarning
            When the count of a folder starts at 0 although arrays lie in it.
        """
        key = os.path.abspath(folder) if self.per == "folder" else framework
        with self._lock:
            if self.per == "folder" and not (key in self._next and os.path.isdir(key)):
                self._next[key] = 0
                _warn_of_old_arrays(folder)
            # Here, not at the first file: a gradient that is waited for keeps its number.
            folder.mkdir(parents=True, exist_ok=True)
            number = self._next.get(key, 0)
            self._next[key] = number + 1
        return number

    def reset(self) -> None:
        """Count from 0 again everywhere."""
        with self._lock:
            self._next.clear()


DEFAULT = Numbering()


def _warn_of_old_arrays(folder: Path) -> None:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    if any(name.endswith(".npy") for name in names):
        text = Message("capture.arrays_before", folder=folder.name)
        warnings.warn(told(text), TroubleshooterWarning, stacklevel=5)
