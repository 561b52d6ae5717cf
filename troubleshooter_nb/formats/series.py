"""Series over training steps: logs of losses and norms, folders of successive checkpoints."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.collector import uncollected
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError, PathNotFoundError, path_of
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump
from troubleshooter_nb.formats.checkpoint_file import SUFFIXES, open_any, why_not
from troubleshooter_nb.formats.file_source import named, opened
from troubleshooter_nb.formats.limits import beyond, most
from troubleshooter_nb.formats.links import kept_inside
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.messages import Foreign, Message, joined, told
from troubleshooter_nb.naming import natural_key

NAME = "series"
SCHEMA = "troubleshooter_nb.series/1"

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)\b"
# "loss: 2.3", "loss=2.3", "loss 2.3", "loss is 2.3", "Step [20/100]", "iteration 10/ 100".
# Compiled when it is first used: it takes 2 % of the import.
_PAIR = (
    r"(?i)([a-z_][\w./-]*(?: (?:loss|norm|rate|scale))?)"
    r"(?:\s*[:=]\s*|\s+is\s+|\s+)[\[(]?\s*"
    rf"({_NUMBER})(?![\w.])"
)
# Dictionaries printed by Python have their names in quotes.
_BARE = str.maketrans(dict.fromkeys("'\"{},|", " "))
# No name of a measure is as long, and no gap: `_PAIR` would take their length squared.
_TOO_LONG = r"(?<![\w./-])[\w./-]{120,}|\s{3,}"
_STEP_NAMES = (
    *("global_step", "iteration", "iter", "train_step", "step", "it", "cur_step", "_step"),
    *("batch", "current_steps"),
)
_EPOCH_NAMES = ("epoch", "cur_epoch")
_MEASURE = r"(?i)loss|norm|(?:^|_)lr$|learning_rate|scale|acc|perplexity|ppl|l2|mean|max"
# Columns of tables that are of tensors: of a dump, of pairs, and of msprobe's comparison.
_OF_TENSORS = (
    {"name", "dtype", "shape"},
    {"left", "right", "left_shape"},
    {"npu_name", "bench_name"},
)
_STEP_IN_NAME = re.compile(r"[0-9]{1,18}")
# MindSpore's ModelCheckpoint: net-3_20.ckpt is epoch 3, step 20 of it.
_EPOCH_STEP = re.compile(r"(.*)-([0-9]{1,9})_([0-9]{1,9})")

_SKIPPED = {*_STEP_NAMES, *_EPOCH_NAMES}
_MOST_STEPS = 2**53
_ALL_DIGITS = 12  # decimals from which a number was not printed with fewer
# How a JSON document begins; a dictionary that Python printed has other quotes.
_JSON = re.compile(r"""\s*(?:\{\s*["}]|\[\s*[\[{"\]])""")
_HISTORY = "log_history"
_ROWS = Message("series.json_rows")

Record = dict[str, float]


@dataclass(frozen=True, repr=False)
class Series:
    """Numbers of a run over its steps.

    Attributes
    ----------
    table : xarray.Dataset, dimension ``step``
        One float64 variable per measure (``loss``, ``grad_norm``), nan where a step has none.
        ``attrs["quantum"]`` of a variable is half a unit of the last digit that was printed,
        ``attrs["nan_steps"]`` the steps for which the run itself wrote nan.
    label : str
    notes : tuple of str
        What the reader wants the user to know.
    """

    table: xr.Dataset
    label: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def measures(self) -> list[str]:
        """Names of the measures."""
        return [str(name) for name in self.table.data_vars]

    @property
    def steps(self) -> np.ndarray:
        """The steps, ascending."""
        steps: np.ndarray = self.table["step"].values
        return steps

    def __len__(self) -> int:
        """Number of steps."""
        return int(self.table.sizes["step"])

    def __repr__(self) -> str:
        """Label, steps, measures and notes."""
        steps = [int(step) for step in self.steps]
        shown = {"label": self.label, "count": len(self), "steps": steps, "names": self.measures}
        notes = (Message("pages.note", text=note) for note in self.notes)
        return "\n".join(map(told, (Message("series.shown", **shown), *notes)))


@uncollected()
def open_series(path: str | PathLike[str], *, label: str | None = None) -> Series | Dump:
    """Open what a run left over its steps.

    Parameters
    ----------
    path : str or path-like
        A log with lines such as ``step 10 loss 2.31``, ``iteration 10/ 100 | lm loss: 2.3E+00`` or
        ``epoch: 1 step: 20, loss is 2.30`` (MindSpore's LossMonitor); json lines, a json list of
        objects, or the ``log_history`` of Hugging Face's ``trainer_state.json``; a csv with a step
        column, one column per measure or one of names and one of numbers; an empty cell says
        nothing (PyTorch Lightning's ``metrics.csv``). Or a folder of checkpoints whose names
        differ in a number: ``step_10.pth``, ``net-1_20.ckpt``.
    label : str, optional
        Short name of the run; default the last part of the path.

    Returns
    -------
    Series or Dump
        Of a folder, one Dump with the entries of every checkpoint and their steps.

    Raises
    ------
    PathNotFoundError
        If the path does not exist.
    FormatError
        If it holds no series; the message says what was looked for.
    """
    path = path_of(path)
    if not path.exists():
        raise PathNotFoundError(not_there(path))
    label = label or os.path.basename(os.path.abspath(path))
    if path.is_dir():
        return _open_checkpoints(path, label)
    text = _text(path)
    # Tables have the names of parameters as columns: everything counts there.
    readers = ((_json_records, False), (_csv_records, True), (_line_records, False))
    for reader, whole in readers:
        notes: list[str] = []
        try:
            records = reader(text, notes)
            series = _series(records, label, notes, whole=whole) if records else None
        except FormatError as error:
            problem = Message("files.in_file", file=path.name, what=error)
            raise FormatError(problem) from None
        if series is not None:
            return series
    raise FormatError(
        Message("series.no_series", file=path.name, columns="/".join(_STEP_NAMES[:3]))
    )


def _text(path: Path) -> str:
    with named(path), opened(path) as (file, (size, _)):
        # A log is read whole; what is longer is a dump of something else.
        data = file.read(size) if size <= most("log") else b""
    if size > most("log"):
        said = Message("series.too_large", file=path.name, size=size)
        raise FormatError(beyond("log", said, size))
    if b"\0" in data[:4096]:
        raise FormatError(Message("series.binary", file=path.name))
    return data.decode("utf-8", errors="replace").removeprefix("\ufeff")


def _json_records(text: str, notes: list[str]) -> list[Record]:
    """Numbers of each JSON object, nested ones with dotted names.

    FormatError for JSON that is no rows: what it holds would be guessed otherwise.
    """
    if not _JSON.match(text):
        return _json_lines(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        records = _json_lines(text)
        # A whole object with more behind it is perhaps the first line of a log.
        lines = str(error).startswith("Extra data")
        if records or (lines and _line_records(text, notes)):
            return records
        what = Message("series.json_objects") if lines else Foreign(str(error)[:120])
        raise FormatError(joined([Message("series.json", problem=what), _ROWS])) from None
    return [_measured(row) for row in _json_rows(value, alone="\n" not in text.strip())]


def _json_rows(value: Any, *, alone: bool) -> Sequence[Mapping[str, Any]]:
    """The objects of one JSON document; itself, where it is a line alone and has a step."""
    rows = value
    if isinstance(value, dict):
        rows = value.get(_HISTORY)
        if rows is None and alone and any(name in _measured(value) for name in _STEP_NAMES):
            rows = [value]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FormatError(joined([Message("series.json_no_rows"), _ROWS]))
    if not any(_is_measure(name) for row in rows for name in _measured(row)):
        problem = Message("series.json_measures", count=len(rows))
        raise FormatError(Message("series.json", problem=problem))
    return rows


def _json_lines(text: str) -> list[Record]:
    """The lines that are an object, unless they are fewer than other ones that say numbers."""
    records, others = [], []
    for line in text.splitlines():
        if not line.lstrip().startswith("{"):
            others.append(line)
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        numbers = _measured(value)
        if any(_is_measure(name) for name in numbers):
            records.append(numbers)
    if records and len(_line_records("\n".join(others), [])) > len(records):
        return []
    return records


def _measured(value: Mapping[str, Any]) -> Record:
    return dict(_numbers(value))


def _numbers(value: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterable[Any]:
    for key, one in value.items():
        name = f"{prefix}{key}"
        if isinstance(one, Mapping) and depth < 4:
            yield from _numbers(one, f"{name}.", depth + 1)
        elif isinstance(one, (int, float)) and not isinstance(one, bool):
            yield _plain(name), _as_float(one)


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # a whole number beyond the range
        return math.inf if number > 0 else -math.inf


def _csv_records(text: str, notes: list[str]) -> list[Record]:
    """Rows of a table with a step column; a column of names makes every name a measure."""
    head = text.partition("\n")[0]
    mark = next((one for one in (",", "\t", ";") if one in head), None)
    if mark is None:
        return []
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=mark))
    except csv.Error:
        return []
    names = [_plain(name) for name in rows[0]]
    if any(one <= set(names) for one in _OF_TENSORS):
        raise FormatError(Message("series.of_tensors"))
    place = next((names.index(one) for one in _STEP_NAMES if one in names), None)
    if place is None:
        return []
    body = [row for row in rows[1:] if len(row) == len(names)]
    if others := sum(0 < len(row) != len(names) for row in rows[1:]):
        notes.append(Message("series.ragged", count=others))
    cells = [[_float(cell) for cell in row] for row in body]
    texts = [
        column
        for column in range(len(names))
        if column != place
        and all(row[column] is None for row in cells)
        and any(row[column].strip() for row in body)
    ]
    if len(texts) == 1 and len(names) >= 3 and _is_of_names(body, place, texts[0]):
        return _long(body, cells, names, place, texts[0])
    return [
        {n: value for n, value in zip(names, row, strict=True) if n and value is not None}
        for row in cells
        if row[place] is not None
    ]


def _is_of_names(body: list[list[str]], place: int, column: int) -> bool:
    """Whether a column of text may be one of names, and not of dates: those never come again."""
    texts, steps = ({row[at] for row in body} for at in (column, place))
    return len(texts) < len(body) or len(steps) < len(body) or len(body) == 1


def _long(
    body: list[list[str]],
    cells: list[list[float | None]],
    names: list[str],
    place: int,
    of_names: int,
) -> list[Record]:
    numbers = [column for column in range(len(names)) if column not in (place, of_names)]
    records: dict[float, Record] = {}
    for row, values in zip(body, cells, strict=True):
        step = values[place]
        if step is None or not row[of_names].strip():
            continue
        record = records.setdefault(step, {"step": step})
        for column in numbers:
            value = values[column]
            if value is not None:
                name = row[of_names] if len(numbers) == 1 else f"{row[of_names]}.{names[column]}"
                record[name] = value
    return list(records.values())


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _line_records(text: str, notes: list[str]) -> list[Record]:
    records = []
    pairs, shorter = re.compile(_PAIR).findall, re.compile(_TOO_LONG).sub
    for line in text.splitlines():
        bare = shorter("  ", line[:4096].translate(_BARE))
        found = {_plain(name): float(number) for name, number in pairs(bare)}
        if any(_is_measure(name) for name in found):
            records.append(found)
    return records


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


@lru_cache(maxsize=4096)
def _is_measure(name: str) -> bool:
    return name not in _STEP_NAMES + _EPOCH_NAMES and bool(re.search(_MEASURE, name))


def _series(
    records: list[Record], label: str, said: Sequence[str], *, whole: bool
) -> Series | None:
    """The rows by step; None where none of them holds a measure."""
    found = dict.fromkeys(name for record in records for name in record)
    names = dict.fromkeys(
        name for name in found if (whole or _is_measure(name)) and name not in _SKIPPED
    )
    records = [record for record in records if not names.keys().isdisjoint(record)]
    steps, notes = _steps(records, names)
    by_step: dict[int, Record] = {}
    again = 0
    for step, record in zip(steps, records, strict=True):
        if step is None:
            continue
        known = by_step.setdefault(step, {})
        # Rows of one step may have a measure each.
        again += any(
            name in names and name in record and not _is_same(value, record[name])
            for name, value in known.items()
        )
        known.update(record)
    if not by_step:
        return None
    if without := steps.count(None):
        notes.append(Message("series.without_step", count=without))
    if again:
        notes.append(Message("series.repeated", count=again))
    if (cells := len(by_step) * len(names)) > most("log_cells"):
        said = Message("series.too_many_cells", steps=len(by_step), names=len(names))
        raise FormatError(beyond("log_cells", said, cells))
    order = sorted(by_step)
    columns = {
        name: _variable([by_step[step].get(name, math.nan) for step in order]) for name in names
    }
    for name, variable in columns.items():
        written = [step for step in order if math.isnan(by_step[step].get(name, 0.0))]
        if written:
            variable.attrs["nan_steps"] = written
    table = xr.Dataset(columns, {"step": np.array(order, np.int64)}, {"schema": SCHEMA})
    return Series(table, label, (*said, *notes))


def _variable(values: Sequence[float]) -> xr.Variable:
    return xr.Variable(("step",), np.array(values), {"quantum": _quantum(values)})


def _quantum(values: Sequence[float]) -> float:
    """Half a unit of the last digit, from the digits that all values need; counts are exact."""
    needed = 0
    for value in values:
        if value and math.isfinite(value):
            needed = max(needed, _digits(value))
            if needed >= _ALL_DIGITS:
                return 0.0
    return 0.5 * 10.0**-needed if needed else 0.0


def _digits(value: float) -> int:
    """Decimals of the shortest text of a number."""
    mantissa, _, exponent = repr(value).partition("e")
    decimals = len(mantissa.partition(".")[2].rstrip("0"))
    return decimals - int(exponent or 0)


def _steps(records: list[Record], names: Container[str]) -> tuple[list[int | None], list[str]]:
    """The step of each record; steps that begin again in every epoch are counted on."""
    key = next((name for name in _STEP_NAMES if any(name in one for one in records)), None)
    epoch = next((name for name in _EPOCH_NAMES if any(name in one for one in records)), None)
    if key is None:
        if epoch and _is_counted(found := [one.get(epoch, math.nan) for one in records]):
            return [int(value) for value in found], [Message("series.by_epoch")]
        return list(range(len(records))), [Message("series.by_line")]
    counts = [_whole(one.get(key)) for one in records]
    if epoch is None:
        return counts, []
    epochs = [_whole(one.get(epoch)) for one in records]
    if not _begin_again(records, names, counts, epochs):
        return counts, []
    known = [count for count in counts if count is not None]
    longest = max(known) + (min(known) == 0)
    first = now = min(one for one in epochs if one is not None)
    steps: list[int | None] = []
    for count, said in zip(counts, epochs, strict=True):
        now = now if said is None else said
        steps.append(None if count is None else _whole((now - first) * longest + count))
    return steps, [Message("series.counted_on", steps=longest)]


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _whole(value: float | None) -> int | None:
    """A step or epoch; None for what is none."""
    return int(value) if value is not None and abs(value) < _MOST_STEPS else None


def _begin_again(
    records: list[Record],
    names: Container[str],
    counts: list[int | None],
    epochs: list[int | None],
) -> bool:
    """Whether some measure has a step of an epoch again in a later one.

    Each measure for itself: that of the validation, say, has rows of its own at the same steps.
    """
    ranges: dict[str, dict[int, tuple[int, int]]] = {}
    for record, count, epoch in zip(records, counts, epochs, strict=True):
        if count is not None and epoch is not None:
            for name in record:
                if name in names:
                    of = ranges.setdefault(name, {})
                    low, high = of.get(epoch, (count, count))
                    of[epoch] = min(low, count), max(high, count)
    return any(
        of[later][0] <= of[one][1] for of in ranges.values() for one, later in pairwise(sorted(of))
    )


def _is_counted(values: Sequence[float]) -> bool:
    return all(math.isfinite(one) and one == int(one) for one in values) and len(
        set(values)
    ) == len(values)


def _open_checkpoints(folder: Path, label: str) -> Dump:
    """The checkpoints of a folder whose names differ in a number, as one dump with steps."""
    places, notes = _places(folder)
    stored: list[Stored] = []
    reasons = []
    with kept_inside(folder) as outside:
        for step, path in places:
            try:
                found, more = open_any(path)
            except (FormatError, OSError) as error:
                reasons.append(why_not(path, error))
                stored.append(Stored(path.name, None, reasons[-1], step=step))
                continue
            stored += (one._replace(step=step) for one in found)
            notes += [note for note in more if note not in notes]
    if len(reasons) == len(places):
        count, problem = len(places), reasons[0]
        raise FormatError(Message("series.no_checkpoint_read", count=count, problem=problem))
    return checkpoint_dump(stored, label=label, format=NAME, notes=[*notes, *outside])


def _places(folder: Path) -> tuple[list[tuple[int, Path]], list[str]]:
    """The checkpoints by step: the largest group of names that differ in one number only."""
    files = sorted(
        (one for one in folder.iterdir() if one.is_file() and one.suffix.lower() in SUFFIXES),
        key=lambda one: natural_key(one.name),
    )
    inside = [
        (child.name, found[0])
        for child in sorted(folder.iterdir(), key=lambda one: natural_key(one.name))
        if child.is_dir()
        and not child.is_symlink()
        and len(found := [one for one in child.iterdir() if one.suffix.lower() in SUFFIXES]) == 1
    ]
    named = [(one.stem, one) for one in files] or inside
    keyed = [(key, step, path) for name, path in named for key, step in [_key(name)] if step >= 0]
    groups = Counter(key for key, _, _ in keyed)
    if not groups:
        suffixes = list(SUFFIXES)
        raise FormatError(Message("series.no_checkpoints", folder=folder.name, suffixes=suffixes))
    chosen = groups.most_common(1)[0][0]
    places = [(step, path) for key, step, path in keyed if key == chosen]
    others = [path.name for _, path in named if path not in {one for _, one in places}]
    notes: list[str] = [Message("files.unopened", names=others)] if others else []
    if "\n" in chosen:
        longest = max(step % _BASE for step, _ in places)
        places = [((step // _BASE - 1) * longest + step % _BASE, path) for step, path in places]
    return sorted(places), notes


# Epoch and step in one number until the steps of an epoch are known.
_BASE = 1 << 40


def _key(name: str) -> tuple[str, int]:
    """What a name has besides its step, and the step; -1 for none."""
    if both := _EPOCH_STEP.fullmatch(name):
        return f"{both[1]}\n", int(both[2]) * _BASE + int(both[3])
    numbers = list(_STEP_IN_NAME.finditer(name))
    if not numbers:
        return name, -1
    last = numbers[-1]
    return f"{name[: last.start()]}*{name[last.end() :]}", int(last[0])
