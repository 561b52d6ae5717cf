"""Text in which ``save(..., output_mode="print")`` printed tensors, such as a captured screen."""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from troubleshooter_nb.dump import ArrayInMemory, Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.metrics.floats import arithmetic_of, computable, dtype_from_token
from troubleshooter_nb.naming import NpyName, format_npy_name, site_of_npy_stem

NAME = "print_text"
MARK = "_TS_SAVE_NAME:"
# Printed after a tensor of shape [1] that had no axes: a MindSpore graph prints a number without
# axes to six digits only.
NO_AXES = "(0-d)"

_MOST_PRINTS = 100_000
_LONGEST_STEM = 200  # characters
_LONGEST_WORD = 100  # characters of one value: two long doubles with exponents are 60
_BLOCK = 64 * 1024  # values made numbers at a time
# [0-9], not \d, which takes the digits of every script.
_HEAD = re.compile(r"\s*Tensor\(shape=\[([0-9, ]{0,400})\], dtype=(\w{1,40}), value=")
_LENGTH = re.compile(r"[0-9]{1,18}")
# What a framework shows of a tensor, behind the name. A list without ``tensor(`` is MindSpore's,
# and only numbers may stand in it: a name may hold brackets too, and ``tensor(``.
_PARAMETER = "Parameter containing:"
_SHOWN = re.compile(
    r" (?P<value>"
    r"tensor\((?=\[|\.\.\.|[-+]?(?:[0-9.]|nan|inf)[^\s,)]*[,)]|(?:True|False)[,)]|[a-z_]+=)"
    rf"|{_PARAMETER}\s*$|\[[\][\s0-9.eE+\-,naifTruFlsj]*$)",
    re.MULTILINE,
)
# What MindSpore shows of one; older prints have only that.
_VALUELESS = re.compile(r" Parameter \(name=.*")
_TORCH = re.compile(r"(?s)tensor\((?P<values>.*?)(?P<facts>(?:,\s*[a-z_]+=.*)?)\)")
_TORCH_SIZE = re.compile(r"size=\(([0-9, ]{0,400})\)")
_TORCH_DTYPE = re.compile(r"dtype=torch\.(\w{1,40})")
_PIECE = re.compile(r"[\[\]]|[^\s\[\],()]+")
_REAL = r"(?:[0-9.]+(?:e[-+]?[0-9]+)?|nan|inf)"
_NUMBER = re.compile(rf"[-+]?{_REAL}|True|False|\(?(?:[-+]?{_REAL}(?=[-+]))?[-+]?{_REAL}j\)?")
_WORD = re.compile(r"[^\s\[\],)]+")
_CAPITALS = {
    **{"int": "Int", "uint": "UInt", "float": "Float", "bfloat": "BFloat"},
    **{"bool": "Bool", "complex": "Complex"},
}
# Digits after the first with which every value of the dtype comes back.
_DIGITS = {"float16": 4, "float32": 8, "float64": 16, "complex64": 8, "complex128": 16}


def tensor_text(stem: str, array: np.ndarray) -> str:
    """The lines for one tensor: all its values, with enough digits to read them back exactly.

    Parameters
    ----------
    stem : str
        Name of the tensor.
    array : ndarray, any shape, any dtype of numbers
        bfloat16 and float8 print the values under their own dtype name. The payload of a nan is
        lost.

    Returns
    -------
    str
        ``_TS_SAVE_NAME:<stem>``, then ``Tensor(shape=[1, 2], dtype=Float32, value=`` with rows.

    Notes
    -----
    Source: the text that a MindSpore graph prints. That shortens more
    than 1,000 values to ``...``; this does not.
    """
    values = array if array.dtype.isbuiltin == 1 else computable(array)
    digits = _DIGITS.get(values.dtype.name, 20)

    def number(value: np.floating, *, sign: bool = False) -> str:
        return np.format_float_scientific(value, precision=digits, unique=False, sign=sign)

    def complex_number(value: np.complexfloating) -> str:
        imaginary = number(value.imag, sign=True)
        # A nan comes without a sign, which alone parts the two numbers.
        joined = imaginary if imaginary[0] in "+-" else f"+{imaginary}"
        return f"{number(value.real)}{joined}j"

    text = np.array2string(
        values,
        threshold=sys.maxsize,
        max_line_width=sys.maxsize,
        formatter={"float_kind": number, "complex_kind": complex_number},
    )
    dtype = re.sub("^[a-z]+", lambda word: _CAPITALS.get(word[0], word[0]), array.dtype.name)
    rows = "\n" if array.ndim > 1 else ""
    return f"{MARK}{stem}\nTensor(shape={list(array.shape)}, dtype={dtype}, value={rows}{text})\n"


def shown_text(stem: str, shown: str, array: np.ndarray) -> str:
    """The line for one tensor as a framework shows it.

    Parameters
    ----------
    stem : str
        Name of the tensor.
    shown : str
        What ``print`` shows of it.
    array : ndarray
        Its values.

    Returns
    -------
    str
        ``_TS_SAVE_NAME:<stem> <shown>``; of an empty tensor whose shape ``[]`` does not tell, the
        text of `tensor_text`.
    """
    return tensor_text(stem, array) if shown == "[]" else f"{MARK}{stem} {shown}\n"


def shows_values(text: str) -> bool:
    """Whether a text that a framework shows of a tensor begins with values, or is a number."""
    return bool(_SHOWN.match(f" {text}") or _NUMBER.fullmatch(text))


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if not path.is_file():
        return Message("dumps.not_a_file")
    if (size := path.stat().st_size) > most("printed"):
        return beyond("printed", Message("dumps.text_too_large", size=size), size)
    with open(path, "rb") as stream:
        tail = b""
        while block := stream.read(1024**2):
            if b"\0" in block:
                return Message("dumps.text_binary")
            if MARK.encode() in tail + block:
                return None
            tail = block[-len(MARK) :]
    return Message("dumps.text_without_mark", mark=MARK)


def open_print_text(path: Path, *, label: str) -> Dump:
    """Read all tensors printed into a text; anything else in it is passed over.

    Parameters
    ----------
    path : Path
        Text file of at most 256 MiB, UTF-8. Only numbers are read from it; nothing is run.
    label : str
        Label of the dump.

    Returns
    -------
    Dump
        One entry per print, named ``{stem}_{dtype}_{number}`` in the order of printing, loaded.
        A tensor that was printed in part (``...``), mixed with other output or cut off is an
        entry with a reason. Of more than 100,000 prints the rest is left out, which is a note.

    Raises
    ------
    FormatError
        If the file holds no print, or is larger.
    """
    reason = refusal(path)
    if reason is not None:
        raise FormatError(Message("files.in_file", file=path.name, what=reason))
    visits: Counter[tuple[str, str]] = Counter()
    entries = []
    with open(path, encoding="utf-8", errors="backslashreplace") as stream:
        blocks = _blocks(stream)
        for order, (stem, lines) in enumerate(itertools.islice(blocks, _MOST_PRINTS)):
            entry = _entry(stem, lines, order)
            visit = entry.site.path, entry.site.direction
            entries.append(entry._replace(site=replace(entry.site, call=visits[visit])))
            visits[visit] += 1
        more = next(blocks, None) is not None
    notes = [Message("dumps.text_most_prints", count=_MOST_PRINTS)] if more else []
    return Dump.from_entries(entries, label=label, format=NAME, notes=notes)


class _Print:
    """The name of one print, and the lines of its tensor as they come."""

    def __init__(self, after_mark: str) -> None:
        shown = _found_shown(after_mark)
        name = after_mark if shown is None else after_mark[: shown.start()]
        self.stem = name.strip()[:_LONGEST_STEM]
        self.lines: list[str] = []
        self._open = 0  # brackets that wait for theirs
        self._is_shown = shown is not None
        if shown is not None:
            self.take(after_mark[shown.start("value") :])

    def take(self, line: str) -> None:
        """A further line, where the tensor is not whole yet."""
        if not self._is_whole():
            self.lines.append(line)
            self._open += sum(map(line.count, "([")) - sum(map(line.count, ")]"))

    def _is_whole(self) -> bool:
        lines = self.lines
        if self._is_shown and lines:
            return self._open <= 0 and not lines[-1].startswith(_PARAMETER)
        if lines and not lines[0].lstrip().startswith("Tensor("):
            return True
        # The line after the closing bracket may say that the tensor has no axes.
        return len(lines) > 1 and ")" in lines[-2]

    def parts(self) -> tuple[str, list[str]]:
        """Name and lines; a number without axes may stand behind the name, as of MindSpore."""
        next_line = self.lines[0] if self.lines else ""
        valueless = _VALUELESS.search(self.stem)
        if valueless and not _HEAD.match(next_line):
            return self.stem[: valueless.start()].strip(), [valueless[0]]
        if _begins(next_line):
            return self.stem, self.lines
        name, space, number = self.stem.rpartition(" ")
        if space and _NUMBER.fullmatch(number):
            return name.strip(), [number]
        return self.stem, self.lines


def _found_shown(after_mark: str) -> re.Match[str] | None:
    """Where on the line of a name the tensor begins: the first place from which it fills the line.

    Else the first that looks like one, such as a tensor with other output behind it, unless a
    number without axes ends the line.
    """
    first: re.Match[str] | None = None
    # No name is longer, and a line of many brackets must not be searched from each of them.
    for space in re.finditer(" ", after_mark[: 2 * _LONGEST_STEM]):
        match = _SHOWN.match(after_mark, space.start())
        if match and _fills(after_mark[match.start("value") :].rstrip()):
            return match
        first = first or match
    ends_with_number = _NUMBER.fullmatch(after_mark.rstrip().rpartition(" ")[2])
    return None if ends_with_number else first


def _fills(text: str) -> bool:
    """Whether no bracket closes the first one before the end of the line."""
    depth = 0
    for place in (found.start() for found in re.finditer(r"[][()]", text)):
        depth += 1 if text[place] in "([" else -1
        if not depth:
            return place == len(text) - 1
    return True


def _begins(line: str) -> bool:
    """Whether a tensor, or a number without axes, is all there is on a line."""
    return bool(_SHOWN.match(f" {line}") or _HEAD.match(line) or _NUMBER.fullmatch(line.strip()))


def _blocks(stream: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The name of each print and the lines of its tensor."""
    found: _Print | None = None
    for line in stream:
        before, mark, after = line.partition(MARK)
        if found is not None and (before.strip() or not mark):
            found.take(before)
        if mark:
            if found is not None:
                yield found.parts()
            found = _Print(after)
    if found is not None:
        yield found.parts()


def _entry(stem: str, lines: list[str], order: int) -> Entry:
    entry = Entry(format_npy_name(NpyName(stem, order)), site_of_npy_stem(stem), order=order)
    try:
        array = _array(lines)
    except ValueError as error:
        return entry._replace(reason=message_of(error))
    array.flags.writeable = False
    name = format_npy_name(NpyName(stem, order, array.dtype.name))
    return entry._replace(name=name, source=ArrayInMemory(array))


def _array(lines: list[str]) -> np.ndarray:
    first = lines[0] if lines else ""
    if _VALUELESS.fullmatch(first):
        raise FormatError(Message("compat.print_without_values"))
    if _SHOWN.match(f" {first}"):
        return _shown_array("".join(lines[first.startswith(_PARAMETER) :]).strip())
    head = _HEAD.match(first)
    if head is None:
        return _bare_number(first.strip())
    shape = tuple(int(length) for length in _LENGTH.findall(head[1]))
    dtype = dtype_from_token(head[2].lower())
    body = [first[head.end() :], *lines[1:]]
    end = next((index for index, line in enumerate(body) if ")" in line), None)
    if end is None:
        raise FormatError(Message("dumps.text_cut_off"))
    scalar = any(line.strip() == NO_AXES for line in body[end + 1 :])
    body[end:] = [body[end].partition(")")[0]]
    values = _numbers(body, dtype, math.prod(shape))
    return values.reshape(() if scalar and shape == (1,) else shape)


def _shown_array(text: str) -> np.ndarray:
    """What a framework shows of a tensor; its dtype only where torch says it."""
    is_torch = not text.startswith("[")
    whole = _TORCH.fullmatch(text) if is_torch else re.fullmatch("(?s)(?P<values>.*])", text)
    if whole is None:
        raise FormatError(Message("dumps.text_cut_off"))
    values = whole["values"]
    if not is_torch and not values.strip("[] \n\r"):
        # MindSpore shows every empty tensor so.
        raise FormatError(Message("compat.print_without_shape"))
    facts = whole["facts"] if is_torch else ""
    token, size = _TORCH_DTYPE.search(facts), _TORCH_SIZE.search(facts)
    dtype = dtype_from_token(token[1]) if token else _usual_dtype(values, is_torch)
    shape = tuple(map(int, _LENGTH.findall(size[1]))) if size else _shape_of(values)
    return _numbers([values], dtype, math.prod(shape)).reshape(shape)


def _usual_dtype(values: str, is_torch: bool) -> np.dtype:
    """The dtype torch does not say; of MindSpore's, which says none, the widest."""
    if "j" in values:
        return np.dtype(np.complex64 if is_torch else np.complex128)
    if "True" in values or "False" in values:
        return np.dtype(np.bool_)
    if re.search(r"[.ni]|^\s*$", values.replace("...", "")) or values == "[]":
        return np.dtype(np.float32 if is_torch else np.float64)
    return np.dtype(np.int64)


def _shape_of(values: str) -> tuple[int, ...]:
    """How many pieces the last list of each depth has."""
    lengths: list[int] = []
    depth = 0
    for piece in _PIECE.finditer(values):
        if piece[0] == "]":
            depth -= 1
            continue
        if depth:
            lengths[depth - 1] += 1
        if piece[0] == "[":
            depth += 1
            lengths[depth - 1 :] = [0, *lengths[depth:]]
    return tuple(lengths)


def _numbers(lines: list[str], dtype: np.dtype, size: int) -> np.ndarray:
    """All values, made numbers block by block; as many as the shape says."""
    words = (match[0] for line in lines for match in _WORD.finditer(line))
    blocks = [np.empty(0, dtype)]
    count = 0
    while block := list(itertools.islice(words, _BLOCK)):
        count += len(block)
        if "..." in block:
            raise FormatError(Message("dumps.text_shortened"))
        if count > size:
            break
        blocks.append(_parsed(block, dtype))
    if count > size:
        raise FormatError(Message("dumps.text_more", count=size, size=size))
    if count < size:
        raise FormatError(Message("dumps.text_count", count=count, size=size))
    return np.concatenate(blocks)


def _parsed(words: list[str], dtype: np.dtype) -> np.ndarray:
    if max(map(len, words)) > _LONGEST_WORD:
        raise FormatError(Message("dumps.text_long_word"))
    # numpy reads no text as bfloat16 and the like, bool as a number only, and wraps what is too
    # large for a small integer.
    carrier = dtype
    if arithmetic_of(dtype) == "integer":
        words = [{"True": "1", "False": "0"}.get(word, word) for word in words]
        carrier = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    elif dtype.isbuiltin != 1:
        carrier = np.dtype(np.float64)
    with np.errstate(all="ignore"):
        try:
            numbers = np.array(words).astype(carrier)
            values = numbers.astype(dtype)
            changed = carrier.kind in "iu" and not np.array_equal(values.astype(carrier), numbers)
            if changed or (carrier.kind == "u" and any("-" in word for word in words)):
                raise OverflowError
        except (ValueError, OverflowError):
            raise FormatError(Message("dumps.text_no_number", dtype=dtype)) from None
    return values


def _bare_number(text: str) -> np.ndarray:
    """A number without axes, as the old tool printed it in a graph: to six digits, no dtype."""
    if text in ("True", "False"):
        return np.array(text == "True")
    text = text.removeprefix("(").removesuffix(")") if text.endswith("j)") else text
    for dtype in (np.int64, np.float64, np.complex128):
        if len(text) <= _LONGEST_WORD:
            try:
                return np.array(text).astype(dtype)
            except (ValueError, OverflowError):
                continue
    raise FormatError(Message("dumps.text_no_tensor"))
