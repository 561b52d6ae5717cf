"""Tables of several ranks as one file: a sheet for each column that is asked for."""

from __future__ import annotations

import csv
import re
import zipfile
from pathlib import Path
from typing import Any

from troubleshooter_nb.compat.msprobe.compare.files import Names, check_xlsx, sheet_cell
from troubleshooter_nb.compat.msprobe.compare.tables import NAMES
from troubleshooter_nb.errors import FormatError, PathNotFoundError
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.formats.missing_path import not_there
from troubleshooter_nb.formats.yaml_text import loaded_once
from troubleshooter_nb.messages import Foreign, Message

_TABLE = re.compile(r"compare_result_rank(?P<rank>[0-9]{1,9})(?:-rank[0-9]+)?_[0-9]+\.(?:csv|xlsx)")
_LONGEST_TITLE = 31


def merge_ranks(tables: Path, output: Path, config: Path) -> Path:
    """One ``multi_ranks_compare_merge_*.xlsx`` of the tables of all ranks in a folder.

    Parameters
    ----------
    tables : Path
        Folder of ``compare_result_rank<k>_*``; of one rank the latest counts.
    output : Path
        Folder, which is made.
    config : Path
        Yaml with ``api``, the beginnings of names of rows, and ``compare_index``, headings.

    Returns
    -------
    Path
        A sheet per heading, with ``NPU Name`` and a column per rank, by name.

    Raises
    ------
    FileNotFoundError, FormatError, ExtraMissingError
        If something is missing, or no table has a heading.
    """
    check_xlsx()
    apis, headings = _config(config)
    by_rank = {rank: _rows(file) for rank, file in _files(tables).items()}
    sheets = {heading: _sheet(by_rank, apis, heading) for heading in headings}
    if not any(len(rows) > 1 for rows in sheets.values()):
        raise FormatError(Message("msprobe_compare.no_api", names=list(apis)))
    with Names(output) as names:
        path = names.path("multi_ranks_compare_merge", ".xlsx")
        _write(path, sheets)
    return path


def _config(path: Path) -> tuple[tuple[str, ...], list[str]]:
    if not path.is_file():
        raise PathNotFoundError(Message("msprobe_compare.no_merge_config", why=not_there(path)))
    try:
        content = loaded_once(path.read_bytes())
    except FormatError as error:
        raise FormatError(Message("files.in_file", file=path.name, what=error)) from None
    lists = []
    for key in ("api", "compare_index"):
        given = content.get(key) if isinstance(content, dict) else None
        if not isinstance(given, list) or not given or not all(isinstance(x, str) for x in given):
            raise FormatError(Message("msprobe_compare.merge_config", file=path.name, key=key))
        lists.append(given)
    return tuple(lists[0]), list(dict.fromkeys(lists[1]))


def _files(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        raise PathNotFoundError(Message("msprobe_compare.no_tables", folder=str(folder)))
    found = {}
    for file in sorted(folder.iterdir()):
        if match := _TABLE.fullmatch(file.name):
            found[int(match["rank"])] = file
    if not found:
        raise FormatError(Message("msprobe_compare.no_tables", folder=str(folder)))
    return dict(sorted(found.items()))


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        rows = _of_csv(file) if file.suffix == ".csv" else _of_xlsx(file)
    except (ValueError, KeyError, csv.Error, zipfile.BadZipFile) as error:
        problem = Foreign(str(error)[:200])
        raise FormatError(
            Message("msprobe_compare.no_table", file=file.name, why=problem)
        ) from None
    if rows and NAMES[0] not in rows[0]:
        why = Message("msprobe_compare.without_names", heading=NAMES[0])
        raise FormatError(Message("msprobe_compare.no_table", file=file.name, why=why))
    return rows


def _of_csv(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return [dict(row) for row in csv.DictReader(stream)]


def _of_xlsx(file: Path) -> list[dict[str, Any]]:
    from openpyxl import load_workbook

    book = load_workbook(file, read_only=True)
    rows = book.worksheets[0].iter_rows(values_only=True)
    headings = [str(cell) for cell in next(rows, ())]
    found = [dict(zip(headings, row, strict=False)) for row in rows]
    book.close()
    return found


def _sheet(
    by_rank: dict[int, list[dict[str, Any]]], apis: tuple[str, ...], heading: str
) -> list[list[Any]]:
    if not any(rows and heading in rows[0] for rows in by_rank.values()):
        known = sorted({name for rows in by_rank.values() for name in (rows[0] if rows else ())})
        raise FormatError(Message("msprobe_compare.no_heading", name=repr(heading), known=known))
    cells: dict[str, dict[int, Any]] = {}
    for rank, rows in by_rank.items():
        for row in rows:
            name = str(row.get(NAMES[0]))
            if any(name == api or name.startswith(f"{api}.") for api in apis):
                cells.setdefault(name, {})[rank] = row.get(heading)
    head = [NAMES[0], *(f"rank{rank}" for rank in by_rank)]
    return [head, *([name, *map(cells[name].get, by_rank)] for name in sorted(cells))]


def _write(path: Path, sheets: dict[str, list[list[Any]]]) -> None:
    from openpyxl import Workbook
    from openpyxl.styles import Font

    book = Workbook(write_only=True)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title[:_LONGEST_TITLE])
        sheet.freeze_panes = "A2"
        head, *others = [[sheet_cell(sheet, _number(value)) for value in row] for row in rows]
        for cell in head:
            cell.font = Font(bold=True)
        for cells in (head, *others):
            sheet.append(cells)
    with written_whole(path) as stream:
        book.save(stream)


def _number(value: Any) -> Any:
    """Cells of a csv are all texts; those that are numbers stand in a sheet as such."""
    if not isinstance(value, str):
        return value
    try:
        return float(value) if re.fullmatch(r"-?[0-9.]+(?:e[-+]?[0-9]+)?", value) else value
    except ValueError:
        return value
