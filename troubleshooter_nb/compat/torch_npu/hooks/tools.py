"""``compare`` of two dump files, with the csv the old tool wrote; also as a command."""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

from troubleshooter_nb.compat.torch_npu.hooks.figures import NOT_CALCULATED, figure_cells
from troubleshooter_nb.compat.torch_npu.hooks.lines import TensorLine, groups_of, lines_of_file
from troubleshooter_nb.compat.torch_npu.hooks.matching import matched_groups
from troubleshooter_nb.errors import FormatError, OptionError, PathNotFoundError, path_of
from troubleshooter_nb.messages import Message

Columns = Literal["tool", "document"]
_VARIABLE = "TNB_HOOKS_COLUMNS"
_FIGURES = ("Cosine", "RMSE", "MAPE")
# The released tool's, and those that its document shows.
_HEADINGS: dict[str, tuple[str, ...]] = {
    "tool": (
        *("NPU Name", "Bench Name", "NPU Tensor Dtype", "Bench Tensor Dtype"),
        *("NPU Tensor Shape", "Bench Tensor Shape", *_FIGURES),
    ),
    "document": (
        *("Name", "Npu Tensor Dtype", "Bench Tensor Dtype"),
        *("Npu Tensor Shape", "Bench Tensor Shape", *_FIGURES),
    ),
}


def compare(
    pkl_path1: str | PathLike[str],
    pkl_path2: str | PathLike[str],
    output_path: str | PathLike[str],
    shape_flag: bool = False,
    *,
    columns: Columns | None = None,
) -> None:
    """Compare two dump files and write the old tool's csv.

    Parameters
    ----------
    pkl_path1, pkl_path2 : str or path-like
        Text files of `register_hook`, of the old tool or of this package; the second one is the
        reference (``Bench``). They are never unpickled.
    output_path : str or path-like
        The csv, one row per pair of tensors. It replaces what was there.
    shape_flag : bool
        Match dtypes and shapes besides names.
    columns : {"tool", "document"}, optional
        The nine columns that the tool wrote, or the eight its document shows, where ``Name`` is
        the name of the first file. Default: the environment variable TNB_HOOKS_COLUMNS, else
        "tool".

    Raises
    ------
    FileNotFoundError
        If a file, or the folder of `output_path`, does not exist.
    ValueError
        If a file is no such text, a pair has equal shapes but unequally many values (a sampled
        and a full file), or `columns` is another word. Nothing is written then.

    Notes
    -----
    Figures and matching are those of the old tool, see `figure_cells` and `matched_groups`: lines
    without partner are not in the csv, two tensors of zeros read ``nan``, and of a sampled file
    only what is in the file is seen. `troubleshooter_nb.compare` of the same two files tells of all
    this.
    """
    headings = _HEADINGS[_columns_wanted(columns)]
    left, right = path_of(pkl_path1), path_of(pkl_path2)
    for dump in (left, right):
        if not dump.is_file():
            raise PathNotFoundError(Message("torch_npu_hooks.no_dump_file", file=str(dump)))
    output = path_of(output_path)
    if not output.parent.is_dir():
        folder = str(output.parent)
        raise PathNotFoundError(Message("torch_npu_hooks.no_output_folder", folder=folder))
    rows = list(_rows(left, right, with_shapes=bool(shape_flag)))
    if len(headings) < len(_HEADINGS["tool"]):
        rows = [[row[0], *row[2:]] for row in rows]
    with output.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([headings, *rows])


def _columns_wanted(columns: str | None) -> str:
    name = os.environ.get(_VARIABLE) or "tool" if columns is None else columns
    if name not in _HEADINGS:
        where = _VARIABLE if columns is None else "columns"
        raise OptionError(Message("torch_npu_hooks.columns", where=where, given=repr(name)))
    return name


def _rows(left: Path, right: Path, *, with_shapes: bool) -> Iterator[list[str]]:
    sides = (groups_of(lines_of_file(path)) for path in (left, right))
    for lefts, rights in matched_groups(*sides, with_shapes=with_shapes):
        for actual, benchmark in zip(lefts, rights, strict=True):
            yield _row(actual, benchmark)


def _row(left: TensorLine, right: TensorLine) -> list[str]:
    head = [left.name, right.name, left.dtype, right.dtype, str([*left.shape]), str([*right.shape])]
    if left.shape != right.shape:
        return [*head, *NOT_CALCULATED]
    if len(left.values) != len(right.values):
        said = {"left": left.name, "left_count": len(left.values), "right": right.name}
        counts = {"right_count": len(right.values), "shape": str([*left.shape])}
        raise FormatError(Message("torch_npu_hooks.other_sampling", **said, **counts))
    return [*head, *figure_cells(left.values, right.values)]


def main(arguments: Sequence[str] | None = None) -> None:
    """``compare`` as a command: ``--npu_pkl``, ``--bench_pkl``, ``--out_path``, ``--shape``.

    ``--columns`` is ours.
    """
    ask = argparse.ArgumentParser(prog="python -m troubleshooter_nb.compat.torch_npu.hooks.tools")
    ask.add_argument("--npu_pkl", required=True, metavar="FILE")
    ask.add_argument("--bench_pkl", required=True, metavar="FILE")
    ask.add_argument("--out_path", required=True, metavar="CSV")
    ask.add_argument("--shape", nargs="?", const=True, default=False, type=_is_true, metavar="BOOL")
    ask.add_argument("--columns", choices=tuple(_HEADINGS))
    given = ask.parse_args(arguments)
    try:
        compare(given.npu_pkl, given.bench_pkl, given.out_path, given.shape, columns=given.columns)
    except (ValueError, OSError) as error:
        ask.error(str(error))


def _is_true(word: str) -> bool:
    return word.lower() in ("true", "1", "yes")


if __name__ == "__main__":
    main()
