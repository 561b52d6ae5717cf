"""Whether what is stored is what was saved: every checksum that a path has, read and compared."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xarray as xr

from troubleshooter_nb.columns.verifications import VERIFICATION_COLUMNS
from troubleshooter_nb.dump import ArraySource, Dump
from troubleshooter_nb.errors import FormatError, PathNotFoundError, TroubleshooterError, path_of
from troubleshooter_nb.formats import archive_source, ckpt, netcdf_sums, open_dump
from troubleshooter_nb.formats import safetensors_ as safetensors
from troubleshooter_nb.formats.archive_source import ArchiveSource
from troubleshooter_nb.formats.checksums import FILE, Part, State, listed, parts_by_list, unsummed
from troubleshooter_nb.formats.file_source import FileSource, opened
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.record_folder import SealedSource, checked_index, ranks_of
from troubleshooter_nb.formats.record_layout import INDEX
from troubleshooter_nb.formats.zip_directory import MAGIC
from troubleshooter_nb.gaps import WEIGHT_OF_NOTES
from troubleshooter_nb.messages import Message, message_of, messages_in
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.verification import Verification

Rows = list[tuple[str, Part, str]]  # name, what was found, file
_WORST: tuple[State, ...] = ("damaged", "unread", "no_checksum", "intact")
_HEAD = 16  # bytes by which a file is known


def verify(path: str | PathLike[str]) -> Verification:
    """Read what is stored at a path, and tell whether it is what was saved.

    What this package writes carries CRC-32s: in safetensors a metadata entry for the header and
    each tensor, in ``.pth`` those of the zip, in ``.ckpt`` the one of MindSpore, beside ``.npy``
    files the hidden list ``.checksums``, in ``.nc`` attributes and a last line. Those that other
    tools write are read as well: of zip archives (torch, numpy) and of MindSpore's ``crc_check``.

    Parameters
    ----------
    path : str or path-like
        Whatever `open_dump` opens, or a ``.nc`` of `export`.

    Returns
    -------
    Verification
        A row for each entry, and for what a file holds around them. What has no checksum is said
        to have none: it is never intact.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    UnknownFormatError, FormatError
        As `open_dump`, if nothing can be told of the file.

    Notes
    -----
    Every byte is read once, a block of 1 MiB at a time. Comparing and opening do not do that:
    they would take a third longer. By itself a checksum is looked at where an array of an ``.npz``
    was read to its end, where a ``.ckpt`` of at most 64 MiB is opened that MindSpore wrote with
    one, and at both ends of each value of a recording.
    """
    path = path_of(path)
    if not path.exists():
        raise PathNotFoundError(not_there(path))
    label = os.path.basename(os.path.abspath(path))
    if path.is_file() and path.suffix.lower() == ".nc":
        return _verification(label, [(part.name, part, label) for part in _parts_of(path)], ())
    try:
        dump = open_dump(path)
    except TroubleshooterError as error:
        if path.is_file():
            # A checksum may say what no reader can any more.
            found = [part for part in _parts_of(path) if part.state == "damaged"]
            if found:
                damaged = found[0]._replace(reason=message_of(error))
                return _verification(label, [(found[0].name or label, damaged, label)], ())
        raise
    return _of_dump(path, dump)


def _of_dump(path: Path, dump: Dump) -> Verification:
    files = _Files(path if path.is_dir() else path.parent)
    rows: Rows = []
    unread: Rows = []
    for name, source, reason in zip(dump.names, dump.sources, dump.columns["reason"], strict=True):
        if source is not None:
            rows.append((name, files.judged(source), files.shown(source)))
        elif reason:
            unread.append((name, Part("", 0, 0, "unread", reason), ""))
    others = files.beside_tensors({name for name, _, _ in rows})
    if path.is_dir():
        others += _listed_only(path, files)
    for folder in ranks_of(path):
        others.append((INDEX, checked_index(folder), _below(folder / INDEX, files.root)))
    known = {name for name, _, _ in others}
    rows += [row for row in unread if row[0] not in known]
    return _verification(dump.label, rows + others, dump.notes)


def _verification(label: str, rows: Rows, notes: Sequence[str]) -> Verification:
    values: dict[str, list[Any]] = {
        "name": [name for name, _, _ in rows],
        "status": [part.state for _, part, _ in rows],
        "reason": [part.reason for _, part, _ in rows],
        "file": [file for _, _, file in rows],
        "size_bytes": [part.end - part.begin for _, part, _ in rows],
    }
    table = xr.Dataset(
        {
            name: (
                "entry",
                np.array(values[name], column.numpy_dtype),
                {"description": column.meaning},
            )
            for name, column in VERIFICATION_COLUMNS.items()
        }
    )
    said = [one.id for note in notes for one in messages_in(note)]
    is_whole = not any(WEIGHT_OF_NOTES.get(id) for id in said)
    return Verification(table, label, tuple(notes), is_whole)


@dataclass
class _File:
    """The parts of a file that were checked, in the order of their places."""

    parts: list[Part]
    used: set[int] = field(default_factory=set)

    def judged(self, spans: Sequence[tuple[int, int]]) -> Part:
        """What its parts say of some of its bytes: the worst."""
        size = sum(length for _, length in spans)
        at = {i for begin, length in spans if length for i in self._over(begin, begin + length)}
        # What has no bytes is described by what stands first: a header, a pickle, the whole.
        found = [self.parts[i] for i in sorted(at) or range(min(len(self.parts), 1))]
        self.used |= at
        covered = sum(self._shared(self.parts[i], span) for i in at for span in spans)
        if covered < size or not found:
            found.append(unsummed())
        worst = min(found, key=lambda part: _WORST.index(part.state))
        return Part("", 0, size, worst.state, worst.reason)

    def _over(self, begin: int, end: int) -> Iterator[int]:
        at = max(bisect_right(self.parts, begin, key=lambda part: part.begin) - 1, 0)
        while at < len(self.parts) and self.parts[at].begin < end:
            if self.parts[at].end > begin:
                yield at
            at += 1

    def _shared(self, part: Part, span: tuple[int, int]) -> int:
        return max(min(part.end, span[0] + span[1]) - max(part.begin, span[0]), 0)


class _Files:
    """The files of a path, each read once when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, _File] = {}

    def judged(self, source: ArraySource) -> Part:
        """What is known of the bytes of a tensor."""
        found = [self._leaf(leaf) for leaf in _leaves(source)]
        worst = min(found, key=lambda part: _WORST.index(part.state))
        return worst._replace(begin=0, end=source.size_bytes)

    def _leaf(self, leaf: ArraySource) -> Part:
        if isinstance(leaf, SealedSource):
            return leaf.checked()
        if isinstance(leaf, FileSource):
            return self._of(leaf.path).judged(leaf.spans)
        if isinstance(leaf, ArchiveSource):
            return self._of(leaf.path).judged([(leaf.member.begin, leaf.member.packed)])
        return unsummed()

    def _of(self, path: str) -> _File:
        if path not in self._files:
            parts = sorted(_parts_of(Path(path)), key=lambda part: part.begin)
            self._files[path] = _File(parts)
        return self._files[path]

    def shown(self, source: ArraySource) -> str:
        """The file of a tensor, of several the first, within the path."""
        return self._within(next(iter(source.files()), ""))

    def _within(self, file: str) -> str:
        return _below(file, self.root) if file else ""

    def beside_tensors(self, names: Container[str]) -> Rows:
        """The parts of files that hold no tensor of these names, such as a header."""
        return [
            (printable(part.name), part, self._within(path))
            for path, file in self._files.items()
            for i, part in enumerate(file.parts)
            if i not in file.used and part.name and part.end > part.begin
            if part.name.removesuffix(".npy") not in names or part.state != "intact"
        ]

    def __contains__(self, file: Path) -> bool:
        return str(file) in self._files


def _below(file: str | Path, root: Path) -> str:
    return printable(os.path.relpath(file, root))


def _leaves(source: Any) -> list[ArraySource]:
    """The sources of which one is made, those of files."""
    made_of = getattr(source, "parts", None) or getattr(source, "sources", None)
    if not made_of and hasattr(source, "source"):
        made_of = [source.source]
    if not made_of:
        return [source]
    # A grid has the place of each before it.
    inner = [one[1] if isinstance(one, tuple) else one for one in made_of]
    return [leaf for one in inner for leaf in _leaves(one)]


def _listed_only(root: Path, files: _Files) -> Rows:
    """The files that a list names and that hold no readable tensor: damaged, or gone."""
    rows: Rows = []
    for folder, _, names in os.walk(root):
        if FILE not in names:
            continue
        for name in sorted(listed(Path(folder))):
            file = Path(folder, name)
            if file in files:
                continue
            if file.exists():
                parts = _parts_of(file)
            else:
                parts = [Part("", 0, 0, "damaged", Message("checksums.gone"))]
            shown = _below(file, root)
            rows += [(printable(name.removesuffix(".npy")), part, shown) for part in parts]
    return rows


def _parts_of(path: Path) -> list[Part]:
    """What a file holds, each part against its checksum; what cannot be read is said so."""
    try:
        if path.suffix.lower() == ".nc":
            return [*netcdf_sums.checked_parts(path)]
        with opened(path) as (file, (size, _)):
            return [*_checker(path, file)(file, size)]
    except (FormatError, OSError) as error:
        return [Part("", 0, 0, "unread", message_of(error))]


def _checker(path: Path, file: BinaryIO) -> Callable[[BinaryIO, int], Iterable[Part]]:
    """What knows the checksums of a file, by its first bytes and the tools' own questions."""
    head = file.read(_HEAD)
    file.seek(0)
    if head.startswith(MAGIC):
        return archive_source.checked_parts
    if path.suffix.lower() == ".npy":
        crcs = listed(path.parent).get(path.name, [])
        return lambda file, size: parts_by_list(file, size, crcs)
    if safetensors.refusal(path) is None:
        return safetensors.checked_parts
    if ckpt.refusal(path) is None:
        return ckpt.checked_parts
    return lambda _file, size: [unsummed("", 0, size)]
