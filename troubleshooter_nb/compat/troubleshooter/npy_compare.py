"""The comparisons of two folders of ``.npy`` files, with the old tool's table and csv."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from troubleshooter_nb.analysis.progress import reporter
from troubleshooter_nb.compat.troubleshooter.kernels import UNREADABLE, Figures, measure
from troubleshooter_nb.compat.troubleshooter.log import user_attention, user_warning
from troubleshooter_nb.compat.troubleshooter.pairing import (
    Folder,
    NameMap,
    end_number,
    existing_folder,
    get_name_map_list_by_name,
    get_name_map_list_by_number,
    get_name_map_list_by_shape_edit_distance,
    open_file,
)
from troubleshooter_nb.compat.troubleshooter.table import text_table, write_csv
from troubleshooter_nb.errors import (
    ArgumentTypeError,
    FormatError,
    NotOfferedError,
    OptionError,
)
from troubleshooter_nb.messages import Foreign, Message, message_of
from troubleshooter_nb.metrics.floats import is_number

TITLE = "The list of comparison results"
FIELDS = (
    *("orig array name", "target array name", "result of allclose", "ratio of allclose"),
    *("cosine similarity", "mean & max diffs"),
)
_SHAPE_FIELDS = ("shape of orig", "shape of target")
# Empty files with which the old API dump marked where a module begins.
_MARKER = "LAYER_"
NamePairs = Iterable[tuple[str | None, str | None]]


@dataclass(frozen=True)
class _ReadFile:
    """One file of a pair: its values, or why there are none."""

    values: np.ndarray | None = None
    shape: tuple[int, ...] | None = None
    problem: str = ""


@dataclass(frozen=True)
class _Compared:
    """One pair, measured; `names` as they were given."""

    names: tuple[str | None, str | None]
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    figures: Figures
    problems: tuple[str, str]

    def row(self, *, with_shapes: bool) -> list[object]:
        """The cells of the old table."""
        return [*self.names, *(self.shapes if with_shapes else ()), *self.figures.cells()]


def compare_npy_dir(
    orig_dir: Folder,
    target_dir: Folder,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    *,
    name_map_list: NamePairs | None = None,
    compare_shape: bool = False,
    output_file: str | PathLike[str] | None = None,
    num_processes: int | None = None,
    title: str | None = None,
    field_names: Sequence[str] | None = None,
    frame_names: tuple[str, ...] = (),
    **unknown: object,
) -> str | None:
    """Compare the ``.npy`` files of two folders; print the table and return it.

    Parameters
    ----------
    orig_dir, target_dir : str or path-like
        The second one is the reference.
    rtol, atol : float or int
        An element is close when ``|orig - target| <= atol + rtol * |target|``.
    equal_nan : bool
        Whether nan is close to nan.
    name_map_list : list of (str or None, str or None), optional
        Which file is compared with which; ``.npy`` may be left out, and a file that does not
        exist counts as None. Default: as `get_name_map_list_by_name`. An empty list compares
        nothing, prints nothing and returns None.
    compare_shape : bool
        Show both shapes too.
    output_file : str or path-like, optional
        Write the rows as csv.
    num_processes : int, optional
        How many pairs are in work at a time; threads, whatever the name says. Default: one less
        than there are processors, at least 1 and at most 8.
    title : str, optional
        Title of the table.
    field_names : list of 6 str, optional
        Headings of the columns, without those of the shapes.
    frame_names : tuple of str, optional
        Of no effect without `field_names`, and with them only where ``msadapter`` is among them.
    **unknown
        Refused.

    Returns
    -------
    str or None
        The printed table.

    Raises
    ------
    ValueError
        If a folder does not exist or is empty, or for an unknown keyword.
    TypeError
        If an argument has the wrong type.
    NotOfferedError
        For the table of MSAdapter runs (`field_names`, and ``msadapter`` among `frame_names`).

    Warns
    -----
    Through logging, with both folders; and for every file that cannot be read, with its reason.
    Its row says ``File is unreadable``.

    Notes
    -----
    Differences to the old tool, all where that raised or stopped: an int as tolerance, a bare
    ``compare.csv``, ``..`` in a path, damaged files, and an `output_file` in a folder that does
    not exist, which is now said before the work and not after it.
    """
    if unknown:
        known = "name_map_list, compare_shape, output_file, num_processes, title, field_names"
        call = {"call": "compare_npy_dir", "known": known}
        raise OptionError(Message("compat.unknown_argument_of", names=[*unknown], **call))
    folders = existing_folder(orig_dir, "orig_dir"), existing_folder(target_dir, "target_dir")
    check_tolerances(rtol, atol)
    _check_switches(equal_nan=equal_nan, compare_shape=compare_shape)
    if title is not None and not isinstance(title, str):
        raise ArgumentTypeError(Message("compat.title", given=repr(title)))
    fields = _checked_fields(field_names, frame_names)
    _check_output(output_file)
    if name_map_list is None:
        name_map_list = get_name_map_list_by_name(*folders)
    pairs = _checked_pairs(name_map_list)
    user_attention(
        "The compare directory information:\n The orig dir: %s \n The target dir: %s",
        orig_dir,
        target_dir,
    )
    compared = _compare_all(pairs, folders, _workers(num_processes), rtol, atol, bool(equal_nan))
    for pair in compared:
        for folder, name, problem in zip(folders, pair.names, pair.problems, strict=True):
            if problem:
                user_warning(Message("compat.not_read", name=name, where=folder, problem=problem))
    if not compared:
        return None
    rows = [pair.row(with_shapes=compare_shape) for pair in compared if not _is_marker(pair)]
    if compare_shape:
        fields = [*fields[:2], *_SHAPE_FIELDS, *fields[2:]]
    table = text_table(TITLE if title is None else title, fields, rows)
    print(table)
    if output_file:
        write_csv(output_file, fields, rows)
    return table


def compare_list_dir(
    orig_dir: Folder,
    target_dir: Folder,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    compare_shape: bool = False,
    output_file: str | PathLike[str] | None = None,
    num_processes: int | None = None,
) -> str | None:
    """Compare folders of saved lists: files are paired by the last integer of their names.

    Takes, returns and raises what `compare_npy_dir` does.
    """
    return compare_npy_dir(
        orig_dir,
        target_dir,
        rtol,
        atol,
        equal_nan,
        name_map_list=get_name_map_list_by_number(orig_dir, target_dir, end_number),
        compare_shape=compare_shape,
        output_file=output_file,
        num_processes=num_processes,
    )


def compare_dict_dir(
    orig_dir: Folder,
    target_dir: Folder,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    compare_shape: bool = False,
    output_file: str | PathLike[str] | None = None,
    num_processes: int | None = None,
) -> str | None:
    """Compare folders of saved dictionaries: paired as `get_name_map_list_by_name` does.

    Takes, returns and raises what `compare_npy_dir` does.
    """
    return compare_npy_dir(
        orig_dir,
        target_dir,
        rtol,
        atol,
        equal_nan,
        compare_shape=compare_shape,
        output_file=output_file,
        num_processes=num_processes,
    )


def compare_grads_dir(
    orig_dir: Folder,
    target_dir: Folder,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    equal_nan: bool = False,
    compare_shape: bool = True,
    output_file: str | PathLike[str] | None = None,
    num_processes: int | None = None,
    *,
    name_map_list: NamePairs | None = None,
) -> str | None:
    """Compare folders of saved gradients: files are paired by shape edit distance.

    Takes, returns and raises what `compare_npy_dir` does. The old tool's guide passes a
    `name_map_list` of other costs, which its function did not take.
    """
    if name_map_list is None:
        name_map_list = get_name_map_list_by_shape_edit_distance(orig_dir, target_dir)
    return compare_npy_dir(
        orig_dir,
        target_dir,
        rtol,
        atol,
        equal_nan,
        name_map_list=name_map_list,
        compare_shape=compare_shape,
        output_file=output_file,
        num_processes=num_processes,
    )


def _compare_all(
    pairs: NameMap,
    folders: tuple[Path, Path],
    workers: int,
    rtol: float,
    atol: float,
    equal_nan: bool,
) -> list[_Compared]:
    sizes = [sum(map(_stored_bytes, folders, pair)) for pair in pairs]

    def compare(pair: tuple[str | None, str | None]) -> _Compared:
        sides = [_load(folder, name) for folder, name in zip(folders, pair, strict=True)]
        problems = sides[0].problem, sides[1].problem
        figures = (
            Figures(result=UNREADABLE)
            if any(problems)
            else measure(
                sides[0].values, sides[1].values, rtol=rtol, atol=atol, equal_nan=equal_nan
            )
        )
        return _Compared(pair, (sides[0].shape, sides[1].shape), figures, problems)

    compared = []
    with reporter(None, sum(sizes)) as advance:
        # Threads, because numpy computes outside the interpreter lock; the old tool's processes
        # needed a main guard in the script and loaded the frameworks once more each.
        pool = ThreadPoolExecutor(min(workers, max(1, len(pairs))))
        try:
            for done, size in zip(pool.map(compare, pairs), sizes, strict=True):
                compared.append(done)
                advance(size)
        finally:
            pool.shutdown(cancel_futures=True)
    return compared


def _load(folder: Path, name: str | None) -> _ReadFile:
    """A file that does not exist is no problem: its row has None, as a file without partner."""
    file = _file(folder, name)
    if file is None:
        return _ReadFile()
    shape = None
    try:
        source = open_file(file)
        shape = source.shape
        values = source.read(0, math.prod(shape)).reshape(shape)
    except (FormatError, OSError) as error:
        return _ReadFile(shape=shape, problem=message_of(error))
    return _ReadFile(values, shape)


def _file(folder: Path, name: str | None) -> Path | None:
    if name is None:
        return None
    file = folder / (name if name.endswith(".npy") else f"{name}.npy")
    return file if os.path.lexists(file) else None


def _stored_bytes(folder: Path, name: str | None) -> int:
    file = _file(folder, name)
    with contextlib.suppress(OSError):
        return 0 if file is None else os.path.getsize(file)
    return 0


def _is_marker(pair: _Compared) -> bool:
    return any(name is not None and name.startswith(_MARKER) for name in pair.names)


def _workers(wanted: int | None) -> int:
    if wanted is None:
        return max(1, min(8, (os.cpu_count() or 1) - 1))
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        said = {"argument": "num_processes", "given": repr(wanted)}
        raise ArgumentTypeError(Message("compat.whole_number", **said))
    if wanted < 1:
        raise OptionError(Message("compat.at_least_one", argument="num_processes", given=wanted))
    return wanted


def check_tolerances(rtol: float, atol: float) -> None:
    """TypeError for a tolerance that is no number, OptionError for a negative one."""
    for name, value in (("rtol", rtol), ("atol", atol)):
        # The old tool took floats only, so that rtol=1 was a TypeError.
        if not is_number(value):
            raise ArgumentTypeError(Message("compat.number", argument=name, given=repr(value)))
        if not value >= 0:
            raise OptionError(Message("compat.negative", argument=name, given=repr(value)))


def _check_switches(**switches: object) -> None:
    for name, value in switches.items():
        if not isinstance(value, (bool, np.bool_)):
            raise ArgumentTypeError(Message("compat.switch", argument=name, given=repr(value)))


def _checked_fields(wanted: Sequence[str] | None, frame_names: tuple[str, ...]) -> list[str]:
    if wanted is None:
        return [*FIELDS]
    if not isinstance(frame_names, Collection):
        raise ArgumentTypeError(Message("compat.frame_names", given=repr(frame_names)))
    if "msadapter" in frame_names:
        raise NotOfferedError(Message("compat.no_msadapter"))
    if not isinstance(wanted, Iterable):
        raise ArgumentTypeError(headings_wanted("field_names", FIELDS, wanted))
    fields = list(wanted)
    if isinstance(wanted, str) or len(fields) != len(FIELDS):
        raise OptionError(headings_wanted("field_names", FIELDS, wanted))
    return fields


def headings_wanted(argument: str, usual: Sequence[str], given: object) -> str:
    """What is wrong with headings that are not as many as the usual ones."""
    shown = {"usual": Foreign([*usual]), "given": Foreign(repr(given))}
    return Message("compat.headings", argument=argument, count=len(usual), **shown)


def _check_output(file: str | PathLike[str] | None) -> None:
    if not file:
        return
    if not isinstance(file, (str, bytes, os.PathLike)):
        raise ArgumentTypeError(Message("compat.output_file", given=repr(file)))
    if os.path.isdir(file):
        raise OptionError(Message("compat.output_is_folder", file=os.fsdecode(file)))
    # "." for a bare file name, which the old tool refused because its folder is ''.
    folder = os.path.dirname(os.fspath(file)) or "."
    if not os.path.isdir(folder):
        raise OptionError(Message("compat.output_folder", file=str(file), folder=folder))


def _checked_pairs(pairs: NamePairs) -> NameMap:
    if not isinstance(pairs, Iterable):
        raise ArgumentTypeError(Message("compat.name_map_list", given=repr(pairs)))
    checked = []
    for number, pair in enumerate(pairs):
        if (
            not isinstance(pair, (tuple, list))
            or len(pair) != 2
            or not all(name is None or isinstance(name, str) for name in pair)
        ):
            raise ArgumentTypeError(Message("compat.name_map_row", row=number, given=repr(pair)))
        checked.append((pair[0], pair[1]))
    return checked
