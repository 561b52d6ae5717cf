"""The folder of a recording, as its writer and its reader know it.

``rank{k}/index.jsonl`` holds one event a line, the header first; ``data-{n}.bin`` the bytes of
values, little-endian in C order, from multiples of `ALIGNMENT` on. A line is written after the
bytes it speaks of, and counts once it ends with a newline; the recording is whole once a line says
so.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from troubleshooter_nb.messages import Message, plain, restored
from troubleshooter_nb.naming.characters import printable

FORMAT = "tnb-record/1"
INDEX = "index.jsonl"
# How every index begins, also one of a later version.
OPENING = b'{"header":{"format":"tnb-record/'
ALIGNMENT = 64  # bytes: a line of the cache
SEALED = 4096  # bytes of each end that a seal covers, a page
RANK_FOLDER = re.compile(r"rank([0-9]{1,9})")
SHARD_NAME = re.compile(r"data-([0-9]{1,9})\.bin")
# In a line, a quote inside a text has a backslash before it: these are no part of a text.
_NONFINITE = {
    b'{"float":"nan"}': b"NaN",
    b'{"float":"inf"}': b"Infinity",
    b'{"float":"-inf"}': b"-Infinity",
}
_IN_NEED = (b'{"message":"', b"\\ud")
_DEEPEST = 40
_LONGEST_NUMBER = 4096  # bits; Python reads no number of thousands of digits
LONGEST_TEXT = 200  # characters of a text among the arguments; longer ones are cut


def shard_name(number: int) -> str:
    """File name of a shard."""
    return f"data-{number}.bin"


def seal_of(values: memoryview) -> int:
    """CRC-32 of both ends of a value's bytes, each of `SEALED`; of all where these would meet."""
    if len(values) <= 2 * SEALED:
        return zlib.crc32(values)
    return zlib.crc32(values[-SEALED:], zlib.crc32(values[:SEALED]))


def line_of(event: Mapping[str, Any]) -> bytes:
    """An event as strict JSON without newline, whatever it holds.

    NaN and infinities become ``{"float":"nan"}``, a message its id and gaps, numbers of numpy
    those of Python, and what JSON cannot hold its text, cut. An event with any of these costs
    several times as much.
    """
    # Its reason is the one text of an event that is told to users in their language.
    reason = event.get("reason")
    if isinstance(reason, Message):
        event = {**event, "reason": plain(reason)}
    try:
        return _ENCODER.encode(event).encode()
    except (ValueError, TypeError, RecursionError):
        return _ENCODER.encode(_storable(event)).encode()


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


def _storable(value: Any, depth: int = 0) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _LONGEST_NUMBER else hex(value)[:LONGEST_TEXT]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {str(key): _storable(one, depth + 1) for key, one in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple, set, frozenset)):
        return [_storable(one, depth + 1) for one in value]
    return _text_of(value) if depth < _DEEPEST else "..."


def _text_of(value: Any) -> str:
    try:
        return str(value)[:LONGEST_TEXT]
    except Exception:  # of somebody's class: the run that is recorded must go on
        return type(value).__name__


def with_nonfinite(lines: bytes) -> bytes:
    """Lines in which NaN and infinities are spelt as Python's parser of JSON takes them."""
    if b'{"float":"' in lines:
        for written, spelt in _NONFINITE.items():
            lines = lines.replace(written, spelt)
    return lines


def in_need(lines: bytes) -> bool:
    """Whether any of these lines may hold what `as_written` gives back."""
    return any(part in lines for part in _IN_NEED)


def as_written(value: Any) -> Any:
    """The messages that `line_of` was given, in what JSON gives; halves of characters escaped."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [as_written(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"message", "values", "text"}:
        return restored(_parts(value))
    return _parts(value)


def _parts(value: dict[str, Any]) -> dict[str, Any]:
    """The parts of an object as they were written."""
    return {printable(key): as_written(one) for key, one in value.items()}


def describes_value(event: Mapping[str, Any]) -> bool:
    """Whether an event says what a value is; one met first as a gradient says whose it is, too."""
    return "value" in event and "dtype" in event


# In this order before the numbers of a fingerprint.
_FIGURES = ("min", "max", "mean", "l2", "nan_count", "inf_count")
_COUNTS = frozenset(("nan_count", "inf_count"))
_COUNTED = [*map(_FIGURES.index, _COUNTS)]


def with_packed_figures(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event whose statistics and fingerprint are one text, ``figures``: see `figures_of`."""
    statistics = event.get("statistics")
    if statistics is None or len(statistics) != len(_FIGURES):
        return event
    numbers = [*map(statistics.get, _FIGURES), *event.get("fingerprint", ())]
    if None in numbers:
        return event
    rest = {k: v for k, v in event.items() if k not in ("statistics", "fingerprint")}
    return {**rest, "figures": packed(numbers)}


def figures_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """``statistics`` and ``fingerprint`` of an event, packed or not, as far as it says them."""
    found = {name: event[name] for name in ("statistics", "fingerprint") if event.get(name)}
    numbers = unpacked(event["figures"]) if event.get("figures") else ()
    if len(numbers) < len(_FIGURES):
        return found
    named = zip(_FIGURES, numbers, strict=False)
    found["statistics"] = {k: int(v) if k in _COUNTS and math.isfinite(v) else v for k, v in named}
    if len(numbers) > len(_FIGURES):
        found["fingerprint"] = numbers[len(_FIGURES) :]
    return found


def are_figures(text: str) -> bool:
    """Whether a text is what `with_packed_figures` makes: statistics, whose counts are finite."""
    numbers = unpacked(text)
    return len(numbers) >= len(_FIGURES) and not any(math.isinf(numbers[at]) for at in _COUNTED)


def packed(numbers: Sequence[float]) -> str:
    """Numbers as base64 of float64, lowest byte first: their digits take ten times as long."""
    return b64encode(struct.pack(f"<{len(numbers)}d", *numbers)).decode()


def unpacked(text: str) -> tuple[float, ...]:
    """What `packed` made a text of; nothing where the text is damaged."""
    try:
        stored = b64decode(text, validate=True)
    except ValueError:
        return ()
    count, odd = divmod(len(stored), 8)
    return () if odd else struct.unpack(f"<{count}d", stored)
