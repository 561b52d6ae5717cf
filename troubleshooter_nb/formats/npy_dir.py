"""Folders of ``.npy`` files, as TroubleShooter's ``save`` and MindSpore's TensorDump leave them."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.frameworks import to_numpy
from troubleshooter_nb.metrics.floats import arithmetic_of, dtype_from_token
from troubleshooter_nb.naming import (
    NpyName,
    format_npy_name,
    natural_key,
    parse_npy_name,
    site_of_npy_stem,
)
from troubleshooter_nb.run_card import RunCard

NAME = "npy_dir"
CARD_FILE = "run_card.json"
# Deeper folders than this are not ours: save() makes one level per "/" in a dict key.
_DEEPEST = 8
_LARGEST_CARD = 64 * 1024
_COORDINATE = re.compile(r"(?i)(rank|step)[_-]?(\d{1,9})")
# Files whose presence says that the folder belongs to another tool.
_FOREIGN = {"dump.json": "msprobe", "construct.json": "msprobe", "stack.json": "msprobe"}


@dataclass(frozen=True)
class NpySource:
    """One ``.npy`` file, opened by its header alone."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype
    stored_dtype: np.dtype
    offset: int
    fortran_order: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> np.ndarray:
        """Stored values of a flat C-order range.

        Raises
        ------
        ReadError
            If the file is gone or shorter than its header promised when it was opened.
        """
        try:
            if self.fortran_order:
                values = self._read_fortran(start, stop)
            else:
                values = self._read_contiguous(start, stop)
        except OSError as error:
            if isinstance(error, ReadError):
                raise
            msg = f"{Path(self.path).name}: {error.strerror or error}"
            raise ReadError(msg) from error
        return values if self.dtype == self.stored_dtype else values.view(self.dtype)

    def _read_contiguous(self, start: int, stop: int) -> np.ndarray:
        values = np.empty(stop - start, self.stored_dtype)
        # Not a memory map: a file that shrinks meanwhile must raise, not kill the process.
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset + start * self.stored_dtype.itemsize)
            view = memoryview(values.view(np.uint8).data)
            while len(view):
                count = file.readinto(view)
                if not count:
                    raise ReadError(_shrunk(self.path))
                view = view[count:]
        return values

    def _read_fortran(self, start: int, stop: int) -> np.ndarray:
        if os.path.getsize(self.path) < self.offset + self.size_bytes:
            raise ReadError(_shrunk(self.path))
        mapped = np.memmap(self.path, self.stored_dtype, "r", self.offset, self.shape, "F")
        return np.asarray(mapped.flat[start:stop])


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_file():
        return None if path.suffix == ".npy" else "a file, but not .npy"
    if not path.is_dir():
        return "neither a folder nor a file"
    for file, tool in _FOREIGN.items():
        if (path / file).exists():
            return f"holds {file}, so it is a dump of {tool}"
    if next(_npy_files(path), None) is None:
        return "a folder without .npy files"
    return None


def open_npy_dir(path: Path, *, label: str) -> Dump:
    """Open a folder of arrays, or one array, by headers alone.

    Parameters
    ----------
    path : Path
        Folder, searched with its sub-folders, or one ``.npy`` file. A sub-folder ``rank<k>`` or
        ``step<k>`` (also ``rank_k``, ``rank-k``) gives the coordinate; any other becomes part of
        the names in it.
    label : str
        Label of the dump.

    Returns
    -------
    Dump
        One entry per file: `name` is the file name without ``.npy``, `path` its stem without
        number and dtype. `order` follows the numbers in the names, unnumbered files come last by
        name. A file that is damaged or holds no numbers is an entry with a reason.
    """
    root = path.parent if path.is_file() else path
    files = [path] if path.is_file() else sorted(_npy_files(path))
    entries = [_entry(file, root) for file in files]
    entries.sort(key=_saving_order)
    numbered: Counter[tuple[int, int]] = Counter()
    calls: Counter[tuple[int, int, str, str]] = Counter()
    ordered = []
    for entry in entries:
        place = entry.step, entry.rank
        visit = (*place, entry.site.path, entry.site.direction)
        site = replace(entry.site, call=calls[visit])
        ordered.append(replace(entry, order=numbered[place], site=site))
        numbered[place] += 1
        calls[visit] += 1
    card, notes = _read_card(root)
    return Dump.from_entries(ordered, label=label, format=NAME, card=card, notes=notes)


def save_npy_dir(arrays: Mapping[str, Any], folder: Path, *, card: RunCard | None = None) -> Path:
    """Write one ``{name}_{dtype}_{number}.npy`` per array, numbered from 0 in mapping order.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays, numbers or tensors of torch and MindSpore. bfloat16 and float8 keep their bits:
        the token in the file name says what the two or one raw bytes are. A ``/`` in a name makes
        a sub-folder.
    folder : Path
        Created where missing. Files appear whole: written aside and renamed.
    card : RunCard, optional
        Stored beside the arrays; default `RunCard.current()`.

    Raises
    ------
    ValueError
        If a name is empty, leaves the folder, or an array holds no numbers; nothing is written.
    """
    prepared = []
    for number, (name, value) in enumerate(arrays.items()):
        array = to_numpy(value)
        if arithmetic_of(array.dtype) == "unsupported":
            msg = f"{name!r}: cannot save dtype {array.dtype}; expected numbers"
            raise ValueError(msg)
        stem = format_npy_name(NpyName(_safe_name(name), number, array.dtype.name))
        prepared.append((folder / f"{stem}.npy", array))
    folder.mkdir(parents=True, exist_ok=True)
    for target, array in prepared:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _whole_file(target) as file:
            np.lib.format.write_array(file, _plain_bytes(array), allow_pickle=False)
    with _whole_file(folder / CARD_FILE) as card_file:
        facts = (card or RunCard.current()).to_dict()
        card_file.write(json.dumps(facts, indent=1, ensure_ascii=False).encode())
    return folder


@contextmanager
def _whole_file(target: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when it was written to the end."""
    handle, aside = tempfile.mkstemp(dir=target.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # mkstemp makes private files; a dump is to be shared like any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(aside, 0o666 & ~umask)
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise


def _npy_files(folder: Path, depth: int = 0) -> Iterator[Path]:
    folders = []
    with os.scandir(folder) as children:
        for child in children:
            if child.is_file() and child.name.endswith(".npy"):
                yield Path(child.path)
            elif depth < _DEEPEST and child.is_dir(follow_symlinks=False):
                folders.append(Path(child.path))
    for inner in sorted(folders):
        yield from _npy_files(inner, depth + 1)


def _entry(file: Path, root: Path) -> Entry:
    relative = file.relative_to(root)
    coordinates = {"rank": 0, "step": 0}
    inner: list[str] = []
    for part in relative.parts[:-1]:
        match = _COORDINATE.fullmatch(part)
        if match and not inner:
            coordinates[match[1].lower()] = int(match[2])
        else:
            inner.append(part)
    prefix = "".join(f"{part}/" for part in inner)
    parsed = parse_npy_name(relative.name)
    site = site_of_npy_stem(prefix + parsed.stem, folder=root.name)
    entry = Entry(
        prefix + relative.name.removesuffix(".npy"),
        site,
        step=coordinates["step"],
        rank=coordinates["rank"],
        order=-1 if parsed.number is None else parsed.number,
    )
    try:
        return replace(entry, source=_read_header(file, parsed.dtype))
    except FormatError as error:
        return replace(entry, reason=str(error))
    except OSError as error:
        return replace(entry, reason=error.strerror or str(error))


def _read_header(file: Path, token: str | None) -> NpySource:
    with open(file, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size == 0:
            msg = "empty file: the save was interrupted; save it again"
            raise FormatError(msg)
        shape, fortran_order, dtype = _parse_header(stream)
        offset = stream.tell()
    if any(not isinstance(length, int) or length < 0 for length in shape):
        msg = f"header gives the impossible shape {shape}"
        raise FormatError(msg)
    meaning = _meaning(dtype, token)
    promised = dtype.itemsize
    for length in shape:
        promised *= length  # Python integers: a hostile shape must not wrap around
    if size - offset < promised:
        msg = (
            f"truncated: {shape} of {dtype} needs {promised:,} bytes, "
            f"the file holds {size - offset:,}; copy or save it again"
        )
        raise FormatError(msg)
    return NpySource(str(file), shape, meaning, dtype, offset, fortran_order and len(shape) > 1)


def _parse_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    try:
        version = np.lib.format.read_magic(stream)
        if version in ((1, 0), (2, 0)):
            read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            shape, fortran_order, dtype = read(stream)
            return shape, fortran_order, dtype
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        msg = f"not a .npy file: {first[:160]}"
        raise FormatError(msg) from None
    msg = f"npy format {version[0]}.{version[1]} is only used for records, which hold no tensor"
    raise FormatError(msg)


def _meaning(dtype: np.dtype, token: str | None) -> np.dtype:
    """The dtype of the values: the stored one, or what the file name says raw bytes are."""
    if dtype.hasobject:
        msg = "holds Python objects; reading them would run code from the file, so it is not read"
        raise FormatError(msg)
    if dtype.kind == "V" and dtype.names is None and token is not None:
        named = dtype_from_token(token)
        if named.itemsize == dtype.itemsize:
            return named
    if arithmetic_of(dtype) == "unsupported":
        kind = "records" if dtype.names else "raw bytes" if dtype.kind == "V" else "text or dates"
        msg = f"holds {kind} ({dtype}), not numbers"
        raise FormatError(msg)
    return dtype


def _saving_order(entry: Entry) -> tuple[Any, ...]:
    # One id per call in the oldest generation: the key that ends the stem breaks the tie.
    last = re.search(r"(\d+)$", entry.site.path)
    within = int(last[1]) if last else -1
    unnumbered = entry.order < 0
    return (
        entry.step,
        entry.rank,
        unnumbered,
        entry.order,
        0 if unnumbered else within,
        natural_key(entry.name),
    )


def _read_card(root: Path) -> tuple[RunCard, list[str]]:
    file = root / CARD_FILE
    if not file.is_file():
        return RunCard(), []
    try:
        if file.stat().st_size > _LARGEST_CARD:
            msg = f"larger than {_LARGEST_CARD:,} bytes"
            raise ValueError(msg)
        facts = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(facts, dict):
            msg = "not a JSON object"
            raise ValueError(msg)
    except (ValueError, OSError, RecursionError) as error:
        return RunCard(), [f"{CARD_FILE} was not read: {error}"]
    return RunCard.from_dict(facts), []


def _plain_bytes(array: np.ndarray) -> np.ndarray:
    # .npy has no name for ml_dtypes; numpy itself would write the same raw bytes.
    if array.dtype.type.__module__.startswith("ml_dtypes"):
        return array.view(f"V{array.dtype.itemsize}")
    return array


def _safe_name(name: str) -> str:
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name:
        msg = f"cannot save under the name {name!r}: it is empty or leaves the folder"
        raise ValueError(msg)
    return name


def _shrunk(path: str) -> str:
    return f"{Path(path).name} is shorter than when it was opened; open the dump again"
