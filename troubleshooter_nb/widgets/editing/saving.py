"""Files that an editor writes: which are its own, what they leave out, and what went wrong."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from errno import ENOTDIR
from pathlib import Path

from troubleshooter_nb.errors import ArgumentError, TroubleshooterError, TroubleshooterWarning
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.options import option_context


class Saver:
    """Files as an editor left them, and the one that a second press of Save overwrites."""

    def __init__(self) -> None:
        self._written: dict[Path, tuple[int, int]] = {}
        self._asked: tuple[Path, int] | None = None

    def is_of_others(self, path: str, revision: int) -> bool:
        """Whether a file is there that this editor did not write, and no answer was asked for."""
        where = from_home(path)
        asked, self._asked = self._asked, None
        if not where.is_file() or self._written.get(where.resolve()) == _stamp(where):
            return False
        if asked == (where, revision):
            return False
        self._asked = where, revision
        return True

    def save(
        self, path: str, write: Callable[[Path], Path], language: str
    ) -> tuple[Path, list[str]]:
        """Write a file; also what its writer warns of, a sentence each."""
        # The page's messages come in a context of their own, in which no language is set.
        in_language = option_context(language=language)
        with in_language, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                written = write(from_home(path))
            except OSError as error:
                if error.filename is None or isinstance(error, TroubleshooterError):
                    raise
                # What failed is a file beside it, or a folder; the user knows the path alone.
                raise OSError(error.errno, error.strerror, path) from error
        if written.is_file():
            self._written[written.resolve()] = _stamp(written)
        said = []
        for one in caught:
            if issubclass(one.category, TroubleshooterWarning):
                said.append(str(one.message))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return written, said


def from_home(path: str) -> Path:
    """The path, ``~`` as the folder it stands for."""
    try:
        if "\0" in path:
            raise ArgumentError(Message("editor.null_in_path"))
        return Path(path).expanduser()
    except RuntimeError as error:  # of a user that is not there
        said = Message("editor.not_saved", file=path, reason=Message("editor.no_home"))
        raise ArgumentError(said) from error


def not_saved(error: OSError, file: str) -> Message:
    """That a file could not be written, and why."""
    # So says who makes the folders of a path where one of them is a file.
    errno_of = ENOTDIR if isinstance(error, FileExistsError) else error.errno
    reason: str = Message("editor.cannot_be_written")
    if errno_of:
        reason = message_of(OSError(errno_of, os.strerror(errno_of)))
    return Message("editor.not_saved", file=file, reason=reason)


def _stamp(path: Path) -> tuple[int, int]:
    """By which a file is known again: when it was written, and its size."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size
