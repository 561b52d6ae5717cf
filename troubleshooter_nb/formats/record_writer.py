"""A recording on its way into a folder, by a thread of its own."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.errors import ArgumentError, WriteError
from troubleshooter_nb.formats.record_files import Record, RecordFiles
from troubleshooter_nb.formats.record_layout import FORMAT, line_of
from troubleshooter_nb.messages import Message, joined
from troubleshooter_nb.metrics.floats import arithmetic_of, name_of

# Bytes that may wait: more only lets a slow disk take memory from the run.
_MOST_WAITING = 256 << 20
# Records and bytes that are written at once; of more, the calls of the system no longer cost.
_BATCH, _BATCH_BYTES = 64, 16 << 20
_PAUSE = 0.02  # seconds that a few records wait for more: every waking costs as much as ten of them
_LONGEST_EXIT = 60.0  # seconds that the end of the program waits for a disk


class RecordWriter:
    """Writes the events of one rank; what was written survives the death of the process.

    Events are on disk, as the system sees it, some hundredths of a second after `put`. The files
    are those of `record_layout`. A program that ends without `close` writes what was put; a forked
    child of it writes nothing.

    Parameters
    ----------
    folder : Path
        Made where missing, with those above. An earlier recording in it is replaced.
    header : mapping
        What is known of the run, JSON-able; ``format`` is put in front.

    Raises
    ------
    ArgumentError
        If the folder holds files that are no recording, is a file, or is being written by another
        recording.
    WriteError
        If it cannot be made or written.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        self._folder = folder
        first = line_of({"header": {"format": FORMAT} | {**header, "format": FORMAT}})
        try:
            self._files = RecordFiles(folder, first)
        except OSError as error:
            what = Message("records.not_written", folder=folder, why=error)
            raise WriteError(joined([what, Message("records.other_folder")])) from error
        self._process = os.getpid()
        # Taken itself, never by way of a condition: an interrupt in the Python code of
        # `Condition.__enter__` would leave it taken for ever.
        self._lock = threading.Lock()
        # What the thread waits for, and what others wait for until the thread has written.
        self._work, self._room = threading.Condition(self._lock), threading.Condition(self._lock)
        self._records: deque[Record] = deque()
        self._waiting = 0  # bytes, with those in the hands of the thread
        self._given = self._done = self._hurry = 0
        self._cause: Exception | None = None
        self._is_told = self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=FORMAT, daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    @property
    def error(self) -> WriteError | None:
        """Why nothing is written any more, or None."""
        return None if self._cause is None else self._error_of(self._cause)

    def put(self, event: Mapping[str, Any], array: np.ndarray | None = None) -> None:
        """Hand over an event; returns before it is written, waits while 256 MiB of others are not.

        Parameters
        ----------
        event : mapping
            JSON-able, see `record_layout.line_of`; may change afterwards.
        array : ndarray, optional
            The values of a ``value`` event, whose ``dtype`` and ``shape`` are set to those of the
            array. It must not change any more. Any layout; written in C order.

        Raises
        ------
        WriteError
            If earlier ones could not be written, a full disk for one. These and all later are
            lost; those before are readable.
        ArgumentError
            If the array holds no numbers, or after `close`.
        """
        if os.getpid() != self._process:
            return
        if array is None:
            line = line_of(event)
            size = len(line)
        else:
            facts = {"dtype": _name_of(array.dtype), "shape": array.shape}
            line = line_of({**event, **facts})
            size = len(line) + array.nbytes
        with self._lock:
            while self._waiting and self._waiting + size > _MOST_WAITING and not self._cause:
                self._room.wait()
            if self._cause or self._is_closed:
                self._refuse()
            self._records.append((line, array))
            self._given += 1
            self._waiting += size
            if len(self._records) in (1, _BATCH) or self._waiting >= _BATCH_BYTES:
                self._work.notify()

    def _refuse(self) -> None:
        if self._cause:
            self._is_told = True
            raise self._error_of(self._cause) from self._cause
        raise ArgumentError(Message("records.closed", folder=self._folder.name))

    def _error_of(self, error: Exception) -> WriteError:
        what = Message("records.not_written", folder=self._folder, why=error)
        advice = Message("records.stays_readable"), Message("records.less_or_elsewhere")
        made = WriteError(joined([what, *advice]))
        made.errno = getattr(error, "errno", None)
        return made

    def flush(self) -> None:
        """Return once everything put so far is in the files, and these on the disk.

        Raises
        ------
        WriteError
            If it cannot be.
        """
        self.settle()
        if os.getpid() == self._process and not self._is_closed:
            self._synced()

    def settle(self) -> None:
        """Return once everything put so far is in the files: it survives the end of the process.

        Raises
        ------
        WriteError
            If it cannot be.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            given = self._given
            self._hurry += 1
            self._work.notify()
            self._room.wait_for(lambda: self._done >= given or self._cause)
            self._hurry -= 1
            if self._cause:
                self._refuse()

    def close(self, complete: bool = True) -> None:
        """Write what was put, then whether that is all, and close the files; twice does no harm.

        Parameters
        ----------
        complete : bool
            Whether the recording holds what it was to hold.

        Raises
        ------
        WriteError
            If something could not be written and no `put` or `flush` has said so.
        """
        self._close(complete, None)

    def _close(self, complete: bool, longest: float | None) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._work.notify()
        self._thread.join(longest)
        atexit.unregister(self._leave)
        if self._thread.is_alive():
            return
        # Of all lines before this one.
        crc = self._files.index_sum
        end = {"end": {"complete": complete and not self._cause, "crc32": crc}}
        try:
            self._files.write([(line_of(end), None)])
            self._files.sync()
        except OSError as error:
            self._cause = self._cause or error
        self._files.close()
        if self._cause and not self._is_told:
            self._refuse()

    def _leave(self) -> None:
        """What the end of the program does with a recording that nobody closed."""
        self._close(False, _LONGEST_EXIT)

    def _synced(self) -> None:
        try:
            self._files.sync()
        except OSError as error:
            raise self._error_of(error) from error

    def _run(self) -> None:
        """Write what is put, until closed; after an error only take it away."""
        while batch := self._next():
            if not self._cause:
                try:
                    self._files.write(batch)
                except Exception as error:  # also of memory: who puts must hear of it
                    self._cause = error
            size = sum(len(line) + (0 if array is None else array.nbytes) for line, array in batch)
            with self._lock:
                self._done += len(batch)
                self._waiting -= size
                self._room.notify_all()

    def _next(self) -> list[Record]:
        """The next records to write at once; none after closing."""
        with self._lock:
            self._work.wait_for(lambda: self._records or self._is_closed)
            self._work.wait_for(self._is_enough, _PAUSE)
            batch: list[Record] = []
            size = 0
            while self._records and len(batch) < _BATCH and size < _BATCH_BYTES:
                batch.append(self._records.popleft())
                size += 0 if batch[-1][1] is None else batch[-1][1].nbytes
            return batch

    def _is_enough(self) -> bool:
        many = len(self._records) >= _BATCH or self._waiting >= _BATCH_BYTES
        return many or self._is_closed or self._hurry > 0


@cache
def _name_of(dtype: np.dtype) -> str:
    """The token of a dtype, by which the reader finds it again."""
    if arithmetic_of(dtype) == "unsupported":
        raise ArgumentError(Message("records.no_numbers", dtype=dtype))
    return name_of(dtype)
