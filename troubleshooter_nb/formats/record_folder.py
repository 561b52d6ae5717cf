"""What a recording left in a folder: its events in order, and the values behind them."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.dump import ArraySource
from troubleshooter_nb.errors import FormatError, ReadError
from troubleshooter_nb.formats.checksums import Part, crc_of, judged_part
from troubleshooter_nb.formats.file_source import (
    FileSource,
    OpenedFile,
    check_shape,
    head_of,
    named,
    opened,
    reopened,
)
from troubleshooter_nb.formats.links import refuse_outside
from troubleshooter_nb.formats.record_grammar import is_event, is_whole_number
from troubleshooter_nb.formats.record_layout import (
    FORMAT,
    INDEX,
    OPENING,
    RANK_FOLDER,
    SEALED,
    as_written,
    in_need,
    seal_of,
    shard_name,
    with_nonfinite,
)
from troubleshooter_nb.messages import Foreign, Message, ids_of, joined, message_of
from troubleshooter_nb.metrics.floats import dtype_from_token
from troubleshooter_nb.ranges import Starts

Event = dict[str, Any]

_LONGEST_LINE = 16 << 20  # bytes; a call with a long stack has thousands
_AT_ONCE = 256  # lines
_DTYPE = re.compile(r"[a-z]{3,12}[0-9]{0,3}(?:_[a-z0-9]{1,12})?")


@dataclass(frozen=True, repr=False)
class RecordedEvents:
    """The recording of one rank as it was found.

    Attributes
    ----------
    folder : Path
    rank : int
    header : dict
        What stands in the header, ``format`` included.
    events : list of dict
        All but the header, in order, as `record_writer.RecordWriter.put` was given them. Of a
        value whose bytes are not there, ``at``, ``seal`` and ``sum`` are replaced by a ``reason``;
        any ``reason`` is a `Message`, or `Foreign`.
    complete : bool
        Whether it was closed without error. Else it broke off, or is still being written.
    notes : list of Message
        What is not as it should be.
    """

    folder: Path
    rank: int
    header: Mapping[str, Any]
    events: list[Event]
    complete: bool
    notes: list[str]
    _kept: dict[int, Event] = field(default_factory=dict)
    _stamps: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def source_of(self, value: int) -> ArraySource | None:
        """A handle to the bytes of a value by its number; None where none were kept.

        Its first read compares the seal, and raises `ReadError` where it is wrong. Of a recording
        that is complete, the file must not change any more; one still being written grows.
        """
        event = self._kept.get(value)
        if event is None:
            return None
        shard, offset = event["at"]
        shape, dtype = tuple(event["shape"]), dtype_from_token(event["dtype"])
        return SealedSource(
            path=os.path.join(self.folder, shard_name(shard)),
            shape=shape,
            dtype=dtype,
            spans=((offset, math.prod(shape) * dtype.itemsize),),
            stamp=self._stamps[shard] if self.complete else None,
            seal=event["seal"],
            sum=event.get("sum"),
            number=value,
        )


@dataclass(frozen=True, kw_only=True)
class SealedSource(FileSource):
    """A value of a recording; the first read of each opening looks whether its seal is whole.

    Attributes
    ----------
    seal : int
        See `record_layout.seal_of`.
    number : int
        Of the value in its recording.
    sum : int, optional
        CRC-32 of all its bytes; of one that the seal covers, and in older recordings, None.
    """

    seal: int
    number: int
    sum: int | None = None
    sound: list[bool] = field(default_factory=list, compare=False, repr=False)

    def opened(self) -> OpenedFile:
        """The file opened once for several reads; without stamp it may be another one by now."""
        if self.stamp is None:
            self.sound.clear()
        return super().opened()

    def read_from(
        self, file: int, start: int, stop: int, into: np.ndarray | None = None
    ) -> np.ndarray:
        """Stored values; raises as `read`, also where the seal is broken."""
        self._refuse_broken(file)
        return super().read_from(file, start, stop, into)

    def rows_from(self, file: int, starts: Starts, length: int) -> np.ndarray:
        """Stored values of ranges; raises as `read_from`, also where none is asked for."""
        self._refuse_broken(file)
        return super().rows_from(file, starts, length)

    def _refuse_broken(self, file: int) -> None:
        if not self.sound:
            if self._seal(file) != self.seal:
                where = {"number": self.number, "file": Path(self.path).name}
                raise ReadError(Message("records.broken_seal", **where))
            self.sound.append(True)

    def checked(self) -> Part:
        """The value against what was recorded of it; raises nothing."""
        part = Part("", 0, self.size_bytes, "intact")
        try:
            self.sound.clear()
            with self.opened() as file:
                file.read(0, 0)
        except ReadError as error:
            is_read = "records.broken_seal" in ids_of(message_of(error))
            return part._replace(state="damaged" if is_read else "unread", reason=message_of(error))
        if self.sum is None and self.size_bytes > 2 * SEALED:
            return part._replace(state="no_checksum", reason=Message("checksums.only_ends"))
        if self.sum is None:
            return part
        try:
            with reopened(self.path, self.stamp) as file:
                ((begin, length),) = self.spans
                return judged_part(part, crc_of(file, begin, begin + length) == self.sum)
        except (ReadError, FormatError) as error:
            return part._replace(state="unread", reason=message_of(error))

    def _seal(self, file: int) -> int:
        """The seal of the bytes that are there now."""
        size, count = math.prod(self.shape), SEALED // self.dtype.itemsize
        ranges = [(0, size)] if size <= 2 * count else [(0, count), (size - count, size)]
        pieces = [super(SealedSource, self).read_from(file, *one) for one in ranges]
        return seal_of(np.concatenate([one.view(np.uint8) for one in pieces]).data)


@uncollected()
def read_events(folder: Path) -> RecordedEvents:
    """Read the index of one rank; values are read when asked for.

    Parameters
    ----------
    folder : Path
        What holds ``index.jsonl``.

    Raises
    ------
    FormatError
        If there is no index, or it does not begin with a header of this version. What is wrong
        behind the header is left out, and said in the notes.
    """
    path = folder / INDEX
    again = Message("records.again")
    try:
        with named(path, again), opened(path) as (file, _):
            header = _header(file.readline(_LONGEST_LINE))
            lines = _read(file)
    except OSError as error:
        what = Message("files.in_file", file=path.name, what=error)
        raise FormatError(joined([what, again])) from error
    # Only now: of a recording that is still being written, the shards hold at least these lines.
    placed = _placed(lines.events, folder)
    ends = [one["end"].get("complete") for one in lines.events if "end" in one]
    notes = [*_notes_of_lines(lines, ends), *placed.notes()]
    complete = True in ends
    rank = _rank(folder, header)
    return RecordedEvents(
        folder, rank, header, lines.events, complete, notes, placed.kept, placed.stamps
    )


def _header(line: bytes) -> Event:
    if not line.startswith(OPENING):
        raise FormatError(Message("records.no_header"))
    try:
        header = _parsed([line])[0]["header"]
    except (ValueError, RecursionError):
        raise FormatError(Message("records.damaged_header")) from None
    if not line.endswith(b"\n") or type(header) is not dict:
        raise FormatError(Message("records.damaged_header"))
    if header.get("format") != FORMAT:
        found = str(header.get("format"))[:40]
        raise FormatError(Message("records.other_version", found=found, known=FORMAT))
    return header


def _rank(folder: Path, header: Event) -> int:
    """As the header says, else as the folder is called."""
    rank = header.get("rank", -1)
    if is_whole_number(rank) and rank >= 0:
        return int(rank)
    found = RANK_FOLDER.fullmatch(folder.name)
    return int(found[1]) if found else 0


class _Lines(NamedTuple):
    """What an index holds: events, numbers of damaged lines, and whether its last line is cut."""

    events: list[Event]
    damaged: list[int]
    is_cut: bool


def _read(file: BinaryIO) -> _Lines:
    """All lines behind the header."""
    events: list[Event] = []
    damaged: list[int] = []
    lines, number, is_cut = _lines_of(file), 2, False
    while batch := list(islice(lines, _AT_ONCE)):
        if not batch[-1].endswith(b"\n"):
            is_cut = bool(batch.pop())
        try:
            found = _parsed(batch)
        except (ValueError, RecursionError):
            found = [_parsed_alone(line) for line in batch]
        for at, event in enumerate(found, number):
            if _is_sound(event):
                events.append(event)
            else:
                damaged.append(at)
        number += len(batch)
    return _Lines(events, damaged, is_cut)


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines with their newline, that of one too long alone; the last one may have none."""
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        if len(line) < _LONGEST_LINE or line.endswith(b"\n"):
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(_LONGEST_LINE)
        yield b"\n"


def _parsed(lines: Sequence[bytes]) -> list[Any]:
    """What the lines hold, parsed as one list: their many equal keys are kept once then.

    ValueError where one of them is no JSON.
    """
    text = with_nonfinite(b"[" + b",".join(lines) + b"]")
    is_dear = in_need(text)
    if is_dear and len(lines) > 1:
        return [_parsed_alone(line) for line in lines]
    values: list[Any] = json.loads(text.decode())
    if len(values) != len(lines):
        raise ValueError
    return as_written(values) if is_dear else values


def _parsed_alone(line: bytes) -> Any:
    try:
        return _parsed([line])[0]
    except (ValueError, RecursionError):
        return None


def _is_sound(event: Any) -> bool:
    try:
        return is_event(event)
    except RecursionError:
        return False


def _notes_of_lines(lines: _Lines, ends: Sequence[Any]) -> list[str]:
    notes: list[str] = []
    count = len(lines.events) - len(ends)
    if not ends:
        notes.append(Message("records.not_closed", count=count))
    elif True not in ends:
        notes.append(Message("records.closed_early", count=count))
    if lines.is_cut:
        notes.append(Message("records.cut_line"))
    if lines.damaged:
        numbers = {"count": len(lines.damaged), "numbers": lines.damaged}
        notes.append(Message("records.damaged_lines", **numbers))
    return notes


@dataclass
class _Placed:
    """Where the bytes of values lie, and of how many they are missing, by shard."""

    folder: Path
    kept: dict[int, Event] = field(default_factory=dict)
    stamps: dict[int, tuple[int, int]] = field(default_factory=dict)
    missing: Counter[int] = field(default_factory=Counter)
    short: Counter[int] = field(default_factory=Counter)

    def stamp(self, shard: int) -> tuple[int, int]:
        """Size and time of change of a shard; of none, size -1. FormatError for one elsewhere."""
        found = self.stamps.get(shard)
        if found is None:
            path = self.folder / shard_name(shard)
            refuse_outside(path)
            try:
                status = os.stat(path)
                is_file = stat.S_ISREG(status.st_mode)
            except OSError:
                is_file = False
            found = (status.st_size, status.st_mtime_ns) if is_file else (-1, 0)
            self.stamps[shard] = found
        return found

    def notes(self) -> list[str]:
        """What is missing of the shards."""
        return [
            Message(id, count=sum(counts.values()), files=[*map(shard_name, sorted(counts))])
            for id, counts in (
                ("records.shards_missing", self.missing),
                ("records.shards_short", self.short),
            )
            if counts
        ]


def _placed(events: list[Event], folder: Path) -> _Placed:
    """Look where each value lies, in place; one whose bytes are not there gets a reason."""
    placed = _Placed(folder)
    for event in events:
        if "at" in event:
            reason = _fault(event, placed)
            if not reason:
                placed.kept.setdefault(event["value"], event)
                continue
            del event["at"]
            event.pop("seal", None)
            event.pop("sum", None)
            event["reason"] = reason
        elif "reason" in event and not isinstance(event["reason"], Message):
            event["reason"] = Foreign(event["reason"])
    return placed


def _fault(event: Event, placed: _Placed) -> str:
    """Why the bytes of a value cannot be read, or nothing."""
    at, shape, dtype = event["at"], event["shape"], _dtype_of(event["dtype"])
    if dtype is None:
        return Message("arguments.unknown_dtype", name=event["dtype"][:40])
    if not _is_place(at, event["seal"]):
        return Message("records.no_place")
    try:
        check_shape(tuple(shape), dtype)
        shard, offset = at
        size = placed.stamp(shard)[0]
    except FormatError as error:
        return message_of(error)
    end = offset + math.prod(shape) * dtype.itemsize
    if end <= size:
        return ""
    name = shard_name(shard)
    if size < 0:
        placed.missing[shard] += 1
        return Message("records.shard_missing", file=name)
    placed.short[shard] += 1
    what = Message("files.values_outside", begin=offset, end=end, size=size)
    return Message("files.in_file", file=name, what=what)


def _is_place(at: Any, seal: Any) -> bool:
    numbers = [*at, seal] if type(at) is list else []
    return len(numbers) == 3 and all(map(is_whole_number, numbers)) and min(at) >= 0


@lru_cache(maxsize=64)
def _dtype_of(token: str) -> np.dtype | None:
    if not _DTYPE.fullmatch(token):
        return None
    try:
        return dtype_from_token(token)
    except ValueError:
        return None


def checked_index(folder: Path) -> Part:
    """The index of one rank against the CRC-32 in its last line, which is of all lines before."""
    path = folder / INDEX
    part = Part(INDEX, 0, 0, "no_checksum", Message("checksums.not_closed"))
    try:
        with opened(path) as (file, (size, _)):
            last, crc, before = b"", 0, 0
            for last in _lines_of(file):
                before, crc = crc, zlib.crc32(last, crc)
            said = (_parsed_alone(last) or {}).get("end", {}).get("crc32")
            part = part._replace(end=size)
            return part if said is None else judged_part(part, said == before)
    except (FormatError, OSError, AttributeError) as error:
        return part._replace(state="unread", reason=message_of(error))


def is_record(path: Path) -> bool:
    """Whether a path is a recording: its root, the folder of a rank, or an index."""
    return bool(ranks_of(path))


def refusal(path: Path) -> str | None:
    """None when there is a recording at the path, else why not."""
    if is_record(path):
        return None
    return Message("records.refusal_file") if path.is_file() else Message("records.refusal")


def ranks_of(path: Path) -> list[Path]:
    """The folders of the ranks of a recording, by number; none where there is no recording.

    Parameters
    ----------
    path : Path
        Its root, which holds ``rank0``, ``rank1`` and so on; one of these; or an ``index.jsonl``.
    """
    if path.is_file():
        path = path.parent if path.name == INDEX else path
    if _begins_a_record(path / INDEX):
        return [path]
    try:
        with os.scandir(path) as children:
            found = [(RANK_FOLDER.fullmatch(child.name), Path(child.path)) for child in children]
    except OSError:
        return []
    ranks = [(int(match[1]), folder) for match, folder in found if match]
    return [folder for _, folder in sorted(ranks) if _begins_a_record(folder / INDEX)]


def _begins_a_record(index: Path) -> bool:
    return head_of(index, len(OPENING)) == OPENING
