"""Folders of MindSpore's kernel dump, which msprobe calls level L2."""

from __future__ import annotations

import csv
import io
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from troubleshooter_nb.dump import Dump, Entry
from troubleshooter_nb.errors import FormatError
from troubleshooter_nb.formats.file_source import head_of
from troubleshooter_nb.formats.npy_file import open_npy
from troubleshooter_nb.messages import Message, message_of
from troubleshooter_nb.naming.characters import printable
from troubleshooter_nb.naming.kernel import KernelName, parse_kernel_name, site_of_kernel

NAME = "kernel_dir"

_STATISTICS_FILE, _MAPPING_FILE = "statistic.csv", "mapping.csv"
_LARGEST_TABLE = 256 * 1024**2  # bytes
_RANK = re.compile(r"(?i)rank[_-]?([0-9]{1,9})")
_STEP = re.compile(r"(?i)(?:step[_-]?)?([0-9]{1,18})")
_MOST_NOTES = 9
_HOW_MANY = 200  # files looked at before a folder is refused
# Columns of the statistics that have a column of ours.
_FIGURES = {
    "Max Value": "max",
    "Min Value": "min",
    "Avg Value": "mean",
    "L2Norm Value": "l2",
    "NaN Count": "nan_count",
    "Zero Count": "zero_count",
}
_INFINITIES = ("Negative Inf Count", "Positive Inf Count")
_DTYPES = re.compile(r"(?i)(?:bool|(?:u?int|b?float|complex)[0-9]+)")


@dataclass(frozen=True)
class KernelPlace:
    """A folder of files, and what its folders say."""

    folder: Path
    rank: int = 0
    step: int = 0
    graph: str = ""  # network and graph, or the time of the run
    run: str = ""  # folder that holds the folders of ranks


@dataclass(frozen=True)
class KernelTensor:
    """One tensor: its name, where it is from, and its file or the row of its statistics."""

    parts: KernelName
    place: KernelPlace
    file: Path | None = None
    row: Mapping[str, str] | None = None


def refusal(path: Path) -> str | None:
    """None when this reader takes the path, else why not."""
    if not path.is_dir():
        return Message("dumps.not_a_folder")
    seen = known = 0
    for folder, names in _folders(path, []):
        for name in names:
            if name == _STATISTICS_FILE and _is_statistics(folder / name):
                return None
            if name.endswith(".npy"):
                known += parse_kernel_name(name) is not None
                seen += 1
        if _MAPPING_FILE in names and any(map(parse_kernel_name, _mapping(folder, []).values())):
            return None
        if seen > _HOW_MANY:
            break
    if known and 2 * known >= seen:
        return None
    return Message("dumps.kernel_none")


def open_kernel_dir(path: Path, *, label: str) -> Dump:
    """Open the kernel dump of one run.

    Parameters
    ----------
    path : Path
        The dump folder ``.../rank_<r>/<net>/<graph>/<step>``, or one above or below. Links to
        folders are not followed.
    label : str

    Returns
    -------
    Dump
        One entry per tensor, named ``MatMul.Default_MatMul-op0.output.0``: without task, stream
        and time, which differ from run to run. A tensor written again in one step is the next
        visit and has ``#1`` behind its name; where several graphs are in the folder, their names
        stand in front. Sorted by time. Numbers that stand for long names are looked up in
        ``mapping.csv``; rows of ``statistic.csv`` give statistics, and entries without values
        where there is no array. A file that is no ``.npy`` is an entry with a reason.

    Raises
    ------
    FormatError
        If nothing of this kind is in the folder.
    """
    notes: list[str] = []
    found = kernel_tensors(path, notes)
    if not found:
        problem = refusal(path) or Message("dumps.kernel_empty")
        raise FormatError(Message("files.in_file", file=path.name, what=problem))
    runs = sorted({os.path.relpath(one.place.run, path) for one in found if one.place.run})
    if len(runs) > 1:
        problem = Message("dumps.kernel_several", first=runs[0], second=runs[1])
        raise FormatError(Message("files.in_file", file=path.name, what=problem))
    entries = _entries(found)
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [Message("dumps.more_notes", count=len(notes) - _MOST_NOTES)]
    return Dump.from_entries(entries, label=label, format=NAME, notes=notes)


def kernel_tensors(path: Path, notes: list[str]) -> list[KernelTensor]:
    """All tensors in a folder and below it, as they are found.

    Parameters
    ----------
    path : Path
    notes : list of str
        Gets what could not be read.
    """
    found: list[KernelTensor] = []
    for folder, names in _folders(path, notes):
        found += _found_in(_place(folder, path), names, notes)
    return found


def _folders(path: Path, notes: list[str]) -> Iterator[tuple[Path, list[str]]]:
    """The folders at and below a path, sorted, with the files in each."""

    def failed(error: OSError) -> None:
        name = os.path.basename(str(error.filename))
        notes.append(Message("dumps.not_searched", folder=name, problem=error))

    for folder, inner, names in os.walk(path, onerror=failed):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield Path(folder), sorted(name for name in names if not name.startswith("."))


def _place(folder: Path, root: Path) -> KernelPlace:
    # Also the folders above the one that was opened may say the rank.
    parts = Path(os.path.abspath(folder)).parts
    shown = len(Path(os.path.abspath(root)).parts) - 1
    ranks = [i for i, part in enumerate(parts) if _RANK.fullmatch(part)]
    start = ranks[-1] + 1 if ranks else shown + 1
    rank = _RANK.fullmatch(parts[ranks[-1]]) if ranks else None
    inner = parts[start:]
    step = _STEP.fullmatch(inner[-1]) if inner else None
    return KernelPlace(
        folder,
        int(rank[1]) if rank else 0,
        int(step[1]) if step else 0,
        "/".join(inner[:-1] if step else inner),
        os.path.join(*parts[: ranks[-1]]) if ranks else "",
    )


def _found_in(place: KernelPlace, names: Sequence[str], notes: list[str]) -> list[KernelTensor]:
    mapping = _mapping(place.folder, notes) if _MAPPING_FILE in names else {}
    found, unknown = [], []
    for name in names:
        parts = parse_kernel_name(mapping.get(name, mapping.get(name.removesuffix(".npy"), name)))
        if parts is not None:
            found.append(KernelTensor(parts, place, place.folder / name))
        elif name.endswith(".npy"):
            unknown.append(name)
    if unknown:
        count, example = len(unknown), printable(unknown[0])
        notes.append(Message("dumps.kernel_others", count=count, example=example))
    if _STATISTICS_FILE not in names:
        return found
    return _with_rows(found, _rows(place, notes))


def _with_rows(found: Sequence[KernelTensor], rows: Sequence[KernelTensor]) -> list[KernelTensor]:
    """Files with the row of the same tensor, and the rows that no file belongs to."""

    def key(one: KernelTensor) -> tuple[str, int]:
        return one.parts.stable, one.parts.time

    by_name = {key(row): row for row in rows}
    merged = [
        replace(one, row=by_name.pop(key(one)).row) if key(one) in by_name else one for one in found
    ]
    kept = {id(row) for row in by_name.values()}
    # Two rows of one name and time are two tensors; `by_name` has the last.
    taken = {key(one) for one in found}
    return merged + [row for row in rows if id(row) in kept or key(row) not in taken]


def _mapping(folder: Path, notes: list[str]) -> dict[str, str]:
    """File name -> the long name it stands for; the two columns may stand in either order."""
    table: dict[str, str] = {}
    for row in _table(folder / _MAPPING_FILE, notes):
        cells = [cell.strip() for cell in row]
        for short, long in (cells[:2], cells[1::-1]) if len(cells) >= 2 else ():
            if parse_kernel_name(long) is not None and parse_kernel_name(short) is None:
                table[short.removesuffix(".npy")] = long
    return table


def _rows(place: KernelPlace, notes: list[str]) -> list[KernelTensor]:
    """The rows of the statistics of one folder."""
    table = _table(place.folder / _STATISTICS_FILE, notes)
    header = next(table, [])
    found: list[KernelTensor] = []
    bad: list[int] = []
    for number, cells in enumerate(table, start=2):
        row = dict(zip(header, cells, strict=False))
        parts = _parts_of_row(row) if len(cells) == len(header) else None
        if parts is not None:
            found.append(KernelTensor(parts, place, None, row))
        elif cells:
            bad.append(number)
    if bad:
        where = {"file": _STATISTICS_FILE, "step": place.step}
        notes.append(Message("dumps.kernel_rows", **where, count=len(bad), row=bad[0]))
    return found


def _parts_of_row(row: Mapping[str, str]) -> KernelName | None:
    numbers = [row.get(n, "0") or "0" for n in ("Task ID", "Stream ID", "Timestamp", "Slot")]
    io_name = row.get("IO", "")
    if not row.get("Op Name") or io_name not in ("input", "output"):
        return None
    if not all(re.fullmatch(r"[0-9]{1,18}", number) for number in numbers):
        return None
    task, stream, time, slot = map(int, numbers)
    # Long operators come with their scope, joined by slashes, in some releases.
    op = row["Op Name"].replace("/", "_")
    return KernelName(row.get("Op Type", ""), op, io_name, slot, task, stream, time)


def _is_statistics(file: Path) -> bool:
    return head_of(file, 64).lstrip(b"\xef\xbb\xbf").startswith(b"Op Type,Op Name,")


def _table(file: Path, notes: list[str]) -> Iterator[list[str]]:
    """Rows of a csv; what is wrong with it is a note and the end."""
    data = head_of(file, _LARGEST_TABLE + 1)
    if len(data) > _LARGEST_TABLE:
        size = _LARGEST_TABLE // 1024**2
        notes.append(Message("dumps.kernel_table_too_large", file=file.name, size=size))
        return
    if not data:
        notes.append(Message("dumps.kernel_table_empty", file=file.name))
        return
    text = data.decode("utf-8-sig", errors="backslashreplace").replace("\0", "\\0")
    rows = csv.reader(io.StringIO(text))
    try:
        yield from rows
    except csv.Error as error:
        where = {"file": file.name, "row": rows.line_num}
        notes.append(Message("dumps.kernel_table_row", **where, problem=error))


def _entries(found: Sequence[KernelTensor]) -> list[Entry]:
    graphs = {one.place.graph for one in found}
    ordered = sorted(
        found,
        key=lambda one: (
            *(one.place.step, one.place.rank, one.parts.time),
            *(one.place.graph, one.parts.stable),
        ),
    )
    visits: Counter[tuple[int, int, str]] = Counter()
    positions: Counter[tuple[int, int]] = Counter()
    entries = []
    for one in ordered:
        place = one.place.step, one.place.rank
        prefix = f"{one.place.graph}/" if len(graphs) > 1 and one.place.graph else ""
        name = printable(prefix + one.parts.stable)
        visit = visits[(*place, name)]
        visits[(*place, name)] += 1
        entry = Entry(
            f"{name}#{visit}" if visit else name,
            site_of_kernel(replace(one.parts, op=printable(one.parts.op)), visit),
            step=place[0],
            rank=place[1],
            order=positions[place],
            layer=printable(one.parts.type),
        )
        positions[place] += 1
        entries.append(_with_values(_with_figures(entry, one), one))
    return entries


def _with_figures(entry: Entry, one: KernelTensor) -> Entry:
    row = one.row
    if row is None:
        return entry
    figures = {ours: _number(row[theirs]) for theirs, ours in _FIGURES.items() if theirs in row}
    infinities = [_number(row[name]) for name in _INFINITIES if name in row]
    if len(infinities) == len(_INFINITIES):
        figures["inf_count"] = sum(infinities)
    finite = {name: value for name, value in figures.items() if math.isfinite(value)}
    dtype = row.get("Data Type", "").lower()
    digest = row.get("MD5", "").strip()
    return entry._replace(
        statistics=finite,
        dtype=dtype if _DTYPES.fullmatch(dtype) else "",
        shape=_shape(row.get("Shape", "")),
        digest=f"md5:{printable(digest)}" if digest else "",
    )


def _with_values(entry: Entry, one: KernelTensor) -> Entry:
    if one.file is None:
        if entry.shape is None and not entry.statistics:
            reason = Message("dumps.kernel_no_statistics", file=_STATISTICS_FILE)
            return entry._replace(reason=reason)
        return entry
    if one.file.suffix != ".npy":
        dtype = printable(one.parts.dtype or "") or Message("dumps.kernel_unknown_dtype")
        layout = printable(str(one.parts.layout))
        return entry._replace(reason=Message("dumps.kernel_raw", dtype=dtype, layout=layout))
    try:
        return entry._replace(source=open_npy(one.file, _token(one.parts.dtype)))
    except (FormatError, OSError) as error:
        return entry._replace(reason=message_of(error))


def _token(dtype: str) -> str:
    """What the name calls the dtype, as numpy does: ``BF16`` and ``BFloat16`` are bfloat16."""
    token = dtype.lower()
    return "bfloat16" if token == "bf16" else token


def _shape(text: str) -> tuple[int, ...] | None:
    """``(4, 6)``, ``(6,)``, ``()`` or ``[4 6]``."""
    if not re.fullmatch(r"[(\[][0-9, ]{0,400}[)\]]", text.strip()):
        return None
    lengths = re.findall(r"[0-9]+", text)
    if len(lengths) > 32 or any(len(length) > 18 for length in lengths):
        return None
    return tuple(map(int, lengths))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
