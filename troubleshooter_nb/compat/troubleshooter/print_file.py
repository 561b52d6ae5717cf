"""Read back what ``save(..., output_mode="print")`` printed, from a file or captured text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import ml_dtypes
import numpy as np

from troubleshooter_nb.compat.troubleshooter.log import user_attention, user_warning
from troubleshooter_nb.errors import FormatError

MARK = "_TS_SAVE_NAME:"
# MindSpore's names; its bfloat16 is stored as float32, with the token of what it was.
_DTYPES: dict[str, np.dtype] = {
    name.lower(): np.dtype(name.lower())
    for name in (
        *("Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64"),
        *("Float16", "Float32", "Float64", "Bool", "Complex64", "Complex128"),
    )
} | {"bfloat16": np.dtype(ml_dtypes.bfloat16)}
_TENSOR = re.compile(r"(?s)\s*Tensor\(shape=\[(?P<shape>[^]]*)], dtype=(?P<dtype>\w+), value=")
_LENGTH_DELIMITED, _VARINT = 2, 0


def save_convert(file: str | PathLike[str], output_path: str | PathLike[str]) -> None:
    """Turn the tensors that ``save(..., output_mode="print")`` printed into ``.npy`` files.

    Parameters
    ----------
    file : str or path-like
        What MindSpore wrote to its ``print_file_path``, or the text of standard output.
    output_path : str or path-like
        Folder for ``{stem}_{dtype}_{number}.npy``, numbered from 0 in the order of printing;
        created where missing.

    Raises
    ------
    FormatError
        If the file holds no tensor that `save` printed.
    OSError
        If it cannot be read, or the folder not be written.

    Warns
    -----
    Through logging, for each tensor whose text is incomplete: MindSpore shortens the middle of a
    long one to ``...`` on the screen, and prints a number without its dtype.
    """
    folder = Path(output_path)
    content = Path(file).read_bytes()
    prints = list(_prints(content))
    if not prints:
        msg = f"{Path(file).name} has no line {MARK}<name>, so save() printed nothing into it"
        raise FormatError(msg)
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, value) in enumerate(prints):
        try:
            array = value if isinstance(value, np.ndarray) else _array_of_text(value)
            _write(array, folder, name, number)
        except FormatError as error:
            user_warning("%s, print %d of %s: %s", name, number, Path(file).name, error)
    user_attention("The printed tensors were written to %s", folder.absolute())


def _write(array: np.ndarray, folder: Path, name: str, number: int) -> None:
    token = array.dtype.name
    if array.dtype == ml_dtypes.bfloat16:
        array = array.astype(np.float32)
    file = folder / f"{name}_{token}_{number}.npy"
    if not file.resolve().is_relative_to(folder.resolve()):
        msg = "the name leaves the folder, so it was left out"
        raise FormatError(msg)
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, array, allow_pickle=False)


def _prints(content: bytes) -> Iterator[tuple[str, np.ndarray | str]]:
    """Name and value of everything `save` printed; the value is text where the file has text."""
    try:
        records = list(_records(content))
    except (ValueError, IndexError):
        text = content.decode(errors="replace").replace("\r\n", "\n")
        records = [piece for piece in re.split(rf"(?m)^(?={MARK})", text)]
    waiting: str | None = None
    for record in records:
        if isinstance(record, str) and record.startswith(MARK):
            waiting, _, rest = record.removeprefix(MARK).partition("\n")
            if rest.strip():
                yield waiting, rest
                waiting = None
        elif waiting is not None:
            yield waiting, record
            waiting = None
    if waiting is not None:
        yield waiting, ""


def _array_of_text(text: str) -> np.ndarray:
    match = _TENSOR.match(text)
    if match is None:
        msg = f"no shape and dtype in the text {text.strip()[:40]!r}, so it was left out"
        raise FormatError(msg)
    if match["dtype"].lower() not in _DTYPES:
        msg = f"numpy has no dtype for {match['dtype']}"
        raise FormatError(msg)
    dtype = _DTYPES[match["dtype"].lower()]
    shape = tuple(int(length) for length in re.findall(r"\d+", match["shape"]))
    # Other output may follow the tensor.
    values = text[match.end() :].partition(")")[0]
    words = re.sub(r"[\[\],]", " ", values).split()
    if "..." in words:
        msg = "only a part of the values was printed (...), so it was left out"
        raise FormatError(msg)
    try:
        return _parsed(words, dtype).reshape(shape)
    except (ValueError, KeyError, OverflowError) as error:
        msg = f"{len(words)} values do not make {shape} of {dtype}: {error}"
        raise FormatError(msg) from error


def _parsed(words: list[str], dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([{"True": True, "False": False}[word] for word in words], dtype)
    # numpy itself parses no bfloat16.
    parsed_as = np.dtype(np.float32) if dtype == ml_dtypes.bfloat16 else dtype
    return np.array(words, str).astype(parsed_as).astype(dtype)


def _records(content: bytes) -> Iterator[np.ndarray | str]:
    """Values of a print file: protobuf, field 1 repeated {1 text, or 2 tensor}.

    Source: MindSpore's print.proto; a tensor is {1 dims, 2 type, 3 bytes} as in a checkpoint.
    """
    for number, record in _fields(content):
        if number != 1 or not isinstance(record, bytes):
            raise ValueError(number)
        for kind, value in _fields(record):
            if not isinstance(value, bytes):
                raise ValueError(kind)
            yield value.decode() if kind == 1 else _tensor(value)


def _tensor(content: bytes) -> np.ndarray:
    shape: list[int] = []
    dtype, values = np.dtype(np.uint8), b""
    for number, value in _fields(content):
        if isinstance(value, int):
            shape.append(value)
        elif number == 2:
            dtype = _DTYPES[value.decode().lower()]
        else:
            values = value
    # A number has one dimension of length 0 there.
    if shape == [0] and values:
        shape = []
    return np.frombuffer(values, dtype).reshape(shape)


def _fields(content: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers and values of a protobuf message of texts, bytes and whole numbers."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        value, at = _varint(content, at)
        if key & 7 == _VARINT:
            yield key >> 3, value
            continue
        if key & 7 != _LENGTH_DELIMITED or at + value > len(content):
            raise ValueError(at)
        yield key >> 3, content[at : at + value]
        at += value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError(at)
