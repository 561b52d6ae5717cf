"""Lines of JSON lists in which the hooks of ``torch_npu`` and ``ptdbg_ascend`` write tensors.

One line is ``[name, values, dtype, shape]`` or ``[name, mode, values, dtype, shape, statistics]``.
The files are called ``.pkl`` and are no pickles; nothing here unpickles anything.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.file_source import check_shape, reopened
from troubleshooter_nb.messages import Foreign, Message, joined, message_of
from troubleshooter_nb.naming.characters import printable

_LONGEST_LINE = 1024**3  # bytes
_LONGEST_OTHER = 1024**2  # bytes of a line that is no tensor, such as a call stack
_LONGEST_TAIL = 64 * 1024  # bytes behind the values: dtype, shape and statistics
_CHUNK = 1024**2  # bytes between two places where the number of values before is remembered
FEW = 13  # values: the first 10 with three statistics; so many are parsed at once
_COMMA = ord(",")
_FLOAT32 = np.dtype(np.float32)
_HEAD = re.compile(
    rb'\s*\[\s*(?P<name>"(?:[^"\\\r\n]|\\.){0,2000}")\s*,\s*'
    rb"(?:(?P<mode>-?[0-9]{1,9})\s*,\s*)?\[(?=\s*[-+0-9NI\]])"
)
_NAME = re.compile(rb'\s*\[\s*("(?:[^"\\\r\n]|\\.){0,2000}")\s*,')
# What json raises on damaged or hostile text.
_JSON_ERRORS = (ValueError, RecursionError)


@dataclass(frozen=True)
class LineSource:
    """The values of one line; an `ArraySource` that parses the range asked for, as float32.

    Attributes
    ----------
    path : str
    shape : tuple of int
    line : int
        Number of the line, from 1, for what is wrong with it.
    begin, end : int
        Bytes between the brackets around the values.
    commas : tuple of int
        Commas before each further piece of `_CHUNK` bytes, so that a range is found without
        reading what stands before it.
    stamp : (int, int)
        Size and time of change of the file when it was opened.
    """

    path: str
    shape: tuple[int, ...]
    line: int
    begin: int
    end: int
    commas: tuple[int, ...]
    stamp: tuple[int, int]

    @property
    def dtype(self) -> np.dtype:
        """float32, to which the tools cast every tensor."""
        return _FLOAT32

    @property
    def size_bytes(self) -> int:
        """Bytes of the values as float32."""
        return math.prod(self.shape) * 4

    def files(self) -> tuple[str, ...]:
        """The one file that holds the values."""
        return (self.path,)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values as float32; as `ArraySource.read`, also where there is no list of numbers."""
        if stop <= start:
            return np.empty(0, np.float32)
        # Value k stands behind comma k, where commas are counted from 1.
        first = max(bisect_left(self.commas, start) - 1, 0)
        last = min(bisect_left(self.commas, stop), len(self.commas) - 1)
        begin = self.begin + first * _CHUNK
        end = min(self.begin + max(last, first + 1) * _CHUNK, self.end)
        if last == len(self.commas) - 1 and self.commas[last] < stop:
            end = self.end
        with reopened(self.path, self.stamp) as file:
            text = _exactly(file, begin, end, self.path)
        places = np.flatnonzero(np.frombuffer(text, np.uint8) == _COMMA)
        before = self.commas[first]
        left = int(places[start - before - 1]) + 1 if start > before else 0
        index = stop - before - 1
        right = int(places[index]) if index < len(places) else len(text)
        try:
            values = parsed_values(text[left:right], stop - start)
        except FormatError as error:
            fault = Message("dumps.line", line=self.line, problem=error)
            problem = joined([fault, Message("dumps.dump_again")])
            name = Path(self.path).name
            raise ReadError(Message("files.in_file", file=name, what=problem)) from None
        # 1e300 is no float32; the tools cannot have written it, so that inf is as good as any.
        with np.errstate(over="ignore"):
            return values.astype(np.float32)


@dataclass(frozen=True)
class Line:
    """What one line says.

    `source` holds the values that stand in the line, shape (count,); None where there are none.
    `few` are they themselves, where there are at most `FEW`.
    `shape` and `dtype` are those of the tensor that was dumped. `value` is what stands in a line
    of two elements: a Python scalar, a text, or a call stack. `fault` says what is wrong.
    """

    number: int
    name: str = ""
    mode: int | None = None
    source: LineSource | None = None
    count: int = 0
    few: tuple[float, ...] = ()
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistics: tuple[float, ...] = ()
    is_pair: bool = False
    value: Any = None
    fault: str = ""


def lines_of(path: Path, file: BinaryIO, stamp: tuple[int, int]) -> Iterator[Line]:
    """Every line of the file that is not blank, in order; the file is read once.

    A line that cannot be understood has a `fault`, and its name where that could be read. Of the
    values only the commas are counted.
    """
    begin = 0
    for number in itertools.count(1):
        text = file.readline(_LONGEST_LINE + 1)
        if not text:
            return
        if len(text) > _LONGEST_LINE:
            name = _NAME.match(text)
            yield Line(
                number,
                _text(name[1]) if name else "",
                fault=Message("hooks.line_too_long", size=_LONGEST_LINE // 1024**3),
            )
            begin += len(text) + _skip_line(file)
            continue
        if not text.isspace():
            yield _line(path, text, number, begin, stamp)
        begin += len(text)


def _skip_line(file: BinaryIO) -> int:
    skipped = 0
    while text := file.readline(64 * _CHUNK):
        skipped += len(text)
        if text.endswith(b"\n"):
            break
    return skipped


def _line(path: Path, text: bytes, number: int, begin: int, stamp: tuple[int, int]) -> Line:
    head = _HEAD.match(text)
    if head is None:
        return _pair(text, number)
    name = _text(head["name"])
    mode = None if head["mode"] is None else int(head["mode"])
    end = text.find(b"]", head.end())
    try:
        if end < 0:
            raise FormatError(_torn(text) or Message("hooks.line_no_end"))
        dtype, shape, statistics = _tail(text[end + 1 :], mode is not None)
    except FormatError as error:
        # A torn line may still be a whole one of another kind, which `_pair` finds out.
        return Line(number, name, mode, fault=_torn(text) or message_of(error))
    commas = [0]
    for left in range(head.end(), end, _CHUNK):
        commas.append(commas[-1] + text.count(b",", left, min(left + _CHUNK, end)))
    count = commas[-1] + 1 if commas[-1] or text[head.end() : end].strip() else 0
    source = LineSource(
        *(str(path), (count,), number, begin + head.end(), begin + end),
        *(tuple(commas), stamp),
    )
    few: tuple[float, ...] = ()
    if 0 < count <= FEW:
        try:
            few = tuple(parsed_values(text[head.end() : end], count).tolist())
        except FormatError as error:
            return Line(number, name, mode, dtype=dtype, shape=shape, fault=message_of(error))
    return Line(number, name, mode, source, count, few, dtype, shape, statistics)


def _tail(text: bytes, six: bool) -> tuple[str, tuple[int, ...], tuple[float, ...]]:
    """Dtype, shape and statistics, which stand behind the values."""
    if len(text) > _LONGEST_TAIL:
        raise FormatError(Message("hooks.line_tail", count=len(text)))
    try:
        parts = json.loads(b"[0" + text)
    except _JSON_ERRORS as error:
        raise FormatError(Message("hooks.line_tail_no_json", problem=_short(error))) from None
    expected = 4 if six else 3
    if not isinstance(parts, list) or len(parts) != expected or not isinstance(parts[1], str):
        id = "hooks.line_tail_of_four" if six else "hooks.line_tail_of_three"
        raise FormatError(Message(id))
    return parts[1], shape_in(parts[2]), figures_in(parts[3]) if six else ()


def shape_in(value: Any) -> tuple[int, ...]:
    """The shape a record states; the text ``[]`` stands for no axes.

    Raises
    ------
    FormatError
        If it is no list of lengths.
    """
    shape = () if value == "[]" else value
    if not isinstance(shape, (list, tuple)):
        raise FormatError(Message("hooks.line_no_shape", value=str(value)[:40]))
    try:
        check_shape(tuple(shape), _FLOAT32)
    except FormatError:
        raise FormatError(Message("hooks.line_shape", value=str(value)[:80])) from None
    return tuple(shape)


def parsed_values(text: bytes, count: int) -> np.ndarray:
    """The numbers of a list without its brackets, as the text spells them, shape (count,).

    Raises
    ------
    FormatError
        If there are others, or something that is no number.
    """
    try:
        values = np.array(json.loads(b"[" + text + b"]"))
    except _JSON_ERRORS as error:
        raise FormatError(Message("hooks.line_no_numbers_json", problem=_short(error))) from None
    if values.shape != (count,) or values.dtype.kind not in "iuf":
        raise FormatError(Message("hooks.line_no_numbers"))
    return values


def figures_in(value: Any) -> tuple[float, ...]:
    """The statistics a record states; nan for the text ``Nan``, ``[]`` and anything else."""
    if not isinstance(value, list):
        return ()
    return tuple(figure(one) for one in value)


def figure(value: Any) -> float:
    """A number of a record as float; nan for whatever is no number."""
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.nan
    return math.nan


def _pair(text: bytes, number: int) -> Line:
    """A line of two elements: a call stack or a value that is no tensor."""
    match = _NAME.match(text)
    name = _text(match[1]) if match else ""
    if len(text) > _LONGEST_OTHER:
        return Line(number, name, fault=Message("hooks.line_other"))
    try:
        parts = json.loads(text)
    except _JSON_ERRORS as error:
        no_json = Message("dumps.line_no_json", problem=_short(error))
        return Line(number, name, fault=_torn(text) or no_json)
    if not isinstance(parts, list) or not name:
        return Line(number, fault=Message("dumps.line_no_list"))
    if len(parts) != 2:
        return Line(number, name, fault=Message("hooks.line_elements", count=len(parts)))
    return Line(number, name, is_pair=True, value=parts[1])


def _torn(text: bytes) -> str:
    if text.endswith(b"\n") or text.rstrip().endswith(b"]"):
        return ""
    return Message("dumps.line_torn")


def _exactly(file: Any, begin: int, end: int, path: str) -> bytes:
    file.seek(begin)
    text = bytearray()
    while len(text) < end - begin:
        piece = file.read(end - begin - len(text))
        if not piece:
            raise ReadError(Message("files.changed", file=Path(path).name))
        text += piece
    return bytes(text)


def _text(name: bytes) -> str:
    """A JSON string, in which what cannot be shown (no UTF-8, half a pair) is escaped."""
    try:
        text = str(json.loads(name.decode(errors="backslashreplace"), strict=False))
    except _JSON_ERRORS:
        text = name.decode(errors="backslashreplace")
    return printable(text)


def _short(error: Exception) -> str:
    return Foreign((str(error).splitlines() or [type(error).__name__])[0][:80])
