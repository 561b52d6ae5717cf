"""Tables as files: ``.xlsx`` with colours, ``.csv``, and names with the time in them."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from troubleshooter_nb.compat.msprobe.compare.tables import Table
from troubleshooter_nb.errors import WriteError, check_extra
from troubleshooter_nb.formats.aside import written_whole
from troubleshooter_nb.messages import Message, told
from troubleshooter_nb.naming.characters import for_sheet, without_formula

_COLORS = {"red": "FFFF0000", "yellow": "FFFFFF00"}
_FORMAT = "%Y%m%d%H%M%S"


def check_xlsx() -> None:
    """Refuse to begin where no ``.xlsx`` can be written.

    Raises
    ------
    ExtraMissingError
        If openpyxl is not installed.
    """
    check_extra("openpyxl", Message("pages.no_openpyxl"))


class Names:
    """Names of the files of one run: all have its time, which no other run in the folder has.

    To be used in a ``with``: a file in the folder keeps the time as long as the run takes.
    """

    def __init__(self, folder: Path) -> None:
        """Of a folder, which is made on entering."""
        self.folder = folder
        self.time = ""
        self._is_ours = False

    def __enter__(self) -> Names:
        """Take the time; a second more as long as another run has it, or had it."""
        if self.folder.exists() and not self.folder.is_dir():
            raise WriteError(Message("msprobe_compare.no_folder", folder=str(self.folder)))
        self._is_ours = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        while True:
            self.time = time.strftime(_FORMAT, time.localtime(now))
            try:
                self._held.touch(exist_ok=False)
            except FileExistsError:
                now += 1
                continue
            if not any(self.time in name for name in os.listdir(self.folder) if name[0] != "."):
                return self
            self._held.unlink()
            now += 1

    def __exit__(self, *exc_info: object) -> None:
        """Give the time free; a folder that was made for nothing goes."""
        self._held.unlink(missing_ok=True)
        if self._is_ours and not any(self.folder.iterdir()):
            self.folder.rmdir()

    @property
    def _held(self) -> Path:
        return self.folder / f".{self.time}.running"

    def path(self, stem: str, suffix: str) -> Path:
        """``{stem}_{time}{suffix}`` in the folder."""
        return self.folder / f"{stem}_{self.time}{suffix}"


def write_table(path: Path, table: Table) -> None:
    """Write a table; the suffix says how. It appears whole or not at all.

    What only the golden dump has is a sheet of its own in an ``.xlsx``, and stands at the end of a
    ``.csv``.
    """
    with written_whole(path) as stream:
        (_xlsx if path.suffix == ".xlsx" else _csv)(stream, table)


def _csv(stream: BinaryIO, table: Table) -> None:
    text = io.TextIOWrapper(stream, "utf-8", newline="", errors="backslashreplace")
    writer = csv.writer(text)
    writer.writerow(table.headings)
    for row in [*table.rows, *table.golden_only]:
        writer.writerow([_plain(row[name]) for name in table.headings])
    text.detach()  # flushes, and leaves the stream open


def _plain(cell: Any) -> Any:
    return without_formula(cell) if isinstance(cell, str) else cell


def _xlsx(stream: BinaryIO, table: Table) -> None:
    from openpyxl import Workbook
    from openpyxl.styles import PatternFill
    from openpyxl.utils import get_column_letter

    book = Workbook(write_only=True)
    fills = {name: PatternFill("solid", fgColor=color) for name, color in _COLORS.items()}

    def sheet(title: str, rows: Iterable[dict[str, Any]], colors: Iterable[str]) -> None:
        one = book.create_sheet(title)
        one.freeze_panes = "A2"
        one.append(table.headings)
        count = 1
        for row, color in zip(rows, colors, strict=True):
            cells = [sheet_cell(one, row[name]) for name in table.headings]
            for cell in cells if color else ():
                cell.fill = fills[color]
            one.append(cells)
            count += 1
        one.auto_filter.ref = f"A1:{get_column_letter(len(table.headings))}{count}"

    sheet("Sheet", table.rows, table.colors)
    if table.golden_only:
        title = told(Message("msprobe_compare.golden_only_sheet"))
        sheet(title, table.golden_only, [""] * len(table.golden_only))
    book.save(stream)


def sheet_cell(sheet: Any, value: Any) -> Any:
    """A cell of a sheet that is only written; no text is a formula."""
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return WriteOnlyCell(sheet, value)
    cell = WriteOnlyCell(sheet, for_sheet(value))
    cell.data_type = "s"
    return cell
