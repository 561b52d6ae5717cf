"""The numbers in the names of saved files."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import Literal

from troubleshooter_nb.errors import TroubleshooterWarning
from troubleshooter_nb.formats.aside import remove_left
from troubleshooter_nb.formats.claims import claim
from troubleshooter_nb.messages import Message, told


class Numbering:
    """Counts saved tensors from 0, each number once, also by several threads and processes.

    Processes that save into one folder at the same time share its count; see `formats.claims`.

    Parameters
    ----------
    per : {"folder", "framework"}
        ``folder`` counts in each folder by itself, and from 0 again in a folder that was removed:
        a new folder gets the same names in every run. ``framework`` counts over all folders of
        this process, torch and MindSpore apart, as TroubleShooter did; where several processes
        save into one folder, numbers are left out.
    """

    def __init__(self, per: Literal["folder", "framework"] = "folder") -> None:
        self.per = per
        self._next: dict[str, int] = {}
        self._runs: dict[str, str] = {}
        self._lock = threading.Lock()

    def take(self, folder: Path, framework: str) -> int:
        """The next number for a file in a folder, which is created where missing.

        Warns
        -----
        TroubleshooterWarning
            When the count of a folder starts at 0 although arrays lie in it.
        """
        place = os.path.abspath(folder)
        key = place if self.per == "folder" else framework
        with self._lock:
            if not os.path.isdir(place):
                self._runs.pop(place, None)
                self._next.pop(place, None)
            # Here, not at the first file: a gradient that is waited for keeps its number.
            folder.mkdir(parents=True, exist_ok=True)
            before = self._runs.get(place, "")
            # Two frameworks that are counted apart are so in one folder, too.
            count, least = "" if key == place else framework, self._next.get(key, 0)
            number, self._runs[place], is_new = claim(folder, count, least, before)
            self._next[key] = number + 1
            if is_new and not before:
                remove_left(folder)
                if self.per == "folder":
                    _warn_of_old_arrays(folder)
        return number

    def reset(self) -> None:
        """Count from 0 again everywhere."""
        with self._lock:
            self._next.clear()
            self._runs.clear()


DEFAULT = Numbering()


def _warn_of_old_arrays(folder: Path) -> None:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    if any(name.endswith(".npy") for name in names):
        text = Message("capture.arrays_before", folder=folder.name)
        warnings.warn(told(text), TroubleshooterWarning, stacklevel=5)
