"""Json files of Polygraphy: ``--save-outputs`` and ``--save-inputs``.

Arrays stand in them as the bytes of a ``.npy`` file in base64.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from troubleshooter_nb.dump import Dump, Entry, SizedByShape
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.file_source import (
    check_shape,
    fortran_strides,
    head_of,
    named,
    opened,
    reopened,
)
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.npy_file import npy_meaning, parse_npy_header
from troubleshooter_nb.messages import Foreign, Message, joined, message_of
from troubleshooter_nb.naming import Site
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.site import Role
from troubleshooter_nb.ranges import Pieces, Starts, Strided, gathered

NAME = "polygraphy_json"

_LARGEST_HEADER = 16 * 1024  # bytes of a .npy header, as in npy_file
_ARRAY = re.compile(rb'(?<="array")(\s*:\s*)"([A-Za-z0-9+/]*={0,2})"')
_MARKERS = ("polygraphy_class", "polygraphy_serialized_json_type", "__polygraphy_encoded_")
_pieces = Pieces()
_PLACE = "\N{SYMBOL FOR START OF TEXT}"  # in front of the number of an array that was cut out


@dataclass(frozen=True)
class Base64Source(SizedByShape):
    """The values of a ``.npy`` file that stands in a text as base64; an `ArraySource`.

    Attributes
    ----------
    path : str
    shape : tuple of int
    dtype : dtype
    begin : int
        Where the base64 text begins in the file, in bytes.
    offset : int
        Where the values begin in what the text means, in bytes.
    fortran : bool
        Whether the first axis varies fastest.
    stamp : (int, int)
        Size and time of change of the file when it was opened.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype
    begin: int
    offset: int
    fortran: bool
    stamp: tuple[int, int]

    def files(self) -> tuple[str, ...]:
        """The one file that holds the values."""
        return (self.path,)

    def read(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Stored values; as `ArraySource.read`, also where the text is no base64."""
        if not self.fortran:
            return self.stored(start, stop)
        with reopened(self.path, self.stamp):
            return _pieces.read(self, math.prod(self.shape), self._made, start, stop)

    def read_rows(self, starts: Starts, length: int) -> np.ndarray:
        """Stored values of flat ranges; see `troubleshooter_nb.dump.read_rows`."""
        if not self.fortran:
            return self._as_stored(starts, length)
        return self._order.rows(self._as_stored, self.dtype, starts, length)

    @property
    def _order(self) -> Strided:
        return Strided(self.shape, fortran_strides(self.shape))

    def _made(self, start: int, stop: int) -> np.ndarray:
        return self._order.range(self._as_stored, self.dtype, start, stop)

    def _as_stored(self, starts: Starts, length: int) -> np.ndarray:
        return gathered(self.stored, self.dtype, starts, length)

    def stored(self, start: int, stop: int, into: np.ndarray | None = None) -> np.ndarray:
        """Values of a range in the order in which they are stored."""
        first = self.offset + start * self.dtype.itemsize
        last = self.offset + stop * self.dtype.itemsize
        # Four letters are three bytes.
        left, right = first // 3 * 4, -(-last // 3) * 4
        with reopened(self.path, self.stamp) as file:
            file.seek(self.begin + left)
            text = bytearray()
            while len(text) < right - left and (piece := file.read(right - left - len(text))):
                text += piece
        try:
            data = binascii.a2b_base64(bytes(text))[first - left // 4 * 3 :]
        except binascii.Error as error:
            problem = Message("dumps.json_bytes", begin=self.begin + left, problem=error)
            raise ReadError(_of_file(self.path, problem)) from None
        if len(data) < last - first:
            problem = Message("dumps.json_bytes_end", begin=self.begin + left)
            raise ReadError(_of_file(self.path, problem))
        return np.frombuffer(data, np.uint8)[: last - first].view(self.dtype)


def _of_file(path: str, problem: str) -> str:
    return Message("files.in_file", file=Path(path).name, what=problem)


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if not path.is_file():
        return Message("dumps.not_a_file")
    head = head_of(path, 4096)
    if head.lstrip()[:1] not in (b"{", b"["):
        return Message("dumps.json_not")
    if re.match(rb'\s*\{\s*"lst"\s*:\s*\[', head):
        return None
    if re.match(rb'\s*\[\s*\{\s*"(?:[^"\\]|\\.){0,1000}"\s*:\s*\{\s*"(?:array|values)"\s*:', head):
        return None
    if any(marker.encode() in head for marker in _MARKERS):
        return None
    return Message("dumps.json_no_outputs")


def open_polygraphy_json(path: Path, *, label: str) -> Dump:
    """Open what ``polygraphy run --save-outputs`` or ``--save-inputs`` wrote.

    Parameters
    ----------
    path : Path
        A json file of at most 1 GiB. Nothing is unpickled.
    label : str

    Returns
    -------
    Dump
        One entry per tensor, named as in the network; the iteration is its step. Where the file
        holds several runners, their names stand in front of those of the tensors. An array that
        cannot be read is an entry with a reason. Values are decoded when asked for.

    Raises
    ------
    FormatError
        If it is no such json, is larger, or holds no tensor.
    """
    with named(path):
        with opened(path) as (file, stamp):
            if stamp[0] > most("polygraphy_json"):
                size = Message("dumps.json_too_large", size=stamp[0])
                fewer = joined([size, Message("dumps.json_save_fewer")])
                raise FormatError(beyond("polygraphy_json", fewer, stamp[0]))
            text = file.read(stamp[0])
        skeleton, arrays = _skeleton(text)
        cells, notes = _cells(skeleton)
        entries = [_filled(entry, cell, path, text, arrays, stamp) for entry, cell in cells]
    return Dump.from_entries(entries, label=label, format=NAME, notes=notes)


def _skeleton(text: bytes) -> tuple[Any, list[tuple[int, int]]]:
    """The json with a short text in the place of each array, and where the arrays stand."""
    arrays: list[tuple[int, int]] = []

    def cut(match: re.Match[bytes]) -> bytes:
        arrays.append(match.span(2))
        return match[1] + f'"{_PLACE}{len(arrays) - 1}"'.encode()

    try:
        return json.loads(_ARRAY.sub(cut, text)), arrays
    except (ValueError, RecursionError) as error:
        problem = Foreign(str(error)[:100])
        raise FormatError(Message("dumps.json_invalid", problem=problem)) from None


Cell = tuple[Entry, Any]


def _cells(found: Any) -> tuple[list[Cell], list[str]]:
    """Entries without values, each with what stands in the file in the place of its values."""
    if isinstance(found, dict) and isinstance(found.get("lst"), list):
        cells, runners = list(_outputs(found["lst"])), _runners(found["lst"])
        notes: list[str] = [Message("dumps.json_outputs", runners=runners)]
    elif isinstance(found, list) and all(isinstance(one, dict) for one in found):
        cells = [cell for step, feed in enumerate(found) for cell in _feed(feed, step, "input")]
        notes = [Message("dumps.json_inputs")]
    else:
        raise FormatError(Message("dumps.json_neither"))
    if not cells:
        raise FormatError(joined([Message("files.no_tensors"), Message("files.save_again")]))
    return _ordered(cells), notes


def _runners(pairs: list[Any]) -> list[str]:
    return [_shown(pair[0]) for pair in pairs if isinstance(pair, list) and pair]


def _outputs(pairs: list[Any]) -> Iterator[Cell]:
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], list):
            raise FormatError(Message("dumps.json_no_runner", number=number))
        prefix = f"{_shown(pair[0])}/" if len(pairs) > 1 else ""
        for step, iteration in enumerate(pair[1]):
            outputs = iteration.get("outputs") if isinstance(iteration, dict) else None
            if not isinstance(outputs, dict):
                raise FormatError(Message("dumps.json_iteration", step=step, number=number))
            for entry, cell in _feed(outputs, step, "output"):
                yield entry._replace(name=prefix + entry.name), cell


def _feed(tensors: dict[str, Any], step: int, role: Role) -> Iterator[Cell]:
    for name, cell in tensors.items():
        if not name.startswith(_MARKERS):
            shown = _shown(name)
            yield Entry(shown, Site("file", shown, role=role), step=step), cell


def _ordered(cells: list[Cell]) -> list[Cell]:
    taken: set[tuple[int, str]] = set()
    result = []
    for order, (entry, cell) in enumerate(cells):
        name, repeat = entry.name, 0
        while (entry.step, name) in taken:
            repeat += 1
            name = f"{entry.name}#{repeat}"
        taken.add((entry.step, name))
        result.append((entry._replace(name=name, order=order), cell))
    return result


def _filled(
    entry: Entry,
    cell: Any,
    path: Path,
    text: bytes,
    arrays: list[tuple[int, int]],
    stamp: tuple[int, int],
) -> Entry:
    try:
        number = _number_of(cell, len(arrays))
        return entry._replace(source=_source(path, text, arrays[number], stamp))
    except FormatError as error:
        return entry._replace(reason=message_of(error))


def _number_of(cell: Any, count: int) -> int:
    """Number of the array in a cell: an array, or a lazy array around one."""
    kind = ""
    for _ in range(3):
        if isinstance(cell, dict):
            kind = str(cell.get("polygraphy_class", kind))[:40]
            cell = next((cell[key] for key in ("values", "array") if key in cell), None)
    if kind == "Tensor":
        raise FormatError(Message("dumps.json_torch"))
    if isinstance(cell, str) and re.fullmatch(rf"{_PLACE}[0-9]{{1,9}}", cell):
        number = int(cell[1:])
        if number < count:
            return number
    latin = Message("dumps.json_latin") if isinstance(cell, str) else ""
    raise FormatError(joined([Message("dumps.json_no_array"), latin]))


def _source(path: Path, text: bytes, span: tuple[int, int], stamp: tuple[int, int]) -> Base64Source:
    begin, end = span
    head = text[begin : min(end, begin + _LARGEST_HEADER // 3 * 4)]
    if (end - begin) % 4:
        raise FormatError(Message("dumps.json_letters", begin=begin, count=end - begin))
    shape, fortran, stored, offset = parse_npy_header(binascii.a2b_base64(head))
    dtype = npy_meaning(stored, None)
    check_shape(shape, stored)
    held = (end - begin) // 4 * 3 - text[end - 2 : end].count(b"=") - offset
    promised = math.prod(shape) * dtype.itemsize
    if held < promised:
        sizes = {"promised": promised, "held": held}
        raise FormatError(Message("dumps.json_truncated", shape=shape, dtype=dtype, **sizes))
    fortran = fortran and len(shape) > 1
    return Base64Source(str(path), shape, dtype, begin, offset, fortran, stamp)


def _shown(name: Any) -> str:
    """Text that can be written out: half a pair of surrogates comes escaped."""
    return printable(str(name))
