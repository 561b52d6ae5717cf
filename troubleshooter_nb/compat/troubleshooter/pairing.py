"""Which file of one folder is compared with which of the other, as TroubleShooter pairs them.

The package's own pairing is `troubleshooter_nb.pair_dumps`; these are the old tool's three, with
their quirks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, zip_longest
from os import PathLike
from pathlib import Path
from typing import Any

from troubleshooter_nb.compat.troubleshooter.log import user_warning
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import FileSource
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Message
from troubleshooter_nb.naming import natural_key, parse_npy_name

Folder = str | PathLike[str]
NameMap = list[tuple[str | None, str | None]]
SortKey = Callable[[str], Any]


def front_end_number(name: str) -> tuple[int, ...]:
    """Sort key of the old tool: first and last integer of a file name, nothing without one.

    In names such as ``conv2_float32_0.npy`` the first integer is that of the layer or of the
    dtype, so files saved in another order than their layers are numbered pair wrongly.
    `end_number` does not have this trap.
    """
    numbers = re.findall(r"\d+", name)
    return (int(numbers[0]), int(numbers[-1])) if numbers else ()


def end_number(name: str) -> tuple[int, ...]:
    """Sort key of ``compare_list_dir``: the last integer of a file name, nothing without one."""
    return front_end_number(name)[1:]


def get_name_map_list_by_name(orig_dir: Folder, target_dir: Folder) -> NameMap:
    """Pair files of exactly the same name, and those of a dictionary by its keys.

    Parameters
    ----------
    orig_dir, target_dir : str or path-like
        Folders; their sub-folders are not searched.

    Returns
    -------
    list of (str or None, str or None)
        File names of the first folder in their order, then those only the second has.

    Raises
    ------
    ValueError
        If a folder does not exist or has no ``.npy`` file.

    Warns
    -----
    Through logging, if a file stays alone.

    Notes
    -----
    The number in a name is that of the saving, so that a dictionary saved in another order has
    other names: the old tool left all of it alone. Here, of what equal names leave, a key is paired
    with itself where both folders saved the dictionary under the same numbers, or once each and
    not merely later. Integer keys look like the indices of a list, so they count only where both
    sides have the same ones. All else stays alone: it may be of another step.
    """
    orig, target = _both(orig_dir, target_dir, front_end_number)
    partners = _same_keys(orig, target) | {name: name for name in set(orig) & set(target)}
    taken = set(partners.values())
    pairs: NameMap = [(name, partners.get(name)) for name in orig]
    pairs += [(None, name) for name in target if name not in taken]
    if any(None in pair for pair in pairs):
        user_warning(Message("compat.no_same_names"))
    return pairs


def get_name_map_list_by_number(
    orig_dir: Folder, target_dir: Folder, sort_key: SortKey = front_end_number
) -> NameMap:
    """Pair the first file with the first, the second with the second, in numeric order.

    Parameters
    ----------
    orig_dir, target_dir : str or path-like
        Folders; their sub-folders are not searched.
    sort_key : callable
        File name -> sort key. Default: first, then last integer of the name. Files with equal
        keys follow their time of change, then their names.

    Returns
    -------
    list of (str or None, str or None)
        The shorter side is filled up with None.

    Raises
    ------
    ValueError
        If a folder does not exist or has no ``.npy`` file.

    Warns
    -----
    Through logging, if the folders hold unequally many files.
    """
    orig, target = _both(orig_dir, target_dir, sort_key)
    if len(orig) != len(target):
        user_warning(Message("compat.unequally_many", orig=len(orig), target=len(target)))
    return list(zip_longest(orig, target))


def get_name_map_list_by_shape_edit_distance(
    orig_dir: Folder,
    target_dir: Folder,
    *,
    del_cost: float = 1,
    ins_cost: float = 1,
    rep_cost: float = 5,
) -> NameMap:
    """Pair files in numeric order so that the shapes fit best.

    Parameters
    ----------
    orig_dir, target_dir : str or path-like
        Folders; their sub-folders are not searched. Only headers are read.
    del_cost, ins_cost, rep_cost : float
        What it costs to leave a file of the first or of the second folder alone, and to pair
        files of different shapes.

    Returns
    -------
    list of (str or None, str or None)
        In order on both sides. A file that cannot be read fits none.

    Raises
    ------
    ValueError
        If a folder does not exist or has no ``.npy`` file.

    Warns
    -----
    Through logging, if the shapes do not fit one by one.
    """
    orig, target = _both(orig_dir, target_dir, front_end_number)
    shapes = [
        [_shape(Path(folder) / name) for name in names]
        for folder, names in ((orig_dir, orig), (target_dir, target))
    ]
    cost, matches = edit_distance(*shapes, delete=del_cost, insert=ins_cost, replace=rep_cost)
    if cost:
        user_warning(Message("compat.shapes_differ"))
    return [(None if i is None else orig[i], None if j is None else target[j]) for i, j in matches]


def edit_distance(
    orig: Sequence[object],
    target: Sequence[object],
    *,
    delete: float = 1,
    insert: float = 1,
    replace: float = 5,
) -> tuple[float, list[tuple[int | None, int | None]]]:
    """Cost and rows of the old tool's alignment of two sequences.

    Its quirks are kept: the borders cost one per element whatever
    `delete` and `insert` say, and where deleting is as cheap as pairing equal elements it
    deletes, so that the shorter side binds to the tail when it comes first and to the head when
    it comes second. None is equal to nothing.
    """
    rows, columns = len(orig), len(target)
    costs: list[float] = list(range(columns + 1))
    moves = []
    for i, mine in enumerate(orig, start=1):
        above, costs = costs, [i]
        moves.append(bytearray(columns))
        for j, theirs in enumerate(target):
            deleted, inserted, paired = above[j + 1] + delete, costs[j] + insert, above[j]
            if mine is not None and mine == theirs:
                # The pair costs nothing even where a detour would be cheaper.
                cost, move = paired, b"d" if deleted == paired else b"p"
            else:
                paired += replace
                cost = min(deleted, inserted, paired)
                move = b"d" if deleted == cost else b"i" if inserted == cost else b"p"
            costs.append(cost)
            moves[-1][j] = move[0]
    matches: list[tuple[int | None, int | None]] = []
    i, j = rows, columns
    while i or j:
        move = bytes([moves[i - 1][j - 1]]) if i and j else b"d" if i else b"i"
        i -= move != b"i"
        j -= move != b"d"
        matches.append((i if move != b"i" else None, j if move != b"d" else None))
    return costs[-1], matches[::-1]


def open_file(file: Path) -> FileSource:
    """Handle to one file; the dtype token of its name says what raw bytes in it are.

    Raises
    ------
    FormatError
        If it is damaged or holds no numbers.
    OSError
        If it cannot be opened.
    """
    return open_npy(file, parse_npy_name(file.name).dtype)


def existing_folder(folder: Folder, parameter: str) -> Path:
    """The folder as a path.

    Raises
    ------
    FormatError
        If it is None or no folder.
    """
    if folder is None or not os.path.isdir(folder):
        given = repr(None if folder is None else str(folder))
        raise FormatError(Message("compat.existing_folder", argument=parameter, given=given))
    return Path(folder)


@dataclass(frozen=True)
class _Saving:
    """Files of one dictionary with consecutive numbers: one call of `save`, or several."""

    first: int
    stems: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + len(self.stems))

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Where in the saving each key is."""
        found: dict[str, list[int]] = {}
        for place, stem in enumerate(self.stems):
            found.setdefault(stem, []).append(place)
        return found

    @property
    def is_one_call(self) -> bool:
        return len(self.places) == len(self.stems)


def _same_keys(orig: Sequence[str], target: Sequence[str]) -> dict[str, str]:
    """Partners of other names among the files of dictionaries."""
    common = set(orig) & set(target)
    lefts, rights = _savings(orig), _savings(target)
    partners: dict[str, str] = {}
    for dictionary in lefts.keys() & rights.keys():
        mine, theirs = lefts[dictionary], rights[dictionary]
        by_numbers = {saving.numbers: saving for saving in theirs}
        both = [(left, by_numbers.get(left.numbers)) for left in mine]
        if len(mine) == len(theirs) == 1 and _otherwise_saved(mine[0], theirs[0]):
            both = [(mine[0], theirs[0])]
        for left, right in both:
            if right is not None:
                partners.update(_by_key(left, right, common))
    return partners


def _savings(names: Sequence[str]) -> dict[tuple[str, bool], list[_Saving]]:
    """Each dictionary's savings, by what stands before the first dot and the form of the names."""
    files: dict[tuple[str, bool], list[tuple[int, str, str]]] = {}
    for name in names:
        parsed = parse_npy_name(name)
        dictionary, dot, _ = parsed.stem.partition(".")
        if dot and parsed.number is not None:
            entry = parsed.number, parsed.stem, name
            files.setdefault((dictionary, parsed.dtype is None), []).append(entry)
    return {
        dictionary: [saving for run in _runs(sorted(found)) for saving in _calls(run)]
        for dictionary, found in files.items()
        # Up to 1.0.15 one number served a whole call, and says nothing of the order in it.
        if len({number for number, _, _ in found}) == len(found)
    }


def _runs(files: Sequence[tuple[int, str, str]]) -> Iterator[_Saving]:
    """Files cut where a number is missing."""
    for _, run in groupby(enumerate(files), lambda item: item[1][0] - item[0]):
        numbers, stems, names = zip(*(file for _, file in run), strict=True)
        yield _Saving(numbers[0], stems, names)


def _calls(run: _Saving) -> list[_Saving]:
    """The calls in a run, where each of them saved all its keys; else the run as it is."""
    count = len({*run.stems})
    calls = [
        _Saving(run.first + at, run.stems[at : at + count], run.names[at : at + count])
        for at in range(0, len(run.stems), count)
    ]
    return calls if all({*call.stems} == {*run.stems} for call in calls) else [run]


def _otherwise_saved(left: _Saving, right: _Saving) -> bool:
    """Whether the same keys stand otherwise: all equally much later may be a later step."""
    shared = left.places.keys() & right.places.keys()
    moved = {right.places[stem][0] - left.places[stem][0] for stem in shared}
    return left.is_one_call and right.is_one_call and len(moved) > 1


def _by_key(left: _Saving, right: _Saving, common: Container[str]) -> Iterator[tuple[str, str]]:
    same = left.is_one_call and left.places.keys() == right.places.keys()
    for stem, lefts in left.places.items():
        rights = right.places.get(stem, [])
        if len(lefts) == len(rights) and (same or not _is_index(stem)):
            for mine, theirs in zip(lefts, rights, strict=True):
                names = left.names[mine], right.names[theirs]
                # A name that both folders have is its own partner.
                if not any(name in common for name in names):
                    yield names


def _is_index(stem: str) -> bool:
    """Whether the file may be of a list, where a place in another list is no key."""
    return all(part.partition("_")[0].isdecimal() for part in stem.split(".")[1:])


def _both(orig: Folder, target: Folder, sort_key: SortKey) -> tuple[list[str], list[str]]:
    names = []
    for folder, parameter in ((orig, "orig_dir"), (target, "target_dir")):
        path = existing_folder(folder, parameter)
        names.append(_npy_names(path, sort_key))
        if not names[-1]:
            raise FormatError(Message("compat.no_npy", argument=parameter, folder=path))
    return names[0], names[1]


def _npy_names(folder: Path, sort_key: SortKey) -> list[str]:
    """File names in the old tool's order.

    It sorted by the time of creation first. That time does not survive a copy to another machine
    and Linux hands Python only the time of the last change of rights, so it counts here only
    where the keys are equal, as time of writing, and the names decide between equal times.
    """

    def key(entry: os.DirEntry[str]) -> tuple[Any, ...]:
        # Of a link itself: what it leads to may be gone, and then it is a row with a reason.
        changed = entry.stat(follow_symlinks=False).st_mtime_ns
        return sort_key(entry.name), changed, natural_key(entry.name)

    with os.scandir(folder) as entries:
        found = [entry for entry in entries if _is_array(entry.name) and not entry.is_dir()]
        return [entry.name for entry in sorted(found, key=key)]


def _is_array(name: str) -> bool:
    # macOS leaves a ._x.npy beside an x.npy on foreign disks; it is no array.
    return name.endswith(".npy") and name != ".npy" and not name.startswith("._")


def _shape(file: Path) -> tuple[int, ...] | None:
    try:
        return open_file(file).shape
    except (FormatError, OSError):
        return None
