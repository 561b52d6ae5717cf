"""Dump files as the comparison of old reads them: lines, and the groups of one call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import refuse_special
from troubleshooter_nb.formats.hooks_file import is_real_pickle
from troubleshooter_nb.messages import Message


class TensorLine(NamedTuple):
    """One tensor of a file: ``[name, values, dtype, shape]``; `values` are float64."""

    name: str
    values: np.ndarray
    dtype: str
    shape: tuple[int, ...]

    @property
    def bare_name(self) -> str:
        """The name without the number of the line in front."""
        number, _, rest = self.name.partition("_")
        return rest if number.isdecimal() else self.name


Group = list[TensorLine]


def groups_of(lines: Iterable[TensorLine]) -> Iterator[Group]:
    """Lines up to each one that is an output; those behind the last output are left out.

    A call with several outputs is several groups, and the inputs of a call whose output was not
    written belong to the group of the next call.
    """
    group: Group = []
    for line in lines:
        group.append(line)
        if "output" in line.name:
            yield group
            group = []


def lines_of_file(path: Path) -> Iterator[TensorLine]:
    """The lines of a dump file, read as they are asked for. Nothing is unpickled.

    Raises
    ------
    FormatError
        For a real pickle, and for a line that is no tensor, with its number.
    OSError
        If the file cannot be opened.
    """
    if is_real_pickle(path):
        what = Message("hooks.real_pickle")
        raise FormatError(Message("files.in_file", file=path.name, what=what))
    refuse_special(path)
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            if not text.isspace():
                yield _parsed(text, path, number)


def _parsed(text: bytes, path: Path, number: int) -> TensorLine:
    try:
        name, values, dtype, shape = json.loads(text)
        array = np.array(values)
        if not (isinstance(name, str) and isinstance(dtype, str)):
            raise FormatError(Message("dumps.line_no_list"))
        if array.ndim != 1 or array.dtype.kind not in "iuf":
            raise FormatError(Message("hooks.line_no_numbers"))
        return TensorLine(name, array.astype(np.float64), dtype, tuple(map(int, shape)))
    except (ValueError, TypeError, RecursionError) as error:
        said = {"file": path.name, "line": number, "problem": error}
        raise FormatError(Message("torch_npu_hooks.no_tensor_line", **said)) from None
