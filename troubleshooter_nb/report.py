"""Write any of our objects to one file: a page to send, or a table to work with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from troubleshooter_nb.checkpoint_diff import CheckpointDiff
from troubleshooter_nb.comparison import Comparison, TensorDiff
from troubleshooter_nb.dump import Dump
from troubleshooter_nb.errors import ExtraMissingError
from troubleshooter_nb.options import get_options
from troubleshooter_nb.pairing import Pairing
from troubleshooter_nb.render.explanation import cause_proof, cause_repair, cause_title
from troubleshooter_nb.render.html import page
from troubleshooter_nb.run_card import RunCard
from troubleshooter_nb.weight_map import WeightMap

Reportable = Dump | Pairing | WeightMap | Comparison | CheckpointDiff | TensorDiff | RunCard


def export(obj: Reportable, path: str | PathLike[str]) -> Path:
    """Write an object in the format of the file's suffix.

    Parameters
    ----------
    obj : Dump, Pairing, WeightMap, Comparison, CheckpointDiff, TensorDiff or RunCard
    path : str or path-like
        ``.html`` one self-contained page; ``.txt`` the text repr; ``.csv`` ``.json`` ``.md``
        ``.xlsx`` the table of `to_dataframe` (``.xlsx`` needs the extra ``excel``). Of a
        Comparison ``.json`` is an object with ``verdict, passed, rtol, atol, equal_nan, checks,
        findings, pairs``, ``.md`` begins with `Comparison.explain`, and ``.xlsx`` has the sheets
        ``pairs``, ``findings`` and ``checks``. Text that a spreadsheet would run as a formula is
        written with an apostrophe in front.

    Returns
    -------
    Path
        The file. The folder is created where missing.

    Raises
    ------
    ValueError
        For another suffix, or an object that has no table.
    ExtraMissingError
        If an optional package is needed and missing.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        what = repr(path.suffix) if path.suffix else "a file without a suffix"
        msg = f"cannot export to {what}; use {', '.join(_WRITERS)}"
        raise ValueError(msg)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer(obj, path)
    return path


def _html(obj: Reportable, path: Path) -> None:
    path.write_text(page(_title(obj), obj._repr_html_()), encoding="utf-8")


def _text(obj: Reportable, path: Path) -> None:
    path.write_text(repr(obj) + "\n", encoding="utf-8")


def _csv(obj: Reportable, path: Path) -> None:
    _harmless(_table(obj)).to_csv(path, index=False)


def _json(obj: Reportable, path: Path) -> None:
    content: Any = _table(obj).to_dict(orient="records")
    if isinstance(obj, Comparison):
        content = {
            "verdict": obj.verdict,
            "passed": obj.passed,
            **asdict(obj.tolerance),
            "checks": [asdict(check) for check in obj.preflight],
            "findings": _findings(obj),
            "pairs": content,
        }
    text = json.dumps(_strict(content), indent=1, ensure_ascii=False, default=str)
    path.write_text(text, encoding="utf-8")


def _markdown(obj: Reportable, path: Path) -> None:
    table = _table(obj)
    lines = []
    if isinstance(obj, Comparison):
        # As code, so that nothing in a name is taken for Markdown.
        said = [obj.verdict, *str(obj.explain()).splitlines()]
        lines = [*(f"    {_one_line(line)}" for line in said), ""]
    lines += ["| " + " | ".join(map(str, table.columns)) + " |", "|---" * len(table.columns) + "|"]
    for row in table.itertuples(index=False):
        cells = (_markdown_cell(value) for value in row)
        lines.append("| " + " | ".join(cells) + " |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _excel(obj: Reportable, path: Path) -> None:
    if find_spec("openpyxl") is None:
        msg = "writing .xlsx needs openpyxl: pip install 'troubleshooter_nb[excel]'"
        raise ExtraMissingError(msg)
    sheets = {"Sheet1": _table(obj)}
    if isinstance(obj, Comparison):
        findings = [f | {"evidence": json.dumps(f["evidence"])} for f in _findings(obj)]
        checks = [asdict(c) | {"values": json.dumps(c.values)} for c in obj.preflight]
        sheets = {
            "pairs": _table(obj),
            "findings": pd.DataFrame(findings, columns=_FINDING),
            "checks": pd.DataFrame(checks, columns=["what", "status", "values"]),
        }
    with pd.ExcelWriter(path) as writer:
        for name, table in sheets.items():
            _harmless(table).to_excel(writer, sheet_name=name, index=False)


# What spreadsheets take for the start of a formula, or strip to get there.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_FINDING = ["cause", "title", "pair", "confidence", "proof", "repair", "evidence"]
_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".html": _html,
    ".txt": _text,
    ".csv": _csv,
    ".json": _json,
    ".md": _markdown,
    ".xlsx": _excel,
}


def _title(obj: Reportable) -> str:
    if isinstance(obj, Comparison):
        return f"{obj.left_label} against {obj.right_label}"
    if isinstance(obj, CheckpointDiff):
        return f"{obj.pairing.left.label} against {obj.pairing.right.label}"
    if isinstance(obj, Dump):
        return obj.label
    return type(obj).__name__


def _table(obj: Reportable) -> pd.DataFrame:
    if isinstance(obj, (Dump, Pairing, WeightMap, Comparison, CheckpointDiff)):
        return obj.to_dataframe()
    if isinstance(obj, TensorDiff):
        return obj.worst_elements()
    return pd.DataFrame(list(obj.to_dict().items()), columns=["fact", "value"])


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


def _harmless(table: pd.DataFrame) -> pd.DataFrame:
    """Names come from files: a cell that starts like a formula must not become one."""

    def quoted(value: object) -> object:
        return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

    return pd.DataFrame({name: column.map(quoted) for name, column in table.items()})


def _markdown_cell(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return _one_line(text).replace("\\", "\\\\").replace("|", "\\|")


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
