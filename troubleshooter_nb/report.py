"""Write any of our objects to one file: a page to send, or a table to work with."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import xarray as xr

from troubleshooter_nb.analysis.series import SeriesComparison
from troubleshooter_nb.capture.overflow_found import Overflow
from troubleshooter_nb.checkpoint_diff import CheckpointDiff
from troubleshooter_nb.columns.checkpoints import DIFF_COLUMNS
from troubleshooter_nb.columns.column import Column, shown_columns
from troubleshooter_nb.columns.elements import ELEMENT_COLUMNS
from troubleshooter_nb.columns.entries import DUMP_COLUMNS
from troubleshooter_nb.columns.facts import FACT_COLUMNS
from troubleshooter_nb.columns.overflows import OVERFLOW_COLUMNS
from troubleshooter_nb.columns.pairings import PAIRING_COLUMNS
from troubleshooter_nb.columns.pairs import RESULT_COLUMNS
from troubleshooter_nb.columns.series import SERIES_COLUMNS
from troubleshooter_nb.columns.verifications import VERIFICATION_COLUMNS
from troubleshooter_nb.columns.weight_maps import WEIGHT_MAP_COLUMNS
from troubleshooter_nb.comparison import Comparison, Explanation, TensorDiff
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import (
    ArgumentError,
    ArgumentTypeError,
    WriteError,
    check_extra,
    path_of,
)
from troubleshooter_nb.formats.aside import written_aside
from troubleshooter_nb.formats.netcdf_sums import add_sums
from troubleshooter_nb.formats.series import Series
from troubleshooter_nb.messages import Message, told, visible
from troubleshooter_nb.metrics.pairwise import HISTOGRAM
from troubleshooter_nb.naming.characters import (
    for_sheet,
    in_json,
    in_markdown,
    printable,
    without_formula,
)
from troubleshooter_nb.options import get_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.cells import FORMATS, cell_text
from troubleshooter_nb.render.explanation import cause_proof, cause_repair, cause_title
from troubleshooter_nb.render.html import page
from troubleshooter_nb.render.lines import whole_texts
from troubleshooter_nb.render.rows import Entries
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.table import Table, table_of
from troubleshooter_nb.verification import Verification
from troubleshooter_nb.weight_map import WeightMap

_Tabular = (
    Dump
    | Pairing
    | WeightMap
    | Comparison
    | CheckpointDiff
    | TensorDiff
    | RunCard
    | SeriesComparison
    | Series
    | Overflow
    | Verification
)
Reportable = _Tabular | Explanation


def export(obj: Reportable, path: str | PathLike[str]) -> Path:
    """Write an object in the format of the file's suffix.

    Parameters
    ----------
    obj : Dump, Pairing, WeightMap, Comparison, CheckpointDiff, TensorDiff, RunCard, ...
        Also a SeriesComparison, a Series, an Overflow, a Verification, or an Explanation.
    path : str or path-like
        - ``.html``: one self-contained page.
        - ``.txt``: the text repr with all its rows and columns, then what `explain` says.
        - ``.md``: for an issue, the columns that a person reads, under their titles; of a
          Comparison or CheckpointDiff what `explain` says and the ten rows that matter most.
        - ``.csv``, ``.json``, ``.xlsx``: the table of `to_dataframe`, with all columns by their
          names (``.xlsx`` needs the extra ``excel``; the same object gives the same bytes).
        - ``.nc``: of a Comparison its table with all that was found (extra ``netcdf``).

        Of a Comparison ``.json`` is an object with ``verdict, passed``, what `Comparison.to_dict`
        has, ``histogram``, ``infinite`` (where columns are infinite) and ``pairs``, and ``.xlsx``
        has the sheets ``pairs``, ``findings`` and ``checks``; `open_comparison` opens ``.json`` and
        ``.nc``. Of a CheckpointDiff the same, with ``tensors`` for the pairs and
        ``same_structure, relative_change, learning_rate, renames`` besides; without values only
        what is known without. An Explanation is text and has no table: ``.html``, ``.txt`` and
        ``.md``; a Series has no page. Text that a spreadsheet would run as a formula is written
        with an apostrophe in front.

    Returns
    -------
    Path
        The file. The folder is created where missing.

    Raises
    ------
    ValueError
        For another suffix, or one that the object has no form for; the message lists those it has.
    TypeError
        If `obj` is none of these.
    ExtraMissingError
        If an optional package is needed and missing.
    """
    path = check_export(type(obj), path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path, path.suffix) as aside:
        _WRITERS[path.suffix.lower()](obj, aside)
    return path


def check_export(kind: type, path: str | PathLike[str]) -> Path:
    """Refuse what `export` refuses of objects of a class, before there is one.

    Raises
    ------
    ValueError, TypeError, ExtraMissingError
        As `export`.
    """
    suffixes = _suffixes_of(kind)
    path = path_of(path)
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        what = repr(path.suffix) if path.suffix else Message("pages.no_suffix")
        if suffix not in _WRITERS:
            raise ArgumentError(Message("pages.no_export", what=what, known=suffixes))
        # Of a suffix that others have, the object is the reason.
        of = {"what": what, "known": suffixes, "kind": _article(kind)}
        raise ArgumentError(Message("pages.no_export_of", **of))
    if suffix == ".xlsx":
        check_extra("openpyxl", Message("pages.no_openpyxl"))
    if suffix == ".nc":
        check_extra("netCDF4", Message("comparisons.no_netcdf"))
    return path


def _suffixes_of(kind: type) -> list[str]:
    """The formats that objects of a class have a form for."""
    if issubclass(kind, Explanation):
        return [".html", ".txt", ".md"]
    if issubclass(kind, Series):
        return [suffix for suffix in _WRITERS if suffix not in (".html", ".nc")]
    if issubclass(kind, Comparison):
        return list(_WRITERS)
    if issubclass(kind, get_args(_Tabular)):
        return [suffix for suffix in _WRITERS if suffix != ".nc"]
    known = [one.__name__ for one in get_args(Reportable)]
    raise ArgumentTypeError(Message("pages.no_page", kind=_article(kind), known=known))


def _article(kind: type) -> Message:
    name = kind.__name__
    article = "an" if name[0] in "AEIOaeio" else "a"
    return Message(f"pages.article_{article}", name=name)


def _html(obj: Any, path: Path) -> None:
    language = str(get_options()["language"])
    path.write_text(page(_title(obj), language, obj._repr_html_()), encoding="utf-8")


def _text(obj: Reportable, path: Path) -> None:
    with whole_texts():
        text = repr(obj)
        if isinstance(obj, Comparison | CheckpointDiff):
            text += f"\n\n{obj.explain()}"
    path.write_text(text + "\n", encoding="utf-8")


def _csv(obj: _Tabular, path: Path) -> None:
    _harmless(_table(obj), "en").to_csv(path, index=False)


def _json(obj: _Tabular, path: Path) -> None:
    path.write_text(json_text(obj), encoding="utf-8")


def json_text(obj: _Tabular) -> str:
    """What `export` writes to a ``.json``: the rows of the table, of a comparison an object."""
    content: Any = _table(obj).to_dict(orient="records")
    if isinstance(obj, Comparison):
        content = {**_answer(obj), **_found(obj), **_beside_rows(obj), "pairs": content}
    elif isinstance(obj, CheckpointDiff):
        of_values = {} if obj.comparison is None else _found(obj.comparison)
        content = {
            **_answer(obj),
            **of_values,
            "notes": [*obj.notes, *of_values.get("notes", ())],
            "same_structure": obj.same_structure,
            "relative_change": obj.relative_change,
            "learning_rate": obj.learning_rate,
            "renames": obj.renames(),
            "tensors": content,
        }
    return in_json(json.dumps(_strict(content), indent=1, ensure_ascii=False, default=str))


def _answer(obj: Comparison | CheckpointDiff) -> dict[str, Any]:
    labels = obj.pairing.labels
    return {"verdict": obj.verdict, "passed": obj.passed, "left": labels[0], "right": labels[1]}


def _found(comparison: Comparison) -> dict[str, Any]:
    """What a comparison was made with and found, without its rows; texts where it has messages."""
    texts = [str(note) for note in comparison.notes]
    kept = comparison.to_dict()
    said = zip(_findings(comparison), kept["findings"], strict=True)
    findings = [{**one, "advice": all_["advice"]} for one, all_ in said]
    return {**kept, "notes": texts, "findings": findings}


def _beside_rows(comparison: Comparison) -> dict[str, Any]:
    """What the rows of a JSON cannot say: figures without a word in it, and the histograms."""
    infinite = {}
    for name in RESULT_COLUMNS:
        values = comparison.result[name].values
        if values.dtype.kind == "f" and np.isinf(values).any():
            infinite[name] = {
                sign: np.flatnonzero(values == float(sign)).tolist() for sign in ("inf", "-inf")
            }
    counts = comparison.result[HISTOGRAM]
    histogram = {"exponents": counts["exponent"].values.tolist(), "counts": counts.values.tolist()}
    return {"infinite": infinite, "histogram": histogram}


def _netcdf(obj: Comparison, path: Path) -> None:
    try:
        _with_printable_texts(obj.to_dataset()).to_netcdf(path, engine="netcdf4")
        add_sums(path)
    except RuntimeError as error:  # what netCDF4 raises where the disk refuses
        raise WriteError(Message("checksums.no_netcdf", detail=error)) from error


def _with_printable_texts(dataset: xr.Dataset) -> xr.Dataset:
    """The same with texts that UTF-8 has bytes for."""

    def printed(value: Any) -> Any:
        return printable(value) if isinstance(value, str) else value

    found = {}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "OU":
            texts = [printed(value) for value in variable.values.flat]
            if texts != variable.values.ravel().tolist():
                values = np.array(texts, object).reshape(variable.shape)
                found[name] = (variable.dims, values, variable.attrs)
    made = dataset.assign(found)
    return made.assign_attrs({name: printed(value) for name, value in made.attrs.items()})


def _markdown(obj: Reportable, path: Path) -> None:
    if isinstance(obj, Explanation):
        lines = _as_code(str(obj).splitlines())
    elif isinstance(obj, Comparison | CheckpointDiff):
        lines = [*_as_code([obj.verdict, *str(obj.explain()).splitlines()]), ""]
        rows = _for_an_issue(obj)
        lines += _markdown_table(obj, rows)
        if more := len(obj) - len(rows):
            lines += ["", told(Message("pages.rows_elsewhere", count=more))]
    else:
        lines = _markdown_table(obj)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _as_code(said: Sequence[str]) -> list[str]:
    """Indented, so that nothing in a name is taken for Markdown."""
    return [f"    {visible(_one_line(line))}" for line in said]


def _for_an_issue(obj: Comparison | CheckpointDiff) -> list[int]:
    """As many rows as an issue bears: those that the answer speaks of, and the worst, in order."""
    if len(obj) <= _MOST_ROWS:
        return list(range(len(obj)))
    if isinstance(obj, Comparison):
        named = [finding.pair for finding in obj.findings]
        return sorted(obj.columns.worst(_MOST_ROWS, named))
    table = obj.to_dataframe()
    table["is_fine"] = table["passed"] | table["expected"]
    worst = table.sort_values(["is_fine", "relative_change"], ascending=[True, False])
    return sorted(worst.index[:_MOST_ROWS].tolist())


def _markdown_table(obj: _Tabular, only: Sequence[int] | None = None) -> list[str]:
    """The table as a person reads it: titles, and figures in the formats of their columns."""
    language = str(get_options()["language"])
    columns, rows = _as_read(obj)
    titles = [column.titled(language) for column in columns]
    sides = ["---" if column.is_left else "---:" for column in columns]
    lines = [_markdown_row(titles), _markdown_row(sides)]
    wanted = None if only is None else set(only)
    for i, row in enumerate(rows):
        if wanted is None or i in wanted:
            cells = (cell_text(one, row, language, "markdown") for one in columns)
            lines.append(_markdown_row(cells))
    return lines


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(in_markdown, cells))} |"


def _as_read(obj: _Tabular) -> tuple[Sequence[Column], Iterable[Mapping[Any, Any]]]:
    """The columns of a table that a person reads, and its rows with what is made of them."""
    if isinstance(obj, Comparison):
        pairs = obj.columns
        return pairs.shown("markdown"), map(pairs.shown_row, range(len(pairs)))
    if isinstance(obj, Dump):
        language, entries = str(get_options()["language"]), Entries.of(obj.index)
        rows = (entries.shown_row(i, language) for i in range(len(entries)))
        return entries.shown("markdown"), rows
    declared = _declared(obj)
    if isinstance(obj, CheckpointDiff | WeightMap | Pairing):
        table = table_of(obj.table)
        columns = shown_columns("markdown", declared.values(), table)
        return columns, map(table.row, range(len(table)))
    frame = _table(obj)
    if not declared:
        # Not known before the table is made.
        others = [Column(str(name), "str", "", format="plain") for name in frame]
        return others, frame.to_dict("records")
    table = Table({str(name): frame[name].to_numpy() for name in frame})
    return shown_columns("markdown", declared.values(), table), frame.to_dict("records")


def _declared(obj: _Tabular) -> Mapping[str, Column]:
    """The columns of an object's table by name; none where they are not the same of all."""
    for kind, columns in _DECLARED.items():
        if isinstance(obj, kind):
            return columns
    return {}


def _excel(obj: _Tabular, path: Path) -> None:
    name = _SHEETS.get(type(obj), "Sheet1")
    sheets = {name: _table(obj)}
    compared = obj.comparison if isinstance(obj, CheckpointDiff) else obj
    if isinstance(compared, Comparison):
        findings = [f | {"evidence": json.dumps(f["evidence"])} for f in _findings(compared)]
        checks = [asdict(c) | {"values": json.dumps(c.values)} for c in compared.preflight]
        sheets["findings"] = pd.DataFrame(findings, columns=_FINDING)
        sheets["checks"] = pd.DataFrame(checks, columns=["what", "status", "values"])
    book = io.BytesIO()
    with pd.ExcelWriter(book, engine="openpyxl") as writer:
        for sheet, table in sheets.items():
            _harmless(table, in_sheet=True).to_excel(writer, sheet_name=sheet, index=False)
        _dress(writer.sheets[name], _declared(obj))
    _write_without_times(book, path)


def _write_without_times(book: io.BytesIO, path: Path) -> None:
    """A workbook, which is a zip, whose bytes do not tell when it was made."""
    with (
        zipfile.ZipFile(book) as made,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as timeless,
    ):
        for name in made.namelist():
            content = made.read(name)
            if name == "docProps/core.xml":
                content = re.sub(rb"(<dcterms:(\w+)[^>]*>)[^<]*(?=</dcterms:\2>)", _EPOCH, content)
            timeless.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def _dress(sheet: Any, declared: Mapping[str, Column]) -> None:
    """Titles as notes of the heads, which are the names; formats and sides of the columns.

    The figures themselves stand in the cells, in all their digits.
    """
    from openpyxl.comments import Comment
    from openpyxl.styles import Alignment

    language = str(get_options()["language"])
    sheet.freeze_panes = "A2"
    for head, *cells in sheet.iter_cols():
        column = declared.get(head.value)
        if column is None:
            continue
        if (title := column.titled(language)) != column.name:
            head.comment = Comment(title, "troubleshooter_nb")
        head.alignment = side = Alignment(horizontal="left" if column.is_left else "right")
        form = FORMATS[column.format_in("markdown")].sheet
        for cell in cells:
            cell.number_format, cell.alignment = form, side


_DECLARED: Mapping[type, Mapping[str, Column]] = {
    Comparison: RESULT_COLUMNS,
    Dump: DUMP_COLUMNS,
    Pairing: PAIRING_COLUMNS,
    WeightMap: WEIGHT_MAP_COLUMNS,
    CheckpointDiff: DIFF_COLUMNS,
    TensorDiff: ELEMENT_COLUMNS,
    SeriesComparison: SERIES_COLUMNS,
    Overflow: OVERFLOW_COLUMNS,
    Verification: VERIFICATION_COLUMNS,
    RunCard: FACT_COLUMNS,
}
_MOST_ROWS = 10  # of the table in an .md
_EPOCH = rb"\g<1>1980-01-01T00:00:00Z"  # the first time that a zip knows
_SHEETS: Mapping[type, str] = {Comparison: "pairs", CheckpointDiff: "tensors"}
_FINDING = ["cause", "title", "pair", "confidence", "proof", "repair", "evidence"]
_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".html": _html,
    ".txt": _text,
    ".csv": _csv,
    ".json": _json,
    ".md": _markdown,
    ".xlsx": _excel,
    ".nc": _netcdf,
}


def _title(obj: Reportable) -> str:
    match obj:
        case Dump():
            return obj.label
        case Comparison():
            labels = obj.left_label, obj.right_label
        case CheckpointDiff():
            labels = obj.pairing.left.label, obj.pairing.right.label
        case Explanation():
            labels = obj.facts["left_label"], obj.facts["right_label"]
        case SeriesComparison():
            labels = obj.labels
        case _:
            return type(obj).__name__
    title = Message("pages.against", left=labels[0], right=labels[1])
    if isinstance(obj, SeriesComparison):
        title = Message("pages.measure_title", measure=obj.measure, title=title)
    return told(title)


def _table(obj: _Tabular) -> pd.DataFrame:
    if isinstance(obj, RunCard):
        return pd.DataFrame(list(obj.to_dict().items()), columns=["fact", "value"])
    if isinstance(obj, TensorDiff):
        return obj.worst_elements()
    if isinstance(obj, Series):
        return obj.table.to_dataframe().reset_index()
    return obj.to_dataframe()


def _findings(comparison: Comparison) -> list[dict[str, Any]]:
    """The findings with what is said of them in the language of the options."""
    language = str(get_options()["language"])
    rows = []
    for finding in map(asdict, comparison.findings):
        said = {
            "title": cause_title(finding["cause"], language),
            "proof": cause_proof(finding, language),
            "repair": cause_repair(finding, language),
        }
        rows.append({name: (finding | said)[name] for name in _FINDING})
    return rows


def _strict(value: Any) -> Any:
    """The same without numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {name: _strict(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _harmless(
    table: pd.DataFrame, language: str | None = None, *, in_sheet: bool = False
) -> pd.DataFrame:
    """Sentences in a language; a cell that starts like a formula, of some name, made none."""

    def quoted(value: object) -> object:
        text = told(value, language) if isinstance(value, str) else ""
        text = visible(without_formula(text))
        return (for_sheet(text) if in_sheet else text) or value

    return pd.DataFrame({quoted(name): column.map(quoted) for name, column in table.items()})


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
