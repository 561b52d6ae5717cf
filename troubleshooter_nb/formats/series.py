"""Series over training steps: logs of losses and norms, folders of successive checkpoints."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.checkpoint import Stored, checkpoint_dump, listed
from troubleshooter_nb.formats.checkpoint_file import SUFFIXES, open_any, why_not
from troubleshooter_nb.naming import natural_key

NAME = "series"
SCHEMA = "troubleshooter_nb.series/1"

# A log is read whole; what is longer is a dump of something else.
_MOST_BYTES = 64 << 20
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)\b"
# "loss: 2.3", "loss=2.3", "loss 2.3", "loss is 2.3", "Step [20/100]", "iteration 10/ 100".
_PAIR = re.compile(
    r"(?i)([a-z_][\w./-]*(?: (?:loss|norm|rate|scale))?)"
    r"(?:\s*[:=]\s*|\s+is\s+|\s+)[\[(]?\s*"
    rf"({_NUMBER})(?![\w.])"
)
_STEP_NAMES = (
    *("global_step", "iteration", "iter", "train_step", "step", "it", "cur_step", "_step"),
    *("batch", "current_steps"),
)
_EPOCH_NAMES = ("epoch", "cur_epoch")
_MEASURE = re.compile(
    r"(?i)loss|norm|(?:^|_)lr$|learning_rate|scale|acc|perplexity|ppl|l2|mean|max"
)
_STEP_IN_NAME = re.compile(r"[0-9]{1,18}")
# MindSpore's ModelCheckpoint: net-3_20.ckpt is epoch 3, step 20 of it.
_EPOCH_STEP = re.compile(r"(.*)-([0-9]{1,9})_([0-9]{1,9})")

Record = dict[str, float]


@dataclass(frozen=True)
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


def open_series(path: str | PathLike[str], *, label: str | None = None) -> Series | Dump:
    """Open what a run left over its steps.

    Parameters
    ----------
    path : str or path-like
        A log with lines such as ``step 10 loss 2.31``, ``iteration 10/ 100 | lm loss: 2.3E+00`` or
        ``epoch: 1 step: 20, loss is 2.30`` (MindSpore's LossMonitor); json lines; a csv with a
        step column, one column per measure or one of names and one of numbers. Or a folder of
        checkpoints whose names differ in a number: ``step_10.pth``, ``net-1_20.ckpt``.
    label : str, optional
        Short name of the run; default the last part of the path.

    Returns
    -------
    Series or Dump
        Of a folder, one Dump with the entries of every checkpoint and their steps.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    FormatError
        If it holds no series; the message says what was looked for.
    """
    path = Path(path)
    if not path.exists():
        msg = f"no such file or folder: {path}"
        raise FileNotFoundError(msg)
    label = label or os.path.basename(os.path.abspath(path))
    if path.is_dir():
        return _open_checkpoints(path, label)
    text = _text(path)
    # Tables have the names of parameters as columns: everything counts there.
    readers = ((_json_records, False), (_csv_records, True), (_line_records, False))
    for reader, whole in readers:
        records = reader(text)
        if records:
            return _series(records, label, whole=whole)
    msg = (
        f"{path.name}: no series; looked for json lines, for a csv with a column "
        f"{'/'.join(_STEP_NAMES[:3])}, and for lines such as 'step 10 loss 2.31'"
    )
    raise FormatError(msg)


def _text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        msg = f"{path.name}: {path.stat().st_size:,} bytes are too many for a log"
        raise FormatError(msg)
    data = path.read_bytes()
    if b"\0" in data[:4096]:
        msg = f"{path.name}: a binary file, no log"
        raise FormatError(msg)
    return data.decode("utf-8", errors="replace")


def _json_records(text: str) -> list[Record]:
    """Numbers of each line that is a JSON object, nested ones with dotted names."""
    records = []
    for line in text.splitlines():
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        numbers = dict(_numbers(value))
        if any(_is_measure(name) for name in numbers):
            records.append(numbers)
    return records


def _numbers(value: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterable[Any]:
    for key, one in value.items():
        name = f"{prefix}{key}"
        if isinstance(one, Mapping) and depth < 4:
            yield from _numbers(one, f"{name}.", depth + 1)
        elif isinstance(one, (int, float)) and not isinstance(one, bool):
            yield _plain(name), float(one)


def _csv_records(text: str) -> list[Record]:
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
    place = next((names.index(one) for one in _STEP_NAMES if one in names), None)
    if place is None:
        return []
    body = [row for row in rows[1:] if len(row) == len(names)]
    cells = [[_float(cell) for cell in row] for row in body]
    texts = [
        column
        for column in range(len(names))
        if column != place and all(row[column] is None for row in cells)
    ]
    if body and len(texts) == 1 and len(names) >= 3:
        return _long(body, cells, names, place, texts[0])
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in cells
        if row[place] is not None
    ]


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
        if step is None:
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


def _line_records(text: str) -> list[Record]:
    records = []
    for line in text.splitlines():
        # Dictionaries printed by Python have their names in quotes.
        bare = re.sub(r"['\"{},|]", " ", line[:4096])
        found = {_plain(name): float(number) for name, number in _PAIR.findall(bare)}
        if any(_is_measure(name) for name in found):
            records.append(found)
    return records


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _is_measure(name: str) -> bool:
    return name not in _STEP_NAMES + _EPOCH_NAMES and bool(_MEASURE.search(name))


def _series(records: list[Record], label: str, *, whole: bool) -> Series:
    steps, notes = _steps(records)
    by_step: dict[int, Record] = {}
    for step, record in zip(steps, records, strict=True):
        by_step.setdefault(step, {}).update(record)
    again = len(records) - len(by_step)
    if again:
        notes.append(f"{again} lines repeat a step; the last value of each measure is kept")
    skipped = {*_STEP_NAMES, *_EPOCH_NAMES}
    names = [
        one for one in dict.fromkeys(name for r in records for name in r) if one not in skipped
    ]
    if not whole:
        names = [name for name in names if _is_measure(name)]
    order = sorted(by_step)
    columns = {
        name: _variable([by_step[step].get(name, math.nan) for step in order]) for name in names
    }
    for name, variable in columns.items():
        written = [step for step in order if math.isnan(by_step[step].get(name, 0.0))]
        if written:
            variable.attrs["nan_steps"] = written
    table = xr.Dataset(columns, {"step": np.array(order, np.int64)}, {"schema": SCHEMA})
    return Series(table, label, tuple(notes))


def _variable(values: Sequence[float]) -> xr.Variable:
    return xr.Variable(("step",), np.array(values), {"quantum": _quantum(values)})


def _quantum(values: Sequence[float]) -> float:
    """Half a unit of the last digit, from the digits that all values need; counts are exact."""
    finite = [value for value in values if math.isfinite(value) and value != 0]
    digits = max((_digits(value) for value in finite), default=17)
    return 0.5 * 10.0**-digits if 0 < digits < 12 else 0.0


def _digits(value: float) -> int:
    """Decimals of the shortest text of a number."""
    mantissa, _, exponent = repr(value).partition("e")
    decimals = len(mantissa.partition(".")[2].rstrip("0"))
    return decimals - int(exponent or 0)


def _steps(records: list[Record]) -> tuple[list[int], list[str]]:
    """The step of each record; steps that begin again in every epoch are counted on."""
    key = next((name for name in _STEP_NAMES if any(name in one for one in records)), None)
    epoch = next((name for name in _EPOCH_NAMES if any(name in one for one in records)), None)
    if key is None:
        if epoch and _is_counted(found := [one.get(epoch, math.nan) for one in records]):
            return [int(value) for value in found], ["no steps: epochs are used"]
        return list(range(len(records))), ["no steps: lines are numbered from 0"]
    counts = [int(one[key]) if math.isfinite(one.get(key, math.nan)) else -1 for one in records]
    if epoch is None or not any(later <= one for one, later in pairwise(counts)):
        return counts, []
    epochs = [int(one.get(epoch, 0)) for one in records]
    if len(set(epochs)) == 1:
        return counts, []
    longest, first = max(counts) + (min(counts) == 0), min(epochs)
    return (
        [(now - first) * longest + count for now, count in zip(epochs, counts, strict=True)],
        [f"steps begin again in every epoch: counted on by {longest}"],
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
    for step, path in places:
        try:
            found, more = open_any(path)
        except (FormatError, OSError) as error:
            reasons.append(why_not(path, error))
            stored.append(Stored(path.name, None, reasons[-1], step=step))
            continue
        stored += (replace(one, step=step) for one in found)
        notes += [note for note in more if note not in notes]
    if len(reasons) == len(places):
        msg = f"none of {len(places)} checkpoints can be read; {reasons[0]}"
        raise FormatError(msg)
    return checkpoint_dump(stored, label=label, format=NAME, notes=notes)


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
        msg = f"{folder.name!r}: no checkpoints whose names hold a step ({', '.join(SUFFIXES)})"
        raise FormatError(msg)
    chosen = groups.most_common(1)[0][0]
    places = [(step, path) for key, step, path in keyed if key == chosen]
    others = [path.name for _, path in named if path not in {one for _, one in places}]
    notes = [f"left aside: {listed(others)}"] if others else []
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
