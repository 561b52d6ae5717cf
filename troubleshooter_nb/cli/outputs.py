"""The files that a verb writes: looked at before any work, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from troubleshooter_nb.cli.grammar import WrongWords
from troubleshooter_nb.cli.terminal import paragraph
from troubleshooter_nb.errors import ArgumentError, ExtraMissingError, WriteError
from troubleshooter_nb.messages import Message, message_of

Writer = Callable[[Any, Path], object]


@dataclass(frozen=True)
class Outputs:
    """Files that may be written.

    Attributes
    ----------
    paths : tuple of Path
    force : bool
        A file that is there may be replaced.
    writers : mapping of str to callable
        By suffix what writes an object otherwise than `report.export` does; whole or not at all.
    """

    paths: tuple[Path, ...]
    force: bool = False
    writers: Mapping[str, Writer] = field(default_factory=dict)

    def write(self, obj: Any) -> list[str]:
        """Write an object to all of them.

        Returns
        -------
        list of str
            A line for each file.

        Raises
        ------
        OSError, TroubleshooterError
            If one cannot be written; nothing is left of that one.
        """
        lines = []
        for path in self.paths:
            writer = self.writers.get(path.suffix.lower())
            if writer is None:
                self._export(obj, path)
            else:
                self._check_free(path)
                writer(obj, path)
            lines += paragraph(Message("command.written", file=os.fspath(path)))
        return lines

    def _export(self, obj: Any, path: Path) -> None:
        from troubleshooter_nb.formats.aside import written_aside
        from troubleshooter_nb.report import export

        path.parent.mkdir(parents=True, exist_ok=True)
        with written_aside(path, path.suffix) as aside:
            export(obj, aside)
            self._check_free(path)  # somebody may have written it meanwhile

    def _check_free(self, path: Path) -> None:
        if os.path.lexists(path) and not self.force:
            raise WriteError(Message("command.exists", file=os.fspath(path)))


def planned(
    names: Iterable[str],
    kind: type,
    *,
    force: bool,
    inputs: Sequence[str] = (),
    writers: Mapping[str, Writer] | None = None,
) -> Outputs:
    """The files of these names, if they can be written as it looks now.

    Parameters
    ----------
    names : iterable of str
    kind : type
        Class of what is to be written.
    force : bool
    inputs : sequence of str
        Paths that are read: no file of theirs is ever replaced.
    writers : mapping of str to callable, optional
        See `Outputs`.

    Raises
    ------
    WrongWords
        For a suffix that the object has no form for.
    WriteError
        For a file that is there, without `force`; one that is read, with it; and for a place
        where none can be written.
    ExtraMissingError
        If an optional package is needed and missing.
    """
    writers = writers or {}
    paths = tuple(dict.fromkeys(map(Path, names)))
    outputs = Outputs(paths, force, writers)
    for path in paths:
        if path.suffix.lower() not in writers:
            _check_suffix(kind, path)
        _check_place(path)
        outputs._check_free(path)
        for read in inputs:
            _check_not_read(path, Path(read))
    return outputs


def write_whole(path: Path, content: bytes) -> None:
    """A file with this content, whole or not at all; its folder is made where missing."""
    from troubleshooter_nb.formats.aside import written_whole

    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as stream:
        stream.write(content)


def _check_suffix(kind: type, path: Path) -> None:
    from troubleshooter_nb.report import check_export

    try:
        check_export(kind, path)
    except ExtraMissingError:
        raise
    except ArgumentError as error:
        raise WrongWords(message_of(error)) from None


def _check_place(path: Path) -> None:
    """Refuse a name under which no file can appear."""
    if path.is_dir():
        raise WriteError(Message("files.folder_of_this_name", file=path.name))
    above = next(up for up in path.absolute().parents if up.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise WriteError(Message("command.no_place", file=os.fspath(path), folder=above))


def _check_not_read(path: Path, read: Path) -> None:
    """Refuse to replace a file that is read, by itself or in its folder."""
    # A text that is no path, such as one of hundreds of letters, is none that exists.
    if not os.path.exists(path) or not os.path.exists(read):
        return
    place, source = path.resolve(), read.resolve()
    if place == source or source in place.parents:
        raise WriteError(Message("command.is_read", file=os.fspath(path)))
