"""The events and values of a recording on their way into a folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from weakref import WeakMethod

import numpy as np

from troubleshooter_nb.capture.plan import Event
from troubleshooter_nb.errors import WriteError
from troubleshooter_nb.formats.record_layout import INDEX, with_packed_figures
from troubleshooter_nb.formats.record_writer import RecordWriter


class Nowhere:
    """Keeps nothing: for who asks a recorder what it would see."""

    is_failed = False

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Nothing."""

    def forget(self, run: int) -> int:
        """Nothing to drop."""
        return 0

    def flush(self, *, to_disk: bool = True) -> None:
        """Nothing."""

    def close(self, *, complete: bool) -> None:
        """Nothing."""


class InFolder:
    """Events and values on their way into a folder.

    Parameters
    ----------
    folder : Path
    header : dict
    failed : bound method
        Told once, before the error is raised, that nothing can be written any more; held weakly.
    """

    def __init__(self, folder: Path, header: Event, failed: Callable[[], None]) -> None:
        self._index = folder / INDEX
        self._stamp: tuple[int, int] | None = None
        self._writer = RecordWriter(folder, header)
        self._failed = WeakMethod(failed)
        self.is_failed = False

    def put(self, event: Event, array: np.ndarray | None = None) -> None:
        """Hand over an event and its values; after an error was raised, nothing."""
        if self.is_failed:
            return
        try:
            self._writer.put(with_packed_figures(event), array)
        except WriteError:
            self._fail()
            raise

    def forget(self, run: int) -> int:
        """What is written stays; readers leave it out."""
        return 0

    def flush(self, *, to_disk: bool = True) -> None:
        """Have everything in the files, or also on the disk, where it survives a loss of power."""
        if self.is_failed:
            return
        try:
            self._writer.flush() if to_disk else self._writer.settle()
        except WriteError:
            self._fail()
            raise

    def close(self, *, complete: bool) -> None:
        """Write the end and close the files."""
        try:
            self._writer.close(complete=complete and not self.is_failed)
        finally:
            self._stamp = self._seen()

    def is_replaced(self) -> bool:
        """Whether another recording was made in the folder since this one was closed."""
        return self._stamp is not None and self._seen() != self._stamp

    def _seen(self) -> tuple[int, int] | None:
        """Size and time of the index as it is now."""
        try:
            status = os.stat(self._index)
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns

    def _fail(self) -> None:
        self.is_failed = True
        failed = self._failed()
        if failed is not None:
            failed()
