"""``compare`` and ``compare_distributed``: two dumps of ptdbg_ascend, in the tool's csv."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from troubleshooter_nb.compat.msprobe.compare.advice import write_advice
from troubleshooter_nb.compat.ptdbg_ascend.advice import advice_on
from troubleshooter_nb.compat.ptdbg_ascend.calls import calls_of_file
from troubleshooter_nb.compat.ptdbg_ascend.releases import RELEASES, Name, Release
from troubleshooter_nb.compat.ptdbg_ascend.rows import Arrays, CsvRow, rows_of
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    FormatError,
    OptionError,
    PathNotFoundError,
    path_of,
)
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.hooks_arrays import Arrays as FilesBeside
from troubleshooter_nb.messages import Message, told

_PKLS = ("npu_pkl_path", "bench_pkl_path")
_FOLDERS = ("npu_dump_data_dir", "bench_dump_data_dir")
_LOG = "is_print_compare_log"
_KNOWN = (*_PKLS, *_FOLDERS, _LOG)
_SWITCHES = {"stack_mode": False, "auto_analyze": True, "fuzzy_match": False, _LOG: True}
_RANK = re.compile(r"rank([0-9]{1,18})")


class _Sides(NamedTuple):
    """What is compared: text files, and folders of arrays or None."""

    files: tuple[Path, Path]
    folders: tuple[Path, Path] | None


class _Ways(NamedTuple):
    """How: the arguments that both calls have."""

    stack_mode: bool
    auto_analyze: bool
    fuzzy_match: bool
    is_print_compare_log: bool
    release: Release


def compare(
    input_param: Mapping[str, Any],
    output_path: str | PathLike[str],
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    *,
    release: Name = "4.0",
) -> Path:
    """Compare two text files and their arrays; write the tool's csv and its advice.

    Parameters
    ----------
    input_param : dict
        ``npu_pkl_path`` and ``bench_pkl_path``, the text files called ``.pkl``, which are never
        unpickled; ``npu_dump_data_dir`` and ``bench_dump_data_dir``, the folders of their arrays,
        or neither of the two, which compares the statistics that stand in the text files;
        ``is_print_compare_log``, whether rows are printed, by default True. Bench is the reference.
    output_path : str or path-like
        A folder, made if there is none: ``compare_result_{YYYYmmddHHMMSS}.csv`` appears in it, and
        ``advisor_{YYYYmmddHHMMSS}.txt``.
    stack_mode : bool
        Have a column of call stacks.
    auto_analyze : bool
        Say, print and write what the first row that is ``No`` suggests. Statistics alone have no
        verdict, and no such file.
    fuzzy_match : bool
        Match names without the number of the call.
    release : {"1.0", "2.0", "3.0", "4.0"}
        Whose table, rounding, matching and verdict; ours. "4.0" is the last one, of December 2023.

    Returns
    -------
    Path
        The csv. The tool gave nothing back.

    Raises
    ------
    FileNotFoundError
        If a file or folder does not exist.
    ValueError
        For unknown or missing keys, one folder of arrays without the other, a file that is no text
        of ptdbg_ascend, and an unknown `release`. Nothing is written then.
    TypeError
        For a switch that is neither True nor False.

    Notes
    -----
    Figures, matching and verdicts are the tool's, see `figures_of`, `pairs_of_calls` and `verdict`;
    an array that is missing or damaged is a row that says so, with ``Nan`` for its figures. Calls
    of the reference without partner have no row. `troubleshooter_nb.compare` of the two folders
    tells of them.
    """
    sides, log = _checked_input(input_param)
    switches = {"stack_mode": stack_mode, "auto_analyze": auto_analyze, "fuzzy_match": fuzzy_match}
    ways = _checked_ways({**switches, _LOG: log, "release": release})
    return _compare(sides, "", path_of(output_path), ways)


def compare_distributed(
    npu_dump_dir: str | PathLike[str],
    bench_dump_dir: str | PathLike[str],
    output_path: str | PathLike[str],
    **kwargs: Any,
) -> list[Path]:
    """`compare` each ``rank<k>`` folder of one dump with one of the other.

    Parameters
    ----------
    npu_dump_dir, bench_dump_dir : str or path-like
        Folders such as ``ptdbg_dump_v4.0``, with equally many ``rank<k>`` folders. They are paired
        in the order of their numbers. In each is one text file, and beside it, in both or in
        neither, the folder of its arrays.
    output_path : str or path-like
        As in `compare`; names begin with ``compare_result_rank<k>-rank<l>_``.
    **kwargs
        `stack_mode`, `auto_analyze`, `fuzzy_match`, `is_print_compare_log`, `release`, as in
        `compare`.

    Returns
    -------
    list of Path
        The csv of each pair.

    Raises
    ------
    FileNotFoundError, ValueError, TypeError
        As `compare`, and if there are no such folders or unequally many. All folders are looked at
        before the first is compared.
    """
    if unknown := [name for name in kwargs if name not in (*_SWITCHES, "release")]:
        call = {"call": "compare_distributed", "known": ", ".join((*_SWITCHES, "release"))}
        raise OptionError(Message("compat.unknown_argument_of", names=unknown, **call))
    ways = _checked_ways({**_SWITCHES, "release": "4.0", **kwargs})
    ranks = [
        _ranks_of(path, name)
        for path, name in ((npu_dump_dir, "npu_dump_dir"), (bench_dump_dir, "bench_dump_dir"))
    ]
    if len(ranks[0]) != len(ranks[1]):
        counts = {"npu": len(ranks[0]), "bench": len(ranks[1])}
        raise ArgumentError(Message("ptdbg_ascend.unequally_many_ranks", **counts))
    pairs = [*zip(*ranks, strict=True)]
    sides = [_sides_of(left, right) for left, right in pairs]
    suffixes = [f"_{left.name}-{right.name}" for left, right in pairs]
    output = path_of(output_path)
    return [_compare(*one, output, ways) for one in zip(sides, suffixes, strict=True)]


def _compare(sides: _Sides, suffix: str, output: Path, ways: _Ways) -> Path:
    release, folders = ways.release, sides.folders
    if folders is None and not release.of_statistics:
        raise ArgumentError(Message("ptdbg_ascend.release_needs_arrays", folders=[*_FOLDERS]))
    if output.exists() and not output.is_dir():
        raise ArgumentError(Message("ptdbg_ascend.output_is_file", path=str(output)))
    left, right = (calls_of_file(file, fuzzy=ways.fuzzy_match) for file in sides.files)
    arrays = None if folders is None else (Arrays(folders[0]), Arrays(folders[1]))
    headings = release.headings(with_arrays=arrays is not None, with_stacks=ways.stack_mode)
    rows = []
    for row in rows_of(left, right, arrays, release, with_stacks=ways.stack_mode):
        if ways.is_print_compare_log:
            print(_log_line(row, headings))
        rows.append(row)
    output.mkdir(parents=True, exist_ok=True)
    table, advised = _free_names(output, suffix)
    _write(table, _csv_text(headings, rows))
    if ways.is_print_compare_log:
        print(told(Message("ptdbg_ascend.written", path=str(table))))
    if ways.auto_analyze and arrays is not None:
        advice = advice_on(rows)
        write_advice(advised, advice)
        print("\n".join(advice.lines))
    return table


# What is given


def _checked_input(given: Mapping[str, Any]) -> tuple[_Sides, object]:
    if not isinstance(given, Mapping):
        kind = {"name": "input_param", "wanted": "dict", "kind": type(given).__name__}
        raise ArgumentTypeError(Message("arguments.kind", **kind))
    if unknown := [name for name in given if name not in _KNOWN]:
        call = {"call": "input_param", "known": ", ".join(_KNOWN)}
        raise OptionError(Message("compat.unknown_argument_of", names=unknown, **call))
    for name in _PKLS:
        if not given.get(name):
            raise ArgumentError(Message("compat.missing", argument=f"input_param[{name!r}]"))
    left, right = (_file(given[name], name) for name in _PKLS)
    folders = [_folder(given[name], name) if given.get(name) else None for name in _FOLDERS]
    if folders[0] is None or folders[1] is None:
        for name, folder in zip(reversed(_FOLDERS), folders, strict=True):
            if folder is not None:
                raise ArgumentError(Message("ptdbg_ascend.one_folder", missing=name))
        return _Sides((left, right), None), given.get(_LOG, True)
    return _Sides((left, right), (folders[0], folders[1])), given.get(_LOG, True)


def _checked_ways(given: dict[str, Any]) -> _Ways:
    for name in _SWITCHES:
        if not isinstance(given[name], bool):
            shown = {"argument": name, "given": repr(given[name])}
            raise ArgumentTypeError(Message("compat.switch", **shown))
    release = given["release"]
    if not isinstance(release, str) or release not in RELEASES:
        known = {"known": ", ".join(map(repr, RELEASES)), "given": repr(release)}
        raise OptionError(Message("ptdbg_ascend.release", **known))
    return _Ways(**{**given, "release": RELEASES[release]})


def _file(given: Any, name: str) -> Path:
    path = path_of(given)
    if path.is_dir():
        raise ArgumentError(Message("ptdbg_ascend.folder_for_file", argument=name, path=str(path)))
    if not path.exists():
        raise PathNotFoundError(Message("ptdbg_ascend.no_file", argument=name, path=str(path)))
    return path


def _folder(given: Any, name: str) -> Path:
    path = path_of(given)
    if not path.exists():
        raise PathNotFoundError(Message("ptdbg_ascend.no_folder", argument=name, path=str(path)))
    if not path.is_dir():
        raise ArgumentError(Message("ptdbg_ascend.file_for_folder", argument=name, path=str(path)))
    return path


def _ranks_of(given: Any, name: str) -> list[Path]:
    """The ``rank<k>`` folders, by number."""
    folder = _folder(given, name)
    found = {
        int(match[1]): child
        for child in folder.iterdir()
        if (match := _RANK.fullmatch(child.name)) and child.is_dir()
    }
    if not found:
        raise FormatError(Message("ptdbg_ascend.no_ranks", argument=name, path=str(folder)))
    return [found[number] for number in sorted(found)]


def _sides_of(left: Path, right: Path) -> _Sides:
    files = _text_file(left), _text_file(right)
    folders = [FilesBeside.beside(file).folder for file in files]
    if folders[0] is None and folders[1] is None:
        return _Sides(files, None)
    if folders[0] is None or folders[1] is None:
        without = files[0] if folders[0] is None else files[1]
        raise FormatError(Message("ptdbg_ascend.arrays_of_one_side", file=str(without)))
    return _Sides(files, (folders[0], folders[1]))


def _text_file(rank: Path) -> Path:
    files = sorted(file for file in rank.glob("*.pkl") if file.is_file())
    if not files:
        raise PathNotFoundError(Message("ptdbg_ascend.rank_without_file", path=str(rank)))
    if len(files) > 1:
        names = [file.name for file in files]
        raise FormatError(Message("ptdbg_ascend.rank_with_files", path=str(rank), names=names))
    return files[0]


# What is written


def _free_names(folder: Path, suffix: str) -> tuple[Path, Path]:
    """Names of this second, or of the first one after it whose names are free."""
    now = time.time()
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now))
        names = (f"compare_result{suffix}_{stamp}.csv", f"advisor{suffix}_{stamp}.txt")
        table, advised = (folder / name for name in names)
        if not (table.exists() or advised.exists()):
            return table, advised
        now += 1


def _csv_text(headings: Sequence[str], rows: Sequence[CsvRow]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(row.cells for row in rows)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    with written_whole(path) as file:
        file.write(text.encode("utf-8", errors="backslashreplace"))


def _log_line(row: CsvRow, headings: Sequence[str]) -> str:
    """The figures of a row, its verdict and its message."""
    statistics = ("NPU ", "Bench ", "NPU_")
    shown = [
        f"{heading} {cell}"
        for heading, cell in zip(headings, row.cells, strict=True)
        if cell and not heading.startswith(statistics)
    ]
    return f"[{row.name}] {', '.join(shown)}"
