"""``ts.widget.save_convert``: what ``save(..., output_mode="print")`` printed, as files again."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from troubleshooter_nb.compat.troubleshooter.log import user_attention, user_warning
from troubleshooter_nb.errors import ArgumentError
from troubleshooter_nb.formats.file_source import refuse_special
from troubleshooter_nb.formats.npy_dir import safe_name
from troubleshooter_nb.formats.npy_file import write_npy
from troubleshooter_nb.formats.print_text import MARK, open_print_text
from troubleshooter_nb.formats.protobuf import Walker
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.metrics.floats import computable, dtype_from_token
from troubleshooter_nb.naming import NpyName, format_npy_name


def save_convert(file: str | PathLike[str], output_path: str | PathLike[str]) -> None:
    """Turn the tensors that ``save(..., output_mode="print")`` printed into ``.npy`` files.

    Parameters
    ----------
    file : str or path-like
        What MindSpore wrote to its ``print_file_path``, or the text of standard output.
    output_path : str or path-like
        Folder for ``{stem}_{dtype}_{number}.npy``, numbered from 0 in the order of printing;
        created where missing. bfloat16 is stored as float32, as `save` does.

    Raises
    ------
    FormatError
        If the file holds no tensor that `save` printed.
    OSError
        If it cannot be read, or the folder not be written.

    Warns
    -----
    Through logging, for each tensor that cannot be converted, such as one whose middle was
    shortened to ``...``, and for a print file that was cut off.
    """
    file, folder = Path(file), Path(output_path)
    refuse_special(file)
    prints = _of_print_file(file.read_bytes(), file.name) or _of_text(file)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array, problem in prints:
        problem = problem or _fault_of(name)
        if array is None or problem:
            left_out = {"name": name, "file": file.name}
            user_warning(Message("compat.left_out", **left_out, problem=problem))
            continue
        target = folder / f"{name}.npy"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_npy(target, array if array.dtype.isbuiltin == 1 else computable(array))
    user_attention(Message("compat.printed_written", folder=folder.absolute()))


def _fault_of(name: str) -> str:
    """Why a name is none of a file in the folder, or nothing."""
    try:
        safe_name(name)
    except ArgumentError as error:
        return message_of(error)
    return ""


_Value = tuple[np.ndarray | None, str]  # a tensor's values, or why there are none
_Print = tuple[str, np.ndarray | None, str]  # the same behind a name


def _of_text(file: Path) -> list[_Print]:
    dump = open_print_text(file, label=file.name)
    reasons = dump.index["reason"].values
    return [
        (name, None if source is None else dump.array(name), reason)
        for name, source, reason in zip(dump.names, dump.sources, reasons, strict=True)
    ]


def _of_print_file(content: bytes, file_name: str) -> list[_Print]:
    """Every tensor `save` printed into a print file; nothing when there is none as such.

    Some backends print tensors as text there too, which `_of_text` finds.
    """
    records: list[str | _Value] = []
    try:
        for record in _print_proto(content):
            records.append(record)
    except ValueError:
        if records:
            user_warning(Message("compat.cut_off", file=file_name, count=len(records)))
    prints: list[_Print] = []
    for name, tensor in itertools.pairwise(records):
        if isinstance(name, str) and name.startswith(MARK) and isinstance(tensor, tuple):
            array, problem = tensor
            token = None if array is None else array.dtype.name
            stem = name.removeprefix(MARK).strip()
            prints.append((format_npy_name(NpyName(stem, len(prints), token)), array, problem))
    return prints


def _print_proto(content: bytes) -> Iterator[str | _Value]:
    """Values of a print file: protobuf, field 1 repeated {1 text, or 2 tensor}.

    Source: MindSpore's print.proto; a tensor is {1 dims, 2 type, 3 bytes} as in a checkpoint. The
    old tool called ``mindspore.parse_print``, which MindSpore 2.10 has no more.
    """
    walker = Walker(io.BytesIO(content))
    for number, whole, begin, end in walker.fields(0, len(content)):
        if number != 1 or whole is not None:
            raise ValueError(number)
        for number, whole, start, stop in walker.fields(begin, end):
            if whole is not None:
                raise ValueError(number)
            yield content[start:stop].decode() if number == 1 else _tensor(walker, start, stop)


def _tensor(walker: Walker, begin: int, end: int) -> _Value:
    shape: list[int] = []
    token, values = "", b""
    for number, whole, start, stop in walker.fields(begin, end):
        if whole is not None:
            shape.append(whole)
        elif number == 2:
            token = walker.take(start, stop).decode()
        else:
            values = walker.take(start, stop)
    try:
        array = np.frombuffer(values, dtype_from_token(token.lower()))
    except ValueError as error:
        return None, message_of(error)
    # A number has one dimension of length 0 there.
    return array.reshape([] if shape == [0] and array.size == 1 else shape), ""
