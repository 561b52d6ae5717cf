"""Folders of ``.npy`` files, as TroubleShooter's ``save`` and MindSpore's TensorDump leave them."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troubleshooter_nb.dump import ArraySource, Dump, Entry
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    TroubleshooterWarning,
)
from troubleshooter_nb.formats.aside import files_placed
from troubleshooter_nb.formats.checkpoint import item_of
from troubleshooter_nb.formats.checksums import FILE as CHECKSUMS_FILE
from troubleshooter_nb.formats.checksums import add_line
from troubleshooter_nb.formats.claims import FILE as COUNT_FILE
from troubleshooter_nb.formats.claims import processes_in
from troubleshooter_nb.formats.file_source import opened
from troubleshooter_nb.formats.npy_file import open_npy, write_npy, write_npy_blocks
from troubleshooter_nb.frameworks import to_numpy
from troubleshooter_nb.messages import Message, joined, message_of, told
from troubleshooter_nb.metrics.floats import arithmetic_of
from troubleshooter_nb.naming import (
    NpyName,
    format_npy_name,
    natural_key,
    parse_npy_name,
    site_of_npy_stem,
)
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.run_card import RunCard

NAME = "npy_dir"
CARD_FILE = "run_card.json"
_LARGEST_CARD = 64 * 1024
_LONGEST_NAME = 255  # bytes of one path part on the usual file systems
_LAST_NUMBER = re.compile(r"([0-9]+)$")
_COORDINATE = re.compile(r"(?i)(rank|step)[_-]?([0-9]{1,9})")
# Files whose presence says that the folder belongs to another tool.
_FOREIGN = {
    **dict.fromkeys(("dump.json", "construct.json", "stack.json"), "msprobe"),
    **{f"{name}_api_dump_info.csv": "api_dump" for name in ("torch", "mindspore", "mindtorch")},
}
_MOST_NOTES = 5
# The folders below the root and the name: sorted like paths, and cheaper.
Parts = tuple[str, ...]


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if path.is_file():
        return None if path.suffix == ".npy" else Message("dumps.not_npy")
    if not path.is_dir():
        return Message("files.neither")
    if tool := of_other_tool(path):
        return tool
    notes: list[str] = []
    if next(files_below(path, notes), None) is None:
        return joined([Message("dumps.without_npy"), *notes[:_MOST_NOTES]])
    return None


def of_other_tool(path: Path) -> str:
    """Which tool a folder is a dump of, by files that only that one writes; empty for none."""
    for folder in [path, *_coordinate_folders(path)]:
        for file, tool in _FOREIGN.items():
            if os.path.exists(folder / file):
                found = (folder / file).relative_to(path).as_posix()
                return Message("dumps.of_tool", file=printable(found), tool=tool)
    return ""


def _coordinate_folders(path: Path) -> list[Path]:
    """The folders of ranks and steps in a folder; links to folders are not followed."""
    try:
        with os.scandir(path) as children:
            return sorted(
                Path(child.path)
                for child in children
                if child.is_dir(follow_symlinks=False) and _COORDINATE.fullmatch(child.name)
            )
    except OSError:
        return []


def open_npy_dir(path: Path, *, label: str) -> Dump:
    """Open a folder of arrays, or one array, by headers alone.

    Parameters
    ----------
    path : Path
        Folder, searched with its sub-folders (not hidden ones, not links to folders), or one
        ``.npy`` file. A sub-folder ``rank<k>`` or ``step<k>`` (also ``rank_k``, ``rank-k``, at
        any depth) gives the coordinate; any other becomes part of the names in it.
    label : str
        Label of the dump.

    Returns
    -------
    Dump
        One entry per file: `name` is the file name without ``.npy``, `path` its stem without
        number and dtype. `order` follows the numbers in the names, unnumbered files come last by
        name. A file that is damaged or holds no numbers is an entry with a reason; a folder that
        cannot be searched is a note.

    Raises
    ------
    FormatError
        If there is no ``.npy`` file.
    """
    root = path.parent if path.is_file() else path
    notes: list[str] = []
    files = [(path.name,)] if path.is_file() else sorted(files_below(path, notes))
    if not files:
        raise FormatError(joined([Message("dumps.no_npy", path=path), *notes[:_MOST_NOTES]]))
    notes = said_of_folders(notes)
    folders = list(dict.fromkeys(parts[:-1] for parts in files))
    places = {parts: NamedFolder.of(parts, root) for parts in folders}
    said = name_of(root)
    found = [_entry(parts[-1], places[parts[:-1]], said) for parts in files]
    entries = finished(found, files)
    searched = [*dict.fromkeys([root, *(root.joinpath(*parts) for parts in folders)])]
    card, card_notes = read_card(searched)
    notes += _several_processes(searched)
    return Dump.from_entries(
        entries, label=label, format=NAME, card=card, notes=[*notes, *card_notes]
    )


def _several_processes(folders: Iterable[Path]) -> list[str]:
    """Which folders several processes saved into at the same time."""
    counts = [(folder.name, count) for folder in folders if (count := processes_in(folder)) > 1]
    return [
        Message("dumps.several_processes", folder=printable(name), count=count)
        for name, count in counts[:_MOST_NOTES]
    ]


def said_of_folders(notes: list[str]) -> list[str]:
    """The first notes of folders that were not searched, and how many more there are."""
    more = len(notes) - _MOST_NOTES
    if more <= 0:
        return notes
    return [*notes[:_MOST_NOTES], Message("dumps.more_folders", count=more)]


def save_npy_dir(
    arrays: Mapping[str, Any], folder: Path, *, card: RunCard | None = None, replacing: bool = False
) -> Path:
    """Write one ``{name}_{dtype}_{number}.npy`` per array, numbered from 0 in mapping order.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays, numbers or tensors of torch and MindSpore. bfloat16 and float8 keep their bits:
        the token in the file name says what the two or one raw bytes are. A ``/`` in a name makes
        a sub-folder.
    folder : Path
        Created where missing. Files of the same name are replaced; each appears whole, and only
        when all were written.
    card : RunCard, optional
        Stored beside the arrays; default `RunCard.current()`.
    replacing : bool
        Remove all other arrays of the folder, once these are in their places.

    Raises
    ------
    ValueError
        If a name is empty, too long or leaves the folder, or a value holds no numbers; no file
        is written then.

    Warns
    -----
    TroubleshooterWarning
        If the folder holds other arrays, which `open_npy_dir` would read as part of this dump.
    """
    if not isinstance(arrays, Mapping):
        raise ArgumentTypeError(Message("dumps.no_mapping", type=type(arrays).__name__))
    for name, value in arrays.items():
        if value is None:
            raise ArgumentError(Message("dumps.none", name=str(name)))
    names = [safe_name(str(name)) for name in arrays]
    # Values are asked for when their turn comes: a mapping may make them.
    return _save(
        zip(names, range(len(names)), arrays.values(), strict=True), folder, card, replacing
    )


def save_npy_dump(
    dump: Dump, folder: Path, *, card: RunCard | None = None, replacing: bool = False
) -> Path:
    """Write the tensors of a Dump, copied block by block, as `save_npy_dir` writes arrays.

    Those of another step or rank than 0, or of several, lie below ``step<n>/rank<k>``, each
    numbered from 0.

    Parameters
    ----------
    dump : Dump
        Entries without tensor are left out.
    folder, card, replacing
        As in `save_npy_dir`.
    """
    steps, ranks = (dump.columns[name].tolist() for name in ("step", "rank"))
    places = [*zip(steps, ranks, strict=True)]
    plain = set(places) <= {(0, 0)}
    numbers: Counter[tuple[int, int]] = Counter()
    numbered = []
    for place, name, source in zip(places, dump.names, dump.sources, strict=True):
        if source is not None:
            below = "" if plain else f"step{place[0]}/rank{place[1]}/"
            numbered.append((below + safe_name(name), numbers[place], source))
            numbers[place] += 1
    return _save(numbered, folder, card, replacing)


def _save(
    numbered: Iterable[tuple[str, int, Any]], folder: Path, card: RunCard | None, replacing: bool
) -> Path:
    """Write values by name and number; all files appear, or none."""
    facts = (card or RunCard.current()).to_dict()
    folder.mkdir(parents=True, exist_ok=True)
    going: list[str] = []
    with files_placed(folder, going) as aside:
        written = [_write_array(aside, name, number, value) for name, number, value in numbered]
        text = json.dumps(facts, indent=1, ensure_ascii=False, default=str)
        (aside / CARD_FILE).write_bytes(text.encode(errors="backslashreplace"))
        saved = {file.relative_to(aside).parts for file in written}
        others = {*files_below(folder, [])} - saved
        if replacing:
            stale = {(*parts[:-1], name) for parts in others for name in (CARD_FILE, COUNT_FILE)}
            emptied = {parts[:-1] for parts in others} - {parts[:-1] for parts in saved}
            stale |= {(*folders, CHECKSUMS_FILE) for folders in emptied}
            going += ["/".join(parts) for parts in sorted(others | stale - {(CARD_FILE,)})]
            others.clear()
    if others:
        count, example = len(others), min(others)[-1]
        text = Message("dumps.arrays_before", folder=folder.name, count=count, example=example)
        warnings.warn(told(text), TroubleshooterWarning, stacklevel=4)
    return folder


def array_to_save(name: str, value: Any) -> np.ndarray:
    """The array of a tensor, array or number; ValueError with its name for anything else."""
    try:
        array = to_numpy(value)
    except (ValueError, TypeError) as error:
        raise ArgumentError(Message("dumps.of_value", name=name, problem=error)) from error
    if arithmetic_of(array.dtype) == "unsupported":
        raise ArgumentError(Message("dumps.dtype_not_saved", name=name, dtype=array.dtype))
    return array


def _write_array(folder: Path, name: str, number: int, value: Any) -> Path:
    stored = value if isinstance(value, ArraySource) else array_to_save(name, value)
    stem = format_npy_name(NpyName(name, number, stored.dtype.name))
    file = folder / f"{stem}.npy"
    file.parent.mkdir(parents=True, exist_ok=True)

    def told(crc: int) -> None:
        add_line(file.parent, file.name, crc)

    if isinstance(stored, ArraySource):
        write_npy_blocks(file, item_of(name, stored), told)
    else:
        write_npy(file, stored, told)
    return file


def files_below(
    folder: Path, notes: list[str], suffixes: tuple[str, ...] = (".npy",)
) -> Iterator[Parts]:
    """All files so called below a folder, also broken ones; `notes` gets what was not searched."""
    waiting: list[Parts] = [()]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(folder.joinpath(*here)) as children:
                for child in children:
                    if child.is_dir(follow_symlinks=False):
                        if not child.name.startswith("."):
                            waiting.append((*here, child.name))
                    # macOS leaves a ._x.npy beside an x.npy on foreign disks; it is no array.
                    elif child.name.endswith(suffixes) and not child.name.startswith("._"):
                        yield (*here, child.name)
                    elif child.is_symlink() and os.path.isdir(child.path):
                        notes.append(Message("dumps.link", name=printable(child.name)))
        except OSError as error:
            name = printable(here[-1] if here else folder.name)
            notes.append(Message("dumps.not_searched", folder=name, problem=error))


def finished(entries: Sequence[Entry], files: Sequence[Parts]) -> list[Entry]:
    """The entries of these files with names of their own, roles, visits and their order."""
    return _in_saving_order(_gradients_of_parameters(_distinct(entries, files)))


class NamedFolder(NamedTuple):
    """What a folder says of the files in it; `path` ends where the name of a file begins."""

    path: str
    inner: str
    step: int
    rank: int

    @classmethod
    def of(cls, folders: Parts, root: Path) -> NamedFolder:
        """The place of these folders below the root."""
        coordinates: dict[str, int] = {}
        inner = ""
        for part in folders:
            match = _COORDINATE.fullmatch(part)
            if match and match[1].lower() not in coordinates:
                coordinates[match[1].lower()] = int(match[2])
            else:
                inner += f"{part}/"
        path = os.fspath(root.joinpath(*folders, "_"))[:-1]
        return cls(path, inner, coordinates.get("step", 0), coordinates.get("rank", 0))


def name_of(root: Path) -> str:
    """What the folder is called, behind the name of the folder whose step or rank it is."""
    parts = Path(os.path.abspath(root)).parts
    own = next((at for at in range(len(parts), 1, -1) if not _is_coordinate(parts[at - 1])), 1)
    return "/".join(parts[own - 1 :])


def _is_coordinate(part: str) -> bool:
    return part.isdecimal() or _COORDINATE.fullmatch(part) is not None


def _entry(file: str, place: NamedFolder, folder: str) -> Entry:
    parsed = parse_npy_name(file)
    source, reason = None, ""
    try:
        source = open_npy(place.path + file, parsed.dtype)
    except (FormatError, OSError) as error:
        reason = message_of(error)
    return Entry(
        printable(place.inner + file.removesuffix(".npy")),
        site_of_npy_stem(printable(place.inner + parsed.stem), folder=folder),
        source,
        place.step,
        place.rank,
        -1 if parsed.number is None else parsed.number,
        reason=reason,
    )


def _distinct(entries: Sequence[Entry], files: Sequence[Parts]) -> list[Entry]:
    """The entries; one whose name another of its step and rank has gets its folder into it.

    ``x.npy`` and ``rank0/x.npy`` are both ``x`` of rank 0.
    """
    names = [(entry.step, entry.rank, entry.name) for entry in entries]
    if len(set(names)) == len(names):
        return list(entries)
    seen = Counter(names)
    return [
        entry
        if seen[name] == 1
        else entry._replace(name=printable("/".join(parts).removesuffix(".npy")))
        for entry, name, parts in zip(entries, names, files, strict=True)
    ]


def _gradients_of_parameters(entries: list[Entry]) -> list[Entry]:
    """Where most gradients are of parameters by name, the others of the folder are so as well.

    ``cls_token`` beside ``fc.weight``; not what ``save_grad`` marked as an activation's.
    """
    gradients = [entry for entry in entries if entry.site.direction == "backward"]
    of_parameters = sum(entry.site.role in ("parameter", "buffer") for entry in gradients)
    if 2 * of_parameters <= len(gradients):
        return entries
    return [
        entry._replace(site=replace(entry.site, role="parameter"))
        if entry.site.role == "gradient"
        and not parse_npy_name(entry.name).stem.endswith("_backward")
        else entry
        for entry in entries
    ]


def _in_saving_order(entries: list[Entry]) -> list[Entry]:
    """Sort, and number the positions of each step and rank and the visits of each place."""
    positions: Counter[tuple[int, int]] = Counter()
    visits: Counter[tuple[int, int, str, str]] = Counter()
    numbered = []
    for entry in _sorted(entries):
        place, site = (entry.step, entry.rank), entry.site
        visit = (*place, site.path, site.direction)
        if visits[visit]:
            site = replace(site, call=visits[visit])
        # Without a number the place in the order of saving is unknown.
        known = entry.order >= 0
        numbered.append(entry._replace(order=positions[place] if known else -1, site=site))
        positions[place] += known
        visits[visit] += 1
    return numbered


def _sorted(entries: list[Entry]) -> list[Entry]:
    """The entries in the order of their numbers, by name where these leave it open."""
    keys = [_saving_order(entry) for entry in entries]
    if len(set(keys)) < len(keys):
        names = [natural_key(entry.name) for entry in entries]
        rows = sorted(range(len(keys)), key=lambda row: (keys[row], names[row]))
    else:
        rows = sorted(range(len(keys)), key=keys.__getitem__)
    return [entries[row] for row in rows]


def _saving_order(entry: Entry) -> tuple[int, ...]:
    unnumbered = entry.order < 0
    if unnumbered:
        return entry.step, entry.rank, unnumbered, entry.order, -1
    # One id per call in the oldest generation: the key that ends the stem breaks the tie.
    path = entry.site.path
    last = _LAST_NUMBER.search(path) if path.rstrip("\n")[-1:].isdigit() else None
    return entry.step, entry.rank, unnumbered, entry.order, int(last[1]) if last else -1


def read_card(folders: Iterable[Path]) -> tuple[RunCard, list[str]]:
    """The first run card in these folders; what is wrong with it is a note."""
    # os.path, because Path.is_file raises in a folder that may not be entered.
    file = next((f / CARD_FILE for f in folders if os.path.isfile(f / CARD_FILE)), None)
    if file is None:
        return RunCard(), []
    try:
        with opened(file) as (stream, _):
            text = stream.read(_LARGEST_CARD + 1)
        if len(text) > _LARGEST_CARD:
            raise FormatError(Message("dumps.card_too_large", limit=_LARGEST_CARD))
        facts = json.loads(text)
        if not isinstance(facts, dict):
            raise FormatError(Message("dumps.card_no_object"))
    except (ValueError, OSError, RecursionError) as error:
        return RunCard(), [Message("dumps.card_not_read", file=CARD_FILE, problem=error)]
    return RunCard.from_dict(
        {
            printable(key): printable(value) if isinstance(value, str) else value
            for key, value in facts.items()
        }
    ), []


def safe_name(name: str) -> str:
    """The name, if it is one of a file inside the folder that every file system takes.

    A ``/`` in it makes a sub-folder.

    Raises
    ------
    ValueError
        If it is empty, hidden, too long or leaves the folder.
    """
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name:
        raise ArgumentError(Message("dumps.name_outside", name=name))
    if any(part.startswith(".") for part in parts[:-1]) or parts[-1].startswith("._"):
        raise ArgumentError(Message("dumps.name_hidden", name=name))
    if max(len(part.encode(errors="replace")) for part in parts) > _LONGEST_NAME - 40:
        raise ArgumentError(Message("dumps.name_too_long", name=name[:40]))
    return name
